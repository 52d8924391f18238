//! I10: what clients are told follows from what has come of PDUs that conform, and from nothing
//! else: no event of a cell of nobody's or of a PDU that was refused, but one that says so each
//! time that its reader has given something back, and no interrupt without an event.

use cellgate_core::adapter::{
    AttachmentIndex, Discard, Event, EventKind, Notification, Outcome, VcId, VcInfo,
};

use super::Host;
use crate::board::LabCompletion;

/// What was told of a VC.
#[derive(Clone, Copy, Debug, Default)]
struct Of {
    received: u64,
    thresholds: u64,
    /// That its queue is full, since its reader has given PDUs back or has got other memory.
    full: u64,
}

/// What clients were told.
#[derive(Clone, Debug, Default)]
pub(super) struct Told {
    /// By the slot of the VC.
    vcs: Vec<Of>,
    /// Events of each client since it was interrupted.
    since: Vec<u64>,
}

/// The one of this number.
fn of<T: Default>(all: &mut Vec<T>, number: u16) -> &mut T {
    let number = usize::from(number);
    if number >= all.len() {
        all.resize_with(number + 1, T::default);
    }
    &mut all[number]
}

impl Told {
    /// What is wrong with an event, if anything.
    pub(super) fn posted(&mut self, index: AttachmentIndex, event: &Event) -> Option<String> {
        *of(&mut self.since, index.0) += 1;
        let of = of(&mut self.vcs, event.vc.index.0);
        match event.kind {
            EventKind::PduReceived => of.received += 1,
            EventKind::ReceiveQueueFull => of.full += 1,
            EventKind::ReceiveQueueOverThreshold => of.thresholds += 1,
            EventKind::TransmitCompleted => {}
        }
        let (vc, full) = (event.vc, of.full);
        (full > 1).then(|| format!("{vc:?} is told {full} times that its queue is full"))
    }

    /// What is wrong with an interrupt, if anything.
    pub(super) fn interrupted(&mut self, index: AttachmentIndex) -> Option<String> {
        let since = std::mem::take(of(&mut self.since, index.0));
        (since == 0).then(|| format!("{index:?} is interrupted without an event"))
    }

    fn gives_back(&mut self, vc: VcId) {
        of(&mut self.vcs, vc.index.0).full = 0;
    }

    /// What was wrong with the events of a VC, if anything, once that is closed.
    pub(super) fn completed(&mut self, completion: &LabCompletion) -> Option<String> {
        match &completion.result {
            Ok(Outcome::Vc(vc)) => {
                self.gives_back(*vc);
                None
            }
            Ok(Outcome::Closed(info)) => {
                let of = std::mem::take(of(&mut self.vcs, info.vc.index.0));
                of.beyond(info)
            }
            _ => None,
        }
    }
}

impl Of {
    /// What there is too much of.
    fn beyond(&self, info: &VcInfo) -> Option<String> {
        let stats = &info.stats;
        let receive = info.request.receive;
        let notification = receive.map_or(Notification::Polled, |receive| receive.notification);
        let refused = [Discard::NonConforming, Discard::Overload];
        let refused = refused.map(|reason| stats.cells_discarded.of(reason));
        let taken = stats.cells_received - refused.iter().sum::<u64>();
        let due = match notification {
            Notification::Polled => 0,
            Notification::LastCell | Notification::Silent { .. } => stats.pdus_delivered,
            // Of PDUs that are lost later, too.
            Notification::FirstCell | Notification::EveryCell => taken,
            Notification::FirstAndLastCell => taken + stats.pdus_delivered,
        };
        let thresholds = receive.is_some_and(|receive| receive.queue_threshold > 0);
        let wrong = self.received > due || self.thresholds > 0 && !thresholds;
        wrong.then(|| format!("{self:?} events on {}, {due} due", info.request.address))
    }
}

impl Host {
    /// The reader of a VC has given back what it has read.
    pub(crate) fn gives_back(&mut self, vc: VcId) {
        self.watch.told.gives_back(vc);
    }
}
