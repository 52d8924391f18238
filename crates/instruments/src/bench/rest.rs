//! The price of an adapter without work, and of its first PDU after a pause.

use std::fs;
use std::io::sink;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use cellgate::{Connection, Notification};
use cellgate_core::server::Idle;
use cellgate_host::client::Control;
use cellgate_host::sys::{Scheduling, cpu_ns_of, pin_thread};
use cellgate_report::output::Exit;
use rustix::event::{EventfdFlags, eventfd};
use rustix::process::Pid;

use super::cpus::Cpus;
use super::report::Report;
use crate::live::daemon::Daemon;
use crate::live::spread::at_rank;

/// Connections that stay without an application.
const CONNECTIONS: u16 = 16;
/// Daemons beside each other.
const DAEMONS: usize = 8;
/// The octets of a PDU.
const SDU: [u8; 64] = [7; 64];
/// Pauses in a row before the others have their turn.
const TURN: usize = 10;
/// No answer takes as long.
const LOST: Duration = Duration::from_secs(5);

/// An adapter without work: CPU, context switches, and the first PDU after a pause
#[derive(clap::Args)]
#[group(skip)]
pub(super) struct Args {
    #[command(flatten)]
    common: super::Args,
    /// How long a daemon without work is watched, in seconds [default: 60; with --quick 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=3_600))]
    seconds: Option<u64>,
    /// Pauses of each length [default: 100; with --quick 10]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pauses: Option<u32>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let super::Args { json, quick } = args.common;
    let mut report = Report::new("rest", quick);
    let seconds = args.seconds.unwrap_or(if quick { 1 } else { 60 });
    let watched = Duration::from_secs(seconds);
    let daemons = if quick { 2 } else { DAEMONS };
    for idle in [Idle::Adaptive, Idle::Sleep] {
        without_work(idle, watched, daemons, &mut report)?;
    }
    let pauses = args.pauses.unwrap_or(if quick { 10 } else { 100 });
    first_pdus(pauses as usize, quick, &mut report)?;
    report.finish(json)
}

/// A daemon with connections and pseudowires that nobody uses; its ports are from `port` on.
fn busy_looking(idle: Idle, port: u16) -> String {
    let mut text = format!(
        "[adapter]\nidle = \"{idle}\"\nmemory_max = 67108864\n\
         [[interface]]\nname = \"lo\"\nlink.memory.peer = \"lo\"\n"
    );
    for wire in 0..4 {
        let (local, peer) = (port + 2 * wire, port + 2 * wire + 1);
        text += &pseudowire(&format!("w{wire}"), local, peer);
    }
    for vci in 0..CONNECTIONS {
        text += &format!(
            "[[connection]]\naddress = \"lo.0.{}\"\n\
             contract = \"cbr,aal5:pcr=1000,max_sdu=1500\"\n",
            100 + vci
        );
    }
    text
}

fn pseudowire(name: &str, local: u16, peer: u16) -> String {
    format!(
        "[[interface]]\nname = \"{name}\"\n[interface.link.udp]\nlocal = \"127.0.0.1:{local}\"\n\
         peer = \"127.0.0.1:{peer}\"\nlabel_out = 16\nlabel_in = 16\nmtu = 1500\n"
    )
}

/// Free UDP ports, as far as nobody takes them meanwhile.
fn ports() -> anyhow::Result<u16> {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    let port = socket.local_addr()?.port();
    Ok(if port > 60_000 { port - 1_000 } else { port })
}

/// Context switches of all threads of a process so far.
fn switches(pid: Pid) -> anyhow::Result<u64> {
    let mut all = 0;
    for task in fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero()))? {
        // A thread that has ended meanwhile switches no more.
        let status = fs::read_to_string(task?.path().join("status")).unwrap_or_default();
        let counts = status.lines().filter(|line| line.contains("ctxt_switches"));
        let counts = counts.filter_map(|line| line.rsplit_once('\t')?.1.parse::<u64>().ok());
        all += counts.sum::<u64>();
    }
    Ok(all)
}

