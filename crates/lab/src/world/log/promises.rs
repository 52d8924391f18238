//! What was admitted at both ends and conforms loses nothing.

use std::collections::BTreeMap;

use super::{Fact, Terms};
use crate::world::Ps;
use crate::world::incident::SETTLED;
use crate::world::plan::Plan;

/// PDUs of one connection that must arrive.
#[derive(Debug, Default)]
pub(crate) struct Promise {
    /// What the application has that reads it.
    reader: Option<Terms>,
    /// And when a shaper is to have sent each; none: it was sent as best effort.
    due: BTreeMap<u64, Option<Ps>>,
    /// Nothing is promised of what is handed over before.
    from: Ps,
    /// Whatever was cut short takes the next PDU with it.
    passes_over: bool,
    /// More was sent than the reader is promised, and it is policed for that still.
    is_exceeded: bool,
    /// Something was promised to a sender or a reader that is best effort.
    pub(crate) is_best_effort: bool,
    /// Something was sent to the present reader.
    is_used: bool,
    /// When something was handed over last; and when last by a sender that promises no rate, or a
    /// higher one than the reader does.
    handed_over: Option<Ps>,
    exceeding: Option<Ps>,
    /// PDUs that were promised, and have arrived.
    pub(crate) kept: u64,
    /// Of these, sent as best effort.
    pub(crate) kept_as_best_effort: u64,
    /// The longest that one of them has taken from when it was to be sent.
    pub(crate) longest: Ps,
}

impl Promise {
    /// Something has happened that can cost PDUs, or will until `until`.
    fn is_broken(&mut self, until: Ps) {
        self.due.clear();
        self.from = self.from.max(until.plus(SETTLED));
        self.passes_over = true;
    }

    /// A PDU is handed over.
    fn is_handed_over(&mut self, now: Ps) {
        self.is_used = true;
        self.handed_over = Some(now);
    }

    /// PDU `number`, which is handed over and is to be sent by `leaves`, must arrive. A reader that
    /// is not `policed` has no contract that what was sent before can have exceeded.
    fn makes(&mut self, now: Ps, number: u64, leaves: Option<Ps>, policed: bool) {
        let is_exceeded = self.is_exceeded && policed;
        if now >= self.from && !std::mem::take(&mut self.passes_over) && !is_exceeded {
            self.due.insert(number, leaves);
            self.is_best_effort |= leaves.is_none();
        }
    }

    /// By what is handed over more is sent than the reader is promised.
    fn is_exceeded_by_sender(&mut self, now: Ps) {
        self.exceeding = Some(now);
        self.is_exceeded();
    }

    /// More comes than the reader is promised.
    fn is_exceeded(&mut self) {
        self.due.clear();
        self.is_exceeded = true;
    }

    /// The sender begins anew, and has a burst once more: together that can be more than the reader
    /// is promised.
    fn is_sent_anew(&mut self) {
        if self.is_used {
            self.is_exceeded();
        }
    }

    /// The reader is another, and polices anew: what is under way, too.
    fn begins_anew(&mut self, now: Ps) {
        let is_under_way = |at: Option<Ps>| at.is_some_and(|at| at.plus(SETTLED) >= now);
        self.is_exceeded = is_under_way(self.exceeding);
        self.is_used = is_under_way(self.handed_over);
    }

    /// PDU `number` is there.
    fn keeps(&mut self, now: Ps, number: u64) {
        if let Some(leaves) = self.due.remove(&number) {
            self.kept += 1;
            self.kept_as_best_effort += u64::from(leaves.is_none());
            let took = leaves.map_or(Ps::ZERO, |leaves| now.since(leaves));
            self.longest = self.longest.max(took);
        }
    }

    /// The first PDU that is missing, and how many are.
    pub(crate) fn missing(&self) -> Option<(u64, usize)> {
        Some((*self.due.first_key_value()?.0, self.due.len()))
    }
}

/// What an SDU was promised when it was handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// It must arrive; `timely`: in time, too; `policed`: of a reader that has a rate of its own.
    Promised {
        timely: bool,
        policed: bool,
    },
    /// Its sender sends more than its reader is promised.
    Exceeds,
    Unpromised,
}

