mod devices;
mod guilt;
mod lives;
mod losses;
mod neighbours;
mod settings;
mod turns;
mod upkeep;

pub(crate) use lives::adapter_socket;

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use cellgate_core::Time;
use cellgate_core::server::governor::{Left, News};
use cellgate_core::server::{
    AdapterIndex, ClientId, Enclosed, EndReason, FromServer, Indication, Output, Peer, Reopens,
    Server, ServerConfig, TakenUp,
};
use cellgate_shm::CountersMemory;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};
use rustix::process::{geteuid, getpid};

use super::adapters::Adapters;
use super::applications::{Applications, Heard as Word};
use super::config::Laws;
use super::cpu_time::CpuTimes;
use super::idle::IdleWatch;
use super::limits::Gate;
use super::listener::Listener;
use super::operator::Operator;
use super::start::Places;
use super::turns::Turns;
use super::voice::{Notice, Voice};
use super::workers::Workers;
use super::{Config, ServeError, ServerOptions};
use crate::clock::{MonotonicClock, thread_cpu_ns};
use crate::closer::{self, is_hung_up};
use crate::events::{Event, Field, Kind};
use crate::inflight::RETRY_NS;
use crate::sys::{Duty, Heard, Signals};

const NS_PER_MS: u64 = 1_000_000;

/// From one look at the adapter's counters to the next, while somebody watches.
const LOOK_NS: u64 = 250 * NS_PER_MS;
/// The same while nobody does.
const UNWATCHED_NS: u64 = 1_000 * NS_PER_MS;
/// What an adapter has to say its first words.
const START_NS: u64 = 20_000 * NS_PER_MS;
/// How long the service of what was taken up is real-time: applications that wait ask again.
const URGENT_NS: u64 = 1_000 * NS_PER_MS;
/// How long nobody is accepted after the kernel was out of descriptors.
const ACCEPT_RETRY_NS: u64 = 10 * NS_PER_MS;
/// Connections accepted at a time.
const ACCEPTS_PER_TURN: usize = 16;
/// What the adapter has to end in order.
const END: Duration = Duration::from_secs(2);

/// The thread of the service: everything but the server's decisions.
pub(super) struct Daemon {
    options: ServerOptions,
    voice: Voice,
    places: Places,
    laws: Laws,
    server: Server,
    adapters: Adapters,
    /// How it is with each of them.
    lives: Vec<lives::Life>,
    /// What the machine leaves for them.
    gate: Gate,
    applications: Applications,
    turns: Turns,
    description: turns::DescriptionText,
    operator: Operator,
    workers: Workers,
    cpu_times: CpuTimes,
    idle: IdleWatch,
    losses: losses::Losses,
    /// Who waits for a connection's end, and what is said then.
    parting: Vec<devices::Parting>,
    listener: Listener,
    signals: Signals,
    /// What everybody may read, and its file.
    counters: (CountersMemory, Arc<OwnedFd>),
    now: Time,
    next_look: Time,
    looked: Time,
    accept_from: Time,
    /// Until when this thread is real-time.
    urgent_until: Option<Time>,
    watchdog: Option<(Duration, Time)>,
    /// The configuration was brought about once: applications are let in.
    open: bool,
    /// The service manager knows that the present configuration was, as far as it could be.
    ready: bool,
    end: Option<Heard>,
    /// What threads of this process could not have.
    notes: Vec<String>,
    /// Octets of each adapter's connections that are to be locked and are not.
    unlocked: BTreeMap<AdapterIndex, u64>,
    /// What goes wrong in the file system.
    troubles: Vec<String>,
    /// What the service manager knows of the configuration.
    known: String,
    status_changed: bool,
}

/// What a poll found.
struct Ready {
    listener: bool,
    workers: bool,
    /// A CPU was idle.
    idle: bool,
    /// Somebody has taken pages away.
    pages: bool,
    /// Sockets with something to say, and whose.
    heard: Vec<(ClientId, u32)>,
    /// Sockets that take more.
    writable: Vec<ClientId>,
}

