//! The octets of REX, beside a decoder by the letter of docs/msna.md.

use cellgate_core::upper::msna::MessageError;
use cellgate_core::upper::msna::rex::{Body, Cut, Fragment, OVERHEAD, Packet, Progress, Refusal};
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

/// What the table of docs/msna.md says of a block; its numbers in order.
fn by_the_letter(block: &[u8]) -> Option<(u8, Vec<u64>, &[u8])> {
    let (said, crc) = block.split_at(block.len().checked_sub(4)?);
    if crc32(said).to_be_bytes() != crc || said.len() < 34 || said[0] != 1 {
        return None;
    }
    let widths: &[usize] = match said[1] {
        1 | 3 | 7 => &[],
        2 => &[4],
        4 | 5 => &[8, 4, 2, 2, 2, 1],
        6 => &[2, 2, 8],
        8 => &[4, 2, 2, 2, 1],
        9 => &[8, 2, 2, 8],
        10 => &[1],
        11 => &[],
        12 => &[8],
        _ => return None,
    };
    let mut rest = &said[2..];
    let mut numbers = Vec::new();
    for width in [8, 8, 8, 8].iter().chain(widths) {
        let (number, behind) = rest.split_at_checked(*width)?;
        let digits = number.iter().map(|octet| u64::from(*octet));
        numbers.push(digits.fold(0, |sum, digit| sum * 256 + digit));
        rest = behind;
    }
    let is_fine = match said[1] {
        4 | 5 => is_fragment(&numbers[5..], rest),
        8 => is_fragment(&numbers[4..], rest),
        10 => numbers[4] < 2 && rest.is_empty(),
        _ => rest.is_empty(),
    };
    is_fine.then_some((said[1], numbers, rest))
}

/// Length, size, number, round, asks.
fn is_fragment(numbers: &[u64], octets: &[u8]) -> bool {
    let [length, size, number, _, asks] = *numbers else {
        return false;
    };
    if size == 0 || asks > 1 || length / size > 65535 {
        return false;
    }
    let mut lens = vec![size; (length / size) as usize];
    if length % size > 0 || length == 0 {
        lens.push(length % size);
    }
    lens.len() <= 65535 && lens.get(number as usize) == Some(&(octets.len() as u64))
}

/// Bit by bit, as I.363.5 has it.
fn crc32(octets: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for octet in octets {
        crc ^= u32::from(*octet) << 24;
        for _ in 0..8 {
            let poly = if crc >> 31 == 1 { 0x04c1_1db7 } else { 0 };
            crc = crc << 1 ^ poly;
        }
    }
    !crc
}

fn numbers<'a>(packet: &Packet<'a>) -> (u8, Vec<u64>, &'a [u8]) {
    let mut numbers = vec![packet.session, packet.sender, packet.receiver, packet.call];
    let (kind, fields, octets): (_, Vec<u64>, &[u8]) = match packet.body {
        Body::Hello => (1, vec![], &[]),
        Body::Welcome { keep_us } => (2, vec![keep_us.into()], &[]),
        Body::Gone => (3, vec![], &[]),
        Body::Call { floor, fragment } => {
            numbers.push(floor);
            (4, of_fragment(&fragment), fragment.octets)
        }
        Body::Announcement { floor, fragment } => {
            numbers.push(floor);
            (5, of_fragment(&fragment), fragment.octets)
        }
        Body::Received(progress) => (6, of_progress(progress), &[]),
        Body::Working => (7, vec![], &[]),
        Body::Reply(fragment) => (8, of_fragment(&fragment), fragment.octets),
        Body::Probe { floor, progress } => {
            numbers.push(floor);
            (9, of_progress(progress), &[])
        }
        Body::Refused(reason) => (10, vec![reason as u64], &[]),
        Body::Dropped => (11, vec![], &[]),
        Body::Ended { floor } => (12, vec![floor], &[]),
    };
    numbers.extend(fields);
    (kind, numbers, octets)
}

fn of_fragment(fragment: &Fragment<'_>) -> Vec<u64> {
    let length = fragment.cut.length() as u64;
    let size = u64::from(fragment.cut.size());
    let (number, round) = (fragment.number.into(), fragment.round.into());
    vec![length, size, number, round, fragment.asks.into()]
}

fn of_progress(progress: Progress) -> Vec<u64> {
    vec![progress.round.into(), progress.next.into(), progress.beyond]
}

