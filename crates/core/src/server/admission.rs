//! What is promised, and what there is left to promise.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    AdapterIndex, AdmissionConfig, Bound, Bugs, Direction, On, Planted, Quota, Resource,
    ResourceInfo, Shortage, Sound,
};
use crate::adapter::PortIndex;

/// What a connection takes of every resource.
///
/// Bandwidth is reserved at the rate that a direction may keep up: VBR's sustained rate, and not
/// its peak. A burst that is sent takes slots for which no guaranteed cell is due, so peaks may add
/// up to more than the line: to a guaranteed cell all bursts together are the one cell that is on
/// the line, as best effort is. What is received may come at the peak for a burst: that takes
/// memory, which is reserved, and moments of the line, which the peak cannot exceed. So the
/// guaranteed rates of an interface always have a cell schedule: their sum, and what is kept for
/// best effort, is at most its line rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Demand {
    pub transmit: Bandwidth,
    pub receive: Bandwidth,
    /// Of its adapter's core, in millionths.
    pub adapter_ppm: u64,
    /// What of that it is expected to use.
    pub adapter_expected_ppm: u64,
    /// Of the workers' cores, in millionths of one.
    pub worker_ppm: u64,
    /// What of that it is expected to use.
    pub worker_expected_ppm: u64,
    /// Octets.
    pub memory: u64,
    /// Connections: 1, or 0 for what one takes in addition.
    pub connections: u64,
}

/// What is taken of one direction of an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bandwidth {
    /// Guaranteed cells/s.
    pub guaranteed: u64,
    /// Best-effort connections, each of which takes a cell/s at least.
    pub best_effort: u64,
}

impl Bandwidth {
    fn each(self, other: Self, f: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            guaranteed: f(self.guaranteed, other.guaranteed),
            best_effort: f(self.best_effort, other.best_effort),
        }
    }
}

impl Demand {
    fn each(&self, other: &Self, f: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            transmit: self.transmit.each(other.transmit, &f),
            receive: self.receive.each(other.receive, &f),
            adapter_ppm: f(self.adapter_ppm, other.adapter_ppm),
            adapter_expected_ppm: f(self.adapter_expected_ppm, other.adapter_expected_ppm),
            worker_ppm: f(self.worker_ppm, other.worker_ppm),
            worker_expected_ppm: f(self.worker_expected_ppm, other.worker_expected_ppm),
            memory: f(self.memory, other.memory),
            connections: f(self.connections, other.connections),
        }
    }

    pub(super) fn plus(&self, other: &Self) -> Self {
        self.each(other, u64::saturating_add)
    }

    /// What this has more of than `other`.
    pub(super) fn beyond(&self, other: &Self) -> Self {
        self.each(other, u64::saturating_sub)
    }

    const fn bandwidth(&self, direction: Direction) -> Bandwidth {
        match direction {
            Direction::Transmit => self.transmit,
            Direction::Receive => self.receive,
        }
    }
}

/// What was taken for a connection. It is given back whole, by [`Admission::release`].
#[derive(Debug, PartialEq, Eq, Serialize)]
#[must_use = "what is not given back is lost"]
pub struct Grant {
    user: u32,
    port: On<PortIndex>,
    demand: Demand,
}