impl Standing {
    /// Whether both ends of a connection were admitted, and the one lets pass what the other sends.
    fn of(sender: Terms, reader: Option<Terms>, len: u16) -> Self {
        let Some(reader) = reader else {
            return match sender.guaranteed {
                Some(_) => Self::Unpromised,
                None => Self::Exceeds,
            };
        };
        let passes = match (sender.most, reader.most) {
            (_, None) => true,
            (Some(rate), Some(bound)) => rate <= bound,
            (None, Some(_)) => false,
        };
        match reader.is_changing {
            _ if !passes || len > reader.max_sdu => Self::Exceeds,
            true => Self::Unpromised,
            false => Self::Promised {
                timely: sender.guaranteed.is_some() && reader.guaranteed.is_some(),
                policed: reader.most.is_some(),
            },
        }
    }
}

/// What was promised of the connections that applications use.
#[derive(Debug, Default)]
pub(crate) struct Promises(BTreeMap<u32, Promise>);

impl Promises {
    /// Nothing yet, of these connections.
    pub(crate) fn of(connections: impl Iterator<Item = u32>) -> Self {
        Self(connections.map(|one| (one, Promise::default())).collect())
    }

    /// Each of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Promise)> {
        self.0
            .iter()
            .map(|(connection, promise)| (*connection, promise))
    }

    /// PDUs of a connection that were promised, and have arrived.
    pub(crate) fn kept(&self, connection: u32) -> u64 {
        self.0.get(&connection).map_or(0, |promise| promise.kept)
    }

    /// PDUs of best effort that were promised, and have arrived.
    pub(crate) fn kept_as_best_effort(&self) -> u64 {
        let promises = self.0.values();
        promises.map(|promise| promise.kept_as_best_effort).sum()
    }

    /// Whether anything was promised of a connection while an end of it was best effort.
    pub(crate) fn is_best_effort(&self, connection: u32) -> bool {
        let promise = self.0.get(&connection);
        promise.is_some_and(|promise| promise.is_best_effort)
    }

    /// A PDU was read.
    pub(crate) fn is_read(&mut self, now: Ps, connection: u32, number: u64) {
        if let Some(promise) = self.0.get_mut(&connection) {
            promise.keeps(now, number);
        }
    }

    /// What a fact means for what was promised.
    pub(crate) fn note(&mut self, now: Ps, plan: &Plan, fact: Fact) {
        match fact {
            Fact::HostDisturbed {
                host,
                until,
                sends_too,
            } => {
                for (promise, [begins, ends]) in self.at(plan, host) {
                    if ends || begins && sends_too {
                        promise.is_broken(until);
                    }
                }
            }
            Fact::Stalled {
                host,
                until,
                is_covered,
            } => {
                for (promise, [begins, ends]) in self.at(plan, host) {
                    if begins || ends && !is_covered {
                        promise.is_broken(until);
                    }
                    if ends && !is_covered {
                        // Who sends at the whole rate pays for what came late in one of its next
                        // PDUs, whenever that is.
                        promise.is_exceeded();
                    }
                }
            }
            Fact::ClockStepped { host } => {
                // What that takes of a tolerance stays taken while the sender sends at its full
                // rate.
                for (promise, [begins, _]) in self.at(plan, host) {
                    if begins {
                        promise.is_broken(now);
                        promise.is_sent_anew();
                    }
                }
            }
            Fact::Uses { connection, .. }
            | Fact::HandedOver { connection, .. }
            | Fact::Disturbed { connection, .. }
            | Fact::SenderBegins { connection }
            | Fact::ReaderBegins { connection } => {
                if let Some(promise) = self.0.get_mut(&connection) {
                    promise.note(now, fact);
                }
            }
            _ => {}
        }
    }

    /// Those of connections that begin or end at a host.
    fn at(&mut self, plan: &Plan, host: usize) -> impl Iterator<Item = (&mut Promise, [bool; 2])> {
        self.0.iter_mut().map(move |(connection, promise)| {
            let at = &plan.connections[*connection as usize];
            (promise, [at.from == host, at.to == host])
        })
    }
}

impl Promise {
    fn note(&mut self, now: Ps, fact: Fact) {
        match fact {
            Fact::Uses { terms, .. } => self.reader = terms,
            Fact::HandedOver {
                pdu,
                len,
                sender,
                leaves,
                ..
            } => {
                self.is_handed_over(now);
                match Standing::of(sender, self.reader, len) {
                    Standing::Promised { timely, policed } => {
                        self.makes(now, pdu, timely.then_some(leaves), policed);
                    }
                    Standing::Exceeds => self.is_exceeded_by_sender(now),
                    Standing::Unpromised => {}
                }
            }
            Fact::Disturbed { until, .. } => self.is_broken(until),
            Fact::SenderBegins { .. } => self.is_sent_anew(),
            Fact::ReaderBegins { .. } => self.begins_anew(now),
            _ => {}
        }
    }
}
