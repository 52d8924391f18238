//! What a new adapter is asked to open again: in which order, and without what kills adapters.
//!
//! What is guaranteed comes first, then best effort; of these, permanent connections first, for the
//! configuration names them; then what is older. An adapter that dies again, before it has outlived
//! what it was asked last, puts that under suspicion. Its successor opens everything else first,
//! and what is suspected in halves, each after it has outlived the one before. So connections of
//! others are soon open again, and what is left of the suspects after a death is half of them. One
//! that has killed two adapters alone is left out.
//!
//! Memory of the adapter that died is there until its clients let go of it, which they do when they
//! get the new one. What a control group has no room for until then is asked for again. Where that
//! comes to a stand the last in the order ends, and another, until the rest fits.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::machine::Server;
use super::{Address, Bugs, EndReason, Output, Refused, Resource, Shortage};
use crate::Time;

/// Alone, a connection kills as many adapters before it is left out: somebody else can have killed
/// one.
const ALONE: u32 = 2;
/// Before what is refused for memory is asked for again.
const AGAIN_NS: u64 = 100_000_000;
/// How long it is before one ends, after there is an adapter, and after the last that opened or
/// ended.
const PATIENCE_NS: [u64; 2] = [5_000_000_000, 1_000_000_000];
/// What is told of those left out.
const TOLD_MAX: usize = 8;

/// What is on its way to be open again.
#[derive(Debug, Default)]
pub(super) struct Reopening {
    /// Deaths in a row that what was opened last may have caused.
    deaths: u32,
    /// Of these, by one connection alone.
    alone: u32,
    suspects: BTreeSet<u32>,
    /// What the adapter is asked to open again, and has not outlived.
    batch: Vec<u32>,
    /// So many of these, the first, are open, or are not wanted any more.
    open: usize,
    /// What comes after that.
    later: VecDeque<Vec<u32>>,
    /// When the adapter has outlived the batch; none: not all of it is open.
    until: Option<Time>,
    /// What there was no memory for, when to ask again, and the refusal.
    short: BTreeMap<u32, (Time, Refused)>,
    /// When one of these ends, if no more are open by then than these.
    patience: (Time, usize),
    /// Who was left out, for people.
    pub(super) left_out: VecDeque<(Address, String)>,
}

impl Reopening {
    /// Whether the connection is to wait.
    pub(super) fn holds(&self, number: u32) -> bool {
        self.short.contains_key(&number) || self.later.iter().flatten().any(|one| *one == number)
    }

    /// Whether any connection waits for its turn.
    pub(super) fn is_holding(&self) -> bool {
        !self.short.is_empty() || !self.later.is_empty()
    }

    /// What the adapter is asked to open again, in order.
    pub(super) fn batch(&self) -> &[u32] {
        &self.batch
    }

    /// When there is something to do.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        let short = self.short.values().map(|(at, _)| *at);
        short.chain(self.until).min()
    }
}

impl<B: Bugs> Server<B> {
    /// The adapter died. Connections are as they were.
    pub(super) fn judge_death(&mut self) {
        if self.home.is_none() {
            // One that never came was asked for nothing.
            return;
        }
        let now = self.now;
        let of = &mut self.reopening;
        let outlived = of.until.is_some_and(|until| until <= now);
        let batch = core::mem::take(&mut of.batch);
        of.later.clear();
        of.short.clear();
        of.until = None;
        // A connection that is new can have killed it as well.
        let mut others = self.connections.values();
        let others = others.any(|one| one.opener.is_some() && !one.is_resting());
        if batch.is_empty() || outlived {
            of.deaths = 0;
            of.alone = 0;
            of.suspects.clear();
            return;
        }
        of.deaths += 1;
        if others || of.deaths < 2 {
            return;
        }
        if let [number] = batch[..] {
            of.alone += 1;
            if of.alone >= ALONE {
                self.leave_out(number);
                return;
            }
        } else {
            of.alone = 0;
        }
        self.reopening.suspects = batch.into_iter().collect();
    }

    fn leave_out(&mut self, number: u32) {
        let deaths = core::mem::take(&mut self.reopening.deaths);
        self.reopening.alone = 0;
        self.reopening.suspects.clear();
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        connection.ending.get_or_insert(EndReason::NotReopened);
        if connection.permanent {
            connection.lost = Some(Refused::LeftOut { deaths });
        }
        let (address, uid) = (connection.address.clone(), connection.uid);
        let left_out = &mut self.reopening.left_out;
        left_out.truncate(TOLD_MAX - 1);
        let why = Refused::LeftOut { deaths };
        let told = format!("connection {address} of user {uid} is left out: {why}");
        left_out.push_front((address.clone(), told));
        self.push(Output::LeftOut {
            address,
            uid,
            deaths,
        });
    }

