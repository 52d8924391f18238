//! What a VC may hold: MIDs, room, descriptors, time.

use cellgate_core::Time;
use cellgate_core::aal::aal34::{Discard, Failed, Limits, Reassembler, Verdict};
use cellgate_core::wire::SarPdu;

use super::receiver::*;

#[test]
fn more_mids_than_allowed_are_refused_and_a_failing_one_gives_way() {
    let mut receiver = Receiver::new(LIMITS);
    let pdu = |mid| sar_pdus(&[mid as u8; 100], mid, 1);
    for mid in 0..4 {
        assert_eq!(receiver.push(&pdu(mid)[0]), held());
    }
    assert_eq!(receiver.push(&pdu(4)[0]), refused(Discard::TooManyMids));
    assert_eq!(receiver.push(&pdu(4)[1]), discarded(Discard::MissingBom));
    // An SSM needs no MID of its own.
    receiver.delivers(&[9; 30], &sar_pdus(&[9; 30], 5, 1));
    assert_eq!(receiver.push(&pdu(0)[2]), fails(0, Discard::LostCell, 1));
    // That was its EOM, so the slot is vacant; one that still waits for its EOM gives way too.
    assert_eq!(receiver.push(&pdu(4)[0]), held());
    let mut gap = pdu(1)[1];
    gap.sn += 1;
    assert_eq!(receiver.push(&gap), fails(1, Discard::LostCell, 1));
    assert_eq!(receiver.push(&gap), discarded(Discard::LostCell));
    assert_eq!(receiver.push(&pdu(6)[0]), held());
    assert_eq!(receiver.push(&gap), discarded(Discard::MissingBom));
}

#[test]
fn a_pdu_that_the_caller_refuses_is_discarded_whole() {
    let mut receiver = Receiver::new(LIMITS);
    let cells = sar_pdus(&[1; 100], 3, 1);
    receiver.push(&cells[0]);
    let outcome = receiver
        .reassembler
        .refuse(&SarPdu::parse(&cells[0].emit()), Discard::Refused);
    assert_eq!(outcome.cell, Verdict::Refused(Discard::Refused));
    assert_eq!(
        outcome.failed.map(|failed| failed.reason),
        Some(Discard::MissingEom)
    );
    let rest = receiver.push_all(&cells[1..]);
    assert_eq!(rest, [discarded(Discard::Refused); 2]);
    assert_eq!(receiver.push(&cells[1]), discarded(Discard::MissingBom));

    let single = sar_pdus(&[1; 10], 3, 1)[0].emit();
    let outcome = receiver
        .reassembler
        .refuse(&SarPdu::parse(&single), Discard::Refused);
    assert_eq!(outcome, refused(Discard::Refused));
    let mut wrong = single;
    wrong[9] ^= 1;
    let outcome = receiver
        .reassembler
        .refuse(&SarPdu::parse(&wrong), Discard::Refused);
    assert_eq!(outcome, discarded(Discard::CrcError));
    assert_eq!(receiver.push(&cells[1]), discarded(Discard::MissingBom));
}

#[test]
fn a_cell_that_the_caller_refuses_in_the_middle_goes_alone() {
    let mut receiver = Receiver::new(LIMITS);
    let sdu = [1; 100];
    let cells = sar_pdus(&sdu, 3, 1);
    assert_eq!(receiver.push(&cells[0]), held());
    let middle = SarPdu::parse(&cells[1].emit());
    let outcome = receiver.reassembler.refuse(&middle, Discard::Refused);
    assert_eq!(outcome, discarded(Discard::Refused));
    let open = receiver.reassembler.in_progress(3).map(|open| open.cells);
    assert_eq!(open, Some(1), "the PDU goes on");
    assert!(receiver.reassembler.in_progress(4).is_none());
    let outcomes = receiver.push_all(&cells[1..]);
    assert!(matches!(outcomes[1].cell, Verdict::Delivered(got) if receiver.memory.sdu(got) == sdu));
    assert!(receiver.reassembler.in_progress(3).is_none());
}

#[test]
fn a_reassembler_is_fresh_until_the_first_pdu() {
    let mut receiver = Receiver::new(LIMITS);
    assert!(receiver.reassembler.is_fresh());
    let cells = sar_pdus(&[1; 100], 3, 1);
    receiver.push(&cells[0]);
    assert!(!receiver.reassembler.is_fresh());
    receiver.push(&cells[2]);
    assert!(receiver.reassembler.is_fresh(), "what failed left nothing");
    receiver.delivers(&[1; 10], &sar_pdus(&[1; 10], 3, 1));
    assert!(!receiver.reassembler.is_fresh());
}

#[test]
fn each_mid_and_each_descriptor_has_its_memory() {
    let len = |mids, descriptors| {
        let limits = Limits {
            mids,
            descriptors,
            ..LIMITS
        };
        Reassembler::memory_len(&limits)
    };
    let least = size_of::<Reassembler>();
    assert_eq!(len(0, 0), least);
    let (of_mid, of_descriptor) = (len(1, 0) - least, len(0, 1) - least);
    // A name and a PDU in progress; two positions and a place in two lists.
    assert!((16..=256).contains(&of_mid) && (24..=64).contains(&of_descriptor));
    assert_eq!(
        len(1_024, 65_536),
        least + 1_024 * of_mid + 65_536 * of_descriptor
    );
    assert_eq!(len(u16::MAX, 0), len(1_024, 0), "a MID has ten bits");
}

