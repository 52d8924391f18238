//! A reader that checks every octet.

use std::time::Duration;

use cellgate::{Connection, Error};
use cellgate_host::clock::MonotonicClock;

use super::actor::{Begin, Done, Task, live};
use super::writer::all_sent;
use crate::live::sdu::check;

/// From the last PDU to the end of reading.
pub(super) const SILENCE: Duration = Duration::from_millis(300);

pub(crate) fn run() -> anyhow::Result<()> {
    live("cg-reader", read)
}

fn read(begin: &Begin, connection: &Connection, task: &Task) -> anyhow::Result<Done> {
    let mut done = Done::new(task);
    let mut due = 0;
    let mut last = MonotonicClock.now();
    loop {
        match connection.next_pdu_timeout(SILENCE) {
            Ok(pdu) => {
                let found = check(&pdu).filter(|found| found.is_whole);
                let number = found.filter(|found| found.name.flow == begin.number);
                match number.map(|found| found.name.number) {
                    Some(number) if number >= due => due = number + 1,
                    Some(_) => done.reordered += 1,
                    None => done.wrong += 1,
                }
                done.count(pdu.received().time, pdu.len());
            }
            Err(Error::TimedOut) if MonotonicClock.now() < task.end => {}
            Err(Error::TimedOut) => break,
            Err(error) => return Err(error.into()),
        }
        let now = MonotonicClock.now();
        if now >= all_sent(task) {
            break;
        }
        if now < task.end {
            done.pause_max_ns = done.pause_max_ns.max(now.since_ns(last));
        }
        last = now;
    }
    done.dismissed = connection.dismissed();
    Ok(done)
}
