//! What a packet costs the worker of a network device.
//!
//! Linux's TCP/IP runs in whoever hands it a packet. So two devices are made, each in a network
//! namespace of its own, TCP sends from one to the other as fast as it can, and this thread carries
//! the packets as two workers would:
//!
//! ```text
//!  TCP ---> here == data ==> this thread == data ==> there ---> TCP
//!               <= acknowledgements ==     <= acknowledgements ==
//! ```
//!
//! That takes privileges. Without, a socket pair stands for the device, and TCP/IP is not in what
//! is measured.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, channel};
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

use cellgate_core::contract::aal5_cells;
use cellgate_core::server::{Direction, Sample};
use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::io::{read, write};

use crate::clock::thread_cpu_ns;
use crate::control::pair;
use crate::sys::{Tun, TunKind, own_network_namespace};

/// Octets of the packets: short, common, an Ethernet frame's worth, RFC 2225's.
const PACKETS: [u16; 4] = [128, 576, 1_500, 9_180];
/// Slices of each size, and packets of a slice: some 10 ms a size.
const SLICES: usize = 25;
const SLICE_PACKETS: u32 = 32;
/// The first slices fill caches, and find out how fast TCP may send.
const SLICES_BEFORE: usize = 3;
/// Packets of one way before the other has its turn.
const BURST: usize = 32;
/// No packet for so long: TCP does not work here.
const PATIENCE: Duration = Duration::from_secs(1);

const SENDS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const RECEIVES: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const PREFIX: u8 = 30;
const PORT: u16 = 9;

/// Whether this process may make network devices in a namespace of their own. They go with their
/// thread.
pub(super) fn has_devices() -> bool {
    let made = spawn(|| {
        own_network_namespace()?;
        Tun::open("cg%d", TunKind::Routed)
    });
    matches!(made.join(), Ok(Ok(_)))
}

/// Measures; why TCP/IP is not in it, if it is not.
///
/// # Errors
/// The kernel refuses even sockets.
pub(super) fn measure() -> io::Result<(Vec<Sample>, Option<io::Error>)> {
    let of_tcp: io::Result<Vec<_>> = PACKETS.into_iter().map(of_tcp).collect();
    match of_tcp {
        Ok(samples) => Ok((samples.concat(), None)),
        Err(error) => Ok((of_sockets()?, Some(error))),
    }
}

/// Of TCP that sends packets of `len` octets.
fn of_tcp(len: u16) -> io::Result<Vec<Sample>> {
    let there = End::start(RECEIVES, len)?;
    let here = End::start(SENDS, len);
    let samples = match &here {
        Ok(here) => carry(&here.device, &there.device, len),
        Err(_) => Ok(Vec::new()),
    };
    there.end();
    here?.end();
    samples
}

/// A device, and who talks TCP behind it.
struct End {
    device: Tun,
    stream: Receiver<TcpStream>,
    thread: JoinHandle<io::Result<()>>,
}

impl End {
    fn start(address: Ipv4Addr, mtu: u16) -> io::Result<Self> {
        let ((devices, made), (streams, stream)) = (channel(), channel());
        let gone = |_| io::Error::from(ErrorKind::BrokenPipe);
        let thread = spawn(move || {
            own_network_namespace()?;
            let device = Tun::open("cg%d", TunKind::Routed)?;
            device.set_mtu(mtu)?;
            device.set_address(IpAddr::V4(address), PREFIX)?;
            device.set_up()?;
            let mut octets = vec![1; 65_536];
            if address == SENDS {
                devices.send(device).map_err(gone)?;
                let to = SocketAddr::from((RECEIVES, PORT));
                let mut stream = TcpStream::connect_timeout(&to, PATIENCE)?;
                // Whoever has not heard of the stream cannot end it.
                stream.set_write_timeout(Some(PATIENCE))?;
                streams
                    .send(stream.try_clone()?)
                    .map_err(|_| ErrorKind::BrokenPipe)?;
                loop {
                    stream.write_all(&octets)?;
                }
            }
            let listener = TcpListener::bind((RECEIVES, PORT))?;
            devices.send(device).map_err(gone)?;
            wait_for(&[&listener])?;
            let (mut stream, _) = listener.accept()?;
            stream.set_read_timeout(Some(PATIENCE))?;
            streams
                .send(stream.try_clone()?)
                .map_err(|_| ErrorKind::BrokenPipe)?;
            while stream.read(&mut octets)? > 0 {}
            Ok(())
        });
        match made.recv() {
            Ok(device) => Ok(Self {
                device,
                stream,
                thread,
            }),
            Err(_) => match thread.join() {
                Ok(Err(error)) => Err(error),
                _ => Err(ErrorKind::BrokenPipe.into()),
            },
        }
    }
}

impl End {
    /// Waits until nothing is left of it.
    fn end(self) {
        // There is none where nobody was connected.
        if let Ok(stream) = self.stream.try_recv() {
            // It fails where the other end was faster.
            let _ = stream.shutdown(Shutdown::Both);
        }
        // Its error is that of the connection's end.
        let _ = self.thread.join();
    }
}

