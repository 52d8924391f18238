//! Usage control by credit interval: paper 003's scenario and table, and each reading's bounds.

use cellgate_core::Time;
use cellgate_core::contract::{
    CellRate, Credit, Jitter, PduStream, Remainder, UsageControl, UsageDecision, aal5_cells,
};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

const NS_PER_S: u64 = 1_000_000_000;
const READINGS: [Remainder; 3] = [Remainder::Carried, Remainder::Lost, Remainder::Overdrawn];
const JITTERS: [Jitter; 3] = [Jitter::Low, Jitter::Default, Jitter::High];

fn at(ns: u64) -> Time {
    Time::from_ns(ns)
}

fn stream(cell_s: u32, sdu: u32) -> PduStream {
    let rate = CellRate::new(cell_s).unwrap();
    PduStream {
        peak: rate,
        sustained: rate,
        sdu,
        cells: aal5_cells(sdu),
        dvt_ns: 0,
    }
}

/// A writer that always has another PDU, and what it sent, by the start of each interval.
struct Greedy {
    control: UsageControl,
    now: Time,
    waiting: Option<u32>,
}

impl Greedy {
    fn new(credit: Credit, remainder: Remainder) -> Self {
        Self {
            control: UsageControl::new(Time::ZERO, credit, remainder),
            now: Time::ZERO,
            waiting: None,
        }
    }

    /// Octets sent until it is suspended; then it is the start of the next interval.
    fn interval(&mut self, mut pdu: impl FnMut() -> u32) -> u64 {
        let mut sent = 0;
        loop {
            let octets = self.waiting.take().unwrap_or_else(&mut pdu);
            match self.control.request(self.now, octets) {
                UsageDecision::Transfer => sent += u64::from(octets),
                UsageDecision::SuspendUntil(then) => {
                    assert!(then > self.now);
                    self.waiting = Some(octets);
                    self.now = then;
                    return sent;
                }
            }
        }
    }

    fn intervals(&mut self, count: u64, octets: u32) -> u64 {
        (0..count).map(|_| self.interval(|| octets)).sum()
    }
}

/// The writers of Table 2: octets/s, octets of a PDU.
const TABLE_2: [(u32, u16); 2] = [(8_000_000, 8_192), (3_000_000, 4_096)];

#[test]
fn a_packet_that_comes_early_is_taken_in_a_long_interval_and_dismissed_in_a_short_one() {
    // Figure 5 with its note 4: a packet is due every two units, half of what the line carries.
    // The one due at 6 arrives at 4.
    const UNIT_NS: u64 = 1_000_000;
    const ARRIVALS: [u64; 8] = [0, 2, 4, 4, 8, 10, 12, 14];
    let taken = |first: u64, jitter| {
        let credit = Credit::for_sdu_rate(8 * 500 * 1_000, 1_000, jitter).unwrap();
        assert_eq!(credit.interval_ns(), 2 * UNIT_NS * u64::from(jitter.pdus()));
        let mut control = UsageControl::new(Time::ZERO, credit, Remainder::Carried);
        ARRIVALS.map(|unit| control.accept(at((first + unit) * UNIT_NS), 1_000))
    };
    assert_eq!(taken(0, Jitter::Default), [true; 8]);
    // Intervals of four units that begin with the packets due at 0, 4, 8: the early one is in its
    // own. Those that begin with the packets due at 2, 6, 10: in the one before.
    assert_eq!(taken(0, Jitter::Low), [true; 8]);
    let dismissed = taken(2, Jitter::Low);
    assert_eq!(dismissed, [true, true, true, false, true, true, true, true]);
}

#[test]
fn the_readings_give_the_rates_of_table_2_and_those_that_its_text_would_give() {
    // Hundredths of 2^20 bit/s, as the paper rounds.
    let hundredths = |octets: u64, ns: u64| {
        let bit_s = u128::from(octets) * 8 * u128::from(NS_PER_S) / u128::from(ns);
        (bit_s * 100 + (1 << 19)) >> 20
    };
    let expected = [[6_103, 5_625, 6_250], [2_289, 2_163, 2_404]];
    for ((octet_s, sdu), expected) in TABLE_2.into_iter().zip(expected) {
        let printed = stream(octet_s / 48, sdu.into()).credit_printed(Jitter::Default);
        let rates = READINGS.map(|remainder| {
            let mut writer = Greedy::new(printed, remainder);
            let sent = writer.intervals(10_000, sdu.into());
            hundredths(sent, writer.now.ns())
        });
        assert_eq!(rates, expected, "{octet_s} octets/s");
    }
}

