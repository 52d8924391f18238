use core::net::Ipv4Addr;
use std::collections::{BTreeMap, VecDeque};

use super::message::{Address, Body, Connect, Message, Refusal, Sap};
use crate::Time;

/// A host, and the bounds of its calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MsnlConfig {
    pub host: Ipv4Addr,
    /// A greater number each time that the host begins.
    pub incarnation: u64,
    /// From a Connect to the next that says the same, and how often it is said.
    pub retry_ns: u64,
    pub tries: u8,
    /// Connects of one host that may wait for an answer here.
    pub waiting_max: usize,
    /// Hosts that are known.
    pub hosts_max: usize,
}

/// Answers that are kept, for each call of a host that may wait.
const ANSWERS: usize = 64;

impl MsnlConfig {
    /// An answer is said again for as long as it may be asked for.
    const fn remembers_ns(&self) -> u64 {
        2 * self.retry_ns * self.tries as u64
    }
}

/// A call of this host's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Call(u32);

/// A call of another's, which waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Asked {
    host: Ipv4Addr,
    incarnation: u64,
    call: u32,
}

impl Asked {
    /// The caller.
    pub const fn host(&self) -> Ipv4Addr {
        self.host
    }
}

/// A change that an application hears of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The other end receives on this circuit.
    Accepted { call: Call, vci: u16 },
    Refused {
        call: Call,
        reason: Refusal,
        offer: String,
    },
    /// Nobody has answered.
    Silent { call: Call },
    /// Another asks for an association.
    Asked { asked: Asked, connect: Connect },
    /// Nothing more comes on this circuit of ours.
    Released { vci: u16 },
    /// A host has begun anew: its associations are gone.
    Restarted { host: Ipv4Addr },
    Datagram {
        from: Address,
        to: Sap,
        octets: Vec<u8>,
    },
}

/// Messages that were thrown away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MsnlCounts {
    /// Blocks that are no message.
    pub no_message: u64,
    /// Messages for another host.
    pub not_ours: u64,
    /// Messages from or to a predecessor, or to a call that has ended.
    pub stale: u64,
    /// Messages of hosts beyond those that may be known.
    pub too_many_hosts: u64,
}

/// Sets associations up, out of band, and carries datagrams.
///
/// ```text
///  caller                       called
///    | Connect (again, if silent) |
///    | -------------------------> | Asked: admits, or not
///    |     Accept, or Refuse      |
///    | <------------------------- | the same to each Connect that says the same
/// ```
#[derive(Clone, Debug)]
pub struct Msnl {
    config: MsnlConfig,
    next_call: u32,
    calls: BTreeMap<u32, Calling>,
    /// Of others: none has been answered yet.
    asked: BTreeMap<Asked, Option<Answer>>,
    /// Incarnations of the hosts that were heard.
    hosts: BTreeMap<Ipv4Addr, u64>,
    out: VecDeque<(Ipv4Addr, Vec<u8>)>,
    events: VecDeque<Event>,
    counts: MsnlCounts,
}

#[derive(Clone, Debug)]
enum Calling {
    /// For an answer, until it is said again.
    Waits {
        to: Ipv4Addr,
        message: Vec<u8>,
        due: Time,
        left: u8,
    },
    /// It was answered, and the answer may come again until then.
    Answered { until: Time },
}

impl Calling {
    const fn due(&self) -> Time {
        match self {
            Self::Waits { due, .. } | Self::Answered { until: due } => *due,
        }
    }
}

#[derive(Clone, Debug)]
struct Answer {
    message: Vec<u8>,
    until: Time,
}

impl Msnl {
    pub const fn new(config: MsnlConfig) -> Self {
        Self {
            config,
            next_call: 0,
            calls: BTreeMap::new(),
            asked: BTreeMap::new(),
            hosts: BTreeMap::new(),
            out: VecDeque::new(),
            events: VecDeque::new(),
            counts: MsnlCounts {
                no_message: 0,
                not_ours: 0,
                stale: 0,
                too_many_hosts: 0,
            },
        }
    }

