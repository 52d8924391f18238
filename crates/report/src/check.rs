use serde::Serialize;

use crate::{Rational, Value};

/// What a claim of a paper rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// It follows from first principles, or from the model, without a constant of ours.
    Derived,
    /// It follows once published constants are chosen so that other claims hold.
    Calibrated,
    /// Only the shape of a curve, or an order, can be compared.
    Shape,
    /// The value exists in no text: ours is shown, not judged.
    Lost,
}

impl Class {
    /// Its name in tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Derived => "derived",
            Self::Calibrated => "calibrated",
            Self::Shape => "shape",
            Self::Lost => "lost",
        }
    }
}

/// How far from what is expected is near enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Tolerance {
    /// Not at all.
    Exact,
    /// So many per cent of what is expected.
    Percent(Rational),
    /// So much, in the unit of the value.
    Absolute(Rational),
    /// What is expected or more.
    AtLeast,
    /// What is expected or less.
    AtMost,
}

impl Tolerance {
    /// Whether `ours` is near enough to `expected`.
    pub fn accepts(self, expected: Rational, ours: Rational) -> bool {
        let (least, most) = self.bounds(expected);
        least.is_none_or(|least| ours >= least) && most.is_none_or(|most| ours <= most)
    }

    /// The least and the most that is near enough to `expected`; none: there is no bound.
    pub(super) fn bounds(self, expected: Rational) -> (Option<Rational>, Option<Rational>) {
        let within = |most: Rational| (Some(expected - most), Some(expected + most));
        match self {
            Self::Exact => within(Rational::ZERO),
            Self::Percent(percent) => within(expected.abs() * percent / Rational::whole(100)),
            Self::Absolute(most) => within(most),
            Self::AtLeast => (Some(expected), None),
            Self::AtMost => (None, Some(expected)),
        }
    }

    /// `expected` and how far ours may be from it, as a table shows it.
    fn around(self, expected: &Value) -> String {
        match self {
            Self::Exact => format!("= {expected}"),
            Self::Percent(percent) => format!("{expected} ± {} %", shortest(percent)),
            Self::Absolute(most) => format!("{expected} ± {}", shortest(most)),
            Self::AtLeast => format!(">= {expected}"),
            Self::AtMost => format!("<= {expected}"),
        }
    }
}

/// Without zeros at the end.
fn shortest(number: Rational) -> String {
    let exact = |decimals: &u32| number.rounded(*decimals) == number;
    number.fixed((0..6).find(exact).unwrap_or(6))
}

/// One claim of a paper against what came out here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Number of the claim, such as `P0.7`.
    pub id: String,
    /// What is compared.
    pub what: String,
    /// What the claim rests on.
    pub class: Class,
    /// The claim as the paper prints it; empty where it prints none.
    pub paper: String,
    /// The number in that, in the unit of ours.
    pub paper_number: Option<Rational>,
    /// What is accepted.
    pub accepted: String,
    /// The number in that, and how far from it, if ours is judged as a number.
    pub expected: Option<(Rational, Tolerance)>,
    /// What came out.
    pub ours: String,
    /// The same as a number, if it is one.
    pub ours_number: Option<Rational>,
    /// Whether ours is accepted. Always, where nothing is judged.
    pub pass: bool,
    /// Where a paper can be read in two ways: which one this is.
    pub reading: Option<String>,
}

/// A claim on its way to a [`Check`].
#[derive(Clone, Debug)]
pub struct Claim {
    id: String,
    what: String,
    class: Class,
    paper: String,
    paper_number: Option<Rational>,
    reading: Option<String>,
}

impl Claim {
    /// Claim `id` is about `what`, and `paper` is how the paper prints it.
    pub fn new(class: Class, id: &str, what: &str, paper: &str) -> Self {
        Self {
            id: id.to_owned(),
            what: what.to_owned(),
            class,
            paper: paper.to_owned(),
            paper_number: None,
            reading: None,
        }
    }

