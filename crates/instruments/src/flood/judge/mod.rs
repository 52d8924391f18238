//! What a try showed: its report, whether it is void, and which rules it broke.

use cellgate_core::adapter::{AdapterStats, Discard, VcStats};

use super::host::ReaderReport;
use super::plan::{Connection, Hazard, PDU_CELLS, Phase, READER_LATE_NS, SDU, Strange};
use super::report::{
    AdapterUse, ConnectionReport, GapUse, HostUse, Latency, LinkUse, More, PhaseReport, by_name,
    counted, per_second,
};
use super::sender::Sent;
use super::stage::Try;
use crate::live::weather::{GAP_MAX_NS, ms, too_long};

/// Reports a try; `tries` says which it was.
pub(crate) fn report(
    phase: &Phase,
    connections: &[Connection],
    shared_port: bool,
    tried: &Try,
    tries: u32,
) -> PhaseReport {
    let ns = tried.task.end.since_ns(tried.task.begin);
    let rows: Vec<Row<'_>> = connections.iter().map(|c| Row::new(c, tried)).collect();
    let (now, before) = (&tried.after.stats, &tried.before.stats);
    let discarded = counted(&now.cells_discarded, &before.cells_discarded);
    let withdrawn: u64 = tried.sent.iter().map(|sent| sent.withdrawn_cells).sum();
    let sources = rows.iter().map(|row| row.sent.late_max_ns);
    let counters = &tried.host.counters;
    let mut report = PhaseReport {
        name: phase.name.clone(),
        seconds: ns as f64 / 1e9,
        void_reason: void_reason(&rows, tried),
        tries,
        connections: rows.iter().map(|row| row.report(ns)).collect(),
        host: HostUse {
            events: counters.events,
            wakeups: counters.wakeups,
            cpu_ns: tried.host.cpu_ns,
        },
        adapter: AdapterUse {
            cells_received: now.cells_received - before.cells_received,
            cells_discarded: by_name(&discarded),
        },
        link: LinkUse {
            queued_max: tried.ports.iter().map(|p| p.queued_max).max().unwrap_or(0),
            dropped: tried.ports.iter().map(|p| p.dropped).sum::<u64>() + withdrawn,
        },
        gaps: GapUse {
            count: tried.gaps.count,
            max_ns: tried.gaps.max_ns,
            total_ns: tried.gaps.total_ns,
        },
        more: More {
            faults: Vec::new(),
            discarded_cell_s: per_second(discarded.total(), ns),
            source_late_ns: sources.max().unwrap_or(0),
            reader_late_ns: tried.host.late_max_ns,
            damaged_pdus: rows.iter().map(|row| row.sent.damaged_pdus).collect(),
        },
    };
    report.more.faults = faults(&rows, &report, tried, shared_port);
    report
}

/// All that is known of one connection in a try.
struct Row<'a> {
    connection: &'a Connection,
    sent: Sent,
    reader: ReaderReport,
    now: VcStats,
    before: VcStats,
    rate: Hazard,
}

impl<'a> Row<'a> {
    fn new(connection: &'a Connection, tried: &Try) -> Self {
        let of = |state: &cellgate_core::adapter::AdapterState| {
            let address = connection.address();
            let vc = state.vcs.iter().find(|vc| vc.request.address == address);
            vc.map(|vc| vc.stats).unwrap_or_default()
        };
        let sent = tried
            .sent
            .iter()
            .find(|sent| sent.connection == Some(connection.index));
        let readers = &tried.host.connections;
        Self {
            connection,
            sent: sent.copied().unwrap_or_default(),
            reader: readers.get(connection.index).cloned().unwrap_or_default(),
            now: of(&tried.after),
            before: of(&tried.before),
            rate: tried.task.rate(connection),
        }
    }

    /// Whether its source kept its contract.
    fn conforms(&self) -> bool {
        self.connection.allows(self.rate)
    }

    fn report(&self, ns: u64) -> ConnectionReport {
        let bit_s = |pdus: u64| per_second(pdus * 8 * u64::from(SDU), ns);
        let address = self.connection.address();
        ConnectionReport {
            vpi: address.vpi(),
            vci: address.vci(),
            contract_bit_s: self.connection.contract_bit_s,
            offered_bit_s: bit_s(self.sent.released_pdus),
            delivered_bit_s: bit_s(self.reader.delivered),
            sent_pdus: self.sent.sent_pdus,
            delivered_pdus: self.reader.delivered,
            corrupt_pdus: self.reader.corrupt,
            discarded: by_name(&counted(
                &self.now.pdus_discarded,
                &self.before.pdus_discarded,
            )),
            latency_ns: Latency {
                p50: self.reader.latency_p50_ns,
                p99: self.reader.latency_p99_ns,
                max: self.reader.latency_max_ns,
            },
        }
    }

    /// How its source did not do what it was to, if so.
    fn missed(&self, ns: u64) -> Option<String> {
        let (name, sent) = (self.connection.name(), &self.sent);
        if self.conforms() {
            //  1 % is as much as the rates are held to.
            let missed = sent.released_pdus * 100 < sent.due_pdus * 99;
            return missed.then(|| {
                let (is, of) = (sent.released_pdus, sent.due_pdus);
                format!(
                    "the source of {name} released {is} PDUs of {of}, {} late",
                    ms(sent.late_max_ns)
                )
            });
        }
        //  A flood that is no flood for so long shows too little.
        let lost_ns = sent.pause_lost_ns;
        (lost_ns > ns / 10).then(|| {
            let (is, may) = (ms(lost_ns), ms(ns / 10));
            format!("the flood of {name} paused for {is} beyond its CDVT, admitted are {may}")
        })
    }

