//! An adapter on heap memory, and a host behind it that takes every PDU at once.

use anyhow::{Context, anyhow, ensure};
use cellgate_core::Time;
use cellgate_core::aal::aal34;
use cellgate_core::adapter::{
    Aal, Adapter, AdapterState, AttachmentIndex, Command, Config, Discard, Event, EventKind,
    Interleaving, Notification, OpenRequest, Outcome, PortConfig, PortIndex, Receive, VcId,
    VcIndex,
};
use cellgate_core::contract::{CellRate, aal5_cells};
use cellgate_core::queue::layout::{PAGE_LEN, PDU_ALIGN};
use cellgate_core::queue::{
    AttachmentGeometry, AttachmentSizes, ConnectionGeometry, ConnectionSizes,
};
use cellgate_core::wire::{CELL_LEN, CellFormat, PAYLOAD_LEN, VpiVci};
use cellgate_shm::{AttachmentMemory, ClientAttachment, ClientMemory, ConnectionMemory};

use super::board::ReplayBoard;
use super::contract::{Contracts, Terms};
use super::survey::{FORM, Survey};

/// Cells of one step: as many PDUs can be complete before the host looks.
const BUDGET: u16 = Config::BUDGET_MAX;
/// When the replay begins, by the adapter's clock: time enough before for every bucket to be empty.
const EPOCH: Time = Time::from_ns(1_000_000_000);
/// PDUs of the largest size that a VC has room for: one that is taken, one in progress.
const PDUS: u32 = 2;
/// Octets that the receive buffers take together.
const BUFFERS_LEN_MAX: u64 = 2 << 30;

/// What came out of a record's cells.
pub(super) enum Arrived<'a> {
    /// An SDU, for the host.
    Sdu {
        /// As in the capture; none if it has no times.
        time_ns: Option<u64>,
        address: VpiVci,
        aal: Aal,
        /// Of AAL3/4, else 0.
        mid: u16,
        sdu: &'a [u8],
    },
    /// A cell at which something was discarded.
    Discarded {
        /// As in the capture; none if it has no times.
        time_ns: Option<u64>,
        cell: &'a [u8; CELL_LEN],
        reason: Discard,
    },
}

/// One VC as the host has it.
pub(super) struct HostVc {
    pub(super) id: VcId,
    pub(super) address: VpiVci,
    pub(super) aal: Aal,
    pub(super) aal_guessed: bool,
    /// How early its cells may be, where it has a rate.
    pub(super) cdvt_ns: Option<u64>,
    memory: ClientMemory,
    /// What the host counted itself.
    pub(super) sdus: u64,
    pub(super) sdu_octets: u64,
}

/// The adapter, its world and its host.
pub(super) struct Host {
    adapter: Adapter<ConnectionMemory, AttachmentMemory>,
    board: ReplayBoard,
    attachment: ClientAttachment,
    /// In the order of their slots.
    pub(super) vcs: Vec<HostVc>,
    start_ns: Option<u64>,
    now: Time,
    pub(super) cells_sent: u64,
    /// Records that were captured before one that precedes them: time does not go back here.
    pub(super) steps_back: u64,
}

