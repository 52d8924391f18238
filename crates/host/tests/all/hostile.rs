//! A client that writes whatever it likes to every word it can write, punches holes, and tries to
//! resize and to write what is not its own - while another client's PDUs pass.

use std::os::fd::{AsFd, OwnedFd};

use crate::common::*;
use cellgate_core::adapter::{OpenRequest, PortIndex, VcIndex};
use cellgate_core::queue::{SduOptions, Words};
use cellgate_host::adapter::AdapterProcess;
use cellgate_host::client::{Attached, ClientError, Control, OpenVc, memory_for};
use cellgate_host::control::{
    Answer, Ask, ControlError, MESSAGE_MAX, ReceiveInto, Received, Reply, Request, VERSION,
    receive, send,
};
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;
use rustix::fs::{FallocateFlags, OFlags, fallocate, fcntl_setfl, fstat, ftruncate};
use rustix::io::{Errno, pread, pwrite, write};

#[test]
fn plays_its_role() {
    if std::env::var_os(ROLE).is_some() {
        cellgate_host::adapter::run_as_child().unwrap();
    }
}

/// The conforming client.
struct Victim {
    attached: Attached,
    vc: OpenVc,
    sender: cellgate_host::link::CellSender,
    sdus: Sdus,
}

impl Victim {
    fn pass_some(&mut self, n: usize) {
        for sdu in self.sdus.by_ref().take(n) {
            send_all(&mut self.sender, &cells(address(0, 500), &sdu));
            assert_eq!(next_sdu(&mut self.attached, &mut self.vc), sdu);
        }
    }
}

/// The files of everything that a hostile client can have, as the control connection gives them:
/// first those that the adapter writes, then those that the client writes.
fn files(control: &mut Control) -> (Vec<OwnedFd>, Vec<OwnedFd>, Vec<OwnedFd>) {
    let (mut theirs, mut mine, mut rest) = (Vec::new(), Vec::new(), Vec::new());
    let ask = Ask::Attach {
        sizes: attachment_sizes(),
        user: 0,
        keep: false,
    };
    let (answer, fds) = control.ask(ask, &[]).unwrap();
    let Answer::Attached { attachment, .. } = answer else {
        panic!("{answer:?}");
    };
    let mut take = |fds: Vec<OwnedFd>| {
        let mut fds = fds.into_iter();
        theirs.push(fds.next().unwrap());
        mine.push(fds.next().unwrap());
        rest.extend(fds);
    };
    take(fds);
    for vci in 600..604 {
        let request = OpenRequest {
            address: address(0, vci),
            port: PortIndex(1),
            aal: cellgate_core::adapter::Aal::Aal5,
            attachment,
            receive: Some(receiving(1_000)),
            transmit: Some(transmitting(1_000)),
        };
        let ask = Ask::Open {
            request,
            sizes: memory_for(1_000, 8, 8),
            receive_into: ReceiveInto::Own,
            record: None,
        };
        take(control.ask(ask, &[]).unwrap().1);
    }
    let port = PortIndex(1);
    take(control.ask(Ask::ReceivePort { port }, &[]).unwrap().1);
    take(control.ask(Ask::TransmitPort { port }, &[]).unwrap().1);
    (theirs, mine, rest)
}

fn word(rng: &mut Pcg64Mcg) -> u64 {
    match rng.next_u32() % 6 {
        0 => rng.next_u64(),
        1 => u64::from(rng.next_u32() % 16),
        2 => u64::MAX - u64::from(rng.next_u32() % 16),
        3 => 1 << (rng.next_u32() % 64),
        // A valid doorbell, a plausible descriptor.
        4 => u64::from(rng.next_u32() % 5) | 1 << 32,
        _ => u64::from(rng.next_u32() % 4_096) | u64::from(rng.next_u32() % 1_000) << 32,
    }
}

