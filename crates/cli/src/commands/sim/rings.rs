//! The outcome of a run of rings, as people read it.

use cellgate_lab::world::{Outcome, Percentiles};
use cellgate_report::output::table;

fn measured(times: Option<Percentiles>) -> String {
    let told = |one: Percentiles| format!("{}/{}/{}", one.p50_ns, one.p99_ns, one.max_ns);
    times.map_or("-".into(), told)
}

/// Millionths as a percentage.
fn percent(ppm: u64) -> String {
    format!("{}.{} %", ppm / 10_000, ppm % 10_000 / 1_000)
}

pub(super) fn text(outcome: &Outcome) -> String {
    let (cells, events) = (outcome.cells, outcome.events);
    let (judged, hash) = (outcome.judged_cells, outcome.trace_hash);
    let mut text = associations(outcome) + "\n" + &stations(outcome) + "\n";
    for (name, ring) in &outcome.rings {
        let channels: Vec<_> = ring
            .channels_use_ppm
            .iter()
            .map(|one| percent(*one))
            .collect();
        text += &format!(
            "ring {name}: {} cells sent, {} taken, {} untaken, {} lost, {} damaged, {} cleared; \
             channels: {}\n",
            ring.sent_cells,
            ring.taken_cells,
            ring.untaken_cells,
            ring.lost_cells,
            ring.damaged_cells,
            ring.cleared_cells,
            channels.join(", "),
        );
    }
    text += &format!("{cells} cells, {judged} judged, {events} events, trace {hash:016x}\n");
    text
}

fn associations(outcome: &Outcome) -> String {
    let heads = [
        "association",
        "sent",
        "read",
        "strange",
        "data_bit_s",
        "delay_ns p50/p99/max",
    ];
    let mut rows = vec![heads.map(String::from)];
    for (name, one) in &outcome.associations {
        rows.push([
            name.clone(),
            one.sent_blocks.to_string(),
            one.received_blocks.to_string(),
            one.strange_blocks.to_string(),
            one.data_bit_s.to_string(),
            measured(one.delay),
        ]);
    }
    table(&rows)
}

fn stations(outcome: &Outcome) -> String {
    let heads = [
        "station",
        "cells",
        "read",
        "lost",
        "interrupts",
        "a_block",
        "fifo",
        "cpu",
        "access_ns p50/p99/max",
    ];
    let mut rows = vec![heads.map(String::from)];
    for (name, one) in &outcome.stations {
        let a_block = one.interrupts_a_block;
        let a_block = a_block.map(|one| format!("{}.{:03}", one / 1_000, one % 1_000));
        let discarded = one.discarded_cells.iter();
        let lost = [("overflow", one.overflowed_cells), ("bus", one.bus_errors)];
        let lost: Vec<String> = (lost.into_iter())
            .chain(discarded.map(|(reason, cells)| (&**reason, *cells)))
            .filter(|(_, cells)| *cells > 0)
            .map(|(reason, cells)| format!("{reason}:{cells}"))
            .collect();
        rows.push([
            name.clone(),
            one.sent_cells.to_string(),
            one.read_cells.to_string(),
            if lost.is_empty() {
                "0".into()
            } else {
                lost.join(",")
            },
            one.interrupts.to_string(),
            a_block.unwrap_or_else(|| "-".into()),
            one.fifo_high_water.to_string(),
            percent(one.cpu_ppm),
            measured(one.access),
        ]);
    }
    table(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_is_told_and_what_was_not_is_a_dash() {
        let times = Percentiles {
            p50_ns: 1,
            p99_ns: 20,
            max_ns: 300,
        };
        assert_eq!(measured(Some(times)), "1/20/300");
        assert_eq!(measured(None), "-");
        assert_eq!(percent(876_543), "87.6 %");
    }
}
