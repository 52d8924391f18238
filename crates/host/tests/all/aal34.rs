//! AAL3/4 through an adapter in two threads of the test's process: what comes through, what is
//! discarded, and what its memory costs.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::common::aal34::{Mix, Payload, cells, interleaved, payloads, seal};
use crate::common::*;
use cellgate_core::aal::aal34::Reassembler;
use cellgate_core::adapter::{
    Aal, Discard, Interleaving, OpenRequest, PortIndex, Receive, Refusal, VcStats,
};
use cellgate_core::contract::CellRate;
use cellgate_core::queue::{ConnectionSizes, SduOptions};
use cellgate_host::adapter::{AdapterOptions, AdapterThread};
use cellgate_host::client::{ClientError, Control, OpenVc, memory_for_aal34};
use cellgate_host::control::ControlError;
use cellgate_host::link::CellSender;

const TWO: Interleaving = Interleaving {
    mids: 2,
    reassembly_timeout_ns: 0,
};

const MAX_SDU: u16 = 500;

fn refusal<T: std::fmt::Debug>(result: Result<T, ClientError>) -> ControlError {
    match result {
        Err(ClientError::Refused(error)) => error,
        other => panic!("{other:?}"),
    }
}

/// The counters of the only VC as soon as they are as wanted.
fn stats_when(control: &mut Control, wanted: impl Fn(&VcStats) -> bool) -> VcStats {
    let mut last = None;
    eventually("the counters are not as wanted", || {
        let stats = control.enumerate().unwrap().vcs[0].stats;
        let ready = wanted(&stats);
        last = Some(stats);
        ready.then_some(())
    });
    last.unwrap()
}

#[test]
fn what_one_adapter_transmits_another_receives_with_its_mids() {
    let (_first, mut near) = AdapterThread::spawn(options()).unwrap();
    let (_second, mut far) = AdapterThread::spawn(options()).unwrap();
    near.join(PortIndex(1), &mut far, PortIndex(0)).unwrap();
    let mut sending = near.attach(attachment_sizes(), false).unwrap();
    let mut receiving = far.attach(attachment_sizes(), false).unwrap();
    let at = address(0, 77);
    let request = OpenRequest {
        aal: Aal::Aal34(TWO),
        ..transmits(at, 1, &sending, u16::MAX)
    };
    let memory = memory_for_aal34(TWO, u16::MAX, 0, 4);
    let mut out = near.open(request, memory).unwrap();
    let request = interleaved(at, 0, &receiving, u16::MAX, TWO);
    let memory = memory_for_aal34(TWO, u16::MAX, 4, 0);
    let mut back = far.open(request, memory).unwrap();
    let largest = vec![7; usize::from(u16::MAX)];
    let sdus = Sdus::new(2, 5_000).take(100).chain([largest]);
    for (sdu, mid) in sdus.zip([0, 5, 1_023].into_iter().cycle()) {
        let options = SduOptions {
            mid,
            ..SduOptions::default()
        };
        assert!(out.send(&mut sending, &sdu, options));
        let (got_mid, got) = next_with_mid(&mut receiving, &mut back);
        assert_eq!(got_mid, mid);
        assert!(got == sdu, "{} octets, MID {mid}", sdu.len());
        while sending.next_event().is_some() {}
    }
    let stats = far.close(back.id()).unwrap().stats;
    assert_eq!(stats.cells_discarded.total(), 0);
    assert_eq!(
        near.close(out.id()).unwrap().stats.cells_transmitted,
        stats.cells_delivered
    );
}

#[test]
fn a_vc_has_room_for_all_its_mids_beside_what_waits() {
    let (_adapter, mut control) = AdapterThread::spawn(options()).unwrap();
    let mut attached = control.attach(attachment_sizes(), false).unwrap();
    let mut sender = control.cell_sender(PortIndex(0)).unwrap();
    let interleaving = Interleaving {
        mids: Interleaving::MIDS_MAX,
        reassembly_timeout_ns: 0,
    };
    let at = address(0, 78);
    let request = interleaved(at, 0, &attached, SDU_MAX, interleaving);
    let memory = memory_for_aal34(interleaving, SDU_MAX, 3, 0);
    let mut vc = control.open(request, memory).unwrap();
    let sdu = vec![1; SDU_MAX.into()];
    // Three PDUs wait for their reader, then one is in progress with each MID.
    let waiting: Vec<_> = (0..3).flat_map(|tag| payloads(9, tag, &sdu)).collect();
    send_all(&mut sender, &cells(at, &waiting));
    let mids = 100..100 + Interleaving::MIDS_MAX;
    let all: Vec<_> = mids.clone().map(|mid| payloads(mid, 1, &sdu)).collect();
    for at_cell in 0..all[0].len() {
        let train: Vec<_> = all.iter().map(|cells| cells[at_cell]).collect();
        send_all(&mut sender, &cells(at, &train));
    }
    let order = [9; 3].into_iter().chain(mids);
    for mid in order {
        assert_eq!(next_with_mid(&mut attached, &mut vc), (mid, sdu.clone()));
    }
    let stats = control.close(vc.id()).unwrap().stats;
    assert_eq!(stats.cells_discarded.total(), 0);
}

