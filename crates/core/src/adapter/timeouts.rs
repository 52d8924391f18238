use serde::{Deserialize, Serialize};

use super::{Adapter, Attachment, Board, Planted, Region, VcIndex};
use crate::Time;

/// The VCs whose reassembly can be late: those of AAL3/4. As a rule a step looks at one number.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Timeouts {
    vcs: Vec<VcIndex>,
    /// No PDU of any VC is late before this.
    earliest: Option<Time>,
}

impl Timeouts {
    /// For at most so many VCs.
    pub(super) fn new(vcs: usize) -> Self {
        Self {
            vcs: Vec::with_capacity(vcs),
            earliest: None,
        }
    }

    pub(super) fn add(&mut self, vc: VcIndex) {
        self.vcs.push(vc);
    }

    pub(super) fn remove(&mut self, vc: VcIndex) {
        if let Some(at) = self.vcs.iter().position(|known| *known == vc) {
            self.vcs.swap_remove(at);
        }
    }

    /// A PDU of some VC may be late at `deadline`, if there is one.
    pub(super) fn note(&mut self, deadline: Option<Time>) {
        self.earliest = self.earliest.into_iter().chain(deadline).min();
    }

    pub(super) const fn earliest(&self) -> Option<Time> {
        self.earliest
    }
}

impl<R: Region, A: Attachment> Adapter<R, A> {
    /// Gives up PDUs that are late. Looks at each AAL3/4 VC, if it may be that one is.
    #[inline]
    pub(super) fn expire_reassembly<B: Board<Region = R, Attachment = A>>(
        &mut self,
        now: Time,
        board: &mut B,
    ) {
        let due = self.timeouts.earliest.is_some_and(|at| at <= now);
        if due && !board.planted(Planted::ReassemblyNotTimed) {
            self.give_up_late(now, board);
        }
    }

    #[cold]
    fn give_up_late<B: Board<Region = R, Attachment = A>>(&mut self, now: Time, board: &mut B) {
        self.timeouts.earliest = None;
        for at in 0..self.timeouts.vcs.len() {
            let Some(&index) = self.timeouts.vcs.get(at) else {
                break;
            };
            let reception = self.reception(now, index, board);
            let deadline = reception.and_then(|mut reception| reception.expire());
            self.timeouts.note(deadline);
        }
    }
}
