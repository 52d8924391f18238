//! What holds, step by step; each law can be tried on a machine with a bug.

use std::collections::VecDeque;

use cellgate_core::Time;
use cellgate_core::upper::msna::rex::{
    Body, Call, Event, Exchange, Failure, Held, Outcome, Packet, Planted, Refusal, Rex, RexConfig,
    RexDiscard,
};

use super::world::{Checked, MS, address, config, ensure};

type Machine = Rex<Option<Planted>>;

/// A caller and a server, and blocks on their way.
struct Pair {
    now: Time,
    bug: Option<Planted>,
    config: RexConfig,
    one: Machine,
    other: Machine,
    /// Blocks that have left, and whether the caller has said them.
    said: Vec<(bool, Vec<u8>)>,
}

impl Pair {
    fn new(bug: Option<Planted>, config: RexConfig) -> Self {
        Self {
            now: Time::from_ns(5),
            bug,
            config,
            one: Rex::with_bugs(config, bug),
            other: Rex::with_bugs(config, bug),
            said: Vec::new(),
        }
    }

    fn successor(&self) -> Machine {
        let config = RexConfig {
            incarnation: self.config.incarnation + 1,
            ..self.config
        };
        Rex::with_bugs(config, self.bug)
    }

    fn call(&mut self, octets: &[u8]) -> Call {
        let called = self.one.call(self.now, address(1), octets.to_vec());
        called.expect("there is room")
    }

    /// The next block that either says.
    fn next(&mut self) -> Option<(bool, Vec<u8>)> {
        let (now, one) = (self.now, &mut self.one);
        let by_one = one.poll_out(now).map(|(_, block)| (true, block));
        let by_other = || self.other.poll_out(now).map(|(_, block)| (false, block));
        let next = by_one.or_else(by_other)?;
        self.said.push(next.clone());
        Some(next)
    }

    fn hand(&mut self, (by_one, block): &(bool, Vec<u8>)) {
        match by_one {
            true => self.other.handle(self.now, address(0), block),
            false => self.one.handle(self.now, address(1), block),
        }
    }

    /// Carries what they say, and how many blocks that is.
    fn carry(&mut self) -> usize {
        let mut count = 0;
        while count < 100_000
            && let Some(block) = self.next()
        {
            self.hand(&block);
            count += 1;
        }
        count
    }

    fn wait_ns(&mut self, ns: u64) {
        let until = self.now.plus_ns(ns);
        loop {
            let ends = [self.one.next_deadline(), self.other.next_deadline()];
            let next = ends.into_iter().flatten().min();
            let Some(next) = next.filter(|next| *next <= until) else {
                break;
            };
            self.now = self.now.max(next);
            self.one.handle_deadline(self.now);
            self.other.handle_deadline(self.now);
            self.carry();
        }
        self.now = until;
    }

    fn called(&mut self) -> Result<(Exchange, Vec<u8>), String> {
        match self.other.poll_event() {
            Some(Event::Called { exchange, octets }) => Ok((exchange, octets)),
            event => Err(format!("{event:?}, not a call")),
        }
    }

    fn reply(&mut self, exchange: Exchange, octets: &[u8]) -> Checked {
        let said = self.other.reply(self.now, exchange, octets.to_vec());
        said.map_err(|error| error.to_string())
    }

    fn has_ended(&mut self, call: Call, outcome: Outcome) -> Checked {
        let event = self.one.poll_event();
        let expected = Some(Event::Ended { call, outcome });
        ensure(event == expected, || format!("{event:?}, not {expected:?}"))
    }

    /// What the caller has said of calls, in order.
    fn calls_said(&self) -> Vec<Vec<u8>> {
        let said = self.said.iter().filter(|(by_one, block)| {
            let packet = Packet::parse(block);
            *by_one && packet.is_ok_and(|it| matches!(it.body, Body::Call { .. }))
        });
        said.map(|(_, block)| block.clone()).collect()
    }

    fn is_not_called(&mut self) -> Checked {
        let event = self.other.poll_event();
        ensure(event.is_none(), || format!("{event:?}"))
    }
}

