use std::io::{self, Write};

use cellgate_core::aal::aal5::Segmenter;
use cellgate_core::wire::{Cell, Header, Pti, VpiVci};
use cellgate_simd::{Fold, Kernel, with_features};

use super::pcapng::{InterfaceId, Packet, PcapngWriter};
use crate::link::Link;
use crate::record::{Direction, SduKind};
use crate::{erf, sunatm};

/// Octets of the longest CPCS-PDU of AAL5.
const PDU_LEN_MAX: usize = 65_568;

/// What is to be recorded.
#[derive(Clone, Copy, Debug)]
pub enum Item<'a> {
    /// A cell.
    Cell(&'a Cell),
    /// A CPCS-PDU of AAL5 with its trailer.
    Aal5Pdu {
        /// Header of one of its cells.
        header: Header,
        /// The PDU.
        pdu: &'a [u8],
    },
    /// An SDU of AAL5.
    Sdu {
        address: VpiVci,
        /// What it is; [`SduKind::guess`] where nobody knows.
        kind: SduKind,
        /// 1 to 65,535 octets.
        sdu: &'a [u8],
    },
    /// An Ethernet frame without its check sequence.
    Frame(&'a [u8]),
}

/// Records what passes a link, each view on an interface of its own: `sdu` (SunATM), `erf` (ERF)
/// and `wire` (Ethernet). An interface is described when its first item comes.
///
/// An SDU of a VPI above 255 has no place in SunATM: it becomes the PDU of ERF that carries it,
/// with UU, CPI and CLP 0.
#[derive(Debug)]
pub struct Recorder<W> {
    file: PcapngWriter<W>,
    sdu: Option<InterfaceId>,
    erf: Option<InterfaceId>,
    wire: Option<InterfaceId>,
    /// The packet that is being made.
    packet: Vec<u8>,
    /// The PDU of an SDU that goes to ERF.
    pdu: Vec<u8>,
}

impl<W: Write> Recorder<W> {
    /// Starts a file that names `application` as its writer.
    pub fn new(out: W, application: &str) -> io::Result<Self> {
        Ok(Self {
            file: PcapngWriter::new(out, application)?,
            sdu: None,
            erf: None,
            wire: None,
            packet: Vec::new(),
            pdu: Vec::new(),
        })
    }

    /// Records `item`, which passed `time_ns` after 1970 began. A `comment` says what became of
    /// it, if that is worth saying.
    ///
    /// # Errors
    /// Those of the writer, and `InvalidInput` for an SDU that is empty or longer than 65,535
    /// octets.
    pub fn record(
        &mut self,
        time_ns: u64,
        direction: Direction,
        item: Item<'_>,
        comment: Option<&str>,
    ) -> io::Result<()> {
        self.packet.clear();
        let out = &mut self.packet;
        let mut missing = 0;
        let link = match item {
            Item::Frame(_) => Link::ETHERNET,
            Item::Cell(cell) => {
                erf::emit_cell(time_ns, direction, &cell.emit_without_hec(), out);
                Link::Erf
            }
            Item::Aal5Pdu { header, pdu } => {
                erf::emit_pdu(time_ns, direction, header, pdu, out);
                missing = (erf::HEADER_LEN + 4 + pdu.len()).saturating_sub(out.len());
                Link::Erf
            }
            Item::Sdu { address, kind, sdu } => {
                let len = u16::try_from(sdu.len()).unwrap_or_default();
                if len == 0 {
                    return Err(io::ErrorKind::InvalidInput.into());
                }
                if sunatm::emit(direction, kind, address, sdu, out) {
                    Link::SunAtm
                } else {
                    let pdu = seal(&mut self.pdu, sdu, len);
                    let pti = Pti::User {
                        congested: false,
                        last: false,
                    };
                    let header = Header::new(address, pti, false);
                    erf::emit_pdu(time_ns, direction, header, pdu, out);
                    missing = (erf::HEADER_LEN + 4 + pdu.len()).saturating_sub(out.len());
                    Link::Erf
                }
            }
        };
        let interface = self.interface(link)?;
        let packet = Packet {
            time_ns,
            direction,
            octets: match item {
                Item::Frame(frame) => frame,
                _ => &self.packet,
            },
            missing,
            comment,
        };
        self.file.packet(interface, packet)
    }

    /// One more interface, for the cells of one line alone, of this name.
    pub fn line(&mut self, name: &str) -> io::Result<InterfaceId> {
        self.file.interface(Link::Erf, name)
    }

    /// Records a cell, which passed `time_ns` after 1970 began, on an interface that
    /// [`Recorder::line`] gave.
    pub fn record_on(
        &mut self,
        interface: InterfaceId,
        time_ns: u64,
        cell: &Cell,
    ) -> io::Result<()> {
        self.packet.clear();
        let direction = Direction::Unknown;
        erf::emit_cell(
            time_ns,
            direction,
            &cell.emit_without_hec(),
            &mut self.packet,
        );
        let packet = Packet {
            time_ns,
            direction,
            octets: &self.packet,
            missing: 0,
            comment: None,
        };
        self.file.packet(interface, packet)
    }

    /// Hands the writer back, flushed.
    pub fn finish(self) -> io::Result<W> {
        self.file.finish()
    }

    fn interface(&mut self, link: Link) -> io::Result<InterfaceId> {
        let (slot, name) = match link {
            Link::SunAtm => (&mut self.sdu, "sdu"),
            Link::Erf => (&mut self.erf, "erf"),
            _ => (&mut self.wire, "wire"),
        };
        match slot {
            Some(interface) => Ok(*interface),
            None => Ok(*slot.insert(self.file.interface(link, name)?)),
        }
    }
}

/// The PDU of an SDU, in `staging`.
fn seal<'a>(staging: &'a mut Vec<u8>, sdu: &[u8], len: u16) -> &'a [u8] {
    struct Seal<'a>(&'a mut [u8], u16);
    impl Kernel for Seal<'_> {
        type Output = usize;

        fn run<F: Fold>(self, fold: F) -> usize {
            Segmenter::seal(fold, self.0, self.1, 0, 0, Header::default())
                .map_or(0, |segmenter| usize::from(segmenter.cells()) * 48)
        }
    }
    staging.clear();
    staging.extend(sdu);
    staging.resize(PDU_LEN_MAX, 0);
    let len = with_features(Seal(staging, len));
    staging.truncate(len);
    staging
}
