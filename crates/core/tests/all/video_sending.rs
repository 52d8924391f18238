//! A transport stream on its way into PDUs.

use cellgate_core::Time;
use cellgate_core::terminal::video::{
    Camera, CameraTerms, Display, Flaws, OnLoss, Pace, Planted, Playout, PlayoutTerms, Recovery,
    Sending, SendingTerms, Shot, Sound,
};
use cellgate_core::wire::{Pcr, Pid, TS_LEN, TsAdaptation, TsHeader};
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

const MS: u64 = 1_000_000;
const BEGIN: u64 = 77_000 * MS;

fn terms(pace: Pace) -> SendingTerms {
    SendingTerms {
        pack: 2,
        pcr_aware: false,
        numbered: true,
        pace,
    }
}

/// Packet `number` of a stream; one that has a reference says so many ms.
fn packet(number: u8, reference_ms: Option<u64>) -> [u8; TS_LEN] {
    let header = TsHeader {
        error: false,
        start: false,
        pid: Pid::new(0x40).unwrap(),
        counter: number & 15,
        has_payload: true,
        adaptation: reference_ms.map(|ms| TsAdaptation {
            pcr: Some(Pcr::of_ticks(ms * 27_000)),
            ..TsAdaptation::default()
        }),
    };
    let mut packet = [number; TS_LEN];
    header.emit(&mut packet);
    packet
}

/// When each PDU left, in microseconds from the beginning, its number and its packets.
type Left = Vec<(u64, u8, Vec<u8>)>;

fn left<F: Flaws>(sending: &mut Sending<F>) -> Left {
    let (mut left, mut sdu) = (Vec::new(), Vec::new());
    let mut now = Time::from_ns(BEGIN);
    while let Some(due) = sending.next_deadline() {
        now = now.max(due);
        let uu = sending.poll(now, &mut sdu).expect("it is due");
        let packets = sdu
            .chunks(TS_LEN)
            .map(|packet| packet[TS_LEN - 1])
            .collect();
        left.push(((now.ns() - BEGIN) / 1_000, uu, packets));
    }
    left
}

/// A file of eight packets, of which 0 and 5 have references 25 ms apart.
fn paced<F: Flaws>(flaws: F) -> Result<(), String> {
    let mut sending = Sending::with(terms(Pace::References), flaws);
    let octets: Vec<u8> = (0..8)
        .flat_map(|number| match number {
            0 => packet(0, Some(1_000)),
            5 => packet(5, Some(1_025)),
            _ => packet(number, None),
        })
        .collect();
    // However they are cut.
    for part in octets.chunks(100) {
        sending.handle(Time::from_ns(BEGIN), part);
    }
    sending.end();
    let expected: Left = vec![
        (5_000, 0, vec![0, 1]),
        (15_000, 1, vec![2, 3]),
        (25_000, 2, vec![4, 5]),
        (35_000, 3, vec![6, 7]),
    ];
    let left = left(&mut sending);
    match left == expected && sending.is_over() {
        true => Ok(()),
        false => Err(format!("{left:?}")),
    }
}

/// A PDU ends behind a reference, where that is asked for.
fn pcr_aware<F: Flaws>(flaws: F) -> Result<(), String> {
    let aware = SendingTerms {
        pcr_aware: true,
        pack: 3,
        ..terms(Pace::Source)
    };
    let mut sending = Sending::with(aware, flaws);
    let references = [false, true, false, false, false, true];
    for (number, has) in (0..).zip(references) {
        sending.handle(Time::from_ns(BEGIN), &packet(number, has.then_some(1)));
    }
    sending.end();
    let packets: Vec<_> = left(&mut sending).into_iter().map(|left| left.2).collect();
    match packets == [vec![0, 1], vec![2, 3, 4], vec![5]] {
        true => Ok(()),
        false => Err(format!("{packets:?}")),
    }
}

#[test]
fn a_file_leaves_as_its_references_say() {
    assert_eq!(paced(Sound), Ok(()));
}

#[test]
fn a_pdu_ends_behind_a_reference_where_that_is_asked_for() {
    assert_eq!(pcr_aware(Sound), Ok(()));
}

#[test]
fn each_planted_bug_of_sending_is_noticed() {
    for bug in [Planted::NumberKept, Planted::Unpaced] {
        assert!(paced(bug).is_err(), "{bug:?}");
    }
    assert!(pcr_aware(Planted::PcrPassed).is_err());
}

