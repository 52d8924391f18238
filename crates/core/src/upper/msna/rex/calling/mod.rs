//! The calls of an end.

mod answers;
mod due;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::fragments::{Receiving, Sending};
use super::packet::{Body, Packet, Progress};
use super::{Bugs, Call, CallError, Event, Failure, Held, Out, Outcome, Planted, RexConfig};
use crate::Time;
use crate::upper::msna::Address;

#[derive(Clone, Debug)]
pub(in crate::upper::msna::rex) struct Calls<B> {
    config: RexConfig,
    bugs: B,
    servers: BTreeMap<Address, Server>,
    calls: BTreeMap<Call, Calling>,
    /// Above those of all calls: a server that was forgotten and is called again has not seen it.
    next_number: u64,
    /// Octets of calls and replies.
    octets: usize,
    due: BTreeSet<(Time, Timer)>,
    /// Calls with fragments that leave, in turn.
    ready: VecDeque<Call>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// It is asked for a session again.
    Hello(Address),
    /// It is told what has ended.
    Acknowledge(Address),
    /// It has not been called for long.
    Idle(Address),
    /// A call has no answer.
    Call(Call),
}

#[derive(Clone, Debug)]
struct Server {
    session: Option<Session>,
    /// Behind this it may have forgotten the session.
    fresh_until: Time,
    next_number: u64,
    /// It is asked for a session.
    hello: Option<Hello>,
    acknowledge: Option<Time>,
    idle: Option<Time>,
}

#[derive(Clone, Copy, Debug)]
struct Hello {
    /// An answer has the number of the call that asked.
    number: u64,
    /// When it is said again, and how often.
    due: Time,
    left: u8,
}

#[derive(Clone, Copy, Debug)]
struct Session {
    incarnation: u64,
    number: u64,
    fresh_ns: u64,
}

#[derive(Clone, Debug)]
struct Calling {
    has_reply: bool,
    /// For a session: nothing of it has been said.
    waits: bool,
    state: State,
    due: Option<Time>,
    /// How often it may still be said without an answer.
    left: u8,
    is_ready: bool,
}

#[derive(Clone, Debug)]
enum State {
    Sends(Sending),
    /// The server has all of it.
    Works,
    Receives(Receiving),
}

impl State {
    const fn octets(&self) -> usize {
        match self {
            Self::Sends(sending) => sending.len(),
            Self::Works => 0,
            Self::Receives(receiving) => receiving.len(),
        }
    }
}

impl<B: Bugs> Calls<B> {
    pub(super) const fn new(config: RexConfig, bugs: B) -> Self {
        Self {
            config,
            bugs,
            servers: BTreeMap::new(),
            calls: BTreeMap::new(),
            next_number: 1,
            octets: 0,
            due: BTreeSet::new(),
            ready: VecDeque::new(),
        }
    }

    pub(in crate::upper::msna::rex) fn held(&self) -> Held {
        Held {
            calls: self.calls.len(),
            exchanges: 0,
            octets: self.octets,
            marks: 0,
            peers: self.servers.len(),
        }
    }

    pub(in crate::upper::msna::rex) fn call(
        &mut self,
        now: Time,
        out: &mut Out,
        to: Address,
        octets: Vec<u8>,
        has_reply: bool,
    ) -> Result<Call, CallError> {
        let (len, max) = (octets.len(), self.config.message_max);
        let too_long = CallError::TooLong { len, max };
        let (size, window) = (self.config.fragment_max, self.config.window);
        let sending = Sending::new(octets, size, window).filter(|_| len <= max);
        let sending = sending.ok_or(too_long)?;
        if self.calls.len() >= self.config.calls_max
            || self.octets + len > self.config.octets_max
            || !self.has_room_for(to)
        {
            return Err(CallError::Full);
        }
        let server = self.servers.entry(to).or_insert(Server {
            session: None,
            fresh_until: now,
            next_number: self.next_number,
            hello: None,
            acknowledge: None,
            idle: None,
        });
        let number = server.next_number;
        server.next_number += 1;
        self.next_number = self.next_number.max(server.next_number);
        let is_fresh = server.session.is_some() && now < server.fresh_until;
        let call = Call { to, number };
        let calling = Calling {
            has_reply,
            waits: true,
            state: State::Sends(sending),
            due: None,
            left: self.config.tries,
            is_ready: false,
        };
        self.octets += len;
        self.calls.insert(call, calling);
        match is_fresh {
            true => self.begins(now, call),
            false => self.ask_for_session(now, out, call),
        }
        Ok(call)
    }

