use std::collections::VecDeque;
use std::fmt;

use cellgate_core::terminal::Stack;
use cellgate_report::Rational;
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp::{Socket, SocketBuffer};
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr};

use super::Pc386Costs;
use super::costs::span;
use crate::world::Ps;

/// Two PCs with TCP/IP between them.
#[derive(Clone, Copy, Debug)]
pub struct TcpConfig {
    pub costs: Pc386Costs,
    /// The cost of a packet at either end, beside its cells and octets, us.
    pub packet: Rational,
    pub line_cell_s: u32,
    pub delay: Ps,
    /// Octets of the longest IP packet.
    pub mtu: u16,
    /// Segments that may be on their way and not acknowledged.
    pub window_segments: u16,
}

/// A broken rule of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpError(&'static str);

impl fmt::Display for TcpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// Octets of IP's and TCP's headers, and of LLC/SNAP before them (RFC 2684).
const HEADERS: u16 = 40;
const LLC_LEN: usize = 8;
const PORT: u16 = 20;
/// Until a receiver acknowledges what is no reason to do so at once.
const ACK_DELAY_MS: u64 = 5;

/// Packets of a PC.
#[derive(Default)]
struct Packets {
    mtu: usize,
    came: Option<Vec<u8>>,
    goes: Vec<Vec<u8>>,
}

struct Received(Vec<u8>);

impl RxToken for Received {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

struct Sends<'a>(&'a mut Vec<Vec<u8>>);

impl TxToken for Sends<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut packet = vec![0; len];
        let result = f(&mut packet);
        self.0.push(packet);
        result
    }
}

impl Device for Packets {
    type RxToken<'a> = Received;
    type TxToken<'a> = Sends<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Received, Sends<'_>)> {
        let packet = self.came.take()?;
        Some((Received(packet), Sends(&mut self.goes)))
    }

    /// One at a time: each takes time before the next.
    fn transmit(&mut self, _: Instant) -> Option<Sends<'_>> {
        self.goes.is_empty().then_some(Sends(&mut self.goes))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = self.mtu;
        capabilities
    }
}

struct Pc {
    interface: Interface,
    sockets: SocketSet<'static>,
    socket: SocketHandle,
    device: Packets,
    at: Ps,
    came: VecDeque<(Ps, Vec<u8>)>,
    free: Ps,
}

fn instant(at: Ps) -> Instant {
    Instant::from_micros((at.ns() / 1_000) as i64)
}

const fn address(pc: usize) -> IpAddress {
    IpAddress::v4(10, 0, 0, 1 + pc as u8)
}

impl Pc {
    fn new(config: &TcpConfig, pc: usize) -> Self {
        let mut device = Packets {
            mtu: config.mtu.into(),
            ..Packets::default()
        };
        let mut of = Config::new(HardwareAddress::Ip);
        of.random_seed = 1 + pc as u64;
        let mut interface = Interface::new(of, &mut device, Instant::ZERO);
        interface.update_ip_addrs(|addresses| {
            // A new interface has room for one.
            let _first = addresses.push(IpCidr::new(address(pc), 24));
        });
        let segment = usize::from(config.mtu - HEADERS);
        let buffer = || SocketBuffer::new(vec![0; segment * usize::from(config.window_segments)]);
        let mut socket = Socket::new(buffer(), buffer());
        socket.set_nagle_enabled(false);
        socket.set_ack_delay(Some(Duration::from_millis(ACK_DELAY_MS)));
        let mut sockets = SocketSet::new(Vec::new());
        Self {
            interface,
            socket: sockets.add(socket),
            sockets,
            device,
            at: Ps::ZERO,
            came: VecDeque::new(),
            free: Ps::ZERO,
        }
    }

    fn socket(&mut self) -> &mut Socket<'static> {
        self.sockets.get_mut(self.socket)
    }

    /// Takes what has come and sends what there is, a packet each at most; whether it did.
    fn step(&mut self, config: &TcpConfig) -> bool {
        let came = self.came.pop_front_if(|(at, _)| *at <= self.at);
        let has_come = came.is_some();
        if let Some((_, packet)) = came {
            self.works(config, packet.len());
            self.device.came = Some(packet);
            let (device, sockets) = (&mut self.device, &mut self.sockets);
            let now = instant(self.at);
            self.interface.poll_ingress_single(now, device, sockets);
        }
        if self.device.goes.is_empty() {
            let (device, sockets) = (&mut self.device, &mut self.sockets);
            self.interface
                .poll_egress(instant(self.at), device, sockets);
        }
        has_come || !self.device.goes.is_empty()
    }

    /// Sends a packet of so many octets: when it is at the other end.
    fn sends(&mut self, config: &TcpConfig, octets: usize) -> Ps {
        self.works(config, octets);
        let cell = Ps::new(1_000_000_000_000 / u64::from(config.line_cell_s.max(1)));
        let all = Ps::new(cell.ps() * Stack::Aal34.cells(LLC_LEN + octets));
        // Its cells have left one by one, as they were made; the last leaves now.
        self.free = self.free.plus(all).max(self.at.plus(cell));
        self.free.plus(config.delay)
    }

    /// The time of a packet of so many octets.
    fn works(&mut self, config: &TcpConfig, octets: usize) {
        let costs = &config.costs;
        let cells = Stack::Aal34.cells(LLC_LEN + octets);
        for work in [
            span(costs.cell, cells),
            span(costs.copy, octets as u64),
            span(config.packet, 1),
        ] {
            self.at = self.at.plus(work);
        }
    }
}

