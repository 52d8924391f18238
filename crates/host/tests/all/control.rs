//! Hostile and clumsy users of the control descriptor: an error reply, never a panic, a hang or a
//! share in what belongs to others.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::common::*;
use cellgate_core::adapter::{AttachmentIndex, PortConfig, PortIndex, Refusal, VcId, VcIndex};
use cellgate_core::queue::{AttachmentSizes, PortSizes};
use cellgate_core::wire::{CellFormat, HeaderForm};
use cellgate_host::adapter::AdapterThread;
use cellgate_host::client::{ClientError, Control, memory_for};
use cellgate_host::control::{
    Answer, Ask, ControlError, FDS_MAX, MESSAGE_MAX, ReceiveInto, Received, Reply, Request,
    VERSION, receive, send,
};
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::SendFlags;

/// Sends octets as they are; the reply.
fn exchange(socket: &OwnedFd, octets: &[u8], fds: &[BorrowedFd<'_>]) -> Reply {
    send(socket, octets, fds, true).unwrap();
    reply(socket)
}

fn reply(socket: &OwnedFd) -> Reply {
    let mut buffer = vec![0; MESSAGE_MAX];
    match receive(socket, &mut buffer, true).unwrap() {
        Received::Message(len, _) => serde_json::from_slice(&buffer[..len]).unwrap(),
        other => panic!("{other:?}"),
    }
}

fn ask(socket: &OwnedFd, ask: Ask, fds: &[BorrowedFd<'_>]) -> Result<Answer, ControlError> {
    let request = Request { id: 9, ask };
    let reply = exchange(socket, &serde_json::to_vec(&request).unwrap(), fds);
    assert_eq!(reply.id, 9);
    reply.result
}

fn refusal<T: std::fmt::Debug>(result: Result<T, ClientError>) -> ControlError {
    match result {
        Err(ClientError::Refused(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_no_request_gets_an_error_reply() {
    let (_adapter, mut control) = AdapterThread::spawn(options()).unwrap();
    let socket = control.connect().unwrap();
    let deep = format!("{{\"id\":1,\"ask\":{}", "[".repeat(60_000));
    let long_name = format!("{{\"id\":1,\"ask\":{{\"{}\":1}}}}", "é".repeat(30_000));
    let crafted: [&[u8]; 12] = [
        b"{",
        b"null",
        b"[]",
        b"\0\0\0\0",
        b"\xff\xfe",
        b"{\"id\":1}",
        b"{\"id\":-1,\"ask\":\"ports\"}",
        b"{\"id\":1,\"ask\":\"ports\",\"more\":1}",
        b"{\"id\":1,\"ask\":{\"hello\":{\"version\":1e99}}}",
        b"{\"id\":99999999999999999999999,\"ask\":\"ports\"}",
        deep.as_bytes(),
        long_name.as_bytes(),
    ];
    for octets in crafted {
        let reply = exchange(&socket, octets, &[]);
        assert!(
            matches!(reply.result, Err(ControlError::BadMessage(_))),
            "{reply:?}"
        );
        assert_eq!(reply.id, 0);
    }
    rustix::net::send(&socket, &vec![b' '; MESSAGE_MAX + 1], SendFlags::empty()).unwrap();
    assert_eq!(reply(&socket).result, Err(ControlError::TooLong));
    assert!(control.stats().is_ok());
}

#[test]
fn random_octets_and_mutated_requests_do_no_harm() {
    let (_adapter, mut control) = AdapterThread::spawn(options()).unwrap();
    let mut attached = control.attach(attachment_sizes(), false).unwrap();
    let at = address(0, 90);
    let mut vc = control
        .open(receives(at, 0, &attached, 1_000), memory_for(1_000, 8, 0))
        .unwrap();
    let mut sender = control.cell_sender(PortIndex(0)).unwrap();
    let socket = control.connect().unwrap();
    ask(&socket, Ask::Hello { version: VERSION }, &[]).unwrap();
    let seeds = [
        serde_json::to_vec(&Request {
            id: 1,
            ask: Ask::Open {
                request: receives(address(0, 91), 0, &attached, 100),
                sizes: memory_for(100, 4, 4),
                receive_into: ReceiveInto::Own,
                record: None,
            },
        }),
        serde_json::to_vec(&Request {
            id: 2,
            ask: Ask::Attach {
                sizes: attachment_sizes(),
                user: 0,
                keep: true,
            },
        }),
        serde_json::to_vec(&Request {
            id: 3,
            ask: Ask::Configure {
                port: PortIndex(1),
                config: options().config.ports[1],
            },
        }),
        serde_json::to_vec(&Request {
            id: 4,
            ask: Ask::Lease {
                vc: vc.id(),
                pdus: 1,
                expires_in_ns: 1_000,
            },
        }),
    ]
    .map(Result::unwrap);
    let mut rng = Pcg64Mcg::new(11);
    for i in 0..2_000 {
        let mut octets = seeds[i % seeds.len()].clone();
        for _ in 0..1 + rng.next_u32() % 3 {
            let at = rng.next_u32() as usize % octets.len();
            octets[at] = match rng.next_u32() % 3 {
                0 => b'0' + (rng.next_u32() % 10) as u8,
                1 => b"{}[]\",:-e"[rng.next_u32() as usize % 9],
                _ => rng.next_u32() as u8,
            };
        }
        if i % 5 == 0 {
            octets.truncate(1 + rng.next_u32() as usize % octets.len());
        }
        // Any reply will do; that there is one is the point.
        exchange(&socket, &octets, &[]);
        if i % 100 == 0 {
            for sdu in Sdus::new(i as u64, 1_000).take(2) {
                send_all(&mut sender, &cells(at, &sdu));
                assert_eq!(next_sdu(&mut attached, &mut vc), sdu);
            }
        }
    }
}

#[test]
fn hello_comes_first_and_in_the_right_version() {
    let (_adapter, mut control) = AdapterThread::spawn(options()).unwrap();
    let socket = control.connect().unwrap();
    let early = ask(&socket, Ask::Ports { from: PortIndex(0) }, &[]);
    assert_eq!(early, Err(ControlError::HelloFirst));
    let other = ask(&socket, Ask::Hello { version: 99 }, &[]);
    assert_eq!(other, Err(ControlError::Version { speaks: VERSION }));
    assert_eq!(
        ask(&socket, Ask::Ports { from: PortIndex(0) }, &[]),
        Err(ControlError::HelloFirst)
    );
    assert!(ask(&socket, Ask::Hello { version: VERSION }, &[]).is_ok());
    assert!(ask(&socket, Ask::Ports { from: PortIndex(0) }, &[]).is_ok());
}

#[test]
fn nobody_touches_what_another_connection_opened() {
    let (_adapter, mut control) = AdapterThread::spawn(options()).unwrap();
    let attached = control.attach(attachment_sizes(), false).unwrap();
    let request = receives(address(0, 92), 0, &attached, 500);
    let mut vc = control.open(request, memory_for(500, 4, 0)).unwrap();
    let mut thief = Control::new(control.connect().unwrap()).unwrap();
    let own = thief.attach(attachment_sizes(), false).unwrap();
    let listed = thief.enumerate().unwrap().vcs;
    assert_eq!(listed.len(), 1, "everybody sees all VCs");
    let name = listed[0].vc;
    assert_eq!(name, vc.id());
    assert_eq!(refusal(thief.close(name)), ControlError::NotYours);
    assert_eq!(
        refusal(thief.renew(name, request, memory_for(500, 4, 0))),
        ControlError::NotYours
    );
    assert_eq!(refusal(thief.lease(name, 1, 1)), ControlError::NotYours);
    assert_eq!(
        refusal(thief.reattach(name, &own, None)),
        ControlError::NotYours
    );
    let forged = memfd_create("forged", MemfdFlags::ALLOW_SEALING).unwrap();
    assert_eq!(
        refusal(thief.reattach(name, &own, Some(forged.as_fd()))),
        ControlError::NotYours
    );
    assert_eq!(refusal(thief.detach(&attached)), ControlError::NotYours);
    let mut onto = request;
    onto.address = address(0, 93);
    assert_eq!(
        refusal(thief.open(onto, memory_for(500, 4, 0))),
        ControlError::NotYours,
        "its attachment is another's"
    );
    let buffer_of = Ask::Open {
        request: receives(address(0, 94), 0, &own, 500),
        sizes: memory_for(500, 4, 0),
        receive_into: ReceiveInto::TransmitBufferOf(name),
        record: None,
    };
    assert_eq!(refusal(thief.ask(buffer_of, &[])), ControlError::NotYours);
    // With the capability, it is given.
    thief.reattach(name, &own, Some(vc.capability())).unwrap();
    assert_eq!(refusal(control.close(name)), ControlError::NotYours);
    thief.close(name).unwrap();
}

#[test]
fn a_port_changes_form_and_format_while_nothing_is_on_it() {
    let (_adapter, mut control) = AdapterThread::spawn(options()).unwrap();
    let attached = control.attach(attachment_sizes(), false).unwrap();
    let nni = options().config.ports[0];
    let uni = PortConfig {
        form: HeaderForm::Uni,
        format: CellFormat::WithHec,
        ..nni
    };
    let port = PortIndex(0);
    control.configure(port, uni).unwrap();
    let beyond = receives(address(256, 40), 0, &attached, 500);
    let error = refusal(control.open(beyond, memory_for(500, 4, 0)));
    assert_eq!(error, ControlError::Refused(Refusal::VpiTooLarge));
    let request = receives(address(255, 40), 0, &attached, 500);
    let vc = control.open(request, memory_for(500, 4, 0)).unwrap();
    let other_form = PortConfig {
        form: HeaderForm::Nni,
        ..uni
    };
    let error = refusal(control.configure(port, other_form));
    assert_eq!(error, ControlError::Refused(Refusal::BadParameter));
    // What is no part of a cell's header may change.
    control
        .configure(port, PortConfig { budget: 9, ..uni })
        .unwrap();
    control.close(vc.id()).unwrap();
    control.configure(port, other_form).unwrap();
    let sender = control.cell_sender(port).unwrap();
    let error = refusal(control.configure(port, nni));
    assert!(matches!(error, ControlError::BadGeometry(_)), "{error}");
    drop(sender);
    control.ask(Ask::Unlink { port }, &[]).unwrap();
    control.configure(port, nni).unwrap();
}

#[test]
fn sizes_and_names_that_cannot_be_are_refused() {
    let (_adapter, mut control) = AdapterThread::spawn(options()).unwrap();
    let attached = control.attach(attachment_sizes(), false).unwrap();
    let request = receives(address(0, 95), 0, &attached, 500);
    for (slots, len) in [
        (0, 4_096),
        (3, 4_096),
        (1 << 17, 4_096),
        (4, 1),
        (4, 1 << 31),
    ] {
        let mut sizes = memory_for(500, 4, 0);
        (sizes.receive_slots, sizes.receive_len) = (slots, len);
        let error = refusal(control.open(request, sizes));
        assert!(matches!(error, ControlError::BadGeometry(_)), "{error}");
    }
    for (event_slots, doorbell_slots) in [(0, 1), (1, 0), (7, 8), (1 << 30, 8)] {
        let sizes = AttachmentSizes {
            event_slots,
            doorbell_slots,
        };
        let error = refusal(control.attach(sizes, false));
        assert!(matches!(error, ControlError::BadGeometry(_)), "{error}");
    }
    let nobody = VcId {
        index: VcIndex(u16::MAX),
        generation: 7,
    };
    assert_eq!(refusal(control.close(nobody)), ControlError::NotYours);
    let mut nowhere = request;
    nowhere.attachment = AttachmentIndex(u16::MAX);
    assert_eq!(
        refusal(control.open(nowhere, memory_for(500, 4, 0))),
        ControlError::NotYours
    );
    assert_eq!(control.enumerate().unwrap().vcs.len(), 0);
}

#[test]
fn descriptors_that_do_not_belong_are_refused_and_closed() {
    let (_adapter, mut control) = AdapterThread::spawn(options()).unwrap();
    let file = memfd_create("x", MemfdFlags::ALLOW_SEALING).unwrap();
    let open_fds = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let socket = control.connect().unwrap();
    ask(&socket, Ask::Hello { version: VERSION }, &[]).unwrap();
    let before = open_fds();
    for _ in 0..50 {
        let many = [file.as_fd(); FDS_MAX];
        let error = ask(&socket, Ask::Ports { from: PortIndex(0) }, &many).unwrap_err();
        let (expected, got) = (0, FDS_MAX as u32);
        assert_eq!(error, ControlError::Descriptors { expected, got });
        let reply = exchange(&socket, b"{", &many);
        assert!(matches!(reply.result, Err(ControlError::BadMessage(_))));
        let join = Ask::Join {
            port: PortIndex(0),
            sizes: PortSizes {
                cells: 4_096,
                format: CellFormat::NoHec,
            },
            files_generation: 1,
        };
        let error = ask(&socket, join.clone(), &[file.as_fd(); 4]).unwrap_err();
        assert!(matches!(error, ControlError::BadDescriptor(_)), "{error}");
        let error = ask(&socket, join, &[]).unwrap_err();
        assert!(matches!(error, ControlError::Descriptors { .. }), "{error}");
    }
    // Other tests of this process open descriptors meanwhile, but not 900 of them.
    assert!(open_fds() < before + 400, "descriptors leak");
}

#[test]
fn a_client_that_reads_no_replies_is_not_served_further_and_hurts_nobody() {
    let (_adapter, mut control) = AdapterThread::spawn(options()).unwrap();
    let socket = control.connect().unwrap();
    ask(&socket, Ask::Hello { version: VERSION }, &[]).unwrap();
    let request = Request {
        id: 1,
        ask: Ask::Gaps {
            restart_maxima: false,
        },
    };
    let octets = serde_json::to_vec(&request).unwrap();
    let mut sent = 0;
    // The sockets fill up in both directions; then the adapter reads no more.
    let full = eventually("no end of it", || {
        while send(&socket, &octets, &[], false).is_ok() {
            sent += 1;
            assert!(sent < 1_000_000, "unbounded memory");
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
        send(&socket, &octets, &[], false).err()
    });
    assert_eq!(full, rustix::io::Errno::AGAIN);
    assert!(control.stats().is_ok());
    // What was asked is answered once it is read.
    for _ in 0..sent {
        assert!(reply(&socket).result.is_ok());
    }
}

#[test]
fn there_is_a_limit_to_control_connections() {
    let (_adapter, mut control) = AdapterThread::spawn(options()).unwrap();
    let mut sockets = Vec::new();
    let error = loop {
        match control.connect() {
            Ok(socket) => sockets.push(socket),
            Err(error) => break error,
        }
        assert!(sockets.len() < 1_000);
    };
    assert_eq!(refusal::<()>(Err(error)), ControlError::ConnectionsInUse);
    drop(sockets);
    eventually("places are not given back", || control.connect().ok());
}
