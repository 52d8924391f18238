//! OAM loopback cells (I.610) from one adapter to another and back.

use crate::common::*;
use cellgate_core::adapter::{Discard, PortIndex, Refusal, VcIndex};
use cellgate_core::wire::{OamFlow, VpiVci};
use cellgate_host::adapter::AdapterThread;
use cellgate_host::client::{ClientError, Control, memory_for};
use cellgate_host::control::{
    Answer, Ask, ControlError, MESSAGE_MAX, Received, Reply, Request, receive, send,
};

const PORT: PortIndex = PortIndex(0);

/// Longer than any way there and back takes on a busy machine.
const PATIENCE_NS: u64 = 10_000_000_000;
/// For cells that do not return.
const SHORT_NS: u64 = 20_000_000;

fn refusal(result: Result<u64, ClientError>) -> ControlError {
    match result {
        Err(ClientError::Refused(error)) => error,
        other => panic!("{other:?}"),
    }
}

fn refused(control: &mut Control, address: VpiVci, flow: OamFlow, timeout_ns: u64) -> Refusal {
    match refusal(control.loopback(PORT, address, flow, timeout_ns)) {
        ControlError::Refused(refusal) => refusal,
        other => panic!("{other:?}"),
    }
}

#[test]
fn loopback_cells_return_in_all_flows_and_both_directions() {
    let (_first, mut near) = AdapterThread::spawn(options()).unwrap();
    let (_second, mut far) = AdapterThread::spawn(options()).unwrap();
    near.join(PORT, &mut far, PORT).unwrap();
    far.join(PORT, &mut near, PORT).unwrap();
    let at = address(5, 100);
    let sending = near.attach(attachment_sizes(), false).unwrap();
    let receiving = far.attach(attachment_sizes(), false).unwrap();
    let out = near
        .open(transmits(at, 0, &sending, 100), memory_for(100, 0, 4))
        .unwrap();
    let back = far
        .open(receives(at, 0, &receiving, 100), memory_for(100, 8, 0))
        .unwrap();
    // One of a pair transmits, the other receives: both have the VC's OAM flows, and its path's.
    for flow in OamFlow::ALL {
        for control in [&mut near, &mut far] {
            let round_trip_ns = control.loopback(PORT, at, flow, PATIENCE_NS).unwrap();
            assert!((1..PATIENCE_NS).contains(&round_trip_ns), "{flow:?}");
        }
    }
    // Two requests and two returns on the VC, as many on its path.
    for (control, vc) in [(&mut near, out.id()), (&mut far, back.id())] {
        let stats = control.stats().unwrap();
        assert_eq!((stats.cells_received, stats.cells_answered), (8, 8));
        assert!(stats.is_conserved());
        assert_eq!(control.close(vc).unwrap().stats.cells_answered, 4);
    }
    // Where nothing is open any more, nobody answers and there is no F5 flow to ask in.
    assert_eq!(
        refused(&mut near, at, OamFlow::F4Segment, SHORT_NS),
        Refusal::NoReturn
    );
    let strangers = eventually("the far adapter has not taken the cell", || {
        let stats = far.stats().unwrap();
        (stats.cells_received == 9).then_some(stats.cells_discarded)
    });
    assert_eq!(
        (strangers.of(Discard::UnknownVc), strangers.total()),
        (1, 1)
    );
    assert_eq!(
        refused(&mut near, at, OamFlow::F5EndToEnd, SHORT_NS),
        Refusal::NoFlow
    );
}

#[test]
fn tests_that_last_leave_their_connection_free() {
    let (_adapter, mut control) = AdapterThread::spawn(options()).unwrap();
    let loopback = |id| Request {
        id,
        ask: Ask::Loopback {
            port: PORT,
            address: address(7, 0),
            flow: OamFlow::F4EndToEnd,
            timeout_ns: 2_000_000_000,
        },
    };
    let enumerate = Request {
        id: 100,
        ask: Ask::Enumerate { from: VcIndex(0) },
    };
    // Nobody is at the other end of the port.
    for request in (1..=9).map(loopback).chain([enumerate]) {
        let octets = serde_json::to_vec(&request).unwrap();
        send(control.as_fd(), &octets, &[], true).unwrap();
    }
    let mut buffer = vec![0; MESSAGE_MAX];
    let replies = (0..10).map(|_| {
        let Received::Message(len, _) = receive(control.as_fd(), &mut buffer, true).unwrap() else {
            panic!("the adapter is gone");
        };
        serde_json::from_slice::<Reply>(&buffer[..len]).unwrap()
    });
    let (mut in_use, mut late, mut listed) = (0, 0, 0);
    for reply in replies {
        match reply.result {
            Err(ControlError::Refused(Refusal::LoopbacksInUse)) => in_use += 1,
            Err(ControlError::Refused(Refusal::NoReturn)) => late += 1,
            Ok(Answer::State(_)) => listed += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((in_use, late, listed), (1, 8, 1));

    let mut client = Control::new(control.connect().unwrap()).unwrap();
    let result = client.loopback(PORT, address(7, 0), OamFlow::F4Segment, SHORT_NS);
    assert_eq!(refusal(result), ControlError::NotGoverning);
    let (vc, flow) = (address(7, 0), OamFlow::F4Segment);
    assert_eq!(refused(&mut control, vc, flow, 0), Refusal::BadParameter);
    let result = control.loopback(PortIndex(9), vc, flow, SHORT_NS);
    let no_port = ControlError::Refused(Refusal::NoPort);
    assert_eq!(refusal(result), no_port);
}
