//! What the daemon's threads may not have. A daemon that runs says so itself.

use crate::doctor::{Facts, Finding, Level};
use crate::sys::Lack;

/// Descriptors below which a server is of little use.
const CONNECTIONS_MIN: u32 = 16;
/// Addresses that an adapter's process maps at its start, without its ports: its program, the
/// stacks and arenas of its threads.
const MAPPED: u64 = 256 << 20;
/// Of a cell that can wait in a port.
const CELL: u64 = 64;

/// What a line about a lack is called.
const fn subject(lack: Lack) -> &'static str {
    match lack {
        Lack::Nice => "nice",
        Lack::Session => "autogroup",
        Lack::RealTime | Lack::Reservation | Lack::Unpinned | Lack::OneCpu | Lack::Devices => {
            "real_time"
        }
        Lack::Cpu => "adapter_cpu",
        Lack::Memory => "memory_lock",
    }
}

/// How bad it is: what a configuration asks for, or what takes CPUs apart, is nobody's lack.
const fn level(lack: Lack) -> Level {
    match lack {
        Lack::Reservation | Lack::Unpinned => Level::Note,
        _ => Level::Warn,
    }
}

fn lacks(lack: Lack, what: impl Into<String>) -> Finding {
    Finding::new(level(lack), subject(lack), what, lack.lost(), lack.cure())
}

/// What a running daemon says that it lacks of these; none: there is no daemon.
pub(super) fn told(facts: &Facts, subjects: &[&str]) -> Option<Vec<Finding>> {
    let said = facts.daemon.said()?;
    let lacking = said.notes.iter().filter_map(|note| {
        let (lack, what) = Lack::of_note(note)?;
        subjects.contains(&subject(lack)).then(|| lacks(lack, what))
    });
    Some(lacking.collect())
}

/// A line for what a daemon has, or would have.
fn judged(
    facts: &Facts,
    lack: Lack,
    may: bool,
    had: impl Into<String>,
    what: impl Into<String>,
) -> Vec<Finding> {
    let had = Finding::ok(subject(lack), had);
    match told(facts, &[subject(lack)]) {
        Some(lacking) if lacking.is_empty() => vec![had],
        Some(lacking) => lacking,
        None if may => vec![had],
        None => vec![lacks(lack, what)],
    }
}

/// Whether the adapter's nice value is to be had.
fn may_nice(facts: &Facts) -> bool {
    let nice = facts.adapter.nice;
    let rights = &facts.rights;
    let needed = u64::try_from(20_i64.saturating_sub(nice.into())).unwrap_or(0);
    nice >= 0 || rights.sys_nice || rights.nice >= needed
}

pub(super) fn nice(facts: &Facts) -> Vec<Finding> {
    let nice = facts.adapter.nice;
    let limit = facts.rights.nice;
    let what = format!("no nice {nice}: no CAP_SYS_NICE, and RLIMIT_NICE is {limit}");
    let had = format!("nice {nice} for the adapter");
    judged(facts, Lack::Nice, may_nice(facts), had, what)
}

pub(super) fn autogroup(facts: &Facts) -> Vec<Finding> {
    if !facts.threads.autogroup {
        return Vec::new();
    }
    let nice = facts.adapter.nice;
    let what =
        format!("the kernel shares CPUs out by sessions, and the adapter's has no nice {nice}");
    let had = format!("CPUs are shared out by sessions, nice {nice} for the adapter's");
    judged(facts, Lack::Session, may_nice(facts), had, what)
}

pub(super) fn real_time(facts: &Facts) -> Vec<Finding> {
    let rights = &facts.rights;
    let may = rights.sys_nice || rights.real_time >= 30 && rights.nice >= 35;
    let what = format!(
        "no real-time threads: no CAP_SYS_NICE, RLIMIT_RTPRIO is {}, RLIMIT_NICE {}",
        rights.real_time, rights.nice
    );
    if facts.daemon.said().is_none() && !facts.adapter.pin {
        return vec![lacks(Lack::Unpinned, "the adapter is not pinned")];
    }
    judged(
        facts,
        Lack::RealTime,
        may,
        "real-time classes for the daemon's threads",
        what,
    )
}

pub(super) fn memory_lock(facts: &Facts) -> Vec<Finding> {
    let (adapter, rights) = (&facts.adapter, &facts.rights);
    if !adapter.lock_memory {
        let text = "the configuration keeps no memory in place";
        let lost = Lack::Memory.lost();
        return vec![Finding::new(
            Level::Note,
            "memory_lock",
            text,
            lost,
            "lock_memory = true in [adapter]",
        )];
    }
    let ports = u64::from(adapter.ports) * u64::from(adapter.port_cells);
    let needed = MAPPED.saturating_add(ports.saturating_mul(2 * CELL));
    // Receive buffers are mapped twice.
    let of_connections = adapter.memory_max.saturating_mul(2);
    let what = format!(
        "no CAP_IPC_LOCK, and RLIMIT_MEMLOCK is {} where an adapter maps some {}, and its \
         connections up to {}",
        super::size(rights.locked),
        super::size(needed),
        super::size(of_connections)
    );
    let may = rights.ipc_lock || rights.locked >= needed.saturating_add(of_connections);
    judged(
        facts,
        Lack::Memory,
        may,
        "the adapter's memory and that of connections can be locked",
        what,
    )
}

pub(super) fn descriptors(facts: &Facts) -> Vec<Finding> {
    let (limit, connections) = (facts.rights.descriptors, facts.connections);
    let wanted = u32::from(facts.adapter.vcs);
    let permanent = facts.config.connections.len();
    let text = format!("{limit} descriptors leave room for {connections} connections");
    let short = format!("{text}, and vcs in [adapter] is {wanted}");
    let few = connections < CONNECTIONS_MIN.min(wanted) || (connections as usize) < permanent;
    let level = match (few, connections < wanted) {
        (true, _) => Level::Fail,
        (_, true) => Level::Warn,
        _ => return vec![Finding::ok("descriptors", text)],
    };
    let promise = "connections that memory and bandwidth would have room for are refused";
    let cure = "LimitNOFILE=65536 in the unit, or as root: ulimit -Hn 65536";
    vec![Finding::new(level, "descriptors", short, promise, cure)]
}
