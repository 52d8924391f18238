//! Peers that say whatever they like.

use std::collections::BTreeMap;

use cellgate_core::Time;
use cellgate_core::upper::msna::rex::{
    Body, Call, CallError, Cut, Event, Fragment, Held, Outcome, Packet, Progress, Refusal, Rex,
    RexConfig, RexDiscard,
};
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

use super::world::{MS, address, config};

/// Blocks that are almost right, from a stranger who calls and is called, and has heard of this
/// session and call.
fn block(random: &mut Pcg64Mcg, session: u64, call: u64) -> Vec<u8> {
    let octets = [1; 64];
    let mut below = |n: u64| random.next_u64() % n;
    if below(8) == 0 {
        return (0..below(100)).map(|_| below(256) as u8).collect();
    }
    let cut = Cut::new(below(3000) as u32, 16).unwrap();
    let number = below(cut.count().into()) as u16;
    let fragment = Fragment {
        cut,
        number,
        round: below(4) as u16,
        asks: below(2) == 0,
        octets: &octets[..cut.range(number).len()],
    };
    let progress = Progress {
        round: below(4) as u16,
        next: below(200) as u16,
        beyond: below(u64::MAX),
    };
    let call = match below(16) {
        0 => below(u64::MAX),
        1..4 => call,
        // Every other number: no two form a run.
        4..12 => 2 * below(1 << 20),
        _ => below(8),
    };
    let floor = match below(20_000) {
        0 => below(1 << 20),
        _ => below(4),
    };
    let body = match below(24) {
        0 => Body::Hello,
        1 => Body::Welcome { keep_us: 50_000 },
        2 => Body::Gone,
        3..8 => Body::Announcement { floor, fragment },
        8 => Body::Received(progress),
        9 => Body::Working,
        10..12 => Body::Reply(fragment),
        12 => Body::Probe { floor, progress },
        13 => Body::Dropped,
        14 => Body::Ended { floor },
        _ => Body::Call { floor, fragment },
    };
    let packet = Packet {
        session: if below(20) == 0 { below(9) } else { session },
        sender: match below(20_000) {
            0 => 1 + below(1000),
            _ => 1,
        },
        receiver: if below(50) == 0 { below(3) } else { 1 },
        call,
        body,
    };
    packet.emit()
}

#[test]
fn a_hostile_peer_costs_no_more_than_is_configured_and_others_lose_nothing() {
    let config = RexConfig {
        keep_ns: 5 * MS,
        ..config()
    };
    let mut rex = Rex::new(config);
    let mut honest = Rex::new(config);
    let mut random = Pcg64Mcg::new(11);
    let mut now = Time::from_ns(1);
    let mut calls: Vec<Call> = Vec::new();
    let mut heard = BTreeMap::new();
    let (mut replies, mut peak) = (0, Held::default());
    for n in 0..100_000_u32 {
        now = now.plus_ns(10_000);
        let stranger = address(2 + random.next_u32() as usize % 2);
        let (session, call) = heard.get(&stranger).copied().unwrap_or_default();
        rex.handle(now, stranger, &block(&mut random, session, call));
        if n.is_multiple_of(50) {
            let _ = rex.call(now, stranger, vec![2; 100]);
        }
        if n.is_multiple_of(500) {
            calls.push(honest.call(now, address(1), vec![3; 100]).unwrap());
        }
        for machine in [&mut rex, &mut honest] {
            if machine.next_deadline().is_some_and(|due| due <= now) {
                machine.handle_deadline(now);
            }
        }
        loop {
            while let Some(event) = rex.poll_event() {
                let Event::Called { exchange, octets } = event else {
                    continue;
                };
                if exchange.from() == address(0) || random.next_u32().is_multiple_of(2) {
                    rex.reply(now, exchange, octets).unwrap();
                } else {
                    rex.abandon(exchange);
                }
            }
            if let Some((_, block)) = honest.poll_out(now) {
                rex.handle(now, address(0), &block);
            } else if let Some((to, block)) = rex.poll_out(now) {
                let packet = Packet::parse(&block).unwrap();
                heard.insert(to, (packet.session, packet.call));
                if to == address(0) {
                    honest.handle(now, address(1), &block);
                }
            } else {
                break;
            }
        }
        while let Some(event) = honest.poll_event() {
            let Event::Ended { call, outcome } = event else {
                panic!("{event:?}");
            };
            assert_eq!(outcome, Outcome::Reply(vec![3; 100]));
            assert_eq!(call, calls[replies]);
            replies += 1;
        }
        let held = rex.held();
        peak.calls = peak.calls.max(held.calls);
        peak.exchanges = peak.exchanges.max(held.exchanges);
        peak.octets = peak.octets.max(held.octets);
        peak.marks = peak.marks.max(held.marks);
        peak.peers = peak.peers.max(held.peers);
    }
    assert_eq!(replies, calls.len());
    // Three callers, calls of our own, and the replies to both.
    assert!(peak.calls <= config.calls_max, "{peak:?}");
    assert!(peak.exchanges <= 3 * config.exchanges_max, "{peak:?}");
    let replies = 3 * config.exchanges_max * config.message_max;
    assert!(peak.octets <= 4 * config.octets_max + replies, "{peak:?}");
    // As the server has it: runs and refusals of a session.
    let marks = 1024 + 256 + config.exchanges_max;
    assert!((1024..=3 * marks).contains(&peak.marks), "{peak:?}");
    assert!(peak.peers <= 2 * config.peers_max, "{peak:?}");
    let counts = rex.counts();
    let thrown = RexDiscard::ALL.map(|reason| counts.discarded(reason));
    assert_eq!(counts.received, counts.taken + thrown.iter().sum::<u64>());
    println!("{peak:?} {counts:?}");
    // Silence, and all is forgotten.
    while let Some(due) = rex.next_deadline() {
        now = now.max(due);
        rex.handle_deadline(now);
        while rex.poll_event().is_some() || rex.poll_out(now).is_some() {}
    }
    assert_eq!(rex.held(), Held::default());
}

