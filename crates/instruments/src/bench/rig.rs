//! The adapter between a train of cells in memory and clients that give every PDU back.
//!
//! ```text
//! train -> TrainBoard -> FIFO -> Adapter -> memory files, mapped as for other processes -> clients
//!                        (the copy that the memory link makes)
//! ```
//!
//! Only the adapter's steps are timed, its board's copies included. The clients run between them.

use std::marker::PhantomData;
use std::rc::Rc;

use anyhow::{Context, anyhow, ensure};
use cellgate_core::Time;
use cellgate_core::aal::aal0;
use cellgate_core::adapter::{
    Adapter, AdapterStats, AttachmentIndex, Board, ClpScope, Command, Completion, Config,
    Notification, Outcome, PduEnd, PortConfig, PortIndex, Receive, Sustained, Transmit, VcId,
};
use cellgate_core::contract::{CellRate, aal5_cells};
use cellgate_core::queue::{
    AttachmentGeometry, AttachmentSizes, ConnectionGeometry, Doorbell, SduOptions,
};
use cellgate_core::wire::{CELL_LEN_NO_HEC, CellFormat, Header, HeaderForm, PAYLOAD_LEN, VpiVci};
use cellgate_host::client::memory_for;
use cellgate_host::sys::probes;
use cellgate_shm::{
    AttachmentMemory, ClientAttachment, ClientMemory, ConnectionMemory, ReceiveBuffer,
};

use cellgate_simd::{Kernel, with_features};

use super::measure::{Contestant, ticks};
use super::train::Train;
use crate::live::rig::{one_vc, port, receive, request};

/// SDUs of so many octets and more are policed by two buckets.
const DUAL_FROM_SDU: u16 = 8_192;

/// Cells of one step.
const BUDGET: u16 = Config::BUDGET_MAX;
/// Cells of the port that transmitted cells are copied to: the memory link's usual queue.
const SINK_CELLS: usize = 16_384;

type BenchAdapter = Adapter<ConnectionMemory, AttachmentMemory>;

/// How the adapter's receive loop is run.
pub(super) trait Run {
    fn run<K: Kernel>(batch: K) -> K::Output;
}

pub(super) struct AsIs;

impl Run for AsIs {
    #[inline(always)]
    fn run<K: Kernel>(batch: K) -> K::Output {
        with_features(batch)
    }
}

/// The adapter's world: a train on port 0, a sink behind it.
pub(super) struct TrainBoard<L = AsIs> {
    train: Rc<Train>,
    at: usize,
    command: Option<Command<ConnectionMemory, AttachmentMemory>>,
    completion: Option<Completion<ConnectionMemory, AttachmentMemory>>,
    sink: Vec<u8>,
    sink_at: usize,
    /// Cells sent by VCI, where they are counted.
    pub(super) sent_by_vci: Vec<u64>,
    receive_loop: PhantomData<L>,
}

impl<L: Run> Board for TrainBoard<L> {
    type Region = ConnectionMemory;
    type Attachment = AttachmentMemory;

    #[inline(always)]
    fn run<K: Kernel>(batch: K) -> K::Output {
        L::run(batch)
    }

    #[inline(always)]
    fn receive(&mut self, _port: PortIndex, _format: CellFormat, fifo: &mut [u8]) -> usize {
        let waiting = &self.train.octets()[self.at..];
        let len = fifo.len().min(waiting.len());
        fifo[..len].copy_from_slice(&waiting[..len]);
        self.at += len;
        len / CELL_LEN_NO_HEC
    }

    #[inline(always)]
    fn transmit_space(&mut self, _port: PortIndex) -> usize {
        SINK_CELLS
    }

    #[inline(always)]
    fn transmit(&mut self, _port: PortIndex, _format: CellFormat, cells: &[u8]) {
        if self.sink.len() - self.sink_at < cells.len() {
            self.sink_at = 0;
        }
        self.sink[self.sink_at..self.sink_at + cells.len()].copy_from_slice(cells);
        self.sink_at += cells.len();
        if !self.sent_by_vci.is_empty() {
            self.count(cells);
        }
    }

