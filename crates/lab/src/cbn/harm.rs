use super::{CbnBug, Ring};
use crate::world::Ps;

/// What a fault does to a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotHarm {
    /// What lies in the slot of a frame is lost; of no channel: in all of them.
    Lost { frame: u32, channel: Option<u8> },
    /// A bit of a slot is another, the first that of its type.
    Flipped { frame: u32, channel: u8, bit: u16 },
    /// The VCI of a slot is all ones from here on, also behind a station that empties it; or it is
    /// so no more.
    Stuck {
        frame: u32,
        channel: u8,
        is_stuck: bool,
    },
    /// The ring is cut before place 0, or is closed again: what comes there is lost.
    Cut(bool),
    /// The monitor sees what passes, or does not.
    Monitored(bool),
}

impl Ring {
    pub fn harm(&mut self, at: Ps, harm: SlotHarm) {
        match harm {
            SlotHarm::Lost { frame, channel } => {
                let all = 0..self.spec().channels;
                for channel in all.filter(|one| channel.is_none_or(|channel| channel == *one)) {
                    self.loses(at, frame, channel);
                    if self.bug == Some(CbnBug::FrameLostInPart) {
                        break;
                    }
                }
            }
            SlotHarm::Flipped {
                frame,
                channel,
                bit,
            } => self.flips(at, frame, channel, bit),
            SlotHarm::Stuck {
                frame,
                channel,
                is_stuck,
            } => self.sticks(at, frame, channel, is_stuck),
            SlotHarm::Cut(is_cut) => self.is_cut = is_cut,
            SlotHarm::Monitored(is_monitored) => self.is_monitored = is_monitored,
        }
    }
}
