//! Whether a source that is there to do no harm keeps its contract.

use std::collections::BTreeMap;

use cellgate_core::adapter::Terms;
use cellgate_core::contract::{CellRate, Peak, ServiceCategory, TrafficContract};

use super::error::ScenarioError;
use super::plan::Connection;
use super::scenario::{FaultSpec, Scenario, SourceSpec, Traffic};
use super::{Interval, Line, Ps};

/// Bits of a cell on a line.
const CELL_BITS: u64 = 424;

/// A rate that a contract holds its sender to: cells per second, and how early a cell may be.
type Bound = (CellRate, Ps);

/// When a source puts cells on its line: bursts at even distances of cells at even distances.
#[derive(Clone, Copy, Debug)]
struct Bursts {
    cell: Interval,
    cells: u64,
    period: Ps,
    bursts: u64,
}

impl Bursts {
    /// Of a source that sends for so long before a line that needs `line` for a cell; none: its
    /// cells are none of its connection's.
    fn of(traffic: &Traffic, span: Ps, line: Interval) -> Option<Self> {
        let once = |cell: Interval| Self {
            cell,
            cells: cell.begun_in(span),
            period: span,
            bursts: 1,
        };
        match *traffic {
            Traffic::Greedy => Some(once(line)),
            Traffic::Paced { cell_s } => Some(once(Interval::of_rate(CellRate::new(cell_s)?))),
            Traffic::OnOff {
                cell_s,
                on_ns,
                off_ns,
            } => {
                let cell = Interval::of_rate(CellRate::new(cell_s)?);
                let on = Ps::from_ns(on_ns).min(span);
                let cells = cell.begun_in(on);
                let period = on.plus(Ps::from_ns(off_ns)).max(cell.times(cells));
                Some(Self {
                    cell,
                    cells,
                    period,
                    bursts: span.ps().div_ceil(period.ps().max(1)),
                })
            }
            Traffic::Scan { .. } | Traffic::Cells(_) => None,
        }
    }

    /// How much earlier than at this rate a cell comes, at most: by I.371's GCRA.
    fn early(&self, rate: CellRate) -> Ps {
        let due = Interval::of_rate(rate);
        let last = self.cells.saturating_sub(1);
        let within = due.times(last).since(self.cell.times(last));
        let each = due.times(self.cells).since(self.period).ps();
        let before = each.saturating_mul(self.bursts.saturating_sub(1));
        within.plus(Ps::new(before))
    }
}

/// Cells per second of a source at its fastest, where it says a rate.
fn peak(traffic: &Traffic) -> Option<u32> {
    match *traffic {
        Traffic::Paced { cell_s } | Traffic::OnOff { cell_s, .. } | Traffic::Scan { cell_s } => {
            Some(cell_s)
        }
        Traffic::Greedy | Traffic::Cells(_) => None,
    }
}

/// What a contract holds its sender to, before a reader whose line has this rate.
fn bounds(contract: &TrafficContract, line: CellRate) -> Vec<Bound> {
    let Some(descriptor) = contract.receive else {
        return Vec::new();
    };
    let cdvt = Ps::from_ns(descriptor.cdvt_ns.unwrap_or(0));
    let peak = match contract.category {
        ServiceCategory::Ubr => descriptor.pcr.or(descriptor.max_pcr),
        _ => Some(descriptor.peak()),
    };
    let peak = match peak {
        Some(Peak::Rate(rate)) => Some((rate, cdvt)),
        Some(Peak::Max) | None => None,
    };
    let tolerance = Ps::from_ns(descriptor.burst_tolerance_ns(line));
    let sustained = descriptor.scr.map(|rate| (rate, cdvt.plus(tolerance)));
    peak.into_iter().chain(sustained).collect()
}