    fn interrupt(&mut self, _index: AttachmentIndex, _guaranteed: bool) {}

    fn command(&mut self) -> Option<Command<ConnectionMemory, AttachmentMemory>> {
        self.command.take()
    }

    /// As in the adapter's process: what its probes cost while nobody listens is measured, too.
    #[inline(always)]
    fn ended(&mut self, port: PortIndex, address: VpiVci, end: PduEnd) {
        probes::pdu(port, address, end);
    }

    fn complete(&mut self, completion: Completion<ConnectionMemory, AttachmentMemory>) {
        self.completion = Some(completion);
    }
}

impl<L> TrainBoard<L> {
    fn count(&mut self, cells: &[u8]) {
        let (cells, _) = cells.as_chunks::<CELL_LEN_NO_HEC>();
        for [a, b, c, d, ..] in cells {
            let vci = Header::parse([*a, *b, *c, *d])
                .address(HeaderForm::Nni)
                .vci();
            if let Some(count) = self.sent_by_vci.get_mut(usize::from(vci)) {
                *count += 1;
            }
        }
    }
}

/// What the VCs of a rig are opened with.
#[derive(Clone, Copy)]
pub(super) struct Contract {
    pub(super) sdu: u16,
    /// Received cells beyond this rate are refused; none: not policed.
    pub(super) receive_rate: Option<CellRate>,
    pub(super) notification: Notification,
}

impl Contract {
    /// Policed at a rate that nothing here exceeds; the client looks by itself.
    pub(super) fn policed(sdu: u16) -> Self {
        Self {
            sdu,
            receive_rate: CellRate::new(2_000_000_000),
            notification: Notification::Polled,
        }
    }
}

/// One VC as its client has it.
pub(super) struct RigVc {
    pub(super) id: VcId,
    pub(super) memory: ClientMemory,
}

/// The adapter and its world.
pub(super) struct Rig<L = AsIs> {
    adapter: BenchAdapter,
    pub(super) board: TrainBoard<L>,
    attachment: ClientAttachment,
    pub(super) vcs: Vec<RigVc>,
    pub(super) now: Time,
    /// Steps between two looks of the clients.
    look_every: usize,
    /// Cells per pass beyond which a pass is wrong.
    passes: u64,
}

impl Rig {
    /// An adapter without VCs, on a line of `line_rate`.
    pub(super) fn new(vcs: usize, line_rate: CellRate, train: Rc<Train>) -> anyhow::Result<Self> {
        Self::of(vcs, line_rate, train)
    }

    /// [`Rig::receiving_by`] with the adapter as it is.
    pub(super) fn receiving(
        addresses: &[VpiVci],
        contract: Contract,
        train: Rc<Train>,
    ) -> anyhow::Result<Self> {
        Self::receiving_by(addresses, contract, train)
    }

    /// An adapter that throws its port's cells away unread.
    pub(super) fn unread(train: Rc<Train>) -> anyhow::Result<Self> {
        let mut rig = Self::new(1, CellRate::OC3, train)?;
        let config = PortConfig {
            discard_unread: true,
            real_time: false,
            ..port(BUDGET)
        };
        rig.carry_out(Command::Configure {
            ticket: 0,
            port: PortIndex(0),
            config,
        })?;
        Ok(rig)
    }
}

