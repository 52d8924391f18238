//! Bad cells and PDUs, each by its name.

use cellgate_core::aal::aal34::{Discard, Failed, Limits, Outcome, Received, Verdict};
use cellgate_core::wire::{SarPdu, SegmentType};
use rand_pcg::Pcg64Mcg;

use super::receiver::*;

#[test]
fn every_wrong_bit_of_a_cell_is_found() {
    let sdu = random(&mut Pcg64Mcg::new(36), 100);
    for cell in sar_pdus(&sdu, 700, 9) {
        let mut receiver = Receiver::new(LIMITS);
        let good = cell.emit();
        for bit in 0..384 {
            let mut wrong = good;
            wrong[bit / 8] ^= 0x80 >> (bit % 8);
            assert_eq!(
                receiver.payload(&wrong, false),
                discarded(Discard::CrcError)
            );
        }
        assert_eq!(receiver.memory.written, 0);
        assert_eq!(receiver.reassembler.held_cells(), 0);
    }
}

#[test]
fn a_lost_a_doubled_and_a_swapped_cell_end_the_pdu() {
    let sdu = [1; 200];
    let cells = sar_pdus(&sdu, 3, 1);
    assert_eq!(cells.len(), 5);
    let lost = || discarded(Discard::LostCell);
    let gap = |held| fails(3, Discard::LostCell, held);
    for (order, expected) in [
        (vec![0, 2, 3, 4], vec![held(), gap(1), lost(), lost()]),
        (vec![0, 1, 2, 4], vec![held(), held(), held(), gap(3)]),
        (
            vec![0, 1, 1, 2, 3, 4],
            vec![held(), held(), gap(2), lost(), lost(), lost()],
        ),
        (
            vec![0, 2, 1, 3, 4],
            vec![held(), gap(1), lost(), lost(), lost()],
        ),
        (vec![1, 4], vec![discarded(Discard::MissingBom); 2]),
    ] {
        let mut receiver = Receiver::new(LIMITS);
        let sent: Vec<_> = order.iter().map(|i: &usize| cells[*i]).collect();
        assert_eq!(receiver.push_all(&sent), expected, "{order:?}");
        assert_eq!(receiver.reassembler.held_cells(), 0);
        // The next PDU on the MID is not harmed.
        receiver.delivers(&sdu, &cells);
    }
}

#[test]
fn a_beginning_on_an_open_mid_ends_the_former_pdu() {
    let mut receiver = Receiver::new(LIMITS);
    let long = sar_pdus(&[1; 200], 3, 1);
    let single = sar_pdus(&[2; 20], 3, 2);
    receiver.push_all(&long[..3]);
    let failed = Some(Failed {
        mid: 3,
        reason: Discard::MissingEom,
        cells: 3,
    });
    assert_eq!(
        receiver.push(&long[0]),
        Outcome {
            failed,
            cell: Verdict::Held
        }
    );
    let outcome = receiver.push(&single[0]);
    assert_eq!(outcome.failed.map(|failed| failed.cells), Some(1));
    assert!(matches!(outcome.cell, Verdict::Delivered(_)));
    assert_eq!(receiver.push(&long[1]), discarded(Discard::MissingBom));
}

/// Changes one cell of the PDU of a 200-octet SDU; what its cells then come to.
fn changed(limits: Limits, at: usize, change: impl Fn(&mut SarPdu)) -> Vec<Outcome> {
    let mut cells = sar_pdus(&[1; 200], 3, 77);
    change(&mut cells[at]);
    let mut receiver = Receiver::new(limits);
    let outcomes = receiver.push_all(&cells);
    assert_eq!(receiver.reassembler.held_cells(), 0);
    assert_eq!(receiver.reassembler.open_mids(), 0);
    receiver.delivers(&[5; 4], &sar_pdus(&[5; 4], 3, 78));
    outcomes
}

#[test]
fn wrong_headers_and_trailers_have_their_names() {
    let at_end = |reason| [vec![held(); 4], vec![fails(3, reason, 4)]].concat();
    let at_start = |reason| [vec![refused(reason)], vec![discarded(reason); 4]].concat();
    let trailer_at = usize::from(sar_pdus(&[1; 200], 3, 77)[4].li) - 4;
    for (octet, value, reason) in [
        (1, 78, Discard::TagMismatch),
        (2, 1, Discard::LengthError),
        (3, 0, Discard::LengthError),
        (3, 201, Discard::LengthError),
        (3, 196, Discard::LengthError),
    ] {
        let change = |cell: &mut SarPdu| cell.payload[trailer_at + octet] = value;
        assert_eq!(changed(LIMITS, 4, change), at_end(reason));
    }
    // A shorter SDU with the same number of octets is another SDU.
    let shorter = changed(LIMITS, 4, |cell| cell.payload[trailer_at + 3] = 197);
    assert!(matches!(
        shorter[4].cell,
        Verdict::Delivered(Received { len: 197, .. })
    ));
    // AL says nothing.
    let al = changed(LIMITS, 4, |cell| cell.payload[trailer_at] = 0xff);
    assert!(matches!(al[4].cell, Verdict::Delivered(_)));

    assert_eq!(
        changed(LIMITS, 0, |cell| cell.payload[0] = 1),
        at_start(Discard::CpiError)
    );
    let ba_size = |size: u16| {
        move |cell: &mut SarPdu| cell.payload[2..4].copy_from_slice(&size.to_be_bytes())
    };
    assert_eq!(
        changed(LIMITS, 0, ba_size(0)),
        at_start(Discard::BaSizeError)
    );
    assert_eq!(
        changed(LIMITS, 0, ba_size(36)),
        at_start(Discard::BaSizeError)
    );
    assert_eq!(
        changed(LIMITS, 0, ba_size(199)),
        at_end(Discard::BaSizeError)
    );
    assert_eq!(
        changed(LIMITS, 0, ba_size(196)),
        at_end(Discard::BaSizeError)
    );
    let in_the_middle = [
        vec![held(); 2],
        vec![fails(3, Discard::BaSizeError, 2)],
        vec![discarded(Discard::BaSizeError); 2],
    ];
    assert_eq!(changed(LIMITS, 0, ba_size(120)), in_the_middle.concat());
    // In streaming mode a sender announces more than comes.
    let streamed = changed(LIMITS, 0, ba_size(60_000));
    assert!(matches!(
        streamed[4].cell,
        Verdict::Delivered(Received { len: 200, .. })
    ));
}

