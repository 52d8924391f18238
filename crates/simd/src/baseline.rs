use core::ops::Range;

use crc::{CRC_32_BZIP2, Crc, Table};

use crate::{Fold, FoldState, Level};

/// The same polynomial, order and register as I.363.5 under the name that the catalogue gives it.
static CRC_32: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_BZIP2);

/// A table look-up per octet, on any CPU. The state is the CRC register, in its first word.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Baseline;

impl Fold for Baseline {
    const LEVEL: Level = Level::Baseline;
    // Nothing is gained by waiting: the table costs the same per octet whenever it is used.
    const ONE_PASS_FROM_CELLS: u16 = u16::MAX;

    #[inline(always)]
    fn start(self, state: &mut FoldState) {
        state.0[0] = u32::MAX.into();
    }

    #[inline(always)]
    fn cell(self, state: &mut FoldState, payload: &[u8; 48]) {
        state.0[0] = self.resume(state.0[0] as u32, payload).into();
    }

    #[inline(always)]
    fn cells<const STRIDE: usize>(self, state: &mut FoldState, cells: &[[u8; STRIDE]]) {
        for cell in cells {
            if let Some(payload) = cell.last_chunk::<48>() {
                self.cell(state, payload);
            }
        }
    }

    #[inline(always)]
    fn finish(self, state: &FoldState) -> u32 {
        state.0[0] as u32
    }

    #[inline(always)]
    fn resume(self, register: u32, octets: &[u8]) -> u32 {
        let mut digest = CRC_32.digest_with_initial(register);
        digest.update(octets);
        !digest.finalize()
    }

    #[inline(always)]
    fn prefetch(self, _octets: &[u8], _offset: usize) {}

    #[inline(always)]
    fn prefetch_value<T>(self, _value: &T, _octets: Range<usize>) {}
}
