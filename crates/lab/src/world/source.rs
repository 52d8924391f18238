//! Sources: which cell or SDU is due, and when.

use std::rc::Rc;

use cellgate_core::contract::{Aal, CellRate};
use cellgate_core::wire::{CELL_LEN, Header, Pti, VpiVci, hec};

use super::canary::Canary;
use super::cell::{CellRef, HEADER_LEN};
use super::content::{Content, Pdu, Sender, cells_of};
use super::log::Fact;
use super::net::{Net, Node, Turn};
use super::scenario::{SourceSpec, Traffic};
use super::{Interval, Line, Octets, Pace, Ps};

/// A source in a run.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// When the next cell, or with an adapter the next SDU, is due.
    due: Pace,
    gaps: Gaps,
    pub(crate) cells_sent: u64,
    pdu: Pdu,
    /// PDUs of which the last cell was sent.
    pub(crate) sent: u64,
    /// PDUs begun.
    pub(crate) begun: u64,
    stop: Ps,
    pub(crate) connection: u32,
    by_adapter: bool,
    /// It waits for credit.
    is_suspended: bool,
    sender: Sender,
    sdus: Rc<[u16]>,
    pub(crate) line: usize,
    /// PDUs that it sends at once.
    at_once: u64,
    /// SDUs that had to wait for room at the adapter.
    pub(crate) waited: u64,
}

/// What lies between two cells.
#[derive(Clone, Debug)]
enum Gaps {
    Even(Interval),
    Uneven(Box<Uneven>),
}

/// Where that is not all.
#[derive(Clone, Debug)]
enum Uneven {
    OnOff(OnOff),
    Scan(Interval),
    Recorded(Rc<[(Ps, Octets)]>),
}

/// Bursts of cells.
#[derive(Clone, Debug)]
struct OnOff {
    cell: Interval,
    on: Ps,
    off: Ps,
    /// When the burst ends.
    until: Ps,
}

fn interval(cell_s: u32) -> Interval {
    Interval::of_rate(CellRate::new(cell_s.max(1)).unwrap_or(CellRate::OC3))
}

impl Source {
    /// A source that is due first at `start` and begins nothing from `stop` on, before a `line`
    /// that needs `cell` for each cell.
    pub(crate) fn new(
        (spec, sdus): (&SourceSpec, Rc<[u16]>),
        (connection, address, aal): (u32, VpiVci, Aal),
        (start, stop): (Ps, Ps),
        (line, cell): (usize, Interval),
    ) -> Self {
        let uneven = |uneven| Gaps::Uneven(Box::new(uneven));
        let gaps = match &spec.traffic {
            Traffic::Paced { cell_s } => Gaps::Even(interval(*cell_s)),
            Traffic::Greedy => Gaps::Even(cell),
            Traffic::OnOff {
                cell_s,
                on_ns,
                off_ns,
            } => uneven(Uneven::OnOff(OnOff {
                cell: interval(*cell_s),
                on: Ps::from_ns(*on_ns),
                off: Ps::from_ns(*off_ns),
                until: start.plus(Ps::from_ns(*on_ns)),
            })),
            Traffic::Scan { cell_s } => uneven(Uneven::Scan(interval(*cell_s))),
            Traffic::Cells(cells) => uneven(Uneven::Recorded(
                cells
                    .iter()
                    .map(|cell| (start.plus(Ps::from_ns(cell.at_ns)), with_hec(&cell.octets)))
                    .collect(),
            )),
        };
        let first = match gaps.uneven() {
            Some(Uneven::Recorded(cells)) => cells.first().map_or(Ps::MAX, |(at, _)| *at),
            _ => start,
        };
        Self {
            connection,
            line,
            sender: Sender {
                connection,
                address,
                aal,
            },
            at_once: match aal {
                Aal::Aal34 => spec.mids.max(1).into(),
                Aal::Aal0 | Aal::Aal5 => 1,
            },
            gaps,
            sdus,
            due: Pace::from(first),
            stop,
            by_adapter: spec.by_adapter,
            is_suspended: false,
            begun: 0,
            sent: 0,
            cells_sent: 0,
            waited: 0,
            pdu: Pdu::default(),
        }
    }

    /// It sends twice as fast as it was told.
    pub(crate) fn hurry(&mut self) {
        if let Some(gap) = self.gaps.in_bursts_mut() {
            *gap = gap.halved();
        }
    }

    /// It sends half as fast as it was told.
    pub(crate) fn slow_down(&mut self) {
        if let Some(gap) = self.gaps.in_bursts_mut() {
            *gap = gap.doubled();
        }
    }

    /// What lies between two cells, if it sends at one rate from its start to its stop.
    pub(crate) fn steady(&self) -> Option<Interval> {
        match self.gaps {
            Gaps::Even(gap) => Some(gap),
            Gaps::Uneven(_) => None,
        }
    }

    /// Cells of its longest PDU.
    pub(crate) fn longest_pdu(&self) -> u64 {
        let cells = self.sdus.iter().map(|sdu| cells_of(self.sender.aal, *sdu));
        cells.max().unwrap_or(0).into()
    }

