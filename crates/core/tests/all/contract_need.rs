//! Needs: their text, and the contracts that carry them, no cell too few or too many.

use cellgate_core::contract::{CellRate, Manner, Need, NeedError, Peak, Proposal, aal5_cells};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

const SPENT_NS: u64 = 10_000_000;

fn proposals(text: &str) -> Vec<Proposal> {
    let need: Need = text
        .parse()
        .unwrap_or_else(|error| panic!("{text}: {error}"));
    need.proposals(SPENT_NS).expect(text)
}

#[test]
fn needs_become_contracts_whose_figures_are_exact() {
    // By fractions, in another program: 834 cells for 40,000 octets, 25 times a second.
    let table: [(&str, &[&str]); 14] = [
        (
            "video 8Mbit/s 25fps",
            &["cbr,aal5:pcr=20850,max_sdu=40024", "ubr,aal5:max_sdu=40024"],
        ),
        (
            "video 8Mbit/s 25fps peak 4x",
            &[
                "cbr,aal5:pcr=83350,max_sdu=53368",
                "vbr,aal5:pcr=83350,max_sdu=53368,scr=20866,mbs=3335",
                "ubr,aal5:max_sdu=53368",
            ],
        ),
        (
            "video latency 100ms 4x 8 Mbps 25 fps",
            &[
                "cbr,aal5:pcr=37045,max_sdu=53368",
                "vbr,aal5:pcr=37045,max_sdu=53368,scr=20866,mbs=3335",
                "ubr,aal5:max_sdu=53368",
            ],
        ),
        (
            "video ts peak 4x 25fps 8Mb/s",
            &[
                "cbr,aal5:pcr=83450,max_sdu=54520",
                "vbr,aal5:pcr=83450,max_sdu=54520,scr=21057,mbs=3343",
                "ubr,aal5:max_sdu=54520",
            ],
        ),
        (
            "video 64kbit/s 29.97fps peak 2.5x",
            &[
                "cbr,aal5:pcr=450,max_sdu=712",
                "vbr,aal5:pcr=450,max_sdu=712,scr=202,mbs=16",
                "ubr,aal5:max_sdu=712",
            ],
        ),
        (
            "voice 64kbit/s 20ms",
            &["cbr,aal5:pcr=200,max_sdu=184", "ubr,aal5:max_sdu=184"],
        ),
        (
            "voice 20ms 64kbps latency 15ms",
            &[
                "cbr,aal5:pcr=800,max_sdu=184",
                "vbr,aal5:pcr=800,max_sdu=184,scr=200,mbs=4",
                "ubr,aal5:max_sdu=184",
            ],
        ),
        (
            "sensor 100B every 10ms",
            &["cbr,aal5:pcr=300,max_sdu=136", "ubr,aal5:max_sdu=136"],
        ),
        (
            "sensor 40 octets 1s",
            &["cbr,aal5:pcr=1,max_sdu=40", "ubr,aal5:max_sdu=40"],
        ),
        (
            "file 2GB within 60s",
            &["cbr,aal5:pcr=695048,max_sdu=9208", "ubr,aal5:max_sdu=9208"],
        ),
        (
            "file 9208B within 1s",
            &["cbr,aal5:pcr=192,max_sdu=9208", "ubr,aal5:max_sdu=9208"],
        ),
        (
            "file 9209B within 1s",
            &["cbr,aal5:pcr=193,max_sdu=9208", "ubr,aal5:max_sdu=9208"],
        ),
        (
            "ip 10Mbit/s mtu 1500",
            &["cbr,aal5:pcr=26667,max_sdu=1508", "ubr,aal5:max_sdu=1508"],
        ),
        (
            "ip mtu 9180B 0.5Gbit/s",
            &["cbr,aal5:pcr=1307190,max_sdu=9188", "ubr,aal5:max_sdu=9188"],
        ),
    ];
    for (text, contracts) in table {
        let all = proposals(text);
        let said: Vec<_> = all.iter().map(|one| one.contract.to_string()).collect();
        assert_eq!(said, contracts, "{text}");
        let manners = all.iter().map(|one| one.manner);
        assert!(manners.is_sorted_by_key(|manner| manner as u8), "{text}");
        for one in &all {
            assert_eq!(one.contract.to_string().parse(), Ok(one.contract), "{text}");
            assert_eq!(one.way_ns.is_none(), one.manner == Manner::BestEffort);
        }
    }
    let film = proposals("video 8Mbit/s 25fps peak 4x latency 100ms");
    // 3,334 cells at 37,045 and 3,335 at 20,866 cells/s.
    assert_eq!(film[0].way_ns, Some(89_998_651));
    assert_eq!(film[1].way_most_ns, Some(159_829_388));
}

