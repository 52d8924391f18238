//! What the facts mean for the promises. Pure.

mod daemon;
mod machine;
mod network;
mod rights;
mod threads;

use super::{Facts, Finding};

type Rule = fn(&Facts) -> Vec<Finding>;

/// In the order in which they are told.
const RULES: [Rule; 25] = [
    daemon::answers,
    daemon::versions,
    daemon::programs,
    daemon::orphans,
    daemon::notes,
    daemon::places,
    daemon::users,
    machine::kernel,
    machine::cpu_level,
    rights::nice,
    rights::autogroup,
    rights::real_time,
    rights::memory_lock,
    rights::descriptors,
    threads::real_time_throttling,
    threads::adapter_cpu,
    threads::isolated,
    threads::neighbours,
    threads::core,
    threads::looked,
    machine::limits,
    machine::clock,
    machine::memory,
    network::pseudowires,
    network::devices,
];

pub(crate) fn judge(facts: &Facts) -> Vec<Finding> {
    RULES.iter().flat_map(|rule| rule(facts)).collect()
}

/// Octets as people say them.
fn size(octets: u64) -> String {
    match octets {
        u64::MAX => "unlimited".to_owned(),
        1_073_741_824.. => format!("{:.1} GiB", octets as f64 / 1_073_741_824.0),
        1_048_576.. => format!("{} MiB", octets / 1_048_576),
        1_024.. => format!("{} KiB", octets / 1_024),
        _ => format!("{octets} octets"),
    }
}

/// Nanoseconds as people say them.
fn time(ns: u64) -> String {
    match ns {
        1_000_000.. => format!("{:.1} ms", ns as f64 / 1e6),
        1_000.. => format!("{:.1} us", ns as f64 / 1e3),
        _ => format!("{ns} ns"),
    }
}

/// Millionths as per cent.
fn percent(ppm: u64) -> String {
    format!("{:.1} %", ppm as f64 / 1e4)
}

/// Processes by their numbers.
fn processes(pids: &[u32]) -> String {
    let all: Vec<_> = pids.iter().map(u32::to_string).collect();
    all.join(" ")
}