impl Grant {
    /// What it is.
    pub const fn demand(&self) -> &Demand {
        &self.demand
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct Line {
    /// Cells/s each way.
    cell_s: u64,
    transmit: Bandwidth,
    receive: Bandwidth,
}

impl Line {
    const fn taken(&self, direction: Direction) -> Bandwidth {
        match direction {
            Direction::Transmit => self.transmit,
            Direction::Receive => self.receive,
        }
    }

    const fn taken_mut(&mut self, direction: Direction) -> &mut Bandwidth {
        match direction {
            Direction::Transmit => &mut self.transmit,
            Direction::Receive => &mut self.receive,
        }
    }
}

/// What is no interface's.
const OF_MACHINE: [Resource; 4] = [
    Resource::AdapterCpu,
    Resource::WorkerCpu,
    Resource::Memory,
    Resource::Connections,
];

/// A resource that is no interface's, and who has it to promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Book {
    pub resource: Resource,
    /// Whose; none: the workers of all adapters have it together.
    pub adapter: Option<AdapterIndex>,
}

impl Book {
    /// Where a connection on an adapter takes of a resource.
    pub const fn of(resource: Resource, adapter: AdapterIndex) -> Self {
        let adapter = match resource {
            Resource::WorkerCpu => None,
            _ => Some(adapter),
        };
        Self { resource, adapter }
    }
}

/// Promises on one adapter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
struct Taken {
    lines: BTreeMap<PortIndex, Line>,
    total: Demand,
}

/// The most that was ever promised of each resource. It is history: books that promise the same are
/// equal, whatever was promised before.
#[derive(Clone, Debug, Default, Eq)]
struct Most {
    lines: BTreeMap<(On<PortIndex>, Resource), u64>,
    books: BTreeMap<Book, u64>,
}

impl PartialEq for Most {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

const BOTH: [Direction; 2] = [Direction::Transmit, Direction::Receive];

/// What is promised of each resource, and to whom.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Admission<B = Sound> {
    #[serde(skip)]
    config: AdmissionConfig,
    /// Beside root, the user without a quota unless it is given one.
    #[serde(skip)]
    server_uid: u32,
    /// What the machine has less of than the configuration says.
    #[serde(skip)]
    bounds: BTreeMap<Book, Bound>,
    #[serde(skip)]
    bugs: B,
    adapters: BTreeMap<AdapterIndex, Taken>,
    users: BTreeMap<u32, Demand>,
    #[serde(skip)]
    most: Most,
}

impl Admission {
    /// Nothing is promised, and there is no interface.
    pub fn new(config: AdmissionConfig, server_uid: u32) -> Self {
        Self::with_bugs(config, server_uid, Sound)
    }
}

impl<B: Bugs> Admission<B> {
    /// The same, with bugs on purpose.
    pub fn with_bugs(config: AdmissionConfig, server_uid: u32, bugs: B) -> Self {
        Self {
            config,
            server_uid,
            bounds: BTreeMap::new(),
            bugs,
            adapters: BTreeMap::new(),
            users: BTreeMap::new(),
            most: Most::default(),
        }
    }

    /// What there is to promise.
    pub const fn config(&self) -> &AdmissionConfig {
        &self.config
    }

    /// Other capacities. What is promised stays promised.
    pub fn configure(&mut self, config: AdmissionConfig) {
        self.config = config;
    }

    /// Other limits of the machine. What is promised stays promised.
    pub(super) fn bound(&mut self, bounds: BTreeMap<Book, Bound>) {
        self.bounds = bounds;
    }

    /// The limit of the machine that counts for a resource: it has less than the configuration.
    pub(super) fn bound_of(&self, book: Book) -> Option<&Bound> {
        let configured = self.configured(book);
        let bound = self.bounds.get(&book);
        bound.filter(|bound| bound.capacity < configured)
    }

    /// What the configuration has to promise of what is no interface's.
    fn configured(&self, book: Book) -> u64 {
        let Some(adapter) = book.adapter else {
            return self.config.worker_ppm.into();
        };
        let has = self.config.adapters.get(adapter.place());
        has.map_or(0, |has| match book.resource {
            Resource::AdapterCpu => has.cpu_ppm.into(),
            Resource::Memory => has.memory,
            Resource::Connections => has.connections.into(),
            // The workers' and the interfaces' are no adapter's.
            Resource::WorkerCpu | Resource::TransmitBandwidth | Resource::ReceiveBandwidth => 0,
        })
    }

    /// What there is to promise of what is no interface's: the least of the configuration and the
    /// machine's limit.
    pub(super) fn capacity(&self, book: Book) -> u64 {
        let all = match self.bound_of(book) {
            Some(bound) => bound.capacity,
            None => self.configured(book),
        };
        match book.resource {
            Resource::AdapterCpu => all - self.kept_back(all),
            _ => all,
        }
    }

    /// An interface of `cell_s` cells/s each way, with nothing promised.
    pub fn add_line(&mut self, port: On<PortIndex>, cell_s: u32) {
        let line = Line {
            cell_s: cell_s.into(),
            transmit: Bandwidth::default(),
            receive: Bandwidth::default(),
        };
        let adapter = self.adapters.entry(port.adapter).or_default();
        adapter.lines.insert(port.id, line);
    }

    /// Forgets an interface on which nothing is promised.
    pub fn remove_line(&mut self, port: On<PortIndex>) {
        if let Some(adapter) = self.adapters.get_mut(&port.adapter) {
            adapter.lines.remove(&port.id);
        }
        self.most.lines.retain(|(of, _), _| *of != port);
    }

