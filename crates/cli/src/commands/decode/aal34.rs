//! AAL3/4 CPCS-PDUs, put together from cells by their MIDs and judged.

use std::iter;

use cellgate_core::aal::aal34;
use cellgate_core::wire::{
    Checked, CpcsHeader, CpcsTrailer, PAYLOAD_LEN, SAR_PAYLOAD_LEN, SarPdu, SegmentType,
};

use super::held::Held;
use super::line::{Line, Place, Stamp};
use super::pdu::Thread;

/// Octets of the longest PDU's cells.
const PDU_LEN_MAX: usize = aal34::cells(u16::MAX) as usize * SAR_PAYLOAD_LEN;

/// Cells of one PDU, as far as they came.
#[derive(Debug)]
struct Pdu {
    octets: Vec<u8>,
    cells: usize,
    next_sn: u8,
    headed: bool,
    crc_valid: bool,
    sequence_valid: bool,
    /// Each cell has as many octets as its place in the PDU allows.
    li_valid: bool,
}

impl Pdu {
    fn new(headed: bool, sn: u8) -> Self {
        Self {
            octets: Vec::new(),
            cells: 0,
            next_sn: sn,
            headed,
            crc_valid: true,
            sequence_valid: true,
            li_valid: true,
        }
    }

    fn add(&mut self, cell: &Checked<SarPdu>) {
        self.crc_valid &= cell.crc_valid;
        let cell = &cell.value;
        let octets = cell.payload.get(..cell.li.into());
        let full = !ends(cell) && usize::from(cell.li) == SAR_PAYLOAD_LEN;
        let some = ends(cell) && octets.is_some_and(|octets| octets.len().is_multiple_of(4));
        self.li_valid &= full || some;
        self.sequence_valid &= cell.sn == self.next_sn;
        self.next_sn = (cell.sn + 1) % SarPdu::SNS;
        self.octets.extend(octets.unwrap_or(&cell.payload));
        self.cells += 1;
    }
}

impl AsRef<[u8]> for Pdu {
    fn as_ref(&self) -> &[u8] {
        &self.octets
    }
}

fn ends(cell: &SarPdu) -> bool {
    matches!(cell.segment_type, SegmentType::Eom | SegmentType::Ssm)
}

/// How a PDU ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// With its last cell.
    Last,
    /// Its sender gave it up.
    Aborted,
    /// Another began on its MID, or the capture ended.
    Unfinished,
    /// More cells than any PDU has, or than there is room for, have come without a last one.
    TooLong,
}

/// A PDU of which no more cells are expected.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) thread: Thread,
    mid: u16,
    pdu: Pdu,
    end: End,
}

/// PDUs in progress.
#[derive(Debug, Default)]
pub(super) struct Messages {
    pdus: Held<(Thread, u16), Pdu>,
}

impl Messages {
    /// Adds a cell; the PDU that it cuts, if any, the one that it ends, and those that are given
    /// up. A damaged cell is taken only where it fits: it may have been of another MID.
    pub(super) fn push(&mut self, thread: Thread, payload: &[u8; PAYLOAD_LEN]) -> Vec<Ended> {
        let cell = SarPdu::parse(payload);
        let sar = &cell.value;
        let key = (thread, sar.mid);
        let begins = sar.segment_type.begins();
        let fits = match self.pdus.get(key) {
            Some(pdu) => !begins && pdu.next_sn == sar.sn,
            None => begins,
        };
        if !cell.crc_valid && !fits {
            return Vec::new();
        }
        let cut = if begins {
            self.end(key, End::Unfinished)
        } else {
            None
        };
        let mut ended: Vec<_> = cut.into_iter().collect();
        let aborts = sar.segment_type == SegmentType::Eom && sar.li == SarPdu::ABORT;
        let new = || Pdu::new(begins, sar.sn);
        let mut too_long = false;
        self.pdus.change(key, new, |pdu| {
            if !aborts {
                pdu.add(&cell);
            }
            too_long = pdu.octets.len() > PDU_LEN_MAX;
        });
        let end = match (aborts, ends(sar), too_long) {
            (true, ..) => Some(End::Aborted),
            (_, _, true) => Some(End::TooLong),
            (_, true, _) => Some(End::Last),
            _ => None,
        };
        ended.extend(end.and_then(|end| self.end(key, end)));
        let given_up = iter::from_fn(|| self.pdus.give_up());
        ended.extend(given_up.map(|(key, pdu)| Ended::new(key, pdu, End::TooLong)));
        ended
    }

