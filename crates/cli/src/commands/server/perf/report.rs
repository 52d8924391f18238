//! What a run came to, for people and in iperf3's JSON skeleton.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cellgate::Address;
use serde_json::{Value, json};

use super::tally::Received;

/// What is run.
pub(super) struct Test {
    pub(super) run: u64,
    pub(super) address: Address,
    pub(super) contract: String,
    /// Octets of each SDU.
    pub(super) length: usize,
    pub(super) time: Duration,
    pub(super) bit_s: Option<u64>,
}

/// What was sent or received in some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    /// Nanoseconds from the run's beginning.
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    pub(super) pdus: u64,
    pub(super) octets: u64,
}

impl Span {
    pub(super) fn at(start_ns: u64) -> Self {
        Self {
            start_ns,
            end_ns: start_ns,
            pdus: 0,
            octets: 0,
        }
    }

    fn bit_s(&self) -> u64 {
        bit_s(self.octets, self.end_ns - self.start_ns)
    }

    fn json(&self, sender: bool) -> Value {
        json!({
            "start": seconds(self.start_ns),
            "end": seconds(self.end_ns),
            "seconds": seconds(self.end_ns - self.start_ns),
            "bytes": self.octets,
            "bits_per_second": self.bit_s() as f64,
            "sdu_bit_s": self.bit_s(),
            "packets": self.pdus,
            "omitted": false,
            "sender": sender,
        })
    }
}

impl Received {
    /// Of what came after the first PDU.
    fn bit_s(&self) -> u64 {
        let first = self.octets.checked_div(self.pdus).unwrap_or(0);
        bit_s(self.octets - first, self.time_ns)
    }
}

fn bit_s(octets: u64, time_ns: u64) -> u64 {
    let bits_ns = u128::from(octets) * 8_000_000_000;
    let bit_s = bits_ns.checked_div(time_ns.into()).unwrap_or(0);
    u64::try_from(bit_s).unwrap_or(u64::MAX)
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// The object of `perf -c --json`.
pub(super) fn json(test: &Test, spans: &[Span], sent: &Span, received: &Received) -> Value {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH);
    let wall_s = wall.map_or(0, |wall| wall.as_secs());
    let intervals: Vec<Value> = spans
        .iter()
        .map(|span| json!({ "sum": span.json(true) }))
        .collect();
    let lost_percent = 100.0 * received.pdus_lost as f64 / sent.pdus.max(1) as f64;
    let mut sum_sent = sent.json(true);
    sum_sent["lost_packets"] = 0.into();
    json!({
        "start": {
            "version": concat!("cellgate ", env!("CARGO_PKG_VERSION")),
            "timestamp": { "timesecs": wall_s.saturating_sub(sent.end_ns / 1_000_000_000) },
            "connecting_to": { "address": test.address },
            "cookie": format!("{:016x}", test.run),
            "test_start": {
                "protocol": "ATM",
                "num_streams": 1,
                "blksize": test.length,
                "duration": test.time.as_secs_f64(),
                "target_bitrate": test.bit_s.unwrap_or(0),
                "contract": test.contract,
            },
        },
        "intervals": intervals,
        "end": {
            "sum_sent": sum_sent,
            "sum_received": {
                "start": 0.0,
                "end": seconds(received.time_ns),
                "seconds": seconds(received.time_ns),
                "bytes": received.octets,
                "bits_per_second": received.bit_s() as f64,
                "sdu_bit_s": received.bit_s(),
                "packets": received.pdus,
                "lost_packets": received.pdus_lost,
                "lost_percent": lost_percent,
                "jitter_ms": received.jitter_ns.rfc3550 as f64 / 1e6,
                "sender": false,
            },
        },
        "atm": {
            "pdus_sent": sent.pdus,
            "pdus_received": received.pdus,
            "pdus_lost": received.pdus_lost,
            "pdus_reordered": received.pdus_reordered,
            "thrown_away": received.thrown_away,
            "delay_ns": received.delay_ns,
            "jitter_ns": received.jitter_ns,
        },
    })
}

/// The head of the lines.
pub(super) fn heading(test: &Test) -> String {
    format!(
        "sending on {} under {}, SDUs of {} octets\n{:>17}  {:>10}  {:>14}  {:>15}\n",
        test.address, test.contract, test.length, "interval, s", "PDUs", "octets", "10^6 SDU bit/s"
    )
}

/// One interval of the sender.
pub(super) fn line(span: &Span) -> String {
    format!("{}\n", columns(span))
}

/// The head of the receiver's lines.
pub(super) const RECEIVED_HEAD: &str =
    "      interval, s        PDUs          octets   10^6 SDU bit/s        lost\n";

/// One interval of the receiver.
pub(super) fn received_line(span: &Span, lost: u64) -> String {
    format!("{}  {lost:>10}\n", columns(span))
}

fn columns(span: &Span) -> String {
    let from_to = format!("{:.2}-{:.2}", seconds(span.start_ns), seconds(span.end_ns));
    format!(
        "{from_to:>17}  {:>10}  {:>14}  {:>15}",
        span.pdus,
        span.octets,
        mega(span.bit_s())
    )
}

