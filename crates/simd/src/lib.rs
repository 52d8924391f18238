//! CPU features, chosen once per burst of cells instead of once per call.
//!
//! A [`Kernel`] is a whole loop; [`with_features`] compiles it once per CPU level and runs the best
//! one that this CPU has. Inside, a [`Fold`] value is the proof that its instructions may be used,
//! so the loop itself stays free of `unsafe`.
//!
//! The CRC is that of AAL5 (I.363.5): generator 04C11DB7, most significant bit first, register
//! preset to ones, sent complemented. Every register here is the one *before* the complement;
//! over a whole PDU, its own CRC included, it is [`RESIDUE`].

mod baseline;
mod level;
#[cfg(target_arch = "x86_64")]
mod polynomial;
#[cfg(target_arch = "x86_64")]
mod x86;

use core::ops::Range;

pub use level::{Level, with_features, with_level};
#[cfg(target_arch = "x86_64")]
pub use x86::prefetch;

/// As [`Fold::prefetch`], where no fold is at hand, and of octets that may yet be without a value.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub fn prefetch<T>(_values: &[T], _at: usize) {}

/// The CRC register over a PDU that ends in its own CRC (I.363.5).
pub const RESIDUE: u32 = 0xc704_dd7b;

/// The AAL5 CRC-32 of a PDU in progress, in whatever form the [`Fold`] in use keeps it.
///
/// 48 octets: one cell payload. The PDU so far has the same remainder as this block would have.
/// A state must be continued at the [`Level`] that started it; at another one its CRC is wrong
/// (nothing worse). [`Fold::start`] makes one; the default is no start of a PDU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(16))]
pub struct FoldState(pub [u64; 6]);

/// The CRC-32 of I.363.5 carried from cell to cell.
pub trait Fold: Copy {
    /// The CPU features in use.
    const LEVEL: Level;
    /// Whether one pass over a PDU at its end costs less than folding it cell by cell,
    /// from how many cells on (`u16::MAX`: never).
    const ONE_PASS_FROM_CELLS: u16;
    /// Sets `state` to what precedes the first cell of a PDU.
    fn start(self, state: &mut FoldState);
    /// Takes one cell payload in.
    fn cell(self, state: &mut FoldState, payload: &[u8; 48]);
    /// Takes in the last 48 octets of each of `cells` (52 or 53 octets), in order.
    fn cells<const STRIDE: usize>(self, state: &mut FoldState, cells: &[[u8; STRIDE]]);
    /// The CRC register (before the final complement) after the cells taken in so far.
    fn finish(self, state: &FoldState) -> u32;
    /// The CRC register (before the final complement) over the one cell payload of a PDU.
    #[inline(always)]
    fn one_cell(self, payload: &[u8; 48]) -> u32 {
        self.one_pass(payload)
    }
    /// The CRC register (before the final complement) over `octets` in one pass, of any length.
    #[inline(always)]
    fn one_pass(self, octets: &[u8]) -> u32 {
        self.resume(u32::MAX, octets)
    }
    /// The CRC register after `octets`, of any length, from the register before them.
    fn resume(self, register: u32, octets: &[u8]) -> u32;
    /// Asks the CPU to bring the cache line at `offset` of `octets` nearer, to be written or read
    /// soon. Beyond the end of `octets`, and where the CPU has no such hint, does nothing.
    fn prefetch(self, octets: &[u8], offset: usize);
    /// The same for the cache lines of these octets of `value`, without a look at it.
    fn prefetch_value<T>(self, value: &T, octets: Range<usize>);
}

/// A loop to be compiled for several CPU levels. `run` and what it calls must be
/// `#[inline(always)]`, or it is compiled for the lowest.
pub trait Kernel {
    /// What the loop returns.
    type Output;
    fn run<F: Fold>(self, fold: F) -> Self::Output;
}
