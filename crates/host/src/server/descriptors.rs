//! What `ulimit -n` leaves: every control socket, connection and network device takes descriptors.
//!
//! A quarter is for the daemon itself, 1,024 at most, and for network devices; a third of the rest
//! for control sockets; the others for connections. The adapter's process has the same limit, and
//! needs as many for a connection.

use std::fmt;

use cellgate_core::server::{Limits, ServerConfig};
use rustix::process::{Resource, getrlimit};

use super::workers::WORKERS_MAX;

/// The most that the daemon keeps for itself.
const OWN_MAX: u64 = 1_024;
/// Of these, what it has without a network device: logs, bells, the adapter's and the operator's
/// sockets, descriptors on their way.
const OWN_MIN: u64 = 24;
/// A device, its network namespace, both ends of a control socket, and what a connection has.
const OF_DEVICE: u64 = 12;
/// Files of its memory and its attachment's, both ends of two bells, as the adapter has them.
const OF_CONNECTION: u64 = 8;

/// What there can be at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Descriptors {
    limit: u64,
    sockets: u32,
    connections: u32,
    monitors: u32,
    devices: usize,
}

/// Connections that there can be at once where `limit` is the limit on descriptors.
pub(crate) fn connections_within(limit: u64) -> u32 {
    Descriptors::of(limit).connections
}

impl Descriptors {
    /// Of this process.
    pub(super) fn of_process() -> Self {
        Self::of(getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX))
    }

    fn of(limit: u64) -> Self {
        let own = (limit / 4).min(OWN_MAX);
        let rest = limit - own;
        let all = Limits::default();
        let at_most = |descriptors: u64, most: u32| {
            let fit = u32::try_from(descriptors).unwrap_or(u32::MAX);
            fit.clamp(1, most)
        };
        let sockets = at_most(rest / 3, all.clients);
        let devices = own.saturating_sub(OWN_MIN) / OF_DEVICE;
        Self {
            limit,
            sockets,
            connections: at_most((rest - rest / 3) / OF_CONNECTION, u32::MAX),
            monitors: at_most(u64::from(sockets) / 4, all.monitors),
            devices: usize::try_from(devices)
                .unwrap_or(usize::MAX)
                .clamp(1, WORKERS_MAX),
        }
    }

    pub(super) const fn devices(&self) -> usize {
        self.devices
    }

    /// Bounds what a server hands out; a user has a quarter.
    pub(super) fn bound(&self, config: &mut ServerConfig) {
        config.limits.clients = self.sockets;
        config.limits.clients_per_user = self.sockets.div_ceil(4);
        config.limits.monitors = self.monitors;
        let admission = &mut config.admission;
        let all: u64 = admission
            .adapters
            .iter()
            .map(|one| u64::from(one.connections))
            .sum();
        if u64::from(self.connections) < all {
            let adapters = u32::try_from(admission.adapters.len()).unwrap_or(u32::MAX);
            // Each has as many, the only one all.
            let part = (self.connections / adapters.max(1)).max(1);
            for books in &mut admission.adapters {
                books.connections = books.connections.min(part);
            }
            let of_user = self.connections.div_ceil(4);
            admission.quota.connections = admission.quota.connections.min(of_user);
        }
    }
}

impl fmt::Display for Descriptors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sockets, connections) = (self.sockets, self.connections);
        write!(
            f,
            "{} descriptors (ulimit -n): at most {sockets} control sockets, {} of one user, {} of \
             them monitors; {connections} connections; {} network devices",
            self.limit,
            sockets.div_ceil(4),
            self.monitors,
            self.devices
        )
    }
}

#[cfg(test)]
mod tests {
    use cellgate_core::server::CpuLaw;

    use super::*;
    use crate::server::Config;
    use crate::server::config::Laws;

    #[test]
    fn whatever_is_handed_out_fits_the_limit_and_nobody_has_it_all() {
        let laws = Laws {
            adapter: CpuLaw::default(),
            worker: CpuLaw::default(),
            worker_ppm: 0,
        };
        for limit in [16, 64, 100, 256, 1_024, 4_096, 20_000, 1 << 20, u64::MAX] {
            let all = Descriptors::of(limit);
            let taken = u64::from(all.sockets) + u64::from(all.connections) * OF_CONNECTION;
            let devices = (all.devices - 1) as u64 * OF_DEVICE;
            assert!(
                limit < 64 || taken + devices + OWN_MIN <= limit.max(128),
                "{all}"
            );
            let mut config = Config::default().server_config(laws);
            let before = config.clone();
            all.bound(&mut config);
            assert!(config.limits.clients_per_user <= config.limits.clients.div_ceil(4));
            let quota = config.admission.quota.connections;
            assert!(
                limit < 64
                    || u64::from(quota) * 3 <= config.admission.adapters[0].connections.into()
            );
            if limit >= 20_000 {
                assert_eq!(config, before, "{all}");
            }
        }
        let few = Descriptors::of(256);
        assert_eq!((few.sockets, few.connections), (64, 16));
        assert_eq!((few.monitors, few.devices), (16, 3));
    }
}
