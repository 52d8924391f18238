//! From names to numbers: lines, the paths of connections, and the switches on these.

use std::collections::{BTreeMap, VecDeque};

use cellgate_core::adapter::PortIndex;

use super::line::Line;
use super::names::{Names, Node};
use super::plan::Connection;
use super::scenario::{FaultSpec, Scenario};
use super::switch::{Output, Route, Switch};
use super::{Interval, Ps};

/// Where a line ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// At an input of a switch.
    Switch { switch: usize, input: usize },
    /// At a port of a host.
    Host { host: usize },
}

/// The network of a scenario: line 2n leads from the first to the second end of link n, line
/// 2n + 1 back. Links that nothing is at the end of lead nowhere.
#[derive(Debug)]
pub(crate) struct Topology {
    /// Both ends of each line.
    ends: Vec<(usize, Node, Node)>,
    /// The lines that begin at each node, in order, and where these end.
    leaving: BTreeMap<Node, Vec<(usize, Node)>>,
    /// Links of each host, in order: its ports.
    pub(crate) ports: Vec<Vec<(usize, usize)>>,
}

impl Topology {
    pub(crate) fn of(scenario: &Scenario, names: &Names<'_>) -> Self {
        let mut ends = Vec::new();
        for (link, spec) in scenario.links.iter().enumerate() {
            let [one, other] = spec.ends.each_ref().map(|end| names.node(end));
            if let (Some(one), Some(other)) = (one, other) {
                ends.extend([(2 * link, one, other), (2 * link + 1, other, one)]);
            }
        }
        let mut leaving: BTreeMap<Node, Vec<(usize, Node)>> = BTreeMap::new();
        let mut ports = vec![Vec::new(); scenario.hosts.len()];
        for (line, from, to) in &ends {
            leaving.entry(*from).or_default().push((*line, *to));
            if let Node::Host(host) = *to {
                // The other direction of the same link.
                ports[host].push((*line, line ^ 1));
            }
        }
        Self {
            ends,
            leaving,
            ports,
        }
    }

    /// Whether all links have ends.
    pub(crate) fn is_whole(&self, scenario: &Scenario) -> bool {
        self.ends.len() == 2 * scenario.links.len()
    }

    /// A host's port to a line.
    pub(crate) fn port_of(&self, host: usize, line: usize) -> PortIndex {
        let mut ports = self.ports[host].iter();
        let port = ports.position(|(input, output)| [*input, *output].contains(&line));
        PortIndex(port.unwrap_or(0) as u8)
    }

    /// The lines from one host to another, the fewest; among those with the lowest numbers.
    pub(crate) fn path(&self, from: usize, to: usize) -> Option<Vec<usize>> {
        let (from, to) = (Node::Host(from), Node::Host(to));
        let mut came_by: BTreeMap<Node, (usize, Node)> = BTreeMap::new();
        let mut front = VecDeque::from([from]);
        while let Some(node) = front.pop_front() {
            for (line, next) in self.leaving.get(&node).into_iter().flatten() {
                if *next != from && !came_by.contains_key(next) {
                    came_by.insert(*next, (*line, node));
                    // Hosts pass nothing on.
                    front.extend(matches!(next, Node::Switch(_)).then_some(*next));
                }
            }
        }
        let mut path = Vec::new();
        let mut node = to;
        while node != from {
            let (line, before) = *came_by.get(&node)?;
            path.push(line);
            node = before;
        }
        path.reverse();
        Some(path)
    }

    /// Where each line of a checked scenario ends, and its switches, with connections entered along
    /// their paths.
    pub(crate) fn wired(
        &self,
        scenario: &Scenario,
        connections: &[Connection],
    ) -> (Vec<Place>, Vec<Switch>) {
        let mut inputs = vec![0; scenario.switches.len()];
        let mut places = Vec::new();
        for (.., to) in &self.ends {
            places.push(match *to {
                Node::Switch(switch) => {
                    inputs[switch] += 1;
                    let input = inputs[switch] - 1;
                    Place::Switch { switch, input }
                }
                Node::Host(host) => Place::Host { host },
            });
        }
        let named = scenario.switches.iter().zip(0..).zip(inputs);
        let named = named.map(|((switch, n), inputs)| Switch::new(&switch.name, n, inputs));
        let mut switches: Vec<Switch> = named.collect();
        let outputs = self.ends.iter().map(|(line, from, _)| match *from {
            Node::Switch(switch) => {
                let spec = &scenario.switches[switch];
                let output = Output::new(spec.discard, spec.queue_cells, connections.len());
                let output = output.marking(spec.mark, cell_s(scenario, *line));
                switches[switch].add_output(output)
            }
            Node::Host(_) => 0,
        });
        // Number of each line among the outputs of the switch that it comes from.
        let outputs: Vec<u32> = outputs.collect();
        for (line, place) in places.iter().enumerate() {
            if let Place::Switch { switch, input } = *place {
                switches[switch].leads_back(input, outputs[line ^ 1]);
            }
        }
        for (flow, connection) in (0..).zip(connections) {
            let back = connection.way_back();
            for lines in connection.path.windows(2).chain(back.windows(2)) {
                if let Place::Switch { switch, input } = places[lines[0]] {
                    let route = Route {
                        output: outputs[lines[1]],
                        line: lines[1] as u32,
                        flow,
                    };
                    switches[switch].add_route(input, connection.address, route);
                }
            }
        }
        (places, switches)
    }
}

/// Cells/s of a line.
fn cell_s(scenario: &Scenario, line: usize) -> u32 {
    let cell = Interval::of_line(scenario.links[line / 2].bit_s);
    cell.rate().cell_s()
}

/// The lines, with the faults of their cells.
pub(crate) fn lines(scenario: &Scenario) -> Vec<Line> {
    let mut faults = vec![Vec::new(); 2 * scenario.links.len()];
    let mut swaps = faults.iter().map(|_| Vec::new()).collect::<Vec<_>>();
    for fault in &scenario.faults {
        match *fault {
            FaultSpec::Cell {
                link,
                back,
                cell,
                effect,
            } => faults[2 * link + usize::from(back)].push(cellgate_core::Fault { cell, effect }),
            FaultSpec::Swap { link, back, cell } => {
                swaps[2 * link + usize::from(back)].push(cell);
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
