//! A time-sharing load in the manner of the AIM multiuser benchmark: simulated users, each of whom
//! runs one job after the other.

use super::Step;
use crate::world::Ps;

const PS_PER_MS: u64 = 1_000_000_000;

/// The subtests of a job: thousandths of its CPU time, and milliseconds of waiting (for a disk, a
/// pipe, a child) after that. The mix is ours: that of AIM's suite VII is not in the paper.
const SUBTESTS: [(u64, u64); 8] = [
    (250, 0),
    (60, 1_500),
    (125, 500),
    (190, 800),
    (100, 1_700),
    (150, 0),
    (75, 1_900),
    (50, 1_600),
];

/// A simulated user.
#[derive(Clone, Debug)]
pub struct User {
    job_cpu_ps: u64,
    at: usize,
    computing: bool,
    leaves: bool,
}

impl User {
    /// The work of a job: a subtest counts as much of it as it takes of its CPU time.
    pub const JOB: u64 = 1_000;

    /// User `number`, whose jobs take `job_cpu_ms` of the CPU each. Users begin with different
    /// subtests.
    pub const fn new(number: usize, job_cpu_ms: u64) -> Self {
        Self {
            job_cpu_ps: job_cpu_ms * PS_PER_MS,
            at: number % SUBTESTS.len(),
            computing: false,
            leaves: false,
        }
    }

    /// Ends with the subtest that it is at.
    pub fn leave(&mut self) {
        self.leaves = true;
    }

    pub(super) fn next(&mut self, now: Ps, work: &mut u64) -> Step {
        if self.leaves {
            return Step::End;
        }
        let (thousandths, wait_ms) = SUBTESTS[self.at];
        self.computing = !self.computing;
        if self.computing {
            return Step::Run(Ps::new(self.job_cpu_ps / Self::JOB * thousandths));
        }
        self.at = (self.at + 1) % SUBTESTS.len();
        *work += thousandths;
        Step::Sleep(now.plus(Ps::new(wait_ms * PS_PER_MS)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_takes_its_cpu_time_and_eight_seconds_of_waiting() {
        assert_eq!(SUBTESTS.iter().map(|(cpu, _)| cpu).sum::<u64>(), User::JOB);
        for number in 0..9 {
            let mut user = User::new(number, 800);
            let (mut now, mut cpu, mut work) = (Ps::ZERO, Ps::ZERO, 0);
            while work < 3 * User::JOB {
                match user.next(now, &mut work) {
                    Step::Run(time) => (now, cpu) = (now.plus(time), cpu.plus(time)),
                    Step::Sleep(until) => now = until,
                    Step::End => panic!("users never go home"),
                }
            }
            assert_eq!(cpu, Ps::new(3 * 800 * PS_PER_MS));
            assert!(now.ps().abs_diff(3 * 8_800 * PS_PER_MS) <= 1_900 * PS_PER_MS);
        }
    }
}
