//! Broken files: a clear error, the rest where it can be found, and never more.

mod common;

use std::collections::BTreeMap;

use cellgate_capture::{Error, Reader, Reason, Refusal};
use common::{FILES, data, read_all};
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
    other_link[20] = 147;
    assert_eq!(refusal(&other_link), Refusal::LinkType(147));
    assert_eq!(
        refusal(&other_link).to_string(),
        "a capture of link type 147, which is none of 1, 18, 100, 106, 123 and 197"
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
    let told = story(&octets);
    assert_eq!(
        told,
        ["offset 24: a record of 4294967295 octets: at most 262144 are read"]
    );
    let mut octets = data("all.erf");
    octets[10..12].fill(0);
    assert_eq!(refusal(&octets), Refusal::Unknown);
    octets = data("all.erf");
    octets[116 + 10..116 + 12].copy_from_slice(&[0, 3]);
    assert_eq!(refusal(&octets), Refusal::Unknown);
    octets = data("all.erf");
    octets[232 + 10..232 + 12].copy_from_slice(&[0, 3]);
    let told = story(&octets);
    assert_eq!(
        told[2..],
        ["offset 232: an ERF record of 3 octets with 16 octets of headers"]
    );
}

#[test]
fn one_bad_record_of_pcap_does_not_hide_the_next() {
    let mut octets = data("sunatm.pcap");
    // 2,000,000 us in the second record.
    octets[24 + 88 + 4..24 + 88 + 8].copy_from_slice(&2_000_000_u32.to_le_bytes());
    // The third has one octet on the wire and 72 in the file.
    let third = 24 + 88 + 104;
    octets[third + 12..third + 16].copy_from_slice(&1_u32.to_le_bytes());
    let told = story(&octets);
    assert_eq!(told.len(), 11);
    assert!(told[1].contains("2000000 units of a second"), "{told:?}");
    assert!(
        told[2].contains("72 octets kept of a packet of 1"),
        "{told:?}"
    );
    assert_eq!(told.iter().filter(|line| *line == "record").count(), 9);
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
        interface(147),
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
        "link type 147",
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
        assert_eq!(told.len(), 1);
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
    let wanted = "offset 24: 1159821166 units of a second in a time stamp: a second or more";
    assert_eq!(told, [wanted]);
    println!("ran {name}");
}
