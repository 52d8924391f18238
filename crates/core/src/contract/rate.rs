use core::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use crate::wire::PAYLOAD_LEN;

/// Cells per second, at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CellRate {
    cell_s: NonZeroU32,
}

impl CellRate {
    /// One way of an OC-3c or STM-1: 149.76 Mbit/s of cells, rounded down.
    pub const OC3: Self = Self {
        cell_s: NonZeroU32::new(353_207).expect("not zero"),
    };

    /// `cell_s` cells per second; none for 0, which is no rate.
    pub const fn new(cell_s: u32) -> Option<Self> {
        match NonZeroU32::new(cell_s) {
            Some(cell_s) => Some(Self { cell_s }),
            None => None,
        }
    }

    /// The cells per second that carry `sdu_bit_s` bit/s of AAL5 SDUs of `sdu` octets, rounded up.
    /// None for a rate of 0, an SDU of 0 octets, or more cells/s than 32 bits count.
    pub const fn for_sdu_rate(sdu_bit_s: u64, sdu: u32) -> Option<Self> {
        if sdu_bit_s == 0 || sdu == 0 {
            return None;
        }
        let cells = aal5_cells(sdu) as u128;
        let cell_s = (sdu_bit_s as u128 * cells).div_ceil(8 * sdu as u128);
        if cell_s > u32::MAX as u128 {
            None
        } else {
            Self::new(cell_s as u32)
        }
    }

    /// Cells per second.
    #[inline(always)]
    pub const fn cell_s(self) -> u32 {
        self.cell_s.get()
    }

    /// The rate as a divisor.
    #[inline(always)]
    pub(super) const fn divisor(self) -> NonZeroU32 {
        self.cell_s
    }

    /// Bit/s of AAL5 SDU when every SDU has `sdu` octets, rounded down.
    pub const fn sdu_bit_s(self, sdu: u32) -> u64 {
        // Below 2^67, and at least 48 octets of each cell are SDU or trailer: the result fits.
        (self.cell_s() as u128 * 8 * sdu as u128 / aal5_cells(sdu) as u128) as u64
    }
}

/// Cells of the AAL5 PDU that carries an SDU of `sdu` octets: ceil((sdu + 8) / 48).
pub const fn aal5_cells(sdu: u32) -> u32 {
    (sdu as u64 + 8).div_ceil(PAYLOAD_LEN as u64) as u32
}

/// Cells/s as people read them: 10^6 bit/s of cells' payloads, to the nearest tenth; three digits
/// of what is less than one.
pub fn mbit_s(cell_s: u64) -> String {
    let bit_s = u128::from(cell_s) * 8 * PAYLOAD_LEN as u128;
    match bit_s {
        0 => "0".to_owned(),
        1..1_000_000 => format!("0.{:03}", bit_s / 1_000),
        _ => {
            let tenths = (bit_s + 50_000) / 100_000;
            format!("{}.{}", tenths / 10, tenths % 10)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_carry_48_octets() {
        for (cell_s, told) in [
            (0, "0"),
            (1, "0.000"),
            (1_000, "0.384"),
            (2_604, "0.999"),
            (52_083, "20.0"),
            (353_207, "135.6"),
        ] {
            assert_eq!(mbit_s(cell_s), told);
        }
    }
}
