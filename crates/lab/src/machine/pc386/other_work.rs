use crate::world::Ps;

/// Other work of a PC: at the beginning of each period it has the processor for so long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherWork {
    /// At least a picosecond.
    pub period: Ps,
    /// Less than the period.
    pub takes: Ps,
}

impl OtherWork {
    /// None: the terminal has all of its processor.
    pub const NONE: Self = Self {
        period: Ps::new(1),
        takes: Ps::ZERO,
    };

    /// When work that is begun at `at`, and takes `work` of the processor, is done.
    pub fn done(&self, at: Ps, work: Ps) -> Ps {
        let period = self.period.ps().max(1);
        let takes = self.takes.ps().min(period - 1);
        let (whole, part) = (at.ps() / period, at.ps() % period);
        // As if the processor had no other work: what it has had for this so far, and then.
        let free = period - takes;
        let had = whole * free + part.saturating_sub(takes);
        let end = had.saturating_add(work.ps());
        // An end on the border is in the period before, but for work that takes no time.
        let before = end.saturating_sub(u64::from(work.ps() > 0));
        let (whole, rest) = (before / free, before % free);
        let end = whole
            .saturating_mul(period)
            .saturating_add(takes)
            .saturating_add(rest + u64::from(work.ps() > 0));
        Ps::new(end).max(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same, a picosecond at a time.
    fn counted(other: OtherWork, at: u64, work: u64) -> u64 {
        let (period, takes) = (other.period.ps(), other.takes.ps());
        let (mut now, mut left) = (at, work);
        while left > 0 || now % period < takes {
            left -= u64::from(now % period >= takes && left > 0);
            now += 1;
        }
        now
    }

    #[test]
    fn work_waits_while_the_processor_is_anothers() {
        for (period, takes) in [(10, 0), (10, 3), (10, 9), (1, 0), (7, 1)] {
            let other = OtherWork {
                period: Ps::new(period),
                takes: Ps::new(takes),
            };
            for at in 0..25 {
                for work in 0..25 {
                    // Where work ends with a period, whatever comes next waits by itself.
                    let done = other.done(Ps::new(at), Ps::new(work)).ps();
                    let again = other.done(Ps::new(done), Ps::ZERO).ps();
                    assert_eq!(
                        again,
                        counted(other, at, work),
                        "{period} {takes} {at} {work}"
                    );
                    assert!(done <= again && done >= at + work);
                }
            }
        }
    }
}
