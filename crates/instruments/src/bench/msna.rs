//! `cellgate bench msna`: what a block of MSNA costs the host that waits for its return, by way and
//! length, beside UDP and TCP of this machine in the same turns.
//!
//! ```text
//! this thread -> association -> adapter's process -> association -> echo thread, and back
//! ```

use std::io::{Read, Write, sink};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, ensure};
use cellgate_host::clock::thread_cpu_ns;
use cellgate_msna::{Access, Address, Call, Event, Liaison, Node, NodeConfig, Sap};
use cellgate_report::output::Exit;

use super::Args;
use super::measure::calibration;
use super::report::Report;
use crate::live::daemon::Daemon;
use crate::live::spread::Spread;

const OCTETS: [usize; 4] = [64, 1_000, 8_000, 11_730];
/// The length of which a goal speaks.
const LONG: usize = 8_000;
const ECHO: Sap = Sap(7);
/// A block that takes longer is lost.
const PATIENCE: Duration = Duration::from_secs(2);

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let mut report = Report::new("msna", args.quick);
    let (turns, blocks) = if args.quick { (3, 20) } else { (21, 200) };
    let config = "[[interface]]\nname = \"a\"\nlink.memory.peer = \"b\"\n\
                  [[interface]]\nname = \"b\"\nlink.memory.peer = \"a\"\n\
                  [[interface]]\nname = \"c\"\nlink.memory.peer = \"d\"\n\
                  [[interface]]\nname = \"d\"\nlink.memory.peer = \"c\"\n";
    let daemon = Daemon::start(config, sink())?;
    let mut ways = [
        msna("cells", &daemon, Access::Cells, ["a", "b"])?,
        msna("aal5", &daemon, Access::Aal5, ["c", "d"])?,
        msna("packets", &daemon, Access::Packets, ["", ""])?,
        udp()?,
        tcp()?,
    ];
    let mut seen = vec![[const { Vec::new() }; OCTETS.len()]; ways.len()];
    for _ in 0..turns {
        report.calibrations.push(calibration());
        for (way, seen) in ways.iter_mut().zip(&mut seen) {
            for (&octets, seen) in OCTETS.iter().zip(seen) {
                seen.push(way.turn(octets, blocks).context(way.name)?);
            }
        }
    }
    for (way, seen) in ways.iter().zip(&seen) {
        for (octets, turns) in OCTETS.iter().zip(seen) {
            let of = |value: fn(&Turn) -> f64| Spread::of(turns.iter().map(value).collect());
            let [us, cpu] = [of(|turn| turn.us), of(|turn| turn.cpu_us)];
            report.row(
                &format!("{octets} octets, {}", way.name),
                &[
                    ("round_trip_us", us.median),
                    ("q1", us.q1),
                    ("q3", us.q3),
                    ("cpu_us_a_block", cpu.median),
                    ("sleeps_a_block", of(|turn| turn.sleeps).median),
                ],
            );
        }
    }
    let at = OCTETS.iter().position(|octets| *octets == LONG);
    let at = at.context("a length")?;
    let pairs = seen[1][at].iter().zip(&seen[0][at]);
    let ratio = Spread::of(
        pairs
            .map(|(aal5, cells)| aal5.cpu_us / cells.cpu_us)
            .collect(),
    );
    let name = format!("{LONG} octets: CPU of aal5 over that of cells");
    report.ratio_at_most(name, ratio.median, 0.2);
    report.note(
        "CPU: of the thread that sends a block and sleeps until it is back; its other end is a \
         thread of this process that sleeps, too. A block is woken for at its last cell",
    );
    report.finish(args.json)
}

/// A block's round trip in microseconds, the CPU time it took, and sleeps.
#[derive(Clone)]
struct Turn {
    us: f64,
    cpu_us: f64,
    sleeps: f64,
}

/// Sends a block and has it back; times that it slept so far.
type ThereAndBack = dyn FnMut(&[u8], &mut Vec<u8>) -> anyhow::Result<u64>;

/// One way for blocks to go to an echo and back.
struct Way {
    name: &'static str,
    there_and_back: Box<ThereAndBack>,
    stop: Arc<AtomicBool>,
    echo: Option<JoinHandle<anyhow::Result<()>>>,
}

