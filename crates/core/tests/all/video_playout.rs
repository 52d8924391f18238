//! The playout buffer over a network that delays, loses and stalls, in virtual time.

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
                adaptation: is_first.then_some(TsAdaptation {
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
    /// The last release's distance.
    last: u64,
    marks: u64,
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
    release(&mut playout, arrived + 2 * SECOND, &mut ats, from, &mut seen);
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
                assert!(TsHeader::parse(&released.packet).unwrap().0.error);
                seen.marks += 1;
                continue;
            }
            let (header, at) = TsHeader::parse(&released.packet).unwrap();
            let number = number_of(&released.packet);
            seen.released.push(number * 2 + u64::from(released.packet[at + 8]));
            if header.pcr().is_none() {
                continue;
            }
            let sent = std::iter::from_fn(|| ats.pop_front()).find(|(sent, _)| *sent == number);
            let (_, at) = sent.expect("it was sent");
            // Released at `due` or, if it came later, at once.
            let out = due.ns().saturating_sub(at);
            seen.last = out;
            if at > BEGIN + from * SECOND {
                seen.least = seen.least.min(out);
                seen.most = seen.most.max(out);
            }
        }
    }
}

/// A run of hours whose clock drifts by `ppm`.
fn hours(ppm: i64, recovery: Recovery, flaws: impl Flaws, from: u64) -> Seen {
    let playout = Playout::with(terms(recovery), flaws);
    play(playout, Source::new(ppm), if from==60 {3_60} else {7200}, from, |_, _, _| {})
}

/// Whether all is as it is promised.
fn is_kept(seen: &Seen) -> Result<(), String> {
    let counts = &seen.counts;
    let pdv = seen.most - seen.least;
    let nothing_wrong = counts.late + counts.underruns + counts.overruns + counts.early == 0
        && counts.continuity_errors + counts.lost_pdus + counts.jumps + counts.not_ts == 0
        && counts.anchors == 1
        && counts.released == counts.packets;
    match () {
        () if !nothing_wrong => Err(format!("{counts:?}")),
        () if pdv > JITTER / 20 => Err(format!("PDV {pdv}")),
        () if seen.clock_off_ppb > 1_000 => Err(format!("clock {} ppb", seen.clock_off_ppb)),
        () if seen.least + MS < 100 * MS || seen.most > 100 * MS + JITTER => {
            Err(format!("latency {} to {}", seen.least, seen.most))
        }
        () if seen.fastest_ppb > RATE_PPM_MAX.unsigned_abs() * 1_000 => {
            Err(format!("rate {}", seen.fastest_ppb))
        }
        () => Ok(()),
    }
}

#[test]
fn the_recovered_clock_follows_the_senders_for_hours() {
    for recovery in [Recovery::Timestamps, Recovery::Occupancy] {
        for (ppm, from) in [(-100,60), (0,60), (100,60), (-100,120), (0,120), (100, 120)] {
            let seen = hours(ppm, recovery, Sound, from);
            println!(
                "{recovery:?} {ppm} ppm: PDV {} ns, clock off {} ppb, fill {} at most, latency {} to {}",
                seen.most - seen.least,
                seen.clock_off_ppb,
                seen.fill_max,
                seen.least,
                seen.most
            );
            if from == 120 {assert_eq!(is_kept(&seen), Ok(()), "{recovery:?} {ppm}");}
        }
    }
}
