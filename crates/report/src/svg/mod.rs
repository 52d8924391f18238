//! Figures as SVG: one text, no fonts and no scripts from elsewhere.

mod bands;
mod bars;
mod claims;
mod ticks;

use std::fmt::Write;

use self::ticks::Ruler;
use crate::{At, Content, Figure, Look, Panel, Series};

/// Width of a figure. Text of [`FONT`] is readable when a phone shows it at 360 pixels.
const WIDTH: f64 = 520.0;
/// Height of the curves of one panel, if it is the only one, and if there are several.
const PLOT: (f64, f64) = (250.0, 150.0);
/// Size of letters.
const FONT: f64 = 13.0;
/// Width of a letter, about.
const LETTER: f64 = 6.6;
/// Room left and right of the curves.
const SIDES: (f64, f64) = (66.0, 28.0);
/// Room for what is written over a panel, and for each line of its legend.
const ABOVE: f64 = 30.0;
const LEGEND: f64 = 18.0;
/// Room below a panel for labels, and for the name of its axis.
const BELOW: (f64, f64) = (22.0, 20.0);
/// Colours that also differ in brightness and to the colour-blind (Okabe and Ito).
const COLOURS: [&str; 6] = [
    "#0072b2", "#d55e00", "#009e73", "#e69f00", "#cc79a7", "#56b4e9",
];
/// What is expected, and what is printed.
const EXPECTED: &str = "#c8c8c8";
const PRINTED: &str = "#111111";
/// What is not accepted.
const FAILED: &str = "#b00020";

impl Figure {
    /// The figure as an SVG document without an XML declaration: it can stand in a page, too.
    pub fn to_svg(&self) -> String {
        let mut body = String::new();
        let mut top = 30.0;
        match &self.content {
            Content::Panels(panels) => {
                for panel in panels {
                    let drawn = Drawn::new(panel, top, panels.len() == 1);
                    drawn.draw(&mut body);
                    top = drawn.end();
                }
            }
            Content::Bands(panels) => top = bands::draw(&mut body, panels, top),
            Content::Bars(groups) => top = bars::draw(&mut body, groups, top),
            Content::Claims(rows) => top = claims::draw(&mut body, rows, top),
        }
        let height = top + 6.0;
        let middle = WIDTH / 2.0;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" \
             width=\"{WIDTH}\" height=\"{height:.0}\" role=\"img\" \
             font-family=\"system-ui, sans-serif\" font-size=\"{FONT}\" fill=\"#222\">\n\
             <title>{title}</title>\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
             <text x=\"{middle}\" y=\"20\" text-anchor=\"middle\" font-weight=\"600\">\
             {title}</text>\n\
             {body}</svg>\n",
            title = escaped(&self.title),
        )
    }
}

/// A panel and where it is drawn.
struct Drawn<'a> {
    panel: &'a Panel,
    x: Ruler,
    y: Ruler,
    legend: Vec<Vec<(usize, f64)>>,
    top: f64,
    plot: f64,
}

impl<'a> Drawn<'a> {
    fn new(panel: &'a Panel, above: f64, single: bool) -> Self {
        let points = || panel.series.iter().flat_map(|series| &series.points);
        let marks = |upright: bool| {
            panel.marks.iter().filter_map(move |mark| match mark.at {
                At::X(x) if upright => Some(x),
                At::Y(y) if !upright => Some(y),
                _ => None,
            })
        };
        let legend = legend(&panel.series);
        Self {
            panel,
            x: Ruler::new(&panel.x, points().map(|point| point.0).chain(marks(true))),
            y: Ruler::new(&panel.y, points().map(|point| point.1).chain(marks(false))),
            top: above + ABOVE + LEGEND * legend.len() as f64,
            legend,
            plot: if single { PLOT.0 } else { PLOT.1 },
        }
    }

    fn end(&self) -> f64 {
        let name = if self.panel.x.label.is_empty() {
            0.0
        } else {
            BELOW.1
        };
        self.top + self.plot + BELOW.0 + name
    }

    fn at_x(&self, x: f64) -> f64 {
        SIDES.0 + self.x.place(x) * (WIDTH - SIDES.0 - SIDES.1)
    }

    fn at_y(&self, y: f64) -> f64 {
        self.top + (1.0 - self.y.place(y)) * self.plot
    }

    fn draw(&self, body: &mut String) {
        self.draw_axes(body);
        self.draw_legend(body);
        for (series, colour) in coloured(&self.panel.series) {
            self.draw_series(body, series, colour);
        }
        self.draw_marks(body);
    }

