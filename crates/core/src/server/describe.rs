//! The protocol described to who asks: each request with an example.

use super::{Description, Request};

/// Requests with their names and examples. A request that is missing here does not compile.
macro_rules! requests {
    ($($name:literal, $pattern:pat, $example:literal;)*) => {
        const EXAMPLES: &[(&str, &str)] = &[$(($name, $example)),*];

        impl Request {
            /// Its name, as it travels.
            pub const fn name(&self) -> &'static str {
                match self {
                    $($pattern => $name,)*
                }
            }
        }
    };
}

requests! {
    "hello", Self::Hello { .. },
        r#"{"hello":{"version":3}}"#;
    "describe", Self::Describe, r#""describe""#;
    "open", Self::Open(_),
        r#"{"open":{"address":"wan.0.100","contract":"cbr:pcr=1000,max_sdu=1500"}}"#;
    "take", Self::Take { .. },
        r#"{"take":{"address":"wan.0.100"}}"#;
    "reattach", Self::Reattach { .. },
        r#"{"reattach":{"address":"wan.0.100"}}"#;
    "modify", Self::Modify { .. },
        r#"{"modify":{"contract":"cbr:pcr=2000,max_sdu=1500"}}"#;
    "close", Self::Close, r#""close""#;
    "lease", Self::Lease { .. },
        r#"{"lease":{"pdus":10,"expires_in_ns":1000000}}"#;
    "add", Self::Add(_),
        r#"{"add":{"address":"wan.0.101","contract":"ubr:max_sdu=9180"}}"#;
    "set", Self::Set { .. },
        r#"{"set":{"address":"wan.0.101","contract":"ubr:max_sdu=1500"}}"#;
    "delete", Self::Delete { .. },
        r#"{"delete":{"address":"wan.0.101"}}"#;
    "list", Self::List { .. }, r#"{"list":{"from":0}}"#;
    "resources", Self::Resources, r#""resources""#;
    "adapter", Self::Adapter, r#""adapter""#;
    "interfaces", Self::Interfaces, r#""interfaces""#;
    "add_interface", Self::AddInterface(_),
        r#"{"add_interface":{"name":"wan","link":{"memory":{"peer":"wan"}}}}"#;
    "remove_interface", Self::RemoveInterface { .. },
        r#"{"remove_interface":{"name":"wan"}}"#;
    "ping", Self::Ping { .. },
        r#"{"ping":{"address":"wan.0.100","flow":"f5_segment","timeout_ns":1000000000}}"#;
    "monitor", Self::Monitor, r#""monitor""#;
    "counters", Self::Counters, r#""counters""#;
    "add_device", Self::AddDevice(_),
        r#"{"add_device":{"address":"wan.0.102","contract":"ubr","encapsulation":"ipoa-llcsnap"}}"#;
    "remove_device", Self::RemoveDevice { .. },
        r#"{"remove_device":{"name":"cell0"}}"#;
    "devices", Self::Devices { .. }, r#"{"devices":{"from":0}}"#;
    "settings", Self::Settings { .. }, r#"{"settings":{"from":0}}"#;
}

/// Each request, with an example.
pub(super) fn descriptions() -> Vec<Description> {
    let description = |(id, (name, request)): (usize, &(&str, &str))| Description {
        name: (*name).to_owned(),
        example: format!(r#"{{"request":{{"id":{},"request":{request}}}}}"#, id + 1),
    };
    EXAMPLES.iter().enumerate().map(description).collect()
}
