//! Who shares the adapter's CPU, looked at again and again: others come and go.

use cellgate_core::Time;
use cellgate_core::server::{Bound, SharedCpu};

use crate::sys::{Firmware, Walk, others_on};

/// From one walk over /proc to the next.
const WALK_NS: u64 = 10_000_000_000;
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

    fn found(&mut self, all: &[Firmware], home: Home) -> bool {
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
