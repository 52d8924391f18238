//! An adapter in two threads of the test's process: cells in, PDUs out, and back.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use crate::common::*;
use cellgate_core::adapter::{Discard, EventKind, OpenRequest, PortIndex, Refusal};
use cellgate_core::queue::SduOptions;
use cellgate_core::server::Idle;
use cellgate_host::adapter::AdapterThread;
use cellgate_host::client::{ClientError, Control, memory_for};
use cellgate_host::control::ControlError;
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};

#[test]
fn cells_in_pdus_out_octet_for_octet() {
    let (adapter, mut control) = AdapterThread::spawn(options()).unwrap();
    let mut attached = control.attach(attachment_sizes(), false).unwrap();
    let mut sender = control.cell_sender(PortIndex(0)).unwrap();
    let at = address(1, 100);
    let mut vc = control
        .open(
            receives(at, 0, &attached, SDU_MAX),
            memory_for(SDU_MAX, 8, 0),
        )
        .unwrap();
    let mut cells_sent = 0;
    for sdu in Sdus::new(1, SDU_MAX.into()).take(300) {
        let cells = cells(at, &sdu);
        cells_sent += cells.len() as u64 / 52;
        send_all(&mut sender, &cells);
        assert_eq!(next_sdu(&mut attached, &mut vc), sdu);
    }
    let info = control.close(vc.id()).unwrap();
    assert_eq!(info.stats.pdus_delivered, 300);
    assert_eq!(info.stats.cells_delivered, cells_sent);
    assert_eq!(info.stats.cells_discarded.total(), 0);
    while attached.next_event().is_some() {}
    let counters = attached.counters();
    assert_eq!((counters.events, counters.lost), (300, 0));
    assert!(counters.wakeups <= counters.events, "{counters:?}");
    control.shutdown().unwrap();
    adapter.join().unwrap();
}

#[test]
fn what_one_adapter_transmits_another_receives() {
    let (first, mut near) = AdapterThread::spawn(options()).unwrap();
    let (second, mut far) = AdapterThread::spawn(options()).unwrap();
    near.join(PortIndex(1), &mut far, PortIndex(0)).unwrap();
    let mut sending = near.attach(attachment_sizes(), false).unwrap();
    let mut receiving = far.attach(attachment_sizes(), false).unwrap();
    let at = address(0, 77);
    let mut out = near
        .open(
            transmits(at, 1, &sending, SDU_MAX),
            memory_for(SDU_MAX, 0, 4),
        )
        .unwrap();
    let mut back = far
        .open(
            receives(at, 0, &receiving, SDU_MAX),
            memory_for(SDU_MAX, 8, 0),
        )
        .unwrap();
    for sdu in Sdus::new(2, SDU_MAX.into()).take(100) {
        assert!(out.send(&mut sending, &sdu, SduOptions::default()));
        assert_eq!(next_sdu(&mut receiving, &mut back), sdu);
    }
    eventually("not all PDUs completed", || {
        (out.unsent() == 0).then_some(())
    });
    let completed = std::iter::from_fn(|| sending.next_event())
        .filter(|event| event.kind == EventKind::TransmitCompleted)
        .count();
    assert_eq!(completed, 100);
    let sent = near.close(out.id()).unwrap().stats.cells_transmitted;
    let ports = eventually("the ports' counters lag", || {
        let (near, far) = (near.ports().unwrap(), far.ports().unwrap());
        let told = [near[1].transmit.sent, far[0].receive.received];
        (told == [sent; 2]).then_some(near)
    });
    assert_eq!(ports[1].transmit.dropped, 0);
    near.shutdown().unwrap();
    far.shutdown().unwrap();
    first.join().unwrap();
    second.join().unwrap();
}

