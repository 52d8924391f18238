//! A host: the real adapter with its FIFOs, and its clients. It steps on a grid of its own; steps
//! that could do nothing are left out.

mod abr;
mod accounts;
mod change;
mod commands;
mod lifecycle;
mod notice_check;
mod reports;
mod rests;
mod steps;
mod streams;
mod turns;
mod watch;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use cellgate_core::Time;
use cellgate_core::adapter::{
    AdapterStats, Config, OpenRequest, PortConfig, PortIndex, Refusal, Room, VcId, VcInfo,
};
use cellgate_core::contract::CellRate;
use cellgate_core::wire::{CELL_LEN, CellFormat, HeaderForm, VpiVci};

use crate::board::{LabBoard, LabCommand, Trace};
use crate::judge::Judge;
use crate::memory::RegionSizes;
use crate::mutants::LabAdapter;
use crate::world::build::Options;
use crate::world::canary::Canary;
use crate::world::endpoint::{Client, Endpoint, Handles, Sdu};
use crate::world::incident::Change;
use crate::world::line::{Flying, Line, address_of};
use crate::world::net::Net;
use crate::world::scenario::HostSpec;
use crate::world::servers::{Application, Served};
use crate::world::source::Source;
use crate::world::streams::{Film, Player};
use crate::world::{Ps, Violation};

use abr::Available;
use accounts::AccountBook;
pub(crate) use accounts::{ChargeBug, VcAccount};
pub(crate) use change::GUESTS_VPI;
use commands::AskedFor;
pub(crate) use commands::{Answer, Brought, End, info};
pub(crate) use lifecycle::tells_of_all;
use rests::Rests;
pub(crate) use rests::{RestCounts, shaped_late, transmit_fifo};
use steps::Steps;
use watch::Watch;

/// Cells that wait in a port's transmit FIFO.
pub(crate) const TRANSMIT_FIFO: u64 = 64;

/// The lines at a port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wires {
    pub(crate) input: usize,
    pub(crate) output: usize,
    pub(crate) rate: CellRate,
    /// Cells that it took in the last step.
    pub(crate) space: usize,
}

/// A VC to be opened, and what for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opening {
    pub(crate) connection: u32,
    pub(crate) client: usize,
    pub(crate) request: OpenRequest,
    pub(crate) sizes: RegionSizes,
    /// Its client writes what it should not.
    pub(crate) lawless: bool,
}

/// A VC that is being changed.
#[derive(Debug)]
struct Changing {
    opening: Opening,
    /// Its name until then.
    vc: VcId,
    /// The new memory, if there is any.
    handles: Option<Handles>,
    /// What the host's clock said when that was asked for.
    asked: Time,
}

/// What a command was given for.
#[derive(Debug)]
enum Ordered {
    Attach(usize),
    Open(Box<(Opening, Handles)>),
    Modify(Box<Changing>),
    Lend,
    Close(u32, VcId),
    /// To close a VC that has got another name before.
    CloseInVain,
    Asked(AskedFor),
    /// A VC of somebody else, who may have gone meanwhile.
    Guest {
        stays: bool,
    },
}

/// What a host counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HostCounts {
    /// Cells that found a receive FIFO full, or no adapter.
    pub(crate) overflowed: u64,
    /// Cells put into receive FIFOs.
    pub(crate) arrived: u64,
    /// Cells in FIFOs when their adapter died.
    pub(crate) buried: u64,
    pub(crate) steps: u64,
    pub(crate) interrupts: u64,
    /// Cells put on lines, answers to OAM cells too.
    pub(crate) sent: u64,
    /// Changes of VCs that were carried out.
    pub(crate) modified: u64,
    /// VCs that somebody else has opened.
    pub(crate) guests: u64,
    /// VCs for which there was no room.
    pub(crate) turned_away: u64,
    /// Interrupts that were lost.
    pub(crate) unheard: u64,
    /// Commands that found the adapter's queue full.
    pub(crate) waited: u64,
    /// Changes that brought new memory.
    pub(crate) replaced: u64,
    /// VCs that were to be closed while they were changed.
    pub(crate) put_off: u64,
    /// PDUs read across the end of their buffer.
    pub(crate) across: u64,
    /// Times that something was read from a receive queue, or put into a transmit queue, that had
    /// come round.
    pub(crate) receive_wraps: u64,
    pub(crate) transmit_wraps: u64,
}

