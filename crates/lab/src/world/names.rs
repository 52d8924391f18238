//! Numbers of what a scenario names.

use std::collections::BTreeMap;

use super::scenario::Scenario;

/// The end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Node {
    Host(usize),
    Switch(usize),
}

/// The numbers of its hosts, switches and connections. Of two with one name the first has it.
#[derive(Debug)]
pub(crate) struct Names<'a> {
    nodes: BTreeMap<&'a str, Node>,
    connections: BTreeMap<&'a str, usize>,
}

impl<'a> Names<'a> {
    pub(crate) fn of(scenario: &'a Scenario) -> Self {
        let hosts = scenario.hosts.iter().map(|host| &*host.name);
        let switches = scenario.switches.iter().map(|switch| &*switch.name);
        let hosts = hosts.zip((0..).map(Node::Host));
        let mut nodes = BTreeMap::new();
        for (name, node) in hosts.chain(switches.zip((0..).map(Node::Switch))) {
            nodes.entry(name).or_insert(node);
        }
        let mut connections = BTreeMap::new();
        for (n, connection) in scenario.connections.iter().enumerate() {
            connections.entry(&*connection.name).or_insert(n);
        }
        Self { nodes, connections }
    }

    pub(crate) fn node(&self, name: &str) -> Option<Node> {
        self.nodes.get(name).copied()
    }

    pub(crate) fn find_host(&self, name: &str) -> Option<usize> {
        match self.node(name)? {
            Node::Host(host) => Some(host),
            Node::Switch(_) => None,
        }
    }

    pub(crate) fn find_connection(&self, name: &str) -> Option<usize> {
        self.connections.get(name).copied()
    }

    /// The number of a host that a checked scenario names.
    pub(crate) fn host(&self, name: &str) -> usize {
        self.find_host(name).expect("what was checked names hosts")
    }

    /// The number of a connection that a checked scenario names.
    pub(crate) fn connection(&self, name: &str) -> usize {
        let number = self.find_connection(name);
        number.expect("what was checked names connections")
    }
}
