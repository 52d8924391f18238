//! Octets on the wire to values, and back. Parsing never panics; emitting never fails.

mod aal1;
mod aal2;
mod aal34;
mod cbn;
mod cell;
mod crc10;
mod frame;
mod hec;
pub mod llc;
mod mpls;
mod mssar;
mod oam;
mod octets;
mod prefix;
pub mod pseudowire;
mod rm;
mod trailer;
mod ts;
mod udp_ip;

pub use aal1::{Aal1Header, Aal1Place, Aal1Sequence, SnpVerdict};
pub use aal2::{CpsPacketHeader, CpsReceiver, CpsUnit, StartField};
pub use aal34::{CpcsHeader, CpcsTrailer, SAR_PAYLOAD_LEN, SarPci, SarPdu, SegmentType};
pub use cbn::{CBN_CELL_LEN, CbnCell, CbnSlot, DATA_LEN, SLOT_BITS, SLOT_LEN};
pub use cell::{
    AddressError, CELL_LEN, CELL_LEN_NO_HEC, CellFormat, Header, HeaderForm, HeaderKind,
    PAYLOAD_LEN, Pti, VpiVci,
};
pub use crc10::{Checked, crc10, crc10_is_valid, seal_crc10};
pub use frame::{Carrier, Framing, MplsFrame, MplsFrameError, Sender};
pub use hec::{HecMode, HecReceiver, HecVerdict, hec};
pub use mpls::{LABEL_ENTRY_LEN, Label, LabelEntry, LabelStack};
pub use mssar::{MSSAR_ATM_LEN, MSSAR_LEN, MSSAR_RING_LEN, Mssar};
pub use oam::{Defect, LOCATION_LEN, Loopback, OAM_SPECIFIC_LEN, Oam, OamFlow};
pub use octets::{Cell, CellRef};
pub use prefix::Prefix;
pub use pseudowire::{CellMode, CellPseudowire, ControlWord, Pseudowire};
pub use rm::{Rm, RmRate};
pub use trailer::{TRAILER_LEN, Trailer};
pub use ts::{Pcr, Pid, TS_LEN, TS_SYNC, TsAdaptation, TsFault, TsHeader, ticks_to_ns};
pub use udp_ip::{Addresses, IpVersion, MPLS_IN_UDP_LEN_MAX, MPLS_UDP_PORT, MplsInUdp};
