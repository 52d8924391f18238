//! Whether a connection had what its contract promises, and what stood in its way.

use std::fmt;

use cellgate::{AdapterInfo, ConnectionInfo, SharedCpu, TrafficContract};
use cellgate_core::contract::{Aal, CellRate, PduStream, aal5_cells};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::report::{Span, mega};
use super::tally::Received;

/// How late each end's process may be: what a daemon takes its applications for (`wake_up_ns`).
const WAKE_UP_NS: u64 = 10_000_000;
/// What a rate may differ by over any time, in thousandths.
const BLUR_PER_MILLE: u128 = 5;

/// What was to be carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Promise {
    /// Of SDUs: what the contract guarantees, or what was asked for if that is less.
    bit_s: u64,
    /// Time that may be missing of a run: a credit's interval, an SDU, the gaps that each end's
    /// adapter may have at once, and how late its process may be.
    spare_ns: u64,
}

impl Promise {
    /// That of a connection that sends SDUs of `length` octets; none: it promises no rate.
    pub(super) fn of(
        info: &ConnectionInfo,
        length: usize,
        bitrate: Option<u64>,
        gap_admitted_ns: u64,
    ) -> Option<Self> {
        let contract: TrafficContract = info.contract.parse().ok()?;
        let cell_s = info.transmit.filter(|_| info.guaranteed)?.cell_s();
        let length = u32::try_from(length).ok()?;
        let max_sdu = contract.transmit?.max_sdu.map_or(length, |max| max.get());
        let bit_s = |sdu: u32| {
            let cells = cells(contract.aal, sdu).max(1);
            u64::from(cell_s) * u64::from(sdu) * 8 / u64::from(cells)
        };
        // Credits are of octets, the line's slots of cells: whichever is less.
        let bit_s = bit_s(length).min(bit_s(max_sdu));
        let bit_s = bitrate.map_or(bit_s, |asked| asked.min(bit_s)).max(1);
        let time_ns = |octets: u64| octets.saturating_mul(8_000_000_000) / bit_s;
        let rate = CellRate::new(cell_s)?;
        let stream = PduStream {
            peak: rate,
            sustained: rate,
            sdu: max_sdu,
            cells: cells(contract.aal, max_sdu),
            dvt_ns: 0,
        };
        let pdus = contract.transmit?.sensitivity(&stream).pdus();
        let credit = u64::from(pdus) * u64::from(max_sdu);
        let spare_ns = time_ns(credit + u64::from(length));
        Some(Self {
            bit_s,
            spare_ns: spare_ns
                .saturating_add(gap_admitted_ns.saturating_mul(2))
                .saturating_add(2 * WAKE_UP_NS),
        })
    }

    /// What was missed; none: the contract was kept.
    pub(super) fn missed(&self, sent: &Span, received: &Received) -> Option<String> {
        if received.pdus < sent.pdus {
            let lost = sent.pdus - received.pdus;
            return Some(format!("{lost} of {} PDUs were lost", sent.pdus));
        }
        // What was taken of the sender in its time, and how long the receiver waited for it.
        let first = received.octets.checked_div(received.pdus).unwrap_or(0);
        let is_short = [
            (sent.octets, sent.end_ns - sent.start_ns),
            (received.octets - first, received.time_ns),
        ];
        let is_short = is_short
            .into_iter()
            .any(|(octets, ns)| self.is_short(octets, ns));
        let ns = received.time_ns.max(sent.end_ns - sent.start_ns).max(1);
        let had = u128::from(received.octets) * 8_000_000_000 / u128::from(ns);
        let had = u64::try_from(had).unwrap_or(u64::MAX);
        is_short.then(|| {
            format!(
                "{} of {} x 10^6 SDU bit/s were carried",
                mega(had),
                mega(self.bit_s)
            )
        })
    }

    /// Whether so many octets are less than what was promised for this time.
    fn is_short(&self, octets: u64, ns: u64) -> bool {
        let ns = u128::from(ns.saturating_sub(self.spare_ns));
        let promised = u128::from(self.bit_s) * ns * (1_000 - BLUR_PER_MILLE) / 1_000;
        u128::from(octets) * 8_000_000_000 < promised
    }
}

/// Cells of a PDU.
fn cells(aal: Option<Aal>, sdu: u32) -> u32 {
    match aal {
        None | Some(Aal::Aal5) => aal5_cells(sdu),
        // Header and trailer of the PDU, and 44 octets in each cell.
        Some(Aal::Aal34) => (sdu.next_multiple_of(4) + 8).div_ceil(44),
        Some(Aal::Aal0) => sdu.div_ceil(48),
    }
}

/// How an end has done so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    adapter: AdapterInfo,
    waited_ns: u64,
}

