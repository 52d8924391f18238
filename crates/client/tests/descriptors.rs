//! The descriptors that a session's connections cost. The test is a program of its own: it counts
//! all that it has.

mod common;

use std::fs::{read_dir, read_link};

use cellgate::{Connection, Session};
use common::{Daemon, PATIENCE};

/// Descriptors of this process whose names begin so.
fn descriptors(name: &str) -> usize {
    let all = read_dir("/proc/self/fd").unwrap().flatten();
    let names = all.filter_map(|one| read_link(one.path()).ok());
    names
        .filter(|link| link.to_string_lossy().starts_with(name))
        .count()
}

#[test]
fn two_hundred_connections_have_one_socket_and_one_descriptor_to_wait_at() {
    let daemon = Daemon::start();
    let kinds = ["", "socket:", "anon_inode:[eventpoll]"];
    let before = kinds.map(descriptors);
    let session = Session::connect(daemon.path()).unwrap();
    let open = |n: u32| {
        let at = ["a", "b"][n as usize % 2];
        let address = format!("{at}.0.{}", 100 + n / 2);
        let builder = Connection::builder().address(address);
        let builder = builder.contract("cbr,aal5:pcr=1000,max_sdu=100");
        session.open(&builder).unwrap()
    };
    let mut connections = vec![open(0)];
    let first = kinds.map(descriptors);
    connections.extend((1..200).map(open));
    let all = kinds.map(descriptors);
    // One to wait at, and in it the adapter's wake-up.
    assert_eq!([first[1], first[2]], [before[1] + 1, before[2] + 2]);
    assert_eq!([all[1], all[2]], [first[1], first[2]]);
    assert_eq!(all[0], first[0] + 199, "one each");

    // Each sends to the other end of its pair.
    for (n, connection) in connections.iter().enumerate() {
        connection.send(&[n as u8; 40]).unwrap();
    }
    let mut missing: Vec<bool> = vec![true; 200];
    while missing.contains(&true) {
        let ready = session.wait(Some(PATIENCE)).unwrap();
        assert!(!ready.is_empty(), "nothing has come");
        for number in ready {
            let n = connections.iter().position(|one| one.number() == number);
            let n = n.expect("one of them");
            let mut buffer = [0; 100];
            if let Ok(received) = connections[n].try_recv(&mut buffer) {
                let peer = (n ^ 1) as u8;
                assert_eq!(buffer[..received.len], [peer; 40]);
                assert!(core::mem::replace(&mut missing[n], false));
            }
        }
    }
    drop(connections);
    assert_eq!(descriptors(""), before[0] + 3, "socket, epoll, timer");
    drop(session);
    assert_eq!(kinds.map(descriptors), before);
}
