//! The calls of others.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::fragments::{Receiving, Sending, Taken};
use super::packet::{Body, Fragment, Packet, Progress};
use super::ranges::Ranges;
use super::{
    Bugs, Event, Exchange, Held, Out, Planted, Refusal, ReplyError, RexConfig, RexDiscard,
};
use crate::Time;
use crate::upper::msna::Address;

/// Runs of ended calls above a session's floor. A caller has no more of them than calls that have
/// not ended; another has what it calls beyond that thrown away.
const RUNS_MAX: usize = 1024;
/// Refusals that a session remembers; the rest is told that a call was dropped.
const REFUSALS_MAX: usize = 256;

#[derive(Clone, Debug)]
pub(super) struct Exchanges<B> {
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

    fn refusal(&self, number: u64) -> Refusal {
        let reason = self.refused.get(&number).copied();
        reason.unwrap_or(Refusal::Dropped)
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

    pub(super) fn held(&self) -> Held {
        let sessions = self.sessions.values();
        Held {
            calls: 0,
            exchanges: sessions.clone().map(|it| it.exchanges.len()).sum(),
            octets: sessions.map(|session| session.octets).sum(),
            peers: self.sessions.len(),
        }
    }

    fn route(&self, session: &Session, from: Address, number: u64) -> Route {
        Route {
            exchange: Exchange {
                from,
                session: session.number,
                number,
            },
            incarnation: session.incarnation,
            own: self.config.incarnation,
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

    pub(super) fn reply(
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

    pub(super) fn abandon(&mut self, out: &mut Out, exchange: Exchange) {
        let own = self.config.incarnation;
        let Some(session) = self.session_of(exchange) else {
            return;
        };
        let serving = session.exchanges.get(&exchange.number);
        if serving.is_some_and(|serving| matches!(serving.state, State::Executes)) {
            session.end(out, exchange, false);
            let route = Route {
                exchange,
                incarnation: session.incarnation,
                own,
            };
            route.say(out, Body::Refused(Refusal::Dropped));
        }
    }

    pub(super) fn handle(
        &mut self,
        now: Time,
        out: &mut Out,
        from: Address,
        packet: &Packet<'_>,
    ) -> Result<(), RexDiscard> {
        if let Body::Hello = packet.body {
            return self.handle_hello(now, out, from, packet);
        }
        let own = self.config.incarnation;
        let is_ours = packet.receiver == own || self.bugs.planted(Planted::PredecessorsCallTaken);
        let session = self.sessions.get_mut(&from);
        let session = session.filter(|session| {
            is_ours && session.number == packet.session && session.incarnation == packet.sender
        });
        let Some(session) = session else {
            if packet.receiver > own || matches!(packet.body, Body::Ended { .. }) {
                return Err(RexDiscard::Stale);
            }
            let gone = Packet {
                session: packet.session,
                sender: own,
                receiver: packet.sender,
                call: packet.call,
                body: Body::Gone,
            };
            out.blocks.push_back((from, gone.emit()));
            return Err(RexDiscard::UnknownSession);
        };
        session.heard = now;
        let exchange = Exchange {
            from,
            session: session.number,
            number: packet.call,
        };
        let route = Route {
            exchange,
            incarnation: session.incarnation,
            own,
        };
        self.rises(out, from, packet.body.floor().unwrap_or(0));
        match packet.body {
            Body::Ended { .. } => self.handle_ended(out, exchange),
            Body::Call { fragment, .. } => self.handle_call(now, out, route, &fragment, true),
            Body::Announcement { fragment, .. } => {
                self.handle_call(now, out, route, &fragment, false)
            }
            Body::Probe { progress, .. } => self.handle_probe(now, out, route, progress),
            _ => Err(RexDiscard::Stale),
        }
    }

    fn handle_hello(
        &mut self,
        now: Time,
        out: &mut Out,
        from: Address,
        packet: &Packet<'_>,
    ) -> Result<(), RexDiscard> {
        let known = self.sessions.get(&from).map(|session| session.incarnation);
        if known.is_some_and(|known| packet.sender < known) {
            return Err(RexDiscard::Stale);
        }
        let keeps = self.bugs.planted(Planted::CallersSessionKept);
        if known.is_some_and(|known| packet.sender > known && !keeps) {
            self.forget(out, from);
        }
        let own = self.config.incarnation;
        let is_full = self.sessions.len() >= self.config.peers_max;
        if !self.sessions.contains_key(&from) {
            if is_full {
                let exchange = Exchange {
                    from,
                    session: 0,
                    number: packet.call,
                };
                let incarnation = packet.sender;
                let route = Route {
                    exchange,
                    incarnation,
                    own,
                };
                route.say(out, Body::Refused(Refusal::Busy));
                return Err(RexDiscard::Busy);
            }
            if !self.bugs.planted(Planted::SessionNumberReused) || self.last_session == 0 {
                self.last_session += 1;
            }
            let due = now.plus_ns(self.config.keep_ns);
            let session = Session {
                incarnation: packet.sender,
                number: self.last_session,
                heard: now,
                due,
                floor: 0,
                ended: Ranges::default(),
                refused: BTreeMap::new(),
                exchanges: BTreeMap::new(),
                octets: 0,
            };
            self.due.insert((due, from));
            self.sessions.insert(from, session);
        }
        if let Some(session) = self.sessions.get_mut(&from) {
            session.heard = now;
            session.incarnation = packet.sender;
        }
        if let Some(session) = self.sessions.get(&from) {
            let keep_us = self.config.keep_ns / 1000;
            let keep_us = u32::try_from(keep_us).unwrap_or(u32::MAX);
            let route = self.route(session, from, packet.call);
            route.say(out, Body::Welcome { keep_us });
        }
        Ok(())
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

    /// All calls below the floor have ended.
    fn rises(&mut self, out: &mut Out, from: Address, floor: u64) {
        let is_heard = !self.bugs.planted(Planted::CancelNotHeard);
        let Some(session) = self.sessions.get_mut(&from) else {
            return;
        };
        if floor <= session.floor {
            return;
        }
        session.floor = floor;
        session.ended.remove_below(floor);
        session.refused = session.refused.split_off(&floor);
        if self.bugs.planted(Planted::ReplyKept) {
            return;
        }
        while let Some((number, _)) = session.exchanges.first_key_value()
            && *number < floor
        {
            let exchange = Exchange {
                from,
                session: session.number,
                number: *number,
            };
            session.end(out, exchange, is_heard);
        }
    }

    fn handle_ended(&mut self, out: &mut Out, exchange: Exchange) -> Result<(), RexDiscard> {
        let is_heard = !self.bugs.planted(Planted::CancelNotHeard);
        let kept = self.bugs.planted(Planted::ReplyKept);
        let session = self.session_of(exchange);
        let session = session.ok_or(RexDiscard::UnknownSession)?;
        if session.ended.len() >= RUNS_MAX && !session.exchanges.contains_key(&exchange.number) {
            return Err(RexDiscard::Busy);
        }
        if !kept {
            session.end(out, exchange, is_heard);
        }
        Ok(())
    }

    fn handle_call(
        &mut self,
        now: Time,
        out: &mut Out,
        route: Route,
        fragment: &Fragment<'_>,
        has_reply: bool,
    ) -> Result<(), RexDiscard> {
        let Exchange { from, number, .. } = route.exchange;
        let (config, bugs) = (self.config, self.bugs);
        let session = self.sessions.get_mut(&from);
        let session = session.ok_or(RexDiscard::UnknownSession)?;
        if number < session.floor && !bugs.planted(Planted::FloorIgnored) {
            return Err(RexDiscard::Stale);
        }
        if session.ended.contains(number) && !bugs.planted(Planted::EndedForgotten) {
            if fragment.asks {
                let reason = session.refusal(number);
                let answer = match has_reply {
                    true => Body::Refused(reason),
                    false => Body::Working,
                };
                route.say(out, answer);
            }
            return Err(RexDiscard::Duplicate);
        }
        if !session.exchanges.contains_key(&number) {
            let length = fragment.cut.length();
            if session.ended.len() >= RUNS_MAX {
                return Err(RexDiscard::Busy);
            }
            let octets_max = match bugs.planted(Planted::OctetsNotCounted) {
                true => usize::MAX,
                false => config.octets_max,
            };
            let is_full = session.exchanges.len() >= config.exchanges_max
                || session.octets + length > octets_max;
            let (reason, discard) = match () {
                () if length > config.message_max => (Refusal::TooLong, RexDiscard::TooLong),
                () if is_full => (Refusal::Busy, RexDiscard::Busy),
                () => {
                    let serving = Serving {
                        state: State::Collects(Receiving::new(fragment.cut)),
                        heard: now,
                        is_ready: false,
                    };
                    session.exchanges.insert(number, serving);
                    session.octets += length;
                    return self.handle_fragment(now, out, route, fragment, has_reply);
                }
            };
            // A late copy must not be executed behind that.
            if !bugs.planted(Planted::RefusedExecuted) {
                session.end(out, route.exchange, false);
                session.refuse(number, reason);
            }
            route.say(out, Body::Refused(reason));
            return Err(discard);
        }
        self.handle_fragment(now, out, route, fragment, has_reply)
    }

    fn handle_fragment(
        &mut self,
        now: Time,
        out: &mut Out,
        route: Route,
        fragment: &Fragment<'_>,
        has_reply: bool,
    ) -> Result<(), RexDiscard> {
        let Exchange { from, number, .. } = route.exchange;
        let bugs = self.bugs;
        let session = self.sessions.get_mut(&from);
        let session = session.ok_or(RexDiscard::UnknownSession)?;
        let serving = session.exchanges.get_mut(&number);
        let serving = serving.ok_or(RexDiscard::Stale)?;
        serving.heard = now;
        let receiving = match &mut serving.state {
            State::Collects(receiving) => receiving,
            State::Executes => {
                if fragment.asks {
                    route.say(out, Body::Working);
                }
                return Err(RexDiscard::Duplicate);
            }
            State::Replies(sending) => {
                if fragment.asks && !bugs.planted(Planted::ReplySaidOnce) {
                    sending.ask_again();
                    Self::is_ready(&mut self.ready, serving, route.exchange);
                }
                return Err(RexDiscard::Duplicate);
            }
        };
        let taken = receiving.handle(fragment);
        let at_last =
            bugs.planted(Planted::WholeAtLast) && fragment.number + 1 == fragment.cut.count();
        if receiving.is_whole() || at_last {
            if let State::Collects(receiving) =
                core::mem::replace(&mut serving.state, State::Executes)
            {
                session.octets -= receiving.len();
                let octets = receiving.into_octets();
                let exchange = route.exchange;
                if has_reply {
                    out.events.push_back(Event::Called { exchange, octets });
                } else {
                    out.events.push_back(Event::Announced { from, octets });
                    session.end(out, exchange, false);
                    if fragment.asks {
                        route.say(out, Body::Working);
                    }
                }
            }
            return Ok(());
        }
        if fragment.asks {
            route.say(out, Body::Received(receiving.progress(fragment.round)));
        }
        match taken {
            Taken::Now => Ok(()),
            Taken::Before => Err(RexDiscard::Duplicate),
            Taken::Elsewhere => Err(RexDiscard::Misplaced),
        }
    }

    fn handle_probe(
        &mut self,
        now: Time,
        out: &mut Out,
        route: Route,
        progress: Progress,
    ) -> Result<(), RexDiscard> {
        let Exchange { from, number, .. } = route.exchange;
        let bugs = self.bugs;
        let session = self.sessions.get_mut(&from);
        let session = session.ok_or(RexDiscard::UnknownSession)?;
        if number < session.floor {
            return Err(RexDiscard::Stale);
        }
        let Some(serving) = session.exchanges.get_mut(&number) else {
            let reason = session.refusal(number);
            route.say(out, Body::Refused(reason));
            return Err(RexDiscard::Stale);
        };
        serving.heard = now;
        match &mut serving.state {
            State::Collects(receiving) => {
                route.say(out, Body::Received(receiving.progress(0)));
            }
            State::Executes => route.say(out, Body::Working),
            State::Replies(_) if bugs.planted(Planted::ReplySaidOnce) => {}
            State::Replies(sending) => {
                let begins = sending.handle(progress);
                if progress.round == 0 {
                    sending.ask_again();
                }
                if begins || progress.round == 0 {
                    Self::is_ready(&mut self.ready, serving, route.exchange);
                }
            }
        }
        Ok(())
    }

    /// The next fragment of a reply.
    pub(super) fn poll(&mut self) -> Option<(Address, Vec<u8>)> {
        while let Some(exchange) = self.ready.pop_front() {
            let own = self.config.incarnation;
            let Some(session) = self.session_of(exchange) else {
                continue;
            };
            let incarnation = session.incarnation;
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
            let route = Route {
                exchange,
                incarnation,
                own,
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

    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.due.first().map(|(due, _)| *due)
    }

    /// Forgets what silent callers had.
    pub(super) fn handle_deadline(&mut self, now: Time, out: &mut Out) {
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
