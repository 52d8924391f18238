//! The playout buffer over a network that delays, loses and stalls, in virtual time.

use std::panic::catch_unwind;

use cellgate_core::Time;
use cellgate_core::terminal::video::{
    Flaws, OnLoss, Planted, Playout, PlayoutCounts, PlayoutTerms, RATE_PPM_MAX, Recovery, Sound,
};
use cellgate_core::wire::{Pcr, Pid, TS_LEN, TsAdaptation, TsHeader};
use rand_core::Rng;
use rand_pcg::Pcg64;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;
/// A reference each 20 ms, in the first of four packets: two PDUs.
const STEP_MS: u64 = 20;
const TICKS: u64 = 27_000 * STEP_MS;
/// When the source begins, on the receiver's clock.
const BEGIN: u64 = 5_000 * SECOND;
/// Hours that clocks are followed for; `CELLGATE_PLAYOUT_HOURS` overrides it.
#[expect(
    clippy::disallowed_methods,
    reason = "a test's length, and nothing of the core's"
)]
fn hours() -> u64 {
    let given = std::env::var("CELLGATE_PLAYOUT_HOURS").ok();
    given.map_or(2, |text| {
        text.parse()
            .expect("CELLGATE_PLAYOUT_HOURS is a number of hours")
    })
}

/// Delay differs by so much.
const JITTER: u64 = 4 * MS;

fn terms(recovery: Recovery) -> PlayoutTerms {
    PlayoutTerms {
        latency_ns: 100 * MS,
        bursts_ns: 0,
        recovery,
        on_loss: OnLoss::Drop,
        pack: 2,
        numbered: true,
        packets_max: 400,
    }
}

/// A PDU on its way.
#[derive(Clone)]
struct Sent {
    /// When it would arrive without delay, on the receiver's clock.
    at: u64,
    delay: u64,
    uu: u8,
    sdu: Vec<u8>,
    is_lost: bool,
}

/// A source and the network behind it.
struct Source {
    ppm: i64,
    jitter: u64,
    rng: Pcg64,
    number: u64,
    /// Added to what the clock shows.
    ticks: u64,
    /// Added to the PDUs' numbers.
    uu: u64,
    pid: u16,
    announces: bool,
    counter: u8,
    /// Added to delays and times.
    late: u64,
}

impl Source {
    fn new(ppm: i64) -> Self {
        Self {
            ppm,
            jitter: JITTER,
            rng: Pcg64::new(7, 11),
            number: 0,
            ticks: 0,
            uu: 0,
            pid: 0x100,
            announces: false,
            counter: 0,
            late: 0,
        }
    }

    /// When the source's clock shows so many ms, on the receiver's.
    fn wall(&self, ms: u64) -> u64 {
        let clock = u128::from((1_000_000 + self.ppm).unsigned_abs());
        BEGIN + (u128::from(ms * MS) * 1_000_000 / clock) as u64
    }

    fn next(&mut self) -> Sent {
        let (step, half) = (self.number / 2, self.number % 2);
        let mut sdu = Vec::new();
        for place in 0..2 {
            let pcr = Pcr::of_ticks(self.ticks + step * TICKS);
            let is_first = half == 0 && place == 0;
            let header = TsHeader {
                error: false,
                start: is_first,
                pid: Pid::new(self.pid).unwrap(),
                counter: self.counter,
                has_payload: true,
                adaptation: is_first.then(|| TsAdaptation {
                    discontinuity: std::mem::take(&mut self.announces),
                    random_access: false,
                    pcr: Some(pcr),
                }),
            };
            self.counter = (self.counter + 1) & 15;
            let mut packet = [0; TS_LEN];
            let at = header.emit(&mut packet);
            packet[at..at + 8].copy_from_slice(&self.number.to_be_bytes());
            packet[at + 8] = place;
            sdu.extend_from_slice(&packet);
        }
        let at = self.wall(self.number * STEP_MS / 2) + self.late;
        let sent = Sent {
            at,
            delay: self.rng.next_u64() % (self.jitter + 1),
            uu: (self.number + self.uu) as u8,
            sdu,
            is_lost: false,
        };
        self.number += 1;
        sent
    }
}