    fn end(&mut self, key: (Thread, u16), end: End) -> Option<Ended> {
        let pdu = self.pdus.end(key)?;
        Some(Ended::new(key, pdu, end))
    }

    /// What is unfinished at the end.
    pub(super) fn rest(&mut self) -> Vec<Ended> {
        let keys: Vec<_> = self.pdus.iter().map(|(key, _)| key).collect();
        let rest = keys.into_iter();
        rest.filter_map(|key| self.end(key, End::Unfinished))
            .collect()
    }
}

impl Ended {
    fn new((thread, mid): (Thread, u16), pdu: Pdu, end: End) -> Self {
        Self {
            thread,
            mid,
            pdu,
            end,
        }
    }

    /// The line that tells of it.
    pub(super) fn line(&self, stamp: Stamp, place: Place) -> Line {
        let whole = self.end == End::Last && self.pdu.headed;
        let kind = if whole { "pdu" } else { "part" };
        let mut line = Line::new(stamp, kind, place, self.pdu.octets.len());
        line.field("aal", "aal34");
        line.field("mid", self.mid);
        line.field("cells", self.pdu.cells);
        line.say(format!("aal3/4 mid {}", self.mid));
        if whole {
            line.field("reassembled", true);
            self.describe(&mut line);
        } else {
            line.field("aborted", self.end == End::Aborted);
            line.say(self.lack());
        }
        line.verdict("crc10_valid", "crc-10", self.pdu.crc_valid);
        line.field("sequence_valid", self.pdu.sequence_valid);
        if !self.pdu.sequence_valid {
            line.say("cells LOST");
        }
        line
    }

    /// What keeps it from being a PDU.
    fn lack(&self) -> String {
        let n = self.pdu.cells;
        let cells = if n == 1 {
            "1 cell"
        } else {
            &format!("{n} cells")
        };
        match self.end {
            End::Aborted => format!("{cells}, then aborted"),
            End::TooLong => format!("{cells} without a last one, given up"),
            End::Last => format!("{cells} of a pdu without its first"),
            End::Unfinished if self.pdu.headed => format!("{cells} of a pdu without its last"),
            End::Unfinished => format!("{cells} of a pdu without its first and last"),
        }
    }

    /// What header and trailer say.
    fn describe(&self, line: &mut Line) {
        let octets = &self.pdu.octets;
        let ends = octets.split_first_chunk().and_then(|(first, rest)| {
            let (between, last) = rest.split_last_chunk()?;
            Some((
                CpcsHeader::parse(*first),
                between,
                CpcsTrailer::parse(*last),
            ))
        });
        let Some((header, between, trailer)) = ends else {
            line.say("too short for a header and a trailer");
            line.field("length_valid", false);
            return;
        };
        line.field("cpi", header.cpi);
        line.field("btag", header.btag);
        line.field("etag", trailer.etag);
        line.field("ba_size", header.ba_size);
        line.field("sdu_length", trailer.length);
        line.say(format!("sdu {}", trailer.length));
        if header.cpi != 0 {
            line.say(format!("cpi {}", header.cpi));
        }
        let tags = header.btag == trailer.etag;
        line.field("tags_valid", tags);
        line.say(match tags {
            true => format!("tags {}", header.btag),
            false => format!("tags {} and {} WRONG", header.btag, trailer.etag),
        });
        let ba_size = trailer.length <= header.ba_size;
        line.field("ba_size_valid", ba_size);
        let word = if ba_size { "" } else { " WRONG" };
        line.say(format!("basize {}{word}", header.ba_size));
        let padded = usize::from(trailer.length).next_multiple_of(4);
        let length = self.pdu.li_valid && trailer.length != 0 && padded == between.len();
        line.field("length_valid", length);
        if !length {
            line.say("length WRONG");
        }
    }
}