/// A host in a run.
#[derive(Debug)]
pub(crate) struct Host {
    /// Its number among hosts.
    pub(crate) number: u32,
    pub(crate) spec: HostSpec,
    pub(crate) config: Config,
    pub(crate) options: Options,
    ports: Vec<Wires>,
    pub(crate) adapter: LabAdapter,
    /// What it had to give at first.
    room: Room,
    /// What adapters that have died had counted.
    past: Vec<AdapterStats>,
    board: LabBoard,
    pub(crate) judge: Option<Judge>,
    /// Cells that those before this one have compared.
    judged: u64,
    watch: Watch,
    book: AccountBook,
    /// References of ABR, if any run beside its adapters.
    available: Available,
    follows_abr: bool,
    /// The scenario's, then those of applications of the server.
    pub(crate) clients: Vec<Client>,
    /// How many the scenario has.
    own_clients: usize,
    pub(crate) endpoints: BTreeMap<VcId, Endpoint>,
    /// The VC of a connection.
    pub(crate) by_connection: BTreeMap<u32, VcId>,
    /// What is open, or is to be again.
    pub(crate) openings: BTreeMap<u32, Opening>,
    ordered: BTreeMap<u64, Ordered>,
    /// The adapter's queue of commands is full until then, and these wait.
    full_until: Option<Ps>,
    waiting: VecDeque<(u64, LabCommand)>,
    /// Connections that are being changed.
    changing: BTreeSet<u32>,
    tickets: u64,
    pub(crate) refusals: Vec<Refusal>,
    /// How commands of the server have ended, for whoever carries them on.
    pub(crate) answered: Vec<Answer>,
    /// The last counters of VCs that were closed.
    pub(crate) closed: Vec<(u32, VcInfo)>,
    /// How many cells of an address have found a FIFO full, or no adapter.
    pub(crate) overflowed: BTreeMap<VpiVci, u64>,
    pub(crate) counts: HostCounts,
    /// Clients that were woken, and when they run.
    pub(crate) waking: Vec<(Ps, u32)>,
    pub(crate) steps: Steps,
    deaf_until: Ps,
    /// What its clock is ahead of virtual time.
    clock_ns: u64,
    /// Connections of applications that write where they should not, and the VCs that these have
    /// or have had.
    liars: BTreeMap<(PortIndex, VpiVci), u32>,
    liars_vcs: BTreeSet<VcId>,
    /// VCs of somebody else.
    guests: Vec<VcId>,
    /// Such VCs that were ever asked for.
    invited: u64,
    /// VCs whose memory was replaced: what is in the old one is still to be read.
    pub(crate) left: Vec<VcId>,
    /// Connections closed while they are being changed; whether they are to be opened again.
    closing: BTreeMap<u32, bool>,
    /// Connections whose PDUs in progress were given up for new memory, or could have been.
    pub(crate) cut: BTreeSet<u32>,
    pub(crate) is_down: bool,
    /// The last step took cells.
    has_received: bool,
    rests: Rests,
    /// Times that clients have run.
    pub(crate) runs: u64,
    /// Times that they were run for no reason.
    pub(crate) unasked: u64,
    /// The SDU that was handed over last.
    sdu: Vec<u8>,
    /// Clients that a step has interrupted.
    woken: Vec<usize>,
    /// No client runs before.
    pub(crate) idle_until: Ps,
    /// Sources whose SDUs its adapter sends.
    pub(crate) writers: BTreeMap<u32, Source>,
    /// Streams that are sent here, by their numbers, and that are played here, by connection.
    pub(crate) films: BTreeMap<u32, Film>,
    pub(crate) players: BTreeMap<u32, Player>,
    /// What its VCs are changed to, by the number of the fault.
    pub(crate) changes: BTreeMap<u32, Change>,
    /// Its server, if it has one.
    pub(crate) served: Option<Box<Served>>,
    pub(crate) applications: Vec<Application>,
    /// Which application uses the end of a connection.
    pub(crate) holders: BTreeMap<u32, usize>,
    /// Writers that were woken early, and until when they would have waited.
    pub(crate) early: BTreeMap<u32, Ps>,
}