/// What is sent on a VC of its own, and what is discarded of it until it is closed.
struct Case {
    name: &'static str,
    train: Vec<Payload>,
    delivered: u64,
    /// Reasons with PDUs and cells.
    discarded: Vec<(Discard, u64, u64)>,
    timeout_ns: u64,
    rate: Option<CellRate>,
    sizes: ConnectionSizes,
}

impl Case {
    fn new(name: &'static str, train: Vec<Payload>, discarded: &[(Discard, u64, u64)]) -> Self {
        Self {
            name,
            train,
            delivered: 0,
            discarded: discarded.to_vec(),
            timeout_ns: 0,
            rate: None,
            sizes: memory_for_aal34(TWO, MAX_SDU, 8, 0),
        }
    }

    fn delivers(self, delivered: u64) -> Self {
        Self { delivered, ..self }
    }
}

/// A PDU of three cells whose cell `at` is spoilt, but for its CRC-10.
fn spoilt(at: usize, spoil: impl Fn(&mut Payload)) -> Vec<Payload> {
    let mut cells = payloads(1, 1, &[1; 100]);
    spoil(&mut cells[at]);
    seal(&mut cells[at]);
    cells
}

fn cases() -> Vec<Case> {
    use Discard::*;
    let whole = || payloads(1, 1, &[1; 100]);
    let full = |pdus: u8| {
        (0..pdus)
            .flat_map(|tag| payloads(1, tag, &[tag; 500]))
            .collect()
    };
    let singles = |pdus: u8| {
        (0..pdus)
            .flat_map(|tag| payloads(1, tag, &[1; 20]))
            .collect()
    };
    let begun = |mid| payloads(mid, 1, &[1; 100])[0];
    let mut damaged = whole();
    damaged[2][20] ^= 1;
    let narrow = |receive_slots| ConnectionSizes {
        receive_slots,
        receive_len: 4_096,
        ..memory_for_aal34(TWO, MAX_SDU, 8, 0)
    };
    vec![
        Case::new("nothing", [whole(), singles(1)].concat(), &[]).delivers(2),
        // The damaged cell is nobody's; what it leaves unfinished is cut by the close.
        Case::new("damaged", damaged, &[(CrcError, 0, 1), (Closed, 1, 2)]),
        Case::new(
            "the second is lost",
            vec![whole()[0], whole()[2]],
            &[(LostCell, 1, 2)],
        ),
        Case::new(
            "the first is lost",
            whole()[1..].to_vec(),
            &[(LostCell, 0, 2)],
        ),
        Case::new(
            "the last is lost",
            [&whole()[..2], &whole()].concat(),
            &[(LostCell, 1, 2)],
        )
        .delivers(1),
        // The last cell has 16 octets of SDU and pad, then AL, Etag and length.
        Case::new(
            "Etag",
            spoilt(2, |cell| cell[2 + 17] ^= 1),
            &[(TagMismatch, 1, 3)],
        ),
        Case::new(
            "length",
            spoilt(2, |cell| cell[2 + 19] += 4),
            &[(LengthError, 1, 3)],
        ),
        Case::new(
            "LI",
            spoilt(1, |cell| cell[46] = 40 << 2),
            &[(LengthError, 1, 3)],
        ),
        Case::new("CPI", spoilt(0, |cell| cell[2] = 1), &[(LengthError, 1, 3)]),
        Case::new(
            "BAsize",
            spoilt(0, |cell| cell[5] = 60),
            &[(LengthError, 1, 3)],
        ),
        Case::new(
            "abort",
            spoilt(2, |cell| cell[46] = 63 << 2),
            &[(Aborted, 1, 3)],
        ),
        Case::new("the close", whole()[..2].to_vec(), &[(Closed, 1, 2)]),
        Case::new("too long", payloads(1, 1, &[1; 501]), &[(Oversized, 1, 12)]),
        Case::new(
            "a third MID",
            vec![begun(2), begun(3), begun(1)],
            &[(TooManyMids, 1, 1), (Closed, 2, 2)],
        ),
        Case {
            timeout_ns: 1_000_000,
            ..Case::new("late", whole()[..2].to_vec(), &[(ReassemblyTimeout, 1, 2)])
        },
        // At a cell a second the first PDU takes as long as two may come early.
        Case {
            rate: CellRate::new(1),
            ..Case::new("too early", full(3), &[(NonConforming, 1, 12)]).delivers(2)
        },
        Case {
            sizes: narrow(64),
            ..Case::new("no room", full(9), &[(BufferFull, 1, 12)]).delivers(8)
        },
        Case {
            sizes: narrow(4),
            ..Case::new("no descriptor", singles(6), &[(QueueFull, 2, 2)]).delivers(4)
        },
    ]
}

