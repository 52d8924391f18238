use serde::{Deserialize, Serialize};

use super::{Checked, Header, HeaderForm, PAYLOAD_LEN, Pti, VpiVci, crc10_is_valid, seal_crc10};

/// Octets of an OAM cell that belong to its function.
pub const OAM_SPECIFIC_LEN: usize = 45;
/// Octets of a location or source identifier.
pub const LOCATION_LEN: usize = 16;
/// What an unused octet holds (I.610).
const UNUSED: u8 = 0x6a;

/// VCI of the segment OAM flow of a virtual path (I.361).
const VCI_F4_SEGMENT: u16 = 3;
/// VCI of the end-to-end OAM flow of a virtual path (I.361).
const VCI_F4_END_TO_END: u16 = 4;

/// Which OAM flow a cell belongs to (I.610, I.361).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OamFlow {
    /// Of a virtual path, within a segment: VCI 3.
    F4Segment,
    /// Of a virtual path, from end to end: VCI 4.
    F4EndToEnd,
    /// Of a virtual channel, within a segment: PTI 4.
    F5Segment,
    /// Of a virtual channel, from end to end: PTI 5.
    F5EndToEnd,
}

impl OamFlow {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::F4Segment,
        Self::F4EndToEnd,
        Self::F5Segment,
        Self::F5EndToEnd,
    ];

    /// The flow of the cell with this header; none if it is no OAM cell.
    pub const fn of(header: Header, form: HeaderForm) -> Option<Self> {
        match Self::of_vci(header.address(form).vci()) {
            None => Self::of_pti(header.pti()),
            path => path,
        }
    }

    /// The flow of a virtual path whose cells have this VCI.
    pub const fn of_vci(vci: u16) -> Option<Self> {
        match vci {
            VCI_F4_SEGMENT => Some(Self::F4Segment),
            VCI_F4_END_TO_END => Some(Self::F4EndToEnd),
            _ => None,
        }
    }

    /// The flow of a virtual channel whose cells have this payload type.
    pub const fn of_pti(pti: Pti) -> Option<Self> {
        match pti {
            Pti::OamSegment => Some(Self::F5Segment),
            Pti::OamEndToEnd => Some(Self::F5EndToEnd),
            Pti::User { .. } | Pti::ResourceManagement | Pti::Reserved => None,
        }
    }

    /// Whether it is a flow of the virtual path, not of one virtual channel.
    pub const fn is_f4(self) -> bool {
        matches!(self, Self::F4Segment | Self::F4EndToEnd)
    }

    /// Where the cells of this flow of the VC `address` travel: on a VC of its path in F4.
    pub const fn address(self, address: VpiVci) -> VpiVci {
        let vci = match self {
            Self::F4Segment => VCI_F4_SEGMENT,
            Self::F4EndToEnd => VCI_F4_END_TO_END,
            Self::F5Segment | Self::F5EndToEnd => address.vci(),
        };
        VpiVci::from_bits((address.vpi() as u32) << 16 | vci as u32)
    }

    /// The header of a cell of this flow of the VC `address`.
    pub const fn header(self, address: VpiVci) -> Header {
        let pti = match self {
            Self::F4Segment | Self::F4EndToEnd => Pti::from_bits(0),
            Self::F5Segment => Pti::OamSegment,
            Self::F5EndToEnd => Pti::OamEndToEnd,
        };
        Header::new(self.address(address), pti, false)
    }

    /// The flow as users read it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F4Segment => "f4_segment",
            Self::F4EndToEnd => "f4_end_to_end",
            Self::F5Segment => "f5_segment",
            Self::F5EndToEnd => "f5_end_to_end",
        }
    }
}

