//! Captures of MSSAR, good ones and one of each kind of bad cell.

use cellgate_capture::{Direction, Item, Link, Packet, PcapngWriter, Recorder, SduKind};
use cellgate_core::aal::mssar::{Segmenter, cells};
use cellgate_core::upper::msna::rex::{self, Cut, Fragment, Progress};
use cellgate_core::upper::msna::{Body, Connect, Message, Notify, Refusal, Sap};
use cellgate_core::wire::{Cell, VpiVci};

const START_NS: u64 = 1_700_000_000_000_000_000;
/// The circuit of associations here; of ATM with VPI 1.
pub(super) const VCI: u16 = 0x1234;
/// Octets of the longest block where one is too long.
pub(super) const MAX_BLOCK: usize = 400;
/// The block behind a bad cell.
pub(super) const NEXT: [u8; 200] = [0x77; 200];

/// What carries cells of MSSAR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Net {
    Ring,
    Atm,
}

impl Net {
    pub(super) const BOTH: [Self; 2] = [Self::Ring, Self::Atm];

    /// Octets of a block in each cell.
    pub(super) const fn data_len(self) -> u8 {
        match self {
            Self::Ring => 32,
            Self::Atm => 46,
        }
    }
}

/// A cell: its circuit, and its data with the fragmentation header.
pub(super) type Sent = (u16, Vec<u8>);

/// Blocks of lengths at which something changes.
pub(super) fn blocks(net: Net) -> Vec<Vec<u8>> {
    let data_len = usize::from(net.data_len());
    let lens = [
        0,
        1,
        data_len - 1,
        data_len,
        data_len + 1,
        2 * data_len,
        70,
        1_500,
        255 * data_len - 1,
        255 * data_len,
    ];
    let octets = |len: usize| (0..len).map(|at| (at * 7 + len) as u8).collect();
    lens.into_iter().map(octets).collect()
}

/// Cells of a block.
fn segmented(net: Net, vci: u16, rid: u8, block: &[u8]) -> Vec<Sent> {
    let mut segmenter = Segmenter::new(block.len(), rid, net.data_len()).unwrap();
    let mut cells = Vec::new();
    let mut cell = vec![0; 2 + usize::from(net.data_len())];
    while segmenter.emit_cell(block, &mut cell) {
        cells.push((vci, cell.clone()));
    }
    cells
}

/// Cells of blocks with RIDs from 60 on, of which `at_once` are on their way at a time.
pub(super) fn interleaved(net: Net, vci: u16, blocks: &[Vec<u8>], at_once: usize) -> Vec<Sent> {
    let numbered = (60_u8..).zip(blocks);
    let mut waiting: Vec<_> = numbered
        .map(|(rid, block)| segmented(net, vci, rid % 64, block).into_iter())
        .collect();
    let mut sent = Vec::new();
    while !waiting.is_empty() {
        let front = waiting.iter_mut().take(at_once);
        sent.extend(front.filter_map(Iterator::next));
        waiting.retain(|cells| cells.len() > 0);
    }
    sent
}

/// A capture of cells in the order in which they went.
pub(super) fn file(net: Net, cells: &[Sent]) -> Vec<u8> {
    match net {
        Net::Ring => {
            let octets = |(vci, data): &Sent| [&[0x81][..], &vci.to_be_bytes(), data].concat();
            ring_file(&cells.iter().map(octets).collect::<Vec<_>>())
        }
        Net::Atm => {
            let mut recorder = Recorder::new(Vec::new(), "test").unwrap();
            for (at, (vci, data)) in (0_u64..).zip(cells) {
                let address = VpiVci::new(1, *vci).unwrap();
                let cell = Cell::user(address, false, data.as_slice().try_into().unwrap());
                let (time_ns, item) = (START_NS + at * 1_000, Item::Cell(&cell));
                recorder
                    .record(time_ns, Direction::Transmit, item, None)
                    .unwrap();
            }
            recorder.finish().unwrap()
        }
    }
}

/// A capture of SDUs of AAL5.
pub(super) fn sdu_file(vci: u16, sdus: &[Vec<u8>]) -> Vec<u8> {
    let mut recorder = Recorder::new(Vec::new(), "test").unwrap();
    for sdu in sdus {
        let address = VpiVci::new(0, vci).unwrap();
        let kind = SduKind::RAW;
        let item = Item::Sdu { address, kind, sdu };
        recorder
            .record(START_NS, Direction::Transmit, item, None)
            .unwrap();
    }
    recorder.finish().unwrap()
}

/// A capture of link type 147.
pub(super) fn ring_file(records: &[Vec<u8>]) -> Vec<u8> {
    link_file(Link::Ring, records)
}

