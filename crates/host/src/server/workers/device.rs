//! Packets from the device to the connection and back (paper 003's network device).
//!
//! ```text
//!  kernel -- read() --> transmit buffer, behind its header -- adapter --> cells
//!  kernel <- write() -- receive buffer, where it lies  <-- adapter --- cells
//! ```
//!
//! One copy each way, which is the kernel's. Nothing allocates while packets move.

use std::io::{self, ErrorKind};
use std::time::Duration;

use cellgate::{Connection, Error, Interest, Refused};
use cellgate_core::upper::{Encapsulation, InAtmArp, Inquiry, Operation, Payload};
use rustix::io::Errno;

use super::counts::Counts;
use super::interrupts::{Bell, Line};
use super::share::Precedence;
use crate::clock::MonotonicClock;
use crate::link::Shown;
use crate::sys::Tun;

/// Packets each way before the other way has its turn.
const BURST: usize = 64;

/// Carries the packets of one device.
pub(super) struct Device<'c> {
    connection: &'c Connection,
    device: &'c Tun,
    encapsulation: Encapsulation,
    max_sdu: usize,
    counts: Counts,
    shown: &'c Shown<Counts>,
    inquiry: Inquiry,
}

/// Why no more is sent for the time being.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Paused {
    /// The other way has its turn.
    Turn,
    /// The kernel sends nothing.
    NoPacket,
    /// The transmit buffer is full, or there is no credit. Packets wait in the device's queue.
    NoRoom,
}

impl<'c> Device<'c> {
    pub(super) fn new(
        connection: &'c Connection,
        device: &'c Tun,
        encapsulation: Encapsulation,
        shown: &'c Shown<Counts>,
    ) -> Result<Self, Error> {
        let max_sdu = connection.transmit_max_sdu().ok_or(Error::DoesNotSend)?;
        connection.receive_max_sdu().ok_or(Error::DoesNotReceive)?;
        // What goes in front of a packet has room, too.
        if encapsulation.mtu_max(max_sdu).is_none() {
            let why = format!("SDUs of {max_sdu} octets are too short for IP");
            return Err(Refused::Unsupported(why).into());
        }
        Ok(Self {
            connection,
            device,
            encapsulation,
            max_sdu: max_sdu.into(),
            counts: Counts::default(),
            shown,
            inquiry: Inquiry::new(MonotonicClock.now()),
        })
    }

    /// Carries packets until the worker is to end.
    pub(super) fn run(&mut self, line: &Line, precedence: Precedence<'_>) -> Result<(), Error> {
        line.watch(self.connection)?;
        line.watch(self.device)?;
        let ended = self.carry(line, precedence);
        line.forget(self.connection);
        line.forget(self.device);
        self.show();
        ended
    }

    fn carry(&mut self, line: &Line, mut precedence: Precedence<'_>) -> Result<(), Error> {
        while !line.bell().stops() {
            precedence.keep();
            self.counts.beyond_share = precedence.beyond();
            let patience = self.ask()?;
            let paused = self.send()?;
            let more = self.receive()?;
            self.show();
            let mut interest = Interest::RECEIVE;
            if paused == Paused::NoRoom {
                interest = interest.or(Interest::send(self.max_sdu));
            }
            if more || paused == Paused::Turn || !self.connection.arm(interest)? {
                continue;
            }
            line.arm(self.connection, true)?;
            line.arm(self.device, paused == Paused::NoPacket)?;
            if line.bell().wait(patience) & Bell::GONE != 0 && self.device.is_removed() {
                return Err(io::Error::other("somebody has removed the network device").into());
            }
        }
        Ok(())
    }

    /// Has others see what was carried.
    fn show(&self) {
        let library = self.connection.counters();
        self.shown.publish(Counts {
            copies: library.send_copies + library.receive_copies,
            dismissed: library.dismissed,
            ..self.counts
        });
    }

    /// From the kernel to the connection, a burst at most.
    fn send(&mut self) -> Result<Paused, Error> {
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
                read => read?,
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
                Err(error) => return Err(error),
            }
        }
        Ok(Paused::Turn)
    }

    /// From the connection to the kernel, a burst at most; whether there may be more.
    fn receive(&mut self) -> Result<bool, Error> {
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

    /// Asks who is at the other end, if it is time to; how long until it is again.
    fn ask(&mut self) -> Result<Option<Duration>, Error> {
        let now = MonotonicClock.now();
        if self.encapsulation.emit_atmarp().is_none() {
            return Ok(None);
        }
        if self.inquiry.is_due(now) {
            // The device may have no address yet.
            if let Some(question) = self.device.ipv4().map(InAtmArp::request) {
                self.counts.asked += u64::from(self.say(&question)?);
            }
            self.inquiry.handle_asked(now);
        }
        let next = self.inquiry.next_deadline();
        Ok(next.map(|next| Duration::from_nanos(next.since_ns(now))))
    }

    /// Learns and answers.
    fn resolve(&mut self, packet: &[u8]) -> Result<(), Error> {
        let Ok(packet) = InAtmArp::parse(packet) else {
            self.counts.bad_inatmarp += 1;
            return Ok(());
        };
        self.counts.resolved += 1;
        if let Some(ip) = packet.sender.ip {
            self.inquiry.handle_told(ip);
        }
        self.counts.peer = self.inquiry.peer();
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