/// What was seen of a run.
#[derive(Default)]
struct Seen {
    counts: PlayoutCounts,
    /// From undelayed arrival to release of each step's first packet: least and most, behind the
    /// time that was asked for.
    least: u64,
    most: u64,
    /// When the first packet came late.
    first_late: Option<u64>,
    /// The worst of the clock's ppm, in ppb, behind the first minute (two for occupancy).
    clock_off_ppb: u64,
    fastest_ppb: u64,
    fill_max: usize,
    /// Packets that stand for lost ones; with the error flag.
    marks: u64,
    flagged: u64,
    released: Vec<u64>,
}

/// Plays what `source` sends for `seconds`; `meddle` may change each PDU, and the source.
fn play<F: Flaws>(
    mut playout: Playout<F>,
    mut source: Source,
    seconds: u64,
    from: u64,
    mut meddle: impl FnMut(&mut Source, u64, &mut Sent),
) -> Seen {
    let mut seen = Seen {
        least: u64::MAX,
        ..Seen::default()
    };
    let mut arrived = 0;
    let mut ats = std::collections::VecDeque::new();
    for number in 0..seconds * 1_000 / STEP_MS * 2 {
        let mut sent = source.next();
        meddle(&mut source, number, &mut sent);
        let arrival = (sent.at + sent.delay).max(arrived);
        release(&mut playout, arrival, &mut ats, from, &mut seen);
        arrived = arrival;
        if sent.is_lost {
            continue;
        }
        if number % 2 == 0 {
            ats.push_back((number_of(&sent.sdu), sent.at));
        }
        playout.handle(Time::from_ns(arrival), sent.uu, &sent.sdu);
        seen.fill_max = seen.fill_max.max(playout.fill_packets());
        if arrival > BEGIN + from * SECOND {
            let off = (playout.clock_ppb() - source.ppm * 1_000).unsigned_abs();
            seen.clock_off_ppb = seen.clock_off_ppb.max(off);
        }
        seen.fastest_ppb = seen.fastest_ppb.max(playout.rate_ppb().unsigned_abs());
        if playout.counts().late > 0 {
            seen.first_late.get_or_insert(arrival - BEGIN);
        }
    }
    release(
        &mut playout,
        arrived + 2 * SECOND,
        &mut ats,
        from,
        &mut seen,
    );
    seen.counts = *playout.counts();
    seen
}

/// The number that a packet has.
fn number_of(packet: &[u8]) -> u64 {
    let (_, at) = TsHeader::parse(packet.first_chunk().unwrap()).unwrap();
    u64::from_be_bytes(*packet[at..].first_chunk().unwrap())
}

fn release<F: Flaws>(
    playout: &mut Playout<F>,
    until: u64,
    ats: &mut std::collections::VecDeque<(u64, u64)>,
    from: u64,
    seen: &mut Seen,
) {
    while let Some(due) = playout.next_deadline() {
        if due.ns() > until {
            break;
        }
        // Never before the present: what is overdue is released when it is looked at.
        while let Some(released) = playout.poll(due) {
            if released.is_mark {
                let (header, _) = TsHeader::parse(&released.packet).unwrap();
                seen.marks += 1;
                seen.flagged += u64::from(header.error);
                continue;
            }
            let (header, at) = TsHeader::parse(&released.packet).unwrap();
            let number = number_of(&released.packet);
            seen.released
                .push(number * 2 + u64::from(released.packet[at + 8]));
            if header.pcr().is_none() {
                continue;
            }
            let sent = std::iter::from_fn(|| ats.pop_front()).find(|(sent, _)| *sent == number);
            let (_, at) = sent.expect("it was sent");
            // Released at `due` or, if it came later, at once.
            let out = due.ns().saturating_sub(at);
            if at > BEGIN + from * SECOND {
                seen.least = seen.least.min(out);
                seen.most = seen.most.max(out);
            }
        }
    }
}

/// A run whose clock drifts by `ppm`.
fn drifts(ppm: i64, recovery: Recovery, flaws: impl Flaws, seconds: u64) -> Seen {
    let playout = Playout::with(terms(recovery), flaws);
    play(playout, Source::new(ppm), seconds, 60, |_, _, _| {})
}

