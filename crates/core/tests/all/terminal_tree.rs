//! The composition tree against a splitter that goes octet by octet through the definitions of
//! I.363.3 and I.363.5.
//!
//! All lengths, all cells: `CELLGATE_TREE=all cargo test --release -p cellgate-core --test all
//! terminal_tree -- --nocapture`.

use cellgate_core::aal::tree::{Lengths, Owner, Place, Row, Tree};
use cellgate_core::contract::Aal;
use cellgate_core::wire::SegmentType;

/// An octet of a cell's payload, and where it goes: whose, and the offset in the PDU's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Octet {
    Sar,
    Unused,
    Pci(Owner, u8),
    Payload,
    Pad,
}

/// The definition, octet by octet.
struct Definition {
    aal: Aal,
    lengths: Lengths,
    place: Place,
    sdu_len: usize,
}

impl Definition {
    fn capacity(&self) -> usize {
        if self.aal == Aal::Aal5 { 48 } else { 44 }
    }

    /// SDU octets around the payload: in front of it, and behind it.
    fn around(&self) -> (usize, usize) {
        let Lengths { pci, header, tail } = self.lengths;
        let first = matches!(self.place, Place::First | Place::Only);
        let last = matches!(self.place, Place::Last | Place::Only);
        let front = usize::from(pci) + if first { usize::from(header) } else { 0 };
        (front, if last { usize::from(tail) } else { 0 })
    }

    fn exists(&self) -> bool {
        let (front, behind) = self.around();
        self.sdu_len > 0 && front + behind <= self.sdu_len
    }

    /// Octets of the CPCS-PDU.
    fn pdu_len(&self) -> usize {
        let mut len = self.sdu_len;
        if self.aal == Aal::Aal5 {
            // The trailer is the end of the last cell.
            while !(len + 8).is_multiple_of(48) {
                len += 1;
            }
            return len + 8;
        }
        while !len.is_multiple_of(4) {
            len += 1;
        }
        4 + len + 4
    }

    /// Octet `at` of the CPCS-PDU, of `pdu_len`.
    fn octet(&self, at: usize, pdu_len: usize) -> Octet {
        let Lengths { pci, header, .. } = self.lengths;
        let (pci, header) = (usize::from(pci), usize::from(header));
        let (before, trailer) = if self.aal == Aal::Aal5 {
            (0, 8)
        } else {
            (4, 4)
        };
        let (front, behind) = self.around();
        if at < before + pci {
            return Octet::Pci(Owner::Cpcs, at as u8);
        }
        if at >= pdu_len - trailer {
            let at = before + pci + (at - (pdu_len - trailer));
            return Octet::Pci(Owner::Cpcs, at as u8);
        }
        let (in_sdu, disk) = (at - before, before + pci + trailer);
        if in_sdu >= self.sdu_len {
            Octet::Pad
        } else if in_sdu < front {
            Octet::Pci(Owner::Disk, (disk + in_sdu - pci) as u8)
        } else if in_sdu >= self.sdu_len - behind {
            let in_tail = in_sdu - (self.sdu_len - behind);
            Octet::Pci(Owner::Disk, (disk + header + in_tail) as u8)
        } else {
            Octet::Payload
        }
    }

    /// The payload of cell `cell`, of a PDU of `pdu_len` octets.
    fn cell(&self, cell: usize, pdu_len: usize) -> [Octet; 48] {
        let capacity = self.capacity();
        let before = (48 - capacity) / 2;
        core::array::from_fn(|i| {
            if i < before || i >= before + capacity {
                return Octet::Sar;
            }
            let at = cell * capacity + i - before;
            if at < pdu_len {
                self.octet(at, pdu_len)
            } else {
                Octet::Unused
            }
        })
    }
}

/// The owner that a row gives each octet; no octet is in two pieces.
fn painted(row: &Row, aal: Aal) -> [Octet; 48] {
    let mut cell = [Octet::Unused; 48];
    if aal == Aal::Aal34 {
        cell[..2].fill(Octet::Sar);
        cell[46..].fill(Octet::Sar);
    }
    assert!(row.pieces().count() <= 6);
    for piece in row.pieces() {
        for (i, at) in piece.cell().enumerate() {
            assert_eq!(cell[at], Octet::Unused, "{piece:?} overlaps in {row:?}");
            cell[at] = match piece.owner {
                Owner::Payload => Octet::Payload,
                Owner::Pad => Octet::Pad,
                owner => Octet::Pci(owner, piece.to + i as u8),
            };
        }
    }
    cell
}

