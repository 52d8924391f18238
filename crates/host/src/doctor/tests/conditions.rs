//! What can be wrong, made on purpose.

use cellgate_core::server::{Bound, InterfaceState, SharedCpu};
use cellgate_simd::Level as CpuLevel;

use super::super::ask::{Daemon, Left};
use super::super::facts::{Facts, OtherAdapter, Tun};
use super::super::{Level, WakeUp};
use super::{good, idle, plain, said, stranger};
use crate::sys::Lack;

/// What is wrong, how bad that is, the line, a part of what it says, and a part of its cure.
pub(super) type Condition = (
    fn() -> Facts,
    fn(&mut Facts),
    Level,
    &'static str,
    &'static str,
    &'static str,
);

pub(super) const CONDITIONS: &[Condition] = &[
    (
        plain,
        |_| (),
        Level::Warn,
        "nice",
        "RLIMIT_NICE is 0",
        "LimitNICE=-20",
    ),
    (
        plain,
        |_| (),
        Level::Warn,
        "autogroup",
        "sessions",
        "setcap cap_sys_nice",
    ),
    (
        plain,
        |_| (),
        Level::Warn,
        "real_time",
        "RLIMIT_RTPRIO is 0",
        "LimitRTPRIO=",
    ),
    (
        plain,
        |_| (),
        Level::Warn,
        "memory_lock",
        "RLIMIT_MEMLOCK is 64 KiB",
        "LimitMEMLOCK=",
    ),
    (
        good,
        |facts| {
            said(facts)
                .notes
                .push(Lack::Memory.note("memory not locked"))
        },
        Level::Warn,
        "memory_lock",
        "memory not locked",
        "LimitMEMLOCK=infinity",
    ),
    (
        good,
        |facts| {
            said(facts)
                .notes
                .push(format!("service: {}", Lack::RealTime.note("not nice -10")))
        },
        Level::Warn,
        "real_time",
        "service: not nice -10",
        "LimitNICE=-20",
    ),
    (
        good,
        |facts| {
            said(facts)
                .notes
                .push(Lack::Cpu.note("not pinned to CPU 9"))
        },
        Level::Warn,
        "adapter_cpu",
        "not pinned to CPU 9",
        "cpu in [adapter]",
    ),
    (
        good,
        |facts| {
            said(facts)
                .notes
                .push("state directory: no space left".to_owned())
        },
        Level::Warn,
        "daemon",
        "no space left",
        "cellgate stats",
    ),
    (
        idle,
        |facts| facts.adapter.lock_memory = false,
        Level::Note,
        "memory_lock",
        "keeps no memory in place",
        "lock_memory = true",
    ),
    (
        idle,
        |facts| facts.adapter.pin = false,
        Level::Note,
        "real_time",
        "not pinned",
        "pin = true",
    ),
    (
        idle,
        |facts| facts.connections = 25,
        Level::Warn,
        "descriptors",
        "25",
        "LimitNOFILE=",
    ),
    (
        idle,
        |facts| facts.connections = 3,
        Level::Fail,
        "descriptors",
        "vcs",
        "ulimit -Hn",
    ),
    (
        idle,
        |facts| facts.threads.rt_runtime_us = Some(950_000),
        Level::Note,
        "real_time_throttling",
        "950000",
        "sysctl -w kernel.sched_rt_runtime_us=-1",
    ),
    (
        idle,
        |facts| facts.threads.rt_runtime_us = Some(0),
        Level::Warn,
        "real_time_throttling",
        "is 0",
        "sysctl -w kernel.sched_rt_runtime_us=-1",
    ),
    (
        idle,
        |facts| facts.adapter.cpu = Some(99),
        Level::Warn,
        "adapter_cpu",
        "CPU 99 of [adapter] is not there",
        "name another cpu",
    ),
    (
        idle,
        |facts| facts.threads.allowed = vec![0, 1],
        Level::Warn,
        "adapter_cpu",
        "CPU 3 of [adapter] is not allowed",
        "AllowedCPUs=",
    ),
    (
        idle,
        |facts| facts.threads.allowed = vec![3],
        Level::Warn,
        "adapter_cpu",
        "one CPU",
        "second CPU",
    ),
    (
        good,
        |facts| facts.threads.isolated = String::new(),
        Level::Note,
        "isolated_cpus",
        "other programs",
        "isolcpus=3",
    ),
    (
        good,
        |facts| facts.threads.isolated = "1-2".to_owned(),
        Level::Note,
        "isolated_cpus",
        "the adapter's is CPU 3",
        "cpu = 1",
    ),
    (
        good,
        |facts| facts.adapters.0.push(stranger(7, 3)),
        Level::Warn,
        "neighbours",
        "CPU 3 is also that of adapter 7",
        "cpu = 2",
    ),
    (
        good,
        |facts| {
            facts
                .adapters
                .0
                .extend((0..4).map(|cpu| stranger(cpu + 1, cpu as usize)))
        },
        Level::Warn,
        "neighbours",
        "adapter 4",
        "kill 4",
    ),
    (
        good,
        |facts| {
            said(facts).adapters[0].shared = Some(SharedCpu {
                cpu: 3,
                others: 1,
                pids: vec![8],
            });
        },
        Level::Warn,
        "neighbours",
        "adapter 8",
        "cpu = 2",
    ),
    (
        good,
        |facts| facts.threads.siblings = vec![1],
        Level::Note,
        "smt_sibling",
        "CPU 1 is of the same core",
        "cpu1/online",
    ),
    (
        good,
        |facts| {
            facts.threads.siblings = vec![1];
            facts.adapters.0.push(stranger(7, 1));
        },
        Level::Warn,
        "smt_sibling",
        "adapter 7 is on CPU 1",
        "cpu1/online",
    ),
    (
        good,
        |facts| facts.threads.governor = Some("powersave".to_owned()),
        Level::Note,
        "frequency",
        "powersave",
        "cpupower -c 3",
    ),
    (
        good,
        |facts| {
            facts.adapters.0.push(OtherAdapter {
                orphan: true,
                ..stranger(7, 0)
            });
        },
        Level::Warn,
        "orphans",
        "adapter 7 has no daemon",
        "kill 7",
    ),
    (
        good,
        |facts| facts.adapters.0[0].replaced = true,
        Level::Note,
        "versions",
        "adapter 100 runs a program",
        "systemctl restart",
    ),
    (
        good,
        |facts| facts.version = "2.0.0".to_owned(),
        Level::Warn,
        "versions",
        "the command is cellgate 2.0.0, the daemon cellgate 1.2.3",
        "kill -USR1 99",
    ),
    (
        idle,
        |facts| facts.left = Left::Version(1),
        Level::Warn,
        "versions",
        "version 1 of its protocol",
        "the program that the adapter was started with",
    ),
    (
        good,
        |facts| facts.left = Left::Version(1),
        Level::Warn,
        "versions",
        "version 1 of its protocol",
        "leave it running, and when all connections may end: systemctl restart",
    ),
    (
        good,
        |facts| facts.daemon = Daemon::Version(1),
        Level::Fail,
        "daemon",
        "speaks version 1",
        "when all connections may end: systemctl restart",
    ),
    (
        good,
        |facts| facts.daemon = Daemon::Silent,
        Level::Fail,
        "daemon",
        "answer",
        "kill -CONT",
    ),
    (
        good,
        |facts| facts.daemon = Daemon::Closed,
        Level::Fail,
        "daemon",
        "let this",
        "usermod",
    ),
    (
        good,
        |facts| facts.look.steal_ppm = Some(50_000),
        Level::Warn,
        "steal_time",
        "5.0 %",
        "vcpupin",
    ),
    (
        good,
        |facts| facts.look.wake_up = WakeUp::of(&mut [5_400_000]).ok_or_else(String::new),
        Level::Warn,
        "wake_up",
        "p99.9 5.4 ms",
        "another cpu",
    ),
    (
        good,
        |facts| {
            let mut all = [20_000; 1_000];
            all[..2].fill(300_000);
            facts.look.wake_up = WakeUp::of(&mut all).ok_or_else(String::new);
        },
        Level::Note,
        "wake_up",
        "p99.9 300.0 us",
        "another cpu",
    ),
    (
        idle,
        |facts| facts.look.gap_ns = Ok(40_000_000),
        Level::Warn,
        "gaps",
        "40.0 ms the longest of one second, 30.0 ms is allowed for",
        "gap_max_ns",
    ),
    (
        good,
        |facts| said(facts).adapters[0].gap_longest_ns = 384_100_000,
        Level::Warn,
        "gaps",
        "stood still for 384.1 ms",
        "end what is busy",
    ),
    (
        good,
        |facts| {
            facts.look.clock_ns = 900;
            facts.clock.0 = "hpet".to_owned();
        },
        Level::Warn,
        "clock",
        "hpet, 900 ns",
        "echo tsc >",
    ),
    (
        good,
        |facts| {
            facts.look.clock_ns = 900;
            facts.clock = ("acpi_pm".to_owned(), "acpi_pm".to_owned());
        },
        Level::Warn,
        "clock",
        "acpi_pm",
        "tsc=reliable",
    ),
    (
        good,
        |facts| facts.memory_available = Some(1 << 30),
        Level::Warn,
        "memory",
        "1.0 GiB available, memory_max is 2.0 GiB",
        "memory_max = 805306368",
    ),
    (
        idle,
        |facts| {
            facts.memory_limit = Some(Bound {
                capacity: 1 << 20,
                by: "memory.max of /a is 1".to_owned(),
            });
        },
        Level::Warn,
        "memory_limit",
        "memory.max of /a is 1 leaves 1 MiB",
        "MemoryMax=",
    ),
    (
        idle,
        |facts| {
            facts.cpu_limit = Some(Bound {
                capacity: 500_000,
                by: "cpu.max of /a is 1".to_owned(),
            });
        },
        Level::Warn,
        "cpu_limit",
        "cpu.max of /a is 1 leaves 50.0 %",
        "CPUQuota=",
    ),
    (
        good,
        |facts| facts.kernel = "5.4.0-generic".to_owned(),
        Level::Fail,
        "kernel",
        "5.4.0",
        "from 5.11 on",
    ),
    (
        good,
        |facts| facts.level = CpuLevel::Baseline,
        Level::Warn,
        "cpu_level",
        "tables",
        "-cpu host",
    ),
    (
        idle,
        |facts| facts.pseudowires[0].is_here = false,
        Level::Fail,
        "pseudowire",
        "no interface of this machine has 192.0.2.1",
        "ip address add 192.0.2.1",
    ),
    (
        idle,
        |facts| facts.pseudowires[0].taken_by = Some(1_000),
        Level::Fail,
        "pseudowire",
        "user 1000 has 192.0.2.1:6635",
        "ss -ulnp sport = :6635",
    ),
    (
        idle,
        |facts| facts.pseudowires[0].reserved_below = Some(1_024),
        Level::Fail,
        "pseudowire",
        "below 1024",
        "ip_unprivileged_port_start=6635",
    ),
    (
        good,
        |facts| facts.pseudowires[0].state = Some(InterfaceState::Down),
        Level::Fail,
        "pseudowire",
        "wan is down",
        "cellgate stats",
    ),
    (
        good,
        |facts| {
            facts.pseudowires[0].state = Some(InterfaceState::CannotSend {
                reason: "Message too long".to_owned(),
            });
        },
        Level::Fail,
        "pseudowire",
        "Message too long",
        "mtu",
    ),
    (
        good,
        |facts| facts.pseudowires[0].state = Some(InterfaceState::NoPeer { silent_ns: None }),
        Level::Note,
        "pseudowire",
        "nothing has ever come",
        "cellgate ping wan.",
    ),
    (
        good,
        |facts| facts.pseudowires[0].granted = 425_984,
        Level::Warn,
        "socket_buffers",
        "416 KiB of 821 KiB",
        "net.core.rmem_max=420500",
    ),
    (
        good,
        |facts| facts.offloads.send = 1,
        Level::Warn,
        "offloads",
        "system call",
        "UDP_GRO",
    ),
    (
        good,
        |facts| facts.tun = Tun::Missing,
        Level::Note,
        "tun_device",
        "no /dev",
        "modprobe tun",
    ),
    (
        good,
        |facts| facts.tun = Tun::Denied,
        Level::Note,
        "tun_device",
        "may not",
        "chmod",
    ),
    (
        idle,
        |facts| facts.places.owner = Some(7),
        Level::Fail,
        "state_directory",
        "/run/cellgate is user 7's",
        "chown",
    ),
    (
        idle,
        |facts| facts.places.closed = Some("/run".to_owned()),
        Level::Fail,
        "state_directory",
        "may not write /run",
        "another state_dir",
    ),
    (
        idle,
        |facts| facts.places.holder = Some(55),
        Level::Fail,
        "state_directory",
        "server 55 has /run/cellgate",
        "kill 55",
    ),
    (
        idle,
        |facts| {
            facts
                .places
                .notes
                .push("/x can be written by others: chmod go-w /x".to_owned())
        },
        Level::Fail,
        "state_directory",
        "/x can be written by others",
        "chmod go-w /x",
    ),
    (
        idle,
        |facts| {
            let note = "/x: Permission denied (os error 13)".to_owned();
            facts.places.notes.push(note);
        },
        Level::Fail,
        "state_directory",
        "/x: Permission denied",
        "another user",
    ),
    (
        idle,
        |facts| {
            facts
                .places
                .notes
                .push("/x has 5 octets left: a calibration ...".to_owned())
        },
        Level::Warn,
        "state_directory",
        "5 octets left",
        "make room",
    ),
    (
        idle,
        |facts| facts.places.unknown = Some("user nosuch".to_owned()),
        Level::Fail,
        "users",
        "no user nosuch",
        "systemd-sysusers",
    ),
];