    /// Whether a server is known or may be: one that is not called is forgotten for it.
    fn has_room_for(&mut self, to: Address) -> bool {
        if self.servers.contains_key(&to) || self.servers.len() < self.config.peers_max {
            return true;
        }
        let mut idle = self.due.iter().filter_map(|(_, timer)| match timer {
            Timer::Idle(idle) => Some(*idle),
            _ => None,
        });
        let idle = idle.find(|idle| self.calls_to(*idle).next().is_none());
        idle.is_some_and(|idle| self.forget(idle))
    }

    fn forget(&mut self, to: Address) -> bool {
        self.set_idle(to, None);
        self.set_acknowledge(to, None);
        self.set_hello(to, None);
        self.servers.remove(&to).is_some()
    }

    /// A call has a session, and leaves.
    fn begins(&mut self, now: Time, call: Call) {
        if let Some(calling) = self.calls.get_mut(&call)
            && core::mem::take(&mut calling.waits)
        {
            self.is_ready(call);
            self.answered(now, call);
        }
    }

    fn is_ready(&mut self, call: Call) {
        if let Some(calling) = self.calls.get_mut(&call)
            && !calling.is_ready
        {
            calling.is_ready = true;
            self.ready.push_back(call);
        }
    }

    /// The server has said something of a call: it need not be asked for a while.
    fn answered(&mut self, now: Time, call: Call) {
        if let Some(calling) = self.calls.get_mut(&call) {
            calling.left = self.config.tries;
            self.set_due(now, call);
        }
    }

    fn set_due(&mut self, now: Time, call: Call) {
        let Some(calling) = self.calls.get_mut(&call) else {
            return;
        };
        let in_ns = match calling.state {
            State::Works => self.config.probe_ns,
            _ => self.config.retry_ns,
        };
        let due = Some(now.plus_ns(in_ns));
        let was = core::mem::replace(&mut calling.due, due);
        self.time(Timer::Call(call), was, due);
    }

    fn time(&mut self, timer: Timer, was: Option<Time>, due: Option<Time>) {
        if was != due {
            was.map(|was| self.due.remove(&(was, timer)));
            due.map(|due| self.due.insert((due, timer)));
        }
    }

    fn ask_for_session(&mut self, now: Time, out: &mut Out, Call { to, number }: Call) {
        let server = self.servers.get(&to);
        if server.is_some_and(|server| server.hello.is_none()) {
            let left = self.config.tries.saturating_sub(1);
            self.say_hello(now, out, to, number, left);
        }
    }

    fn say_hello(&mut self, now: Time, out: &mut Out, to: Address, number: u64, left: u8) {
        let due = now.plus_ns(self.config.retry_ns);
        self.set_hello(to, Some(Hello { number, due, left }));
        let hello = Packet {
            session: 0,
            sender: self.config.incarnation,
            receiver: 0,
            call: number,
            body: Body::Hello,
        };
        out.blocks.push_back((to, hello.emit()));
    }

    fn set_hello(&mut self, to: Address, hello: Option<Hello>) {
        if let Some(server) = self.servers.get_mut(&to) {
            let was = core::mem::replace(&mut server.hello, hello);
            let (was, due) = (was.map(|was| was.due), hello.map(|hello| hello.due));
            self.time(Timer::Hello(to), was, due);
        }
    }

