//! A stream of octets between two terminals: what is said and sent comes in whatever stretches, who
//! takes nothing holds the other up, and what cannot be has a name.

use cellgate_core::Time;
use cellgate_core::terminal::{
    Carrier, DiskHeader, DiskPdu, Event, FRAME_MAX, MESSAGE_MAX, OctetStream, Source, Split, Store,
    StreamFault,
};
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

use super::terminal_stack::{below, random};

const DISK_LEN: u32 = 1 << 16;
const NOW: Time = Time::ZERO;

/// A file in memory.
struct File(Vec<u8>);

impl Source for File {
    fn read(&mut self, at: u64, into: &mut [u8]) {
        into.copy_from_slice(&self.0[at as usize..][..into.len()]);
    }

    fn tail(&mut self, end: u64, tail: &mut [u8]) {
        tail.fill(end as u8);
    }
}

impl Store for File {
    fn write(&mut self, at: u64, octets: &[u8]) {
        self.0[at as usize..][..octets.len()].copy_from_slice(octets);
    }
}

type Stream = OctetStream<File, File>;

fn stream() -> Stream {
    OctetStream::new(NOW, 1 << 20)
}

fn out(stream: &mut Stream) -> Vec<u8> {
    let mut all = Vec::new();
    let mut some = vec![0; 2 * FRAME_MAX];
    loop {
        let len = stream.poll_octets(NOW, &mut some);
        all.extend(&some[..len]);
        if len == 0 {
            return all;
        }
    }
}

/// Hands octets in, and gives what it led to, and how many were taken.
fn hand(stream: &mut Stream, octets: &[u8]) -> Result<(Vec<Event>, usize), StreamFault> {
    let (mut events, mut at) = (Vec::new(), 0);
    loop {
        let taken = stream.handle_octets(NOW, &octets[at..])?;
        at += taken;
        let before = events.len();
        events.extend(std::iter::from_fn(|| stream.poll_event()));
        if taken == 0 && events.len() == before {
            return Ok((events, at));
        }
    }
}

fn split(pdu_len: u16) -> Split {
    Split {
        pdu_len,
        disk_len: Some(DISK_LEN),
        file_len: None,
    }
}

fn send(stream: &mut Stream, transfer: u16, octets: &[u8]) {
    let end = octets.len() as u64;
    let file = File(octets.to_vec());
    stream.send(transfer, (0, end), 0, split(10_000), file);
}

fn receive(stream: &mut Stream, transfer: u16, len: usize) -> bool {
    let file = File(vec![0; len]);
    stream.receive(NOW, transfer, (0, len as u64), 0, file)
}

/// Two streams that know each other.
fn pair() -> (Stream, Stream) {
    let (mut one, mut other) = (stream(), stream());
    assert!(!one.is_established());
    let begun = out(&mut one);
    assert_eq!(hand(&mut other, &begun), Ok((Vec::new(), begun.len())));
    let begun = out(&mut other);
    assert_eq!(hand(&mut one, &begun), Ok((Vec::new(), begun.len())));
    assert!(one.is_established() && other.is_established());
    (one, other)
}

#[test]
fn transfers_interleave_and_come_octet_by_octet() {
    let rng = &mut Pcg64Mcg::new(7);
    let (mut giver, mut taker) = pair();
    let files = [random(rng, 300_000), random(rng, 300_000)];
    for (transfer, file) in (1..).zip(&files) {
        send(&mut giver, transfer, file);
        assert!(receive(&mut taker, transfer, file.len()));
        assert!(!receive(&mut taker, transfer, 1));
    }
    giver.say(b"between");
    let octets = out(&mut giver);
    assert_eq!(giver.unsaid(), 0);
    let mut order = Vec::new();
    for octet in octets.chunks(1) {
        let (events, taken) = hand(&mut taker, octet).unwrap();
        assert_eq!(taken, 1);
        order.extend(events.into_iter().map(|event| match event {
            Event::DiskPdu { transfer, disk_pdu } => {
                let DiskPdu { header, digest } = disk_pdu;
                let end = header.offset + u64::from(header.length);
                assert_eq!(digest, [end as u8; DiskHeader::TAIL]);
                assert_eq!(u64::from(header.index) << 16, header.offset);
                (transfer, header.index)
            }
            other => panic!("{other:?}"),
        }));
    }
    let expected: Vec<_> = (0..5).flat_map(|index| [(1, index), (2, index)]).collect();
    assert_eq!(order, expected);
    let mut message = Vec::new();
    assert_eq!(taker.hear(NOW, &mut message), Ok(true));
    assert_eq!(message, b"between");
    for (transfer, file) in (1..).zip(&files) {
        assert!(taker.end_receive(transfer).unwrap().0 == *file);
        // All of it has come: its number is free at once.
        assert!(receive(&mut taker, transfer, 10));
        assert_eq!(giver.sent(transfer), Some(300_000));
    }
}

