//! What lies in a host's state directory: the server's lock, a file that it keeps there, and its
//! adapter's socket; and what becomes of that.

use std::collections::BTreeMap;

use cellgate_core::Time;
use cellgate_core::server::{Disk, Former, Keeping, Planted, TakenVc};

use super::process::Process;
use super::{ServerBug, ServerTurn};
use crate::disk::{DiskError, SimulatedDisk, Thing};
use crate::world::Ps;
use crate::world::fault::{FaultSpec, Harm, Plant, Spot};
use crate::world::host::Host;
use crate::world::net::Net;
use crate::world::scenario::Scenario;

/// Disks of worlds are harmed for milliseconds: whoever waits for them has a thousandth of the
/// patience that it has live.
const HASTE: u64 = 1_000;
/// From one look at the directory to the next.
const LOOK: Ps = Ps::from_ns(200_000_000 / HASTE);
/// From one attempt to write to the next.
const AGAIN_NS: u64 = 10_000_000_000 / HASTE;
/// How long after the servers' last look somebody looks at the directory still.
const LOOKS_LATE: Ps = Ps::from_ns(100_000_000);

const LOCK: &str = "lock";
const KEPT: &str = "kept";
const ADAPTER: &str = "adapter.sock";
/// Of [`ServerBug::FileBelieved`].
const CONNECTIONS: &str = "connections";

const fn name_of(spot: Spot) -> &'static str {
    match spot {
        Spot::Lock => LOCK,
        Spot::Kept => KEPT,
        Spot::New => ".kept.new",
        Spot::Adapter => ADAPTER,
    }
}

fn planted(plant: Plant) -> Thing {
    match plant {
        Plant::File => Thing::File(b"somebody's".to_vec()),
        Plant::Directory => Thing::Directory,
        Plant::Link => Thing::Link,
    }
}

/// What becomes of the state directory of a host, by the fault's number.
pub(super) fn harms(scenario: &Scenario, host: &str) -> BTreeMap<u32, Harm> {
    let faults = (0..).zip(&scenario.faults);
    let mine = faults.filter_map(|(n, fault)| match fault {
        FaultSpec::StateDirectory { host: of, harm, .. } if of == host => Some((n, *harm)),
        _ => None,
    });
    mine.collect()
}

/// A server's process, from when it takes the lock.
#[derive(Debug)]
struct Daemon {
    former: Former,
    /// Since when it looks for an adapter's socket.
    dials: Ps,
    keeping: Keeping<Option<Planted>>,
}

/// A host's state directory.
#[derive(Debug, Default)]
pub(super) struct Places {
    disk: SimulatedDisk,
    pub(super) harms: BTreeMap<u32, Harm>,
    daemon: Option<Daemon>,
    /// What servers have had to keep so far.
    versions: Vec<Vec<u8>>,
    /// What is to be on the disk, and was not seen there yet.
    wanted: Option<Vec<u8>>,
    /// Faults for which the disk is full.
    full: u32,
    /// A file elsewhere was written through a link.
    is_elsewhere: bool,
    /// Somebody will look.
    is_watched: bool,
}

impl Places {
    /// The process of the server ends, however.
    pub(super) fn process_ends(&mut self) {
        (self.daemon, self.wanted) = (None, None);
    }

    /// A server's process begins, and takes the lock.
    fn begins(&mut self, now: Ps, life: u32, bug: Option<ServerBug>) -> Result<(), DiskError> {
        let text = match self.disk.things.get(LOCK) {
            None => None,
            Some(Thing::File(octets)) => Some(String::from_utf8_lossy(octets).into_owned()),
            Some(Thing::Link) if bug == Some(ServerBug::LinkFollowed) => {
                self.is_elsewhere = true;
                None
            }
            Some(_) => return Err(DiskError::NoFile),
        };
        let former = match (&text, bug) {
            (Some(text), Some(ServerBug::EmptyLockEnds)) if text.is_empty() => Former::Ended,
            (None, Some(ServerBug::NoLockEnds)) => Former::Ended,
            _ => Former::of(text.as_deref()),
        };
        self.takes_lock(life)?;
        let bugs = bug.and_then(ServerBug::inside);
        self.daemon = Some(Daemon {
            former,
            dials: now,
            keeping: Keeping::with_bugs(KEPT, AGAIN_NS, bugs),
        });
        Ok(())
    }

    /// On a full disk the lock says nothing of its holder.
    fn takes_lock(&mut self, life: u32) -> Result<(), DiskError> {
        let holder = format!("{}\n", 1_000 + life);
        match self.disk.overwrite(LOCK, holder.as_bytes()) {
            Err(DiskError::Killed) => Err(DiskError::Killed),
            _ => Ok(()),
        }
    }

