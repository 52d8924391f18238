//! One end of each way to carry SDUs, as an application uses it.

use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use cellgate::{Connection, Error};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::kind::Waits;
use crate::live::sdu::Mark;

/// How long somebody waits for an SDU before it counts as lost.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

/// What a receiver got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    Whole(Mark),
    /// Other octets than were sent.
    Wrong,
    /// Nothing within [`PATIENCE`].
    Nothing,
}

impl Arrival {
    pub(super) fn of(sdu: &[u8], len: usize) -> Self {
        Mark::read(sdu, len).map_or(Self::Wrong, Self::Whole)
    }
}

/// One end. Both calls wait in the endpoint's way.
pub(super) trait Endpoint {
    /// Writes an SDU of `len` octets, and sends it.
    fn send(&mut self, len: usize, mark: Mark) -> anyhow::Result<()>;

    /// Receives an SDU, and reads it.
    fn receive(&mut self, len: usize) -> anyhow::Result<Arrival>;
}

/// Tries until it does not block; none: not within [`PATIENCE`].
pub(super) fn poll<T, E>(
    waits: Waits,
    mut attempt: impl FnMut() -> Result<T, E>,
    blocks: impl Fn(&E) -> bool,
) -> Result<Option<T>, E> {
    let mut deadline = None;
    for i in 1_u64.. {
        match attempt() {
            Err(error) if blocks(&error) => {}
            done => return done.map(Some),
        }
        match waits {
            Waits::Yielding => rustix::thread::sched_yield(),
            Waits::Spinning | Waits::Sleeping => std::hint::spin_loop(),
        }
        if i % 1_024 == 0 {
            let deadline = *deadline.get_or_insert_with(|| Instant::now() + PATIENCE);
            if Instant::now() > deadline {
                break;
            }
        }
    }
    Ok(None)
}

/// A connection of this project each way.
#[derive(Clone)]
pub(super) struct Ways {
    pub(super) out: Rc<Connection>,
    pub(super) into: Rc<Connection>,
}

/// Both, as they are used.
pub(super) struct Cellgate {
    ways: Ways,
    in_place: bool,
    waits: Waits,
    buffer: Vec<u8>,
}

impl Cellgate {
    pub(super) fn new(ways: Ways, in_place: bool, waits: Waits) -> Self {
        Self {
            ways,
            in_place,
            waits,
            buffer: vec![0; usize::from(u16::MAX)],
        }
    }
}

fn polled<T>(waits: Waits, attempt: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
    poll(waits, attempt, Error::is_would_block)?.ok_or(Error::TimedOut)
}

impl Endpoint for Cellgate {
    fn send(&mut self, len: usize, mark: Mark) -> anyhow::Result<()> {
        let (connection, waits) = (&self.ways.out, self.waits);
        if self.in_place {
            let mut space = match waits {
                Waits::Sleeping => connection.reserve_timeout(len, PATIENCE),
                _ => polled(waits, || connection.try_reserve(len)),
            }?;
            mark.fill(&mut space);
            space.submit()?;
        } else {
            let sdu = &mut self.buffer[..len];
            mark.fill(sdu);
            match waits {
                Waits::Sleeping => connection.send_timeout(sdu, PATIENCE),
                _ => polled(waits, || connection.try_send(sdu)),
            }?;
        }
        Ok(())
    }

    fn receive(&mut self, len: usize) -> anyhow::Result<Arrival> {
        let (connection, waits) = (&self.ways.into, self.waits);
        let arrival = if self.in_place {
            let pdu = match waits {
                Waits::Sleeping => connection.next_pdu_timeout(PATIENCE),
                _ => polled(waits, || connection.try_next_pdu()),
            };
            pdu.map(|pdu| Arrival::of(&pdu, len))
        } else {
            let buffer = &mut self.buffer;
            let received = match waits {
                Waits::Sleeping => connection.recv_timeout(buffer, PATIENCE),
                _ => polled(waits, || connection.try_recv(buffer)),
            };
            received.map(|received| Arrival::of(&buffer[..received.len], len))
        };
        match arrival {
            Err(Error::TimedOut) => Ok(Arrival::Nothing),
            arrival => Ok(arrival?),
        }
    }
}

/// A socket of the kernel that keeps messages apart.
pub(super) struct Messages {
    fd: Rc<OwnedFd>,
    waits: Waits,
    buffer: Vec<u8>,
}

impl Messages {
    /// `fd` gives up after [`PATIENCE`] by itself.
    pub(super) fn new(fd: Rc<OwnedFd>, waits: Waits) -> Self {
        let buffer = vec![0; usize::from(u16::MAX)];
        Self { fd, waits, buffer }
    }

    fn wait<T>(
        waits: Waits,
        mut call: impl FnMut(bool) -> rustix::io::Result<T>,
    ) -> rustix::io::Result<Option<T>> {
        match waits {
            Waits::Sleeping => match call(true) {
                Err(Errno::AGAIN) => Ok(None),
                done => done.map(Some),
            },
            _ => poll(waits, || call(false), |errno| *errno == Errno::AGAIN),
        }
    }
}

impl Endpoint for Messages {
    fn send(&mut self, len: usize, mark: Mark) -> anyhow::Result<()> {
        let sdu = &mut self.buffer[..len];
        mark.fill(sdu);
        let sent = Self::wait(self.waits, |wait| {
            let mut flags = SendFlags::NOSIGNAL;
            flags.set(SendFlags::DONTWAIT, !wait);
            send(&self.fd, sdu, flags)
        })?;
        anyhow::ensure!(sent == Some(len), "an SDU was not sent");
        Ok(())
    }

    fn receive(&mut self, len: usize) -> anyhow::Result<Arrival> {
        let buffer = &mut self.buffer[..];
        let received = Self::wait(self.waits, |wait| {
            let mut flags = RecvFlags::empty();
            flags.set(RecvFlags::DONTWAIT, !wait);
            recv(&self.fd, &mut *buffer, flags).map(|(got, _)| got)
        })?;
        Ok(received.map_or(Arrival::Nothing, |got| {
            Arrival::of(&self.buffer[..got], len)
        }))
    }
}

/// Two event descriptors: a wake-up each way.
pub(super) struct Events {
    pub(super) out: Rc<OwnedFd>,
    pub(super) into: Rc<OwnedFd>,
}

impl Endpoint for Events {
    fn send(&mut self, _len: usize, _mark: Mark) -> anyhow::Result<()> {
        rustix::io::write(&self.out, &1_u64.to_ne_bytes())?;
        Ok(())
    }

    fn receive(&mut self, _len: usize) -> anyhow::Result<Arrival> {
        rustix::io::read(&self.into, &mut [0; 8])?;
        Ok(Arrival::Whole(Mark::of(0)))
    }
}
