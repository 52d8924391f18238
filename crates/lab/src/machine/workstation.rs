use cellgate_core::adapter::{
    Aal, Adapter, AdapterStats, AttachmentIndex, Config, Excess, Marks, Notification, OpenRequest,
    Outcome, PortConfig, PortIndex, Receive, Transmit, VcId,
};
use cellgate_core::contract::{CellRate, aal5_cells};
use cellgate_core::wire::{CellFormat, HeaderForm, VpiVci};

use super::cost::{Cycles, FIFOS};
use super::host::{Host, HostCosts};
use super::pca200e::{BoardCommand, BoardCompletion, BoardConfig, Pca200e};
use crate::experiments::Error;
use crate::memory::{LabAttachment, LabRegion, RegionSizes};
use crate::world::{Flying, Ps};

/// Cells that a turn of the firmware takes from one FIFO.
const RECEIVE_BURST: u16 = 16;
/// Slots of the event queue: more than events between two looks of the host.
const EVENT_SLOTS: u32 = 256;
/// Octets from one PDU to the next in a buffer.
pub(super) const ALIGN: u32 = 64;

/// When a connection's cells leave.
#[derive(Clone, Copy, Debug)]
pub enum Pacing {
    /// Whenever its FIFO takes them.
    ByFifo,
    /// One by one at this rate: the firmware schedules them.
    ByCell(CellRate),
    /// A PDU at a time at this rate, after those of others: the host hands them over so.
    ByPdu(CellRate),
}

/// A connection that a workstation sends on.
#[derive(Clone, Copy, Debug)]
pub struct SendSpec {
    pub address: VpiVci,
    /// The transmit FIFO.
    pub fifo: usize,
    /// Octets of the SDU that is sent again and again.
    pub sdu: u16,
    pub pacing: Pacing,
}

/// A connection that a workstation receives on, policed by its buffer.
#[derive(Clone, Copy, Debug)]
pub struct ReceiveSpec {
    pub address: VpiVci,
    /// Octets of every SDU.
    pub sdu: u16,
    /// PDUs that the receive buffer holds.
    pub buffer_pdus: u32,
    /// The least time from one PDU given back by the host to the next.
    pub drain: Ps,
}

/// Cells on their way to a workstation, in the order of their arrival.
pub trait Arrivals {
    /// The next cell, if it arrives at `now` or before.
    fn next(&mut self, now: Ps) -> Option<Flying>;
}

/// A line on which nothing comes.
#[derive(Clone, Copy, Debug)]
pub struct Quiet;

impl Arrivals for Quiet {
    fn next(&mut self, _now: Ps) -> Option<Flying> {
        None
    }
}

/// A host with a PCA-200E, whose i960 runs the adapter.
#[derive(Debug)]
pub struct Workstation {
    adapter: Adapter<LabRegion, LabAttachment>,
    board: Pca200e,
    host: Host,
    now: Ps,
    tickets: u64,
    /// Cycles of the i960 so far.
    cycles: Cycles,
}

impl Workstation {
    /// A workstation without connections.
    pub fn new(board: BoardConfig, host: HostCosts) -> Result<Self, Error> {
        let line_rate = u32::try_from(board.line_bit_s.div_ceil(424));
        let line_rate = line_rate.ok().and_then(CellRate::new);
        let port = PortConfig {
            form: HeaderForm::Uni,
            format: CellFormat::WithHec,
            budget: RECEIVE_BURST,
            discard_unread: false,
            real_time: false,
            line_rate: line_rate.ok_or_else(|| Error::new("no such line"))?,
        };
        let config = Config {
            vcs: 1_024,
            leaves: FIFOS as u16,
            attachments: 1,
            ports: vec![port; FIFOS],
            gap_max_ns: 1_000_000,
            clump_cells: 1,
            overload_cells: 0,
        };
        let adapter = Adapter::new(config, Ps::ZERO.time());
        let memory = LabAttachment::new(EVENT_SLOTS, Host::SLOTS);
        let mut workstation = Self {
            adapter: adapter.map_err(|refusal| Error::new(refusal.to_string()))?,
            board: Pca200e::new(board),
            host: Host::new(host, memory.clone(), AttachmentIndex(0)),
            now: Ps::ZERO,
            tickets: 0,
            cycles: Cycles::default(),
        };
        let ticket = workstation.ticket();
        let attached = workstation.command(BoardCommand::Attach {
            ticket,
            attachment: memory,
        })?;
        match attached.result {
            Ok(Outcome::Attached(index)) => workstation.host.index = index,
            other => return Err(Error::new(format!("no attachment: {other:?}"))),
        }
        Ok(workstation)
    }

    fn ticket(&mut self) -> u64 {
        self.tickets += 1;
        self.tickets
    }