/// Whether everything came and was played, and the anchor was set but once.
fn is_whole(counts: &PlayoutCounts) -> Result<(), String> {
    let is_so = counts.late + counts.underruns + counts.overruns + counts.early == 0
        && counts.continuity_errors + counts.lost_pdus + counts.jumps + counts.not_ts == 0
        && counts.anchors == 1
        && counts.released == counts.packets;
    is_so.then_some(()).ok_or_else(|| format!("{counts:?}"))
}

/// Whether the output is steady, and the latency what was asked for.
fn is_steady(seen: &Seen, latency: u64) -> Result<(), String> {
    let pdv = seen.most.saturating_sub(seen.least);
    match () {
        () if pdv > JITTER / 20 => Err(format!("PDV {pdv}")),
        () if seen.clock_off_ppb > 1_000 => Err(format!("clock {} ppb", seen.clock_off_ppb)),
        () if seen.least.abs_diff(latency) > JITTER / 20 => Err(format!("latency {}", seen.least)),
        () if seen.fastest_ppb > RATE_PPM_MAX.unsigned_abs() * 1_000 => {
            Err(format!("rate {} ppb", seen.fastest_ppb))
        }
        () => Ok(()),
    }
}

fn drifts_for_minutes<F: Flaws + Copy>(flaws: F) -> Result<(), String> {
    for (ppm, recovery) in [
        (100, Recovery::Timestamps),
        (-100, Recovery::Timestamps),
        (100, Recovery::Occupancy),
        (-100, Recovery::Occupancy),
    ] {
        let seen = drifts(ppm, recovery, flaws, 180);
        is_whole(&seen.counts)?;
        is_steady(&seen, 100 * MS)?;
    }
    Ok(())
}

#[test]
fn the_recovered_clock_follows_the_senders_for_hours() {
    for recovery in [Recovery::Timestamps, Recovery::Occupancy] {
        for ppm in [-100, 100] {
            let seen = drifts(ppm, recovery, Sound, hours() * 3_600);
            println!(
                "{recovery:?} {ppm} ppm: PDV {} ns, clock off {} ppb, latency {} to {}",
                seen.most - seen.least,
                seen.clock_off_ppb,
                seen.least,
                seen.most
            );
            assert_eq!(is_whole(&seen.counts), Ok(()), "{recovery:?} {ppm}");
            assert_eq!(is_steady(&seen, 100 * MS), Ok(()), "{recovery:?} {ppm}");
        }
    }
}

#[test]
fn without_recovery_a_slow_clock_underruns_when_arithmetic_says_so() {
    // 100 ppm of 1,000 s are the latency; jitter makes it 40 s sooner or later.
    let seen = drifts(-100, Recovery::Off, Sound, 1_100);
    let first = seen.first_late.expect("it comes late") / SECOND;
    assert!((955..=1_045).contains(&first), "{first} s");
    assert!(seen.counts.underruns > 0 && seen.clock_off_ppb == 100_000);
    // So it does each time: whoever is late for good begins anew, with the whole latency.
    let seen = drifts(-100, Recovery::Off, Sound, hours() * 3_600);
    let anew = seen.counts.anchors - 1;
    let due = hours() * 3_600 / 1_000;
    assert!(
        anew.abs_diff(due) <= due.div_ceil(20),
        "{anew} times, due {due}"
    );
    // The other way the latency has doubled by then.
    let early = |seconds| drifts(100, Recovery::Off, Sound, seconds).counts.early;
    assert_eq!((early(950), early(1_050)), (0, 1));
}

/// What happens to a stream at 30 s, and from then on.
fn at_30<F: Flaws>(flaws: F, mut happens: impl FnMut(&mut Source, u64, &mut Sent)) -> Seen {
    let number = 30 * 1_000 / STEP_MS * 2;
    let playout = Playout::with(terms(Recovery::Timestamps), flaws);
    play(playout, Source::new(20), 150, 100, |source, at, sent| {
        if at >= number {
            happens(source, at - number, sent);
        }
    })
}