/// CPU time and context switches of processes while nobody does anything: per cent of a core, and
/// switches a second.
fn used(processes: &[Pid], watched: Duration) -> anyhow::Result<(f64, f64)> {
    let all = || -> anyhow::Result<(u64, u64)> {
        let mut sum = (0, 0);
        for pid in processes {
            let taken = cpu_ns_of(*pid);
            sum.0 +=
                taken.with_context(|| format!("process {} of a daemon", pid.as_raw_nonzero()))?;
            sum.1 += switches(*pid)?;
        }
        Ok(sum)
    };
    // The work of a start is no part of it.
    std::thread::sleep(Duration::from_secs(2));
    let (before, from) = (all()?, Instant::now());
    std::thread::sleep(watched);
    let (after, seconds) = (all()?, from.elapsed().as_secs_f64());
    let cpu = (after.0 - before.0) as f64 / 1e7 / seconds;
    Ok((cpu, (after.1 - before.1) as f64 / seconds))
}

fn without_work(
    idle: Idle,
    watched: Duration,
    daemons: usize,
    report: &mut Report,
) -> anyhow::Result<()> {
    let mut one = Daemon::start(&busy_looking(idle, ports()?), sink())?;
    let processes: Vec<_> = one.processes().collect();
    let (cpu, switches) = used(&processes, watched)?;
    report.rate_at_most(format!("{idle}, one daemon: % of a core"), cpu, 0.5);
    report.rate_at_most(format!("{idle}, one daemon: switches/s"), switches, 12.0);
    one.kill()?;
    let (cpu, switches) = used(&processes[1..], watched)?;
    report.rate_at_most(format!("{idle}, its orphan: % of a core"), cpu, 0.5);
    report.rate_at_most(format!("{idle}, its orphan: switches/s"), switches, 12.0);
    drop(one);
    let many: Vec<_> = (0..daemons)
        .map(|_| Daemon::start(&busy_looking(idle, ports()?), sink()))
        .collect::<anyhow::Result<_>>()?;
    let processes: Vec<_> = many.iter().flat_map(Daemon::processes).collect();
    let (cpu, _) = used(&processes, watched)?;
    let name = format!("{idle}, {daemons} daemons: % of a core");
    report.rate_at_most(name, cpu, daemons as f64 / 2.0);
    Ok(())
}

/// A daemon whose PDUs go round, in memory and over a pseudowire to itself.
struct Contestant {
    idle: Idle,
    daemon: Daemon,
    scheduling: Scheduling,
    memory: Connection,
    wire: [Connection; 2],
}

impl Contestant {
    fn start(idle: Idle, cpu: usize) -> anyhow::Result<Self> {
        let port = ports()?;
        let config = format!(
            "[adapter]\nidle = \"{idle}\"\ncpu = {cpu}\nmemory_max = 268435456\n\
             [[interface]]\nname = \"lo\"\nlink.memory.peer = \"lo\"\n{}{}",
            pseudowire("u", port, port + 1),
            pseudowire("v", port + 1, port),
        );
        let daemon = Daemon::start(&config, sink())?;
        let open = |address: &str, contract: &str| {
            Connection::builder()
                .socket(daemon.socket())
                .address(address)
                .contract(contract)
                .notification(Notification::Polled)
                .completions(false)
                .open()
        };
        let control = Control::at(&daemon.adapter_socket())?;
        Ok(Self {
            idle,
            scheduling: control.hello().scheduling.clone(),
            memory: open("lo.0.90", "ubr,aal5:max_sdu=1500")?,
            wire: [
                open("u.0.91", "ubr,aal5:tx:max_sdu=1500,rx:none")?,
                open("v.0.91", "ubr,aal5:tx:none,rx:max_sdu=1500")?,
            ],
            daemon,
        })
    }

    /// How long a PDU is on its way after a pause, in nanoseconds.
    fn after(&self, pause: Duration, over_wire: bool) -> anyhow::Result<f64> {
        let (from, to) = match over_wire {
            true => (&self.wire[0], &self.wire[1]),
            false => (&self.memory, &self.memory),
        };
        std::thread::sleep(pause);
        let begun = Instant::now();
        from.try_send(&SDU)?;
        loop {
            let mut sdu = [0; SDU.len()];
            if let Ok(received) = to.try_recv(&mut sdu) {
                let took = begun.elapsed();
                ensure!(
                    received.sdu_len == SDU.len() && sdu == SDU,
                    "another PDU came"
                );
                return Ok(took.as_nanos() as f64);
            }
            ensure!(begun.elapsed() < LOST, "a PDU does not come");
            std::hint::spin_loop();
        }
    }
}

