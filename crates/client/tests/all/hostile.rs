//! A server that says anything: errors, no panic, no descriptor left behind.

use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::Duration;

use cellgate::{Connection, Error};
use cellgate_core::server::{Confirm, FromServer};
use cellgate_shm::socket::{MESSAGE_MAX, Received, pair, receive, send};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept, bind, listen, socket_with,
};

/// Answers each request of one client with the next of `answers`; then hangs up.
fn serve(name: &str, answers: Vec<(Vec<u8>, usize)>) -> (PathBuf, JoinHandle<()>) {
    let file = format!("cellgate-hostile-{}-{name}.sock", std::process::id());
    let path = std::env::temp_dir().join(file);
    let _ = std::fs::remove_file(&path);
    let flags = SocketFlags::CLOEXEC;
    let listener = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    bind(&listener, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    listen(&listener, 1).unwrap();
    let thread = std::thread::spawn(move || {
        let client = accept(&listener).unwrap();
        let mut buffer = vec![0; MESSAGE_MAX];
        for (answer, fds) in answers {
            let Ok(Received::Message(..)) = receive(&client, &mut buffer, true) else {
                return;
            };
            let sockets: Vec<OwnedFd> = (0..fds).map(|_| pair().unwrap().0).collect();
            let fds: Vec<_> = sockets.iter().map(AsFd::as_fd).collect();
            let _ = send(&client, &answer, &fds, true);
        }
    });
    (path, thread)
}

#[test]
fn a_server_that_is_silent_is_waited_for_as_long_as_was_asked() {
    let file = format!("cellgate-silent-{}.sock", std::process::id());
    let path = std::env::temp_dir().join(file);
    let address = SocketAddrUnix::new(&path).unwrap();
    let flags = SocketFlags::CLOEXEC;
    let listener = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    bind(&listener, &address).unwrap();
    listen(&listener, 0).unwrap();
    let open = || {
        let patience = Duration::from_millis(20);
        let builder = Connection::builder().socket(&path).address("a.0.5");
        builder.patience(patience).open().unwrap_err()
    };
    // The first has the only place to wait in, also when it has gone; the next has none.
    let (first, second) = (open(), open());
    std::fs::remove_file(&path).unwrap();
    for error in [first, second] {
        let told = error.to_string();
        assert!(matches!(error, Error::Silent { .. }), "{told}");
        assert!(told.contains("does not answer"), "{told}");
    }
}

/// The number of a client's first request, which is about no connection.
const FIRST_ID: u64 = (1 << 32) + 1;

fn hello() -> Vec<u8> {
    let confirm = FromServer::Confirm {
        connection: 0,
        id: FIRST_ID,
        result: Ok(Confirm::Hello {
            version: cellgate_core::server::VERSION,
            server: "hostile".to_owned(),
            pid: 1,
            notes: Vec::new(),
        }),
    };
    serde_json::to_vec(&confirm).unwrap()
}

/// A good answer to an open, but for its descriptors.
const OPENED: &str = r#"{"confirm":{"id":8589934593,"connection":1,"result":{"Ok":{"opened":{
"address":"a.0.5","contract":"CONTRACT",
"vc":{"index":1,"generation":1},"sizes":{"receive_slots":SLOTS,
"receive_len":4096,"receive_elsewhere":false,"transmit_slots":4,"transmit_len":4096},
"files_generation":1,"attachment":0,"attachment_sizes":{"event_slots":4,"doorbell_slots":4},
"attachment_generation":1,"notification":null,"marks":"none","completions":true,
"transmit_max_sdu":40,
"receive_max_sdu":40,"transmit_credit":null,
"receive_credit":null,"receive_early_ns":0}}}}}"#;

fn open_with(name: &str, answers: Vec<(Vec<u8>, usize)>) -> Error {
    let (path, thread) = serve(name, answers);
    let builder = Connection::builder().socket(&path).address("a.0.5");
    let result = builder.patience(Duration::from_secs(10)).open();
    let error = result.map(|_| ()).unwrap_err();
    std::fs::remove_file(path).unwrap();
    thread.join().unwrap();
    error
}

#[test]
fn whatever_a_server_says_is_an_error_and_no_panic() {
    let opened = |contract: &str, slots: &str| {
        let text = OPENED.replace("CONTRACT", contract).replace("SLOTS", slots);
        text.into_bytes()
    };
    let done = r#"{"confirm":{"id":8589934593,"connection":1,"result":{"Ok":"done"}}}"#;
    let refused = r#"{"confirm":{"id":8589934593,"connection":1,"result":{"Err":"in_use"}}}"#;
    let bad = |error: &Error| matches!(error, Error::BadMessage(_));
    for (name, answer, fds, expected) in [
        ("json", b"{".to_vec(), 0, &bad as &dyn Fn(&Error) -> bool),
        ("binary", vec![0xff; 60_000], 0, &bad),
        ("another", done.into(), 0, &bad),
        ("refused", refused.into(), 0, &|e| {
            matches!(e, Error::Refused(_))
        }),
        ("few", opened("ubr,aal5", "4"), 4, &bad),
        ("none", opened("ubr,aal5", "4"), 0, &bad),
        ("sockets", opened("ubr,aal5", "4"), 7, &|e| {
            matches!(e, Error::Memory(_))
        }),
        ("geometry", opened("ubr,aal5", "5"), 7, &bad),
    ] {
        let error = open_with(name, vec![(hello(), 0), (answer, fds)]);
        assert!(expected(&error), "{name}: {error}");
    }
    let error = open_with("gone", vec![(hello(), 0)]);
    assert!(matches!(error, Error::Closed), "{error}");
    let error = open_with("mute", Vec::new());
    assert!(matches!(error, Error::Closed), "{error}");
}