    pub const fn counts(&self) -> &MsnlCounts {
        &self.counts
    }

    fn message(&self, to: Ipv4Addr, call: u32, body: Body) -> Vec<u8> {
        Message {
            call,
            incarnation: self.config.incarnation,
            from: self.config.host,
            to,
            body,
        }
        .emit()
    }

    /// Asks for an association. An event tells what has become of it.
    pub fn connect(&mut self, now: Time, to: Ipv4Addr, connect: Connect) -> Call {
        let call = self.next_call;
        self.next_call = call.wrapping_add(1);
        let message = self.message(to, call, Body::Connect(connect));
        self.out.push_back((to, message.clone()));
        let calling = Calling::Waits {
            to,
            message,
            due: now.plus_ns(self.config.retry_ns),
            left: self.config.tries.saturating_sub(1),
        };
        self.calls.insert(call, calling);
        Call(call)
    }

    /// Accepts a call of another's, and receives on `vci`. False: it has begun anew.
    pub fn accept(&mut self, now: Time, asked: Asked, vci: u16) -> bool {
        let caller = asked.incarnation;
        self.answer(now, asked, Body::Accept { caller, vci })
    }

    /// Refuses it, and offers a contract.
    pub fn refuse(&mut self, now: Time, asked: Asked, reason: Refusal, offer: String) {
        let caller = asked.incarnation;
        let body = Body::Refuse {
            caller,
            reason,
            offer,
        };
        self.answer(now, asked, body);
    }

    fn answer(&mut self, now: Time, asked: Asked, body: Body) -> bool {
        let message = self.message(asked.host, asked.call, body);
        let until = now.plus_ns(self.config.remembers_ns());
        let Some(answer @ None) = self.asked.get_mut(&asked) else {
            return false;
        };
        self.out.push_back((asked.host, message.clone()));
        *answer = Some(Answer { message, until });
        true
    }

    /// Tells a host that nothing more comes on its circuit.
    pub fn release(&mut self, to: Ipv4Addr, vci: u16) {
        let Some(receiver) = self.hosts.get(&to).copied() else {
            return;
        };
        let message = self.message(to, 0, Body::Release { receiver, vci });
        self.out.push_back((to, message));
    }

    /// Sends octets to whoever serves there. Nobody tells whether they come.
    pub fn datagram(&mut self, from: Sap, to: Address, octets: Vec<u8>) {
        let Address { host, sap: to } = to;
        let message = self.message(host, 0, Body::Datagram { from, to, octets });
        self.out.push_back((host, message));
    }

    /// The next block for the signalling circuit, and its host.
    pub fn poll_out(&mut self) -> Option<(Ipv4Addr, Vec<u8>)> {
        self.out.pop_front()
    }

    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// A block of the signalling circuit. The caller takes its effects by [`Msnl::poll_out`] and
    /// [`Msnl::poll_event`].
    pub fn handle(&mut self, now: Time, block: &[u8]) {
        let Ok(message) = Message::parse(block) else {
            self.counts.no_message += 1;
            return;
        };
        if message.to != self.config.host {
            self.counts.not_ours += 1;
            return;
        }
        let host = message.from;
        if !self.is_of_now(host, message.incarnation) {
            return;
        }
        let own = self.config.incarnation;
        match message.body {
            Body::Connect(connect) => {
                let asked = Asked {
                    host,
                    incarnation: message.incarnation,
                    call: message.call,
                };
                self.is_asked(asked, connect);
            }
            Body::Accept { caller, vci } => match self.ends(now, message.call, caller) {
                Ended::Now(call) => self.events.push_back(Event::Accepted { call, vci }),
                Ended::Before => {}
                // The other end is not to wait.
                Ended::Unknown => self.release(host, vci),
            },
            Body::Refuse {
                caller,
                reason,
                offer,
            } => {
                if let Ended::Now(call) = self.ends(now, message.call, caller) {
                    self.events.push_back(Event::Refused {
                        call,
                        reason,
                        offer,
                    });
                }
            }
            Body::Release { receiver, vci } => {
                if receiver == own {
                    self.events.push_back(Event::Released { vci });
                } else {
                    self.counts.stale += 1;
                }
            }
            Body::Datagram { from, to, octets } => {
                let from = Address { host, sap: from };
                self.events.push_back(Event::Datagram { from, to, octets });
            }
        }
    }

