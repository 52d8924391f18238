use serde::{Deserialize, Serialize};

use super::abr::{OutOfRate, Wanting};
use super::clients::Clients;
use super::commands::Pending;
use super::crossing::Crossing;
use super::loopback::Loopbacks;
use super::oam::Replies;
use super::paths::Paths;
use super::reassembly::Arrival;
use super::receive::Batch;
use super::schedule::Schedule;
use super::table::Table;
use super::timeouts::Timeouts;
use super::vc::{Cold, Vc};
use super::{
    AdapterStats, Attachment, Board, Config, Planted, PortConfig, PortIndex, PortStats, Refusal,
    Region, Room, VcIndex, Work,
};
use crate::Time;
use crate::wire::{CELL_LEN, CellFormat, HeaderForm, HecReceiver};

/// Cells that a port transmits in one step, and that its line makes good after a stall.
pub(super) const TRANSMIT_BUDGET: u32 = 256;

/// The firmware: one interface, its VCs, its clients.
///
/// Everything it will ever need is allocated by [`Adapter::new`].
#[derive(Debug, Serialize, Deserialize)]
pub struct Adapter<R, A> {
    pub(super) config: Config,
    pub(super) table: Table,
    pub(super) vcs: Vec<Option<Vc<R>>>,
    pub(super) cold: Vec<Option<Cold>>,
    /// Cells of each VC discarded since it began to discard until the last of a PDU.
    pub(super) skipped: Vec<u32>,
    pub(super) generations: Vec<u32>,
    pub(super) free: Vec<VcIndex>,
    pub(super) pending: Vec<Pending<R>>,
    pub(super) timeouts: Timeouts,
    pub(super) paths: Paths,
    pub(super) loopbacks: Loopbacks,
    pub(super) wanting: Wanting,
    pub(super) clients: Clients<A>,
    pub(super) schedule: Schedule,
    pub(super) ports: Vec<Port>,
    /// Cells taken while best effort gives way, since it was last let in.
    gave_way: u64,
    pub(super) stats: AdapterStats,
    pub(super) now: Time,
    #[serde(skip, default = "receive_fifo")]
    fifo: Vec<u8>,
    #[serde(skip, default = "transmit_fifo")]
    pub(super) outgoing: Vec<u8>,
}

/// State of one port.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Port {
    pub(super) config: PortConfig,
    hec: HecReceiver,
    pub(super) replies: Replies,
    /// Out-of-rate RM cells that wait.
    pub(super) rm: OutOfRate,
    /// A time before the arrival of any cell that is yet to be taken.
    last_empty: Time,
    /// Cells taken since it was found empty.
    crowd: u32,
    /// Cells that it has received in this step and that crossed.
    crossed: u32,
    stats: PortStats,
}

impl Port {
    /// A time before the arrival of any cell that is yet to be taken, at most `gap_max_ns` ago.
    #[inline(always)]
    fn earliest<B: Board>(&self, now: Time, gap_max_ns: u64, board: &B) -> Time {
        let gap_max_ns = if board.planted(Planted::GapUnbounded) {
            u64::MAX
        } else {
            gap_max_ns
        };
        self.last_empty.max(now.minus_ns(gap_max_ns))
    }

    /// It is configured anew; cells of another format have headers of their own.
    pub(super) fn configure(&mut self, config: PortConfig) {
        if config.format != self.config.format {
            self.hec = HecReceiver::new();
        }
        self.config = config;
    }

    /// `taken` cells were taken in a step. Cells that are thrown away unread cost no time.
    fn note_crowd(&mut self, taken: usize, stays: bool) {
        let emptied = taken < usize::from(self.config.budget) && !stays;
        self.crowd = if emptied || self.config.discard_unread {
            0
        } else {
            self.crowd.saturating_add(taken as u32)
        };
    }
}

fn receive_fifo() -> Vec<u8> {
    vec![0; usize::from(Config::BUDGET_MAX) * CELL_LEN]
}

fn transmit_fifo() -> Vec<u8> {
    vec![0; TRANSMIT_BUDGET as usize * CELL_LEN]
}

impl<R, A> Adapter<R, A> {
    /// Cells for which best effort is let in under overload, at most: fewer than a FIFO holds.
    const LET_IN_MAX: u32 = 4_096;
}

impl Config {
    fn check(&self) -> Result<(), Refusal> {
        let ports = self.ports.iter();
        let sane = (1..=Self::PORTS_MAX).contains(&self.ports.len())
            && ports
                .clone()
                .all(|port| (1..=Self::BUDGET_MAX).contains(&port.budget))
            && (1..=Self::VCS_MAX).contains(&self.vcs)
            && self.leaves >= 1
            && self.attachments >= 1
            && self.clump_cells >= 1;
        if sane {
            Ok(())
        } else {
            Err(Refusal::BadParameter)
        }
    }
}

