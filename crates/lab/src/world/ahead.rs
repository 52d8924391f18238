//! What can happen before its turn, because nothing else can make a difference to it.
//!
//! ```text
//!  sources that alone feed a line -> inputs that alone feed their outputs -> hosts without sources
//! ```
//!
//! Their cells are known as long as no incident comes between, whatever others do meanwhile.

use std::collections::{BTreeSet, VecDeque};

use super::host::Host;
use super::source::Source;
use super::switch::Switch;
use super::topology::Place;
use super::turns::Turns;
use super::{Line, Ps};

/// Which lines, inputs and hosts these are.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    /// For each line, its sources if nobody else puts cells on it.
    pub(crate) turns: Vec<Option<Turns>>,
    /// Lines whose cells meet no others at the switch where they end, and keep their order.
    pub(crate) passes: Vec<bool>,
    /// For each host that sends nothing of its own, the lines on which all comes that it gets, if
    /// sources alone feed them.
    ways: Vec<Option<Vec<usize>>>,
    /// When incidents are to come.
    incidents: VecDeque<Ps>,
}

/// What a scenario has been made into.
pub(crate) struct Parts<'a> {
    pub(crate) lines: &'a [Line],
    pub(crate) places: &'a [Place],
    /// The number of each line among the outputs of its switch.
    pub(crate) outputs: &'a [u32],
    /// Lines to and from each host.
    pub(crate) ports: &'a [Vec<(usize, usize)>],
    pub(crate) switches: &'a [Switch],
    pub(crate) hosts: &'a [Host],
    pub(crate) sources: &'a [Source],
    /// Applications open and send when a server lets them.
    pub(crate) is_served: bool,
}

impl Ahead {
    /// Nothing happens before its turn.
    pub(crate) fn nothing(parts: &Parts<'_>) -> Self {
        Self {
            turns: parts.places.iter().map(|_| None).collect(),
            passes: vec![false; parts.places.len()],
            ways: vec![None; parts.hosts.len()],
            incidents: VecDeque::new(),
        }
    }

    pub(crate) fn new(parts: &Parts<'_>) -> Self {
        let mut ahead = Self::nothing(parts);
        for source in parts.sources {
            if !parts.is_fed_by_adapter(source.line) {
                ahead.turns[source.line] = Some(Turns::default());
            }
        }
        for switch in 0..parts.switches.len() {
            let feeders = parts.switches[switch].feeders();
            for (line, place) in parts.places.iter().enumerate() {
                if let Place::Switch { switch: at, input } = *place
                    && at == switch
                {
                    let mut of_input = feeders.iter().filter(|inputs| inputs.contains(&input));
                    let meets_none = of_input.all(|inputs| inputs.len() == 1);
                    ahead.passes[line] = meets_none && !parts.lines[line].swaps();
                }
            }
        }
        for (host, ports) in parts.ports.iter().enumerate() {
            let sends = |source: &Source| ports.iter().any(|(_, output)| *output == source.line);
            if !parts.is_served && !parts.sources.iter().any(sends) {
                let ways = ports.iter().map(|(input, _)| ahead.way(parts, *input));
                let ways: Option<Vec<Vec<usize>>> = ways.collect();
                ahead.ways[host] = ways.map(|ways| ways.concat());
            }
        }
        ahead
    }

    /// The lines on which all comes that a line brings, up to where it is sent. None: an adapter
    /// sends there, or several lines meet.
    fn way(&self, parts: &Parts<'_>, mut line: usize) -> Option<Vec<usize>> {
        let mut way = vec![line];
        // No path is longer.
        for _ in 0..parts.places.len() {
            let Place::Switch { switch, .. } = parts.places[line ^ 1] else {
                return (!parts.is_fed_by_adapter(line)).then_some(way);
            };
            let feeders = parts.switches[switch].feeders();
            let Some(&input) = feeders[parts.outputs[line] as usize].first() else {
                return Some(way);
            };
            let from = Place::Switch { switch, input };
            line = parts.places.iter().position(|place| *place == from)?;
            if !self.passes[line] {
                return None;
            }
            way.push(line);
        }
        None
    }

    /// An incident will come at `at`.
    pub(crate) fn expect(&mut self, at: Ps) {
        let place = self.incidents.partition_point(|other| *other <= at);
        self.incidents.insert(place, at);
    }

    /// The next incident is here.
    pub(crate) fn has_come(&mut self) {
        self.incidents.pop_front();
    }

    /// When the next incident comes: nothing after it is known.
    pub(crate) fn barrier(&self) -> Ps {
        self.incidents.front().copied().unwrap_or(Ps::MAX)
    }

    /// Up to when all cells are known that a host gets: none but those of sources to come, and
    /// those that wait for an incident before a switch.
    pub(crate) fn horizon(&self, host: usize, lines: &[Line]) -> Option<Ps> {
        let known = |line: &usize| {
            let turns = self.turns[*line].as_ref().and_then(Turns::first);
            let waiting = lines[*line].next_arrival().filter(|_| self.passes[*line]);
            let due = turns.map_or(Ps::MAX, |(at, _)| at);
            waiting.map_or(due, |at| at.min(due))
        };
        let way = self.ways[host].as_ref()?;
        Some(way.iter().map(known).fold(self.barrier(), Ps::min))
    }
}

impl Parts<'_> {
    /// Whether an adapter puts cells on a line: if anything is open there.
    fn is_fed_by_adapter(&self, line: usize) -> bool {
        match self.places[line ^ 1] {
            Place::Host { host } => self.hosts[host].has_openings(),
            Place::Switch { .. } => false,
        }
    }
}

/// Sets of inputs whose cells go to each output of a switch.
pub(crate) type Feeders = Vec<BTreeSet<usize>>;
