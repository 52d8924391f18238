//! The daemon and applications that take pages of their memory away.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::common::application::*;
use crate::common::raw::RawVc;
use crate::common::*;
use cellgate_core::queue::layout::PAGE_LEN;
use cellgate_core::server::{Confirm, EndReason, FromServer, Indication, Refused, Request};
use rustix::fs::{FallocateFlags, fallocate, fstat};

const CBR: &str = "aal5,cbr:pcr=20000cps,max_sdu=1000";

/// Page faults of the firmware's thread, as the kernel counts them.
fn firmware_faults(adapter: u32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{adapter}/task")).unwrap();
    let read = |path: std::path::PathBuf| std::fs::read_to_string(path).unwrap();
    let mut tasks = tasks.map(|task| task.unwrap().path());
    let firmware = tasks.find(|task| read(task.join("comm")).trim() == "cg-firmware");
    let stat = read(firmware.expect("it runs").join("stat"));
    let (_, fields) = stat.rsplit_once(')').unwrap();
    fields.split_whitespace().nth(7).unwrap().parse().unwrap()
}

/// Takes all pages behind the first out of a file.
fn punch(file: &OwnedFd) {
    let len = fstat(file).unwrap().st_size.cast_unsigned();
    let first = PAGE_LEN as u64;
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(file, flags, first, len - first).unwrap();
}

/// An application with a connection, and the file of that connection or of its attachment that it
/// writes.
fn opened(daemon: &Daemon, address: &str, file: usize) -> (Application, RawVc, OwnedFd) {
    let mut application = daemon.connect();
    let (confirm, fds) = application.ask_with(Request::Open(open(address, CBR)), &[]);
    let Ok(Confirm::Opened(opened)) = confirm else {
        panic!("{confirm:?}");
    };
    let taken = fds[file].as_fd().try_clone_to_owned().unwrap();
    let vc = raw(&opened, fds);
    (application, vc, taken)
}

fn has_ended(application: &mut Application) -> bool {
    while !is_quiet(&application.socket) {
        match application.next(Instant::now() + PATIENCE) {
            Some((FromServer::Indication { indication, .. }, _)) => {
                assert_eq!(indication, Indication::Ended(EndReason::PagesTaken));
                return true;
            }
            Some(_) => {}
            None => panic!("hung up without a word"),
        }
    }
    false
}

#[test]
fn who_takes_pages_away_stops_the_adapter_for_a_moment_and_nobody_else() {
    // The file of its connection, and that of its attachment, which has its doorbells.
    for file in [1, 3] {
        let daemon = Daemon::start(&format!("pages-{file}"), "");
        let (mut honest, mut vc, _) = opened(&daemon, "0.100", 1);
        let adapter = daemon.adapter();
        let (mut taker, mut taken, pages) = opened(&daemon, "0.101", file);
        // It is at peace as long as it does nothing.
        vc.send(b"before");
        assert_eq!(vc.receive(), b"before");
        assert!(!has_ended(&mut taker));
        let faults = firmware_faults(adapter);
        let from = Instant::now();
        while !has_ended(&mut taker) {
            assert!(from.elapsed() < PATIENCE, "nobody ends it");
            punch(&pages);
            taken.try_send(b"a page fault for the firmware's thread");
            vc.send(b"beside");
            assert_eq!(vc.receive(), b"beside");
        }
        let made = firmware_faults(adapter) - faults;
        println!(
            "file {file}: {made} faults, ended after {:?}",
            from.elapsed()
        );
        assert!(made > 0, "the firmware's thread had none");
        // It has no part in the adapter any more, and gets none for a while.
        std::thread::sleep(Duration::from_millis(50));
        let faults = firmware_faults(adapter);
        for _ in 0..100 {
            punch(&pages);
            taken.try_send(b"nobody reads this");
            vc.send(b"after");
            assert_eq!(vc.receive(), b"after");
        }
        // Each round would have made one. The kernel may take a page of the program itself.
        let made = firmware_faults(adapter) - faults;
        assert!(made < 10, "{made} faults in 100 rounds");
        let refused = daemon.connect().open(open("0.102", CBR)).err();
        let is_barred = matches!(refused, Some(Refused::PagesTaken { seconds: 1..=10 }));
        assert!(is_barred, "{refused:?}");
        assert!(!has_ended(&mut honest));
    }
}