#[test]
fn a_greedy_writer_gets_the_rates_of_table_2_exactly() {
    // Whole intervals of either writer.
    const SECONDS: u64 = 1_024;
    for (octet_s, sdu) in TABLE_2 {
        let sdu_bit_s = u64::from(octet_s) * 8;
        for jitter in JITTERS {
            let credit = Credit::for_sdu_rate(sdu_bit_s, sdu, jitter).unwrap();
            let intervals = SECONDS * u64::from(octet_s) / credit.octets();
            for remainder in READINGS {
                let mut writer = Greedy::new(credit, remainder);
                let sent = writer.intervals(intervals, sdu.into());
                assert_eq!(writer.now, at(SECONDS * NS_PER_S));
                assert_eq!(sent, SECONDS * u64::from(octet_s), "{remainder:?}");
            }
        }
        // What the adapter can be told, cells/s, is the next rate that is not less.
        let cells = CellRate::for_sdu_rate(sdu_bit_s, sdu.into()).unwrap();
        let credit = stream(cells.cell_s(), sdu.into()).credit(Jitter::Default);
        let mut writer = Greedy::new(credit, Remainder::Carried);
        let sent = writer.intervals(100_000, sdu.into());
        let ppm = sent * 1_000_000 / (writer.now.ns() / 1_000 * u64::from(octet_s) / 1_000_000);
        assert!((1_000_000..1_000_020).contains(&ppm), "{ppm}");
    }
}

#[test]
fn a_virtual_day_of_pdus_of_any_size_drifts_by_nothing() {
    // 7 and 100 cells/s: nothing divides anything.
    for (cell_s, sdu) in [(7, 1_500), (100, 9_180), (353, 65_535)] {
        let credit = stream(cell_s, sdu).credit(Jitter::Low);
        let mut random = Pcg64Mcg::seed_from_u64(u64::from(cell_s));
        let mut writer = Greedy::new(credit, Remainder::Carried);
        let (mut intervals, mut sent) = (0u64, 0);
        while writer.now < at(86_400 * NS_PER_S) {
            sent += writer.interval(|| 1 + random.next_u32() % sdu);
            intervals += 1;
            // Nothing was lost but what waits, and no interval came early or late.
            let due = intervals * credit.octets();
            assert!((due - u64::from(sdu) + 1..=due).contains(&sent));
            let cells = u128::from(stream(cell_s, sdu).cells) * 2 * u128::from(intervals);
            let begins = (cells * u128::from(NS_PER_S)).div_ceil(cell_s.into());
            assert_eq!(u128::from(writer.now.ns()), begins);
        }
        assert!(intervals > 1_000);
    }
}

/// A credit of either kind, and what it is made of.
struct Any {
    credit: Credit,
    sdu: u32,
    /// Nanoseconds of an interval, as a fraction.
    length: (u128, u128),
}

impl Any {
    fn draw(random: &mut Pcg64Mcg) -> Self {
        let sdu = 1 + random.next_u32() % 65_535;
        let cell_s = 40 + random.next_u32() % 400_000;
        let stream = stream(cell_s, sdu);
        let jitter = JITTERS[random.next_u32() as usize % 3];
        if random.next_u32().is_multiple_of(2) {
            let cells = u128::from(jitter.pdus() * stream.cells);
            Self {
                credit: stream.credit(jitter),
                sdu,
                length: (cells * u128::from(NS_PER_S), cell_s.into()),
            }
        } else {
            let credit = stream.credit_printed(jitter);
            let length = (credit.interval_ns().into(), 1);
            Self {
                credit,
                sdu,
                length,
            }
        }
    }

    /// The number of the interval that `ns` lies in, and where the next begins.
    fn interval(&self, ns: u64) -> (u64, u64) {
        let (length, per) = self.length;
        let number = u128::from(ns) * per / length;
        let next = ((number + 1) * length).div_ceil(per);
        (number as u64, next as u64)
    }

