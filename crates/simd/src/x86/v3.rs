use core::arch::x86_64::*;
use core::ops::Range;

use super::reduce::{HEAD, ONES, START, last_fold, remainder};
use crate::polynomial::fold_by;
use crate::{Fold, FoldState, Level};

/// Proof that AVX2, PCLMULQDQ and BMI2 may be used.
#[derive(Clone, Copy, Debug)]
pub(super) struct V3(());

impl V3 {
    /// # Safety
    /// The CPU has AVX2, PCLMULQDQ and BMI2 for as long as the value lives.
    #[inline(always)]
    pub(super) unsafe fn new() -> Self {
        Self(())
    }
}

/// Blocks that a long pass folds side by side.
const WIDE: usize = 8;

/// Shuffle controls: 16 octets from 16 - n on put the first n octets, reversed, into the lowest n.
static REVERSED: [u8; 32] = {
    let mut control = [0x80; 32];
    let mut octet = 0;
    while octet < 16 {
        control[octet] = 15 - octet as u8;
        octet += 1;
    }
    control
};

impl V3 {
    #[inline(always)]
    fn factors(self, factors: [u64; 2]) -> __m128i {
        // SAFETY: registers only; SSE2 is part of x86-64.
        unsafe { _mm_set_epi64x(factors[1] as i64, factors[0] as i64) }
    }

    #[inline(always)]
    fn load(self, octets: &[u8; 16]) -> __m128i {
        // SAFETY: 16 octets are there to read; the token stands for SSSE3.
        unsafe {
            let order = _mm_set_epi64x(0x0001_0203_0405_0607, 0x0809_0a0b_0c0d_0e0f);
            _mm_shuffle_epi8(_mm_loadu_si128(octets.as_ptr().cast()), order)
        }
    }

    /// `block`, moved ahead by what `factors` say, without reduction.
    #[inline(always)]
    fn ahead(self, block: __m128i, factors: __m128i) -> __m128i {
        // SAFETY: registers only; the token stands for PCLMULQDQ.
        unsafe {
            _mm_xor_si128(
                _mm_clmulepi64_si128::<0x00>(block, factors),
                _mm_clmulepi64_si128::<0x11>(block, factors),
            )
        }
    }

    #[inline(always)]
    fn add(self, a: __m128i, b: __m128i) -> __m128i {
        // SAFETY: registers only; SSE2 is part of x86-64.
        unsafe { _mm_xor_si128(a, b) }
    }

    #[inline(always)]
    fn lanes(self, state: &FoldState) -> [__m128i; 3] {
        let from = state.0.as_ptr().cast::<__m128i>();
        // SAFETY: the state is 48 octets, aligned to 16.
        unsafe {
            [
                _mm_load_si128(from),
                _mm_load_si128(from.add(1)),
                _mm_load_si128(from.add(2)),
            ]
        }
    }

    #[inline(always)]
    fn set_lanes(self, state: &mut FoldState, lanes: [__m128i; 3]) {
        let to = state.0.as_mut_ptr().cast::<__m128i>();
        // SAFETY: the state is 48 octets, aligned to 16.
        unsafe {
            _mm_store_si128(to, lanes[0]);
            _mm_store_si128(to.add(1), lanes[1]);
            _mm_store_si128(to.add(2), lanes[2]);
        }
    }

    #[inline(always)]
    fn next(self, lanes: [__m128i; 3], payload: &[u8; 48], factors: __m128i) -> [__m128i; 3] {
        let (blocks, _) = payload.as_chunks::<16>();
        let mut next = lanes;
        for (lane, block) in next.iter_mut().zip(blocks) {
            *lane = self.add(self.ahead(*lane, factors), self.load(block));
        }
        next
    }

