//! Adapters that meet others at a socket's path: one that writes whatever it likes, and one that
//! comes after it.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::common::*;
use cellgate_core::adapter::PortIndex;
use cellgate_core::keeper::{Hail, MEETING_VERSION, MeetingReport, Word};
use cellgate_core::queue::PortGeometry;
use cellgate_core::queue::layout::port;
use cellgate_core::wire::{CellFormat, HeaderForm};
use cellgate_host::adapter::{AdapterOptions, AdapterThread};
use cellgate_host::client::{ClientError, Control, memory_for};
use cellgate_host::control::{
    Answer, Ask, ControlError, MESSAGE_MAX, PortReport, Received, receive, send,
};
use cellgate_shm::{AdapterPage, PortReceiver, socket, wake_descriptors};
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;
use rustix::fs::fstat;
use rustix::io::pwrite;
use rustix::net::{SocketFlags, accept_with};
use rustix::process::{Uid, geteuid};
use rustix::thread::set_thread_res_uid;

const UNI: PortIndex = PortIndex(0);

fn uni() -> AdapterOptions {
    let mut options = options();
    options.port_cells = 256;
    options.config.ports[0].form = HeaderForm::Uni;
    options.config.ports[0].format = CellFormat::WithHec;
    options
}

fn path(test: &str) -> PathBuf {
    let name = format!("cellgate-meeting-{}-{test}", std::process::id());
    std::env::temp_dir().join(name)
}

fn meet(control: &mut Control, path: &Path) {
    let path = path.to_str().unwrap().to_owned();
    let (answer, _) = control.ask(Ask::Meet { port: UNI, path }, &[]).unwrap();
    assert_eq!(answer, Answer::Done);
}

fn report(control: &mut Control) -> PortReport {
    let (answer, _) = control.ask(Ask::Ports { from: UNI }, &[]).unwrap();
    let Answer::Ports(ports) = answer else {
        panic!("{answer:?}");
    };
    ports[0].clone()
}

fn meeting(control: &mut Control) -> MeetingReport {
    report(control).meeting.unwrap()
}

fn await_joined(control: &mut Control, joined: bool) {
    eventually("it does not join, or part", || {
        (meeting(control).joined == joined).then_some(())
    });
}

/// A peer that does what it likes with what it was handed.
struct Hostile {
    socket: OwnedFd,
    /// The file that it writes.
    mine: OwnedFd,
    /// Cells that it says it has sent.
    sent: u64,
    _port: PortReceiver,
}

impl Hostile {
    fn joins(path: &Path) -> Self {
        let socket = socket::dial(path, Duration::from_secs(10)).unwrap();
        let mut buffer = vec![0; MESSAGE_MAX];
        let Received::Message(len, fds) = receive(&socket, &mut buffer, true).unwrap() else {
            panic!("nothing was said");
        };
        let Ok(Word::Hail(theirs)) = serde_json::from_slice(&buffer[..len]) else {
            panic!("no hail");
        };
        assert_eq!((theirs.form, fds.len()), (HeaderForm::Uni, 4));
        let geometry = PortGeometry::new(theirs.sizes).unwrap();
        let (port, files) = PortReceiver::create(&geometry, 5).unwrap();
        let (_page, page) = AdapterPage::create(false).unwrap();
        let (bell, _watch) = wake_descriptors().unwrap();
        let hail = Word::Hail(Hail {
            version: MEETING_VERSION,
            files_generation: 5,
            ..theirs
        });
        let [from_adapter, from_client] = files.fds();
        let fds_sent = [from_adapter, from_client, page.as_fd(), bell.as_fd()];
        send(
            &socket,
            &serde_json::to_vec(&hail).unwrap(),
            &fds_sent,
            true,
        )
        .unwrap();
        let [_, mine, ..] = <[OwnedFd; 4]>::try_from(fds).unwrap();
        Self {
            socket,
            mine,
            sent: 0,
            _port: port,
        }
    }

    /// Writes something somewhere: often an index, which then cannot be, or says that there are
    /// more cells.
    fn scribble(&mut self, rng: &mut Pcg64Mcg) {
        let len = fstat(&self.mine).unwrap().st_size as u64;
        let (at, word) = match rng.next_u32() % 4 {
            0 => (port::CELL_HEAD as u64, rng.next_u64()),
            1 => {
                self.sent += u64::from(rng.next_u32() % 4);
                (port::CELL_HEAD as u64, self.sent)
            }
            _ => (rng.next_u64() % (len / 8) * 8, rng.next_u64()),
        };
        pwrite(&self.mine, &word.to_le_bytes(), at).unwrap();
    }
}