#[test]
fn every_reason_to_discard_is_counted() {
    let (_adapter, mut control) = AdapterThread::spawn(options()).unwrap();
    let mut sender = control.cell_sender(PortIndex(0)).unwrap();
    let attached = control.attach(attachment_sizes(), false).unwrap();
    let mut seen = BTreeSet::new();
    for case in cases() {
        let name = case.name;
        let interleaving = Interleaving {
            reassembly_timeout_ns: case.timeout_ns,
            ..TWO
        };
        let at = address(0, 79);
        let mut request = interleaved(at, 0, &attached, MAX_SDU, interleaving);
        request.receive = Some(Receive {
            rate: case.rate,
            ..receiving(MAX_SDU)
        });
        let vc = control.open(request, case.sizes).unwrap();
        send_all(&mut sender, &cells(at, &case.train));
        let sent = case.train.len() as u64;
        stats_when(&mut control, |stats| {
            stats.cells_received == sent && (case.timeout_ns == 0 || stats.cells_held == 0)
        });
        let stats = control.close(vc.id()).unwrap().stats;
        assert_eq!(stats.pdus_delivered, case.delivered, "{name}");
        for reason in Discard::ALL {
            let expected = case.discarded.iter().find(|(r, ..)| *r == reason);
            let expected = expected.map_or((0, 0), |(_, pdus, cells)| (*pdus, *cells));
            let counted = (
                stats.pdus_discarded.of(reason),
                stats.cells_discarded.of(reason),
            );
            assert_eq!(counted, expected, "{name}: {}", reason.name());
            if counted.1 > 0 {
                seen.insert(reason);
            }
        }
        let discarded = stats.cells_discarded.total();
        assert_eq!(stats.cells_delivered + discarded, sent, "{name}");
    }
    // Those of a VC that cells of user data can meet; this adapter is never overloaded.
    let of_no_aal34_vc = [
        Discard::Overload,
        Discard::UnknownVc,
        Discard::HecError,
        Discard::Idle,
        Discard::NotUserData,
    ];
    let all = Discard::ALL.into_iter();
    let expected: BTreeSet<_> = all.filter(|r| !of_no_aal34_vc.contains(r)).collect();
    assert_eq!(seen, expected);
}

#[test]
fn a_pdu_that_is_late_gives_its_space_back() {
    for timeout_ns in [0, 1_000_000] {
        let (_adapter, mut control) = AdapterThread::spawn(options()).unwrap();
        let mut attached = control.attach(attachment_sizes(), false).unwrap();
        let mut sender = control.cell_sender(PortIndex(0)).unwrap();
        let interleaving = Interleaving {
            reassembly_timeout_ns: timeout_ns,
            ..TWO
        };
        let at = address(0, 80);
        let request = interleaved(at, 0, &attached, 1_000, interleaving);
        let sizes = ConnectionSizes {
            receive_len: 4_096,
            ..memory_for_aal34(interleaving, 1_000, 8, 0)
        };
        let mut vc = control.open(request, sizes).unwrap();
        let sdu = vec![3; 1_000];
        send_all(&mut sender, &cells(at, &payloads(1, 1, &sdu)[..1]));
        if timeout_ns != 0 {
            let late = Discard::ReassemblyTimeout;
            stats_when(&mut control, |stats| stats.pdus_discarded.of(late) == 1);
        }
        // The buffer holds four. Three come behind the one in progress, all of them read.
        for tag in 0..3 {
            send_all(&mut sender, &cells(at, &payloads(2, tag, &sdu)));
            assert_eq!(next_sdu(&mut attached, &mut vc), sdu);
        }
        send_all(&mut sender, &cells(at, &payloads(2, 4, &sdu)));
        let full = Discard::BufferFull;
        if timeout_ns == 0 {
            stats_when(&mut control, |stats| stats.pdus_discarded.of(full) == 1);
            assert!(vc.next_pdu().is_none());
        } else {
            assert_eq!(next_sdu(&mut attached, &mut vc), sdu);
            let stats = control.close(vc.id()).unwrap().stats;
            assert_eq!(stats.pdus_discarded.of(full), 0);
        }
    }
}