#[test]
fn unopened_vcs_make_no_event() {
    let (_adapter, mut control) = AdapterThread::spawn(options()).unwrap();
    let mut attached = control.attach(attachment_sizes(), false).unwrap();
    let mut sender = control.cell_sender(PortIndex(0)).unwrap();
    let at = address(0, 32);
    let _vc = control
        .open(
            receives(at, 0, &attached, SDU_MAX),
            memory_for(SDU_MAX, 8, 0),
        )
        .unwrap();
    let mut rng = Pcg64Mcg::new(7);
    let mut strangers = 0;
    for _ in 0..200 {
        let mut train = Vec::new();
        for _ in 0..500 {
            let stranger = cellgate_core::wire::VpiVci::from_bits(rng.next_u32());
            if stranger != at && stranger.bits() != 0 {
                train.extend(cells(stranger, &[1; 40]));
                strangers += 1;
            }
        }
        send_all(&mut sender, &train);
    }
    let stats = eventually("not all cells were taken", || {
        let stats = control.stats().unwrap();
        (stats.cells_received == strangers).then_some(stats)
    });
    assert_eq!(stats.cells_discarded.of(Discard::UnknownVc), strangers);
    assert_eq!((stats.events, stats.interrupts), (0, 0));
    assert!(attached.next_event().is_none());
    assert!(!attached.wait(Some(Duration::from_millis(20))).unwrap());
    assert_eq!(attached.counters().wakeups, 0);
}

#[test]
fn opens_modifies_and_closes_under_traffic_lose_nothing_elsewhere() {
    let (_adapter, mut control) = AdapterThread::spawn(options()).unwrap();
    let mut attached = control.attach(attachment_sizes(), false).unwrap();
    let at = address(3, 1_000);
    let mut vc = control
        .open(receives(at, 0, &attached, 2_000), memory_for(2_000, 64, 0))
        .unwrap();
    let mut sender = control.cell_sender(PortIndex(0)).unwrap();
    const PDUS: usize = 4_000;
    // As many PDUs are on their way as the VC's memory holds: what is lost, the churn has lost.
    let window = Arc::new(AtomicUsize::new(32));
    let traffic = std::thread::spawn({
        let window = Arc::clone(&window);
        move || {
            for (i, sdu) in Sdus::new(3, 1_500).take(PDUS).enumerate() {
                eventually("the reader is stuck", || {
                    (window.load(Relaxed) > i).then_some(())
                });
                send_all(&mut sender, &cells(at, &sdu));
            }
            sender
        }
    });
    let churn = std::thread::spawn({
        let socket = control.connect().unwrap();
        move || {
            let mut control = Control::new(socket).unwrap();
            let attached = control.attach(attachment_sizes(), false).unwrap();
            let memory = memory_for(500, 4, 4);
            for i in 0..1_000_u16 {
                let mut ask = OpenRequest {
                    transmit: Some(transmitting(500)),
                    ..receives(address(7, 1 + i % 50), 0, &attached, 500)
                };
                let mut vc = control.open(ask, memory).unwrap();
                ask.receive.as_mut().unwrap().max_sdu = 400;
                if i % 10 == 0 {
                    let renewed = control.renew(vc.id(), ask, memory).unwrap();
                    assert_ne!(renewed.id().generation, vc.id().generation);
                    vc = renewed;
                } else {
                    control.modify(&mut vc, ask).unwrap();
                }
                control.close(vc.id()).unwrap();
            }
        }
    });
    for sdu in Sdus::new(3, 1_500).take(PDUS) {
        assert_eq!(next_sdu(&mut attached, &mut vc), sdu);
        window.fetch_add(1, Relaxed);
    }
    churn.join().unwrap();
    let _sender = traffic.join().unwrap();
    let info = control.close(vc.id()).unwrap();
    assert_eq!(info.stats.pdus_delivered, PDUS as u64);
    assert_eq!(info.stats.cells_discarded.total(), 0);
    assert!(control.enumerate().unwrap().vcs.is_empty());
}

