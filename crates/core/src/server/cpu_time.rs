//! CPU time for threads of applications: as often as a period begins, so much of it comes before
//! whatever has nothing reserved (*L4ATM*: a priority within an interval, for a number of cycles).
//!
//! It is promised out of what there is for the server's workers. The host schedules the thread and
//! holds it to its budget.

use serde::{Deserialize, Serialize};

use super::machine::Server;
use super::{
    AdapterIndex, Address, Book, Bugs, ClientId, Demand, Grant, On, Refused, Resource, Shortage,
};
use crate::TimeWord;
use crate::adapter::PortIndex;

/// CPU time that a thread is to have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CpuTime {
    /// The thread, by the number that the kernel gives it (gettid(2)); it is of a process of who
    /// asks.
    pub tid: u32,
    /// Nanoseconds in each period; 0 gives back what was reserved.
    pub budget_ns: u64,
    /// Nanoseconds.
    pub period_ns: u64,
    /// The connection that it ends with; none: that which the Request names, if there is such a
    /// one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<Address>,
}

impl CpuTime {
    /// The shortest and the longest period, in nanoseconds.
    pub const PERIODS_NS: [u64; 2] = [1_000_000, 1_000_000_000];
    const PPM: u64 = 1_000_000;

    /// Millionths of a CPU.
    ///
    /// # Errors
    /// The period is too short or too long, or the budget longer than it.
    pub fn ppm(&self) -> Result<u32, Refused> {
        let [min, max] = Self::PERIODS_NS;
        let (budget, period) = (self.budget_ns, self.period_ns);
        if !(min..=max).contains(&period) {
            let [period, min, max] = [period, min, max].map(TimeWord);
            let text = format!("a period of {period}: it is from {min} to {max}");
            return Err(Refused::Unsupported(text));
        }
        if budget > period {
            let [budget, period] = [budget, period].map(TimeWord);
            let text = format!("{budget} in each {period}: one thread has one CPU at most");
            return Err(Refused::Unsupported(text));
        }
        // At most a second, so at most the whole of it.
        Ok((budget * Self::PPM).div_ceil(period) as u32)
    }
}

/// The workers' time is no adapter's and no interface's.
const NOWHERE: On<PortIndex> = AdapterIndex::FIRST.on(PortIndex(0));

/// A client's part of it.
#[derive(Debug)]
pub(super) struct Reserved {
    grant: Grant,
    /// The connection that it ends with.
    connection: Option<u32>,
}

impl<B: Bugs> Server<B> {
    /// Promises a client CPU time, in place of what it has: how much, in millionths of a CPU; 0
    /// gives all of it back. `connection`: the client's own number for the one that it ends with,
    /// if the time names no other.
    ///
    /// # Errors
    /// There is not so much, or the connection is not this user's. What it has it keeps.
    pub fn reserve_cpu(
        &mut self,
        client: ClientId,
        connection: u32,
        time: &CpuTime,
    ) -> Result<u32, Refused> {
        let ppm = time.ppm()?;
        let state = self.clients.get(&client).ok_or(Refused::NotFound)?;
        let (uid, own) = (state.peer.uid, state.connections.get(&connection).copied());
        let connection = match &time.address {
            Some(address) => Some(self.number_of(client, address)?),
            None => own,
        };
        let demand = Demand {
            worker_ppm: ppm.into(),
            worker_expected_ppm: ppm.into(),
            ..Demand::default()
        };
        self.check_cpu_of(client, uid, ppm.into())?;
        match &state.cpu {
            Some(held) => self.admission.check_change(&held.grant, &demand)?,
            None => self.admission.check(uid, NOWHERE, &demand)?,
        }
        self.release_cpu(client);
        if ppm > 0
            && let Some(state) = self.clients.get_mut(&client)
        {
            let grant = self.admission.take(uid, NOWHERE, demand);
            state.cpu = Some(Reserved { grant, connection });
        }
        Ok(ppm)
    }

    /// A user has a quarter of it at most, root and the server's own user what there is.
    fn check_cpu_of(&self, client: ClientId, uid: u32, needed: u64) -> Result<(), Shortage> {
        if self.is_governor(uid) {
            return Ok(());
        }
        let book = Book::of(Resource::WorkerCpu, AdapterIndex::FIRST);
        let others = self.clients.iter().filter(|(id, _)| **id != client);
        let own = others.filter(|(_, one)| one.peer.uid == uid);
        let own = own.filter_map(|(_, one)| one.cpu.as_ref());
        let has: u64 = own.map(|one| one.grant.demand().worker_ppm).sum();
        let free = (self.admission.capacity(book) / 4).saturating_sub(has);
        if needed <= free {
            return Ok(());
        }
        Err(Shortage {
            resource: Resource::WorkerCpu,
            needed,
            free,
            quota: Some(uid),
            offer: None,
            others: Vec::new(),
            limit: None,
        })
    }

    /// What of the workers' CPU time is reserved for the connection that a client has, in
    /// millionths of a core.
    pub fn worker_ppm_of(&self, client: ClientId) -> u32 {
        let connection = self.connection_of(client);
        let connection = connection.and_then(|number| self.connections.get(&number));
        let grant = connection.and_then(|connection| connection.grant.as_ref());
        let ppm = grant.map_or(0, |grant| grant.demand().worker_ppm);
        u32::try_from(ppm).unwrap_or(u32::MAX)
    }

    /// A client's part, in millionths of a CPU; none: it has none, or its connection has ended.
    pub fn cpu_ppm_of(&self, client: ClientId) -> Option<u32> {
        let reserved = self.clients.get(&client)?.cpu.as_ref()?;
        let connection = reserved.connection;
        let is_open = connection.is_none_or(|number| self.connections.contains_key(&number));
        is_open.then(|| u32::try_from(reserved.grant.demand().worker_ppm).unwrap_or(u32::MAX))
    }

    /// Gives back what a client has.
    pub fn release_cpu(&mut self, client: ClientId) {
        let state = self.clients.get_mut(&client);
        let reserved = state.and_then(|state| state.cpu.take());
        self.release_reserved(reserved);
    }

    pub(super) fn release_reserved(&mut self, reserved: Option<Reserved>) {
        if let Some(reserved) = reserved {
            self.admission.release(reserved.grant);
            self.work.freed = true;
        }
    }
}
