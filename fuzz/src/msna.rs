//! Octets as messages of MSNL and blocks of REX: a decoder by the letter, and machines that a
//! stranger talks to.

use std::net::Ipv4Addr;

use cellgate_core::Time;
use cellgate_core::upper::msna::rex::{self, Event as Told, Packet, Rex, RexConfig, RexDiscard};
use cellgate_core::upper::msna::{
    Address, Body, Connect, Event, Message, MessageError, Msnl, MsnlConfig, Notify, Refusal, Sap,
};

use crate::check;
use crate::take::Take;

/// The first octet says whether the CRC is made right, and what else is done; the rest is a block,
/// or choices of what a stranger says.
pub fn msna(data: &[u8]) {
    let mut take = Take::new(data);
    let what = take.u8();
    if what & 0x80 != 0 {
        return stranger(&mut take);
    }
    let mut block = take.rest().to_vec();
    if what & 1 != 0 {
        let crc = check::crc32(&block);
        block.extend(crc.to_be_bytes());
    }
    message(&block);
    packet(&block);
}

/// What is left of a block, by the letter.
struct Letter<'a>(&'a [u8]);

/// A field, or why there is none.
type Field<T> = Result<T, MessageError>;

impl<'a> Letter<'a> {
    /// A number of so many octets, the highest first.
    fn number(&mut self, octets: usize) -> Field<u64> {
        if self.0.len() < octets {
            return Err(MessageError::Short);
        }
        let (field, rest) = self.0.split_at(octets);
        self.0 = rest;
        Ok(field
            .iter()
            .fold(0, |sum, octet| sum << 8 | u64::from(*octet)))
    }

    fn at_most(&mut self, most: u64) -> Field<u64> {
        match self.number(1)? {
            number if number <= most => Ok(number),
            _ => Err(MessageError::Field),
        }
    }

    fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    fn text(&mut self) -> Field<String> {
        let octets = self.rest();
        let text = std::str::from_utf8(octets).map_err(|_| MessageError::Field)?;
        match octets.len() {
            0..=512 => Ok(text.into()),
            _ => Err(MessageError::Field),
        }
    }

    fn end(&self) -> Field<()> {
        match self.0 {
            [] => Ok(()),
            _ => Err(MessageError::Field),
        }
    }
}

/// The octets before the CRC, if that is right, and the kind.
fn said(block: &[u8], header: usize) -> Field<(Letter<'_>, u8)> {
    let len = block.len().checked_sub(4).ok_or(MessageError::Short)?;
    let (said, crc) = block.split_at(len);
    if crc != check::crc32(said).to_be_bytes() {
        return Err(MessageError::Crc);
    }
    match said {
        [1, kind, ..] if said.len() >= header => Ok((Letter(&said[2..]), *kind)),
        [] | [_] | [1, ..] => Err(MessageError::Short),
        [version, ..] => Err(MessageError::Version(*version)),
    }
}

/// Numbers and octets of a block, in their order.
#[derive(Debug, PartialEq, Eq)]
struct Fields(Vec<u64>, Vec<u8>);

fn message_by_the_letter(block: &[u8]) -> Field<Fields> {
    let (mut letter, kind) = said(block, 22)?;
    let mut numbers = vec![u64::from(kind)];
    for octets in [4, 8, 4, 4] {
        numbers.push(letter.number(octets)?);
    }
    let octets = match kind {
        1 => {
            for octets in [8, 8, 2] {
                numbers.push(letter.number(octets)?);
            }
            numbers.push(letter.at_most(3)?);
            letter.text()?.into_bytes()
        }
        2 | 4 => {
            numbers.extend([letter.number(8)?, letter.number(2)?]);
            letter.end()?;
            Vec::new()
        }
        3 => {
            numbers.extend([letter.number(8)?, letter.at_most(3)?]);
            letter.text()?.into_bytes()
        }
        5 => {
            numbers.extend([letter.number(8)?, letter.number(8)?]);
            letter.rest().to_vec()
        }
        kind => return Err(MessageError::Kind(kind)),
    };
    Ok(Fields(numbers, octets))
}

fn message(block: &[u8]) {
    let parsed = Message::parse(block);
    if let Ok(message) = &parsed {
        assert_eq!(message.emit(), block);
    }
    let fields = parsed.map(|message| {
        let (kind, more, octets) = match message.body {
            Body::Connect(it) => {
                let notify = u64::from(it.notify as u8);
                let more = vec![it.from.0, it.to.0, it.vci.into(), notify];
                (1, more, it.contract.into_bytes())
            }
            Body::Accept { caller, vci } => (2, vec![caller, vci.into()], Vec::new()),
            Body::Refuse {
                caller,
                reason,
                offer,
            } => (3, vec![caller, reason as u64], offer.into_bytes()),
            Body::Release { receiver, vci } => (4, vec![receiver, vci.into()], Vec::new()),
            Body::Datagram { from, to, octets } => (5, vec![from.0, to.0], octets),
        };
        let host = |host: Ipv4Addr| u64::from(u32::from(host));
        let mut numbers = vec![kind, message.call.into(), message.incarnation];
        numbers.extend([host(message.from), host(message.to)]);
        numbers.extend(more);
        Fields(numbers, octets)
    });
    assert_eq!(fields, message_by_the_letter(block));
}

