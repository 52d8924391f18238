//! `[quota]` of the configuration: what users may have, and single ones instead.

use std::collections::BTreeMap;
use std::fmt;

use cellgate_core::server::{LIST_MAX, Quota, UserQuota, UserSettings};
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::config::TEXT_LEN_MAX;
use super::privileges;

/// What users may have; the server's own and root as much as there is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct QuotaSection {
    pub connections: u32,
    /// Octets of memory.
    pub memory: u64,
    /// Guaranteed cells/s, over all interfaces, each way.
    pub cell_s: u64,
    /// Of the adapter's core, in millionths.
    pub adapter_ppm: u32,
    /// Those who may have something else, root and the server's own user too.
    #[serde(flatten)]
    pub users: BTreeMap<QuotaUser, UserQuota>,
}

/// A user of this machine, as the configuration names it. Two names of one user are equal.
#[derive(Clone, Debug)]
pub struct QuotaUser {
    name: String,
    uid: u32,
}

impl Default for QuotaSection {
    fn default() -> Self {
        Self {
            connections: 256,
            memory: 256 << 20,
            // As much as there is: who may use the socket may use the line.
            cell_s: u32::MAX.into(),
            adapter_ppm: 1_000_000,
            users: BTreeMap::new(),
        }
    }
}

impl QuotaSection {
    /// Of users without a quota of their own.
    pub(super) fn of_all(&self) -> Quota {
        Quota {
            connections: self.connections,
            memory: self.memory,
            cell_s: self.cell_s,
            adapter_ppm: self.adapter_ppm,
        }
    }

    /// Of the others, by number.
    pub(super) fn of_users(&self) -> BTreeMap<u32, Quota> {
        let all = self.of_all();
        let own = |(user, quota): (&QuotaUser, &UserQuota)| {
            let quota = Quota {
                connections: quota.connections.unwrap_or(all.connections),
                memory: quota.memory.unwrap_or(all.memory),
                cell_s: quota.cell_s.unwrap_or(all.cell_s),
                adapter_ppm: quota.adapter_ppm.unwrap_or(all.adapter_ppm),
            };
            (user.uid, quota)
        };
        self.users.iter().map(own).collect()
    }

    /// The users with a quota of their own, from the number `from` on, or `only` this one; and who
    /// comes behind those that a message tells.
    pub(super) fn list(&self, from: u32, only: Option<u32>) -> (Vec<UserSettings>, Option<u32>) {
        let wanted = |uid: u32| uid >= from && only.is_none_or(|only| only == uid);
        let mut users = self.users.iter().filter(|(user, _)| wanted(user.uid));
        let settings = |(user, quota): (&QuotaUser, &UserQuota)| UserSettings {
            name: user.name.clone(),
            uid: user.uid,
            quota: *quota,
        };
        let listed = users.by_ref().take(LIST_MAX).map(settings).collect();
        (listed, users.next().map(|(user, _)| user.uid))
    }

    /// As a server has told it.
    pub fn told(all: Quota, users: Vec<UserSettings>) -> Self {
        let user = |told: UserSettings| {
            let UserSettings { name, uid, quota } = told;
            (QuotaUser { name, uid }, quota)
        };
        Self {
            connections: all.connections,
            memory: all.memory,
            cell_s: all.cell_s,
            adapter_ppm: all.adapter_ppm,
            users: users.into_iter().map(user).collect(),
        }
    }
}

impl PartialEq for QuotaUser {
    fn eq(&self, other: &Self) -> bool {
        self.uid == other.uid
    }
}

impl Eq for QuotaUser {}

impl PartialOrd for QuotaUser {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for QuotaUser {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.uid.cmp(&other.uid)
    }
}

impl Serialize for QuotaUser {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.name)
    }
}

