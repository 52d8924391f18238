//! The processes of a flood, and one try of a phase with them.

#[cfg(feature = "page")]
pub(crate) mod steered;

use std::time::Duration;

use anyhow::Context;
use cellgate_core::adapter::{AdapterState, PortIndex};
use cellgate_core::server::Idle;
use cellgate_host::adapter::{AdapterOptions, AdapterProcess};
use cellgate_host::client::Control;
use cellgate_host::clock::MonotonicClock;
use cellgate_host::control::QueueReport;
use cellgate_host::gap::GapReport;
use cellgate_host::sys::{Scheduling, SchedulingRequest, allowed_cpus, avoid_cpu};
use serde::de::DeserializeOwned;

use super::host::{Glance, HostReport, Order};
use super::plan::{self, Connection, PORTS, Phase};
use super::sender::{Begin, Part, Sent, Task};
use super::wire::Network;
use crate::live::actor::{Actor, Role};

/// From the word to the senders until the first release.
const HEAD_START_NS: u64 = 30_000_000;
/// Before the first phase and after each: any debt of a flooded VC at its policer (CDVT and one PDU
/// time) is over, so that no phase begins with an earlier one's.
const PAUSE: Duration = Duration::from_millis(60);
/// When nothing has come over a pseudowire for so long, nothing will.
const QUIET: Duration = Duration::from_millis(50);
/// How long the queues may take to run empty once nobody sends.
const DRAIN_MAX: Duration = Duration::from_secs(2);

/// Somebody who looks while a phase runs.
pub(crate) trait Watch {
    fn every(&self) -> Duration;
    fn look(&mut self, stage: &mut Stage, phase: &Phase, task: &Task) -> anyhow::Result<()>;
}

/// The adapter and the host; senders come and go.
pub(crate) struct Stage {
    pub(crate) connections: Vec<Connection>,
    pub(crate) control: Control,
    adapter: AdapterProcess,
    host: Actor,
    shared_port: bool,
    network: Option<Network>,
    runs: u32,
}

/// All that was counted in one try.
pub(crate) struct Try {
    pub(crate) task: Task,
    pub(crate) before: AdapterState,
    pub(crate) after: AdapterState,
    pub(crate) sent: Vec<Sent>,
    pub(crate) host: HostReport,
    pub(crate) ports: Vec<QueueReport>,
    /// Cells of each record of `sent` that were lost between the senders and the adapter: on a
    /// pseudowire, nobody else counts them.
    pub(crate) lost: Vec<u64>,
    /// Times that a pseudowire's socket had no room.
    pub(crate) overflows: u64,
    pub(crate) gaps: GapReport,
    /// Whether the queues ran empty in time.
    pub(crate) drained: bool,
}

/// An adapter that shares its only CPU with those that it serves: it rests whenever nothing waits.
fn one_cpu() -> SchedulingRequest {
    SchedulingRequest {
        lock_memory: true,
        ..SchedulingRequest::modest()
    }
}

impl Stage {
    /// Starts the adapter and the host. The calling thread must live as long as they are to.
    pub(crate) fn new(
        shared_port: bool,
        port_cells: u32,
        network: Option<Network>,
        idle: Idle,
    ) -> anyhow::Result<Self> {
        let connections = plan::connections(shared_port);
        let mut options = AdapterOptions::new(plan::adapter_config(shared_port));
        if let Some(network) = &network {
            options.config.clump_cells = network.clump_cells();
        }
        options.port_cells = port_cells;
        options.scheduling.idle = idle;
        if allowed_cpus().len() <= 1 {
            options.scheduling = one_cpu();
        }
        let (adapter, mut control) = AdapterProcess::spawn(Role::Adapter.program()?, &options)
            .context("the adapter did not start")?;
        if let Some(cpu) = control.hello().scheduling.pinned {
            //  Host and senders inherit it.
            avoid_cpu(cpu);
        }
        let mut host = Actor::start(Role::Host, control.connect()?, &connections)?;
        let () = host.hear()?;
        std::thread::sleep(PAUSE);
        Ok(Self {
            connections,
            control,
            adapter,
            host,
            shared_port,
            network,
            runs: 0,
        })
    }

    /// How the adapter's firmware runs.
    pub(crate) fn scheduling(&self) -> &Scheduling {
        &self.control.hello().scheduling
    }

    /// CPU time of the adapter's process.
    pub(crate) fn adapter_cpu_ns(&self) -> anyhow::Result<u64> {
        Ok(self.adapter.cpu_ns()?)
    }

    /// What the host has counted in this run so far.
    pub(crate) fn glance(&mut self) -> anyhow::Result<Glance> {
        self.ask(Order::Look)
    }

    fn ask<T: DeserializeOwned>(&mut self, order: Order) -> anyhow::Result<T> {
        self.host.say(&order)?;
        self.host.hear()
    }

