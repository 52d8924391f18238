//! Ways for blocks to go to an echo and back.
//!
//! ```text
//! this thread -> association -> adapter's process -> association -> echo thread, and back
//! ```

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, ensure};
use cellgate_host::clock::thread_cpu_ns;
use cellgate_msna::{Access, Address, Call, Event, Liaison, Node, NodeConfig, Sap};

use super::PATIENCE;
use crate::live::daemon::Daemon;

const ECHO: Sap = Sap(7);

/// A block's round trip in microseconds, the CPU time it took, and sleeps.
#[derive(Clone)]
pub(super) struct Turn {
    pub(super) us: f64,
    pub(super) cpu_us: f64,
    pub(super) sleeps: f64,
}

/// Sends a block and has it back; times that it slept so far.
type ThereAndBack = dyn FnMut(&[u8], &mut Vec<u8>) -> anyhow::Result<u64>;

/// One way for blocks to go to an echo and back.
pub(super) struct Way {
    pub(super) name: String,
    there_and_back: Box<ThereAndBack>,
    stop: Arc<AtomicBool>,
    echo: Option<JoinHandle<anyhow::Result<()>>>,
}

impl Way {
    /// Blocks there and back, one after another.
    pub(super) fn turn(&mut self, octets: usize, blocks: u32) -> anyhow::Result<Turn> {
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

/// Hosts of this number onward, on two interfaces that a way leads between.
pub(super) fn configs(daemon: &Daemon, access: Access, interfaces: [&str; 2]) -> [NodeConfig; 2] {
    // Of packets, a way has hosts of its own: circuit 32 is a port of theirs.
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let first = NEXT.fetch_add(2, Ordering::Relaxed);
    [0, 1].map(|at| {
        let host = Ipv4Addr::new(127, 0, 40, first + at as u8);
        let config = NodeConfig::new(host, access).at(daemon.socket());
        match interfaces[at] {
            "" => config,
            interface => config.on(interface),
        }
    })
}

/// An association with an echo.
pub(super) fn msna(
    name: impl Into<String>,
    [caller, called]: [NodeConfig; 2],
    call: &Call,
) -> anyhow::Result<Way> {
    let stop = Arc::<AtomicBool>::default();
    let stopped = Arc::clone(&stop);
    let (ready, is_ready) = std::sync::mpsc::channel();
    let to = Address {
        host: called.host(),
        sap: ECHO,
    };
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
    let mut liaison = node.connect(to, call)?;
    Ok(Way {
        name: name.into(),
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
pub(super) fn udp() -> anyhow::Result<Way> {
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
        name: "UDP".to_owned(),
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
pub(super) fn tcp() -> anyhow::Result<Way> {
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
        name: "TCP".to_owned(),
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