    fn line(&self, port: On<PortIndex>) -> Option<&Line> {
        self.adapters.get(&port.adapter)?.lines.get(&port.id)
    }

    /// The amount that is promised of a book.
    fn taken(&self, book: Book) -> u64 {
        self.sum(book, |total| amount(total, book.resource))
    }

    /// Why an adapter may not keep up what is promised, for people: by now the machine leaves less
    /// of its CPU. None: it leaves enough.
    pub(super) fn overdrawn(&self, adapter: AdapterIndex) -> Option<String> {
        let book = Book::of(Resource::AdapterCpu, adapter);
        let bound = self.bound_of(book)?;
        let (taken, left) = (self.taken(book), self.capacity(book));
        (taken > left).then(|| {
            let (unit, by) = (book.resource.unit(), &bound.by);
            format!("{taken} {unit} are promised, {left} are left: {by}")
        })
    }

    /// Sums one part of the promises of all adapters that share a book.
    fn sum(&self, book: Book, of: impl Fn(&Demand) -> u64) -> u64 {
        let adapters = self.adapters.iter();
        let those = adapters.filter(|(index, _)| book.adapter.is_none_or(|one| one == **index));
        let parts = those.map(|(_, adapter)| of(&adapter.total));
        parts.fold(0, u64::saturating_add)
    }

    /// What of a resource `best_effort_percent` keeps back, rounded up.
    fn kept_back(&self, capacity: u64) -> u64 {
        let percent = u128::from(self.config.best_effort_percent.min(100));
        // At most `capacity`.
        (u128::from(capacity) * percent).div_ceil(100) as u64
    }

    /// What best effort shares in a direction of an interface: all that is not guaranteed.
    pub fn rest(&self, port: On<PortIndex>, direction: Direction) -> u64 {
        let whole = self.bugs.planted(Planted::RestOfLine);
        self.line(port).map_or(0, |line| {
            if whole {
                return line.cell_s;
            }
            line.cell_s.saturating_sub(line.taken(direction).guaranteed)
        })
    }

    fn quota(&self, user: u32) -> Quota {
        let own = self.config.quotas.get(&user).copied();
        own.unwrap_or(if user == 0 || user == self.server_uid {
            Quota::NONE
        } else {
            self.config.quota
        })
    }

    /// Takes `demand` on the interface of `port` for `user`, or nothing at all. The shortage is the
    /// first of: each way's bandwidth, CPU, memory, connections; the user's quota before the
    /// machine, so that others change nothing of what a user hears of its own. It offers nothing.
    pub fn admit(
        &mut self,
        user: u32,
        port: On<PortIndex>,
        demand: Demand,
    ) -> Result<Grant, Shortage> {
        self.check(user, port, &demand)?;
        Ok(self.take(user, port, demand))
    }

    /// Whether [`admit`](Self::admit) would take it.
    pub fn check(&self, user: u32, port: On<PortIndex>, demand: &Demand) -> Result<(), Shortage> {
        self.check_instead(user, port, demand, &Demand::default())
    }

    /// Whether there is enough for `demand` in place of `held`.
    fn check_instead(
        &self,
        user: u32,
        port: On<PortIndex>,
        demand: &Demand,
        held: &Demand,
    ) -> Result<(), Shortage> {
        self.check_quota(user, demand, held)?;
        for direction in BOTH {
            if direction == Direction::Receive && self.bugs.planted(Planted::ReceiveNotAdmitted) {
                continue;
            }
            self.check_bandwidth(port, direction, demand, held)?;
        }
        for resource in OF_MACHINE {
            let of = |demand| amount(demand, resource);
            let book = Book::of(resource, port.adapter);
            let others = self.taken(book).saturating_sub(of(held));
            let free = self.capacity(book).saturating_sub(others);
            let enough = enough(resource, of(demand), of(held), free, None);
            enough.map_err(|shortage| Shortage {
                limit: self.bound_of(book).map(|bound| bound.by.clone()),
                ..shortage
            })?;
        }
        Ok(())
    }