    /// Everybody does as `phase` says for `seconds`, once.
    pub(crate) fn run(
        &mut self,
        phase: &Phase,
        seconds: f64,
        mut watch: Option<&mut dyn Watch>,
    ) -> anyhow::Result<Try> {
        self.runs += 1;
        let mut senders = self.senders()?;
        let run = self.runs;
        let () = self.ask(Order::Begin { run })?;
        let before = self.control.enumerate()?;
        let gaps = self.control.gaps(true)?;
        let begin = MonotonicClock.now().plus_ns(HEAD_START_NS);
        let task = Task {
            run,
            begin,
            end: begin.plus_ns((seconds * 1e9) as u64),
            hazard: phase.hazard,
            strange: phase.strange,
            steered: false,
        };
        for sender in &mut senders {
            sender.say(&task)?;
        }
        while MonotonicClock.now() < task.end {
            let left = Duration::from_nanos(task.end.since_ns(MonotonicClock.now()));
            let every = watch.as_ref().map_or(left, |watch| watch.every());
            std::thread::sleep(every.min(left));
            if let Some(watch) = watch.as_deref_mut()
                && MonotonicClock.now() < task.end
            {
                watch.look(self, phase, &task)?;
            }
        }
        let mut sent = Vec::new();
        for sender in &mut senders {
            let more: Vec<Sent> = sender.hear()?;
            sent.extend(more);
        }
        let drained = self.drain(&before, &sent)?;
        let mut ports: Vec<QueueReport> = self
            .control
            .ports()?
            .into_iter()
            .map(|port| port.receive)
            .collect();
        let mut lost = vec![0; sent.len()];
        if self.network.is_some() {
            for (i, port) in ports.iter_mut().enumerate() {
                port.sent = sent[i].sent_cells;
                port.dropped = port.sent.saturating_sub(port.received);
                lost[i] = port.dropped;
            }
        }
        let overflows = self.overflows()?;
        let gaps = self.control.gaps(false)?.since(&gaps);
        let host: HostReport = self.ask(Order::End)?;
        let after = self.control.enumerate()?;
        drop(senders);
        std::thread::sleep(PAUSE);
        Ok(Try {
            task,
            before,
            after,
            sent,
            host,
            ports,
            lost,
            overflows,
            gaps,
            drained,
        })
    }

    /// A process for each sender, each with a fresh port.
    fn senders(&mut self) -> anyhow::Result<Vec<Actor>> {
        let parts = if self.shared_port {
            vec![Part::All(self.connections.clone())]
        } else {
            let sources = self.connections.iter().copied().map(Part::Source);
            let open = self.connections.iter().map(Connection::address).collect();
            sources.chain([Part::Stranger { open }]).collect()
        };
        let mut senders = Vec::new();
        for part in &parts {
            let network = self.network.as_ref();
            let begin = Begin {
                wire: network.map(|network| network.to_sender(part.port())),
                part: part.clone(),
            };
            senders.push(Actor::start(Role::Sender, self.control.connect()?, &begin)?);
        }
        for (sender, part) in senders.iter_mut().zip(&parts) {
            let source_port = sender.hear()?;
            if let Some(network) = &self.network {
                let wire = network.to_adapter(part.port(), source_port);
                self.control.pseudowire(part.port(), wire)?;
            }
        }
        Ok(senders)
    }

    /// Times that the pseudowires' sockets had no room.
    fn overflows(&mut self) -> anyhow::Result<u64> {
        let ports = if self.network.is_some() { PORTS } else { 0 };
        let mut overflows = 0;
        for port in (0..ports).map(PortIndex) {
            overflows += self.control.pseudowire_report(port)?.overflows;
        }
        Ok(overflows)
    }

    /// Waits until the adapter has taken every cell that the ports took, and the host every PDU
    /// that the adapter delivered; whether that came to be. What a pseudowire has lost does not
    /// come: there, all is taken when nothing has come for a while.
    fn drain(&mut self, before: &AdapterState, sent: &[Sent]) -> anyhow::Result<bool> {
        let cells: u64 = sent.iter().map(|sent| sent.sent_cells).sum();
        let until = MonotonicClock.now().plus_ns(DRAIN_MAX.as_nanos() as u64);
        let (mut last, mut since) = (0, MonotonicClock.now());
        loop {
            let now = self.control.enumerate()?;
            let taken = now.stats.cells_received - before.stats.cells_received;
            if taken != last {
                (last, since) = (taken, MonotonicClock.now());
            }
            let quiet = self.network.is_some()
                && MonotonicClock.now().since_ns(since) > QUIET.as_nanos() as u64;
            let pdus = |state: &AdapterState| -> u64 {
                state.vcs.iter().map(|vc| vc.stats.pdus_delivered).sum()
            };
            let delivered: u64 = self.glance()?.delivered.iter().sum();
            if (taken == cells || quiet) && delivered >= pdus(&now) - pdus(before) {
                //  The ports' counters are shown every few hundred steps.
                std::thread::sleep(Duration::from_millis(5));
                return Ok(true);
            }
            if MonotonicClock.now() >= until {
                return Ok(false);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}
