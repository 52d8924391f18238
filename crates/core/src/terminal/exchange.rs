//! All that two terminals exchange on one VC: a conversation, and transfers both ways.
//!
//! ```text
//!         say                          hear
//!          |                            ^
//!    +-----v----+  send (a Source)  +---+-----+   receive (a Store)
//!    |  outbox  |   |     |         |  inbox  |    ^     ^
//!    +-----+----+   |     |         +---^-----+    |     |
//!          |   transfers 1, 2 ...       |     transfers 1, 2 ...
//!    +-----v--------v-----v----+    +---+----------+-----+------+
//!    |        multiplexer      |    |        demultiplexer      |
//!    +------------+------------+    +------------^--------------+
//!                 | poll                         | handle
//! ```
//!
//! A terminal has a run, a number drawn anew each time that it begins. Each says its run in a
//! hello, and PDUs of any other run are thrown away.

mod peer;

use core::ops::RangeInclusive;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::Time;
use crate::aal::tree::{Place, Tree};

use super::conversation::{Inbox, Outbox, TooLong};
use super::window::{DiskPdu, Receiver, Sender, Split};
use super::{
    Arq, Control, Counts, Demultiplexer, Kind, Multiplexer, Outcome, Pci, ReceiveBuffer, Source,
    Status, Store, Terms, Transfers, TransmitBuffer,
};
use peer::Peer;

/// What both ends of a VC know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangeTerms {
    /// This terminal's run; not 0, and drawn anew for each exchange.
    pub run: u32,
    pub arq: Arq,
    /// PDUs of a transfer that may be on their way and not acknowledged.
    pub window_pdus: u32,
    /// Octets of a transfer that may be.
    pub window: u64,
    /// Octets of payload in a PDU.
    pub pdu_len: u16,
    /// Whether this terminal begins. The other answers.
    pub begins: bool,
}

/// What has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A disk-PDU of this transfer has come as a whole.
    DiskPdu { transfer: u16, disk_pdu: DiskPdu },
    /// The other terminal has begun anew: this exchange is over, for the next see
    /// [`Exchange::next`].
    Restarted,
    /// The other terminal says what cannot be; the exchange is of no use any more.
    Fault,
}

/// What PDUs of a transfer are put into.
#[derive(Clone, Debug)]
enum Room<S> {
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
}

/// A transfer that is received.
#[derive(Clone, Debug)]
struct Incoming<S> {
    receiver: Receiver<Room<S>>,
    /// The window opens no further than this.
    limit: u64,
}

#[derive(Clone, Debug)]
struct IncomingTransfers<S>(BTreeMap<u16, Incoming<S>>);

impl<S: Store> Transfers for IncomingTransfers<S> {
    type Store = Room<S>;

    fn buffer(&mut self, transfer: u16) -> Option<&mut ReceiveBuffer<Room<S>>> {
        let incoming = self.0.get_mut(&transfer)?;
        Some(incoming.receiver.buffer_mut())
    }
}

/// The conversation's number among the transfers.
const CONVERSATION: u16 = 0;

/// All that two terminals exchange on one VC.
#[derive(Clone, Debug)]
pub struct Exchange<F, S> {
    terms: ExchangeTerms,
    tree: Arc<Tree>,
    multiplexer: Multiplexer,
    demultiplexer: Demultiplexer,
    peer: Peer,
    said: Sender<Outbox>,
    outgoing: BTreeMap<u16, Sender<F>>,
    incoming: IncomingTransfers<S>,
    /// The transfer that was sent last: the others come first.
    last_sent: u16,
    events: VecDeque<Event>,
    above: Box<[u8]>,
    heard_at: Time,
}