    /// The most octets of `intervals` in a row, with PDUs of at most the largest size.
    fn most(&self, remainder: Remainder, intervals: u64) -> u64 {
        let credits = intervals * self.credit.octets();
        let but_one = u64::from(self.sdu) - 1;
        match remainder {
            Remainder::Carried => credits + but_one,
            Remainder::Lost => credits,
            Remainder::Overdrawn => credits + intervals * but_one,
        }
    }
}

/// Asks for PDUs at all kinds of times, in no more than `steps`: what passed, by interval.
fn any_writer(
    any: &Any,
    (remainder, late_ns): (Remainder, u64),
    steps: u32,
    random: &mut Pcg64Mcg,
) -> Vec<u64> {
    let mut control = UsageControl::new(Time::ZERO, any.credit, remainder).catching_up(late_ns);
    let mut passed = Vec::new();
    let (mut now, mut left, mut waiting) = (0, any.credit.octets(), false);
    for _ in 0..steps {
        let asked = match random.next_u32() % 16 {
            // A PDU that no contract allows never gets more than others.
            0 if remainder != Remainder::Overdrawn => u32::MAX,
            1 => 0,
            2 => 1,
            3..8 => 1 + random.next_u32() % any.sdu,
            _ => any.sdu,
        };
        let (number, next) = any.interval(now);
        if number as usize >= passed.len() {
            let kept = left.min(u64::from(any.sdu) - 1);
            let keeps = waiting && remainder == Remainder::Carried;
            let missed = number + 1 - (passed.len() as u64).max(1) - u64::from(number > 0);
            let caught_up = if late_ns > 0 { missed } else { 0 };
            let more = kept + caught_up * any.credit.octets();
            left = any.credit.octets() + if keeps { more } else { 0 };
            waiting = false;
            passed.resize(number as usize + 1, 0);
        }
        let fits = match remainder {
            Remainder::Overdrawn => left > 0,
            _ => u64::from(asked) <= left,
        };
        let inbound = random.next_u32().is_multiple_of(8);
        if inbound {
            assert_eq!(control.accept(at(now), asked), fits);
        } else {
            let expected = match fits {
                true => UsageDecision::Transfer,
                false => UsageDecision::SuspendUntil(at(next)),
            };
            assert_eq!(control.request(at(now), asked), expected);
            waiting |= !fits;
        }
        if fits {
            left = left.saturating_sub(asked.into());
            passed[number as usize] += u64::from(asked);
        }
        // On time, woken early, woken late, or idle.
        now = match random.next_u32() % 64 {
            0 => now + random.next_u64() % (4 * any.credit.interval_ns()),
            1 => next - 1,
            _ if !fits && !random.next_u32().is_multiple_of(4) => next,
            _ => now + random.next_u64() % (any.credit.interval_ns() / 64 + 1),
        };
    }
    passed
}

#[test]
fn intervals_in_a_row_have_no_more_than_their_credits_and_a_pdu_whatever_is_asked_and_when() {
    let mut random = Pcg64Mcg::seed_from_u64(30);
    let mut beyond_credits = 0;
    for _ in 0..300 {
        let any = Any::draw(&mut random);
        for remainder in READINGS {
            let passed = any_writer(&any, (remainder, 0), 1_000, &mut random);
            for from in 0..passed.len() {
                let mut sum = 0;
                for (passed, intervals) in passed[from..].iter().zip(1..=40) {
                    sum += passed;
                    assert!(sum <= any.most(remainder, intervals));
                    beyond_credits += u32::from(sum > intervals * any.credit.octets());
                }
            }
        }
    }
    assert!(beyond_credits > 1_000, "remainders were carried");
}

#[test]
fn who_catches_up_has_no_more_than_all_credits_since_the_first_and_a_pdu() {
    let mut random = Pcg64Mcg::seed_from_u64(31);
    let mut caught_up = 0;
    for _ in 0..300 {
        let any = Any::draw(&mut random);
        for remainder in READINGS {
            let passed = any_writer(&any, (remainder, u64::MAX), 1_000, &mut random);
            let mut sum = 0;
            for (passed, intervals) in passed.iter().zip(1..) {
                sum += passed;
                assert!(sum <= any.most(remainder, intervals));
                caught_up += u32::from(*passed > any.most(remainder, 1));
            }
        }
    }
    assert!(caught_up > 100, "{caught_up}");
}

