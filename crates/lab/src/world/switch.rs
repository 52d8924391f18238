//! An output-queued switch: each output has one buffer and a rule for whom to discard.

use std::collections::VecDeque;

use cellgate_core::wire::{CELL_LEN, Header, Pti, Rm, RmRate, VpiVci, hec};
use serde::{Deserialize, Serialize};

use super::Ps;
use super::canary::Canary;
use super::cell::{CellRef, HEADER_LEN, Octets};
use super::line::Line;
use super::log::Fact;
use super::net::{Net, Node, NodeId, Turn};
use super::topology::Place;
use crate::machine::abr::Erica;

/// Whom an output discards when its buffer fills.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueDiscard {
    /// Cells that find the buffer full.
    #[default]
    Shared,
    /// The same, and cells of a VC that has so many in it.
    PerVc {
        /// Cells.
        quota: u32,
    },
    /// Partial packet discard: after a lost cell, the rest of its PDU but the last cell.
    Ppd,
    /// Early packet discard: PDUs that begin when so many cells wait; and partial packet discard.
    Epd {
        /// Cells.
        threshold: u32,
    },
}

/// How an output tells sources of ABR that it fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum QueueMark {
    /// EFCI of cells of data that find so many cells waiting.
    Efci(u32),
    /// CI of backward RM cells while so many cells wait.
    Ci(u32),
    /// The explicit rate of ERICA, for so much of the line.
    Er {
        /// Percent.
        target_percent: u8,
    },
}

/// Of the fourth octet of a header.
const EFCI: u8 = 0x04;
/// From one look of ERICA's at what has come to the next: some hundreds of cells.
const LOOK: Ps = Ps::from_ns(20_000_000);

/// Cells at an output, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputCounts {
    /// Put into the buffer.
    pub queued: u64,
    /// Discarded, for want of room or as the rest of a PDU.
    pub discarded: u64,
    /// The most that waited at once.
    pub most: u64,
}

/// What an output remembers of a VC.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    /// Cells in the buffer.
    queued: u32,
    /// In the middle of a PDU.
    inside: bool,
    discarding: Option<Rest>,
}

/// What is discarded of a PDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    /// All but the last cell, which keeps the PDUs apart.
    ButLast,
    All,
}

/// One output: a buffer before a line. When a cell leaves follows from when it came; the buffer
/// is looked at only when one comes.
#[derive(Debug)]
pub struct Output {
    discard: QueueDiscard,
    mark: Option<QueueMark>,
    erica: Option<Erica>,
    room: usize,
    flows: Vec<Flow>,
    /// When each waiting cell has left, and whose it is.
    waiting: VecDeque<(Ps, u32)>,
    counts: OutputCounts,
}

impl Output {
    /// A buffer of `room` cells, the one that is leaving included, for so many VCs.
    pub fn new(discard: QueueDiscard, room: u32, flows: usize) -> Self {
        Self {
            discard,
            mark: None,
            erica: None,
            room: room as usize,
            flows: vec![Flow::default(); flows],
            waiting: VecDeque::new(),
            counts: OutputCounts::default(),
        }
    }

    /// It marks what goes through, before a line of so many cells/s.
    #[must_use]
    pub fn marking(mut self, mark: Option<QueueMark>, cell_s: u32) -> Self {
        self.mark = mark;
        if let Some(QueueMark::Er { target_percent }) = mark {
            let target = f64::from(cell_s) * f64::from(target_percent) / 100.0;
            self.erica = Some(Erica::new(target, LOOK));
        }
        self
    }

    /// Cells that wait.
    fn waiting(&self, now: Ps) -> u32 {
        let gone = self.waiting.iter().take_while(|(left, _)| *left <= now);
        (self.waiting.len() - gone.count()) as u32
    }

    /// A cell of data, or a forward RM cell, is about to come.
    fn marks(&mut self, now: Ps, flow: u32, octets: &mut Octets) {
        let [a, b, c, d, ..] = *octets;
        let header = Header::parse([a, b, c, d]);
        if let Some(erica) = &mut self.erica {
            erica.cell(now, flow as usize);
            if let Some(rm) = rm_of(octets) {
                erica.forward(flow as usize, rm.ccr.cell_s_512ths() as f64 / 512.0);
            }
        }
        let Some(QueueMark::Efci(threshold)) = self.mark else {
            return;
        };
        if matches!(header.pti(), Pti::User { .. }) && self.waiting(now) >= threshold {
            octets[3] |= EFCI;
            octets[4] = hec([a, b, c, octets[3]]);
        }
    }

