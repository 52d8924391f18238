//! Packets from the device to the connection and back (paper 003's network device).
//!
//! ```text
//!  kernel -- read() --> transmit ring, behind its header -- adapter --> cells
//!  kernel <- write() -- receive buffer, where it lies  <-- adapter --- cells
//! ```
//!
//! One copy each way, which is the kernel's. Nothing allocates while packets move.

use std::io::{self, ErrorKind};

use anyhow::{Context, bail};
use cellgate::{Connection, Error, Interest};
use cellgate_core::upper::{Encapsulation, InAtmArp, Operation, Payload};
use cellgate_host::sys::{Heard, Signals, Tun};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::counts::Counts;

/// Packets each way before the other way has its turn.
const BURST: usize = 64;

pub(super) struct Worker<'c> {
    connection: &'c Connection,
    device: &'c Tun,
    encapsulation: Encapsulation,
    max_sdu: usize,
    counts: Counts,
}

/// Why no more is sent for the time being.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Paused {
    /// The other way has its turn.
    Turn,
    /// The kernel sends nothing.
    NoPacket,
    /// The transmit ring is full, or there is no credit. Packets wait in the device's queue.
    NoRoom,
}

impl<'c> Worker<'c> {
    pub(super) fn new(
        connection: &'c Connection,
        device: &'c Tun,
        encapsulation: Encapsulation,
    ) -> Result<Self, Error> {
        let max_sdu = connection.transmit_max_sdu().ok_or(Error::DoesNotSend)?;
        Ok(Self {
            connection,
            device,
            encapsulation,
            max_sdu: max_sdu.into(),
            counts: Counts::default(),
        })
    }

    /// What was carried.
    pub(super) fn counts(&self) -> Counts {
        let library = self.connection.counters();
        Counts {
            copies: library.send_copies + library.receive_copies,
            dismissed: library.dismissed,
            ..self.counts
        }
    }

    /// Carries packets until somebody wants the command to end.
    pub(super) fn run(&mut self, signals: &Signals) -> anyhow::Result<()> {
        self.ask()?;
        loop {
            let paused = self.send()?;
            let more = self.receive()?;
            let mut interest = Interest::RECEIVE;
            let mut packets = PollFlags::IN;
            if paused == Paused::NoRoom {
                interest = interest.or(Interest::send(self.max_sdu));
                packets = PollFlags::empty();
            }
            let busy = more || paused == Paused::Turn;
            let waits = !busy && self.connection.arm(interest)?;
            if self.ended(signals, packets, waits)? {
                return Ok(());
            }
        }
    }

    /// Waits for something to do, if it is to; whether somebody wants the command to end.
    fn ended(&self, signals: &Signals, packets: PollFlags, waits: bool) -> anyhow::Result<bool> {
        let at_once = Timespec::default();
        let timeout = if waits { None } else { Some(&at_once) };
        let mut fds = [
            PollFd::new(signals, PollFlags::IN),
            PollFd::new(self.connection, PollFlags::IN),
            PollFd::new(self.device, packets),
        ];
        match poll(&mut fds, timeout) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error).context("poll"),
        }
        let [signal, _, device] = fds.map(|fd| fd.revents());
        if device.contains(PollFlags::ERR) {
            bail!("somebody has removed the network device");
        }
        let asks = |heard: &Heard| *heard != Heard::Child;
        Ok(!signal.is_empty() && signals.heard().iter().any(asks))
    }

    /// From the kernel to the connection, a burst at most.
    fn send(&mut self) -> anyhow::Result<Paused> {
        let headroom = self.encapsulation.headroom();
        for _ in 0..BURST {
            let mut space = match self.connection.try_reserve(self.max_sdu) {
                Err(Error::WouldBlock(_)) => return Ok(Paused::NoRoom),
                space => space?,
            };
            let (header, packet) = space.split_at_mut(headroom);
            let read = match self.device.read(packet) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    space.truncate(0);
                    return Ok(Paused::NoPacket);
                }
                read => read.context("reading from the network device")?,
            };
            let Some(packet) = packet.get(..read) else {
                self.counts.too_long += 1;
                space.truncate(0);
                continue;
            };
            match self.encapsulation.emit(packet) {
                Ok(octets) => header.copy_from_slice(&octets),
                Err(misfit) => {
                    self.counts.unsent_misfits.add(misfit);
                    space.truncate(0);
                    continue;
                }
            }
            space.truncate(headroom + read);
            match space.submit() {
                Ok(()) => self.counts.sent += 1,
                Err(Error::SpaceLost) => self.counts.memory_renewed += 1,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Paused::Turn)
    }

    /// From the connection to the kernel, a burst at most; whether there may be more.
    fn receive(&mut self) -> anyhow::Result<bool> {
        for _ in 0..BURST {
            let pdu = match self.connection.try_next_pdu() {
                Err(Error::WouldBlock(_)) => return Ok(false),
                pdu => pdu?,
            };
            match self.encapsulation.parse(&pdu) {
                Ok(Payload::Packet(packet)) => self.deliver(packet)?,
                Ok(Payload::Atmarp(packet)) => self.resolve(packet)?,
                Err(misfit) => self.counts.misfits.add(misfit),
            }
        }
        Ok(true)
    }

    fn deliver(&mut self, packet: &[u8]) -> io::Result<()> {
        let Err(error) = self.device.write(packet) else {
            self.counts.received += 1;
            return Ok(());
        };
        match Errno::from_io_error(&error) {
            _ if Tun::is_gone(&error) => return Err(error),
            Some(Errno::IO) => self.counts.device_down += 1,
            Some(Errno::INVAL) => self.counts.device_refused += 1,
            _ => self.counts.device_full += 1,
        }
        Ok(())
    }

    /// Asks who is at the other end, once: who comes later asks in its turn, and so tells.
    fn ask(&mut self) -> Result<(), Error> {
        let ip = self.device.ipv4();
        if let Some(question) = ip.map(InAtmArp::request) {
            self.counts.asked += u64::from(self.say(&question)?);
        }
        Ok(())
    }

    /// Learns and answers.
    fn resolve(&mut self, packet: &[u8]) -> Result<(), Error> {
        let Ok(packet) = InAtmArp::parse(packet) else {
            self.counts.bad_inatmarp += 1;
            return Ok(());
        };
        self.counts.resolved += 1;
        self.counts.peer = packet.sender.ip.or(self.counts.peer);
        if packet.operation == Operation::Request {
            let answer = self.device.ipv4().and_then(|ip| packet.answer(ip));
            let said = match answer {
                Some(answer) => self.say(&answer)?,
                None => false,
            };
            match said {
                true => self.counts.answered += 1,
                false => self.counts.unanswered += 1,
            }
        }
        Ok(())
    }

    /// Sends an InATMARP packet; `false` if it cannot be at once, or at all.
    fn say(&self, packet: &InAtmArp) -> Result<bool, Error> {
        let Some(header) = self.encapsulation.emit_atmarp() else {
            return Ok(false);
        };
        let packet = packet.emit();
        let mut space = match self.connection.try_reserve(header.len() + packet.len()) {
            Err(Error::WouldBlock(_) | Error::TooLong { .. }) => return Ok(false),
            space => space?,
        };
        let (front, rest) = space.split_at_mut(header.len());
        front.copy_from_slice(&header);
        rest.copy_from_slice(&packet);
        match space.submit() {
            Err(Error::SpaceLost) => Ok(false),
            said => said.map(|()| true),
        }
    }
}
