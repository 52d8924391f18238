//! Broken files: a clear error, the rest where it can be found, and never more.

use std::collections::BTreeMap;

use crate::common;
use crate::common::{FILES, data, read_all};
use cellgate_capture::{Error, Reader, Reason, Refusal};
use cellgate_core::wire::MplsFrame;
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

/// What a reader says of each record: `record`, or the error's text.
fn story(octets: &[u8]) -> Vec<String> {
    let told =
        |result: Result<_, Error>| result.map_or_else(|e| e.to_string(), |_| "record".into());
    read_all(octets).into_iter().map(told).collect()
}

fn refusal(octets: &[u8]) -> Refusal {
    match Reader::open(octets) {
        Err(Error::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_no_capture_gives_one_clear_error() {
    assert_eq!(refusal(b""), Refusal::Empty);
    assert_eq!(refusal(b"\n"), Refusal::Unknown);
    assert_eq!(
        refusal(b"{\"a\": 1}\nmore text, and more of it\n"),
        Refusal::Unknown
    );
    assert_eq!(refusal(&[0; 4096]), Refusal::Unknown);
    assert_eq!(refusal(&[0xff; 4096]), Refusal::Unknown);
    assert_eq!(
        refusal(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0>\0\x01\0"),
        Refusal::Unknown
    );
    assert_eq!(
        refusal(b"\x1f\x8b\x08\0\0\0\0\0\0\x03"),
        Refusal::Compressed
    );
    assert_eq!(
        refusal(b"\xd4\xc3\xb2\xa1\x02\0"),
        Refusal::ShortHeader { octets: 24 }
    );
    assert_eq!(
        refusal(b"\x0a\x0d\x0d\x0a"),
        Refusal::ShortHeader { octets: 28 }
    );
    let mut other_link = data("sunatm.pcap");
    other_link[20] = 148;
    assert_eq!(refusal(&other_link), Refusal::LinkType(148));
    assert_eq!(
        refusal(&other_link).to_string(),
        "a capture of link type 148, which carries no ATM that is read"
    );
}

#[test]
fn a_cut_file_gives_its_whole_records_and_says_where_it_ends() {
    for (name, record) in [("sunatm.pcap", 88), ("all.erf", 116), ("rfc1483.pcap", 84)] {
        let octets = data(name);
        let start = if name.ends_with("pcap") { 24 } else { 0 };
        for cut in start + record + 1..start + record + 16 {
            let told = story(&octets[..cut]);
            assert_eq!(told.len(), 2, "{name} {cut}: {told:?}");
            assert_eq!(told[0], "record");
            let offset = format!("offset {}: the file ends inside a record", start + record);
            assert!(told[1].starts_with(&offset), "{told:?}");
        }
    }
}

#[test]
fn an_eyesdn_record_that_is_cut_short_costs_only_itself() {
    let octets = data("cells.trc");
    // Inside the first of 14 cells.
    let told = story(&[&octets[..40], &octets[72..]].concat());
    assert_eq!(
        told[0],
        "offset 6: an EyeSDN record of 21 octets that says 53"
    );
    assert_eq!(told[1..], ["record"; 13]);
    let told = story(&[&octets[..6], b"junk", &octets[6..]].concat());
    assert_eq!(
        told[0],
        "offset 6: octet 0x6a where an EyeSDN record starts with 0xff"
    );
    assert_eq!(told[1..], ["record"; 14]);
    let mut broken = octets.clone();
    broken[30] = 0xfe;
    assert_eq!(
        story(&broken)[0],
        "offset 6: EyeSDN escape 0xfe 0x00 stands for nothing"
    );
}

#[test]
fn a_huge_length_is_refused_without_reading_it() {
    let mut octets = data("sunatm.pcap");
    octets[32..36].copy_from_slice(&u32::MAX.to_le_bytes());
    octets.truncate(24 + 16 + 40);
    let told = story(&octets);
    assert_eq!(
        told,
        ["offset 24: a record of 4294967295 octets: at most 262144 are read"]
    );
    let mut octets = data("all.erf");
    octets[10..12].fill(0);
    assert_eq!(refusal(&octets), Refusal::Unknown);
}

/// Where each record of a file begins, and its end.
fn places(octets: &[u8]) -> Vec<usize> {
    let offsets = read_all(octets)
        .into_iter()
        .map(|r| r.unwrap().offset as usize);
    offsets.chain([octets.len()]).collect()
}

/// The story of a file in which the record at `place` is damaged: all records but that one.
fn loses_itself_alone(good: &[u8], broken: &[u8], damaged: usize, what: &str) {
    let good: Vec<_> = read_all(good).into_iter().map(Result::unwrap).collect();
    let told = read_all(broken);
    let offset = good[damaged].offset;
    let errors: Vec<_> = told.iter().filter_map(|r| r.as_ref().err()).collect();
    assert_eq!(errors.len(), 1, "{what}: {errors:?}");
    let named = format!("offset {offset}: ");
    assert!(
        errors[0].to_string().starts_with(&named),
        "{what}: {errors:?}"
    );
    let records: Vec<_> = told.into_iter().filter_map(Result::ok).collect();
    let others = good.iter().enumerate().filter(|(n, _)| *n != damaged);
    let others: Vec<_> = others.map(|(_, record)| record.clone()).collect();
    assert_eq!(records, others, "{what}");
}

#[test]
fn a_damaged_length_costs_its_record_alone() {
    // In each, where the length stands in a record's header, and how long that is.
    for (name, at, len) in [
        ("sunatm.pcap", 8, 4),
        ("mplsudp.pcap", 8, 4),
        ("all.erf", 10, 2),
    ] {
        let good = data(name);
        let places = places(&good);
        let inner = places.len() - 4;
        for (damaged, place) in places.iter().enumerate().skip(1).take(inner) {
            let lengths = *place + at..*place + at + len;
            for wrong in [u32::MAX, 0x7fff_0000, 0x0003_0000, 1_000, 287] {
                let octets = match len {
                    2 => (wrong as u16).to_be_bytes().to_vec(),
                    _ => wrong.to_le_bytes().to_vec(),
                };
                let mut broken = good.clone();
                broken[lengths.clone()].copy_from_slice(&octets);
                let what = format!("{name}: {wrong} in record {damaged}");
                loses_itself_alone(&good, &broken, damaged, &what);
            }
        }
    }
}

#[test]
fn an_odd_record_header_costs_no_packet() {
    let good = data("sunatm.pcap");
    let wanted: Vec<_> = read_all(&good)
        .into_iter()
        .map(|r| r.unwrap().content)
        .collect();
    let contents = |octets: &[u8]| -> Vec<_> {
        read_all(octets)
            .into_iter()
            .map(|r| r.unwrap().content)
            .collect()
    };
    let places = places(&good);
    let record = |n: usize| &good[places[n]..places[n + 1]];
    // A second or more in the fraction; more kept than there was on the wire.
    let mut octets = good.clone();
    octets[24 + 88 + 4..24 + 88 + 8].copy_from_slice(&2_000_000_u32.to_le_bytes());
    let third = places[2];
    octets[third + 12..third + 16].copy_from_slice(&1_u32.to_le_bytes());
    assert_eq!(contents(&octets), wanted);
    let times: Vec<_> = read_all(&octets)
        .into_iter()
        .map(|r| r.unwrap().time_ns)
        .collect();
    assert_eq!(times[1], Some(common::START_NS + 2_000_000_000));
    // Modified pcap: the interface, the protocol and the kind of packet in each header, in both
    // lengths that there are, and none at all.
    for more in [8, 12, 0] {
        let mut modified = good[..24].to_vec();
        modified[..4].copy_from_slice(&0xa1b2_cd34_u32.to_le_bytes());
        for n in 0..wanted.len() {
            let (header, packet) = record(n).split_at(16);
            modified.extend([header, &[2; 12][..more], packet].concat());
        }
        assert_eq!(contents(&modified), wanted, "{more}");
    }
    // Nanoseconds, the other byte order, and the lengths the other way round.
    for (magic, minor) in [(0xa1b2_3c4d_u32, 4_u16), (0xa1b2_c3d4, 2)] {
        let mut swapped = magic.to_be_bytes().to_vec();
        swapped.extend([&2_u16.to_be_bytes()[..], &minor.to_be_bytes(), &[0; 12]].concat());
        swapped.extend(123_u32.to_be_bytes());
        for n in 0..wanted.len() {
            let (header, packet) = record(n).split_at(16);
            let (fields, _) = header.as_chunks::<4>();
            let mut fields: Vec<_> = fields.iter().map(|f| u32::from_le_bytes(*f)).collect();
            if minor < 3 {
                fields.swap(2, 3);
            }
            swapped.extend(fields.iter().flat_map(|field| field.to_be_bytes()));
            swapped.extend(packet);
        }
        assert_eq!(contents(&swapped), wanted, "{magic:x}");
    }
}

/// Blocks of a pcapng file, little-endian.
fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let len = (body.len() as u32 + 12).to_le_bytes();
    [&kind.to_le_bytes()[..], &len, body, &len].concat()
}

fn section() -> Vec<u8> {
    let body = [
        &0x1a2b_3c4d_u32.to_le_bytes()[..],
        &[1, 0, 0, 0],
        &[0xff; 8],
    ]
    .concat();
    block(0x0a0d_0d0a, &body)
}

fn interface(link: u16) -> Vec<u8> {
    block(1, &[&link.to_le_bytes()[..], &[0; 6]].concat())
}

/// An SDU of one octet on 0.32 at `interface`.
fn packet(interface: u32) -> Vec<u8> {
    let mut body = interface.to_le_bytes().to_vec();
    body.extend([0; 8]);
    body.extend(5_u32.to_le_bytes());
    body.extend(5_u32.to_le_bytes());
    body.extend([0, 0, 0, 32, 0x42, 0, 0, 0]);
    block(6, &body)
}

#[test]
fn pcapng_goes_on_at_the_next_block() {
    let mut long_option = packet(0);
    let end = long_option.len() - 4;
    long_option.splice(end..end, [1, 0, 0xff, 0xff]);
    for at in [4, long_option.len() - 4] {
        long_option[at] += 4;
    }
    let mut unequal = packet(0);
    let last = unequal.len() - 4;
    unequal[last] ^= 0x80;
    let file = [
        section(),
        interface(123),
        interface(148),
        packet(0),
        packet(1),
        packet(7),
        block(6, &[0; 8]),
        block(0x8000_0001, &[0x55; 400_000]),
        block(6, &vec![0; 400_000]),
        long_option,
        unequal,
        packet(0),
    ];
    let told = story(&file.concat());
    let wanted = [
        "record",
        "link type 148",
        "interface 7",
        "a pcapng packet block of 8 octets: at least 20",
        "a record of 400012 octets",
        "option of 65535 octets",
        "a pcapng block of 40 octets at its start, 168 at its end",
        "record",
    ];
    assert_eq!(told.len(), wanted.len(), "{told:#?}");
    for (told, wanted) in told.iter().zip(wanted) {
        assert!(told.contains(wanted), "{told} / {wanted}");
    }
    for len in [0, 8, 11, 13, u32::MAX] {
        let mut bad = section();
        bad.extend(6_u32.to_le_bytes());
        bad.extend(len.to_le_bytes());
        bad.extend(packet(0));
        let told = story(&bad);
        assert!(
            told[0].contains(&format!("a pcapng block of {len} octets")),
            "{told:?}"
        );
        assert!(told[1].contains("interface 0"), "{told:?}");
        assert_eq!(told.len(), 2);
    }
}

#[test]
fn a_damaged_block_costs_itself_alone() {
    let frames = (0..6_u32).map(|_| packet(0));
    let mut blocks = vec![section(), interface(123)];
    blocks.extend(frames);
    // A kind that nobody knows costs nothing.
    blocks.insert(4, block(0x7777, &[1; 40]));
    let good = blocks.concat();
    assert_eq!(story(&good), ["record"; 6]);
    let place = |n: usize| blocks[..n].concat().len();
    for n in [3, 4, 5, 6] {
        for wrong in [
            0,
            3,
            13,
            8,
            16,
            44,
            80,
            1_000,
            0x0010_0000,
            0x7fff_fff0,
            u32::MAX,
        ] {
            let mut broken = good.clone();
            broken[place(n) + 4..place(n) + 8].copy_from_slice(&u32::to_le_bytes(wrong));
            if broken == good {
                continue;
            }
            let told = story(&broken);
            let records = told.iter().filter(|line| *line == "record").count();
            let offset = format!("offset {}: ", place(n));
            let named = told.iter().filter(|line| line.starts_with(&offset)).count();
            let lost = usize::from(n != 4);
            assert_eq!(
                (records, named),
                (6 - lost, 1),
                "{wrong} in block {n}: {told:?}"
            );
        }
        // The length behind is wrong.
        let mut broken = good.clone();
        broken[place(n + 1) - 4] ^= 0x55;
        let lost = usize::from(n != 4);
        let told = story(&broken);
        let records = told.iter().filter(|line| *line == "record").count();
        assert_eq!((records, told.len()), (6 - lost, 7 - lost), "{told:?}");
    }
}

#[test]
fn a_section_has_its_own_byte_order_and_interfaces() {
    let mut big = hexed("0a0d0d0a 0000001c 1a2b3c4d 00010000 ffffffffffffffff 0000001c");
    big.extend(hexed(
        "00000001 00000020 007b 0000 00000000 0009 0001 09000000 0000 0000 00000020",
    ));
    big.extend(hexed(
        "00000006 00000028 00000000 00000001 00000002 00000005 00000005",
    ));
    big.extend(hexed("0000002042 000000 00000028"));
    let file = [
        section(),
        interface(123),
        interface(123),
        packet(1),
        big,
        packet(1),
    ]
    .concat();
    let results = read_all(&file);
    let times: Vec<_> = results
        .iter()
        .take(2)
        .map(|r| r.as_ref().unwrap().time_ns)
        .collect();
    assert_eq!(times, [Some(0), Some((1 << 32) + 2)]);
    // Little-endian in a big-endian section: its length is none.
    assert!(
        matches!(&results[2..], [Err(Error::Broken { .. })]),
        "{results:?}"
    );
}

fn hexed(text: &str) -> Vec<u8> {
    common::hex(text)
}

#[test]
fn a_snapped_sdu_says_what_is_missing() {
    let mut octets = data("sunatm.pcap");
    octets[36..40].copy_from_slice(&100_u32.to_le_bytes());
    let record = read_all(&octets).remove(0).unwrap();
    assert_eq!((record.missing, record.content.octets().len()), (28, 68));
}

/// Changes of one file: octets, cuts, repetitions, and lengths of all sizes.
fn mutate(octets: &[u8], rng: &mut Pcg64Mcg) -> Vec<u8> {
    let mut octets = octets.to_vec();
    let mut below = |n: usize| (rng.next_u64() % n.max(1) as u64) as usize;
    for _ in 0..=below(4) {
        let at = below(octets.len());
        match below(6) {
            0 => octets.truncate(at),
            1 => octets[at..]
                .iter_mut()
                .take(4)
                .for_each(|octet| *octet = 0xff),
            2 => octets[at..].iter_mut().take(4).for_each(|octet| *octet = 0),
            3 => {
                let end = (at + below(200)).min(octets.len());
                let part = octets[at..end].to_vec();
                octets.splice(at..at, part);
            }
            4 => drop(octets.drain(at..(at + below(20)).min(octets.len()))),
            _ => octets[at] ^= 1 << below(8),
        }
        if octets.is_empty() {
            break;
        }
    }
    octets
}

/// Ten thousands in a release build, some thousands otherwise; `CELLGATE_SEED` is the first seed.
#[test]
fn no_corruption_of_any_file_panics_or_hangs() {
    let runs = if cfg!(debug_assertions) {
        5_000
    } else {
        100_000
    };
    let seed = std::env::var("CELLGATE_SEED").map_or(1, |text| text.parse().expect("a number"));
    println!("seed {seed}, {runs} runs");
    let mut files: Vec<Vec<u8>> = FILES.iter().map(|name| data(name)).collect();
    let blocks = [
        section(),
        interface(123),
        interface(197),
        packet(0),
        packet(1),
        packet(0),
    ];
    files.push(blocks.concat());
    files.push(common::recorded());
    // Modified pcap with a check sequence behind each frame.
    let mut modified = data("mplsudp.pcap");
    modified[..4].copy_from_slice(&0xa1b2_cd34_u32.to_le_bytes());
    modified[23] = 0x24;
    files.push(modified);
    let mut ends = BTreeMap::<&str, usize>::new();
    let mut rng = Pcg64Mcg::new(seed);
    for run in 0..runs {
        let octets = mutate(&files[run % files.len()], &mut rng);
        let mut steps = 0;
        for result in read_all(&octets) {
            steps += 1;
            let kind = match &result {
                Ok(record) => {
                    assert!(record.offset < octets.len() as u64);
                    assert!(record.content.octets().len() <= octets.len());
                    "record"
                }
                Err(Error::Broken {
                    reason: Reason::Truncated { .. },
                    ..
                }) => "truncated",
                Err(Error::Broken { .. }) => "broken",
                Err(Error::Refused(_)) => "refused",
                Err(Error::Io { .. }) => panic!("a slice cannot fail"),
            };
            *ends.entry(kind).or_default() += 1;
        }
        // No place gives two answers.
        assert!(
            steps <= octets.len() + 1,
            "run {run} of seed {seed}: {steps} answers"
        );
    }
    println!("{ends:?}");
    assert_eq!(ends.len(), 4, "some outcome never came: {ends:?}");
}

#[test]
fn no_octets_of_any_frame_panic() {
    let runs = if cfg!(debug_assertions) {
        20_000
    } else {
        500_000
    };
    let seed = std::env::var("CELLGATE_SEED").map_or(1, |text| text.parse().expect("a number"));
    println!("seed {seed}, {runs} runs");
    let frames = common::frames_around();
    let mut rng = Pcg64Mcg::new(seed);
    let (mut found, mut refused) = (0, 0);
    for run in 0..runs {
        let (_, framing, frame) = &frames[run % frames.len()];
        let octets = mutate(frame, &mut rng);
        let missing = (rng.next_u64() % 3) as usize * 50;
        match MplsFrame::find(*framing, &octets, missing, &[7_001]) {
            Ok(frame) => {
                assert!(frame.payload.len() < octets.len() && frame.missing <= missing);
                found += 1;
            }
            Err(error) => {
                assert!(!error.to_string().is_empty());
                refused += 1;
            }
        }
    }
    assert!(
        found > runs / 10 && refused > runs / 10,
        "{found} {refused}"
    );
}

#[test]
fn a_section_of_another_version_is_told_by_its_version() {
    let mut file = vec![0x0a, 0x0d, 0x0d, 0x0a, 28, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a];
    file.extend([2, 0, 0, 0]);
    file.extend([0xff; 8]);
    file.extend([28, 0, 0, 0]);
    let told = story(&file);
    let wanted = "offset 0: a pcapng section of version 2: only version 1 is read";
    assert_eq!(told, [wanted]);
}

#[test]
fn foreign_captures_are_read_or_give_clear_errors() {
    let name = "foreign_captures";
    let Some(folder) = std::env::var_os("CELLGATE_FOREIGN_CAPTURES") else {
        println!("skipped {name}: CELLGATE_FOREIGN_CAPTURES names no folder");
        return;
    };
    let folder = std::path::PathBuf::from(folder);
    let read = |file: &str| std::fs::read(folder.join(file)).expect(file);
    for file in [
        "wireshark-wiki-atm_capture1.cap",
        "netzob-atm_capture1.pcap",
    ] {
        let results = read_all(&read(file));
        assert_eq!(results.len(), 12, "{file}");
        for result in results {
            let sdu = result.unwrap().content.octets().to_vec();
            assert_eq!((sdu[0], sdu.len()), (0x45, 84), "{file}");
        }
    }
    let told = story(&read("tcpdump-atm-heapoverflow.pcap"));
    assert_eq!(
        told,
        ["offset 24: an SDU of 262140 octets: AAL5 has at most 65,535"]
    );
    let told = story(&read("tcpdump-atm-oam-loopback-print-overrun.pcap"));
    assert_eq!(told, ["offset 24: a cell of 65618 octets"]);
    println!("ran {name}");
}