#[test]
fn a_peer_that_scribbles_costs_nobody_else_anything_and_another_may_follow() {
    let path = path("scribbles");
    let (_adapter, mut control) = AdapterThread::spawn(uni()).unwrap();
    meet(&mut control, &path);
    assert_eq!(meeting(&mut control), MeetingReport::default());
    let mut attached = control.attach(attachment_sizes(), false).unwrap();
    let request = receives(address(0, 500), 1, &attached, 1_000);
    let mut vc = control.open(request, memory_for(1_000, 8, 0)).unwrap();
    let mut sender = control.cell_sender(PortIndex(1)).unwrap();
    let mut sdus = Sdus::new(9, 1_000);
    let mut hostile = Hostile::joins(&path);
    await_joined(&mut control, true);
    let mut rng = Pcg64Mcg::new(17);
    for _ in 0..200 {
        for _ in 0..20 {
            hostile.scribble(&mut rng);
        }
        let sdu = sdus.next().unwrap();
        send_all(&mut sender, &cells(address(0, 500), &sdu));
        assert_eq!(next_sdu(&mut attached, &mut vc), sdu);
    }
    // What it has sent is counted for what it is.
    eventually("nothing of it is counted", || {
        let report = report(&mut control);
        (report.receive.faults > 0 && report.strays.hec_error > 0).then_some(())
    });
    // A third is sent away and disturbs nobody.
    let third = socket::dial(&path, Duration::from_secs(10)).unwrap();
    let mut buffer = vec![0; MESSAGE_MAX];
    let Received::Message(len, _) = receive(&third, &mut buffer, true).unwrap() else {
        panic!("nothing was said");
    };
    assert_eq!(
        serde_json::from_slice::<Word>(&buffer[..len]).unwrap(),
        Word::Taken
    );
    assert!(meeting(&mut control).joined);
    // It says what nobody says who is joined.
    send(&hostile.socket, b"more", &[], true).unwrap();
    await_joined(&mut control, false);
    assert!(meeting(&mut control).parted.is_some());
    let (_other, mut other) = AdapterThread::spawn(uni()).unwrap();
    meet(&mut other, &path);
    for one in [&mut control, &mut other] {
        await_joined(one, true);
    }
    // Unlinked, it is nobody's place any more.
    control.ask(Ask::Unlink { port: UNI }, &[]).unwrap();
    assert_eq!(report(&mut control).meeting, None);
    await_joined(&mut other, false);
    other.ask(Ask::Unlink { port: UNI }, &[]).unwrap();
    assert!(!path.exists());
}

#[test]
fn a_peer_that_hands_over_what_is_no_port_is_told_so() {
    let path = path("nonsense");
    let (_adapter, mut control) = AdapterThread::spawn(uni()).unwrap();
    meet(&mut control, &path);
    let hail = Word::Hail(Hail {
        version: MEETING_VERSION,
        form: HeaderForm::Uni,
        sizes: cellgate_core::queue::PortSizes {
            cells: 1 << 10,
            format: CellFormat::WithHec,
        },
        files_generation: 1,
    });
    let hail = serde_json::to_vec(&hail).unwrap();
    for (word, fds) in [(&hail[..], 4), (&hail[..], 0), (b"hello", 0)] {
        let socket = socket::dial(&path, Duration::from_secs(10)).unwrap();
        let null = std::fs::File::open("/dev/null").unwrap();
        send(&socket, word, &vec![null.as_fd(); fds], true).unwrap();
        // Its own words came before; then it hangs up.
        let mut buffer = vec![0; MESSAGE_MAX];
        let mut hears = || receive(&socket, &mut buffer, true).unwrap();
        assert!(matches!(hears(), Received::Message(..)));
        assert!(matches!(hears(), Received::Closed(_)));
        let told = meeting(&mut control);
        assert!(!told.joined && told.trouble.is_some(), "{told:?}");
    }
    control.ask(Ask::Unlink { port: UNI }, &[]).unwrap();
}

#[test]
fn nobody_is_met_but_this_user_and_root() {
    if !geteuid().is_root() {
        return println!("skipped: only root can be another user, too");
    }
    let path = path("stranger");
    let at = path.clone();
    let listens = std::thread::spawn(move || {
        let nobody = Uid::from_raw(65_534);
        // Of this thread alone.
        set_thread_res_uid(nobody, nobody, nobody).unwrap();
        socket::listen(&at, 0o666).unwrap()
    });
    let listener = listens.join().unwrap();
    let (_adapter, mut control) = AdapterThread::spawn(uni()).unwrap();
    let ask = Ask::Meet {
        port: UNI,
        path: path.to_str().unwrap().to_owned(),
    };
    let Err(ClientError::Refused(ControlError::Meeting(why))) = control.ask(ask, &[]) else {
        panic!("it was met");
    };
    assert!(why.contains("user 65534 has the other end"), "{why}");
    // It was handed nothing.
    let came = accept_with(&listener, SocketFlags::CLOEXEC).unwrap();
    let mut buffer = vec![0; MESSAGE_MAX];
    let Received::Closed(fds) = receive(&came, &mut buffer, true).unwrap() else {
        panic!("it was told something");
    };
    assert!(fds.is_empty());
    drop(listener);
    std::fs::remove_file(path).unwrap();
}