/// Compares cells of a PDU: all of them, or those less than six from either end and one between.
fn compare(tree: &Tree, place: Place, sdu_len: u16, all: bool) {
    let (aal, lengths) = (tree.aal(), tree.lengths());
    let definition = Definition {
        aal,
        lengths,
        place,
        sdu_len: sdu_len.into(),
    };
    let what = || format!("{aal:?} {lengths:?} {place:?} {sdu_len}");
    let Some(train) = tree.train(place, sdu_len) else {
        assert!(!definition.exists(), "{}", what());
        return;
    };
    assert!(definition.exists(), "{}", what());
    let pdu_len = definition.pdu_len();
    let cells = pdu_len.div_ceil(definition.capacity());
    assert_eq!(usize::from(train.cells()), cells, "{}", what());
    let looked_at = |cell: &usize| all || *cell < 6 || cell + 6 >= cells || *cell == cells / 2;
    for cell in (0..cells).filter(looked_at) {
        let row = tree.row(train, cell as u16).unwrap();
        let expected = definition.cell(cell, pdu_len);
        assert_eq!(
            painted(row, aal),
            expected,
            "{} cell {cell}: {row:?}",
            what()
        );
        let li = (pdu_len - cell * definition.capacity()).min(definition.capacity());
        assert_eq!(usize::from(row.li), li, "{} cell {cell}", what());
        let segment_type = match (cell == 0, cell + 1 == cells) {
            (true, true) => SegmentType::Ssm,
            (true, false) => SegmentType::Bom,
            (false, true) => SegmentType::Eom,
            (false, false) => SegmentType::Com,
        };
        assert_eq!(row.segment_type, segment_type, "{} cell {cell}", what());
    }
    assert_eq!(tree.row(train, cells as u16), None, "{}", what());
    parts(tree, &definition, place, sdu_len);
}

/// The packet level's look-up.
fn parts(tree: &Tree, definition: &Definition, place: Place, sdu_len: u16) {
    let parts = tree.parts(place, sdu_len).unwrap();
    let (front, behind) = definition.around();
    let pci = u16::from(definition.lengths.pci);
    let payload = sdu_len - (front + behind) as u16;
    assert_eq!(parts.pci, pci);
    assert_eq!(usize::from(parts.header), front - usize::from(pci));
    assert_eq!(usize::from(parts.tail), behind);
    assert_eq!(parts.payload, payload);
    assert_eq!(tree.sdu_len(place, payload), Some(sdu_len));
}

fn tree(aal: Aal, pci: u8, header: u8, tail: u8) -> Tree {
    Tree::new(aal, Lengths { pci, header, tail }).unwrap()
}

const AALS: [Aal; 2] = [Aal::Aal5, Aal::Aal34];

/// Short and long lengths, and those beside a multiple of what a cell takes: each of `residues`
/// around a sample of multiples.
fn lengths(every: usize) -> Vec<u16> {
    let dense = 1..=420_usize;
    let beside = (0..=65_535 / 44).step_by(every).flat_map(|n| {
        [44, 48].into_iter().flat_map(move |capacity| {
            let middle = (n * capacity).max(60);
            middle - 60..=middle + 12
        })
    });
    let end = 65_535 - 120..=65_535;
    let mut lengths: Vec<_> = dense
        .chain(beside)
        .chain(end)
        .filter(|len| *len > 0)
        .collect();
    lengths.sort_unstable();
    lengths.dedup();
    lengths
        .into_iter()
        .filter_map(|len| u16::try_from(len).ok())
        .collect()
}

#[expect(
    clippy::disallowed_methods,
    reason = "whoever has the time asks for all lengths"
)]
fn all_lengths() -> bool {
    std::env::var("CELLGATE_TREE").is_ok_and(|what| what == "all")
}

#[test]
fn a_bitmap_of_every_length_agrees_with_the_table() {
    let all = all_lengths();
    let lens = if all {
        (1..=u16::MAX).collect()
    } else {
        lengths(127)
    };
    for aal in AALS {
        for (pci, header, tail) in [(24, 24, 40), (48, 48, 48), (0, 0, 0), (24, 5, 48)] {
            let tree = tree(aal, pci, header, tail);
            for place in Place::ALL {
                for len in &lens {
                    compare(&tree, place, *len, all);
                }
            }
        }
    }
    println!("{} lengths, all cells: {all}", lens.len());
}

#[test]
fn a_bitmap_of_every_header_and_tail_agrees_with_the_table() {
    let all = all_lengths();
    let sample: Vec<u16> = if all {
        (1..=420).chain(65_535 - 96..=65_535).collect()
    } else {
        let near = [
            1, 40, 41, 48, 72, 84, 88, 96, 97, 103, 137, 144, 145, 192, 233, 281,
        ];
        near.into_iter().chain([65_535]).collect()
    };
    for (header, tail) in (0..=48).flat_map(|header| (0..=48).map(move |tail| (header, tail))) {
        // The PCI goes through its lengths on the way, and so do the AALs if time is short.
        let pci = (header + tail * 3) % 49;
        let turn = |i: usize| all || (usize::from(header / 2 + tail)).is_multiple_of(2) == (i == 0);
        for (_, aal) in AALS.into_iter().enumerate().filter(|(i, _)| turn(*i)) {
            let tree = tree(aal, pci, header, tail);
            for (i, len) in sample.iter().enumerate() {
                compare(
                    &tree,
                    Place::ALL[(i + usize::from(header)) % 4],
                    *len,
                    false,
                );
                compare(&tree, Place::Only, *len, false);
            }
        }
    }
}

