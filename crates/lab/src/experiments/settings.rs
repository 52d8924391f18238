use std::fmt;

use cellgate_report::Rational;

/// What an experiment lets its user change.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Its key in `--set key=value`: snake_case, the unit last.
    pub key: &'static str,
    /// What it is, and its unit.
    pub what: &'static str,
    pub kind: Kind,
}

/// The values of a parameter.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A decimal number in a range, ends included.
    Number {
        /// If nothing is set.
        default: Rational,
        min: Rational,
        max: Rational,
    },
    /// One of some words.
    Choice {
        /// If nothing is set.
        default: &'static str,
        /// The words.
        of: &'static [&'static str],
    },
}

/// Decimals that a value may be given with.
const DECIMALS_MAX: u32 = 6;

impl Parameter {
    /// A whole number.
    pub const fn whole(
        key: &'static str,
        what: &'static str,
        default: i128,
        (min, max): (i128, i128),
    ) -> Self {
        let (min, max) = (Rational::whole(min), Rational::whole(max));
        Self::number(key, what, Rational::whole(default), (min, max))
    }

    pub const fn number(
        key: &'static str,
        what: &'static str,
        default: Rational,
        (min, max): (Rational, Rational),
    ) -> Self {
        let kind = Kind::Number { default, min, max };
        Self { key, what, kind }
    }

    pub const fn choice(
        key: &'static str,
        what: &'static str,
        default: &'static str,
        of: &'static [&'static str],
    ) -> Self {
        let kind = Kind::Choice { default, of };
        Self { key, what, kind }
    }

    fn default(&self) -> Setting {
        match self.kind {
            Kind::Number { default, .. } => Setting::Number(default),
            Kind::Choice { default, .. } => Setting::Choice(default),
        }
    }

    fn parse(&self, text: &str) -> Option<Setting> {
        match self.kind {
            Kind::Number { min, max, .. } => {
                let number = Rational::parse(text)?;
                // What is reckoned from it exactly must not outgrow the numbers of a report.
                let short = number.rounded(DECIMALS_MAX) == number;
                (short && (min..=max).contains(&number)).then_some(Setting::Number(number))
            }
            Kind::Choice { of, .. } => {
                let word = of.iter().find(|word| **word == text)?;
                Some(Setting::Choice(word))
            }
        }
    }

    /// The value if nothing is set, as a user would write it.
    pub fn default_text(&self) -> String {
        match self.kind {
            Kind::Number { default, .. } => plain(default),
            Kind::Choice { default, .. } => default.to_owned(),
        }
    }

    /// The values that it takes: `1..=100`, or words with bars between.
    pub fn range_text(&self) -> String {
        match self.kind {
            Kind::Number { min, max, .. } => format!("{}..={}", plain(min), plain(max)),
            Kind::Choice { of, .. } => of.join("|"),
        }
    }
}

