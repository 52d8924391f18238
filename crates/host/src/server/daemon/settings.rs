//! What the daemon runs with, as it tells it.

use cellgate_core::server::{AdapterSection, Settings};

use super::Daemon;
use crate::control::Hello;

impl Daemon {
    /// What the user `uid` may see, a part of it: its own quota and the users from `from` on.
    pub(super) fn settings(&self, uid: u32, from: u32) -> Settings {
        let config = &self.options.config;
        let governs = self.server.is_governor(uid);
        let (users, next) = config.quota.list(from, (!governs).then_some(uid));
        let adapters = self.adapters.indices().zip(&config.adapters);
        let adapters = adapters.map(|(adapter, section)| match self.adapters.hello(adapter) {
            Some(hello) => as_it_is(section.clone(), hello),
            None => section.clone(),
        });
        Settings {
            server: governs.then(|| self.places.found(&config.server, self.listener.path())),
            adapters: adapters.collect(),
            admission: config.admission.clone(),
            quota: config.quota.of_all(),
            users,
            reserves: match from {
                0 => config.reserves.clone(),
                _ => Vec::new(),
            },
            next,
        }
    }
}

/// The section as the adapter has it, which may be another daemon's.
fn as_it_is(configured: AdapterSection, hello: &Hello) -> AdapterSection {
    let config = &hello.config;
    AdapterSection {
        vcs: config.vcs,
        leaves: config.leaves,
        attachments: config.attachments,
        ports: u8::try_from(config.ports.len()).unwrap_or(u8::MAX),
        memory_max: hello.memory_max,
        gap_max_ns: config.gap_max_ns,
        clump_cells: config.clump_cells,
        overload_cells: config.overload_cells,
        ..configured
    }
}

#[cfg(test)]
mod tests {
    use cellgate_core::server::{
        AdmissionSection, Confirm, FromServer, LIST_MAX, Quota, Reserve, ServerSection, UserQuota,
        UserSettings,
    };

    use super::*;
    use crate::control::MESSAGE_MAX;
    use crate::server::config::{NAMES_MAX, RESERVES_MAX, TEXT_LEN_MAX};

    #[test]
    fn the_longest_settings_fit_a_message() {
        // Each octet is six in JSON.
        let text = "\u{1}".repeat(TEXT_LEN_MAX);
        let user = UserSettings {
            name: text.clone(),
            uid: u32::MAX,
            quota: UserQuota {
                connections: Some(u32::MAX),
                memory: Some(u64::MAX),
                cell_s: Some(u64::MAX),
                adapter_ppm: Some(u32::MAX),
            },
        };
        let settings = Settings {
            server: Some(ServerSection {
                socket: Some(text.clone()),
                socket_mode: text.clone(),
                socket_group: Some(text.clone()),
                state_dir: Some(text.clone()),
                user: Some(text),
            }),
            adapters: vec![
                AdapterSection {
                    name: Some("x".repeat(15)),
                    ..AdapterSection::default()
                };
                AdapterSection::COUNT_MAX
            ],
            admission: AdmissionSection::default(),
            quota: Quota::NONE,
            users: vec![user; LIST_MAX],
            reserves: vec![
                Reserve {
                    interface: Some("x".repeat(15)),
                    vpi: "10000-65535".parse().unwrap(),
                    vci: "10000-65535".parse().unwrap(),
                    users: vec![u32::MAX; NAMES_MAX / RESERVES_MAX],
                    groups: Vec::new(),
                };
                RESERVES_MAX
            ],
            next: Some(u32::MAX),
        };
        let message = FromServer::Confirm {
            connection: 0,
            id: u64::MAX,
            result: Ok(Confirm::Settings(Box::new(settings))),
        };
        let len = serde_json::to_vec(&message).unwrap().len();
        // Numbers of other sections have some 20 digits at most: 17 of each adapter, and 7.
        let numbers = 17 * AdapterSection::COUNT_MAX + 7;
        assert!(len + numbers * 20 <= MESSAGE_MAX, "{len} octets");
    }
}
