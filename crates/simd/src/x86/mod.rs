//! The carry-less-multiply folds of x86-64.
//!
//! A block of 16 octets is held as one 128-bit number, first octet most significant, so that bit i
//! is the coefficient of x^i. A block H * x^64 + L that lies n bits ahead of another is added to it
//! as H * (x^(n+64) mod G) + L * (x^n mod G), which fits into 128 bits again.

mod reduce;
mod v3;
mod v4;

use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
use core::ops::Range;

use crate::Kernel;

/// Runs `kernel`, compiled for AVX-512.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,vpclmulqdq")]
#[target_feature(enable = "bmi1,bmi2,lzcnt,popcnt")]
pub(crate) fn run_v4<K: Kernel>(kernel: K) -> K::Output {
    // SAFETY: this function has every feature that the token stands for.
    kernel.run(unsafe { v4::V4::new() })
}

/// Runs `kernel`, compiled for AVX2.
#[target_feature(enable = "avx2,pclmulqdq,bmi1,bmi2,lzcnt,popcnt")]
pub(crate) fn run_v3<K: Kernel>(kernel: K) -> K::Output {
    // SAFETY: this function has every feature that the token stands for.
    kernel.run(unsafe { v3::V3::new() })
}

/// As [`Fold::prefetch`](crate::Fold::prefetch), where no fold is at hand, and of octets that may
/// yet be without a value.
#[inline(always)]
pub fn prefetch<T>(values: &[T], at: usize) {
    if let Some(value) = values.get(at) {
        // SAFETY: SSE is part of x86-64; the hint touches nothing, and the address is valid.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(core::ptr::from_ref(value).cast()) }
    }
}

#[inline(always)]
fn prefetch_value<T>(value: &T, octets: Range<usize>) {
    let first = core::ptr::from_ref(value).cast::<i8>();
    let mut offset = octets.start;
    while offset < octets.end.min(size_of::<T>()) {
        // SAFETY: SSE is part of x86-64; the hint touches nothing, and the address is in `value`.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(first.add(offset)) };
        offset += 64;
    }
}
