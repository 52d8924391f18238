//! Figure 9 of *Policing Offloaded* for this machine: what the host pays as the hazard grows.

use std::path::Path;

use anyhow::{Context, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;

use super::plan::{CONTRACTS_BIT_S, HAZARD};
use super::report::{ConnectionReport, PhaseReport};
use super::text::grouped;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Width and height, in pixels.
const SIZE: (u32, u32) = (900, 900);
/// Where a rate of 0 is drawn on the logarithmic axis, in 10^6 bit/s: below the smallest step.
const ZERO_AT: f64 = 1.0;
/// Colours that also differ in brightness and to the colour-blind (Okabe and Ito).
const COLOURS: [RGBColor; 3] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(213, 94, 0),
];

/// One curve.
struct Curve {
    name: Option<String>,
    points: Vec<(f64, f64)>,
}

/// One panel: a quantity over the hazard's rate.
struct Panel {
    title: &'static str,
    curves: Vec<Curve>,
    last: bool,
}

/// Draws the phases of a sweep into the file `path`.
pub(super) fn draw(path: &Path, phases: &[PhaseReport]) -> anyhow::Result<()> {
    let root = SVGBackend::new(path, SIZE).into_drawing_area();
    drawn(&root, phases)
        .and_then(|()| root.present().map_err(|error| anyhow!("{error}")))
        .with_context(|| format!("cannot draw {}", path.display()))
}

fn drawn(root: &Area<'_>, phases: &[PhaseReport]) -> anyhow::Result<()> {
    root.fill(&WHITE).map_err(|error| anyhow!("{error}"))?;
    let title = "A host behind the adapter while one sender floods";
    let root = root
        .titled(title, ("sans-serif", 22))
        .map_err(|error| anyhow!("{error}"))?;
    for (area, panel) in root.split_evenly((3, 1)).iter().zip(panels(phases)) {
        draw_panel(area, &panel).map_err(|error| anyhow!("{error}"))?;
    }
    Ok(())
}

/// The hazard's rate in a phase, 10^6 bit/s.
fn hazard_mbit_s(phase: &PhaseReport) -> f64 {
    let hazard = phase.connections.get(HAZARD);
    let mbit_s = hazard.map_or(0.0, |c| c.offered_bit_s as f64 / 1e6);
    mbit_s.max(ZERO_AT)
}

fn panels(phases: &[PhaseReport]) -> [Panel; 3] {
    let sound = || phases.iter().filter(|phase| phase.void_reason.is_none());
    let curve = |name: Option<String>, of: &dyn Fn(&PhaseReport) -> f64| Curve {
        name,
        points: sound()
            .map(|phase| (hazard_mbit_s(phase), of(phase)))
            .collect(),
    };
    let delivered = |index: usize| {
        let bit_s = |c: &ConnectionReport| c.delivered_bit_s as f64 / 1e6;
        let name = format!("C{}", index + 1);
        curve(Some(name), &move |phase| {
            phase.connections.get(index).map_or(0.0, bit_s)
        })
    };
    [
        Panel {
            title: "host CPU, %",
            curves: vec![curve(None, &|p| p.host.cpu_ns as f64 / 1e7 / p.seconds)],
            last: false,
        },
        Panel {
            title: "host events per second",
            curves: vec![curve(None, &|p| p.host.events as f64 / p.seconds)],
            last: false,
        },
        Panel {
            title: "delivered, 10^6 bit/s of SDU",
            curves: (0..CONTRACTS_BIT_S.len()).map(delivered).collect(),
            last: true,
        },
    ]
}

/// The first round number from `value` on.
fn round_up(value: f64) -> f64 {
    let decade = 10f64.powf(value.max(1e-3).log10().floor());
    let steps = [1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];
    let fits = steps.into_iter().find(|step| step * decade >= value);
    fits.unwrap_or(10.0) * decade
}

/// Labels of the logarithmic axis.
fn rate_label(mbit_s: f64) -> String {
    match mbit_s {
        zero if zero <= ZERO_AT => "0".to_owned(),
        other => grouped(other.round() as u64),
    }
}

fn label(value: f64) -> String {
    match value {
        whole if whole.fract() == 0.0 => grouped(whole as u64),
        other => format!("{other:.1}"),
    }
}

fn draw_panel(
    area: &Area<'_>,
    panel: &Panel,
) -> Result<(), DrawingAreaErrorKind<<SVGBackend<'static> as DrawingBackend>::ErrorType>> {
    let points = || panel.curves.iter().flat_map(|curve| &curve.points);
    let right = points().map(|point| point.0).fold(1_000.0, f64::max) * 1.2;
    let top = round_up(points().map(|point| point.1).fold(0.0, f64::max) * 1.1);
    let mut chart = ChartBuilder::on(area)
        .caption(panel.title, ("sans-serif", 16))
        .margin_right(24)
        .x_label_area_size(if panel.last { 44 } else { 24 })
        .y_label_area_size(64)
        .build_cartesian_2d((ZERO_AT..right).log_scale(), 0.0..top)?;
    let mut mesh = chart.configure_mesh();
    mesh.x_label_formatter(&|x| rate_label(*x))
        .y_label_formatter(&|y| label(*y))
        .x_labels(6)
        .y_labels(5)
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.12))
        .label_style(("sans-serif", 13));
    if panel.last {
        mesh.x_desc("offered by the hazard, 10^6 bit/s of SDU");
    }
    mesh.draw()?;
    let contract = CONTRACTS_BIT_S[HAZARD] as f64 / 1e6;
    let line = [(contract, 0.0), (contract, top)];
    chart.draw_series(DashedLineSeries::new(line, 4, 4, BLACK.mix(0.5).into()))?;
    let at = (contract * 1.06, top * 0.14);
    let word = Text::new(
        "its contract",
        at,
        ("sans-serif", 13).into_font().color(&BLACK.mix(0.6)),
    );
    chart.draw_series([word])?;
    for (i, (curve, colour)) in panel.curves.iter().zip(COLOURS).enumerate() {
        //  The first one wider: equal rates lie on each other.
        let width = if i == 0 && panel.curves.len() > 1 {
            6
        } else {
            2
        };
        let series = LineSeries::new(curve.points.iter().copied(), colour.stroke_width(width));
        let drawn = chart.draw_series(series)?;
        if let Some(name) = &curve.name {
            drawn.label(name).legend(move |(x, y)| {
                PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(width))
            });
        }
        let dots = curve
            .points
            .iter()
            .map(|point| Circle::new(*point, 3, colour.filled()));
        chart.draw_series(dots)?;
    }
    if panel.curves.len() > 1 {
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .label_font(("sans-serif", 13))
            .draw()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_axes_up() {
        for (value, round) in [
            (0.0, 0.001),
            (0.9, 1.0),
            (1.2, 1.5),
            (41.0, 50.0),
            (1_343.0, 1_500.0),
        ] {
            assert!(
                (round_up(value) - round).abs() < 1e-9,
                "{value}: {}",
                round_up(value)
            );
        }
    }
}
