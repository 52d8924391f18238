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
//!    |       multiplexers      |    |       demultiplexers      |
//!    +------------+------------+    +------------^--------------+
//!                 | poll_sdu, poll_cell          | handle_sdu, handle_cell
//! ```
//!
//! A terminal has a run, a number drawn anew each time that it begins. Each says its run in a
//! hello, and PDUs of any other run are thrown away.

mod incoming;
mod outgoing;
mod peer;

use std::collections::VecDeque;
use std::sync::Arc;

use cellgate_simd::Fold;

use crate::Time;
use crate::aal::tree::Tree;
use crate::contract::Aal;
use crate::wire::PAYLOAD_LEN;

use super::conversation::{Inbox, Outbox, TooLong};
use super::cutter::Split;
use super::window::{DiskPdu, Sender, SenderCounts};
use super::{
    Arq, Control, Counts, Kind, Outcome, Pci, ReceiveBuffer, Source, Status, Store, Terms,
};
use incoming::{Incoming, Room};
pub(super) use outgoing::CONTROL_MID;
use outgoing::Outgoing;
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
    /// The other terminal has begun anew: this exchange is over, and it says hello again.
    Restarted,
    /// The other terminal says what cannot be; the exchange is of no use any more.
    Fault,
}

/// The conversation's number among the transfers, and its PDUs that may be on their way.
const CONVERSATION: u16 = 0;
const CONVERSATION_PDUS: u32 = 128;

/// All that two terminals exchange on one VC.
#[derive(Clone, Debug)]
pub struct Exchange<F, S> {
    terms: ExchangeTerms,
    tree: Arc<Tree>,
    peer: Peer,
    outgoing: Outgoing<F>,
    incoming: Incoming<S>,
    events: VecDeque<Event>,
    /// What a control PDU says.
    control: Vec<u8>,
    above: Box<[u8]>,
    heard_at: Time,
}

impl<F: Source, S: Store> Exchange<F, S> {
    /// Nothing was said or heard. `tree` is one with
    /// [`DiskHeader::LENGTHS`](super::DiskHeader::LENGTHS): none if not.
    pub fn new(now: Time, terms: ExchangeTerms, tree: &Arc<Tree>) -> Option<Self> {
        (tree.lengths() == super::DiskHeader::LENGTHS).then_some(())?;
        let window = terms.window_pdus.max(CONVERSATION_PDUS);
        let above = (window as usize).div_ceil(8);
        let control_max = (Status::FIXED + above) as u16;
        Some(Self {
            terms,
            tree: tree.clone(),
            peer: Peer::new(now, terms.begins),
            outgoing: Outgoing::new(&terms, tree)?,
            incoming: Incoming::new(tree, control_max)?,
            events: VecDeque::new(),
            control: vec![0; control_max.into()],
            above: vec![0; above].into_boxed_slice(),
            heard_at: now,
        })
    }

    /// From now on PDUs of files are as long as what is lost makes best, and no longer than what
    /// each is asked to be.
    pub fn adapt(&mut self) {
        self.outgoing.adapt(self.tree.aal(), self.terms.pdu_len);
    }

    /// What was agreed on.
    pub const fn terms(&self) -> &ExchangeTerms {
        &self.terms
    }

    /// The AAL of its PDUs.
    pub fn aal(&self) -> Aal {
        self.tree.aal()
    }

    /// Whether each terminal knows the other.
    pub fn is_established(&self) -> bool {
        self.peer.run().is_some()
    }

    /// When something of the other terminal came last.
    pub const fn heard_at(&self) -> Time {
        self.heard_at
    }

    /// What has come: of AAL3/4 on each MID by itself.
    pub fn counts(&self) -> impl Iterator<Item = &Counts> {
        self.incoming.counts()
    }

    /// What was sent, the conversation included.
    pub fn sent(&self) -> SenderCounts {
        self.outgoing.counts()
    }

    /// What has happened; to be drained behind each call that hands something in.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Says a message of at most [`MESSAGE_MAX`](super::MESSAGE_MAX) octets.
    pub fn say(&mut self, message: &[u8]) {
        self.outbox().push(message);
    }

    /// Octets of messages that the other end has not acknowledged.
    pub fn unsaid(&mut self) -> usize {
        self.outbox().len()
    }

    fn outbox(&mut self) -> &mut Outbox {
        self.outgoing.said.sender.buffer_mut().source_mut()
    }

    /// Reads the next message into `message`; false if there is none.
    pub fn hear(&mut self, now: Time, message: &mut Vec<u8>) -> Result<bool, TooLong> {
        let Some((inbox, come)) = self.incoming.inbox() else {
            return Ok(false);
        };
        let is_there = inbox.pop(come, message)?;
        let edge = inbox.edge();
        self.incoming.open_to(now, CONVERSATION, edge);
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
        let terms = Terms {
            start,
            end,
            ..stream(&self.terms, transfer, run)
        };
        let mut buffer = ReceiveBuffer::new(&self.tree, terms, Room::File(store));
        buffer.open_to(start.saturating_add(self.terms.window).min(limit));
        self.incoming.insert(now, transfer, buffer, limit)
    }

    /// Lets the window of a transfer open to `limit`.
    pub fn allow(&mut self, now: Time, transfer: u16, limit: u64) {
        self.incoming.allow(now, transfer, limit, self.terms.window);
    }

    /// Up to where a transfer is acknowledged, and where its window ends.
    pub fn received(&self, transfer: u16) -> Option<(u64, u64)> {
        let pointers = self.incoming.pointers(transfer)?;
        Some((pointers.ap, pointers.edge))
    }

    /// Where a transfer's payload is put.
    pub fn store_mut(&mut self, transfer: u16) -> Option<&mut S> {
        self.incoming.store_mut(transfer)
    }

