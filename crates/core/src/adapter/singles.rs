//! PDUs of one cell in a row, on one VC: what does not differ among them is done once.

use cellgate_simd::Fold;

use super::reassembly::{Reception, known};
use super::vc::PDU_ALIGN;
use super::{Board, CellOutcome, Notification, PduEnd, Planted, Region, Work};
use crate::aal::{Memory, aal5};
use crate::queue::{ReceiveDescriptor, Words};
use crate::wire::{Header, PAYLOAD_LEN};

/// Attempts at a row that take nothing, one after the other, before the rest goes cell by cell. The
/// cell between two attempts may end a PDU in progress, or look at what the client gave back.
const ATTEMPTS: u32 = 2;

impl<R: Region, B: Board<Region = R>> Reception<'_, R, B> {
    /// Takes `cells` with one header that each end a PDU.
    #[inline(always)]
    pub(super) fn lasts<F: Fold>(&mut self, fold: F, header: Header, cells: &[u8]) {
        let stride = self.format.stride();
        let mut rest = cells;
        let mut failed = 0;
        loop {
            if rest.len() > stride && failed < ATTEMPTS {
                let n = self.take_singles(fold, header, rest);
                failed = if n == 0 { failed + 1 } else { 0 };
                rest = rest.get(n as usize * stride..).unwrap_or_default();
            }
            // What ended the row is for the path that knows every outcome.
            let Some((cell, behind)) = rest.split_at_checked(stride) else {
                return;
            };
            self.last(fold, header, cell);
            rest = behind;
        }
    }

    /// Delivers the PDUs of one cell at the front of `cells`, up to the first that is to be
    /// refused, that is damaged, or that somebody is to be told of; how many.
    #[inline(always)]
    fn take_singles<F: Fold>(&mut self, fold: F, header: Header, cells: &[u8]) -> u32 {
        let stride = self.format.stride();
        let most = self.singles_let_in(self.format.cells_in(cells.len()) as u32);
        if most == 0 {
            return 0;
        }
        let step = self.step_of_singles();
        let max_sdu = self.vc.receiver.bounds.max_sdu;
        self.vc.receiver.cells_clp1 = header.clp().into();
        let common = self.descriptor(header, 1);
        let mut n = 0;
        for cell in cells.chunks_exact(stride).take(most as usize) {
            let Some(payload) = cell.last_chunk() else {
                break;
            };
            let (trailer, result) = aal5::only(fold, payload, max_sdu);
            let Ok(sdu) = self.sabotage(trailer, result) else {
                break;
            };
            let receiver = &mut self.vc.receiver;
            let descriptor = ReceiveDescriptor {
                position: receiver.position,
                len: sdu.len.into(),
                uu: sdu.uu,
                cpi: sdu.cpi,
                ..common
            };
            let region = &mut self.vc.region;
            region
                .receive_buffer()
                .write(receiver.offset as usize, payload);
            let slot = receiver.queue.slot_at(n);
            region.from_adapter().copy_in(slot, &descriptor.emit());
            receiver.move_to(receiver.position + step);
            n += 1;
        }
        self.deliver_singles(n);
        n
    }

    /// How many of `count` PDUs of one cell are let in for certain, as far as is known without a
    /// look at the client, and are told to nobody.
    #[inline(always)]
    fn singles_let_in(&mut self, count: u32) -> u32 {
        let silent = known(self.cold).request.receive.is_some_and(|receive| {
            receive.notification == Notification::Polled && receive.queue_threshold == 0
        });
        let receiver = &self.vc.receiver;
        // A second bucket judges and charges by loss priority: see `stand`. Under overload `begin`
        // knows who gives way.
        let plain = !receiver.flags.dual && !self.arrival.overloaded;
        if !silent || receiver.receiving() || !plain {
            return 0;
        }
        if self.board.planted(Planted::CrcStateKept) {
            return 0;
        }
        let first = receiver.position + self.octets_to_begin();
        let Some(further) = receiver.limit.checked_sub(first) else {
            return 0;
        };
        // A buffer has at most 2^30 octets.
        let room = (further / self.step_of_singles()) as u32 + 1;
        let n = count.min(receiver.queue.free_seen()).min(room);
        if n > 0 && self.singles_conform(n) {
            n
        } else {
            0
        }
    }

    /// Whether `n` PDUs of one cell, at least one, conform: if the last does, all before it do.
    #[inline(always)]
    fn singles_conform(&self, n: u32) -> bool {
        let Some(mut frame) = self.vc.receiver.police else {
            return true;
        };
        let judged = self.judged_at();
        if !frame.conforms(judged) {
            return false;
        }
        frame.catch_up(self.earliest());
        frame.charge(n - 1);
        frame.conforms(judged)
    }

    /// Octets from the start of a PDU of one cell to that of the next.
    #[inline(always)]
    fn step_of_singles(&self) -> u64 {
        if self.board.planted(Planted::StartNotRounded) {
            PAYLOAD_LEN as u64
        } else {
            PDU_ALIGN
        }
    }

    /// Charges, publishes and counts `n` PDUs of one cell that lie in the receive queue.
    #[inline(always)]
    fn deliver_singles(&mut self, n: u32) {
        if n == 0 {
            return;
        }
        let earliest = self.earliest();
        let receiver = &mut self.vc.receiver;
        receiver.catch_up(earliest);
        receiver.charge(n);
        receiver.pdu_bounds = receiver.bounds;
        receiver.reassembler.hold(1);
        receiver.queue.publish(self.vc.region.from_adapter(), n);
        self.stats.cells_delivered += u64::from(n);
        let stats = &mut known(self.cold).stats;
        stats.cells_delivered += u64::from(n);
        stats.cells_delivered_clp1 += u64::from(n) * u64::from(receiver.cells_clp1);
        stats.pdus_delivered += u64::from(n);
        self.board.charge(Work::ReceiveCells, n);
        self.board.charge(Work::ReceivePdu, n);
        self.board.judged(CellOutcome::Delivered, n);
        self.tell_end(PduEnd::Delivered { pdus: n, cells: n });
    }
}

const _: () = assert!(PDU_ALIGN >= PAYLOAD_LEN as u64);
