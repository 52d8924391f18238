//! Servers in the world: the real protocol server of a host with its governors, and the real keeper
//! of the host's adapter, between that and applications.
//!
//! ```text
//!   application -- Request -->  [ Server ] - [ Governors ] -- request --> [ Keeper ] --> adapter
//!    source, reader <-- Confirm                           <--  reply  --  VCs, records,
//!        |                                                              applications' sockets
//!        +---- queues ------------------------------------------------------------> adapter
//! ```
//!
//! Every message takes its time; a channel keeps its order, and of channels that have one at the
//! same time the scenario says which comes first. A server can die at any time: what it had asked
//! is carried out, nobody hears the answer, and its successor takes up what the keeper has.

mod application;
mod bug;
mod call;
mod check;
mod credit;
mod daemon;
mod guarantee_check;
mod killers;
mod life;
mod link;
mod marks;
mod memory;
mod places;
mod process;
mod run;
mod sabotage;
pub(super) mod scenario;
mod setup;
mod shares;

use std::collections::BTreeMap;

use application::Application;
pub(crate) use application::Gate;
pub use bug::ServerBug;
use daemon::Served;
pub use daemon::ServerOutcome;
use guarantee_check::Promise;
use marks::Seen;

pub(crate) use setup::Services;

use cellgate_core::queue::ReceivedPdu;

use super::Ps;

/// What can happen to servers and applications. At one time in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ServiceEvent {
    /// A host's server dies.
    Dies(u32),
    Begins(u32),
    /// It looks whether what the one before had asked has been carried out.
    TakesUp(u32),
    /// A host's server looks how its adapter does.
    Looks(u32),
    /// A message of a host's channel arrives: host, rank, channel.
    Parcel(u32, u32, u32),
    /// A call of an application is due.
    Call(u32, u32),
    /// An application looks whether everything has been sent.
    Flush(u32),
    /// A host's server does what is due: it hangs up on whoever has not said hello, opens again
    /// what comes next.
    Deadline(u32),
    /// A host's server and its adapter look after what lies in the file system.
    Upkeep(u32),
    /// A host's adapter of this life dies of what it has opened.
    Strikes(u32, u32),
    /// Another begins, if there is none.
    AdapterBegins(u32),
}

/// All servers and applications of a run.
#[derive(Debug, Default)]
pub(crate) struct Service {
    /// Hosts with a server, by number.
    hosts: BTreeMap<usize, Served>,
    applications: Vec<Application>,
    /// Which application uses the end of a connection: host, connection.
    holders: BTreeMap<(usize, u32), usize>,
    /// What must arrive, by connection.
    promises: BTreeMap<u32, Promise>,
    /// Sources that were woken early, and until when they would have waited.
    early: BTreeMap<usize, Ps>,
    /// No server looks at its adapter from then on.
    looks_until: Ps,
    seen: Seen,
    bug: Option<ServerBug>,
}

impl Service {
    /// Whether there is no server.
    pub(crate) fn is_empty(&self) -> bool {
        self.hosts.is_empty()
    }

    /// Whether a connection's end at a host is a server's.
    pub(crate) fn serves(&self, host: usize, connection: u32) -> bool {
        let mut applications = self.applications.iter();
        applications.any(|one| one.host == host && one.connection == connection)
    }

    /// Whether the application that reads a connection at a host takes a PDU that has arrived; what
    /// it dismisses is as good as lost.
    pub(crate) fn takes(&mut self, host: usize, connection: u32, pdu: &ReceivedPdu) -> bool {
        let Some(&n) = self.holders.get(&(host, connection)) else {
            return true;
        };
        let open = self.applications[n].program.connection_mut();
        let is_taken = open.is_none_or(|open| open.takes(pdu.descriptor(), pdu.len()));
        self.seen.add("dismissed", "by_library", (!is_taken).into());
        is_taken
    }

    /// A PDU of a connection was read.
    pub(crate) fn has_read(&mut self, now: Ps, connection: u32, number: u64) {
        if let Some(promise) = self.promises.get_mut(&connection) {
            promise.keeps(now, number);
        }
    }

    /// PDUs of a connection that were promised, and have arrived.
    pub(crate) fn kept(&self, connection: u32) -> u64 {
        self.promises
            .get(&connection)
            .map_or(0, |promise| promise.kept)
    }

    /// Whether anything was promised of a connection while an end of it was best effort.
    pub(crate) fn is_best_effort(&self, connection: u32) -> bool {
        let promise = self.promises.get(&connection);
        promise.is_some_and(|promise| promise.is_best_effort)
    }

    /// PDUs of best effort that were promised, and have arrived.
    pub(crate) fn kept_as_best_effort(&self) -> u64 {
        let promises = self.promises.values();
        promises.map(|promise| promise.kept_as_best_effort).sum()
    }

    fn has(&self, bug: ServerBug) -> bool {
        self.bug == Some(bug)
    }
}

#[cfg(test)]
mod tests {
    use crate::world::scenario::{HostSpec, LinkSpec, Scenario, ServerSpec};
    use crate::world::{Options, World};

    #[test]
    fn an_idle_server_keeps_one_look_in_the_queue() {
        let scenario = Scenario {
            duration_ns: 3_600_000_000_000,
            hosts: ["a", "b"].map(HostSpec::named).into(),
            links: vec![LinkSpec::between("a", "b")],
            servers: vec![ServerSpec::on("a")],
            ..Scenario::default()
        };
        let world = World::new(&scenario, Options::default()).expect("a world");
        assert!(world.queue.len() < 10, "{} events", world.queue.len());
    }
}