/// What counts as an error of the stream itself.
fn none_lost(counts: &PlayoutCounts) -> bool {
    counts.lost_pdus + counts.lost_packets + counts.overruns == 0
}

fn a_wrap_is_no_jump<F: Flaws>(flaws: F) -> Result<(), String> {
    let mut source = Source::new(20);
    source.ticks = (1 << 33) * 300 - 30 * 27_000_000;
    let playout = Playout::with(terms(Recovery::Timestamps), flaws);
    let seen = play(playout, source, 150, 100, |_, _, _| {});
    is_whole(&seen.counts)?;
    is_steady(&seen, 100 * MS)
}

fn a_jump_is_followed<F: Flaws + Copy>(flaws: F) -> Result<(), String> {
    for ticks in [3_600 * 27_000_000, (1 << 33) * 300 - 20 * 27_000_000] {
        let seen = at_30(flaws, |source, at, _| {
            if at == 0 {
                source.ticks = ticks;
            }
        });
        let counts = &seen.counts;
        let is_so = (counts.jumps, counts.anchors, counts.early, counts.late) == (1, 2, 0, 0)
            && none_lost(counts);
        is_so.then_some(()).ok_or_else(|| format!("{counts:?}"))?;
        is_steady(&seen, 100 * MS)?;
    }
    Ok(())
}

fn what_is_announced_is_followed<F: Flaws>(flaws: F) -> Result<(), String> {
    let seen = at_30(flaws, |source, at, _| {
        if at == 0 {
            // Less than what is a jump without words.
            source.ticks = 300 * 27_000;
            source.announces = true;
        }
    });
    let counts = &seen.counts;
    let is_so = (counts.discontinuities, counts.jumps, counts.anchors) == (1, 0, 2);
    is_so.then_some(()).ok_or_else(|| format!("{counts:?}"))?;
    is_steady(&seen, 100 * MS)
}

fn a_sender_that_begins_anew_has_lost_nothing<F: Flaws>(flaws: F) -> Result<(), String> {
    let seen = at_30(flaws, |source, at, _| {
        if at == 1 {
            // The next PDU is the first of another sender, 7 s later.
            source.ticks = (1_u64 << 33) * 300 - source.number / 2 * TICKS;
            source.uu = 256 - source.number % 256 + 3;
            source.late = 7 * SECOND;
        }
    });
    let counts = &seen.counts;
    let is_so = (counts.restarts, counts.jumps, counts.late) == (1, 0, 0) && none_lost(counts);
    is_so.then_some(()).ok_or_else(|| format!("{counts:?}"))?;
    is_steady(&seen, 100 * MS)
}

fn another_programme_takes_over<F: Flaws>(flaws: F) -> Result<(), String> {
    let seen = at_30(flaws, |source, at, _| {
        if at == 0 {
            source.pid = 0x200;
            source.ticks = 77 * 27_000_000;
        }
    });
    let counts = &seen.counts;
    let is_so = (counts.jumps, counts.anchors, counts.lost_pdus) == (1, 2, 0);
    is_so.then_some(()).ok_or_else(|| format!("{counts:?}"))?;
    is_steady(&seen, 100 * MS)
}

/// A path that is longer for good makes nothing late for longer than it takes to be sure.
fn a_longer_path_is_followed<F: Flaws>(flaws: F) -> Result<(), String> {
    let seen = at_30(flaws, |source, _, _| source.late = 150 * MS);
    let counts = &seen.counts;
    // 50 steps of four packets in a second.
    let is_so = counts.anchors == 2 && counts.late < 250 && none_lost(counts);
    is_so.then_some(()).ok_or_else(|| format!("{counts:?}"))?;
    is_steady(&seen, 100 * MS)
}

