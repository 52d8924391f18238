//! Where an axis has lines and what stands beside them.

use crate::rational::grouped;
use crate::{Axis, Scale};

/// An axis with its bounds.
pub(super) struct Ruler {
    scale: Scale,
    from: f64,
    to: f64,
}

/// Gaps between the lines of a linear axis, about.
const GAPS: f64 = 5.0;
/// The smallest step of an axis: no label shows more decimals.
const STEP_MIN: f64 = 0.001;

/// The first of 1, 2, 2.5 and 5 times a power of ten from `value` on.
fn round_step(value: f64) -> f64 {
    let value = value.max(STEP_MIN);
    let decade = 10f64.powf(value.log10().floor());
    let fits = [1.0, 2.0, 2.5, 5.0, 10.0];
    let fits = fits
        .into_iter()
        .find(|step| step * decade >= value * 0.999_999);
    fits.unwrap_or(10.0) * decade
}

impl Ruler {
    /// An axis that shows all of `values`.
    pub(super) fn new(axis: &Axis, values: impl Iterator<Item = f64> + Clone) -> Self {
        let least = values.clone().fold(f64::INFINITY, f64::min);
        let most = values.fold(f64::NEG_INFINITY, f64::max);
        let (least, most) = match least <= most {
            true => (least, most),
            false => (0.0, 1.0),
        };
        let from = axis.from.unwrap_or(least);
        let to = axis.to.unwrap_or(most);
        match axis.scale {
            Scale::Log => Self {
                scale: Scale::Log,
                from: from.max(f64::MIN_POSITIVE),
                to: to.max(from.max(f64::MIN_POSITIVE) * 10.0),
            },
            Scale::Linear => {
                let step = round_step((to - from).abs() / GAPS);
                let below = axis.from.unwrap_or((from / step).floor() * step);
                let above = (to / step - 1e-9).ceil() * step;
                Self {
                    scale: Scale::Linear,
                    from: below,
                    to: axis.to.unwrap_or(above).max(below + STEP_MIN),
                }
            }
        }
    }

    /// How far along the axis `value` lies: 0 to 1, and no further.
    pub(super) fn place(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear => (value - self.from) / (self.to - self.from),
            Scale::Log => (value.max(self.from) / self.from).ln() / (self.to / self.from).ln(),
        };
        share.clamp(0.0, 1.0)
    }

    /// Whether `value` is on the axis.
    pub(super) fn shows(&self, value: f64) -> bool {
        match self.scale {
            Scale::Linear => (self.from..=self.to).contains(&value),
            Scale::Log => value <= self.to,
        }
    }

    /// Values with a line, each with its label.
    pub(super) fn ticks(&self) -> Vec<(f64, String)> {
        match self.scale {
            Scale::Linear => self.linear(),
            Scale::Log => self.decades(),
        }
    }

    fn linear(&self) -> Vec<(f64, String)> {
        let step = round_step((self.to - self.from) / GAPS);
        let first = (self.from / step - 1e-9).ceil() as i64;
        let last = (self.to / step + 1e-9).floor() as i64;
        let decimals = (0..3).find(|d| {
            let scaled = step * 10f64.powi(*d);
            (scaled - scaled.round()).abs() < 1e-6
        });
        let decimals = decimals.unwrap_or(3) as usize;
        let tick = |i: i64| (i as f64 * step, label(i as f64 * step, decimals));
        (first..=last).map(tick).collect()
    }

    fn decades(&self) -> Vec<(f64, String)> {
        let mut ticks = vec![(self.from, "0".to_owned())];
        let first = self.from.log10().floor() as i32;
        let last = self.to.log10().ceil() as i32;
        for decade in first..=last {
            for digit in [1.0, 2.0, 5.0] {
                let value = digit * 10f64.powi(decade);
                // The first line is called 0: no other so near that the two would meet.
                if value > self.from * 1.9 && value <= self.to * 1.000_001 {
                    let decimals = usize::try_from(-decade).unwrap_or(0);
                    ticks.push((value, label(value, decimals)));
                }
            }
        }
        ticks
    }
}

fn label(value: f64, decimals: usize) -> String {
    match decimals {
        0 => {
            let sign = if value < -0.5 { "-" } else { "" };
            format!("{sign}{}", grouped(value.abs().round() as u128))
        }
        _ => format!("{value:.decimals$}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis, values: &[f64]) -> Vec<String> {
        let ruler = Ruler::new(axis, values.iter().copied());
        ruler.ticks().into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn linear_axes_have_round_lines_and_end_on_one() {
        let axis = Axis::linear("y");
        assert_eq!(
            labels(&axis, &[1.0, 41.0]),
            ["0", "10", "20", "30", "40", "50"]
        );
        assert_eq!(
            labels(&axis, &[0.04]),
            ["0.00", "0.01", "0.02", "0.03", "0.04"]
        );
        assert_eq!(labels(&axis, &[300_000.0])[1..3], ["100,000", "200,000"]);
        assert_eq!(
            labels(&axis, &[]),
            ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]
        );
        let percent = Axis::linear("y").from(92.0).to(100.0);
        assert_eq!(labels(&percent, &[95.0]), ["92", "94", "96", "98", "100"]);
    }

    #[test]
    fn a_logarithmic_axis_begins_with_0() {
        let axis = Axis::log("x", 1.0);
        let expected = ["0", "2", "5", "10", "20", "50", "100"];
        assert_eq!(labels(&axis, &[100.0]), expected);
        let ruler = Ruler::new(&axis, [0.0, 100.0].into_iter());
        assert_eq!(ruler.place(0.0), 0.0);
        assert!((ruler.place(10.0) - 0.5).abs() < 1e-9);
    }
}