#[test]
fn blocks_have_the_octets_of_the_document() {
    let cut = Cut::new(20, 16).unwrap();
    let packet = Packet {
        session: 3,
        sender: 0x0102_0304_0506_0708,
        receiver: 9,
        call: 0x0a0b,
        body: Body::Call {
            floor: 0x0a0a,
            fragment: Fragment {
                cut,
                number: 1,
                round: 1,
                asks: true,
                octets: b"last",
            },
        },
    };
    let hex: String = packet.emit().iter().map(|it| format!("{it:02x}")).collect();
    let document = include_str!("../../../../../docs/msna.md");
    let in_document: String = document
        .lines()
        .skip_while(|line| !line.starts_with("0104"))
        .take_while(|line| !line.starts_with("```"))
        .map(|line| line.split_whitespace().next().unwrap_or_default())
        .collect();
    assert_eq!(hex, in_document);
    assert_eq!(packet.emit().len(), OVERHEAD + b"last".len());
    assert_eq!(Packet::parse(&packet.emit()), Ok(packet));
}

/// Octets at random, with the CRC that is theirs, and few changes of what is right.
#[test]
fn blocks_are_read_by_the_letter() {
    let mut random = Pcg64Mcg::new(5);
    let mut read = [0; 13];
    for _ in 0..60_000 {
        let mut block = random_block(&mut random);
        for _ in 0..random.next_u32() % 3 {
            let at = random.next_u32() as usize % block.len();
            match random.next_u32() % 4 {
                0 => block.truncate(at.max(1)),
                1 => block.push(random.next_u32() as u8),
                2 => block[at] = random.next_u32() as u8 % 4,
                _ => block[at] ^= 1 << (random.next_u32() % 8),
            }
        }
        if !random.next_u32().is_multiple_of(8) {
            block.extend(crc32(&block).to_be_bytes());
        }
        let parsed = Packet::parse(&block);
        let expected = by_the_letter(&block);
        assert_eq!(parsed.ok().as_ref().map(numbers), expected, "{block:02x?}");
        if let Ok(packet) = parsed {
            assert_eq!(packet.emit(), block);
            read[usize::from(block[1])] += 1;
        }
    }
    assert!(read[1..].iter().all(|count| *count > 100), "{read:?}");
}

/// Without its CRC.
fn random_block(random: &mut Pcg64Mcg) -> Vec<u8> {
    let octets = [7; 40];
    let cut = Cut::new(random.next_u32() % 200, 1 + random.next_u32() as u16 % 40).unwrap();
    let number = random.next_u32() as u16 % cut.count();
    let fragment = Fragment {
        cut,
        number,
        round: random.next_u32() as u16 % 3,
        asks: random.next_u32().is_multiple_of(2),
        octets: &octets[..cut.range(number).len()],
    };
    let progress = Progress {
        round: random.next_u32() as u16,
        next: random.next_u32() as u16,
        beyond: random.next_u64(),
    };
    let floor = random.next_u64() % 9;
    let body = match random.next_u32() % 12 {
        0 => Body::Hello,
        1 => Body::Welcome { keep_us: 77 },
        2 => Body::Gone,
        3 => Body::Call { floor, fragment },
        4 => Body::Announcement { floor, fragment },
        5 => Body::Received(progress),
        6 => Body::Working,
        7 => Body::Reply(fragment),
        8 => Body::Probe { floor, progress },
        9 => Body::Refused(Refusal::TooLong),
        10 => Body::Dropped,
        _ => Body::Ended { floor },
    };
    let packet = Packet {
        session: random.next_u64() % 3,
        sender: random.next_u64(),
        receiver: random.next_u64() % 3,
        call: random.next_u64() % 9,
        body,
    };
    let mut block = packet.emit();
    block.truncate(block.len() - 4);
    block
}

#[test]
fn what_is_wrong_with_a_block_has_a_name() {
    let hello = Packet {
        session: 0,
        sender: 1,
        receiver: 0,
        call: 1,
        body: Body::Hello,
    };
    let said = hello.emit();
    let with = |change: fn(&mut Vec<u8>)| {
        let mut block = said[..said.len() - 4].to_vec();
        change(&mut block);
        block.extend(crc32(&block).to_be_bytes());
        Packet::parse(&block).map(drop)
    };
    assert_eq!(with(|_| {}), Ok(()));
    assert_eq!(with(|block| block[0] = 2), Err(MessageError::Version(2)));
    assert_eq!(with(|block| block[1] = 13), Err(MessageError::Kind(13)));
    assert_eq!(with(|block| block.push(0)), Err(MessageError::Field));
    assert_eq!(with(|block| block.truncate(33)), Err(MessageError::Short));
    assert_eq!(Packet::parse(&said[..3]), Err(MessageError::Short));
    for bit in 0..8 * said.len() {
        let mut changed = said.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(Packet::parse(&changed), Err(MessageError::Crc));
    }
    assert_eq!((Cut::new(1, 0), Cut::new(65536, 1)), (None, None));
    assert_eq!(Cut::new(0, 1).map(Cut::count), Some(1));
}