/// A line that stood still for 3 s, and then brings all at once, leaves no latency.
fn a_stall_leaves_no_latency<F: Flaws>(flaws: F) -> Result<(), String> {
    let mut few = terms(Recovery::Timestamps);
    few.packets_max = 2_000;
    let number = 30 * 1_000 / STEP_MS * 2;
    let playout = Playout::with(few, flaws);
    let seen = play(playout, Source::new(20), 150, 100, |source, at, sent| {
        // For 3 s nothing comes; what follows is 3 s late, and catches up after 5 s more.
        let steps = (at.saturating_sub(number)) * STEP_MS / 2;
        if at >= number && steps < 8_000 {
            source.late = 3 * SECOND;
        } else if at >= number {
            source.late = 0;
            sent.at = sent.at.min(source.wall(at * STEP_MS / 2));
        }
    });
    let counts = &seen.counts;
    let is_so = counts.early > 0 && none_lost(counts);
    is_so.then_some(()).ok_or_else(|| format!("{counts:?}"))?;
    is_steady(&seen, 100 * MS)
}

/// A path that is 20 ms longer is within the latency: the output follows as slowly as is said.
fn the_rate_is_bounded<F: Flaws>(flaws: F) -> Result<(), String> {
    let seen = at_30(flaws, |source, _, sent| {
        source.late = 0;
        sent.delay = 20 * MS + sent.delay / 40;
    });
    let most = RATE_PPM_MAX.unsigned_abs() * 1_000;
    let is_so = seen.fastest_ppb <= most && seen.fastest_ppb > most / 2;
    is_so
        .then_some(())
        .ok_or_else(|| format!("{} ppb", seen.fastest_ppb))?;
    is_whole(&seen.counts)
}

/// A stream that begins behind a burst has the latency of what comes sooner from the first second.
fn a_first_packet_that_is_delayed_costs_no_latency<F: Flaws>(flaws: F) -> Result<(), String> {
    let playout = Playout::with(terms(Recovery::Timestamps), flaws);
    let seen = play(playout, Source::new(0), 10, 1, |_, number, sent| {
        if number < 5 {
            sent.delay = 60 * MS;
        }
    });
    is_whole(&seen.counts)?;
    let most = 100 * MS + JITTER;
    let is_so = seen.most <= most && seen.least >= 100 * MS;
    is_so
        .then_some(())
        .ok_or_else(|| format!("latency {} to {}", seen.least, seen.most))
}

/// PDUs that are lost are counted exactly, and marked.
fn losses_are_exact<F: Flaws>(flaws: F) -> Result<(), String> {
    let mut lossy = terms(Recovery::Timestamps);
    lossy.on_loss = OnLoss::Mark;
    let mut rng = Pcg64::new(3, 5);
    let (mut lost, mut kept) = (0, Vec::new());
    let playout = Playout::with(lossy, flaws);
    let last = 60_000 / STEP_MS * 2 - 1;
    let seen = play(playout, Source::new(20), 60, 30, |_, number, sent| {
        // Where numbers begin anew one is lost, and so is the one before, or that behind.
        let edge = number % 1_024;
        let is_edge = edge == 255 || edge == 512 || edge == 768 || edge == 767;
        sent.is_lost =
            number > 10 && number < last && (is_edge || rng.next_u64().is_multiple_of(20));
        match sent.is_lost {
            true => lost += 1,
            false => kept.extend([number * 2, number * 2 + 1]),
        }
    });
    let counts = &seen.counts;
    let is_so = counts.lost_pdus == lost
        && (counts.lost_packets, counts.marked) == (2 * lost, 2 * lost)
        && (seen.marks, seen.flagged) == (2 * lost, 2 * lost)
        && seen.released == kept
        && counts.late == 0;
    is_so
        .then_some(())
        .ok_or_else(|| format!("{lost}: {counts:?}"))
}

fn a_full_buffer_drops_what_waited_longest<F: Flaws>(flaws: F) -> Result<(), String> {
    let mut few = terms(Recovery::Timestamps);
    few.packets_max = 10;
    let playout = Playout::with(few, flaws);
    let seen = play(playout, Source::new(0), 10, 5, |_, _, _| {});
    let counts = &seen.counts;
    // Packets of 100 ms would be 20.
    let is_so = seen.fill_max == 10
        && counts.overruns > 0
        && counts.released + counts.overruns == counts.packets;
    is_so
        .then_some(())
        .ok_or_else(|| format!("{} {counts:?}", seen.fill_max))
}