impl<R: Region, A: Attachment> Adapter<R, A> {
    /// An adapter without VCs or clients.
    pub fn new(config: Config, now: Time) -> Result<Self, Refusal> {
        config.check()?;
        let vcs = usize::from(config.vcs);
        let lines: Vec<_> = config.ports.iter().map(|port| port.line_rate).collect();
        Ok(Self {
            table: Table::new(config.ports.len(), config.leaves),
            vcs: (0..vcs).map(|_| None).collect(),
            cold: (0..vcs).map(|_| None).collect(),
            skipped: vec![0; vcs],
            generations: vec![0; vcs],
            free: (0..config.vcs).rev().map(VcIndex).collect(),
            pending: Vec::with_capacity(Pending::<R>::MAX),
            timeouts: Timeouts::new(vcs),
            paths: Paths::new(
                config.ports.len(),
                // A port of either form may become one of the other.
                HeaderForm::Nni.vpi_max(),
                vcs + Loopbacks::MAX,
            ),
            loopbacks: Loopbacks::new(now),
            wanting: Wanting::new(vcs),
            clients: Clients::new(config.attachments),
            schedule: Schedule::new(&lines, TRANSMIT_BUDGET, vcs),
            ports: config
                .ports
                .iter()
                .map(|&config| Port {
                    config,
                    hec: HecReceiver::default(),
                    replies: Replies::new(),
                    rm: OutOfRate::new(),
                    last_empty: now,
                    crowd: 0,
                    crossed: 0,
                    stats: PortStats::default(),
                })
                .collect(),
            gave_way: 0,
            stats: AdapterStats::default(),
            now,
            fifo: receive_fifo(),
            outgoing: transmit_fifo(),
            config,
        })
    }

    /// One turn of the firmware. Bounded: each port's budget of cells in, 256 cells and 8 new PDUs
    /// out on each port, or one PDU that crosses to another as a whole, 16 doorbells, one command.
    ///
    /// The board has looked what its ports hold before `now` was read; it hands out no more.
    pub fn step<B: Board<Region = R, Attachment = A>>(&mut self, now: Time, board: &mut B) {
        self.transmit(now, board);
        if board.planted(Planted::TimeoutBeforeCells) {
            self.expire_reassembly(now, board);
        }
        self.receive(now, board);
        self.settle_available(now, board);
        // The cells taken arrived before now: what they complete is not late.
        self.expire_reassembly(now, board);
        self.clients.expire(now, board, &mut self.stats);
        self.handle_commands(now, board);
        self.now = now;
        debug_assert!(self.stats.is_conserved(), "{:?}", self.stats);
    }

    /// Takes up to its budget of cells from each port, first from those that are real-time.
    pub fn receive<B: Board<Region = R, Attachment = A>>(&mut self, now: Time, board: &mut B) {
        let overloaded = self.is_overloaded(board);
        let before = self.stats.cells_received;
        let used = self.used_ports(board);
        let in_order = board.planted(Planted::PortsInOrder);
        for real_time in [true, false] {
            for index in 0..used {
                let port = self.ports.get(index);
                if port.is_some_and(|port| (port.config.real_time && !in_order) == real_time) {
                    self.receive_port(now, board, index, overloaded);
                }
            }
        }
        self.gave_way = match overloaded {
            true => self.gave_way + (self.stats.cells_received - before),
            false => 0,
        };
        if overloaded
            && self.gave_way >= self.config.overload_cells.into()
            && !board.planted(Planted::OverloadUnrelenting)
        {
            self.relent();
        }
    }

    /// Ports from this one on have nothing to do, and a step spends no time on them.
    pub(super) fn used_ports<B: Board>(&self, board: &B) -> usize {
        self.ports
            .len()
            .min(self.paths.ports().max(board.connected()))
    }

    /// Lets best effort in for a few cells, however long the overload lasts: its readers are to
    /// progress.
    fn relent(&mut self) {
        let bound = self.config.overload_cells;
        let until = bound.saturating_sub((bound / 8).clamp(1, Self::LET_IN_MAX));
        for port in &mut self.ports {
            port.crowd = port.crowd.min(until);
        }
        self.gave_way = 0;
    }

    /// Whether the steps before this one have left cells on some port for too long.
    fn is_overloaded<B: Board<Region = R, Attachment = A>>(&self, board: &B) -> bool {
        let bound = self.config.overload_cells;
        let bound = bound.saturating_sub(board.planted(Planted::OverloadByOne).into());
        bound > 0
            && self.ports.iter().any(|port| port.crowd >= bound)
            && !board.planted(Planted::OverloadIgnored)
    }

