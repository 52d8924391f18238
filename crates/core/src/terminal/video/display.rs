//! The stand-in of a display: each frame is judged when it is to be shown.
//!
//! A decoder has a frame's packets for one frame's time while they come, and shows it one frame's
//! time later: two behind the instant at which its first packet is due.

use super::Shot;
use crate::Time;
use crate::wire::TS_LEN;

/// Numbers of packets that are remembered by name.
const NAMED: usize = 4_096;

/// How frames were.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct DisplayCounts {
    /// Frames that were whole when they were to be shown.
    pub on_time: u64,
    /// Frames that were whole too late.
    pub late: u64,
    /// Frames of which packets were missing.
    pub missing: u64,
    /// Packets that were not a camera's, or damaged.
    pub strange: u64,
    /// Packets of the camera that came.
    pub packets: u64,
    /// Packets that did not, from the first that came to the last.
    pub missing_packets: u64,
    /// Their numbers, as ranges that are whole; not all if there are too many.
    pub named: Vec<(u64, u64)>,
    /// From a frame's last packet to when it was to be shown, at least; in ns.
    pub margin_min_ns: Option<i64>,
    /// From the camera to the display, where both read one clock: least and most, in ns.
    pub delay_min_ns: Option<u64>,
    /// See there.
    pub delay_max_ns: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    number: u64,
    count: u32,
    came: u32,
    shown: Option<Time>,
    last: Time,
}

/// A display.
#[derive(Clone, Debug)]
pub struct Display {
    frame_ns: u64,
    frame: Option<Frame>,
    next: Option<u64>,
    counts: DisplayCounts,
}

impl Display {
    /// Of so many frames a second.
    pub fn new(fps: u32) -> Self {
        Self {
            frame_ns: 1_000_000_000 / u64::from(fps.max(1)),
            frame: None,
            next: None,
            counts: DisplayCounts::default(),
        }
    }

    /// A packet that was `due` is released at `now`.
    pub fn handle(&mut self, now: Time, due: Time, packet: &[u8; TS_LEN]) {
        let Some(shot) = Shot::parse(packet) else {
            self.counts.strange += 1;
            return;
        };
        self.counts.packets += 1;
        let delay = now.since_ns(shot.stamp);
        let (min, max) = (self.counts.delay_min_ns, self.counts.delay_max_ns);
        self.counts.delay_min_ns = Some(min.map_or(delay, |min| min.min(delay)));
        self.counts.delay_max_ns = Some(max.map_or(delay, |max| max.max(delay)));
        self.numbered(shot.number);
        if self.frame.is_none_or(|frame| frame.number != shot.frame) {
            self.judge();
            self.skipped(shot.frame);
            self.frame = Some(Frame {
                number: shot.frame,
                count: shot.count,
                came: 0,
                shown: None,
                last: now,
            });
        }
        if let Some(frame) = &mut self.frame {
            frame.came += 1;
            frame.last = now;
            if shot.index == 0 {
                frame.shown = Some(due.plus_ns(2 * self.frame_ns));
            }
        }
    }

    /// The packet's number: what stands between it and the last is missing.
    fn numbered(&mut self, number: u64) {
        let next = self.next.replace(number.saturating_add(1));
        let Some(next) = next.filter(|next| *next < number) else {
            return;
        };
        self.counts.missing_packets += number - next;
        if self.counts.named.len() < NAMED {
            self.counts.named.push((next, number - 1));
        }
    }

    /// Frames between the last and this one of which nothing came.
    fn skipped(&mut self, number: u64) {
        if let Some(frame) = self.frame {
            self.counts.missing += number.saturating_sub(frame.number.saturating_add(1));
        }
    }

    fn judge(&mut self) {
        let Some(frame) = self.frame else {
            return;
        };
        let Some(shown) = frame.shown.filter(|_| frame.came == frame.count) else {
            self.counts.missing += 1;
            return;
        };
        // Times since the machine's start.
        let margin = shown.ns() as i64 - frame.last.ns() as i64;
        let least = self.counts.margin_min_ns;
        self.counts.margin_min_ns = Some(least.map_or(margin, |least| least.min(margin)));
        match margin < 0 {
            true => self.counts.late += 1,
            false => self.counts.on_time += 1,
        }
    }

    /// How frames were, the last included.
    pub fn end(mut self) -> DisplayCounts {
        self.judge();
        self.frame = None;
        self.counts
    }

    /// How frames were so far.
    pub const fn counts(&self) -> &DisplayCounts {
        &self.counts
    }
}
