//! `handle_commands()`: one command a step.

use serde::{Deserialize, Serialize};

use super::abr::abr_is_served;
use super::class::{class, guaranteed_cell_s};
use super::loopback::Test;
use super::reassembly::{Arrival, Reception};
use super::vc::{Bounds, Cold, Framing, Lease, Outgoing, Receiver, Sender, Tolerance, Vc};
use super::{
    Aal, Adapter, AdapterState, Attachment, AttachmentIndex, Board, Command, Completion, Config,
    Excess, Interleaving, Marks, OpenRequest, Outcome, Planted, PortConfig, PortIndex, Receive,
    Refusal, Region, VcId, VcIndex, VcInfo, Work,
};
use crate::Time;
use crate::aal::{Memory, aal0};
use crate::wire::{CellFormat, PAYLOAD_LEN};

/// A modification that waits for the end of the PDUs in progress.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Pending<R> {
    ticket: u64,
    vc: VcId,
    request: OpenRequest,
    region: R,
    pub(super) deadline: Time,
}

impl<R> Pending<R> {
    /// Modifications that can wait at once.
    pub(super) const MAX: usize = 16;
    /// How long a modification waits for a PDU in progress.
    const WAIT_NS: u64 = 100_000_000;
}

/// VC slots that one command looks at, so that a long list costs many steps a little each.
const SLOTS_PER_COMMAND: usize = 512;

type Ended<R> = (Result<Outcome, Refusal>, Option<R>);

impl<R: Region, A: Attachment> Adapter<R, A> {
    /// Carries out one command, and modifications whose PDU boundary has come.
    pub fn handle_commands<B>(&mut self, now: Time, board: &mut B)
    where
        B: Board<Region = R, Attachment = A>,
    {
        if !self.pending.is_empty() {
            self.settle_pending(now, board);
        }
        self.settle_loopbacks(now, board);
        let Some(command) = board.command() else {
            return;
        };
        board.charge(Work::HandleCommand, 1);
        let mut attachment = None;
        let (ticket, (result, region)) = match command {
            Command::Configure {
                ticket,
                port,
                config,
            } => (ticket, (self.configure(port, config), None)),
            Command::Attach {
                ticket,
                attachment: memory,
            } => {
                let result = self.clients.attach(memory).map(Outcome::Attached);
                let result = result.map_err(|(refusal, memory)| {
                    attachment = Some(memory);
                    refusal
                });
                (ticket, (result, None))
            }
            Command::Detach { ticket, index } => {
                let result = self.clients.detach(index).map(|memory| {
                    attachment = Some(memory);
                    Outcome::Done
                });
                (ticket, (result, None))
            }
            Command::Open {
                ticket,
                request,
                region,
            } => (ticket, self.open(request, region, board)),
            Command::Modify {
                ticket,
                vc,
                request,
                region,
            } => match self.modify(now, ticket, vc, request, region, board) {
                Some(ended) => (ticket, ended),
                None => return,
            },
            Command::Close { ticket, vc } => (ticket, self.close(now, vc, board)),
            Command::Enumerate { ticket, from, into } => {
                (ticket, (Ok(self.enumerate(now, from, into)), None))
            }
            Command::Reattach {
                ticket,
                vc,
                attachment,
            } => (ticket, (self.reattach(vc, attachment, board), None)),
            Command::Lease {
                ticket,
                vc,
                pdus,
                expires_in_ns,
            } => (
                ticket,
                (self.lease(now, vc, pdus, expires_in_ns, board), None),
            ),
            Command::Loopback {
                ticket,
                port,
                address,
                flow,
                timeout_ns,
            } => {
                let test = Test {
                    ticket,
                    port,
                    address,
                    flow,
                    timeout_ns,
                };
                match self.begin_loopback(now, test, board) {
                    Ok(()) => return,
                    Err(refusal) => (ticket, (Err(refusal), None)),
                }
            }
        };
        board.complete(Completion {
            ticket,
            result,
            region,
            attachment,
        });
    }