    fn check_quota(&self, user: u32, demand: &Demand, held: &Demand) -> Result<(), Shortage> {
        let quota = self.quota(user);
        let none = Demand::default();
        let has = self.users.get(&user).unwrap_or(&none);
        for (resource, capacity) in [
            (Resource::TransmitBandwidth, quota.cell_s),
            (Resource::ReceiveBandwidth, quota.cell_s),
            (Resource::AdapterCpu, quota.adapter_ppm.into()),
            (Resource::Memory, quota.memory),
            (Resource::Connections, quota.connections.into()),
        ] {
            let of = |demand| amount(demand, resource);
            let others = of(has).saturating_sub(of(held));
            let free = capacity.saturating_sub(others);
            enough(resource, of(demand), of(held), free, Some(user))?;
        }
        Ok(())
    }

    fn check_bandwidth(
        &self,
        port: On<PortIndex>,
        direction: Direction,
        demand: &Demand,
        held: &Demand,
    ) -> Result<(), Shortage> {
        let none = Line {
            cell_s: 0,
            transmit: Bandwidth::default(),
            receive: Bandwidth::default(),
        };
        let line = self.line(port).unwrap_or(&none);
        let (needed, held) = (demand.bandwidth(direction), held.bandwidth(direction));
        let others = line.taken(direction).each(held, u64::saturating_sub);
        let resource = bandwidth_of(direction);
        let minimum = self.kept_back(line.cell_s);
        let best_effort = others.best_effort.saturating_add(needed.best_effort);
        // Of what is kept back each best-effort connection has a cell/s; more of them keep more.
        let free = line.cell_s.saturating_sub(others.guaranteed);
        let crowd = free.saturating_sub(needed.guaranteed);
        let crowd = crowd.saturating_sub(others.best_effort);
        enough(resource, needed.best_effort, held.best_effort, crowd, None)?;
        let free = free.saturating_sub(minimum.max(best_effort));
        enough(resource, needed.guaranteed, held.guaranteed, free, None)
    }

    /// Takes `demand` whether it is there or not: it was promised by a server before this one.
    pub fn take(&mut self, user: u32, port: On<PortIndex>, demand: Demand) -> Grant {
        let has = self.users.entry(user).or_default();
        *has = has.plus(&demand);
        let adapter = self.adapters.entry(port.adapter).or_default();
        if !self.bugs.planted(Planted::TotalNotTaken) {
            adapter.total = adapter.total.plus(&demand);
        }
        if let Some(line) = adapter.lines.get_mut(&port.id) {
            for direction in BOTH {
                let taken = line.taken_mut(direction);
                *taken = taken.each(demand.bandwidth(direction), u64::saturating_add);
            }
        }
        self.note_most(port);
        Grant { user, port, demand }
    }

    /// Notes what is promised on an interface and its adapter, if it never was more.
    fn note_most(&mut self, port: On<PortIndex>) {
        let line = self.line(port).copied();
        for direction in BOTH {
            let taken = line.map_or(0, |line| line.taken(direction).guaranteed);
            let key = (port, bandwidth_of(direction));
            let most = self.most.lines.entry(key).or_default();
            *most = taken.max(*most);
        }
        for resource in OF_MACHINE {
            let book = Book::of(resource, port.adapter);
            let taken = self.taken(book);
            let most = self.most.books.entry(book).or_default();
            *most = taken.max(*most);
        }
    }

    /// Gives back what was taken.
    pub fn release(&mut self, grant: Grant) {
        let Grant { user, port, demand } = grant;
        self.release_part(user, port, demand);
    }

    /// Gives back a part of what was taken.
    pub(super) fn release_part(&mut self, user: u32, port: On<PortIndex>, demand: Demand) {
        let stays = self.bugs.planted(Planted::UserNotReleased);
        if let Some(has) = self.users.get_mut(&user).filter(|_| !stays) {
            *has = has.beyond(&demand);
            if *has == Demand::default() {
                self.users.remove(&user);
            }
        }
        let Some(adapter) = self.adapters.get_mut(&port.adapter) else {
            return;
        };
        adapter.total = adapter.total.beyond(&demand);
        if let Some(line) = adapter.lines.get_mut(&port.id) {
            for direction in BOTH {
                let taken = line.taken_mut(direction);
                *taken = taken.each(demand.bandwidth(direction), u64::saturating_sub);
            }
        }
    }

    /// Takes what `demand` has more of than `held`, as [`check_change`](Self::check_change)
    /// allowed: until [`settle`](Self::settle), or a release of what this gives, there is enough
    /// for either.
    pub fn take_more(&mut self, held: &Grant, demand: &Demand) -> Grant {
        self.take(held.user, held.port, demand.beyond(&held.demand))
    }