/// Whether a source hands its adapter, before a `line`, no more than a contract's shaper lets pass,
/// which makes good what passes in a `step`. Best effort without a rate is not shaped.
pub(super) fn is_shaped_at_once(
    spec: &SourceSpec,
    contract: &TrafficContract,
    cell: Interval,
    (duration_ns, step): (u64, Ps),
) -> bool {
    let Some(descriptor) = contract.transmit else {
        return false;
    };
    let (start, stop) = spec.span(duration_ns);
    let Some(bursts) = Bursts::of(&spec.traffic, stop.since(start), cell) else {
        return false;
    };
    let peak = match contract.category {
        ServiceCategory::Ubr => descriptor.pcr.or(descriptor.max_pcr),
        _ => Some(descriptor.peak()),
    };
    let peak = match peak {
        Some(Peak::Rate(rate)) => Some(rate),
        Some(Peak::Max) | None => None,
    };
    let cdvt = Ps::from_ns(Terms::made_good_ns(descriptor.cdvt_ns.unwrap_or(0)));
    let shaped = descriptor.scr.or(peak);
    shaped.is_none_or(|rate| bursts.early(rate) <= cdvt && step <= cdvt)
}

/// What readers change their connections to, by name.
fn changed(scenario: &Scenario) -> BTreeMap<&str, Vec<TrafficContract>> {
    let mut contracts: BTreeMap<&str, Vec<TrafficContract>> = BTreeMap::new();
    for fault in &scenario.faults {
        if let FaultSpec::Modify {
            connection,
            contract,
            sender: false,
            ..
        } = fault
        {
            let contract = contract.parse::<TrafficContract>().ok();
            contracts.entry(connection).or_default().extend(contract);
        }
    }
    contracts
}

/// `Err` if a source without `hazard` that puts cells on a line itself is faster than that, or
/// sends more than the contract of its connection, or one that its reader changes that to, lets
/// pass: `connections` has that of each source.
pub(super) fn check<'a>(
    scenario: &Scenario,
    connections: impl Iterator<Item = &'a Connection>,
    lines: &[Line],
) -> Result<(), ScenarioError> {
    let changed = changed(scenario);
    let sources = scenario.sources.iter().zip(connections);
    for (spec, connection) in sources.filter(|(spec, _)| !spec.hazard && !spec.by_adapter) {
        let first = connection.path[0];
        let bit_s = scenario.links[first / 2].bit_s;
        let carried = bit_s / CELL_BITS;
        let said = peak(&spec.traffic).map(u64::from);
        let exceeds = |what, most| {
            let (name, cell_s) = (connection.name.clone(), said.unwrap_or(carried));
            Err(ScenarioError::Exceeds(name, cell_s, what, most))
        };
        if said.is_some_and(|cell_s| cell_s > carried) {
            return exceeds("its line carries", carried);
        }
        let (start, stop) = spec.span(scenario.duration_ns);
        let bursts = Bursts::of(&spec.traffic, stop.since(start), lines[first].cell());
        // Applications of a server open what they ask for.
        let Some(bursts) = bursts.filter(|_| connection.is_open) else {
            continue;
        };
        let last = connection.path.last().copied().unwrap_or(first);
        let contracts = changed.get(connection.name.as_str()).into_iter().flatten();
        let contracts = contracts.chain([&connection.contract]);
        let mut bounds = contracts.flat_map(|contract| bounds(contract, lines[last].rate()));
        if let Some((rate, _)) = bounds.find(|(rate, limit)| bursts.early(*rate) > *limit) {
            return exceeds("its contract lets pass", rate.cell_s().into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_are_as_early_as_their_cells_one_by_one() {
        let on_off = |cell_s, on_ns, off_ns| Traffic::OnOff {
            cell_s,
            on_ns,
            off_ns,
        };
        let rate = CellRate::new(10_000).expect("a rate");
        let line = Interval::of_line(149_760_000);
        for (traffic, early_ns) in [
            (Traffic::Paced { cell_s: 10_000 }, 0),
            // 200 cells, each 50 us before its time.
            (Traffic::Paced { cell_s: 20_000 }, 199 * 50_000),
            // 5 cells in 500 us, 5 of the rate's.
            (on_off(20_000, 250_000, 250_000), 4 * 50_000),
            // One more of them each time.
            (on_off(20_000, 300_000, 200_000), 5 * 50_000 + 19 * 100_000),
            (on_off(10_000, 250_000, 1), 0),
        ] {
            let span = Ps::from_ns(10_000_000);
            let bursts = Bursts::of(&traffic, span, line).expect("cells of its own");
            assert_eq!(bursts.early(rate), Ps::from_ns(early_ns), "{traffic:?}");
        }
    }
}
