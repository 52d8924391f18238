//! `cellgate bench udp`: the `udp` link beside plain system calls for the same datagrams, over the
//! loopback: what a cell costs the receiver, and the sender.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::rc::Rc;

use anyhow::ensure;
use cellgate_core::Time;
use cellgate_core::wire::{CELL_LEN_NO_HEC, CellPseudowire};
use cellgate_host::link::udp::{UdpLink, UdpReceiver, UdpSender};
use cellgate_host::sys::{RECEIVE_MANY, receive_many};
use cellgate_report::output::Exit;

use super::Args;
use super::measure::{Contestant, take_turns, ticks};
use super::report::Report;

/// Datagrams of a pass: as many as any socket's queue holds.
const DATAGRAMS: usize = 44;
/// Cells of a datagram at an MTU of 1,500.
const PACK: usize = 28;
const CELLS: usize = DATAGRAMS * PACK;
/// Octets before them: a label.
const LABEL_LEN: usize = 4;
const DATAGRAM_LEN: usize = LABEL_LEN + PACK * CELL_LEN_NO_HEC;
/// Any port of this host.
const ANY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
/// Cells that the adapter takes at once.
const BUDGET: usize = 256;

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let mut report = Report::new("udp", args.quick);
    let repeats = if args.quick { 5 } else { 201 };
    let cells: Rc<Vec<u8>> = Rc::new((0..CELLS * CELL_LEN_NO_HEC).map(|i| i as u8).collect());
    let mut contestants = Vec::new();
    for together in [true, false] {
        contestants.push(link_receives(&cells, together)?);
        contestants.push(peer_receives(&cells, together)?);
    }
    contestants.push(link_sends(&cells)?);
    contestants.push(peer_sends(&cells)?);
    let times = take_turns(contestants, repeats, &mut report.calibrations);
    for pair in times.chunks_exact(2) {
        for times in pair {
            report.figure(times);
            let ns = times.spread().median * report.ns_per_tick();
            report.value(times.name.clone(), "M cells/s", 1e3 / ns);
        }
        report.ratio(&pair[0], &pair[1]);
    }
    report.note(
        "receive: all of a pass waits in the socket, one thread takes it, so the time is CPU time; \
         the link reads the headers and copies the cells into a FIFO, recvmmsg does neither. \
         together: sent in one call, which the loopback keeps together (an upper bound)",
    );
    report.finish(args.json)
}

/// A link between two addresses, under one label.
pub(super) fn options(local: SocketAddr, peer: SocketAddr) -> UdpLink {
    UdpLink {
        local,
        peer,
        source_port: 0,
        peer_source_port: None,
        label_out: 1_000,
        label_in: 1_000,
        mode: CellPseudowire::default(),
        mtu: 1_500,
        pack: None,
        timer_ns: 0,
    }
}

fn sender(peer: SocketAddr) -> anyhow::Result<UdpSender> {
    let sender = UdpSender::open(&options(ANY, peer))?;
    ensure!(sender.capacity() >= CELLS, "a batch holds fewer cells");
    Ok(sender)
}

/// Sends a pass: in one call, or datagram by datagram.
fn fill(sender: &mut UdpSender, cells: &[u8], together: bool) {
    let len = if together { CELLS } else { PACK };
    for cells in cells.chunks(len * CELL_LEN_NO_HEC) {
        sender.send(cells);
        sender.flush();
    }
}

fn sent(together: bool) -> &'static str {
    if together {
        "sent together"
    } else {
        "sent one by one"
    }
}

fn link_receives(cells: &Rc<Vec<u8>>, together: bool) -> anyhow::Result<Contestant<'static>> {
    let mut receiver = UdpReceiver::open(&options(ANY, ANY))?;
    let mut sender = sender(receiver.local_address()?)?;
    let mut fifo = vec![0; BUDGET * CELL_LEN_NO_HEC];
    let (mut now, cells) = (Time::ZERO, Rc::clone(cells));
    let name = format!("udp link receives, {}", sent(together));
    Ok(Contestant::new(name, CELLS, move || {
        fill(&mut sender, &cells, together);
        let from = ticks();
        let mut taken = 0;
        while taken < CELLS {
            now = now.plus_ns(UdpReceiver::LOOK_EVERY_NS);
            receiver.poll(now);
            taken += receiver.take(&mut fifo);
        }
        ticks() - from
    }))
}

fn peer_receives(cells: &Rc<Vec<u8>>, together: bool) -> anyhow::Result<Contestant<'static>> {
    let receiver = UdpSocket::bind("127.0.0.1:0")?;
    let mut sender = sender(receiver.local_addr()?)?;
    let mut buffers = vec![0; RECEIVE_MANY * 2_048];
    let cells = Rc::clone(cells);
    let name = format!("recvmmsg, {}", sent(together));
    Ok(Contestant::new(name, CELLS, move || {
        fill(&mut sender, &cells, together);
        let from = ticks();
        let (mut taken, mut lens) = (0, [0; RECEIVE_MANY]);
        while taken < CELLS {
            let found = receive_many(&receiver, &mut buffers, 2_048, &mut lens).unwrap_or(0);
            let octets: usize = lens[..found].iter().map(|len| len - LABEL_LEN).sum();
            taken += octets / CELL_LEN_NO_HEC;
        }
        ticks() - from
    }))
}

fn link_sends(cells: &Rc<Vec<u8>>) -> anyhow::Result<Contestant<'static>> {
    let sink = Sink::new()?;
    let mut sender = sender(sink.socket.local_addr()?)?;
    let cells = Rc::clone(cells);
    Ok(Contestant::new("udp link sends", CELLS, move || {
        let from = ticks();
        fill(&mut sender, &cells, true);
        let ticks = ticks() - from;
        sink.empty();
        ticks
    }))
}

fn peer_sends(cells: &Rc<Vec<u8>>) -> anyhow::Result<Contestant<'static>> {
    let sink = Sink::new()?;
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let to = sink.socket.local_addr()?;
    let mut datagrams = Vec::new();
    for cells in cells.chunks(PACK * CELL_LEN_NO_HEC) {
        datagrams.extend_from_slice(&[0; LABEL_LEN]);
        datagrams.extend_from_slice(cells);
    }
    Ok(Contestant::new(
        "send_to, datagram by datagram",
        CELLS,
        move || {
            let from = ticks();
            for datagram in datagrams.chunks(DATAGRAM_LEN) {
                let _ = socket.send_to(datagram, to);
            }
            let ticks = ticks() - from;
            sink.empty();
            ticks
        },
    ))
}

/// Takes what is sent, outside of what is timed.
struct Sink {
    socket: UdpSocket,
}

impl Sink {
    fn new() -> anyhow::Result<Self> {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket })
    }

    fn empty(&self) {
        while self.socket.recv(&mut [0; 2_048]).is_ok() {}
    }
}