fn open(control: &mut Control, request: OpenRequest) -> OpenVc {
    let interleaving = request.aal.interleaving().unwrap();
    let max_sdu = request.receive.unwrap().max_sdu;
    let memory = memory_for_aal34(interleaving, max_sdu, 8, 0);
    control.open(request, memory).unwrap()
}

fn begin_two(sender: &mut CellSender, control: &mut Control, request: &OpenRequest) {
    let begun = [payloads(1, 1, &[1; 100])[0], payloads(2, 1, &[2; 100])[0]];
    send_all(sender, &cells(request.address, &begun));
    stats_when(control, |stats| stats.cells_held == 2);
}

fn end_two(sender: &mut CellSender, request: &OpenRequest) {
    let first = payloads(1, 1, &[1; 100]);
    let second = payloads(2, 1, &[2; 100]);
    send_all(
        sender,
        &cells(request.address, second[1..].iter().chain(&first[1..])),
    );
}

#[test]
fn a_contract_that_changes_alone_leaves_pdus_in_progress() {
    let (_adapter, mut control) = AdapterThread::spawn(options()).unwrap();
    let mut attached = control.attach(attachment_sizes(), false).unwrap();
    let mut sender = control.cell_sender(PortIndex(0)).unwrap();
    let request = interleaved(address(0, 81), 0, &attached, MAX_SDU, TWO);
    let mut vc = open(&mut control, request);
    begin_two(&mut sender, &mut control, &request);
    let policed = OpenRequest {
        receive: Some(Receive {
            rate: CellRate::new(100_000),
            ..receiving(MAX_SDU)
        }),
        ..request
    };
    control.modify(&mut vc, policed).unwrap();
    // What the reassembler was made for changes only with it.
    let larger = OpenRequest {
        receive: Some(receiving(MAX_SDU + 1)),
        ..request
    };
    let wider = OpenRequest {
        aal: Aal::Aal34(Interleaving { mids: 3, ..TWO }),
        ..request
    };
    let timed = OpenRequest {
        aal: Aal::Aal34(Interleaving {
            reassembly_timeout_ns: 1,
            ..TWO
        }),
        ..request
    };
    for other in [larger, wider, timed] {
        let refused = refusal(control.modify(&mut vc, other));
        assert_eq!(refused, ControlError::Refused(Refusal::BadParameter));
    }
    end_two(&mut sender, &request);
    for mid in [2, 1] {
        let expected = (mid, vec![mid as u8; 100]);
        assert_eq!(next_with_mid(&mut attached, &mut vc), expected);
    }
    let info = control.close(vc.id()).unwrap();
    assert_eq!(info.request, policed);
    assert_eq!(info.stats.cells_discarded.total(), 0);
}

#[test]
fn new_memory_waits_for_all_pdus_in_progress_and_can_hold_more() {
    let (_adapter, mut control) = AdapterThread::spawn(options()).unwrap();
    let mut attached = control.attach(attachment_sizes(), false).unwrap();
    let mut sender = control.cell_sender(PortIndex(0)).unwrap();
    let request = interleaved(address(0, 82), 0, &attached, MAX_SDU, TWO);
    let mut old = open(&mut control, request);
    begin_two(&mut sender, &mut control, &request);
    // The reply comes when both PDUs are complete, so their rest must not wait for it.
    let finish = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(10));
        end_two(&mut sender, &request);
        sender
    });
    let five = Interleaving { mids: 5, ..TWO };
    let wider = interleaved(request.address, 0, &attached, 2_000, five);
    let memory = memory_for_aal34(five, 2_000, 8, 0);
    let mut new = control.renew(old.id(), wider, memory).unwrap();
    let mut sender = finish.join().unwrap();
    for mid in [2, 1] {
        let expected = (mid, vec![mid as u8; 100]);
        assert_eq!(next_with_mid(&mut attached, &mut old), expected);
    }
    let mut mix = Mix::new(5, &[10, 11, 12, 13, 14], 2_000);
    for _ in 0..20 {
        let (mixed, done) = mix.round();
        send_all(&mut sender, &cells(request.address, &mixed));
        for expected in done {
            assert_eq!(next_with_mid(&mut attached, &mut new), expected);
        }
    }
    let stats = control.close(new.id()).unwrap().stats;
    assert_eq!(stats.pdus_delivered, 102);
    assert_eq!(stats.cells_discarded.total(), 0);
}

