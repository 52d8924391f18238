//! How it is with each adapter: its CPU's neighbours, its death and its successor.

use std::path::PathBuf;

use cellgate_core::Time;
use cellgate_core::queue::AttachmentGeometry;
use cellgate_core::server::{AdapterIndex, CountersRoom, ServerConfig};
use rustix::process::Pid;

use super::super::descriptors::Descriptors;
use super::super::neighbours::Neighbours;
use super::super::start::start_adapter;
use super::{Daemon, NS_PER_MS, START_NS};
use crate::control::Hello;
use crate::events::{Event, Field, Kind};
use crate::sys::{Lack, cpu_ns_of, probes};

/// An adapter that lived as long is followed by another at once.
const LIFE_NS: u64 = 10_000 * NS_PER_MS;
/// The wait between adapters that die early doubles from the first to the second of these.
const RESPAWN_NS: [u64; 2] = [100 * NS_PER_MS, 5_000 * NS_PER_MS];

/// The daemon's record of one adapter's process.
pub(super) struct Life {
    pub(super) neighbours: Neighbours,
    /// What it said of itself when it was taken up.
    pub(super) taken_up: Option<Box<Hello>>,
    /// When the present one was started.
    since: Time,
    /// When the next one is to be started, and the wait after that.
    respawn: Option<Time>,
    respawn_ns: u64,
    /// When the one before was gone, until the next one runs.
    lost: Option<Time>,
}

impl Life {
    pub(super) fn begin(now: Time) -> Self {
        Self {
            neighbours: Neighbours::default(),
            taken_up: None,
            since: now,
            respawn: None,
            respawn_ns: 0,
            lost: None,
        }
    }

    /// It has gone.
    pub(super) fn ended(&mut self, now: Time) {
        self.lost.get_or_insert(now);
        let [first, last] = RESPAWN_NS;
        self.respawn_ns = match now.since_ns(self.since) {
            LIFE_NS.. => 0,
            _ => (self.respawn_ns * 2).clamp(first, last),
        };
        self.respawn = Some(now.plus_ns(self.respawn_ns));
    }

    /// A new process runs; whoever traces the daemon hears if it follows another.
    pub(super) fn runs(&mut self, now: Time, adapter: AdapterIndex, process: u32) {
        if let Some(lost) = self.lost.take() {
            probes::replaced(adapter.place(), process, now.since_ns(lost));
        }
    }

    /// When the next one is to be started.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.respawn
    }
}

impl Daemon {
    /// Starts adapters whose time has come.
    pub(super) fn start_adapters(&mut self) {
        for adapter in self.adapters.indices() {
            let life = &mut self.lives[adapter.place()];
            if life.respawn.take_if(|due| *due <= self.now).is_none() {
                continue;
            }
            life.since = self.now;
            let like = life.taken_up.as_deref();
            let started = start_adapter(
                &self.options,
                &self.places,
                adapter,
                like,
                &mut self.adapters,
            );
            if let Err(error) = started {
                life.respawn = Some(self.now.plus_ns(RESPAWN_NS[1]));
                let event = self.of_adapter(Kind::AdapterNotStarted, error.to_string(), adapter);
                self.say(event.with(Field::Reason, error.to_string()));
            }
        }
    }

    /// An adapter that leaves questions unanswered for too long is taken for dead. Only looks of
    /// this thread count: a machine that stood still as a whole says nothing of the adapter.
    pub(super) fn judge_silence(&mut self, adapter: AdapterIndex, unanswered_ns: u64) {
        let max_ns = match self.adapters.hello(adapter) {
            Some(_) => self.options.config.adapters[adapter.place()].silence_max_ns,
            None => START_NS,
        };
        if max_ns > 0 && unanswered_ns >= max_ns {
            let ms = unanswered_ns / NS_PER_MS;
            let text = format!("{} has not answered for {ms} ms", self.called(adapter));
            let event = self.of_adapter(Kind::AdapterSilent, text, adapter);
            self.say(event.with(Field::Count, ms));
            self.adapters.give_up(adapter);
        }
    }

