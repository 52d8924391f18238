//! Checks as bars of a figure.

use serde::Serialize;

use crate::Check;
use crate::table::csv_line;

/// Numbers of one thing.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BarGroup {
    pub name: String,
    /// From top to bottom: the paper's first.
    pub bars: Vec<Bar>,
}

/// A number as a bar from 0 on.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bar {
    /// Whose it is.
    pub name: String,
    pub value: f64,
    /// The same as people read it.
    pub text: String,
    /// Of ours, as a table shows it: `pass`, `FAIL` or `-`. The paper's has none.
    pub verdict: Option<&'static str>,
}

impl BarGroup {
    pub(super) const COLUMNS: [&str; 3] = ["group", "bar", "value"];

    pub(super) fn csv(&self) -> String {
        let line = |bar: &Bar| {
            let fields = [self.name.clone(), bar.name.clone(), bar.value.to_string()];
            csv_line(fields.into_iter())
        };
        self.bars.iter().map(line).collect()
    }
}

impl Bar {
    fn printed(check: &Check) -> Option<Self> {
        Some(Self {
            name: "the paper".to_owned(),
            value: check.paper_number?.to_f64(),
            text: check.paper.clone(),
            verdict: None,
        })
    }

    fn ours(check: &Check) -> Option<Self> {
        Some(Self {
            name: check.reading.clone().unwrap_or_else(|| "ours".to_owned()),
            value: check.ours_number?.to_f64(),
            text: check.ours.clone(),
            verdict: Some(check.verdict()),
        })
    }
}

/// A group for each thing that the checks are about, in the order in which they name it.
pub(super) fn grouped(checks: &[Check]) -> Vec<BarGroup> {
    let mut groups: Vec<BarGroup> = Vec::new();
    for check in checks {
        let name = format!("{} {}", check.id, check.what);
        match groups.iter_mut().find(|group| group.name == name) {
            Some(group) => group.bars.extend(Bar::ours(check)),
            None => {
                let bars = Bar::printed(check).into_iter().chain(Bar::ours(check));
                let bars = bars.collect();
                groups.push(BarGroup { name, bars });
            }
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Claim, Tolerance, Value, dec};

    #[test]
    fn readings_of_one_thing_lie_beside_the_paper() {
        let check = |what: &str, reading: &str, ours: &str| {
            let claim = Claim::derived("L6", what, "60.98").prints(dec("60.98"));
            let ours = Value::new(dec(ours), 2, "Mbps");
            claim
                .reading(reading)
                .number(dec("61"), Tolerance::AtLeast, &ours)
        };
        let groups = grouped(&[
            check("sent", "carried", "61.03"),
            check("peer", "carried", "61.03"),
            check("sent", "lost", "56.25"),
            Claim::derived("L7", "holds", "").holds(true, "yes"),
        ]);
        let lines: String = groups.iter().map(BarGroup::csv).collect();
        assert_eq!(
            lines,
            "L6 sent,the paper,60.98\nL6 sent,carried,61.03\nL6 sent,lost,56.25\n\
             L6 peer,the paper,60.98\nL6 peer,carried,61.03\n"
        );
        let verdicts: Vec<_> = groups[0].bars.iter().map(|bar| bar.verdict).collect();
        assert_eq!(verdicts, [None, Some("pass"), Some("FAIL")]);
    }
}
