//! Transfers over a line that loses PDUs and statuses, and damages disk-PDUs.

use std::collections::VecDeque;
use std::ops::Range;

use cellgate_core::Time;
use cellgate_core::terminal::{Arq, Extents, Segment, Sender, SenderCounts, Shape, Status};

const PDU_NS: u64 = 50_000;
const DELAY_NS: u64 = 1_000_000;

/// Numbers that follow from a seed.
struct Draw(u64);

impl Draw {
    fn below(&mut self, below: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below.max(1)
    }

    fn hits(&mut self, per_mille: u64) -> bool {
        self.below(1_000) < per_mille
    }
}

/// What befalls a transfer.
#[derive(Clone, Copy, Debug, Default)]
struct Weather {
    /// PDUs and statuses lost, of a thousand.
    lost: u64,
    statuses_lost: u64,
    /// Disk-PDUs with a wrong digest, of a thousand.
    damaged: u64,
    /// Octets that the receiver has room for.
    window: u64,
}

/// A receiver in the plainest words: octet by octet.
struct Reader {
    shape: Shape,
    window: u64,
    has: Vec<bool>,
    /// Disk-PDUs that were checked.
    checked: Vec<bool>,
    again: Vec<u32>,
    seen: u32,
    since: Time,
    empty_came: bool,
}

impl Reader {
    fn new(shape: Shape, window: u64) -> Self {
        let disk_pdus = shape.len.div_ceil(shape.disk_len) as usize;
        Self {
            shape,
            window,
            has: vec![false; shape.len as usize],
            checked: vec![false; disk_pdus],
            again: Vec::new(),
            seen: Status::NONE_SEEN,
            since: Time::ZERO,
            empty_came: false,
        }
    }

    fn disk_pdu(&self, index: usize) -> Range<usize> {
        let start = index * self.shape.disk_len as usize;
        start..(start + self.shape.disk_len as usize).min(self.has.len())
    }

    fn takes(&mut self, now: Time, segment: &Segment, draw: &mut Draw, damaged: u64) {
        (self.seen, self.since) = (segment.sequence, now);
        self.empty_came |= segment.octets.is_empty();
        let octets = segment.octets.start as usize..segment.octets.end as usize;
        let first = self
            .has
            .iter()
            .position(|has| !has)
            .unwrap_or(self.has.len());
        if self.shape.arq == Arq::GoBackN && octets.start != first {
            return;
        }
        assert!(
            octets.end as u64 <= self.edge(),
            "beyond the window: {segment:?}"
        );
        let index = octets.start / self.shape.disk_len as usize;
        assert!(octets.is_empty() || octets.end <= self.disk_pdu(index).end);
        self.has[octets].fill(true);
        let whole = self.disk_pdu(index);
        if whole.is_empty() || self.checked[index] || self.has[whole.clone()].contains(&false) {
            return;
        }
        if draw.hits(damaged) {
            self.has[whole].fill(false);
            self.again.push(index as u32);
        } else {
            self.checked[index] = true;
            self.again.retain(|again| *again != index as u32);
        }
    }

    /// What was checked without a gap.
    fn acknowledged(&self) -> u64 {
        let whole = self.checked.iter().take_while(|checked| **checked).count();
        (whole as u64 * self.shape.disk_len).min(self.shape.len)
    }

    fn edge(&self) -> u64 {
        self.acknowledged() + self.window
    }

    fn status(&self, now: Time) -> Status {
        let acknowledged = self.acknowledged();
        let mut extents = Extents::new();
        let (mut at, end) = (
            acknowledged as usize,
            self.has.len().min(self.edge() as usize),
        );
        while let Some(start) = self.has[at..end].iter().position(|has| *has) {
            let start = at + start;
            let len = self.has[start..end].iter().position(|has| !has);
            at = len.map_or(end, |len| start + len);
            extents.insert(start as u64..at as u64);
        }
        let is_whole = acknowledged == self.shape.len;
        Status {
            acknowledged,
            edge: self.edge(),
            seen: self.seen,
            held_us: (now.since_ns(self.since) / 1_000) as u32,
            is_finished: is_whole && (self.shape.len > 0 || self.empty_came),
            extents,
            again: self.again.clone(),
        }
    }
}

