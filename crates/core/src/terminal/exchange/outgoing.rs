//! What is sent: control PDUs first, then the conversation, then transfers in turn.

use core::ops::RangeInclusive;
use std::collections::BTreeMap;
use std::sync::Arc;

use cellgate_simd::Fold;

use crate::Time;
use crate::aal::tree::Tree;
use crate::contract::Aal;
use crate::terminal::conversation::{Inbox, Outbox};
use crate::terminal::cutter::Split;
use crate::terminal::window::{BestLength, Sender, SenderCounts, StatusFault};
use crate::terminal::{Multiplexer, Source, Status, Terms, TransmitBuffer};
use crate::wire::PAYLOAD_LEN;

use super::{CONVERSATION, ExchangeTerms, stream};

/// The MID of control PDUs; that of a transfer is its number modulo this.
pub(in crate::terminal) const CONTROL_MID: u16 = 1_023;

/// A transfer that is sent.
#[derive(Clone, Debug)]
pub(super) struct One<S> {
    pub(super) sender: Sender<S>,
    multiplexer: Multiplexer,
}

impl<S: Source> One<S> {
    /// The next SDU.
    fn sdu(&mut self, now: Time, out: &mut [u8]) -> Option<u16> {
        let sequence = self.sender.poll()?;
        let len = self
            .multiplexer
            .sdu(self.sender.buffer_mut(), sequence, out)?;
        self.sender.sent(now, sequence);
        Some(len)
    }

    /// The next cell, of the PDU in progress or of the next.
    #[inline(always)]
    fn cell<C: Fold>(
        &mut self,
        fold: C,
        now: Time,
        payload: &mut [u8; PAYLOAD_LEN],
    ) -> Option<bool> {
        if self.multiplexer.left() == 0 {
            let sequence = self.sender.poll()?;
            let buffer = self.sender.buffer_mut();
            self.multiplexer.start(fold, buffer, sequence)?;
            self.sender.sent(now, sequence);
        }
        self.multiplexer
            .cell(fold, self.sender.buffer_mut(), payload)
    }
}

/// What a control PDU says.
#[derive(Clone, Debug, Default)]
struct Said(Vec<u8>);

impl Source for Said {
    fn read(&mut self, at: u64, into: &mut [u8]) {
        if let Some(octets) = self.0.get(at as usize..at as usize + into.len()) {
            into.copy_from_slice(octets);
        }
    }
}

/// Whose cells are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Control,
    Conversation,
    Transfer(u16),
}

/// What is sent.
#[derive(Clone, Debug)]
pub(super) struct Outgoing<F> {
    is_aal5: bool,
    tree: Arc<Tree>,
    controls: TransmitBuffer<Said>,
    control_multiplexer: Multiplexer,
    /// A control PDU that has not begun.
    says: Option<u64>,
    pub(super) said: One<Outbox>,
    transfers: BTreeMap<u16, One<F>>,
    /// PDUs of a transfer that the other terminal has places for.
    window: u32,
    /// The length of PDUs that is best, if they are to be so.
    best: Option<BestLength>,
    /// Of transfers that have ended.
    ended: SenderCounts,
    /// The transfer that was sent last: the others come first.
    last: u16,
    /// Of AAL5, whose PDU is in progress.
    current: Option<Turn>,
}

impl<F: Source> Outgoing<F> {
    pub(super) fn new(terms: &ExchangeTerms, tree: &Arc<Tree>) -> Option<Self> {
        let own = stream(terms, CONVERSATION, terms.run);
        let split = Split {
            pdu_len: terms.pdu_len,
            disk_len: None,
            file_len: None,
        };
        let mut outbox = TransmitBuffer::new(tree, own, Outbox::default());
        // As far as the other end's inbox, which is like the one here.
        outbox.open_to(Inbox::default().edge());
        Some(Self {
            is_aal5: tree.aal() == Aal::Aal5,
            tree: tree.clone(),
            controls: TransmitBuffer::new(tree, Terms { window: 1, ..own }, Said::default()),
            control_multiplexer: Multiplexer::new(tree.clone(), CONTROL_MID)?,
            says: None,
            said: One {
                sender: Sender::new(outbox, split),
                multiplexer: Multiplexer::new(tree.clone(), 0)?,
            },
            transfers: BTreeMap::new(),
            window: terms.window_pdus,
            best: None,
            ended: SenderCounts::default(),
            last: 0,
            current: None,
        })
    }