#[test]
fn what_arrives_in_a_transmit_buffer_goes_on_without_a_copy() {
    let (_adapter, mut control) = AdapterThread::spawn(options()).unwrap();
    let mut attached = control.attach(attachment_sizes(), false).unwrap();
    let mut sender = control.cell_sender(PortIndex(0)).unwrap();
    let mut line = control.cell_receiver(PortIndex(1)).unwrap();
    let (from, to) = (address(0, 40), address(0, 50));
    let mut out = control
        .open(transmits(to, 1, &attached, 1_000), memory_for(1_000, 0, 64))
        .unwrap();
    let mut relay = control
        .open_into_transmit_buffer(
            receives(from, 0, &attached, 1_000),
            memory_for(1_000, 64, 0),
            &out,
        )
        .unwrap();
    let len = out.sizes().transmit_len as usize;
    let mut forwarded = 0;
    for sdu in Sdus::new(4, 1_000).take(400) {
        send_all(&mut sender, &cells(from, &sdu));
        let pdu = eventually("no PDU came", || relay.next_pdu());
        assert!(relay.sdu(&pdu).is_none(), "this client can write it itself");
        // A PDU that wraps lies in one piece only in the mirrored map.
        if pdu.offset() + pdu.len() <= len {
            let (offset, octets) = (pdu.offset() as u32, pdu.len() as u32);
            assert!(out.forward(&mut attached, offset, octets, SduOptions::default()));
            let expected = cells(to, &sdu);
            let mut got = vec![0; expected.len()];
            let mut at = 0;
            eventually("the PDU did not go on", || {
                line.poll();
                at += line.take(&mut got[at..]) * 52;
                (at == got.len()).then_some(())
            });
            assert_eq!(got, expected);
            forwarded += 1;
            eventually("not completed", || (out.unsent() == 0).then_some(()));
        }
        assert!(relay.release(pdu));
        while attached.next_event().is_some() {}
    }
    assert!(forwarded > 300);
}

#[test]
fn pdus_go_into_a_file_that_cannot_shrink_and_into_no_other() {
    let (_adapter, mut control) = AdapterThread::spawn(options()).unwrap();
    let mut attached = control.attach(attachment_sizes(), false).unwrap();
    let mut sender = control.cell_sender(PortIndex(0)).unwrap();
    let ask = receives(address(0, 60), 0, &attached, 1_000);
    let sizes = memory_for(1_000, 64, 0);
    let file = memfd_create("pdus", MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&file, u64::from(sizes.receive_len)).unwrap();
    let refused = control.open_into_file(ask, sizes, file.as_fd());
    assert!(
        matches!(
            refused,
            Err(ClientError::Refused(ControlError::BadDescriptor(_)))
        ),
        "{refused:?}"
    );
    fcntl_add_seals(&file, SealFlags::SHRINK).unwrap();
    let mut vc = control.open_into_file(ask, sizes, file.as_fd()).unwrap();
    for sdu in Sdus::new(5, 1_000).take(200) {
        send_all(&mut sender, &cells(ask.address, &sdu));
        let pdu = eventually("no PDU came", || vc.next_pdu());
        let len = sizes.receive_len as usize;
        let mut got = vec![0; pdu.len()];
        let first = got.len().min(len - pdu.offset());
        let (head, tail) = got.split_at_mut(first);
        rustix::io::pread(&file, head, pdu.offset() as u64).unwrap();
        rustix::io::pread(&file, tail, 0).unwrap();
        assert_eq!(got, sdu);
        assert!(vc.release(pdu));
    }
    while attached.next_event().is_some() {}
}

#[test]
fn a_renewed_vc_loses_nothing_and_its_old_memory_can_be_read() {
    let (_adapter, mut control) = AdapterThread::spawn(options()).unwrap();
    let mut attached = control.attach(attachment_sizes(), false).unwrap();
    let mut sender = control.cell_sender(PortIndex(0)).unwrap();
    let ask = receives(address(0, 61), 0, &attached, 1_000);
    let mut old = control.open(ask, memory_for(1_000, 8, 0)).unwrap();
    let sdus: Vec<_> = Sdus::new(6, 1_000).take(5).collect();
    let train = cells(ask.address, &sdus[1]);
    let (begun, rest) = train.split_at(52.min(train.len() - 52));
    send_all(&mut sender, &cells(ask.address, &sdus[0]));
    send_all(&mut sender, begun);
    eventually("the cells are not taken", || {
        let stats = control.enumerate().unwrap().vcs[0].stats;
        (stats.pdus_delivered == 1 && stats.cells_held == 1).then_some(())
    });
    // The reply comes when the PDU in progress is complete, so the rest must not wait for it.
    let rest = rest.to_vec();
    let finish = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(10));
        send_all(&mut sender, &rest);
        sender
    });
    let mut new = control
        .renew(old.id(), ask, memory_for(1_000, 16, 0))
        .unwrap();
    let mut sender = finish.join().unwrap();
    for sdu in &sdus[2..] {
        send_all(&mut sender, &cells(ask.address, sdu));
    }
    for sdu in &sdus[..2] {
        assert_eq!(next_sdu(&mut attached, &mut old), *sdu);
    }
    for sdu in &sdus[2..] {
        assert_eq!(next_sdu(&mut attached, &mut new), *sdu);
    }
    let stale = control.close(old.id());
    assert!(
        matches!(stale, Err(ClientError::Refused(ControlError::NotYours))),
        "{stale:?}"
    );
    assert_eq!(control.close(new.id()).unwrap().stats.pdus_delivered, 5);
}

