//! Cells of the Cambridge ring to lines.

use cellgate_capture::RingHeader;
use cellgate_core::wire::{CBN_CELL_LEN, CbnCell, VpiVci};

use super::line::Line;
use super::mssar;
use super::pdu::{Path, Thread};
use super::report::{Origin, Report};

impl Report {
    pub(super) fn ring_cell(
        &mut self,
        origin: Origin,
        header: RingHeader,
        octets: &[u8; CBN_CELL_LEN],
        lines: &mut Vec<Line>,
    ) {
        let cell = CbnCell::parse(octets);
        let interface = match origin.path {
            Path::Interface(interface) | Path::Ring { interface, .. } => interface,
            Path::Label(..) => 0,
        };
        let thread = Thread {
            path: Path::Ring {
                interface,
                channel: header.channel,
            },
            known: (false, true),
            ..origin.thread(VpiVci::from_bits(cell.vci.into()))
        };
        let mut line = Line::new(origin.stamp, "cell", thread.place(), octets.len());
        line.field("cbn_channel", header.channel);
        line.field("cbn_type", header.type_bit);
        line.field("cbn_response", header.response);
        line.field("cbn_vci", cell.vci);
        line.say(format!("ring channel {}", header.channel));
        for (is_set, word) in [(header.type_bit, "type"), (header.response, "response")] {
            if is_set {
                line.say(word);
            }
        }
        if cell.vci == 0 {
            line.say("an empty slot");
            lines.push(line);
            return;
        }
        mssar::describe(&mut line, &cell.data);
        lines.push(line);
        if !origin.is_stale {
            self.blocks.push(thread, &cell.data, origin.stamp, lines);
        }
    }
}
