//! From a scenario to servers and applications.

use std::collections::BTreeMap;

use cellgate_core::adapter::Interleaving;
use cellgate_core::contract::{CellRate, Remainder};
use cellgate_core::queue::AttachmentSizes;
use cellgate_core::server::{
    AdapterBooks, Address, AdmissionConfig, Cost, Costs, CpuLaw, HeaderForm, Idle, InterfaceSpec,
    Limits, Link, Priority, Quota, ServerAdapter, ServerAssumptions, ServerConfig,
};
use cellgate_core::wire::VpiVci;

use super::application::Application;
use super::call::HELLO;
use super::daemon::Served;
use super::killers::Killers;
use super::scenario::ServerSpec;
use super::{ServerBug, places};
use crate::world::endpoint::DOORBELL_SLOTS;
use crate::world::host::Host;
use crate::world::names::Names;
use crate::world::plan::Connection;
use crate::world::scenario::{HostSpec, Scenario};

/// The user that servers run as.
pub(crate) const SERVER_UID: u32 = 900;

/// How long memory is waited for when connections are opened again.
pub(crate) const SHORT_PATIENCE_NS: [u64; 2] = [5_000_000, 1_000_000];

/// The name of the interface on a port.
pub(super) fn interface_name(port: usize) -> String {
    format!("p{port}")
}

/// An address there.
pub(super) fn address_at(port: usize, vc: VpiVci) -> Address {
    Address {
        interface: Some(interface_name(port)),
        vc,
    }
}

/// Which connections are whose, before there are hosts.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    /// Applications of each host that has a server.
    hosts: BTreeMap<usize, u16>,
    /// Ends of connections that applications use: host, connection.
    ends: Vec<(usize, usize)>,
}

impl Owners {
    /// What names nothing is left out.
    pub(crate) fn of(scenario: &Scenario, names: &Names<'_>) -> Self {
        let servers = scenario.servers.iter();
        let hosts = servers.filter_map(|server| Some((names.find_host(&server.host)?, 0)));
        let mut owners = Self {
            hosts: hosts.collect(),
            ends: Vec::new(),
        };
        for application in &scenario.applications {
            let host = names.find_host(&application.host);
            let connection = names.find_connection(&application.connection);
            if let Some(end) = host.zip(connection) {
                owners.ends.push(end);
                if let Some(count) = owners.hosts.get_mut(&end.0) {
                    *count = count.saturating_add(1);
                }
            }
        }
        owners
    }

    /// How long servers need at most until their interfaces are there, in nanoseconds.
    pub(crate) fn begin_ns(&self, scenario: &Scenario, ports: &[Vec<(usize, usize)>]) -> u64 {
        let names = Names::of(scenario);
        let needs = scenario.servers.iter().map(|spec| {
            let host = names.host(&spec.host);
            // A request and a reply for each step of a link, for hello, and for an attachment.
            let steps = 4 * ports[host].len() as u64 + 3;
            steps * (2 * spec.control_ns + scenario.hosts[host].step_ns)
        });
        needs.max().unwrap_or(0)
    }

    /// Clients and VCs that a host's server may need; none: it has no server.
    pub(crate) fn room(&self, host: usize) -> Option<u16> {
        let applications = *self.hosts.get(&host)?;
        // Whoever has died can still be attached while its successor is.
        Some(applications.saturating_mul(3).saturating_add(4))
    }

    /// Whether applications use a connection's end at a host.
    pub(crate) fn serves(&self, host: usize, connection: usize) -> bool {
        self.ends.contains(&(host, connection))
    }

    /// Those ends.
    pub(crate) fn ends(&self) -> &[(usize, usize)] {
        &self.ends
    }