fn plain(number: Rational) -> String {
    let exact = |decimals: &u32| number.rounded(*decimals) == number;
    let decimals = (0..6).find(exact).unwrap_or(6);
    number.fixed(decimals).replace(',', "")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Setting {
    Number(Rational),
    Choice(&'static str),
}

/// The settings of one run: the seed, and a value of every parameter.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What random numbers of the run follow from.
    pub seed: u64,
    parameters: &'static [Parameter],
    values: Vec<Setting>,
}

impl Settings {
    /// Everything as it is if nothing is set.
    pub fn new(parameters: &'static [Parameter]) -> Self {
        Self {
            seed: 1,
            parameters,
            values: parameters.iter().map(Parameter::default).collect(),
        }
    }

    /// Sets `key` to what `text` says.
    pub fn set(&mut self, key: &str, text: &str) -> Result<(), SettingError> {
        let known = self
            .parameters
            .iter()
            .position(|parameter| parameter.key == key);
        let Some(index) = known else {
            return Err(SettingError::Unknown {
                key: key.to_owned(),
                known: self
                    .parameters
                    .iter()
                    .map(|parameter| parameter.key)
                    .collect(),
            });
        };
        let parameter = &self.parameters[index];
        let value = parameter.parse(text).ok_or_else(|| SettingError::Range {
            key: parameter.key,
            text: text.to_owned(),
            range: parameter.range_text(),
        })?;
        self.values[index] = value;
        Ok(())
    }

    fn of(&self, key: &str) -> Setting {
        let index = self
            .parameters
            .iter()
            .position(|parameter| parameter.key == key);
        self.values[index.expect("an experiment asks for its own parameters")]
    }

    /// The number set for `key`.
    ///
    /// # Panics
    ///
    /// If the experiment has no such number: a bug of the experiment.
    pub fn number(&self, key: &str) -> Rational {
        match self.of(key) {
            Setting::Number(number) => number,
            Setting::Choice(_) => panic!("{key} is a word"),
        }
    }

    /// The number set for `key`, without what is behind its point.
    ///
    /// # Panics
    ///
    /// As [`Settings::number`]; and if it is negative.
    pub fn whole(&self, key: &str) -> u64 {
        u64::try_from(self.number(key).floor()).expect("a range of whole numbers")
    }

    /// The word set for `key`.
    ///
    /// # Panics
    ///
    /// If the experiment has no such word: a bug of the experiment.
    pub fn choice(&self, key: &str) -> &'static str {
        match self.of(key) {
            Setting::Choice(word) => word,
            Setting::Number(_) => panic!("{key} is a number"),
        }
    }
}

/// Why a setting was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingError {
    /// The experiment has no such parameter.
    Unknown {
        /// What was asked for.
        key: String,
        /// What there is.
        known: Vec<&'static str>,
    },
    /// The value is none of its values.
    Range {
        key: &'static str,
        /// What was asked for.
        text: String,
        /// What it takes.
        range: String,
    },
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { key, known } if known.is_empty() => {
                write!(f, "no parameter {key}: the experiment has none")
            }
            Self::Unknown { key, known } => {
                write!(f, "no parameter {key}: there is {}", known.join(", "))
            }
            Self::Range { key, text, range } => write!(f, "{key}={text}: it takes {range}"),
        }
    }
}

impl std::error::Error for SettingError {}

#[cfg(test)]
mod tests {
    use cellgate_report::dec;

    use super::*;

    const PARAMETERS: &[Parameter] = &[
        Parameter::number("c_cell", "cycles", dec("42.5"), (dec("1"), dec("1000"))),
        Parameter::choice("discard", "of the switch", "vc", &["fifo", "vc"]),
    ];

    #[test]
    fn what_is_not_set_keeps_its_default() {
        let mut settings = Settings::new(PARAMETERS);
        assert_eq!(settings.number("c_cell"), dec("42.5"));
        settings.set("c_cell", "12").expect("in range");
        settings.set("discard", "fifo").expect("a word");
        assert_eq!(settings.whole("c_cell"), 12);
        assert_eq!(settings.choice("discard"), "fifo");
    }

    #[test]
    fn what_makes_no_sense_is_refused_and_told() {
        let mut settings = Settings::new(PARAMETERS);
        for (key, text, told) in [
            ("c_pdu", "1", "no parameter c_pdu: there is c_cell, discard"),
            ("c_cell", "0.5", "c_cell=0.5: it takes 1..=1000"),
            ("c_cell", "much", "c_cell=much: it takes 1..=1000"),
            ("c_cell", "2.0000001", "c_cell=2.0000001: it takes 1..=1000"),
            ("discard", "all", "discard=all: it takes fifo|vc"),
        ] {
            let error = settings.set(key, text).expect_err(told);
            assert_eq!(error.to_string(), told);
        }
        assert_eq!(settings.number("c_cell"), dec("42.5"));
    }
}