#[test]
fn what_is_given_up_at_either_end_is_passed_over_and_its_number_is_used_again() {
    let rng = &mut Pcg64Mcg::new(8);
    for round in 0..50 {
        let (mut giver, mut taker) = pair();
        let file = random(rng, 200_000);
        for try_ in 0..4 {
            send(&mut giver, 1, &file);
            assert!(receive(&mut taker, 1, file.len()));
            let some = below(rng, 4) as usize;
            let mut octets = vec![0; FRAME_MAX];
            for _ in 0..some {
                let len = giver.poll_octets(NOW, &mut octets);
                let part = below(rng, len as u64 + 1) as usize;
                hand(&mut taker, &octets[..part]).unwrap();
                if try_ % 2 == 0 && part < len {
                    // The taker gives up in the middle of a part.
                    taker.end_receive(1);
                }
                hand(&mut taker, &octets[part..len]).unwrap();
            }
            giver.end_send(1);
            taker.end_receive(1);
        }
        send(&mut giver, 1, &file);
        assert!(receive(&mut taker, 1, file.len()));
        let octets = out(&mut giver);
        let (events, taken) = hand(&mut taker, &octets).unwrap();
        assert_eq!((events.len(), taken), (4, octets.len()), "round {round}");
        assert!(taker.end_receive(1).unwrap().0 == file, "round {round}");
    }
}

#[test]
fn who_hears_nothing_takes_no_more_than_an_inbox_and_goes_on_where_it_was() {
    let (mut one, mut other) = pair();
    for n in 0..40_u8 {
        one.say(&vec![n; 50_000]);
    }
    let octets = out(&mut one);
    let (_, mut at) = hand(&mut other, &octets).unwrap();
    assert!(at < 9 * MESSAGE_MAX, "{at}");
    assert_eq!(other.handle_octets(NOW, &octets[at..]), Ok(0));
    let mut message = Vec::new();
    for n in 0..40_u8 {
        assert_eq!(other.hear(NOW, &mut message), Ok(true));
        assert_eq!(message, vec![n; 50_000]);
        at += hand(&mut other, &octets[at..]).unwrap().1;
    }
    assert_eq!(at, octets.len());
    one.say(&vec![0; MESSAGE_MAX + 1]);
    let octets = out(&mut one);
    hand(&mut other, &octets).unwrap();
    assert!(other.hear(NOW, &mut message).is_err());
}

#[test]
fn nothing_is_taken_behind_an_event_before_that_is_drained() {
    let (mut giver, mut taker) = pair();
    send(&mut giver, 1, &[1; 200_000]);
    assert!(receive(&mut taker, 1, 200_000));
    let octets = out(&mut giver);
    let taken = taker.handle_octets(NOW, &octets).unwrap();
    assert!(taken < 2 * DISK_LEN as usize);
    assert_eq!(taker.handle_octets(NOW, &octets[taken..]), Ok(0));
    assert!(taker.poll_event().is_some());
    assert!(taker.handle_octets(NOW, &octets[taken..]).unwrap() > 0);
}

#[test]
fn who_has_nothing_to_say_says_each_second_that_it_is_there() {
    let (mut one, mut other) = pair();
    let mut octets = vec![0; FRAME_MAX];
    for second in 1..5 {
        let due = NOW.plus_ns(second * 1_000_000_000);
        assert_eq!(one.next_deadline(), Some(due));
        let early = NOW.plus_ns(second * 1_000_000_000 - 1);
        assert_eq!(one.poll_octets(early, &mut octets), 0);
        let len = one.poll_octets(due, &mut octets);
        assert!(len > 0);
        assert_eq!(other.handle_octets(due, &octets[..len]), Ok(len));
        assert_eq!(other.heard_at(), due);
    }
}