    /// PDUs that the contract lets through at least and at most in `ns` nanoseconds, if its source
    /// sends more all the time.
    fn guaranteed(&self, ns: u64) -> (u64, u64) {
        let pdus = |ns: u64| pdus_within(self.connection.rate().cell_s(), ns);
        //  A PDU less, and 1 %: the first one may have to wait for what came before, the last one
        //  may be on its way.
        let flooded_ns = ns.saturating_sub(self.sent.pause_lost_ns);
        let least = (pdus(flooded_ns) * 99 / 100).saturating_sub(1);
        //  What CDVT lets come early, as much again if the adapter stood still, a PDU at each end.
        let most = pdus(ns + self.connection.cdvt_ns() + GAP_MAX_NS) + 2;
        (least, most)
    }
}

/// PDUs that `cell_s` cells/s are in `ns` nanoseconds, rounded down.
fn pdus_within(cell_s: u32, ns: u64) -> u64 {
    (u128::from(cell_s) * u128::from(ns) / 1_000_000_000) as u64 / PDU_CELLS as u64
}

/// Why the try says nothing, if it does not: the machine kept somebody from running for longer
/// than was admitted.
fn void_reason(rows: &[Row<'_>], tried: &Try) -> Option<String> {
    let ns = tried.task.end.since_ns(tried.task.begin);
    let adapter = too_long("the adapter stood still", tried.gaps.max_ns, GAP_MAX_NS);
    let sources = rows.iter().filter_map(|row| row.missed(ns));
    let host = too_long(
        "the host was kept from running",
        tried.host.late_max_ns,
        READER_LATE_NS,
    );
    let stranger = tried.sent.iter().find(|sent| sent.connection.is_none());
    let silent = stranger.is_none_or(|stranger| stranger.sent_cells == 0);
    let stranger = (silent && tried.task.strange == Strange::Scan)
        .then(|| "the stranger was kept from running".to_owned());
    let reasons = adapter.into_iter().chain(sources).chain(host);
    let reasons: Vec<_> = reasons.chain(stranger).collect();
    (!reasons.is_empty()).then(|| reasons.join("; "))
}

/// Rules that the try broke, in words. They hold for a try that is not void.
fn faults(rows: &[Row<'_>], report: &PhaseReport, tried: &Try, shared_port: bool) -> Vec<String> {
    let mut faults = Vec::new();
    let mut rule = |holds: bool, otherwise: &dyn Fn() -> String| {
        if !holds {
            faults.push(otherwise());
        }
    };
    let ns = tried.task.end.since_ns(tried.task.begin);
    for row in rows {
        let (name, sent, read) = (row.connection.name(), &row.sent, &row.reader);
        rule(read.corrupt == 0, &|| {
            format!("{name}: {} PDUs are not what was sent", read.corrupt)
        });
        rule(read.repeated == 0, &|| {
            format!("{name}: {} PDUs came again", read.repeated)
        });
        if row.conforms() {
            //  On a shared port, what others made overflow is the port's loss, not the adapter's.
            let whole = if shared_port {
                sent.sent_pdus
            } else {
                sent.released_pdus
            };
            rule(read.delivered == whole, &|| {
                format!(
                    "{name}: {} PDUs arrived of {whole} within the contract",
                    read.delivered
                )
            });
        } else if !shared_port {
            let (least, most) = row.guaranteed(ns);
            let least = least.min(sent.sent_pdus);
            rule((least..=most).contains(&read.delivered), &|| {
                let got = read.delivered;
                format!("{name}: {got} PDUs arrived, its contract lets {least} to {most} through")
            });
        }
    }
    let (host, delivered) = (&tried.host.counters, report.delivered());
    rule(
        host.events == delivered && tried.host.other_events == 0,
        &|| format!("{} events for {delivered} delivered PDUs", host.events),
    );
    rule(host.wakeups <= host.events, &|| {
        format!("{} wake-ups for {} events", host.wakeups, host.events)
    });
    rule(host.lost == 0 && host.malformed == 0, &|| {
        format!("{} events lost, {} malformed", host.lost, host.malformed)
    });
    let lost: u64 = tried.lost.iter().sum();
    rule(lost == 0 || tried.overflows > 0, &|| {
        format!("{lost} cells were lost on pseudowires whose sockets had room")
    });
    rule(tried.drained, &|| "the queues did not run empty".to_owned());
    faults.extend(conservation(&tried.before.stats, &tried.after.stats, tried));
    faults
}

/// Cells in = delivered + discarded + held, and the senders' count of them.
fn conservation(before: &AdapterStats, now: &AdapterStats, tried: &Try) -> Vec<String> {
    let mut faults = Vec::new();
    let accounted = now.cells_delivered + now.cells_discarded.total() + now.cells_unread;
    if now.cells_received != accounted + now.cells_held {
        faults.push(format!(
            "cells are lost: {} received, {accounted} delivered, discarded or unread, {} held",
            now.cells_received, now.cells_held
        ));
    }
    let received = now.cells_received - before.cells_received;
    let arrived = |(sent, lost): (&Sent, &u64)| sent.sent_cells - lost;
    let sent: u64 = tried.sent.iter().zip(&tried.lost).map(arrived).sum();
    if received != sent {
        faults.push(format!(
            "{received} cells received of {sent} that the ports took"
        ));
    }
    let discarded = counted(&now.cells_discarded, &before.cells_discarded);
    let each = tried.sent.iter().zip(&tried.lost);
    let strange = each.filter(|(sent, _)| sent.connection.is_none());
    let strange: u64 = strange.map(arrived).sum();
    let nobodys = discarded.of(Discard::UnknownVc);
    if nobodys != strange {
        faults.push(format!(
            "{nobodys} cells were nobody's, the stranger sent {strange}"
        ));
    }
    faults
}

#[cfg(test)]
mod tests;