impl Host {
    pub(crate) fn new(
        number: u32,
        spec: HostSpec,
        ports: Vec<Wires>,
        (clients, vcs, blocks): (usize, u16, usize),
        served: Option<u16>,
        options: Options,
    ) -> Result<Self, Refusal> {
        let applications = served.unwrap_or(0);
        let vcs = vcs.saturating_add(spec.spare_vcs).max(1);
        let vcs = vcs.saturating_add(applications);
        // Where applications open VCs is their own affair.
        let leaves = (blocks + usize::from(applications)).clamp(1, vcs.into()) as u16;
        let config = Config {
            vcs,
            leaves,
            attachments: (clients.max(1) as u16).saturating_add(applications),
            ports: ports
                .iter()
                .map(|wires| PortConfig {
                    form: HeaderForm::Uni,
                    format: CellFormat::WithHec,
                    budget: match options.canary {
                        Some(Canary::StepUnbounded) => Config::BUDGET_MAX.min(4 * spec.budget),
                        _ => spec.budget,
                    },
                    discard_unread: false,
                    real_time: false,
                    line_rate: wires.rate,
                })
                .collect(),
            gap_max_ns: spec.gap_max_ns,
            clump_cells: spec.clump_cells,
            overload_cells: spec.overload_cells,
        };
        let now = Time::from_ns(spec.clock_ns);
        let adapter = LabAdapter::new(config.clone(), now)?;
        let mut node = Self {
            room: adapter.room(),
            adapter,
            past: Vec::new(),
            board: board(&config, options),
            judge: options.reference.then(|| Judge::new(&config, now)),
            judged: 0,
            watch: Watch::new(ports.len(), spec.budget),
            book: AccountBook::new(options.charge_bug),
            available: Available::default(),
            follows_abr: false,
            clients: (0..clients)
                .map(|_| Client::new(spec.event_slots))
                .collect(),
            own_clients: clients,
            ports,
            endpoints: BTreeMap::new(),
            by_connection: BTreeMap::new(),
            openings: BTreeMap::new(),
            ordered: BTreeMap::new(),
            full_until: None,
            waiting: VecDeque::new(),
            changing: BTreeSet::new(),
            tickets: 0,
            refusals: Vec::new(),
            answered: Vec::new(),
            closed: Vec::new(),
            overflowed: BTreeMap::new(),
            counts: HostCounts::default(),
            waking: Vec::new(),
            steps: Steps::new(Ps::from_ns(spec.step_ns)),
            deaf_until: Ps::ZERO,
            clock_ns: spec.clock_ns,
            liars: BTreeMap::new(),
            liars_vcs: BTreeSet::new(),
            guests: Vec::new(),
            invited: 0,
            left: Vec::new(),
            closing: BTreeMap::new(),
            cut: BTreeSet::new(),
            is_down: false,
            has_received: false,
            rests: Rests::default(),
            runs: 0,
            unasked: 0,
            sdu: Vec::new(),
            woken: Vec::new(),
            idle_until: Ps::ZERO,
            writers: BTreeMap::new(),
            films: BTreeMap::new(),
            players: BTreeMap::new(),
            changes: BTreeMap::new(),
            served: None,
            applications: Vec::new(),
            holders: BTreeMap::new(),
            early: BTreeMap::new(),
            config,
            number,
            options,
            spec,
        };
        node.attach();
        Ok(node)
    }

    /// Cells per second of its lines.
    pub(crate) fn rates(&self) -> Vec<CellRate> {
        self.ports.iter().map(|wires| wires.rate).collect()
    }

    /// Number of its port to a line.
    pub(crate) fn port_of(&self, line: usize) -> usize {
        let is_here = |wires: &Wires| [wires.input, wires.output].contains(&line);
        self.ports.iter().position(is_here).unwrap_or(0)
    }

    /// Commands that have not ended.
    pub(crate) fn orders(&self) -> usize {
        self.ordered.len()
    }

    /// What its clock says.
    pub(crate) fn time(&self, now: Ps) -> Time {
        Time::from_ns(now.ns().saturating_add(self.clock_ns))
    }

    /// When its clock says that, if nobody puts it forward.
    pub(crate) fn instant(&self, time: Time) -> Ps {
        Ps::from_ns(time.ns().saturating_sub(self.clock_ns))
    }

    /// Its clock goes forward.
    pub(crate) fn step_clock(&mut self, by_ns: u64) {
        self.clock_ns = self.clock_ns.saturating_add(by_ns);
    }

    /// Nobody is interrupted until then.
    pub(crate) fn deafen(&mut self, until: Ps) {
        self.deaf_until = self.deaf_until.max(until);
    }

