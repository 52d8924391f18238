//! Claims: a verdict, words, and where ours lies beside the paper's.

use std::fmt::Write;

use super::{COLOURS, EXPECTED, FAILED, LEGEND, Look, WIDTH, dots, line, lines, rect, text};
use crate::{ClaimRow, Place};

/// Per cent at the ends of the axis: what lies beyond is an arrow.
const AXIS: (f64, f64) = (90.0, 110.0);
const TICKS: [f64; 5] = [90.0, 95.0, 100.0, 105.0, 110.0];
/// Where the axis lies, and where words beside it begin.
const STRIP: (f64, f64) = (40.0, 270.0);
const BESIDE: f64 = 292.0;
/// Where words begin.
const WORDS: f64 = 28.0;
const RIGHT: f64 = WIDTH - 8.0;
/// From one line of words to the next.
const PITCH: f64 = 16.0;
/// Height of what is drawn of a row.
const STRIP_HIGH: f64 = 20.0;
const GAP: f64 = 8.0;
const PASS: &str = "#00664b";

/// Draws them from `top` on; where they end.
pub(super) fn draw(body: &mut String, rows: &[ClaimRow], top: f64) -> f64 {
    let mut y = draw_legend(body, top);
    draw_labels(body, y);
    for row in rows {
        line(body, (8.0, y + 4.0), (RIGHT, y + 4.0), "#e4e4e4", 1.0, "");
        y = draw_row(body, row, y + GAP);
    }
    draw_labels(body, y + PITCH);
    y + PITCH
}

/// What the signs mean; where the labels of the axis are to stand.
fn draw_legend(body: &mut String, top: f64) -> f64 {
    let y = top + 10.0;
    let place = |x: f64| (x, y - 4.0);
    rect(body, (12.0, y - 10.0), (22.0, 12.0), EXPECTED);
    text(body, (40.0, y), "start", "accepted");
    dots(body, &[place(126.0)], Look::Printed, super::PRINTED);
    text(body, (138.0, y), "start", "the paper's number");
    dots(body, &[place(282.0)], Look::Dots, COLOURS[0]);
    text(body, (292.0, y), "start", "ours");
    let words = "100 % is the paper's number, or what is expected if it has none";
    text(body, (8.0, y + LEGEND), "start", words);
    y + 2.0 * LEGEND
}

fn draw_labels(body: &mut String, y: f64) {
    for percent in TICKS {
        text(body, (at(percent), y), "middle", &format!("{percent} %"));
    }
}

/// Where a number lies, or the end of the axis that is nearest.
fn at(percent: f64) -> f64 {
    let share = (percent - AXIS.0) / (AXIS.1 - AXIS.0);
    STRIP.0 + share.clamp(0.0, 1.0) * (STRIP.1 - STRIP.0)
}

fn draw_row(body: &mut String, row: &ClaimRow, top: f64) -> f64 {
    draw_verdict(body, row.verdict, top + 8.0);
    let mut y = top;
    for words in lines(&row.claim, RIGHT - WORDS) {
        y += PITCH;
        text(body, (WORDS, y - 3.0), "start", &words);
    }
    let (from, strip) = match &row.place {
        Some(place) => {
            draw_place(body, place, row.verdict, y);
            (BESIDE, STRIP_HIGH)
        }
        None => (WORDS, 0.0),
    };
    let end = y + strip;
    for words in lines(&row.found, RIGHT - from) {
        y += PITCH;
        text(body, (from, y - 2.0), "start", &words);
    }
    y.max(end)
}

fn colour(verdict: &str) -> &'static str {
    match verdict {
        "pass" => PASS,
        "FAIL" => FAILED,
        _ => "#888888",
    }
}

