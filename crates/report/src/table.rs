use std::fmt;

use serde::{Serialize, Serializer};

use crate::Rational;

/// A number with its decimals and its unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// Exact; none where what was run has none.
    pub number: Option<Rational>,
    pub decimals: u32,
    /// Unit shown behind it; empty: none.
    pub unit: String,
}

impl Value {
    /// `number`, shown with `decimals` and `unit`.
    pub fn new(number: impl Into<Rational>, decimals: u32, unit: &str) -> Self {
        Self::ratio(Some(number.into()), decimals, unit)
    }

    /// The same of what [`Rational::over`] gave.
    pub fn ratio(number: Option<Rational>, decimals: u32, unit: &str) -> Self {
        Self {
            number,
            decimals,
            unit: unit.to_owned(),
        }
    }

    /// Another number, shown in the same way.
    pub fn with(&self, number: Rational) -> Self {
        Self {
            number: Some(number),
            ..self.clone()
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(number) = self.number else {
            return f.write_str("none");
        };
        f.write_str(&number.fixed(self.decimals))?;
        match &*self.unit {
            "" => Ok(()),
            unit => write!(f, " {unit}"),
        }
    }
}

/// One entry of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A number, shown with so many decimals; its column names the unit.
    Number(Rational, u32),
    /// Words.
    Text(String),
    /// Nothing: not measured, or not printed by the paper.
    Empty,
}

impl Entry {
    /// A number with so many decimals.
    pub fn number(number: impl Into<Rational>, decimals: u32) -> Self {
        Self::Number(number.into(), decimals)
    }

    /// Words.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    fn shown(&self) -> String {
        match self {
            Self::Number(number, decimals) => number.fixed(*decimals),
            Self::Text(text) => text.clone(),
            Self::Empty => String::new(),
        }
    }
}

impl Serialize for Entry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(number, decimals) => number.rounded(*decimals).serialize(serializer),
            Self::Text(text) => serializer.serialize_str(text),
            Self::Empty => serializer.serialize_none(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Column {
    /// Its key in CSV and JSON: snake_case, the unit last.
    pub key: String,
    /// Its heading in text and HTML.
    pub heading: String,
}

/// Rows and columns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Table {
    /// Its name in file names: letters, digits and hyphens.
    pub name: String,
    /// What it shows.
    pub title: String,
    pub columns: Vec<Column>,
    /// Each row has an entry per column.
    pub rows: Vec<Vec<Entry>>,
}