/// They hear that they come later, and those who were there go on.
#[test]
fn more_callers_than_may_be_are_told_that_it_is_busy() {
    let config = config();
    let mut rex = Rex::new(config);
    let now = Time::from_ns(1);
    for n in 0..100 {
        let mut caller = Rex::new(config);
        let call = caller.call(now, address(0), vec![1]).unwrap();
        while let Some((_, block)) = caller.poll_out(now) {
            rex.handle(now, address(1 + n), &block);
            while let Some((_, block)) = rex.poll_out(now) {
                caller.handle(now, address(0), &block);
            }
        }
        match rex.poll_event() {
            Some(Event::Called { .. }) => assert!(n < config.peers_max),
            event => {
                assert_eq!((event, n >= config.peers_max), (None, true));
                let outcome = Outcome::Refused(Refusal::Busy);
                assert_eq!(caller.poll_event(), Some(Event::Ended { call, outcome }));
            }
        }
    }
    assert_eq!(rex.held().peers, config.peers_max);
    assert_eq!(rex.counts().discarded(RexDiscard::Busy), 96);
}

/// A caller forgets a server that it does not call, not one that it calls.
#[test]
fn a_caller_has_room_for_another_server() {
    let config = config();
    let mut caller = Rex::new(config);
    let mut servers = vec![Rex::new(config); 1 + config.peers_max];
    let now = Time::from_ns(1);
    for round in 0..3_u8 {
        for (n, server) in servers.iter_mut().enumerate() {
            let call = caller.call(now, address(n), vec![round]).unwrap();
            let mut event = None;
            while event.is_none() {
                if let Some((to, block)) = caller.poll_out(now) {
                    assert_eq!(to, address(n));
                    server.handle(now, address(9), &block);
                } else if let Some((_, block)) = server.poll_out(now) {
                    caller.handle(now, address(n), &block);
                }
                if let Some(Event::Called { exchange, octets }) = server.poll_event() {
                    server.reply(now, exchange, octets).unwrap();
                }
                event = caller.poll_event();
            }
            let outcome = Outcome::Reply(vec![round]);
            assert_eq!(event, Some(Event::Ended { call, outcome }));
            assert!(caller.held().peers <= config.peers_max);
        }
    }
    for n in 0..config.peers_max {
        caller.call(now, address(n), vec![9]).unwrap();
    }
    let more = caller.call(now, address(config.peers_max), vec![9]);
    assert_eq!(more, Err(CallError::Full));
}
