//! Whether a source sends what its connection carries, and, if it is there to do no harm, keeps its
//! contract.

use std::collections::{BTreeMap, BTreeSet};

use cellgate_core::adapter::Terms;
use cellgate_core::contract::{Aal, CellRate, Peak, ServiceCategory, TrafficContract};
use cellgate_core::wire::PAYLOAD_LEN;

use super::Network;
use super::refusal::{At, Found};
use super::sums::CELL_BITS;
use crate::world::content::cells_of;
use crate::world::fault::FaultSpec;
use crate::world::plan::Connection;
use crate::world::scenario::{Scenario, SourceSpec, Traffic};
use crate::world::{Interval, Ps};

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
pub(in crate::world) fn is_shaped_at_once(
    spec: &SourceSpec,
    contract: &TrafficContract,
    cell: Interval,
    (duration_ns, step): (u64, Ps),
) -> bool {
    // What ABR lets pass the network says.
    let shaped = contract.category != ServiceCategory::Abr;
    let Some(descriptor) = contract.transmit.filter(|_| shaped) else {
        return false;
    };
    let (start, stop) = spec.span(duration_ns);
    let Some(mut bursts) = Bursts::of(&spec.traffic, stop.since(start), cell) else {
        return false;
    };
    if let Traffic::OnOff { .. } = spec.traffic {
        // An SDU that is begun is handed over whole.
        let aal = contract.aal.unwrap_or(Aal::Aal5);
        let longest = spec.sdus.iter().map(|sdu| cells_of(aal, *sdu)).max();
        bursts.cells += u64::from(longest.unwrap_or(1)) - 1;
    }
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

/// Looks at all sources.
pub(super) fn check(network: &Network<'_>, found: &mut Found<'_>) {
    let scenario = network.scenario;
    let changed = changed(scenario);
    let mut sending = BTreeSet::new();
    for (n, spec) in scenario.sources.iter().enumerate() {
        let (at, name) = (At::Source(n), &spec.connection);
        let number = network.number(found, at, name);
        // Of recorded cells nobody knows what PDUs are in them.
        let strays = matches!(spec.traffic, Traffic::Scan { .. });
        if !strays && number.is_some_and(|number| !sending.insert(number)) {
            found.wrong(at, "two sources send PDUs on it");
        }
        let Some((_, connection)) = network.find(name) else {
            continue;
        };
        if let Some(what) = wrong_sdus(spec, &connection.contract) {
            found.wrong(at, what);
        }
        let first = At::Link(connection.path[0] / 2);
        let is_known = found.is_right(first) && found.is_right(At::Whole);
        if is_known && found.is_right(at) && !spec.hazard && !spec.by_adapter {
            let changed = changed.get(name.as_str()).map_or(&[][..], Vec::as_slice);
            if let Some((cell_s, what, most)) = exceeds(network, spec, connection, changed) {
                let what = format!(
                    "of its {cell_s} cells/s {what} {most}; it needs `hazard = true`, or \
                     `by_adapter = true`"
                );
                found.wrong(at, what);
            }
        }
    }
}

/// What is wrong with the SDUs that a source sends by a contract.
fn wrong_sdus(spec: &SourceSpec, contract: &TrafficContract) -> Option<&'static str> {
    if matches!(spec.traffic, Traffic::Scan { .. } | Traffic::Cells(_)) {
        return None;
    }
    if spec.sdus.is_empty() {
        return Some("`sdus` has no entry; only scans and recorded cells go without");
    }
    let descriptor = contract.receive.or(contract.transmit);
    let max_sdu = descriptor.and_then(|descriptor| descriptor.max_sdu);
    let max_sdu = max_sdu.map_or(65_535, |octets| octets.get());
    let cells = contract.aal == Some(Aal::Aal0);
    let fits = |sdu: &u16| {
        let octets = u32::from(*sdu);
        let whole = !cells || octets == PAYLOAD_LEN as u32;
        *sdu >= SourceSpec::SDU_MIN && octets <= max_sdu && whole
    };
    let what = "SDUs have 12 octets at least, and at most the contract's max_sdu; on aal0 48";
    (!spec.sdus.iter().all(fits)).then_some(what)
}

/// How many cells per second a source has that puts cells on a line itself, what has fewer, and how
/// many: its line, or the contract of its connection, or one that its reader changes that to.
fn exceeds(
    network: &Network<'_>,
    spec: &SourceSpec,
    connection: &Connection,
    changed: &[TrafficContract],
) -> Option<(u64, &'static str, u64)> {
    let first = connection.path[0];
    let carried = network.scenario.links[first / 2].bit_s / CELL_BITS;
    let said = peak(&spec.traffic).map(u64::from);
    let cell_s = said.unwrap_or(carried);
    if cell_s > carried {
        return Some((cell_s, "its line carries", carried));
    }
    let (start, stop) = spec.span(network.scenario.duration_ns);
    let bursts = Bursts::of(&spec.traffic, stop.since(start), network.cell(first));
    // Applications of a server open what they ask for.
    let bursts = bursts.filter(|_| connection.is_open)?;
    let line = network.cell(*connection.path.last()?).rate();
    let contracts = changed.iter().chain([&connection.contract]);
    let mut bounds = contracts.flat_map(|contract| bounds(contract, line));
    let (rate, _) = bounds.find(|(rate, limit)| bursts.early(*rate) > *limit)?;
    Some((cell_s, "its contract lets pass", rate.cell_s().into()))
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