#[test]
fn late_pdus_are_given_up_in_the_order_of_their_beginning() {
    let mut receiver = Receiver::new(LIMITS);
    let pdu = |mid| sar_pdus(&[mid as u8; 100], mid, 1);
    assert_eq!(receiver.reassembler.deadline(), None);
    for (mid, at) in [(7, 100), (2, 300), (5, 500)] {
        receiver.now = Time::from_ns(at);
        receiver.push(&pdu(mid)[0]);
    }
    assert_eq!(receiver.reassembler.deadline(), Some(Time::from_ns(1_100)));
    let late = |mid, cells| {
        let reason = Discard::ReassemblyTimeout;
        Some(Failed { mid, reason, cells })
    };
    let reassembler = &mut receiver.reassembler;
    assert_eq!(reassembler.poll_timeout(Time::from_ns(1_099)), None);
    assert_eq!(reassembler.poll_timeout(Time::from_ns(1_300)), late(7, 1));
    assert_eq!(reassembler.poll_timeout(Time::from_ns(1_300)), late(2, 1));
    assert_eq!(reassembler.poll_timeout(Time::from_ns(1_300)), None);
    assert_eq!(reassembler.deadline(), Some(Time::from_ns(1_500)));
    // A cell does not put the end off; one that comes after it goes the same way.
    receiver.now = Time::from_ns(1_400);
    assert_eq!(receiver.push(&pdu(5)[1]), held());
    assert_eq!(
        receiver.push(&pdu(2)[1]),
        discarded(Discard::ReassemblyTimeout)
    );
    let reassembler = &mut receiver.reassembler;
    assert_eq!(reassembler.poll_timeout(Time::from_ns(1_500)), late(5, 2));
    assert_eq!(reassembler.poll_timeout(Time::from_ns(1_500)), None);
    assert_eq!(reassembler.deadline(), None);
    assert_eq!(reassembler.held_cells(), 0);
}

#[test]
fn a_timeout_unpins_the_space_behind_a_lost_eom() {
    let limits = Limits {
        buffer_len: 4_096,
        max_sdu: 1_000,
        ..LIMITS
    };
    let mut receiver = Receiver::new(limits);
    receiver.push(&sar_pdus(&[1; 1_000], 1, 1)[0]);
    let next = sar_pdus(&[2; 1_000], 2, 1);
    for _ in 0..3 {
        receiver.delivers(&[2; 1_000], &next);
    }
    receiver.reassembler.release(3);
    assert!(receiver.reassembler.is_short());
    assert_eq!(receiver.push(&next[0]), refused(Discard::BufferFull));
    assert!(
        receiver
            .reassembler
            .poll_timeout(Time::from_ns(1_000))
            .is_some()
    );
    assert!(!receiver.reassembler.is_short());
    receiver.delivers(&[2; 1_000], &next);
}

#[test]
fn pdus_in_progress_keep_their_descriptors() {
    let mut receiver = Receiver::new(Limits {
        descriptors: 2,
        ..LIMITS
    });
    let pdu = |mid| sar_pdus(&[mid as u8; 100], mid, 1);
    receiver.push(&pdu(1)[0]);
    receiver.push(&pdu(2)[0]);
    assert!(receiver.reassembler.is_short());
    assert_eq!(receiver.push(&pdu(3)[0]), refused(Discard::QueueFull));
    assert_eq!(receiver.push(&pdu(3)[1]), discarded(Discard::QueueFull));
    receiver.completes(&[2; 100], &pdu(2)[1..]);
    assert_eq!(receiver.push(&pdu(3)[0]), refused(Discard::QueueFull));
    receiver.reassembler.release(1);
    receiver.completes(&[1; 100], &pdu(1)[1..]);
    receiver.delivers(&[3; 100], &pdu(3));
}

#[test]
fn an_ending_reassembly_gives_up_what_is_in_progress() {
    let mut receiver = Receiver::new(LIMITS);
    for mid in [8, 4] {
        receiver.push_all(&sar_pdus(&[1; 200], mid, 1)[..3]);
    }
    let closed: Vec<_> = std::iter::from_fn(|| receiver.reassembler.poll_close()).collect();
    let of = |mid| Failed {
        mid,
        reason: Discard::Closed,
        cells: 3,
    };
    assert_eq!(closed, [of(8), of(4)]);
    assert_eq!(receiver.reassembler.held_cells(), 0);
}

#[test]
fn state_survives_serialisation_in_the_middle_of_pdus() {
    let mut receiver = Receiver::new(LIMITS);
    let [a, b] = [sar_pdus(&[1; 500], 1, 1), sar_pdus(&[2; 600], 2, 2)];
    receiver.push_all(&a[..5]);
    receiver.push_all(&b[..9]);
    let text = serde_json::to_string(&receiver.reassembler).unwrap();
    receiver.reassembler = serde_json::from_str(&text).unwrap();
    receiver.completes(&[1; 500], &a[5..]);
    receiver.completes(&[2; 600], &b[9..]);
}

#[test]
fn reasons_have_names_of_their_own() {
    let mut names: Vec<_> = Discard::ALL.iter().map(|reason| reason.name()).collect();
    for reason in Discard::ALL {
        assert_eq!(Discard::ALL[reason as usize], reason);
        let text = serde_json::to_string(&reason).unwrap();
        assert_eq!(text, format!("\"{}\"", reason.name()));
    }
    names.sort();
    names.dedup();
    assert_eq!(names.len(), Discard::ALL.len());
}
