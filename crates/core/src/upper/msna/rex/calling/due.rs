//! Fragments that leave, and what is due.

use super::{Calls, Hello, State, Timer};
use crate::Time;
use crate::upper::msna::Address;
use crate::upper::msna::rex::packet::{Body, Packet, Progress};
use crate::upper::msna::rex::{Bugs, Call, Failure, Out, Outcome, Planted};

impl<B: Bugs> Calls<B> {
    /// The next fragment of a call.
    pub(in crate::upper::msna::rex) fn poll(&mut self, now: Time) -> Option<(Address, Vec<u8>)> {
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

    pub(in crate::upper::msna::rex) fn next_deadline(&self) -> Option<Time> {
        self.due.first().map(|(due, _)| *due)
    }

    pub(in crate::upper::msna::rex) fn handle_deadline(&mut self, now: Time, out: &mut Out) {
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
            _ => drop(self.forget(to)),
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
