//! Pseudowires in frames: what the user says of a label, or a guess.

use std::collections::BTreeMap;
use std::str::FromStr;

use cellgate_capture::Direction;
use cellgate_core::contract::aal5_cells;
use cellgate_core::wire::pseudowire::{
    CONTROL_WORD_LEN, CellMode, ChannelHeader, Packet, Pseudowire, PseudowireError, Service,
};
use cellgate_core::wire::{
    CELL_LEN_NO_HEC, Framing, MplsFrame, MplsFrameError, PAYLOAD_LEN, Sender, TRAILER_LEN, Trailer,
    VpiVci,
};

use super::offload::Packets;
use super::sequence::{Numbers, SequencePlace};

/// `label=mode[@vpi.vci]`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PwOption {
    label: u32,
    service: Service,
    address: Option<VpiVci>,
}

impl FromStr for PwOption {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (label, rest) = text.split_once('=').ok_or("expected label=mode")?;
        let label = label
            .parse()
            .ok()
            .filter(|label| *label <= 0xf_ffff)
            .ok_or_else(|| format!("{label}: a label is a number up to 1048575"))?;
        let (mode, address) = match rest.split_once('@') {
            Some((mode, address)) => (mode, Some(address)),
            None => (rest, None),
        };
        let service = mode.parse().map_err(|e| format!("{mode}: {e}"))?;
        let address = address
            .map(|text| text.parse().map_err(|e| format!("{text}: {e}")))
            .transpose()?;
        Ok(Self {
            label,
            service,
            address,
        })
    }
}

/// What is known of every label.
#[derive(Clone, Debug, Default)]
pub(crate) struct Labels {
    options: BTreeMap<u32, PwOption>,
    /// What the first packet of each other label looked like: later ones are taken for the same.
    guesses: BTreeMap<u32, Service>,
    /// UDP ports that carry MPLS beside the usual one.
    ports: Vec<u16>,
    numbers: Numbers,
}

/// Whose packets belong together: those that one end sent, where they were captured at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct End {
    /// The interface of the capture, and the one that a cooked frame names.
    interfaces: (u32, u32),
    sender: Sender,
}

impl End {
    pub(crate) const fn of(frame: &MplsFrame<'_>, interface: u32) -> Self {
        Self {
            interfaces: (interface, frame.interface),
            sender: frame.sender,
        }
    }
}

/// A packet of a control channel (RFC 5085): it carries no cells.
#[derive(Debug)]
pub(crate) struct Channel {
    /// What the label stack alone says where it is none.
    pub(crate) header: Option<ChannelHeader>,
    /// The first four bits, which say what follows where there is no header.
    pub(crate) first_nibble: u8,
}

/// A packet of a pseudowire.
#[derive(Debug)]
pub(crate) struct Opened<'a> {
    /// What the packet is taken for.
    pub(crate) service: Service,
    /// Nobody said so.
    pub(crate) guessed: bool,
    /// The VC of a pseudowire that does not send it, if the user has said it.
    pub(crate) address: Option<VpiVci>,
    /// Where its number puts it.
    pub(crate) place: SequencePlace,
    /// What it holds, as far as it was kept.
    pub(crate) packet: Result<Packet<'a>, PseudowireError>,
}

impl Labels {
    pub(crate) fn new(options: &[PwOption], ports: &[u16]) -> Self {
        let options = options.iter().map(|option| (option.label, *option));
        Self {
            options: options.collect(),
            ports: ports.to_vec(),
            ..Self::default()
        }
    }

    /// The packet in a frame of which the last `missing` octets were not kept.
    pub(crate) fn find<'a>(
        &self,
        framing: Framing,
        octets: &'a [u8],
        missing: usize,
    ) -> Result<MplsFrame<'a>, MplsFrameError> {
        MplsFrame::find(framing, octets, missing, &self.ports)
    }

    /// The packets in a frame: nearly always one.
    pub(crate) fn packets<'a>(&self, frame: MplsFrame<'a>) -> Packets<'a> {
        let known = self.known(frame.entry.label().value());
        Packets::of(frame, |packet| {
            known.unwrap_or_else(|| guess(packet, packet.len()))
        })
    }

    /// The service of a label's packets: the user has said it, or it is guessed.
    fn known(&self, label: u32) -> Option<Service> {
        let said = self.options.get(&label).map(|option| option.service);
        said.or_else(|| self.guesses.get(&label).copied())
    }

    /// The control channel that a frame's packet is of, if it is of one.
    pub(crate) fn channel(&self, frame: &MplsFrame<'_>) -> Option<Channel> {
        let first_nibble = frame.payload.first().map_or(0, |first| first >> 4);
        let header = ChannelHeader::parse(frame.payload).map(|(header, _)| header);
        let channel = |header| Channel {
            header,
            first_nibble,
        };
        if frame.is_channel {
            return Some(channel(header));
        }
        let header = header?;
        let label = frame.entry.label().value();
        let said = self.options.get(&label).map(|option| option.service);
        // Without control word a packet begins with a VPI, which may be 256 or more.
        let is_cell = frame.packet_len().is_multiple_of(CELL_LEN_NO_HEC) && !header.is_likely();
        match (said, self.known(label)) {
            (Some(Service::Cells(CellMode::PLAIN)), _) => None,
            (None, Some(Service::Cells(CellMode::PLAIN)) | None) if is_cell => None,
            _ => Some(channel(Some(header))),
        }
    }

    /// Opens the packet of a frame that was captured on an interface and went this way.
    pub(crate) fn open<'a>(
        &mut self,
        frame: &MplsFrame<'a>,
        interface: u32,
        way: Direction,
    ) -> Opened<'a> {
        let label = frame.entry.label().value();
        let option = self.options.get(&label);
        let service = option.map(|option| option.service).unwrap_or_else(|| {
            let guesses = &mut self.guesses;
            let guess = || guess(frame.payload, frame.packet_len());
            *guesses.entry(label).or_insert_with(guess)
        });
        let address = option.and_then(|option| option.address);
        let pseudowire = Pseudowire {
            service,
            address: address.unwrap_or_default(),
        };
        let packet = pseudowire.parse(match frame.missing {
            0 => frame.payload,
            _ => whole_cells(service, frame.payload),
        });
        let sequence = packet.as_ref().map(|packet| packet.sequence);
        let place = sequence.map_or(SequencePlace::Unnumbered, |sequence| {
            self.numbers
                .judge((End::of(frame, interface), way, label), sequence)
        });
        Opened {
            service,
            guessed: option.is_none(),
            address,
            place,
            packet,
        }
    }
}

