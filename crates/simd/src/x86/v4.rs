use core::arch::x86_64::*;
use core::ops::Range;

use super::reduce::{HEAD, ONES, START, last_fold, remainder};
use crate::polynomial::fold_by;
use crate::{Fold, FoldState, Level};

/// Proof that AVX-512 (F, BW, DQ, VL, VBMI), VPCLMULQDQ and BMI2 may be used.
#[derive(Clone, Copy, Debug)]
pub(super) struct V4(());

impl V4 {
    /// # Safety
    /// The CPU has AVX-512 (F, BW, DQ, VL, VBMI), VPCLMULQDQ and BMI2.
    #[inline(always)]
    pub(super) unsafe fn new() -> Self {
        Self(())
    }
}

/// The 64-octet registers that a long pass folds side by side.
const WIDE: usize = 4;

/// Which octet of a message each octet of a register holds: reversed in each lane.
static PLACES: [u8; 64] = {
    let mut places = [0; 64];
    let mut octet = 0;
    while octet < 64 {
        places[octet] = octet as u8 ^ 15;
        octet += 1;
    }
    places
};

/// The eight-octet words of a register that a cell or a state fills.
const CELL_WORDS: __mmask8 = 0x3f;

impl V4 {
    /// The same factors (low, high) in each of the four lanes.
    #[inline(always)]
    fn factors(self, factors: [u64; 2]) -> __m512i {
        // SAFETY: registers only; the token stands for AVX-512F.
        unsafe { _mm512_broadcast_i32x4(_mm_set_epi64x(factors[1] as i64, factors[0] as i64)) }
    }

    /// Factors (low, high) for each of the four lanes.
    #[inline(always)]
    fn last_factors(self, factors: &'static [[u64; 2]; 4]) -> __m512i {
        // SAFETY: 64 octets are there to read; the token stands for AVX-512F.
        unsafe { _mm512_loadu_epi64(factors.as_ptr().cast()) }
    }

    /// Octets reversed in each lane.
    #[inline(always)]
    fn reversed(self, octets: __m512i) -> __m512i {
        // SAFETY: registers only; the token stands for AVX-512BW.
        unsafe {
            let order = _mm_set_epi64x(0x0001_0203_0405_0607, 0x0809_0a0b_0c0d_0e0f);
            _mm512_shuffle_epi8(octets, _mm512_broadcast_i32x4(order))
        }
    }

    #[inline(always)]
    fn load(self, octets: &[u8; 64]) -> __m512i {
        // SAFETY: 64 octets are there to read; the token stands for AVX-512F.
        self.reversed(unsafe { _mm512_loadu_epi64(octets.as_ptr().cast()) })
    }

    #[inline(always)]
    fn load_cell(self, payload: &[u8; 48]) -> __m512i {
        // SAFETY: the mask leaves 48 octets, all there to read; the token stands for AVX-512F.
        self.reversed(unsafe { _mm512_maskz_loadu_epi64(CELL_WORDS, payload.as_ptr().cast()) })
    }

    /// `blocks`, moved ahead by what `factors` say, without reduction, and `more` added.
    #[inline(always)]
    fn ahead(self, blocks: __m512i, factors: __m512i, more: __m512i) -> __m512i {
        // SAFETY: registers only; the token stands for AVX-512F and VPCLMULQDQ.
        unsafe {
            let low = _mm512_clmulepi64_epi128::<0x00>(blocks, factors);
            let high = _mm512_clmulepi64_epi128::<0x11>(blocks, factors);
            _mm512_ternarylogic_epi64::<0x96>(low, high, more)
        }
    }

    /// The state as two lanes and one. It is never stored under a mask: a load soon after would
    /// wait until the store has left the core.
    #[inline(always)]
    fn lanes(self, state: &FoldState) -> (__m256i, __m128i) {
        let from = state.0.as_ptr();
        // SAFETY: 32 and 16 of the 48 octets of the state; the token stands for AVX.
        unsafe {
            (
                _mm256_loadu_si256(from.cast()),
                _mm_load_si128(from.add(4).cast()),
            )
        }
    }

    #[inline(always)]
    fn set_lanes(self, state: &mut FoldState, two: __m256i, one: __m128i) {
        let to = state.0.as_mut_ptr();
        // SAFETY: 32 and 16 of the 48 octets of the state; the token stands for AVX.
        unsafe {
            _mm256_storeu_si256(to.cast(), two);
            _mm_store_si128(to.add(4).cast(), one);
        }
    }

