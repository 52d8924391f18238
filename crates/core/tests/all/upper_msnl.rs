//! MSNL: associations are asked for, answered, and asked for again where messages are lost, and
//! nothing of a predecessor is believed.

use core::net::Ipv4Addr;
use std::collections::VecDeque;

use cellgate_core::Time;
use cellgate_core::upper::msna::{
    Address, Asked, Body, Connect, Event, Message, MessageError, Msnl, MsnlConfig, Notify, Refusal,
    Sap, TEXT_MAX,
};
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

const ONE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const OTHER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const RETRY_NS: u64 = 100;
const NOW: Time = Time::from_ns(5);

fn msnl(host: Ipv4Addr, incarnation: u64) -> Msnl {
    Msnl::new(MsnlConfig {
        host,
        incarnation,
        retry_ns: RETRY_NS,
        tries: 4,
        waiting_max: 3,
        hosts_max: 8,
    })
}

fn address(host: Ipv4Addr, sap: u64) -> Address {
    let sap = Sap(sap);
    Address { host, sap }
}

fn connect(vci: u16) -> Connect {
    Connect {
        from: Sap(1),
        to: Sap(7),
        vci,
        notify: Notify::Last,
        contract: "ubr,aal0".to_owned(),
    }
}

fn message(body: Body) -> Message {
    Message {
        call: 9,
        incarnation: 0x0102_0304_0506_0708,
        from: ONE,
        to: OTHER,
        body,
    }
}

/// Hands all that `from` says to `to`; how many messages.
fn carry(now: Time, from: &mut Msnl, to: &mut Msnl) -> usize {
    let mut count = 0;
    while let Some((_, block)) = from.poll_out() {
        to.handle(now, &block);
        count += 1;
    }
    count
}

fn asked(msnl: &mut Msnl) -> (Asked, Connect) {
    match msnl.poll_event() {
        Some(Event::Asked { asked, connect }) => (asked, connect),
        event => panic!("{event:?}"),
    }
}

#[test]
fn messages_have_their_octets() {
    let block = message(Body::Accept {
        caller: 5,
        vci: 0x1234,
    })
    .emit();
    let expected = [
        &[1, 2, 0, 0, 0, 9, 1, 2, 3, 4, 5, 6, 7, 8][..],
        &[10, 0, 0, 1, 10, 0, 0, 2],
        &[0, 0, 0, 0, 0, 0, 0, 5, 0x12, 0x34],
    ];
    assert_eq!(block[..32], expected.concat());
    assert_eq!(block.len(), 36);
    assert_eq!(address(OTHER, 7).to_string(), "10.0.0.2:7");
    assert_eq!("10.0.0.2:7".parse(), Ok(address(OTHER, 7)));
    for none in ["10.0.0.2", "10.0.0.2:", "10.0.0.2:x", "host:7", ""] {
        assert!(none.parse::<Address>().is_err(), "{none}");
    }
}

#[test]
fn messages_come_back_and_no_changed_one_does() {
    let bodies = [
        Body::Connect(connect(40)),
        Body::Accept { caller: 1, vci: 2 },
        Body::Refuse {
            caller: 3,
            reason: Refusal::NotAdmitted,
            offer: "cbr,aal0:pcr=10".to_owned(),
        },
        Body::Release {
            receiver: 4,
            vci: 5,
        },
        Body::Datagram {
            from: Sap(1),
            to: Sap(2),
            octets: vec![1; 100],
        },
    ];
    for body in bodies {
        let message = message(body);
        let block = message.emit();
        assert_eq!(Message::parse(&block), Ok(message));
        for bit in 0..8 * block.len() {
            let mut changed = block.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Message::parse(&changed), Err(MessageError::Crc));
        }
        for len in 0..block.len() {
            assert!(Message::parse(&block[..len]).is_err());
        }
    }
    // A text that is too long is cut by who says it.
    let mut long = connect(1);
    long.contract = "\u{e4}".repeat(TEXT_MAX);
    let body = Body::Connect(long);
    let parsed = Message::parse(&message(body).emit()).unwrap();
    assert!(matches!(parsed.body, Body::Connect(it) if it.contract.len() == TEXT_MAX));
}

