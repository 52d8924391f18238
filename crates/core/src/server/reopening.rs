//! What a new adapter is asked to open again: in which order, and without what kills adapters.
//!
//! What is guaranteed comes first, then best effort; of these, permanent connections first, for the
//! configuration names them; then what is older. An adapter that dies again, before it has outlived
//! what it was asked last, puts that under suspicion, in two halves. Its successor opens everything
//! else first, and then one half of suspects after the other, each after it has outlived what was
//! there before; what dies with the adapter is halved again, what it outlives is suspected no more.
//! So connections of others are soon open again, and each death halves the suspects that it was
//! among. One that has killed two adapters alone is left out.
//!
//! Memory of the adapter that died is there until its clients let go of it, which they do when they
//! get the new one. What a control group has no room for until then is asked for again. Where that
//! comes to a stand the last in the order ends, and another, until the rest fits.

use std::collections::{BTreeMap, VecDeque};

use super::machine::Server;
use super::{AdapterIndex, Address, Bugs, EndReason, Output, Planted, Refused, Resource, Shortage};
use crate::Time;

/// Alone, a connection kills as many adapters before it is left out: somebody else can have killed
/// one.
const ALONE: u32 = 2;
/// What is told of those left out.
const TOLD_MAX: usize = 8;

/// What is on its way to be open again.
#[derive(Debug, Default)]
pub(super) struct Reopening {
    /// Deaths in a row that what was opened last may have caused.
    deaths: u32,
    /// Groups of which one dies, as far as is known; each is opened apart.
    suspects: Vec<Vec<u32>>,
    /// How many adapters died of one connection alone.
    alone: BTreeMap<u32, u32>,
    /// What applications have opened, and until when an adapter can die of it.
    new: BTreeMap<u32, Time>,
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

    /// Nothing is suspected any more.
    fn is_over(&mut self) {
        self.deaths = 0;
        self.alone.clear();
        self.suspects.clear();
    }

    /// The adapter has outlived the batch.
    fn outlives_batch(&mut self) -> Vec<u32> {
        self.until = None;
        let batch = core::mem::take(&mut self.batch);
        self.clears(&batch);
        batch
    }

    /// These are suspected no more.
    fn clears(&mut self, batch: &[u32]) {
        self.alone.retain(|one, _| !batch.contains(one));
        for group in &mut self.suspects {
            group.retain(|one| !batch.contains(one));
        }
        self.suspects.retain(|group| !group.is_empty());
    }

    /// When there is something to do.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        let short = self.short.values().map(|(at, _)| *at);
        short.chain(self.until).min()
    }
}

impl<B: Bugs> Server<B> {
    /// Whether a connection on an adapter is to wait.
    pub(super) fn reopening_holds(&self, adapter: AdapterIndex, number: u32) -> bool {
        self.adapters[adapter.place()].reopening.holds(number)
    }

    /// What an adapter is asked to open again, in order.
    pub(super) fn batch_of(&self, adapter: AdapterIndex) -> Vec<u32> {
        self.adapters[adapter.place()].reopening.batch.clone()
    }

    /// An adapter died. Connections are as they were.
    pub(super) fn judge_death(&mut self, adapter: AdapterIndex) {
        if self.is_away(adapter) {
            // One that never came was asked for nothing.
            return;
        }
        let now = self.now;
        let of = &mut self.adapters[adapter.place()].reopening;
        if of.until.is_some_and(|until| until <= now) {
            of.outlives_batch();
        }
        of.new.retain(|_, until| *until > now);
        let mut batch = core::mem::take(&mut of.batch);
        // What waits for memory was not there.
        batch.retain(|one| !of.short.contains_key(one));
        batch.extend(core::mem::take(&mut of.new).into_keys());
        of.later.clear();
        of.short.clear();
        of.until = None;
        if batch.is_empty() {
            if of.suspects.is_empty() {
                of.is_over();
            }
            return;
        }
        of.deaths += 1;
        // A connection that is being opened can have killed it as well.
        let mut others = self.connections.values();
        let others = others
            .any(|one| one.port.adapter == adapter && one.opener.is_some() && !one.is_resting());
        if !others && self.adapters[adapter.place()].reopening.deaths >= 2 {
            self.suspect(adapter, batch);
        }
    }

    /// An adapter has died of one of these, if it did not die of something else.
    fn suspect(&mut self, adapter: AdapterIndex, batch: Vec<u32>) {
        let of = &mut self.adapters[adapter.place()].reopening;
        let alone = match batch[..] {
            [number] => of.alone.get(&number).copied().unwrap_or(0) + 1,
            _ => 0,
        };
        of.clears(&batch);
        if self.bugs.planted(Planted::BatchLeftOut) {
            return batch
                .into_iter()
                .for_each(|one| self.leave_out(adapter, one));
        }
        if alone >= ALONE && !self.bugs.planted(Planted::KillerStays) {
            return self.leave_out(adapter, batch[0]);
        }
        if alone > 0 {
            of.alone.insert(batch[0], alone);
        }
        let mut first = batch;
        let half = match self.bugs.planted(Planted::SuspectsTogether) {
            true => first.len(),
            false => first.len().div_ceil(2),
        };
        let second = first.split_off(half);
        of.suspects.extend([first, second]);
        of.suspects.retain(|group| !group.is_empty());
    }

