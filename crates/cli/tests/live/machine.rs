//! A machine that has less than the configuration says. What it lacks itself is skipped, and said.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::daemon::Daemon;
use cellgate::{
    Admin, Connection, EndReason, Error, Indication, Refused, Resource, ResourceInfo, Shortage,
};
use rustix::process::{Pid, Signal, kill_process};

/// A control group of memory, gone when dropped; of version 1 or 2, whichever there is.
struct Group {
    directory: PathBuf,
    limit: &'static str,
    usage: &'static str,
}

impl Group {
    /// Why there is none, if there is none.
    fn new() -> Result<Self, String> {
        let name = format!("cellgate-test-{}", std::process::id());
        let (top, limit, usage) = match fs::exists("/sys/fs/cgroup/memory/memory.limit_in_bytes") {
            Ok(true) => (
                "/sys/fs/cgroup/memory",
                "memory.limit_in_bytes",
                "memory.usage_in_bytes",
            ),
            _ => ("/sys/fs/cgroup", "memory.max", "memory.current"),
        };
        let group = Self {
            directory: PathBuf::from(top).join(name),
            limit,
            usage,
        };
        let made = fs::create_dir(&group.directory);
        made.map_err(|error| format!("no control group: {error}"))?;
        group.set_limit(LIMIT)?;
        Ok(group)
    }

    fn set_limit(&self, octets: u64) -> Result<(), String> {
        let set = fs::write(self.directory.join(self.limit), octets.to_string());
        set.map_err(|error| format!("no limit of memory: {error}"))
    }