    /// PDUs that it begins in `span`, at most.
    pub(crate) fn begins_in(&self, span: Ps) -> u64 {
        let Some(gap) = self.gaps.shortest() else {
            return 0;
        };
        gap.begun_in(span).div_ceil(self.shortest_pdu())
    }

    /// Cells of its shortest PDU.
    pub(crate) fn shortest_pdu(&self) -> u64 {
        let cells = self.sdus.iter().map(|sdu| cells_of(self.sender.aal, *sdu));
        cells.min().unwrap_or(1).max(1).into()
    }

    /// PDUs that it sends at once.
    pub(crate) fn at_once(&self) -> u64 {
        self.at_once
    }

    /// How long an SDU is at the adapter that sends it at this source's rate.
    pub(crate) fn shaping(&self) -> Ps {
        let Some(gap) = self.gaps.in_bursts() else {
            return Ps::ZERO;
        };
        gap.times(self.longest_pdu())
    }

    /// Whether SDUs go through the adapter.
    pub(crate) fn is_by_adapter(&self) -> bool {
        self.by_adapter
    }

    /// When the next cell or SDU is due; none: it is done, or falls silent for ever. PDUs are
    /// finished.
    #[inline]
    pub(crate) fn due(&self) -> Option<Ps> {
        let at = self.due.at();
        (at < Ps::MAX && (self.is_inside() || at < self.stop)).then_some(at)
    }

    /// Octets of SDU `number`.
    pub(crate) fn sdu_len(&self, number: u64) -> u16 {
        let of = self.sdus.len().max(1) as u64;
        let len = self.sdus.get((number % of) as usize);
        len.copied().unwrap_or(SourceSpec::SDU_MIN)
    }

    /// Whether it is in the middle of a PDU.
    #[inline(always)]
    fn is_inside(&self) -> bool {
        !self.pdu.has_gone()
    }

    /// Takes the cell that is due; whether it ends a PDU.
    #[inline(always)]
    pub(crate) fn take_cell(&mut self, content: &mut Content) -> bool {
        self.cells_sent += 1;
        match &mut self.gaps {
            Gaps::Even(gap) => {
                self.due.advance(*gap);
                self.take_cell_of_pdu(content)
            }
            Gaps::Uneven(uneven) => match &mut **uneven {
                Uneven::Scan(_) => {
                    self.advance(1);
                    false
                }
                Uneven::Recorded(cells) => {
                    let turn = self.cells_sent as usize;
                    self.due = Pace::from(cells.get(turn).map_or(Ps::MAX, |(at, _)| *at));
                    false
                }
                Uneven::OnOff(_) => {
                    let ends = self.take_cell_of_pdu(content);
                    self.advance(1);
                    ends
                }
            },
        }
    }

    /// The next cell of the PDU, or the first of the next.
    #[inline(always)]
    fn take_cell_of_pdu(&mut self, content: &mut Content) -> bool {
        if self.pdu.has_gone() {
            self.make(content);
        }
        let ends = self.pdu.go();
        if ends {
            self.sent += 1;
        }
        ends
    }

    /// The cell that was taken last; `room` is for what lies nowhere.
    #[inline(always)]
    pub(crate) fn cell<'a>(&'a self, content: &Content, room: &'a mut Octets) -> CellRef<'a> {
        match self.gaps.uneven() {
            Some(Uneven::Scan(_)) => {
                // Every address of a UNI in turn, with a stride that is prime to their number.
                let bits = (self.cells_sent as u32).wrapping_mul(0x9e_3779) & 0x00ff_ffff;
                *room = empty_cell(VpiVci::from_bits(bits));
                (&*room).into()
            }
            Some(Uneven::Recorded(cells)) => (&cells[self.cells_sent as usize - 1].1).into(),
            Some(Uneven::OnOff(_)) | None => {
                let payload = room[HEADER_LEN..].first_chunk_mut();
                let payload = payload.expect("a cell ends so");
                self.pdu.cell(content, payload)
            }
        }
    }

    /// The next PDU, or as many as it sends at once.
    fn make(&mut self, content: &mut Content) {
        let first = self.begun;
        self.begun += self.at_once;
        if self.sender.aal == Aal::Aal34 {
            let lens: Vec<u16> = (first..self.begun).map(|n| self.sdu_len(n)).collect();
            self.pdu.interleave(content, self.sender, first, &lens);
        } else {
            let len = self.sdu_len(first);
            self.pdu.make(content, self.sender, first, len);
        }
    }

    /// The SDU that is due was handed to the adapter.
    pub(crate) fn submitted(&mut self) {
        self.is_suspended = false;
        let cells = self.cells_of_next();
        self.begun += 1;
        self.sent += 1;
        self.cells_sent += u64::from(cells);
        self.advance(cells);
    }

    /// The SDU that is due finds no room: it waits as long as it takes.
    pub(crate) fn postpone(&mut self) {
        self.waited += 1;
        self.is_suspended = false;
        self.advance(self.cells_of_next());
    }

