use std::fs;

use cellgate_core::Time;
use cellgate_core::adapter::VcId;
use cellgate_core::keeper::Ask;
use cellgate_core::queue::AttachmentSizes;
use cellgate_core::server::{AdapterAsk, AdapterRefusal, ResourceInfo, Ticket};

use super::*;

/// Where the first adapter takes of a resource.
fn book(resource: Resource) -> Book {
    Book::of(resource, AdapterIndex::FIRST)
}

/// A directory as the kernel's root, gone when dropped.
struct Root(PathBuf);

impl Root {
    fn new(name: &str) -> Self {
        let place = std::env::temp_dir();
        let place = place.join(format!("cellgate-limits-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&place);
        Self(place)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().expect("a directory")).expect("made");
        fs::write(path, text).expect("written");
    }

    fn machine(&self) -> Machine {
        Machine::at(&self.0, 0)
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn of_two(root: &Root, own: &str, top: &str) {
    root.write("proc/self/cgroup", &format!("0::{own}\n"));
    let mount = format!("31 23 0:28 {top} /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup rw\n");
    let other = "25 1 0:3 / /proc rw - proc proc rw\n";
    root.write("proc/self/mountinfo", &format!("{other}{mount}"));
}

const MIB: u64 = 1 << 20;

/// What is left of a limit where `used` is.
fn left(limit: u64, used: u64) -> u64 {
    let free = limit - used - (limit / KEPT_PART).clamp(KEPT_MIN, KEPT_MAX);
    free - free / TABLES_PART
}

#[test]
fn the_least_of_all_groups_above_is_what_there_is() {
    let root = Root::new("two");
    of_two(&root, "/a/b/c", "/");
    let group = |path: &str, files: &[(&str, &str)]| {
        for (file, text) in files {
            root.write(&format!("sys/fs/cgroup/{path}{file}"), text);
        }
    };
    group(
        "a/b/c/",
        &[("memory.max", "max\n"), ("memory.high", "max\n")],
    );
    assert_eq!(root.machine().memory(), None);
    let stat = "anon 1\ninactive_file 20971520\nactive_file 10485760\nshmem 5\n";
    let used = (120 * MIB).to_string();
    group(
        "a/",
        &[("memory.max", "1073741824\n"), ("memory.current", &used)],
    );
    group("a/", &[("memory.stat", stat)]);
    let room = root.machine().memory().expect("a limit");
    assert_eq!(room.free, left(1024 * MIB, 90 * MIB));
    assert_eq!(room.limit.to_string(), "memory.max of /a is 1073741824");
    // A smaller one below, which throttles.
    group(
        "a/b/",
        &[("memory.high", "157286400"), ("memory.current", "1048576")],
    );
    let room = root.machine().memory().expect("a limit");
    assert_eq!(room.free, left(150 * MIB, MIB));
    assert_eq!(room.limit.to_string(), "memory.high of /a/b is 157286400");
    // One that is full leaves nothing, and takes nothing of what is held.
    group(
        "a/b/c/",
        &[("memory.max", "1048576"), ("memory.current", "2097152")],
    );
    let bounds = root.machine().bounds(&[3 * MIB + 5]);
    assert_eq!(bounds[&book(Resource::Memory)].capacity, 3 * MIB + 5);
    for nonsense in ["", "x", "-1", "99999999999999999999999"] {
        for file in ["memory.max", "memory.high", "memory.current", "memory.stat"] {
            group("a/b/c/", &[(file, nonsense)]);
        }
        let room = root.machine().memory().expect("those above");
        assert_eq!(room.limit.place, "/a/b");
    }
}

#[test]
fn a_group_is_found_wherever_its_file_system_begins() {
    let group = "memory.max";
    // Mounted from the group on, as containers have it; another name space's path.
    for (own, top) in [
        ("/box/1", "/box/1"),
        ("/", "/"),
        ("/../../x", "/box"),
        ("/x", "/../.."),
    ] {
        let root = Root::new("top");
        of_two(&root, own, top);
        root.write(&format!("sys/fs/cgroup/{group}"), "104857600\n");
        assert!(root.machine().memory().is_some(), "{own} {top}");
    }
    // Version 1 beside version 2, as here and there.
    let root = Root::new("one");
    root.write(
        "proc/self/cgroup",
        "5:cpu,cpuacct:/\n4:memory:/m/n\n1:name=x:/\n0::/u\n",
    );
    root.write(
        "proc/self/mountinfo",
        "32 31 0:29 / /cg/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct\n\
         35 31 0:32 / /cg/memory rw,relatime - cgroup cgroup rw,memory\n\
         41 31 0:38 / /cg/unified rw,relatime - cgroup2 cgroup2 rw\n",
    );
    root.write("cg/unified/u/memory.max", "1048576\n");
    root.write(
        "cg/memory/m/n/memory.limit_in_bytes",
        "9223372036854771712\n",
    );
    assert_eq!(root.machine().memory(), None);
    root.write("cg/memory/m/memory.limit_in_bytes", "157286400\n");
    root.write("cg/memory/m/memory.usage_in_bytes", "62914560\n");
    root.write(
        "cg/memory/m/memory.stat",
        "cache 7\ntotal_inactive_file 10485760\n",
    );
    let room = root.machine().memory().expect("a limit");
    assert_eq!(room.free, left(150 * MIB, 50 * MIB));
    let told = "memory.limit_in_bytes of /m is 157286400";
    assert_eq!(room.limit.to_string(), told);
    root.write("cg/cpu/cpu.cfs_quota_us", "50000\n");
    root.write("cg/cpu/cpu.cfs_period_us", "100000\n");
    let bounds = root.machine().bounds(&[0]);
    assert_eq!(bounds[&book(Resource::AdapterCpu)].capacity, 450_000);
    assert_eq!(bounds[&book(Resource::WorkerCpu)].capacity, 50_000);
    // Neither files nor file systems.
    let root = Root::new("none");
    assert_eq!(root.machine().bounds(&[7]), BTreeMap::new());
}

#[test]
fn a_quota_below_a_cpu_and_a_single_cpu_leave_the_adapter_less() {
    let root = Root::new("cpu");
    of_two(&root, "/a", "/");
    let told = |machine: &Machine| {
        let bounds = machine.bounds(&[0]);
        let of = |resource| bounds.get(&resource).map(|bound: &Bound| bound.capacity);
        (
            of(book(Resource::AdapterCpu)),
            of(book(Resource::WorkerCpu)),
        )
    };
    let quota = |text: &str| root.write("sys/fs/cgroup/a/cpu.max", text);
    quota("max 100000\n");
    assert_eq!(told(&root.machine()), (None, None));
    quota("150000 100000\n");
    assert_eq!(told(&root.machine()), (Some(1_000_000), Some(500_000)));
    quota("60000 100000\n");
    assert_eq!(told(&root.machine()), (Some(540_000), Some(60_000)));
    quota("60000 0\n");
    assert_eq!(told(&root.machine()), (None, None));
    let cpus = |text: &str| root.write("sys/fs/cgroup/a/cpuset.cpus.effective", text);
    cpus("0-1,4\n");
    assert_eq!(told(&root.machine()), (Some(1_000_000), Some(2_000_000)));
    cpus("3\n");
    assert_eq!(told(&root.machine()), (Some(900_000), Some(100_000)));
    cpus("\n");
    let own = Machine::at(&root.0, 1);
    assert_eq!(told(&own), (Some(900_000), Some(100_000)));
    let by = &own.bounds(&[0])[&book(Resource::AdapterCpu)].by;
    assert_eq!(by, "sched_getaffinity of this process is 1 CPUs");
}

/// What is under way counts before the kernel charges it, and what others take meanwhile is seen.
#[test]
fn nothing_is_asked_of_the_adapter_that_there_is_no_room_for() {
    let root = Root::new("gate");
    of_two(&root, "/", "/");
    root.write("sys/fs/cgroup/memory.max", "104857600\n");
    let used = |octets: u64| root.write("sys/fs/cgroup/memory.current", &octets.to_string());
    used(0);
    let mut gate = Gate::at(&root.0, 0);
    let sizes = AttachmentSizes {
        event_slots: 1 << 16,
        doorbell_slots: 64,
    };
    let ask = Ask::Attach {
        sizes,
        user: 1,
        keep: true,
    };
    let ask = AdapterAsk::from(ask);
    let small = Ask::Close {
        vc: serde_json::from_str::<VcId>(r#"{"index":0,"generation":0}"#).expect("a VC"),
    };
    let small = AdapterAsk::from(small);
    let bounds = gate.look(Time::ZERO, &[(0, None)]).expect("news");
    let capacity = bounds[&book(Resource::Memory)].capacity;
    assert_eq!(capacity, left(100 * MIB, 0) / STEP * STEP);
    assert_eq!(gate.look(Time::ZERO, &[(0, None)]), None, "it is not time");
    let mut asked = 0;
    let refused = loop {
        match gate.admits(AdapterIndex::FIRST, Ticket(asked), &ask) {
            Ok(()) if asked < 900 => asked += 1,
            Ok(()) => panic!("there is no limit"),
            Err(refused) => break refused,
        }
    };
    assert!(asked > 2, "{refused}");
    let AdapterRefusal::Memory {
        needed,
        free,
        limit,
    } = refused
    else {
        panic!("{refused}");
    };
    assert!(free < needed && needed * asked <= left(100 * MIB, 0));
    assert_eq!(limit.as_deref(), Some("memory.max of / is 104857600"));
    assert_eq!(
        gate.admits(AdapterIndex::FIRST, Ticket(1_000), &small),
        Ok(())
    );
    // Answered, and charged: what is kept mapped elsewhere stays charged.
    (0..asked).for_each(|ticket| gate.answered(Ticket(ticket)));
    used(needed * asked);
    assert!(
        gate.admits(AdapterIndex::FIRST, Ticket(1_001), &ask)
            .is_err()
    );
    used(0);
    assert_eq!(
        gate.admits(AdapterIndex::FIRST, Ticket(1_002), &ask),
        Ok(())
    );
    // Somebody else takes all: what is held stays promised, and no more is.
    used(100 * MIB);
    let later = Time::ZERO.plus_ns(5_000_000_000);
    let bounds = gate.look(later, &[(needed, None)]).expect("news");
    assert_eq!(bounds[&book(Resource::Memory)].capacity, needed);
    root.write("sys/fs/cgroup/memory.max", "max\n");
    gate.hurry();
    assert_eq!(gate.look(later, &[(needed, None)]), Some(BTreeMap::new()));
    assert_eq!(
        gate.admits(AdapterIndex::FIRST, Ticket(1_003), &ask),
        Ok(())
    );
}

/// Others on the adapter's CPU are a limit of the machine, beside those of control groups.
#[test]
fn what_others_leave_of_the_adapters_cpu_is_a_limit() {
    let root = Root::new("shared");
    of_two(&root, "/a", "/");
    let mut gate = Gate::at(&root.0, 2);
    let shared = |capacity| Bound {
        capacity,
        by: "others".to_owned(),
    };
    let mut looked = |shared: Option<Bound>, quota: &str| {
        root.write("sys/fs/cgroup/a/cpu.max", quota);
        // Each second, and at once where others have come or gone.
        let bounds = gate.look(Time::ZERO, &[(0, shared)]);
        bounds.map(|bounds| bounds[&book(Resource::AdapterCpu)].clone())
    };
    let whole = looked(None, "max 100000\n").expect("news");
    assert_eq!(whole.capacity, 1_000_000);
    assert_eq!(looked(None, "max 100000\n"), None);
    let third = looked(Some(shared(333_333)), "max 100000\n");
    assert_eq!(third, Some(shared(333_333)));
    assert_eq!(looked(Some(shared(333_333)), "max 100000\n"), None);
    // A control group that leaves less.
    let less = looked(Some(shared(500_000)), "30000 100000\n").expect("news");
    assert_eq!((less.capacity, &*less.by == "others"), (270_000, false));
    assert_eq!(looked(None, "max 100000\n"), Some(whole));
}

#[test]
fn what_counts_is_told_once_and_again_when_it_does_not() {
    let info = |limit: Option<&str>, capacity| ResourceInfo {
        resource: Resource::Memory,
        interface: None,
        adapter: None,
        capacity,
        reserved: 0,
        expected: 0,
        least_free: 0,
        limit: limit.map(str::to_owned),
    };
    let mut gate = Gate::at(Path::new("/nowhere"), 0);
    let mut news = |info| {
        let told = gate.news(&[info]);
        let texts = told.iter().map(|event| event.text().to_owned());
        texts.collect::<Vec<_>>()
    };
    assert_eq!(news(info(None, 5)), [""; 0]);
    let told = news(info(Some("a"), 4));
    assert_eq!(told, ["memory: 4 octets to promise (a)"]);
    assert_eq!(news(info(Some("a"), 3)), [""; 0]);
    let told = news(info(None, 5));
    assert_eq!(told, ["memory: 5 octets to promise (as configured)"]);
}
