//! Copies of a PDU's octets, as the library and the adapter count them.

use std::time::Duration;

use anyhow::ensure;
use cellgate::{Connection, ConnectionCounters};

use crate::bench::report::Report;
use crate::live::daemon::Daemon;

const PDUS: u64 = 100;
const SDU: usize = 1_500;
const PATIENCE: Duration = Duration::from_secs(10);

/// Sends and receives on each path, and has the copies judged.
pub(super) fn count(daemon: &Daemon, report: &mut Report) -> anyhow::Result<()> {
    let connection = Connection::builder()
        .socket(daemon.socket())
        .address("loop.0.90")
        .contract(format!("ubr,aal5:max_sdu={SDU}"))
        .open()?;
    let mut buffer = [0; SDU];
    for in_place in [false, true] {
        let before = connection.counters();
        for _ in 0..PDUS {
            if in_place {
                connection.reserve_timeout(SDU, PATIENCE)?.submit()?;
                let pdu = connection.next_pdu_timeout(PATIENCE)?;
                ensure!(pdu.len() == SDU, "{} octets came back", pdu.len());
            } else {
                connection.send_timeout(&buffer, PATIENCE)?;
                connection.recv_timeout(&mut buffer, PATIENCE)?;
            }
        }
        tell(in_place, before, connection.counters(), report);
    }
    let stats = connection.close(PATIENCE)?;
    // The adapter copies an SDU that it sends once, into private memory, unless the PDU crosses as
    // a whole, and writes each that it receives once, where its reader finds it: these are counts
    // of SDUs, not of octets moved.
    let both = (2 * PDUS) as f64;
    for (name, pdus, bound) in [
        (
            "taken into its own memory before they are sent",
            stats.pdus_transmitted - stats.pdus_crossed,
            0.0,
        ),
        ("written where they are read", stats.pdus_delivered, 1.0),
    ] {
        let name = format!("SDUs of those sent, {name}");
        report.count_at_most(name, pdus as f64 / both, bound);
    }
    Ok(())
}

fn tell(
    in_place: bool,
    before: ConnectionCounters,
    after: ConnectionCounters,
    report: &mut Report,
) {
    let (path, bound) = match in_place {
        true => ("zero-copy", 0.0),
        false => ("sockets", 1.0),
    };
    for (way, copies, pdus) in [
        (
            "sent",
            after.send_copies - before.send_copies,
            after.sent - before.sent,
        ),
        (
            "received",
            after.receive_copies - before.receive_copies,
            after.received - before.received,
        ),
    ] {
        let copies = copies as f64 / pdus as f64;
        report.count_at_most(format!("copies per PDU, {path}, {way}"), copies, bound);
    }
}