impl Seen {
    /// As the adapter's daemon tells, and the kernel of this process.
    pub(super) fn new(adapter: AdapterInfo) -> Self {
        let waited_ns = waited_ns();
        Self { adapter, waited_ns }
    }
}

/// How an end has done during a test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Standing {
    /// How long perf has waited for a CPU.
    waited_ns: u64,
    gaps: u64,
    gaps_total_ns: u64,
    gap_admitted_ns: u64,
    shared: Option<SharedCpu>,
}

impl Standing {
    /// From one look to a later one. Another adapter counts from its beginning.
    pub(super) fn between(before: &Seen, after: Seen) -> Self {
        let waited_ns = after.waited_ns.saturating_sub(before.waited_ns);
        let (before, after) = (&before.adapter, after.adapter);
        let since = |before: u64, after: u64| after.checked_sub(before).unwrap_or(after);
        Self {
            waited_ns,
            gaps: since(before.gaps, after.gaps),
            gaps_total_ns: since(before.gaps_total_ns, after.gaps_total_ns),
            gap_admitted_ns: after.gap_admitted_ns,
            shared: after.shared,
        }
    }
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |ns: u64| ns as f64 / 1e6;
        match self.gaps {
            0 => write!(f, "the adapter never stood still")?,
            gaps => {
                let times = if gaps == 1 { "time" } else { "times" };
                write!(
                    f,
                    "the adapter stood still {gaps} {times}, {:.1} ms in all ({:.1} ms at a time \
                     are allowed for)",
                    ms(self.gaps_total_ns),
                    ms(self.gap_admitted_ns)
                )?;
            }
        }
        match &self.shared {
            Some(shared) => write!(f, "; {shared}"),
            None => write!(f, "; no other adapter is seen on its CPU"),
        }?;
        match self.waited_ns {
            0..WAKE_UP_NS => Ok(()),
            ns => write!(f, "; perf waited {:.1} ms in all for a CPU", ms(ns)),
        }
    }
}

/// How long this thread has waited for a CPU; 0 where the kernel does not tell.
fn waited_ns() -> u64 {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let waited = told.split_ascii_whitespace().nth(1);
    waited.and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

/// What became of the contract, if it promises a rate.
pub(super) struct Verdict {
    pub(super) promise: Promise,
    /// None: it was kept.
    pub(super) missed: Option<String>,
    /// The adapter at this end, and at the other.
    pub(super) here: Option<Standing>,
    pub(super) there: Option<Standing>,
}

impl Verdict {
    /// For people: nothing if there is nothing to complain of.
    pub(super) fn text(&self) -> String {
        let Some(missed) = &self.missed else {
            return String::new();
        };
        let mut text = format!("contract  missed: {missed}\n");
        for (end, standing) in [("this", &self.here), ("the other", &self.there)] {
            text += &match standing {
                Some(standing) => format!("          at {end} end {standing}\n"),
                None => format!("          at {end} end nothing is known of the adapter\n"),
            };
        }
        text
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "promised_sdu_bit_s": self.promise.bit_s,
            "kept": self.missed.is_none(),
            "missed": self.missed,
            "adapters": { "here": self.here, "there": self.there },
        })
    }
}

#[cfg(test)]
mod tests {
    use cellgate::CellRate;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn info(contract: &str, cell_s: u32) -> ConnectionInfo {
        ConnectionInfo {
            guaranteed: contract.starts_with("cbr"),
            transmit: CellRate::new(cell_s),
            ..ConnectionInfo::new(1, "a.0.100".parse().unwrap(), contract)
        }
    }

    /// 1,500 octets are 32 cells: 1,000 PDUs/s, 12 x 10^6 bit/s, a credit of 10 ms.
    fn promise(bitrate: Option<u64>) -> Promise {
        let info = info("cbr,aal5:tx:pcr=32000,max_sdu=1500,rx:none", 32_000);
        Promise::of(&info, 1_500, bitrate, 30_000_000).unwrap()
    }

    fn carried(pdus: u64, sent_ns: u64, received_ns: u64) -> (Span, Received) {
        let mut sent = Span::at(0);
        (sent.pdus, sent.octets, sent.end_ns) = (pdus, 1_500 * pdus, sent_ns);
        let received = Received {
            pdus,
            octets: 1_500 * pdus,
            time_ns: received_ns,
            ..Received::default()
        };
        (sent, received)
    }