    fn configure(&mut self, port: PortIndex, config: PortConfig) -> Result<Outcome, Refusal> {
        let guaranteed = self.schedule.guaranteed_cell_s(port) + self.waiting_cell_s(port);
        let known = self
            .ports
            .get_mut(usize::from(port.0))
            .ok_or(Refusal::NoPort)?;
        if !(1..=Config::BUDGET_MAX).contains(&config.budget) {
            return Err(Refusal::BadParameter);
        }
        let other = (config.form, config.format) != (known.config.form, known.config.format);
        let in_use = |cold: &Cold| cold.request.port == port;
        if other && self.cold.iter().flatten().any(in_use) {
            return Err(Refusal::BadParameter);
        }
        if guaranteed > config.line_rate.cell_s().into() {
            return Err(Refusal::LineRate);
        }
        known.configure(config);
        self.schedule.set_line_rate(port, config.line_rate);
        Ok(Outcome::Done)
    }

    fn open<B>(&mut self, request: OpenRequest, mut region: R, board: &B) -> Ended<R>
    where
        B: Board<Region = R, Attachment = A>,
    {
        if let Err(refusal) = self.check_open(&request, &mut region) {
            return (Err(refusal), Some(region));
        }
        let Some(index) = self.free.pop() else {
            return (Err(Refusal::NoVc), Some(region));
        };
        let receive = request.receive.is_some().then_some(index);
        let transmit = request.transmit.is_some().then_some(index);
        let (port, address) = (request.port, request.address);
        let Some(slot) = self.table.open(port, address, receive, transmit) else {
            self.free.push(index);
            return (Err(Refusal::NoLeaf), Some(region));
        };
        let at = usize::from(index.0);
        self.generations[at] = self.generations[at].wrapping_add(1);
        let vc = VcId {
            index,
            generation: self.generations[at],
        };
        let receiver = new_receiver(&request, &mut region, self.tolerance(board));
        let sender = new_sender(&request, &region);
        self.vcs[at] = Some(Vc {
            receiver,
            region,
            sender,
        });
        self.cold[at] = Some(Cold::new(vc, request, slot, self.tolerance(board)));
        self.skipped[at] = 0;
        if let Some(transmit) = &request.transmit {
            self.schedule
                .open(index, request.port, class(transmit, board));
        }
        self.paths.open(port, address.vpi());
        self.clients.add_vc(request.attachment);
        if request.receive.is_some() && request.aal.interleaving().is_some() {
            self.timeouts.add(index);
        }
        (Ok(Outcome::Vc(vc)), None)
    }

    fn check_open(&self, request: &OpenRequest, region: &mut R) -> Result<(), Refusal> {
        let port = self.ports.get(usize::from(request.port.0));
        let port = port.ok_or(Refusal::NoPort)?;
        if request.address.vpi() > port.config.form.vpi_max() {
            return Err(Refusal::VpiTooLarge);
        }
        if request.address.bits() == 0 {
            return Err(Refusal::BadParameter);
        }
        if !self.clients.exists(request.attachment) {
            return Err(Refusal::NoAttachment);
        }
        check_contract(request)?;
        check_region(request, region)?;
        let (receives, transmits) = self.table.in_use(request.port, request.address);
        if receives && request.receive.is_some() || transmits && request.transmit.is_some() {
            return Err(Refusal::AddressInUse);
        }
        self.check_line(request, 0)
    }

    /// Whether the port's line carries the guaranteed rate too, `given_back` cells/s of what is
    /// reserved being this VC's own.
    fn check_line(&self, request: &OpenRequest, given_back: u64) -> Result<(), Refusal> {
        let asked = guaranteed_cell_s(request);
        let reserved = self.schedule.guaranteed_cell_s(request.port) - given_back;
        let waiting = self.waiting_cell_s(request.port);
        let line = self.ports.get(usize::from(request.port.0));
        let line = line.ok_or(Refusal::NoPort)?.config.line_rate.cell_s();
        if asked > 0 && reserved + waiting + asked > line.into() {
            return Err(Refusal::LineRate);
        }
        Ok(())
    }

