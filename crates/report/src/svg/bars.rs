//! Bars: a name, the bar, its number.

use super::{COLOURS, FAILED, LEGEND, LETTER, WIDTH, line, lines, rect, text};
use crate::{Bar, BarGroup};

/// From one bar to the next, and the height of one.
const PITCH: f64 = 18.0;
const THICK: f64 = 12.0;
/// Room over a group.
const GAP: f64 = 8.0;
const PRINTED: &str = "#a0a0a0";

/// Where bars begin, and how long one is whose value is 1.
struct Scale {
    left: f64,
    unit: f64,
}

/// Draws them from `top` on; where they end.
pub(super) fn draw(body: &mut String, groups: &[BarGroup], top: f64) -> f64 {
    let all = || groups.iter().flat_map(|group| &group.bars);
    let widest = |of: fn(&Bar) -> &str| {
        let chars = all().map(|bar| of(bar).chars().count()).max();
        chars.unwrap_or(0) as f64 * LETTER
    };
    let left = widest(|bar| &bar.name) + 20.0;
    let room = WIDTH - left - widest(|bar| &bar.text) - 20.0;
    let longest = all().map(|bar| bar.value).fold(f64::MIN_POSITIVE, f64::max);
    let unit = room / longest;
    let mut y = top;
    for group in groups {
        y = draw_group(body, group, &Scale { left, unit }, y + GAP);
    }
    y
}

fn draw_group(body: &mut String, group: &BarGroup, scale: &Scale, top: f64) -> f64 {
    let mut y = top;
    for words in lines(&group.name, WIDTH - 16.0) {
        y += LEGEND;
        text(body, (8.0, y - 5.0), "start", &words);
    }
    let first = y;
    for bar in &group.bars {
        let colour = match bar.verdict {
            None => PRINTED,
            Some("FAIL") => FAILED,
            Some(_) => COLOURS[0],
        };
        let (long, base) = (bar.value * scale.unit, y + PITCH / 2.0 + 4.0);
        text(body, (scale.left - 6.0, base), "end", &bar.name);
        let from = (scale.left, y + (PITCH - THICK) / 2.0);
        rect(body, from, (long, THICK), colour);
        text(body, (scale.left + long + 5.0, base), "start", &bar.text);
        y += PITCH;
    }
    let x = scale.left;
    line(body, (x, first), (x, y), "#888888", 1.0, "");
    y
}

#[cfg(test)]
mod tests {
    use crate::{Claim, Figure, Tolerance, Value, dec};

    #[test]
    fn the_longest_bar_leaves_room_for_its_number() {
        let check = |ours: &str| {
            let claim = Claim::derived("P1", "a rate", "50").prints(dec("50"));
            let ours = Value::new(dec(ours), 1, "s");
            claim.number(dec("50"), Tolerance::AtMost, &ours)
        };
        let svg = Figure::of_numbers("f", "Rates", &[check("25"), check("100")]).to_svg();
        let bars: Vec<(f64, &str)> = svg
            .lines()
            .filter_map(|line| line.strip_prefix("<rect x=\"79.4\" "))
            .filter_map(|line| {
                let (_, rest) = line.split_once("width=\"")?;
                let (width, rest) = rest.split_once('"')?;
                let (_, colour) = rest.split_once("fill=\"")?;
                Some((width.parse().ok()?, colour.split_once('"')?.0))
            })
            .collect();
        let [printed, half, whole] = &*bars else {
            panic!("{svg}");
        };
        assert_eq!(
            [printed.1, half.1, whole.1],
            ["#a0a0a0", "#0072b2", "#b00020"]
        );
        assert!((whole.0 / printed.0 - 2.0).abs() < 0.01 && (whole.0 / half.0 - 4.0).abs() < 0.01);
        // Seven letters, and a margin.
        assert!(79.4 + whole.0 + 7.0 * 6.6 < 520.0, "{svg}");
        for words in [
            ">P1 a rate<",
            ">the paper<",
            ">50<",
            ">25.0 s<",
            ">100.0 s<",
        ] {
            assert!(svg.contains(words), "{words}: {svg}");
        }
    }
}