impl Daemon {
    pub(super) fn new(
        (options, voice): (ServerOptions, Voice),
        places: Places,
        laws: Laws,
        (adapters, listener, signals): (Adapters, Listener, Signals),
        (workers, cpu_times, idle, notes): (Workers, CpuTimes, IdleWatch, Vec<String>),
        first: &[News],
    ) -> Result<Self, ServeError> {
        let now = MonotonicClock.now();
        let mut config = server_config(&options.config, laws, &notes, first);
        let made =
            CountersMemory::create(lives::counters_room(&config)).map_err(std::io::Error::other);
        let (counters, file) = made.map_err(ServeError::of("counters"))?;
        config.counters_len = Some(counters.len() as u64);
        let watchdog = sd_notify::watchdog_enabled().map(|interval| (interval / 2, now));
        Ok(Self {
            server: Server::new(config),
            operator: Operator::new(options.config.clone()),
            applications: Applications::new(),
            turns: Turns::default(),
            description: turns::DescriptionText::new(),
            workers,
            cpu_times,
            idle,
            losses: losses::Losses::default(),
            parting: Vec::new(),
            lives: adapters
                .indices()
                .map(|_| lives::Life::begin(now))
                .collect(),
            adapters,
            gate: Gate::new(places.cpus()),
            listener,
            signals,
            counters: (counters, Arc::new(file)),
            laws,
            now,
            next_look: now,
            looked: now,
            accept_from: now,
            urgent_until: None,
            watchdog,
            open: false,
            ready: false,
            end: None,
            notes,
            unlocked: BTreeMap::new(),
            troubles: Vec::new(),
            known: String::new(),
            status_changed: false,
            voice,
            options,
            places,
        })
    }

    /// Begins with what the adapters said first.
    pub(super) fn begin(&mut self, first: Vec<News>) {
        for (adapter, told) in self.adapters.indices().zip(first) {
            self.hear_adapter(adapter, told);
        }
        let me = Peer {
            uid: geteuid().as_raw(),
            pid: getpid().as_raw_nonzero().get().cast_unsigned(),
        };
        self.server
            .handle_connect(self.now, Applications::OPERATOR, me);
        self.operator.begin();
        self.settle();
    }

    /// Serves until a signal ends it.
    pub(super) fn run(mut self) -> Result<(), ServeError> {
        while self.end.is_none() {
            self.tell_manager();
            let ready = self.wait()?;
            self.now = MonotonicClock.now();
            for signal in self.signals.heard() {
                self.signalled(signal);
            }
            self.hear_all_of_adapters();
            if ready.workers {
                self.hear_workers()?;
            }
            if ready.pages {
                for adapter in self.adapters.indices() {
                    let taken = self.adapters.pages_taken(adapter);
                    self.server.handle_pages_taken(self.now, adapter, &taken);
                }
                self.settle();
            }
            if ready.idle {
                self.lend();
            }
            self.hear_in_turns(&ready.heard);
            if ready.listener {
                self.accept();
            }
            self.do_what_is_due();
            if !ready.heard.is_empty() || self.looked == self.now {
                self.idle.watch(self.server.has_borrowers());
            }
            self.hear_all_of_adapters();
            self.confirm_parted();
            self.tell_shares();
            self.end_cpu_times();
            for client in self.applications.flush(self.now, &ready.writable) {
                self.hung_up(client);
            }
            self.adapters.flush();
        }
        self.finish();
        Ok(())
    }

    /// Lends what nobody else wants.
    fn lend(&mut self) {
        if let Some(idle) = self.idle.found() {
            self.server.handle_idle(self.now, idle);
            self.settle();
        }
    }

    fn say(&mut self, event: Event) {
        self.voice.say(event);
    }

