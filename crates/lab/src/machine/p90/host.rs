//! What runs on the P-90: writers' workers and simulated users.

use super::{Activity, KernelClock, P90, Step, User, Wire, Writer};
use crate::world::Ps;

/// What the threads of the P-90 share beside its CPU.
#[derive(Clone, Debug)]
pub struct Host {
    /// What sending costs.
    pub p90: P90,
    /// The kernel's clock.
    pub clock: KernelClock,
    /// The line to the peer.
    pub wire: Wire,
    /// What simulated users have done, in parts of a job ([`User::JOB`]).
    pub work: u64,
}

impl Host {
    /// The clock's step on the paper's hardware.
    pub const CLOCK_STEP_NS: u64 = 2_000_000;

    /// The paper's, with a clock that goes on every `step_ns`.
    pub fn new(step_ns: u64) -> Self {
        Self::seeded(step_ns, 1)
    }

    /// The same, with a seed for what its clock draws.
    pub fn seeded(step_ns: u64, seed: u64) -> Self {
        Self {
            p90: P90::PAPER,
            clock: KernelClock::new(step_ns, seed),
            wire: Wire::default(),
            work: 0,
        }
    }
}

/// A thread of the P-90.
#[expect(clippy::large_enum_variant, reason = "a few dozen of them")]
#[derive(Clone, Debug)]
pub enum HostThread {
    /// A worker, and the application that it serves: calls are synchronous.
    Writer(Writer),
    /// A process of the time-sharing system.
    User(User),
}

impl Activity for HostThread {
    type Machine = Host;

    fn next(&mut self, now: Ps, host: &mut Host) -> Step {
        match self {
            Self::Writer(writer) => writer.next(now, host),
            Self::User(user) => user.next(now, &mut host.work),
        }
    }
}
