//! The end that plays, and a record beside it of what was read and is to be released.

use std::collections::VecDeque;

use cellgate_core::Time;
use cellgate_core::terminal::video::{
    Camera, Display, DisplayCounts, OnLoss, Playout, PlayoutCounts, PlayoutTerms, RATE_PPM_MAX,
    Released, Shot,
};
use cellgate_core::wire::{TS_LEN, TsHeader};

use super::{Bugs, StreamOutcome};
use crate::world::Ps;
use crate::world::oracle::Wrong;

/// How much longer a packet may wait than twice the latency, or than the latency and 100 ms if that
/// is more: the bound is looked at with each reference, and what the output's rate changes until
/// the next is less.
const WAITS_NS: u64 = 100_000_000;

/// A frame that no reference follows is as long as the one before in which so few packets were.
const FRAMES: u64 = 12;
/// PDUs have so many numbers.
const NUMBERS: u64 = 256;
/// By then all is made.
const ALWAYS: Time = Time::from_ns(u64::MAX);

/// What is to be released next.
#[derive(Clone, Debug)]
enum Held {
    Packet(Box<Waiting>),
    /// So many in the place of lost ones, if any are marked.
    Lost(u64),
}

#[derive(Clone, Debug)]
struct Waiting {
    octets: [u8; TS_LEN],
    arrival: Time,
    /// It is the first of its frame, made then.
    made: Option<Ps>,
}

/// From a frame's being made to something, at least and at most.
pub(crate) type Spread = Option<(u64, u64)>;

fn widen(spread: &mut Spread, ns: u64) {
    let (least, most) = spread.unwrap_or((ns, ns));
    *spread = Some((least.min(ns), most.max(ns)));
}

/// What a player has counted.
#[derive(Clone, Debug)]
pub(crate) struct PlayerReport {
    pub(crate) connection: u32,
    pub(crate) counts: PlayoutCounts,
    pub(crate) display: DisplayCounts,
    /// PDUs up to the last that was read that were not read, and as their numbers tell.
    pub(crate) missing: u64,
    pub(crate) told_missing: u64,
    /// PDUs of which the last was read, or a later one.
    pub(crate) passed: u64,
    /// Packets released after their arrival was later than they were due.
    pub(crate) late: u64,
    pub(crate) overruns: u64,
    pub(crate) marks: u64,
    pub(crate) held: usize,
    pub(crate) held_max: usize,
    pub(crate) clock_ppb: i64,
    pub(crate) arrived: Spread,
    pub(crate) played: Spread,
}

impl PlayerReport {
    /// In numbers, of a stream that has sent so many packets.
    pub(crate) fn outcome(&self, sent_packets: u64) -> StreamOutcome {
        let (counts, display) = (&self.counts, &self.display);
        StreamOutcome {
            sent_packets,
            packets: counts.packets,
            released: counts.released,
            lost_pdus: counts.lost_pdus,
            lost_packets: counts.lost_packets,
            marked: counts.marked,
            late: counts.late,
            overruns: counts.overruns,
            underruns: counts.underruns,
            anchors: counts.anchors,
            frames_on_time: display.on_time,
            frames_late: display.late,
            frames_missing: display.missing,
            clock_ppb: self.clock_ppb,
            arrived_min_ns: self.arrived.map(|(least, _)| least),
            arrived_max_ns: self.arrived.map(|(_, most)| most),
            played_min_ns: self.played.map(|(least, _)| least),
            played_max_ns: self.played.map(|(_, most)| most),
            held_max: self.held_max as u64,
        }
    }
}

/// A playout buffer and its display.
#[derive(Debug)]
pub(crate) struct Player {
    pub(crate) connection: u32,
    playout: Playout<Bugs>,
    terms: PlayoutTerms,
    frame_ns: u64,
    display: Display,
    /// Makes the packets that the camera has made, once more.
    twin: Camera,
    /// What the sender's clock was ahead of virtual time.
    sender_ns: u64,
    /// The PDU that is to be read next.
    next: u64,
    held: VecDeque<Held>,
    /// Packets of these.
    packets: usize,
    /// PDUs that the last gap in the numbers tells of.
    gap: u64,
    /// When a PDU was read last: what is due may be so at another time from then on.
    read: Time,
    /// When its clock has gone forward the last time, by the clock itself.
    stepped: Time,
    /// When it looks next.
    pub(crate) due: Option<Ps>,
    report: PlayerReport,
}