#[test]
fn cells_between_the_ends_are_one_row() {
    for aal in AALS {
        let tree = tree(aal, 24, 48, 48);
        for place in Place::ALL {
            for len in [500, 9_180, 65_535] {
                let train = tree.train(place, len).unwrap();
                let middle = tree.row(train, 3).unwrap();
                for cell in 3..train.cells() - 3 {
                    assert!(std::ptr::eq(middle, tree.row(train, cell).unwrap()));
                }
                assert_eq!(middle.pieces().count(), 1);
            }
        }
    }
}

/// Pieces of a cell: owner, octets, offset in the record.
fn cell(tree: &Tree, place: Place, len: u16, cell: u16) -> Vec<(Owner, u8, u8)> {
    let row = tree.row(tree.train(place, len).unwrap(), cell).unwrap();
    row.pieces()
        .map(|piece| (piece.owner, piece.len, piece.to))
        .collect()
}

#[test]
fn what_the_paper_declares_away_is_in_the_table() {
    use Owner::{Cpcs, Disk, Pad, Payload};
    // 24 of PCI, 16 of header, 32 of tail. The record: 4 + 24 + 4 + 16 + 32, or 0 + 24 + 8 + ...
    let aal34 = tree(Aal::Aal34, 24, 16, 32);
    // An EOM of trailer only: 4 + 80 + 4 octets, and a tail that fills the cell before.
    assert_eq!(
        cell(&aal34, Place::Last, 84, 1),
        [(Disk, 32, 48), (Payload, 12, 0)]
    );
    assert_eq!(cell(&aal34, Place::Last, 84, 2), [(Cpcs, 4, 28)]);
    // A tail in two cells.
    assert_eq!(
        cell(&aal34, Place::Last, 100, 1),
        [(Disk, 16, 48), (Payload, 28, 0)]
    );
    assert_eq!(
        cell(&aal34, Place::Last, 100, 2),
        [(Disk, 16, 64), (Cpcs, 4, 28)]
    );
    // A header that ends inside a cell: 44 octets of it and the CPCS's and the PCI before.
    let long = tree(Aal::Aal34, 24, 48, 0);
    assert_eq!(
        cell(&long, Place::First, 200, 0),
        [(Cpcs, 28, 0), (Disk, 16, 32)]
    );
    assert_eq!(
        cell(&long, Place::First, 200, 1),
        [(Disk, 32, 48), (Payload, 12, 0)]
    );
    // A PCI in two cells.
    let wide = tree(Aal::Aal34, 48, 0, 0);
    assert_eq!(cell(&wide, Place::Middle, 200, 0), [(Cpcs, 44, 0)]);
    assert_eq!(
        cell(&wide, Place::Middle, 200, 1),
        [(Cpcs, 8, 44), (Payload, 36, 0)]
    );
    // AAL5's pad fills a cell behind the tail and the next but for the trailer.
    let aal5 = tree(Aal::Aal5, 24, 16, 32);
    assert_eq!(
        cell(&aal5, Place::Last, 90, 1),
        [(Disk, 32, 48), (Payload, 10, 0), (Pad, 6, 0)]
    );
    assert_eq!(
        cell(&aal5, Place::Last, 90, 2),
        [(Cpcs, 8, 24), (Pad, 40, 0)]
    );
    // Six pieces.
    let small = tree(Aal::Aal5, 4, 4, 4);
    let only = [
        (Cpcs, 4, 0),
        (Disk, 4, 12),
        (Disk, 4, 16),
        (Cpcs, 8, 4),
        (Payload, 20, 0),
    ];
    assert_eq!(
        cell(&small, Place::Only, 32, 0),
        [&only[..], &[(Pad, 8, 0)]].concat()
    );
}

#[test]
fn what_does_not_fit_has_no_tree_and_no_train() {
    let lengths = |pci, header, tail| Lengths { pci, header, tail };
    assert!(Tree::new(Aal::Aal0, lengths(1, 1, 1)).is_none());
    for aal in AALS {
        for lengths in [lengths(49, 0, 0), lengths(0, 49, 0), lengths(0, 0, 49)] {
            assert!(Tree::new(aal, lengths).is_none());
        }
        let tree = tree(aal, 24, 8, 4);
        for (place, least) in Place::ALL.into_iter().zip([24, 32, 28, 36]) {
            assert!(tree.train(place, least - 1).is_none());
            assert!(tree.train(place, least).is_some());
            assert_eq!(tree.sdu_len(place, 0), Some(least));
            assert_eq!(tree.sdu_len(place, u16::MAX - least), Some(u16::MAX));
            assert_eq!(tree.sdu_len(place, u16::MAX - least + 1), None);
        }
    }
    let bare = tree(Aal::Aal5, 0, 0, 0);
    assert_eq!(
        (bare.train(Place::Middle, 0), bare.sdu_len(Place::Middle, 0)),
        (None, None)
    );
}