    /// Cells/s that waiting modifications will reserve on `port` beyond what is reserved.
    fn waiting_cell_s(&self, port: PortIndex) -> u64 {
        let pending = self.pending.iter().filter(|p| p.request.port == port);
        pending
            .map(|pending| {
                let cold = self.cold.get(usize::from(pending.vc.index.0));
                let held = cold.and_then(Option::as_ref);
                let held = held.map_or(0, |cold| guaranteed_cell_s(&cold.request));
                guaranteed_cell_s(&pending.request).saturating_sub(held)
            })
            .sum()
    }

    /// None: it waits for a PDU boundary.
    fn modify<B: Board<Region = R, Attachment = A>>(
        &mut self,
        now: Time,
        ticket: u64,
        vc: VcId,
        request: OpenRequest,
        mut region: Option<R>,
        board: &mut B,
    ) -> Option<Ended<R>> {
        if let Err(refusal) = self.check_modify(vc, &request, region.as_mut(), board) {
            return Some((Err(refusal), region));
        }
        let Some(region) = region else {
            self.apply(now, vc.index, &request, board);
            return Some((Ok(Outcome::Vc(vc)), None));
        };
        if let Some(Some(state)) = self.vcs.get_mut(usize::from(vc.index.0)) {
            state.sender.hold = true;
        }
        let deadline = now.plus_ns(Pending::<R>::WAIT_NS);
        self.pending.push(Pending {
            ticket,
            vc,
            request,
            region,
            deadline,
        });
        self.settle_pending(now, board);
        None
    }

    fn check_modify<B: Board<Region = R, Attachment = A>>(
        &self,
        vc: VcId,
        request: &OpenRequest,
        region: Option<&mut R>,
        board: &B,
    ) -> Result<(), Refusal> {
        let cold = self.named(vc, board)?;
        let before = &cold.request;
        let same = request.address == before.address
            && request.port == before.port
            && request.aal.is_kind_of(before.aal)
            && request.attachment == before.attachment
            && request.receive.is_some() == before.receive.is_some()
            && request.transmit.is_some() == before.transmit.is_some();
        if !same {
            return Err(Refusal::BadParameter);
        }
        check_contract(request)?;
        if self
            .pending
            .iter()
            .any(|pending| pending.vc.index == vc.index)
            || region.is_some() && self.pending.len() == Pending::<R>::MAX
        {
            return Err(Refusal::Busy);
        }
        match region {
            Some(region) => check_region(request, region)?,
            None if !holds_as_much(request, before) => return Err(Refusal::BadParameter),
            None => self.check_own_region(vc, request)?,
        }
        self.check_line(request, guaranteed_cell_s(before))
    }

    /// Whether the region that a VC has is large enough for another contract.
    fn check_own_region(&self, vc: VcId, request: &OpenRequest) -> Result<(), Refusal> {
        let state = self
            .vcs
            .get(usize::from(vc.index.0))
            .and_then(Option::as_ref);
        let state = state.ok_or(Refusal::StaleVc)?;
        let sizes = Sizes {
            receive_len: state.receiver.buffer_len.into(),
            receive_slots: state.region.receive_slots(),
            transmit_slots: state.region.transmit_slots(),
            transmit_len: state.region.transmit_len(),
            staging_len: state.region.staging().len(),
        };
        sizes.check(request)
    }

