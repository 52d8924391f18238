//! The calls of others.

mod requests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::fragments::{Receiving, Sending};
use super::packet::{Body, Packet};
use super::ranges::Ranges;
use super::{Bugs, Event, Exchange, Held, Out, Planted, Refusal, ReplyError, RexConfig};
use crate::Time;
use crate::upper::msna::Address;

/// Runs of ended calls above a session's floor. A caller has no more of them than calls that have
/// not ended; another has what it calls beyond that thrown away.
const RUNS_MAX: usize = 1024;
/// Refusals that a session remembers; the rest is told that a call was dropped.
const REFUSALS_MAX: usize = 256;

#[derive(Clone, Debug)]
pub(in crate::upper::msna::rex) struct Exchanges<B> {
    config: RexConfig,
    bugs: B,
    sessions: BTreeMap<Address, Session>,
    last_session: u64,
    due: BTreeSet<(Time, Address)>,
    /// Replies with fragments that leave, in turn.
    ready: VecDeque<Exchange>,
}

#[derive(Clone, Debug)]
struct Session {
    /// Of the caller.
    incarnation: u64,
    number: u64,
    heard: Time,
    due: Time,
    /// Calls below it have ended.
    floor: u64,
    /// So have these.
    ended: Ranges,
    refused: BTreeMap<u64, Refusal>,
    exchanges: BTreeMap<u64, Serving>,
    /// Octets of them.
    octets: usize,
}

#[derive(Clone, Debug)]
struct Serving {
    state: State,
    heard: Time,
    is_ready: bool,
}

#[derive(Clone, Debug)]
enum State {
    Collects(Receiving),
    /// The application has it.
    Executes,
    Replies(Sending),
}

impl State {
    const fn octets(&self) -> usize {
        match self {
            Self::Collects(receiving) => receiving.len(),
            Self::Executes => 0,
            Self::Replies(sending) => sending.len(),
        }
    }
}

/// Where an answer goes, and of which call it is.
#[derive(Clone, Copy)]
struct Route {
    exchange: Exchange,
    /// Of the caller.
    incarnation: u64,
    own: u64,
}

impl Route {
    fn block(self, body: Body<'_>) -> (Address, Vec<u8>) {
        let packet = Packet {
            session: self.exchange.session,
            sender: self.own,
            receiver: self.incarnation,
            call: self.exchange.number,
            body,
        };
        (self.exchange.from, packet.emit())
    }

    fn say(self, out: &mut Out, body: Body<'_>) {
        out.blocks.push_back(self.block(body));
    }
}

impl Session {
    /// Nothing more becomes of a call. Its application hears of it, if it has the call.
    fn end(&mut self, out: &mut Out, exchange: Exchange, is_heard: bool) {
        if let Some(serving) = self.exchanges.remove(&exchange.number) {
            self.octets -= serving.state.octets();
            if is_heard && matches!(serving.state, State::Executes) {
                out.events.push_back(Event::Cancelled { exchange });
            }
        }
        if exchange.number >= self.floor {
            self.ended.insert(exchange.number);
        }
    }

    fn refuse(&mut self, number: u64, reason: Refusal) {
        self.refused.insert(number, reason);
        if self.refused.len() > REFUSALS_MAX {
            self.refused.pop_first();
        }
    }

    /// What is said of a call that has ended.
    fn fate(&self, number: u64) -> Body<'static> {
        let reason = self.refused.get(&number).copied();
        reason.map_or(Body::Dropped, Body::Refused)
    }

    const fn route(&self, own: u64, from: Address, number: u64) -> Route {
        Route {
            exchange: Exchange {
                from,
                session: self.number,
                number,
            },
            incarnation: self.incarnation,
            own,
        }
    }
}

impl<B: Bugs> Exchanges<B> {
    pub(super) const fn new(config: RexConfig, bugs: B) -> Self {
        Self {
            config,
            bugs,
            sessions: BTreeMap::new(),
            last_session: 0,
            due: BTreeSet::new(),
            ready: VecDeque::new(),
        }
    }

    pub(in crate::upper::msna::rex) fn held(&self) -> Held {
        let sessions = self.sessions.values();
        Held {
            calls: 0,
            exchanges: sessions.clone().map(|it| it.exchanges.len()).sum(),
            octets: sessions.clone().map(|session| session.octets).sum(),
            marks: sessions.map(|it| it.ended.len() + it.refused.len()).sum(),
            peers: self.sessions.len(),
        }
    }

    fn is_ready(ready: &mut VecDeque<Exchange>, serving: &mut Serving, exchange: Exchange) {
        if !serving.is_ready {
            serving.is_ready = true;
            ready.push_back(exchange);
        }
    }

    fn session_of(&mut self, exchange: Exchange) -> Option<&mut Session> {
        let session = self.sessions.get_mut(&exchange.from)?;
        (session.number == exchange.session).then_some(session)
    }