    fn usage(&self) -> u64 {
        let text = fs::read_to_string(self.directory.join(self.usage)).expect("it is told");
        text.trim().parse().expect("a number")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for _ in 0..100 {
            if fs::remove_dir(&self.directory).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

const LIMIT: u64 = 150 << 20;

const PATIENCE: Duration = Duration::from_secs(20);

fn eventually(complaint: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{complaint}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A connection with some 20 MiB of memory.
fn open(daemon: &Daemon, vci: u32) -> Result<Connection, Error> {
    let contract = "ubr,aal5:max_sdu=65535";
    let builder = Connection::builder().socket(daemon.socket());
    let builder = builder.address(format!("a.0.{vci}")).contract(contract);
    builder.transmit_pdus(300).open()
}

/// Opens until there is no memory left.
fn fill(daemon: &Daemon, from: u32, group: &Group) -> (Vec<Connection>, Shortage) {
    let mut open_ones = Vec::new();
    for vci in from..from + 20 {
        match open(daemon, vci) {
            Ok(connection) => open_ones.push(connection),
            Err(Error::Refused(Refused::Admission(shortage))) => return (open_ones, shortage),
            Err(other) => panic!("{other}"),
        }
        assert!(group.usage() <= LIMIT);
    }
    panic!("{} are open, and no end", open_ones.len());
}

fn memory(admin: &mut Admin) -> ResourceInfo {
    let all = admin.resources().expect("they are told");
    let memory = all
        .into_iter()
        .find(|info| info.resource == Resource::Memory);
    memory.expect("it is told")
}

#[test]
#[cfg_attr(not(feature = "live"), ignore = "live: --features live")]
fn a_control_group_smaller_than_the_budget_costs_nobody_the_adapter() {
    const NAME: &str = "memory_cgroup";
    if !rustix::process::geteuid().is_root() {
        return println!("skipped {NAME}: only root makes control groups");
    }
    let group = match Group::new() {
        Ok(group) => group,
        Err(why) => return println!("skipped {NAME}: {why}"),
    };
    let enter = format!(
        "echo $$ > {}/cgroup.procs; exec \"$@\"",
        group.directory.display()
    );
    let daemon = Daemon::start_by(
        &["sh", "-c", &enter, "sh"],
        "[adapter]\npin = false\nnice = 0\nlock_memory = false\nidle = \"sleep\"\n\
         [[interface]]\nname = \"a\"\nlink.memory.peer = \"a\"\n",
        None,
    );
    let mut admin = Admin::at(daemon.socket()).expect("it is there");
    let processes = || {
        let text = fs::read_to_string(group.directory.join("cgroup.procs"));
        text.expect("they are told")
    };
    let (before, at_first) = (group.usage(), processes());
    let (held, full) = fill(&daemon, 100, &group);
    assert!(held.len() >= 3, "{} are open: {full}", held.len());
    assert_eq!((full.resource, full.quota), (Resource::Memory, None));
    let name = group.directory.file_name().expect("a name");
    let name = name.to_str().expect("of letters");
    assert!(full.to_string().contains(name), "{full}");
    assert!(full.to_string().contains(group.limit), "{full}");
    // What is reserved is what the kernel charges.
    let told = memory(&mut admin);
    assert!(told.limit.is_some_and(|limit| limit.contains(name)));
    let charged = group.usage() - before;
    let said = format!("{charged} octets are charged, {} reserved", told.reserved);
    println!("{said}; {before} without connections");
    assert!(
        charged <= told.reserved + told.reserved / 32 + (4 << 20),
        "{said}"
    );
    assert!(charged + charged / 8 >= told.reserved, "{said}");
    // What a change has twice for a moment is not there: it is refused, or fits.
    let more = held[0].set_contract("ubr,aal5:max_sdu=65535,pcr=100Mbps");
    println!("a change: {more:?}");
    // Closed, and kept mapped by whoever had it: it is not there either.
    let mut kept = Vec::new();
    for vci in 200..210 {
        kept.extend(open(&daemon, vci).and_then(|one| one.capability()));
    }
    drop(kept);
    assert_eq!(processes(), at_first, "the adapter died");
    // A connection is given back, and others let in: the limit is followed.
    let few = held.len() - 2;
    let mut held = held;
    held.truncate(few);
    group.set_limit(LIMIT * 3).expect("it can grow");
    eventually("the limit is not followed", || {
        memory(&mut admin).capacity > LIMIT * 2
    });
    let one = open(&daemon, 300).expect("there is room");
    drop(one);
    group.set_limit(LIMIT).expect("it can shrink");
    eventually("the limit is not followed", || {
        memory(&mut admin).capacity < LIMIT
    });
    assert_eq!(processes(), at_first, "the adapter died");
    // Its successor has the connections open again, though the old memory is there at first.
    let adapters = processes();
    let adapter = adapters.lines().filter_map(|pid| pid.trim().parse().ok());
    let adapter = adapter.filter(|pid: &u32| *pid != daemon.pid()).max();
    let adapter = adapter.expect("an adapter").cast_signed();
    let adapter = Pid::from_raw(adapter).expect("a process");
    let (more, _) = fill(&daemon, 400, &group);
    held.extend(more);
    kill_process(adapter, Signal::KILL).expect("it runs");
    // Each lets go of the old memory as it looks. There is none for the first until one ends.
    let count = held.len();
    let (mut again, mut ended) = (Vec::new(), 0);
    eventually("not all are told", || {
        for connection in std::mem::take(&mut held) {
            match connection.next_indication() {
                Ok(Some(Indication::Reopened(_))) => {
                    // What an application does next goes on in the new memory.
                    let _ = connection.try_send(b"again");
                    let _ = connection.try_recv(&mut [0; 65_535]);
                    again.push(connection);
                }
                Ok(Some(Indication::Ended(EndReason::NotReopened))) => ended += 1,
                Ok(Some(Indication::Share { .. } | Indication::CanGrow { .. }) | None) => {
                    held.push(connection);
                }
                other => panic!("{other:?}"),
            }
        }
        held.is_empty()
    });
    println!("of {count} {ended} have ended with the adapter");
    assert!(ended <= 1, "{ended} of {count} have ended");
    let second = processes();
    fill(&daemon, 500, &group);
    assert_eq!(processes(), second, "the second adapter died");
    println!("ran {NAME}");
}
