//! The other process: it answers SDUs, or takes them.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::process::Child;
use std::rc::Rc;

use anyhow::{Context, bail, ensure};
use cellgate_host::clock::MonotonicClock;
use cellgate_host::sys::{die_with_parent, pin_thread};
use cellgate_shm::socket::{self, MESSAGE_MAX, Received};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::endpoint::{Arrival, Endpoint};
use super::ends::{Descriptors, Ends, Size};
use super::kind::Kind;
use crate::bench::cpus::be_prompt;
use crate::live::actor::Role;
use crate::live::sdu::Mark;

/// What the other process is told.
#[derive(Serialize, Deserialize)]
pub(super) enum Job {
    /// To open its ends for SDUs of another size.
    Open(Size),
    /// To send back what comes.
    Answer(Turn),
    /// To read what comes; where there is a window, it sends an SDU of one octet back for each
    /// quarter of it.
    Take { turn: Turn, window: Option<usize> },
}

/// A part of one job.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct Turn {
    pub(super) kind: Kind,
    pub(super) cpu: usize,
    pub(super) len: usize,
    pub(super) count: usize,
}

/// What the other process did.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct Done {
    pub(super) received: u64,
    pub(super) wrong: u64,
    /// When it had read the last, `CLOCK_MONOTONIC`.
    pub(super) end_ns: u64,
}

/// The socket between the two.
struct Line {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

impl Line {
    fn new(socket: OwnedFd) -> Self {
        let buffer = vec![0; MESSAGE_MAX];
        Self { socket, buffer }
    }

    fn tell(&self, message: &impl Serialize, fds: &[BorrowedFd<'_>]) -> anyhow::Result<()> {
        Ok(socket::send(
            &self.socket,
            &serde_json::to_vec(message)?,
            fds,
            true,
        )?)
    }

    /// None: the other is gone.
    fn hear<T: DeserializeOwned>(&mut self) -> anyhow::Result<Option<(T, Vec<OwnedFd>)>> {
        match socket::receive(&self.socket, &mut self.buffer, true)? {
            Received::Message(len, fds) => {
                Ok(Some((serde_json::from_slice(&self.buffer[..len])?, fds)))
            }
            Received::TooLong(_) => bail!("a message that is too long"),
            Received::Closed(_) => Ok(None),
        }
    }
}

/// The other process, as the bench sees it.
pub(super) struct Partner {
    child: Child,
    /// None only while it is dropped.
    line: Option<Line>,
}

impl Partner {
    pub(super) fn start(descriptors: &Descriptors) -> anyhow::Result<Self> {
        let (mine, its) = socket::pair()?;
        let child = Role::Partner.program()?.stdin(its).spawn()?;
        let line = Line::new(mine);
        line.tell(&std::process::id(), &descriptors.all())?;
        let line = Some(line);
        Ok(Self { child, line })
    }

    /// Has it begin; it is ready when this returns.
    pub(super) fn begin(&mut self, job: &Job) -> anyhow::Result<()> {
        self.line()?.tell(job, &[])?;
        self.done().map(|_| ())
    }

    /// What it did.
    pub(super) fn done(&mut self) -> anyhow::Result<Done> {
        let heard = self.line()?.hear()?;
        Ok(heard.context("the other process has failed")?.0)
    }

    fn line(&mut self) -> anyhow::Result<&mut Line> {
        self.line.as_mut().context("it was told to end")
    }
}

impl Drop for Partner {
    fn drop(&mut self) {
        self.line = None;
        // One that has ended cannot be killed, and is waited for all the same.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the other process does until it is told no more.
pub(crate) fn run() -> anyhow::Result<()> {
    let mut line = Line::new(socket::take_stdin()?);
    let (parent, fds) = line.hear()?.context("nobody there")?;
    die_with_parent(parent)?;
    // The bench tells what cannot be had.
    let _ = be_prompt();
    let descriptors = Rc::new(Descriptors::of(fds)?);
    let mut ends: Option<Ends> = None;
    while let Some((job, _)) = line.hear()? {
        let (turn, window) = match job {
            Job::Open(size) => {
                ends = Some(Ends::open(&size, true, Rc::clone(&descriptors))?);
                line.tell(&Done::default(), &[])?;
                continue;
            }
            Job::Answer(turn) => (turn, None),
            Job::Take { turn, window } => (turn, Some(window)),
        };
        pin_thread(turn.cpu)?;
        let ends = ends.as_ref().context("nothing is open")?;
        let mut endpoint = ends.endpoint(turn.kind);
        line.tell(&Done::default(), &[])?;
        let done = match window {
            None => answer(&mut *endpoint, &turn)?,
            Some(window) => take(&mut *endpoint, &turn, window)?,
        };
        line.tell(&done, &[])?;
    }
    Ok(())
}

fn answer(endpoint: &mut dyn Endpoint, turn: &Turn) -> anyhow::Result<Done> {
    let mut done = Done::default();
    for i in 0..turn.count {
        match endpoint.receive(turn.len)? {
            Arrival::Whole(_) => done.received += 1,
            Arrival::Wrong => done.wrong += 1,
            Arrival::Nothing => bail!("{}: SDU {i} did not arrive", turn.kind.name()),
        }
        endpoint.send(turn.len, Mark::of(i))?;
    }
    Ok(done)
}

fn take(endpoint: &mut dyn Endpoint, turn: &Turn, window: Option<usize>) -> anyhow::Result<Done> {
    let may_lose = turn.kind.may_lose();
    let mut done = Done::default();
    for i in 1.. {
        match endpoint.receive(turn.len)? {
            Arrival::Whole(Mark::END) | Arrival::Nothing => break,
            Arrival::Whole(_) => done.received += 1,
            Arrival::Wrong => done.wrong += 1,
        }
        let last = !may_lose && i == turn.count;
        if last || may_lose {
            done.end_ns = MonotonicClock.now().ns();
        }
        if window.is_some_and(|window| i % (window / 4) == 0) {
            endpoint.send(1, Mark::of(i))?;
        }
        if last {
            break;
        }
    }
    ensure!(
        may_lose || done.received + done.wrong == turn.count as u64,
        "{}: {} of {} SDUs arrived",
        turn.kind.name(),
        done.received,
        turn.count
    );
    Ok(done)
}