#[test]
fn a_writer_that_oversleeps_short_intervals_gets_its_rate_if_it_may_catch_up() {
    // 100,000 SDUs of 40 octets a second, two in 20 us, and a writer woken 120 us too late.
    let credit = Credit::for_sdu_rate(32_000_000, 40, Jitter::Low).unwrap();
    let sent_in_a_second = |late_ns: u64| {
        let control = UsageControl::new(at(0), credit, Remainder::Carried);
        let mut control = control.catching_up(late_ns);
        let (mut now, mut sent) = (at(0), 0);
        while now < at(1_000_000_000) {
            match control.request(now, 40) {
                UsageDecision::Transfer => sent += 1,
                UsageDecision::SuspendUntil(until) => now = until.plus_ns(120_000),
            }
        }
        sent
    };
    // One interval of seven, all, and three of seven.
    assert!((14_000..15_000).contains(&sent_in_a_second(0)));
    assert!((99_980..=100_001).contains(&sent_in_a_second(1_000_000)));
    assert!((42_000..44_000).contains(&sent_in_a_second(50_000)));
}

#[test]
fn who_did_not_wait_catches_up_nothing() {
    let credit = Credit::for_sdu_rate(8_000_000, 1_000, Jitter::Low).unwrap();
    let control = UsageControl::new(at(0), credit, Remainder::Carried);
    let mut control = control.catching_up(30_000_000);
    let suspended = |decision| matches!(decision, UsageDecision::SuspendUntil(_));
    assert_eq!(control.request(at(0), 1_000), UsageDecision::Transfer);
    let later = at(10_000_000);
    for _ in 0..2 {
        assert_eq!(control.request(later, 1_000), UsageDecision::Transfer);
    }
    assert!(suspended(control.request(later, 1)));
    // What arrives is not waited for.
    assert!(!control.accept(later, 1));
}

#[test]
fn what_is_left_is_kept_for_a_pdu_that_waits_and_for_nobody_else() {
    // 1,000 octets a millisecond.
    let credit = Credit::for_sdu_rate(8_000_000, 1_000, Jitter::Low).unwrap();
    let ms = |ms: u64| at(ms * 1_000_000);
    let suspended = |control: &mut UsageControl, now, octets| {
        let decision = control.request(ms(now), octets);
        matches!(decision, UsageDecision::SuspendUntil(_))
    };
    let mut control = UsageControl::new(ms(0), credit, Remainder::Carried);
    let transfer = UsageDecision::Transfer;
    assert_eq!(control.request(ms(0), 1_000), transfer);
    assert_eq!(control.request(ms(1), 700), transfer);
    // 300 are left. Asking early changes nothing.
    assert!(suspended(&mut control, 1, 800) && suspended(&mut control, 1, 800));
    assert_eq!(control.request(ms(2), 800), transfer);
    assert_eq!(control.request(ms(3), 1_000), transfer);
    assert_eq!(control.request(ms(3), 500), transfer);
    assert!(suspended(&mut control, 3, 1));
    // Idle for a thousand intervals: one credit.
    assert_eq!(control.request(ms(2_001), 900), transfer);
    assert_eq!(control.request(ms(2_001), 900), transfer);
    assert!(suspended(&mut control, 2_001, 900));
    // The writer that waits comes late: the 200 octets, and one credit.
    for octets in [900, 900, 400] {
        assert_eq!(control.request(ms(4_000), octets), transfer);
    }
    assert!(suspended(&mut control, 4_000, 1));
    // What was left when nothing waited has lapsed.
    assert_eq!(control.request(ms(4_002), 1_500), transfer);
    assert_eq!(control.request(ms(4_004), 2_000), transfer);
    assert!(suspended(&mut control, 4_004, 1));
    // A PDU that is dismissed does not wait.
    assert!(control.accept(ms(4_006), 1_500) && !control.accept(ms(4_006), 1_000));
    assert!(control.accept(ms(4_008), 2_000) && !control.accept(ms(4_008), 1));
}

