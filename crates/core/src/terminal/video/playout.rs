//! The playout buffer: packets wait in it until the sender's clock says that they are due.
//!
//! The packet that nothing has delayed is played a fixed latency behind its arrival, and all others
//! as far from it as they were sent. So the latency takes up what the network's delays differ, and
//! never grows: where the stream comes later for good, or sooner, its anchor is set anew.

use super::held::{Held, Queue};
use super::playing::{PPT_OF_PPM, Playing};
use super::recovery::Clock;
use super::{Continuity, Flaws, Planted, Recovery, Sound};
use crate::Time;
use crate::wire::{PAYLOAD_LEN, Pcr, Pid, TS_LEN, TsHeader, ticks_to_ns};

/// What is passed on in the place of packets that are lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnLoss {
    /// Nothing: the continuity counters show the gap.
    #[default]
    Drop,
    /// As many packets that fill, with the error flag.
    Mark,
}

/// How a stream is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlayoutTerms {
    /// From the arrival of a packet that nothing has delayed to its release, in ns.
    pub latency_ns: u64,
    /// Added to that: what bursts of VBR wait for their sustained rate.
    pub bursts_ns: u64,
    /// How the sender's clock is recovered.
    pub recovery: Recovery,
    /// What stands for lost packets.
    pub on_loss: OnLoss,
    /// Packets that a PDU has when it is lost.
    pub pack: u32,
    /// PDUs are numbered by their user-to-user octet.
    pub numbered: bool,
    /// Packets that may wait.
    pub packets_max: usize,
}

/// Packets that may wait, whatever the contract: 25 MB at most.
const PACKETS: core::ops::RangeInclusive<u128> = 1 << 12..=1 << 17;

impl PlayoutTerms {
    /// Packets that come at `cell_s` cells/s in twice the latency and a second more, within 4,096
    /// and 131,072.
    pub fn room(cell_s: u64, latency_ns: u64, bursts_ns: u64) -> usize {
        let packet_s = u128::from(cell_s) * PAYLOAD_LEN as u128 / TS_LEN as u128;
        let held_ns = 2 * (u128::from(latency_ns) + u128::from(bursts_ns)) + 1_000_000_000;
        let packets = packet_s.saturating_mul(held_ns) / 1_000_000_000;
        packets.clamp(*PACKETS.start(), *PACKETS.end()) as usize
    }
}

/// What was received and played.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct PlayoutCounts {
    /// PDUs received.
    pub pdus: u64,
    /// Transport packets received.
    pub packets: u64,
    /// Of these, released.
    pub released: u64,
    /// PDUs that the numbers miss; modulo 256 in each gap.
    pub lost_pdus: u64,
    /// Transport packets of theirs.
    pub lost_packets: u64,
    /// Packets with the error flag that were released in the place of lost ones.
    pub marked: u64,
    /// Packets that came with the error flag.
    pub errors: u64,
    /// Packets that do not follow the one before of their PID.
    pub continuity_errors: u64,
    /// PDUs, or packets of them, that are no transport stream.
    pub not_ts: u64,
    /// Packets that arrived after they were due.
    pub late: u64,
    /// Times that a packet arrived so early that the anchor was set anew.
    pub early: u64,
    /// Times that what was due had not come.
    pub underruns: u64,
    /// Packets that gave their place up because the buffer was full.
    pub overruns: u64,
    /// Packets released without a clock reference that places them.
    pub untimed: u64,
    /// Discontinuities that the stream has announced.
    pub discontinuities: u64,
    /// Times that the clock has jumped without.
    pub jumps: u64,
    /// Times that the sender has begun anew.
    pub restarts: u64,
    /// Times that the anchor was set, the first included.
    pub anchors: u64,
}

/// A packet that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Released {
    /// The packet.
    pub packet: [u8; TS_LEN],
    /// When it was due.
    pub due: Time,
    /// It stands for one that is lost.
    pub is_mark: bool,
}

/// References that come no more often than that are another clock's turn (H.222.0: at most 100 ms
/// apart).
const PCR_SILENCE_NS: u64 = 500_000_000;
/// The clock has jumped where it is ahead of the arrivals by more.
const JUMP_NS: i64 = 500_000_000;
/// A stream that is late for so long is late for good.
const LATE_NS: u64 = 1_000_000_000;
/// What no reference places is played so long behind its arrival, or the latency if that is more.
const UNTIMED_NS: u64 = 200_000_000;
/// A packet is early that would have to wait for this much more than the latency.
const EARLY_NS: u64 = 100_000_000;

