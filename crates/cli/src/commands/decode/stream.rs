//! AAL1 and AAL2: what the cells of a VC hold one after the other.

use std::collections::BTreeMap;

use cellgate_core::wire::{
    Aal1Header, Aal1Place, Aal1Sequence, CpsPacketHeader, CpsReceiver, CpsUnit, PAYLOAD_LEN,
    SnpVerdict,
};

use super::cell;
use super::line::{Line, Stamp};
use super::pdu::Thread;
use crate::captured::PDUS_MAX;

/// The VCs whose cells are of AAL1 or AAL2; of more than there is room for none is judged.
#[derive(Debug, Default)]
pub(super) struct Streams {
    aal1: BTreeMap<Thread, Aal1Sequence>,
    aal2: BTreeMap<Thread, CpsReceiver>,
}

impl Streams {
    /// Says on a cell's line where its sequence count puts it.
    pub(super) fn aal1(&mut self, thread: Thread, first: u8, line: &mut Line) {
        let (header, verdict) = Aal1Header::parse(first);
        let room = self.aal1.len() < PDUS_MAX || self.aal1.contains_key(&thread);
        if verdict == SnpVerdict::Invalid || !room {
            return;
        }
        let place = self.aal1.entry(thread).or_default().receive(header.sc);
        let (word, missing) = match place {
            Aal1Place::InOrder { missing: 0 } => ("in_order", 0),
            Aal1Place::InOrder { missing } => ("gap", missing),
            Aal1Place::Repeated => ("duplicate", 0),
            Aal1Place::OutOfOrder => ("out_of_order", 0),
        };
        line.field("sequence_verdict", word);
        line.field("sequence_missing", missing);
        match place {
            Aal1Place::InOrder { missing: 0 } => {}
            Aal1Place::InOrder { missing: 1 } => line.say("1 cell LOST before"),
            Aal1Place::InOrder { missing } => line.say(format!("{missing} cells LOST before")),
            Aal1Place::Repeated => line.say("DUPLICATE"),
            Aal1Place::OutOfOrder => line.say("OUT OF ORDER"),
        }
    }

    /// The lines of the packets that a cell completes. What else is in it stands on the cell's
    /// line, which is the last of `lines`.
    pub(super) fn aal2(
        &mut self,
        thread: Thread,
        payload: &[u8; PAYLOAD_LEN],
        stamp: Stamp,
        lines: &mut Vec<Line>,
    ) {
        let room = self.aal2.len() < PDUS_MAX || self.aal2.contains_key(&thread);
        let Some(mut line) = lines.pop().filter(|_| room) else {
            return;
        };
        let mut packets = Vec::new();
        let receiver = self.aal2.entry(thread).or_default();
        let mut lost = 0;
        let in_order = receiver.receive(payload, |unit| match unit {
            CpsUnit::Packet(packet) => packets.push(packet_line(stamp, thread, packet)),
            CpsUnit::Part(octets) => lost = octets,
            CpsUnit::Strays(octets) => {
                line.field("octets_without_beginning", octets);
                line.say(format!("{octets} octets of a packet without its beginning"));
            }
            CpsUnit::Padding(octets) => {
                line.field("padding", octets);
                line.say(format!("{octets} octets of padding"));
            }
            CpsUnit::Unreadable(octets) => {
                line.field("unreadable", octets);
                line.say(format!("{octets} octets behind a wrong header"));
            }
        });
        line.field("sn_in_order", in_order);
        if !in_order {
            line.say("cells LOST before");
        }
        if lost > 0 {
            line.field("octets_without_end", lost);
            line.say(format!("{lost} octets of a packet without its end before"));
        }
        if receiver.held() > 0 {
            line.say(format!(
                "{} octets of a packet that goes on",
                receiver.held()
            ));
        }
        lines.push(line);
        lines.append(&mut packets);
    }

    /// Packets whose end never came.
    pub(super) fn rest(&self) -> impl Iterator<Item = Line> {
        let held = self.aal2.iter().filter(|(_, receiver)| receiver.held() > 0);
        held.map(|(thread, receiver)| {
            let len = receiver.held();
            let mut line = Line::new(thread.after_all(), "part", thread.place(), len);
            line.field("aal", "aal2");
            line.say("aal2 packet without its end");
            line
        })
    }
}

fn packet_line(stamp: Stamp, thread: Thread, packet: &[u8]) -> Line {
    let mut line = Line::new(stamp, "packet", thread.place(), packet.len());
    line.field("aal", "aal2");
    line.field("reassembled", true);
    if let Some(header) = packet.first_chunk::<{ CpsPacketHeader::LEN }>() {
        cell::describe_cps_header(&mut line, *header);
    }
    line
}
