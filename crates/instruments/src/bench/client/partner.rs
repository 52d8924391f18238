//! The other process: it answers SDUs, or takes them.

use std::rc::Rc;

use anyhow::{Context, bail, ensure};
use cellgate_host::clock::MonotonicClock;
use cellgate_host::sys::pin_thread;
use cellgate_shm::socket::{self, MESSAGE_MAX, Received};
use serde::{Deserialize, Serialize};

use super::endpoint::{Arrival, Endpoint};
use super::ends::{Descriptors, Ends, Size};
use super::kind::Kind;
use crate::bench::cpus::be_prompt;
use crate::live::actor::{Actor, Role, started};
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

/// The other process, as the bench sees it.
pub(super) struct Partner(Actor);

impl Partner {
    pub(super) fn start(descriptors: &Descriptors) -> anyhow::Result<Self> {
        let (mine, its) = socket::pair()?;
        let actor = Actor::start(Role::Partner, its, &())?;
        socket::send(&mine, b"descriptors", &descriptors.all(), true)?;
        Ok(Self(actor))
    }

    /// Has it begin; it is ready when this returns.
    pub(super) fn begin(&mut self, job: &Job) -> anyhow::Result<()> {
        self.0.say(job)?;
        self.done().map(|_| ())
    }

    /// What it did.
    pub(super) fn done(&mut self) -> anyhow::Result<Done> {
        self.0.hear()
    }
}

/// What the other process does until it is told no more.
pub(crate) fn run() -> anyhow::Result<()> {
    let (mut mouth, mut ear, ()) = started()?;
    // The bench tells what cannot be had.
    let _ = be_prompt();
    let given = socket::receive(socket::take_stdin()?, &mut [0; MESSAGE_MAX], true)?;
    let Received::Message(_, fds) = given else {
        bail!("no descriptors");
    };
    let descriptors = Rc::new(Descriptors::of(fds)?);
    let mut ends: Option<Ends> = None;
    while let Some(job) = ear.hear()? {
        let (turn, window) = match job {
            Job::Open(size) => {
                ends = Some(Ends::open(&size, true, Rc::clone(&descriptors))?);
                mouth.say(&Done::default())?;
                continue;
            }
            Job::Answer(turn) => (turn, None),
            Job::Take { turn, window } => (turn, Some(window)),
        };
        pin_thread(turn.cpu)?;
        let ends = ends.as_ref().context("nothing is open")?;
        let mut endpoint = ends.endpoint(turn.kind);
        mouth.say(&Done::default())?;
        let done = match window {
            None => answer(&mut *endpoint, &turn)?,
            Some(window) => take(&mut *endpoint, &turn, window)?,
        };
        mouth.say(&done)?;
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