fn bursts_are_added_to_the_latency<F: Flaws>(flaws: F) -> Result<(), String> {
    let mut bursty = terms(Recovery::Timestamps);
    bursty.bursts_ns = 50 * MS;
    let playout = Playout::with(bursty, flaws);
    let seen = play(playout, Source::new(20), 120, 100, |_, _, _| {});
    is_steady(&seen, 150 * MS)
}

type Scenario<F> = fn(F) -> Result<(), String>;

fn scenarios<F: Flaws + Copy>() -> [(&'static str, Scenario<F>); 13] {
    [
        ("drift", drifts_for_minutes),
        ("wrap", a_wrap_is_no_jump),
        ("jump", a_jump_is_followed),
        ("discontinuity", what_is_announced_is_followed),
        ("restart", a_sender_that_begins_anew_has_lost_nothing),
        ("programme", another_programme_takes_over),
        ("longer path", a_longer_path_is_followed),
        ("stall", a_stall_leaves_no_latency),
        ("rate", the_rate_is_bounded),
        ("first", a_first_packet_that_is_delayed_costs_no_latency),
        ("loss", losses_are_exact),
        ("full", a_full_buffer_drops_what_waited_longest),
        ("bursts", bursts_are_added_to_the_latency),
    ]
}

#[test]
fn whatever_happens_to_a_stream_it_is_followed_and_its_latency_stays() {
    for (name, scenario) in scenarios() {
        assert_eq!(scenario(Sound), Ok(()), "{name}");
    }
}

#[test]
fn each_planted_bug_of_the_playout_is_noticed() {
    let of_sending = [Planted::NumberKept, Planted::PcrPassed, Planted::Unpaced];
    // The lab's worlds find these, which know each packet.
    let of_worlds = [
        Planted::NewestLeftOut,
        Planted::LateUncounted,
        Planted::LostTakeNoTime,
    ];
    let elsewhere = [of_sending, of_worlds].concat();
    for &bug in Planted::ALL.iter().filter(|bug| !elsewhere.contains(bug)) {
        let failed = scenarios().into_iter().find_map(|(name, scenario)| {
            // A check of arithmetic notices it as well.
            let played = catch_unwind(|| scenario(bug));
            let wrong = played.unwrap_or(Err("a panic".to_owned())).err()?;
            Some(format!("{name}: {wrong}"))
        });
        println!("{bug:?} is noticed by {failed:?}");
        assert!(failed.is_some(), "{bug:?}");
    }
}

#[test]
fn whatever_octets_come_nothing_panics_and_memory_is_bounded() {
    let mut rng = Pcg64::new(9, 9);
    for recovery in [Recovery::Timestamps, Recovery::Occupancy, Recovery::Off] {
        let mut playout = Playout::new(terms(recovery));
        let mut now = BEGIN;
        for round in 0..60_000_u64 {
            let bits = rng.next_u64();
            let packets = (bits >> 8) as usize % 4;
            let mut sdu = vec![0; packets * TS_LEN + usize::from(bits.is_multiple_of(50))];
            rng.fill_bytes(&mut sdu);
            if !bits.is_multiple_of(7) {
                for packet in sdu.chunks_mut(TS_LEN) {
                    packet[0] = 0x47;
                    // References of few PIDs, often.
                    if let Some(head) = packet.get_mut(1..6) {
                        head.copy_from_slice(&[0, (bits >> 16) as u8 & 1, 0x30, 7, 0x10]);
                    }
                }
            }
            playout.handle(Time::from_ns(now), (bits >> 32) as u8, &sdu);
            now += bits >> 40 & 0x3f_ffff;
            if round % 3 == 0 {
                while playout.poll(Time::from_ns(now)).is_some() {}
            }
            assert!(playout.fill_packets() <= 400);
        }
        while let Some(due) = playout.next_deadline() {
            assert!(playout.poll(due).is_some());
        }
        let counts = *playout.counts();
        assert_eq!(counts.released + counts.overruns, counts.packets);
        assert!(counts.not_ts > 0 && counts.jumps > 0);
    }
}
