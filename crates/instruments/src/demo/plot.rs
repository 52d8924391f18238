//! Figure 9 of *Policing Offloaded* for this machine: what the host pays as the hazard grows.

use cellgate_report::{At, Axis, Figure, Look, Mark, Panel, Series};

use crate::flood::plan::{CONTRACTS_BIT_S, HAZARD};
use crate::flood::report::{ConnectionReport, PhaseReport};

/// Where a rate of 0 is drawn on the logarithmic axis, in 10^6 bit/s: below the smallest step.
const ZERO_AT: f64 = 1.0;

/// The phases of a sweep. Void ones are left out.
pub(super) fn figure(phases: &[PhaseReport]) -> Figure {
    let delivered = (0..CONTRACTS_BIT_S.len()).map(|index| {
        let bit_s = |c: &ConnectionReport| c.delivered_bit_s as f64 / 1e6;
        let of = move |phase: &PhaseReport| phase.connections.get(index).map_or(0.0, bit_s);
        // The first one wide, at the back: equal rates lie on each other.
        let look = if index == 0 { Look::Wide } else { Look::Dotted };
        curve(&format!("C{}", index + 1), look, phases, of)
    });
    let cpu = |phase: &PhaseReport| phase.host.cpu_ns as f64 / 1e7 / phase.seconds;
    let events = |phase: &PhaseReport| phase.host.events as f64 / phase.seconds;
    let offered = "offered by the hazard, 10^6 bit/s of SDU";
    Figure::stacked(
        "demo",
        "A host behind the adapter while one sender floods",
        vec![
            panel(
                "",
                "host CPU, %",
                vec![curve("", Look::Dotted, phases, cpu)],
            ),
            panel(
                "",
                "host events per second",
                vec![curve("", Look::Dotted, phases, events)],
            ),
            panel(offered, "delivered, 10^6 bit/s of SDU", delivered.collect()),
        ],
    )
}

fn curve(
    name: &str,
    look: Look,
    phases: &[PhaseReport],
    of: impl Fn(&PhaseReport) -> f64,
) -> Series {
    let sound = phases.iter().filter(|phase| phase.void_reason.is_none());
    let points = sound.map(|phase| (hazard_mbit_s(phase), of(phase)));
    Series::new(name, look, points.collect())
}

fn panel(x: &str, y: &str, series: Vec<Series>) -> Panel {
    Panel {
        x: Axis::log(x, ZERO_AT),
        y: Axis::linear(y),
        series,
        marks: vec![Mark {
            at: At::X(CONTRACTS_BIT_S[HAZARD] as f64 / 1e6),
            label: "its contract".to_owned(),
        }],
    }
}

/// The hazard's rate in a phase, 10^6 bit/s.
fn hazard_mbit_s(phase: &PhaseReport) -> f64 {
    let hazard = phase.connections.get(HAZARD);
    hazard.map_or(0.0, |c| c.offered_bit_s as f64 / 1e6)
}