impl Way {
    fn turn(&mut self, octets: usize, blocks: u32) -> anyhow::Result<Turn> {
        let sent: Vec<u8> = (0..octets).map(|at| (at * 7 + octets) as u8).collect();
        let mut back = Vec::new();
        let mut all = || (self.there_and_back)(&sent, &mut back);
        let before = all()?;
        let (cpu, began) = (thread_cpu_ns(), Instant::now());
        let mut after = before;
        for _ in 0..blocks {
            after = all()?;
        }
        let each = f64::from(blocks);
        let turn = Turn {
            us: began.elapsed().as_secs_f64() * 1e6 / each,
            cpu_us: (thread_cpu_ns() - cpu) as f64 / 1e3 / each,
            sleeps: (after - before) as f64 / each,
        };
        ensure!(back == sent, "other octets came back");
        Ok(turn)
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Its socket goes first: an echo that reads hears of that.
        self.there_and_back = Box::new(|_, _| Ok(0));
        let _ = self.echo.take().map(JoinHandle::join);
    }
}

fn msna(
    name: &'static str,
    daemon: &Daemon,
    access: Access,
    interfaces: [&'static str; 2],
) -> anyhow::Result<Way> {
    let hosts = [1, 2].map(|n| Ipv4Addr::new(127, 0, 40, n));
    let [caller, called] = [0, 1].map(|at| {
        let config = NodeConfig::new(hosts[at], access).at(daemon.socket());
        match interfaces[at] {
            "" => config,
            interface => config.on(interface),
        }
    });
    let stop = Arc::<AtomicBool>::default();
    let stopped = Arc::clone(&stop);
    let (ready, is_ready) = std::sync::mpsc::channel();
    let echo = std::thread::spawn(move || {
        let mut node = Node::open(called)?;
        node.serve(ECHO);
        ready.send(())?;
        let Some(Event::Connected { liaison, .. }) = node.next_event(Some(PATIENCE))? else {
            return Err(anyhow!("nobody has called"));
        };
        echo(liaison, &stopped)
    });
    is_ready.recv().context("the echo has ended early")?;
    let mut node = Node::open(caller)?;
    let to = Address {
        host: hosts[1],
        sap: ECHO,
    };
    let mut liaison = node.connect(to, &Call::default())?;
    Ok(Way {
        name,
        there_and_back: Box::new(move |sent, back| {
            let _open = &node;
            liaison.send(sent)?;
            ensure!(liaison.recv(back, Some(PATIENCE))?, "a block was lost");
            Ok(liaison.counters().sleeps)
        }),
        stop,
        echo: Some(echo),
    })
}

fn echo(mut liaison: Liaison, stopped: &AtomicBool) -> anyhow::Result<()> {
    let mut block = Vec::new();
    while !stopped.load(Ordering::Relaxed) {
        if liaison.recv(&mut block, Some(Duration::from_millis(100)))? {
            liaison.send(&block)?;
        }
    }
    Ok(())
}

/// Datagrams of this machine's loopback.
fn udp() -> anyhow::Result<Way> {
    let [here, there] = [(); 2].map(|()| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)));
    let (here, there) = (here?, there?);
    here.connect(there.local_addr()?)?;
    there.connect(here.local_addr()?)?;
    here.set_read_timeout(Some(PATIENCE))?;
    there.set_read_timeout(Some(Duration::from_millis(100)))?;
    let stop = Arc::<AtomicBool>::default();
    let stopped = Arc::clone(&stop);
    let echo = std::thread::spawn(move || {
        let mut block = vec![0; 65_536];
        while !stopped.load(Ordering::Relaxed) {
            if let Ok(len) = there.recv(&mut block) {
                there.send(&block[..len])?;
            }
        }
        Ok(())
    });
    let mut sleeps = 0;
    Ok(Way {
        name: "UDP",
        there_and_back: Box::new(move |sent, back| {
            here.send(sent)?;
            back.resize(65_536, 0);
            let len = here.recv(back)?;
            back.truncate(len);
            sleeps += 1;
            Ok(sleeps)
        }),
        stop,
        echo: Some(echo),
    })
}

/// A connection of this machine's loopback.
fn tcp() -> anyhow::Result<Way> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut here = TcpStream::connect(listener.local_addr()?)?;
    let (mut there, _) = listener.accept()?;
    here.set_nodelay(true)?;
    there.set_nodelay(true)?;
    here.set_read_timeout(Some(PATIENCE))?;
    let echo = std::thread::spawn(move || {
        let mut block = vec![0; 65_536];
        loop {
            match there.read(&mut block)? {
                0 => return Ok(()),
                len => there.write_all(&block[..len])?,
            }
        }
    });
    let mut sleeps = 0;
    Ok(Way {
        name: "TCP",
        there_and_back: Box::new(move |sent, back| {
            here.write_all(sent)?;
            back.resize(sent.len(), 0);
            here.read_exact(back)?;
            sleeps += 1;
            Ok(sleeps)
        }),
        stop: Arc::default(),
        echo: Some(echo),
    })
}