/// A key of the section.
enum Key {
    Connections,
    Memory,
    CellS,
    AdapterPpm,
    User(QuotaUser),
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Ok(match &*name {
            "connections" => Self::Connections,
            "memory" => Self::Memory,
            "cell_s" => Self::CellS,
            "adapter_ppm" => Self::AdapterPpm,
            _ if name.len() > TEXT_LEN_MAX => {
                let most = format_args!("a user's name has {TEXT_LEN_MAX} octets at most");
                return Err(de::Error::custom(most));
            }
            _ => match privileges::user(&name) {
                Ok((uid, _)) => Self::User(QuotaUser { name, uid }),
                Err(error) => {
                    return Err(de::Error::custom(format_args!(
                        "`{name}` is no user ({error}), and none of `connections`, `memory`, \
                         `cell_s`, `adapter_ppm`"
                    )));
                }
            },
        })
    }
}

struct SectionVisitor;

impl<'de> Visitor<'de> for SectionVisitor {
    type Value = QuotaSection;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table of quotas")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<QuotaSection, A::Error> {
        let mut section = QuotaSection::default();
        // A key that comes twice is not TOML.
        while let Some(key) = map.next_key()? {
            match key {
                Key::Connections => section.connections = map.next_value()?,
                Key::Memory => section.memory = map.next_value()?,
                Key::CellS => section.cell_s = map.next_value()?,
                Key::AdapterPpm => section.adapter_ppm = map.next_value()?,
                Key::User(user) => {
                    let name = user.name.clone();
                    if section.users.insert(user, map.next_value()?).is_some() {
                        return Err(de::Error::custom(format_args!("user {name}: twice")));
                    }
                }
            }
        }
        Ok(section)
    }
}

impl<'de> Deserialize<'de> for QuotaSection {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(SectionVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    #[test]
    fn users_have_their_own_or_what_all_have() {
        let text = "[quota]\nconnections = 3\n[quota.root]\nmemory = 5\n[quota.4242]\ncell_s = 6\n";
        let config = Config::parse(text).unwrap();
        let all = config.quota.of_all();
        let memory = QuotaSection::default().memory;
        assert_eq!((all.connections, all.memory), (3, memory));
        let expected = [
            (0, Quota { memory: 5, ..all }),
            (4242, Quota { cell_s: 6, ..all }),
        ];
        assert_eq!(config.quota.of_users(), BTreeMap::from(expected));
        assert_eq!(Config::parse(&config.print()).unwrap(), config);
    }

    #[test]
    fn users_are_listed_part_by_part_or_alone() {
        let users: String = (0..40)
            .map(|n| format!("[quota.{}]\n", 70_000 + n))
            .collect();
        let quota = Config::parse(&format!("[quota]\nmemory = 5\n{users}"))
            .unwrap()
            .quota;
        let (mut all, mut from) = (Vec::new(), Some(0));
        while let Some(first) = from {
            let (part, next) = quota.list(first, None);
            assert!(part.len() <= LIST_MAX && next.is_none_or(|next| next > first));
            all.extend(part);
            from = next;
        }
        assert_eq!(QuotaSection::told(quota.of_all(), all), quota);
        let (own, next) = quota.list(0, Some(70_020));
        assert_eq!((own.len(), own[0].uid, next), (1, 70_020, None));
        assert_eq!(quota.list(0, Some(5)), (Vec::new(), None));
    }

    #[test]
    fn unknown_users_and_keys_are_shown_where_they_stand() {
        for (text, parts) in [
            (
                "[quota]\nmemory = 1\n[quota.nobody-has-this-name]\nmemory = 2\n",
                &["line 3", "column 8", "nobody-has-this-name", "no user"][..],
            ),
            (
                "[quota]\nconections = 1\n",
                &["line 2", "column 1", "conections"],
            ),
            ("[quota.0]\nmemroy = 1\n", &["line 2", "column 1", "memroy"]),
            ("[quota.0]\nmemory = -1\n", &["line 2", "column 10"]),
            ("[quota]\n0 = 5\n", &["line 2", "column 5"]),
            ("[quota.0]\n[quota.root]\n", &["user root: twice"]),
        ] {
            let error = Config::parse(text).unwrap_err().to_string();
            for part in parts {
                assert!(error.contains(part), "{text}: {error}");
            }
        }
    }
}