#[test]
fn a_refused_open_leaves_no_trace() {
    let mut options = options();
    options.memory_max = 4 << 20;
    let (_adapter, mut control) = AdapterThread::spawn(options).unwrap();
    let attached = control.attach(attachment_sizes(), false).unwrap();
    let ask = receives(address(0, 62), 0, &attached, SDU_MAX);
    let half = memory_for(SDU_MAX, 200, 0);
    let first = control.open(ask, half).unwrap();
    let twice = control.open(ask, memory_for(SDU_MAX, 1, 0));
    let Err(ClientError::Refused(ControlError::Refused(refusal))) = twice else {
        panic!("{twice:?}");
    };
    assert_eq!(refusal, Refusal::AddressInUse);
    for _ in 0..20 {
        let mut other = ask;
        other.address = address(0, 63);
        let refused = control.open(other, memory_for(SDU_MAX, 300, 0));
        let Err(ClientError::Refused(ControlError::MemoryExhausted { needed, free })) = refused
        else {
            panic!("{refused:?}");
        };
        assert!(needed > free);
    }
    control.close(first.id()).unwrap();
    // All of the first one's memory is free again, every time.
    for _ in 0..20 {
        let again = control.open(ask, half).unwrap();
        control.close(again.id()).unwrap();
    }
}

#[test]
fn a_port_is_given_to_one_and_free_when_that_one_is_gone() {
    let (_adapter, mut control) = AdapterThread::spawn(options()).unwrap();
    let mut other = Control::new(control.connect().unwrap()).unwrap();
    let mut first = other.cell_sender(PortIndex(0)).unwrap();
    let taken = control.cell_sender(PortIndex(0));
    assert!(
        matches!(taken, Err(ClientError::Refused(ControlError::PortTaken))),
        "{taken:?}"
    );
    let none = control.cell_sender(PortIndex(9));
    assert!(
        matches!(none, Err(ClientError::Refused(ControlError::NotYours))),
        "{none:?}"
    );
    send_all(&mut first, &cells(address(0, 99), &[0; 40]));
    drop(other);
    let mut second = eventually("the port is not free", || {
        control.cell_sender(PortIndex(0)).ok()
    });
    send_all(&mut second, &cells(address(0, 99), &[0; 40]));
    eventually("the second sender's cell did not arrive", || {
        let ports = control.ports().unwrap();
        (ports[0].receive.received == 1).then_some(())
    });
}

#[test]
fn the_gap_detector_can_be_read_while_it_runs() {
    let mut options = options();
    options.scheduling.idle = Idle::Spin;
    let (_adapter, mut control) = AdapterThread::spawn(options).unwrap();
    let first = control.gaps(true).unwrap();
    let later = eventually("the firmware does not run", || {
        let later = control.gaps(false).unwrap();
        (later.steps > first.steps && later.steps_timed > 0).then_some(later)
    });
    assert_eq!(later.count, later.histogram.iter().sum::<u64>());
    assert!(later.step_max_ns < later.threshold_ns);
    let scheduling = &control.hello().scheduling;
    assert_eq!((scheduling.pinned, scheduling.idle), (None, Idle::Spin));
    assert_eq!(later.rests.rests, 0);
}