pub(super) fn link_file(link: Link, records: &[Vec<u8>]) -> Vec<u8> {
    let mut file = PcapngWriter::new(Vec::new(), "test").unwrap();
    let interface = file.interface(link, "test").unwrap();
    for (at, octets) in (0_u64..).zip(records) {
        let packet = Packet {
            time_ns: START_NS + at * 1_000,
            direction: Direction::Unknown,
            octets,
            missing: 0,
            comment: None,
        };
        file.packet(interface, packet).unwrap();
    }
    file.finish().unwrap()
}

/// Kinds of bad cells.
pub(super) const BAD: [&str; 9] = [
    "gap",
    "twice",
    "count",
    "count where nothing is in progress",
    "sequence 0",
    "rid",
    "cells too many",
    "octets too many",
    "no start",
];

/// A capture with a bad cell.
pub(super) struct Bad {
    pub(super) cells: Vec<Sent>,
    /// The number of its record, from 1 on.
    pub(super) at: u64,
    pub(super) reason: &'static str,
    /// Cells of the block that it ends, if one was in progress.
    pub(super) lost: Option<u64>,
}

/// A block of five cells with one bad cell, and the next block.
pub(super) fn bad(net: Net, kind: &str) -> Bad {
    let data_len = net.data_len();
    let block = vec![1; usize::from(data_len) * 4 + 3];
    let mut front = segmented(net, VCI, 1, &block);
    let count = 1 + usize::from(data_len);
    let (at, reason, lost) = match kind {
        "gap" => {
            front.remove(2);
            (3, "lost_cell", Some(2))
        }
        "twice" => {
            front.insert(2, front[1].clone());
            (3, "lost_cell", Some(2))
        }
        "count" => {
            front[4].1[count] = data_len;
            (5, "length_error", Some(4))
        }
        "count where nothing is in progress" => {
            front.drain(..4);
            front[0].1[count] = data_len;
            (1, "length_error", None)
        }
        "sequence 0" => {
            front[3].1[0] = 0;
            (4, "length_error", Some(3))
        }
        "rid" => {
            front[1].1[1] ^= 4;
            (2, "lost_cell", Some(1))
        }
        "cells too many" => {
            let most = cells(MAX_BLOCK, data_len).unwrap();
            front = segmented(
                net,
                VCI,
                1,
                &vec![2; usize::from(most) * usize::from(data_len) + 1],
            );
            (1, "oversized", None)
        }
        "octets too many" => {
            let block = vec![2; MAX_BLOCK + 1];
            front = segmented(net, VCI, 1, &block);
            let count = front.len() as u64;
            (count, "oversized", Some(count - 1))
        }
        "no start" => {
            front[0].1[1] &= !1;
            (1, "lost_cell", None)
        }
        kind => panic!("{kind}"),
    };
    front.extend(segmented(net, VCI, 2, &NEXT));
    Bad {
        cells: front,
        at,
        reason,
        lost,
    }
}

fn message(call: u32, way: bool, body: Body) -> Message {
    let ends = [[10, 0, 0, 1], [10, 0, 0, 2]].map(Into::into);
    let [from, to] = if way { ends } else { [ends[1], ends[0]] };
    Message {
        call,
        incarnation: u64::MAX - 1,
        from,
        to,
        body,
    }
}

/// Writes the CRC of a message anew.
fn seal(mut octets: Vec<u8>) -> Vec<u8> {
    let len = octets.len() - 4;
    octets.truncate(len);
    let crc = octets.iter().fold(u32::MAX, |crc, octet| {
        (0..8).fold(crc ^ u32::from(*octet) << 24, |crc, _| {
            crc << 1 ^ if crc >> 31 == 1 { 0x04c1_1db7 } else { 0 }
        })
    });
    octets.extend((!crc).to_be_bytes());
    octets
}

/// Messages of MSNL, each kind and each fault.
pub(super) fn messages() -> Vec<Vec<u8>> {
    let (from, to) = (Sap(5), Sap(7));
    let connect = Body::Connect(Connect {
        from,
        to,
        vci: 64,
        notify: Notify::Both,
        contract: "cbr pcr=1000".into(),
    });
    let caller = 3 << 40;
    let refuse = Body::Refuse {
        caller,
        reason: Refusal::NotAdmitted,
        offer: "cbr pcr=500".into(),
    };
    let datagram = |octets: &[u8]| Body::Datagram {
        from,
        to,
        octets: octets.to_vec(),
    };
    let good = [
        message(7, true, connect),
        message(7, false, Body::Accept { caller, vci: 65 }),
        message(7, false, refuse),
        message(
            7,
            true,
            Body::Release {
                receiver: 9,
                vci: 64,
            },
        ),
        message(8, true, datagram(b"hello")),
        message(9, true, datagram(&packets()[0])),
    ];
    let mut all: Vec<_> = good.iter().map(Message::emit).collect();
    let changed = |at: usize, to: u8| {
        let mut octets = all[0].clone();
        octets[at] = to;
        octets
    };
    // Notify is behind the header, two SAPs and a VCI; of the last, version and kind are left.
    let bad = [
        changed(30, 0xff),
        seal(changed(0, 2)),
        seal(changed(1, 6)),
        seal(changed(22 + 18, 4)),
        seal(all[1][..6].to_vec()),
    ];
    all.extend(bad);
    all
}