    /// Puts a contract in force.
    fn apply<B: Board<Region = R, Attachment = A>>(
        &mut self,
        now: Time,
        index: VcIndex,
        request: &OpenRequest,
        board: &B,
    ) {
        let tolerance = self.tolerance(board);
        let at = usize::from(index.0);
        let (Some(Some(vc)), Some(Some(cold))) = (self.vcs.get_mut(at), self.cold.get_mut(at))
        else {
            return;
        };
        // Whom it tells may have changed while a modification waited.
        cold.request = OpenRequest {
            attachment: cold.request.attachment,
            ..*request
        };
        cold.configure(now, tolerance);
        cold.follow_abr(now, request);
        if cold.abr.is_none() {
            self.wanting.forget(index);
        }
        vc.receiver.flags.framing = Framing::of(request.aal, request.is_available());
        if let Some(receive) = &request.receive {
            if board.planted(Planted::ModifyForgivesDebt) {
                vc.receiver.police = None;
            }
            vc.receiver.configure(now, request.aal, receive, tolerance);
            if board.planted(Planted::ModifyMaxSduNow) {
                vc.receiver.pdu_bounds = Bounds::new(request.aal, receive.max_sdu);
            }
        }
        if let Some(transmit) = &request.transmit {
            vc.sender.configure(transmit);
            self.schedule.modify(now, index, class(transmit, board));
            if let Some(abr) = &mut cold.abr {
                abr.allow(now, index, &mut self.schedule, &mut self.wanting);
            }
        }
    }

    /// Ends modifications whose VC is between PDUs, or has been given up waiting for.
    fn settle_pending<B: Board<Region = R, Attachment = A>>(&mut self, now: Time, board: &mut B) {
        let mut at = 0;
        while let Some(pending) = self.pending.get(at) {
            let index = pending.vc.index;
            let between = self
                .vcs
                .get(usize::from(index.0))
                .and_then(Option::as_ref)
                .is_none_or(|vc| !vc.receiver.receiving() && vc.sender.outgoing.left() == 0)
                && self.held_aal34(index) == 0;
            if between || pending.deadline <= now {
                let pending = self.pending.remove(at);
                self.switch_region(now, pending, board);
            } else {
                at += 1;
            }
        }
    }

    fn switch_region<B: Board<Region = R, Attachment = A>>(
        &mut self,
        now: Time,
        pending: Pending<R>,
        board: &mut B,
    ) {
        let Pending {
            ticket,
            vc: name,
            request,
            mut region,
            ..
        } = pending;
        let at = usize::from(name.index.0);
        let tolerance = self.tolerance(board);
        self.abandon(now, name.index, board);
        let generation = &mut self.generations[at];
        let (Some(Some(vc)), Some(Some(cold))) = (self.vcs.get_mut(at), self.cold.get_mut(at))
        else {
            return;
        };
        *generation = generation.wrapping_add(1);
        let renamed = VcId {
            index: name.index,
            generation: *generation,
        };
        cold.vc = renamed;
        cold.full_told = false;
        let fresh = new_receiver(&request, &mut region, tolerance);
        let police = vc.receiver.police;
        vc.receiver = Receiver { police, ..fresh };
        vc.sender = new_sender(&request, &region);
        core::mem::swap(&mut vc.region, &mut region);
        if let (Some((fresh, _)), Some((former, _))) = (vc.region.aal34(), region.aal34())
            && !board.planted(Planted::CutPdusForgotten)
        {
            fresh.succeed(former);
        }
        self.apply(now, name.index, &request, board);
        board.complete(Completion {
            ticket,
            result: Ok(Outcome::Vc(renamed)),
            region: Some(region),
            attachment: None,
        });
    }

    /// Cells of AAL3/4 PDUs in progress on a VC.
    fn held_aal34(&self, index: VcIndex) -> u64 {
        let cold = self.cold.get(usize::from(index.0));
        cold.and_then(Option::as_ref)
            .map_or(0, |cold| cold.stats.cells_held)
    }

    /// Gives up the PDUs in progress on a VC.
    fn abandon<B: Board<Region = R, Attachment = A>>(
        &mut self,
        now: Time,
        index: VcIndex,
        board: &mut B,
    ) {
        let Some(mut reception) = self.reception(now, index, board) else {
            return;
        };
        let sender = &mut reception.vc.sender;
        if let Some(cold) = reception.cold {
            cold.stats.cells_transmitted_clp1 += sender.clp1_sent();
        }
        (sender.outgoing, sender.clp) = (Outgoing::None, false);
        reception.abandon();
    }

