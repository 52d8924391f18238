//! Where the pointers of the common buffer go, step by step.

use cellgate_core::aal::tree::Place;
use cellgate_core::contract::Aal;
use cellgate_core::terminal::{
    Arq, Discard, Kind, Pci, Pointers, ReceiveBuffer, Terms, TransmitBuffer,
};

use super::terminal_stack::*;

const START: u64 = 100;
const LEN: u64 = 1_000;

fn terms(arq: Arq) -> Terms {
    Terms {
        transfer: 1,
        run: 2,
        arq,
        window: 4,
        start: START,
        end: START + LEN,
    }
}

fn pci(sequence: u32, offset: u64, length: u16) -> Pci {
    Pci {
        kind: Kind::Data,
        place: Place::Middle,
        transfer: 1,
        run: 2,
        sequence,
        serial: 0,
        offset,
        length,
    }
}

fn receive(arq: Arq) -> ReceiveBuffer<Watched> {
    let tree = tree(Aal::Aal5, 8, 4);
    let mut buffer = ReceiveBuffer::new(&tree, terms(arq), Watched::new(START, LEN as usize));
    buffer.open_to(u64::MAX);
    buffer
}

/// Receives a PDU whole.
fn hold(buffer: &mut ReceiveBuffer<Watched>, sequence: u32, offset: u64, length: u16) {
    let ticket = buffer.begin(&pci(sequence, offset, length)).unwrap();
    buffer.store_mut().allow(offset..offset + u64::from(length));
    assert!(buffer.place(ticket, &vec![sequence as u8; length.into()]));
    assert!(buffer.complete(ticket));
}

/// a(2), w(2), Ap, Wp, p.
fn five(pointers: Pointers) -> [u64; 5] {
    let Pointers {
        a2, w2, ap, wp, p, ..
    } = pointers;
    [a2, w2, ap, wp, p]
}

#[test]
fn go_back_n_pulls_wp_and_p_back_to_ap() {
    let mut buffer = receive(Arq::GoBackN);
    hold(&mut buffer, 0, 100, 50);
    assert_eq!(five(buffer.pointers()), [0, 1, 100, 150, 150]);
    assert!(buffer.acknowledge().is_some() && buffer.acknowledge().is_none());
    assert_eq!(five(buffer.pointers()), [1, 1, 150, 150, 150]);
    hold(&mut buffer, 1, 150, 10);
    // A PDU in progress is between Wp and p.
    let ticket = buffer.begin(&pci(2, 160, 30)).unwrap();
    buffer.store_mut().allow(160..190);
    assert!(buffer.place(ticket, &[1; 20]));
    assert_eq!(five(buffer.pointers()), [1, 2, 150, 160, 180]);
    buffer.damaged(ticket);
    assert_eq!(five(buffer.pointers()), [1, 1, 150, 150, 150]);
    assert_eq!((buffer.held().count(), buffer.acknowledge()), (0, None));
    assert_eq!(buffer.begin(&pci(2, 160, 30)), Err(Discard::OutOfOrder));
    // They come again, in other lengths.
    hold(&mut buffer, 1, 150, 40);
    assert_eq!(five(buffer.pointers()), [1, 2, 150, 190, 190]);
}

#[test]
fn selective_writes_the_place_of_the_damaged_original_and_keeps_the_rest() {
    let mut buffer = receive(Arq::Selective);
    let ticket = buffer.begin(&pci(0, 100, 50)).unwrap();
    assert!(buffer.place(ticket, &[9; 30]));
    buffer.damaged(ticket);
    assert_eq!(five(buffer.pointers()), [0, 0, 100, 100, 100]);
    assert!(!buffer.place(ticket, &[9]) && !buffer.complete(ticket));
    hold(&mut buffer, 1, 150, 50);
    hold(&mut buffer, 3, 210, 5);
    let extents: Vec<_> = buffer
        .held()
        .map(|held| (held.sequences.clone(), held.octets.clone()))
        .collect();
    assert_eq!(extents, [(1..2, 150..200), (3..4, 210..215)]);
    assert_eq!(five(buffer.pointers()), [0, 4, 100, 215, 215]);
    assert!(buffer.acknowledge().is_none());
    hold(&mut buffer, 0, 100, 50);
    assert_eq!(buffer.held().next().unwrap().octets, 100..200);
    assert_eq!(buffer.store().octets[..50], [0; 50]);
    assert_eq!(
        (
            buffer.acknowledge().unwrap().sequence,
            buffer.acknowledge().unwrap().sequence
        ),
        (0, 1)
    );
    assert_eq!(five(buffer.pointers()), [2, 4, 200, 215, 215]);
    hold(&mut buffer, 2, 200, 10);
    assert_eq!(buffer.held().count(), 1);
    while buffer.acknowledge().is_some() {}
    assert_eq!(five(buffer.pointers()), [4, 4, 215, 215, 215]);
}

