//! What an adapter keeps for a server that dies, and how its successor gets it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::common::raw::{Parts, RawVc};
use crate::common::*;
use cellgate_core::adapter::{AttachmentIndex, OpenRequest, PortIndex, Refusal, VcIndex};
use cellgate_core::wire::OamFlow;
use cellgate_host::adapter::{AdapterProcess, run_as_child};
use cellgate_host::client::{ClientError, Control, memory_for};
use cellgate_host::control::{
    Answer, Ask, ControlError, MESSAGE_MAX, RECORD_MAX, ReceiveInto, Received, Request, TakenUp,
    pair, receive, send, take_stdin,
};

const PATH: &str = "CELLGATE_TEST_PATH";
/// VCs of the first owner: a loop of cells for each.
const VCS: u16 = 3;

fn program(role: &str, path: &Path) -> Command {
    let mut program = in_role(module_path!(), role);
    program.env(PATH, path);
    program
}

/// No test by itself: what the processes do that the tests here start.
#[test]
fn plays_its_role() {
    match std::env::var(ROLE).as_deref() {
        Ok("adapter") => run_as_child().unwrap(),
        Ok("owner") => own(),
        _ => {}
    }
}

fn record(vci: u16) -> String {
    format!("{{\"vci\":{vci}}}")
}

fn sends_and_receives(vci: u16, attachment: AttachmentIndex) -> OpenRequest {
    OpenRequest {
        address: address(0, vci),
        port: PortIndex(0),
        aal: cellgate_core::adapter::Aal::Aal5,
        attachment,
        receive: Some(receiving(1_000)),
        transmit: Some(transmitting(1_000)),
    }
}

/// Port 0 receives what it transmits.
fn loop_back(control: &mut Control) {
    let port = PortIndex(0);
    let (answer, fds) = control.ask(Ask::ReceivePort { port }, &[]).unwrap();
    let Answer::Port {
        sizes,
        files_generation,
    } = answer
    else {
        panic!("{answer:?}");
    };
    let join = Ask::Join {
        port,
        sizes,
        files_generation,
    };
    let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
    control.ask(join, &fds).unwrap();
}

/// Opens VCs for the process at the other end of its standard input, and lives until it is killed.
fn own() {
    let client = take_stdin().unwrap();
    let path = PathBuf::from(std::env::var_os(PATH).unwrap());
    let mut control = Control::at(&path).unwrap();
    loop_back(&mut control);
    for vci in 100..100 + VCS {
        let (parts, fds) = open(&mut control, vci);
        let (mine, theirs) = pair().unwrap();
        let attachment = parts.attachment;
        let keep = Ask::Keep {
            attachment,
            record: None,
        };
        control.ask(keep, &[mine.as_fd()]).unwrap();
        let fds: Vec<_> = fds.iter().chain([&theirs]).map(AsFd::as_fd).collect();
        let octets = serde_json::to_vec(&parts).unwrap();
        send(&client, &octets, &fds, true).unwrap();
    }
    std::thread::sleep(PATIENCE);
}

/// An attachment that is kept, and a VC of it.
fn open(control: &mut Control, vci: u16) -> (Parts, Vec<OwnedFd>) {
    let attach = Ask::Attach {
        sizes: attachment_sizes(),
        user: 0,
        keep: true,
    };
    let (answer, of_attachment) = control.ask(attach, &[]).unwrap();
    let Answer::Attached {
        attachment,
        sizes: attachment_sizes,
        files_generation: attachment_generation,
    } = answer
    else {
        panic!("{answer:?}");
    };
    let open = Ask::Open {
        request: sends_and_receives(vci, attachment),
        sizes: memory_for(1_000, 64, 8),
        receive_into: ReceiveInto::Own,
        record: Some(record(vci)),
    };
    let (answer, mut fds) = control.ask(open, &[]).unwrap();
    let Answer::Opened {
        vc,
        sizes,
        files_generation,
        ..
    } = answer
    else {
        panic!("{answer:?}");
    };
    fds.extend(of_attachment);
    let parts = Parts {
        vc,
        sizes,
        files_generation,
        attachment,
        attachment_sizes,
        attachment_generation,
    };
    (parts, fds)
}