    /// PDUs of files are as long as is best, `max` octets at most.
    pub(super) fn adapt(&mut self, aal: Aal, max: u16) {
        self.best = Some(BestLength::new(aal, max));
    }

    /// The other terminal has places for so many PDUs of a transfer.
    pub(super) const fn limit(&mut self, window: u32) {
        self.window = window;
    }

    /// Sends a transfer, in place of one with its number.
    pub(super) fn insert(
        &mut self,
        tree: &Arc<Tree>,
        terms: Terms,
        edge: u64,
        split: Split,
        source: F,
    ) {
        let window = terms.window.min(self.window);
        let mut buffer = TransmitBuffer::new(tree, Terms { window, ..terms }, source);
        buffer.open_to(edge);
        // A tree of which one was made has others.
        let multiplexer = Multiplexer::new(self.tree.clone(), terms.transfer % CONTROL_MID);
        if let Some(multiplexer) = multiplexer {
            let best = self.best.map_or(split.pdu_len, |best| best.octets());
            let pdu_len = split.pdu_len.min(best);
            let sender = Sender::new(buffer, Split { pdu_len, ..split });
            let one = One {
                sender,
                multiplexer,
            };
            let replaced = self.transfers.insert(terms.transfer, one);
            if let Some(replaced) = replaced {
                self.ended += replaced.sender.counts();
            }
        }
    }

    pub(super) fn remove(&mut self, transfer: u16) -> Option<Sender<F>> {
        let sender = self.transfers.remove(&transfer)?.sender;
        self.ended += sender.counts();
        Some(sender)
    }

    /// What was counted of all transfers and of the conversation.
    pub(super) fn counts(&self) -> SenderCounts {
        let mut counts = self.ended;
        counts += self.said.sender.counts();
        for one in self.transfers.values() {
            counts += one.sender.counts();
        }
        counts
    }

    pub(super) fn sender(&self, transfer: u16) -> Option<&Sender<F>> {
        Some(&self.transfers.get(&transfer)?.sender)
    }

    pub(super) fn sender_mut(&mut self, transfer: u16) -> Option<&mut Sender<F>> {
        Some(&mut self.transfers.get_mut(&transfer)?.sender)
    }

    pub(super) fn handle_status(
        &mut self,
        now: Time,
        transfer: u16,
        status: &Status<'_>,
    ) -> Result<(), StatusFault> {
        if transfer == CONVERSATION {
            return self.said.sender.handle_status(now, status);
        }
        // One that is not there has ended.
        if let Some(sender) = self.sender_mut(transfer) {
            sender.handle_status(now, status)?;
            self.adapts();
        }
        Ok(())
    }

    /// Finds the best length anew, from all that was heard.
    fn adapts(&mut self) {
        let Some(mut best) = self.best else { return };
        let before = best.octets();
        best.handle(self.counts());
        self.best = Some(best);
        let after = best.octets();
        if after != before {
            for one in self.transfers.values_mut() {
                one.sender.set_pdu_len(after);
            }
        }
    }

    /// Whether a control PDU waits that has not left.
    pub(super) fn says(&self) -> bool {
        self.says.is_some() || self.control_multiplexer.left() > 0
    }

    /// Whether a control PDU may begin.
    #[inline(always)]
    pub(super) fn is_between(&self) -> bool {
        self.current.is_none()
    }

    /// The next control PDU is the first `len` octets of `octets`.
    pub(super) fn say(&mut self, transfer: u16, octets: &[u8], len: Option<u16>) {
        let Some(len) = len else { return };
        let said = &mut self.controls.source_mut().0;
        said.clear();
        said.extend_from_slice(&octets[..len.into()]);
        self.says = Some(self.controls.cut_control(transfer, len));
    }

