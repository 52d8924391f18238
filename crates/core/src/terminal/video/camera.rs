//! The stand-in of a camera and its encoder: frames on a clock that is wrong on purpose, in groups
//! of pictures, each packet numbered and stamped.

use crate::Time;
use crate::wire::{Pcr, Pid, TS_LEN, TsAdaptation, TsHeader};

/// What its packets begin with.
const MAGIC: [u8; 4] = *b"CGtv";
/// Octets of payload that a packet has at least: behind a header with a clock reference.
const PAYLOAD_MIN: usize = 176;
const PAYLOAD: usize = 184;
/// Octets of a [`Shot`].
const SHOT_LEN: usize = 37;
/// Whose packets they are.
const PID: u16 = 0x100;
/// Ticks of 27 MHz in a second.
const HZ: u64 = 27_000_000;

/// The pictures of a group, in the order that they are sent: I is large, P, B is small.
const GROUP: [FrameKind; 12] = {
    use FrameKind::{B, I, P};
    [I, B, B, P, B, B, P, B, B, P, B, B]
};

/// What a frame depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// On nothing.
    I,
    /// On a frame before.
    P,
    /// On frames before and after.
    B,
}

impl FrameKind {
    /// How large it is beside the others: 8 + 3 * 3 + 8 * 1 = 25 in a group.
    const fn weight(self) -> u64 {
        match self {
            Self::I => 8,
            Self::P => 3,
            Self::B => 1,
        }
    }
}

/// What a camera sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CameraTerms {
    /// Frames a second, at least one.
    pub fps: u32,
    /// Bit/s of transport packets, over a group of pictures.
    pub bit_s: u64,
    /// By how much its clock is fast, in ppm.
    pub ppm: i32,
    /// A frame has a multiple of so many packets: a PDU is of one frame.
    pub pack: usize,
    /// Frames in all; none: it does not end.
    pub frames: Option<u64>,
}

/// What a packet says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shot {
    /// Of the packet, from 0.
    pub number: u64,
    /// Of its frame, from 0.
    pub frame: u64,
    /// Its place in the frame, and how many packets that has.
    pub index: u32,
    /// See there.
    pub count: u32,
    /// When the camera made it, by the sender's clock.
    pub stamp: Time,
}

impl Shot {
    /// From a packet; none if it is no camera's, or is damaged.
    pub fn parse(packet: &[u8; TS_LEN]) -> Option<Self> {
        let (header, at) = TsHeader::parse(packet).ok()?;
        if header.error || header.pid.number() != PID {
            return None;
        }
        let payload = packet.get(at..)?;
        let (head, rest) = payload.split_first_chunk::<SHOT_LEN>()?;
        let (magic, head) = head.split_first_chunk::<4>()?;
        let (number, head) = head.split_first_chunk()?;
        let (frame, head) = head.split_first_chunk()?;
        let (index, head) = head.split_first_chunk()?;
        let (count, head) = head.split_first_chunk()?;
        let (stamp, _) = head.split_first_chunk()?;
        let number = u64::from_be_bytes(*number);
        let is_right = rest
            .iter()
            .zip(0..)
            .all(|(octet, at)| *octet == filling(number, at));
        (*magic == MAGIC && is_right).then_some(Self {
            number,
            frame: u64::from_be_bytes(*frame),
            index: u32::from_be_bytes(*index),
            count: u32::from_be_bytes(*count),
            stamp: Time::from_ns(u64::from_be_bytes(*stamp)),
        })
    }

    fn emit(&self, payload: &mut [u8]) {
        let (head, rest) = payload.split_at_mut(SHOT_LEN.min(payload.len()));
        let octets = MAGIC
            .into_iter()
            .chain(self.number.to_be_bytes())
            .chain(self.frame.to_be_bytes())
            .chain(self.index.to_be_bytes())
            .chain(self.count.to_be_bytes())
            .chain(self.stamp.ns().to_be_bytes())
            .chain([0]);
        head.iter_mut()
            .zip(octets)
            .for_each(|(to, octet)| *to = octet);
        let filled = rest.iter_mut().zip(0..);
        filled.for_each(|(to, at)| *to = filling(self.number, at));
    }
}

