//! Records to cells of 53 octets: what a line would have carried.

use cellgate_capture::{Content, Direction, Record};
use cellgate_core::aal::aal5::Segmenter;
use cellgate_core::wire::pseudowire::PacketContent;
use cellgate_core::wire::{
    CELL_LEN, Cell, CellFormat, Framing, Header, HeaderForm, HecReceiver, MplsFrame, PAYLOAD_LEN,
    Pti, VpiVci,
};
use cellgate_simd::{Fold, Kernel, with_features};
use serde::Serialize;

use super::pseudowire::{self, Labels, Opened};

/// Octets of the longest PDU.
const PDU_LEN_MAX: usize = 65_568;

/// Which records are replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Way {
    /// What came to the host, or may have.
    Received,
    /// What the host sent, or may have.
    Sent,
    /// Everything.
    Both,
}

impl Way {
    fn takes(self, direction: Direction) -> bool {
        match self {
            Self::Received => direction != Direction::Transmit,
            Self::Sent => direction != Direction::Receive,
            Self::Both => true,
        }
    }
}

/// Records that make no cells, and packets of a frame that has several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Skipped {
    /// They went the other way.
    pub(crate) other_way: u64,
    /// Octets of theirs were not captured.
    pub(crate) not_whole: u64,
    /// Nothing says of which VC they are.
    pub(crate) no_address: u64,
    /// Cells of the Cambridge ring, which are no ATM cells.
    pub(crate) ring: u64,
    /// Packets of AAL2, whose cells are not in the capture.
    pub(crate) aal2: u64,
    /// Frames without a pseudowire, or with a packet that is none.
    pub(crate) no_pseudowire: u64,
    /// Packets of a pseudowire's control channel.
    pub(crate) control_channel: u64,
    /// Packets of pseudowires that came twice or too late: their receiver discards them.
    pub(crate) out_of_order: u64,
    /// The capture says that the receiver found an error in them, or the card in its record.
    pub(crate) damaged: u64,
}

/// What never came into the capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Lost {
    /// Records, by the loss counters of the capture.
    pub(crate) records: u64,
    /// Packets of pseudowires, by their numbers.
    pub(crate) packets: u64,
}

/// Makes cells of one record after the other: those of an NNI, as pseudowires carry 12 bits of VPI.
pub(crate) struct Shunter {
    way: Way,
    /// Of what came from elsewhere.
    form: HeaderForm,
    address: Option<VpiVci>,
    labels: Labels,
    /// The cells of the last record.
    cells: Vec<[u8; CELL_LEN]>,
    staging: Vec<u8>,
    pub(crate) records: u64,
    pub(crate) skipped: Skipped,
    pub(crate) lost: Lost,
}

impl Shunter {
    pub(crate) fn new(way: Way, form: HeaderForm, address: Option<VpiVci>, labels: Labels) -> Self {
        Self {
            way,
            form,
            address,
            labels,
            cells: Vec::new(),
            staging: Vec::new(),
            records: 0,
            skipped: Skipped::default(),
            lost: Lost::default(),
        }
    }

    /// The cells of the last record.
    pub(crate) fn cells(&self) -> &[[u8; CELL_LEN]] {
        &self.cells
    }

    /// Makes the cells of `record`.
    pub(crate) fn shunt(&mut self, record: &Record) {
        self.cells.clear();
        self.records += 1;
        let skipped = &mut self.skipped;
        if !self.way.takes(record.direction) {
            skipped.other_way += 1;
            return;
        }
        self.lost.records = self.lost.records.saturating_add(record.marks.lost_before);
        if record.missing > 0 {
            skipped.not_whole += 1;
            return;
        }
        if record.marks.receive_error || record.marks.stream_error {
            skipped.damaged += 1;
            return;
        }
        match &record.content {
            Content::CellWithHec(octets) => self.cell(*octets),
            Content::Cell(octets) => self.cell(Cell::parse_without_hec(octets).emit_with_hec()),
            Content::Aal5Pdu { header, pdu } => {
                let header = Header::from_word(header.word() & !self.gfc_of(*header));
                self.pdu(header, pdu, true);
            }
            // Only where something is missing.
            Content::PartOfCell { .. } => skipped.not_whole += 1,
            Content::RingCell { .. } => skipped.ring += 1,
            Content::Aal2Packet { .. } => skipped.aal2 += 1,
            Content::Sdu { address, sdu, .. } => match address.or(self.address) {
                Some(address) => self.sdu(Header::new(address, USER, false), sdu),
                None => skipped.no_address += 1,
            },
            Content::Frame { framing, octets } => self.frame(*framing, octets, record),
        }
    }