#[test]
fn what_cannot_be_ends_the_stream_by_its_name() {
    let header = |kind: u8, place: u8, transfer: u16, length: u32, offset: u64| {
        let mut octets = vec![kind, place];
        octets.extend(transfer.to_be_bytes());
        octets.extend(length.to_be_bytes());
        octets.extend(offset.to_be_bytes());
        octets
    };
    let disk = |offset: u64, length: u32| {
        DiskHeader {
            index: 0,
            is_end: false,
            length,
            offset,
        }
        .emit()
        .to_vec()
    };
    let out_of = |transfer, offset| StreamFault::OutOfPlace { transfer, offset };
    let unknown = StreamFault::UnknownTransfer;
    let cases = [
        (header(0, 0, 0, 0, 0), StreamFault::UnknownKind(0)),
        (header(5, 0, 0, 0, 0), StreamFault::UnknownKind(5)),
        (header(1, 0, 0, 1, 0), StreamFault::TooLong(1)),
        (header(2, 0, 0, 65_537, 0), StreamFault::TooLong(65_537)),
        (header(3, 0, 1, u32::MAX, 0), StreamFault::TooLong(u32::MAX)),
        (header(4, 0, 1, 1, 0), StreamFault::TooLong(1)),
        (header(2, 0, 0, 1, 9), out_of(0, 9)),
        (header(2, 0, 7, 1, 0), out_of(7, 0)),
        (header(2, 1, 0, 1, 0), out_of(0, 0)),
        (header(3, 4, 1, 1, 0), out_of(1, 0)),
        (header(3, 1, 2, 1, 0), unknown(2)),
        (header(4, 0, 2, 0, 0), unknown(2)),
        // A part of no disk-PDU.
        (header(3, 0, 1, 1, 0), out_of(1, 0)),
        // A disk-PDU, or its part, that is not where it may be.
        ([header(3, 1, 1, 1, 0), disk(0, 0)].concat(), out_of(1, 0)),
        (
            [header(3, 1, 1, 1, 9), disk(0, 100_001)].concat(),
            out_of(1, 9),
        ),
        (
            [header(3, 1, 1, 1, 0), disk(u64::MAX, 9)].concat(),
            out_of(1, 0),
        ),
        (
            [header(3, 1, 1, 1, 0), disk(0, u32::MAX)].concat(),
            out_of(1, 0),
        ),
        (
            [header(3, 1, 1, 9, 60_000), disk(0, 60_008)].concat(),
            out_of(1, 60_000),
        ),
        (
            [header(3, 1, 1, 9, u64::MAX), disk(0, 60_008)].concat(),
            out_of(1, u64::MAX),
        ),
        (
            [
                header(3, 1, 1, 1, 50),
                disk(0, 100),
                vec![0],
                header(3, 0, 1, 1, 50),
            ]
            .concat(),
            out_of(1, 50),
        ),
        // One within another, and one behind the end.
        (
            [
                header(3, 1, 1, 0, 0),
                disk(0, 9),
                header(3, 1, 1, 0, 0),
                disk(9, 9),
            ]
            .concat(),
            out_of(1, 0),
        ),
        (
            [header(4, 0, 1, 0, 0), header(3, 1, 1, 0, 0)].concat(),
            unknown(1),
        ),
        (
            [header(4, 0, 1, 0, 0), header(4, 0, 1, 0, 0)].concat(),
            unknown(1),
        ),
    ];
    for (octets, fault) in cases {
        let (_, mut stream) = pair();
        assert!(receive(&mut stream, 1, 100_000));
        assert_eq!(hand(&mut stream, &octets), Err(fault));
        // It stays so.
        assert_eq!(stream.handle_octets(NOW, &[0]), Err(fault));
    }
    let stranger = hand(&mut stream(), b"GET / HTTP/1.1\r\n");
    assert_eq!(stranger, Err(StreamFault::Stranger));
}

#[test]
fn no_octets_make_it_panic_or_write_beyond_its_file() {
    for seed in 0..400 {
        let rng = &mut Pcg64Mcg::new(seed << 1 | 1);
        let (mut giver, mut taker) = pair();
        send(&mut giver, 1, &[1; 70_000]);
        giver.say(b"message");
        assert!(receive(&mut taker, 1, 70_000));
        let mut octets = out(&mut giver);
        for _ in 0..1 + below(rng, 3) {
            // Most of it is payload: what is around that is changed more often.
            let near = [40, octets.len() as u64][below(rng, 2) as usize];
            let at = below(rng, near) as usize;
            octets[at] = rng.next_u32() as u8;
        }
        let _ = hand(&mut taker, &octets);
    }
}