    /// The adapter looks at its ports at every instant of its grid. The steps that were left out
    /// would have told it that they were empty: the last two before `now` are made up for. While it
    /// rested it did not look.
    pub(crate) fn catch_up(&mut self, net: &mut Net) {
        if self.spec.rests {
            return;
        }
        for at in self.steps.left_out(net.now) {
            self.step(at, net);
        }
    }

    /// One step of the adapter, at this time.
    fn step(&mut self, now: Ps, net: &mut Net) {
        if self.is_down {
            return;
        }
        self.steps.take(now);
        self.counts.steps += 1;
        self.rest_is_used(now, net);
        self.fill_fifos(now, &mut net.lines);
        let time = self.time(now);
        self.rest_ends(time);
        if let Some(judge) = &mut self.judge {
            judge.begin(time);
        }
        let received = self.adapter.stats().cells_received;
        self.adapter.step(time, &mut self.board);
        self.has_received = self.adapter.stats().cells_received > received;
        if let Some(text) = self.watch.work(&self.board) {
            self.is_wrong("I17", now, Some(text), net);
        }
        if self.judge.is_some() || !self.board.trace.is_empty() {
            self.follow((now, time), net);
        }
        for client in &mut self.clients {
            client.has_written = false;
        }
        self.look_who_waits(time);
        self.rest_begins(now, net);
    }

    /// What comes of what the adapter did in a step.
    fn follow(&mut self, (now, time): (Ps, Time), net: &mut Net) {
        let mut wrong = None;
        let mut trace = std::mem::take(&mut self.board.trace);
        if !self.available.is_empty() {
            self.abr_is_followed(now, &trace, net);
        }
        for did in &trace {
            match did {
                Trace::Interrupted(index, _) => {
                    let told = self.watch.told.interrupted(*index);
                    self.is_wrong("I10", now, told, net);
                    if now < self.deaf_until {
                        self.counts.unheard += 1;
                    } else {
                        self.counts.interrupts += 1;
                        let mut clients = self.clients.iter();
                        self.woken
                            .extend(clients.position(|client| client.index == Some(*index)));
                    }
                }
                Trace::Posted(index, event) => {
                    let told = self.watch.told.posted(*index, event);
                    // Who lies about what he has given back can be told again and again.
                    let told = told.filter(|_| {
                        let reader = self.endpoints.get(&event.vc);
                        let lies = reader.is_some_and(|reader| reader.is_lawless);
                        !lies && !self.liars_vcs.contains(&event.vc)
                    });
                    self.is_wrong("I10", now, told, net);
                }
                Trace::Transmitted { port, cells, .. } => {
                    self.are_accounted_for(*port, cells);
                    let port = usize::from(port.0);
                    let output = self.ports[port].output;
                    for cell in cells.as_chunks::<CELL_LEN>().0 {
                        wrong = wrong.or(self.watch.cell(time, port, cell));
                        self.rests.answers += u64::from(cell[3] & 8 != 0);
                        net.lines[output].send(now, cell);
                        self.counts.sent += 1;
                    }
                }
                Trace::Completed(completion) => {
                    let told = self.watch.told.completed(completion);
                    self.is_wrong("I10", now, told, net);
                    self.completed((&**completion, now), net);
                }
                _ => {}
            }
        }
        self.is_wrong("I13", now, wrong, net);
        if !self.available.is_empty() {
            self.abr_waits(now, net);
        }
        if let Some(judge) = &mut self.judge {
            let space = |port: usize| self.ports[port].space;
            let end = judge.end(time, &mut trace, &mut self.board, space);
            self.is_wrong("I5", now, end.err(), net);
        }
        trace.clear();
        self.board.trace = trace;
    }

    /// Something is wrong with the adapter, or nothing.
    #[inline]
    fn is_wrong(&self, invariant: &str, now: Ps, wrong: Option<String>, net: &mut Net) {
        if let Some(text) = wrong {
            let text = format!("host {}: {text}", self.spec.name);
            net.log.violate(Violation::new(invariant, now, text));
        }
    }