impl Host {
    /// An adapter with the VCs of `survey` open.
    pub(super) fn new(survey: &Survey, contracts: &Contracts) -> anyhow::Result<Self> {
        let vcs = survey.vcs();
        let vcs = vcs.map(|(address, look)| (address, contracts.of(address, look)));
        let vcs: Vec<_> = vcs.collect();
        check_buffers(vcs.iter().map(|(_, terms)| terms))?;
        let config = Config {
            vcs: vcs.len().max(1) as u16,
            leaves: survey.blocks().max(1) as u16,
            attachments: 1,
            ports: vec![PortConfig {
                form: FORM,
                format: CellFormat::WithHec,
                budget: BUDGET,
                discard_unread: false,
                real_time: false,
                line_rate: CellRate::OC3,
            }],
            // The capture says when each cell came: there is nothing to make good.
            gap_max_ns: 0,
            clump_cells: contracts.tolerance.clump_cells,
            overload_cells: 0,
        };
        let sizes = AttachmentSizes {
            event_slots: 2 * u32::from(BUDGET),
            doorbell_slots: 1,
        };
        let (memory, attachment) = AttachmentMemory::heap(&AttachmentGeometry::new(sizes)?, 1);
        let mut host = Self {
            adapter: Adapter::new(config, EPOCH)?,
            board: ReplayBoard::default(),
            attachment,
            vcs: Vec::with_capacity(vcs.len()),
            start_ns: survey.start_ns(),
            now: EPOCH,
            cells_sent: 0,
            steps_back: 0,
        };
        host.carry_out(Command::Attach {
            ticket: 0,
            attachment: memory,
        })?;
        for (address, terms) in vcs {
            host.open(address, terms)
                .with_context(|| format!("VC {address}"))?;
        }
        Ok(host)
    }

    fn open(&mut self, address: VpiVci, terms: Terms) -> anyhow::Result<()> {
        let Terms {
            aal,
            aal_guessed,
            receive,
        } = terms;
        let sizes = sizes(aal, receive.max_sdu);
        let geometry = ConnectionGeometry::new(sizes)?;
        let request = OpenRequest {
            address,
            port: PortIndex(0),
            aal,
            attachment: AttachmentIndex(0),
            receive: Some(Receive {
                notification: Notification::LastCell,
                ..receive
            }),
            transmit: None,
        };
        let (region, memory) = ConnectionMemory::heap(&geometry, 1, 0);
        let region = match request.aal34_limits(sizes.receive_len, sizes.receive_slots) {
            Some(limits) => region.with_reassembler(limits),
            None => region,
        };
        let outcome = self.carry_out(Command::Open {
            ticket: 0,
            request,
            region,
        })?;
        let Outcome::Vc(id) = outcome else {
            return Err(anyhow!("an open ended as {outcome:?}"));
        };
        ensure!(
            usize::from(id.index.0) == self.vcs.len(),
            "slots are not given in order"
        );
        self.vcs.push(HostVc {
            id,
            address,
            aal,
            aal_guessed,
            cdvt_ns: receive.rate.map(|_| receive.cdvt_ns),
            memory: memory.named(&geometry, id.generation),
            sdus: 0,
            sdu_octets: 0,
        });
        Ok(())
    }

    fn carry_out(
        &mut self,
        command: Command<ConnectionMemory, AttachmentMemory>,
    ) -> anyhow::Result<Outcome> {
        self.board.command = Some(command);
        self.adapter.handle_commands(self.now, &mut self.board);
        let completion = self.board.completion.take().context("no completion")?;
        Ok(completion.result?)
    }

