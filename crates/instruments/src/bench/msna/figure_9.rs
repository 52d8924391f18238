//! Calls by their octets, beside TCP (Figure 9): an echo returns them, a sink none.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use cellgate_msna::rex::{Event, Outcome};
use cellgate_msna::{Access, Address, Call, Exchanger, Node, NodeConfig, Sap};
use cellgate_report::Panel;

use super::way::configs;
use super::{daemon, panel, slope};
use crate::bench::measure::calibration;
use crate::bench::report::Report;
use crate::live::spread::Spread;

const OCTETS: [usize; 6] = [0, 64, 1_000, 8_000, 65_536, 1_048_000];
/// Lengths of which a goal speaks.
const JUDGED: [usize; 2] = [64, 8_000];
/// On a line of 10 Mbit/s, where cells are most of a call's time.
const SLOW: [usize; 4] = [0, 2_000, 4_000, 8_000];
/// Cells a second of a line of 10 Mbit/s.
const LINE: u32 = 23_585;
const SERVER: Sap = Sap(20);

/// The kinds of calls: the first octet of a call.
#[derive(Clone, Copy)]
enum Kind {
    Echo = 0,
    Sink = 1,
}

const KINDS: [(Kind, &str); 2] = [(Kind::Echo, "echo"), (Kind::Sink, "sink")];

pub(super) fn run(report: &mut Report, quick: bool) -> anyhow::Result<Vec<Panel>> {
    let (turns, calls) = if quick { (2, 2) } else { (21, 20) };
    let pair = |one: &str, other: &str, rate| (one.to_owned(), other.to_owned(), rate);
    let daemon = daemon(&[
        pair("a", "b", None),
        pair("c", "d", None),
        pair("e", "f", Some(LINE)),
    ])?;
    let rex = |name, access, interfaces| {
        Caller::rex(name, configs(&daemon, access, interfaces)).context(name)
    };
    let mut callers = [
        rex("cells", Access::Cells, ["a", "b"])?,
        rex("aal5", Access::Aal5, ["c", "d"])?,
        Caller::tcp()?,
    ];
    let fast = measured(report, &mut callers, &OCTETS, turns, calls)?;
    let slow = [rex("cells at 10 Mbit/s", Access::Cells, ["e", "f"])?];
    let mut slow_callers = slow;
    let slow = measured(report, &mut slow_callers, &SLOW, turns, calls.min(3))?;
    let tcp = &fast[2];
    for (caller, seen) in callers.iter().zip(&fast).take(2) {
        for octets in JUDGED {
            let at = OCTETS.iter().position(|of| *of == octets);
            let at = at.context("a length")?;
            let pairs = seen[0][at].iter().zip(&tcp[0][at]);
            let ratio = Spread::of(pairs.map(|(ours, tcp)| ours / tcp).collect());
            let name = format!("echo of {octets} octets: {} over TCP", caller.name);
            report.ratio_at_most(name, ratio.median, 1.0);
        }
    }
    let slopes = slow[0].each_ref().map(|seen| slope(&points(&SLOW, seen)));
    let ratio = slopes[0] / slopes[1];
    let name = "at 10 Mbit/s: |slope of echo / slope of sink / 2 - 1|";
    report.ratio_at_most(name, (ratio / 2.0 - 1.0).abs(), 0.1);
    report.note("a call by REX carries a CRC-32 and is executed at most once whatever is lost");
    let panel_of = |callers: &[Caller], seen: &[Seen], octets: &[usize]| {
        let mut curves = Vec::new();
        for (caller, seen) in callers.iter().zip(seen) {
            for ((_, kind), seen) in KINDS.iter().zip(seen) {
                curves.push((format!("{kind}, {}", caller.name), points(octets, seen)));
            }
        }
        panel("octets", "a call, us", &curves)
    };
    Ok(vec![
        panel_of(&callers, &fast, &OCTETS),
        panel_of(&slow_callers, &slow, &SLOW),
    ])
}

/// Microseconds by kind, length and turn.
type Seen = [Vec<Vec<f64>>; KINDS.len()];

fn points(octets: &[usize], seen: &[Vec<f64>]) -> Vec<(f64, f64)> {
    let points = octets.iter().zip(seen);
    let points = points.map(|(octets, us)| (*octets as f64, Spread::of(us.clone()).median));
    points.collect()
}

