//! What comes: transfers, and the conversation among them.

use std::collections::BTreeMap;
use std::sync::Arc;

use cellgate_simd::Fold;

use crate::Time;
use crate::aal::tree::Tree;
use crate::contract::Aal;
use crate::terminal::conversation::Inbox;
use crate::terminal::window::{DiskPdu, Receiver};
use crate::terminal::{
    Counts, Demultiplexer, Outcome, Pci, Planted, Pointers, ReceiveBuffer, Status, Store, Transfers,
};
use crate::wire::{PAYLOAD_LEN, SarPci};

use super::CONVERSATION;

/// What PDUs of a transfer are put into.
#[derive(Clone, Debug)]
pub(super) enum Room<S> {
    Conversation(Inbox),
    File(S),
}

impl<S: Store> Store for Room<S> {
    #[inline]
    fn write(&mut self, at: u64, octets: &[u8]) {
        match self {
            Self::Conversation(inbox) => inbox.write(at, octets),
            Self::File(store) => store.write(at, octets),
        }
    }

    #[inline(always)]
    fn has(&self, bug: Planted) -> bool {
        match self {
            Self::Conversation(_) => false,
            Self::File(store) => store.has(bug),
        }
    }
}

/// A transfer that is received.
#[derive(Clone, Debug)]
struct One<S> {
    receiver: Receiver<Room<S>>,
    /// The window opens no further than this.
    limit: u64,
}

impl<S: Store> One<S> {
    /// The window moves along with Ap.
    fn open(&mut self, now: Time, window: u64) {
        let ap = self.receiver.buffer().pointers().ap;
        let edge = ap.saturating_add(window).min(self.limit);
        self.receiver.open_to(now, edge);
    }
}

#[derive(Clone, Debug)]
struct All<S>(BTreeMap<u16, One<S>>);

impl<S: Store> Transfers for All<S> {
    type Store = Room<S>;

    fn buffer(&mut self, transfer: u16) -> Option<&mut ReceiveBuffer<Room<S>>> {
        Some(self.0.get_mut(&transfer)?.receiver.buffer_mut())
    }
}

/// What comes.
#[derive(Clone, Debug)]
pub(super) struct Incoming<S> {
    all: All<S>,
    /// Of AAL5, and of SDUs, one; of AAL3/4 one for each MID that was seen.
    demultiplexers: BTreeMap<u16, Demultiplexer>,
    /// A demultiplexer to which nothing has come.
    fresh: Demultiplexer,
    /// The one to which something came last.
    last: u16,
}

impl<S: Store> Incoming<S> {
    pub(super) fn new(tree: &Arc<Tree>, control_max: u16) -> Option<Self> {
        let fresh = Demultiplexer::new(tree.clone(), control_max)?;
        Some(Self {
            all: All(BTreeMap::new()),
            demultiplexers: BTreeMap::from([(0, fresh.clone())]),
            fresh,
            last: 0,
        })
    }

    pub(super) fn counts(&self) -> impl Iterator<Item = &Counts> {
        self.demultiplexers.values().map(Demultiplexer::counts)
    }

    /// What the control PDU says that came last.
    pub(super) fn control(&self) -> &[u8] {
        let last = self.demultiplexers.get(&self.last);
        last.unwrap_or(&self.fresh).control()
    }

    /// The demultiplexer of a MID, which there is from now on.
    fn demultiplexer(&mut self, mid: u16) -> (&mut Demultiplexer, &mut All<S>) {
        self.last = mid;
        let fresh = &self.fresh;
        let demultiplexer = self.demultiplexers.entry(mid);
        (
            demultiplexer.or_insert_with(|| fresh.clone()),
            &mut self.all,
        )
    }

    pub(super) fn sdu(&mut self, sdu: &[u8]) -> Outcome {
        let (demultiplexer, all) = self.demultiplexer(0);
        demultiplexer.sdu(sdu, all)
    }

    #[inline(always)]
    pub(super) fn cell<C: Fold>(
        &mut self,
        fold: C,
        last: bool,
        payload: &[u8; PAYLOAD_LEN],
    ) -> Outcome {
        if self.fresh.aal() == Aal::Aal34 {
            let sar = SarPci::parse(payload);
            let mid = sar.valid().map_or(0, |sar| sar.mid);
            let (demultiplexer, all) = self.demultiplexer(mid);
            return demultiplexer.aal34_cell(&sar, payload, all);
        }
        let (demultiplexer, all) = self.demultiplexer(0);
        demultiplexer.aal5_cell(fold, last, payload, all)
    }

    /// Begins with a transfer; false if there is one with its number.
    pub(super) fn insert(
        &mut self,
        now: Time,
        transfer: u16,
        buffer: ReceiveBuffer<Room<S>>,
        limit: u64,
    ) -> bool {
        if self.all.0.contains_key(&transfer) {
            return false;
        }
        let receiver = Receiver::new(now, buffer);
        self.all.0.insert(transfer, One { receiver, limit });
        true
    }

    pub(super) fn remove(&mut self, transfer: u16) -> Option<S> {
        self.store_mut(transfer)?;
        let one = self.all.0.remove(&transfer)?;
        match one.receiver.into_buffer().into_store() {
            Room::File(store) => Some(store),
            Room::Conversation(_) => None,
        }
    }

    pub(super) fn store_mut(&mut self, transfer: u16) -> Option<&mut S> {
        match self.all.buffer(transfer)?.store_mut() {
            Room::File(store) => Some(store),
            Room::Conversation(_) => None,
        }
    }

    /// What was heard and not read, and octets of the conversation that have come.
    pub(super) fn inbox(&mut self) -> Option<(&mut Inbox, u64)> {
        let buffer = self.all.buffer(CONVERSATION)?;
        let come = buffer.pointers().ap;
        match buffer.store_mut() {
            Room::Conversation(inbox) => Some((inbox, come)),
            Room::File(_) => None,
        }
    }

    pub(super) fn pointers(&self, transfer: u16) -> Option<Pointers> {
        let one = self.all.0.get(&transfer)?;
        Some(one.receiver.buffer().pointers())
    }

    pub(super) fn allow(&mut self, now: Time, transfer: u16, limit: u64, window: u64) {
        if let Some(one) = self.all.0.get_mut(&transfer) {
            one.limit = limit;
            one.open(now, window);
        }
    }

    pub(super) fn open(&mut self, now: Time, transfer: u16, window: u64) {
        if let Some(one) = self.all.0.get_mut(&transfer) {
            one.open(now, window);
        }
    }

    pub(super) fn open_to(&mut self, now: Time, transfer: u16, edge: u64) {
        if let Some(one) = self.all.0.get_mut(&transfer) {
            one.receiver.open_to(now, edge);
        }
    }

    pub(super) fn handle(&mut self, now: Time, pci: &Pci, complete: bool) {
        if let Some(one) = self.all.0.get_mut(&pci.transfer) {
            one.receiver.handle(now, pci, complete);
        }
    }

    pub(super) fn acknowledge(&mut self, transfer: u16) -> Option<Option<DiskPdu>> {
        self.all.0.get_mut(&transfer)?.receiver.acknowledge()
    }

    /// The next status that is due.
    pub(super) fn poll<'a>(&mut self, now: Time, above: &'a mut [u8]) -> Option<(u16, Status<'a>)> {
        let mut all = self.all.0.iter_mut();
        let (transfer, one) = all.find(|(_, one)| one.receiver.next_deadline() <= now)?;
        Some((*transfer, one.receiver.poll(now, above)?))
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        let all = self.all.0.values();
        all.map(|one| one.receiver.next_deadline()).min()
    }
}