    #[test]
    fn a_promise_is_the_contracts_or_what_was_asked_for() {
        let whole = promise(None);
        assert_eq!(whole.bit_s, 12_000_000);
        // Ten PDUs and one, two gaps, two wake-ups.
        assert_eq!(whole.spare_ns, 11_000_000 + 60_000_000 + 20_000_000);
        assert_eq!(promise(Some(5_000_000)).bit_s, 5_000_000);
        assert_eq!(promise(Some(50_000_000)).bit_s, 12_000_000);
        let of = |contract: &str, length| Promise::of(&info(contract, 32_000), length, None, 0);
        assert_eq!(of("ubr,aal5:tx:max_sdu=1500,rx:none", 1_500), None);
        let bit_s = |contract: &str, length| of(contract, length).unwrap().bit_s;
        // Short SDUs have more of their cells for themselves, and credits are of octets.
        let cbr = "cbr,aal5:tx:pcr=32000,max_sdu=1500,rx:none";
        assert_eq!(bit_s(cbr, 100), 32_000 * 100 * 8 / 3);
        let small = "cbr,aal5:tx:pcr=32000,max_sdu=100,rx:none";
        assert_eq!(bit_s(small, 40), 32_000 * 100 * 8 / 3);
        let aal34 = "cbr,aal34:tx:pcr=32000,max_sdu=1500,rx:none";
        assert_eq!(bit_s(aal34, 1_500), 32_000 * 1_500 * 8 / 35);
    }

    #[test]
    fn what_is_missed_is_told_and_a_tolerance_is_none() {
        let missed =
            |promise: Promise, (sent, received): (Span, Received)| promise.missed(&sent, &received);
        let whole = promise(None);
        assert_eq!(missed(whole, carried(3_000, 3 * SECOND, 3 * SECOND)), None);
        // 91 ms and 0.5 % may be missing, no more.
        assert_eq!(missed(whole, carried(2_900, 3 * SECOND, 3 * SECOND)), None);
        let slow = missed(whole, carried(2_880, 3 * SECOND, 3 * SECOND));
        let told = "11.520 of 12.000 x 10^6 SDU bit/s were carried";
        assert_eq!(slow.as_deref(), Some(told));
        // What was taken in time and came late.
        let late = missed(whole, carried(3_000, 3 * SECOND, 9 * SECOND));
        assert_eq!(
            late.as_deref(),
            Some("4.000 of 12.000 x 10^6 SDU bit/s were carried")
        );
        let less = promise(Some(6_000_000));
        assert_eq!(missed(less, carried(1_500, 3 * SECOND, 3 * SECOND)), None);
        assert!(missed(less, carried(1_300, 3 * SECOND, 3 * SECOND)).is_some());
        let (sent, mut received) = carried(3_000, 3 * SECOND, 3 * SECOND);
        received.pdus -= 2;
        let lost = whole.missed(&sent, &received);
        assert_eq!(lost.as_deref(), Some("2 of 3000 PDUs were lost"));
        // Nothing at all, and a run too short to tell.
        assert!(missed(whole, carried(0, 3 * SECOND, 0)).is_some());
        assert_eq!(missed(whole, carried(0, 50_000_000, 0)), None);
    }

    #[test]
    fn a_verdict_names_gaps_and_neighbours_of_both_ends() {
        let seen = |waited_ns, adapter| Seen { adapter, waited_ns };
        let before = AdapterInfo {
            gaps: 4,
            gaps_total_ns: 5_000_000,
            ..AdapterInfo::default()
        };
        let before = seen(1_000_000, before);
        let after = AdapterInfo {
            gaps: 55,
            gaps_total_ns: 15_657_400_000,
            gap_admitted_ns: 30_000_000,
            shared: Some(SharedCpu {
                cpu: 1,
                others: 5,
                pids: vec![7, 8],
            }),
            ..AdapterInfo::default()
        };
        let after = seen(301_000_000, after);
        let verdict = |missed: Option<&str>| Verdict {
            promise: promise(None),
            missed: missed.map(str::to_owned),
            here: Some(Standing::between(&before, after.clone())),
            there: Some(Standing::between(&after, before.clone())),
        };
        assert_eq!(verdict(None).text(), "");
        let text = verdict(Some("all")).text();
        let expected = "contract  missed: all\n          at this end the adapter stood still 51 \
                        times, 15652.4 ms in all (30.0 ms at a time are allowed for); 5 other \
                        adapters use CPU 1, too (processes 7, 8, ...), as far as can be seen; perf \
                        waited 300.0 ms in all for a CPU\n";
        assert!(text.starts_with(expected), "{text}");
        // Another adapter since.
        let there = "at the other end the adapter stood still 4 times, 5.0 ms in all";
        assert!(text.contains(there), "{text}");
        let json = verdict(Some("all")).json();
        assert_eq!(json["kept"], false);
        assert_eq!(json["adapters"]["here"]["shared"]["others"], 5);
    }
}
