//! A destination of ABR by the rules of TM 4.0, section 5.10.5.

use serde::{Deserialize, Serialize};

use super::planted::Planted;
use crate::Time;
use crate::wire::{Rm, RmRate};

/// A destination: it turns forward RM cells round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Destination {
    /// EFCI of the last cell of data (rule 1).
    marked: bool,
    /// The forward RM cell that waits to go back.
    waiting: Option<Rm>,
    /// A notice that waits to go back.
    notice: bool,
    /// When the last one was asked for.
    noticed: Option<Time>,
}

type Bug = fn(Planted) -> bool;

impl Destination {
    /// The least time between two notices: 10 a second (rule 5).
    const NOTICE_NS: u64 = 100_000_000;

    /// Cells of data came, the last of them with this EFCI (rule 1).
    pub fn data(&mut self, marked: bool, planted: Bug) {
        self.marked = marked || self.marked && planted(Planted::MarkStays);
    }

    /// A forward RM cell came (rule 3); whether another one that waited is gone for it.
    pub fn forward(&mut self, rm: Rm, planted: Bug) -> bool {
        let late = self.waiting.is_some();
        if !(late && planted(Planted::NewerLost)) {
            self.waiting = Some(rm);
        }
        late
    }

    /// Congestion of its own: the source is told without having asked, 10 times a second at most
    /// (rule 5); whether it will be.
    pub fn congested(&mut self, now: Time, planted: Bug) -> bool {
        let soon = |last: Time| now.since_ns(last) < Self::NOTICE_NS;
        if self.noticed.is_some_and(soon) && !planted(Planted::NoticesUnbounded) {
            return false;
        }
        (self.notice, self.noticed) = (true, Some(now));
        true
    }

    /// Whether a backward RM cell waits.
    pub const fn waits(&self) -> bool {
        self.waiting.is_some() || self.notice
    }

    /// The backward RM cell that leaves now, if one waits: the turned ones in their order (rule 4),
    /// then notices. A destination that is `congested` tells it (rule 2).
    pub fn turn(&mut self, congested: bool, planted: Bug) -> Option<Rm> {
        let Some(rm) = self.waiting else {
            return self.take_notice(planted);
        };
        if !planted(Planted::TurnedTwice) {
            self.waiting = None;
        }
        //= TM 4.0 5.10.5 rule 2
        let told = self.marked && !planted(Planted::MarkNotTold);
        if !planted(Planted::MarkToldTwice) {
            self.marked = false;
        }
        Some(Rm {
            backward: !planted(Planted::DirectionKept),
            backward_notification: false,
            congestion: rm.congestion || told || congested,
            er: match planted(Planted::ExplicitRateLost) {
                true => RmRate(0x7fff),
                false => rm.er,
            },
            ..rm
        })
    }

    fn take_notice(&mut self, planted: Bug) -> Option<Rm> {
        //= TM 4.0 5.10.5 rule 5, table 5-4
        core::mem::take(&mut self.notice).then_some(Rm {
            protocol: Rm::ABR,
            backward: true,
            backward_notification: !planted(Planted::NoticeUnmarked),
            congestion: true,
            // No rate is named: the largest that there is.
            er: RmRate(0x7fff),
            ..Rm::default()
        })
    }

    /// The loss priority of a backward RM cell (rule 6).
    pub fn loss_priority(in_rate: bool, planted: Bug) -> bool {
        !in_rate && !planted(Planted::TurnedHighPriority)
    }
}