/// Octets that a file transfer over TCP/IP has delivered within `span`, behind `warm`: the stack is
/// smoltcp's, with its framing, acknowledgements and window; the time of its work is the PC's.
///
/// # Errors
/// The transfer stands still, or other octets came than were sent.
pub fn tcp_octets(config: TcpConfig, warm: Ps, span: Ps) -> Result<u64, TcpError> {
    let mut pair = TcpPair::new(config)?;
    pair.until(warm)?;
    let before = pair.octets;
    pair.until(warm.plus(span))?;
    Ok(pair.octets - before)
}

struct TcpPair {
    config: TcpConfig,
    pcs: [Pc; 2],
    sent: u64,
    octets: u64,
}

/// Octet `at` of the file.
fn octet(at: u64) -> u8 {
    (at % 251) as u8
}

impl TcpPair {
    const NO_CONNECTION: TcpError = TcpError("there is no such connection");
    const WRONG: TcpError = TcpError("other octets came than were sent");

    fn new(config: TcpConfig) -> Result<Self, TcpError> {
        let mut pcs = [Pc::new(&config, 0), Pc::new(&config, 1)];
        let [first, second] = &mut pcs;
        let listens = second.socket().listen(PORT);
        listens.map_err(|_| Self::NO_CONNECTION)?;
        let socket = first.sockets.get_mut::<Socket<'_>>(first.socket);
        let to = (address(1), PORT);
        let connects = socket.connect(first.interface.context(), to, 1_024);
        connects.map_err(|_| Self::NO_CONNECTION)?;
        Ok(Self {
            config,
            pcs,
            sent: 0,
            octets: 0,
        })
    }

    fn until(&mut self, end: Ps) -> Result<(), TcpError> {
        while self.pcs.iter().any(|pc| pc.at < end) {
            self.turn()?;
        }
        Ok(())
    }

    /// The PC that is behind does a step, or waits for what comes next.
    fn turn(&mut self) -> Result<(), TcpError> {
        let who = usize::from(self.pcs[1].at < self.pcs[0].at);
        match who {
            0 => self.gives(),
            _ => self.takes()?,
        }
        let config = self.config;
        let pc = &mut self.pcs[who];
        let before = pc.at;
        let has_worked = pc.step(&config);
        let goes = std::mem::take(&mut pc.device.goes);
        for packet in goes {
            let out = self.pcs[who].sends(&config, packet.len());
            self.pcs[1 - who].came.push_back((out, packet));
        }
        if !has_worked {
            let other = self.pcs[1 - who].at;
            let pc = &mut self.pcs[who];
            let due = pc.interface.poll_at(instant(before), &pc.sockets);
            let due = due.map(|due| Ps::from_ns(due.total_micros().max(0) as u64 * 1_000));
            let comes = pc.came.front().map(|(at, _)| *at);
            let next = [due.filter(|due| *due > before), comes];
            let next = next.into_iter().flatten().min().unwrap_or(other);
            let soon = before.plus(Ps::from_ns(100_000));
            pc.at = next.min(soon).max(before.plus(Ps::new(1_000_000)));
        }
        Ok(())
    }

    /// The sender's file goes to its socket as far as there is room.
    fn gives(&mut self) {
        let sent = self.sent;
        let given = self.pcs[0].socket().send(|room| {
            for (to, at) in room.iter_mut().zip(sent..) {
                *to = octet(at);
            }
            (room.len(), room.len() as u64)
        });
        self.sent += given.unwrap_or(0);
    }

    fn takes(&mut self) -> Result<(), TcpError> {
        let from = self.octets;
        let taken = self.pcs[1].socket().recv(|came| {
            let is_right = came.iter().zip(from..).all(|(is, at)| *is == octet(at));
            (came.len(), (came.len() as u64, is_right))
        });
        let (octets, is_right) = taken.unwrap_or((0, true));
        self.octets += octets;
        is_right.then_some(()).ok_or(Self::WRONG)
    }
}
