//! Remote procedure calls as ANSA has them: REX, and the time of ANSA's own code. The paper has the
//! time of an exchange; that all of it is the server's, where REX sees a call that takes long, is
//! ours.

use std::collections::VecDeque;
use std::net::Ipv4Addr;

use cellgate_core::upper::msna::rex::{Event, Exchange, OVERHEAD, Outcome, Rex, RexConfig};
use cellgate_core::upper::msna::{Address, Sap};

use super::wires::{self, Wire, Wires};
use super::{Error, Rational, us};
use crate::machine::ethernet::EtherSpec;
use crate::machine::v1s::{Application, Destination, Outgoing};
use crate::world::Ps;

/// The remote procedures of Figure 9.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Procedure {
    /// Has no result.
    Sink,
    /// So many per cent of its parameter are its result.
    Echo(u64),
}

/// How much two ends say of an exchange beside its call and its reply.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manners {
    pub(super) name: &'static str,
    /// From a call to its repetition.
    retry_ns: u64,
    /// From a reply to its acknowledgement, unless the next call is one.
    acknowledge_ns: u64,
}

/// Longer than any exchange.
const NEVER: u64 = 1_000_000_000;
/// A call has come by then, and is executed.
const SOON: u64 = 4_000_000;

impl Manners {
    pub(super) const ALL: [Self; 4] = [
        Self {
            name: "call, reply",
            retry_ns: NEVER,
            acknowledge_ns: NEVER,
        },
        Self {
            name: "the reply acknowledged",
            retry_ns: NEVER,
            acknowledge_ns: 0,
        },
        Self {
            name: "the call repeated, and answered",
            retry_ns: SOON,
            acknowledge_ns: NEVER,
        },
        Self {
            name: "both",
            retry_ns: SOON,
            acknowledge_ns: 0,
        },
    ];

    fn rex(self) -> Rex {
        Rex::new(RexConfig {
            incarnation: 1,
            fragment_max: (EtherSpec::BLOCK_MAX - OVERHEAD) as u16,
            window: 16,
            message_max: 1 << 16,
            retry_ns: self.retry_ns,
            tries: 20,
            probe_ns: NEVER,
            acknowledge_ns: self.acknowledge_ns,
            keep_ns: 60 * NEVER,
            calls_max: 1,
            exchanges_max: 1,
            octets_max: 1 << 16,
            peers_max: 1,
        })
    }
}

/// A call's time, and the packets of both ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timed {
    pub(super) us: Rational,
    pub(super) packets: Rational,
}

/// Calls of which the first ones are not counted: there is a session then.
const FEW: u64 = 1;
const MANY: u64 = 3;

/// A call among others that follow each other.
pub(super) fn timed(
    wires: &Wires,
    wire: Wire,
    (manners, work): (Manners, Ps),
    procedure: Procedure,
    octets: usize,
) -> Result<Timed, Error> {
    let run = |calls: u64| -> Result<_, Error> {
        let call: Vec<u8> = (0..octets).map(|n| (n * 31 + n / 251) as u8).collect();
        let caller = Ansa::new(manners, work, 0, Role::caller(procedure, call, calls));
        let server = Ansa::new(manners, work, 1, Role::server(procedure));
        let is_done = |ansa: &Ansa| matches!(ansa.role, Role::Caller { calls: 0, .. });
        let ([caller, server], now) = wires.run(wire, [caller, server], is_done)?;
        match caller.wrong + server.wrong {
            0 => Ok((us(now), caller.packets + server.packets)),
            _ => Err(Error::new("a call has failed, or its reply is wrong")),
        }
    };
    let ((few_us, few), (many_us, many)) = (run(FEW)?, run(MANY)?);
    let calls = Rational::from(MANY - FEW);
    Ok(Timed {
        us: (many_us - few_us) / calls,
        packets: Rational::from(many - few) / calls,
    })
}

/// An end.
#[derive(Clone, Debug)]
struct Ansa {
    rex: Rex,
    to: Destination,
    peer: Address,
    /// Its own work for a call that it executes, and what is left of that in hand.
    work: Ps,
    left: Ps,
    role: Role,
    packets: u64,
    wrong: u64,
}