impl<F: Source, S: Store> Exchange<F, S> {
    /// Nothing was said or heard. `tree` is one with
    /// [`DiskHeader::LENGTHS`](super::DiskHeader::LENGTHS): none if not.
    pub fn new(now: Time, terms: ExchangeTerms, tree: &Arc<Tree>) -> Option<Self> {
        (tree.lengths() == super::DiskHeader::LENGTHS).then_some(())?;
        let above = (terms.window_pdus as usize).div_ceil(8);
        let control_max = (Status::FIXED + above) as u16;
        let outbox = TransmitBuffer::new(
            tree,
            stream(&terms, CONVERSATION, terms.run),
            Outbox::default(),
        );
        let split = Split {
            pdu_len: terms.pdu_len,
            disk_len: None,
            file_len: None,
        };
        let mut said = Sender::new(outbox, split);
        // As far as the other end's inbox, which is like the one here.
        said.buffer_mut().open_to(Inbox::default().edge());
        Some(Self {
            terms,
            tree: tree.clone(),
            multiplexer: Multiplexer::new(tree.clone(), 0)?,
            demultiplexer: Demultiplexer::new(tree.clone(), control_max)?,
            peer: Peer::new(now, terms.begins),
            said,
            outgoing: BTreeMap::new(),
            incoming: IncomingTransfers(BTreeMap::new()),
            last_sent: 0,
            events: VecDeque::new(),
            above: vec![0; above].into_boxed_slice(),
            heard_at: now,
        })
    }

    /// What was agreed on.
    pub const fn terms(&self) -> &ExchangeTerms {
        &self.terms
    }

    /// Whether each terminal knows the other.
    pub fn is_established(&self) -> bool {
        self.peer.run().is_some()
    }

    /// When something of the other terminal came last.
    pub const fn heard_at(&self) -> Time {
        self.heard_at
    }

    /// What has come.
    pub const fn counts(&self) -> &Counts {
        self.demultiplexer.counts()
    }

    /// What has happened; to be drained behind each call that hands something in.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Says a message of at most [`MESSAGE_MAX`](super::MESSAGE_MAX) octets.
    pub fn say(&mut self, message: &[u8]) {
        self.said.buffer_mut().source_mut().push(message);
    }

    /// Octets of messages that the other end has not acknowledged.
    pub fn unsaid(&mut self) -> usize {
        self.said.buffer_mut().source_mut().len()
    }

    /// Reads the next message into `message`; false if there is none.
    pub fn hear(&mut self, now: Time, message: &mut Vec<u8>) -> Result<bool, TooLong> {
        let Some(incoming) = self.incoming.0.get_mut(&CONVERSATION) else {
            return Ok(false);
        };
        let come = incoming.receiver.buffer().pointers().ap;
        let Room::Conversation(inbox) = incoming.receiver.buffer_mut().store_mut() else {
            return Ok(false);
        };
        let is_there = inbox.pop(come, message)?;
        let edge = inbox.edge();
        incoming.receiver.open_to(now, edge);
        Ok(is_there)
    }

    /// Receives octets `start` to `end` of a file as this transfer, as far as `limit` at first.
    /// False if the number is in use, or the other terminal is not known.
    pub fn receive(
        &mut self,
        now: Time,
        transfer: u16,
        (start, end): (u64, u64),
        limit: u64,
        store: S,
    ) -> bool {
        let Some(run) = self.peer.run() else {
            return false;
        };
        if self.incoming.0.contains_key(&transfer) {
            return false;
        }
        let terms = Terms {
            start,
            end,
            ..stream(&self.terms, transfer, run)
        };
        let mut buffer = ReceiveBuffer::new(&self.tree, terms, Room::File(store));
        buffer.open_to((start + self.terms.window).min(limit));
        let receiver = Receiver::new(now, buffer);
        self.incoming
            .0
            .insert(transfer, Incoming { receiver, limit });
        true
    }

    /// Lets the window of a transfer open to `limit`.
    pub fn allow(&mut self, now: Time, transfer: u16, limit: u64) {
        if let Some(incoming) = self.incoming.0.get_mut(&transfer) {
            incoming.limit = limit;
            incoming.open(now, self.terms.window);
        }
    }

    /// Up to where a transfer is acknowledged, and where its window ends.
    pub fn received(&self, transfer: u16) -> Option<(u64, u64)> {
        let pointers = self.incoming.0.get(&transfer)?.receiver.buffer().pointers();
        Some((pointers.ap, pointers.edge))
    }

    /// Where a transfer's payload is put.
    pub fn store_mut(&mut self, transfer: u16) -> Option<&mut S> {
        let incoming = self.incoming.0.get_mut(&transfer)?;
        match incoming.receiver.buffer_mut().store_mut() {
            Room::File(store) => Some(store),
            Room::Conversation(_) => None,
        }
    }

