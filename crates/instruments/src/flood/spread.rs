//! The middle of some measurements, and how far they lie apart.

use serde::Serialize;

/// Quartiles.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Quartiles {
    /// A quarter of the values is not above it.
    pub(crate) q1: f64,
    /// Half of them.
    pub(crate) median: f64,
    /// Three quarters.
    pub(crate) q3: f64,
}

impl Quartiles {
    /// Of at least one value, between neighbours by linear interpolation.
    pub(crate) fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)?;
        let at = |part: f64| {
            let place = part * last as f64;
            let below = sorted[place.floor() as usize];
            let above = sorted[place.ceil() as usize];
            below + (above - below) * place.fract()
        };
        Some(Self {
            q1: at(0.25),
            median: at(0.5),
            q3: at(0.75),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_lie_between_the_values() {
        let of = |values: &[f64]| Quartiles::of(values).map(|q| (q.q1, q.median, q.q3));
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[7.0]), Some((7.0, 7.0, 7.0)));
        assert_eq!(of(&[5.0, 1.0, 2.0, 4.0, 3.0]), Some((2.0, 3.0, 4.0)));
        assert_eq!(of(&[1.0, 2.0]), Some((1.25, 1.5, 1.75)));
    }
}
