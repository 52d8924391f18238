//! Records to lines.

use std::collections::BTreeMap;

use cellgate_capture::{Content, Direction, Record, SduKind};
use cellgate_core::wire::pseudowire::{PacketContent, PduHeader, Sequence};
use cellgate_core::wire::{
    Cell, HeaderForm, HeaderKind, HecVerdict, MplsFrame, OamFlow, PAYLOAD_LEN, Pti, VpiVci,
};

use super::aal::{AalOption, AalWord};
use super::aal34::{Ended, Messages};
use super::line::{Line, Place, Stamp};
use super::pdu::{Assembled, Assembly, Path, Thread};
use super::pseudowire::{self, Labels, Opened};
use super::{cell, pdu, sdu};

/// What makes lines of records: it remembers the PDUs in progress.
pub(super) struct Report {
    form: HeaderForm,
    labels: Labels,
    aals: BTreeMap<VpiVci, AalWord>,
    assembly: Assembly,
    messages: Messages,
}

/// Where cells are from.
#[derive(Clone, Copy)]
struct Origin {
    stamp: Stamp,
    path: Path,
    form: HeaderForm,
    /// Whether VPI and VCI are the cell's own.
    known: (bool, bool),
}

impl Origin {
    fn place(&self, address: VpiVci) -> Place {
        place(self.known, address)
    }

    fn thread(&self, address: VpiVci) -> Thread {
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

    fn place(self) -> Place {
        place(self.known, self.address)
    }

    /// The stamp of its part that is told of at `stamp`.
    const fn at(self, stamp: Stamp) -> Stamp {
        Stamp {
            direction: self.direction(),
            ..stamp
        }
    }

    /// The stamp of its part that is told of after the last record.
    const fn after_all(self) -> Stamp {
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
    }
}

impl Report {
    pub(super) fn new(form: HeaderForm, labels: Labels, aals: &[AalOption]) -> Self {
        let aals = aals.iter().map(|option| (option.address, option.aal));
        Self {
            form,
            labels,
            aals: aals.collect(),
            assembly: Assembly::default(),
            messages: Messages::default(),
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
                sdu::describe(&mut line, sdu, *kind, place.vci);
                lines.push(line);
            }
            Content::Frame(frame) => self.frame(origin, frame, &mut lines),
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
        for ended in self.messages.rest() {
            lines.push(ended.line(ended.thread.after_all(), ended.thread.place()));
        }
        lines
    }

    fn cell(
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
        let aal = self.aals.get(&address).copied().unwrap_or_default();
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
        let assigned = assigned || matches!(origin.path, Path::Label(_));
        if !assigned || hec == Some(HecVerdict::Discard) {
            return;
        }
        let thread = origin.thread(address);
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
            AalWord::Aal0 | AalWord::Aal1 | AalWord::Aal2 => {}
        }
    }

    fn frame(&mut self, origin: Origin, octets: &[u8], lines: &mut Vec<Line>) {
        let mut line = Line::new(origin.stamp, "frame", Place::UNKNOWN, octets.len());
        let frame = match MplsFrame::parse(octets) {
            Ok(frame) => frame,
            Err(error) => {
                line.field("pseudowire_error", error.to_string());
                line.say(format!("no pseudowire: {error}"));
                lines.push(line);
                return;
            }
        };
        let label = frame.entry.label().value();
        let opened = self.labels.open(&frame);
        describe_frame(&mut line, &frame, &opened);
        let origin = Origin {
            path: Path::Label(label),
            form: HeaderForm::Nni,
            known: opened.known(),
            ..origin
        };
        let address = opened.address.unwrap_or_default();
        match opened.packet {
            Err(error) => {
                line.field("pseudowire_error", error.to_string());
                line.say(format!("WRONG: {error}"));
                lines.push(line);
            }
            Ok(packet) => {
                describe_sequence(&mut line, packet.sequence);
                match packet.content {
                    PacketContent::Cells(cells) => {
                        line.field("cells", cells.len());
                        line.say(count(cells.len(), "cell"));
                        lines.push(line);
                        for cell in cells {
                            self.cell(origin, &cell, None, lines);
                        }
                    }
                    PacketContent::Sdu { header, sdu } => {
                        describe_flags(&mut line, header.efci, header.clp);
                        lines.push(line);
                        let place = origin.place(address);
                        let mut line = Line::new(origin.stamp, "sdu", place, sdu.len());
                        sdu::describe(&mut line, sdu, SduKind::RAW, place.vci);
                        lines.push(line);
                    }
                    PacketContent::Pdu { header, payloads } => {
                        lines.push(line);
                        self.part(origin, address, header, payloads.as_flattened(), lines);
                    }
                }
            }
        }
    }

    /// A PDU or a part of one; the frame's line is the last of `lines`.
    fn part(
        &mut self,
        origin: Origin,
        address: VpiVci,
        header: PduHeader,
        octets: &[u8],
        lines: &mut Vec<Line>,
    ) {
        let thread = origin.thread(address);
        let whole = [self.assembly.held(thread), octets].concat();
        let ends = pseudowire::ends(header.last, &whole);
        if let Some(line) = lines.last_mut() {
            line.field("last", header.last);
            line.field("cells", octets.len() / PAYLOAD_LEN);
            line.say(count(octets.len() / PAYLOAD_LEN, "payload"));
            line.say(match (header.last, ends) {
                (true, _) => "last",
                (false, true) => "last by trailer",
                (false, false) => "not the last",
            });
            describe_flags(line, header.efci, header.clp);
        }
        let assembled = self.assembly.push(thread, octets, ends);
        let ended = assembled.into_iter();
        lines.extend(ended.map(|(thread, end)| assembled_line(origin.stamp, thread, end)));
    }
}

/// What the capture says about a record.
fn note(line: &mut Line, record: &Record) {
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
    if missing > 0 {
        line.say("no trailer");
        return line;
    }
    if let Some(sdu) = pdu::describe(&mut line, pdu) {
        let kind = SduKind::RAW;
        sdu::describe(&mut line, sdu, kind, place.vci);
    }
    line
}

fn assembled_line(stamp: Stamp, thread: Thread, end: Assembled) -> Line {
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

fn describe_frame(line: &mut Line, frame: &MplsFrame<'_>, opened: &Opened<'_>) {
    let label = frame.entry.label().value();
    line.field("label", label);
    line.field("traffic_class", frame.entry.traffic_class());
    line.field("ttl", frame.entry.ttl());
    line.field("source_port", frame.source_port);
    let word = opened.service.word();
    line.field("mode", word);
    line.field("mode_guessed", opened.guessed);
    let under = if frame.source_port.is_some() {
        "mpls/udp"
    } else {
        "mpls"
    };
    let doubt = if opened.guessed { "?" } else { "" };
    line.say(format!("{under} {label} {word}{doubt}"));
}

fn describe_sequence(line: &mut Line, sequence: Sequence) {
    if sequence != Sequence::NONE {
        line.field("sequence", sequence.bits());
        line.say(format!("seq {}", sequence.bits()));
    }
}

fn describe_flags(line: &mut Line, efci: bool, clp: bool) {
    line.field("efci", efci);
    line.field("clp", clp);
    if efci {
        line.say("efci");
    }
    if clp {
        line.say("clp 1");
    }
}

fn count(n: usize, what: &str) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("{n} {what}{plural}")
}