    /// A block congruent to what `register` stands for, followed by the first
    /// `octets.len() % 16` of `octets`.
    #[inline(always)]
    fn head(self, register: u32, octets: &[u8]) -> __m128i {
        let len = octets.len() % 16;
        let mut short = [0; 16];
        let first = match octets.first_chunk::<16>() {
            Some(first) => first,
            None => {
                short[..len].copy_from_slice(octets);
                &short
            }
        };
        // SAFETY: 0 <= len < 16, so 16 controls from 16 - len on are within the 32; the token
        // stands for SSSE3 and PCLMULQDQ.
        unsafe {
            let order = _mm_loadu_si128(REVERSED.as_ptr().add(16 - len).cast());
            let octets = _mm_shuffle_epi8(_mm_loadu_si128(first.as_ptr().cast()), order);
            let register = _mm_cvtsi64_si128(i64::from(register));
            let power = _mm_cvtsi64_si128(HEAD[len] as i64);
            _mm_xor_si128(octets, _mm_clmulepi64_si128::<0x00>(register, power))
        }
    }

    /// The CRC register, of three lanes that end the message.
    #[inline(always)]
    fn register(self, [first, second, third]: [__m128i; 3]) -> u32 {
        let first = self.ahead(first, self.factors(const { last_fold(256) }));
        let second = self.ahead(second, self.factors(const { last_fold(128) }));
        let third = self.ahead(third, self.factors(const { last_fold(0) }));
        self.remainder(self.add(self.add(first, second), third))
    }

    #[inline(always)]
    fn remainder(self, number: __m128i) -> u32 {
        // SAFETY: the token stands for SSE4.1 and PCLMULQDQ.
        unsafe { remainder(number) }
    }
}

impl Fold for V3 {
    const LEVEL: Level = Level::V3;
    // Both are bound by the multiplications, of which there are as many: a pass gains nothing.
    const ONE_PASS_FROM_CELLS: u16 = u16::MAX;

    #[inline(always)]
    fn start(self, state: &mut FoldState) {
        // In the pieces that the next load takes: the core hands on a store only whole.
        let zero = self.factors([0; 2]);
        self.set_lanes(state, [zero, zero, self.factors(const { START })]);
    }

    #[inline(always)]
    fn cell(self, state: &mut FoldState, payload: &[u8; 48]) {
        let factors = self.factors(const { fold_by(384) });
        let lanes = self.next(self.lanes(state), payload, factors);
        self.set_lanes(state, lanes);
    }

    #[inline(always)]
    fn cells<const STRIDE: usize>(self, state: &mut FoldState, cells: &[[u8; STRIDE]]) {
        let factors = self.factors(const { fold_by(384) });
        let mut lanes = self.lanes(state);
        for cell in cells {
            if let Some(payload) = cell.last_chunk::<48>() {
                lanes = self.next(lanes, payload, factors);
            }
        }
        self.set_lanes(state, lanes);
    }

    #[inline(always)]
    fn finish(self, state: &FoldState) -> u32 {
        self.register(self.lanes(state))
    }

    #[inline(always)]
    fn one_cell(self, payload: &[u8; 48]) -> u32 {
        let zero = self.factors([0; 2]);
        let mut lanes = [self.factors(ONES), zero, zero];
        let (blocks, _) = payload.as_chunks::<16>();
        for (lane, block) in lanes.iter_mut().zip(blocks) {
            *lane = self.add(*lane, self.load(block));
        }
        self.register(lanes)
    }

    #[inline(always)]
    fn resume(self, register: u32, octets: &[u8]) -> u32 {
        let by_one = self.factors(const { fold_by(128) });
        let (blocks, _) = octets[octets.len() % 16..].as_chunks::<16>();
        let (wide, blocks) = blocks.as_chunks::<WIDE>();
        let mut total = self.head(register, octets);
        if let Some((first, wide)) = wide.split_first() {
            let by_wide = self.factors(const { fold_by(128 * WIDE as i32) });
            // No closure: it would be compiled without this level's features.
            let mut lanes = [by_one; WIDE];
            for (lane, block) in lanes.iter_mut().zip(first) {
                *lane = self.load(block);
            }
            lanes[0] = self.add(lanes[0], self.ahead(total, by_one));
            for blocks in wide {
                for (lane, block) in lanes.iter_mut().zip(blocks) {
                    *lane = self.add(self.ahead(*lane, by_wide), self.load(block));
                }
            }
            total = lanes[0];
            for lane in &lanes[1..] {
                total = self.add(self.ahead(total, by_one), *lane);
            }
        }
        for block in blocks {
            total = self.add(self.ahead(total, by_one), self.load(block));
        }
        self.remainder(self.ahead(total, self.factors(const { last_fold(0) })))
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