    /// There is an adapter, and nothing on it.
    pub(super) fn begin_reopening(&mut self) {
        let wanted = self.connections.values().filter(|one| one.is_wanted());
        let mut order: Vec<_> = wanted
            .map(|one| (!one.plan.is_guaranteed(), !one.permanent, one.number))
            .collect();
        order.sort_unstable();
        let order = order.into_iter().map(|(_, _, number)| number);
        let of = &mut self.reopening;
        of.patience = (self.now.plus_ns(PATIENCE_NS[0]), 0);
        of.suspects.retain(|one| self.connections.contains_key(one));
        let (mut first, mut rest): (Vec<u32>, _) =
            order.partition(|one| !of.suspects.contains(one));
        let second = rest.split_off(rest.len().div_ceil(2));
        if first.is_empty() {
            first = core::mem::take(&mut rest);
        }
        of.later = [rest, second]
            .into_iter()
            .filter(|one| !one.is_empty())
            .collect();
        self.open_batch(first);
    }

    fn open_batch(&mut self, batch: Vec<u32>) {
        self.reopening.batch.clone_from(&batch);
        self.reopening.open = 0;
        for number in batch {
            self.settle(number);
        }
    }

    /// Goes on where it is time to.
    pub(super) fn go_on_reopening(&mut self) {
        let (now, outlived_ns) = (self.now, self.config.limits.outlived_ns);
        let of = &mut self.reopening;
        if of.batch.is_empty() || self.home.is_none() {
            return;
        }
        if !of.short.is_empty() && of.patience.0 <= now {
            self.end_the_last();
        }
        let of = &mut self.reopening;
        let due: Vec<u32> = of
            .short
            .iter()
            .filter(|(_, (at, _))| *at <= now)
            .map(|(n, _)| *n)
            .collect();
        for number in &due {
            of.short.remove(number);
            self.work.settle.insert(*number);
        }
        let is_open = |number: &u32| {
            let connection = self.connections.get(number);
            connection.is_none_or(|one| one.vc.is_some() || !one.is_wanted())
        };
        let of = &mut self.reopening;
        let rest = of.batch.get(of.open..).unwrap_or_default();
        of.open += rest.iter().take_while(|one| is_open(one)).count();
        match of.until {
            None if of.open == of.batch.len() => of.until = Some(now.plus_ns(outlived_ns)),
            Some(until) if until <= now => {
                of.until = None;
                of.batch.clear();
                match of.later.pop_front() {
                    Some(next) => self.open_batch(next),
                    None => {
                        of.deaths = 0;
                        of.alone = 0;
                        of.suspects.clear();
                    }
                }
            }
            _ => {}
        }
    }

    /// There has been no memory for too long: unless more are open than before, the last ends.
    fn end_the_last(&mut self) {
        let of = &mut self.reopening;
        let open = |number: &&u32| {
            let connection = self.connections.get(number);
            connection.is_some_and(|one| one.vc.is_some())
        };
        let open = of.batch.iter().filter(open).count();
        let before = of.patience.1;
        of.patience = (self.now.plus_ns(PATIENCE_NS[1]), open);
        let mut from_last = of.batch.iter().rev();
        let last = from_last.find(|one| of.short.contains_key(one)).copied();
        let Some((number, (_, refused))) = last
            .filter(|_| open <= before)
            .and_then(|number| of.short.remove_entry(&number))
        else {
            return;
        };
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.ending.get_or_insert(EndReason::NotReopened);
            connection.lost = Some(refused).filter(|_| connection.permanent);
            self.work.settle.insert(number);
        }
    }

    /// Whether a connection that could not be opened again waits for memory that others have still
    /// to let go of.
    pub(super) fn waits_for_memory(&mut self, number: u32, refused: &Refused) -> bool {
        let of_machine =
            |shortage: &Shortage| shortage.resource == Resource::Memory && shortage.limit.is_some();
        let of = &mut self.reopening;
        let waits = matches!(refused, Refused::Admission(shortage) if of_machine(shortage))
            && of.batch.contains(&number);
        if waits {
            let again = self.now.plus_ns(AGAIN_NS);
            of.short.insert(number, (again, refused.clone()));
        }
        waits
    }
}