    /// Receives no more of a transfer.
    pub fn end_receive(&mut self, transfer: u16) -> Option<S> {
        self.store_mut(transfer)?;
        match self
            .incoming
            .0
            .remove(&transfer)?
            .receiver
            .into_buffer()
            .into_store()
        {
            Room::File(store) => Some(store),
            Room::Conversation(_) => None,
        }
    }

    /// Sends octets `start` to `end` of a file as this transfer; the receiver has room up to
    /// `edge`. The transfer replaces one with the same number.
    pub fn send(
        &mut self,
        transfer: u16,
        (start, end): (u64, u64),
        edge: u64,
        split: Split,
        source: F,
    ) {
        let terms = Terms {
            start,
            end,
            ..stream(&self.terms, transfer, self.terms.run)
        };
        let mut buffer = TransmitBuffer::new(&self.tree, terms, source);
        buffer.open_to(edge);
        self.outgoing.insert(transfer, Sender::new(buffer, split));
    }

    /// A transfer that is sent.
    pub fn outgoing(&self, transfer: u16) -> Option<&Sender<F>> {
        self.outgoing.get(&transfer)
    }

    /// As [`Self::outgoing`], to be changed.
    pub fn outgoing_mut(&mut self, transfer: u16) -> Option<&mut Sender<F>> {
        self.outgoing.get_mut(&transfer)
    }

    /// Sends no more of a transfer.
    pub fn end_send(&mut self, transfer: u16) -> Option<Sender<F>> {
        self.outgoing.remove(&transfer)
    }

    /// Takes an SDU that has come.
    pub fn handle_sdu(&mut self, now: Time, sdu: &[u8]) {
        let outcome = self.demultiplexer.sdu(sdu, &mut self.incoming);
        self.handle(now, outcome);
    }

    fn handle(&mut self, now: Time, outcome: Outcome) {
        match outcome {
            Outcome::Complete(pci) => self.handle_data(now, &pci, true),
            Outcome::Control(pci) => self.handle_control(now, &pci),
            Outcome::Discarded(_, Some(pci)) if Some(pci.run) == self.peer.run() => {
                self.handle_data(now, &pci, false);
            }
            Outcome::Discarded(_, Some(_)) => self.peer.handle_stranger(now),
            Outcome::Discarded(_, None) | Outcome::Held | Outcome::Skipped(_) => {}
        }
    }

    fn handle_data(&mut self, now: Time, pci: &Pci, complete: bool) {
        self.heard_at = now;
        let Some(incoming) = self.incoming.0.get_mut(&pci.transfer) else {
            return;
        };
        incoming.receiver.handle(now, pci, complete);
        while let Some(disk_pdu) = incoming.receiver.acknowledge() {
            self.events.extend(disk_pdu.map(|disk_pdu| Event::DiskPdu {
                transfer: pci.transfer,
                disk_pdu,
            }));
        }
        if pci.transfer != CONVERSATION {
            incoming.open(now, self.terms.window);
        }
    }

    fn handle_control(&mut self, now: Time, pci: &Pci) {
        match Control::parse(self.demultiplexer.control()) {
            Ok(Control::Hello { to }) => {
                self.heard_at = now;
                let is_known = self.peer.run().is_some();
                if self
                    .peer
                    .handle_hello(now, pci.run, to.map(|to| to == self.terms.run))
                {
                    self.events.push_back(Event::Restarted);
                } else if !is_known {
                    self.is_known(now, pci.run);
                }
            }
            Ok(Control::Status(status)) if Some(pci.run) == self.peer.run() => {
                self.heard_at = now;
                let told = match pci.transfer {
                    CONVERSATION => self.said.handle_status(now, &status),
                    other => self
                        .outgoing
                        .get_mut(&other)
                        .map_or(Ok(()), |sender| sender.handle_status(now, &status)),
                };
                if told.is_err() {
                    self.events.push_back(Event::Fault);
                }
            }
            Ok(Control::Status(_)) => self.peer.handle_stranger(now),
            Err(_) => self.events.push_back(Event::Fault),
        }
    }

