//! Requests that wait for what is on its way back: nobody has it any more, and the adapter has not
//! let go of it yet.
//!
//! Two books are kept apart. What is *promised* leaves out what is on its way back, and counts what
//! is waited for; a request that does not fit there is refused at once, and hears what will be
//! free. What is *taken* is what the adapter may hold; a request that is promised and does not fit
//! there waits. So those who wait are never overtaken for good by who comes later.
//!
//! An adapter, or a limit of its machine, can refuse what the books have room for. Such a request
//! is not asked again before something has come back: it would be refused again, and again.

use super::connection::{Asker, Connection, Stage};
use super::machine::{Pending, Server};
use super::{Admission, Bugs, ClientId, Demand, On, Planted, Request};
use crate::Time;
use crate::adapter::{PortIndex, VcId};
use crate::wire::VpiVci;

/// How long a request waits: an adapter that lets go of nothing for so long is taken for dead.
const PATIENCE_NS: u64 = 10_000_000_000;
/// Requests of one user that wait. Each costs a look whenever something comes back.
const OF_USER_MAX: usize = 64;
/// Those of all.
const OF_ALL_MAX: usize = 1_024;

/// A request that waits.
#[derive(Debug)]
pub(super) struct Awaiting {
    asker: Asker,
    request: Request,
    capability: Option<On<VcId>>,
    uid: u32,
    port: On<PortIndex>,
    /// What it takes beyond what it has.
    demand: Demand,
    /// The address that it opens, if it opens one.
    opens: Option<VpiVci>,
    until: Time,
    /// What had come back when the adapter refused it; none: it was not asked.
    refused: Option<u64>,
}

impl Awaiting {
    pub(super) fn is_of(&self, client: ClientId) -> bool {
        self.asker.client == client
    }
}

/// What a request waits for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lacking {
    /// That came along with the request.
    pub(super) capability: Option<On<VcId>>,
    pub(super) uid: u32,
    pub(super) port: On<PortIndex>,
    pub(super) demand: Demand,
    pub(super) opens: Option<VpiVci>,
    /// Whether the adapter refused it, and not the books.
    pub(super) refused: bool,
}

impl Connection {
    /// What of it is on its way back: all, or what it has beyond a contract that it changes to.
    fn returning(&self) -> Option<Demand> {
        let held = self.grant.as_ref()?.demand();
        match (&self.stage, self.is_wanted()) {
            (Stage::Modifying(change), true) => Some(held.beyond(&change.plan.demand)),
            (Stage::Modifying(change), false) => Some(held.plus(change.more.demand())),
            (_, true) => None,
            (_, false) => Some(*held),
        }
    }

    /// Whether the adapter is to let go of something.
    fn returns(&self) -> bool {
        let given_back = self.user.is_none() && self.attachment.is_some();
        let nothing = Demand::default();
        given_back || self.returning().is_some_and(|back| back != nothing)
    }
}

impl<B: Bugs> Server<B> {
    /// What is promised, of which [`admission`](Self::admission) may have more or less.
    pub fn promised(&self) -> Admission<B> {
        let mut promised = self.admission.clone();
        for connection in self.connections.values() {
            if let Some(back) = connection.returning()
                && !self.bugs.planted(Planted::ReturningTaken)
            {
                promised.release_part(connection.uid, connection.port, back);
            }
        }
        for one in &self.awaiting {
            let _kept = promised.take(one.uid, one.port, one.demand);
        }
        promised
    }

    /// Whether the adapter is to let go of something, beside what connection `except` has.
    fn is_returning(&self, except: Option<u32>) -> bool {
        let mut connections = self.connections.values();
        let nobodys =
            |(_, pending): &(_, Pending)| matches!(pending, Pending::Leftover | Pending::Orphan(_));
        connections.any(|one| Some(one.number) != except && one.returns())
            || self.tickets.values().any(nobodys)
    }

    /// Whether another request of a user may wait: something is on its way back, beside what
    /// connection `except` has.
    pub(super) fn may_wait(&self, uid: u32, except: Option<u32>) -> bool {
        let of_user = self.awaiting.iter().filter(|one| one.uid == uid).count();
        let full = self.awaiting.len() >= OF_ALL_MAX;
        let crowded = full || !self.is_governor(uid) && of_user >= OF_USER_MAX;
        !crowded && self.is_returning(except)
    }

    /// Has a request wait that a connection, `except`, was refused for; whether it does.
    pub(super) fn awaits(
        &mut self,
        asker: Asker,
        request: Request,
        lacking: Lacking,
        except: Option<u32>,
    ) -> bool {
        let Lacking {
            capability,
            uid,
            port,
            demand,
            opens,
            refused,
        } = lacking;
        if !self.may_wait(uid, except) {
            return false;
        }
        let now = self.now;
        let Some(client) = self.clients.get_mut(&asker.client) else {
            return false;
        };
        let until = *client.patience.get_or_insert(now.plus_ns(PATIENCE_NS));
        if until <= now {
            return false;
        }
        self.awaiting.push(Awaiting {
            asker,
            request,
            capability,
            uid,
            port,
            demand,
            opens,
            until,
            refused: refused.then_some(self.returned),
        });
        true
    }

    /// Whether somebody waits to open this address: it will not be free.
    pub(super) fn is_awaited(&self, port: On<PortIndex>, vc: VpiVci) -> bool {
        let mut awaiting = self.awaiting.iter();
        awaiting.any(|one| one.port == port && one.opens == Some(vc))
    }

    /// Something has come back, or somebody has waited long enough: those go on who have what they
    /// wait for, or would wait in vain.
    pub(super) fn resume_awaiting(&mut self) {
        if self.awaiting.is_empty() {
            return;
        }
        let nothing_returns = !self.is_returning(None);
        // Each is judged by what is promised to those before it.
        for one in core::mem::take(&mut self.awaiting) {
            let fits = self.admission.check(one.uid, one.port, &one.demand).is_ok();
            let at = one.opens.and_then(|vc| self.addresses.get(&(one.port, vc)));
            let fits = fits && !at.is_some_and(|number| self.is_closing(*number));
            let fits = fits && one.refused != Some(self.returned);
            if fits && self.bugs.planted(Planted::AwaitingForgotten) {
                continue;
            }
            let in_vain = nothing_returns || self.is_away(one.port.adapter);
            if in_vain || fits || one.until <= self.now {
                self.dispatch(one.asker, one.request, one.capability);
            } else {
                self.awaiting.push(one);
            }
        }
    }

    /// The adapter has let go of something, or may have more.
    pub(super) fn has_come_back(&mut self) {
        self.returned += 1;
        self.work.freed = true;
    }

    /// How many requests wait for what is on its way back.
    pub fn awaiting(&self) -> usize {
        self.awaiting.len()
    }

    /// When the first of those who wait has waited long enough.
    pub(super) fn patience_ends(&self) -> Option<Time> {
        self.awaiting.iter().map(|one| one.until).min()
    }
}