    /// Cells that are there go into the FIFOs.
    fn fill_fifos(&mut self, now: Ps, lines: &mut [Line]) {
        let (bug, fifo) = (self.options.canary, transmit_fifo(&self.spec));
        for (port, wires) in (0..).map(PortIndex).zip(&mut self.ports) {
            let fifo_cells = self.spec.fifo_cells as usize;
            while let Some(Flying { octets, .. }) = lines[wires.input].take(now) {
                if self.board.waiting(port) >= fifo_cells {
                    self.counts.overflowed += 1;
                    *self.overflowed.entry(address_of(&octets)).or_default() += 1;
                    continue;
                }
                self.counts.arrived += 1;
                let is_lost = bug == Some(Canary::FifoLoses);
                if !is_lost || !self.counts.arrived.is_multiple_of(500) {
                    self.board.put(port, octets);
                }
            }
            let backlog = lines[wires.output].backlog(now);
            wires.space = fifo.saturating_sub(backlog) as usize;
            self.board.set_space(port, wires.space);
        }
    }

    /// When the adapter has something to do next, if nothing comes.
    pub(crate) fn next_step(&mut self, now: Ps, lines: &[Line]) -> Option<Ps> {
        if self.is_down {
            return None;
        }
        if self.spec.rests {
            return self.next_step_of_rest(now, lines);
        }
        let mut ports = (0..self.ports.len() as u8).map(PortIndex);
        // Answers to OAM cells leave in the step after, and have no deadline.
        let busy = self.has_received
            || self.board.has_orders()
            || ports.any(|port| self.board.waiting(port) > 0)
            || self.clients.iter().any(Client::has_rung);
        if busy {
            return Some(self.steps.from(now));
        }
        let wires = self.ports.iter();
        let arrivals = wires.filter_map(|wires| lines[wires.input].next_arrival());
        let deadline = self.adapter.next_deadline();
        let deadline = deadline.map(|time| self.instant(time));
        arrivals.chain(deadline).min().map(|at| self.steps.from(at))
    }

    /// Cells in the receive FIFOs.
    pub(crate) fn waiting(&self) -> u64 {
        let ports = (0..self.ports.len() as u8).map(PortIndex);
        ports.map(|port| self.board.waiting(port) as u64).sum()
    }

    /// Nobody judges it from here on but the world: one of its clients writes where it likes.
    pub(crate) fn let_go(&mut self) {
        self.judged = self.judged_cells();
        self.judge = None;
        self.options.reference = false;
        self.board.be_terse();
    }

    /// How many cells of an address have found a FIFO full, or no adapter.
    pub(crate) fn overflowed_of(&self, address: VpiVci) -> u64 {
        self.overflowed.get(&address).copied().unwrap_or(0)
    }

    /// Whether one end of a connection belongs to somebody who writes where it should not.
    pub(crate) fn is_lawless(&self, connection: u32) -> bool {
        let opening = self.openings.get(&connection);
        let is_liars = self.liars.values().any(|liars| *liars == connection);
        is_liars || opening.is_some_and(|opening| opening.lawless)
    }

    /// The applications that use this end of a connection write where they should not.
    pub(crate) fn is_lied_to_at(&mut self, at: (PortIndex, VpiVci), connection: u32) {
        self.liars.insert(at, connection);
    }

    /// Cells that the reference has compared.
    pub(crate) fn judged_cells(&self) -> u64 {
        self.judged + self.judge.as_ref().map_or(0, Judge::cells)
    }

    /// A client is about to take its events.
    fn takes_events(&mut self, client: usize, net: &mut Net) {
        let ticket = self.clients[client].ticket;
        if let Some(judge) = &mut self.judge {
            let taken = judge.takes_events(ticket);
            self.is_wrong("I5", net.now, taken.err(), net);
        }
    }

    /// Hands an SDU of a connection over and rings. False: there is no room, or no such VC.
    pub(crate) fn submit(&mut self, connection: u32, sdu: Sdu<'_>) -> bool {
        let Some(vc) = self.by_connection.get(&connection) else {
            return false;
        };
        let Some(endpoint) = self.endpoints.get_mut(vc) else {
            return false;
        };
        if !endpoint.submit(&mut self.sdu, sdu) {
            return false;
        }
        self.counts.transmit_wraps += u64::from(endpoint.sent_round());
        let options = endpoint.options(sdu);
        let client = &mut self.clients[endpoint.client];
        let rung = client.ring(Some(*vc));
        self.rests.is_rung = true;
        if let Some(judge) = &mut self.judge {
            judge.submitted(*vc, self.sdu.clone(), options);
            for vc in rung {
                judge.rang(client.ticket, vc);
            }
        }
        true
    }
}

fn board(config: &Config, options: Options) -> LabBoard {
    let mut board = LabBoard::new(config.ports.len(), options.planted);
    if !options.reference {
        board.be_terse();
    }
    board
}