#[test]
fn what_is_wrong_with_a_need_is_said_at_its_place() {
    let table = [
        ("", 0, "expected what is to be sent: video, voice"),
        ("vidoe 8Mbit/s", 0, "did you mean video?"),
        (
            "cbr",
            0,
            "one of video, voice, sensor, file, ip comes first",
        ),
        ("video 25fps", 11, "a rate is missing, as 8Mbit/s"),
        ("video 8Mbit/s", 13, "frames a second is missing, as 25fps"),
        ("voice 64kbit/s", 14, "a time is missing"),
        ("sensor every 1ms", 16, "a size is missing"),
        ("file 2GB", 8, "a time is missing"),
        ("ip 1Mbit/s", 10, "an mtu is missing, as mtu 1500"),
        (
            "video 8Mbit/s 25fps 9Mbit/s",
            20,
            "a rate was said before: give one",
        ),
        ("video 8Mbit/s 25fps peak", 20, "missing behind peak, as 4x"),
        ("video 8Mbit/s 25fps peak 4", 25, "A unit is missing"),
        ("video 8Mbit/s 25fps peak 0.5x", 20, "1x, the mean frame"),
        (
            "video 8Mbit/s 25fps latency 5x",
            28,
            "a time follows latency",
        ),
        ("video 8Mbit/s 25fps every", 20, "missing behind every"),
        ("video 8Mbit/s 25fps 100B", 20, "video has not a size"),
        ("voice 64kbit/s 20ms ts", 20, "voice has not ts"),
        (
            "video 8MB/s 25fps",
            7,
            "a rate is in bit/s, 8 for each octet",
        ),
        ("video 8Mbits/s 25fps", 7, "did you mean Mbit/s?"),
        ("video 8mbit/s 25fps", 7, "did you mean Mbit/s?"),
        ("video 8 25fps", 8, "is no unit here"),
        (
            "video 8Mbit/s 25fps latncy 5ms",
            20,
            "did you mean latency?",
        ),
        (
            "video 8Mbit/s 25fps fast",
            20,
            "expected video 8Mbit/s 25fps [peak 4x]",
        ),
        ("video 0Mbit/s 25fps", 6, "1 bit/s to 1000 Gbit/s"),
        ("video 8Mbit/s 0.0001fps", 14, "too fine for fps"),
        ("video 8.2.5Mbit/s 25fps", 6, "is no number"),
        ("video .5Mbit/s 25fps", 6, "is no number"),
        ("ip 1Mbit/s mtu 65505", 15, "1 to 65504 octets"),
        ("file 99999999999GB 1s", 5, "too large"),
        ("sensor -5B 1s", 7, "is no word"),
    ];
    for (text, at, says) in table {
        let Err(error) = text.parse::<Need>() else {
            panic!("{text}: it is read");
        };
        assert_eq!(error.at, at, "{text}: {error}");
        assert!(error.reason.contains(says), "{text}: {error}");
    }
}

#[test]
fn a_latency_that_the_wake_up_takes_is_refused() {
    for (text, is_enough) in [
        ("voice 64kbit/s 20ms latency 10ms", false),
        ("voice 64kbit/s 20ms latency 9ms", false),
        ("voice 64kbit/s 20ms latency 10001us", true),
    ] {
        let need: Need = text.parse().expect(text);
        match need.proposals(SPENT_NS) {
            Ok(_) => assert!(is_enough, "{text}"),
            Err(NeedError { reason, .. }) => {
                assert!(!is_enough && reason.contains("take 10ms of it"), "{reason}");
            }
        }
    }
    let need: Need = "sensor 1000GB every 1ns".parse().expect("a need");
    let error = need.proposals(0).expect_err("no contract states it");
    assert!(error.reason.contains("a contract can state"), "{error}");
}

/// Cells of a message in SDUs of up to `sdu` octets; of a transport stream in whole pairs of
/// packets.
fn cells(octets: u64, sdu: u64, ts: bool) -> u64 {
    let octets = if ts {
        octets.next_multiple_of(376)
    } else {
        octets
    };
    let of = |octets: u64| u64::from(aal5_cells(octets as u32));
    let rest = octets % sdu;
    octets / sdu * of(sdu) + if rest == 0 { 0 } else { of(rest) }
}