    /// A VC as reception sees it when no cell is in hand.
    pub(super) fn reception<'a, B: Board<Region = R, Attachment = A>>(
        &'a mut self,
        now: Time,
        index: VcIndex,
        board: &'a mut B,
    ) -> Option<Reception<'a, R, B>> {
        let at = usize::from(index.0);
        let (Some(Some(vc)), Some(cold)) = (self.vcs.get_mut(at), self.cold.get_mut(at)) else {
            return None;
        };
        Some(Reception {
            table: &mut self.table,
            clients: &mut self.clients,
            stats: &mut self.stats,
            vc,
            cold,
            arrival: Arrival {
                now,
                earliest: now,
                overloaded: false,
            },
            format: CellFormat::NoHec,
            board,
        })
    }

    fn close<B>(&mut self, now: Time, vc: VcId, board: &mut B) -> Ended<R>
    where
        B: Board<Region = R, Attachment = A>,
    {
        if let Err(refusal) = self.named(vc, board) {
            return (Err(refusal), None);
        }
        self.abandon(now, vc.index, board);
        if let Some(at) = self
            .pending
            .iter()
            .position(|pending| pending.vc.index == vc.index)
        {
            let Pending { ticket, region, .. } = self.pending.remove(at);
            let (result, region, attachment) = (Err(Refusal::StaleVc), Some(region), None);
            board.complete(Completion {
                ticket,
                result,
                region,
                attachment,
            });
        }
        let info = self.info(vc.index);
        let at = usize::from(vc.index.0);
        let (Some(state), Some(cold), Some(info)) = (
            self.vcs.get_mut(at).and_then(Option::take),
            self.cold.get_mut(at).and_then(Option::take),
            info,
        ) else {
            return (Err(Refusal::StaleVc), None);
        };
        let OpenRequest {
            port,
            address,
            receive,
            transmit,
            ..
        } = cold.request;
        let slot = cold.slot;
        if receive.is_some() {
            // A VC that only transmits may share the address with one that receives.
            self.table.set_discarding(slot, None);
        }
        let leaves = self.table.free_leaves();
        self.table
            .close(port, address, slot, receive.is_some(), transmit.is_some());
        if self.table.free_leaves() > leaves && board.planted(Planted::BlockKept) {
            self.table.lose_leaf();
        }
        if !board.planted(Planted::PathKept) {
            self.paths.close(port, address.vpi());
        }
        self.schedule.close(vc.index);
        self.wanting.forget(vc.index);
        self.timeouts.remove(vc.index);
        self.skipped[at] = 0;
        self.free.push(vc.index);
        self.clients.remove_vc(cold.request.attachment);
        (Ok(Outcome::Closed(info)), Some(state.region))
    }

    fn enumerate(&self, now: Time, from: VcIndex, mut into: Vec<VcInfo>) -> Outcome {
        into.clear();
        let mut at = usize::from(from.0);
        let slots = self.cold.len();
        let end = slots.min(at + SLOTS_PER_COMMAND);
        while at < end && into.len() < into.capacity() {
            into.extend(self.info(VcIndex(at as u16)));
            at += 1;
        }
        let left = self.cold.get(at..end).unwrap_or_default();
        let more = left.iter().position(Option::is_some).map(|more| at + more);
        let open = slots - self.free.len();
        let all = from.0 == 0 && into.len() == open;
        let next = more.or((end < slots && !all).then_some(end));
        let next = next.map(|slot| VcIndex(slot as u16));
        Outcome::State(AdapterState {
            time: now,
            stats: self.stats,
            vcs: into,
            next,
        })
    }

    /// What an open VC looks like from outside.
    pub fn info(&self, index: VcIndex) -> Option<VcInfo> {
        let at = usize::from(index.0);
        let vc = self.vcs.get(at)?.as_ref()?;
        let cold = self.cold.get(at)?.as_ref()?;
        let mut info = cold.info(vc.receiver.held(), &vc.sender);
        if let Some(reason) = self.table.discarding(cold.slot) {
            let skipped = u64::from(*self.skipped.get(at)?);
            info.stats.cells_discarded.add(reason, skipped);
            info.stats.cells_received += skipped;
        }
        Some(info)
    }

    fn reattach<B: Board<Region = R, Attachment = A>>(
        &mut self,
        vc: VcId,
        attachment: AttachmentIndex,
        board: &B,
    ) -> Result<Outcome, Refusal> {
        self.named(vc, board)?;
        if !self.clients.exists(attachment) {
            return Err(Refusal::NoAttachment);
        }
        let cold = self
            .cold
            .get_mut(usize::from(vc.index.0))
            .and_then(Option::as_mut);
        let cold = cold.ok_or(Refusal::StaleVc)?;
        self.clients.remove_vc(cold.request.attachment);
        self.clients.add_vc(attachment);
        cold.request.attachment = attachment;
        Ok(Outcome::Done)
    }

    fn lease<B: Board<Region = R, Attachment = A>>(
        &mut self,
        now: Time,
        vc: VcId,
        pdus: u32,
        expires_in_ns: u64,
        board: &B,
    ) -> Result<Outcome, Refusal> {
        self.named(vc, board)?;
        let cold = self
            .cold
            .get_mut(usize::from(vc.index.0))
            .and_then(Option::as_mut);
        let cold = cold.ok_or(Refusal::StaleVc)?;
        let excess = cold.request.receive.map(|receive| receive.excess);
        if !matches!(excess, Some(Excess::WhenIdle { .. })) {
            return Err(Refusal::BadParameter);
        }
        if expires_in_ns > Command::<R, A>::LEASE_MAX_NS {
            return Err(Refusal::BadParameter);
        }
        cold.lease = Lease {
            pdus,
            expires: now.plus_ns(expires_in_ns),
        };
        Ok(Outcome::Done)
    }

    fn tolerance<B: Board<Region = R, Attachment = A>>(&self, board: &B) -> Tolerance {
        let clumps = !board.planted(Planted::ClumpForgotten);
        Tolerance {
            clump_cells: if clumps { self.config.clump_cells } else { 1 },
            pdu_time: !board.planted(Planted::PduTimeForgotten),
        }
    }

    fn named<B: Board<Region = R, Attachment = A>>(
        &self,
        vc: VcId,
        board: &B,
    ) -> Result<&Cold, Refusal> {
        let any = board.planted(Planted::StaleGeneration);
        match self
            .cold
            .get(usize::from(vc.index.0))
            .and_then(Option::as_ref)
        {
            Some(cold) if any || cold.vc == vc => Ok(cold),
            _ => Err(Refusal::StaleVc),
        }
    }
}