/// Octets of a packet's header, and of each unit behind it.
const fn layout(service: Service) -> (usize, usize) {
    match service {
        Service::Cells(mode) => (mode.header_len(), mode.stride()),
        Service::Aal5Pdu => (CONTROL_WORD_LEN, PAYLOAD_LEN),
        Service::Aal5Sdu => (CONTROL_WORD_LEN, 1),
    }
}

/// Whether a packet may be so long.
pub(super) const fn is_whole(service: Service, len: usize) -> bool {
    let (header, stride) = layout(service);
    len > header && (len - header).is_multiple_of(stride)
}

/// As much of a packet that was not kept whole as are whole cells.
fn whole_cells(service: Service, packet: &[u8]) -> &[u8] {
    let (header, stride) = layout(service);
    let cells = packet.len().saturating_sub(header) / stride;
    packet.get(..header + cells * stride).unwrap_or(packet)
}

impl Opened<'_> {
    /// Whether all it carries is of one VC.
    pub(crate) const fn is_of_one_vc(&self) -> bool {
        !matches!(
            self.service,
            Service::Cells(CellMode::NToOne { .. } | CellMode::OneToOneVpc)
        )
    }

    /// How much of a cell's address is its own: VPI, VCI.
    pub(crate) const fn known(&self) -> (bool, bool) {
        match self.service {
            Service::Cells(CellMode::NToOne { .. }) => (true, true),
            Service::Cells(CellMode::OneToOneVpc) => (self.address.is_some(), true),
            _ => (self.address.is_some(), self.address.is_some()),
        }
    }
}

/// What a packet looks like. Nothing in it tells, but the modes differ in the lengths they allow
/// and in bits that must be 0. One cell with control octets (3 + 49) is as long as one without
/// (52): it is taken for the former if those bits say nothing against it. Of `len` octets `packet`
/// is what was kept.
fn guess(packet: &[u8], len: usize) -> Service {
    let n_to_one = |control_word| Service::Cells(CellMode::NToOne { control_word });
    // The ATM-specific octet in front of every cell.
    let all = |mode: CellMode, mask: u8, wanted: u8| {
        let cells = packet.get(mode.header_len()..).unwrap_or_default();
        let mut firsts = cells.chunks(mode.stride()).filter_map(<[u8]>::first);
        is_whole(Service::Cells(mode), len) && firsts.all(|first| first & mask == wanted)
    };
    let [first, second, _, fourth, ..] = packet else {
        return n_to_one(false);
    };
    let rest_len = len - CONTROL_WORD_LEN;
    let numbered = *first == 0;
    // Administrative cell: T of the control word, whose other flags and length are 0.
    if *first == 0x08 && *second == 0 && rest_len == CELL_LEN_NO_HEC {
        return Service::Aal5Sdu;
    }
    if numbered && all(CellMode::OneToOneVcc, 0xf0, 0) {
        return Service::Cells(CellMode::OneToOneVcc);
    }
    if numbered && all(CellMode::OneToOneVpc, 0xf0, 0x40) {
        return Service::Cells(CellMode::OneToOneVpc);
    }
    if is_whole(n_to_one(false), len) {
        return n_to_one(false);
    }
    if numbered && *second == 0 && is_whole(n_to_one(true), len) {
        return n_to_one(true);
    }
    if numbered && is_whole(Service::Aal5Pdu, len) && fourth & 0xf8 == 0x80 {
        return Service::Aal5Pdu;
    }
    if first >> 4 == 0 && rest_len > 0 {
        return Service::Aal5Sdu;
    }
    n_to_one(false)
}

/// Whether a part of a PDU ends it: it says so, or what it ends in is a trailer of its length.
pub(crate) fn ends(last: bool, pdu: &[u8]) -> bool {
    let trailer = pdu.last_chunk::<TRAILER_LEN>();
    last || trailer.is_some_and(|trailer| fits(pdu, Trailer::parse(*trailer)))
}

/// Whether the length of a trailer belongs to a PDU of so many cells.
pub(crate) fn fits(pdu: &[u8], trailer: Trailer) -> bool {
    let cells = aal5_cells(trailer.length.into()) as usize;
    trailer.length != 0 && cells * PAYLOAD_LEN == pdu.len()
}
