//! Blocks of servers.

use super::{Calls, Session, State};
use crate::Time;
use crate::upper::msna::Address;
use crate::upper::msna::rex::fragments::{Receiving, Taken};
use crate::upper::msna::rex::packet::{Body, Fragment, Packet};
use crate::upper::msna::rex::{Bugs, Call, Failure, Out, Outcome, Planted, Refusal, RexDiscard};

impl<B: Bugs> Calls<B> {
    pub(in crate::upper::msna::rex) fn handle(
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
            // It has heard of this caller shortly before: whatever it says answers something.
            fresh_ns: keep_ns / 2,
        };
        let Some(server) = self.servers.get_mut(&from) else {
            return;
        };
        let is_other = |known: Session| (known.incarnation, known.number) != (incarnation, number);
        if server.session.is_some_and(is_other) {
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
        let calls = self.calls_to(to).filter(|(_, calling)| calling.waits);
        calls.map(|(call, _)| call).collect()
    }

    /// The session is no more: nobody can know what became of its calls.
    fn is_gone(&mut self, now: Time, out: &mut Out, from: Address) {
        if let Some(server) = self.servers.get_mut(&from) {
            server.session = None;
            server.fresh_until = now;
        }
        self.set_acknowledge(from, None);
        let said = self.calls_to(from).filter(|(_, calling)| !calling.waits);
        let said: Vec<_> = said.map(|(call, _)| call).collect();
        for call in said {
            self.end(now, out, call, Outcome::Failed(Failure::Restarted));
        }
    }

    /// It gives no session.
    pub(super) fn has_no_session(
        &mut self,
        now: Time,
        out: &mut Out,
        from: Address,
        outcome: Outcome,
    ) {
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
        if calling.waits {
            return Err(RexDiscard::Stale);
        }
        match (body, &mut calling.state) {
            (Body::Refused(reason), _) => self.end(now, out, call, Outcome::Refused(*reason)),
            (Body::Dropped, _) => {
                self.end(now, out, call, Outcome::Failed(Failure::Dropped));
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
            (Body::Reply(fragment), _) if calling.has_reply => {
                return self.handle_reply(now, out, call, fragment);
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
        fragment: &Fragment<'_>,
    ) -> Result<(), RexDiscard> {
        let calling = self.calls.get_mut(&call).ok_or(RexDiscard::Stale)?;
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
}