#[derive(Clone, Debug)]
enum Role {
    Caller {
        call: Vec<u8>,
        reply: Vec<u8>,
        /// Those that have not ended.
        calls: u64,
        waits: bool,
    },
    Server {
        procedure: Procedure,
        /// Those that are executed, in turn.
        called: VecDeque<(Exchange, Vec<u8>)>,
    },
}

impl Role {
    fn caller(procedure: Procedure, call: Vec<u8>, calls: u64) -> Self {
        Self::Caller {
            reply: procedure.result(&call),
            call,
            calls,
            waits: false,
        }
    }

    const fn server(procedure: Procedure) -> Self {
        Self::Server {
            procedure,
            called: VecDeque::new(),
        }
    }
}

impl Procedure {
    fn result(self, parameter: &[u8]) -> Vec<u8> {
        match self {
            Self::Sink => Vec::new(),
            Self::Echo(percent) => {
                let octets = parameter.len() * percent as usize / 100;
                parameter[..octets].to_vec()
            }
        }
    }
}

/// The longest span without a look for blocks.
const SLICE: Ps = Ps::from_ns(20_000);

fn address(end: u8) -> Address {
    Address {
        host: Ipv4Addr::new(10, 0, 0, end),
        sap: Sap(7),
    }
}

impl Ansa {
    fn new(manners: Manners, work: Ps, end: u8, role: Role) -> Self {
        Self {
            rex: manners.rex(),
            to: wires::to(1 - end, 0),
            peer: address(1 - end),
            work,
            left: Ps::ZERO,
            role,
            packets: 0,
            wrong: 0,
        }
    }

    /// It has no work left: calls, or replies to what it has executed.
    fn acts(&mut self, at: Ps) {
        match &mut self.role {
            Role::Caller {
                call, calls, waits, ..
            } if *calls > 0 && !*waits => {
                *waits = true;
                let begun = self.rex.call(at.time(), self.peer, call.clone());
                self.wrong += u64::from(begun.is_err());
            }
            Role::Server { procedure, called } => {
                if let Some((exchange, parameter)) = called.pop_front() {
                    let result = procedure.result(&parameter);
                    let replied = self.rex.reply(at.time(), exchange, result);
                    self.wrong += u64::from(replied.is_err());
                    self.left = match called.is_empty() {
                        true => Ps::ZERO,
                        false => self.work,
                    };
                }
            }
            Role::Caller { .. } => {}
        }
    }

    fn hears(&mut self) {
        while let Some(event) = self.rex.poll_event() {
            match (&mut self.role, event) {
                (
                    Role::Caller {
                        reply,
                        calls,
                        waits,
                        ..
                    },
                    Event::Ended { outcome, .. },
                ) => {
                    self.wrong += u64::from(outcome != Outcome::Reply(reply.clone()));
                    *calls = calls.saturating_sub(1);
                    *waits = false;
                }
                (Role::Server { called, .. }, Event::Called { exchange, octets }) => {
                    if called.is_empty() {
                        self.left = self.work;
                    }
                    called.push_back((exchange, octets));
                }
                _ => self.wrong += 1,
            }
        }
    }
}

impl Application for Ansa {
    fn idle(&mut self, at: Ps) -> Option<Outgoing> {
        let is_due = |due| due <= at.time();
        if self.rex.next_deadline().is_some_and(is_due) {
            self.rex.handle_deadline(at.time());
            self.hears();
        }
        if self.left == Ps::ZERO {
            self.acts(at);
        }
        let (_, octets) = self.rex.poll_out(at.time())?;
        self.packets += 1;
        Some(Outgoing {
            vci: self.to.vci,
            to: self.to.to,
            octets,
        })
    }

    fn works(&mut self) -> Ps {
        let slice = self.left.min(SLICE);
        self.left = self.left.since(slice);
        slice
    }

    fn sent(&mut self, _: Ps) {}

    fn received(&mut self, at: Ps, _: u16, block: &[u8]) {
        self.rex.handle(at.time(), self.peer, block);
        self.hears();
    }

    fn due(&self) -> Ps {
        let due = self.rex.next_deadline();
        due.map_or(Ps::MAX, |due| Ps::from_ns(due.ns()))
    }
}