/// A stream on its way to its player.
#[derive(Clone, Debug)]
pub struct Playout<F: Flaws = Sound> {
    terms: PlayoutTerms,
    flaws: F,
    queue: Queue,
    clock: Clock,
    playing: Option<Playing>,
    continuity: Continuity,
    counts: PlayoutCounts,
    /// The next PDU's number.
    next_uu: Option<u8>,
    /// The last reference: whose, what, at which instant of the stream, and when it came.
    reference: Option<Reference>,
    /// A gap in the numbers that the next reference may show to be none.
    doubted: u64,
    /// Since when all has come late.
    late_since: Option<Time>,
}

#[derive(Clone, Copy, Debug)]
struct Reference {
    pid: Pid,
    pcr: Pcr,
    ticks: i64,
    arrival: Time,
}

impl Playout {
    /// An empty buffer.
    pub fn new(terms: PlayoutTerms) -> Self {
        Playout::with(terms, Sound)
    }
}

impl<F: Flaws> Playout<F> {
    /// The same, perhaps with a bug.
    pub fn with(terms: PlayoutTerms, flaws: F) -> Self {
        Self {
            terms,
            flaws,
            queue: Queue::new(terms.packets_max),
            clock: Clock::new(terms.recovery),
            playing: None,
            continuity: Continuity::default(),
            counts: PlayoutCounts::default(),
            next_uu: None,
            reference: None,
            doubted: 0,
            late_since: None,
        }
    }

    /// What was received and played.
    pub const fn counts(&self) -> &PlayoutCounts {
        &self.counts
    }

    /// The latency in all, bursts included, in ns.
    pub fn latency_ns(&self) -> u64 {
        let bursts = match self.flaws.has(Planted::BurstsForgotten) {
            true => 0,
            false => self.terms.bursts_ns,
        };
        self.terms.latency_ns.saturating_add(bursts)
    }

    /// By how much the sender's clock is faster than the receiver's, in thousandths of a ppm.
    pub const fn clock_ppb(&self) -> i64 {
        // A faster clock has shorter seconds.
        -self.clock.drift_ppt() / (PPT_OF_PPM / 1_000)
    }

    /// By how much the output is faster than the receiver's clock at present, in the same unit.
    pub fn rate_ppb(&self) -> i64 {
        let rate = self.playing.map_or(0, |playing| playing.rate_ppt());
        -rate / (PPT_OF_PPM / 1_000)
    }

    /// Packets that wait.
    pub fn fill_packets(&self) -> usize {
        self.queue.packets()
    }

    /// How long what waits lasts, in ns.
    pub fn fill_ns(&self, now: Time) -> u64 {
        let (Some(playing), Some(last)) = (self.playing, self.queue.last_ticks()) else {
            return 0;
        };
        u64::try_from(ticks_to_ns(last).saturating_sub(playing.at(now))).unwrap_or(0)
    }

    /// A PDU has arrived. What it has is released by [`Playout::poll`].
    pub fn handle(&mut self, arrival: Time, uu: u8, sdu: &[u8]) {
        self.counts.pdus += 1;
        let (packets, rest) = sdu.as_chunks::<TS_LEN>();
        self.numbered(uu);
        if !rest.is_empty() || packets.is_empty() {
            self.counts.not_ts += 1;
        }
        for packet in packets {
            self.packet(arrival, packet);
        }
        if self.terms.recovery == Recovery::Occupancy
            && let (Some(playing), Some(last)) = (self.playing, self.reference)
            && last.arrival == arrival
        {
            self.observe(arrival, ticks_to_ns(last.ticks), playing);
        }
    }