impl Table {
    /// A table without rows; its columns are pairs of key and heading.
    pub fn new(name: &str, title: &str, columns: &[(&str, &str)]) -> Self {
        let column = |(key, heading): &(&str, &str)| Column {
            key: (*key).to_owned(),
            heading: (*heading).to_owned(),
        };
        Self {
            name: name.to_owned(),
            title: title.to_owned(),
            columns: columns.iter().map(column).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row.
    ///
    /// # Panics
    ///
    /// If it has not as many entries as there are columns.
    pub fn row<const N: usize>(&mut self, entries: [Entry; N]) {
        assert_eq!(
            N,
            self.columns.len(),
            "an entry per column of {}",
            self.name
        );
        self.rows.push(entries.into());
    }

    /// Headings and entries as they are shown, a line per row.
    pub(super) fn shown(&self) -> (Vec<String>, Vec<Vec<String>>) {
        let headings = self.columns.iter().map(|column| column.heading.clone());
        let rows = self.rows.iter();
        (
            headings.collect(),
            rows.map(|row| row.iter().map(Entry::shown).collect())
                .collect(),
        )
    }

    /// Columns side by side under a title: numbers to the right, words to the left.
    pub fn to_text(&self) -> String {
        let (headings, rows) = self.shown();
        let right: Vec<_> = (0..headings.len())
            .map(|i| {
                self.rows
                    .iter()
                    .any(|row| matches!(row[i], Entry::Number(..)))
            })
            .collect();
        format!("{}\n{}", self.title, side_by_side(&headings, &rows, &right))
    }

    /// Comma-separated values, the keys first (RFC 4180 with line feeds).
    pub fn to_csv(&self) -> String {
        let keys = self.columns.iter().map(|column| column.key.clone());
        let mut text = csv_line(keys);
        for row in &self.rows {
            text += &csv_line(row.iter().map(|entry| match entry {
                Entry::Number(number, decimals) => number.fixed(*decimals).replace(',', ""),
                other => other.shown(),
            }));
        }
        text
    }
}

/// Fields, quoted where it is needed, and a line feed.
pub(super) fn csv_line(fields: impl Iterator<Item = String>) -> String {
    let quoted = fields.map(|field| match field.contains([',', '"', '\n']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field,
    });
    quoted.collect::<Vec<_>>().join(",") + "\n"
}

/// Characters of the widest column; `format!` takes no more than 65,535.
const WIDTH_MAX: usize = 1_000;

/// Headings, a rule, rows; two blanks between columns. Wider cells than the widest column stand out
/// of it.
pub(super) fn side_by_side(headings: &[String], rows: &[Vec<String>], right: &[bool]) -> String {
    let chars = |text: &String| text.chars().count();
    let width = |column: usize| {
        let cells = rows.iter().map(|row| &row[column]);
        cells
            .chain([&headings[column]])
            .map(chars)
            .max()
            .unwrap_or(0)
            .min(WIDTH_MAX)
    };
    let widths: Vec<_> = (0..headings.len()).map(width).collect();
    let line = |cells: &[String]| {
        let padded =
            cells
                .iter()
                .zip(&widths)
                .zip(right)
                .map(|((cell, width), right)| match right {
                    true => format!("{cell:>width$}"),
                    false => format!("{cell:width$}"),
                });
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    let rule: Vec<_> = widths.iter().map(|width| "-".repeat(*width)).collect();
    let lines = rows.iter().map(|row| line(row));
    [line(headings), line(&rule)]
        .into_iter()
        .chain(lines)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dec;

    fn sample() -> Table {
        let mut table = Table::new(
            "t",
            "Title",
            &[("what", "what"), ("rate_cell_s", "cells/s")],
        );
        table.row([
            Entry::text("line, \"full\""),
            Entry::number(dec("353207.54"), 1),
        ]);
        table.row([Entry::text("idle"), Entry::Empty]);
        table
    }

    #[test]
    fn text_aligns_numbers_to_the_right() {
        let expected = "Title\n\
                        what            cells/s\n\
                        ------------  ---------\n\
                        line, \"full\"  353,207.5\n\
                        idle\n";
        assert_eq!(sample().to_text(), expected);
    }

    #[test]
    fn what_is_too_wide_stands_out_of_its_column() {
        let long = "n".repeat(70_000);
        let mut table = sample();
        table.row([Entry::text(&*long), Entry::Empty]);
        let text = table.to_text();
        assert_eq!(text.lines().last(), Some(&*long));
        let rule = text.lines().nth(2).unwrap_or_default();
        assert_eq!(rule.len(), WIDTH_MAX + 2 + 9);
    }

    #[test]
    fn csv_has_keys_plain_numbers_and_quotes() {
        let expected = "what,rate_cell_s\n\"line, \"\"full\"\"\",353207.5\nidle,\n";
        assert_eq!(sample().to_csv(), expected);
    }

    #[test]
    fn json_numbers_are_rounded_as_shown_and_empty_is_null() {
        let rows = serde_json::to_value(&sample().rows).expect("JSON");
        let expected = serde_json::json!([["line, \"full\"", 353_207.5], ["idle", null]]);
        assert_eq!(rows, expected);
    }

    #[test]
    #[should_panic(expected = "an entry per column of t")]
    fn a_row_that_does_not_fit_is_a_bug() {
        sample().row([Entry::Empty]);
    }
}