    /// The name of an adapter, before its process; nothing for the only one.
    pub(super) fn name_of(&self, adapter: AdapterIndex) -> String {
        let name = self.options.config.adapter_name(adapter);
        name.as_ref()
            .map_or_else(String::new, |name| format!("{name}, process "))
    }

    /// An adapter, as a sentence names it.
    pub(super) fn called(&self, adapter: AdapterIndex) -> String {
        let name = self.options.config.adapter_name(adapter);
        name.map_or_else(
            || "the adapter".to_owned(),
            |name| format!("adapter {name}"),
        )
    }

    /// What has happened to an adapter.
    pub(super) fn of_adapter(&self, kind: Kind, text: String, adapter: AdapterIndex) -> Event {
        Event::of(kind, text).with_any(Field::Adapter, self.options.config.adapter_name(adapter))
    }

    /// An adapter's process, and its CPU time in nanoseconds; 0: not known.
    pub(super) fn process_of(&self, adapter: AdapterIndex) -> (u32, u64) {
        let pid = self.adapters.hello(adapter).map_or(0, |hello| hello.pid);
        let process = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let cpu_ns = process.and_then(|process| cpu_ns_of(process).ok());
        (pid, cpu_ns.unwrap_or(0))
    }

    /// What each adapter said of itself; of one that is being replaced, what it was.
    pub(super) fn hellos(&self) -> impl Iterator<Item = Option<&Hello>> {
        let all = self.adapters.indices().zip(&self.lives);
        all.map(|(adapter, life)| {
            let hello = self.adapters.hello(adapter);
            hello.or(life.taken_up.as_deref())
        })
    }

    /// Has the server reckon with the configuration, and with what the adapters have.
    pub(super) fn fit_server(&mut self) {
        let mut next = self.options.config.server_config(self.laws);
        fit(&mut next, &self.notes, self.hellos());
        next.notes = self.all_notes();
        self.server.handle_config(self.now, next);
    }
}

/// What the counters' file has room for.
pub(super) fn counters_room(config: &ServerConfig) -> CountersRoom {
    let connections = config.admission.adapters.iter().map(|one| one.connections);
    CountersRoom {
        adapters: u8::try_from(config.adapters.len()).unwrap_or(u8::MAX),
        interfaces: u16::try_from(config.limits.interfaces).unwrap_or(u16::MAX),
        connections: u16::try_from(connections.sum::<u32>()).unwrap_or(u16::MAX),
    }
}

/// Where an adapter listens, in the state directory.
pub(crate) fn adapter_socket(name: Option<&str>) -> PathBuf {
    match name {
        Some(name) => format!("adapter-{name}.sock").into(),
        None => "adapter.sock".into(),
    }
}

/// What the adapters have and could not have is as they say, not as it is configured: they may be
/// another server's. None: that is not known.
pub(super) fn fit<'h>(
    config: &mut ServerConfig,
    notes: &[String],
    hellos: impl Iterator<Item = Option<&'h Hello>>,
) {
    // The server is a client, too.
    let own = AttachmentGeometry::new(config.attachment)
        .map_or(0, |own| own.from_adapter_len() + own.from_client_len());
    let mut all = Vec::new();
    let adapters = config
        .adapters
        .iter_mut()
        .zip(&mut config.admission.adapters);
    for ((adapter, books), hello) in adapters.zip(hellos) {
        let Some(hello) = hello else {
            continue;
        };
        all.extend(&hello.scheduling.notes);
        adapter.ports = u8::try_from(hello.config.ports.len()).unwrap_or(u8::MAX);
        adapter.blocks = hello.config.leaves.into();
        adapter.gap_max_ns = hello.config.gap_max_ns;
        adapter.clump_cells = hello.config.clump_cells;
        adapter.idle = hello.scheduling.idle;
        adapter.late_ns = hello.scheduling.late_ns;
        books.memory = hello.memory_max.saturating_sub(own as u64);
        books.connections = hello.config.vcs.into();
    }
    config.notes = Lack::together(all.into_iter().chain(notes));
    let ports = config
        .adapters
        .iter()
        .map(|adapter| u32::from(adapter.ports));
    config.limits.interfaces = ports.sum();
    Descriptors::of_process().bound(config);
}