/// Runs a transfer to its end: what the sender has counted, and how many PDUs were lost.
fn run(shape: Shape, weather: Weather, seed: u64) -> (SenderCounts, u64) {
    let mut draw = Draw(seed);
    let mut sender = Sender::new(shape, &Extents::new(), weather.window);
    let mut reader = Reader::new(shape, weather.window);
    let mut there: VecDeque<(Time, Segment)> = VecDeque::new();
    let mut back: VecDeque<(Time, Status)> = VecDeque::new();
    let (mut now, mut lost) = (Time::ZERO, 0);
    let mut free = Time::ZERO;
    for step in 0.. {
        assert!(
            step < 3_000_000,
            "it never ends: {shape:?} {weather:?} seed {seed}"
        );
        if now >= free
            && let Some(segment) = sender.poll(now)
        {
            free = now.plus_ns(PDU_NS);
            if draw.hits(weather.lost) {
                lost += 1;
            } else {
                there.push_back((free.plus_ns(DELAY_NS), segment));
            }
        }
        while let Some((at, segment)) = there.pop_front_if(|(at, _)| *at <= now) {
            reader.takes(at, &segment, &mut draw, weather.damaged);
            let mut octets = Vec::new();
            reader.status(now).emit(&mut octets);
            let status = Status::parse(&octets).expect("what is told is understood");
            if !draw.hits(weather.statuses_lost) {
                back.push_back((now.plus_ns(DELAY_NS), status));
            }
        }
        while let Some((_, status)) = back.pop_front_if(|(at, _)| *at <= now) {
            sender.handle_status(now, &status).expect("it was sent");
        }
        if sender.is_finished() {
            break;
        }
        sender.handle_deadline(now);
        let next = [
            there.front().map(|(at, _)| *at),
            back.front().map(|(at, _)| *at),
            sender.next_deadline(),
            (free > now).then_some(free),
        ];
        now = next
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(now)
            .max(now.plus_ns(1));
    }
    assert!(
        reader.has.iter().all(|has| *has),
        "{shape:?} {weather:?} seed {seed}"
    );
    (sender.counts(), lost)
}

fn shape(len: u64, arq: Arq) -> Shape {
    Shape {
        len,
        pdu_len: 100,
        disk_len: 1 << 10,
        arq,
    }
}

const CALM: Weather = Weather {
    lost: 0,
    statuses_lost: 0,
    damaged: 0,
    window: 1 << 13,
};

#[test]
fn without_loss_each_octet_is_sent_once() {
    for arq in [Arq::Selective, Arq::GoBackN] {
        for len in [0, 1, 99, 100, 101, 1_023, 1_024, 1_025, 20_000] {
            let (counts, _) = run(shape(len, arq), CALM, 1);
            let pdus = (0..len.div_ceil(1 << 10))
                .map(|n| (len - (n << 10)).min(1 << 10).div_ceil(100))
                .sum::<u64>();
            assert_eq!(counts.pdus, pdus.max(1), "{len} {arq:?}");
            assert_eq!((counts.again, counts.timeouts), (0, 0), "{len} {arq:?}");
        }
    }
}

#[test]
fn what_is_lost_is_sent_again_and_nothing_else() {
    for seed in 0..10 {
        let weather = Weather { lost: 50, ..CALM };
        let (counts, lost) = run(shape(30_000, Arq::Selective), weather, seed);
        assert!(lost > 5, "seed {seed}");
        // The last PDUs, of which no later one tells, are asked for by a timer.
        assert!(
            counts.again <= lost + counts.timeouts,
            "seed {seed}: {counts:?}, {lost} lost"
        );
        assert!(counts.again >= lost, "seed {seed}: {counts:?}, {lost} lost");
    }
}

#[test]
fn go_back_n_sends_all_behind_a_loss_again() {
    let weather = Weather { lost: 20, ..CALM };
    let sent = |arq| {
        (0..3)
            .map(|seed| run(shape(30_000, arq), weather, seed).0.again)
            .sum::<u64>()
    };
    let (selective, back) = (sent(Arq::Selective), sent(Arq::GoBackN));
    assert!(back > 10 * selective, "{back} against {selective}");
}

#[test]
fn transfers_end_whatever_is_lost_and_damaged() {
    for seed in 0..60 {
        let mut draw = Draw(seed);
        let weather = Weather {
            lost: draw.below(300),
            statuses_lost: draw.below(500),
            damaged: draw.below(200),
            window: (1 << 10) << draw.below(5),
        };
        let arq = match draw.below(2) {
            0 => Arq::Selective,
            _ => Arq::GoBackN,
        };
        let (counts, lost) = run(shape(draw.below(10_000), arq), weather, seed);
        assert!(lost == 0 || counts.again > 0, "seed {seed}: {counts:?}");
    }
}

#[test]
fn a_receiver_that_has_what_was_never_sent_is_not_believed() {
    let mut sender = Sender::new(shape(5_000, Arq::Selective), &Extents::new(), 5_000);
    sender.poll(Time::ZERO).expect("there is something to send");
    let told = |acknowledged, seen, extent: Range<u64>| Status {
        acknowledged,
        seen,
        edge: 5_000,
        extents: [extent].into_iter().collect(),
        ..Status::default()
    };
    for status in [told(101, 0, 0..0), told(0, 1, 0..0), told(0, 0, 50..101)] {
        assert!(
            sender.handle_status(Time::ZERO, &status).is_err(),
            "{status:?}"
        );
    }
    assert_eq!(sender.acknowledged(), 0);
    let right = told(0, 0, 10..100);
    assert_eq!(sender.handle_status(Time::ZERO, &right), Ok(()));
}

#[test]
fn a_transfer_goes_on_where_another_has_ended() {
    let there = [0..1_024, 3_000..3_072].into_iter().collect();
    let mut sender = Sender::new(shape(5_000, Arq::Selective), &there, 5_000);
    let mut sent = Extents::new();
    while let Some(segment) = sender.poll(Time::ZERO) {
        assert!(!segment.is_again, "{segment:?}");
        sent.insert(segment.octets);
    }
    assert_eq!(sent, [1_024..3_000, 3_072..5_000].into_iter().collect());
}