#[test]
fn a_hole_in_the_file_is_held_as_none() {
    let mut buffer = receive(Arq::Selective);
    hold(&mut buffer, 1, 150, 10);
    hold(&mut buffer, 0, 120, 10);
    hold(&mut buffer, 2, 170, 10);
    let octets: Vec<_> = buffer.held().map(|held| held.octets.clone()).collect();
    assert_eq!(octets, [120..130, 150..160, 170..180]);
    while buffer.acknowledge().is_some() {}
    assert_eq!(five(buffer.pointers()), [3, 3, 180, 180, 180]);
}

#[test]
fn no_place_is_taken_beside_ap_the_edge_and_what_is_held() {
    let mut buffer = receive(Arq::Selective);
    hold(&mut buffer, 0, 100, 50);
    buffer.acknowledge().unwrap();
    hold(&mut buffer, 2, 200, 50);
    for (sequence, offset, length, why) in [
        (0, 100, 50, Discard::Repeated),
        (2, 200, 50, Discard::Repeated),
        (2, 300, 50, Discard::Repeated),
        (5, 250, 10, Discard::OutsideWindow),
        (1, 149, 10, Discard::OutsideWindow),
        (1, 195, 10, Discard::OutsideWindow),
        (1, 260, 10, Discard::OutsideWindow),
        (3, 249, 10, Discard::OutsideWindow),
        (3, 1_095, 10, Discard::OutsideWindow),
        (3, u64::MAX - 5, 10, Discard::OutsideWindow),
        (u32::MAX - 5, 150, 10, Discard::OutsideWindow),
    ] {
        let got = buffer.begin(&pci(sequence, offset, length));
        assert_eq!(got, Err(why), "{sequence} {offset}");
    }
    assert!(buffer.begin(&pci(1, 150, 50)).is_ok());
    assert!(buffer.begin(&pci(3, 1_090, 10)).is_ok());
    let good = pci(1, 150, 50);
    assert_eq!(
        buffer.begin(&Pci { run: 3, ..good }),
        Err(Discard::StaleRun)
    );
    let unknown = Err(Discard::UnknownTransfer);
    assert_eq!(
        buffer.begin(&Pci {
            transfer: 3,
            ..good
        }),
        unknown
    );
}

#[test]
fn the_edge_opens_and_never_closes() {
    let tree = tree(Aal::Aal34, 8, 4);
    let mut buffer = ReceiveBuffer::new(&tree, terms(Arq::Selective), Watched::new(START, 9));
    assert_eq!(buffer.begin(&pci(0, 100, 1)), Err(Discard::OutsideWindow));
    buffer.open_to(101);
    assert!(buffer.begin(&pci(0, 100, 1)).is_ok());
    assert_eq!(buffer.begin(&pci(0, 100, 2)), Err(Discard::OutsideWindow));
    buffer.open_to(0);
    assert!(buffer.begin(&pci(0, 100, 1)).is_ok());
    buffer.open_to(u64::MAX);
    assert_eq!(buffer.pointers().edge, START + LEN);
}