    /// Lets the cells of one record arrive, and tells `told` what comes of them.
    pub(super) fn arrive(
        &mut self,
        time_ns: Option<u64>,
        cells: &[[u8; CELL_LEN]],
        mut told: impl FnMut(Arrived<'_>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        self.advance(time_ns);
        self.cells_sent += cells.len() as u64;
        self.board.load(cells);
        while !self.board.is_empty() {
            self.adapter.step(self.now, &mut self.board);
            self.take_all(time_ns, &mut told)?;
        }
        for (cell, reason) in self.board.discarded() {
            told(Arrived::Discarded {
                time_ns,
                cell,
                reason,
            })?;
        }
        Ok(())
    }

    fn advance(&mut self, time_ns: Option<u64>) {
        let (Some(time_ns), Some(start_ns)) = (time_ns, self.start_ns) else {
            return;
        };
        let then = EPOCH.plus_ns(time_ns.saturating_sub(start_ns));
        if then < self.now {
            self.steps_back += 1;
        }
        self.now = self.now.max(then);
    }

    /// Takes every PDU that an event tells of, and gives it back.
    fn take_all(
        &mut self,
        time_ns: Option<u64>,
        told: &mut impl FnMut(Arrived<'_>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        while let Some(octets) = self.attachment.next_event() {
            let Some(event) = Event::parse(&octets) else {
                return Err(anyhow!("an event that is none"));
            };
            if event.kind != EventKind::PduReceived {
                continue;
            }
            let vc = self.vcs.get_mut(usize::from(event.vc.index.0));
            vc.context("an event of no VC")?.take(time_ns, told)?;
        }
        Ok(())
    }

    /// A last turn, in which the last answers leave.
    pub(super) fn end(&mut self) {
        self.board.load(&[]);
        self.adapter.step(self.now, &mut self.board);
    }

    /// The adapter's counters and those of each VC.
    pub(super) fn state(&mut self) -> anyhow::Result<AdapterState> {
        let mut vcs = Vec::with_capacity(self.vcs.len());
        let mut from = VcIndex(0);
        loop {
            let outcome = self.carry_out(Command::Enumerate {
                ticket: 0,
                from,
                into: Vec::with_capacity(self.vcs.len()),
            })?;
            let Outcome::State(state) = outcome else {
                return Err(anyhow!("an enumeration ended as {outcome:?}"));
            };
            vcs.extend_from_slice(&state.vcs);
            match state.next {
                Some(next) => from = next,
                None => return Ok(AdapterState { vcs, ..state }),
            }
        }
    }

    /// From the first record to the latest.
    pub(super) const fn elapsed_ns(&self) -> u64 {
        self.now.since_ns(EPOCH)
    }
}

impl HostVc {
    fn take(
        &mut self,
        time_ns: Option<u64>,
        told: &mut impl FnMut(Arrived<'_>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        while let Some(pdu) = self.memory.next_pdu() {
            let sdu = self.memory.sdu(&pdu).context("a PDU of another VC")?;
            self.sdus += 1;
            self.sdu_octets += sdu.len() as u64;
            told(Arrived::Sdu {
                time_ns,
                address: self.address,
                aal: self.aal,
                mid: pdu.mid(),
                sdu,
            })?;
            self.memory.release(pdu);
        }
        Ok(())
    }
}

/// Whether the buffers of all VCs are not too much: those of AAL3/4 have room for every MID.
fn check_buffers<'a>(vcs: impl Iterator<Item = &'a Terms>) -> anyhow::Result<()> {
    // A buffer on the heap is twice as long: see `ConnectionMemory::heap`.
    let lens = vcs.map(|vc| 2 * u64::from(sizes(vc.aal, vc.receive.max_sdu).receive_len));
    let len: u64 = lens.sum();
    ensure!(
        len <= BUFFERS_LEN_MAX,
        "the VCs need {len} octets of receive buffers, of which a replay has {BUFFERS_LEN_MAX}: \
         give contracts with a smaller max_sdu"
    );
    Ok(())
}

/// Room for all that one step can complete, and two of the largest PDUs; of AAL3/4 beside one in
/// progress on every MID.
fn sizes(aal: Aal, max_sdu: u16) -> ConnectionSizes {
    let (pdu, pdus) = match aal {
        Aal::Aal5 => (aal5_cells(max_sdu.into()) * PAYLOAD_LEN as u32, PDUS),
        Aal::Aal0 => (1, PDUS),
        Aal::Aal34(Interleaving { mids, .. }) => {
            let cells = u32::from(aal34::cells(max_sdu));
            (cells * PAYLOAD_LEN as u32, PDUS + u32::from(mids))
        }
    };
    let largest = pdu.next_multiple_of(PDU_ALIGN as u32);
    // A step's cells as PDUs of one cell each start on a boundary each.
    let step = u32::from(BUDGET) * PDU_ALIGN as u32;
    ConnectionSizes {
        receive_slots: 2 * u32::from(BUDGET),
        receive_len: (pdus * largest + step).next_multiple_of(PAGE_LEN as u32),
        receive_elsewhere: false,
        transmit_slots: 1,
        transmit_len: 0,
    }
}