    /// How PDUs of `from` cross in this step, if they can.
    pub(super) fn crossing<B: Board<Region = R, Attachment = A>>(
        &self,
        now: Time,
        board: &B,
        from: PortIndex,
    ) -> Option<Crossing> {
        let to = board.crossing(from)?;
        let port = self.ports.get(usize::from(to.0))?;
        let plain = !port.config.discard_unread && !self.is_overloaded(board);
        plain.then(|| Crossing {
            to,
            form: port.config.form,
            arrival: Arrival {
                now,
                earliest: port.earliest(now, self.config.gap_max_ns, board),
                overloaded: false,
            },
            room: u32::from(port.config.budget).saturating_sub(port.crossed),
            cells: 0,
        })
    }

    /// What has crossed to a port.
    pub(super) fn note_crossing(&mut self, crossing: &Crossing) {
        if crossing.cells > 0
            && let Some(port) = self.ports.get_mut(usize::from(crossing.to.0))
        {
            // A PDU that was more than the port's budget left the port as empty as it was.
            let in_budget = crossing.cells <= port.config.budget.into();
            port.crossed += if in_budget { crossing.cells } else { 0 };
            // Their headers were valid.
            port.hec = HecReceiver::new();
        }
    }

    fn receive_port<B: Board<Region = R, Attachment = A>>(
        &mut self,
        now: Time,
        board: &mut B,
        index: usize,
        overloaded: bool,
    ) {
        let Some(port) = self.ports.get_mut(index) else {
            return;
        };
        let PortConfig {
            form,
            format,
            budget,
            discard_unread,
            ..
        } = port.config;
        let port_index = PortIndex(index as u8);
        let earliest = port.earliest(now, self.config.gap_max_ns, board);
        let stride = format.stride();
        let crossed = core::mem::take(&mut port.crossed) as usize;
        let budget = usize::from(budget);
        let room = budget.saturating_sub(crossed);
        let fifo = &mut self.fifo[..room * stride];
        board.charge(Work::TestReceiveFifos, 1);
        let taken = board.receive(port_index, format, fifo).min(room);
        self.stats.cells_received += taken as u64;

        if crossed + taken < budget {
            // Empty at a look after the step before this one: whatever comes later arrived later.
            port.last_empty = self.now;
        }
        let overloaded =
            overloaded && (port.crowd > 0 || !board.planted(Planted::OverloadOfOnePort));
        port.note_crowd(crossed + taken, board.planted(Planted::OverloadStays));
        if taken == 0 {
            return;
        }
        if discard_unread {
            self.stats.cells_unread += taken as u64;
            board.charge(Work::DiscardCells, taken as u32);
            return;
        }
        let before = PortStats::counted(&self.stats.cells_discarded);
        B::run(Batch {
            table: &mut self.table,
            vcs: &mut self.vcs,
            cold: &mut self.cold,
            skipped: &mut self.skipped,
            clients: &mut self.clients,
            stats: &mut self.stats,
            unknown: &mut port.stats.last_unknown,
            hec: &mut port.hec,
            replies: &mut port.replies,
            paths: &mut self.paths,
            loopbacks: &mut self.loopbacks,
            timeouts: &mut self.timeouts,
            wanting: &mut self.wanting,
            board,
            form,
            port: port_index,
            format,
            arrival: Arrival {
                now,
                earliest,
                overloaded,
            },
            cells: &mut fifo[..taken * stride],
        });
        let after = PortStats::counted(&self.stats.cells_discarded);
        port.stats.add(before, after);
    }

    /// What of a port's cells belongs to no VC.
    pub fn port_stats(&self, port: PortIndex) -> Option<PortStats> {
        self.ports.get(usize::from(port.0)).map(|port| port.stats)
    }

    pub fn stats(&self) -> &AdapterStats {
        &self.stats
    }

    /// What it has left to give. As much as at first when nothing is open.
    pub fn room(&self) -> Room {
        Room {
            vcs: self.free.len(),
            blocks: self.table.free_leaves(),
            paths: self.paths.idle(),
        }
    }

    /// The earliest time at which a step could do anything if no cell, doorbell or command comes:
    /// for clocks that may be set forward. Answers to OAM cells are not in it: they leave in the
    /// step after the one that took the cells, or as soon as a port has room.
    pub fn next_deadline(&self) -> Option<Time> {
        let lines = (0..self.ports.len()).map(|port| PortIndex(port as u8));
        lines
            .filter_map(|line| self.schedule.next_deadline(line))
            .chain(self.clients.next_deadline())
            .chain(self.timeouts.earliest())
            .chain(self.pending.iter().map(|pending| pending.deadline))
            .chain(self.loopbacks.deadlines())
            .chain(self.probe_deadline())
            .min()
    }

    /// Cells of 52 or 53 octets on `port`.
    pub(super) fn format(&self, port: PortIndex) -> CellFormat {
        self.ports
            .get(usize::from(port.0))
            .map_or(CellFormat::NoHec, |port| port.config.format)
    }
}