#[test]
fn more_than_the_pdu_has_is_not_written_and_less_is_damage() {
    let mut buffer = receive(Arq::Selective);
    let ticket = buffer.begin(&pci(0, 100, 5)).unwrap();
    buffer.store_mut().allow(100..105);
    assert!(buffer.place(ticket, &[1; 4]) && buffer.place(ticket, &[1; 4]));
    assert!(buffer.complete(ticket));
    let ticket = buffer.begin(&pci(1, 105, 5)).unwrap();
    buffer.store_mut().allow(105..110);
    assert!(buffer.place(ticket, &[1; 4]));
    assert!(!buffer.complete(ticket));
    assert_eq!(five(buffer.pointers()), [0, 1, 100, 105, 105]);
}

fn transmit(arq: Arq) -> TransmitBuffer<File> {
    let tree = tree(Aal::Aal5, 8, 4);
    let octets = (0..LEN).map(|octet| octet as u8).collect();
    let mut buffer = TransmitBuffer::new(
        &tree,
        terms(arq),
        File {
            start: START,
            octets,
        },
    );
    buffer.open_to(u64::MAX);
    buffer
}

#[test]
fn a_transmitter_cuts_as_far_as_window_and_edge_go() {
    let mut buffer = transmit(Arq::Selective);
    assert_eq!(buffer.cut(Place::First, 99, 1), None);
    assert_eq!(buffer.handle_acknowledged(1), None);
    assert_eq!(buffer.cut(Place::First, 100, 50), Some(0));
    assert_eq!(buffer.handle_acknowledged(2), None);
    assert_eq!(buffer.cut(Place::Middle, 149, 50), None);
    assert_eq!(buffer.cut(Place::Middle, 1_095, 6), None);
    assert_eq!(buffer.cut(Place::Middle, 160, 50), Some(1));
    assert_eq!(buffer.cut(Place::Middle, 210, 0), Some(2));
    assert_eq!(buffer.cut(Place::Last, 210, 50), Some(3));
    assert_eq!(buffer.cut(Place::First, 260, 50), None);
    assert_eq!(five(buffer.pointers()), [0, 4, 100, 260, 260]);
    // Sent, and sent again: the same octets from the same place.
    for _ in 0..2 {
        let pci = buffer.begin(1).unwrap();
        assert_eq!((pci.sequence, pci.offset, pci.length), (1, 160, 50));
        let mut octets = [0; 50];
        assert!(buffer.take(&mut octets[..20]));
        assert_eq!(five(buffer.pointers()), [0, 4, 100, 160, 180]);
        assert!(!buffer.take(&mut [0; 31]));
        assert!(buffer.take(&mut octets[20..]));
        assert!(
            octets
                .iter()
                .zip(60..)
                .all(|(octet, value)| *octet == value)
        );
        buffer.sent();
    }
    for (sequence, new) in [
        (0, Some(0)),
        (5, None),
        (u32::MAX, None),
        (2, Some(2)),
        (1, None),
    ] {
        assert_eq!(buffer.handle_acknowledged(sequence), new, "{sequence}");
    }
    assert_eq!(five(buffer.pointers()), [2, 4, 210, 260, 260]);
    assert_eq!((buffer.begin(1), buffer.pci(4)), (None, None));
    assert_eq!(buffer.handle_acknowledged(4), Some(2));
    assert_eq!(five(buffer.pointers()), [4, 4, 260, 260, 260]);
}

#[test]
fn a_transmitter_goes_back_to_ap_by_what_it_begins() {
    let mut buffer = transmit(Arq::GoBackN);
    for n in 0..4 {
        assert_eq!(buffer.cut(Place::Middle, 100 + 10 * n, 10), Some(n));
    }
    assert_eq!(buffer.handle_acknowledged(1), Some(1));
    buffer.begin(3).unwrap();
    assert!(buffer.take(&mut [0; 5]));
    assert_eq!(five(buffer.pointers()), [1, 4, 110, 130, 135]);
    buffer.begin(1).unwrap();
    assert_eq!(five(buffer.pointers()), [1, 4, 110, 110, 110]);
    // All of a full window at once.
    assert_eq!(buffer.cut(Place::Middle, 140, 10), Some(4));
    assert_eq!(buffer.handle_acknowledged(5), Some(4));
    assert_eq!(five(buffer.pointers()), [5, 5, 150, 150, 150]);
}