#[test]
fn new_memory_does_not_wait_for_ever() {
    let (_adapter, mut control) = AdapterThread::spawn(options()).unwrap();
    let mut attached = control.attach(attachment_sizes(), false).unwrap();
    let mut sender = control.cell_sender(PortIndex(0)).unwrap();
    let request = interleaved(address(0, 83), 0, &attached, MAX_SDU, TWO);
    let old = open(&mut control, request);
    begin_two(&mut sender, &mut control, &request);
    let mut new = control.renew(old.id(), request, old.sizes()).unwrap();
    let stats = stats_when(&mut control, |stats| stats.cells_held == 0);
    assert_eq!(stats.pdus_discarded.of(Discard::Closed), 2);
    assert_eq!(stats.cells_discarded.of(Discard::Closed), 2);
    end_two(&mut sender, &request);
    send_all(
        &mut sender,
        &cells(request.address, &payloads(1, 2, &[5; 400])),
    );
    assert_eq!(
        next_with_mid(&mut attached, &mut new),
        (1, vec![5; 400]),
        "the PDUs that were cut are not delivered"
    );
    let stats = control.close(new.id()).unwrap().stats;
    assert_eq!(stats.cells_discarded.total(), 6);
}

#[test]
fn reassembly_is_paid_for_from_the_budget() {
    let mut options: AdapterOptions = options();
    options.memory_max = 1 << 20;
    let (_adapter, mut control) = AdapterThread::spawn(options).unwrap();
    let attached = control.attach(attachment_sizes(), false).unwrap();
    let request = interleaved(address(0, 84), 0, &attached, MAX_SDU, TWO);
    let needed = |control: &mut Control, request, sizes| match refusal(control.open(request, sizes))
    {
        ControlError::MemoryExhausted { needed, .. } => needed,
        other => panic!("{other}"),
    };
    let sizes = ConnectionSizes {
        receive_slots: 1 << 16,
        ..memory_for_aal34(TWO, MAX_SDU, 8, 0)
    };
    let limits = request.aal34_limits(sizes.receive_len, sizes.receive_slots);
    let reassembler = Reassembler::memory_len(&limits.unwrap()) as u64;
    // A place in the buffer for each of 65,536 descriptors.
    assert!(reassembler > 1 << 20);
    let plain = OpenRequest {
        aal: Aal::Aal5,
        ..request
    };
    let difference = needed(&mut control, request, sizes) - needed(&mut control, plain, sizes);
    assert_eq!(difference, reassembler);
    // A quarter of the slots fit, once; and all of it comes back with every close and renewal.
    let sizes = ConnectionSizes {
        receive_slots: 1 << 13,
        ..sizes
    };
    for _ in 0..10 {
        let vc = control.open(request, sizes).unwrap();
        let twin = OpenRequest {
            address: address(0, 85),
            ..request
        };
        needed(&mut control, twin, sizes);
        control.close(vc.id()).unwrap();
    }
}

#[test]
fn numbers_of_mids_that_cannot_be_are_refused() {
    let (_adapter, mut control) = AdapterThread::spawn(options()).unwrap();
    let attached = control.attach(attachment_sizes(), false).unwrap();
    for mids in [0, Interleaving::MIDS_MAX + 1, u16::MAX] {
        let request = interleaved(
            address(0, 86),
            0,
            &attached,
            MAX_SDU,
            Interleaving { mids, ..TWO },
        );
        let refused = refusal(control.open(request, memory_for_aal34(TWO, MAX_SDU, 8, 0)));
        assert_eq!(refused, ControlError::Refused(Refusal::BadParameter));
    }
    assert!(control.enumerate().unwrap().vcs.is_empty());
}