/// A session is asked for once; a call that follows another is two blocks.
pub(super) fn a_call_is_two_blocks(bug: Option<Planted>) -> Checked {
    let mut pair = Pair::new(bug, config());
    let call = pair.call(b"one");
    ensure(pair.carry() == 3, || "Hello, Welcome, Call".to_owned())?;
    let (exchange, octets) = pair.called()?;
    ensure(octets == b"one", || format!("{octets:?}"))?;
    pair.reply(exchange, b"1")?;
    ensure(pair.carry() == 1, || "Reply".to_owned())?;
    pair.has_ended(call, Outcome::Reply(b"1".to_vec()))?;
    let call = pair.call(b"two");
    ensure(pair.carry() == 1, || "Call".to_owned())?;
    let held = pair.other.held();
    let expected = Held {
        exchanges: 1,
        peers: 1,
        ..Held::default()
    };
    ensure(held == expected, || format!("{held:?}"))?;
    let (exchange, _) = pair.called()?;
    pair.reply(exchange, b"2")?;
    ensure(pair.carry() == 1, || "Reply".to_owned())?;
    pair.has_ended(call, Outcome::Reply(b"2".to_vec()))?;
    // There is no next call: a block of its own says that the reply is there.
    pair.wait_ns(pair.config.acknowledge_ns);
    let held = pair.other.held();
    ensure(held.exchanges == 0 && held.octets == 0, || {
        format!("{held:?}")
    })?;
    ensure(pair.said.len() == 7, || format!("{}", pair.said.len()))?;
    pair.wait_ns(2 * pair.config.keep_ns);
    let held = (pair.one.held(), pair.other.held());
    ensure(held == Default::default(), || format!("{held:?}"))
}

/// Whether the call before it has ended, or all have.
pub(super) fn a_late_copy_is_not_executed(bug: Option<Planted>) -> Checked {
    let mut pair = Pair::new(bug, config());
    let first = pair.call(b"first");
    let second = pair.call(b"second");
    pair.carry();
    let (exchange_of_first, _) = pair.called()?;
    let (exchange, _) = pair.called()?;
    pair.reply(exchange, b"2")?;
    pair.carry();
    pair.has_ended(second, Outcome::Reply(b"2".to_vec()))?;
    let copies = pair.calls_said();
    for copy in &copies {
        pair.hand(&(true, copy.clone()));
        pair.is_not_called()?;
    }
    pair.reply(exchange_of_first, b"1")?;
    pair.carry();
    pair.has_ended(first, Outcome::Reply(b"1".to_vec()))?;
    let third = pair.call(b"third");
    pair.carry();
    let (exchange, _) = pair.called()?;
    for copy in &copies {
        pair.hand(&(true, copy.clone()));
        pair.is_not_called()?;
    }
    pair.reply(exchange, b"3")?;
    pair.carry();
    pair.has_ended(third, Outcome::Reply(b"3".to_vec()))
}

/// Though there is room by then.
pub(super) fn a_refused_call_is_not_executed_behind_that(bug: Option<Planted>) -> Checked {
    let config = RexConfig {
        exchanges_max: 2,
        ..config()
    };
    let mut pair = Pair::new(bug, config);
    pair.call(b"first");
    let second = pair.call(b"second");
    pair.carry();
    pair.called()?;
    let (exchange, _) = pair.called()?;
    let third = pair.call(b"third");
    pair.carry();
    pair.has_ended(third, Outcome::Refused(Refusal::Busy))?;
    pair.reply(exchange, b"2")?;
    pair.carry();
    pair.has_ended(second, Outcome::Reply(b"2".to_vec()))?;
    let copy = pair.calls_said().pop().ok_or("no call")?;
    pair.hand(&(true, copy));
    pair.is_not_called()?;
    let fourth = pair.call(b"fourth");
    pair.carry();
    let (exchange, _) = pair.called()?;
    pair.reply(exchange, b"4")?;
    pair.carry();
    pair.has_ended(fourth, Outcome::Reply(b"4".to_vec()))
}

pub(super) fn a_session_that_was_forgotten_is_no_other(bug: Option<Planted>) -> Checked {
    let mut pair = Pair::new(bug, config());
    pair.call(b"first");
    pair.carry();
    let (exchange, _) = pair.called()?;
    pair.reply(exchange, b"1")?;
    pair.carry();
    pair.wait_ns(3 * pair.config.keep_ns);
    let first = pair.calls_said().pop().ok_or("no call")?;
    pair.call(b"second");
    let hello = pair.next().ok_or("no Hello")?;
    pair.hand(&hello);
    pair.hand(&(true, first));
    pair.is_not_called()
}

/// Told within a retry, and executed no more: whatever comes late.
pub(super) fn a_server_that_dies_as_it_executes_is_missed(bug: Option<Planted>) -> Checked {
    let mut pair = Pair::new(bug, config());
    let call = pair.call(b"once");
    pair.carry();
    pair.called()?;
    pair.other = pair.successor();
    for copy in pair.said.clone() {
        if copy.0 {
            pair.hand(&copy);
        }
    }
    pair.is_not_called()?;
    while pair.other.poll_out(pair.now).is_some() {}
    pair.wait_ns(pair.config.retry_ns);
    pair.has_ended(call, Outcome::Failed(Failure::Restarted))?;
    let again = pair.call(b"again");
    pair.carry();
    let (exchange, octets) = pair.called()?;
    ensure(octets == b"again", || format!("{octets:?}"))?;
    pair.reply(exchange, b"2")?;
    pair.carry();
    pair.has_ended(again, Outcome::Reply(b"2".to_vec()))
}