#[test]
fn no_write_of_a_client_hurts_another() {
    let mut options = options();
    // Both clients' ports and VCs, and no CPU of its own.
    options.port_cells = 1_024;
    let program = in_role(module_path!(), "adapter");
    let (_adapter, mut control) = AdapterProcess::spawn(program, &options).unwrap();
    let attached = control.attach(attachment_sizes(), false).unwrap();
    let request = receives(address(0, 500), 0, &attached, 1_000);
    let mut victim = Victim {
        vc: control.open(request, memory_for(1_000, 8, 0)).unwrap(),
        sender: control.cell_sender(PortIndex(0)).unwrap(),
        attached,
        sdus: Sdus::new(9, 1_000),
    };
    let mut hostile = Control::new(control.connect().unwrap()).unwrap();
    let (theirs, mine, _rest) = files(&mut hostile);
    for file in &theirs {
        let len = fstat(file).unwrap().st_size as u64;
        assert_eq!(pwrite(file, &[1; 8], 128).unwrap_err(), Errno::PERM);
        assert_eq!(ftruncate(file, 0).unwrap_err(), Errno::PERM);
        assert_eq!(ftruncate(file, 2 * len).unwrap_err(), Errno::PERM);
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        assert_eq!(fallocate(file, hole, 0, 4_096).unwrap_err(), Errno::PERM);
    }
    let mut rng = Pcg64Mcg::new(13);
    for i in 0..3_000 {
        let file = &mine[rng.next_u32() as usize % mine.len()];
        let len = fstat(file).unwrap().st_size as u64;
        match rng.next_u32() % 20 {
            0 => assert_eq!(ftruncate(file, 0).unwrap_err(), Errno::PERM),
            1 => assert_eq!(ftruncate(file, len + 4_096).unwrap_err(), Errno::PERM),
            2 => {
                let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                fallocate(file, hole, 0, len).unwrap();
            }
            // One of the words that count: indices, sleep, drops.
            3..12 => {
                let at = 128 * u64::from(1 + rng.next_u32() % 3);
                pwrite(file, &word(&mut rng).to_le_bytes(), at).unwrap();
            }
            // An index that goes on as it should, over slots that are not filled as they should.
            12..16 => {
                let at = 128 * u64::from(1 + rng.next_u32() % 3);
                let mut octets = [0; 8];
                pread(file, &mut octets, at).unwrap();
                let next = u64::from_le_bytes(octets).wrapping_add(1);
                pwrite(file, &next.to_le_bytes(), at).unwrap();
            }
            _ => {
                let at = rng.next_u64() % (len / 8) * 8;
                pwrite(file, &word(&mut rng).to_le_bytes(), at).unwrap();
            }
        }
        if i % 10 == 0 {
            victim.pass_some(1);
        }
    }
    victim.pass_some(100);
    drop((hostile, theirs, mine));
    eventually("the hostile client's VCs stay open", || {
        (control.enumerate().unwrap().vcs.len() == 1).then_some(())
    });
    let info = control.close(victim.vc.id()).unwrap();
    assert_eq!(info.stats.pdus_delivered, 400);
    assert_eq!(info.stats.cells_discarded.total(), 0);
    assert_eq!(info.stats.client_faults, 0);
}

#[test]
fn what_another_client_may_not_send_it_cannot_send() {
    let (_adapter, mut control) = cellgate_host::adapter::AdapterThread::spawn(options()).unwrap();
    let mut line = control.cell_receiver(PortIndex(1)).unwrap();
    let owner = control.attach(attachment_sizes(), false).unwrap();
    let request = transmits(address(0, 510), 1, &owner, 500);
    let mut vc = control.open(request, memory_for(500, 0, 4)).unwrap();
    let mut thief = Control::new(control.connect().unwrap()).unwrap();
    let mut forger = thief.attach(attachment_sizes(), false).unwrap();
    let own = transmits(address(0, 511), 1, &forger, 500);
    let mut own = thief.open(own, memory_for(500, 0, 4)).unwrap();
    // A doorbell for somebody else's VC, and a doorbell of its own behind it.
    forger.ring(vc.id());
    assert!(own.send(&mut forger, &[7; 100], SduOptions::default()));
    let expected = cells(address(0, 511), &[7; 100]);
    let mut got = vec![0; expected.len()];
    let mut at = 0;
    eventually("nothing was sent", || {
        line.poll();
        at += line.take(&mut got[at..]) * 52;
        (at == got.len()).then_some(())
    });
    assert_eq!(got, expected);
    assert_eq!(control.stats().unwrap().doorbell_faults, 1);
    assert!(vc.capability().as_fd().try_clone_to_owned().is_ok());
}

#[test]
fn a_wake_up_cannot_be_made_to_wait() {
    let (_adapter, mut control) = cellgate_host::adapter::AdapterThread::spawn(options()).unwrap();
    let mut attached = control.attach(attachment_sizes(), false).unwrap();
    let request = receives(address(0, 520), 0, &attached, 500);
    let mut vc = control.open(request, memory_for(500, 8, 0)).unwrap();
    let mut sender = control.cell_sender(PortIndex(0)).unwrap();
    // What makes a write to an eventfd wait for ever, for all who hold it.
    fcntl_setfl(attached.as_fd(), OFlags::empty()).unwrap();
    let refused = write(attached.as_fd(), &(u64::MAX - 1).to_ne_bytes());
    assert_eq!(refused.unwrap_err(), Errno::INVAL);
    // It says that it sleeps, before each PDU anew, and never reads.
    let deadline = std::time::Instant::now() + PATIENCE;
    for sleep in 1..20 {
        let asleep = attached.memory().from_client();
        asleep.store(cellgate_core::queue::layout::attachment::ASLEEP, sleep);
        send_all(&mut sender, &cells(address(0, 520), &[1; 100]));
        let pdu = loop {
            if let Some(pdu) = vc.next_pdu() {
                break pdu;
            }
            assert!(std::time::Instant::now() < deadline, "no PDU came");
            std::thread::yield_now();
        };
        assert!(vc.release(pdu));
    }
}

