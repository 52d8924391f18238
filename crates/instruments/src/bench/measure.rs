//! Time, taken in turns: every repeat runs all contestants one after the other, so that a busy
//! neighbour of this machine meets all of them.

use std::hint::black_box;
use std::time::{Duration, Instant};

use cellgate_host::clock::MonotonicClock;
use cellgate_host::sys::tsc;

use crate::live::spread::Spread;

/// The time stamp counter, or nanoseconds where there is none.
#[inline(always)]
pub(super) fn ticks() -> u64 {
    tsc().unwrap_or_else(|| MonotonicClock.now().ns())
}

/// Nanoseconds of a tick, measured over 20 ms.
pub(super) fn ns_per_tick() -> f64 {
    let (start, from) = (Instant::now(), ticks());
    while start.elapsed() < Duration::from_millis(20) {
        std::hint::spin_loop();
    }
    start.elapsed().as_nanos() as f64 / (ticks() - from).max(1) as f64
}

/// Operations of the calibration loop.
const CALIBRATION: u32 = 200_000;

/// Ticks of one operation in a chain of which each waits for the one before: the core's clock as
/// the time stamp counter sees it. As a decrement and jump would, each takes one core cycle.
pub(super) fn calibration() -> f64 {
    let mut x = black_box(1u32);
    let from = ticks();
    for _ in 0..CALIBRATION / 2 {
        x = x.wrapping_add(0x9e37_79b9) ^ 0x7f4a_7c15;
    }
    let ticks = ticks() - from;
    black_box(x);
    ticks as f64 / f64::from(CALIBRATION)
}

/// How much is measured.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    /// Of a train, or of whatever else a pass consists of.
    pub(super) cells: usize,
    pub(super) repeats: usize,
}

impl Sizes {
    /// Cells of a train: 10 MB, more than the second-level cache holds.
    const CELLS: usize = 196_608;

    /// The usual ones.
    pub(super) fn new(quick: bool) -> Self {
        Self::of(quick, Self::CELLS, 21)
    }

    /// So many cells and repeats; a short run does a sixteenth, three times.
    pub(super) fn of(quick: bool, cells: usize, repeats: usize) -> Self {
        match quick {
            true => Self {
                cells: cells / 16,
                repeats: 3,
            },
            false => Self { cells, repeats },
        }
    }
}

/// Something to measure.
pub(super) struct Contestant<'a> {
    pub(super) name: String,
    /// Cells, or whatever else is counted, of one pass.
    pub(super) cells: usize,
    /// One pass: the ticks it took.
    pub(super) pass: Box<dyn FnMut() -> u64 + 'a>,
}

impl<'a> Contestant<'a> {
    /// A contestant that measures itself.
    pub(super) fn new(
        name: impl Into<String>,
        cells: usize,
        pass: impl FnMut() -> u64 + 'a,
    ) -> Self {
        Self {
            name: name.into(),
            cells,
            pass: Box::new(pass),
        }
    }

    /// A contestant all of whose pass counts.
    pub(super) fn whole(
        name: impl Into<String>,
        cells: usize,
        mut pass: impl FnMut() + 'a,
    ) -> Self {
        Self::new(name, cells, move || {
            let from = ticks();
            pass();
            ticks() - from
        })
    }
}

/// What a contestant took, by repeat.
pub(super) struct Times {
    pub(super) name: String,
    /// Ticks per cell.
    pub(super) ticks: Vec<f64>,
}

impl Times {
    pub(super) fn spread(&self) -> Spread {
        Spread::of(self.ticks.clone())
    }

    /// This one's time over `other`'s, repeat by repeat.
    pub(super) fn over(&self, other: &Self) -> Spread {
        let pairs = self.ticks.iter().zip(&other.ticks);
        Spread::of(pairs.map(|(mine, theirs)| mine / theirs).collect())
    }

    /// This one's time less `other`'s, repeat by repeat.
    pub(super) fn less(&self, other: &Self) -> Spread {
        let pairs = self.ticks.iter().zip(&other.ticks);
        Spread::of(pairs.map(|(mine, theirs)| mine - theirs).collect())
    }
}

/// Runs all contestants in turn, `repeats` times, after one pass that does not count. The
/// calibration loop runs before every turn.
pub(super) fn take_turns(
    contestants: Vec<Contestant<'_>>,
    repeats: usize,
    calibrations: &mut Vec<f64>,
) -> Vec<Times> {
    let mut contestants = contestants;
    for contestant in &mut contestants {
        (contestant.pass)();
    }
    let mut times: Vec<Times> = contestants
        .iter()
        .map(|contestant| Times {
            name: contestant.name.clone(),
            ticks: Vec::with_capacity(repeats),
        })
        .collect();
    for _ in 0..repeats {
        calibrations.push(calibration());
        for (contestant, times) in contestants.iter_mut().zip(&mut times) {
            let ticks = (contestant.pass)() as f64;
            times.ticks.push(ticks / contestant.cells.max(1) as f64);
        }
    }
    times
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contestants_take_turns_after_a_pass_that_does_not_count() {
        let order = std::cell::RefCell::new(Vec::new());
        let contestant = |name: &'static str, ticks| {
            let order = &order;
            Contestant::new(name, 2, move || {
                order.borrow_mut().push(name);
                ticks
            })
        };
        let mut calibrations = Vec::new();
        let times = take_turns(
            vec![contestant("a", 10), contestant("b", 5)],
            2,
            &mut calibrations,
        );
        assert_eq!(*order.borrow(), ["a", "b", "a", "b", "a", "b"]);
        assert_eq!(times[0].over(&times[1]).median, 2.0);
        assert_eq!(times[0].less(&times[1]).max, 2.5);
        assert_eq!(calibrations.len(), 2);
    }

    #[test]
    fn the_calibration_loop_takes_time_for_each_operation() {
        //  A loop that the compiler has folded away would take next to nothing.
        let per_operation_ns = calibration() * ns_per_tick();
        assert!(per_operation_ns > 0.05, "{per_operation_ns}");
    }
}