impl<L: Run> Rig<L> {
    fn of(vcs: usize, line_rate: CellRate, train: Rc<Train>) -> anyhow::Result<Self> {
        let port = PortConfig {
            line_rate,
            ..port(BUDGET)
        };
        let config = Config {
            vcs: vcs.max(1) as u16,
            leaves: 64,
            ports: vec![port],
            gap_max_ns: 1_000_000,
            ..one_vc()
        };
        let sizes = AttachmentSizes {
            event_slots: 4096,
            doorbell_slots: 8192,
        };
        let geometry = AttachmentGeometry::new(sizes)?;
        let (memory, files) = AttachmentMemory::create(&geometry, 1)?;
        let attachment = ClientAttachment::open(&files, &geometry, 1)?;
        let now = Time::from_ns(1_000_000_000);
        let mut rig = Self {
            adapter: Adapter::new(config, now)?,
            board: TrainBoard {
                at: train.octets().len(),
                train,
                command: None,
                completion: None,
                sink: vec![0; SINK_CELLS * CELL_LEN_NO_HEC],
                sink_at: 0,
                sent_by_vci: Vec::new(),
                receive_loop: PhantomData,
            },
            attachment,
            vcs: Vec::with_capacity(vcs),
            now,
            look_every: 1,
            passes: 0,
        };
        rig.carry_out(Command::Attach {
            ticket: 0,
            attachment: memory,
        })?;
        Ok(rig)
    }

    /// An adapter whose VCs at `addresses` receive `train`, with room for all that arrives between
    /// two looks of their clients.
    pub(super) fn receiving_by(
        addresses: &[VpiVci],
        contract: Contract,
        train: Rc<Train>,
    ) -> anyhow::Result<Self> {
        let mut rig = Self::of(addresses.len(), CellRate::OC3, train)?;
        let pdu_cells = aal5_cells(contract.sdu.into()) as usize;
        let round = (addresses.len() * pdu_cells).max(1);
        //  Twice in each round of PDUs, or after every step: a VC completes one PDU between two
        //  looks, or as many as a step has cells for.
        let step = usize::from(BUDGET);
        rig.look_every = (round / step / 2).max(1);
        let pdus = 2 + step.div_ceil(round);
        for &address in addresses {
            rig.open_receiving(address, contract, pdus as u32)?;
        }
        Ok(rig)
    }

    /// Opens a VC that receives, with room for `pdus` PDUs.
    pub(super) fn open_receiving(
        &mut self,
        address: VpiVci,
        contract: Contract,
        pdus: u32,
    ) -> anyhow::Result<()> {
        // Long PDUs are policed by both buckets, as a VBR contract asks, short ones by one.
        let dual = contract
            .receive_rate
            .filter(|_| contract.sdu >= DUAL_FROM_SDU);
        let receive = Receive {
            sustained: dual.map(|rate| Sustained {
                rate,
                burst_tolerance_ns: 0,
                clp: ClpScope::AllCells,
            }),
            rate: contract.receive_rate,
            ..receive(contract.sdu, contract.notification)
        };
        self.open(address, contract.sdu, Some(receive), None, (pdus, 0))
    }

    /// Opens a VC that transmits, with room for `pdus` PDUs.
    pub(super) fn open_transmitting(
        &mut self,
        address: VpiVci,
        transmit: Transmit,
        pdus: u32,
    ) -> anyhow::Result<()> {
        self.open(address, transmit.max_sdu, None, Some(transmit), (0, pdus))
    }

    fn open(
        &mut self,
        address: VpiVci,
        sdu: u16,
        receive: Option<Receive>,
        transmit: Option<Transmit>,
        (receive_pdus, transmit_pdus): (u32, u32),
    ) -> anyhow::Result<()> {
        let geometry = ConnectionGeometry::new(memory_for(sdu, receive_pdus, transmit_pdus))?;
        let staging_len = match transmit {
            //  An AAL0 SDU fits any staging.
            Some(_) => (aal5_cells(sdu.into()) as usize * PAYLOAD_LEN).max(aal0::SDU_LEN),
            None => 0,
        };
        let (region, files) =
            ConnectionMemory::create(&geometry, 1, staging_len, ReceiveBuffer::Own)?;
        let memory = ClientMemory::open(&files, &geometry, 1, ReceiveBuffer::Own)?;
        let request = request(address, receive, transmit);
        let outcome = self.carry_out(Command::Open {
            ticket: 0,
            request,
            region,
        })?;
        let Outcome::Vc(id) = outcome else {
            return Err(anyhow!("an open ended as {outcome:?}"));
        };
        let memory = memory.named(&geometry, id.generation);
        self.vcs.push(RigVc { id, memory });
        Ok(())
    }

