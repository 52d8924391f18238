//! What it costs to be looked at.

use std::io::{BufRead, BufReader, Read, Write, sink};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use cellgate::{Connection, Session};
use cellgate_host::sys::cpu_ns_of;
use cellgate_report::output::Exit;
use rustix::process::Pid;

use super::report::Report;
use crate::live::actor::this_program;
use crate::live::daemon::Daemon;

/// Pairs of connections; each is two VCs.
const PAIRS: u16 = 500;
/// Connections of a session.
const OF_SESSION: u16 = 250;
/// Those who look at once.
const VIEWERS: usize = 32;
/// From one SDU of each pair to the next: all counters change from look to look.
const EVERY: Duration = Duration::from_millis(200);
/// Windows with and without viewers, in turn.
const TURNS: usize = 3;

const CONFIG: &str = "[adapter]\nvcs = 1100\n\
    [[interface]]\nname = \"a\"\nlink.memory.peer = \"b\"\n\
    [[interface]]\nname = \"b\"\nlink.memory.peer = \"a\"\n";

pub(super) fn run(args: &super::Args) -> anyhow::Result<Exit> {
    let &super::Args { json, quick } = args;
    let mut report = Report::new("page", quick);
    let pairs = if quick { 20 } else { PAIRS };
    let window = Duration::from_secs(if quick { 1 } else { 20 });
    let daemon = Daemon::start(CONFIG, sink())?;
    let page = Page::start(&daemon)?;
    let over = Arc::new(AtomicBool::new(false));
    let traffic = Traffic::open(&daemon, pairs)?.carry(Arc::clone(&over));
    std::thread::sleep(Duration::from_secs(2));
    let daemon_pid = daemon.processes().next().context("a daemon")?;
    let [mut alone, mut watched] = [Vec::new(), Vec::new()];
    let (mut cost, mut octets) = (Vec::new(), Vec::new());
    for _ in 0..if quick { 1 } else { TURNS } {
        alone.push(share(daemon_pid, window)?);
        let viewers = Viewers::look(&page, VIEWERS)?;
        // The first message, with everything in it, is no part of it.
        std::thread::sleep(Duration::from_secs(2));
        let (from, before) = (Instant::now(), viewers.octets());
        let page_before = cpu_ns_of(page.pid)?;
        watched.push(share(daemon_pid, window)?);
        let seconds = from.elapsed().as_secs_f64();
        cost.push((cpu_ns_of(page.pid)? - page_before) as f64 / 1e7 / seconds);
        octets.push((viewers.octets() - before) as f64 / 1e3 / seconds / VIEWERS as f64);
    }
    over.store(true, Ordering::Relaxed);
    traffic.join().ok().context("the traffic")??;
    let vcs = 2 * pairs;
    let of = |what: &str| format!("{vcs} VCs, {VIEWERS} viewers: {what}");
    report.rate_at_most(of("the page's CPU time, % of a core"), median(cost), 5.0);
    report.rate_at_most(of("a viewer, kB/s"), median(octets), 100.0);
    let [alone, watched] = [alone, watched].map(median);
    report.value(
        format!("{vcs} VCs, nobody looks: the daemon's CPU time"),
        "% of a core",
        alone,
    );
    report.value(of("the daemon's CPU time"), "% of a core", watched);
    report.rate_at_most(
        of("what looking costs the daemon, % of a core"),
        watched - alone,
        0.1,
    );
    report.finish(json)
}

/// CPU time of a process in a window, in per cent of a core.
fn share(pid: Pid, window: Duration) -> anyhow::Result<f64> {
    let (from, before) = (Instant::now(), cpu_ns_of(pid)?);
    std::thread::sleep(window);
    Ok((cpu_ns_of(pid)? - before) as f64 / 1e7 / from.elapsed().as_secs_f64())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// A page's process; it ends when this is dropped.
struct Page {
    child: Child,
    pid: Pid,
    address: String,
}

impl Page {
    fn start(daemon: &Daemon) -> anyhow::Result<Self> {
        let mut command: Command = this_program()?;
        command.args(["page", "--listen", "127.0.0.1:0", "--socket"]);
        let mut child = command
            .arg(daemon.socket())
            .stderr(Stdio::piped())
            .spawn()
            .context("the page does not start")?;
        let pid = Pid::from_child(&child);
        let mut said = BufReader::new(child.stderr.take().context("it is piped")?);
        let mut line = String::new();
        said.read_line(&mut line)?;
        let url = line.trim().rsplit_once("http://").context("an address")?.1;
        let address = url.trim_end_matches('/').to_owned();
        Ok(Self {
            child,
            pid,
            address,
        })
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // Both fail only if it has ended and was waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Those who look; they end when this is dropped.
struct Viewers {
    streams: Vec<TcpStream>,
    octets: Arc<AtomicU64>,
}

impl Viewers {
    fn look(page: &Page, viewers: usize) -> anyhow::Result<Self> {
        let octets = Arc::new(AtomicU64::new(0));
        let mut streams = Vec::new();
        for _ in 0..viewers {
            let mut stream = TcpStream::connect(&page.address)?;
            let host = &page.address;
            write!(stream, "GET /events HTTP/1.1\r\nHost: {host}\r\n\r\n")?;
            streams.push(stream.try_clone()?);
            let octets = Arc::clone(&octets);
            std::thread::spawn(move || {
                let mut buffer = vec![0; 65_536];
                while let Ok(read @ 1..) = stream.read(&mut buffer) {
                    octets.fetch_add(read as u64, Ordering::Relaxed);
                }
            });
        }
        Ok(Self { streams, octets })
    }

    fn octets(&self) -> u64 {
        self.octets.load(Ordering::Relaxed)
    }
}

impl Drop for Viewers {
    fn drop(&mut self) {
        for stream in &self.streams {
            // One that the page has dropped is down already.
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }
}

/// Connections that all carry something.
struct Traffic {
    _sessions: Vec<Session>,
    pairs: Vec<[Connection; 2]>,
}

impl Traffic {
    fn open(daemon: &Daemon, pairs: u16) -> anyhow::Result<Self> {
        let (mut sessions, mut all) = (Vec::new(), Vec::new());
        let vcis: Vec<u16> = (100..100 + pairs).collect();
        for some in vcis.chunks(OF_SESSION.into()) {
            let of_both = [
                Session::connect(daemon.socket())?,
                Session::connect(daemon.socket())?,
            ];
            for vci in some {
                let [sender, receiver] =
                    [("a", "rx:none"), ("b", "tx:none")].map(|(name, none)| {
                        Connection::builder()
                            .address(format!("{name}.0.{vci}"))
                            .contract(format!("cbr,aal5:pcr=50,max_sdu=1500,{none}"))
                    });
                all.push([of_both[1].open(&receiver)?, of_both[0].open(&sender)?]);
            }
            sessions.extend(of_both);
        }
        Ok(Self {
            _sessions: sessions,
            pairs: all,
        })
    }

    /// Sends on all, again and again, in a thread of its own.
    fn carry(self, over: Arc<AtomicBool>) -> std::thread::JoinHandle<anyhow::Result<()>> {
        std::thread::spawn(move || {
            let mut buffer = [0; 1_500];
            while !over.load(Ordering::Relaxed) {
                for [receiver, sender] in &self.pairs {
                    sender.try_send(&[7; 40])?;
                    while receiver.try_recv(&mut buffer).is_ok() {}
                }
                std::thread::sleep(EVERY);
            }
            Ok(())
        })
    }
}