    /// Looks at a PDU's number: those that are missing are lost.
    fn numbered(&mut self, uu: u8) {
        if !self.terms.numbered {
            return;
        }
        let next = self.next_uu.replace(uu.wrapping_add(1));
        let Some(next) = next else {
            return;
        };
        let mut gap = u64::from(uu.wrapping_sub(next));
        if self.flaws.has(Planted::GapMiscounted) {
            gap = gap.saturating_sub(1);
        }
        if self.flaws.has(Planted::NumberWrapIgnored) && next == 0 && uu == 0 {
            gap += 1;
        }
        if gap > 0 {
            let pack = match self.flaws.has(Planted::LostPackIsOne) {
                true => 1,
                false => self.terms.pack.into(),
            };
            let packets = gap.saturating_mul(pack);
            self.counts.lost_pdus += gap;
            self.counts.lost_packets += packets;
            self.doubted = gap;
            self.queue
                .push_lost(packets, !self.flaws.has(Planted::LostTakeNoTime));
        }
    }

    fn packet(&mut self, arrival: Time, packet: &[u8; TS_LEN]) {
        let Ok((header, _)) = TsHeader::parse(packet) else {
            self.counts.not_ts += 1;
            return;
        };
        self.counts.packets += 1;
        self.counts.errors += u64::from(header.error);
        self.counts.continuity_errors += u64::from(!self.continuity.follows(&header));
        let is_full = self.queue.packets() >= self.terms.packets_max;
        if is_full && self.flaws.has(Planted::NewestLeftOut) {
            self.counts.overruns += 1;
            return;
        }
        let is_bounded = !self.flaws.has(Planted::Unbounded);
        if !self.queue.push(packet, arrival, is_bounded) {
            self.counts.overruns += u64::from(!self.flaws.has(Planted::OverrunUncounted));
        }
        if let Some(pcr) = header.pcr() {
            self.referenced(arrival, &header, pcr);
        }
    }

    /// The packet that was put last has a clock reference.
    fn referenced(&mut self, arrival: Time, header: &TsHeader, pcr: Pcr) {
        let doubted = core::mem::take(&mut self.doubted);
        let Some(last) = self.reference else {
            return self.anchored(arrival, header.pid, pcr);
        };
        if last.pid != header.pid {
            // Another programme's, unless there is none of this one any more.
            if arrival.since_ns(last.arrival) >= PCR_SILENCE_NS {
                self.counts.jumps += 1;
                self.anchored(arrival, header.pid, pcr);
            } else {
                self.doubted = doubted;
            }
            return;
        }
        let step = match self.flaws.has(Planted::WrapIgnored) {
            true => pcr.ticks() as i64 - last.pcr.ticks() as i64,
            false => pcr.since(last.pcr),
        };
        let passed = i64::try_from(arrival.since_ns(last.arrival)).unwrap_or(i64::MAX);
        let is_announced = header.is_discontinuity();
        let is_jump = step < 0 || ticks_to_ns(step) > passed.saturating_add(JUMP_NS);
        if is_announced && !self.flaws.has(Planted::DiscontinuityIgnored) {
            self.counts.discontinuities += 1;
            return self.anchored(arrival, header.pid, pcr);
        }
        if is_jump && !self.flaws.has(Planted::AnchorKept) {
            if doubted > 0 {
                // Numbers and clock begin anew together: nothing is lost, the sender is another.
                let packets = doubted.saturating_mul(self.terms.pack.into());
                self.counts.restarts += 1;
                self.counts.lost_pdus -= doubted;
                self.counts.lost_packets -= packets;
                self.queue.take_back(packets);
            } else {
                self.counts.jumps += 1;
            }
            return self.anchored(arrival, header.pid, pcr);
        }
        let ticks = last.ticks.saturating_add(step);
        self.queue.reference(ticks, false);
        self.reference = Some(Reference {
            pid: header.pid,
            pcr,
            ticks,
            arrival,
        });
        self.placed(arrival, ticks);
    }

    /// A reference goes on from the one before: is it late, is it early?
    fn placed(&mut self, arrival: Time, ticks: i64) {
        let Some(playing) = self.playing else {
            return;
        };
        let stream_ns = ticks_to_ns(ticks);
        let due = playing.due(stream_ns);
        if self.counts.released == 0
            && due.since_ns(arrival) > self.latency_ns()
            && !self.flaws.has(Planted::FirstBelieved)
        {
            // Nothing is played yet: the packet that came soonest is the anchor, and not the first.
            let due = arrival.plus_ns(self.latency_ns());
            self.playing = Some(Playing::new(stream_ns, due, self.clock.drift_ppt()));
            return;
        }
        let most = self
            .latency_ns()
            .saturating_add(self.latency_ns().max(EARLY_NS));
        if due.since_ns(arrival) > most && !self.flaws.has(Planted::LatencyCreeps) {
            self.counts.early += 1;
            return self.anchor(arrival, ticks);
        }
        if due < arrival {
            let since = *self.late_since.get_or_insert_with(|| {
                self.counts.underruns += 1;
                arrival
            });
            let is_for_good = arrival.since_ns(since) >= LATE_NS;
            if is_for_good && !self.flaws.has(Planted::LateForGood) {
                self.anchor(arrival, ticks);
            }
            return;
        }
        self.late_since = None;
        if self.terms.recovery != Recovery::Occupancy {
            self.observe(arrival, stream_ns, playing);
        }
    }