fn fragment_by_the_letter(letter: &mut Letter<'_>, numbers: &mut Vec<u64>) -> Field<Vec<u8>> {
    let (length, size) = (letter.number(4)?, letter.number(2)?);
    if size == 0 || length.div_ceil(size) > 65_535 {
        return Err(MessageError::Field);
    }
    let (number, round) = (letter.number(2)?, letter.number(2)?);
    let asks = letter.at_most(1)?;
    let octets = letter.rest();
    let count = length.div_ceil(size).max(1);
    let due = size.min(length.saturating_sub(number * size));
    if number >= count || octets.len() as u64 != due {
        return Err(MessageError::Field);
    }
    numbers.extend([length, size, number, round, asks]);
    Ok(octets.to_vec())
}

fn packet_by_the_letter(block: &[u8]) -> Field<Fields> {
    let (mut letter, kind) = said(block, 34)?;
    let mut numbers = vec![u64::from(kind)];
    for _ in 0..4 {
        numbers.push(letter.number(8)?);
    }
    let mut progress = |letter: &mut Letter<'_>| {
        for octets in [2, 2, 8] {
            numbers.push(letter.number(octets)?);
        }
        Ok(())
    };
    let mut octets = Vec::new();
    match kind {
        1 | 3 | 7 | 11 => {}
        2 => numbers.push(letter.number(4)?),
        4 | 5 => {
            numbers.push(letter.number(8)?);
            octets = fragment_by_the_letter(&mut letter, &mut numbers)?;
        }
        6 => progress(&mut letter)?,
        8 => octets = fragment_by_the_letter(&mut letter, &mut numbers)?,
        9 => {
            let floor = letter.number(8)?;
            progress(&mut letter)?;
            numbers.insert(5, floor);
        }
        10 => numbers.push(letter.at_most(1)?),
        12 => numbers.push(letter.number(8)?),
        kind => return Err(MessageError::Kind(kind)),
    }
    letter.end()?;
    Ok(Fields(numbers, octets))
}

fn packet(block: &[u8]) {
    let parsed = Packet::parse(block);
    if let Ok(packet) = &parsed {
        assert_eq!(packet.emit(), block);
    }
    let fields = parsed.map(|packet| {
        let mut numbers = Vec::new();
        let fragment = |numbers: &mut Vec<u64>, it: rex::Fragment<'_>| {
            numbers.extend([it.cut.length() as u64, it.cut.size().into()]);
            numbers.extend([it.number, it.round].map(u64::from));
            numbers.push(it.asks.into());
            it.octets.to_vec()
        };
        let progress = |numbers: &mut Vec<u64>, it: rex::Progress| {
            numbers.extend([it.round.into(), it.next.into(), it.beyond]);
        };
        let mut octets = Vec::new();
        let kind = match packet.body {
            rex::Body::Hello => 1,
            rex::Body::Welcome { keep_us } => {
                numbers.push(keep_us.into());
                2
            }
            rex::Body::Gone => 3,
            rex::Body::Call {
                floor,
                fragment: it,
            } => {
                numbers.push(floor);
                octets = fragment(&mut numbers, it);
                4
            }
            rex::Body::Announcement {
                floor,
                fragment: it,
            } => {
                numbers.push(floor);
                octets = fragment(&mut numbers, it);
                5
            }
            rex::Body::Received(it) => {
                progress(&mut numbers, it);
                6
            }
            rex::Body::Working => 7,
            rex::Body::Reply(it) => {
                octets = fragment(&mut numbers, it);
                8
            }
            rex::Body::Probe {
                floor,
                progress: it,
            } => {
                numbers.push(floor);
                progress(&mut numbers, it);
                9
            }
            rex::Body::Refused(reason) => {
                numbers.push(reason as u64);
                10
            }
            rex::Body::Dropped => 11,
            rex::Body::Ended { floor } => {
                numbers.push(floor);
                12
            }
        };
        let header = [packet.session, packet.sender, packet.receiver, packet.call];
        let mut all = vec![kind];
        all.extend(header);
        all.extend(numbers);
        Fields(all, octets)
    });
    assert_eq!(fields, packet_by_the_letter(block));
}

const OURS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const CALLS_MAX: usize = 4;

