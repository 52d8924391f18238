//! Numbers of what a scenario names.

use std::collections::BTreeMap;

use super::ScenarioError;
use super::scenario::Scenario;

/// The numbers of its hosts and connections.
#[derive(Debug)]
pub(crate) struct Names<'a> {
    hosts: BTreeMap<&'a str, usize>,
    connections: BTreeMap<&'a str, usize>,
}

impl<'a> Names<'a> {
    pub(crate) fn of(scenario: &'a Scenario) -> Self {
        let hosts = scenario.hosts.iter().map(|host| host.name.as_str());
        let connections = scenario.connections.iter();
        let connections = connections.map(|connection| connection.name.as_str());
        Self {
            hosts: hosts.zip(0..).collect(),
            connections: connections.zip(0..).collect(),
        }
    }

    pub(crate) fn host(&self, name: &str) -> Result<usize, ScenarioError> {
        let host = self.hosts.get(name).copied();
        host.ok_or_else(|| ScenarioError::Unknown(name.into()))
    }

    pub(crate) fn connection(&self, name: &str) -> Result<usize, ScenarioError> {
        let connection = self.connections.get(name).copied();
        connection.ok_or_else(|| ScenarioError::Unknown(name.into()))
    }
}
