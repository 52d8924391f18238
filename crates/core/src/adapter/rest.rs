//! Whether the firmware may rest, and until when.
//!
//! A step does a part of what waits: 16 doorbells, one command, a port's budget. Whoever rests
//! after it must know that nothing waits at all, so this look is complete.

use super::{Adapter, Attachment, Board, Planted, PortIndex, Region};
use crate::Time;

/// What there is to do for an adapter to which nothing comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// Something now: the next step does it, or a part of it.
    Busy,
    /// Nothing before these times; none: never.
    Until {
        /// A step is wanted at this time.
        exact: Option<Time>,
        /// A step is wanted soon after this time: what is shaped may be late by as much again as it
        /// is by then, and its contract holds.
        shaped: Option<Time>,
    },
}

impl Rest {
    /// When a step is wanted, of one that rests.
    pub fn until(self) -> Option<Time> {
        match self {
            Self::Busy => None,
            Self::Until { exact, shaped } => exact.into_iter().chain(shaped).min(),
        }
    }
}

impl<R: Region, A: Attachment> Adapter<R, A> {
    /// Whether a step at `now`, right after the one before, would do anything, and if not, when one
    /// will. The board has looked at its ports since that step.
    ///
    /// Work: a load for each client, a look at each used port and at each command that waits.
    pub fn rest<B: Board<Region = R, Attachment = A>>(&self, now: Time, board: &B) -> Rest {
        let waits = board.waits() && !board.planted(Planted::RestForgetsWhatWaits);
        if waits || self.clients.has_doorbells(board) || self.has_oam_to_send(board) {
            return Rest::Busy;
        }
        let exact = self.exact_deadline(board);
        let last = usize::from(board.planted(Planted::RestForgetsAPort));
        let lines = (0..self.used_ports(board).saturating_sub(last)).map(|at| PortIndex(at as u8));
        // A line that is held takes nothing: the board says when to try it again.
        let shaped = lines
            .filter(|line| !board.is_held(*line) || board.planted(Planted::RestSpinsOnHeld))
            .filter_map(|line| {
                self.schedule
                    .rest_until(now, line, |bug| board.planted(bug))
            })
            .min();
        let due = exact.into_iter().chain(shaped).any(|at| at <= now);
        match due {
            true => Rest::Busy,
            false => Rest::Until { exact, shaped },
        }
    }

    /// The earliest of the deadlines that allow no lateness.
    fn exact_deadline<B: Board<Region = R, Attachment = A>>(&self, board: &B) -> Option<Time> {
        let known = |bug, at: Option<Time>| at.filter(|_| !board.planted(bug));
        let pending = self.pending.iter().map(|pending| pending.deadline).min();
        let loopbacks = self.loopbacks.deadlines().min();
        let all = [
            known(Planted::RestForgetsSilent, self.clients.next_deadline()),
            known(Planted::RestForgetsReassembly, self.timeouts.earliest()),
            known(Planted::RestForgetsPending, pending),
            known(Planted::RestForgetsNoReturn, loopbacks),
            known(Planted::RestForgetsProbes, self.probe_deadline()),
            known(Planted::RestForgetsTheBoard, board.next_deadline()),
        ];
        all.into_iter().flatten().min()
    }

    /// Whether an OAM cell would leave in the next step.
    fn has_oam_to_send<B: Board<Region = R, Attachment = A>>(&self, board: &B) -> bool {
        let ports = self.ports.iter().enumerate();
        let mut ports = ports.map(|(at, port)| (PortIndex(at as u8), port));
        ports.any(|(index, port)| {
            let replies = !port.replies.is_empty() && !board.planted(Planted::RestForgetsReplies);
            let loopback =
                self.loopbacks.wait_for(index) && !board.planted(Planted::RestForgetsLoopbacks);
            let rm = !port.rm.is_empty();
            (replies || rm || loopback) && !board.is_held(index)
        })
    }

    /// Doorbells ever answered.
    pub fn doorbells_answered(&self) -> u64 {
        self.clients.answered()
    }

    /// The least lateness that any VC with a rate makes good when it sends, rounded down by an
    /// eighth at most; none: no VC has a rate.
    pub fn least_cdvt_ns(&self) -> Option<u64> {
        self.schedule.least_cdvt_ns()
    }
}