    /// A backward RM cell of a VC passes whose cells go through this output.
    fn marks_backward(&mut self, now: Ps, flow: u32, octets: &mut Octets) {
        let Some(mut rm) = rm_of(octets) else {
            return;
        };
        match self.mark {
            Some(QueueMark::Ci(threshold)) => rm.congestion |= self.waiting(now) >= threshold,
            Some(QueueMark::Er { .. }) => {
                let rate = self
                    .erica
                    .as_mut()
                    .map(|erica| erica.rate(now, flow as usize));
                let er = RmRate::at_most(rate.unwrap_or(0.0) as u32);
                if er.cell_s_512ths() < rm.er.cell_s_512ths() {
                    rm.er = er;
                }
            }
            Some(QueueMark::Efci(_)) | None => return,
        }
        octets[HEADER_LEN..].copy_from_slice(&rm.emit());
    }

    /// A cell of a VC comes for `line`. Cells come in the order of time. Whether it was kept.
    #[inline(always)]
    pub fn offer<'a>(
        &mut self,
        now: Ps,
        flow: u32,
        cell: impl Into<CellRef<'a>>,
        line: &mut Line,
    ) -> bool {
        let cell = cell.into();
        let is_shared = self.discard == QueueDiscard::Shared;
        while let Some((_, flow)) = self.waiting.pop_front_if(|(left, _)| *left <= now) {
            if !is_shared && let Some(flow) = self.flows.get_mut(flow as usize) {
                flow.queued -= 1;
            }
        }
        let keeps = match is_shared {
            // Whose it is makes no difference, nor what it is.
            true => self.waiting.len() < self.room,
            false => self.keeps(flow, cell.header()),
        };
        if keeps {
            let left = line.send(now, cell);
            self.waiting.push_back((left, flow));
            if !is_shared && let Some(flow) = self.flows.get_mut(flow as usize) {
                flow.queued += 1;
            }
            self.counts.queued += 1;
            self.counts.most = self.counts.most.max(self.waiting.len() as u64);
        } else {
            self.counts.discarded += 1;
        }
        keeps
    }

    fn keeps(&mut self, flow: u32, header: Header) -> bool {
        let is_full = self.waiting.len() >= self.room;
        let fill = self.waiting.len() as u32;
        let Some(flow) = self.flows.get_mut(flow as usize) else {
            return !is_full;
        };
        let is_last = match header.pti() {
            Pti::User { last, .. } => last,
            // These are of no PDU.
            _ => return !is_full,
        };
        let is_first = !flow.inside;
        flow.inside = !is_last;
        match self.discard {
            QueueDiscard::PerVc { quota } => return !is_full && flow.queued < quota,
            QueueDiscard::Epd { threshold } if is_first && fill >= threshold => {
                flow.discarding = Some(Rest::All);
            }
            QueueDiscard::Epd { .. } | QueueDiscard::Ppd | QueueDiscard::Shared => {}
        }
        let discarding = flow.discarding;
        if is_last {
            flow.discarding = None;
        } else if is_full && discarding.is_none() {
            flow.discarding = Some(Rest::ButLast);
        }
        match discarding {
            Some(Rest::All) => false,
            Some(Rest::ButLast) => is_last && !is_full,
            None => !is_full,
        }
    }

    pub fn counts(&self) -> OutputCounts {
        self.counts
    }
}

/// Where cells of a VC go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Which of the outputs.
    pub output: u32,
    /// The line behind it.
    pub line: u32,
    /// The VC's number there.
    pub flow: u32,
}

/// Routes by the bits of an address: open addressing, at most half full.
#[derive(Debug, Default)]
struct Routes {
    slots: Vec<Option<(u32, Route)>>,
    len: usize,
    /// Where the last was found: cells of one VC often come in a row.
    last: usize,
}

impl Routes {
    /// Where an address is, or where it would be.
    fn slot(&self, bits: u32) -> usize {
        let mask = self.slots.len() - 1;
        // Four neighbours stay together.
        let four = (bits >> 2).wrapping_mul(0x9e37_79b1) as usize >> 7;
        let mut slot = (four << 2 | bits as usize & 3) & mask;
        while self.slots[slot].is_some_and(|(other, _)| other != bits) {
            slot = (slot + 1) & mask;
        }
        slot
    }

    #[inline]
    fn find(&mut self, bits: u32) -> Option<Route> {
        let is_here = |slot: &Option<(u32, Route)>| slot.is_some_and(|(other, _)| other == bits);
        if !self.slots.get(self.last).is_some_and(is_here) {
            if self.slots.is_empty() {
                return None;
            }
            self.last = self.slot(bits);
        }
        self.slots[self.last].map(|(_, route)| route)
    }