#[cfg(test)]
mod tests {
    use cellgate_core::wire::SegmentType::{Bom, Com, Eom};
    use cellgate_core::wire::VpiVci;

    use super::super::pdu::Path;
    use super::*;
    use crate::captured::PDUS_MAX;

    const THREAD: Thread = Thread {
        path: Path::Interface(0),
        way: 0,
        address: VpiVci::from_bits(33),
        known: (true, true),
    };

    fn cell(segment_type: SegmentType, sn: usize) -> [u8; PAYLOAD_LEN] {
        let sar = SarPdu {
            segment_type,
            sn: (sn % 16) as u8,
            mid: 9,
            payload: [1; SAR_PAYLOAD_LEN],
            li: SAR_PAYLOAD_LEN as u8,
        };
        sar.emit()
    }

    fn damaged(segment_type: SegmentType, sn: usize) -> [u8; PAYLOAD_LEN] {
        let mut cell = cell(segment_type, sn);
        cell[20] ^= 1;
        cell
    }

    /// How each cell ended something, with the cells, the CRC-10s and the order of that.
    fn ends(cells: &[[u8; PAYLOAD_LEN]]) -> Vec<(End, usize, bool, bool)> {
        let mut messages = Messages::default();
        let ended = cells.iter().flat_map(|cell| messages.push(THREAD, cell));
        let ended =
            ended.map(|Ended { pdu, end, .. }| (end, pdu.cells, pdu.crc_valid, pdu.sequence_valid));
        ended.collect()
    }

    #[test]
    fn a_damaged_cell_is_taken_only_where_it_fits() {
        let good = [cell(Bom, 0), cell(Com, 1), cell(Eom, 2)];
        let [first, middle, last] = good;
        assert_eq!(ends(&good), [(End::Last, 3, true, true)]);
        let marked = [(End::Last, 3, false, true)];
        assert_eq!(ends(&[damaged(Bom, 0), middle, last]), marked);
        assert_eq!(ends(&[first, damaged(Com, 1), last]), marked);
        assert_eq!(ends(&[first, middle, damaged(Eom, 2)]), marked);
        for stray in [damaged(Bom, 1), damaged(Com, 7), damaged(Eom, 3)] {
            let around = ends(&[first, stray, middle, last]);
            assert_eq!(around, [(End::Last, 3, true, true)], "{stray:?}");
        }
        assert_eq!(ends(&[damaged(Eom, 0)]), []);
    }

    #[test]
    fn what_is_lost_or_begins_anew_is_told() {
        let cells = [cell(Bom, 0), cell(Bom, 0), cell(Eom, 2)];
        let wanted = [
            (End::Unfinished, 1, true, true),
            (End::Last, 2, true, false),
        ];
        assert_eq!(ends(&cells), wanted);
    }

    #[test]
    fn cells_without_a_last_one_are_given_up_after_the_longest_pdu() {
        let mut messages = Messages::default();
        let most = PDU_LEN_MAX / SAR_PAYLOAD_LEN;
        for at in 0..most {
            let cell = cell(if at == 0 { Bom } else { Com }, at);
            assert!(messages.push(THREAD, &cell).is_empty());
        }
        let ended = messages.push(THREAD, &cell(Com, most));
        assert!(matches!(
            ended[..],
            [Ended {
                end: End::TooLong,
                ..
            }]
        ));
        assert_eq!(messages.rest().len(), 0);
    }

    #[test]
    fn cells_that_hold_no_octet_are_given_up_too() {
        let mut empty = SarPdu::parse(&cell(Bom, 0)).value;
        empty.li = 0;
        let mut messages = Messages::default();
        for n in 0..PDUS_MAX + 3 {
            empty.mid = (n % 1_024) as u16;
            let address = VpiVci::from_bits((n / 1_024) as u32);
            let thread = Thread { address, ..THREAD };
            let ended = messages.push(thread, &empty.emit());
            assert_eq!(ended.len(), usize::from(n >= PDUS_MAX), "{n}");
        }
        assert_eq!(messages.rest().len(), PDUS_MAX);
    }
}