    fn draw_axes(&self, body: &mut String) {
        let (left, right) = (SIDES.0, WIDTH - SIDES.1);
        let bottom = self.top + self.plot;
        for (value, label) in self.y.ticks() {
            let y = self.at_y(value);
            line(body, (left, y), (right, y), "#e4e4e4", 1.0, "");
            text(body, (left - 6.0, y + 4.0), "end", &label);
        }
        for (value, label) in self.x.ticks() {
            let x = self.at_x(value);
            line(body, (x, self.top), (x, bottom), "#eeeeee", 1.0, "");
            line(body, (x, bottom), (x, bottom + 4.0), "#888888", 1.0, "");
            text(body, (x, bottom + 18.0), "middle", &label);
        }
        line(body, (left, bottom), (right, bottom), "#888888", 1.0, "");
        line(body, (left, self.top), (left, bottom), "#888888", 1.0, "");
        let over = self.top - LEGEND * self.legend.len() as f64 - 14.0;
        text(body, (8.0, over), "start", &self.panel.y.label);
        let middle = (left + right) / 2.0;
        text(body, (middle, bottom + 36.0), "middle", &self.panel.x.label);
    }

    fn draw_legend(&self, body: &mut String) {
        let all: Vec<_> = coloured(&self.panel.series).collect();
        for (i, row) in self.legend.iter().enumerate() {
            let y = self.top - LEGEND * (self.legend.len() - i) as f64;
            for &(index, x) in row {
                let (series, colour) = all[index];
                stroke(body, &[(x, y), (x + 22.0, y)], series.look, colour);
                dots(body, &[(x + 11.0, y)], series.look, colour);
                text(body, (x + 28.0, y + 4.0), "start", &series.name);
            }
        }
    }

    fn draw_series(&self, body: &mut String, series: &Series, colour: &str) {
        let shown = |(x, y): &&(f64, f64)| self.x.shows(*x) && y.is_finite();
        let points = series.points.iter().filter(shown);
        let places: Vec<_> = points
            .map(|(x, y)| (self.at_x(*x), self.at_y(*y)))
            .collect();
        stroke(body, &places, series.look, colour);
        dots(body, &places, series.look, colour);
    }

    fn draw_marks(&self, body: &mut String) {
        for mark in &self.panel.marks {
            match mark.at {
                At::X(x) => {
                    let x = self.at_x(x);
                    line(
                        body,
                        (x, self.top),
                        (x, self.top + self.plot),
                        "#555555",
                        1.0,
                        "4 4",
                    );
                    let room = WIDTH - SIDES.1 - x;
                    let (dx, anchor) = match mark.label.chars().count() as f64 * LETTER + 5.0 {
                        wide if wide > room => (-5.0, "end"),
                        _ => (5.0, "start"),
                    };
                    text(
                        body,
                        (x + dx, self.top + self.plot - 8.0),
                        anchor,
                        &mark.label,
                    );
                }
                At::Y(y) => {
                    let (y, right) = (self.at_y(y), WIDTH - SIDES.1);
                    line(body, (SIDES.0, y), (right, y), "#555555", 1.0, "4 4");
                    text(body, (right - 4.0, y + 14.0), "end", &mark.label);
                }
            }
        }
    }
}

/// Series with their colours; ours take the colours in turn.
fn coloured(series: &[Series]) -> impl Iterator<Item = (&Series, &'static str)> {
    let mut colours = COLOURS.iter().cycle();
    series.iter().map(move |series| match series.look {
        Look::Expected => (series, EXPECTED),
        Look::Printed => (series, PRINTED),
        _ => (series, *colours.next().expect("a cycle has no end")),
    })
}

/// The lines of a legend: which series, and where it begins.
fn legend(series: &[Series]) -> Vec<Vec<(usize, f64)>> {
    let mut rows: Vec<Vec<(usize, f64)>> = Vec::new();
    let mut next = f64::INFINITY;
    for (index, series) in series
        .iter()
        .enumerate()
        .filter(|(_, s)| !s.name.is_empty())
    {
        let wide = 28.0 + series.name.chars().count() as f64 * LETTER + 14.0;
        if next + wide > WIDTH {
            rows.push(Vec::new());
            next = 8.0;
        }
        rows.last_mut()
            .expect("a row was begun")
            .push((index, next));
        next += wide;
    }
    rows
}