#[test]
fn what_comes_leaves_when_its_pdu_is_full_or_has_waited() {
    let mut sending = Sending::new(terms(Pace::Source));
    sending.handle(Time::from_ns(BEGIN), &packet(0, None));
    assert_eq!(
        sending.poll(Time::from_ns(BEGIN + 9 * MS), &mut Vec::new()),
        None
    );
    let waits = Some(Time::from_ns(BEGIN + 10 * MS));
    assert_eq!(sending.next_deadline(), waits);
    sending.handle(Time::from_ns(BEGIN + 2 * MS), &packet(1, None));
    assert_eq!(left(&mut sending), [(2_000, 0, vec![0, 1])]);
    sending.handle(Time::from_ns(BEGIN), &packet(2, None));
    assert_eq!(left(&mut sending), [(10_000, 1, vec![2])]);
}

#[test]
fn octets_between_packets_are_left_out_and_counted() {
    let mut sending = Sending::new(terms(Pace::Source));
    let packets = |from: u8| (from..from + 3).flat_map(|number| packet(number, None));
    let mut octets = vec![1, 0x47, 3];
    octets.extend(packets(0));
    // It begins as a packet does, and is none.
    octets.extend_from_slice(&[0x47, 0, 0, 0]);
    octets.extend(packets(3));
    octets.extend_from_slice(&[9; 50]);
    for part in octets.chunks(77) {
        sending.handle(Time::from_ns(BEGIN), part);
    }
    sending.end();
    let packets: Vec<_> = left(&mut sending).into_iter().map(|left| left.2).collect();
    assert_eq!(packets, [[0, 1], [2, 3], [4, 5]]);
    let counts = sending.counts();
    assert_eq!((counts.skipped_octets, counts.packets), (57, 6));
}

#[test]
fn octets_that_are_no_stream_are_none() {
    let mut rng = Pcg64Mcg::new(5);
    let mut sending = Sending::new(terms(Pace::Source));
    let mut octets = vec![0; 1_000_000];
    rng.fill_bytes(&mut octets);
    for part in octets.chunks(4_099) {
        sending.handle(Time::from_ns(BEGIN), part);
    }
    sending.end();
    // Three of 4,000 first octets are in a row by chance.
    assert!(left(&mut sending).len() <= 3);
}

#[test]
fn a_file_without_a_clock_leaves_at_once_and_holds_no_more_than_its_bound() {
    let mut sending = Sending::new(terms(Pace::References));
    let mut most = 0;
    for number in 0..40_000_u32 {
        if !sending.wants() {
            break;
        }
        sending.handle(Time::from_ns(BEGIN), &packet(number as u8, None));
        most = number + 1;
    }
    assert_eq!(most, 1 << 15);
    assert_eq!(sending.counts().untimed, 1 << 15);
    assert!(sending.next_deadline() <= Some(Time::from_ns(BEGIN)));
}

#[test]
fn a_clock_that_jumps_goes_on_behind() {
    let mut sending = Sending::new(terms(Pace::References));
    let references = [(0, 500), (2, 510), (4, 90_000), (6, 90_010)];
    for number in 0..8_u8 {
        let reference = references.iter().find(|(at, _)| *at == number);
        let packet = packet(number, reference.map(|(_, ms)| *ms));
        sending.handle(Time::from_ns(BEGIN), &packet);
    }
    sending.end();
    let at: Vec<_> = left(&mut sending).into_iter().map(|left| left.0).collect();
    assert_eq!(at, [5_000, 15_000, 25_000, 35_000]);
    assert_eq!(sending.counts().jumps, 1);
}