#[test]
fn sdus_above_the_largest_are_oversized_at_the_first_cell_that_shows_it() {
    let limits = |max_sdu| Limits { max_sdu, ..LIMITS };
    let same = |_: &mut SarPdu| ();
    let fits = changed(limits(200), 0, same);
    assert!(matches!(fits[4].cell, Verdict::Delivered(_)));
    let oversized = |held_cells: u16| {
        let mut outcomes = vec![held(); held_cells.into()];
        outcomes.push(fails(3, Discard::Oversized, held_cells));
        outcomes.resize(5, discarded(Discard::Oversized));
        outcomes
    };
    assert_eq!(changed(limits(199), 0, same), oversized(4));
    assert_eq!(changed(limits(100), 0, same), oversized(2));
    let all = [refused(Discard::Oversized), discarded(Discard::Oversized)];
    let all = [&all[..1], &[all[1]; 4]].concat();
    assert_eq!(changed(limits(36), 0, same), all);
}

#[test]
fn a_pdu_without_an_sdu_is_none() {
    let empty = sar_pdus(&[], 3, 1);
    assert_eq!((empty.len(), empty[0].li), (1, 8));
    let outcome = Receiver::new(LIMITS).push(&empty[0]);
    assert_eq!(outcome, refused(Discard::LengthError));
}

#[test]
fn single_segments_are_judged_as_pdus_are() {
    for (octet, value, reason) in [
        (0, 1, Discard::CpiError),
        (1, 78, Discard::TagMismatch),
        (3, 19, Discard::BaSizeError),
        (2 + 24, 1, Discard::LengthError),
        (3 + 24, 16, Discard::LengthError),
        (3 + 24, 21, Discard::LengthError),
        (3 + 24, 0, Discard::LengthError),
    ] {
        let mut cell = sar_pdus(&[1; 20], 3, 77)[0];
        cell.payload[octet] = value;
        assert_eq!(
            Receiver::new(LIMITS).push(&cell),
            refused(reason),
            "{octet}: {value}"
        );
    }
    let cell = sar_pdus(&[1; 20], 3, 77)[0];
    let limits = |max_sdu| Limits { max_sdu, ..LIMITS };
    Receiver::new(limits(20)).delivers(&[1; 20], &[cell]);
    let outcome = Receiver::new(limits(19)).push(&cell);
    assert_eq!(outcome, refused(Discard::Oversized));
}

#[test]
fn length_indicators_are_those_of_the_segment_type() {
    for li in (0..64).filter(|li| *li != 44) {
        let li = |cell: &mut SarPdu| cell.li = li;
        let reason = Discard::LengthError;
        let first = [vec![refused(reason)], vec![discarded(reason); 4]].concat();
        assert_eq!(changed(LIMITS, 0, li), first);
        let middle = [
            vec![held(); 2],
            vec![fails(3, reason, 2)],
            vec![discarded(reason); 2],
        ];
        assert_eq!(changed(LIMITS, 2, li), middle.concat());
    }
    let own = sar_pdus(&[1; 200], 3, 77)[4].li;
    for li in (0..64).filter(|li| *li != own) {
        let outcome = changed(LIMITS, 4, |cell| cell.li = li)[4];
        let Some(failed) = outcome.failed else {
            panic!("LI {li}: {outcome:?}");
        };
        let expected = match li {
            63 => Discard::Aborted,
            4..32 if li % 4 == 0 => Discard::TagMismatch,
            36..=44 if li % 4 == 0 => Discard::BaSizeError,
            _ => Discard::LengthError,
        };
        assert_eq!(failed.reason, expected, "LI {li}");
    }
    let mut single = sar_pdus(&[1; 20], 3, 77)[0];
    let own = single.li;
    for li in (0..64).filter(|li| *li != own) {
        single.li = li;
        let outcome = Receiver::new(LIMITS).push(&single);
        assert!(
            matches!(outcome.cell, Verdict::Refused(_)),
            "LI {li}: {outcome:?}"
        );
    }
}

#[test]
fn an_aborted_pdu_is_named_so_whatever_its_sn() {
    let abort = SarPdu {
        segment_type: SegmentType::Eom,
        sn: 9,
        mid: 3,
        payload: [0; 44],
        li: SarPdu::ABORT,
    };
    let mut receiver = Receiver::new(LIMITS);
    assert_eq!(receiver.push(&abort), discarded(Discard::MissingBom));
    let cells = sar_pdus(&[1; 200], 3, 1);
    receiver.push_all(&cells[..2]);
    assert_eq!(receiver.push(&abort), fails(3, Discard::Aborted, 2));
    assert_eq!(receiver.push(&cells[2]), discarded(Discard::MissingBom));
    receiver.delivers(&[1; 200], &cells);
}
