//! The protocol described to who asks: each message with an example, and with what goes along.

mod from_server;

use super::adapter_port::FROM_CLIENT;
use super::{Description, MessageKind, Request, Response};

/// What a message is called, an example of it, and the descriptors that go along.
struct Example {
    name: &'static str,
    /// JSON, over several lines or not.
    text: &'static str,
    descriptors: &'static [&'static str],
}

/// Variants with their names and examples. One that is missing here does not compile.
macro_rules! examples {
    (
        $message:ident:
        $($name:literal, $pattern:pat, $text:expr $(, enclosing: $descriptors:expr)?;)*
    ) => {
        impl $message {
            const EXAMPLES: &[Example] = &[$(Example {
                name: $name,
                text: $text,
                descriptors: examples!(@ $($descriptors)?),
            }),*];

            /// Its name, as it travels.
            pub const fn name(&self) -> &'static str {
                match self {
                    $($pattern => $name,)*
                }
            }
        }
    };
    (@) => { &[] };
    (@ $descriptors:expr) => { $descriptors };
}
use examples;

const CAPABILITY: &[&str] = &[FROM_CLIENT];
const DEVICE: &[&str] = &["the network device", "any socket of its network namespace"];

examples! { Request:
    "hello", Self::Hello { .. },
        r#"{"hello":{"version":11}}"#;
    "describe", Self::Describe, r#""describe""#;
    "open", Self::Open(_),
        r#"{"open":{"address":"wan.0.100","contract":"cbr:pcr=1000,max_sdu=1500"}}"#;
    "try", Self::Try(_),
        r#"{"try":{"address":"wan.0.100","contract":"cbr:pcr=1000,max_sdu=1500"}}"#;
    "take", Self::Take { .. },
        r#"{"take":{"address":"wan.0.100"}}"#;
    "reattach", Self::Reattach { .. },
        r#"{"reattach":{"address":"wan.0.100"}}"#,
        enclosing: CAPABILITY;
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
    "adapters", Self::Adapters, r#""adapters""#;
    "interfaces", Self::Interfaces, r#""interfaces""#;
    "add_interface", Self::AddInterface(_),
        r#"{"add_interface":{"name":"wan","link":{"memory":{"peer":"wan"}}}}"#;
    "set_line", Self::SetLine { .. },
        r#"{"set_line":{"name":"wan","line":"ber 1e-6 loss 0.1% seed 1"}}"#;
    "remove_interface", Self::RemoveInterface { .. },
        r#"{"remove_interface":{"name":"wan"}}"#;
    "ping", Self::Ping { .. },
        r#"{"ping":{"address":"wan.0.100","flow":"f5_segment","timeout_ns":1000000000}}"#;
    "monitor", Self::Monitor, r#""monitor""#;
    "counters", Self::Counters, r#""counters""#;
    "add_device", Self::AddDevice(_),
        r#"{"add_device":{"address":"wan.0.102","contract":"ubr","encapsulation":"ipoa-llcsnap"}}"#,
        enclosing: DEVICE;
    "remove_device", Self::RemoveDevice { .. },
        r#"{"remove_device":{"name":"cell0"}}"#;
    "devices", Self::Devices { .. }, r#"{"devices":{"from":0}}"#;
    "reserve_cpu", Self::ReserveCpu(_),
        r#"{"reserve_cpu":{"tid":4711,"budget_ns":500000,"period_ns":10000000}}"#;
    "settings", Self::Settings { .. }, r#"{"settings":{"from":0}}"#;
}

// The numbers of the Indication and of its connection come before them.
examples! { Response:
    "accept", Self::Accept, r#"1,"connection":3,"response":"accept""#;
    "decline", Self::Decline, r#"1,"connection":3,"response":"decline""#;
    "heard", Self::Heard, r#"0,"response":"heard""#;
}

/// Each message of the protocol, with an example: what [`Request::Describe`] is confirmed with.
pub fn descriptions() -> Vec<Description> {
    let requests = Request::EXAMPLES.iter().zip(1..).map(|(one, id)| {
        let connection = match one.name {
            "open" | "take" | "reattach" | "modify" | "close" | "lease" => r#","connection":3"#,
            _ => "",
        };
        let before = format!(r#"{{"request":{{"id":{id}{connection},"request":"#);
        one.described(MessageKind::Request, &before, "}}")
    });
    let responses = Response::EXAMPLES
        .iter()
        .map(|one| one.described(MessageKind::Response, r#"{"response":{"id":"#, "}}"));
    requests
        .chain(from_server::descriptions())
        .chain(responses)
        .collect()
}

impl Example {
    /// With what stands around it in a message.
    fn described(&self, kind: MessageKind, before: &str, after: &str) -> Description {
        let text: String = self.text.lines().map(str::trim).collect();
        let descriptors = self.descriptors.iter().map(|one| (*one).to_owned());
        Description {
            kind,
            name: self.name.to_owned(),
            example: format!("{before}{text}{after}"),
            descriptors: descriptors.collect(),
        }
    }
}
