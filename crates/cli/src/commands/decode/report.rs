//! Records to lines.

use std::collections::BTreeMap;

use cellgate_capture::{Content, Direction, Record, SduKind};
use cellgate_core::wire::{
    Cell, Header, HeaderForm, HeaderKind, HecVerdict, OamFlow, PAYLOAD_LEN, Pti, VpiVci,
};

use super::aal34::{Ended, Messages};
use super::line::{Line, Place, Stamp};
use super::mssar::Blocks;
use super::pdu::{Assembled, Assembly, Path, Thread};
use super::stream::Streams;
use super::{cell, pdu, sdu};
use crate::captured::aal::{AalChoice, AalWord};
use crate::captured::pseudowire::Labels;

/// What makes lines of records: it remembers the PDUs in progress.
pub(super) struct Report {
    form: HeaderForm,
    pub(super) labels: Labels,
    aals: BTreeMap<VpiVci, AalWord>,
    /// The AAL of VCs that are not named.
    aal: AalWord,
    pub(super) assembly: Assembly,
    messages: Messages,
    streams: Streams,
    pub(super) blocks: Blocks,
}

/// Where cells are from.
#[derive(Clone, Copy)]
pub(super) struct Origin {
    pub(super) stamp: Stamp,
    pub(super) path: Path,
    pub(super) form: HeaderForm,
    /// Whether VPI and VCI are the cell's own.
    pub(super) known: (bool, bool),
    /// A receiver discards them, or could not trust them: they are shown, and nothing is put
    /// together of them.
    pub(super) is_stale: bool,
}

impl Origin {
    pub(super) fn place(&self, address: VpiVci) -> Place {
        place(self.known, address)
    }

    pub(super) fn thread(&self, address: VpiVci) -> Thread {
        Thread {
            path: self.path,
            way: match self.stamp.direction {
                Direction::Unknown => 0,
                Direction::Receive => 1,
                Direction::Transmit => 2,
            },
            address,
            known: self.known,
        }
    }
}

impl Thread {
    const fn direction(self) -> Direction {
        match self.way {
            1 => Direction::Receive,
            2 => Direction::Transmit,
            _ => Direction::Unknown,
        }
    }

    pub(super) fn place(self) -> Place {
        Place {
            is_ring: matches!(self.path, Path::Ring { .. }),
            ..place(self.known, self.address)
        }
    }

    /// The stamp of its part that is told of at `stamp`.
    pub(super) const fn at(self, stamp: Stamp) -> Stamp {
        Stamp {
            direction: self.direction(),
            ..stamp
        }
    }

    /// The stamp of its part that is told of after the last record.
    pub(super) const fn after_all(self) -> Stamp {
        Stamp {
            record: 0,
            offset: 0,
            time_ns: None,
            direction: self.direction(),
        }
    }
}

/// The known parts of an address.
fn place((vpi, vci): (bool, bool), address: VpiVci) -> Place {
    Place {
        vpi: vpi.then_some(address.vpi()),
        vci: vci.then_some(address.vci()),
        is_ring: false,
    }
}

impl Report {
    pub(super) fn new(form: HeaderForm, labels: Labels, choices: &[AalChoice]) -> Self {
        let mut aals = BTreeMap::new();
        let mut others = AalWord::default();
        for choice in choices {
            match choice {
                AalChoice::Of(option) => _ = aals.insert(option.address, option.aal),
                AalChoice::OfOthers(aal) => others = *aal,
            }
        }
        Self {
            form,
            labels,
            aals,
            aal: others,
            assembly: Assembly::default(),
            messages: Messages::default(),
            streams: Streams::default(),
            blocks: Blocks::default(),
        }
    }

    /// The lines of one record: its own, then those of what it holds or completes.
    pub(super) fn record(&mut self, number: u64, record: &Record) -> Vec<Line> {
        let stamp = Stamp::of(number, record);
        let origin = Origin {
            stamp,
            path: Path::Interface(record.interface),
            form: self.form,
            known: (true, true),
            is_stale: record.marks.receive_error || record.marks.stream_error,
        };
        let mut lines = Vec::new();
        match &record.content {
            Content::CellWithHec(octets) => {
                let (verdict, cell) = cell::judge_hec(octets);
                self.cell(origin, &cell, Some(verdict), &mut lines);
            }
            Content::Cell(octets) => {
                let cell = Cell::parse_without_hec(octets);
                self.cell(origin, &cell, None, &mut lines);
            }
            Content::RingCell { header, octets } => {
                self.ring_cell(origin, *header, octets, &mut lines);
            }
            Content::PartOfCell { header, payload } => {
                lines.push(self.part_of_cell(stamp, *header, payload));
            }
            Content::Aal5Pdu { header, pdu } => {
                let place = header.address(self.form).into();
                lines.push(pdu_line(stamp, place, pdu, record.missing));
            }
            Content::Aal2Packet {
                header,
                cid,
                packet,
            } => {
                let place = header.address(self.form).into();
                let mut line = Line::new(stamp, "packet", place, packet.len());
                line.field("aal", "aal2");
                match packet.first_chunk() {
                    Some(octets) => cell::describe_cps_header(&mut line, *octets),
                    None => line.say(format!("aal2 cid {cid}, no whole header")),
                }
                lines.push(line);
            }
            Content::Sdu { address, kind, sdu } => {
                let place = address.map_or(Place::UNKNOWN, Place::from);
                let mut line = Line::new(stamp, "sdu", place, sdu.len());
                sdu::describe(&mut line, sdu, record.missing, *kind, place.vci);
                lines.push(line);
            }
            Content::Frame { framing, octets } => {
                self.frame(origin, *framing, octets, record.missing, &mut lines);
            }
        }
        if let Some(line) = lines.first_mut() {
            note(line, record);
        }
        lines
    }

