use std::path::PathBuf;

use anyhow::{anyhow, bail};
use cellgate::{Admin, ConnectionInfo, Error, Idle, InterfaceInfo};
use cellgate_core::contract::{CellRate, TrafficContract};
use cellgate_core::server::{AdapterIndex, Precedence, Prospect, Refused};
use cellgate_host::server::{Config, Onto};
use serde::Serialize;

use super::trial::Trial;

/// The assumptions that the command line makes.
#[derive(Clone, Debug, Default)]
pub(super) struct Said {
    pub(super) socket: Option<PathBuf>,
    pub(super) interface: Option<String>,
    pub(super) line: Option<CellRate>,
    pub(super) wake_up_ns: Option<u64>,
}

/// Circumstances that a contract leaves open, and that its consequences depend on.
pub(super) struct Assumed {
    config: Config,
    on: Onto,
    of: Source,
}

/// Whose assumptions these are.
enum Source {
    /// The documentation's: no server runs.
    Defaults,
    /// Those of a server, by its name and version, and of an interface of it.
    Server(String, Option<String>),
}

/// The assumptions as JSON tells them.
#[derive(Serialize)]
pub(super) struct Told {
    /// The server whose they are; none: the defaults of the documentation.
    server: Option<String>,
    /// The server's interface; none: any.
    interface: Option<String>,
    cdvt_ns: u64,
    wake_up_ns: u64,
    gap_max_ns: u64,
    clump_cells: u16,
    idle: Idle,
    /// How late an adapter that rests may be.
    late_ns: u64,
    /// Cells of the interface's other guaranteed connections that go first.
    others: Precedence,
}

impl Assumed {
    /// Those of the server that runs, else the defaults.
    /// With a server on whose interface these are: what it would open there.
    pub(super) fn find(said: &Said) -> anyhow::Result<(Self, Option<Trial>)> {
        let path = said.socket.clone().unwrap_or_else(cellgate::socket_path);
        let is_wanted = said.socket.is_some() || said.interface.is_some();
        let (mut assumed, trial) = match Admin::at(&path) {
            Ok(admin) => Self::of_server(admin, said.interface.as_deref())?,
            Err(Error::NoServer { .. }) if !is_wanted => (Self::defaults(), None),
            Err(error) => return Err(error.into()),
        };
        if let Some(line) = said.line {
            assumed.on.line = line;
        }
        if let Some(wake_up_ns) = said.wake_up_ns {
            assumed.config.admission.wake_up_ns = wake_up_ns;
        }
        Ok((assumed, trial))
    }

    fn defaults() -> Self {
        Self {
            config: Config::default(),
            on: Onto {
                adapter: AdapterIndex::FIRST,
                line: CellRate::OC3,
                late_ns: None,
                others: Precedence::default(),
            },
            of: Source::Defaults,
        }
    }

    fn of_server(
        mut admin: Admin,
        interface: Option<&str>,
    ) -> anyhow::Result<(Self, Option<Trial>)> {
        let settings = admin.settings()?;
        let config = Config {
            adapters: settings.adapters,
            admission: settings.admission,
            ..Config::default()
        };
        let interface = choose(admin.interfaces()?, interface)?;
        let spec = interface.as_ref().map(|interface| &interface.spec);
        let adapter = spec.map_or(Some(AdapterIndex::FIRST), |spec| config.adapter_of(spec));
        let adapter =
            adapter.ok_or_else(|| anyhow!("the server's adapters have changed; again"))?;
        let adapters = admin.adapters()?;
        let rests = adapters
            .get(adapter.place())
            .and_then(|one| one.rests.as_ref());
        let mut assumed = Self {
            config,
            on: Onto {
                adapter,
                line: spec
                    .and_then(|spec| spec.line_rate)
                    .unwrap_or(CellRate::OC3),
                late_ns: rests.map(|rests| rests.late_allowed_ns),
                others: Precedence::default(),
            },
            of: Source::Server(
                admin.server().server.clone(),
                spec.map(|spec| spec.name.clone()),
            ),
        };
        if let Some(spec) = spec {
            let there = admin.list()?;
            let here = |info: &&ConnectionInfo| info.address.interface.as_ref() == Some(&spec.name);
            let others = there.iter().filter(here);
            let each = others.map(|info| assumed.precedence(info));
            assumed.on.others = each.fold(Precedence::default(), Precedence::plus);
        }
        let trial = interface.map(|interface| Trial::on(admin, &interface));
        Ok((assumed, trial.transpose()?))
    }

