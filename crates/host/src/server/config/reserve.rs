//! `[[reserve]]` of the configuration: addresses, and who may open them.

use std::collections::BTreeSet;

use cellgate_core::server::{Reserve, Span};
use serde::{Deserialize, Deserializer, de};

use super::TEXT_LEN_MAX;
use crate::server::privileges;

/// Sections at most, and of all of them together users and groups: they are told in one message.
pub(in crate::server) const RESERVES_MAX: usize = 64;
pub(in crate::server) const NAMES_MAX: usize = 512;

/// As the file has it: users and groups by name or number.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Section {
    interface: Option<String>,
    #[serde(default)]
    vpi: Span,
    #[serde(default)]
    vci: Span,
    #[serde(default)]
    users: Vec<User>,
    #[serde(default)]
    groups: Vec<Group>,
}

/// A name or a number.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a name or a number")]
enum Word {
    Number(u32),
    Name(String),
}

impl Word {
    /// Its number; `find` knows that of a name.
    fn number<E: de::Error>(
        self,
        kind: &str,
        find: impl Fn(&str) -> std::io::Result<u32>,
    ) -> Result<u32, E> {
        match self {
            Self::Number(number) => Ok(number),
            Self::Name(name) if name.len() > TEXT_LEN_MAX => {
                let most = format_args!("a {kind}'s name has {TEXT_LEN_MAX} octets at most");
                Err(E::custom(most))
            }
            Self::Name(name) => find(&name)
                .map_err(|error| E::custom(format_args!("`{name}` is no {kind} ({error})"))),
        }
    }
}

struct User(u32);

impl<'de> Deserialize<'de> for User {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let find = |name: &str| privileges::user(name).map(|(uid, _)| uid);
        let word = Word::deserialize(deserializer)?;
        word.number("user", find).map(Self)
    }
}

struct Group(u32);

impl<'de> Deserialize<'de> for Group {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = Word::deserialize(deserializer)?;
        word.number("group", privileges::group).map(Self)
    }
}

/// Reads the sections: of each the numbers of users and groups, once each.
pub(super) fn sections<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<Reserve>, D::Error> {
    let sections = Vec::<Section>::deserialize(deserializer)?;
    let reserve = |section: Section| {
        let users: BTreeSet<u32> = section.users.into_iter().map(|User(uid)| uid).collect();
        let groups: BTreeSet<u32> = section.groups.into_iter().map(|Group(gid)| gid).collect();
        Reserve {
            interface: section.interface,
            vpi: section.vpi,
            vci: section.vci,
            users: users.into_iter().collect(),
            groups: groups.into_iter().collect(),
        }
    };
    Ok(sections.into_iter().map(reserve).collect())
}

#[cfg(test)]
mod tests {
    use super::super::Config;

    #[test]
    fn sections_name_users_and_groups_and_are_printed_as_they_are_read() {
        let text = "[[reserve]]\ninterface = \"lo\"\nvpi = 0\nvci = \"5-16\"\n\
                    users = [\"root\", 4242, \"4242\"]\ngroups = [\"root\", 77]\n\
                    [[reserve]]\nvci = \"40-49\"\n";
        let config = Config::parse(text).unwrap();
        let first = &config.reserves[0];
        assert_eq!((first.vci.first, first.vci.last), (5, 16));
        assert_eq!(
            (&first.users[..], &first.groups[..]),
            (&[0, 4242][..], &[0, 77][..])
        );
        assert_eq!(config.reserves[1].vpi.to_string(), "0-65535");
        assert_eq!(Config::parse(&config.print()).unwrap(), config);
        assert!(Config::parse_whole(text).is_ok());
    }

    #[test]
    fn mistakes_are_shown_where_they_stand() {
        let many = format!(
            "[[reserve]]\nusers = {:?}\n",
            (0..513).collect::<Vec<u32>>()
        );
        for (text, parts) in [
            (
                "[[reserve]]\nvci = \"9-5\"\n",
                &["line 2", "column 7", "32-63"][..],
            ),
            (
                "[[reserve]]\nvci = 65536\n",
                &["line 2", "column 7", "32-63"],
            ),
            ("[[reserve]]\nvci = -1\n", &["line 2", "column 7"]),
            ("[[reserve]]\nvpi = 4096\n", &["line 2", "column 7", "4095"]),
            ("[[reserve]]\nvcis = 5\n", &["line 2", "vcis", "vci"]),
            (
                "[[reserve]]\nusers = [\"nobody-has-this-name\"]\n",
                &["line 2", "nobody-has-this-name", "no user"],
            ),
            (
                "[[reserve]]\nusers = [-1]\n",
                &["line 2", "a name or a number"],
            ),
            (
                "[[reserve]]\ngroups = [\"no-such-group\"]\n",
                &["line 2", "no group"],
            ),
            (
                "[[reserve]]\ninterface = \"a b\"\n",
                &["line 2", "column 13", "not a name"],
            ),
            (&many, &["line 2", "512"]),
            (&"[[reserve]]\n".repeat(65), &["line 65", "64"]),
        ] {
            let error = Config::parse(text).unwrap_err().to_string();
            for part in parts {
                assert!(error.contains(part), "{text}: {error}");
            }
        }
        let elsewhere = "[[reserve]]\ninterface = \"wan\"\n";
        assert!(Config::parse(elsewhere).is_ok());
        let error = Config::parse_whole(elsewhere).unwrap_err().to_string();
        assert!(
            error.contains("line 2") && error.contains("no interface wan"),
            "{error}"
        );
    }
}