    fn wait(&mut self) -> Result<Ready, ServeError> {
        let timeout = Timespec::try_from(Duration::from_nanos(self.idle_ns())).ok();
        let waits = |uid| self.turns.waits(self.now, uid);
        let (clients, mut fds) = self.applications.poll_fds(self.now, waits);
        // Each that hangs up leaves a descriptor to close.
        let accepts = self.open && self.now >= self.accept_from && !closer::is_behind();
        fds.push(PollFd::new(&self.signals, PollFlags::IN));
        fds.push(PollFd::new(
            &self.listener,
            match accepts {
                true => PollFlags::IN,
                false => PollFlags::empty(),
            },
        ));
        fds.push(PollFd::new(self.workers.bell(), PollFlags::IN));
        let idle = self.idle.bell();
        fds.push(PollFd::new(&idle, PollFlags::IN));
        let pages = self
            .adapters
            .indices()
            .map(|adapter| self.adapters.files(adapter).pages_bell());
        let pages: Vec<_> = pages.collect();
        fds.extend(pages.iter().map(|bell| PollFd::new(bell, PollFlags::IN)));
        let adapters = self.adapters.poll();
        fds.extend(adapters.iter().map(|(fd, sends)| {
            let mut flags = PollFlags::IN;
            flags.set(PollFlags::OUT, *sends);
            PollFd::new(fd, flags)
        }));
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(ServeError::of("poll")(error)),
        }
        let listener = fds[clients.len() + 1].revents();
        let workers = fds[clients.len() + 2].revents();
        let idle = !fds[clients.len() + 3].revents().is_empty();
        let first = clients.len() + 4;
        let bells = &fds[first..first + pages.len()];
        let pages = bells.iter().any(|bell| !bell.revents().is_empty());
        let over = PollFlags::HUP | PollFlags::ERR;
        let found = |wanted: PollFlags| {
            let found = clients.iter().zip(&fds);
            let found = found.filter(move |(_, fd)| fd.revents().intersects(wanted | over));
            found.map(|(client, _)| *client)
        };
        let writable = found(PollFlags::OUT).map(|(client, _)| client).collect();
        Ok(Ready {
            listener: accepts && !listener.is_empty(),
            workers: !workers.is_empty(),
            idle,
            pages,
            heard: found(PollFlags::IN).collect(),
            writable,
        })
    }

    /// How long there is nothing to do, if nothing happens.
    fn idle_ns(&self) -> u64 {
        let deadlines = [
            Some(self.next_look),
            self.lives
                .iter()
                .filter_map(lives::Life::next_deadline)
                .min(),
            self.server.next_deadline(),
            self.operator.next_deadline(),
            self.applications.next_deadline(),
            self.turns.next_deadline(self.now),
            self.adapters.are_held().then(|| self.now.plus_ns(RETRY_NS)),
            self.watchdog.map(|(_, at)| at),
            self.urgent_until,
            Some(self.accept_from).filter(|from| *from > self.now),
        ];
        let next = deadlines.into_iter().flatten().min();
        next.map_or(LOOK_NS, |next| next.since_ns(self.now))
    }

    /// Carries out what the server wants, until it wants nothing.
    fn settle(&mut self) {
        loop {
            while let Some(output) = self.server.poll_output() {
                if let Some(slow) = self.carry_out(output) {
                    self.applications.hang_up(slow);
                    self.server.handle_hang_up(self.now, slow);
                }
            }
            let Some(message) = self.operator.next(self.now) else {
                return;
            };
            let operator = Applications::OPERATOR;
            self.server
                .handle_message(self.now, operator, message, None);
        }
    }

    /// Does one thing; an application that does not take what it is sent.
    fn carry_out(&mut self, output: Output) -> Option<ClientId> {
        match output {
            Output::Adapter {
                adapter,
                ticket,
                ask,
            } => match self.gate.admits(adapter, ticket, &ask) {
                Ok(()) => self.adapters.ask(adapter, ticket, ask),
                Err(refusal) => self.adapters.refuse(adapter, ticket, refusal),
            },
            Output::Client {
                client: Applications::OPERATOR,
                message,
                ..
            } => {
                if let Some(news) = self.operator.hear(message) {
                    self.say(news);
                }
            }
            Output::Client {
                client,
                message,
                enclosed,
            } => {
                let fds = match enclosed {
                    Enclosed::Counters => Some(vec![Arc::clone(&self.counters.1)]),
                    other => self.adapters.enclosed(other),
                };
                let told = match fds {
                    Some(fds) => self.applications.tell(self.now, client, &message, fds),
                    // Without them the message says nothing, and waiting for it would not end.
                    None => false,
                };
                return (!told).then_some(client);
            }
            Output::Keep {
                client,
                attachment,
                reopens,
            } => {
                let socket = self.applications.socket(client);
                if !self.keep_for_worker(client, attachment)
                    && let Some(socket) = socket
                {
                    self.adapters.keep(attachment, vec![socket], reopens.text());
                }
            }
            Output::HangUp { client } => self.applications.hang_up(client),
            Output::LeftOut {
                address,
                uid,
                deaths,
            } => {
                self.tell_left_out(&address, uid, deaths);
            }
            Output::PagesTaken {
                uid,
                connections,
                barred_ns,
            } => {
                self.tell_pages_taken(uid, connections, barred_ns);
            }
            Output::Lost {
                address,
                uid,
                refused,
            } => {
                let ours = uid == geteuid().as_raw();
                if let Some(news) = ours
                    .then(|| self.operator.loses(&address, &refused))
                    .flatten()
                {
                    self.say(news);
                }
            }
        }
        None
    }

    fn accept(&mut self) {
        let mut from = thread_cpu_ns();
        for _ in 0..ACCEPTS_PER_TURN {
            match accept_with(&self.listener, SocketFlags::CLOEXEC) {
                Ok(socket) => {
                    if let Ok((client, peer)) = self.applications.adopt(socket.into()) {
                        self.server.handle_connect(self.now, client, peer);
                        self.tell_groups(client);
                        self.settle();
                        let until = thread_cpu_ns();
                        self.turns.charge(self.now, peer.uid, client, until - from);
                        from = until;
                    }
                }
                Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => return,
                // Out of descriptors: looking at it again and again would only burn time.
                Err(_) => {
                    self.accept_from = self.now.plus_ns(ACCEPT_RETRY_NS);
                    return;
                }
            }
        }
    }

    /// Tells in which groups a process is, of those that something depends on.
    fn tell_groups(&mut self, client: ClientId) {
        let reserves = &self.options.config.reserves;
        let groups = reserves.iter().flat_map(|reserve| &reserve.groups);
        let groups: BTreeSet<u32> = groups.copied().collect();
        // A worker's socket is this process's own: it was told who asked for it.
        if !self.workers.is_one(client) {
            let groups = self.applications.groups(client, &groups);
            self.server.handle_groups(client, groups);
        }
    }

    fn hung_up(&mut self, client: ClientId) {
        self.applications.hang_up(client);
        self.server.handle_hang_up(self.now, client);
        self.settle();
    }

    fn hear_all_of_adapters(&mut self) {
        while let Some((adapter, told)) = self.adapters.next() {
            self.hear_adapter(adapter, told);
        }
    }

    fn hear_adapter(&mut self, adapter: AdapterIndex, told: News) {
        let now = self.now;
        match told {
            News::Ready(hello) => {
                let name = self.name_of(adapter);
                let (pid, scheduling) = (hello.pid, &hello.scheduling);
                let text = format!("adapter {name}{pid}: {scheduling}");
                let event = self.of_adapter(Kind::AdapterReady, text, adapter);
                self.say(event.with(Field::Process, pid));
                self.lives[adapter.place()].runs(now, adapter, pid);
                self.places.keep_wake_up(now, scheduling);
                self.fit_server();
                self.meet_neighbours();
                self.look_at_limits();
                self.server.handle_adapter_ready(now, adapter);
                self.operator.finds_adapter();
            }
            News::TakenUp(hello, interfaces, left) => {
                let count = left.iter().filter(|left| left.vc.is_some()).count();
                let name = self.name_of(adapter);
                let text = format!("adapter {name}{}: taken up, {count} VCs", hello.pid);
                let event = self
                    .of_adapter(Kind::AdapterTakenUp, text, adapter)
                    .with(Field::Count, count)
                    .with(Field::Process, hello.pid);
                self.say(event);
                self.urgent_until = Some(now.plus_ns(URGENT_NS));
                let taken = left
                    .into_iter()
                    .map(|left| self.taken(adapter, left))
                    .collect();
                self.server.take_up(now, adapter, interfaces, taken);
                self.lives[adapter.place()].taken_up = Some(hello);
                self.meet_neighbours();
                self.gate.hurry();
                self.look_at_limits();
                let clients = self.applications.clients();
                clients
                    .into_iter()
                    .for_each(|client| self.tell_groups(client));
                self.settle();
                self.resume_workers();
            }
            News::LetGo(number) => self.workers.stop(number),
            News::Answer(ticket, answer) => {
                self.gate.answered(ticket);
                self.server.handle_answer(now, ticket, answer);
            }
            News::State(state) => {
                self.server.handle_report(now, adapter, &state);
                self.counters.0.show(now, self.server.shown());
            }
            News::Health(mut health) => {
                (health.pid, health.cpu_ns) = self.process_of(adapter);
                for port in &health.ports {
                    let name = self.adapters.interface_on(adapter.on(port.port));
                    let news = name.map(|name| {
                        let (state, counts) = (&port.state, &port.counts);
                        self.losses.news(now, &name, state, counts)
                    });
                    for event in news.unwrap_or_default() {
                        self.say(event);
                    }
                }
                self.note_unlocked(adapter, health.unlocked);
                self.server.handle_health(now, adapter, &health);
            }
            News::Lost(why) => {
                let text = format!("{} has gone", self.called(adapter));
                let event = Event::because(Kind::AdapterLost, text, why);
                let name = self.options.config.adapter_name(adapter);
                self.say(event.with_any(Field::Adapter, name));
                self.lives[adapter.place()].ended(now);
                self.gate.lost(adapter);
                self.server.handle_adapter_lost(now, adapter);
            }
        }
        self.settle();
    }

    /// What another server left, with the application's socket if somebody is there.
    fn taken(&mut self, adapter: AdapterIndex, left: Left) -> TakenUp {
        let reopens = Reopens::parse(left.record.as_deref());
        let worker = left.vc.as_ref().filter(|taken| taken.record.worker);
        let client = match worker {
            Some(taken) => {
                let kept = self.adapters.take_given(left.kept);
                self.stand_in(adapter, taken, kept, left.record.as_deref())
            }
            None => {
                let kept = self.adapters.take_given(left.kept);
                let socket = kept.into_iter().next().filter(|socket| !is_hung_up(socket));
                socket.and_then(|socket| self.applications.adopt_kept(socket).ok())
            }
        };
        TakenUp {
            client,
            reopens,
            attachment: left.attachment,
            attachment_sizes: left.sizes,
            attachment_generation: left.files_generation,
            vc: left.vc,
        }
    }

    fn do_what_is_due(&mut self) {
        if self
            .server
            .next_deadline()
            .is_some_and(|due| due <= self.now)
        {
            self.server.handle_deadline(self.now);
            self.settle();
        }
        if self
            .operator
            .next_deadline()
            .is_some_and(|due| due <= self.now)
        {
            self.settle();
        }
        if self
            .urgent_until
            .take_if(|until| *until <= self.now)
            .is_some()
        {
            self.serve_as_usual();
        }
        let look_ns = match self.server.is_watched() {
            true => LOOK_NS,
            false => UNWATCHED_NS,
        };
        self.next_look = self.next_look.min(self.looked.plus_ns(look_ns));
        if self.next_look <= self.now {
            let since_ns = self.now.since_ns(self.looked);
            self.looked = self.now;
            self.next_look = self.now.plus_ns(look_ns);
            closer::hasten();
            self.turns.forget(self.now);
            self.voice.look();
            self.look_after_places();
            self.applications.forget_what_is_read();
            for client in self.applications.deaf(self.now) {
                self.hung_up(client);
            }
            for adapter in self.adapters.indices() {
                let unanswered_ns = self.adapters.look(adapter, since_ns);
                self.judge_silence(adapter, unanswered_ns);
            }
            self.look_at_neighbours();
            self.look_at_limits();
        }
        self.start_adapters();
    }

    /// Looks what the machine leaves to promise, now and then, and tells what counts.
    fn look_at_limits(&mut self) {
        let adapter_ppm = self.options.config.admission.adapter_ppm;
        let all = self.adapters.indices().zip(&self.lives);
        let each = all.map(|(adapter, life)| {
            let shared = life.neighbours.bound(adapter_ppm);
            (self.server.memory_held(adapter), shared)
        });
        let each: Vec<_> = each.collect();
        if let Some(bounds) = self.gate.look(self.now, &each) {
            self.server.handle_bounds(self.now, bounds);
        }
        let names = &self.options.config.adapters;
        let name = |adapter: AdapterIndex| names[adapter.place()].name.as_deref();
        let resources = self.server.admission().resources(|_| None, name);
        for news in self.gate.news(&resources) {
            self.say(news);
        }
        self.settle();
    }

    fn serve_as_usual(&self) {
        self.places.duty(Duty::Service, &self.adapters.cpus());
    }

    /// Tells the service manager how things are.
    fn tell_manager(&mut self) {
        if !self.ready && self.operator.is_done() {
            (self.open, self.ready) = (true, true);
            if self.urgent_until.is_none() {
                self.serve_as_usual();
            }
            if let Some(path) = self.listener.path() {
                let path = path.display().to_string();
                let text = format!("applications find it at {path}");
                self.say(Event::of(Kind::Listening, text).with(Field::Path, path));
            }
            self.say(Event::of(Kind::Ready, "ready"));
            self.look_after_news();
            self.voice.notify(Notice::Ready(self.status()));
        } else if self.ready {
            self.look_after_news();
            if self.status_changed {
                self.voice.notify(Notice::Status(self.status()));
            }
        }
        self.status_changed &= !self.ready;
        if let Some((interval, at)) = self.watchdog.filter(|(_, at)| *at <= self.now) {
            self.voice.notify(Notice::Watchdog);
            let interval_ns = u64::try_from(interval.as_nanos()).unwrap_or(LOOK_NS);
            self.watchdog = Some((interval, at.max(self.now).plus_ns(interval_ns)));
        }
    }

    fn signalled(&mut self, signal: Heard) {
        match signal {
            Heard::End | Heard::Leave => self.end = Some(signal),
            Heard::Reload => self.reload(),
            // Its control connection has told already, or will.
            Heard::Child => {}
        }
    }

    /// Reads the configuration again; one that cannot be used changes nothing.
    fn reload(&mut self) {
        let Some(path) = self.options.path.clone() else {
            let text = "no configuration file to read again";
            return self.say(Event::of(Kind::ReloadWithoutFile, text));
        };
        self.voice.notify(Notice::Reloading);
        self.look_after_places();
        self.ready = false;
        match Config::read(&path) {
            Err(problem) => {
                let path = path.display().to_string();
                let text = format!("{path}: kept as it was");
                let event = Event::because(Kind::ReloadRefused, text, Some(problem));
                self.say(event.with(Field::Path, path));
            }
            Ok(config) => self.reconfigure(config),
        }
        self.settle();
    }

    fn reconfigure(&mut self, mut config: Config) {
        for section in config.fixed_changes(&self.options.config) {
            let text = format!("{section} stays as it is until a restart");
            self.say(Event::of(Kind::SectionFixed, text).with(Field::Section, section.to_string()));
        }
        config.server = self.options.config.server.clone();
        config.adapters = self.options.config.adapters.clone();
        self.laws.adapter.headroom_percent = config.admission.headroom_percent;
        self.laws.worker.headroom_percent = config.admission.headroom_percent;
        self.options.config = config.clone();
        let clients = self.applications.clients();
        clients
            .into_iter()
            .for_each(|client| self.tell_groups(client));
        self.fit_server();
        self.gate.hurry();
        self.look_at_limits();
        self.operator.change(config);
    }

    /// Ends in order: with everything, or leaving everything to a successor.
    fn finish(mut self) {
        self.voice.notify(Notice::Stopping);
        if self.end == Some(Heard::Leave) {
            self.adapters.leave();
            return;
        }
        let ended = FromServer::Indication {
            connection: 0,
            id: 0,
            indication: Indication::Ended(EndReason::ShuttingDown),
        };
        for client in self.applications.clients() {
            // Whoever does not take it sees the end of the socket.
            let _told = self.applications.tell(self.now, client, &ended, Vec::new());
            self.applications.hang_up(client);
        }
        self.adapters.shut_down();
        let from = MonotonicClock.now();
        let patience_ns = u64::try_from(END.as_nanos()).unwrap_or(0);
        while MonotonicClock.now().since_ns(from) < patience_ns {
            self.adapters.flush();
            while self.adapters.next().is_some() {}
            let left = self.adapters.poll();
            if left.is_empty() {
                break;
            }
            let tick = Timespec {
                tv_sec: 0,
                tv_nsec: 10_000_000,
            };
            let fds = left.iter().map(|(fd, _)| PollFd::new(fd, PollFlags::IN));
            let _ = poll(&mut fds.collect::<Vec<_>>(), Some(&tick));
        }
        self.listener.remove();
        self.places.lock.let_go();
    }
}

fn server_config(config: &Config, laws: Laws, notes: &[String], first: &[News]) -> ServerConfig {
    let mut made = config.server_config(laws);
    let hellos = first.iter().map(|told| match told {
        News::Ready(hello) | News::TakenUp(hello, ..) => Some(&**hello),
        _ => None,
    });
    lives::fit(&mut made, notes, hellos);
    made
}
