//! Every rule can be broken, and every reason for a void try can be given.

use cellgate_core::Time;
use cellgate_core::adapter::{
    AdapterState, AttachmentIndex, Discard, VcId, VcIndex, VcInfo, VcStats,
};
use cellgate_host::client::ClientCounters;
use cellgate_host::gap::Gaps;

use super::super::host::HostReport;
use super::super::plan::{Strange, connections};
use super::super::sender::Task;
use super::*;

/// PDUs of each connection in a second of flood: released and sent, delivered.
const PDUS: [(u64, u64); 3] = [(306, 306), (306, 306), (1_000, 620)];
const CELLS: u64 = PDU_CELLS as u64;

fn state(pdus: [(u64, u64); 3]) -> AdapterState {
    let mut stats = AdapterStats::default();
    let mut vcs = Vec::new();
    for (connection, (sent, delivered)) in connections(false).iter().zip(pdus) {
        let mut vc = VcStats {
            pdus_delivered: delivered,
            ..VcStats::default()
        };
        vc.pdus_discarded
            .add(Discard::NonConforming, sent - delivered);
        stats.cells_received += sent * CELLS;
        stats.cells_delivered += delivered * CELLS;
        stats
            .cells_discarded
            .add(Discard::NonConforming, (sent - delivered) * CELLS);
        vcs.push(VcInfo {
            vc: VcId {
                index: VcIndex(connection.index as u16),
                generation: 1,
            },
            request: connection.open(AttachmentIndex(0)),
            stats: vc,
        });
    }
    AdapterState {
        time: Time::ZERO,
        stats,
        vcs,
        next: None,
    }
}

/// A flood as it should be.
fn good() -> Try {
    let sent = PDUS.iter().enumerate().map(|(index, (sent, _))| Sent {
        connection: Some(index),
        due_pdus: if index == 2 { 0 } else { *sent },
        released_pdus: *sent,
        sent_pdus: *sent,
        sent_cells: sent * CELLS,
        ..Sent::default()
    });
    let readers = PDUS.map(|(_, delivered)| ReaderReport {
        delivered,
        ..ReaderReport::default()
    });
    let events = PDUS.iter().map(|(_, delivered)| delivered).sum();
    Try {
        task: Task {
            steered: false,
            run: 1,
            begin: Time::ZERO,
            end: Time::from_ns(1_000_000_000),
            hazard: Hazard::Max,
            strange: Strange::Nothing,
        },
        before: state([(0, 0); 3]),
        after: state(PDUS),
        sent: sent.chain([Sent::default()]).collect(),
        host: HostReport {
            connections: readers.to_vec(),
            counters: ClientCounters {
                events,
                wakeups: 700,
                ..ClientCounters::default()
            },
            ..HostReport::default()
        },
        ports: Vec::new(),
        lost: vec![0; 4],
        overflows: 0,
        gaps: Gaps::new(100_000).report(),
        drained: true,
    }
}

fn judged(tried: &Try) -> PhaseReport {
    let phase = Phase::new("flood", Hazard::Max, Strange::Nothing);
    report(&phase, &connections(false), false, tried, 1)
}

#[test]
fn a_good_try_breaks_no_rule() {
    let report = judged(&good());
    assert_eq!(report.void_reason, None);
    assert_eq!(report.more.faults, Vec::<String>::new());
    assert_eq!(
        report.connections[2].discarded.get("non_conforming"),
        Some(&380)
    );
}

#[test]
fn what_overflows_a_pseudowire_of_the_flood_is_no_fault() {
    let mut tried = good();
    tried.sent[2].sent_cells += 171;
    tried.lost[2] = 171;
    tried.overflows = 1;
    assert_eq!(judged(&tried).more.faults, Vec::<String>::new());
}

/// What is done to a good try, and a part of what must be said of it.
type Change = (fn(&mut Try), &'static str);

#[test]
fn every_rule_can_be_broken() {
    let changes: [Change; 15] = [
        (
            |t| {
                t.sent[2].sent_cells += 1;
                t.lost[2] = 1;
            },
            "1 cells were lost on pseudowires whose sockets had room",
        ),
        (
            |t| t.host.connections[0].delivered -= 1,
            "C1: 305 PDUs arrived of 306",
        ),
        (
            |t| t.host.connections[1].corrupt = 1,
            "C2: 1 PDUs are not what was sent",
        ),
        (
            |t| t.host.connections[1].repeated = 2,
            "C2: 2 PDUs came again",
        ),
        (
            |t| t.sent[0].released_pdus += 1,
            "C1: 306 PDUs arrived of 307",
        ),
        (
            |t| t.host.connections[2].delivered = 600,
            "C3: 600 PDUs arrived, its contract",
        ),
        (
            |t| t.host.connections[2].delivered = 665,
            "C3: 665 PDUs arrived, its contract",
        ),
        (
            |t| t.host.counters.events += 1,
            "1233 events for 1232 delivered PDUs",
        ),
        (
            |t| t.host.other_events = 1,
            "1232 events for 1232 delivered PDUs",
        ),
        (
            |t| t.host.counters.wakeups = 2_000,
            "2000 wake-ups for 1232 events",
        ),
        (|t| t.host.counters.lost = 1, "1 events lost"),
        (|t| t.drained = false, "the queues did not run empty"),
        (|t| t.after.stats.cells_delivered -= 1, "cells are lost"),
        (|t| t.sent[2].sent_cells += 1, "cells received of"),
        (
            |t| t.sent[3].sent_cells += 1,
            "0 cells were nobody's, the stranger sent 1",
        ),
    ];
    for (change, said) in changes {
        let mut tried = good();
        change(&mut tried);
        let faults = judged(&tried).more.faults;
        let found = faults.iter().any(|fault| fault.contains(said));
        assert!(found, "{said:?} not in {faults:?}");
    }
}

#[test]
fn whoever_was_kept_from_running_makes_a_try_void() {
    let changes: [Change; 5] = [
        (
            |t| t.gaps.max_ns = GAP_MAX_NS + 1,
            "the adapter stood still for 30.0 ms",
        ),
        (
            |t| t.sent[0].released_pdus = 302,
            "the source of C1 released 302 PDUs of 306",
        ),
        (
            |t| t.sent[2].pause_lost_ns = 101_000_000,
            "the flood of C3 paused for 101.0 ms",
        ),
        (
            |t| t.host.late_max_ns = READER_LATE_NS + 1,
            "the host was kept from running",
        ),
        (
            |t| t.task.strange = Strange::Scan,
            "the stranger was kept from running",
        ),
    ];
    for (change, said) in changes {
        let mut tried = good();
        change(&mut tried);
        let reason = judged(&tried).void_reason.unwrap_or_default();
        assert!(reason.contains(said), "{said:?} not in {reason:?}");
    }
}

#[test]
fn a_pause_of_the_flood_lowers_what_its_contract_must_get() {
    let mut tried = good();
    //  33 PDUs, 54 ms of the contract, less.
    tried.host.connections[2].delivered -= 33;
    tried.host.counters.events -= 33;
    assert_ne!(judged(&tried).more.faults, Vec::<String>::new());
    tried.sent[2].pause_lost_ns = 60_000_000;
    let report = judged(&tried);
    assert_eq!((report.void_reason, report.more.faults), (None, Vec::new()));
}