pub(super) fn mega(bit_s: u64) -> String {
    format!("{:.3}", bit_s as f64 / 1e6)
}

/// What was sent, and what became of it.
pub(super) fn summary(sent: &Span, received: &Received) -> String {
    format!(
        "sent      {} PDUs, {} octets in {:.3} s: {} x 10^6 SDU bit/s\n{}",
        sent.pdus,
        sent.octets,
        seconds(sent.end_ns),
        mega(sent.bit_s()),
        self::received(received)
    )
}

/// What was received.
pub(super) fn received(received: &Received) -> String {
    let delay = match received.delay_ns {
        Some(delay) => {
            let [p50, p99, max] = [delay.p50, delay.p99, delay.max].map(|ns| ns as f64 / 1e3);
            format!("p50 {p50:.1}, p99 {p99:.1}, max {max:.1} us")
        }
        None => "not known: the ends have no common clock".to_owned(),
    };
    let lost = received.thrown_away.as_ref();
    let lost = lost.filter(|lost| lost.pdus() > 0);
    let lost = lost.map_or_else(String::new, |lost| format!("; {}", lost.words()));
    let jitter = received.jitter_ns;
    let jitter = [jitter.rfc3550, jitter.p50, jitter.p99, jitter.max].map(|ns| ns as f64 / 1e3);
    let [mean, p50, p99, max] = jitter;
    format!(
        "received  {} PDUs, {} octets in {:.3} s: {} x 10^6 SDU bit/s\n\
         lost      {} PDUs; out of order {}{lost}\n\
         delay     one way, {delay}\n\
         jitter    {mean:.1}, p50 {p50:.1}, p99 {p99:.1}, max {max:.1} us\n",
        received.pdus,
        received.octets,
        seconds(received.time_ns),
        mega(received.bit_s()),
        received.pdus_lost,
        received.pdus_reordered,
    )
}

#[cfg(test)]
mod tests {
    use super::super::tally::{Delay, Jitter};
    use super::*;
    use crate::commands::server::lost::Lost;

    fn sample() -> (Test, Span, Received) {
        let test = Test {
            run: 1,
            address: "lo.0.100".parse().unwrap(),
            contract: "ubr,aal5".to_owned(),
            length: 1_000,
            time: Duration::from_secs(2),
            bit_s: None,
        };
        let sent = Span {
            start_ns: 0,
            end_ns: 2_000_000_000,
            pdus: 501,
            octets: 501_000,
        };
        let received = Received {
            pdus: 401,
            octets: 401_000,
            time_ns: 1_000_000_000,
            pdus_lost: 100,
            pdus_reordered: 1,
            delay_ns: Some(Delay {
                p50: 1,
                p99: 2,
                max: 3,
            }),
            jitter_ns: Jitter {
                p50: 1_000,
                p99: 2_000,
                max: 3_500,
                rfc3550: 1_500,
            },
            adapter: None,
            thrown_away: Some(Lost {
                dismissed: 100,
                ..Lost::default()
            }),
        };
        (test, sent, received)
    }

    #[test]
    fn has_the_skeleton_of_iperf3() {
        let (test, sent, received) = sample();
        let json = json(&test, &[sent], &sent, &received);
        assert_eq!(json["start"]["test_start"]["blksize"], 1_000);
        assert_eq!(json["intervals"][0]["sum"]["bytes"], 501_000);
        assert_eq!(json["end"]["sum_sent"]["sdu_bit_s"], 2_004_000);
        assert_eq!(json["end"]["sum_received"]["sdu_bit_s"], 3_200_000);
        assert_eq!(json["end"]["sum_received"]["bits_per_second"], 3_200_000.0);
        assert_eq!(json["atm"]["pdus_lost"], 100);
        assert_eq!(json["atm"]["delay_ns"]["p99"], 2);
        assert_eq!(json["atm"]["thrown_away"]["dismissed"], 100);
        let jitter = json!({ "p50": 1_000, "p99": 2_000, "max": 3_500, "rfc3550": 1_500 });
        assert_eq!(json["atm"]["jitter_ns"], jitter);
        assert_eq!(json["end"]["sum_received"]["jitter_ms"], 0.0015);
        let text = summary(&sent, &received);
        assert!(text.contains("out of order 1; 100 PDUs were thrown away: dismissed 100\n"));
        assert!(
            text.ends_with("\njitter    1.5, p50 1.0, p99 2.0, max 3.5 us\n"),
            "{text}"
        );
    }

    #[test]
    fn delay_between_two_machines_is_not_told() {
        let (test, sent, mut received) = sample();
        received.delay_ns = None;
        let json = json(&test, &[], &sent, &received);
        assert!(json["atm"]["delay_ns"].is_null());
        assert!(summary(&sent, &received).contains("no common clock"));
    }

    #[test]
    fn nothing_received_is_no_rate() {
        assert_eq!(Received::default().bit_s(), 0);
        assert_eq!(Span::at(5).bit_s(), 0);
    }
}