pub(super) fn a_caller_that_begins_anew_voids_what_it_had(bug: Option<Planted>) -> Checked {
    let mut pair = Pair::new(bug, config());
    pair.call(b"old");
    pair.carry();
    let (old, _) = pair.called()?;
    pair.one = pair.successor();
    let call = pair.call(b"new");
    pair.carry();
    let event = pair.other.poll_event();
    let is_told = event == Some(Event::Cancelled { exchange: old });
    ensure(is_told, || format!("{event:?}"))?;
    ensure(pair.reply(old, b"1").is_err(), || {
        "a reply to nobody".into()
    })?;
    let (exchange, _) = pair.called()?;
    pair.reply(exchange, b"2")?;
    pair.carry();
    pair.has_ended(call, Outcome::Reply(b"2".to_vec()))?;
    // What the predecessor still says is not heard.
    let stale = pair.other.counts().discarded(RexDiscard::Stale);
    let hello = pair.said[0].clone();
    pair.hand(&hello);
    let now_stale = pair.other.counts().discarded(RexDiscard::Stale);
    ensure(now_stale == stale + 1, || format!("{now_stale}"))
}

/// As often as is configured, and then it is told.
pub(super) fn silence_is_told(bug: Option<Planted>) -> Checked {
    let mut pair = Pair::new(bug, config());
    let call = pair.call(b"1");
    let mut hellos = 0;
    for _ in 0..20 {
        hellos += usize::from(pair.one.poll_out(pair.now).is_some());
        pair.now = pair.one.next_deadline().unwrap_or(pair.now);
        pair.one.handle_deadline(pair.now);
    }
    ensure(hellos == 6, || format!("{hellos} Hellos"))?;
    pair.has_ended(call, Outcome::Failed(Failure::TimedOut))?;
    let call = pair.call(b"2");
    for _ in 0..2 {
        let block = pair.next().ok_or("no session")?;
        pair.hand(&block);
    }
    let mut calls = 0;
    for _ in 0..20 {
        while let Some((_, block)) = pair.one.poll_out(pair.now) {
            let packet = Packet::parse(&block).map_err(|error| error.to_string())?;
            calls += usize::from(matches!(packet.body, Body::Call { .. }));
        }
        pair.now = pair.one.next_deadline().unwrap_or(pair.now);
        pair.one.handle_deadline(pair.now);
    }
    ensure(calls == 6, || format!("{calls} Calls"))?;
    pair.has_ended(call, Outcome::Failed(Failure::TimedOut))
}

/// And asked for, as long as a server works.
pub(super) fn a_lost_reply_is_said_again(bug: Option<Planted>) -> Checked {
    let mut pair = Pair::new(bug, config());
    let call = pair.call(b"1");
    pair.carry();
    let (exchange, _) = pair.called()?;
    pair.wait_ns(10 * pair.config.keep_ns);
    let probes = pair.said.iter().filter(|(_, block)| {
        let packet = Packet::parse(block);
        packet.is_ok_and(|it| matches!(it.body, Body::Probe { .. }))
    });
    let probes = probes.count();
    ensure((248..=250).contains(&probes), || format!("{probes} probes"))?;
    pair.reply(exchange, b"1")?;
    pair.other.poll_out(pair.now).ok_or("no reply")?;
    pair.wait_ns(pair.config.probe_ns + MS);
    pair.has_ended(call, Outcome::Reply(b"1".to_vec()))
}

pub(super) fn a_cancelled_call_has_ended_at_both_ends(bug: Option<Planted>) -> Checked {
    let mut pair = Pair::new(bug, config());
    let call = pair.call(b"1");
    pair.carry();
    let (exchange, _) = pair.called()?;
    pair.one.cancel(pair.now, call);
    pair.has_ended(call, Outcome::Failed(Failure::Cancelled))?;
    pair.one.cancel(pair.now, call);
    pair.carry();
    let event = pair.other.poll_event();
    let is_told = event == Some(Event::Cancelled { exchange });
    ensure(is_told, || format!("{event:?}"))?;
    let copy = pair.calls_said().pop().ok_or("no call")?;
    pair.hand(&(true, copy));
    pair.is_not_called()?;
    pair.carry();
    let event = pair.one.poll_event();
    ensure(event.is_none(), || format!("{event:?}"))
}

