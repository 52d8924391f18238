//! The protocol describes itself as it is spoken.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use cellgate_core::server::{
    Confirm, Description, Enclosed, FromClient, FromServer, MessageKind, Request, VERSION,
    descriptions,
};

use super::world::{World, config, user};

/// The kind and the name of a message of the server.
fn name(message: &FromServer) -> (MessageKind, &'static str) {
    match message {
        FromServer::Confirm { result, .. } => match result {
            Ok(confirm) => (MessageKind::Confirm, confirm.name()),
            Err(refused) => (MessageKind::Refusal, refused.name()),
        },
        FromServer::Indication { indication, .. } => (MessageKind::Indication, indication.name()),
    }
}

/// Fails unless `message` is described with the descriptors that go along with it.
pub(crate) fn check(message: &FromServer, enclosed: Enclosed) {
    static ALL: LazyLock<BTreeMap<(MessageKind, String), Description>> = LazyLock::new(|| {
        let all = descriptions().into_iter();
        all.map(|one| ((one.kind, one.name.clone()), one)).collect()
    });
    let (kind, name) = name(message);
    let described = &ALL[&(kind, name.to_owned())].descriptors;
    let with_memory = !matches!(
        message,
        FromServer::Confirm {
            result: Ok(Confirm::Modified { memory: false, .. }),
            ..
        }
    );
    let due = if with_memory { &described[..] } else { &[] };
    assert_eq!(due, enclosed.descriptors(), "{message:?}");
}

#[test]
fn every_message_is_described_by_an_example_that_can_be_read() {
    let mut world = World::new(config());
    let client = world.hello(user(1));
    let described = world.done(client, Request::Describe);
    let Ok(Confirm::Description(all)) = described else {
        panic!("{described:?}");
    };
    let mut names = BTreeSet::new();
    for one in &all {
        assert!(names.insert((one.kind, &one.name)), "twice: {one:?}");
        let (read, json) = match one.kind {
            MessageKind::Request | MessageKind::Response => {
                let read: FromClient = serde_json::from_str(&one.example).expect(&one.example);
                let json = serde_json::to_string(&read).expect("it is JSON");
                let read = match read {
                    FromClient::Request { request, .. } => {
                        if let Request::Hello { version } = request {
                            assert_eq!(version, VERSION);
                        }
                        (MessageKind::Request, request.name())
                    }
                    FromClient::Response { response, .. } => {
                        (MessageKind::Response, response.name())
                    }
                };
                (read, json)
            }
            MessageKind::Confirm | MessageKind::Refusal | MessageKind::Indication => {
                let read: FromServer = serde_json::from_str(&one.example).expect(&one.example);
                let json = serde_json::to_string(&read).expect("it is JSON");
                // Nothing is left out, as nothing is by a server.
                assert_eq!(one.example, json);
                (name(&read), json)
            }
        };
        assert_eq!(read, (one.kind, one.name.as_str()));
        assert!(json.contains(&format!("\"{}\"", one.name)), "{json}");
    }
    let mut counts = BTreeMap::new();
    for one in &all {
        *counts.entry(one.kind).or_insert(0) += 1;
    }
    let counts: Vec<_> = counts.into_values().collect();
    assert_eq!(counts, [27, 18, 30, 10, 3]);
}

#[test]
fn a_server_that_describes_requests_alone_is_understood() {
    let one = r#"{"name":"close","example":"{\"request\":{\"id\":7,\"request\":\"close\"}}"}"#;
    let read: Description = serde_json::from_str(one).expect("version 3 without kinds");
    assert_eq!(read.kind, MessageKind::Request);
    assert!(read.descriptors.is_empty());
}