    /// Whether a message is of a host as it is now. A host that has begun anew loses its calls.
    fn is_of_now(&mut self, host: Ipv4Addr, incarnation: u64) -> bool {
        let is_full = self.hosts.len() >= self.config.hosts_max;
        match self.hosts.get_mut(&host) {
            None if is_full => {
                self.counts.too_many_hosts += 1;
                return false;
            }
            None => drop(self.hosts.insert(host, incarnation)),
            Some(known) if incarnation < *known => {
                self.counts.stale += 1;
                return false;
            }
            Some(known) if incarnation > *known => {
                *known = incarnation;
                self.asked.retain(|asked, _| asked.host != host);
                self.events.push_back(Event::Restarted { host });
            }
            Some(_) => {}
        }
        true
    }

    fn is_asked(&mut self, asked: Asked, connect: Connect) {
        match self.asked.get(&asked) {
            Some(Some(answer)) => {
                let message = answer.message.clone();
                return self.out.push_back((asked.host, message));
            }
            // It will be answered.
            Some(None) => return,
            None => {}
        }
        let all = self.asked.iter();
        let waiting = all.filter(|(other, answer)| other.host == asked.host && answer.is_none());
        let is_busy = waiting.count() >= self.config.waiting_max;
        let kept = self.asked.keys().filter(|other| other.host == asked.host);
        if is_busy || kept.count() >= ANSWERS * self.config.waiting_max {
            let caller = asked.incarnation;
            let body = Body::Refuse {
                caller,
                reason: Refusal::Busy,
                offer: String::new(),
            };
            let message = self.message(asked.host, asked.call, body);
            return self.out.push_back((asked.host, message));
        }
        self.asked.insert(asked, None);
        self.events.push_back(Event::Asked { asked, connect });
    }

    /// The call of ours that an answer ends.
    fn ends(&mut self, now: Time, call: u32, caller: u64) -> Ended {
        let known = self.calls.get_mut(&call);
        let until = now.plus_ns(self.config.remembers_ns());
        match known.filter(|_| caller == self.config.incarnation) {
            Some(calling @ Calling::Waits { .. }) => {
                *calling = Calling::Answered { until };
                Ended::Now(Call(call))
            }
            Some(Calling::Answered { .. }) => Ended::Before,
            None => {
                self.counts.stale += 1;
                Ended::Unknown
            }
        }
    }

    /// When [`Msnl::handle_deadline`] is due.
    pub fn next_deadline(&self) -> Option<Time> {
        let calls = self.calls.values().map(Calling::due);
        let answers = self.asked.values().flatten().map(|answer| answer.until);
        calls.chain(answers).min()
    }

    /// Says calls again that nobody has answered, or gives them up; forgets old answers.
    pub fn handle_deadline(&mut self, now: Time) {
        let is_old = |answer: &Option<Answer>| answer.as_ref().is_some_and(|it| it.until <= now);
        self.asked.retain(|_, answer| !is_old(answer));
        let next = now.plus_ns(self.config.retry_ns);
        let (out, events) = (&mut self.out, &mut self.events);
        self.calls.retain(|call, calling| match calling {
            _ if calling.due() > now => true,
            Calling::Answered { .. } => false,
            Calling::Waits { left: 0, .. } => {
                events.push_back(Event::Silent { call: Call(*call) });
                false
            }
            Calling::Waits {
                to,
                message,
                due,
                left,
            } => {
                *left -= 1;
                *due = next;
                out.push_back((*to, message.clone()));
                true
            }
        });
    }
}

/// A call that an answer ends.
enum Ended {
    Now(Call),
    /// The same has come before.
    Before,
    /// No call of ours, or one that was given up.
    Unknown,
}
