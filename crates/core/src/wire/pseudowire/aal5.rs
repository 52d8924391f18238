use super::{CONTROL_WORD_LEN, ControlWord, Sequence, with_sequence};

/// Flags of the control word in AAL5 SDU mode (RFC 4717 section 10.1).
const ADMINISTRATIVE: u8 = 0x08;
const SDU_EFCI: u8 = 0x04;
const SDU_CLP: u8 = 0x02;
const SDU_UU: u8 = 0x01;

/// Bits of the ATM-specific octet in AAL5 PDU mode (RFC 4717 section 11.1).
const FRAME: u8 = 0x80;
const PDU_LAST: u8 = 0x04;
const PDU_EFCI: u8 = 0x02;
const PDU_CLP: u8 = 0x01;

/// What AAL5 SDU mode says of an SDU (RFC 4717 section 10): the control word with T, E, C and U.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SduHeader {
    /// Number of the packet.
    pub sequence: Sequence,
    /// E: the last cell of the PDU met congestion.
    pub efci: bool,
    /// C: one of the cells had low priority.
    pub clp: bool,
    /// U: the least significant bit of CPCS-UU, which Frame Relay interworking uses.
    pub uu: bool,
}

impl SduHeader {
    pub(super) fn of(word: ControlWord) -> Self {
        let flag = |bit| word.flags() & bit != 0;
        Self {
            sequence: word.sequence,
            efci: flag(SDU_EFCI),
            clp: flag(SDU_CLP),
            uu: flag(SDU_UU),
        }
    }

    /// The control word of an SDU of `sdu_len` octets.
    pub fn emit(self, sdu_len: usize) -> [u8; CONTROL_WORD_LEN] {
        let flag = |set: bool, bit| if set { bit } else { 0 };
        let flags = flag(self.efci, SDU_EFCI) | flag(self.clp, SDU_CLP) | flag(self.uu, SDU_UU);
        ControlWord::new(self.sequence)
            .with_flags(flags)
            .with_payload_len(sdu_len)
            .emit()
    }
}

/// The control word (T = 1) of the one administrative cell, OAM for instance, that may stand in
/// the place of an SDU; 52 octets follow, as in N-to-one mode, and as there the length stays 0.
pub fn administrative_cell(sequence: Sequence) -> [u8; CONTROL_WORD_LEN] {
    ControlWord::new(sequence).with_flags(ADMINISTRATIVE).emit()
}

pub(super) fn is_administrative(word: ControlWord) -> bool {
    word.flags() & ADMINISTRATIVE != 0
}

/// What AAL5 PDU mode says of a PDU, or of a part of one (RFC 4717 section 11): control word and
/// ATM-specific octet with M = 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PduHeader {
    /// Number of the packet.
    pub sequence: Sequence,
    /// U: the packet holds the last cell of the PDU.
    pub last: bool,
    /// E: the last cell in the packet met congestion.
    pub efci: bool,
    /// C: one of the cells in the packet had low priority.
    pub clp: bool,
}

impl PduHeader {
    pub(super) fn of(sequence: Sequence, specific: u8) -> Self {
        Self {
            sequence,
            last: specific & PDU_LAST != 0,
            efci: specific & PDU_EFCI != 0,
            clp: specific & PDU_CLP != 0,
        }
    }

    /// The four octets before the PDU or its part, which is a multiple of 48 octets.
    pub fn emit(self) -> [u8; CONTROL_WORD_LEN] {
        let flag = |set: bool, bit| if set { bit } else { 0 };
        let [reserved, s0, s1] = with_sequence(self.sequence);
        let specific =
            FRAME | flag(self.last, PDU_LAST) | flag(self.efci, PDU_EFCI) | flag(self.clp, PDU_CLP);
        [reserved, s0, s1, specific]
    }
}
