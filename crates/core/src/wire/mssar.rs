use super::PAYLOAD_LEN;
use super::cbn::DATA_LEN;

/// Octets of the fragmentation header.
pub const MSSAR_LEN: usize = 2;
/// Octets of a block that a cell of the Cambridge networks carries.
pub const MSSAR_RING_LEN: usize = DATA_LEN - MSSAR_LEN;
/// Octets of a block that an ATM cell carries: MSDL takes whatever cells a network has.
pub const MSSAR_ATM_LEN: usize = PAYLOAD_LEN - MSSAR_LEN;

/// The first two octets of a cell's data that are a block's, fragmented by the Multi-Service
/// Segmentation and Reassembly (Greaves, Zielinski 1991, Figure 3).
///
/// ```text
/// octet 0            1                  2            2 + D
/// +-----------------+-----+------+-------+----- ... ------+
/// |    Sequence     | RID | Part | Start | D data octets  |
/// +-----------------+-----+------+-------+----- ... ------+
///  8                 6     1      1                         bits
/// ```
///
/// A block is of 1 to 255 cells. Where Part is set, the last data octet tells how many of those
/// before it are the block's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mssar {
    /// Cells of the block from this one on: with Start all of them, 1 with the last.
    pub sequence: u8,
    /// Reassembly identifier: that of all cells of a block, modulo 64.
    pub rid: u8,
    /// Not all data octets are the block's.
    pub part: bool,
    /// The block begins here.
    pub start: bool,
}

impl Mssar {
    /// Reassembly identifiers there are.
    pub const RIDS: u8 = 1 << 6;

    const PART: u8 = 1 << 1;
    const START: u8 = 1;

    /// From two octets. Any two say something.
    #[inline(always)]
    pub const fn parse(octets: [u8; MSSAR_LEN]) -> Self {
        let [sequence, flags] = octets;
        Self {
            sequence,
            rid: flags >> 2,
            part: flags & Self::PART != 0,
            start: flags & Self::START != 0,
        }
    }

    /// The two octets. Of `rid` the low six bits count.
    #[inline(always)]
    pub const fn emit(self) -> [u8; MSSAR_LEN] {
        let part = if self.part { Self::PART } else { 0 };
        let start = if self.start { Self::START } else { 0 };
        [self.sequence, self.rid << 2 | part | start]
    }

    /// Whether the block ends with this cell.
    #[inline(always)]
    pub const fn is_last(self) -> bool {
        self.sequence == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_octets_come_back() {
        for octets in 0..=u16::MAX {
            let octets = octets.to_be_bytes();
            assert_eq!(Mssar::parse(octets).emit(), octets);
        }
    }

    #[test]
    fn fields_lie_where_figure_3_has_them() {
        let first = Mssar {
            sequence: 3,
            rid: 5,
            part: false,
            start: true,
        };
        assert_eq!(first.emit(), [0x03, 0x15]);
        let last = Mssar::parse([0x01, 0x16]);
        assert_eq!((last.rid, last.part, last.start), (5, true, false));
        assert!(last.is_last());
    }
}
