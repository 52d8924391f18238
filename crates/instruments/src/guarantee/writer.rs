//! A writer that sends as fast as it can get.

use std::time::Duration;

use cellgate::{Connection, Error};
use cellgate_core::Time;
use cellgate_host::clock::MonotonicClock;

use super::actor::{Begin, Done, Task, live};
use super::wait_until;
use crate::live::sdu::{Name, fill};

/// How long what was sent may take to leave.
const PATIENCE: Duration = Duration::from_secs(2);

pub(crate) fn run() -> anyhow::Result<()> {
    live("cg-writer", write)
}

fn write(begin: &Begin, connection: &Connection, task: &Task) -> anyhow::Result<Done> {
    let mut done = Done::new(task);
    wait_until(task.begin);
    let mut last = MonotonicClock.now();
    loop {
        let now = MonotonicClock.now();
        if now >= task.end {
            break;
        }
        let left = Duration::from_nanos(task.end.since_ns(now));
        let mut space = match connection.reserve_timeout(begin.sdu.into(), left) {
            Ok(space) => space,
            Err(Error::TimedOut) => break,
            Err(error) => return Err(error.into()),
        };
        let name = Name {
            flow: begin.number,
            number: done.pdus,
        };
        fill(&mut space, name, now);
        space.submit()?;
        let now = MonotonicClock.now();
        done.count(now, begin.sdu.into());
        done.pause_max_ns = done.pause_max_ns.max(now.since_ns(last));
        last = now;
    }
    match connection.flush(PATIENCE) {
        // Best effort may get nothing for as long as others ask for everything.
        Ok(()) | Err(Error::TimedOut) => Ok(done),
        Err(error) => Err(error.into()),
    }
}

/// For a reader: when nothing of a task that ended is on its way any more.
pub(super) fn all_sent(task: &Task) -> Time {
    task.end.plus_ns(PATIENCE.as_nanos() as u64)
}