    /// The next SDU; to a terminal that is not known nothing but control PDUs.
    pub(super) fn sdu(&mut self, now: Time, is_known: bool, out: &mut [u8]) -> Option<u16> {
        if let Some(sequence) = self.says.take() {
            return self
                .control_multiplexer
                .sdu(&mut self.controls, sequence, out);
        }
        is_known.then_some(())?;
        if let Some(len) = self.said.sdu(now, out) {
            return Some(len);
        }
        self.in_turn(|one| one.sdu(now, out)).map(|(len, _)| len)
    }

    /// The order of transfers: from the one behind the last on.
    #[inline(always)]
    const fn turns(&self) -> [RangeInclusive<u16>; 2] {
        let behind = self.last.saturating_add(1);
        [behind..=u16::MAX, 0..=self.last]
    }

    /// Asks the transfers in turn, until one gives something.
    fn in_turn<T>(&mut self, mut what: impl FnMut(&mut One<F>) -> Option<T>) -> Option<(T, u16)> {
        for range in self.turns() {
            for (transfer, one) in self.transfers.range_mut(range) {
                if let Some(given) = what(one) {
                    self.last = *transfer;
                    return Some((given, *transfer));
                }
            }
        }
        None
    }

    /// The next cell's payload, and whether it is the last of its PDU. Of AAL5 a PDU goes as a
    /// whole; of AAL3/4 those of several transfers interleave.
    #[inline(always)]
    pub(super) fn cell<C: Fold>(
        &mut self,
        fold: C,
        now: Time,
        is_known: bool,
        payload: &mut [u8; PAYLOAD_LEN],
    ) -> Option<bool> {
        if let Some(turn) = self.current {
            let went_on = match turn {
                Turn::Control => self
                    .control_multiplexer
                    .cell(fold, &mut self.controls, payload),
                Turn::Conversation => self.said.cell(fold, now, payload),
                // A closure would be compiled for the lowest CPU level.
                Turn::Transfer(transfer) => match self.transfers.get_mut(&transfer) {
                    Some(one) => one.cell(fold, now, payload),
                    None => None,
                },
            };
            if let Some(last) = went_on {
                self.current = self.current.filter(|_| !last);
                return Some(last);
            }
            // It was acknowledged meanwhile, or has ended.
            self.current = None;
        }
        let (last, turn) = self.next_cell(fold, now, is_known, payload)?;
        self.current = (self.is_aal5 && !last).then_some(turn);
        Some(last)
    }

    #[inline(always)]
    fn next_cell<C: Fold>(
        &mut self,
        fold: C,
        now: Time,
        is_known: bool,
        payload: &mut [u8; PAYLOAD_LEN],
    ) -> Option<(bool, Turn)> {
        if let Some(sequence) = self.says.take() {
            self.control_multiplexer
                .start(fold, &mut self.controls, sequence)?;
        }
        if let Some(last) = self
            .control_multiplexer
            .cell(fold, &mut self.controls, payload)
        {
            return Some((last, Turn::Control));
        }
        is_known.then_some(())?;
        if let Some(last) = self.said.cell(fold, now, payload) {
            return Some((last, Turn::Conversation));
        }
        // As `in_turn`; a closure would be compiled for the lowest CPU level.
        for range in self.turns() {
            for (transfer, one) in self.transfers.range_mut(range) {
                if let Some(last) = one.cell(fold, now, payload) {
                    self.last = *transfer;
                    return Some((last, Turn::Transfer(*transfer)));
                }
            }
        }
        None
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        let transfers = self.transfers.values();
        let senders = transfers.filter_map(|one| one.sender.next_deadline());
        senders.chain(self.said.sender.next_deadline()).min()
    }

    pub(super) fn handle_deadline(&mut self, now: Time) {
        self.said.sender.handle_deadline(now);
        for one in self.transfers.values_mut() {
            one.sender.handle_deadline(now);
        }
    }
}