/// Whatever order its fragments have; and a message of one changed bit is none.
pub(super) fn a_message_is_whole_when_all_of_it_has_come(bug: Option<Planted>) -> Checked {
    let mut pair = Pair::new(bug, config());
    let octets: Vec<_> = (0..100_u8).collect();
    let call = pair.call(&octets);
    for _ in 0..2 {
        let block = pair.next().ok_or("no session")?;
        pair.hand(&block);
    }
    let fragments: Vec<_> = core::iter::from_fn(|| pair.next()).collect();
    ensure(fragments.len() == 7, || format!("{}", fragments.len()))?;
    let mut changed = fragments[0].clone();
    changed.1[60] ^= 1;
    pair.hand(&changed);
    let damaged = pair.other.counts().discarded(RexDiscard::CrcError);
    ensure(damaged == 1, || format!("{damaged} damaged"))?;
    for fragment in fragments.iter().rev() {
        pair.is_not_called()?;
        pair.hand(fragment);
    }
    let (exchange, came) = pair.called()?;
    ensure(came == octets, || format!("{came:?}"))?;
    pair.reply(exchange, &octets)?;
    pair.carry();
    pair.has_ended(call, Outcome::Reply(octets))
}

/// A mebibyte each way in blocks of 8,160 octets, each of which comes twice, but for some that are
/// lost: no more is said than that explains.
pub(super) fn doubled_blocks_do_not_multiply(bug: Option<Planted>) -> Checked {
    let config = RexConfig {
        fragment_max: 8160 - 57,
        window: 32,
        message_max: 1 << 20,
        octets_max: 1 << 20,
        ..config()
    };
    let mut pair = Pair::new(bug, config);
    let octets: Vec<_> = (0..1_u32 << 20)
        .map(|at| (at.wrapping_mul(at) >> 7) as u8)
        .collect();
    let call = pair.call(&octets);
    let mut line = VecDeque::new();
    let mut said = 0;
    let mut ended = None;
    while ended.is_none() {
        while let Some(block) = pair.next() {
            pair.said.clear();
            said += 1;
            if said % 11 != 0 {
                line.extend([block.clone(), block]);
            }
            ensure(said < 1000, || "a storm".to_owned())?;
        }
        if let Some(block) = line.pop_front() {
            pair.hand(&block);
        } else {
            pair.now = pair.one.next_deadline().ok_or("nothing is due")?;
            pair.one.handle_deadline(pair.now);
        }
        if let Some(Event::Called { exchange, octets }) = pair.other.poll_event() {
            pair.reply(exchange, &octets)?;
        }
        ended = pair.one.poll_event();
    }
    let expected = Some(Event::Ended {
        call,
        outcome: Outcome::Reply(octets),
    });
    ensure(ended == expected, || "other octets".to_owned())?;
    // 260 fragments, an eleventh of them twice, and what tells of them.
    ensure((270..340).contains(&said), || format!("{said} blocks"))
}

/// A caller begins 10^5 calls and ends none: what that costs is bounded, and is forgotten.
pub(super) fn half_calls_are_bounded(bug: Option<Planted>) -> Checked {
    let config = RexConfig {
        exchanges_max: 64,
        octets_max: 8192,
        ..config()
    };
    let mut pair = Pair::new(bug, config);
    let mut busy = 0;
    for _ in 0..1000 {
        // A caller that has no bounds: it begins anew.
        let own = RexConfig {
            calls_max: 100,
            octets_max: usize::MAX,
            window: 1,
            acknowledge_ns: u64::MAX,
            ..config
        };
        pair.one = Rex::with_bugs(own, bug);
        for _ in 0..100 {
            pair.call(&[0; 1000]);
        }
        while let Some((_, block)) = pair.one.poll_out(pair.now) {
            pair.other.handle(pair.now, address(0), &block);
            while let Some((_, block)) = pair.other.poll_out(pair.now) {
                let packet = Packet::parse(&block).map_err(|error| error.to_string())?;
                match packet.body {
                    Body::Welcome { .. } => pair.one.handle(pair.now, address(1), &block),
                    Body::Refused(Refusal::Busy) => busy += 1,
                    _ => {}
                }
            }
            let octets = pair.other.held().octets;
            ensure(octets <= 8192, || format!("{octets} octets"))?;
        }
        pair.config.incarnation += 1;
    }
    ensure(busy > 90, || format!("{busy} refused"))?;
    pair.one = pair.successor();
    pair.wait_ns(3 * pair.config.keep_ns);
    let held = pair.other.held();
    ensure(held == Held::default(), || format!("{held:?}"))
}
