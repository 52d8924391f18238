//! Checks as rows of a figure.

use serde::Serialize;

use crate::table::csv_line;
use crate::{Check, Rational};

/// A claim of a paper as a row: whether ours is accepted, and how far it is from the paper.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClaimRow {
    /// Number and words of the claim.
    pub claim: String,
    /// Ours and the paper's, as people read them.
    pub found: String,
    /// As a table shows it: `pass`, `FAIL` or `-`.
    pub verdict: &'static str,
    /// Where the numbers lie, if the claim has some.
    pub place: Option<Place>,
}

/// Numbers of a claim, in per cent of the paper's; if it prints none, or 0, of what is expected.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Place {
    /// The least that is accepted; none: there is no bound.
    pub least: Option<f64>,
    pub most: Option<f64>,
    /// Whether 100 is the paper's number.
    pub is_printed: bool,
    /// What came out.
    pub ours: f64,
}

impl ClaimRow {
    pub(super) const COLUMNS: [&str; 6] = [
        "claim",
        "found",
        "least_percent",
        "most_percent",
        "ours_percent",
        "verdict",
    ];

    pub(super) fn of(check: &Check) -> Self {
        let paper = match &*check.paper {
            "" => String::new(),
            paper => format!(" (paper: {paper})"),
        };
        Self {
            claim: format!("{} {}", check.id, check.subject()),
            found: check.ours.clone() + &paper,
            verdict: check.verdict(),
            place: Place::of(check),
        }
    }

    pub(super) fn csv(&self) -> String {
        let percent = |number: Option<f64>| number.map_or(String::new(), |n| format!("{n:.3}"));
        let place = self.place.as_ref();
        let fields = [
            self.claim.clone(),
            self.found.clone(),
            percent(place.and_then(|place| place.least)),
            percent(place.and_then(|place| place.most)),
            percent(place.map(|place| place.ours)),
            self.verdict.to_owned(),
        ];
        csv_line(fields.into_iter())
    }
}

impl Place {
    fn of(check: &Check) -> Option<Self> {
        let (expected, tolerance) = check.expected?;
        let whole = |number: &Rational| *number > Rational::ZERO;
        let printed = check.paper_number.filter(whole);
        let of = printed.or(Some(expected)).filter(whole)?;
        let percent = |number: Rational| (number / of).to_f64() * 100.0;
        let (least, most) = tolerance.bounds(expected);
        Some(Self {
            least: least.map(percent),
            most: most.map(percent),
            is_printed: printed.is_some(),
            ours: percent(check.ours_number?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Claim, Tolerance, Value, dec};

    #[test]
    fn numbers_lie_in_per_cent_of_the_papers_or_of_what_is_expected() {
        let judged = |claim: Claim, expected, tolerance, ours: &str| {
            let check = claim.number(dec(expected), tolerance, &Value::new(dec(ours), 1, "s"));
            ClaimRow::of(&check).place
        };
        let claim = |paper| Claim::derived("P1", "time", paper);
        let within = Tolerance::Percent(dec("10"));
        let place = |least, most, is_printed, ours| {
            Some(Place {
                least,
                most,
                is_printed,
                ours,
            })
        };
        assert_eq!(
            judged(claim("50 s").prints(dec("50")), "40", within, "41"),
            place(Some(72.0), Some(88.0), true, 82.0)
        );
        assert_eq!(
            judged(claim("soon"), "40", Tolerance::AtMost, "10"),
            place(None, Some(100.0), false, 25.0)
        );
        assert_eq!(
            judged(claim("0").prints(dec("0")), "1", Tolerance::Exact, "1"),
            place(Some(100.0), Some(100.0), false, 100.0)
        );
        assert_eq!(judged(claim("never"), "0", Tolerance::Exact, "1"), None);
    }

    #[test]
    fn a_row_tells_verdict_and_words() {
        let held = Claim::shape("9", "falls", "above 100").reading("by cell");
        let row = ClaimRow::of(&held.holds(false, "rises"));
        assert_eq!(
            row.csv(),
            "9 falls [by cell],rises (paper: above 100),,,,FAIL\n"
        );
        let ours = Value::new(dec("3"), 0, "us");
        let row = ClaimRow::of(&Claim::lost("8", "t_irq", "", &ours));
        assert_eq!(row.csv(), "8 t_irq,3 us,,,,-\n");
    }
}
