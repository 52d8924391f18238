//! Rates over time, as figures 8 and 10 of paper 003.

use std::path::Path;

use anyhow::{Context, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;

use super::pair::Acted;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Width and height, in pixels.
const SIZE: (u32, u32) = (900, 500);
/// Points of a curve, about.
const POINTS: u64 = 300;
/// Colours that also differ in brightness and to the colour-blind (Okabe and Ito).
const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
];

/// One connection.
pub(super) struct Curve {
    name: String,
    /// Seconds, and 10^6 bit/s of SDU.
    points: Vec<(f64, f64)>,
}

impl Curve {
    /// What a reader received.
    pub(super) fn received(acted: &Acted) -> Self {
        let task = &acted.task;
        let step_ns = task.end.since_ns(task.origin) / POINTS;
        let step_ns = step_ns.max(100_000_000);
        Self {
            name: acted.cast.name.clone(),
            points: acted.received.bins.curve(step_ns),
        }
    }
}

/// Draws the curves into the file `path`.
pub(super) fn draw(path: &Path, title: &str, curves: Vec<Curve>) -> anyhow::Result<()> {
    let root = SVGBackend::new(path, SIZE).into_drawing_area();
    drawn(&root, title, curves)
        .and_then(|()| root.present().map_err(|error| anyhow!("{error}")))
        .with_context(|| format!("cannot draw {}", path.display()))
}

fn drawn(root: &Area<'_>, title: &str, curves: Vec<Curve>) -> anyhow::Result<()> {
    let wrong = |error: &dyn std::fmt::Display| anyhow!("{error}");
    root.fill(&WHITE).map_err(|error| wrong(&error))?;
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let right = points().map(|point| point.0).fold(1.0, f64::max);
    let top = points().map(|point| point.1).fold(1.0, f64::max) * 1.2;
    let mut chart = ChartBuilder::on(root)
        .caption(title, ("sans-serif", 20))
        .margin(16)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..right, 0.0..top)
        .map_err(|error| wrong(&error))?;
    chart
        .configure_mesh()
        .x_desc("seconds")
        .y_desc("received, 10^6 bit/s of SDU")
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.12))
        .label_style(("sans-serif", 13))
        .draw()
        .map_err(|error| wrong(&error))?;
    for (curve, colour) in curves.into_iter().zip(COLOURS.iter().cycle()) {
        let line = LineSeries::new(curve.points, colour.stroke_width(2));
        let line = chart.draw_series(line).map_err(|error| wrong(&error))?;
        line.label(curve.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.8))
        .label_font(("sans-serif", 13))
        .draw()
        .map_err(|error| wrong(&error))
}