#[test]
fn a_cameras_frames_are_on_its_clock_and_of_its_rate() {
    for ppm in [-100, 0, 100] {
        let camera_terms = CameraTerms {
            fps: 25,
            bit_s: 8_000_000,
            ppm,
            pack: 2,
            frames: Some(1_200),
        };
        let mut camera = Camera::new(Time::from_ns(BEGIN), camera_terms);
        let (mut packets, mut last) = (0_u64, 0);
        while let Some(made) = camera.next_deadline() {
            last = made.ns();
            let frame = packets;
            while let Some(packet) = camera.poll(made) {
                let shot = Shot::parse(&packet).expect("it is the camera's");
                assert_eq!((shot.number, shot.stamp), (packets, made));
                packets += 1;
            }
            assert_eq!((packets - frame) % 2, 0, "PDUs are of one frame");
        }
        // 48 s: the last PDU leaves at the end of its frame.
        let bit_s = packets * 8 * TS_LEN as u64 / 48;
        assert!(bit_s.abs_diff(8_000_000) < 80_000, "{bit_s}");
        let lasted = (last - BEGIN) as i64;
        let off = (lasted - 48_000_000_000) * 1_000_000 / 48_000_000_000;
        assert!((off + i64::from(ppm)).abs() <= 1, "{ppm}: {off}");
    }
}

/// Frames are as long as each other, and not as the packets in them are many: no reference behind
/// the last one would say so.
#[test]
fn a_camera_says_how_long_its_last_frame_is() {
    // A stream that ends with each picture of a group.
    for frames in 1..=13 {
        let camera_terms = CameraTerms {
            fps: 25,
            bit_s: 4_000_000,
            ppm: 0,
            pack: 2,
            frames: Some(frames),
        };
        let mut camera = Camera::new(Time::from_ns(BEGIN), camera_terms);
        let (mut display, mut sdu) = (Display::new(25), Vec::new());
        let mut sending = Sending::new(terms(Pace::Source));
        let mut playout = Playout::new(PlayoutTerms {
            latency_ns: 200 * MS,
            bursts_ns: 0,
            recovery: Recovery::Timestamps,
            on_loss: OnLoss::Drop,
            pack: 2,
            numbered: true,
            packets_max: 4_096,
        });
        while let Some(made) = camera.next_deadline() {
            while let Some(packet) = camera.poll(made) {
                sending.handle(made, &packet);
            }
            while let Some(uu) = sending.poll(made, &mut sdu) {
                assert_eq!(sdu.len(), 2 * TS_LEN, "a PDU is whole");
                playout.handle(made, uu, &sdu);
            }
            let next = camera.next_deadline();
            while let Some(due) = playout.next_deadline()
                && next.is_none_or(|next| due < next)
                && let Some(released) = playout.poll(due)
            {
                display.handle(due, due, &released.packet);
            }
        }
        let counts = display.end();
        assert_eq!(counts.on_time, frames, "{frames}: {counts:?}");
        assert_eq!(playout.counts().anchors, 1, "{frames}");
    }
}

/// Frames of a camera, of which some packets are missing or late.
#[test]
fn a_display_judges_each_frame_when_it_is_to_be_shown() {
    let camera_terms = CameraTerms {
        fps: 25,
        bit_s: 4_000_000,
        ppm: 0,
        pack: 2,
        frames: Some(10),
    };
    let mut camera = Camera::new(Time::from_ns(BEGIN), camera_terms);
    let mut display = Display::new(25);
    let mut gone = Vec::new();
    while let Some(made) = camera.next_deadline() {
        let due = made.plus_ns(200 * MS);
        let mut damaged = false;
        while let Some(mut packet) = camera.poll(made) {
            let shot = Shot::parse(&packet).unwrap();
            let now = match (shot.frame, shot.index + 1 == shot.count) {
                // To be shown 80 ms behind its first packet.
                (2, true) => due.plus_ns(81 * MS),
                (3, true) => due.plus_ns(79 * MS),
                (5, _) if shot.index == 1 => {
                    gone.push(shot.number);
                    continue;
                }
                (7, _) => {
                    gone.push(shot.number);
                    continue;
                }
                (8, _) if !damaged => {
                    damaged = true;
                    gone.push(shot.number);
                    packet[TS_LEN - 1] ^= 1;
                    due
                }
                _ => due,
            };
            display.handle(now, due, &packet);
        }
    }
    let counts = display.end();
    let judged = (counts.on_time, counts.late, counts.missing, counts.strange);
    assert_eq!(judged, (6, 1, 3, 1), "{counts:?}");
    let named: Vec<_> = counts
        .named
        .iter()
        .flat_map(|(from, to)| *from..=*to)
        .collect();
    assert_eq!(named, gone);
    assert_eq!(counts.missing_packets, gone.len() as u64);
    assert_eq!(counts.margin_min_ns, Some(-(MS as i64)));
}