    /// The bits of a header that are the GFC's.
    fn gfc_of(&self, header: Header) -> u32 {
        match self.form {
            HeaderForm::Uni => header.word() & GFC,
            HeaderForm::Nni => 0,
        }
    }

    /// A cell of a line, without its GFC. A damaged header stays as damaged as it was.
    fn cell(&mut self, mut octets: [u8; CELL_LEN]) {
        if let (_, Some(cell)) = Cell::parse_with_hec(&octets, &mut HecReceiver::new()) {
            let gfc = self.gfc_of(cell.header);
            // The HEC of a sum is the sum of the HECs.
            for word in [gfc, 0] {
                let header = Header::from_word(word);
                let sealed = Cell { header, ..cell }.emit_with_hec();
                let header = octets.iter_mut().zip(&sealed[..HEADER_LEN]);
                header.for_each(|(octet, of_gfc)| *octet ^= of_gfc);
            }
        }
        self.cells.push(octets);
    }

    /// Cuts a PDU, or whole payloads of one, into cells with `header`; the last says so if `ends`.
    fn pdu(&mut self, header: Header, octets: &[u8], ends: bool) {
        let (payloads, rest) = octets.as_chunks::<PAYLOAD_LEN>();
        if !rest.is_empty() {
            self.skipped.not_whole += 1;
            return;
        }
        let word = header.word() & !(Header::LAST | Header::NOT_USER);
        for (at, payload) in payloads.iter().enumerate() {
            let last = ends && at + 1 == payloads.len();
            let mark = if last { Header::LAST } else { 0 };
            let cell = Cell {
                header: Header::from_word(word | mark),
                payload: *payload,
            };
            self.cells.push(cell.emit_with_hec());
        }
    }

    fn sdu(&mut self, header: Header, sdu: &[u8]) {
        struct Seal<'a>(&'a mut [u8], u16, Header);
        impl Kernel for Seal<'_> {
            type Output = Option<Segmenter>;