#[test]
fn an_adapter_to_which_nothing_comes_rests_and_says_so() {
    let (_adapter, mut control) = AdapterThread::spawn(options()).unwrap();
    let first = control.gaps(true).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    // The firmware is up for that.
    control.stats().unwrap();
    let later = control.gaps(false).unwrap().since(&first);
    // It was asked twice, and looks once a second.
    assert!((1..20).contains(&later.rests.rests), "{later:?}");
    assert!(later.rests.rested_ns >= 200_000_000, "{later:?}");
    assert!(later.steps < 1_000, "{later:?}");
    assert!(later.rests.by_service > 0, "{later:?}");
}

#[test]
fn a_vc_that_was_to_be_kept_survives_its_client() {
    let (_adapter, mut control) = AdapterThread::spawn(options()).unwrap();
    let mut sender = control.cell_sender(PortIndex(0)).unwrap();
    let mut client = Control::new(control.connect().unwrap()).unwrap();
    let attached = client.attach(attachment_sizes(), true).unwrap();
    let mut ask = receives(address(0, 64), 0, &attached, 1_000);
    let mut vc = client.open(ask, memory_for(1_000, 8, 0)).unwrap();
    let capability = vc.capability().try_clone_to_owned().unwrap();
    let id = vc.id();
    drop((client, vc, attached));
    let mut sdus = Sdus::new(8, 1_000);
    send_all(&mut sender, &cells(ask.address, &sdus.next().unwrap()));
    eventually("the VC does not receive", || {
        let vcs = control.enumerate().unwrap().vcs;
        (vcs[0].stats.pdus_delivered == 1).then_some(())
    });
    let mut successor = control.attach(attachment_sizes(), false).unwrap();
    ask.attachment = successor.index();
    let capability = Some(capability.as_fd());
    control.reattach(id, &successor, capability).unwrap();
    let mut vc = control.renew(id, ask, memory_for(1_000, 8, 0)).unwrap();
    for sdu in sdus.take(20) {
        send_all(&mut sender, &cells(ask.address, &sdu));
        assert_eq!(next_sdu(&mut successor, &mut vc), sdu);
    }
    // The attachment of the client that is gone goes with its last VC: all places are free.
    let attachments = options().config.attachments;
    let others: Vec<_> = (1..attachments)
        .map(|_| {
            eventually("a place is lost", || {
                control.attach(attachment_sizes(), false).ok()
            })
        })
        .collect();
    assert_eq!(others.len(), usize::from(attachments) - 1);
}

#[test]
fn an_adapter_that_listens_outlives_its_control_connections() {
    let mut options = options();
    let path = std::env::temp_dir().join(format!("cellgate-test-{}", std::process::id()));
    options.listen = Some(path.clone());
    let (adapter, mut control) = AdapterThread::spawn(options).unwrap();
    let attached = control.attach(attachment_sizes(), true).unwrap();
    let request = receives(address(0, 65), 0, &attached, 500);
    let vc = control.open(request, memory_for(500, 4, 0)).unwrap();
    let name = vc.id();
    drop((control, attached, vc));
    let mut control = Control::at(&path).unwrap();
    assert_eq!(control.enumerate().unwrap().vcs[0].vc, name);
    let mode = std::os::unix::fs::PermissionsExt::mode(&path.metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    control.shutdown().unwrap();
    adapter.join().unwrap();
    assert!(!path.exists());
}

#[test]
fn what_nobody_takes_off_a_line_is_dropped_and_counted() {
    let (_adapter, mut control) = AdapterThread::spawn(options()).unwrap();
    let mut attached = control.attach(attachment_sizes(), false).unwrap();
    let request = transmits(address(0, 66), 1, &attached, 500);
    let mut vc = control.open(request, memory_for(500, 0, 4)).unwrap();
    // 500 octets and 8 of trailer are 11 cells.
    assert!(vc.send(&mut attached, &[1; 500], SduOptions::default()));
    eventually("not sent", || (vc.unsent() == 0).then_some(()));
    eventually("not counted", || {
        let line = control.ports().unwrap()[1].transmit;
        (line.dropped == 11 && line.sent == 0).then_some(())
    });
}
