//! The calls of an end.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::fragments::{Receiving, Sending, Taken};
use super::packet::{Body, Packet, Progress};
use super::{
    Bugs, Call, CallError, Event, Failure, Held, Out, Outcome, Planted, Refusal, RexConfig,
    RexDiscard,
};
use crate::Time;
use crate::upper::msna::Address;

#[derive(Clone, Debug)]
pub(super) struct Calls<B> {
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Session {
    incarnation: u64,
    number: u64,
    fresh_ns: u64,
}

#[derive(Clone, Debug)]
struct Calling {
    has_reply: bool,
    state: State,
    /// None: a session is awaited.
    due: Option<Time>,
    /// How often it may still be said without an answer.
    left: u8,
    is_ready: bool,
}

#[derive(Clone, Debug)]
enum State {
    /// Nothing has been said: there is no session.
    Waits(Sending),
    Sends(Sending),
    /// The server has all of it.
    Works,
    Receives(Receiving),
}

impl State {
    const fn octets(&self) -> usize {
        match self {
            Self::Waits(sending) | Self::Sends(sending) => sending.len(),
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

    pub(super) fn held(&self) -> Held {
        Held {
            calls: self.calls.len(),
            exchanges: 0,
            octets: self.octets,
            peers: self.servers.len(),
        }
    }

    pub(super) fn call(
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
        let is_known = self.servers.contains_key(&to);
        if self.calls.len() >= self.config.calls_max
            || self.octets + len > self.config.octets_max
            || !is_known && self.servers.len() >= self.config.peers_max
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
            state: State::Waits(sending),
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

    /// A call has a session, and leaves.
    fn begins(&mut self, now: Time, call: Call) {
        if let Some(calling) = self.calls.get_mut(&call)
            && let State::Waits(sending) = core::mem::replace(&mut calling.state, State::Works)
        {
            calling.state = State::Sends(sending);
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

    /// Tells what has become of a call.
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

    pub(super) fn cancel(&mut self, now: Time, out: &mut Out, call: Call) {
        let Some(calling) = self.calls.get(&call) else {
            return;
        };
        let was_said = !matches!(calling.state, State::Waits(_));
        if self.bugs.planted(Planted::CancelledStays) {
            let outcome = Outcome::Failed(Failure::Cancelled);
            return out.events.push_back(Event::Ended { call, outcome });
        }
        self.end(now, out, call, Outcome::Failed(Failure::Cancelled));
        if was_said {
            self.say_ended(out, call);
        }
    }

    pub(super) fn handle(
        &mut self,
        now: Time,
        out: &mut Out,
        from: Address,
        packet: &Packet<'_>,
    ) -> Result<(), RexDiscard> {
        let server = self.servers.get_mut(&from).ok_or(RexDiscard::Stale)?;
        if packet.receiver != self.config.incarnation {
            return Err(RexDiscard::Stale);
        }
        let session = server.session;
        let said = (packet.sender, packet.session);
        let known = session.map(|session| (session.incarnation, session.number));
        let asked = server.hello.map(|hello| hello.number);
        let is_answer = asked == Some(packet.call);
        match packet.body {
            Body::Welcome { keep_us } => {
                let is_old = known.is_some_and(|known| said < known);
                if is_old || !is_answer {
                    return Err(RexDiscard::Stale);
                }
                self.is_welcome(now, out, from, said, u64::from(keep_us) * 1000);
                return Ok(());
            }
            Body::Gone => {
                let is_ours = session.is_some_and(|session| {
                    session.number == packet.session && session.incarnation <= packet.sender
                });
                if !is_ours || self.bugs.planted(Planted::GoneNotHeard) {
                    return Err(RexDiscard::Stale);
                }
                self.is_gone(now, out, from);
                return Ok(());
            }
            Body::Refused(Refusal::Busy) if said.1 == 0 && is_answer => {
                self.has_no_session(now, out, from, Outcome::Refused(Refusal::Busy));
                return Ok(());
            }
            _ => {}
        }
        let session = session.filter(|_| known == Some(said));
        let session = session.ok_or(RexDiscard::Stale)?;
        server.fresh_until = now.plus_ns(session.fresh_ns);
        let call = Call {
            to: from,
            number: packet.call,
        };
        if self.calls.contains_key(&call) {
            return self.handle_of_call(now, out, call, &packet.body);
        }
        if matches!(packet.body, Body::Reply(fragment) if fragment.asks) {
            self.say_ended(out, call);
        }
        Err(RexDiscard::Stale)
    }

    fn is_welcome(
        &mut self,
        now: Time,
        out: &mut Out,
        from: Address,
        (incarnation, number): (u64, u64),
        keep_ns: u64,
    ) {
        let session = Session {
            incarnation,
            number,
            // Whatever was said last has reached the server less than half of that ago.
            fresh_ns: keep_ns / 2,
        };
        let Some(server) = self.servers.get_mut(&from) else {
            return;
        };
        let is_other = server.session.is_some_and(|known| known != session);
        if is_other {
            self.is_gone(now, out, from);
        }
        if let Some(server) = self.servers.get_mut(&from) {
            server.session = Some(session);
            server.fresh_until = now.plus_ns(session.fresh_ns);
        }
        self.set_hello(from, None);
        for call in self.waiting(from) {
            self.begins(now, call);
        }
    }

    fn waiting(&self, to: Address) -> Vec<Call> {
        let waits = |calling: &Calling| matches!(calling.state, State::Waits(_));
        let calls = self.calls_to(to).filter(|(_, calling)| waits(calling));
        calls.map(|(call, _)| call).collect()
    }

    /// The session is no more: nobody can know what became of its calls.
    fn is_gone(&mut self, now: Time, out: &mut Out, from: Address) {
        if let Some(server) = self.servers.get_mut(&from) {
            server.session = None;
            server.fresh_until = now;
        }
        self.set_acknowledge(from, None);
        let waiting = self.waiting(from);
        let all: Vec<_> = self.calls_to(from).map(|(call, _)| call).collect();
        for call in all.into_iter().filter(|call| !waiting.contains(call)) {
            self.end(now, out, call, Outcome::Failed(Failure::Restarted));
        }
    }

    /// It gives no session.
    fn has_no_session(&mut self, now: Time, out: &mut Out, from: Address, outcome: Outcome) {
        self.set_hello(from, None);
        for call in self.waiting(from) {
            self.end(now, out, call, outcome.clone());
        }
    }

    fn handle_of_call(
        &mut self,
        now: Time,
        out: &mut Out,
        call: Call,
        body: &Body<'_>,
    ) -> Result<(), RexDiscard> {
        let calling = self.calls.get_mut(&call).ok_or(RexDiscard::Stale)?;
        match (body, &mut calling.state) {
            (_, State::Waits(_)) => return Err(RexDiscard::Stale),
            (Body::Refused(reason), _) => {
                let outcome = match reason {
                    Refusal::Dropped => Outcome::Failed(Failure::Dropped),
                    reason => Outcome::Refused(*reason),
                };
                self.end(now, out, call, outcome);
            }
            (Body::Received(progress), State::Sends(sending)) => {
                let mut progress = *progress;
                if self.bugs.planted(Planted::RoundIgnored) {
                    progress.round = sending.round();
                }
                if sending.handle(progress) {
                    self.is_ready(call);
                }
                self.answered(now, call);
            }
            (Body::Working, _) if !calling.has_reply => {
                let outcome = Outcome::Reply(Vec::new());
                self.end(now, out, call, outcome);
            }
            (Body::Working, State::Sends(_) | State::Works) => {
                self.octets -= calling.state.octets();
                calling.state = State::Works;
                self.answered(now, call);
            }
            (Body::Reply(_), _) if calling.has_reply => {
                return self.handle_reply(now, out, call, body);
            }
            _ => return Err(RexDiscard::Duplicate),
        }
        Ok(())
    }

    fn handle_reply(
        &mut self,
        now: Time,
        out: &mut Out,
        call: Call,
        body: &Body<'_>,
    ) -> Result<(), RexDiscard> {
        let (Body::Reply(fragment), Some(calling)) = (body, self.calls.get_mut(&call)) else {
            return Err(RexDiscard::Stale);
        };
        if !matches!(calling.state, State::Receives(_)) {
            let length = fragment.cut.length();
            self.octets -= calling.state.octets();
            calling.state = State::Works;
            if length > self.config.message_max {
                self.end(now, out, call, Outcome::Failed(Failure::TooLong));
                self.say_ended(out, call);
                return Err(RexDiscard::TooLong);
            }
            if self.octets + length > self.config.octets_max {
                self.answered(now, call);
                return Err(RexDiscard::Busy);
            }
            self.octets += length;
            calling.state = State::Receives(Receiving::new(fragment.cut));
        }
        let State::Receives(receiving) = &mut calling.state else {
            return Err(RexDiscard::Stale);
        };
        let taken = receiving.handle(fragment);
        if receiving.is_whole() {
            if let State::Receives(receiving) = core::mem::replace(&mut calling.state, State::Works)
            {
                self.octets -= receiving.len();
                let outcome = Outcome::Reply(receiving.into_octets());
                self.end(now, out, call, outcome);
                self.acknowledge(now, out, call);
            }
            return Ok(());
        }
        let progress = receiving.progress(fragment.round);
        self.answered(now, call);
        if fragment.asks {
            self.probe(out, call, progress);
        }
        match taken {
            Taken::Now => Ok(()),
            Taken::Before => Err(RexDiscard::Duplicate),
            Taken::Elsewhere => Err(RexDiscard::Misplaced),
        }
    }

    fn probe(&mut self, out: &mut Out, call: Call, progress: Progress) {
        let floor = self.floor(call.to);
        self.say(out, call, Body::Probe { floor, progress });
    }

    /// The next fragment of a call.
    pub(super) fn poll(&mut self, now: Time) -> Option<(Address, Vec<u8>)> {
        while let Some(call) = self.ready.pop_front() {
            let floor = self.floor(call.to);
            let session = self.servers.get(&call.to).and_then(|it| it.session);
            let Some(calling) = self.calls.get_mut(&call) else {
                continue;
            };
            calling.is_ready = false;
            let (State::Sends(sending), Some(session)) = (&mut calling.state, session) else {
                continue;
            };
            let Some(fragment) = sending.poll() else {
                continue;
            };
            let body = match calling.has_reply {
                true => Body::Call { floor, fragment },
                false => Body::Announcement { floor, fragment },
            };
            let packet = Packet {
                session: session.number,
                sender: self.config.incarnation,
                receiver: session.incarnation,
                call: call.number,
                body,
            };
            let block = packet.emit();
            if !sending.is_spent() {
                self.is_ready(call);
            }
            self.set_due(now, call);
            self.set_acknowledge(call.to, None);
            return Some((call.to, block));
        }
        None
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.due.first().map(|(due, _)| *due)
    }

    pub(super) fn handle_deadline(&mut self, now: Time, out: &mut Out) {
        while let Some((due, timer)) = self.due.first().copied()
            && due <= now
        {
            self.due.pop_first();
            match timer {
                Timer::Hello(to) => self.hello_is_due(now, out, to),
                Timer::Acknowledge(to) => {
                    self.set_acknowledge(to, None);
                    let number = self.floor(to).saturating_sub(1);
                    self.say_ended(out, Call { to, number });
                }
                Timer::Idle(to) => self.idle_is_due(now, to),
                Timer::Call(call) => self.call_is_due(now, out, call),
            }
        }
    }

    fn hello_is_due(&mut self, now: Time, out: &mut Out, to: Address) {
        let server = self.servers.get_mut(&to);
        match server.and_then(|server| server.hello.take()) {
            Some(Hello { left: 0, .. }) => {
                let silent = Outcome::Failed(Failure::TimedOut);
                self.has_no_session(now, out, to, silent);
            }
            Some(Hello { number, left, .. }) => self.say_hello(now, out, to, number, left - 1),
            None => {}
        }
    }

    fn idle_is_due(&mut self, now: Time, to: Address) {
        self.set_idle(to, None);
        if self.calls_to(to).next().is_some() {
            return;
        }
        match self.servers.get(&to).map(|server| server.fresh_until) {
            Some(until) if until > now => self.set_idle(to, Some(until)),
            _ => {
                self.set_acknowledge(to, None);
                self.set_hello(to, None);
                self.servers.remove(&to);
            }
        }
    }

    fn call_is_due(&mut self, now: Time, out: &mut Out, call: Call) {
        let Some(calling) = self.calls.get_mut(&call) else {
            return;
        };
        calling.due = None;
        if calling.left <= 1 && !self.bugs.planted(Planted::SilenceNotTold) {
            // The next call asks whether the session is there.
            if let Some(server) = self.servers.get_mut(&call.to) {
                server.fresh_until = now;
            }
            self.end(now, out, call, Outcome::Failed(Failure::TimedOut));
            return self.say_ended(out, call);
        }
        calling.left = calling.left.saturating_sub(1);
        let progress = match &mut calling.state {
            State::Waits(_) => None,
            State::Sends(sending) => {
                if !self.bugs.planted(Planted::CallSaidOnce) {
                    sending.ask_again();
                }
                self.is_ready(call);
                None
            }
            State::Works => Some(Progress::default()),
            State::Receives(receiving) => Some(receiving.progress(0)),
        };
        self.set_due(now, call);
        if let Some(progress) = progress {
            self.probe(out, call, progress);
        }
    }
}