            #[inline(always)]
            fn run<F: Fold>(self, fold: F) -> Option<Segmenter> {
                Segmenter::seal(fold, self.0, self.1, 0, 0, self.2)
            }
        }
        // The reader of captures lets none in that is longer.
        let Ok(len) = u16::try_from(sdu.len()) else {
            self.skipped.not_whole += 1;
            return;
        };
        self.staging.clear();
        self.staging.extend(sdu);
        self.staging.resize(PDU_LEN_MAX, 0);
        let Some(mut segmenter) = with_features(Seal(&mut self.staging, len, header)) else {
            return;
        };
        let before = self.cells.len();
        let cells = before + usize::from(segmenter.cells());
        self.cells.resize(cells, [0; CELL_LEN]);
        let out = self.cells[before..].as_flattened_mut();
        segmenter.emit_cells(&self.staging, CellFormat::WithHec, out);
    }

    fn frame(&mut self, framing: Framing, octets: &[u8], record: &Record) {
        let Ok(frame) = self.labels.find(framing, octets, 0) else {
            self.skipped.no_pseudowire += 1;
            return;
        };
        for packet in self.labels.packets(frame) {
            let skipped = match self.packet(packet, record) {
                Ok(()) => continue,
                Err(NoCells::Address) => &mut self.skipped.no_address,
                Err(NoCells::Pseudowire) => &mut self.skipped.no_pseudowire,
                Err(NoCells::ControlChannel) => &mut self.skipped.control_channel,
                Err(NoCells::OutOfOrder) => &mut self.skipped.out_of_order,
            };
            *skipped += 1;
        }
    }

    fn packet(&mut self, frame: MplsFrame<'_>, record: &Record) -> Result<(), NoCells> {
        if self.labels.channel(&frame).is_some() {
            return Err(NoCells::ControlChannel);
        }
        let opened = self.labels.open(&frame, record.interface, record.direction);
        if opened.place.is_stale() {
            return Err(NoCells::OutOfOrder);
        }
        self.lost.packets += opened.place.missing();
        let vc = self.vc_of(&opened);
        let packet = opened.packet.map_err(|_| NoCells::Pseudowire)?;
        match packet.content {
            PacketContent::Cells(cells) => {
                let address = vc?;
                for mut cell in cells {
                    if let Some(address) = address {
                        let word = address.bits() << 4 | cell.header.word() & 0xf;
                        cell.header = Header::from_word(word);
                    }
                    self.cells.push(cell.emit_with_hec());
                }
            }
            PacketContent::Sdu { header, sdu } => {
                let address = vc?.ok_or(NoCells::Address)?;
                let pti = Pti::User {
                    congested: header.efci,
                    last: false,
                };
                self.sdu(Header::new(address, pti, header.clp), sdu);
            }
            PacketContent::Pdu { header, payloads } => {
                let address = vc?.ok_or(NoCells::Address)?;
                let octets = payloads.as_flattened();
                let pti = Pti::User {
                    congested: header.efci,
                    last: false,
                };
                let ends = pseudowire::ends(header.last, octets);
                self.pdu(Header::new(address, pti, header.clp), octets, ends);
            }
        }
        Ok(())
    }

    /// The VC of a pseudowire of one VC; none where every cell has its own address.
    fn vc_of(&self, opened: &Opened<'_>) -> Result<Option<VpiVci>, NoCells> {
        match opened.known() {
            (true, true) if opened.address.is_none() => Ok(None),
            // The cells have been given the address that the user said.
            (true, true) => Ok(match opened.is_of_one_vc() {
                true => opened.address,
                false => None,
            }),
            (false, false) => self.address.map(Some).ok_or(NoCells::Address),
            _ => Err(NoCells::Address),
        }
    }
}

/// The bits of a header's word that are GFC at the UNI, and of the VPI at the NNI.
const GFC: u32 = 0xf000_0000;
/// Octets of a header and its HEC.
const HEADER_LEN: usize = CELL_LEN - PAYLOAD_LEN;

const USER: Pti = Pti::User {
    congested: false,
    last: false,
};

/// Why a packet makes no cells.
enum NoCells {
    Address,
    Pseudowire,
    ControlChannel,
    OutOfOrder,
}

#[cfg(test)]
mod tests {
    use cellgate_core::wire::HecVerdict;

    use super::*;

    #[test]
    fn a_cell_loses_its_gfc_and_keeps_its_damage() {
        let vc = Header::new(VpiVci::from_bits(3 << 16 | 77), USER, true);
        let with = |form, damage: u64| {
            let header = Header::from_word(vc.word() | 0x9000_0000);
            let payload = [7; PAYLOAD_LEN];
            let mut octets = Cell { header, payload }.emit_with_hec();
            for (octet, bits) in octets.iter_mut().zip(&damage.to_be_bytes()[3..]) {
                *octet ^= bits;
            }
            let mut shunter = Shunter::new(Way::Both, form, None, Labels::default());
            shunter.cell(octets);
            let (verdict, cell) = Cell::parse_with_hec(&shunter.cells[0], &mut HecReceiver::new());
            (verdict, cell.map(|cell| cell.header.word()))
        };
        for bit in 0..40 {
            let (verdict, word) = with(HeaderForm::Uni, 1 << (39 - bit));
            let corrected = HecVerdict::Corrected { bit };
            assert_eq!((verdict, word), (corrected, Some(vc.word())));
        }
        let (verdict, word) = with(HeaderForm::Uni, 0);
        assert_eq!((verdict, word), (HecVerdict::Valid, Some(vc.word())));
        assert_eq!(with(HeaderForm::Uni, 0b11 << 20).0, HecVerdict::Discard);
        let (_, word) = with(HeaderForm::Nni, 0);
        assert_eq!(word, Some(vc.word() | 0x9000_0000));
    }
}