    /// Has the adapter carry a command out, while nothing else happens.
    fn command(&mut self, command: BoardCommand) -> Result<BoardCompletion, Error> {
        self.board.order(command);
        for _ in 0..8 {
            self.step();
            if let Some(completion) = self.board.completions.pop_front() {
                return Ok(completion);
            }
        }
        Err(Error::new("a command was not carried out"))
    }

    fn open(
        &mut self,
        request: OpenRequest,
        sizes: RegionSizes,
    ) -> Result<(VcId, LabRegion), Error> {
        let region = LabRegion::for_request(sizes, &request);
        let ticket = self.ticket();
        let command = BoardCommand::Open {
            ticket,
            request,
            region: region.clone(),
        };
        match self.command(command)?.result {
            Ok(Outcome::Vc(vc)) => Ok((vc, region)),
            other => Err(Error::new(format!("{request:?}: {other:?}"))),
        }
    }

    /// Opens a connection that sends without end.
    pub fn send(&mut self, spec: &SendSpec) -> Result<(), Error> {
        let transmit = Transmit {
            rate: match spec.pacing {
                Pacing::ByCell(rate) => Some(rate),
                Pacing::ByFifo | Pacing::ByPdu(_) => None,
            },
            // What a turn of the firmware may be late, and the other connections of the FIFO.
            cdvt_ns: 1_000_000,
            weight: 1,
            abr: None,
            peak: None,
            max_sdu: spec.sdu,
            burst: 1,
            sustained: None,
            interrupt_on_completion: false,
        };
        let request = OpenRequest {
            address: spec.address,
            port: PortIndex(spec.fifo as u8),
            aal: Aal::Aal5,
            attachment: self.host.index,
            receive: None,
            transmit: Some(transmit),
        };
        let room = u32::from(spec.sdu).next_multiple_of(ALIGN) * Host::SLOTS;
        let (vc, region) = self.open(request, sizes(0, room))?;
        self.host.open(vc, region, spec.sdu.into(), Ps::ZERO);
        if let Pacing::ByPdu(rate) = spec.pacing {
            self.host.interleave(self.now, rate);
        }
        Ok(())
    }

    /// Opens a connection that receives, with an interrupt for every PDU.
    pub fn receive(&mut self, spec: &ReceiveSpec) -> Result<(), Error> {
        let receive = Receive {
            marks: Marks::None,
            rate: None,
            sustained: None,
            cdvt_ns: 0,
            guaranteed: false,
            max_sdu: spec.sdu,
            fixed_sdu: true,
            excess: Excess::Discard,
            notification: Notification::LastCell,
            queue_threshold: 0,
        };
        let request = OpenRequest {
            address: spec.address,
            port: PortIndex((spec.address.vci() % FIFOS as u16) as u8),
            aal: Aal::Aal5,
            attachment: self.host.index,
            receive: Some(receive),
            transmit: None,
        };
        let pdu = (aal5_cells(spec.sdu.into()) * 48).next_multiple_of(ALIGN);
        let (vc, region) = self.open(request, sizes(pdu * spec.buffer_pdus, 0))?;
        self.host.open(vc, region, 0, spec.drain);
        Ok(())
    }

    /// Runs until `until` while cells arrive.
    pub fn run(&mut self, until: Ps, arrivals: &mut impl Arrivals) {
        while self.now < until {
            while let Some(cell) = arrivals.next(self.now) {
                self.board.arrive(cell.octets);
            }
            self.step();
            let interrupts = std::mem::take(&mut self.board.interrupts);
            self.host.turn(self.now, interrupts);
        }
    }

    /// One turn of the firmware, in the time that it takes.
    fn step(&mut self) {
        self.board.begin(self.now);
        self.adapter.step(self.now.time(), &mut self.board);
        let spent = self.board.end();
        self.cycles.add(spent);
        // Its loop takes a cycle even if it finds nothing to look at.
        self.now = self.now.plus(spent.max(Cycles::whole(1)).time());
    }

    /// The virtual clock.
    pub fn now(&self) -> Ps {
        self.now
    }

    pub fn board(&mut self) -> &mut Pca200e {
        &mut self.board
    }

    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The adapter's counters.
    pub fn stats(&self) -> &AdapterStats {
        self.adapter.stats()
    }

    /// Cycles of the i960 so far.
    pub fn cycles(&self) -> Cycles {
        self.cycles
    }
}

fn sizes(receive_buffer: u32, transmit_len: u32) -> RegionSizes {
    RegionSizes {
        receive_buffer,
        receive_slots: Host::SLOTS,
        transmit_slots: Host::SLOTS,
        transmit_len,
        stable: true,
    }
}