#[test]
fn a_call_is_accepted_once_whatever_comes_twice() {
    let (mut one, mut other) = (msnl(ONE, 1), msnl(OTHER, 1));
    let call = one.connect(NOW, OTHER, connect(40));
    assert_eq!(carry(NOW, &mut one, &mut other), 1);
    let (asked_of, said) = asked(&mut other);
    assert_eq!(said, connect(40));
    // It is asked for again before it is answered, and behind that.
    one.handle_deadline(Time::from_ns(5 + RETRY_NS));
    assert_eq!(carry(NOW, &mut one, &mut other), 1);
    assert_eq!(other.poll_event(), None);
    assert!(other.accept(NOW, asked_of, 41));
    assert!(!other.accept(NOW, asked_of, 42));
    one.handle_deadline(Time::from_ns(5 + 2 * RETRY_NS));
    carry(NOW, &mut one, &mut other);
    assert_eq!(carry(NOW, &mut other, &mut one), 2);
    assert_eq!(one.poll_event(), Some(Event::Accepted { call, vci: 41 }));
    assert_eq!(one.poll_event(), None);
    assert_eq!((one.poll_out(), other.poll_event()), (None, None));
    // All of it is forgotten in the end.
    while let Some(at) = [one.next_deadline(), other.next_deadline()]
        .into_iter()
        .flatten()
        .min()
    {
        one.handle_deadline(at);
        other.handle_deadline(at);
    }
    assert_eq!((one.poll_event(), other.poll_event()), (None, None));
}

#[test]
fn a_refusal_says_why_and_what_would_do() {
    let (mut one, mut other) = (msnl(ONE, 1), msnl(OTHER, 1));
    let call = one.connect(NOW, OTHER, connect(40));
    carry(NOW, &mut one, &mut other);
    let (asked, _) = asked(&mut other);
    let offer = "cbr,aal0:pcr=5".to_owned();
    other.refuse(NOW, asked, Refusal::NotAdmitted, offer.clone());
    carry(NOW, &mut other, &mut one);
    let reason = Refusal::NotAdmitted;
    let refused = Event::Refused {
        call,
        reason,
        offer,
    };
    assert_eq!(one.poll_event(), Some(refused));
}

#[test]
fn whoever_hears_nothing_is_told_and_a_late_answer_is_released() {
    let (mut one, mut other) = (msnl(ONE, 1), msnl(OTHER, 1));
    let call = one.connect(NOW, OTHER, connect(40));
    carry(NOW, &mut one, &mut other);
    let (asked, _) = asked(&mut other);
    let mut said = 1;
    while let Some(at) = one.next_deadline() {
        one.handle_deadline(at);
        said += usize::from(one.poll_out().is_some());
    }
    assert_eq!(said, 4);
    assert_eq!(one.poll_event(), Some(Event::Silent { call }));
    other.accept(NOW, asked, 41);
    carry(NOW, &mut other, &mut one);
    carry(NOW, &mut one, &mut other);
    assert_eq!(other.poll_event(), Some(Event::Released { vci: 41 }));
    assert_eq!(one.poll_event(), None);
}