fn stroke(body: &mut String, places: &[(f64, f64)], look: Look, colour: &str) {
    let (width, dashes) = match look {
        Look::Line | Look::Dotted => (2.0, ""),
        Look::Dashed => (2.0, "6 4"),
        Look::Wide | Look::Expected => (6.0, ""),
        Look::Dots | Look::Printed => return,
    };
    if places.is_empty() {
        return;
    }
    let points: Vec<_> = places
        .iter()
        .map(|(x, y)| format!("{x:.1},{y:.1}"))
        .collect();
    let points = points.join(" ");
    let dashes = dashed(dashes);
    writeln!(
        body,
        "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" \
         stroke-width=\"{width}\" stroke-linejoin=\"round\"{dashes}/>"
    )
    .expect("a String takes everything");
}

fn dots(body: &mut String, places: &[(f64, f64)], look: Look, colour: &str) {
    for (x, y) in places {
        let written = match look {
            Look::Dots | Look::Dotted => {
                writeln!(
                    body,
                    "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>"
                )
            }
            Look::Printed => writeln!(
                body,
                "<path d=\"M{x:.1} {y:.1}m0 -6l6 6l-6 6l-6 -6z\" fill=\"#fff\" \
                 stroke=\"{colour}\" stroke-width=\"1.5\"/>"
            ),
            Look::Line | Look::Wide | Look::Dashed | Look::Expected => return,
        };
        written.expect("a String takes everything");
    }
}

fn line(
    body: &mut String,
    from: (f64, f64),
    to: (f64, f64),
    colour: &str,
    width: f64,
    dashes: &str,
) {
    let dashes = dashed(dashes);
    writeln!(
        body,
        "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{colour}\" \
         stroke-width=\"{width}\"{dashes}/>",
        from.0, from.1, to.0, to.1
    )
    .expect("a String takes everything");
}

fn dashed(dashes: &str) -> String {
    match dashes {
        "" => String::new(),
        dashes => format!(" stroke-dasharray=\"{dashes}\""),
    }
}

fn text(body: &mut String, at: (f64, f64), anchor: &str, words: &str) {
    if words.is_empty() {
        return;
    }
    let words = escaped(words);
    writeln!(
        body,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{words}</text>",
        at.0, at.1
    )
    .expect("a String takes everything");
}

fn rect(body: &mut String, from: (f64, f64), size: (f64, f64), colour: &str) {
    writeln!(
        body,
        "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{colour}\"/>",
        from.0, from.1, size.0, size.1
    )
    .expect("a String takes everything");
}

/// Words in lines that are no wider than `width`, unless a word is.
fn lines(words: &str, width: f64) -> Vec<String> {
    let most = (width / LETTER) as usize;
    let mut lines: Vec<String> = Vec::new();
    for word in words.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= most => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Text between or inside tags.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Axis, Mark};

    fn sample(points: Vec<(f64, f64)>) -> Figure {
        Figure::single(
            "f",
            "Load < 100 %",
            Panel {
                x: Axis::linear("rate, 10^6 bit/s"),
                y: Axis::linear("load, %"),
                series: vec![
                    Series::new("expected", Look::Expected, points.clone()),
                    Series::new("ours & theirs", Look::Dotted, points),
                ],
                marks: vec![Mark {
                    at: At::X(40.0),
                    label: "contract".to_owned(),
                }],
            },
        )
    }

    #[test]
    fn everything_named_is_drawn_and_escaped() {
        let svg = sample(vec![(0.0, 0.0), (50.0, 4.0), (100.0, 4.0)]).to_svg();
        for part in [
            "Load &lt; 100 %",
            "ours &amp; theirs",
            "contract",
            "load, %",
            "expected",
        ] {
            assert!(svg.contains(part), "{part}");
        }
        assert_eq!(svg.matches("<circle").count(), 3 + 1);
        assert_eq!(svg.matches("<polyline").count(), 2 + 2);
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
    }

    #[test]
    fn points_that_cannot_be_drawn_are_left_out() {
        let svg = sample(vec![(1.0, f64::NAN), (2.0, 1.0)]).to_svg();
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
        assert!(!sample(Vec::new()).to_svg().contains("NaN"));
    }

    #[test]
    fn words_go_on_in_the_next_line() {
        let wide = LETTER * 9.0;
        assert_eq!(lines("a line of words", wide), ["a line of", "words"]);
        assert_eq!(
            lines("an unbreakable one", wide),
            ["an", "unbreakable", "one"]
        );
        assert!(lines("", wide).is_empty());
    }

    #[test]
    fn a_long_legend_takes_several_lines() {
        let many = |i: usize| Series::new(&format!("connection {i}"), Look::Line, Vec::new());
        let rows = legend(&(0..9).map(many).collect::<Vec<_>>());
        assert!(rows.len() > 1 && rows.iter().map(Vec::len).sum::<usize>() == 9);
    }
}