    /// Gives hosts their servers and applications.
    pub(crate) fn settle(
        &self,
        scenario: &Scenario,
        connections: &[Connection],
        hosts: &mut [Host],
        bug: Option<ServerBug>,
    ) {
        for spec in &scenario.servers {
            let named = hosts.iter_mut().find(|host| host.spec.name == spec.host);
            let Some(host) = named else { continue };
            let rates = host.rates();
            let config = config(&host.spec, spec, rates.len(), bug);
            let lines = rates.into_iter().enumerate();
            let interfaces = lines.map(|(port, rate)| interface(port, rate, bug));
            let mut served = Served::new(spec.clone(), config, interfaces.collect());
            served.places.harms = places::harms(scenario, &spec.host);
            served.killers = Killers::of(scenario, &spec.host);
            host.served = Some(Box::new(served));
        }
        let applications = scenario.applications.iter().zip(&self.ends).enumerate();
        for (n, (spec, (host, connection))) in applications {
            let sends = connections[*connection].from == *host;
            let (_, line) = connections[*connection].end(!sends);
            let port = hosts[*host].port_of(line);
            let line = (port, hosts[*host].rates()[port]);
            let spec_of = &scenario.connections[*connection];
            let end = (*connection as u32, spec_of, sends);
            let mut application = Application::new(n, spec.clone(), end, line);
            application.remainder = match bug {
                Some(ServerBug::RemainderLost) => Remainder::Lost,
                Some(ServerBug::RemainderOverdrawn) => Remainder::Overdrawn,
                _ => Remainder::Carried,
            };
            hosts[*host].applications.push(application);
        }
    }
}

fn interface(port: usize, rate: CellRate, bug: Option<ServerBug>) -> InterfaceSpec {
    let tenth = match bug {
        Some(ServerBug::LineTooWide) => rate.cell_s() / 10,
        _ => 0,
    };
    let name = interface_name(port);
    InterfaceSpec {
        adapter: None,
        // What is behind a port is the world's affair.
        link: Link::peer(&name),
        name,
        form: HeaderForm::Nni,
        priority: Priority::Normal,
        line_rate: CellRate::new(rate.cell_s().saturating_add(tenth)),
        line: None,
    }
}

/// What a cell and a PDU cost here: such that the adapter's core is as scarce as the line.
fn law() -> CpuLaw {
    let cost = |cell_ps, pdu_ps| Cost { cell_ps, pdu_ps };
    CpuLaw {
        reserve: Costs {
            transmit: cost(200_000, 900_000),
            receive: cost(150_000, 700_000),
        },
        expected: Costs {
            transmit: cost(100_000, 500_000),
            receive: cost(90_000, 400_000),
        },
        headroom_percent: 10,
    }
}

fn config(
    host: &HostSpec,
    spec: &ServerSpec,
    ports: usize,
    bug: Option<ServerBug>,
) -> ServerConfig {
    let quota = match spec.quota_cell_s {
        _ if bug == Some(ServerBug::QuotaIgnored) => Quota::NONE,
        0 => Quota::NONE,
        cell_s => Quota {
            cell_s,
            ..Quota::NONE
        },
    };
    ServerConfig {
        server: "cellgate lab".into(),
        pid: 1,
        uid: SERVER_UID,
        notes: Vec::new(),
        counters_len: None,
        adapters: vec![ServerAdapter {
            name: None,
            ports: ports as u8,
            blocks: 64,
            gap_max_ns: host.gap_max_ns,
            clump_cells: host.clump_cells,
            idle: Idle::Spin,
            late_ns: 0,
        }],
        attachment: AttachmentSizes {
            event_slots: host.event_slots,
            doorbell_slots: DOORBELL_SLOTS,
        },
        assumptions: ServerAssumptions {
            cdvt_ns: 1_000_000,
            interleaving: Interleaving {
                mids: 4,
                reassembly_timeout_ns: host.reassembly_timeout_ns,
            },
            wake_up_ns: host.wake_up_ns + 2 * host.step_ns,
        },
        admission: AdmissionConfig {
            adapter_law: law(),
            adapters: vec![AdapterBooks {
                cpu_ppm: spec.adapter_ppm,
                memory: spec.memory,
                connections: match bug {
                    Some(ServerBug::ConnectionsUnbounded) => u32::MAX,
                    _ => spec.connections,
                },
            }],
            worker_law: law(),
            worker_ppm: 0,
            best_effort_percent: match bug {
                Some(ServerBug::BestEffortForgotten) => 0,
                _ => spec.best_effort_percent,
            },
            sdu_floor: None,
            quota,
            quotas: BTreeMap::new(),
        },
        limits: Limits {
            waiting: 8,
            hello_ns: HELLO.ns(),
            // Adapters of worlds die more often.
            outlived_ns: 1_000_000,
            short_again_ns: 100_000,
            short_patience_ns: SHORT_PATIENCE_NS,
            ..Limits::default()
        },
        reserves: Vec::new(),
    }
}