fn measured(
    report: &mut Report,
    callers: &mut [Caller],
    octets: &[usize],
    turns: usize,
    calls: u32,
) -> anyhow::Result<Vec<Seen>> {
    let none: Seen = std::array::from_fn(|_| vec![Vec::new(); octets.len()]);
    let mut seen = vec![none; callers.len()];
    for _ in 0..turns {
        report.calibrations.push(calibration());
        for (at, &octets) in octets.iter().enumerate() {
            for (caller, seen) in callers.iter_mut().zip(&mut seen) {
                for ((kind, words), seen) in KINDS.iter().zip(seen) {
                    // A long call shows as much as several short ones.
                    let calls = if octets > 100_000 { 1 } else { calls };
                    let us = caller.turn(*kind, octets, calls);
                    let name = &caller.name;
                    seen[at].push(us.with_context(|| format!("{words} of {octets}, {name}"))?);
                }
            }
        }
    }
    for (caller, seen) in callers.iter().zip(&seen) {
        for ((_, kind), seen) in KINDS.iter().zip(seen) {
            for (octets, us) in octets.iter().zip(seen) {
                let us = Spread::of(us.clone());
                let values = [("us", us.median), ("q1", us.q1), ("q3", us.q3)];
                report.row(&format!("{kind} of {octets}, {}", caller.name), &values);
            }
        }
    }
    Ok(seen)
}

/// Calls with octets and has its reply.
type Ask = dyn FnMut(&[u8]) -> anyhow::Result<Vec<u8>>;

struct Caller {
    name: &'static str,
    ask: Box<Ask>,
    stop: Arc<AtomicBool>,
    server: Option<JoinHandle<anyhow::Result<()>>>,
}

impl Caller {
    /// Microseconds a call.
    fn turn(&mut self, kind: Kind, octets: usize, calls: u32) -> anyhow::Result<f64> {
        let payload = (0..octets).map(|at| (at * 7 + octets) as u8);
        let call: Vec<u8> = [kind as u8].into_iter().chain(payload).collect();
        let began = Instant::now();
        for _ in 0..calls {
            let reply = (self.ask)(&call)?;
            ensure!(reply == replied(&call), "another reply");
        }
        Ok(began.elapsed().as_secs_f64() * 1e6 / f64::from(calls))
    }

    fn rex(name: &'static str, [caller, called]: [NodeConfig; 2]) -> anyhow::Result<Self> {
        let to = Address {
            host: called.host(),
            sap: SERVER,
        };
        let stop = Arc::<AtomicBool>::default();
        let stopped = Arc::clone(&stop);
        let (ready, is_ready) = std::sync::mpsc::channel();
        let server = std::thread::spawn(move || {
            let mut exchanger = Exchanger::new(Node::open(called)?, Call::default())?;
            exchanger.serve(SERVER);
            ready.send(())?;
            while !stopped.load(Ordering::Relaxed) {
                let event = exchanger.next_event(Some(Duration::from_millis(100)))?;
                if let Some(Event::Called { exchange, octets }) = event {
                    exchanger.reply(exchange, replied(&octets).to_vec())?;
                }
            }
            Ok(())
        });
        is_ready.recv().context("the server has ended early")?;
        let mut exchanger = Exchanger::new(Node::open(caller)?, Call::default())?;
        Ok(Self {
            name,
            ask: Box::new(move |call| match exchanger.ask(to, call.to_vec())? {
                Outcome::Reply(octets) => Ok(octets),
                other => bail!("{other:?}"),
            }),
            stop,
            server: Some(server),
        })
    }

    /// Calls and replies with their lengths before them.
    fn tcp() -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let mut here = TcpStream::connect(listener.local_addr()?)?;
        let (mut there, _) = listener.accept()?;
        here.set_nodelay(true)?;
        there.set_nodelay(true)?;
        let server = std::thread::spawn(move || {
            // The caller has gone where nothing more can be read.
            while let Ok(call) = read(&mut there) {
                write(&mut there, replied(&call))?;
            }
            Ok(())
        });
        Ok(Self {
            name: "TCP",
            ask: Box::new(move |call| {
                write(&mut here, call)?;
                read(&mut here)
            }),
            stop: Arc::default(),
            server: Some(server),
        })
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.ask = Box::new(|_| bail!("it has ended"));
        let _ = self.server.take().map(JoinHandle::join);
    }
}

/// The reply to a call.
fn replied(call: &[u8]) -> &[u8] {
    match call.split_first() {
        Some((kind, octets)) if *kind == Kind::Echo as u8 => octets,
        _ => &[],
    }
}

fn write(stream: &mut TcpStream, octets: &[u8]) -> anyhow::Result<()> {
    let mut message = (octets.len() as u32).to_be_bytes().to_vec();
    message.extend_from_slice(octets);
    Ok(stream.write_all(&message)?)
}

fn read(stream: &mut TcpStream) -> anyhow::Result<Vec<u8>> {
    let mut len = [0; 4];
    stream.read_exact(&mut len)?;
    let mut octets = vec![0; u32::from_be_bytes(len) as usize];
    stream.read_exact(&mut octets)?;
    Ok(octets)
}
