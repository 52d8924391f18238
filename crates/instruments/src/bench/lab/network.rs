//! What is simulated: hosts that send over a switch to hosts that receive, every line behind the
//! switch saturated.

use anyhow::{Context, ensure};
use cellgate_core::contract::aal5_cells;
use cellgate_core::wire::VpiVci;
use cellgate_lab::Silent;
use cellgate_lab::world::scenario::{
    ConnectionSpec, HostSpec, LinkSpec, Scenario, SourceSpec, SwitchSpec, Traffic,
};
use cellgate_lab::world::{Options, check, check_determinism};

/// Bit/s of each line, of cells of 53 octets.
pub(super) const BIT_S: u64 = 149_760_000;
/// How long a bit travels on one.
pub(super) const DELAY_NS: u64 = 5_000;
/// Octets of each SDU.
pub(super) const SDU: u16 = 1_500;
/// Whole cells per second on such a line.
const CELL_S: u64 = BIT_S / 424;

/// A network, and how many cells cross it.
#[derive(Clone, Debug)]
pub(super) struct Network {
    /// Receiving hosts; as many send.
    pub(super) hosts: usize,
    /// At each host that sends: their cells take turns on its line.
    pub(super) sources: usize,
    /// From each source.
    pub(super) pdus: u64,
    scenario: Scenario,
}

impl Network {
    /// A network that at least `cells` cross, and from each source a few PDUs.
    pub(super) fn new(hosts: usize, sources: usize, cells: u64) -> anyhow::Result<Self> {
        let each = u64::from(aal5_cells(SDU.into())) * (hosts * sources) as u64;
        let mut network = Self {
            hosts,
            sources,
            pdus: cells.div_ceil(each).max(4),
            scenario: Scenario::default(),
        };
        network.scenario = network.scenario()?;
        Ok(network)
    }

    /// Cells that cross it.
    pub(super) fn cells(&self) -> u64 {
        let sources = (self.hosts * self.sources) as u64;
        sources * self.pdus * u64::from(aal5_cells(SDU.into()))
    }

    /// Cells that an output of the switch holds: one of each source at least.
    pub(super) fn queue_cells(&self) -> u32 {
        256.max(2 * self.sources as u32)
    }

    fn scenario(&self) -> anyhow::Result<Scenario> {
        let cells = u64::from(aal5_cells(SDU.into()));
        let slot_ns = 1_000_000_000 * self.sources as u64 / CELL_S;
        let rate = CELL_S / self.sources as u64;
        let mut scenario = Scenario {
            // In the middle of the last PDU: sources finish what they have begun.
            duration_ns: (2 * self.pdus - 1) * cells * 1_000_000_000 / CELL_S * self.sources as u64
                / 2,
            switches: vec![SwitchSpec {
                queue_cells: self.queue_cells(),
                ..SwitchSpec::named("switch")
            }],
            ..Scenario::default()
        };
        for host in 0..self.hosts {
            let (from, to) = (format!("from{host}"), format!("to{host}"));
            for name in [&from, &to] {
                scenario.hosts.push(HostSpec::named(name));
                let link = LinkSpec {
                    bit_s: BIT_S,
                    delay_ns: DELAY_NS,
                    ..LinkSpec::between(name, "switch")
                };
                scenario.links.push(link);
            }
            for source in 0..self.sources {
                let name = format!("{host}.{source}");
                let address = VpiVci::new(0, 32 + source as u16).context("an address")?;
                let contract = format!("cbr,aal5:pcr={rate}cps,max_sdu={SDU},cdvt=1ms");
                let connection = ConnectionSpec::between(&name, [&from, &to], address, &contract);
                scenario.connections.push(connection);
                let traffic = match self.sources {
                    1 => Traffic::Greedy,
                    _ => Traffic::Paced {
                        cell_s: rate as u32,
                    },
                };
                scenario.sources.push(SourceSpec {
                    start_ns: slot_ns * source as u64 / self.sources as u64,
                    ..SourceSpec::on(&name, traffic, &[SDU])
                });
            }
        }
        Ok(scenario)
    }

    /// Makes the world, runs it, and checks its invariants.
    ///
    /// # Errors
    /// One of them does not hold, or a cell is missing.
    pub(super) fn run(&self, mode: Mode) -> anyhow::Result<()> {
        let options = Options {
            reference: mode != Mode::Plain,
            ..Options::default()
        };
        let outcome = match mode {
            Mode::Differential => check_determinism(&self.scenario, options, &mut Silent)?,
            Mode::Plain | Mode::Judged => check(&self.scenario, options)?,
        };
        let read: u64 = (outcome.connections.values())
            .map(|connection| connection.delivered_cells)
            .sum();
        ensure!(
            (outcome.cells, read) == (self.cells(), self.cells()),
            "{} cells sent and {read} read of {}",
            outcome.cells,
            self.cells()
        );
        Ok(())
    }
}

/// What goes along with a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// The invariants: conservation, order, every octet read.
    Plain,
    /// The reference beside each adapter, too.
    Judged,
    /// The same run once more, and compared.
    Differential,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_crosses_in_every_mode() {
        for (hosts, sources) in [(1, 1), (1, 7), (3, 1)] {
            let network = Network::new(hosts, sources, 1_000).unwrap();
            assert!(network.cells() >= 1_000);
            for mode in [Mode::Plain, Mode::Judged, Mode::Differential] {
                network.run(mode).unwrap();
            }
        }
    }

    #[test]
    fn a_missing_cell_is_an_error() {
        let mut network = Network::new(1, 1, 1_000).unwrap();
        network.pdus += 1;
        let error = network.run(Mode::Plain).unwrap_err();
        assert!(error.to_string().contains("read of"), "{error}");
    }
}