/// Sends a request without waiting for its answer.
fn shout(socket: &OwnedFd, id: u64, ask: Ask) {
    let octets = serde_json::to_vec(&Request { id, ask }).unwrap();
    send(socket, &octets, &[], true).unwrap();
}

/// Takes answers until that to `id`.
fn answer(socket: &OwnedFd, id: u64) -> Result<Answer, ControlError> {
    let mut buffer = vec![0; MESSAGE_MAX];
    loop {
        let Received::Message(len, _) = receive(socket, &mut buffer, true).unwrap() else {
            panic!("the adapter is gone");
        };
        let reply: Reply = serde_json::from_slice(&buffer[..len]).unwrap();
        if reply.id == id {
            return reply.result;
        }
    }
}

#[test]
fn what_a_client_leaves_takes_nothing_from_who_comes_next() {
    let (_adapter, mut control) = cellgate_host::adapter::AdapterThread::spawn(options()).unwrap();
    let attached = control.attach(attachment_sizes(), false).unwrap();
    let request = receives(address(0, 530), 0, &attached, 500);
    for round in 0..200 {
        // The one that leaves has the lower connection, so that it is served first.
        let leaver = control.connect().unwrap();
        let comer = control.connect().unwrap();
        for socket in [&leaver, &comer] {
            shout(socket, 1, Ask::Hello { version: VERSION });
            answer(socket, 1).unwrap();
        }
        let sizes = attachment_sizes();
        let attach = Ask::Attach {
            sizes,
            user: 0,
            keep: false,
        };
        shout(&leaver, 2, attach.clone());
        let Answer::Attached { attachment, .. } = answer(&leaver, 2).unwrap() else {
            panic!("attached");
        };
        let open = |attachment, vci| Ask::Open {
            request: OpenRequest {
                address: address(0, vci),
                attachment,
                ..request
            },
            sizes: memory_for(500, 4, 0),
            receive_into: ReceiveInto::Own,
            record: None,
        };
        shout(&leaver, 3, open(attachment, 531));
        let Answer::Opened { vc, .. } = answer(&leaver, 3).unwrap() else {
            panic!("opened");
        };
        shout(&comer, 2, attach);
        let Answer::Attached { attachment, .. } = answer(&comer, 2).unwrap() else {
            panic!("attached");
        };
        // It closes its VC and is gone; the other's gets the same slot.
        shout(&leaver, 4, Ask::Close { vc });
        drop(leaver);
        shout(&comer, 3, open(attachment, 532));
        let Answer::Opened { vc: mine, .. } = answer(&comer, 3).unwrap() else {
            panic!("opened");
        };
        // Whatever the adapter still had to do for the one that left is done in a while.
        for id in 4..10 {
            shout(&comer, id, Ask::Enumerate { from: VcIndex(0) });
            answer(&comer, id).unwrap();
        }
        shout(&comer, 10, Ask::Close { vc: mine });
        let closed = answer(&comer, 10);
        assert!(
            matches!(closed, Ok(Answer::Closed(_))),
            "round {round}: {closed:?}"
        );
    }
}

#[test]
fn a_connection_made_for_a_client_has_no_say_in_what_concerns_all() {
    let options = options();
    let config = options.config.ports[0];
    let (_adapter, mut control) = cellgate_host::adapter::AdapterThread::spawn(options).unwrap();
    let mut client = Control::new(control.connect().unwrap()).unwrap();
    let mut grandchild = Control::new(client.connect().unwrap()).unwrap();
    for client in [&mut client, &mut grandchild] {
        let port = PortIndex(0);
        for ask in [Ask::Configure { port, config }, Ask::Shutdown] {
            let refused = client.ask(ask, &[]);
            assert!(
                matches!(
                    refused,
                    Err(ClientError::Refused(ControlError::NotGoverning))
                ),
                "{refused:?}"
            );
        }
    }
    control.configure(PortIndex(0), config).unwrap();
}
