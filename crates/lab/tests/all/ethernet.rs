//! An Ethernet under MSDL: blocks come octet for octet, and one packet is on the wire at a time.

use cellgate_core::upper::msna::To;
use cellgate_lab::machine::ethernet::{Attachment, EtherSpec, Segment};
use cellgate_lab::machine::v1s::{Destination, HostCosts, Script};
use cellgate_lab::world::Ps;

const fn to(vci: u16, octets: usize) -> Destination {
    Destination {
        vci,
        to: To::Channel(0),
        octets,
    }
}

/// Hosts that receive on circuits 1, 2 and so on.
fn segment(scripts: impl IntoIterator<Item = Script>) -> Segment<Script> {
    let attach = |(vci, application)| Attachment {
        costs: HostCosts::PAPER,
        circuits: vec![vci],
        application,
    };
    let attached = (1..).zip(scripts).map(attach);
    Segment::new(EtherSpec::PAPER, attached.collect())
}

const LONG: Ps = Ps::from_ns(100_000_000);

#[test]
fn a_block_comes_octet_for_octet_and_back() {
    for len in [0, 1, 42, 43, EtherSpec::BLOCK_MAX] {
        let mut segment = segment([Script::pings(to(2, len), 3), Script::answers(to(1, 0))]);
        segment.run(LONG, |_| false);
        for host in segment.hosts() {
            let script = host.application();
            assert_eq!((script.lengths.clone(), script.wrong), (vec![len; 3], 0));
            assert_eq!(host.counts().interrupts, 3);
            assert_eq!(host.charges().total(), host.counts().busy);
        }
    }
}

#[test]
fn a_block_that_no_packet_has_room_for_does_not_leave() {
    let long = EtherSpec::BLOCK_MAX + 1;
    let mut segment = segment([Script::sends(to(2, long), 1), Script::default()]);
    segment.run(LONG, |_| false);
    assert_eq!(segment.hosts()[0].counts().sent_blocks, 0);
    assert_eq!(segment.hosts()[1].counts().received_blocks, 0);
}

#[test]
fn who_finds_the_wire_busy_waits() {
    let len = EtherSpec::BLOCK_MAX;
    let came = |senders: &[u16]| {
        let sends = |host: u16| match senders.contains(&host) {
            true => Script::sends(to(host + 2, len), 1),
            false => Script::default(),
        };
        let mut segment = segment((1..=4).map(sends));
        segment.run(LONG, |_| false);
        let hosts = segment.hosts()[2..].iter();
        hosts
            .filter_map(|host| host.application().received.first().copied())
            .collect::<Vec<_>>()
    };
    let alone = came(&[1]);
    let both = came(&[1, 2]);
    assert_eq!(both[0], alone[0]);
    // A packet of 1,500 octets, with what is around them, and the gap behind it.
    let packet = Ps::from_ns((8 + 14 + 1_500 + 4 + 12) * 800);
    assert_eq!(both[1], alone[0].plus(packet));
}