    /// A claim of [`Class::Derived`].
    pub fn derived(id: &str, what: &str, paper: &str) -> Self {
        Self::new(Class::Derived, id, what, paper)
    }

    /// A claim of [`Class::Calibrated`].
    pub fn calibrated(id: &str, what: &str, paper: &str) -> Self {
        Self::new(Class::Calibrated, id, what, paper)
    }

    /// A claim of [`Class::Shape`].
    pub fn shape(id: &str, what: &str, paper: &str) -> Self {
        Self::new(Class::Shape, id, what, paper)
    }

    /// Names the reading of the paper that this is about.
    pub fn reading(self, reading: &str) -> Self {
        Self {
            reading: Some(reading.to_owned()),
            ..self
        }
    }

    /// Says which number the paper prints, in the unit of ours.
    pub fn prints(self, number: Rational) -> Self {
        Self {
            paper_number: Some(number),
            ..self
        }
    }

    /// Judges a number; none fails. What is expected is shown with the decimals and the unit of
    /// ours.
    pub fn number(self, expected: Rational, tolerance: Tolerance, ours: &Value) -> Check {
        let accepted = tolerance.around(&ours.with(expected));
        let near = |number| tolerance.accepts(expected, number);
        let pass = ours.number.is_some_and(near);
        Check {
            expected: Some((expected, tolerance)),
            ..self.check(accepted, ours.to_string(), ours.number, pass)
        }
    }

    /// Judges what is not one number: `ours` tells what was found.
    pub fn holds(self, holds: bool, ours: &str) -> Check {
        self.check("holds".to_owned(), ours.to_owned(), None, holds)
    }

    /// Shows ours beside a value that is lost.
    pub fn lost(id: &str, what: &str, paper: &str, ours: &Value) -> Check {
        let claim = Self::new(Class::Lost, id, what, paper);
        claim.check("-".to_owned(), ours.to_string(), ours.number, true)
    }

    fn check(self, accepted: String, ours: String, number: Option<Rational>, pass: bool) -> Check {
        Check {
            id: self.id,
            what: self.what,
            class: self.class,
            paper: self.paper,
            paper_number: self.paper_number,
            accepted,
            expected: None,
            ours,
            ours_number: number,
            pass,
            reading: self.reading,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dec;

    #[test]
    fn each_tolerance_accepts_its_edge_and_nothing_beyond() {
        for (tolerance, inside, outside) in [
            (Tolerance::Exact, "40", "40.001"),
            (Tolerance::Percent(dec("5")), "42", "42.001"),
            (Tolerance::Percent(dec("5")), "38", "37.999"),
            (Tolerance::Absolute(dec("0.1")), "39.9", "39.89"),
            (Tolerance::AtLeast, "40", "39.999"),
            (Tolerance::AtMost, "40", "40.001"),
        ] {
            let expected = dec("40");
            assert!(tolerance.accepts(expected, dec(inside)), "{tolerance:?}");
            assert!(!tolerance.accepts(expected, dec(outside)), "{tolerance:?}");
        }
    }

    #[test]
    fn a_check_says_what_it_accepts() {
        let ours = Value::new(dec("92.3879"), 3, "%");
        let tolerance = Tolerance::Absolute(dec("0.01"));
        let check = Claim::derived("P0.7", "accesses", "92.3 %");
        let check = check
            .reading("at 9,180 octets")
            .number(dec("92.388"), tolerance, &ours);
        assert!(check.pass);
        assert_eq!(check.accepted, "92.388 % ± 0.01");
        assert_eq!(check.ours, "92.388 %");
        let none = Value::ratio(dec("1").over(Rational::ZERO), 3, "%");
        let check = Claim::derived("P0.7", "accesses", "").number(dec("0"), tolerance, &none);
        assert!(!check.pass && check.ours == "none", "{check:?}");
        let lost = Claim::lost("8", "t_irq", "", &ours);
        assert!(lost.pass && lost.class == Class::Lost);
        assert!(!Claim::shape("9", "falls", "").holds(false, "rises").pass);
    }
}
