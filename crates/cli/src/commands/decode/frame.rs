//! Frames to lines: what carries a pseudowire, its packets, its control channel.

use cellgate_capture::SduKind;
use cellgate_core::wire::pseudowire::{PacketContent, PduHeader, Sequence};
use cellgate_core::wire::{
    Carrier, Framing, HeaderForm, MplsFrame, MplsFrameError, PAYLOAD_LEN, VpiVci,
};

use super::line::{Line, Place};
use super::pdu::Path;
use super::report::{Origin, Report, assembled_line, count};
use super::sdu;
use crate::captured::SequencePlace;
use crate::captured::pseudowire::{self, Channel, End, Opened};

impl Report {
    pub(super) fn frame(
        &mut self,
        origin: Origin,
        framing: Framing,
        octets: &[u8],
        missing: usize,
        lines: &mut Vec<Line>,
    ) {
        let frame = match self.labels.find(framing, octets, missing) {
            Ok(frame) => frame,
            Err(error) => {
                let mut line = Line::new(origin.stamp, "frame", Place::UNKNOWN, octets.len());
                describe_error(&mut line, error);
                lines.push(line);
                return;
            }
        };
        let packets = self.labels.packets(frame);
        let of = packets.clone().count();
        for (nth, packet) in packets.enumerate() {
            // A line of the only packet tells the length of the whole frame.
            let len = match of {
                1 => octets.len(),
                _ => packet.packet_len(),
            };
            let mut line = Line::new(origin.stamp, "frame", Place::UNKNOWN, len);
            if of > 1 {
                line.field("packet", nth + 1);
                line.field("packets", of);
                line.say(format!("packet {} of {of}", nth + 1));
            }
            self.packet(origin, line, packet, lines);
        }
    }

    /// A packet of a pseudowire or of its control channel, and the line that tells of it.
    fn packet(
        &mut self,
        origin: Origin,
        mut line: Line,
        frame: MplsFrame<'_>,
        lines: &mut Vec<Line>,
    ) {
        if frame.has_fcs {
            line.field("fcs_valid", true);
        }
        if let Some(channel) = self.labels.channel(&frame) {
            describe_channel(&mut line, &frame, &channel);
            lines.push(line);
            return;
        }
        let label = frame.entry.label().value();
        let Origin { stamp, path, .. } = origin;
        let interface = match path {
            Path::Interface(interface) => interface,
            Path::Label(..) | Path::Ring { .. } => 0,
        };
        let opened = self.labels.open(&frame, interface, stamp.direction);
        describe_frame(&mut line, &frame, &opened);
        let origin = Origin {
            path: Path::Label(End::of(&frame, interface), label),
            form: HeaderForm::Nni,
            known: opened.known(),
            is_stale: origin.is_stale || opened.place.is_stale(),
            ..origin
        };
        let address = opened.address.unwrap_or_default();
        match opened.packet {
            Err(error) if frame.missing > 0 => {
                line.field("pseudowire_error", error.to_string());
                line.say("not whole");
                lines.push(line);
            }
            Err(error) => {
                line.field("pseudowire_error", error.to_string());
                line.say(format!("WRONG: {error}"));
                lines.push(line);
            }
            Ok(packet) => {
                describe_sequence(&mut line, packet.sequence);
                tell(opened.place, &mut line);
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
                        sdu::describe(&mut line, sdu, frame.missing, SduKind::RAW, place.vci);
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
        if origin.is_stale {
            return;
        }
        let assembled = self.assembly.push(thread, octets, ends);
        let ended = assembled.into_iter();
        lines.extend(ended.map(|(thread, end)| assembled_line(origin.stamp, thread, end)));
    }
}

fn describe_error(line: &mut Line, error: MplsFrameError) {
    line.field("pseudowire_error", error.to_string());
    let hint = match error {
        MplsFrameError::Port {
            destination_port, ..
        } => format!(" (--udp-port {destination_port} reads it)"),
        _ => String::new(),
    };
    line.say(format!("no pseudowire: {error}{hint}"));
}

fn describe_label(line: &mut Line, frame: &MplsFrame<'_>) {
    line.field("label", frame.entry.label().value());
    line.field("traffic_class", frame.entry.traffic_class());
    line.field("ttl", frame.entry.ttl());
    line.field("carrier", frame.carrier.name());
    let ports = match frame.carrier {
        Carrier::Udp {
            source_port,
            destination_port,
        } => (Some(source_port), Some(destination_port)),
        _ => (None, None),
    };
    line.field("source_port", ports.0);
    line.field("destination_port", ports.1);
}

fn describe_frame(line: &mut Line, frame: &MplsFrame<'_>, opened: &Opened<'_>) {
    describe_label(line, frame);
    let word = opened.service.word();
    line.field("mode", word);
    line.field("mode_guessed", opened.guessed);
    let doubt = if opened.guessed { "?" } else { "" };
    let (under, label) = (frame.carrier.name(), frame.entry.label().value());
    line.say(format!("{under} {label} {word}{doubt}"));
}

fn describe_channel(line: &mut Line, frame: &MplsFrame<'_>, channel: &Channel) {
    describe_label(line, frame);
    let (under, label) = (frame.carrier.name(), frame.entry.label().value());
    line.say(format!("{under} {label} control channel"));
    line.field("control_channel", true);
    line.field("control_channel_by_label", frame.is_channel);
    let name = match (&channel.header, channel.first_nibble) {
        (Some(header), _) => {
            line.field("channel_type", header.kind);
            header.name()
        }
        (None, 4) => Some("ipv4"),
        (None, 6) => Some("ipv6"),
        (None, _) => None,
    };
    line.field("channel_name", name);
    if frame.is_channel {
        line.say("by its labels");
    }
    match (name, &channel.header) {
        (Some(name), _) => line.say(name),
        (None, Some(header)) => line.say(format!("type 0x{:04x}", header.kind)),
        (None, None) => line.say("of no known type"),
    }
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

/// Says where a number puts its packet.
fn tell(place: SequencePlace, line: &mut Line) {
    let (word, missing) = match place {
        SequencePlace::Unnumbered => return,
        SequencePlace::InOrder { missing: 0 } => ("in_order", 0),
        SequencePlace::InOrder { missing } => ("gap", missing),
        SequencePlace::Duplicate => ("duplicate", 0),
        SequencePlace::OutOfOrder => ("out_of_order", 0),
    };
    line.field("sequence_verdict", word);
    line.field("sequence_missing", missing);
    match place {
        SequencePlace::InOrder { missing: 1 } => line.say("1 packet LOST before"),
        SequencePlace::InOrder { missing } if missing > 0 => {
            line.say(format!("{missing} packets LOST before"));
        }
        SequencePlace::Duplicate => line.say("DUPLICATE"),
        SequencePlace::OutOfOrder => line.say("OUT OF ORDER"),
        _ => {}
    }
}
