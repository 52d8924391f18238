//! The writers and readers: processes of their own, each with one connection.

use std::path::PathBuf;

use anyhow::bail;
use cellgate::{Connection, Error, Refused, Resource};
use cellgate_core::Time;
use cellgate_core::contract::aal5_cells;
use cellgate_host::clock::{MonotonicClock, process_cpu_ns};
use cellgate_host::sys::Scheduling;
use serde::{Deserialize, Serialize};

use super::bins::Bins;
use crate::live::actor::{prefer, started};

/// Sources and readers run before what else the machine does.
const NICE: i32 = -10;

/// What was promised in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Promise {
    /// Cells/s.
    pub(super) cell_s: u64,
    /// Octets of each SDU.
    pub(super) sdu: u16,
}

impl Promise {
    /// PDUs of the default jitter class in a credit (paper 003, section 3.2).
    const CREDIT_PDUS: u64 = 10;

    /// The least rate in whole cells that has so many octets/s of SDU.
    pub(super) fn of(octet_s: u64, sdu: u16) -> Self {
        let cells = u64::from(aal5_cells(sdu.into()));
        let cell_s = (octet_s * cells).div_ceil(u64::from(sdu));
        Self { cell_s, sdu }
    }

    /// Octets/s of SDU.
    pub(super) fn octet_s(&self) -> f64 {
        let cells = f64::from(aal5_cells(self.sdu.into()));
        self.cell_s as f64 / cells * f64::from(self.sdu)
    }

    /// Octets of a credit.
    pub(super) fn credit(&self) -> u64 {
        Self::CREDIT_PDUS * u64::from(self.sdu)
    }

    /// The contract that sends so.
    pub(super) fn sends(&self) -> String {
        format!(
            "cbr,aal5:tx:pcr={}cps,max_sdu={},rx:none",
            self.cell_s, self.sdu
        )
    }

    /// The contract that receives so.
    pub(super) fn receives(&self) -> String {
        format!(
            "cbr,aal5:tx:none,rx:pcr={}cps,max_sdu={}",
            self.cell_s, self.sdu
        )
    }
}

/// What an actor is told first.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Begin {
    /// The daemon's control socket.
    pub(super) socket: PathBuf,
    pub(super) address: String,
    pub(super) contract: String,
    /// PDUs that may wait to be read beyond those that the contract needs room for.
    pub(super) receive_pdus: Option<u32>,
    /// For the SDUs' pattern.
    pub(super) number: u32,
    /// Octets of each SDU.
    pub(super) sdu: u16,
    /// Not to be opened before.
    pub(super) open_at: Time,
    /// How the adapter runs.
    pub(super) adapter: Scheduling,
}

/// The result of opening: since when the connection is open.
pub(super) type Opening = Result<Time, NoRoom>;

/// Why a connection could not be opened.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct NoRoom {
    pub(super) text: String,
    pub(super) resource: Resource,
    pub(super) offer: Option<String>,
}

/// What an actor is to do with its connection.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Task {
    /// Where bins begin.
    pub(super) origin: Time,
    /// A writer sends from here ...
    pub(super) begin: Time,
    /// ... to here; a reader reads on until nothing more comes.
    pub(super) end: Time,
}

impl Task {
    /// One that is all that there is to see.
    pub(super) fn new(begin: Time, end: Time) -> Self {
        Self {
            origin: begin,
            begin,
            end,
        }
    }
}

/// What a spinner did in a slice.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Loops {
    pub(super) loops: u64,
    /// CPU time of its process.
    pub(super) cpu_ns: u64,
}

/// What a writer sent, or a reader received.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Done {
    pub(super) pdus: u64,
    pub(super) octets: u64,
    /// By the instant at which they were handed over, or the adapter had handled the last cell.
    pub(super) bins: Bins,
    /// PDUs with a wrong octet.
    pub(super) wrong: u64,
    /// PDUs behind one with a higher number.
    pub(super) reordered: u64,
    /// PDUs beyond credit and tolerance.
    pub(super) dismissed: u64,
    /// From one PDU to the next, at most.
    pub(super) pause_max_ns: u64,
    /// How long the process waited for a CPU, as the kernel counts it.
    pub(super) waited_ns: u64,
    /// CPU time of the process.
    pub(super) cpu_ns: u64,
    /// When the connection was closed.
    pub(super) closed: Time,
}

impl Done {
    pub(super) fn new(task: &Task) -> Self {
        Self {
            pdus: 0,
            octets: 0,
            bins: Bins::new(task.origin, task.end.plus_ns(1_000_000_000)),
            wrong: 0,
            reordered: 0,
            dismissed: 0,
            pause_max_ns: 0,
            waited_ns: 0,
            cpu_ns: 0,
            closed: Time::ZERO,
        }
    }

    /// Counts a PDU.
    pub(super) fn count(&mut self, at: Time, octets: usize) {
        self.pdus += 1;
        self.octets += octets as u64;
        self.bins.add(at, octets);
    }
}

/// The life of an actor: opens its connection, does its task with `act`, closes the connection and
/// tells what it did.
pub(super) fn live(
    name: &str,
    act: impl FnOnce(&Begin, &Connection, &Task) -> anyhow::Result<Done>,
) -> anyhow::Result<()> {
    let (mut mouth, mut ear, begin): (_, _, Begin) = started()?;
    prefer(name, NICE, &begin.adapter);
    super::wait_until(begin.open_at);
    let opened = begin.open()?;
    let opening: Opening = opened
        .as_ref()
        .map(|_| MonotonicClock.now())
        .map_err(NoRoom::clone);
    mouth.say(&opening)?;
    let (Ok(connection), Some(task)) = (opened, ear.hear::<Task>()?) else {
        return Ok(());
    };
    let (cpu, waited) = (process_cpu_ns(), waited_ns());
    let mut done = act(&begin, &connection, &task)?;
    done.cpu_ns = process_cpu_ns() - cpu;
    done.waited_ns = waited_ns() - waited;
    drop(connection);
    done.closed = MonotonicClock.now();
    mouth.say(&done)
}

impl Begin {
    fn open(&self) -> anyhow::Result<Result<Connection, NoRoom>> {
        let mut builder = Connection::builder()
            .socket(&self.socket)
            .address(&self.address)
            .contract(&self.contract);
        if let Some(pdus) = self.receive_pdus {
            builder = builder.receive_pdus(pdus);
        }
        match builder.open() {
            Ok(connection) => Ok(Ok(connection)),
            Err(Error::Refused(Refused::Admission(shortage))) => Ok(Err(NoRoom {
                text: shortage.to_string(),
                resource: shortage.resource,
                offer: shortage.offer,
            })),
            Err(error) => bail!("{}: {error}", self.address),
        }
    }
}

/// How long this thread has waited for a CPU; 0 where the kernel does not tell.
fn waited_ns() -> u64 {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let waited = told.split_ascii_whitespace().nth(1);
    waited.and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_in_whole_cells_is_no_less_than_asked_for() {
        for (octet_s, sdu, cell_s) in [(8_000_000, 8_192, 166_993), (3_000_000, 4_096, 62_989)] {
            let promise = Promise::of(octet_s, sdu);
            assert_eq!(promise.cell_s, cell_s);
            let more = promise.octet_s() - octet_s as f64;
            assert!((0.0..60.0).contains(&more), "{more}");
            assert_eq!(promise.credit(), 10 * u64::from(sdu));
        }
    }
}
