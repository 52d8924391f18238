//! A message in fragments, at the end that sends it and at the one that receives it.

use super::packet::{Cut, Fragment, Progress};

/// Fragments that may be under way at a time, at most: a [`Progress`] tells of as many.
pub const WINDOW_MAX: u8 = 64;

/// A message that leaves in bursts: the last fragment of each asks what has come.
#[derive(Clone, Debug)]
pub(super) struct Sending {
    octets: Vec<u8>,
    cut: Cut,
    window: u8,
    /// From 1 on; an answer to another round begins no burst, so that a doubled one begins none.
    round: u16,
    next: u16,
    beyond: u64,
    /// Fragments that leave: a bit each, from this one on.
    from: u16,
    burst: u64,
}

impl Sending {
    /// None: too long for the numbers of its fragments.
    pub(super) fn new(octets: Vec<u8>, size: u16, window: u8) -> Option<Self> {
        let cut = Cut::new(u32::try_from(octets.len()).ok()?, size)?;
        let mut sending = Self {
            octets,
            cut,
            window: window.clamp(1, WINDOW_MAX),
            round: 0,
            next: 0,
            beyond: 0,
            from: 0,
            burst: 0,
        };
        sending.begin_burst();
        Some(sending)
    }

    /// Octets of the message.
    pub(super) const fn len(&self) -> usize {
        self.octets.len()
    }

    pub(super) const fn round(&self) -> u16 {
        self.round
    }

    fn begin_burst(&mut self) {
        self.round = self.round.checked_add(1).unwrap_or(1);
        let left = self.cut.count() - self.next;
        let count = left.min(self.window.into());
        self.from = self.next;
        self.burst = (u64::MAX >> (64 - u32::from(count))) & !(self.beyond << 1);
    }

    /// The other end has so much. True: there is something to poll.
    pub(super) fn handle(&mut self, progress: Progress) -> bool {
        if progress.next >= self.cut.count() || progress.next < self.next {
            return false;
        }
        if progress.next > self.next {
            (self.next, self.beyond) = (progress.next, 0);
        }
        self.beyond |= progress.beyond;
        let is_answer = progress.round == self.round;
        if is_answer {
            self.begin_burst();
        }
        is_answer
    }

    /// Has the first fragment that has not come leave once more, unless a burst is leaving.
    pub(super) fn ask_again(&mut self) {
        if self.burst == 0 {
            (self.from, self.burst) = (self.next, 1);
        }
    }

    /// The next fragment of the burst.
    pub(super) fn poll(&mut self) -> Option<Fragment<'_>> {
        if self.burst == 0 {
            return None;
        }
        let number = self.from + self.burst.trailing_zeros() as u16;
        self.burst &= self.burst - 1;
        Some(Fragment {
            cut: self.cut,
            number,
            round: self.round,
            asks: self.burst == 0,
            octets: &self.octets[self.cut.range(number)],
        })
    }

    /// All of the burst has left.
    pub(super) const fn is_spent(&self) -> bool {
        self.burst == 0
    }
}

/// A message that comes.
#[derive(Clone, Debug)]
pub(super) struct Receiving {
    cut: Cut,
    octets: Vec<u8>,
    progress: Progress,
}

/// What became of a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    Now,
    /// It had come before.
    Before,
    /// It is of another message, or further on than anybody sends.
    Elsewhere,
}

impl Receiving {
    pub(super) fn new(cut: Cut) -> Self {
        Self {
            cut,
            octets: vec![0; cut.length()],
            progress: Progress::default(),
        }
    }

    /// Octets of the message.
    pub(super) const fn len(&self) -> usize {
        self.cut.length()
    }

    pub(super) fn handle(&mut self, fragment: &Fragment<'_>) -> Taken {
        if fragment.cut != self.cut {
            return Taken::Elsewhere;
        }
        let Progress { next, beyond, .. } = &mut self.progress;
        if fragment.number < *next {
            return Taken::Before;
        }
        match fragment.number - *next {
            0 => {
                let run = beyond.trailing_ones();
                *next += 1 + run as u16;
                *beyond = beyond.checked_shr(run + 1).unwrap_or(0);
            }
            ahead @ 1..=64 => {
                let bit = 1 << (ahead - 1);
                if *beyond & bit != 0 {
                    return Taken::Before;
                }
                *beyond |= bit;
            }
            _ => return Taken::Elsewhere,
        }
        self.octets[self.cut.range(fragment.number)].copy_from_slice(fragment.octets);
        Taken::Now
    }

    /// What has come, as an answer to a fragment of this round.
    pub(super) const fn progress(&self, round: u16) -> Progress {
        Progress {
            round,
            ..self.progress
        }
    }

    pub(super) fn is_whole(&self) -> bool {
        self.progress.next == self.cut.count()
    }

    pub(super) fn into_octets(self) -> Vec<u8> {
        self.octets
    }
}