    /// [`V4::ahead`] for the lanes of a state.
    #[inline(always)]
    fn lanes_ahead(
        self,
        (two, one): (__m256i, __m128i),
        factors: __m512i,
        more: (__m256i, __m128i),
    ) -> (__m256i, __m128i) {
        // SAFETY: registers only; the token stands for AVX-512VL and VPCLMULQDQ.
        unsafe {
            let by_two = _mm512_castsi512_si256(factors);
            let low = _mm256_clmulepi64_epi128::<0x00>(two, by_two);
            let high = _mm256_clmulepi64_epi128::<0x11>(two, by_two);
            let two = _mm256_ternarylogic_epi64::<0x96>(low, high, more.0);
            let by_one = _mm512_extracti32x4_epi32::<2>(factors);
            let low = _mm_clmulepi64_si128::<0x00>(one, by_one);
            let high = _mm_clmulepi64_si128::<0x11>(one, by_one);
            (two, _mm_ternarylogic_epi64::<0x96>(low, high, more.1))
        }
    }

    #[inline(always)]
    fn cell_lanes(self, payload: &[u8; 48]) -> (__m256i, __m128i) {
        // SAFETY: 32 and 16 of the 48 octets of the payload; the token stands for AVX2.
        unsafe {
            let order = _mm_set_epi64x(0x0001_0203_0405_0607, 0x0809_0a0b_0c0d_0e0f);
            let two = _mm256_loadu_si256(payload.as_ptr().cast());
            let one = _mm_loadu_si128(payload.as_ptr().add(32).cast());
            let two = _mm256_shuffle_epi8(two, _mm256_broadcastsi128_si256(order));
            (two, _mm_shuffle_epi8(one, order))
        }
    }

    /// A run of cells in whole registers. Two sums take turns, so that no cell waits for the
    /// product of the one before it.
    #[inline(always)]
    fn run<const STRIDE: usize>(self, blocks: __m512i, cells: &[[u8; STRIDE]]) -> __m512i {
        let by_one = self.factors(const { fold_by(384) });
        let by_two = self.factors(const { fold_by(768) });
        let (pairs, odd) = cells.as_chunks::<2>();
        let mut sum = blocks;
        if let Some(([a, b], pairs)) = pairs.split_first() {
            let mut even = self.ahead(sum, by_one, self.load_cell(payload(a)));
            let mut odd = self.load_cell(payload(b));
            for [a, b] in pairs {
                even = self.ahead(even, by_two, self.load_cell(payload(a)));
                odd = self.ahead(odd, by_two, self.load_cell(payload(b)));
            }
            sum = self.ahead(even, by_one, odd);
        }
        for cell in odd {
            sum = self.ahead(sum, by_one, self.load_cell(payload(cell)));
        }
        sum
    }

    /// The CRC register, of four lanes that `factors` bring to the end of the message.
    #[inline(always)]
    fn register(self, blocks: __m512i, factors: &'static [[u64; 2]; 4]) -> u32 {
        // SAFETY: registers only; the token stands for AVX-512F and PCLMULQDQ.
        unsafe {
            let moved = self.ahead(blocks, self.last_factors(factors), _mm512_setzero_si512());
            let two = _mm256_xor_si256(
                _mm512_castsi512_si256(moved),
                _mm512_extracti64x4_epi64::<1>(moved),
            );
            let one = _mm_xor_si128(
                _mm256_castsi256_si128(two),
                _mm256_extracti128_si256::<1>(two),
            );
            remainder(one)
        }
    }

    /// Blocks congruent to what `register` stands for, followed by the first
    /// `octets.len() % 64` of `octets`.
    #[inline(always)]
    fn head(self, register: u32, octets: &[u8]) -> __m512i {
        let len = octets.len() % 64;
        // SAFETY: 64 octets are there to read, or the mask leaves the `len` that are; the token
        // stands for AVX-512 and PCLMULQDQ.
        unsafe {
            let octets = match octets.first_chunk::<64>() {
                Some(first) => _mm512_loadu_epi8(first.as_ptr().cast()),
                None => _mm512_maskz_loadu_epi8((1 << len) - 1, octets.as_ptr().cast()),
            };
            // To the end of the register. A load that ends there instead could begin in a page
            // that is not mapped; masks make that sound, but it takes hundreds of cycles.
            let places = _mm512_loadu_epi8(PLACES.as_ptr().cast());
            let skipped = _mm512_set1_epi8(64 - len as i8);
            let filled = _mm512_cmpge_epu8_mask(places, skipped);
            let from = _mm512_sub_epi8(places, skipped);
            let octets = _mm512_maskz_permutexvar_epi8(filled, from, octets);
            let register = _mm_cvtsi64_si128(i64::from(register));
            let power = _mm_cvtsi64_si128(HEAD[len] as i64);
            let before = _mm_clmulepi64_si128::<0x00>(register, power);
            // The product belongs to the last lane.
            let before = _mm512_inserti64x2::<3>(_mm512_setzero_si512(), before);
            _mm512_xor_si512(octets, before)
        }
    }
}

