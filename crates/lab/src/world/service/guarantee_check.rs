//! What was admitted at both ends and conforms loses nothing.

use std::collections::BTreeMap;

use crate::world::Ps;
use crate::world::incident::SETTLED;

/// PDUs of one connection that must arrive.
#[derive(Debug, Default)]
pub(super) struct Promise {
    /// And when a shaper is to have sent each; none: it was sent as best effort.
    due: BTreeMap<u64, Option<Ps>>,
    /// Nothing is promised of what is handed over before.
    from: Ps,
    /// Whatever was cut short takes the next PDU with it.
    passes_over: bool,
    /// More was sent than the reader is promised, and it is policed for that still.
    is_exceeded: bool,
    /// Something was promised to a sender or a reader that is best effort.
    pub(super) is_best_effort: bool,
    /// Something was sent to the present reader.
    is_used: bool,
    /// When something was handed over last; and when last by a sender that promises no rate, or a
    /// higher one than the reader does.
    handed_over: Option<Ps>,
    exceeding: Option<Ps>,
    /// PDUs that were promised, and have arrived.
    pub(super) kept: u64,
    /// Of these, sent as best effort.
    pub(super) kept_as_best_effort: u64,
    /// The longest that one of them has taken from when it was to be sent.
    pub(super) longest: Ps,
}

impl Promise {
    /// Something has happened that can cost PDUs, or will until `until`.
    pub(super) fn is_broken(&mut self, until: Ps) {
        self.due.clear();
        self.from = self.from.max(until.plus(SETTLED));
        self.passes_over = true;
    }

    /// A PDU is handed over.
    pub(super) fn is_handed_over(&mut self, now: Ps) {
        self.is_used = true;
        self.handed_over = Some(now);
    }

    /// PDU `number`, which is handed over and is to be sent by `leaves`, must arrive. A reader that
    /// is not `policed` has no contract that what was sent before can have exceeded.
    pub(super) fn makes(&mut self, now: Ps, number: u64, leaves: Option<Ps>, policed: bool) {
        let is_exceeded = self.is_exceeded && policed;
        if now >= self.from && !std::mem::take(&mut self.passes_over) && !is_exceeded {
            self.due.insert(number, leaves);
            self.is_best_effort |= leaves.is_none();
        }
    }

    /// By what is handed over more is sent than the reader is promised.
    pub(super) fn is_exceeded_by_sender(&mut self, now: Ps) {
        self.exceeding = Some(now);
        self.is_exceeded();
    }

    /// More comes than the reader is promised.
    pub(super) fn is_exceeded(&mut self) {
        self.due.clear();
        self.is_exceeded = true;
    }

    /// The sender begins anew, and has a burst once more: together that can be more than the reader
    /// is promised.
    pub(super) fn is_sent_anew(&mut self) {
        if self.is_used {
            self.is_exceeded();
        }
    }

    /// The reader is another, and polices anew: what is under way, too.
    pub(super) fn begins_anew(&mut self, now: Ps) {
        let is_under_way = |at: Option<Ps>| at.is_some_and(|at| at.plus(SETTLED) >= now);
        self.is_exceeded = is_under_way(self.exceeding);
        self.is_used = is_under_way(self.handed_over);
    }

    /// PDU `number` is there.
    pub(super) fn keeps(&mut self, now: Ps, number: u64) {
        if let Some(leaves) = self.due.remove(&number) {
            self.kept += 1;
            self.kept_as_best_effort += u64::from(leaves.is_none());
            let took = leaves.map_or(Ps::ZERO, |leaves| now.since(leaves));
            self.longest = self.longest.max(took);
        }
    }

    /// The first PDU that is missing, and how many are.
    pub(super) fn missing(&self) -> Option<(u64, usize)> {
        Some((*self.due.first_key_value()?.0, self.due.len()))
    }
}