/// Carries packets. Reading one, and handing over its acknowledgement, upon which TCP sends more,
/// is transmitting; handing one over is receiving.
fn carry(here: &Tun, there: &Tun, len: u16) -> io::Result<Vec<Sample>> {
    let mut burst = Burst::new(len);
    let mut samples = Vec::with_capacity(2 * SLICES);
    for slice in 0..SLICES_BEFORE + SLICES {
        let (mut packets, mut transmit_ns, mut receive_ns) = (0, 0, 0);
        while packets < SLICE_PACKETS {
            let from = thread_cpu_ns();
            let data = burst.take(here)?;
            let taken = thread_cpu_ns();
            burst.give(there)?;
            let given = thread_cpu_ns();
            let none = burst.lens.is_empty();
            burst.take(there)?;
            burst.give(here)?;
            if none && burst.lens.is_empty() {
                wait_for(&[here, there])?;
            }
            packets += data;
            transmit_ns += taken - from + thread_cpu_ns() - given;
            receive_ns += given - taken;
        }
        if slice >= SLICES_BEFORE {
            let both = [
                (Direction::Transmit, transmit_ns),
                (Direction::Receive, receive_ns),
            ];
            samples.extend(both.map(|(direction, ns)| sample(direction, len, packets, ns)));
        }
    }
    Ok(samples)
}

/// Packets on their way.
struct Burst {
    mtu: usize,
    octets: Vec<u8>,
    lens: Vec<usize>,
}

impl Burst {
    fn new(mtu: u16) -> Self {
        let mtu = mtu.into();
        Self {
            mtu,
            octets: vec![0; BURST * mtu],
            lens: Vec::with_capacity(BURST),
        }
    }

    /// Takes what a device has; how many of them are full.
    fn take(&mut self, from: &Tun) -> io::Result<u32> {
        self.lens.clear();
        let mut full = 0;
        for packet in self.octets.chunks_exact_mut(self.mtu) {
            match from.read(packet) {
                Ok(len) => {
                    full += u32::from(len >= self.mtu / 2);
                    self.lens.push(len.min(self.mtu));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(full)
    }

    fn give(&self, to: &Tun) -> io::Result<()> {
        let packets = self.octets.chunks_exact(self.mtu).zip(&self.lens);
        packets
            .into_iter()
            .try_for_each(|(packet, len)| to.write(&packet[..*len]))
    }
}

fn wait_for(any: &[&dyn AsFd]) -> io::Result<()> {
    let borrowed = any
        .iter()
        .map(|fd| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN));
    let mut fds: Vec<_> = borrowed.collect();
    let patience = Timespec {
        tv_sec: PATIENCE.as_secs().cast_signed(),
        tv_nsec: 0,
    };
    match poll(&mut fds, Some(&patience))? {
        0 => Err(ErrorKind::TimedOut.into()),
        _ => Ok(()),
    }
}

/// The kernel's copy in and out, and being woken for each.
fn of_sockets() -> io::Result<Vec<Sample>> {
    let (mine, theirs) = pair()?;
    let watch = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let data = epoll::EventData::new_u64(0);
    let flags = epoll::EventFlags::IN | epoll::EventFlags::ONESHOT;
    epoll::add(&watch, &theirs, data, flags)?;
    let mut events = Vec::with_capacity(1);
    let mut samples = Vec::with_capacity(PACKETS.len() * 2 * SLICES);
    for len in PACKETS {
        let (packet, mut buffer) = (vec![1; len.into()], vec![0; len.into()]);
        for slice in 0..SLICES_BEFORE + SLICES {
            let from = thread_cpu_ns();
            for _ in 0..SLICE_PACKETS {
                write(&mine, &packet)?;
                epoll::modify(&watch, &theirs, data, flags)?;
                events.clear();
                epoll::wait(&watch, spare_capacity(&mut events), None)?;
                read(&theirs, &mut buffer[..])?;
            }
            let ns = thread_cpu_ns() - from;
            if slice >= SLICES_BEFORE {
                let both = [Direction::Transmit, Direction::Receive];
                samples.extend(both.map(|direction| sample(direction, len, SLICE_PACKETS, ns)));
            }
        }
    }
    Ok(samples)
}

fn sample(direction: Direction, len: u16, packets: u32, ns: u64) -> Sample {
    Sample {
        direction,
        sdu: len.into(),
        cells: u64::from(packets * aal5_cells(len.into())),
        pdus: packets.into(),
        ns: ns.max(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cellgate_core::server::CpuLaw;

    fn charges_for_packets(samples: &[Sample]) -> CpuLaw {
        let law = CpuLaw::fit(samples, 25).unwrap();
        for direction in [Direction::Transmit, Direction::Receive] {
            let cost = |cells| law.reserve_ppm(direction, 100_000, cells);
            assert!(cost(1) > 2 * cost(32), "a packet costs more than its cells");
            assert!(cost(32) > 0);
        }
        law
    }

    #[test]
    fn sockets_charge_for_packets() {
        charges_for_packets(&of_sockets().unwrap());
    }

    #[test]
    fn what_tcp_costs_is_measured_where_devices_may_be_made() {
        let (samples, without) = measure().unwrap();
        let law = charges_for_packets(&samples);
        assert_eq!(samples.len(), PACKETS.len() * 2 * SLICES);
        match without {
            None => println!("ran calibration_tcp {:?}", law.expected),
            Some(error) => println!("skipped calibration_tcp: {error}"),
        }
    }
}
