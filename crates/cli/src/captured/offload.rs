//! Datagrams that were captured before a device took them apart. Linux hands equal datagrams of one
//! sender down as one (UDP segmentation offload), and a capture on the sending machine has that
//! one: several packets of a pseudowire, each behind its label.

use cellgate_core::wire::pseudowire::Service;
use cellgate_core::wire::{Carrier, LABEL_ENTRY_LEN, MplsFrame};

use super::pseudowire::is_whole;

/// The packets of a frame, in their order.
#[derive(Clone, Debug)]
pub(crate) struct Packets<'a> {
    rest: Option<MplsFrame<'a>>,
    /// Octets of each but the last, if there is more than one.
    len: Option<usize>,
}

impl<'a> Packets<'a> {
    /// Those of a frame whose first packet, of so many octets, is of this service.
    pub(crate) fn of(frame: MplsFrame<'a>, service: impl Fn(&[u8]) -> Service) -> Self {
        Self {
            rest: Some(frame),
            len: packet_len(&frame, service),
        }
    }
}

impl<'a> Iterator for Packets<'a> {
    type Item = MplsFrame<'a>;

    fn next(&mut self) -> Option<MplsFrame<'a>> {
        let frame = self.rest.take()?;
        let len = self.len.filter(|len| *len < frame.payload.len());
        let Some((payload, behind)) = len.map(|len| frame.payload.split_at(len)) else {
            return Some(frame);
        };
        self.rest = behind.get(LABEL_ENTRY_LEN..).map(|behind| MplsFrame {
            payload: behind,
            ..frame
        });
        Some(MplsFrame { payload, ..frame })
    }
}

/// Octets of the first packet, if the label stands again behind it, and so on to the end, and what
/// is between is whole.
fn packet_len(frame: &MplsFrame<'_>, service: impl Fn(&[u8]) -> Service) -> Option<usize> {
    let is_one = frame.is_channel || frame.missing > 0;
    if is_one || !matches!(frame.carrier, Carrier::Udp { .. }) {
        return None;
    }
    let (entry, octets) = (frame.entry.emit(), frame.payload);
    (1..octets.len()).find(|&len| {
        let (first, behind) = octets.split_at(len);
        if !behind.starts_with(&entry) {
            return false;
        }
        let service = service(first);
        let mut others = behind.chunks(LABEL_ENTRY_LEN + len);
        is_whole(service, len)
            && others.all(|other| {
                let packet = other.strip_prefix(&entry);
                packet.is_some_and(|packet| is_whole(service, packet.len()))
            })
    })
}
