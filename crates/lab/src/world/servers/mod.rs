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
mod credit;
mod daemon;
mod judged;
mod killers;
mod life;
mod link;
mod memory;
mod places;
mod process;
mod run;
mod sabotage;
pub(super) mod scenario;
mod setup;

pub(crate) use application::{Application, Asked, Gate};
pub use bug::ServerBug;
pub use daemon::ServerOutcome;
pub(crate) use daemon::{Books, Served, Serving};
pub(crate) use process::{KeptVc, Process};

pub(crate) use setup::{Owners, SERVER_UID, SHORT_PATIENCE_NS};

/// What can be due at a host that has a server. At one time in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ServerTurn {
    /// The server dies.
    Dies,
    Begins,
    /// It looks whether what the one before had asked has been carried out.
    TakesUp,
    /// The server looks how its adapter does.
    Looks,
    /// A message of a channel arrives: rank, channel.
    Parcel(u32, u32),
    /// A call of an application is due.
    Call(u32, u32),
    /// An application looks whether everything has been sent.
    Flush(u32),
    /// The server does what is due: it hangs up on whoever has not said hello, opens again what
    /// comes next.
    Deadline,
    /// The server and its adapter look after what lies in the file system.
    Upkeep,
    /// The adapter of this life dies of what it has opened.
    Strikes(u32),
    /// Another begins, if there is none.
    AdapterBegins,
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
        assert!(
            world.net.queue.len() < 10,
            "{} turns",
            world.net.queue.len()
        );
    }
}
