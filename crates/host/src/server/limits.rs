//! What the machine leaves to promise: memory, CPU time and CPUs of every control group that the
//! daemon and its adapter are in.
//!
//! Files of connections, receive buffers and what the adapter keeps are charged to the adapter's
//! group when they are made, as the adapter touches them first. A group that is full has the kernel
//! kill the adapter. So what others in the group have, and what the daemon and the adapter have
//! without connections, is looked at again and again, and something is always left.

mod cgroups;
mod gate;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use cellgate_core::server::{AdapterIndex, Book, Bound, Resource};

use cgroups::Group;
pub(super) use gate::Gate;

/// Left beside what is promised: what lists, sockets and page tables grow by.
const KEPT_MIN: u64 = 4 << 20;
const KEPT_MAX: u64 = 64 << 20;
/// Of the limit, one part in so many is left, within these.
const KEPT_PART: u64 = 16;
/// Page tables of what is mapped twice are one part in so many, at most.
const TABLES_PART: u64 = 128;
/// What is promised changes in steps: others' ups and downs are no news.
const STEP: u64 = 1 << 20;
/// Of a CPU, what the daemon needs beside the adapter, in millionths.
const DAEMON_PPM: u64 = 100_000;
const CPU_PPM: u64 = 1_000_000;

/// Where the kernel shows the machine's limits.
struct Machine {
    root: PathBuf,
    /// CPUs that this process began with; 0 if the kernel does not say.
    cpus: usize,
    memory: Vec<Group>,
}

/// What memory is left, and by which limit.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Room {
    /// Octets that can be made at once.
    free: u64,
    limit: Limit,
}

/// A limit, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Limit {
    file: &'static str,
    value: String,
    place: String,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, value, place } = self;
        write!(f, "{file} of {place} is {value}")
    }
}

/// What the machine leaves of resources to a server that this process would start, with so many
/// adapters.
pub(crate) fn bounds_of_machine(adapters: usize) -> BTreeMap<Book, Bound> {
    let cpus = crate::sys::allowed_cpus().len();
    Machine::at(Path::new("/"), cpus).bounds(&vec![0; adapters])
}

impl Machine {
    /// One whose /proc and control groups are below `root`.
    fn at(root: &Path, cpus: usize) -> Self {
        let mut machine = Self {
            root: root.to_owned(),
            cpus,
            memory: Vec::new(),
        };
        machine.look();
        machine
    }

    /// Finds the groups again: a process can be moved.
    fn look(&mut self) {
        self.memory = cgroups::groups(&self.root, "memory");
    }

    /// The least that a control group leaves of memory; none: no group has a limit.
    fn memory(&self) -> Option<Room> {
        let rooms = self.memory.iter().filter_map(|group| {
            let memory = group.memory()?;
            let kept = (memory.limit / KEPT_PART).clamp(KEPT_MIN, KEPT_MAX);
            let free = memory.limit.saturating_sub(memory.used);
            let free = free.saturating_sub(kept);
            Some(Room {
                free: free - free / TABLES_PART,
                limit: limit(memory.file, memory.limit.to_string(), &group.name),
            })
        });
        rooms.min_by_key(|room| room.free)
    }

    /// What there is of resources where adapters have made so many octets of connections' memory
    /// already. All of them share what is free.
    fn bounds(&self, held: &[u64]) -> BTreeMap<Book, Bound> {
        let mut bounds = self.cpu(held.len() as u64);
        if let Some(room) = self.memory() {
            for (held, adapter) in held.iter().zip((0..).map(AdapterIndex)) {
                let capacity = held.saturating_add(room.free);
                let bound = Bound {
                    capacity: (capacity / STEP * STEP).max(*held),
                    by: room.limit.to_string(),
                };
                bounds.insert(Book::of(Resource::Memory, adapter), bound);
            }
        }
        bounds
    }

    /// CPU time: adapters may be busy, and the daemon has to run beside them.
    fn cpu(&self, adapters: u64) -> BTreeMap<Book, Bound> {
        let quotas = cgroups::groups(&self.root, "cpu");
        let quotas = quotas.iter().filter_map(|group| {
            let (ppm, file) = group.cpu_ppm()?;
            let value = format!("{ppm} ppm of a CPU");
            Some((ppm, limit(file, value, &group.name)))
        });
        let cpus = cgroups::groups(&self.root, "cpuset");
        let cpus = cpus.iter().filter_map(|group| {
            let (cpus, file) = group.cpus()?;
            let ppm = cpus.saturating_mul(CPU_PPM);
            let value = format!("{cpus} CPUs");
            Some((ppm, limit(file, value, &group.name)))
        });
        let own = (self.cpus > 0).then(|| {
            let value = format!("{} CPUs", self.cpus);
            let of = limit("sched_getaffinity", value, "this process");
            (self.cpus as u64 * CPU_PPM, of)
        });
        let Some((ppm, limit)) = quotas.chain(cpus).chain(own).min_by_key(|(ppm, _)| *ppm) else {
            return BTreeMap::new();
        };
        let daemon = (ppm / 10).min(DAEMON_PPM);
        let each = ((ppm - daemon) / adapters.max(1)).min(CPU_PPM);
        let bound = |capacity| Bound {
            capacity,
            by: limit.to_string(),
        };
        let all = (0..).map(AdapterIndex).zip(0..adapters);
        let of_adapters =
            all.map(|(adapter, _)| (Book::of(Resource::AdapterCpu, adapter), bound(each)));
        let workers = Book::of(Resource::WorkerCpu, AdapterIndex::FIRST);
        let workers = (workers, bound(ppm - each * adapters));
        of_adapters.chain([workers]).collect()
    }
}

fn limit(file: &'static str, value: String, place: &str) -> Limit {
    Limit {
        file,
        value,
        place: place.to_owned(),
    }
}

#[cfg(test)]
mod tests;