impl Player {
    pub(crate) fn new(
        connection: u32,
        terms: PlayoutTerms,
        (twin, fps, sender_ns): (Camera, u32, u64),
        bugs: Bugs,
    ) -> Self {
        let display = Display::new(fps);
        Self {
            connection,
            playout: Playout::with(terms, bugs),
            terms,
            frame_ns: 1_000_000_000 / u64::from(fps.max(1)),
            report: PlayerReport {
                connection,
                counts: PlayoutCounts::default(),
                display: display.counts().clone(),
                missing: 0,
                told_missing: 0,
                passed: 0,
                late: 0,
                overruns: 0,
                marks: 0,
                held: 0,
                held_max: 0,
                clock_ppb: 0,
                arrived: None,
                played: None,
            },
            display,
            twin,
            sender_ns,
            next: 0,
            held: VecDeque::new(),
            packets: 0,
            gap: 0,
            read: Time::ZERO,
            stepped: Time::ZERO,
            due: None,
        }
    }

    /// S1: a PDU that has arrived at `arrival` is read: its number.
    pub(crate) fn reads(
        &mut self,
        (now, instant): (Time, Ps),
        arrival: Time,
        uu: u8,
        sdu: &[u8],
    ) -> Result<u64, Wrong> {
        let (packets, rest) = sdu.as_chunks::<TS_LEN>();
        let first = packets.first().and_then(Shot::parse);
        let Some(shot) = first.filter(|_| rest.is_empty()) else {
            return Err(("S1", format!("{} octets that no camera made", sdu.len())));
        };
        let pack = u64::from(self.terms.pack);
        let number = shot.number / pack;
        if number < self.next || !shot.number.is_multiple_of(pack) {
            let (here, due) = (shot.number, self.next * pack);
            return Err(("S1", format!("packet {here} is read, and {due} is due")));
        }
        let gap = number - self.next;
        self.report.missing += gap;
        // Before the first there is no number.
        if self.report.passed > 0 && !gap.is_multiple_of(NUMBERS) {
            self.gap = gap % NUMBERS;
            self.report.told_missing += self.gap;
            self.held.push_back(Held::Lost(self.gap * pack));
        }
        self.next = number + 1;
        self.read = now;
        self.report.passed = self.next;
        while self.twin.sent() < shot.number && self.twin.poll(ALWAYS).is_some() {}
        let before = *self.playout.counts();
        for packet in packets {
            if self.twin.poll(ALWAYS).as_ref() != Some(packet) {
                let text = format!("PDU {number} is another than was sent");
                return Err(("S1", text));
            }
            let shot = Shot::parse(packet).filter(|shot| shot.index == 0);
            let made = shot.map(|shot| shot.stamp.ns().saturating_sub(self.sender_ns));
            let made = made.map(Ps::from_ns);
            if let Some(made) = made {
                let took = instant.since(made).ns();
                let waited = now.since_ns(arrival);
                widen(&mut self.report.arrived, took.saturating_sub(waited));
            }
            self.held.push_back(Held::Packet(Box::new(Waiting {
                octets: *packet,
                arrival,
                made,
            })));
        }
        self.packets += packets.len();
        self.playout.handle(arrival, uu, sdu);
        let counts = *self.playout.counts();
        if counts.restarts > before.restarts {
            self.begins_anew();
        }
        self.leaves_out(counts.overruns - before.overruns)?;
        let latency = self.terms.latency_ns + self.terms.bursts_ns;
        if self.playout.latency_ns() != latency {
            let other = self.playout.latency_ns();
            return Err(("S3", format!("a latency of {other} ns, due {latency}")));
        }
        let rate = self.playout.rate_ppb().unsigned_abs();
        if rate > RATE_PPM_MAX.unsigned_abs() * 1_000 {
            return Err((
                "S3",
                format!("the output is {rate} ppb off the receiver's clock"),
            ));
        }
        let fill = self.playout.fill_packets();
        self.report.held_max = self.report.held_max.max(fill);
        let most = self.terms.packets_max;
        if fill > most || fill != self.packets {
            let here = self.packets;
            let text = format!("{fill} packets wait, of {here} that were read; at most {most}");
            return Err(("S3", text));
        }
        Ok(number)
    }