    /// False if there is one already.
    fn insert(&mut self, bits: u32, route: Route) -> bool {
        if 2 * (self.len + 1) > self.slots.len() {
            let slots = (4 * (self.len + 1)).next_power_of_two();
            let before = std::mem::replace(&mut self.slots, vec![None; slots]);
            for (bits, route) in before.into_iter().flatten() {
                let slot = self.slot(bits);
                self.slots[slot] = Some((bits, route));
            }
        }
        let slot = self.slot(bits);
        let is_free = self.slots[slot].is_none();
        self.slots[slot].get_or_insert((bits, route));
        self.len += usize::from(is_free);
        is_free
    }
}

/// A switch: which input and address leads to which output.
#[derive(Debug, Default)]
pub struct Switch {
    name: String,
    number: u32,
    /// Inputs whose next cell has its turn.
    expected: Vec<bool>,
    /// For each input.
    routes: Vec<Routes>,
    outputs: Vec<Output>,
    /// The output that leads back along the line of each input.
    back: Vec<u32>,
    unrouted: u64,
}

impl Switch {
    /// A switch of this name and number with so many inputs.
    pub fn new(name: &str, number: u32, inputs: usize) -> Self {
        Self {
            name: name.to_owned(),
            number,
            expected: vec![false; inputs],
            routes: (0..inputs).map(|_| Routes::default()).collect(),
            back: vec![0; inputs],
            ..Self::default()
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// One more output; its number.
    pub fn add_output(&mut self, output: Output) -> u32 {
        self.outputs.push(output);
        (self.outputs.len() - 1) as u32
    }

    /// The output that leads back along the line of an input.
    pub fn leads_back(&mut self, input: usize, output: u32) {
        self.back[input] = output;
    }

    /// One more VC. False if its address is taken on this input.
    pub fn add_route(&mut self, input: usize, address: VpiVci, route: Route) -> bool {
        self.routes[input].insert(address.bits(), route)
    }

    /// Where a cell goes. None: nowhere, and it is counted.
    #[inline]
    pub fn route<'a>(&mut self, input: usize, cell: impl Into<CellRef<'a>>) -> Option<Route> {
        let route = self.routes[input].find(cell.into().address().bits());
        self.unrouted += u64::from(route.is_none());
        route
    }

    #[inline]
    pub fn output(&mut self, output: u32) -> &mut Output {
        &mut self.outputs[output as usize]
    }

    /// A cell goes through.
    #[inline(always)]
    fn passes(&mut self, input: usize, at: Ps, cell: CellRef<'_>, net: &mut Net) {
        let Some(route) = self.route(input, cell) else {
            return;
        };
        let mut octets = [0; CELL_LEN];
        let is_marking = self.outputs.iter().any(|output| output.mark.is_some());
        let cell = match is_marking {
            true => {
                cell.write(&mut octets);
                self.marks(input, at, route, &mut octets);
                (&octets).into()
            }
            false => cell,
        };
        let next = &mut net.lines[route.line as usize];
        let was_empty = next.in_flight() == 0;
        if !self.output(route.output).offer(at, route.flow, cell, next) {
            let connection = route.flow;
            net.tell(Fact::Discarded { connection });
            net.mix(at, u64::from(connection));
        } else if was_empty {
            net.fills(route.line as usize);
        }
    }

    /// A cell goes through a switch that marks.
    fn marks(&mut self, input: usize, at: Ps, route: Route, octets: &mut Octets) {
        if rm_of(octets).is_some_and(|rm| rm.backward) {
            let back = self.back[input] as usize;
            self.outputs[back].marks_backward(at, route.flow, octets);
        } else {
            self.output(route.output).marks(at, route.flow, octets);
        }
    }

    /// The counters of the outputs.
    pub fn counts(&self) -> impl Iterator<Item = OutputCounts> {
        self.outputs.iter().map(Output::counts)
    }

    /// Cells of addresses without a route.
    pub fn unrouted(&self) -> u64 {
        self.unrouted
    }
}

/// What a cell says that is an RM cell, and whole.
fn rm_of(octets: &Octets) -> Option<Rm> {
    let is_rm = CellRef::from(octets).header().pti() == Pti::ResourceManagement;
    let payload = octets.last_chunk().filter(|_| is_rm)?;
    let rm = Rm::parse(payload);
    rm.crc_valid.then_some(rm.value)
}

impl Node for Switch {
    fn expects(&mut self, line: u32, at: Ps, net: &mut Net) {
        let Place::Switch { input, .. } = net.plan.places[line as usize] else {
            return;
        };
        if !std::mem::replace(&mut self.expected[input], true) {
            net.later(at, Turn::Arrival(line), NodeId::Switch(self.number));
        }
    }