/// Machines to which a stranger says what it likes: all is counted, and memory has its bounds.
fn stranger(take: &mut Take<'_>) {
    let mut msnl = Msnl::new(MsnlConfig {
        host: OURS,
        incarnation: 3,
        retry_ns: 1_000,
        tries: 2,
        waiting_max: CALLS_MAX,
        hosts_max: 3,
    });
    let mut rex = Rex::new(RexConfig {
        incarnation: 3,
        fragment_max: 16,
        window: 4,
        message_max: 200,
        retry_ns: 1_000,
        tries: 2,
        probe_ns: 1_000,
        acknowledge_ns: 500,
        keep_ns: 10_000,
        calls_max: CALLS_MAX,
        exchanges_max: CALLS_MAX,
        octets_max: 1_000,
        peers_max: 2,
    });
    let mut now = Time::ZERO;
    while !take.is_empty() {
        let what = take.u8();
        let host = Ipv4Addr::new(10, 0, 0, 2 + take.below(6));
        let there = Address { host, sap: Sap(7) };
        match what & 7 {
            0..2 => msnl.handle(now, &strange_message(take, host)),
            2..5 => {
                let block = strange_packet(take);
                rex.handle(now, there, &block);
            }
            5 => drop(rex.call(now, there, take.slice(usize::from(what)).to_vec())),
            6 => {
                let (len, len_two) = (usize::from(take.u8()), usize::from(what >> 3));
                msnl.handle(now, take.slice(len));
                rex.handle(now, there, take.slice(len_two));
            }
            _ => {
                now = now.plus_ns(u64::from(take.u8()) * 50);
                msnl.handle_deadline(now);
                rex.handle_deadline(now);
            }
        }
        drains(&mut msnl, &mut rex, now, what);
    }
    // Who hears nothing any more forgets all but what is executed.
    for _ in 0..64 {
        now = now.plus_ns(11_000);
        msnl.handle_deadline(now);
        rex.handle_deadline(now);
        drains(&mut msnl, &mut rex, now, 0);
    }
    assert_eq!(rex.held(), rex::Held::default());
    assert_eq!(rex.next_deadline(), None);
}

fn drains(msnl: &mut Msnl, rex: &mut Rex, now: Time, what: u8) {
    while let Some(event) = msnl.poll_event() {
        if let Event::Asked { asked, .. } = event
            && what & 8 == 0
        {
            match what & 16 {
                0 => drop(msnl.accept(now, asked, what.into())),
                _ => msnl.refuse(now, asked, Refusal::NotAdmitted, String::new()),
            }
        }
    }
    while let Some(event) = rex.poll_event() {
        if let Told::Called { exchange, octets } = event {
            match what & 8 {
                0 => drop(rex.reply(now, exchange, octets)),
                _ => rex.abandon(exchange),
            }
        }
    }
    while msnl.poll_out().is_some() {}
    while let Some((_, block)) = rex.poll_out(now) {
        packet(&block);
    }
    let held = rex.held();
    assert!(held.calls <= CALLS_MAX && held.peers <= 4, "{held:?}");
    assert!(held.octets <= 1_000 + 2 * 2 * 1_000, "{held:?}");
    let counts = rex.counts();
    let discarded: u64 = RexDiscard::ALL
        .map(|one| counts.discarded(one))
        .iter()
        .sum();
    assert_eq!(counts.received, counts.taken + discarded);
}

fn strange_message(take: &mut Take<'_>, from: Ipv4Addr) -> Vec<u8> {
    let (number, vci) = (u64::from(take.below(5)), u16::from(take.u8()));
    let body = match take.below(5) {
        0 => Body::Connect(Connect {
            from: Sap(7),
            to: Sap(number),
            vci,
            notify: take.pick(&Notify::ALL),
            contract: String::new(),
        }),
        1 => Body::Accept {
            caller: number,
            vci,
        },
        2 => Body::Refuse {
            caller: number,
            reason: Refusal::Busy,
            offer: String::new(),
        },
        3 => Body::Release {
            receiver: number,
            vci,
        },
        _ => Body::Datagram {
            from: Sap(1),
            to: Sap(7),
            octets: take.slice(9).to_vec(),
        },
    };
    let message = Message {
        call: take.below(8).into(),
        incarnation: take.below(3).into(),
        from,
        to: OURS,
        body,
    };
    message.emit()
}

fn strange_packet(take: &mut Take<'_>) -> Vec<u8> {
    let mut block = vec![1, 1 + take.below(13)];
    for _ in 0..4 {
        block.extend(u64::from(take.below(5)).to_be_bytes());
    }
    let len = usize::from(take.below(40));
    block.extend(take.slice(len));
    let crc = check::crc32(&block);
    block.extend(crc.to_be_bytes());
    block
}