    /// What the server keeps, if that lies there whole; else it makes it anew. Whether it does.
    fn measures(&mut self, now: Time) -> bool {
        let found = self.disk.read(KEPT, 1 << 16).unwrap_or_default();
        let Some(daemon) = self.daemon.as_mut().filter(|_| self.wanted.is_none()) else {
            return false;
        };
        if self.versions.contains(&found) {
            return false;
        }
        let n = self.versions.len();
        let version = vec![b'a' + n as u8 % 26; 20 + 60 * (n + n / 26)];
        self.versions.push(version.clone());
        daemon.keeping.keep(now, version.clone());
        self.wanted = Some(version);
        true
    }

    /// The server writes what is not there yet. What is wrong then, if anything.
    fn writes(&mut self, now: Time) -> Option<&'static str> {
        let daemon = self.daemon.as_mut()?;
        let before = self.disk.things.get(KEPT).cloned();
        daemon.keeping.look(now, &mut self.disk);
        let after = self.disk.things.get(KEPT).cloned();
        let wanted = self.wanted.clone().map(Thing::File);
        let is_there = wanted.is_none() || after == wanted;
        let is_told = daemon.keeping.problem().is_some();
        if is_there {
            self.wanted = None;
        }
        match (after == before || after == wanted, is_told != is_there) {
            (false, _) => Some("a file is neither as it was nor as it was to be"),
            _ if self.disk.has_killed() => None,
            (_, false) if is_there => Some("a file is there, and told to be missing"),
            (_, false) => Some("a file is not there, and nobody was told"),
            _ => None,
        }
    }

    /// Whether people are told that what it keeps is not there.
    fn is_told(&self) -> bool {
        let daemon = self.daemon.as_ref();
        daemon.is_some_and(|daemon| daemon.keeping.problem().is_some())
    }

    fn has_socket(&self) -> bool {
        self.disk.things.get(ADAPTER) == Some(&Thing::Socket)
    }

    /// An adapter makes its socket, if there is room. Whether it does.
    fn makes_socket(&mut self) -> bool {
        let can = self.full == 0 && !self.disk.things.contains_key(ADAPTER);
        if can {
            self.disk.things.insert(ADAPTER.into(), Thing::Socket);
        }
        can
    }

    /// Whether something is not as it should be.
    fn is_amiss(&self) -> bool {
        self.wanted.is_some() || !self.has_socket() || self.disk.file(LOCK).is_none()
    }

    /// What is wrong when nothing happens any more, if anything.
    pub(super) fn left_wrong(&self) -> Option<&'static str> {
        let cases = [
            (self.wanted.is_some(), "what it keeps was never written"),
            (!self.has_socket(), "its adapter's socket is not there"),
            (self.disk.file(LOCK).is_none(), "its lock is not there"),
            (self.is_elsewhere, "it has written through a link"),
        ];
        let mut wrong = cases.into_iter().filter(|(is, _)| *is);
        wrong.next().map(|(_, text)| text)
    }

    /// Of [`ServerBug::FileBelieved`]: names the connections there are.
    pub(super) fn note(&mut self, process: &Process) {
        let all = process.vcs.values();
        let numbers: Vec<String> = all.map(|kept| kept.record.number.to_string()).collect();
        let _ = self
            .disk
            .overwrite(CONNECTIONS, numbers.join("\n").as_bytes());
    }

    /// Of the same: whether this one is named.
    pub(super) fn names(&self, vc: &TakenVc) -> bool {
        let text = String::from_utf8_lossy(self.disk.file(CONNECTIONS).unwrap_or_default());
        text.lines()
            .any(|line| line == vc.record.number.to_string())
    }
}

impl Host {
    /// Something becomes of a host's state directory, or that is over.
    pub(crate) fn places_are_harmed(&mut self, fault: u32, begins: bool, net: &mut Net) {
        let Some(served) = &mut self.served else {
            return;
        };
        let places = &mut served.places;
        let Some(harm) = places.harms.get(&fault).copied() else {
            return;
        };
        let disk = &mut places.disk;
        let name = match (harm, begins) {
            (Harm::Full, true) => {
                places.full += 1;
                disk.room = 0;
                "full"
            }
            (Harm::Vanished, true) => {
                disk.things.clear();
                // A server waits for a socket that is removed once, not for one that is removed
                // again and again.
                if let Some(daemon) = &mut places.daemon {
                    daemon.dials = net.now;
                }
                "vanished"
            }
            (Harm::Stale, true) => {
                if let [.., before, _] = &places.versions[..] {
                    disk.things.insert(KEPT.into(), Thing::File(before.clone()));
                }
                "stale"
            }
            (Harm::Halved, true) => {
                if let Some(Thing::File(octets)) = disk.things.get_mut(KEPT) {
                    octets.truncate(octets.len() / 2);
                }
                "halved"
            }
            (Harm::Killed { operation, octets }, true) => {
                (disk.life, disk.torn) = (operation, octets as usize);
                "killed"
            }
            (Harm::Planted { at, plant }, true) => {
                disk.things.insert(name_of(at).into(), planted(plant));
                "planted"
            }
            (Harm::Full, false) => {
                places.full -= 1;
                if places.full == 0 {
                    disk.room = usize::MAX;
                    // It looks for room far more often than it asks here.
                    if let Some(daemon) = &mut places.daemon {
                        daemon.dials = net.now;
                    }
                }
                "mended"
            }
            (Harm::Killed { .. }, false) => {
                disk.life = u32::MAX;
                let begins = ServerTurn::Begins;
                self.turn_at(net.now, begins, net);
                "mended"
            }
            (Harm::Planted { at, plant }, false) => {
                let name = name_of(at);
                if disk.things.get(name) == Some(&planted(plant)) {
                    disk.things.remove(name);
                }
                "mended"
            }
            (Harm::Vanished | Harm::Stale | Harm::Halved, false) => "mended",
        };
        net.log.seen.note("state_directory", name);
        self.watch_places(net);
    }