    /// Carries one command out.
    pub(super) fn carry_out(
        &mut self,
        command: Command<ConnectionMemory, AttachmentMemory>,
    ) -> anyhow::Result<Outcome> {
        self.board.command = Some(command);
        self.adapter.handle_commands(self.now, &mut self.board);
        let completion = self.board.completion.take().context("no completion")?;
        Ok(completion.result?)
    }

    pub(super) fn stats(&self) -> AdapterStats {
        *self.adapter.stats()
    }

    /// Another train from now on.
    pub(super) fn set_train(&mut self, train: Rc<Train>) {
        self.board.at = train.octets().len();
        self.board.train = train;
    }

    /// Cells of a pass.
    pub(super) fn cells(&self) -> usize {
        self.board.train.cells()
    }

    /// Receives the whole train in each pass.
    pub(super) fn contestant(&mut self, name: impl Into<String>) -> Contestant<'_> {
        let cells = self.cells();
        Contestant::new(name, cells, move || self.pass())
    }

    /// Receives the whole train: the ticks that the adapter took.
    pub(super) fn pass(&mut self) -> u64 {
        let ticks = self.pass_holding();
        self.give_back();
        ticks
    }

    /// The same with clients that never look.
    pub(super) fn pass_unread(&mut self) -> u64 {
        let look_every = std::mem::replace(&mut self.look_every, usize::MAX);
        let ticks = self.pass_holding();
        self.look_every = look_every;
        ticks
    }

    fn pass_holding(&mut self) -> u64 {
        self.board.at = 0;
        self.passes += 1;
        let mut total = 0;
        let mut steps = 0;
        while self.board.at < self.board.train.octets().len() {
            self.now = self.now.plus_ns(20 * u64::from(BUDGET));
            total += self.timed_step();
            steps += 1;
            if steps % self.look_every == 0 {
                self.give_back();
            }
        }
        total
    }

    /// One step of the adapter at the present time: the ticks it took.
    #[inline(never)]
    pub(super) fn timed_step(&mut self) -> u64 {
        let from = ticks();
        self.adapter.step(self.now, &mut self.board);
        ticks() - from
    }

    /// All clients give back what they have, and take their events.
    pub(super) fn give_back(&mut self) {
        for vc in &mut self.vcs {
            while let Some(pdu) = vc.memory.next_pdu() {
                vc.memory.release(pdu);
            }
        }
        while self.attachment.next_event().is_some() {}
    }

    /// Fails unless every cell of every pass was delivered.
    pub(super) fn ensure_delivered(&self) -> anyhow::Result<()> {
        let stats = self.stats();
        let expected = self.passes * self.cells() as u64;
        ensure!(
            stats.cells_delivered == expected,
            "{} of {expected} cells were delivered: {:?}",
            stats.cells_delivered,
            stats.cells_discarded
        );
        Ok(())
    }

    /// Submits SDUs of `sdu` octets on the VC `at` until there is no room, and rings; how many.
    pub(super) fn fill_transmit(&mut self, at: usize, sdu: u16) -> u32 {
        let vc = &mut self.vcs[at];
        let mut count = 0;
        while let Some(space) = vc.memory.reserve(sdu.into()) {
            if !vc.memory.submit(space, SduOptions::default()) {
                break;
            }
            count += 1;
        }
        if count > 0 {
            //  The queue has room for every VC twice, and is emptied with every look.
            let _rung = self.attachment.ring(Doorbell {
                vc: vc.id.index.0.into(),
                generation: vc.id.generation,
            });
        }
        while self.attachment.next_event().is_some() {}
        count
    }
}
