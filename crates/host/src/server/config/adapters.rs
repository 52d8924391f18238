//! `[adapter]`, or several `[[adapter]]`.

use std::fmt;

use cellgate_core::server::AdapterSection;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// One, as a table; several as an array of tables, which has one at least.
pub(super) fn one_or_more<'de, D>(deserializer: D) -> Result<Vec<AdapterSection>, D::Error>
where
    D: Deserializer<'de>,
{
    deserializer.deserialize_any(OneOrMore)
}

/// As it is read: the only one as a table, several as an array of tables.
///
/// # Errors
/// The serializer's.
pub fn serialize<S>(sections: &[AdapterSection], serializer: S) -> Result<S::Ok, S::Error>
where
    S: Serializer,
{
    match sections {
        [only] if only.name.is_none() => only.serialize(serializer),
        all => all.serialize(serializer),
    }
}

struct OneOrMore;

impl<'de> Visitor<'de> for OneOrMore {
    type Value = Vec<AdapterSection>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[adapter] or [[adapter]]")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        AdapterSection::deserialize(MapAccessDeserializer::new(map)).map(|only| vec![only])
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut all = Vec::new();
        while let Some(section) = seq.next_element()? {
            if all.len() == AdapterSection::COUNT_MAX {
                let most = AdapterSection::COUNT_MAX;
                return Err(A::Error::custom(format_args!("{most} adapters at most")));
            }
            all.push(section);
        }
        match all.is_empty() {
            true => Err(A::Error::custom("one adapter at least")),
            false => Ok(all),
        }
    }
}
