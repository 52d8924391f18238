//! REX, remote execution: calls and their replies between two ends, in blocks.
//!
//! ```text
//!  caller                                 server
//!    | Hello, if there is no session        |
//!    | -----------------------------------> | Welcome
//!    | Call, in fragments (again, if silent)|
//!    | -----------------------------------> | Called: executes, once
//!    | Probe, as long as it takes           |
//!    | -----------------------------------> | Working
//!    |                Reply, in fragments   |
//!    | <----------------------------------- | reply()
//!    | Ended, or the floor of the next Call |
//!    | -----------------------------------> | forgets the reply
//! ```
//!
//! **At most once.** A call belongs to a session, and a session to one run of either end: what one
//! has executed, nobody executes after it. Within a session calls are numbered, and the server
//! knows which have ended: those below the floor, and runs of numbers above it. No clock is part of
//! that; blocks may be as late as they like.
//!
//! **Not here:** what octets mean, who may call, and when blocks leave: they are made when they are
//! polled, so that whoever polls has the rate.

mod calling;
mod discard;
mod fragments;
mod packet;
mod planted;
mod ranges;
mod serving;

use std::collections::VecDeque;

use super::Address;
use super::message::MessageError;
use crate::Time;
use calling::Calls;
use serving::Exchanges;

pub use discard::{RexCounts, RexDiscard};
pub use fragments::WINDOW_MAX;
pub use packet::{Body, Cut, Fragment, OVERHEAD, Packet, Progress};
pub use planted::{Bugs, Planted, Sound};

/// Octets of the longest message there may be.
pub const MESSAGE_MAX: usize = 1 << 20;

/// An end, and its bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RexConfig {
    /// A greater number, from 1 on, each time that the end begins.
    pub incarnation: u64,
    /// Octets of a message in a block: with [`OVERHEAD`] no more than a block has.
    pub fragment_max: u16,
    /// Fragments of a message that leave before one is answered, [`WINDOW_MAX`] at most.
    pub window: u8,
    /// Octets of a message, [`MESSAGE_MAX`] at most.
    pub message_max: usize,
    /// From what is said to its repetition, and how often it is said without any answer.
    pub retry_ns: u64,
    pub tries: u8,
    /// From one question to the next while a server executes.
    pub probe_ns: u64,
    /// A reply that has come is acknowledged within this, by the next call if there is one.
    pub acknowledge_ns: u64,
    /// A server keeps what it has of a caller that is silent as long as this at least.
    pub keep_ns: u64,
    /// Calls of ours that have not ended.
    pub calls_max: usize,
    /// Exchanges that each caller may have here.
    pub exchanges_max: usize,
    /// Octets that are held of our calls and the replies to them; as many of each caller's calls,
    /// and then replies to those that are executed. At least a message.
    pub octets_max: usize,
    /// Servers that are known, and callers.
    pub peers_max: usize,
}

/// A call of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Call {
    to: Address,
    number: u64,
}

impl Call {
    /// The end that is called.
    pub const fn to(self) -> Address {
        self.to
    }
}

/// A call of another's, which is executed here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Exchange {
    from: Address,
    session: u64,
    number: u64,
}

impl Exchange {
    pub const fn from(self) -> Address {
        self.from
    }
}

/// Reasons for which a server does not execute a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It has too many calls, or octets of them; it may have room later.
    Busy,
    /// It takes none as long as this.
    TooLong,
}

impl Refusal {
    const ALL: [Self; 2] = [Self::Busy, Self::TooLong];
}

/// Reasons for which nobody knows whether a call was executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The server is silent.
    TimedOut,
    /// The server has begun anew since it was said.
    Restarted,
    /// The caller wants it no more.
    Cancelled,
    /// The server has given it up, or the reply.
    Dropped,
    /// The reply is longer than may be.
    TooLong,
}

/// What has become of a call. Each has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Reply(Vec<u8>),
    /// It was not executed.
    Refused(Refusal),
    /// It was executed once, or not at all.
    Failed(Failure),
}

/// A change that an application hears of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A call of ours has ended.
    Ended { call: Call, outcome: Outcome },
    /// Another's is to be executed, and to be answered by [`Rex::reply`] or [`Rex::abandon`].
    Called { exchange: Exchange, octets: Vec<u8> },
    /// The same, but nobody waits for a reply.
    Announced { from: Address, octets: Vec<u8> },
    /// Nobody waits for the reply any more.
    Cancelled { exchange: Exchange },
}

/// Reasons for which there is no call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    #[error("a message of {len} octets: {max} are the most")]
    TooLong { len: usize, max: usize },
    #[error("too many calls, octets of calls or servers")]
    Full,
}

/// Reasons for which there is no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplyError {
    #[error("a message of {len} octets: {max} are the most")]
    TooLong { len: usize, max: usize },
    #[error("nobody waits for it")]
    Ended,
}