    /// What has come along a line goes through.
    #[inline]
    fn acts(&mut self, turn: Turn, net: &mut Net) -> Option<Ps> {
        let Turn::Arrival(line) = turn else {
            return None;
        };
        let line = line as usize;
        let Place::Switch { input, .. } = net.plan.places[line] else {
            return None;
        };
        while let Some(mut flying) = net.lines[line].take(net.now) {
            match net.options.canary {
                Some(Canary::SwitchConfuses) if flying.at.ps() % 97 == 0 => flying.octets[2] ^= 1,
                Some(Canary::SwitchReorders) if flying.at.ps() % 7 == 0 => {
                    net.lines[line].exchange(&mut flying);
                }
                _ => {}
            }
            self.passes(input, flying.at, (&flying.octets).into(), net);
        }
        let next = net.lines[line].next_arrival();
        self.expected[input] = next.is_some();
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Offers PDUs of `cells` cells of two VCs at once; which cells of VC 0 were kept.
    fn kept(discard: QueueDiscard, room: u32, cells: u8) -> String {
        let mut line = Line::new(149_760_000, Ps::ZERO);
        let mut output = Output::new(discard, room, 2);
        let mut kept = String::new();
        for n in 0..cells {
            let pti = Pti::User {
                congested: false,
                last: n == cells - 1,
            };
            let mut octets = [0; 53];
            octets[..4].copy_from_slice(&Header::new(VpiVci::default(), pti, false).emit());
            for flow in [1, 0] {
                let keeps = output.offer(Ps::ZERO, flow, &octets, &mut line);
                if flow == 0 {
                    kept.push(if keeps { '#' } else { '.' });
                }
            }
        }
        let counts = output.counts();
        assert_eq!(counts.queued + counts.discarded, 2 * u64::from(cells));
        assert!(counts.most <= room.into());
        kept
    }

    #[test]
    fn each_rule_discards_whom_it_says() {
        assert_eq!(kept(QueueDiscard::Shared, 6, 4), "###.");
        assert_eq!(kept(QueueDiscard::Shared, 100, 4), "####");
        assert_eq!(kept(QueueDiscard::PerVc { quota: 2 }, 100, 4), "##..");
        // VC 1 comes first and takes the last place.
        assert_eq!(kept(QueueDiscard::Ppd, 5, 4), "##..");
        assert_eq!(kept(QueueDiscard::Epd { threshold: 1 }, 100, 4), "....");
        assert_eq!(kept(QueueDiscard::Epd { threshold: 2 }, 100, 4), "####");
    }

    #[test]
    fn every_route_is_found_and_no_other() {
        let mut routes = Routes::default();
        let route = |flow| Route {
            output: 0,
            line: 0,
            flow,
        };
        assert_eq!(routes.find(0), None);
        for n in 0..1_000 {
            assert!(routes.insert(n * 4_096, route(n)));
        }
        assert!(!routes.insert(4_096, route(7)));
        for n in 0..1_000 {
            assert_eq!(routes.find(n * 4_096), Some(route(n)));
            assert_eq!(routes.find(n * 4_096 + 1), None);
        }
    }

    #[test]
    fn the_buffer_empties_as_cells_leave() {
        let mut line = Line::new(424, Ps::ZERO);
        let mut output = Output::new(QueueDiscard::Shared, 1, 1);
        let second = 1_000_000_000_000;
        let offers = [0, 1, second - 1, second].map(Ps::new);
        let kept = offers.map(|at| output.offer(at, 0, &[0; 53], &mut line));
        assert_eq!(kept, [true, false, false, true]);
    }

    #[test]
    fn an_address_without_a_route_is_counted() {
        let mut switch = Switch::new("s", 0, 1);
        let address = VpiVci::new(0, 32).expect("an address");
        let route = Route {
            output: 0,
            line: 0,
            flow: 0,
        };
        assert!(switch.add_route(0, address, route) && !switch.add_route(0, address, route));
        let mut octets = [0; 53];
        assert_eq!(switch.route(0, &octets), None);
        octets[2] = 2;
        assert_eq!(
            (switch.route(0, &octets), switch.unrouted()),
            (Some(route), 1)
        );
    }
}
