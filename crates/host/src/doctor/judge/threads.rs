//! The adapter's CPU, and who else is there.

use cellgate_core::server::{AdapterInfo, Idle};

use crate::doctor::{Facts, Finding, Level};
use crate::sys::{Lack, has_cpu};

use super::rights::told;
use super::{percent, processes, time};

/// Of a CPU, in millionths, what others may take.
const STEAL_MAX_PPM: u64 = 10_000;

const LATE: &str = "PDUs are late, and lost where the adapter stands still for too long";

pub(super) fn real_time_throttling(facts: &Facts) -> Vec<Finding> {
    const SUBJECT: &str = "real_time_throttling";
    const CURE: &str = "sysctl -w kernel.sched_rt_runtime_us=-1";
    let adapter = &facts.adapter;
    let text = |us: i64| format!("sched_rt_runtime_us is {us}");
    match facts.threads.rt_runtime_us {
        None => Vec::new(),
        Some(-1) => vec![Finding::ok(SUBJECT, "real-time threads are never stopped")],
        Some(0) => {
            let promise = Lack::RealTime.lost();
            vec![Finding::new(Level::Warn, SUBJECT, text(0), promise, CURE)]
        }
        Some(us) if adapter.pin && adapter.nice == -20 => {
            let text = format!("{}: the adapter is no real-time thread", text(us));
            let promise = "other programs on its CPU make PDUs late, little beside nice -20";
            vec![Finding::new(Level::Note, SUBJECT, text, promise, CURE)]
        }
        Some(us) => vec![Finding::ok(SUBJECT, text(us))],
    }
}

pub(super) fn adapter_cpu(facts: &Facts) -> Vec<Finding> {
    const SUBJECT: &str = "adapter_cpu";
    let threads = &facts.threads;
    let adapter = &facts.adapter;
    if let Some(lacking) = told(facts, &[SUBJECT]).filter(|lacking| !lacking.is_empty()) {
        return lacking;
    }
    let warn = |text: String, cure: &str, lost: &str| {
        vec![Finding::new(Level::Warn, SUBJECT, text, lost, cure)]
    };
    if !adapter.pin {
        // What that costs is told of the threads.
        return vec![Finding::ok(SUBJECT, "any, as the configuration has it")];
    }
    let is_there = |cpu: usize| threads.online.is_empty() || has_cpu(&threads.online, cpu);
    if let Some(cpu) = adapter.cpu.filter(|_| facts.daemon.said().is_none()) {
        let absent = match (is_there(cpu), threads.allowed.contains(&cpu)) {
            (false, _) => Some(format!("CPU {cpu} of [adapter] is not there")),
            (_, false) => Some(format!("CPU {cpu} of [adapter] is not allowed here")),
            _ => None,
        };
        if let Some(text) = absent {
            return warn(text, Lack::Cpu.cure(), Lack::Cpu.lost());
        }
    }
    if threads.allowed.len() == 1 && facts.daemon.said().is_none() {
        let text = "there is one CPU for adapter, daemon and applications".to_owned();
        return warn(text, Lack::OneCpu.cure(), Lack::OneCpu.lost());
    }
    let text = match (facts.cpu, facts.adapters.own()) {
        (Some(cpu), Some(own)) => format!("CPU {cpu} of {}, adapter {}", threads.online, own.pid),
        (Some(cpu), None) => format!("CPU {cpu} of {}", threads.online),
        (None, _) => return Vec::new(),
    };
    vec![Finding::ok(SUBJECT, text)]
}

pub(super) fn isolated(facts: &Facts) -> Vec<Finding> {
    const SUBJECT: &str = "isolated_cpus";
    let isolated = &facts.threads.isolated;
    let Some(cpu) = facts.cpu.filter(|_| facts.threads.allowed.len() > 1) else {
        return Vec::new();
    };
    if has_cpu(isolated, cpu) {
        return vec![Finding::ok(SUBJECT, format!("CPU {cpu} is isolated"))];
    }
    let (text, cure) = match isolated.is_empty() {
        true => (
            "none: other programs may run on the adapter's CPU".to_owned(),
            format!("isolcpus={cpu} nohz_full={cpu} for the kernel, and cpu = {cpu} in [adapter]"),
        ),
        false => (
            format!("{isolated}, and the adapter's is CPU {cpu}"),
            format!(
                "cpu = {} in [adapter]",
                isolated.split([',', '-']).next().unwrap_or(isolated)
            ),
        ),
    };
    let promise = "PDUs are late by the time slices of others; no time is kept for workers";
    vec![Finding::new(Level::Note, SUBJECT, text, promise, cure)]
}

pub(super) fn neighbours(facts: &Facts) -> Vec<Finding> {
    const SUBJECT: &str = "neighbours";
    let Some(cpu) = facts.cpu else {
        return Vec::new();
    };
    let mut pids: Vec<_> = facts.adapters.others_on(cpu).map(|one| one.pid).collect();
    let said = facts.daemon.said().into_iter();
    for shared in said
        .flat_map(|said| &said.adapters)
        .filter_map(|one| one.shared.as_ref())
    {
        pids.extend(&shared.pids);
    }
    pids.sort_unstable();
    pids.dedup();
    if pids.is_empty() {
        let text = format!("no other adapter on CPU {cpu}, as far as can be seen");
        return vec![Finding::ok(SUBJECT, text)];
    }
    let all = &facts.adapters.0;
    let free = |cpu: &&usize| all.iter().all(|one| one.cpu != Some(**cpu));
    let cure = match facts.threads.allowed.iter().rev().find(free) {
        Some(free) => format!("cpu = {free} in [adapter], which no adapter has"),
        None => format!(
            "kill {} ends the others and their connections",
            processes(&pids)
        ),
    };
    let text = format!("CPU {cpu} is also that of adapter {}", processes(&pids));
    let promise = "the adapter's part alone is promised, and PDUs are late by the others' turns";
    vec![Finding::new(Level::Warn, SUBJECT, text, promise, cure)]
}