    fn observe(&mut self, arrival: Time, stream_ns: i64, mut playing: Playing) {
        let latency_ns = i64::try_from(self.latency_ns()).unwrap_or(i64::MAX);
        let clock = &mut self.clock;
        let steer = clock.observe(arrival, stream_ns, &playing, latency_ns, &self.flaws);
        if let Some(steer) = steer {
            playing.steer(arrival, steer.drift_ppt, steer.phase_ns, &self.flaws);
            self.playing = Some(playing);
        }
    }

    /// A clock begins: the stream goes on where it was, the anchor is this packet.
    fn anchored(&mut self, arrival: Time, pid: Pid, pcr: Pcr) {
        // The packet itself is counted already.
        let ticks = self.queue.expected();
        self.queue.reference(ticks, true);
        self.reference = Some(Reference {
            pid,
            pcr,
            ticks,
            arrival,
        });
        self.anchor(arrival, ticks);
    }

    /// The packet at `ticks` is played the latency behind its arrival.
    fn anchor(&mut self, arrival: Time, ticks: i64) {
        self.counts.anchors += 1;
        self.late_since = None;
        self.clock.begin_anew();
        let due = arrival.plus_ns(self.latency_ns());
        let drift_ppt = self.clock.drift_ppt();
        self.playing = Some(Playing::new(ticks_to_ns(ticks), due, drift_ppt));
    }

    /// When the first packet is due.
    fn first_due(&self) -> Option<Time> {
        let packet = self.queue.first_packet()?;
        match (packet.ticks, self.playing) {
            (Some(ticks), Some(playing)) => Some(playing.due(ticks_to_ns(ticks))),
            _ => Some(packet.arrival.plus_ns(self.latency_ns().max(UNTIMED_NS))),
        }
    }

    /// When [`Playout::poll`] has something next; a PDU may make it sooner.
    pub fn next_deadline(&self) -> Option<Time> {
        let due = self.first_due()?;
        Some(match () {
            () if self.flaws.has(Planted::ReleasedLate) => due.plus_ns(5_000_000),
            () if self.flaws.has(Planted::ReleasedEarly) => due.minus_ns(1_000_000),
            () => due,
        })
    }

    /// The next packet, if it is due.
    pub fn poll(&mut self, now: Time) -> Option<Released> {
        let due = self.first_due()?;
        if now < self.next_deadline()? {
            return None;
        }
        if let Some(Held::Lost(_)) = self.queue.front() {
            match self.terms.on_loss {
                OnLoss::Drop => _ = self.queue.skip_lost(),
                OnLoss::Mark if self.flaws.has(Planted::MarksBehind) => self.queue.put_off_lost(),
                OnLoss::Mark if self.queue.pop_lost() => {
                    self.counts.marked += 1;
                    if self.flaws.has(Planted::MarkedOnce) {
                        self.queue.skip_lost();
                    }
                    let mut packet = TsHeader::lost();
                    if self.flaws.has(Planted::ErrorFlagForgotten) {
                        packet[1] &= 0x7f;
                    }
                    return Some(Released {
                        packet,
                        due,
                        is_mark: true,
                    });
                }
                OnLoss::Mark => {}
            }
        }
        let packet = self.queue.pop()?;
        self.counts.released += 1;
        match packet.ticks {
            None => self.counts.untimed += 1,
            Some(_) if self.flaws.has(Planted::LateUncounted) => {}
            Some(_) => self.counts.late += u64::from(packet.arrival > due),
        }
        Some(Released {
            packet: packet.octets,
            due,
            is_mark: false,
        })
    }
}
