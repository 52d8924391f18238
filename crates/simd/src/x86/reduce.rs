use core::arch::x86_64::*;

use crate::polynomial::{GENERATOR, QUOTIENT, power_of_x, times_power_of_x};

/// The last block of a state that no cell has entered: what makes a register of ones of the first
/// 32 bits that follow.
pub(super) const START: [u64; 2] = [times_power_of_x(u32::MAX, -32), 0];

/// What a register of ones adds to the first block of a PDU, (low, high).
pub(super) const ONES: [u64; 2] = [0, 0xffff_ffff << 32];

/// The factors (low, high) that bring a block which lies `bits` ahead of the end below x^96, with
/// the multiplication by x^32 that a CRC register has over the remainder.
pub(super) const fn last_fold(bits: i32) -> [u64; 2] {
    [power_of_x(bits + 32), power_of_x(bits + 96)]
}

/// x^(8 * octets - 32) modulo the generator for 0..=63 octets: what multiplies the register that
/// precedes a head of that many octets.
pub(super) static HEAD: [u64; 64] = {
    let mut powers = [0; 64];
    let mut octets = 0;
    while octets < 64 {
        powers[octets] = power_of_x(8 * octets as i32 - 32);
        octets += 1;
    }
    powers
};

/// The remainder of a number below x^96, by Barrett: the quotient is `number / x^32` times
/// `x^96 / G`, divided by x^64, exactly.
///
/// # Safety
/// The CPU has SSE4.1 and PCLMULQDQ.
#[inline(always)]
pub(super) unsafe fn remainder(number: __m128i) -> u32 {
    // SAFETY: the caller's promise; registers only.
    unsafe {
        let factors = _mm_set_epi64x(GENERATOR as u32 as i64, QUOTIENT as i64);
        let leading = _mm_srli_si128::<4>(number);
        let product = _mm_clmulepi64_si128::<0x00>(leading, factors);
        // QUOTIENT lacks its leading x^64: add that part of the product to the upper half.
        let quotient = _mm_xor_si128(product, _mm_slli_si128::<8>(leading));
        let multiple = _mm_clmulepi64_si128::<0x11>(quotient, factors);
        _mm_cvtsi128_si32(_mm_xor_si128(number, multiple)) as u32
    }
}
