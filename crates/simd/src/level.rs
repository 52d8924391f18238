use core::sync::atomic::{AtomicU8, Ordering};

use crate::Kernel;
use crate::baseline::Baseline;

/// What a CPU can do, as far as it matters to the data path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// Nothing beyond the target that the program was compiled for: the CRC comes from tables.
    Baseline = 1,
    /// x86-64 with AVX2, BMI2 and carry-less multiplication of 128 bits at once.
    V3 = 2,
    /// x86-64 with AVX-512 (F, BW, DQ, VL, VBMI) and carry-less multiplication of 512 bits at once.
    V4 = 3,
}

/// The level in use, or 0 before the first look. It never changes afterwards, so that no CRC in
/// progress meets another level.
static CHOSEN: AtomicU8 = AtomicU8::new(0);

impl Level {
    /// Every level, lowest first.
    const ALL: [Self; 3] = [Self::Baseline, Self::V3, Self::V4];

    /// The levels that this CPU has, lowest first; the baseline is always there.
    pub fn available() -> impl Iterator<Item = Self> {
        let best = Self::detect();
        Self::ALL.into_iter().filter(move |level| *level <= best)
    }

    /// The level that [`with_features`] uses: the best that the CPU has, or that the environment
    /// variable `CELLGATE_CPU_LEVEL` (`baseline`, `v3`, `v4`) permits. It is decided once.
    #[inline(always)]
    pub fn chosen() -> Self {
        match CHOSEN.load(Ordering::Relaxed) {
            1 => Self::Baseline,
            2 => Self::V3,
            3 => Self::V4,
            _ => Self::choose(),
        }
    }

    #[cold]
    #[inline(never)]
    fn choose() -> Self {
        let highest = match std::env::var("CELLGATE_CPU_LEVEL").as_deref() {
            Ok("baseline") => Self::Baseline,
            Ok("v3") => Self::V3,
            _ => Self::V4,
        };
        let level = Self::detect().min(highest);
        // Two threads that get here at once find the same level.
        CHOSEN.store(level as u8, Ordering::Relaxed);
        level
    }

    #[cfg(target_arch = "x86_64")]
    fn detect() -> Self {
        let v3 = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("lzcnt")
            && is_x86_feature_detected!("popcnt")
            && is_x86_feature_detected!("pclmulqdq");
        let v4 = v3
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512vbmi")
            && is_x86_feature_detected!("vpclmulqdq");
        match (v3, v4) {
            (_, true) => Self::V4,
            (true, false) => Self::V3,
            (false, false) => Self::Baseline,
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn detect() -> Self {
        Self::Baseline
    }
}

/// Runs `kernel` with the best instructions that this CPU has. Costs a few cycles: call it once per
/// burst.
#[inline(always)]
pub fn with_features<K: Kernel>(kernel: K) -> K::Output {
    dispatch(Level::chosen(), kernel)
}

/// Runs `kernel` at `level`, or at the best level below it that this CPU has. For tests and
/// measurements that cover every level; [`with_features`] is cheaper.
pub fn with_level<K: Kernel>(level: Level, kernel: K) -> K::Output {
    dispatch(level.min(Level::detect()), kernel)
}

/// `level` must be one that the CPU has: private, because nothing else makes the calls below sound.
#[inline(always)]
fn dispatch<K: Kernel>(level: Level, kernel: K) -> K::Output {
    match level {
        // SAFETY: callers pass a level not above that of `detect`, which looked for each feature.
        #[cfg(target_arch = "x86_64")]
        Level::V4 => unsafe { crate::x86::run_v4(kernel) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Level::V3 => unsafe { crate::x86::run_v3(kernel) },
        _ => kernel.run(Baseline),
    }
}