    /// Cells of a connection that go before those of others.
    fn precedence(&self, info: &ConnectionInfo) -> Precedence {
        let contract: Option<TrafficContract> = info.contract.parse().ok();
        let prospect = contract.and_then(|contract| self.prospect(&contract).ok());
        let transmit = prospect.and_then(|prospect| prospect.terms.transmit);
        transmit
            .as_ref()
            .map_or_else(Precedence::default, Precedence::of)
    }

    /// The connection that a server makes of a contract under these assumptions.
    pub(super) fn prospect(&self, contract: &TrafficContract) -> Result<Prospect, Refused> {
        self.config.prospect(self.on, contract)
    }

    /// Why no such server ever opens it, if none does.
    pub(super) fn refused(&self, contract: &TrafficContract) -> Option<Refused> {
        let opened = self
            .config
            .could_open(self.on.adapter, self.on.line, contract);
        opened.err()
    }

    pub(super) fn line(&self) -> CellRate {
        self.on.line
    }

    pub(super) fn wake_up_ns(&self) -> u64 {
        self.config.admission.wake_up_ns
    }

    pub(super) fn told(&self) -> Told {
        let adapter = &self.config.adapters[self.on.adapter.place()];
        let (server, interface) = match &self.of {
            Source::Defaults => (None, None),
            Source::Server(server, interface) => (Some(server.clone()), interface.clone()),
        };
        let late_ns = self.on.late_ns.unwrap_or(Idle::LATE_NS_MAX);
        Told {
            server,
            interface,
            cdvt_ns: self.config.admission.cdvt_ns,
            wake_up_ns: self.wake_up_ns(),
            gap_max_ns: adapter.gap_max_ns,
            clump_cells: adapter.clump_cells,
            idle: adapter.idle,
            late_ns: if adapter.idle.rests() { late_ns } else { 0 },
            others: self.on.others,
        }
    }

    /// Whose they are, for people.
    pub(super) fn whose(&self) -> String {
        match &self.of {
            Source::Defaults => "the documented defaults, as no server runs".to_owned(),
            Source::Server(server, None) => format!("as {server} has it, which runs"),
            Source::Server(server, Some(name)) => {
                format!("as {server} has it, which runs, on its interface {name}")
            }
        }
    }

    /// The same for people.
    pub(super) fn text(&self) -> String {
        let whose = self.whose();
        let told = self.told();
        let rests = match told.late_ns {
            0 => "does not rest".to_owned(),
            late_ns => format!("rests, and is up {late_ns} ns after that"),
        };
        format!(
            "assumed: {whose}\n\
             \x20 CDVT where none is said {} ns, line of {} cells/s, {} cells at once\n\
             \x20 a reader is up after {} ns; the adapter stands still for {} ns\n\
             \x20 the adapter {rests}\n\
             \x20 {} cells of other guaranteed connections go first, {} more after a stall\n",
            told.cdvt_ns,
            self.line().cell_s(),
            told.clump_cells,
            told.wake_up_ns,
            told.gap_max_ns,
            told.others.cells,
            told.others.made_good,
        )
    }
}

/// The interface of this name; without one the only one there is, if it is the only one.
fn choose(
    mut all: Vec<InterfaceInfo>,
    name: Option<&str>,
) -> anyhow::Result<Option<InterfaceInfo>> {
    let Some(name) = name else {
        return Ok(all.pop().filter(|_| all.is_empty()));
    };
    let names: Vec<_> = all.iter().map(|one| one.spec.name.clone()).collect();
    match all.into_iter().find(|one| one.spec.name == name) {
        Some(found) => Ok(Some(found)),
        None => bail!(
            "the server has no interface {name}; it has: {}",
            names.join(", ")
        ),
    }
}