    fn cells_of_next(&self) -> u32 {
        cells_of(self.sender.aal, self.sdu_len(self.begun))
    }

    /// The SDU that is due has no credit before `until`.
    pub(crate) fn suspend(&mut self, until: Ps) {
        self.is_suspended = true;
        self.due.wait_for(until);
    }

    /// Until when it waits for credit.
    pub(crate) fn suspended(&self) -> Option<Ps> {
        self.due().filter(|_| self.is_suspended)
    }

    /// Its timer fires: it asks for credit at once.
    pub(crate) fn wakes(&mut self, now: Ps) {
        self.is_suspended = false;
        self.due = Pace::from(now);
    }

    #[inline]
    fn advance(&mut self, cells: u32) {
        match &mut self.gaps {
            Gaps::Even(gap) => (0..cells).for_each(|_| self.due.advance(*gap)),
            Gaps::Uneven(uneven) => uneven.advance(&mut self.due, cells),
        }
    }
}

impl Gaps {
    #[inline(always)]
    fn uneven(&self) -> Option<&Uneven> {
        match self {
            Self::Even(_) => None,
            Self::Uneven(uneven) => Some(uneven),
        }
    }

    fn shortest(&self) -> Option<Interval> {
        match self {
            Self::Even(gap) => Some(*gap),
            Self::Uneven(uneven) => match &**uneven {
                Uneven::OnOff(bursts) => Some(bursts.cell),
                Uneven::Scan(gap) => Some(*gap),
                Uneven::Recorded(_) => None,
            },
        }
    }

    /// That between cells of one PDU.
    fn in_bursts(&self) -> Option<Interval> {
        let is_scan = matches!(self.uneven(), Some(Uneven::Scan(_)));
        self.shortest().filter(|_| !is_scan)
    }

    /// The same, to be changed.
    fn in_bursts_mut(&mut self) -> Option<&mut Interval> {
        match self {
            Self::Even(gap) => Some(gap),
            Self::Uneven(uneven) => match &mut **uneven {
                Uneven::OnOff(bursts) => Some(&mut bursts.cell),
                Uneven::Scan(_) | Uneven::Recorded(_) => None,
            },
        }
    }
}

impl Uneven {
    /// `due` moves on by so many cells.
    fn advance(&mut self, due: &mut Pace, cells: u32) {
        match self {
            Self::Scan(gap) => (0..cells).for_each(|_| due.advance(*gap)),
            Self::OnOff(bursts) => {
                (0..cells).for_each(|_| due.advance(bursts.cell));
                let period = bursts.on.plus(bursts.off);
                if due.at() >= bursts.until {
                    let passed = due.at().since(bursts.until).ps() / period.ps().max(1);
                    let past = Ps::new(passed.saturating_mul(period.ps()));
                    let end = bursts.until.plus(past);
                    due.wait_for(end.plus(bursts.off));
                    bursts.until = end.plus(period);
                }
            }
            Self::Recorded(_) => {}
        }
    }
}

impl Node for Source {
    /// Nothing comes to a source.
    fn expects(&mut self, _: u32, _: Ps, _: &mut Net) {}

    /// The cell that is due goes onto its line.
    #[inline]
    fn acts(&mut self, _: Turn, net: &mut Net) -> Option<Ps> {
        let connection = self.connection;
        if self.take_cell(&mut net.content) && net.plan.connections[connection as usize].is_open {
            let pdu = self.sent - 1;
            net.tell(Fact::Sent { connection, pdu });
        }
        let mut room = [0; CELL_LEN];
        let cell = self.cell(&net.content, &mut room);
        let line = &mut net.lines[self.line];
        let was_empty = line.in_flight() == 0;
        send(line, net.now, cell, net.options.canary);
        if was_empty {
            net.fills(self.line);
        }
        self.due()
    }
}

/// A cell goes onto a line.
#[inline]
fn send(line: &mut Line, ready: Ps, cell: CellRef<'_>, bug: Option<Canary>) {
    let Some(bug) = bug else {
        line.send(ready, cell);
        return;
    };
    let mut cell = cell.octets();
    let strikes = line.counts().sent % 300 == 299;
    match bug {
        Canary::LineLoses if strikes => return line.lose(),
        Canary::LineDamages if strikes => cell[20] ^= 4,
        _ => {}
    }
    line.send(ready, &cell);
    if bug == Canary::LineRepeats && strikes {
        line.repeat();
    }
}

fn with_hec(octets: &[u8]) -> Octets {
    let mut cell = [0; CELL_LEN];
    let (header, payload) = octets.split_at(octets.len().min(4));
    cell[..header.len()].copy_from_slice(header);
    let len = payload.len().min(CELL_LEN - 5);
    cell[5..5 + len].copy_from_slice(&payload[..len]);
    let [a, b, c, d, ..] = cell;
    cell[4] = hec([a, b, c, d]);
    cell
}

fn empty_cell(address: VpiVci) -> Octets {
    let pti = Pti::User {
        congested: false,
        last: true,
    };
    with_hec(&Header::new(address, pti, false).emit())
}
