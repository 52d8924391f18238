//! Transport packets by the letter of H.222.0 (ISO 13818-1), section 2.4.3.

use cellgate_core::terminal::video::Continuity;
use cellgate_core::wire::{Pcr, Pid, TS_LEN, TsAdaptation, TsFault, TsHeader, ticks_to_ns};
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

/// A packet whose first octets are these; the rest is stuffed.
fn packet(head: &[u8]) -> [u8; TS_LEN] {
    let mut packet = [0xff; TS_LEN];
    packet[..head.len()].copy_from_slice(head);
    packet
}

const PLAIN: TsHeader = TsHeader {
    error: false,
    start: false,
    pid: Pid::NULL,
    counter: 0,
    has_payload: true,
    adaptation: None,
};

/// One of fewer bits than a PID has.
fn pid(number: u16) -> Pid {
    Pid::new(number).unwrap()
}

fn adapted(adaptation: TsAdaptation) -> Option<TsAdaptation> {
    Some(adaptation)
}

#[test]
fn each_field_stands_where_the_standard_has_it() {
    let with_pcr = |base: u64, extension: u64| TsAdaptation {
        pcr: Some(Pcr::of_ticks(base * 300 + extension)),
        ..TsAdaptation::default()
    };
    let nothing = TsAdaptation::default();
    // sync | error start priority PID | scrambling adaptation payload counter | length | flags
    let cases: &[(&[u8], TsHeader, usize)] = &[
        (&[0x47, 0x1f, 0xff, 0x10], PLAIN, 4),
        (
            &[0x47, 0x9f, 0xff, 0x10],
            TsHeader {
                error: true,
                ..PLAIN
            },
            4,
        ),
        (
            &[0x47, 0x5f, 0xff, 0x10],
            TsHeader {
                start: true,
                ..PLAIN
            },
            4,
        ),
        // Priority and scrambling are for others.
        (&[0x47, 0x3f, 0xff, 0xd0], PLAIN, 4),
        (
            &[0x47, 0x01, 0x00, 0x1f],
            TsHeader {
                pid: pid(0x100),
                counter: 15,
                ..PLAIN
            },
            4,
        ),
        (
            &[0x47, 0x10, 0x01, 0x17],
            TsHeader {
                pid: pid(0x1001),
                counter: 7,
                ..PLAIN
            },
            4,
        ),
        // An adaptation field of no octets: one of stuffing.
        (
            &[0x47, 0x1f, 0xff, 0x30, 0],
            TsHeader {
                adaptation: adapted(nothing),
                ..PLAIN
            },
            5,
        ),
        (
            &[0x47, 0x1f, 0xff, 0x30, 1, 0],
            TsHeader {
                adaptation: adapted(nothing),
                ..PLAIN
            },
            6,
        ),
        (
            &[0x47, 0x1f, 0xff, 0x30, 1, 0x80],
            TsHeader {
                adaptation: adapted(TsAdaptation {
                    discontinuity: true,
                    ..nothing
                }),
                ..PLAIN
            },
            6,
        ),
        (
            &[0x47, 0x1f, 0xff, 0x30, 1, 0x40],
            TsHeader {
                adaptation: adapted(TsAdaptation {
                    random_access: true,
                    ..nothing
                }),
                ..PLAIN
            },
            6,
        ),
        // 182 octets leave one of payload, 183 none.
        (
            &[0x47, 0x1f, 0xff, 0x30, 182, 0],
            TsHeader {
                adaptation: adapted(nothing),
                ..PLAIN
            },
            187,
        ),
        (
            &[0x47, 0x1f, 0xff, 0x20, 183, 0],
            TsHeader {
                has_payload: false,
                adaptation: adapted(nothing),
                ..PLAIN
            },
            188,
        ),
        // 33 bits of base, six reserved, nine of extension.
        (
            &[0x47, 0x1f, 0xff, 0x30, 7, 0x10, 0, 0, 0, 0, 0xfe, 0],
            TsHeader {
                adaptation: adapted(with_pcr(1, 0)),
                ..PLAIN
            },
            12,
        ),
        (
            &[0x47, 0x1f, 0xff, 0x30, 7, 0x10, 0, 0, 0, 0, 0x00, 1],
            TsHeader {
                adaptation: adapted(with_pcr(0, 1)),
                ..PLAIN
            },
            12,
        ),
        (
            &[0x47, 0x1f, 0xff, 0x30, 7, 0x10, 0x80, 0, 0, 0, 0x7f, 0x2b],
            TsHeader {
                adaptation: adapted(with_pcr(1 << 32, 299)),
                ..PLAIN
            },
            12,
        ),
        (
            &[
                0x47, 0x1f, 0xff, 0x30, 7, 0x10, 0xff, 0xff, 0xff, 0xff, 0xff, 0x2b,
            ],
            TsHeader {
                adaptation: adapted(with_pcr((1 << 33) - 1, 299)),
                ..PLAIN
            },
            12,
        ),
    ];
    for (octets, header, at) in cases {
        let packet = packet(octets);
        assert_eq!(TsHeader::parse(&packet), Ok((*header, *at)), "{octets:x?}");
    }
}