    fn set_acknowledge(&mut self, to: Address, due: Option<Time>) {
        if let Some(server) = self.servers.get_mut(&to) {
            let was = core::mem::replace(&mut server.acknowledge, due);
            self.time(Timer::Acknowledge(to), was, due);
        }
    }

    fn set_idle(&mut self, to: Address, due: Option<Time>) {
        if let Some(server) = self.servers.get_mut(&to) {
            let was = core::mem::replace(&mut server.idle, due);
            self.time(Timer::Idle(to), was, due);
        }
    }

    /// Calls to a server that have not ended, the first first.
    fn calls_to(&self, to: Address) -> impl Iterator<Item = (Call, &Calling)> {
        let all = Call { to, number: 0 }..=Call {
            to,
            number: u64::MAX,
        };
        self.calls
            .range(all)
            .map(|(call, calling)| (*call, calling))
    }

    /// All calls below it have ended.
    fn floor(&self, to: Address) -> u64 {
        let first = self.calls_to(to).next().map(|(call, _)| call.number);
        let next = || self.servers.get(&to).map_or(0, |it| it.next_number);
        first.unwrap_or_else(next)
    }

    /// A block of the session there is.
    fn block(&mut self, call: Call, body: Body<'_>) -> Option<(Address, Vec<u8>)> {
        let session = self.servers.get(&call.to)?.session?;
        let packet = Packet {
            session: session.number,
            sender: self.config.incarnation,
            receiver: session.incarnation,
            call: call.number,
            body,
        };
        let block = packet.emit();
        // It has the floor in it.
        self.set_acknowledge(call.to, None);
        Some((call.to, block))
    }

    fn say(&mut self, out: &mut Out, call: Call, body: Body<'_>) {
        let block = self.block(call, body);
        out.blocks.extend(block);
    }

    fn say_ended(&mut self, out: &mut Out, call: Call) {
        let floor = self.floor(call.to);
        self.say(out, call, Body::Ended { floor });
    }

    /// Tells what has become of a call; nobody hears what has of an announcement.
    fn end(&mut self, now: Time, out: &mut Out, call: Call, outcome: Outcome) {
        let Some(calling) = self.calls.remove(&call) else {
            return;
        };
        self.octets -= calling.state.octets();
        self.time(Timer::Call(call), calling.due, None);
        if calling.is_ready {
            self.ready.retain(|other| *other != call);
        }
        if calling.has_reply {
            out.events.push_back(Event::Ended { call, outcome });
        }
        if self.calls_to(call.to).next().is_none() {
            let server = self.servers.get(&call.to);
            let idle = server.map(|server| server.fresh_until.max(now));
            self.set_idle(call.to, idle);
        }
    }

    /// The server may forget a call that has ended: sooner or later, as far as the next floor
    /// tells.
    fn acknowledge(&mut self, now: Time, out: &mut Out, call: Call) {
        if self.floor(call.to) < call.number {
            return self.say_ended(out, call);
        }
        let server = self.servers.get(&call.to);
        if server.is_some_and(|server| server.acknowledge.is_none()) {
            let due = now.plus_ns(self.config.acknowledge_ns);
            self.set_acknowledge(call.to, Some(due));
        }
    }

    pub(in crate::upper::msna::rex) fn cancel(&mut self, now: Time, out: &mut Out, call: Call) {
        let Some(calling) = self.calls.get(&call) else {
            return;
        };
        let was_said = !calling.waits;
        if self.bugs.planted(Planted::CancelledStays) {
            let outcome = Outcome::Failed(Failure::Cancelled);
            return out.events.push_back(Event::Ended { call, outcome });
        }
        self.end(now, out, call, Outcome::Failed(Failure::Cancelled));
        if was_said {
            self.say_ended(out, call);
        }
    }

    fn probe(&mut self, out: &mut Out, call: Call, progress: Progress) {
        let floor = self.floor(call.to);
        self.say(out, call, Body::Probe { floor, progress });
    }
}
