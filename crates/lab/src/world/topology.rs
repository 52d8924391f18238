//! From names to numbers: nodes, lines, and the paths of connections.

use std::collections::{BTreeMap, VecDeque};

use super::Ps;
use super::error::ScenarioError;
use super::line::Line;
use super::scenario::{FaultSpec, Scenario};
use super::switch::{Output, Route, Switch};

/// Where a line ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// At an input of a switch.
    Switch { switch: usize, input: usize },
    /// At a port of a host.
    Host { host: usize },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Node {
    Host(usize),
    Switch(usize),
}

/// The network of a scenario: line 2n leads from the first to the second end of link n, line
/// 2n + 1 back.
#[derive(Debug)]
pub(crate) struct Topology {
    nodes: BTreeMap<String, Node>,
    /// Both ends of each line.
    ends: Vec<(Node, Node)>,
    /// The lines that begin at each node, in order.
    leaving: BTreeMap<Node, Vec<usize>>,
    /// Where each line ends.
    pub(crate) places: Vec<Place>,
    /// Number of each line among the outputs of the switch that it comes from.
    pub(crate) outputs: Vec<u32>,
    /// Links of each host, in order: its ports.
    pub(crate) ports: Vec<Vec<(usize, usize)>>,
    pub(crate) switches: Vec<Switch>,
}

impl Topology {
    pub(crate) fn of(scenario: &Scenario) -> Result<Self, ScenarioError> {
        let hosts = scenario.hosts.iter().map(|host| &host.name).enumerate();
        let hosts = hosts.map(|(n, name)| (name, Node::Host(n)));
        let switches = scenario.switches.iter().map(|switch| &switch.name);
        let switches = switches
            .enumerate()
            .map(|(n, name)| (name, Node::Switch(n)));
        let mut nodes = BTreeMap::new();
        for (name, node) in hosts.chain(switches) {
            if nodes.insert(name.clone(), node).is_some() {
                return Err(ScenarioError::TwoOfAName(name.clone()));
            }
        }
        let find = |name: &String| {
            let node = nodes.get(name).copied();
            node.ok_or_else(|| ScenarioError::Unknown(name.clone()))
        };
        let mut ends = Vec::new();
        for link in &scenario.links {
            let (one, other) = (find(&link.ends[0])?, find(&link.ends[1])?);
            ends.extend([(one, other), (other, one)]);
        }
        Ok(Self::wired(scenario, nodes, ends))
    }

    fn wired(scenario: &Scenario, nodes: BTreeMap<String, Node>, ends: Vec<(Node, Node)>) -> Self {
        let mut inputs = vec![0; scenario.switches.len()];
        let mut ports = vec![Vec::new(); scenario.hosts.len()];
        let mut places = Vec::new();
        for (line, (_, to)) in ends.iter().enumerate() {
            places.push(match *to {
                Node::Switch(switch) => {
                    inputs[switch] += 1;
                    let input = inputs[switch] - 1;
                    Place::Switch { switch, input }
                }
                Node::Host(host) => {
                    // The other direction of the same link.
                    ports[host].push((line, line ^ 1));
                    Place::Host { host }
                }
            });
        }
        let named = scenario.switches.iter().zip(0..).zip(inputs);
        let named = named.map(|((switch, n), inputs)| Switch::new(&switch.name, n, inputs));
        let mut switches: Vec<Switch> = named.collect();
        let flows = scenario.connections.len();
        let outputs = ends.iter().map(|(from, _)| match *from {
            Node::Switch(switch) => {
                let spec = &scenario.switches[switch];
                let output = Output::new(spec.discard, spec.queue_cells, flows);
                switches[switch].add_output(output)
            }
            Node::Host(_) => 0,
        });
        let outputs = outputs.collect();
        let mut leaving: BTreeMap<Node, Vec<usize>> = BTreeMap::new();
        for (line, (from, _)) in ends.iter().enumerate() {
            leaving.entry(*from).or_default().push(line);
        }
        Self {
            nodes,
            ends,
            leaving,
            places,
            outputs,
            ports,
            switches,
        }
    }

    /// The number of a host.
    pub(crate) fn host(&self, name: &str) -> Result<usize, ScenarioError> {
        match self.nodes.get(name) {
            Some(Node::Host(host)) => Ok(*host),
            _ => Err(ScenarioError::Unknown(name.into())),
        }
    }

    /// The lines, with the faults of their cells.
    pub(crate) fn lines(&self, scenario: &Scenario) -> Vec<Line> {
        let mut faults = vec![Vec::new(); self.ends.len()];
        let mut swaps = vec![Vec::new(); self.ends.len()];
        for fault in &scenario.faults {
            match *fault {
                FaultSpec::Cell {
                    link,
                    back,
                    cell,
                    effect,
                } => {
                    if let Some(faults) = faults.get_mut(2 * link + usize::from(back)) {
                        faults.push(cellgate_core::Fault { cell, effect });
                    }
                }
                FaultSpec::Swap { link, back, cell } => {
                    if let Some(swaps) = swaps.get_mut(2 * link + usize::from(back)) {
                        swaps.push(cell);
                    }
                }
                _ => {}
            }
        }
        let specs = scenario.links.iter().flat_map(|link| {
            let [one, other] = &link.ends;
            [(link, [one.as_str(), other]), (link, [other, one])]
        });
        let lines = specs.zip(faults).zip(swaps).zip(0..);
        lines
            .map(|((((link, ends), faults), swaps), number)| {
                let line = Line::new(link.bit_s, Ps::from_ns(link.delay_ns));
                let line = line.between(ends);
                let line = line.with_faults(faults).with_swaps(swaps);
                line.impaired(link.line, number)
            })
            .collect()
    }

    /// The lines from one host to another, the fewest; among those with the lowest numbers.
    pub(crate) fn path(&self, from: usize, to: usize) -> Option<Vec<usize>> {
        let mut came_by: BTreeMap<Node, usize> = BTreeMap::new();
        let mut front = VecDeque::from([Node::Host(from)]);
        while let Some(node) = front.pop_front() {
            for line in self.leaving.get(&node).into_iter().flatten() {
                let (_, next) = &self.ends[*line];
                if *next != Node::Host(from) && !came_by.contains_key(next) {
                    came_by.insert(*next, *line);
                    // Hosts pass nothing on.
                    front.extend(matches!(next, Node::Switch(_)).then_some(*next));
                }
            }
        }
        let mut path = Vec::new();
        let mut node = Node::Host(to);
        while node != Node::Host(from) {
            let line = *came_by.get(&node)?;
            path.push(line);
            node = self.ends[line].0;
        }
        path.reverse();
        Some(path)
    }

    /// Enters a connection into the switches along its path.
    pub(crate) fn route(
        &mut self,
        scenario: &Scenario,
        connection: usize,
        path: &[usize],
    ) -> Result<(), ScenarioError> {
        let spec = &scenario.connections[connection];
        for lines in path.windows(2) {
            if let Place::Switch { switch, input } = self.places[lines[0]] {
                let route = Route {
                    output: self.outputs[lines[1]],
                    line: lines[1] as u32,
                    flow: connection as u32,
                };
                if !self.switches[switch].add_route(input, spec.address, route) {
                    return Err(ScenarioError::AddressInUse(spec.name.clone()));
                }
            }
        }
        Ok(())
    }
}