#[test]
fn what_is_no_packet_is_named() {
    let cases: &[(&[u8], TsFault)] = &[
        (&[0x46, 0x1f, 0xff, 0x10], TsFault::Sync),
        (&[0, 0, 0, 0], TsFault::Sync),
        (&[0x47, 0x1f, 0xff, 0x00], TsFault::Reserved),
        (&[0x47, 0x1f, 0xff, 0x30, 183, 0], TsFault::Adaptation),
        (&[0x47, 0x1f, 0xff, 0x30, 255, 0], TsFault::Adaptation),
        (&[0x47, 0x1f, 0xff, 0x20, 182, 0], TsFault::Adaptation),
        (&[0x47, 0x1f, 0xff, 0x20, 0, 0], TsFault::Adaptation),
        // Flags name a reference for which there is no room.
        (&[0x47, 0x1f, 0xff, 0x30, 1, 0x10], TsFault::Adaptation),
        (&[0x47, 0x1f, 0xff, 0x30, 6, 0x10], TsFault::Adaptation),
        (
            &[0x47, 0x1f, 0xff, 0x30, 7, 0x10, 0, 0, 0, 0, 0x01, 0x2c],
            TsFault::Clock,
        ),
        (
            &[0x47, 0x1f, 0xff, 0x30, 7, 0x10, 0, 0, 0, 0, 0x01, 0xff],
            TsFault::Clock,
        ),
    ];
    for (octets, fault) in cases {
        assert_eq!(TsHeader::parse(&packet(octets)), Err(*fault), "{octets:x?}");
    }
}

#[test]
fn what_is_written_reads_as_it_was() {
    let mut rng = Pcg64Mcg::new(1);
    for _ in 0..20_000 {
        let bits = rng.next_u64();
        let has = |bit: u32| bits >> bit & 1 == 1;
        let has_payload = has(3);
        let adaptation = TsAdaptation {
            discontinuity: has(0),
            random_access: has(1),
            pcr: has(2).then(|| Pcr::of_ticks(rng.next_u64())),
        };
        let header = TsHeader {
            error: has(4),
            start: has(5),
            pid: pid((bits >> 8) as u16 & 0x1fff),
            counter: (bits >> 24) as u8 & 15,
            has_payload,
            adaptation: (has(6) || !has_payload).then_some(adaptation),
        };
        let mut packet = [0; TS_LEN];
        let at = header.emit(&mut packet);
        assert_eq!(TsHeader::parse(&packet), Ok((header, at)));
    }
}

#[test]
fn whatever_octets_come_nothing_panics_and_payload_is_in_the_packet() {
    let mut rng = Pcg64Mcg::new(2);
    for round in 0..50_000 {
        let mut packet = [0; TS_LEN];
        rng.fill_bytes(&mut packet);
        if round % 4 > 0 {
            packet[0] = 0x47;
        }
        if let Ok((header, at)) = TsHeader::parse(&packet) {
            assert!(
                at <= TS_LEN && (at < TS_LEN) == header.has_payload,
                "{header:?}"
            );
        }
    }
}

#[test]
fn clocks_begin_anew_behind_26_hours() {
    let whole = (1_u64 << 33) * 300;
    let of = Pcr::of_ticks;
    let cases = [
        (0, 0, 0),
        (1, 0, 1),
        (0, 1, -1),
        (5, whole - 5, 10),
        (whole - 5, 5, -10),
        (whole / 2 - 1, 0, (whole / 2 - 1) as i64),
        (whole / 2, 0, -((whole / 2) as i64)),
    ];
    for (later, earlier, ticks) in cases {
        assert_eq!(of(later).since(of(earlier)), ticks, "{later} {earlier}");
    }
    assert_eq!(of(whole), of(0));
    // 26 h 30 min 43 s and a little.
    assert_eq!(ticks_to_ns(whole as i64) / 1_000_000_000, 95_443);
    assert_eq!((ticks_to_ns(27), ticks_to_ns(-27)), (1_000, -1_000));
    assert_eq!((ticks_to_ns(1), ticks_to_ns(-1)), (37, -38));
}

#[test]
fn continuity_is_kept_by_the_letter() {
    /// PID, counter, whether there is payload, whether a discontinuity is announced.
    type Seen = (u16, u8, bool, bool, bool);
    let script: &[Seen] = &[
        (1, 5, true, false, true),
        (1, 6, true, false, true),
        // Each PID for itself.
        (2, 0, true, false, true),
        (1, 7, true, false, true),
        // Twice is allowed, three times is not.
        (1, 7, true, false, true),
        (1, 7, true, false, false),
        (1, 8, true, false, true),
        // Without payload the counter stays.
        (1, 8, false, false, true),
        (1, 9, false, false, false),
        (1, 10, true, false, true),
        (1, 15, true, false, false),
        (1, 0, true, false, true),
        // What is announced is none.
        (1, 9, true, true, true),
        (1, 10, true, false, true),
        // Packets that fill have no order.
        (0x1fff, 3, true, false, true),
        (0x1fff, 9, true, false, true),
    ];
    let mut continuity = Continuity::default();
    for (place, &(number, counter, has_payload, discontinuity, follows)) in
        script.iter().enumerate()
    {
        let header = TsHeader {
            pid: pid(number),
            counter,
            has_payload,
            adaptation: (discontinuity || !has_payload).then_some(TsAdaptation {
                discontinuity,
                ..TsAdaptation::default()
            }),
            ..PLAIN
        };
        assert_eq!(continuity.follows(&header), follows, "line {place}");
    }
}

#[test]
fn what_stands_for_a_lost_packet_fills_and_is_wrong() {
    let (header, _) = TsHeader::parse(&TsHeader::lost()).unwrap();
    assert!(header.error && header.pid == Pid::NULL);
}