    /// Has somebody look at a state directory in a while, if something is amiss there.
    fn watch_places(&mut self, net: &mut Net) {
        let Some(served) = &mut self.served else {
            return;
        };
        let until = served.looks_until.plus(LOOKS_LATE);
        let places = &mut served.places;
        let at = net.now.plus(LOOK);
        if places.is_amiss() && !places.is_watched && at < until {
            places.is_watched = true;
            let upkeep = ServerTurn::Upkeep;
            self.turn_at(at, upkeep, net);
        }
    }

    /// Whether a server that begins has all its places, and finds the adapter that was left.
    pub(super) fn finds_places(&mut self, net: &mut Net) -> bool {
        let (now, bug) = (net.now, net.options.server_bug);
        let time = self.time(net.now);
        let Some(served) = &mut self.served else {
            return false;
        };
        let (places, seen) = (&mut served.places, &mut net.log.seen);
        if places.daemon.is_none()
            && let Err(error) = places.begins(now, served.life, bug)
        {
            seen.note("state_directory", "not_begun");
            if error != DiskError::Killed {
                self.begins_later(net);
            }
            return false;
        }
        if served.life == 0 {
            places.makes_socket();
        } else if !places.has_socket() {
            seen.note("state_directory", "socket_awaited");
            let is_other = places.disk.things.contains_key(ADAPTER);
            let Some(daemon) = &mut places.daemon else {
                return false;
            };
            let patience = Ps::from_ns(daemon.former.patience_ns() / HASTE);
            let is_vain = now >= daemon.dials.plus(patience);
            if is_other {
                // It ends, and tells what is in the way.
                places.process_ends();
            } else if places.full > 0 {
                // There is no room for another adapter's socket either.
                daemon.dials = now;
            } else if is_vain {
                let text = "it begins another adapter beside the one that was left";
                self.breaks("I19", text, net);
                return false;
            }
            self.begins_later(net);
            return false;
        }
        if places.measures(time) && served.life > 0 {
            seen.note("state_directory", "measured_again");
        }
        self.look_after_places(net);
        let served = self.served.as_ref();
        served.is_some_and(|served| served.places.daemon.is_some())
    }

    /// It is time to look at a host's state directory.
    pub(super) fn upkeep(&mut self, net: &mut Net) {
        if let Some(served) = &mut self.served {
            served.places.is_watched = false;
        }
        self.look_after_places(net);
    }

    /// What is gone from a host's state directory is made again, what could not be written is.
    pub(super) fn look_after_places(&mut self, net: &mut Net) {
        let time = self.time(net.now);
        let makes = !net.has(ServerBug::SocketNotMadeAgain);
        let Some(served) = &mut self.served else {
            return;
        };
        let (places, seen) = (&mut served.places, &mut net.log.seen);
        if served.is_adapter_up && served.life > 0 && makes && places.makes_socket() {
            seen.note("state_directory", "socket_again");
        }
        let is_gone = !places.disk.things.contains_key(LOCK);
        if places.daemon.is_some() && is_gone && places.takes_lock(served.life).is_ok() {
            seen.note("state_directory", "lock_again");
        }
        let (was_missing, was_told) = (places.wanted.is_some(), places.is_told());
        let wrong = places.writes(time);
        seen.add("state_directory", "not_written", places.is_told().into());
        let is_later = was_missing && was_told && places.wanted.is_none();
        seen.add("state_directory", "written_later", is_later.into());
        let is_killed = places.disk.has_killed() && places.daemon.is_some();
        if let Some(text) = wrong {
            self.breaks("I19", text, net);
        }
        if is_killed {
            net.log.seen.note("state_directory", "killed_writing");
            self.server_dies(net);
        }
        self.watch_places(net);
    }
}