/// An adapter that listens in a directory of its own, which goes with it.
struct Place {
    adapter: Option<AdapterProcess>,
    directory: PathBuf,
}

impl Place {
    fn new(name: &str) -> (Self, Control) {
        let name = format!("cellgate-{name}-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory).unwrap();
        let mut place = Self {
            adapter: None,
            directory,
        };
        let mut options = options();
        options.die_with_parent = false;
        options.listen = Some(place.socket());
        let program = program("adapter", &place.directory);
        let (adapter, control) = AdapterProcess::spawn(program, &options).unwrap();
        place.adapter = Some(adapter);
        (place, control)
    }

    fn socket(&self) -> PathBuf {
        self.directory.join("adapter.sock")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        drop(self.adapter.take());
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// The first owner, and what it opened for this process: each with a socket whose other end is
/// kept.
fn first_owner(place: &Place) -> (Child, Vec<(RawVc, OwnedFd)>) {
    let (mine, theirs) = pair().unwrap();
    let mut program = program("owner", &place.socket());
    let child = program.stdin(Stdio::from(theirs)).spawn().unwrap();
    drop(program);
    let mut buffer = vec![0; MESSAGE_MAX];
    let opened = (0..VCS).map(|_| {
        let Received::Message(len, mut fds) = receive(&mine, &mut buffer, true).unwrap() else {
            panic!("the owner has ended");
        };
        let socket = fds.pop().unwrap();
        let parts: Parts = serde_json::from_slice(&buffer[..len]).unwrap();
        (RawVc::new(&parts, fds), socket)
    });
    let opened = opened.collect();
    (child, opened)
}

fn take_up(control: &mut Control) -> (TakenUp, Vec<OwnedFd>) {
    eventually("the adapter stays busy", || {
        match control.ask(Ask::TakeUp, &[]) {
            Ok((Answer::TakenUp(taken), fds)) => Some((taken, fds)),
            Err(ClientError::Refused(ControlError::Refused(Refusal::Busy))) => None,
            other => panic!("{other:?}"),
        }
    })
}

#[test]
fn a_successor_takes_all_up_while_data_flows_on() {
    let (place, starter) = Place::new("take-up");
    let (mut owner, opened) = first_owner(&place);
    drop(starter);
    let (mut vcs, sockets): (Vec<_>, Vec<_>) = opened.into_iter().unzip();
    let ended = AtomicBool::new(false);
    let mut successor = std::thread::scope(|scope| {
        let flow = scope.spawn(|| {
            let mut rounds = 0_u32;
            while !ended.load(Ordering::Relaxed) || rounds < 1_000 {
                for vc in &mut vcs {
                    vc.send(&rounds.to_be_bytes());
                    assert_eq!(vc.receive(), rounds.to_be_bytes());
                }
                rounds += 1;
            }
        });
        owner.kill().unwrap();
        owner.wait().unwrap();
        let mut successor = Control::at(&place.socket()).unwrap();
        let mut attachments = Vec::new();
        for (vc, socket) in take_attachments(&mut successor, &sockets) {
            attachments.push(vc);
            send(&socket, b"still there", &[], false).unwrap();
        }
        for i in 0..VCS {
            let (taken, fds) = take_up(&mut successor);
            let TakenUp::Vc {
                attachment,
                record: kept,
                ..
            } = taken
            else {
                panic!("{taken:?}");
            };
            assert_eq!(attachment, attachments[usize::from(i)]);
            assert_eq!(kept, Some(record(100 + i)));
            assert_eq!(fds.len(), 2);
        }
        assert_eq!(take_up(&mut successor).0, TakenUp::Nothing);
        ended.store(true, Ordering::Relaxed);
        flow.join().unwrap();
        successor
    });
    for socket in &sockets {
        let mut buffer = vec![0; MESSAGE_MAX];
        let heard = receive(socket, &mut buffer, false).unwrap();
        assert!(matches!(heard, Received::Message(11, _)), "{heard:?}");
    }
    // They are the successor's, in every respect.
    for vc in vcs {
        let stats = successor.close(vc.id).unwrap().stats;
        assert_eq!(stats.cells_discarded.total(), 0);
        assert_eq!(stats.pdus_delivered, stats.pdus_transmitted);
    }
    successor.shutdown().unwrap();
}

#[test]
fn a_loopback_cell_of_the_former_owner_delays_nobody() {
    let (place, mut starter) = Place::new("ping");
    let (_parts, _fds) = open(&mut starter, 500);
    let mut heir = Control::at(&place.socket()).unwrap();
    // Nobody is at the other end of the port.
    let loopback = Request {
        id: 1_000,
        ask: Ask::Loopback {
            port: PortIndex(1),
            address: address(7, 0),
            flow: OamFlow::F4EndToEnd,
            timeout_ns: 10_000_000_000,
        },
    };
    let octets = serde_json::to_vec(&loopback).unwrap();
    send(starter.as_fd(), &octets, &[], true).unwrap();
    // Answered after the loopback cell is on its way.
    let enumerate = Request {
        id: 1_001,
        ask: Ask::Enumerate { from: VcIndex(0) },
    };
    let octets = serde_json::to_vec(&enumerate).unwrap();
    send(starter.as_fd(), &octets, &[], true).unwrap();
    let mut buffer = vec![0; MESSAGE_MAX];
    let answered = receive(starter.as_fd(), &mut buffer, true).unwrap();
    assert!(matches!(answered, Received::Message(..)), "{answered:?}");
    drop(starter);
    let from = Instant::now();
    let (mut attachments, mut vcs) = (0, 0);
    while (attachments, vcs) != (1, 1) {
        match take_up(&mut heir).0 {
            TakenUp::Attachment { .. } => attachments += 1,
            TakenUp::Vc { .. } => vcs += 1,
            // Its end has not been noticed yet.
            TakenUp::Nothing => {}
        }
        assert!(
            from.elapsed() < Duration::from_secs(1),
            "{attachments} {vcs}"
        );
    }
    assert_eq!(take_up(&mut heir).0, TakenUp::Nothing);
    heir.shutdown().unwrap();
}

/// Takes the attachments up: each with the socket that was kept with it.
fn take_attachments(control: &mut Control, ends: &[OwnedFd]) -> Vec<(AttachmentIndex, OwnedFd)> {
    let take = |_| {
        let (taken, mut fds) = take_up(control);
        let TakenUp::Attachment { attachment, .. } = taken else {
            panic!("{taken:?}");
        };
        assert_eq!(fds.len(), 6);
        (attachment, fds.pop().unwrap())
    };
    ends.iter().map(take).collect()
}

#[test]
fn what_was_kept_goes_with_its_attachment() {
    let (place, mut starter) = Place::new("kept");
    let (parts, _fds) = open(&mut starter, 200);
    let attachment = parts.attachment;
    let mut buffer = vec![0; MESSAGE_MAX];
    let ask = |attachment| Ask::Keep {
        attachment,
        record: None,
    };
    let mut keep = |fds: &[BorrowedFd<'_>]| starter.ask(ask(attachment), fds);
    let hears_the_end = |socket: &OwnedFd, buffer: &mut [u8]| {
        matches!(receive(socket, buffer, true).unwrap(), Received::Closed(_))
    };
    // Replaced, the former one is closed.
    let (kept, first) = pair().unwrap();
    keep(&[kept.as_fd()]).unwrap();
    drop(kept);
    let (kept, second) = pair().unwrap();
    keep(&[kept.as_fd()]).unwrap();
    drop(kept);
    assert!(hears_the_end(&first, &mut buffer));
    // Without a descriptor, none is kept.
    keep(&[]).unwrap();
    assert!(hears_the_end(&second, &mut buffer));
    let (kept, third) = pair().unwrap();
    keep(&[kept.as_fd()]).unwrap();
    drop(kept);
    starter.close(parts.vc).unwrap();
    starter.ask(Ask::Detach { attachment }, &[]).unwrap();
    assert!(hears_the_end(&third, &mut buffer));
    // An attachment that goes with its connection keeps nothing.
    let sizes = attachment_sizes();
    let attach = Ask::Attach {
        sizes,
        user: 0,
        keep: false,
    };
    let (answer, _fds) = starter.ask(attach, &[]).unwrap();
    let Answer::Attached { attachment, .. } = answer else {
        panic!("{answer:?}");
    };
    let refused = starter.ask(ask(attachment), &[]);
    assert!(
        matches!(refused, Err(ClientError::Refused(ControlError::NotYours))),
        "{refused:?}"
    );
    drop(place);
}

#[test]
fn what_was_kept_holds_nobody_up_when_it_is_closed() {
    let (place, mut starter) = Place::new("linger");
    let (parts, _fds) = open(&mut starter, 201);
    let mut listeners = Vec::new();
    let from = Instant::now();
    for _ in 0..20 {
        let (socket, listener) = lingering();
        listeners.push(listener);
        let ask = Ask::Keep {
            attachment: parts.attachment,
            record: None,
        };
        starter.ask(ask, &[socket.as_fd()]).unwrap();
        // Refused, it is closed as well.
        let ask = Ask::Close { vc: parts.vc };
        starter.ask(ask, &[socket.as_fd()]).unwrap_err();
    }
    starter.close(parts.vc).unwrap();
    assert!(from.elapsed() < LINGER / 2, "{:?}", from.elapsed());
    drop(place);
}

#[test]
fn only_what_is_left_behind_is_taken_up_and_by_those_who_govern() {
    let (_place, mut starter) = Place::new("govern");
    let (parts, _fds) = open(&mut starter, 300);
    assert_eq!(take_up(&mut starter).0, TakenUp::Nothing);
    let mut guest = Control::new(starter.connect().unwrap()).unwrap();
    for ask in [Ask::TakeUp, Ask::Unlink { port: PortIndex(0) }] {
        let refused = guest.ask(ask, &[]);
        assert!(
            matches!(
                refused,
                Err(ClientError::Refused(ControlError::NotGoverning))
            ),
            "{refused:?}"
        );
    }
    let long = Ask::Modify {
        vc: parts.vc,
        request: sends_and_receives(300, parts.attachment),
        region: None,
        record: Some("x".repeat(RECORD_MAX + 1)),
    };
    let refused = starter.ask(long, &[]);
    assert!(
        matches!(
            refused,
            Err(ClientError::Refused(ControlError::RecordTooLong))
        ),
        "{refused:?}"
    );
    // A record is replaced by another one only.
    for record in [None, Some("new".to_owned()), None] {
        let modify = Ask::Modify {
            vc: parts.vc,
            request: sends_and_receives(300, parts.attachment),
            region: None,
            record,
        };
        starter.ask(modify, &[]).unwrap();
    }
    let mut heir = Control::at(&_place.socket()).unwrap();
    drop(starter);
    let kept = eventually("nothing is left behind", || match take_up(&mut heir).0 {
        TakenUp::Vc { record, .. } => Some(record),
        TakenUp::Attachment { .. } | TakenUp::Nothing => None,
    });
    assert_eq!(kept.as_deref(), Some("new"));
}

#[test]
fn a_port_that_is_unlinked_receives_nothing_and_takes_another_link() {
    let (_place, mut control) = Place::new("unlink");
    loop_back(&mut control);
    let (parts, fds) = open(&mut control, 400);
    let mut vc = RawVc::new(&parts, fds);
    vc.send(b"round");
    assert_eq!(vc.receive(), b"round");
    control
        .ask(Ask::Unlink { port: PortIndex(0) }, &[])
        .unwrap();
    vc.send(b"lost");
    eventually("the cells are not sent", || {
        (control.enumerate().unwrap().vcs[0].stats.pdus_transmitted == 2).then_some(())
    });
    loop_back(&mut control);
    vc.send(b"round again");
    assert_eq!(vc.receive(), b"round again");
    // What still lies in the former queue is not received.
    let mut attached = control.attach(attachment_sizes(), false).unwrap();
    let at = address(0, 401);
    let request = receives(at, 1, &attached, 100);
    let mut other = control.open(request, memory_for(100, 8, 0)).unwrap();
    let mut sender = control.cell_sender(PortIndex(1)).unwrap();
    send_all(&mut sender, &cells(at, b"before"));
    assert_eq!(next_sdu(&mut attached, &mut other), b"before");
    let unlink = Ask::Unlink { port: PortIndex(1) };
    control.ask(unlink, &[]).unwrap();
    send_all(&mut sender, &cells(at, b"after"));
    vc.send(b"a step later");
    assert_eq!(vc.receive(), b"a step later");
    assert_eq!(control.close(other.id()).unwrap().stats.cells_received, 1);
}