    /// An application has opened a connection.
    pub(super) fn note_new(&mut self, adapter: AdapterIndex, number: u32) {
        let until = self.now.plus_ns(self.config.limits.outlived_ns);
        let (now, new) = (self.now, &mut self.adapters[adapter.place()].reopening.new);
        new.retain(|_, until| *until > now);
        new.insert(number, until);
    }

    fn leave_out(&mut self, adapter: AdapterIndex, number: u32) {
        let deaths = self.adapters[adapter.place()].reopening.deaths;
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        connection.ending.get_or_insert(EndReason::NotReopened);
        if connection.permanent {
            connection.lost = Some(Refused::LeftOut { deaths });
        }
        let (address, uid) = (connection.address.clone(), connection.uid);
        let left_out = &mut self.adapters[adapter.place()].reopening.left_out;
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

    /// An adapter is there, and nothing on it.
    pub(super) fn begin_reopening(&mut self, adapter: AdapterIndex) {
        let wanted = self.connections.values();
        let wanted = wanted.filter(|one| one.port.adapter == adapter && one.is_wanted());
        let mut order: Vec<_> = wanted
            .map(|one| (!one.plan.is_guaranteed(), !one.permanent, one.number))
            .collect();
        order.sort_unstable();
        if self.bugs.planted(Planted::ReopenedBackwards) {
            order.reverse();
        }
        let order = order.into_iter().map(|(_, _, number)| number);
        let of = &mut self.adapters[adapter.place()].reopening;
        let mut rest: Vec<u32> = order.collect();
        let mut part = |of: &dyn Fn(u32) -> bool| {
            let (part, others) = rest.iter().partition(|one| of(**one));
            rest = others;
            part
        };
        let groups = of.suspects.iter();
        let later = groups.map(|group| part(&|one| group.contains(&one)));
        let later: Vec<Vec<u32>> = later.collect();
        of.later = [rest].into_iter().chain(later).collect();
        of.later.retain(|group| !group.is_empty());
        let first = of.later.pop_front().unwrap_or_default();
        self.open_batch(adapter, first);
    }

    fn open_batch(&mut self, adapter: AdapterIndex, batch: Vec<u32>) {
        let patient = self.now.plus_ns(self.config.limits.short_patience_ns[0]);
        let of = &mut self.adapters[adapter.place()].reopening;
        of.batch.clone_from(&batch);
        (of.open, of.patience) = (0, (patient, 0));
        for number in batch {
            self.settle(number);
        }
    }

    /// Goes on where it is time to.
    pub(super) fn go_on_reopening(&mut self, adapter: AdapterIndex) {
        let outlived_ns = match self.bugs.planted(Planted::NotOutlived) {
            true => 0,
            false => self.config.limits.outlived_ns,
        };
        let now = self.now;
        let of = &mut self.adapters[adapter.place()].reopening;
        if of.batch.is_empty() {
            return;
        }
        let impatient = !of.short.is_empty() && of.patience.0 <= now;
        if self.is_away(adapter) {
            return;
        }
        if impatient {
            self.end_the_last(adapter);
        }
        let of = &mut self.adapters[adapter.place()].reopening;
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
        let of = &mut self.adapters[adapter.place()].reopening;
        let rest = of.batch.get(of.open..).unwrap_or_default();
        of.open += rest.iter().take_while(|one| is_open(one)).count();
        match of.until {
            None if of.open == of.batch.len() => of.until = Some(now.plus_ns(outlived_ns)),
            Some(until) if until <= now => {
                of.outlives_batch();
                match of.later.pop_front() {
                    Some(next) => self.open_batch(adapter, next),
                    None => of.is_over(),
                }
            }
            _ => {}
        }
    }

    /// There has been no memory for too long: unless more are open than before, the last ends.
    fn end_the_last(&mut self, adapter: AdapterIndex) {
        let of = &mut self.adapters[adapter.place()].reopening;
        let open = |number: &&u32| {
            let connection = self.connections.get(number);
            connection.is_some_and(|one| one.vc.is_some())
        };
        let open = of.batch.iter().filter(open).count();
        let before = of.patience.1;
        of.patience = (
            self.now.plus_ns(self.config.limits.short_patience_ns[1]),
            open,
        );
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
        let Some(connection) = self.connections.get(&number) else {
            return false;
        };
        let adapter = connection.port.adapter;
        let of_machine =
            |shortage: &Shortage| shortage.resource == Resource::Memory && shortage.limit.is_some();
        let of = &mut self.adapters[adapter.place()].reopening;
        let waits = !self.bugs.planted(Planted::ShortEnds)
            && matches!(refused, Refused::Admission(shortage) if of_machine(shortage))
            && of.batch.contains(&number);
        if waits {
            let again = self.now.plus_ns(self.config.limits.short_again_ns);
            of.short.insert(number, (again, refused.clone()));
        }
        waits
    }
}