    /// Receives no more of a transfer.
    pub fn end_receive(&mut self, transfer: u16) -> Option<S> {
        self.incoming.remove(transfer)
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
        self.outgoing.insert(&self.tree, terms, edge, split, source);
    }

    /// A transfer that is sent.
    pub fn outgoing(&self, transfer: u16) -> Option<&Sender<F>> {
        self.outgoing.sender(transfer)
    }

    /// Sends no more of a transfer.
    pub fn end_send(&mut self, transfer: u16) -> Option<Sender<F>> {
        self.outgoing.remove(transfer)
    }

    /// Takes an SDU that has come.
    pub fn handle_sdu(&mut self, now: Time, sdu: &[u8]) {
        let outcome = self.incoming.sdu(sdu);
        self.handle(now, outcome);
    }

    /// Takes the payload of a cell that has come; of AAL5 its header says whether it is the `last`
    /// of its PDU.
    #[inline(always)]
    pub fn handle_cell<C: Fold>(
        &mut self,
        fold: C,
        now: Time,
        last: bool,
        payload: &[u8; PAYLOAD_LEN],
    ) {
        let outcome = self.incoming.cell(fold, last, payload);
        if outcome != Outcome::Held {
            self.handle(now, outcome);
        }
    }

    fn handle(&mut self, now: Time, outcome: Outcome) {
        match outcome {
            Outcome::Complete(pci) => self.handle_data(now, &pci, true),
            Outcome::Control(pci) => self.handle_control(now, &pci),
            Outcome::Discarded(_, Some(pci)) if Some(pci.run) != self.peer.run() => {
                self.peer.handle_stranger(now);
            }
            Outcome::Discarded(_, Some(pci)) if pci.kind == Kind::Data => {
                self.handle_data(now, &pci, false);
            }
            Outcome::Discarded(..) | Outcome::Held | Outcome::Skipped(_) => {}
        }
    }

    fn handle_data(&mut self, now: Time, pci: &Pci, complete: bool) {
        self.heard_at = now;
        let transfer = pci.transfer;
        self.incoming.handle(now, pci, complete);
        while let Some(disk_pdu) = self.incoming.acknowledge(transfer) {
            let event = disk_pdu.map(|disk_pdu| Event::DiskPdu { transfer, disk_pdu });
            self.events.extend(event);
        }
        if transfer != CONVERSATION {
            self.incoming.open(now, transfer, self.terms.window);
        }
    }

    fn handle_control(&mut self, now: Time, pci: &Pci) {
        match Control::parse(self.incoming.control()) {
            Ok(Control::Hello { to, window }) => {
                self.heard_at = now;
                self.outgoing.limit(window.into());
                let is_known = self.peer.run().is_some();
                let knows = to.map(|to| to == self.terms.run);
                if self.peer.handle_hello(now, pci.run, knows) {
                    self.events.push_back(Event::Restarted);
                } else if !is_known {
                    self.is_known(now, pci.run);
                }
            }
            Ok(Control::Status(status)) if Some(pci.run) == self.peer.run() => {
                self.heard_at = now;
                let told = self.outgoing.handle_status(now, pci.transfer, &status);
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
        self.incoming.insert(now, CONVERSATION, buffer, u64::MAX);
    }

    /// The next SDU to be sent now, written to the front of `out`, which has room for the PDU
    /// length and what is around it: its octets; none if there is nothing to send.
    pub fn poll_sdu(&mut self, now: Time, out: &mut [u8]) -> Option<u16> {
        self.controls(now);
        self.outgoing.sdu(now, self.peer.run().is_some(), out)
    }

    /// The payload of the next cell to be sent now, and of AAL5 whether it is the last of its PDU;
    /// none if there is nothing to send.
    #[inline(always)]
    pub fn poll_cell<C: Fold>(
        &mut self,
        fold: C,
        now: Time,
        payload: &mut [u8; PAYLOAD_LEN],
    ) -> Option<bool> {
        if self.outgoing.is_between() {
            self.controls(now);
        }
        let is_known = self.peer.run().is_some();
        self.outgoing.cell(fold, now, is_known, payload)
    }

    /// Says what is due, if nothing that was to be said before waits.
    fn controls(&mut self, now: Time) {
        if self.outgoing.says() {
            return;
        }
        if let Some(to) = self.peer.poll(now) {
            let window = self.terms.window_pdus.min(u16::MAX.into()) as u16;
            let hello = Control::Hello { to, window };
            let len = hello.emit(&mut self.control);
            self.outgoing.say(CONVERSATION, &self.control, len);
        } else if self.peer.run().is_some()
            && let Some((transfer, status)) = self.incoming.poll(now, &mut self.above)
        {
            let len = Control::Status(status).emit(&mut self.control);
            self.outgoing.say(transfer, &self.control, len);
        }
    }

    /// When [`Exchange::poll_sdu`] has something to send even if nothing is handed in before, or
    /// [`Exchange::handle_deadline`] is due.
    pub fn next_deadline(&self) -> Option<Time> {
        let deadlines = [
            self.peer.next_deadline(),
            self.outgoing.next_deadline(),
            self.incoming.next_deadline(),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// Time has passed.
    pub fn handle_deadline(&mut self, now: Time) {
        self.outgoing.handle_deadline(now);
    }
}

/// The terms of a transfer without end.
const fn stream(terms: &ExchangeTerms, transfer: u16, run: u32) -> Terms {
    Terms {
        transfer,
        run,
        arq: terms.arq,
        window: match transfer {
            CONVERSATION => CONVERSATION_PDUS,
            _ => terms.window_pdus,
        },
        start: 0,
        end: u64::MAX,
    }
}