    /// PDUs whose last cell never came.
    pub(super) fn rest(&mut self) -> Vec<Line> {
        let rest = self.assembly.rest().map(|(thread, len)| {
            let mut line = Line::new(thread.after_all(), "part", thread.place(), len);
            let cells = len / PAYLOAD_LEN;
            line.field("cells", cells);
            line.say(format!(
                "{} of a pdu without its last",
                count(cells, "cell")
            ));
            line
        });
        let mut lines: Vec<_> = rest.collect();
        lines.extend(self.streams.rest());
        lines.extend(self.blocks.rest());
        for ended in self.messages.rest() {
            lines.push(ended.line(ended.thread.after_all(), ended.thread.place()));
        }
        lines
    }

    /// A cell whose header alone can be judged.
    fn part_of_cell(&self, stamp: Stamp, header: Header, payload: &[u8]) -> Line {
        let place = header.address(self.form).into();
        let mut line = Line::new(stamp, "cell", place, payload.len() + 4);
        cell::describe_header(&mut line, header, self.form);
        line
    }

    pub(super) fn cell(
        &mut self,
        origin: Origin,
        cell: &Cell,
        hec: Option<HecVerdict>,
        lines: &mut Vec<Line>,
    ) {
        let form = origin.form;
        let address = cell.header.address(form);
        let octets = match hec {
            Some(_) => PAYLOAD_LEN + 5,
            None => PAYLOAD_LEN + 4,
        };
        let aal = self.aals.get(&address).copied().unwrap_or(self.aal);
        let mut line = Line::new(origin.stamp, "cell", origin.place(address), octets);
        let addressed = origin.known == (true, true);
        cell::describe(&mut line, cell, form, aal, addressed);
        if let Some(verdict) = hec {
            cell::describe_hec(&mut line, verdict);
        }
        lines.push(line);
        let assigned = cell.header.kind(form) == HeaderKind::Assigned;
        let (None, Pti::User { last, .. }) = (OamFlow::of(cell.header, form), cell.header.pti())
        else {
            return;
        };
        // A pseudowire of a VC that nobody has named: its cells carry the address 0.0 here.
        let assigned = assigned || matches!(origin.path, Path::Label(..));
        if !assigned || hec == Some(HecVerdict::Discard) {
            return;
        }
        let thread = origin.thread(address);
        if origin.is_stale {
            return;
        }
        match aal {
            AalWord::Aal5 => {
                let assembled = self.assembly.push(thread, &cell.payload, last);
                let ended = assembled.into_iter();
                lines.extend(ended.map(|(thread, end)| assembled_line(origin.stamp, thread, end)));
            }
            AalWord::Aal34 => {
                let ended = self.messages.push(thread, &cell.payload).into_iter();
                let line = |ended: Ended| {
                    let thread = ended.thread;
                    ended.line(thread.at(origin.stamp), thread.place())
                };
                lines.extend(ended.map(line));
            }
            AalWord::Aal1 => {
                if let Some(line) = lines.last_mut() {
                    self.streams.aal1(thread, cell.payload[0], line);
                }
            }
            AalWord::Aal2 => self
                .streams
                .aal2(thread, &cell.payload, origin.stamp, lines),
            AalWord::Mssar => self.blocks.push(thread, &cell.payload, origin.stamp, lines),
            AalWord::Aal0 => {}
        }
    }
}

/// What the capture says about a record.
fn note(line: &mut Line, record: &Record) {
    let marks = record.marks;
    if marks.lost_before > 0 {
        line.field("lost_before", marks.lost_before);
        let records = match marks.lost_before {
            1 => "1 record",
            n => &format!("{n} records"),
        };
        line.say(format!("{records} LOST before"));
    }
    for (is_set, name, text) in [
        (marks.receive_error, "receive_error", "RX ERROR"),
        (
            marks.stream_error,
            "stream_error",
            "RECORD DAMAGED by the card",
        ),
        (marks.truncated, "truncated", "truncated"),
    ] {
        if is_set {
            line.field(name, true);
            line.say(text);
        }
    }
    if record.missing > 0 {
        line.field("missing_octets", record.missing);
        line.say(format!("{} octets not captured", record.missing));
    }
    if !record.comments.is_empty() {
        line.field("comments", record.comments.clone());
        for comment in &record.comments {
            line.say(format!("{comment:?}"));
        }
    }
}

fn pdu_line(stamp: Stamp, place: Place, pdu: &[u8], missing: usize) -> Line {
    let mut line = Line::new(stamp, "pdu", place, pdu.len());
    let kind = SduKind::RAW;
    if missing > 0 {
        line.say("no trailer");
        sdu::describe(&mut line, pdu, missing, kind, place.vci);
        return line;
    }
    if let Some(sdu) = pdu::describe(&mut line, pdu) {
        sdu::describe(&mut line, sdu, 0, kind, place.vci);
    }
    line
}

pub(super) fn assembled_line(stamp: Stamp, thread: Thread, end: Assembled) -> Line {
    let (stamp, place) = (thread.at(stamp), thread.place());
    match end {
        Assembled::Pdu(pdu) => {
            let mut line = pdu_line(stamp, place, &pdu, 0);
            line.field("reassembled", true);
            line
        }
        Assembled::TooLong(len) => {
            let mut line = Line::new(stamp, "part", place, len);
            line.field("cells", len / PAYLOAD_LEN);
            line.say(format!(
                "{} cells without a last one, given up",
                len / PAYLOAD_LEN
            ));
            line
        }
    }
}

pub(super) fn count(n: usize, what: &str) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("{n} {what}{plural}")
}