/// What is in memory at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Calls of ours that have not ended.
    pub calls: usize,
    /// Others' that have not.
    pub exchanges: usize,
    /// Octets of all these.
    pub octets: usize,
    /// Runs of others' calls that have ended, and refusals, for what may come late.
    pub marks: usize,
    /// Servers and callers that are known.
    pub peers: usize,
}

/// What leaves a machine.
#[derive(Clone, Debug, Default)]
struct Out {
    blocks: VecDeque<(Address, Vec<u8>)>,
    events: VecDeque<Event>,
}

/// Calls others, and is called.
///
/// **[`Rex::poll_event`] is drained before the next call of another method**, and so is
/// [`Rex::poll_out`] of what answers at once; it may be asked for fragments of long messages
/// whenever there is room for one.
#[derive(Clone, Debug)]
pub struct Rex<B: Bugs = Sound> {
    bugs: B,
    calls: Calls<B>,
    exchanges: Exchanges<B>,
    out: Out,
    counts: RexCounts,
}

impl Rex {
    pub fn new(config: RexConfig) -> Self {
        Self::with_bugs(config, Sound)
    }
}

impl<B: Bugs> Rex<B> {
    pub fn with_bugs(config: RexConfig, bugs: B) -> Self {
        Self {
            bugs,
            calls: Calls::new(config, bugs),
            exchanges: Exchanges::new(config, bugs),
            out: Out::default(),
            counts: RexCounts::default(),
        }
    }

    pub const fn counts(&self) -> &RexCounts {
        &self.counts
    }

    pub fn held(&self) -> Held {
        let (calls, exchanges) = (self.calls.held(), self.exchanges.held());
        Held {
            calls: calls.calls,
            exchanges: exchanges.exchanges,
            octets: calls.octets + exchanges.octets,
            marks: exchanges.marks,
            peers: calls.peers + exchanges.peers,
        }
    }

    /// Calls another. An event tells what has become of it.
    ///
    /// # Errors
    /// It is too long, or there is too much already.
    pub fn call(&mut self, now: Time, to: Address, octets: Vec<u8>) -> Result<Call, CallError> {
        self.calls.call(now, &mut self.out, to, octets, true)
    }

    /// Tells another something that has no reply. It is said again until the other end has it, or
    /// has no room for it; nobody hears which.
    ///
    /// # Errors
    /// It is too long, or there is too much already.
    pub fn announce(&mut self, now: Time, to: Address, octets: Vec<u8>) -> Result<(), CallError> {
        let call = self.calls.call(now, &mut self.out, to, octets, false);
        call.map(drop)
    }

    /// Wants no more of a call: it has failed, unless it has ended. The server is told once.
    pub fn cancel(&mut self, now: Time, call: Call) {
        self.calls.cancel(now, &mut self.out, call);
    }

    /// Replies to a call.
    ///
    /// # Errors
    /// Nobody waits for it. It is too long: the call waits for another.
    pub fn reply(
        &mut self,
        now: Time,
        exchange: Exchange,
        octets: Vec<u8>,
    ) -> Result<(), ReplyError> {
        self.exchanges.reply(now, exchange, octets)
    }

    /// Gives a call up: the caller hears that there is no reply.
    pub fn abandon(&mut self, exchange: Exchange) {
        self.exchanges.abandon(&mut self.out, exchange);
    }

    /// A block has come from there. An answer of one block at most waits to be polled.
    pub fn handle(&mut self, now: Time, from: Address, block: &[u8]) {
        self.counts.received += 1;
        match self.take(now, from, block) {
            Ok(()) => self.counts.taken += 1,
            Err(reason) => self.counts.discarded[reason as usize] += 1,
        }
    }

    fn take(&mut self, now: Time, from: Address, block: &[u8]) -> Result<(), RexDiscard> {
        let packet = match Packet::parse(block) {
            Err(MessageError::Crc) if self.bugs.planted(Planted::CrcNotChecked) => {
                Packet::parse_unchecked(block)?
            }
            parsed => parsed?,
        };
        let out = &mut self.out;
        match packet.body.is_of_server() {
            true => self.calls.handle(now, out, from, &packet),
            false => self.exchanges.handle(now, out, from, &packet),
        }
    }

    /// The next block, and where it goes.
    pub fn poll_out(&mut self, now: Time) -> Option<(Address, Vec<u8>)> {
        let answer = self.out.blocks.pop_front();
        answer
            .or_else(|| self.exchanges.poll())
            .or_else(|| self.calls.poll(now))
    }

    pub fn poll_event(&mut self) -> Option<Event> {
        self.out.events.pop_front()
    }

    /// When [`Rex::handle_deadline`] is due.
    pub fn next_deadline(&self) -> Option<Time> {
        let ends = [self.calls.next_deadline(), self.exchanges.next_deadline()];
        ends.into_iter().flatten().min()
    }

    /// Asks again, gives up and forgets what is due.
    pub fn handle_deadline(&mut self, now: Time) {
        self.calls.handle_deadline(now, &mut self.out);
        self.exchanges.handle_deadline(now, &mut self.out);
    }
}