/// A tick, a cross, or a stroke.
fn draw_verdict(body: &mut String, verdict: &str, y: f64) {
    let sign = match verdict {
        "pass" => "m0 1l4 4l7 -9",
        "FAIL" => "m1 -4l9 9m0 -9l-9 9",
        _ => "m1 1l9 0",
    };
    let colour = colour(verdict);
    writeln!(
        body,
        "<path d=\"M10 {y:.1}{sign}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2.5\"/>"
    )
    .expect("a String takes everything");
}

fn draw_place(body: &mut String, place: &Place, verdict: &str, top: f64) {
    let (middle, bottom) = (top + STRIP_HIGH / 2.0, top + STRIP_HIGH);
    let least = at(place.least.unwrap_or(AXIS.0));
    let most = at(place.most.unwrap_or(AXIS.1));
    // What is exact is seen, too.
    let wide = (most - least).max(3.0);
    let from = (least + most - wide) / 2.0;
    rect(body, (from, top + 3.0), (wide, STRIP_HIGH - 6.0), EXPECTED);
    for percent in TICKS {
        let x = at(percent);
        line(body, (x, top), (x, bottom), "#dddddd", 1.0, "");
    }
    line(
        body,
        (STRIP.0, middle),
        (STRIP.1, middle),
        "#bbbbbb",
        1.0,
        "",
    );
    if place.is_printed {
        dots(body, &[(at(100.0), middle)], Look::Printed, super::PRINTED);
    }
    let colour = if verdict == "FAIL" {
        FAILED
    } else {
        COLOURS[0]
    };
    let x = at(place.ours);
    if (AXIS.0..=AXIS.1).contains(&place.ours) {
        return dots(body, &[(x, middle)], Look::Dots, colour);
    }
    let (sign, anchor, beside) = match place.ours < AXIS.0 {
        true => ("l-9 5l9 5z", "start", 5.0),
        false => ("l9 5l-9 5z", "end", -5.0),
    };
    // White around the number: it stands on the axis.
    writeln!(
        body,
        "<path d=\"M{x:.1} {:.1}{sign}\" fill=\"{colour}\"/>\n\
         <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\" stroke=\"#fff\" \
         stroke-width=\"4\" paint-order=\"stroke\">{:.0} %</text>",
        middle - 5.0,
        x + beside,
        middle + 4.0,
        place.ours
    )
    .expect("a String takes everything");
}

#[cfg(test)]
mod tests {
    use crate::{Check, Claim, Figure, Tolerance, Value, dec};

    fn check(ours: &str) -> Check {
        let claim = Claim::derived("P1", "a rate", "50 s").prints(dec("50"));
        let ours = Value::new(dec(ours), 1, "s");
        claim.number(dec("51"), Tolerance::Percent(dec("2")), &ours)
    }

    #[test]
    fn each_row_has_its_verdict_its_words_and_its_place() {
        let long = "a claim of so many words that they do not fit into a single line of the figure";
        let checks = [
            check("51"),
            check("54"),
            check("5"),
            check("5000"),
            Claim::shape("9", long, "").holds(true, "it falls & rises"),
        ];
        let svg = Figure::of_claims("f", "Claims", &checks).to_svg();
        for (part, times) in [
            // Verdicts: a tick each, a cross each.
            ("l4 4l7 -9", 2),
            ("l9 9m0 -9l-9 9", 3),
            // Ours within the axis, and in the legend; beyond its ends.
            ("r=\"3\" fill=\"#0072b2\"", 2),
            ("r=\"3\" fill=\"#b00020\"", 1),
            ("l-9 5l9 5z", 1),
            ("l9 5l-9 5z", 1),
            (">10 %<", 1),
            (">10000 %<", 1),
            // The paper's four, and the legend's.
            ("m0 -6l6 6", 5),
            (">P1 a rate<", 4),
            (">51.0 s (paper: 50 s)<", 1),
            ("it falls &amp; rises", 1),
        ] {
            assert_eq!(svg.matches(part).count(), times, "{part} in {svg}");
        }
        let words: Vec<_> = long.split(' ').collect();
        assert!(words.iter().all(|word| svg.contains(word)), "{svg}");
    }
}