/// The payload of an OAM cell (I.610).
///
/// ```text
///  octet 0           1                                45   46            47
/// +------+----------+-------------- ... --------------+----------+--------+
/// | type | function |   specific to the function      | reserved | CRC-10 |
/// +------+----------+-------------- ... --------------+----------+--------+
///  4 bits  4                      360                      6         10
///
///  type 1 fault management         function 0 AIS, 1 RDI, 4 continuity check, 8 loopback
///       2 performance management            0 forward monitoring, 1 backward reporting
///       5 protection switching              0 group, 1 individual
///       8 activation, deactivation          0 performance monitoring, 1 continuity check
///      15 system management
/// ```
///
/// Unused octets are 6A. The reserved bits are sent as zeros and not looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Oam {
    /// Alarm indication signal: something upstream is broken.
    Ais(Defect),
    /// Remote defect indication: the far end gets AIS, or nothing.
    Rdi(Defect),
    /// Continuity check: sent when there is nothing else to send. Its octets are all unused.
    ContinuityCheck,
    /// A request to send the cell back, or the cell sent back.
    Loopback(Loopback),
    /// Any other type and function.
    Other {
        /// Four bits; emitting ignores the higher ones.
        oam_type: u8,
        /// Four bits; emitting ignores the higher ones.
        function: u8,
        /// As they were on the wire.
        specific: [u8; OAM_SPECIFIC_LEN],
    },
}

/// What AIS and RDI cells carry (I.610).
///
/// ```text
/// octet 1             2                18                46
/// +------------------+----------------+-----------------+
/// | defect type      | defect         | unused          |
/// |                  | location       |                 |
/// +------------------+----------------+-----------------+
///  1 octet            16               28
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Defect {
    /// What is broken; 6A if not told.
    pub defect_type: u8,
    /// Where; all 6A if not told.
    pub location: [u8; LOCATION_LEN],
}

impl Defect {
    /// A defect of which neither type nor place is told.
    pub const UNTOLD: Self = Self {
        defect_type: UNUSED,
        location: [UNUSED; LOCATION_LEN],
    };
}

/// What loopback cells carry (I.610).
///
/// ```text
/// octet 1             2             6             22           38        46
/// +------------+-----+-------------+-------------+------------+---------+
/// | 0000000    | ind | correlation | loopback    | source ID  | unused  |
/// |            |     | tag         | location ID |            |         |
/// +------------+-----+-------------+-------------+------------+---------+
///  7 bits       1     4 octets      16            16           8
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Loopback {
    /// The indication: true on the way out, false on the way back.
    pub request: bool,
    /// Of the sender's choice: matches the cell that comes back with the one that left.
    pub correlation_tag: u32,
    /// Who is to send the cell back.
    pub location: [u8; LOCATION_LEN],
    /// Who sent it; all ones if not told.
    pub source: [u8; LOCATION_LEN],
}

impl Loopback {
    /// Location ID of the end point of the connection or segment.
    pub const END_POINT: [u8; LOCATION_LEN] = [0xff; LOCATION_LEN];
    /// Location ID of every connecting point of a segment, and its end.
    pub const EVERY_POINT: [u8; LOCATION_LEN] = [0; LOCATION_LEN];
    /// Location ID of nobody: the cell is not to be looped.
    pub const NO_POINT: [u8; LOCATION_LEN] = [UNUSED; LOCATION_LEN];
    /// A source that does not tell who it is.
    pub const UNTOLD_SOURCE: [u8; LOCATION_LEN] = [0xff; LOCATION_LEN];

    /// Asks the end point to send the cell back.
    pub const fn request(correlation_tag: u32) -> Self {
        Self {
            request: true,
            correlation_tag,
            location: Self::END_POINT,
            source: Self::UNTOLD_SOURCE,
        }
    }

    /// Whether an end point that is called `own`, if it has a name, is to answer.
    pub fn is_for_end_point(&self, own: Option<&[u8; LOCATION_LEN]>) -> bool {
        let named = own == Some(&self.location) && self.location != Self::NO_POINT;
        let addressed = [Self::END_POINT, Self::EVERY_POINT].contains(&self.location);
        self.request && (named || addressed)
    }

    /// The answer to a request: only the indication differs. None for what is itself an answer, or
    /// two hosts would play it back and forth for ever.
    pub const fn reply(self) -> Option<Self> {
        if !self.request {
            return None;
        }
        Some(Self {
            request: false,
            ..self
        })
    }
}

impl Oam {
    const FAULT: u8 = 1;

