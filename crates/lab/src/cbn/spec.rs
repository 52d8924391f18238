use serde::{Deserialize, Serialize};

use crate::world::Ps;

/// The end that empties a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Release {
    /// Its source, a rotation later.
    #[default]
    Source,
    /// Its destination, which may fill it at once. (Not this network's.)
    Destination,
}

/// The use that a source may make of a slot that it has emptied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reuse {
    /// It passes the slot on.
    #[default]
    PassedOn,
    /// It may fill the slot again. (Not this network's.)
    AtOnce,
}

/// A ring's shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingSpec {
    /// A slot's time for its way round.
    pub rotation: Ps,
    /// Frames on the ring, each of a slot a channel.
    pub frames: u32,
    pub channels: u8,
    /// Places for stations, at equal distances.
    pub places: u32,
    pub release: Release,
    pub reuse: Reuse,
    /// Slots that a station may have filled on a channel at a time; 0: any number.
    pub outstanding: u32,
}

impl RingSpec {
    /// The ring of the paper: section 4.1.
    pub const PAPER: Self = Self {
        rotation: Ps::from_ns(22_700),
        frames: 7,
        channels: 4,
        places: 256,
        release: Release::Source,
        reuse: Reuse::PassedOn,
        outstanding: 0,
    };

    /// The VCI of a slot that is stuck full: no circuit's.
    pub const STUCK_VCI: u16 = u16::MAX;

    /// The time at which the front of frame `number`, counted from the one that passes place 0 at
    /// time 0, passes `place`. A frame has a new number each time round. Rounded down to a
    /// picosecond.
    pub const fn passes(&self, number: u64, place: u32) -> Ps {
        let (frames, places) = (self.frames as u128, self.places as u128);
        let steps = number as u128 * places + place as u128 * frames;
        Ps::new((self.rotation.ps() as u128 * steps / (frames * places)) as u64)
    }

    /// The first frame whose front passes `place` at `at` or later.
    pub const fn first_from(&self, at: Ps, place: u32) -> u64 {
        let (frames, places) = (self.frames as u128, self.places as u128);
        let steps = at.ps() as u128 * frames * places;
        let offset = place as u128 * frames * self.rotation.ps() as u128;
        let unit = self.rotation.ps() as u128 * places;
        let near = (steps.saturating_sub(offset) / unit) as u64;
        let mut number = near;
        while self.passes(number, place).ps() < at.ps() {
            number += 1;
        }
        number
    }

    /// The same fibre with a clock that is `numerator / denominator` times as fast: it holds as
    /// many more frames, but for what is none.
    pub const fn at_clock(self, numerator: u32, denominator: u32) -> Self {
        Self {
            frames: self.frames * numerator / denominator,
            ..self
        }
    }

    /// A frame's time to pass, in `parts` of it: how long `part` of them take. Rounded down.
    pub const fn frame_part(&self, part: u32, parts: u32) -> Ps {
        let whole = self.rotation.ps() as u128 * part as u128;
        Ps::new((whole / (self.frames as u128 * parts as u128)) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seven_frames_take_a_rotation_and_drift_by_nothing() {
        let ring = RingSpec::PAPER;
        assert_eq!(ring.passes(7, 0), ring.rotation);
        assert_eq!(ring.passes(7_000_000, 0).ps(), 1_000_000 * 22_700_000);
        assert_eq!(ring.passes(0, 128).ps(), 11_350_000);
        assert_eq!(ring.frame_part(1, 1).ps(), 3_242_857);
        for number in [0, 1, 6, 7, 1_000_003] {
            for place in [0, 1, 255] {
                let at = ring.passes(number, place);
                assert_eq!(ring.first_from(at, place), number);
                assert_eq!(ring.first_from(at.plus(Ps::new(1)), place), number + 1);
            }
        }
    }
}