#[test]
fn a_host_that_begins_anew_voids_what_it_had() {
    let (mut one, mut other) = (msnl(ONE, 1), msnl(OTHER, 1));
    one.connect(NOW, OTHER, connect(40));
    carry(NOW, &mut one, &mut other);
    let (old, _) = asked(&mut other);
    let mut anew = msnl(ONE, 2);
    anew.datagram(Sap(1), address(OTHER, 2), vec![1]);
    carry(NOW, &mut anew, &mut other);
    assert_eq!(other.poll_event(), Some(Event::Restarted { host: ONE }));
    assert!(matches!(other.poll_event(), Some(Event::Datagram { octets, .. }) if octets == [1]));
    // Nobody waits for this answer any more, and what the predecessor still says is not heard.
    assert!(!other.accept(NOW, old, 41));
    one.connect(NOW, OTHER, connect(43));
    carry(NOW, &mut one, &mut other);
    assert_eq!((other.poll_event(), other.counts().stale), (None, 1));
    // An answer to the predecessor gives the successor nothing.
    let accept = Message {
        incarnation: 1,
        call: 0,
        from: OTHER,
        to: ONE,
        body: Body::Accept { caller: 1, vci: 41 },
    };
    anew.connect(NOW, OTHER, connect(40));
    anew.poll_out();
    anew.handle(NOW, &accept.emit());
    assert_eq!((anew.poll_event(), anew.counts().stale), (None, 1));
    carry(NOW, &mut anew, &mut other);
    assert_eq!(other.poll_event(), Some(Event::Released { vci: 41 }));
}

#[test]
fn what_others_can_have_is_bounded() {
    let mut other = msnl(OTHER, 1);
    let mut one = msnl(ONE, 1);
    for n in 0..10 {
        one.connect(NOW, OTHER, connect(n));
    }
    carry(NOW, &mut one, &mut other);
    for _ in 0..3 {
        asked(&mut other);
    }
    assert_eq!(other.poll_event(), None);
    carry(NOW, &mut other, &mut one);
    for _ in 0..7 {
        let event = one.poll_event();
        assert!(
            matches!(
                event,
                Some(Event::Refused {
                    reason: Refusal::Busy,
                    ..
                })
            ),
            "{event:?}"
        );
    }
    for n in 0..20 {
        let host = Ipv4Addr::new(10, 0, 1, n);
        let mut stranger = msnl(host, 1);
        stranger.datagram(Sap(1), address(OTHER, 1), Vec::new());
        carry(NOW, &mut stranger, &mut other);
    }
    assert_eq!(other.counts().too_many_hosts, 13);
    one.datagram(Sap(1), address(Ipv4Addr::BROADCAST, 1), Vec::new());
    carry(NOW, &mut one, &mut other);
    other.handle(NOW, &[1, 2, 3]);
    assert_eq!((other.counts().not_ours, other.counts().no_message), (1, 1));
}

/// Messages that are lost, doubled and late: in the end each call has one answer, and nothing is
/// left.
#[test]
fn whatever_is_lost_each_call_has_one_answer() {
    for seed in 0..300 {
        let mut random = Pcg64Mcg::new(seed);
        let (mut one, mut other) = (msnl(ONE, 1), msnl(OTHER, 1));
        let mut now = NOW;
        let calls: Vec<_> = (0..3)
            .map(|n| one.connect(now, OTHER, connect(n)))
            .collect();
        let mut line: VecDeque<(bool, Vec<u8>)> = VecDeque::new();
        let mut ends = Vec::new();
        let mut served = 0;
        loop {
            for (there, from) in [(true, &mut one), (false, &mut other)] {
                while let Some((_, block)) = from.poll_out() {
                    for _ in 0..random.next_u32() % 3 {
                        let at = random.next_u32() as usize % (line.len() + 1);
                        line.insert(at, (there, block.clone()));
                    }
                }
            }
            match line.pop_front() {
                Some((true, block)) => other.handle(now, &block),
                Some((false, block)) => one.handle(now, &block),
                None => {
                    let next = [one.next_deadline(), other.next_deadline()];
                    let Some(next) = next.into_iter().flatten().min() else {
                        break;
                    };
                    now = now.max(next);
                    one.handle_deadline(now);
                    other.handle_deadline(now);
                }
            }
            while let Some(event) = other.poll_event() {
                if let Event::Asked { asked, .. } = event {
                    served += 1;
                    other.accept(now, asked, 50 + served);
                }
            }
            while let Some(event) = one.poll_event() {
                match event {
                    Event::Accepted { call, .. } | Event::Silent { call } => ends.push(call),
                    event => panic!("{event:?}"),
                }
            }
        }
        ends.sort();
        assert_eq!(ends, calls, "seed {seed}");
        assert!(served <= 3, "seed {seed}: {served}");
    }
}