/// Frames as described have any sizes, those that waste most of a cell, too: they never have more
/// cells than the contract says.
#[test]
fn frames_as_described_keep_the_bursty_contract() {
    let mut random = Pcg64Mcg::seed_from_u64(7);
    let mut below = |bound: u64| random.next_u64() % bound;
    for _ in 0..300 {
        let (mean, peak) = (60 + below(50_000), 2 + below(7));
        let ts = below(3) == 0;
        let text = format!(
            "video {}bit/s 50fps peak {peak}x{}",
            mean * 8 * 50,
            if ts { " ts" } else { "" }
        );
        let all = proposals(&text);
        let bursty = all.iter().find(|one| one.manner == Manner::Bursty);
        let descriptor = bursty.expect(&text).contract.transmit.expect("it sends");
        let sdu = u64::from(descriptor.max_sdu.expect("a size").get());
        assert_eq!((sdu + 8) % 48, 0, "{text}");
        assert!(!ts || sdu.is_multiple_of(376), "{text}");
        let scr = u64::from(descriptor.scr.map_or(0, CellRate::cell_s));
        let mbs = u64::from(descriptor.mbs.expect("a burst").get());
        for wasteful in [false, true] {
            // What is left of the burst, in octets; the sum in cells.
            let (mut left, mut sum) = ((peak - 1) * mean, 0);
            for n in 0..400 {
                let can = left + mean;
                let size = match wasteful {
                    false => below(can + 1),
                    true if ts && can > 1_880 => (can - 1_881) / 2_256 * 2_256 + 1_881,
                    true if ts => can.saturating_sub(1) / 376 * 376 + 1,
                    true => can.saturating_sub(41) / sdu * sdu + 41.min(can),
                };
                left = (can - size).min((peak - 1) * mean);
                sum += cells(size, sdu, ts);
                // In fiftieths of a cell.
                assert!(50 * sum <= n * scr + 50 * mbs, "{text}: {n}");
            }
        }
        let Some(Peak::Rate(pcr)) = descriptor.pcr else {
            panic!("{text}: no peak");
        };
        // All of it leaves before the next frame comes, and not at a cell/s less.
        let largest = cells(peak * mean, sdu, ts);
        assert_eq!(u64::from(pcr.cell_s()), scr.max(50 * largest), "{text}");
    }
}

/// Needs at the ends of the ranges are carried, or refused in words.
#[test]
fn extremes_are_carried_or_refused() {
    let rates = ["1bit/s", "1000Gbit/s", "0.000000001Gbit/s"];
    let times = ["1ns", "1000000000s", "20ms"];
    let mut texts = Vec::new();
    for rate in rates {
        for fps in ["0.001fps", "1000fps", "29.97fps"] {
            for peak in ["", "peak 1.001x", "peak 1000x"] {
                for ts in ["", "ts"] {
                    texts.push(format!("video {rate} {fps} {peak} {ts}"));
                }
            }
        }
        for time in times {
            texts.push(format!("voice {rate} {time}"));
        }
        texts.extend(["1", "65504"].map(|mtu| format!("ip {rate} mtu {mtu}")));
    }
    for size in ["1B", "1000000GB", "1000GB", "65512B", "65513B"] {
        for time in times {
            texts.push(format!("sensor {size} every {time}"));
            texts.push(format!("file {size} within {time}"));
        }
    }
    let (mut carried, mut refused) = (0, 0);
    for text in &texts {
        for latency in ["", "latency 1ns", "latency 1s", "latency 1000000000s"] {
            let text = format!("{text} {latency}");
            let Ok(need) = text.parse::<Need>() else {
                assert!(text.starts_with("file") && !latency.is_empty(), "{text}");
                continue;
            };
            match need.proposals(1) {
                Ok(all) => {
                    carried += 1;
                    for one in all {
                        let printed = one.contract.to_string();
                        assert_eq!(printed.parse(), Ok(one.contract), "{text}");
                    }
                }
                Err(error) => {
                    refused += 1;
                    assert!(!error.reason.is_empty(), "{text}");
                }
            }
        }
    }
    assert!(carried > 100 && refused > 100, "{carried}, {refused}");
}

#[test]
fn no_text_of_words_that_are_known_is_too_much() {
    const WORDS: [&str; 22] = [
        "video", "voice", "ip", "8Mbit/s", "8", "Mbps", "25fps", "4x", "peak", "latency", "ts",
        "100ms", "every", "within", "mtu", "1500", "2GB", ".", "8.", "1.5", "é", "\u{2003}",
    ];
    let mut random = Pcg64Mcg::seed_from_u64(3);
    let mut below = |bound: usize| (random.next_u64() % bound as u64) as usize;
    let mut read = 0;
    for _ in 0..20_000 {
        let count = below(8);
        let words: Vec<_> = (0..count).map(|_| WORDS[below(WORDS.len())]).collect();
        let begun = ["", "video 8Mbit/s 25fps ", "ip 8Mbit/s "][below(3)];
        let text = begun.to_owned() + &words.join([" ", "", "\u{a0}"][below(3)]);
        match text.parse::<Need>() {
            Ok(need) => {
                read += 1;
                assert!(need.proposals(0).is_ok(), "{text}");
            }
            Err(error) => assert!(text.is_char_boundary(error.at), "{text:?}: {error}"),
        }
    }
    assert!(read > 20, "{read}");
}
