//! Table 2 of paper 003: the rates of two concurrent writers that know no bounds.

use cellgate_host::clock::MonotonicClock;
use cellgate_report::output::table;
use serde_json::json;

use super::actor::{Promise, Task};
use super::ground::Ground;
use super::pair::{Acted, Cast, Pair};
use super::rule::Judgement;
use super::stalls::Stalls;
use super::{Args, Tried};

/// Octets/s of SDU, and octets of each SDU.
const WRITERS: [(u64, u16); 2] = [(8_000_000, 8_192), (3_000_000, 4_096)];
const SECONDS: f64 = 60.0;
/// How exact a rate is, beside one credit.
const EXACT: f64 = 0.001;
/// What processes have to start and open their connections.
pub(super) const PREPARE_NS: u64 = 1_500_000_000;

pub(super) fn run(args: &Args, ground: &Ground) -> anyhow::Result<Tried> {
    let begin = MonotonicClock.now().plus_ns(PREPARE_NS);
    let task = Task::new(begin, begin.plus_ns(args.ns(SECONDS)));
    let mut pairs = Vec::new();
    for (number, (octet_s, sdu)) in (0..).zip(WRITERS) {
        let name = format!("{octet_s} octets/s");
        let cast = Cast::guaranteed(name, number, Promise::of(octet_s, sdu));
        let mut pair = Pair::start(ground, cast)?;
        pair.tell(&task)?;
        pairs.push(pair);
    }
    super::wait_until(begin);
    let watch = ground.watch()?;
    let acted: Result<Vec<Acted>, _> = pairs.into_iter().map(|pair| pair.acted(task)).collect();
    let stalls = watch.end()?;
    let acted = acted?;
    args.draw("Two greedy writers and their contracts", &acted)?;
    let mut rows = vec![head()];
    let mut figures = Vec::new();
    let mut judgements = Vec::new();
    for (acted, (octet_s, _)) in acted.iter().zip(WRITERS) {
        let exact = rates(acted, octet_s as f64, &stalls);
        rows.push(exact.row(acted));
        figures.push(acted.with_counts(json!({
            "requested_octet_s": octet_s,
            "sdu": acted.cast.sdu,
            "sent_octet_s": exact.sent,
            "received_octet_s": exact.received,
            "source_waited_ns": acted.sent.waited_ns,
        })));
        judgements.extend(acted.judge(&stalls));
        judgements.push(exact.judgement);
    }
    Ok(Tried::of(
        table(&rows),
        json!({ "writers": figures }),
        judgements,
        &stalls,
    ))
}

/// Octets/s of a whole run, as sent and as received.
struct Rates {
    sent: f64,
    received: f64,
    requested: f64,
    judgement: Judgement,
}

fn rates(acted: &Acted, requested: f64, stalls: &Stalls) -> Rates {
    let (from, to) = (acted.task.begin, acted.task.end);
    let seconds = to.since_ns(from) as f64 / 1e9;
    let [sent, received] =
        [&acted.sent, &acted.received].map(|done| done.bins.between(from, to) as f64 / seconds);
    let credit = acted.cast.promise.map_or(0, |promise| promise.credit()) as f64;
    let stalled = stalls.within(from, to) as f64 / 1e9;
    let tolerance = requested * EXACT + (credit + requested * stalled) / seconds;
    let mut judgement = Judgement::default();
    for (what, rate) in [("sent", sent), ("received", received)] {
        let short = requested - rate - tolerance;
        if (rate - requested).abs() <= tolerance {
            continue;
        }
        let text = format!("{what} {rate:.0} octets/s of {requested}");
        // What the source lacked CPU time for, it did not send.
        if short > 0.0 && short * seconds < requested * acted.sent.waited_ns as f64 / 1e9 {
            judgement.void = Some(format!("{text}: the source waited for a CPU"));
        } else {
            judgement.faults.push(text);
        }
    }
    Rates {
        sent,
        received,
        requested,
        judgement,
    }
}

fn head() -> [String; 7] {
    [
        "requested octets/s",
        "SDU",
        "sent octets/s",
        "off by",
        "received octets/s",
        "off by",
        "source waited ms",
    ]
    .map(str::to_owned)
}

impl Rates {
    fn row(&self, acted: &Acted) -> [String; 7] {
        let off = |rate: f64| format!("{:+.4} %", (rate / self.requested - 1.0) * 100.0);
        [
            format!("{:.0}", self.requested),
            acted.cast.sdu.to_string(),
            format!("{:.0}", self.sent),
            off(self.sent),
            format!("{:.0}", self.received),
            off(self.received),
            format!("{:.1}", acted.sent.waited_ns as f64 / 1e6),
        ]
    }
}

#[cfg(test)]
mod tests {
    use cellgate_core::Time;

    use super::super::actor::Done;
    use super::*;

    #[test]
    fn a_rate_that_is_off_is_a_fault_unless_the_source_had_no_cpu() {
        let begin = Time::from_ns(1_000_000_000);
        let end = begin.plus_ns(100_000_000_000);
        let task = Task::new(begin, end);
        let acted = |pdus: u64, waited_ns| {
            let mut done = Done::new(&task);
            done.waited_ns = waited_ns;
            for pdu in 0..pdus {
                done.count(begin.plus_ns(pdu * (100_000_000_000 / pdus)), 1_000);
            }
            Acted {
                cast: Cast::guaranteed("", 0, Promise::of(1_000_000, 1_000)),
                opened: begin,
                task,
                sent: done.clone(),
                received: done,
            }
        };
        let judged = |pdus, waited_ns| {
            let rates = rates(&acted(pdus, waited_ns), 1_000_000.0, &Stalls::default());
            (rates.judgement.faults.len(), rates.judgement.void.is_some())
        };
        assert_eq!(judged(99_895, 0), (0, false), "0.1 % and a credit");
        assert_eq!(judged(99_850, 0), (2, false));
        assert_eq!(judged(100_150, 0), (2, false));
        assert_eq!(judged(99_850, 500_000_000), (0, true));
    }
}