/// A contract that some region could serve.
fn check_contract(request: &OpenRequest) -> Result<(), Refusal> {
    let max_sdu_ok = |max_sdu: u16| match request.aal {
        Aal::Aal0 => usize::from(max_sdu) == aal0::SDU_LEN,
        Aal::Aal5 | Aal::Aal34(_) => max_sdu > 0,
    };
    let receive = request
        .receive
        .is_none_or(|Receive { max_sdu, .. }| max_sdu_ok(max_sdu));
    let receive = receive
        && request.receive.is_none_or(|receive| {
            // The sustained rate judges beside a peak rate, and other AALs mark their PDUs.
            (receive.rate.is_some() || receive.sustained.is_none())
                && (receive.marks == Marks::None || request.aal == Aal::Aal0)
        });
    let transmit = request.transmit.is_none_or(|transmit| {
        let best_effort = transmit.weight > 0 && transmit.rate.is_none();
        let guaranteed = transmit.rate.is_some() && transmit.peak.is_none();
        // Bursts are at a peak rate, which is no less than what is sustained.
        let bursts = transmit.sustained.is_none_or(|sustained| {
            transmit.burst <= 1 && transmit.rate.is_some_and(|peak| sustained.rate <= peak)
        });
        max_sdu_ok(transmit.max_sdu) && (best_effort || guaranteed) && bursts
    });
    let available = abr_is_served(request);
    let some = request.receive.is_some() || request.transmit.is_some();
    let interleaving = request.aal.interleaving();
    let mids = interleaving
        .is_none_or(|interleaving| (1..=Interleaving::MIDS_MAX).contains(&interleaving.mids));
    if receive && transmit && available && some && mids {
        Ok(())
    } else {
        Err(Refusal::BadParameter)
    }
}