    /// Whether `demand` could replace what is held. A shortage says what all of `demand` needs, and
    /// what would be free for it.
    pub fn check_change(&self, held: &Grant, demand: &Demand) -> Result<(), Shortage> {
        let instead = match self.bugs.planted(Planted::ChangeAddedUp) {
            true => Demand::default(),
            false => held.demand,
        };
        self.check_instead(held.user, held.port, demand, &instead)
    }

    /// Ends a change: of `held` and `more` just `demand` is kept.
    pub fn settle(&mut self, held: Grant, more: Grant, demand: Demand) -> Grant {
        let (user, port) = (held.user, held.port);
        self.release(held);
        if !self.bugs.planted(Planted::MoreNotReleased) {
            self.release(more);
        }
        self.take(user, port, demand)
    }

    /// Every resource, interfaces first; `interface` gives a port's, `adapter` the name that an
    /// adapter has beside others.
    pub fn resources<'a>(
        &self,
        interface: impl Fn(On<PortIndex>) -> Option<&'a str>,
        adapter: impl Fn(AdapterIndex) -> Option<&'a str>,
    ) -> Vec<ResourceInfo> {
        let name = |name: &str| name.to_owned();
        let mut all = Vec::new();
        for (index, taken) in &self.adapters {
            for (port, line) in &taken.lines {
                let port = On {
                    adapter: *index,
                    id: *port,
                };
                all.extend(BOTH.map(|direction| {
                    let reserved = line.taken(direction).guaranteed;
                    let resource = bandwidth_of(direction);
                    let capacity = line.cell_s - self.kept_back(line.cell_s);
                    let most = self.most.lines.get(&(port, resource)).copied();
                    ResourceInfo {
                        resource,
                        interface: interface(port).map(name),
                        adapter: None,
                        capacity,
                        reserved,
                        expected: reserved,
                        least_free: capacity.saturating_sub(most.unwrap_or(0)),
                        limit: None,
                    }
                }));
            }
        }
        all.extend(self.books().map(|book| {
            let reserved = self.taken(book);
            let capacity = self.capacity(book);
            let most = self.most.books.get(&book).copied();
            ResourceInfo {
                resource: book.resource,
                interface: None,
                adapter: book.adapter.and_then(&adapter).map(name),
                capacity,
                reserved,
                least_free: capacity.saturating_sub(most.unwrap_or(0)),
                expected: match book.resource {
                    Resource::AdapterCpu => self.sum(book, |total| total.adapter_expected_ppm),
                    Resource::WorkerCpu => self.sum(book, |total| total.worker_expected_ppm),
                    _ => reserved,
                },
                limit: self.bound_of(book).map(|bound| bound.by.clone()),
            }
        }));
        all
    }

    /// Of each adapter its own, and one of the workers.
    fn books(&self) -> impl Iterator<Item = Book> {
        let adapters = (0..).map(AdapterIndex).take(self.config.adapters.len());
        adapters.flat_map(|adapter| {
            let of_adapter = OF_MACHINE.map(|resource| Book::of(resource, adapter));
            let first = adapter == AdapterIndex::FIRST;
            of_adapter
                .into_iter()
                .filter(move |book| first || book.adapter.is_some())
        })
    }
}

const fn bandwidth_of(direction: Direction) -> Resource {
    match direction {
        Direction::Transmit => Resource::TransmitBandwidth,
        Direction::Receive => Resource::ReceiveBandwidth,
    }
}

fn amount(demand: &Demand, resource: Resource) -> u64 {
    match resource {
        Resource::TransmitBandwidth => demand.transmit.guaranteed,
        Resource::ReceiveBandwidth => demand.receive.guaranteed,
        Resource::AdapterCpu => demand.adapter_ppm,
        Resource::WorkerCpu => demand.worker_ppm,
        Resource::Memory => demand.memory,
        Resource::Connections => demand.connections,
    }
}

fn enough(
    resource: Resource,
    needed: u64,
    held: u64,
    free: u64,
    quota: Option<u32>,
) -> Result<(), Shortage> {
    // What asks for no more than it has is not refused where more is taken than there is.
    if needed <= free || needed <= held {
        return Ok(());
    }
    Err(Shortage {
        resource,
        needed,
        free,
        quota,
        offer: None,
        others: Vec::new(),
        limit: None,
    })
}