/// What is in the rest of a packet: another in each, so that one for another is noticed.
fn filling(number: u64, at: u64) -> u8 {
    (number.wrapping_mul(167).wrapping_add(at) ^ number >> 8) as u8
}

/// A camera.
#[derive(Clone, Debug)]
pub struct Camera {
    terms: CameraTerms,
    begun: Time,
    frame: u64,
    index: u32,
    number: u64,
    counter: u8,
}

impl Camera {
    /// Its first frame is at `begun`.
    pub fn new(begun: Time, terms: CameraTerms) -> Self {
        let terms = CameraTerms {
            fps: terms.fps.max(1),
            pack: terms.pack.max(1),
            ..terms
        };
        Self {
            terms,
            begun,
            frame: 0,
            index: 0,
            number: 0,
            counter: 0,
        }
    }

    /// The kind of a frame.
    pub fn kind(frame: u64) -> FrameKind {
        GROUP[(frame % GROUP.len() as u64) as usize]
    }

    /// Packets of a frame.
    pub fn packets(&self, frame: u64) -> u32 {
        let group = GROUP.len() as u128 * u128::from(Self::kind(frame).weight());
        let octets = u128::from(self.terms.bit_s) * group / 25 / 8 / u128::from(self.terms.fps);
        let pack = self.terms.pack as u128;
        // All packets but a frame's first have 184 octets of payload, and 188 are counted.
        let packets = octets.div_ceil(TS_LEN as u128).max(1).div_ceil(pack) * pack;
        u32::try_from(packets).unwrap_or(u32::MAX)
    }

    /// When a frame is made, by the sender's clock.
    fn made(&self, frame: u64) -> Time {
        let clock = i64::from(self.terms.ppm).saturating_add(1_000_000).max(1);
        let second = u128::from(self.terms.fps) * clock.unsigned_abs() as u128;
        let ns = u128::from(frame) * 1_000_000_000 * 1_000_000 / second;
        self.begun.plus_ns(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    /// Whether the next packet is of the stream's last PDU, if that is not all of its frame.
    fn is_end(&self) -> bool {
        if self.terms.frames != Some(self.frame + 1) {
            return false;
        }
        let first = u64::from(self.packets(self.frame)).saturating_sub(self.terms.pack as u64);
        first > 0 && u64::from(self.index) >= first
    }

    /// When the next packets are; none: there are none.
    pub fn next_deadline(&self) -> Option<Time> {
        let is_over = self.terms.frames.is_some_and(|frames| self.frame >= frames);
        (!is_over).then(|| self.made(self.frame + u64::from(self.is_end())))
    }

    /// Packets so far.
    pub const fn sent(&self) -> u64 {
        self.number
    }

    /// The next packet, if its frame has been made. All of a frame are made at once, but for the
    /// last PDU of the last one: it leaves at the frame's end, with a reference that says so. What
    /// plays the stream would not know how long that frame is.
    pub fn poll(&mut self, now: Time) -> Option<[u8; TS_LEN]> {
        let stamp = self.next_deadline().filter(|made| *made <= now)?;
        let count = self.packets(self.frame);
        let is_first = self.index == 0;
        let is_end = self.is_end() && self.index + 1 == count;
        let frame = u128::from(self.frame) + u128::from(is_end);
        let ticks = frame * u128::from(HZ) / u128::from(self.terms.fps);
        let header = TsHeader {
            error: false,
            start: is_first,
            pid: Pid::new(PID).unwrap_or(Pid::NULL),
            counter: self.counter,
            has_payload: true,
            adaptation: (is_first || is_end).then(|| TsAdaptation {
                discontinuity: false,
                random_access: is_first && Self::kind(self.frame) == FrameKind::I,
                pcr: Some(Pcr::of_ticks(ticks as u64)),
            }),
        };
        let mut packet = [0; TS_LEN];
        let at = header.emit(&mut packet);
        debug_assert!((PAYLOAD_MIN..=PAYLOAD).contains(&(TS_LEN - at)));
        let shot = Shot {
            number: self.number,
            frame: self.frame,
            index: self.index,
            count,
            stamp,
        };
        shot.emit(&mut packet[at..]);
        self.counter = (self.counter + 1) & 0x0f;
        self.number += 1;
        self.index += 1;
        if self.index >= count {
            (self.frame, self.index) = (self.frame + 1, 0);
        }
        Some(packet)
    }
}