pub(super) fn core(facts: &Facts) -> Vec<Finding> {
    let mut found = Vec::new();
    let siblings = &facts.threads.siblings;
    if let (Some(cpu), Some(first)) = (facts.cpu, siblings.first()) {
        let adapters = siblings
            .iter()
            .flat_map(|cpu| facts.adapters.others_on(*cpu));
        let pids: Vec<_> = adapters.map(|one| one.pid).collect();
        let (level, text) = match pids.is_empty() {
            true => (
                Level::Note,
                format!("CPU {first} is of the same core as the adapter's"),
            ),
            false => {
                let pids = processes(&pids);
                let text =
                    format!("adapter {pids} is on CPU {first}, of the same core as CPU {cpu}");
                (Level::Warn, text)
            }
        };
        let promise = "cells cost more than was calibrated while both CPUs are busy";
        let cure = format!("echo 0 > /sys/devices/system/cpu/cpu{first}/online");
        found.push(Finding::new(level, "smt_sibling", text, promise, cure));
    }
    let slow = facts
        .threads
        .governor
        .as_deref()
        .filter(|name| *name != "performance");
    if let (Some(name), Some(cpu)) = (slow, facts.cpu) {
        let text = format!("CPU {cpu} runs at a frequency that {name} chooses");
        let promise = "wake-ups are late, and cells cost more than was calibrated";
        let cure = format!("cpupower -c {cpu} frequency-set -g performance");
        found.push(Finding::new(Level::Note, "frequency", text, promise, cure));
    }
    found
}

pub(super) fn looked(facts: &Facts) -> Vec<Finding> {
    vec![steal(facts), wake_up(facts), gap(facts)]
        .into_iter()
        .flatten()
        .collect()
}

fn steal(facts: &Facts) -> Option<Finding> {
    const SUBJECT: &str = "steal_time";
    let ppm = facts.look.steal_ppm?;
    let text = format!("{} of a second was other virtual machines'", percent(ppm));
    Some(match ppm > STEAL_MAX_PPM {
        false => Finding::ok(SUBJECT, text),
        true => {
            let cure = "have the host pin this machine's CPUs (virsh vcpupin), or take whole ones";
            Finding::new(Level::Warn, SUBJECT, text, LATE, cure)
        }
    })
}

fn wake_up(facts: &Facts) -> Option<Finding> {
    const SUBJECT: &str = "wake_up";
    const CURE: &str = "end what is busy there (top), or name another cpu in [adapter]";
    Some(match &facts.look.wake_up {
        Ok(wake_up) => {
            let text = format!(
                "p50 {}, p99 {}, p99.9 {}, longest {}",
                time(wake_up.p50_ns),
                time(wake_up.p99_ns),
                time(wake_up.p999_ns),
                time(wake_up.max_ns)
            );
            let level = match (
                wake_up.p99_ns > Idle::LATE_NS_MAX,
                wake_up.p999_ns > Idle::LATE_NS_MAX,
            ) {
                (true, _) => Level::Warn,
                (_, true) => Level::Note,
                _ => return Some(Finding::ok(SUBJECT, text)),
            };
            let promise = "an adapter that rests is late by that, within what gap_max_ns allows";
            Finding::new(level, SUBJECT, text, promise, CURE)
        }
        // An adapter that spins needs none.
        Err(why) => Finding::ok(SUBJECT, format!("void: {why}")),
    })
}

fn gap(facts: &Facts) -> Option<Finding> {
    const SUBJECT: &str = "gaps";
    let allowed = facts.adapter.gap_max_ns;
    let warn = |text: String| {
        let cure = format!(
            "end what is busy on its CPU (top), or allow for more than gap_max_ns = {allowed} \
             in [adapter]"
        );
        Finding::new(Level::Warn, SUBJECT, text, LATE, cure)
    };
    if let Some(said) = facts.daemon.said() {
        let too_long = |one: &&AdapterInfo| one.gap_longest_ns > one.gap_admitted_ns;
        let those = said.adapters.iter().filter(too_long);
        if let Some(worst) = those.max_by_key(|one| one.gap_longest_ns) {
            let name = worst.name.as_ref();
            let name = name.map_or_else(String::new, |name| format!(" {name}"));
            return Some(warn(format!(
                "the adapter{name} stood still for {}, {} is allowed for",
                time(worst.gap_longest_ns),
                time(worst.gap_admitted_ns)
            )));
        }
    }
    Some(match &facts.look.gap_ns {
        Ok(ns) => {
            let of = if facts.adapters.own().is_some() {
                "in all"
            } else {
                "the longest"
            };
            let text = format!(
                "{} {of} of one second, {} is allowed for",
                time(*ns),
                time(allowed)
            );
            match *ns > allowed {
                false => Finding::ok(SUBJECT, text),
                true => warn(text),
            }
        }
        Err(why) => Finding::ok(SUBJECT, format!("void: {why}")),
    })
}