#[test]
fn another_credit_comes_with_the_next_interval() {
    let of = |sdu_bit_s| Credit::for_sdu_rate(sdu_bit_s, 1_000, Jitter::Low).unwrap();
    let mut control = UsageControl::new(at(0), of(3), Remainder::Carried);
    // 5,333.3 seconds.
    let first = at(5_333_333_333_334);
    control.modify(of(8_000_000));
    assert!(control.accept(at(1), 1_000) && control.accept(at(1), 1_000));
    let next = |control: &mut UsageControl, now| control.request(now, 1_000);
    assert_eq!(
        next(&mut control, at(2)),
        UsageDecision::SuspendUntil(first)
    );
    assert_eq!(next(&mut control, first), UsageDecision::Transfer);
    assert_eq!(next(&mut control, first), UsageDecision::Transfer);
    let second = UsageDecision::SuspendUntil(first.plus_ns(2_000_000));
    assert_eq!(next(&mut control, first), second);
    // 16,000.0 ns, rounded up by most of one: a fraction of the old rate is none of the new one.
    let mut control = UsageControl::new(at(0), of(999_999_999), Remainder::Carried);
    control.modify(of(3));
    let first = at(16_001);
    assert!(control.accept(first, 2_000));
    let second = UsageDecision::SuspendUntil(first.plus_ns(5_333_333_333_334));
    assert_eq!(next(&mut control, first), second);
}

#[test]
fn a_stream_that_keeps_its_rate_is_taken_whole_wherever_intervals_begin() {
    // T of a PDU of 43 cells is a millisecond.
    let stream = stream(43_000, 2_050);
    assert_eq!(stream.cells, 43);
    for jitter in JITTERS {
        for first_ns in [0, 1, 499_999, 999_999] {
            let credit = stream.credit(jitter);
            let mut control = UsageControl::new(Time::ZERO, credit, Remainder::Carried);
            let pdus = (0..1_000).map(|pdu| at(first_ns + pdu * 1_000_000));
            assert!(pdus.into_iter().all(|now| control.accept(now, 2_050)));
        }
    }
}

#[test]
fn a_restored_control_goes_on_as_if_nothing_had_happened() {
    let mut random = Pcg64Mcg::seed_from_u64(31);
    let any = Any::draw(&mut random);
    let mut control = UsageControl::new(at(5), any.credit, Remainder::Carried);
    for _ in 0..200 {
        let now = at(random.next_u64() % 1_000_000_000);
        let mut restored: UsageControl =
            serde_json::from_str(&serde_json::to_string(&control).unwrap()).unwrap();
        let asked = random.next_u32() % any.sdu;
        assert_eq!(restored.request(now, asked), control.request(now, asked));
        assert_eq!(restored, control);
    }
}

#[test]
fn extremes_neither_overflow_nor_stop_time() {
    assert_eq!(Credit::for_sdu_rate(0, 1, Jitter::Low), None);
    assert_eq!(Credit::for_sdu_rate(1, 0, Jitter::Low), None);
    let mut credits = Vec::new();
    for jitter in JITTERS {
        for cell_s in [1, 2, u32::MAX - 1, u32::MAX] {
            for sdu in [0, 1, 40, 65_535, u32::MAX] {
                let stream = stream(cell_s, sdu);
                credits.extend([stream.credit(jitter), stream.credit_printed(jitter)]);
            }
        }
        for sdu_bit_s in [1, u64::MAX] {
            let of = |sdu| Credit::for_sdu_rate(sdu_bit_s, sdu, jitter);
            credits.extend([1, u16::MAX].map(of).into_iter().flatten());
        }
    }
    for credit in credits {
        assert!(credit.interval_ns() >= 1);
        for remainder in READINGS {
            let mut control = UsageControl::new(Time::ZERO, credit, remainder);
            for ns in [0, 1, 2, u64::MAX / 2, u64::MAX - 1, u64::MAX, u64::MAX, 0] {
                for octets in [0, 1, u32::MAX, u32::MAX] {
                    let decision = control.request(at(ns), octets);
                    if let UsageDecision::SuspendUntil(then) = decision {
                        assert!(then > at(ns) || ns == u64::MAX);
                    }
                }
            }
        }
    }
}