    /// Replies that nobody polls do not add up when they have ended.
    fn tidy_ready(&mut self) {
        let sessions = &self.sessions;
        if self.ready.len() >= self.config.exchanges_max * sessions.len().max(1) {
            self.ready.retain(|exchange| {
                let session = sessions.get(&exchange.from);
                session.is_some_and(|session| {
                    session.number == exchange.session
                        && session.exchanges.contains_key(&exchange.number)
                })
            });
        }
    }

    pub(in crate::upper::msna::rex) fn reply(
        &mut self,
        now: Time,
        exchange: Exchange,
        octets: Vec<u8>,
    ) -> Result<(), ReplyError> {
        let (len, max) = (octets.len(), self.config.message_max);
        let (size, window) = (self.config.fragment_max, self.config.window);
        self.tidy_ready();
        let session = self.session_of(exchange).ok_or(ReplyError::Ended)?;
        let serving = session.exchanges.get_mut(&exchange.number);
        let serving = serving.filter(|serving| matches!(serving.state, State::Executes));
        let serving = serving.ok_or(ReplyError::Ended)?;
        let sending = Sending::new(octets, size, window).filter(|_| len <= max);
        serving.state = State::Replies(sending.ok_or(ReplyError::TooLong { len, max })?);
        serving.heard = now;
        serving.is_ready = true;
        session.octets += len;
        self.ready.push_back(exchange);
        Ok(())
    }

    pub(in crate::upper::msna::rex) fn abandon(&mut self, out: &mut Out, exchange: Exchange) {
        let own = self.config.incarnation;
        let Some(session) = self.session_of(exchange) else {
            return;
        };
        let serving = session.exchanges.get(&exchange.number);
        if serving.is_some_and(|serving| matches!(serving.state, State::Executes)) {
            session.end(out, exchange, false);
            let route = session.route(own, exchange.from, exchange.number);
            route.say(out, Body::Dropped);
        }
    }

    /// A session is no more, and nothing of it.
    fn forget(&mut self, out: &mut Out, from: Address) {
        let Some(session) = self.sessions.remove(&from) else {
            return;
        };
        self.due.remove(&(session.due, from));
        for (number, serving) in session.exchanges {
            if let State::Executes = serving.state {
                let exchange = Exchange {
                    from,
                    session: session.number,
                    number,
                };
                out.events.push_back(Event::Cancelled { exchange });
            }
        }
    }

    /// The next fragment of a reply.
    pub(in crate::upper::msna::rex) fn poll(&mut self) -> Option<(Address, Vec<u8>)> {
        while let Some(exchange) = self.ready.pop_front() {
            let own = self.config.incarnation;
            let Some(session) = self.session_of(exchange) else {
                continue;
            };
            let route = session.route(own, exchange.from, exchange.number);
            let Some(serving) = session.exchanges.get_mut(&exchange.number) else {
                continue;
            };
            serving.is_ready = false;
            let State::Replies(sending) = &mut serving.state else {
                continue;
            };
            let Some(fragment) = sending.poll() else {
                continue;
            };
            let block = route.block(Body::Reply(fragment));
            if !sending.is_spent() {
                serving.is_ready = true;
                self.ready.push_back(exchange);
            }
            return Some(block);
        }
        None
    }

    pub(in crate::upper::msna::rex) fn next_deadline(&self) -> Option<Time> {
        self.due.first().map(|(due, _)| *due)
    }

    /// Forgets what silent callers had.
    pub(in crate::upper::msna::rex) fn handle_deadline(&mut self, now: Time, out: &mut Out) {
        while let Some((due, from)) = self.due.first().copied()
            && due <= now
        {
            self.due.pop_first();
            self.is_silent(now, out, from);
        }
    }

    fn is_silent(&mut self, now: Time, out: &mut Out, from: Address) {
        let keep_ns = self.config.keep_ns;
        let kept = self.bugs.planted(Planted::HalfCallsKept);
        let Some(session) = self.sessions.get_mut(&from) else {
            return;
        };
        let until = |serving: &Serving| match serving.state {
            State::Executes => None,
            State::Collects(_) if kept => None,
            _ => Some(serving.heard.plus_ns(keep_ns)),
        };
        let is_old = |serving: &Serving| until(serving).is_some_and(|until| until <= now);
        let exchanges = session.exchanges.iter();
        let old = exchanges.filter(|(_, serving)| is_old(serving));
        let old: Vec<_> = old.map(|(number, _)| *number).collect();
        for number in old {
            let exchange = Exchange {
                from,
                session: session.number,
                number,
            };
            session.end(out, exchange, false);
        }
        let silent = session.heard.plus_ns(keep_ns);
        if session.exchanges.is_empty() && silent <= now {
            return self.forget(out, from);
        }
        let next = session.exchanges.values().filter_map(until).min();
        let next = next.into_iter().chain([silent]).filter(|due| *due > now);
        session.due = next.min().unwrap_or(now.plus_ns(keep_ns.max(1)));
        self.due.insert((session.due, from));
    }
}
