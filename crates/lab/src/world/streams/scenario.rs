//! Words of a scenario for video.

use cellgate_core::Time;
use cellgate_core::contract::{CellRate, TrafficContract, aal5_cells};
use cellgate_core::terminal::video::{Camera, CameraTerms, OnLoss, PACK, PlayoutTerms, Recovery};
use cellgate_core::wire::TS_LEN;
use serde::{Deserialize, Serialize};

use crate::world::scenario::span;
use crate::world::{Interval, Ps};

/// Pictures of a group.
const GROUP: usize = 12;

/// A stream of video over a connection: a camera at the sending host, a display at the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamSpec {
    /// Name of the connection that it has for itself.
    pub connection: String,
    /// Frames a second.
    pub fps: u32,
    /// Bit/s of transport packets.
    pub bit_s: u64,
    /// By how much the camera's clock is fast, in ppm.
    #[serde(default)]
    pub ppm: i32,
    /// Transport packets of a PDU.
    #[serde(default = "pack")]
    pub pack: u16,
    /// How its receiver recovers the camera's clock.
    #[serde(default)]
    pub clock: ClockSpec,
    /// From the arrival of a packet that nothing has delayed to its release.
    #[serde(default = "latency_ns")]
    pub latency_ns: u64,
    /// What stands for lost packets.
    #[serde(default)]
    pub lost: LostSpec,
    /// Packets that may wait to be released; 0: as many as `stream recv` takes.
    #[serde(default)]
    pub packets_max: u32,
    /// The first frame is made so long after everything is open.
    #[serde(default)]
    pub start_ns: u64,
    /// No frame is made from here on; 0: before the scenario's end.
    #[serde(default)]
    pub stop_ns: u64,
}

fn pack() -> u16 {
    PACK as u16
}

fn latency_ns() -> u64 {
    200_000_000
}

/// How the camera's clock is recovered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClockSpec {
    /// By its references.
    #[default]
    Pcr,
    /// By the fill of the buffer.
    Occupancy,
    /// Not at all.
    None,
}

/// What is released in the place of lost packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LostSpec {
    /// Nothing.
    #[default]
    Drop,
    /// Packets with the error flag.
    Mark,
}

impl StreamSpec {
    /// A stream on a connection, as `cellgate stream` sends and plays it by itself.
    pub fn on(connection: &str, fps: u32, bit_s: u64) -> Self {
        Self {
            connection: connection.into(),
            fps,
            bit_s,
            ppm: 0,
            pack: pack(),
            clock: ClockSpec::default(),
            latency_ns: latency_ns(),
            lost: LostSpec::default(),
            packets_max: 0,
            start_ns: 0,
            stop_ns: 0,
        }
    }

    /// From when to when it makes frames, in a scenario of so many nanoseconds.
    pub(crate) fn span(&self, duration_ns: u64) -> (Ps, Ps) {
        span(self.start_ns, self.stop_ns, duration_ns)
    }

    /// The camera.
    pub(crate) fn camera(&self, duration_ns: u64) -> CameraTerms {
        let (start, stop) = self.span(duration_ns);
        let clock = i64::from(self.ppm) + 1_000_000;
        let in_second = u128::from(self.fps) * clock.max(1).unsigned_abs() as u128;
        let frames = u128::from(stop.since(start).ns()) * in_second;
        CameraTerms {
            fps: self.fps,
            bit_s: self.bit_s,
            ppm: self.ppm,
            pack: self.pack.into(),
            frames: Some(frames.div_ceil(1_000_000_000_000_000) as u64),
        }
    }

    /// Octets of each SDU.
    pub(crate) fn sdu_len(&self) -> usize {
        usize::from(self.pack) * TS_LEN
    }

    /// Cells of each PDU.
    pub(crate) fn pdu_cells(&self) -> u32 {
        aal5_cells(self.sdu_len() as u32)
    }

    /// How long a contract takes for a PDU, over time, on a line of this rate.
    pub(crate) fn pdu_time(&self, contract: &TrafficContract, line: CellRate) -> Ps {
        let transmit = contract.transmit.unwrap_or_default();
        Interval::of_rate(transmit.sustained(line)).times(self.pdu_cells().into())
    }

    /// Cells/s over its groups of pictures, rounded up.
    pub(crate) fn cell_s(&self) -> u64 {
        let pdus = self.pdus_of_group().iter().sum::<u64>();
        let cells = u128::from(pdus * u64::from(self.pdu_cells()));
        let clock = (1_000_000 + i64::from(self.ppm)).max(1).unsigned_abs();
        let cells = cells * u128::from(self.fps) * u128::from(clock);
        let cells = cells.div_ceil(GROUP as u128 * 1_000_000);
        u64::try_from(cells).unwrap_or(u64::MAX)
    }

    /// PDUs of each frame of a group.
    fn pdus_of_group(&self) -> [u64; GROUP] {
        let camera = Camera::new(Time::ZERO, self.camera(1));
        let pack = u64::from(self.pack.max(1));
        std::array::from_fn(|frame| u64::from(camera.packets(frame as u64)) / pack)
    }

    /// How much longer a packet takes to leave than from its frame's being made to its place in
    /// it, at most, where a PDU leaves in so long.
    pub(crate) fn longest_wait(&self, pdu: Ps) -> Ps {
        let frame = 1_000_000_000_000 / u64::from(self.fps.max(1));
        let (mut free, mut most) = (0_u64, 0);
        // What the second group finds waiting, each group behind it does.
        for (at, pdus) in (0..).zip([self.pdus_of_group(); 3].as_flattened()) {
            let made = at * frame;
            let begun = free.max(made);
            free = begun.saturating_add(pdu.ps().saturating_mul(*pdus));
            let last = made + frame * (pdus - 1) / pdus;
            most = most
                .max(begun + pdu.ps() - made)
                .max(free.saturating_sub(last));
        }
        Ps::new(most)
    }

    /// How it is played under a contract: as `stream recv` does.
    pub(crate) fn playout(&self, contract: &TrafficContract) -> PlayoutTerms {
        let receive = contract.receive.unwrap_or_default();
        let bursts_ns = match contract.category.is_real_time() || receive.scr.is_some() {
            true => receive.burst_tolerance_ns(CellRate::OC3),
            false => 0,
        };
        let cell_s = receive.peak().on(CellRate::OC3).cell_s();
        PlayoutTerms {
            latency_ns: self.latency_ns,
            bursts_ns,
            recovery: match self.clock {
                ClockSpec::Pcr => Recovery::Timestamps,
                ClockSpec::Occupancy => Recovery::Occupancy,
                ClockSpec::None => Recovery::Off,
            },
            on_loss: match self.lost {
                LostSpec::Drop => OnLoss::Drop,
                LostSpec::Mark => OnLoss::Mark,
            },
            pack: self.pack.into(),
            numbered: true,
            packets_max: match self.packets_max {
                0 => PlayoutTerms::room(cell_s.into(), self.latency_ns, bursts_ns),
                most => most as usize,
            },
        }
    }
}
