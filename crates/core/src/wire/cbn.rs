/// Octets of a cell's data.
pub const DATA_LEN: usize = 34;
/// Octets of a cell: its virtual circuit identifier and its data.
pub const CBN_CELL_LEN: usize = 2 + DATA_LEN;
/// Bits of a slot: a cell, and one bit on either side of it.
pub const SLOT_BITS: usize = 1 + 8 * CBN_CELL_LEN + 1;
/// Octets that hold the bits of a slot.
pub const SLOT_LEN: usize = SLOT_BITS.div_ceil(8);

/// A cell of the Cambridge Fast Ring and the Cambridge Backbone Network, as stations and hosts see
/// it (Greaves, Zielinski 1991, Figure 2).
///
/// ```text
/// octet 0            2                                  36
/// +-----------------+--------------- ... --------------+
/// |       VCI       |              data                |
/// +-----------------+--------------- ... --------------+
///  16                272                                 bits
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CbnCell {
    /// Virtual circuit identifier; 0 is an empty slot's.
    pub vci: u16,
    /// Of MSDL: two octets of fragmentation header and 32 of a block.
    pub data: [u8; DATA_LEN],
}

impl CbnCell {
    /// The content of an empty slot.
    pub const EMPTY: Self = Self {
        vci: 0,
        data: [0; DATA_LEN],
    };

    /// From 36 octets. All octets are some cell.
    pub fn parse(octets: &[u8; CBN_CELL_LEN]) -> Self {
        let [high, low, data @ ..] = *octets;
        Self {
            vci: u16::from_be_bytes([high, low]),
            data,
        }
    }

    /// The 36 octets.
    pub fn emit(&self) -> [u8; CBN_CELL_LEN] {
        let mut octets = [0; CBN_CELL_LEN];
        let (vci, data) = octets.split_at_mut(CBN_CELL_LEN - DATA_LEN);
        vci.copy_from_slice(&self.vci.to_be_bytes());
        data.copy_from_slice(&self.data);
        octets
    }
}

/// A slot as it lies on the ring, without what frames it.
///
/// ```text
/// bit 0      1                 17             289         290
/// +------+-----------------+------- ... -----+----------+
/// | type |       VCI       |      data       | response |
/// +------+-----------------+------- ... -----+----------+
/// ```
///
/// Hardware carries the type bit and sets the response bit; MSDL uses neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CbnSlot {
    /// Carried from end to end.
    pub type_bit: bool,
    pub cell: CbnCell,
    /// Set by the station that took the cell.
    pub response: bool,
}

impl CbnSlot {
    /// From the bits of a slot, the first the highest of the first octet; the six bits behind the
    /// last count for nothing.
    pub fn parse(octets: &[u8; SLOT_LEN]) -> Self {
        let mut cell = [0; CBN_CELL_LEN];
        for (octet, [high, low]) in cell.iter_mut().zip(octets.array_windows()) {
            *octet = high << 1 | low >> 7;
        }
        let [first, .., last] = *octets;
        Self {
            type_bit: first >> 7 != 0,
            cell: CbnCell::parse(&cell),
            response: last >> 6 & 1 != 0,
        }
    }

    /// The bits of the slot, and six zeros behind them.
    pub fn emit(&self) -> [u8; SLOT_LEN] {
        let mut octets = [0; SLOT_LEN];
        let mut before = u8::from(self.type_bit);
        for (octet, cell) in octets.iter_mut().zip(self.cell.emit()) {
            *octet = before << 7 | cell >> 1;
            before = cell & 1;
        }
        let [.., last] = &mut octets;
        *last = before << 7 | u8::from(self.response) << 6;
        octets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Octets of a slot, no two of which are alike.
    fn slot() -> CbnSlot {
        let mut data = [0; DATA_LEN];
        for (octet, at) in data.iter_mut().zip(0x41..) {
            *octet = at;
        }
        CbnSlot {
            type_bit: true,
            cell: CbnCell { vci: 0x1234, data },
            response: true,
        }
    }

    #[test]
    fn a_slot_is_of_290_bits() {
        assert_eq!((SLOT_BITS, SLOT_LEN, CBN_CELL_LEN), (290, 37, 36));
    }

    #[test]
    fn each_bit_of_a_slot_comes_back_from_its_place() {
        let empty = CbnSlot {
            type_bit: false,
            cell: CbnCell::EMPTY,
            response: false,
        };
        assert_eq!(CbnSlot::parse(&empty.emit()), empty);
        for bit in 0..SLOT_BITS {
            let mut octets = [0; SLOT_LEN];
            octets[bit / 8] = 0x80 >> (bit % 8);
            let slot = CbnSlot::parse(&octets);
            assert_eq!(slot.emit(), octets);
            assert_eq!(slot.type_bit, bit == 0);
            assert_eq!(slot.response, bit == SLOT_BITS - 1);
            assert_eq!(slot.cell.vci != 0, (1..17).contains(&bit));
        }
    }

    #[test]
    fn a_slot_and_its_cell_have_the_same_octets() {
        let slot = slot();
        assert_eq!(CbnSlot::parse(&slot.emit()), slot);
        let octets = slot.cell.emit();
        assert_eq!(octets[..4], [0x12, 0x34, 0x41, 0x42]);
        assert_eq!(CbnCell::parse(&octets), slot.cell);
        // The first octet: the type bit and seven bits of the VCI.
        assert_eq!(slot.emit()[..2], [0x80 | 0x12 >> 1, 0x34 >> 1]);
    }
}
