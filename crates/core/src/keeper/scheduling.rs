//! How the firmware runs, as its process tells it.

use serde::{Deserialize, Serialize};

/// How a firmware thread is scheduled in the end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scheduling {
    /// CPUs that the process may use.
    pub cpus: Vec<usize>,
    /// The CPU that the thread is pinned to.
    pub pinned: Option<usize>,
    /// Other threads of its name that were pinned there when it was, as far as could be seen.
    #[serde(default)]
    pub neighbours: u32,
    /// Nice value.
    pub nice: i32,
    /// Nice value of the process's session, where the kernel shares CPUs out by sessions.
    pub session_nice: Option<i32>,
    /// `other`, `fifo`, ... as the kernel says.
    pub policy: String,
    /// The kernel's `sched_rt_runtime_us`, if it can be read. It is never written.
    pub rt_runtime_us: Option<i64>,
    /// What the thread does while there is nothing to do.
    pub idle: Idle,
    /// Whether it gives the CPU away after every idle step.
    pub yields: bool,
    /// What a wake-up of it takes, as measured; none: it spins, or that could not be told.
    pub wake_up: Option<WakeUp>,
    /// How late one that rests may be for what is due, in nanoseconds.
    pub late_ns: u64,
    /// Whether the adapter's own memory is locked.
    pub locked: bool,
    /// What was asked and could not be had, and why.
    pub notes: Vec<String>,
}

impl Scheduling {
    /// Whether others can have its CPU while it has nothing to do.
    pub fn gives_way(&self) -> bool {
        self.yields || self.idle.rests()
    }
}

impl core::fmt::Display for Scheduling {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.pinned {
            Some(cpu) => write!(f, "pinned to CPU {cpu}")?,
            None => write!(f, "not pinned")?,
        }
        write!(f, " of {}", self.cpus.len())?;
        match self.neighbours {
            0 => {}
            1 => write!(f, " beside another adapter")?,
            others => write!(f, " beside {others} other adapters")?,
        }
        write!(f, ", nice {}", self.nice)?;
        if let Some(nice) = self.session_nice {
            write!(f, ", session nice {nice}")?;
        }
        write!(f, ", policy {}, idle {}", self.policy, self.idle)?;
        if let Some(wake_up) = self.wake_up {
            let us = |ns: u64| (ns + 500) / 1_000;
            write!(
                f,
                ", a wake-up takes {} us, {} at most for 999 of 1,000",
                us(wake_up.p50_ns),
                us(wake_up.p999_ns)
            )?;
        }
        if self.yields {
            write!(f, ", yields when idle")?;
        }
        self.notes.iter().try_for_each(|note| write!(f, "; {note}"))
    }
}

/// What a wake-up of the calling thread takes, where it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WakeUp {
    /// Half of them take no longer than this.
    pub p50_ns: u64,
    /// 99 of 100.
    pub p99_ns: u64,
    /// 999 of 1,000.
    pub p999_ns: u64,
    pub max_ns: u64,
}

impl WakeUp {
    /// The percentiles of samples in nanoseconds, which are sorted; none: there are no samples. A
    /// percentile q of n samples is the one at rank ceil(q n).
    pub fn of(samples: &mut [u64]) -> Option<Self> {
        samples.sort_unstable();
        let at = |per_mille: usize| {
            let rank = (samples.len() * per_mille).div_ceil(1_000);
            samples.get(rank.checked_sub(1)?).copied()
        };
        Some(Self {
            p50_ns: at(500)?,
            p99_ns: at(990)?,
            p999_ns: at(999)?,
            max_ns: at(1_000)?,
        })
    }
}

/// What the firmware thread does while there is nothing to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Idle {
    /// It looks on, and takes a CPU.
    Spin,
    /// It rests, and is up again before anything is due.
    #[default]
    Adaptive,
    /// It rests whenever nothing waits, and is late by a wake-up for what is due.
    Sleep,
}

impl Idle {
    /// The most that an adapter that rests allows a wake-up to take, in nanoseconds: contracts of
    /// the usual CDVT, 1 ms, always let it rest. What takes longer is a gap.
    pub const LATE_NS_MAX: u64 = 250_000;

    /// Whether it ever rests.
    pub const fn rests(self) -> bool {
        !matches!(self, Self::Spin)
    }
}

impl core::str::FromStr for Idle {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "spin" => Ok(Self::Spin),
            "adaptive" => Ok(Self::Adaptive),
            "sleep" => Ok(Self::Sleep),
            _ => Err("expected spin, adaptive or sleep"),
        }
    }
}

impl core::fmt::Display for Idle {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Spin => "spin",
            Self::Adaptive => "adaptive",
            Self::Sleep => "sleep",
        })
    }
}
