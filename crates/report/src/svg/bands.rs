//! Areas, each in the colour of its owner, and dots on them.

use std::fmt::Write;

use super::ticks::Ruler;
use super::{COLOURS, LEGEND, LETTER, SIDES, WIDTH, escaped, line, rect, text};
use crate::{BandPanel, Owner};

/// Height of a panel.
const PLOT: f64 = 220.0;
/// Room over a panel, and below it.
const ABOVE: f64 = 34.0;
const BELOW: f64 = 44.0;
const EMPTY: &str = "#eef2f5";
const NOBODY: &str = "#555555";
const DOT: &str = "#111111";

/// Draws them from `top` on; where they end.
pub(super) fn draw(body: &mut String, panels: &[BandPanel], top: f64) -> f64 {
    let mut y = top;
    for panel in panels {
        y = draw_panel(body, panel, y);
    }
    y
}

/// The colour of an owner: those of figures first, then others that go round the wheel.
fn colour(number: usize) -> String {
    match COLOURS.get(number) {
        Some(colour) => (*colour).to_owned(),
        None => {
            let beyond = number - COLOURS.len();
            let lightness = [32, 62, 47][beyond % 3];
            format!("hsl({} 55% {lightness}%)", (beyond * 137) % 360)
        }
    }
}

fn fill(owner: Owner) -> String {
    match owner {
        Owner::Empty => EMPTY.to_owned(),
        Owner::Nobody => NOBODY.to_owned(),
        Owner::Number(number) => colour(number),
    }
}

fn draw_panel(body: &mut String, panel: &BandPanel, above: f64) -> f64 {
    text(body, (8.0, above + 16.0), "start", &panel.title);
    let top = draw_legend(body, panel, above + ABOVE - 8.0) + 14.0;
    text(body, (8.0, top - 8.0), "start", &panel.y.label);
    let (left, wide) = (SIDES.0, WIDTH - SIDES.0 - SIDES.1);
    let bounds = |axis: &crate::Axis| (axis.from.unwrap_or(0.0), axis.to.unwrap_or(1.0));
    let ((x0, x1), (y0, y1)) = (bounds(&panel.x), bounds(&panel.y));
    let at = |(x, y): (f64, f64)| {
        let across = (x - x0) / (x1 - x0) * wide;
        (across, (1.0 - (y - y0) / (y1 - y0)) * PLOT)
    };
    // A picture in the picture cuts off what lies beyond it.
    writeln!(
        body,
        "<svg x=\"{left}\" y=\"{top:.1}\" width=\"{wide}\" height=\"{PLOT}\" \
         stroke=\"#fff\" stroke-width=\"0.5\">"
    )
    .expect("a String takes everything");
    for band in &panel.bands {
        let corners = band.corners.iter().map(|corner| {
            let (x, y) = at(*corner);
            format!("{x:.1},{y:.1}")
        });
        let (corners, fill) = (corners.collect::<Vec<_>>().join(" "), fill(band.owner));
        writeln!(body, "<polygon points=\"{corners}\" fill=\"{fill}\"/>")
            .expect("a String takes everything");
    }
    for dot in &panel.dots {
        let (x, y) = at(*dot);
        writeln!(
            body,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.5\" fill=\"{DOT}\"/>"
        )
        .expect("a String takes everything");
    }
    *body += "</svg>\n";
    let bottom = top + PLOT;
    for (value, label) in Ruler::new(&panel.y, [y0, y1].into_iter()).ticks() {
        let y = top + at((x0, value)).1;
        line(body, (left - 4.0, y), (left, y), "#888888", 1.0, "");
        text(body, (left - 6.0, y + 4.0), "end", &label);
    }
    for (value, label) in Ruler::new(&panel.x, [x0, x1].into_iter()).ticks() {
        let x = left + at((value, y0)).0;
        line(body, (x, bottom), (x, bottom + 4.0), "#888888", 1.0, "");
        text(body, (x, bottom + 18.0), "middle", &label);
    }
    line(
        body,
        (left, bottom),
        (left + wide, bottom),
        "#888888",
        1.0,
        "",
    );
    line(body, (left, top), (left, bottom), "#888888", 1.0, "");
    let middle = left + wide / 2.0;
    text(body, (middle, bottom + 36.0), "middle", &panel.x.label);
    bottom + BELOW
}

/// A patch and a name for each owner that has a band; where the legend ends.
fn draw_legend(body: &mut String, panel: &BandPanel, top: f64) -> f64 {
    let has = |owner: Owner| panel.bands.iter().any(|band| band.owner == owner);
    let owners = panel.owners.iter().enumerate();
    let owners = owners.map(|(n, name)| (Owner::Number(n), &**name));
    let others = [(Owner::Nobody, "nobody's"), (Owner::Empty, "empty")];
    let shown = owners.chain(others).filter(|(owner, _)| has(*owner));
    let (mut x, mut y) = (8.0, top + LEGEND - 6.0);
    let mut place = |name: &str| {
        let wide = 28.0 + name.chars().count() as f64 * LETTER + 10.0;
        if x + wide > WIDTH {
            (x, y) = (8.0, y + LEGEND);
        }
        let here = (x, y);
        x += wide;
        here
    };
    for (owner, name) in shown {
        let (x, y) = place(name);
        rect(body, (x, y - 10.0), (20.0, 12.0), &fill(owner));
        text(body, (x + 26.0, y), "start", name);
    }
    if !panel.dots_name.is_empty() {
        let (x, y) = place(&panel.dots_name);
        let name = escaped(&panel.dots_name);
        writeln!(
            body,
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"2.5\" fill=\"{DOT}\"/>\n\
             <text x=\"{:.1}\" y=\"{y:.1}\">{name}</text>",
            x + 12.0,
            y - 4.0,
            x + 26.0,
        )
        .expect("a String takes everything");
    }
    y + LEGEND
}

#[cfg(test)]
mod tests {
    use crate::{Axis, Band, BandPanel, Figure, Owner};

    #[test]
    fn each_owner_has_its_colour_and_a_place_in_the_legend() {
        let corners = vec![(0.0, 0.0), (10.0, 256.0), (12.0, 256.0), (2.0, 0.0)];
        let band = |owner| Band {
            owner,
            corners: corners.clone(),
        };
        let panel = BandPanel {
            title: "channel 0".into(),
            x: Axis::linear("time, us").from(0.0).to(20.0),
            y: Axis::linear("place").from(0.0).to(256.0),
            owners: (0..9).map(|n| format!("s<{n}")).collect(),
            bands: vec![
                band(Owner::Empty),
                band(Owner::Number(1)),
                band(Owner::Number(8)),
            ],
            dots: vec![(1.0, 2.0)],
            dots_name: "taken".into(),
        };
        let figure = Figure::of_bands("slots", "Slots", vec![panel]);
        let svg = figure.to_svg();
        assert_eq!(svg.matches("<polygon").count(), 3);
        // A band and a patch each; who has no band is not in the legend.
        assert_eq!(svg.matches("#d55e00").count(), 2);
        assert_eq!(svg.matches("#eef2f5").count(), 2);
        assert!(svg.contains("s&lt;8") && !svg.contains("s&lt;0"), "{svg}");
        for words in ["time, us", "place", "empty", "taken", "channel 0"] {
            assert!(svg.contains(words), "{words}");
        }
        assert_eq!(svg.matches("<circle").count(), 2);
        assert_eq!(figure.to_csv().lines().count(), 1 + 3 * 4 + 1);
    }
}
