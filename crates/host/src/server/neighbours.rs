//! Who shares the adapter's CPU, looked at again and again: others come and go.

use cellgate_core::Time;
use cellgate_core::server::{Bound, SharedCpu};

use crate::sys::{FirmwareThread, Walk, others_on};

/// From one walk over /proc to the next.
const WALK_NS: u64 = 5_000_000_000;
/// Processes and threads looked at in a turn of the service thread: a millisecond, about.
const AT_A_TIME: usize = 256;

/// The adapters of this machine, as far as they can be seen.
#[derive(Default)]
pub(super) struct Neighbours {
    /// One that is under way.
    walk: Option<Walk>,
    next: Time,
    shared: Option<SharedCpu>,
}

/// Where an adapter is: its process, and the CPU that it is pinned to.
pub(super) type Home = Option<(u32, usize)>;

impl Neighbours {
    /// Who shares the CPU now.
    pub(super) fn shared(&self) -> Option<&SharedCpu> {
        self.shared.as_ref()
    }

    /// Looks at once at all there are: another adapter is here. Whether that changes anything.
    pub(super) fn look(&mut self, now: Time, home: Home) -> bool {
        self.walk = None;
        self.next = now.plus_ns(WALK_NS);
        self.found(&Walk::begin().finish(), home)
    }

    /// Goes on looking, if it is time; whether that changes anything.
    pub(super) fn go_on(&mut self, now: Time, home: Home) -> bool {
        if self.walk.is_none() && now < self.next {
            return false;
        }
        let walk = self.walk.get_or_insert_with(Walk::begin);
        if walk.go_on(AT_A_TIME) {
            return false;
        }
        let found = self.walk.take().map(Walk::finish).unwrap_or_default();
        self.next = now.plus_ns(WALK_NS);
        self.found(&found, home)
    }

    fn found(&mut self, all: &[FirmwareThread], home: Home) -> bool {
        let shared = home.and_then(|(pid, cpu)| {
            let mut pids = others_on(all, cpu, pid);
            let others = u32::try_from(pids.len()).unwrap_or(u32::MAX);
            pids.truncate(SharedCpu::PIDS_MAX);
            (others > 0).then(|| SharedCpu {
                cpu: u32::try_from(cpu).unwrap_or(u32::MAX),
                others,
                pids,
            })
        });
        let is_other = shared != self.shared;
        self.shared = shared;
        is_other
    }

    /// What of `adapter_ppm` the others leave to promise.
    pub(super) fn bound(&self, adapter_ppm: u32) -> Option<Bound> {
        let shared = self.shared.as_ref()?;
        Some(Bound {
            capacity: shared.part(adapter_ppm.into()),
            by: shared.to_string(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared(others: u32, pids: &[u32]) -> SharedCpu {
        SharedCpu {
            cpu: 1,
            others,
            pids: pids.to_vec(),
        }
    }

    #[test]
    fn people_are_told_who_is_there_and_what_follows() {
        for (shared, told) in [
            (
                shared(1, &[7]),
                "another adapter uses CPU 1, too (process 7), as far as can be seen: 1/2 of what \
                 the CPU has is promised",
            ),
            (
                shared(2, &[7, 9]),
                "2 other adapters use CPU 1, too (processes 7, 9), as far as can be seen: 1/3 of \
                 what the CPU has is promised",
            ),
            (
                shared(u32::MAX, &[7]),
                "4294967295 other adapters use CPU 1, too (processes 7, ...), as far as can be \
                 seen: 1/4294967296 of what the CPU has is promised",
            ),
            (
                shared(1, &[]),
                "another adapter uses CPU 1, too, as far as can be seen: 1/2 of what the CPU has \
                 is promised",
            ),
        ] {
            assert_eq!(shared.note(), told);
        }
    }

    #[test]
    fn each_adapter_there_has_the_same_part() {
        let bound = |others| {
            let neighbours = Neighbours {
                shared: Some(shared(others, &[])),
                ..Neighbours::default()
            };
            neighbours.bound(900_000).map(|bound| bound.capacity)
        };
        assert_eq!(Neighbours::default().bound(900_000), None);
        assert_eq!(bound(1), Some(450_000));
        assert_eq!(bound(2), Some(300_000));
        assert_eq!(bound(u32::MAX), Some(0));
    }

    /// Nothing is known of an adapter that is not there, or that is not pinned.
    #[test]
    fn without_a_cpu_nobody_shares_it() {
        let mut neighbours = Neighbours {
            shared: Some(shared(1, &[7])),
            ..Neighbours::default()
        };
        assert!(neighbours.look(Time::ZERO, None));
        assert_eq!(neighbours.shared(), None);
        assert!(!neighbours.go_on(Time::ZERO, None), "it has just looked");
        let later = Time::ZERO.plus_ns(WALK_NS);
        assert!(!neighbours.go_on(later, None));
        assert_eq!(neighbours.shared(), None);
    }
}
