//! Blocks of callers.

use std::collections::BTreeMap;

use super::{Exchanges, RUNS_MAX, Route, Serving, Session, State};
use crate::Time;
use crate::upper::msna::Address;
use crate::upper::msna::rex::fragments::{Receiving, Taken};
use crate::upper::msna::rex::packet::{Body, Fragment, Packet, Progress};
use crate::upper::msna::rex::ranges::Ranges;
use crate::upper::msna::rex::{Bugs, Event, Exchange, Out, Planted, Refusal, RexDiscard};

impl<B: Bugs> Exchanges<B> {
    pub(in crate::upper::msna::rex) fn handle(
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
        let route = session.route(own, from, packet.call);
        self.rises(out, from, packet.body.floor().unwrap_or(0));
        match packet.body {
            Body::Ended { .. } => self.handle_ended(out, route.exchange),
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
                let refused = Packet {
                    session: 0,
                    sender: own,
                    receiver: packet.sender,
                    call: packet.call,
                    body: Body::Refused(Refusal::Busy),
                };
                out.blocks.push_back((from, refused.emit()));
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
            let route = session.route(own, from, packet.call);
            route.say(out, Body::Welcome { keep_us });
        }
        Ok(())
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
                route.say(
                    out,
                    match has_reply {
                        true => session.fate(number),
                        false => Body::Working,
                    },
                );
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
            let (reason, discard) = if length > config.message_max {
                (Refusal::TooLong, RexDiscard::TooLong)
            } else if is_full {
                (Refusal::Busy, RexDiscard::Busy)
            } else {
                let serving = Serving {
                    state: State::Collects(Receiving::new(fragment.cut)),
                    heard: now,
                    is_ready: false,
                };
                session.exchanges.insert(number, serving);
                session.octets += length;
                return self.handle_fragment(now, out, route, fragment, has_reply);
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
            route.say(out, session.fate(number));
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
}