    /// From a payload. Every payload is some OAM cell.
    pub fn parse(payload: &[u8; PAYLOAD_LEN]) -> Checked<Self> {
        let [kind, specific @ .., _, _] = *payload;
        let value = match (kind >> 4, kind & 0x0f) {
            (Self::FAULT, 0) => Self::Ais(Defect::parse(&specific)),
            (Self::FAULT, 1) => Self::Rdi(Defect::parse(&specific)),
            (Self::FAULT, 4) => Self::ContinuityCheck,
            (Self::FAULT, 8) => Self::Loopback(Loopback::parse(&specific)),
            (oam_type, function) => Self::Other {
                oam_type,
                function,
                specific,
            },
        };
        Checked {
            value,
            crc_valid: crc10_is_valid(payload),
        }
    }

    /// The payload, with its CRC-10.
    pub fn emit(&self) -> [u8; PAYLOAD_LEN] {
        let mut payload = [UNUSED; PAYLOAD_LEN];
        let [kind, specific @ .., reserved, _] = &mut payload;
        let (oam_type, function) = self.type_and_function();
        *kind = oam_type << 4 | function & 0x0f;
        *reserved = 0;
        match self {
            Self::Ais(defect) | Self::Rdi(defect) => defect.emit(specific),
            Self::ContinuityCheck => {}
            Self::Loopback(loopback) => loopback.emit(specific),
            Self::Other { specific: own, .. } => *specific = *own,
        }
        seal_crc10(&mut payload);
        payload
    }

    /// OAM type and function, four bits each.
    pub const fn type_and_function(&self) -> (u8, u8) {
        match self {
            Self::Ais(_) => (Self::FAULT, 0),
            Self::Rdi(_) => (Self::FAULT, 1),
            Self::ContinuityCheck => (Self::FAULT, 4),
            Self::Loopback(_) => (Self::FAULT, 8),
            Self::Other {
                oam_type, function, ..
            } => (*oam_type & 0x0f, *function & 0x0f),
        }
    }

    /// The function as users read it.
    pub const fn name(&self) -> &'static str {
        match self.type_and_function() {
            (1, 0) => "ais",
            (1, 1) => "rdi",
            (1, 4) => "continuity_check",
            (1, 8) => "loopback",
            (1, _) => "unknown_fault_management",
            (2, 0) => "forward_monitoring",
            (2, 1) => "backward_reporting",
            (2, _) => "unknown_performance_management",
            (5, 0) => "group_protection_switching",
            (5, 1) => "individual_protection_switching",
            (5, _) => "unknown_protection_switching",
            (8, 0) => "performance_monitoring_activation",
            (8, 1) => "continuity_check_activation",
            (8, _) => "unknown_activation",
            (15, _) => "system_management",
            _ => "unknown",
        }
    }
}

impl Defect {
    fn parse(specific: &[u8; OAM_SPECIFIC_LEN]) -> Self {
        let [defect_type, rest @ ..] = specific;
        Self {
            defect_type: *defect_type,
            location: *rest.first_chunk().unwrap_or(&[UNUSED; LOCATION_LEN]),
        }
    }

    fn emit(&self, specific: &mut [u8; OAM_SPECIFIC_LEN]) {
        specific[0] = self.defect_type;
        specific[1..1 + LOCATION_LEN].copy_from_slice(&self.location);
    }
}

impl Loopback {
    fn parse(specific: &[u8; OAM_SPECIFIC_LEN]) -> Self {
        let [indication, t0, t1, t2, t3, ids @ ..] = *specific;
        let mut location = [0; LOCATION_LEN];
        let mut source = [0; LOCATION_LEN];
        location.copy_from_slice(&ids[..LOCATION_LEN]);
        source.copy_from_slice(&ids[LOCATION_LEN..2 * LOCATION_LEN]);
        Self {
            request: indication & 1 != 0,
            correlation_tag: u32::from_be_bytes([t0, t1, t2, t3]),
            location,
            source,
        }
    }

    fn emit(&self, specific: &mut [u8; OAM_SPECIFIC_LEN]) {
        specific[0] = self.request.into();
        specific[1..5].copy_from_slice(&self.correlation_tag.to_be_bytes());
        specific[5..21].copy_from_slice(&self.location);
        specific[21..37].copy_from_slice(&self.source);
    }
}
