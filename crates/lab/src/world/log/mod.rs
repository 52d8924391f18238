//! What nodes write down of a run, and how it adds up. The log is all that is judged.

mod pdu_counts;
mod promises;
mod report;

use cellgate_core::contract::CellRate;

use super::marks::Seen;
use super::oracle::Audit;
use super::plan::Plan;
use super::{Ps, Violation};
use pdu_counts::PduCounts;
use promises::Promises;

pub(crate) use report::{HostReport, LineReport, PortReport, Report, StreamReport};

/// Something that has happened.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fact {
    /// The last cell of a PDU was sent, or it was handed to an adapter.
    Sent { connection: u32, pdu: u64 },
    /// A PDU was read.
    Read(Read),
    /// A switch has discarded a cell of a connection.
    Discarded { connection: u32 },
    /// From here on everything has to be right again: so many PDUs were begun, and so many cells
    /// had found no room.
    Settled {
        connection: u32,
        begun: u64,
        no_room: u64,
    },
    /// What the application has that reads a connection, if there is one.
    Uses {
        connection: u32,
        terms: Option<Terms>,
    },
    /// An application hands a PDU to an adapter whose shaper is to have sent it by `leaves`.
    HandedOver {
        connection: u32,
        pdu: u64,
        len: u16,
        sender: Terms,
        leaves: Ps,
    },
    /// Until then something can cost a connection PDUs.
    Disturbed { connection: u32, until: Ps },
    /// The same for all connections that are received at a host; or begin there, too.
    HostDisturbed {
        host: usize,
        until: Ps,
        sends_too: bool,
    },
    /// A host's adapter stands still until then; buffers cover what is received, or not.
    Stalled {
        host: usize,
        until: Ps,
        is_covered: bool,
    },
    /// A host's clock has gone forward: what its shapers held back they send at once.
    ClockStepped { host: usize },
    /// The sender of a connection begins anew.
    SenderBegins { connection: u32 },
    /// Another reads a connection from here on.
    ReaderBegins { connection: u32 },
}

/// A PDU that was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Read {
    pub(crate) connection: u32,
    /// None: it is none of the connection's.
    pub(crate) number: Option<u64>,
    pub(crate) cells: u32,
    /// Octets of its SDU.
    pub(crate) len: usize,
    pub(crate) tagged: bool,
    /// The reader's library has dismissed it.
    pub(crate) is_dismissed: bool,
}

/// What an application that uses an end of a connection was promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) max_sdu: u16,
    /// The rate that bounds what it sends or may receive. None: a line's alone.
    pub(crate) most: Option<CellRate>,
    /// The rate that it keeps up. None: it is best effort.
    pub(crate) guaranteed: Option<CellRate>,
    /// It is waiting for other terms.
    pub(crate) is_changing: bool,
}

/// A connection in the log.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Cells that switches have discarded.
    pub(crate) discarded: u64,
    pub(crate) pdus: PduCounts,
}

/// What was written down.
#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) connections: Vec<Tally>,
    pub(crate) promises: Promises,
    pub(crate) seen: Seen,
    /// The first thing that was wrong.
    pub(crate) violation: Option<Violation>,
    /// What the server of each host was seen to do.
    audits: Vec<Audit>,
    /// What was counted until somebody looked last.
    pub(crate) report: Report,
}

impl Log {
    /// Nothing yet.
    pub(crate) fn new(plan: &Plan) -> Self {
        let connections = plan.connections.iter();
        let served = plan.served.iter().map(|(_, connection)| *connection as u32);
        Self {
            connections: connections.map(|_| Tally::default()).collect(),
            promises: Promises::of(served),
            seen: Seen::default(),
            violation: None,
            audits: Vec::new(),
            report: Report::default(),
        }
    }

    /// What the server of a host was seen to do.
    pub(crate) fn audit(&mut self, host: u32) -> &mut Audit {
        let host = host as usize;
        if host >= self.audits.len() {
            self.audits.resize_with(host + 1, Audit::default);
        }
        &mut self.audits[host]
    }

    /// The same, if there was one.
    pub(crate) fn audited(&self, host: u32) -> Option<&Audit> {
        self.audits.get(host as usize)
    }

    /// Keeps the earliest thing that is wrong.
    pub(crate) fn violate(&mut self, violation: Violation) {
        let is_later = |first: &Violation| first.at_ns <= violation.at_ns;
        if !self.violation.as_ref().is_some_and(is_later) {
            self.violation = Some(violation);
        }
    }

    /// Adds a fact to what was written down before.
    pub(crate) fn note(&mut self, now: Ps, plan: &Plan, fact: Fact) {
        match fact {
            Fact::Sent { connection, pdu } => {
                self.connections[connection as usize].pdus.sent(pdu, now);
            }
            Fact::Read(read) => self.is_read(now, plan, read),
            Fact::Discarded { connection } => {
                self.connections[connection as usize].discarded += 1;
            }
            Fact::Settled {
                connection,
                begun,
                no_room,
            } => {
                let tally = &mut self.connections[connection as usize];
                tally.pdus.settle(begun, no_room);
            }
            _ => self.promises.note(now, plan, fact),
        }
    }

    fn is_read(&mut self, now: Ps, plan: &Plan, read: Read) {
        let pdus = &mut self.connections[read.connection as usize].pdus;
        pdus.cells += u64::from(read.cells);
        pdus.octets += read.len as u64;
        pdus.tagged += u64::from(read.tagged);
        self.seen
            .add("dismissed", "by_library", read.is_dismissed.into());
        let Some(number) = read.number else {
            pdus.strangers += 1;
            return;
        };
        if !read.is_dismissed {
            self.promises.is_read(now, read.connection, number);
        }
        let len = plan.sdu_len(read.connection, number);
        pdus.misfits += u64::from(len != Some(read.len));
        pdus.found(number, now);
    }
}
