//! Kernel, CPU, clock, memory, and the limits of control groups.

use cellgate_simd::Level as CpuLevel;

use crate::doctor::{Facts, Finding, Level};

use super::{percent, size, time};

/// The first kernel with all that is used: a wait to the nanosecond at an epoll (`epoll_pwait2`).
const KERNEL: (u32, u32) = (5, 11);
/// What a look at the clock may cost; beyond this it is a system call.
const LOOK_MAX_NS: u64 = 200;

/// The first two numbers of a release as "6.1.0-9-amd64".
pub(super) fn release(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

pub(super) fn kernel(facts: &Facts) -> Vec<Finding> {
    const SUBJECT: &str = "kernel";
    let Some(found) = release(&facts.kernel) else {
        return Vec::new();
    };
    let text = format!("Linux {}", facts.kernel);
    vec![match found >= KERNEL {
        true => Finding::ok(SUBJECT, text),
        false => Finding::new(
            Level::Fail,
            SUBJECT,
            text,
            "nothing here waits for a time to the nanosecond, so PDUs are late by milliseconds",
            format!("a kernel from {}.{} on", KERNEL.0, KERNEL.1),
        ),
    }]
}

pub(super) fn cpu_level(facts: &Facts) -> Vec<Finding> {
    const SUBJECT: &str = "cpu_level";
    let name = match facts.level {
        CpuLevel::Baseline => "x86-64-v1, CRC from tables",
        CpuLevel::V3 => "x86-64-v3, carry-less multiplication",
        CpuLevel::V4 => "x86-64-v4, carry-less multiplication of 512 bits",
    };
    match (facts.is_x86, facts.level) {
        // No machine of another kind has more.
        (false, _) => Vec::new(),
        (true, CpuLevel::Baseline) => vec![Finding::new(
            Level::Warn,
            SUBJECT,
            name,
            "a cell costs several times as much, and fewer connections are admitted",
            "unset CELLGATE_CPU_LEVEL, or give the virtual machine its host's CPU (-cpu host)",
        )],
        _ => vec![Finding::ok(SUBJECT, name)],
    }
}

pub(super) fn limits(facts: &Facts) -> Vec<Finding> {
    let mut found = Vec::new();
    // Who shares the CPU is told elsewhere.
    let cpu = facts
        .cpu_limit
        .as_ref()
        .filter(|bound| !bound.by.contains("can be seen"));
    let wanted = u64::from(facts.config.admission.adapter_ppm);
    if let Some(bound) = cpu.filter(|bound| bound.capacity < wanted) {
        let left = percent(bound.capacity);
        let text = format!("{} leaves {left} of a CPU to the adapter", bound.by);
        let promise = "no more than that is promised, and PDUs are late when the limit stops it";
        let cure = "raise CPUQuota= and AllowedCPUs= of the unit, or the container's --cpus";
        found.push(Finding::new(Level::Warn, "cpu_limit", text, promise, cure));
    }
    let wanted = memory_max(facts);
    let memory = facts.memory_limit.as_ref();
    if let Some(bound) = memory.filter(|bound| bound.capacity < wanted) {
        let left = size(bound.capacity);
        let text = format!(
            "{} leaves {left} of memory_max = {}",
            bound.by,
            size(wanted)
        );
        let promise = "connections beyond that are refused";
        let cure = "raise MemoryMax= and MemoryHigh= of the unit, or the container's --memory";
        found.push(Finding::new(
            Level::Warn,
            "memory_limit",
            text,
            promise,
            cure,
        ));
    }
    found
}

pub(super) fn clock(facts: &Facts) -> Vec<Finding> {
    const SUBJECT: &str = "clock";
    let (current, available) = &facts.clock;
    let ns = facts.look.clock_ns;
    let text = format!("{current}, {} a look", time(ns));
    if ns <= LOOK_MAX_NS {
        return vec![Finding::ok(SUBJECT, text)];
    }
    let better = ["tsc", "kvm-clock"]
        .into_iter()
        .find(|name| current != name && available.split_ascii_whitespace().any(|one| one == *name));
    let cure = match better {
        Some(name) => format!(
            "echo {name} > /sys/devices/system/clocksource/clocksource0/current_clocksource"
        ),
        None => "clocksource=tsc tsc=reliable for the kernel".to_owned(),
    };
    let promise = "each step of the adapter costs that more, and fewer connections are admitted";
    vec![Finding::new(Level::Warn, SUBJECT, text, promise, cure)]
}

/// Octets that all adapters together may have.
fn memory_max(facts: &Facts) -> u64 {
    let adapters = facts.config.adapters.iter();
    adapters.map(|one| one.memory_max).sum()
}

pub(super) fn memory(facts: &Facts) -> Vec<Finding> {
    const SUBJECT: &str = "memory";
    let Some(available) = facts.memory_available else {
        return Vec::new();
    };
    let wanted = memory_max(facts);
    // What connections have already is not available any more.
    let had = facts.daemon.said().map_or(0, |said| {
        let memory = |info: &&cellgate_core::server::ResourceInfo| {
            info.resource == cellgate_core::server::Resource::Memory
        };
        said.resources
            .iter()
            .filter(memory)
            .map(|info| info.reserved)
            .sum()
    });
    let text = format!(
        "{} available, memory_max is {}",
        size(available),
        size(wanted)
    );
    vec![match available.saturating_add(had) >= wanted {
        true => Finding::ok(SUBJECT, text),
        false => Finding::new(
            Level::Warn,
            SUBJECT,
            text,
            "when all that is promised is used, the kernel ends the adapter",
            format!(
                "memory_max = {} in [adapter]",
                (available.saturating_add(had)) / 4 * 3
            ),
        ),
    }]
}