fn check_region<R: Region>(request: &OpenRequest, region: &mut R) -> Result<(), Refusal> {
    let sizes = Sizes {
        receive_len: if request.receive.is_some() {
            region.receive_buffer().len() as u64
        } else {
            0
        },
        receive_slots: region.receive_slots(),
        transmit_slots: region.transmit_slots(),
        transmit_len: region.transmit_len(),
        staging_len: region.staging().len(),
    };
    sizes.check(request)?;
    // The buffer has at most 2^30 octets.
    let limits = request.aal34_limits(sizes.receive_len as u32, sizes.receive_slots);
    let fits = match (limits, region.aal34()) {
        (Some(limits), Some((reassembler, _))) => {
            *reassembler.limits() == limits && reassembler.is_fresh()
        }
        (None, None) => true,
        _ => false,
    };
    if fits {
        Ok(())
    } else {
        Err(Refusal::BadRegion)
    }
}

/// Whether a VC may hold no more than `before`: only a region that comes along can change what
/// its reassembler was made for.
fn holds_as_much(request: &OpenRequest, before: &OpenRequest) -> bool {
    request.aal34_limits(0, 0) == before.aal34_limits(0, 0)
}

/// Sizes of a region.
struct Sizes {
    receive_len: u64,
    receive_slots: u32,
    transmit_slots: u32,
    transmit_len: u32,
    staging_len: usize,
}

impl Sizes {
    /// The largest receive buffer.
    const RECEIVE_LEN_MAX: u64 = 1 << 30;

    /// Whether the largest PDU of each direction fits.
    fn check(&self, request: &OpenRequest) -> Result<(), Refusal> {
        let pdu_len =
            |max_sdu| usize::from(Bounds::new(request.aal, max_sdu).max_cells) * PAYLOAD_LEN;
        let receive_fits = request.receive.is_none_or(|receive| {
            let room = pdu_len(receive.max_sdu).next_multiple_of(64) as u64;
            (room..=Self::RECEIVE_LEN_MAX).contains(&self.receive_len)
                && self.receive_len.is_multiple_of(64)
                && self.receive_slots.is_power_of_two()
        });
        let transmit_fits = request.transmit.is_none_or(|transmit| {
            self.transmit_len >= transmit.max_sdu.into()
                && self.transmit_slots.is_power_of_two()
                && self.staging_len >= pdu_len(transmit.max_sdu).max(aal0::SDU_LEN)
        });
        if receive_fits && transmit_fits {
            Ok(())
        } else {
            Err(Refusal::BadRegion)
        }
    }
}

fn new_receiver<R: Region>(
    request: &OpenRequest,
    region: &mut R,
    tolerance: Tolerance,
) -> Receiver {
    let (slots, len) = match request.receive {
        Some(_) => (region.receive_slots(), region.receive_buffer().len() as u64),
        None => (1, 0),
    };
    Receiver::new(request, slots, len, tolerance)
}

fn new_sender<R: Region>(request: &OpenRequest, region: &R) -> Sender {
    let slots = if request.transmit.is_some() {
        region.transmit_slots()
    } else {
        1
    };
    Sender::new(request.transmit.as_ref(), slots)
}