    /// Numbers and clock have jumped together: the last gap is none.
    fn begins_anew(&mut self) {
        self.report.told_missing -= self.gap;
        let packets = self.gap * u64::from(self.terms.pack);
        let is_lost = |held: &Held| matches!(held, Held::Lost(_));
        let Some(at) = self.held.iter().rposition(is_lost) else {
            return;
        };
        match &mut self.held[at] {
            Held::Lost(left) if *left > packets => *left -= packets,
            _ => _ = self.held.remove(at),
        }
    }

    /// S2: those that have waited longest give their places up, where all are taken.
    fn leaves_out(&mut self, packets: u64) -> Result<(), Wrong> {
        for _ in 0..packets {
            if self.packets <= self.terms.packets_max {
                return Err(("S2", "a packet is left out where there is room".into()));
            }
            self.skips_lost();
            self.held.pop_front();
            self.packets -= 1;
            self.report.overruns += 1;
        }
        Ok(())
    }

    /// Its clock has gone forward, to this.
    pub(crate) fn clock_steps(&mut self, to: Time) {
        self.stepped = to;
    }

    /// S2, S3: what is due is released; how many packets. What was due by `excused` may be late.
    pub(crate) fn plays(
        &mut self,
        (now, instant): (Time, Ps),
        excused: Time,
    ) -> Result<u64, Wrong> {
        let mut count = 0;
        while let Some(released) = self.playout.poll(now) {
            count += 1;
            self.releases((now, instant), &released, excused)?;
            if !released.is_mark {
                self.display.handle(now, released.due, &released.packet);
            }
        }
        Ok(count)
    }

    fn releases(
        &mut self,
        (now, instant): (Time, Ps),
        released: &Released,
        excused: Time,
    ) -> Result<(), Wrong> {
        if released.is_mark {
            return self.marks(&released.packet);
        }
        if self.terms.on_loss == OnLoss::Drop {
            self.skips_lost();
        }
        let Some(Held::Packet(waiting)) = self.held.pop_front() else {
            return Err((
                "S2",
                "a packet is released, and a mark or nothing is due".into(),
            ));
        };
        self.packets -= 1;
        if waiting.octets != released.packet {
            return Err(("S2", "another packet is released than is the next".into()));
        }
        let due = released.due;
        if now < due {
            let early = due.since_ns(now);
            return Err(("S3", format!("a packet is released {early} ns early")));
        }
        let late = now.since_ns(due.max(self.read).max(excused));
        if late > 0 {
            return Err(("S3", format!("a packet is released {late} ns late")));
        }
        let latency = self.playout.latency_ns();
        let most = latency.saturating_add(latency.max(WAITS_NS));
        let most = most.saturating_add(FRAMES * self.frame_ns + WAITS_NS);
        let waits = due.since_ns(waiting.arrival);
        // A reference behind the clock's step may place packets that came before it.
        if waits > most && waiting.arrival >= self.stepped {
            return Err((
                "S3",
                format!("a packet waits for {waits} ns, at most {most}"),
            ));
        }
        self.report.late += u64::from(waiting.arrival > due);
        if let Some(made) = waiting.made {
            widen(&mut self.report.played, instant.since(made).ns());
        }
        Ok(())
    }

    fn skips_lost(&mut self) {
        while let Some(Held::Lost(_)) = self.held.front() {
            self.held.pop_front();
        }
    }

    /// A packet is released in the place of one that was lost.
    fn marks(&mut self, packet: &[u8; TS_LEN]) -> Result<(), Wrong> {
        let header = TsHeader::parse(packet).map(|(header, _)| header);
        let is_marked = header.is_ok_and(|header| header.error);
        self.report.marks += 1;
        match self.held.front_mut() {
            Some(Held::Lost(left)) if is_marked => {
                *left = left.saturating_sub(1);
                if *left == 0 {
                    self.held.pop_front();
                }
                Ok(())
            }
            Some(Held::Lost(_)) => Err(("S2", "a mark has no error flag".into())),
            _ => Err(("S2", "a mark stands for nothing that was lost".into())),
        }
    }

    /// When it has something to do next.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.playout.next_deadline()
    }

    /// What it has counted.
    pub(crate) fn report(&self) -> PlayerReport {
        PlayerReport {
            counts: *self.playout.counts(),
            display: self.display.clone().end(),
            held: self.playout.fill_packets(),
            clock_ppb: self.playout.clock_ppb(),
            ..self.report.clone()
        }
    }
}