/// For a state: 48 octets in the first three lanes.
static LAST_48: [[u64; 2]; 4] = [last_fold(256), last_fold(128), last_fold(0), [0; 2]];
/// For 64 octets.
static LAST_64: [[u64; 2]; 4] = [last_fold(384), last_fold(256), last_fold(128), last_fold(0)];

impl Fold for V4 {
    const LEVEL: Level = Level::V4;
    // Measured: cell by cell is ahead up to 15 cells, one pass from 32 cells on (a tenth in long
    // runs, more where the cells of several VCs alternate).
    const ONE_PASS_FROM_CELLS: u16 = 24;

    #[inline(always)]
    fn start(self, state: &mut FoldState) {
        // SAFETY: registers only; the token stands for AVX.
        let (two, one) = unsafe {
            (
                _mm256_setzero_si256(),
                _mm512_castsi512_si128(self.factors(const { START })),
            )
        };
        self.set_lanes(state, two, one);
    }

    #[inline(always)]
    fn cell(self, state: &mut FoldState, payload: &[u8; 48]) {
        let factors = self.factors(const { fold_by(384) });
        let (two, one) = self.lanes_ahead(self.lanes(state), factors, self.cell_lanes(payload));
        self.set_lanes(state, two, one);
    }

    #[inline(always)]
    fn cells<const STRIDE: usize>(self, state: &mut FoldState, cells: &[[u8; STRIDE]]) {
        if let [cell] = cells {
            return self.cell(state, payload(cell));
        }
        let (two, one) = self.lanes(state);
        // SAFETY: registers only; the token stands for AVX-512F.
        unsafe {
            let blocks = _mm512_inserti32x4::<2>(_mm512_zextsi256_si512(two), one);
            let blocks = self.run(blocks, cells);
            let two = _mm512_castsi512_si256(blocks);
            self.set_lanes(state, two, _mm512_extracti32x4_epi32::<2>(blocks));
        }
    }

    #[inline(always)]
    fn finish(self, state: &FoldState) -> u32 {
        let (two, one) = self.lanes(state);
        // SAFETY: registers only; the token stands for AVX-512F.
        let blocks = unsafe { _mm512_inserti32x4::<2>(_mm512_zextsi256_si512(two), one) };
        self.register(blocks, &LAST_48)
    }

    #[inline(always)]
    fn one_cell(self, payload: &[u8; 48]) -> u32 {
        let octets = self.load_cell(payload);
        // SAFETY: registers only; the token stands for AVX-512F.
        let blocks = unsafe {
            let ones = _mm_set_epi64x(ONES[1] as i64, ONES[0] as i64);
            _mm512_xor_si512(octets, _mm512_zextsi128_si512(ones))
        };
        self.register(blocks, &LAST_48)
    }

    #[inline(always)]
    fn resume(self, register: u32, octets: &[u8]) -> u32 {
        let by_one = self.factors(const { fold_by(512) });
        let (blocks, _) = octets[octets.len() % 64..].as_chunks::<64>();
        let (wide, blocks) = blocks.as_chunks::<WIDE>();
        let mut total = self.head(register, octets);
        if let Some((first, wide)) = wide.split_first() {
            let by_wide = self.factors(const { fold_by(512 * WIDE as i32) });
            let [a, b, c, d] = first;
            let mut sums = [self.load(a), self.load(b), self.load(c), self.load(d)];
            sums[0] = self.ahead(total, by_one, sums[0]);
            for blocks in wide {
                for (sum, block) in sums.iter_mut().zip(blocks) {
                    *sum = self.ahead(*sum, by_wide, self.load(block));
                }
            }
            total = sums[0];
            for sum in &sums[1..] {
                total = self.ahead(total, by_one, *sum);
            }
        }
        for block in blocks {
            total = self.ahead(total, by_one, self.load(block));
        }
        self.register(total, &LAST_64)
    }

    #[inline(always)]
    fn prefetch(self, octets: &[u8], offset: usize) {
        super::prefetch(octets, offset);
    }

    #[inline(always)]
    fn prefetch_value<T>(self, value: &T, octets: Range<usize>) {
        super::prefetch_value(value, octets);
    }
}

/// The payload of a cell of `STRIDE` octets: its last 48.
#[inline(always)]
fn payload<const STRIDE: usize>(cell: &[u8; STRIDE]) -> &[u8; 48] {
    const { assert!(STRIDE >= 48) }
    cell.last_chunk().expect("a cell has at least 48 octets")
}