/// What a wake-up takes after a pause, whatever an adapter does: a thread on the adapter's CPU that
/// waits at an eventfd, and says by memory that it is up.
struct Bare {
    bell: std::sync::Arc<OwnedFd>,
    up: std::sync::Arc<AtomicU64>,
    calls: std::cell::Cell<u64>,
}

impl Bare {
    fn start(cpu: usize) -> anyhow::Result<Self> {
        let bell = std::sync::Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        let up = std::sync::Arc::new(AtomicU64::new(0));
        let (theirs, says) = (bell.clone(), up.clone());
        std::thread::spawn(move || {
            // As the adapter's thread is: elsewhere it measures the same, later.
            let _ = pin_thread(cpu);
            let mut count = [0; 8];
            while rustix::io::read(&theirs, &mut count).is_ok() {
                says.fetch_add(u64::from_ne_bytes(count), Ordering::Release);
            }
        });
        let calls = std::cell::Cell::new(0);
        Ok(Self { bell, up, calls })
    }

    fn after(&self, pause: Duration) -> anyhow::Result<f64> {
        std::thread::sleep(pause);
        self.calls.update(|calls| calls + 1);
        let begun = Instant::now();
        rustix::io::write(&self.bell, &1_u64.to_ne_bytes())?;
        while self.up.load(Ordering::Acquire) < self.calls.get() {
            ensure!(begun.elapsed() < LOST, "a thread does not wake up");
            std::hint::spin_loop();
        }
        Ok(begun.elapsed().as_nanos() as f64)
    }
}

fn first_pdus(count: usize, quick: bool, report: &mut Report) -> anyhow::Result<()> {
    let Cpus { first, last } = Cpus::allowed()?;
    pin_thread(first)?;
    let mut all = Vec::new();
    for idle in [Idle::Spin, Idle::Adaptive] {
        let one = Contestant::start(idle, last)?;
        one.daemon.let_adapter_run(false)?;
        all.push(one);
    }
    let wake_up = all[1].scheduling.wake_up;
    let late_us = all[1].scheduling.late_ns as f64 / 1e3;
    let p50_us = wake_up.map_or(0.0, |wake_up| wake_up.p50_ns as f64 / 1e3);
    report.value("a wake-up, half of them", "us", p50_us);
    report.value("a wake-up, as contracts rely on it", "us", late_us);
    let bare = Bare::start(last)?;
    for (link, over_wire) in [("memory", false), ("udp", true)] {
        let pauses_ms = [10, 100, 1_000];
        for pause_ms in pauses_ms.into_iter().take(if quick { 2 } else { 3 }) {
            let pause = Duration::from_millis(pause_ms);
            let mut took = [Vec::new(), Vec::new()];
            let mut wakes = Vec::new();
            while took[0].len() < count {
                for _ in 0..TURN.min(count - wakes.len()) {
                    wakes.push(bare.after(pause)?);
                }
                for (one, took) in all.iter().zip(&mut took) {
                    one.daemon.let_adapter_run(true)?;
                    // The first is after a longer pause, and of an adapter that stood still.
                    one.after(Duration::from_millis(20), over_wire)?;
                    for _ in 0..TURN.min(count - took.len()) {
                        took.push(one.after(pause, over_wire)?);
                    }
                    one.daemon.let_adapter_run(false)?;
                }
            }
            let name = format!("{link}, {pause_ms} ms");
            let mut shown = Vec::new();
            for (one, took) in all.iter().zip(&mut took) {
                took.sort_by(f64::total_cmp);
                for (rank, part) in [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)] {
                    let us = at_rank(took, part) / 1e3;
                    report.value(format!("{name}, {}: {rank}", one.idle), "us", us);
                    shown.push(us);
                }
            }
            wakes.sort_by(f64::total_cmp);
            let bare_us = at_rank(&wakes, 0.5) / 1e3;
            report.value(
                format!("{name}, a thread at an eventfd: p50"),
                "us",
                bare_us,
            );
            let beyond = |rank: usize| shown[3 + rank] - shown[rank];
            let half = format!("{name}: beyond spin, p50, us");
            report.rate_at_most(half, beyond(0), p50_us + 5.0);
            let limit = format!("{name}: beyond spin, p50, over a thread at an eventfd");
            report.ratio_at_most(limit, beyond(0) / bare_us, 1.1);
            report.rate_at_most(
                format!("{name}: beyond spin, p99.9, us"),
                beyond(2),
                late_us,
            );
        }
    }
    Ok(())
}