    /// The other terminal is known: what it says has a place.
    fn is_known(&mut self, now: Time, run: u32) {
        let inbox = Inbox::default();
        let edge = inbox.edge();
        let terms = stream(&self.terms, CONVERSATION, run);
        let mut buffer = ReceiveBuffer::new(&self.tree, terms, Room::Conversation(inbox));
        buffer.open_to(edge);
        let incoming = Incoming {
            receiver: Receiver::new(now, buffer),
            limit: u64::MAX,
        };
        self.incoming.0.insert(CONVERSATION, incoming);
    }

    /// The next SDU to be sent now, written to the front of `out`, which has room for the PDU
    /// length and what is around it: its octets; none if there is nothing to send.
    pub fn poll_sdu(&mut self, now: Time, out: &mut [u8]) -> Option<u16> {
        if let Some(to) = self.peer.poll(now) {
            let control = Control::Hello { to };
            return emit(&self.tree, self.terms.run, CONVERSATION, &control, out);
        }
        self.peer.run()?;
        for (transfer, incoming) in &mut self.incoming.0 {
            if let Some(status) = incoming.receiver.poll(now, &mut self.above) {
                let control = Control::Status(status);
                return emit(&self.tree, self.terms.run, *transfer, &control, out);
            }
        }
        if let Some(len) = send(&self.multiplexer, now, &mut self.said, out) {
            return Some(len);
        }
        let behind = self.last_sent.saturating_add(1);
        self.poll_transfers(now, behind..=u16::MAX, out)
            .or_else(|| self.poll_transfers(now, 0..=self.last_sent, out))
    }

    /// The next SDU of the first of these transfers that has one.
    fn poll_transfers(
        &mut self,
        now: Time,
        transfers: RangeInclusive<u16>,
        out: &mut [u8],
    ) -> Option<u16> {
        for (transfer, sender) in self.outgoing.range_mut(transfers) {
            if let Some(len) = send(&self.multiplexer, now, sender, out) {
                self.last_sent = *transfer;
                return Some(len);
            }
        }
        None
    }

    /// When [`Exchange::poll_sdu`] has something to send even if nothing is handed in before, or
    /// [`Exchange::handle_deadline`] is due.
    pub fn next_deadline(&self) -> Option<Time> {
        let senders = self.outgoing.values().filter_map(Sender::next_deadline);
        let receivers = self
            .incoming
            .0
            .values()
            .map(|incoming| incoming.receiver.next_deadline());
        senders
            .chain(self.said.next_deadline())
            .chain(receivers)
            .chain(self.peer.next_deadline())
            .min()
    }

    /// Time has passed.
    pub fn handle_deadline(&mut self, now: Time) {
        self.said.handle_deadline(now);
        for sender in self.outgoing.values_mut() {
            sender.handle_deadline(now);
        }
    }
}

impl<S: Store> Incoming<S> {
    /// The window moves along with Ap.
    fn open(&mut self, now: Time, window: u64) {
        let ap = self.receiver.buffer().pointers().ap;
        self.receiver
            .open_to(now, ap.saturating_add(window).min(self.limit));
    }
}

/// What a stream without end agrees on.
const fn stream(terms: &ExchangeTerms, transfer: u16, run: u32) -> Terms {
    Terms {
        transfer,
        run,
        arq: terms.arq,
        window: terms.window_pdus,
        start: 0,
        end: u64::MAX,
    }
}

/// The next SDU of a transfer.
fn send<S: Source>(
    multiplexer: &Multiplexer,
    now: Time,
    sender: &mut Sender<S>,
    out: &mut [u8],
) -> Option<u16> {
    let sequence = sender.poll()?;
    let len = multiplexer.sdu(sender.buffer_mut(), sequence, out)?;
    sender.sent(now, sequence);
    Some(len)
}

/// A control PDU.
fn emit(
    tree: &Tree,
    run: u32,
    transfer: u16,
    control: &Control<'_>,
    out: &mut [u8],
) -> Option<u16> {
    let (pci, body) = out.split_first_chunk_mut()?;
    let length = control.emit(body)?;
    *pci = Pci {
        kind: Kind::Control,
        place: Place::Middle,
        transfer,
        run,
        sequence: 0,
        serial: 0,
        offset: 0,
        length,
    }
    .emit();
    tree.sdu_len(Place::Middle, length)
}