/// Connects whose contracts are texts of characters of all lengths, or are no texts.
pub(super) fn texts() -> Vec<Vec<u8>> {
    let texts: [&[u8]; 18] = [
        b"",
        "\u{7f}\u{80}\u{7ff}\u{800}\u{ffff}\u{10000}\u{10ffff}".as_bytes(),
        &[b'a'; 512],
        &[b'a'; 513],
        b"\x80",
        b"\xc1\x80",
        b"\xc2",
        b"\xc2\xc0",
        b"\xe0\x9f\x80",
        b"\xed\x9f\xbf",
        b"\xed\xa0\x80",
        b"\xee\x80",
        b"\xf0\x8f\x80\x80",
        b"\xf4\x8f\xbf\xbf",
        b"\xf4\x90\x80\x80",
        b"\xf5\x80\x80\x80",
        b"\xf1\x80\x80\x7f",
        b"a:b \"c\"",
    ];
    let connect = messages().swap_remove(0);
    let (front, _) = connect.split_at(22 + 19);
    let message = |text: &&[u8]| seal([front, text, &[0; 4]].concat());
    texts.iter().map(message).collect()
}

/// Calls and others of REX in which something cannot be, or just can, with a CRC that matches.
pub(super) fn odd_packets() -> Vec<Vec<u8>> {
    let all = packets();
    let changed = |of: usize, at: usize, to: &[u8]| {
        let mut octets = all[of].clone();
        octets[at..at + to.len()].copy_from_slice(to);
        seal(octets)
    };
    // A call's fragment is behind the header and the floor.
    let fragment = 34 + 8;
    let longer = |of: usize| seal([&all[of][..], &[0]].concat());
    vec![
        changed(3, fragment, &21_u32.to_be_bytes()),
        changed(3, fragment, &u32::MAX.to_be_bytes()),
        changed(3, fragment + 4, &[0, 0]),
        changed(3, fragment + 4, &[0, 4]),
        changed(3, fragment + 4, &[0, 5]),
        changed(3, fragment + 6, &[0, 0]),
        changed(3, fragment + 6, &[0, 2]),
        changed(3, fragment + 10, &[0]),
        changed(3, fragment + 10, &[2]),
        changed(4, fragment + 4, &[0, 0]),
        changed(4, fragment, &[0, 0, 0, 16, 0, 16, 0, 1]),
        changed(9, 34, &[2]),
        changed(0, 0, &[2]),
        changed(0, 1, &[0]),
        changed(0, 1, &[13]),
        longer(0),
        longer(1),
        longer(3),
        longer(8),
        seal(all[8][..all[8].len() - 1].to_vec()),
        seal(vec![1; 4]),
    ]
}

/// Blocks of REX of each kind, and one whose CRC is wrong.
pub(super) fn packets() -> Vec<Vec<u8>> {
    use rex::Body::{
        Announcement, Call, Dropped, Ended, Gone, Hello, Probe, Received, Refused, Reply, Welcome,
        Working,
    };
    let fragment = Fragment {
        cut: Cut::new(20, 16).unwrap(),
        number: 1,
        round: 1,
        asks: true,
        octets: b"last",
    };
    let empty = Fragment {
        cut: Cut::new(0, 16).unwrap(),
        number: 0,
        octets: b"",
        ..fragment
    };
    let progress = Progress {
        round: 2,
        next: 3,
        beyond: 0x8000_0000_0000_0005,
    };
    let floor = u64::MAX;
    let bodies = [
        Hello,
        Welcome { keep_us: 1_000_000 },
        Gone,
        Call { floor, fragment },
        Announcement {
            floor: 1,
            fragment: empty,
        },
        Received(progress),
        Working,
        Reply(fragment),
        Probe { floor, progress },
        Refused(rex::Refusal::TooLong),
        Dropped,
        Ended { floor },
    ];
    let packet = |(session, body): (u64, rex::Body<'_>)| {
        let packet = rex::Packet {
            session,
            sender: 0x0102_0304_0506_0708,
            receiver: 9,
            call: 11,
            body,
        };
        packet.emit()
    };
    let mut all: Vec<_> = (0..).zip(bodies).map(packet).collect();
    let mut wrong = all[3].clone();
    wrong[20] ^= 1;
    all.push(wrong);
    all
}
