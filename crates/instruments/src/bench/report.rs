//! What a bench found: figures, ratios, goals.

use cellgate_report::output::{self, Exit, columns, table};
use serde::Serialize;

use super::measure::{Contestant, Times, take_turns};
use crate::live::spread::Spread;

/// What the calibration loop shows when nobody else uses the core: ticks an operation.
const QUIET: f64 = 0.75;

/// All that one bench found. The names of the fields are those of the JSON.
#[derive(Serialize)]
pub(super) struct Report {
    bench: &'static str,
    /// Ran short, to show that it runs: no goal was judged.
    quick: bool,
    ticks_are: &'static str,
    ns_per_tick: f64,
    cpu_level: String,
    /// Ticks of one operation of the calibration loop.
    calibration: Spread,
    quiet: bool,
    figures: Vec<Figure>,
    ratios: Vec<Ratio>,
    rows: Vec<Row>,
    values: Vec<Value>,
    goals: Vec<Goal>,
    notes: Vec<String>,
    #[serde(skip)]
    pub(super) calibrations: Vec<f64>,
}

/// The time of one contestant.
#[derive(Serialize)]
struct Figure {
    name: String,
    cycles_per_cell: Spread,
    ns_per_cell: Spread,
}

/// A time over another of the same run, repeat by repeat.
#[derive(Serialize)]
struct Ratio {
    name: String,
    over: String,
    ratio: Spread,
}

/// A row of a figure of the paper.
#[derive(Serialize)]
struct Row {
    name: String,
    values: Vec<Column>,
}

#[derive(Serialize)]
struct Column {
    name: &'static str,
    value: f64,
}

/// Anything else that was counted.
#[derive(Serialize)]
struct Value {
    name: String,
    unit: &'static str,
    value: f64,
}

/// A bound, and whether it held.
#[derive(Serialize)]
struct Goal {
    name: String,
    kind: Kind,
    value: f64,
    at_most: Option<f64>,
    at_least: Option<f64>,
    verdict: Verdict,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    /// Of two times in one run: holds on any machine, busy or not.
    Ratio,
    /// TSC cycles: holds on a quiet host only.
    Cycles,
    /// A rate against the clock: so does this.
    Rate,
    Count,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Pass,
    Fail,
    NotJudged,
}

impl Report {
    pub(super) fn new(bench: &'static str, quick: bool) -> Self {
        Self {
            bench,
            quick,
            ticks_are: match cellgate_host::sys::tsc() {
                Some(_) => "tsc",
                None => "ns",
            },
            ns_per_tick: super::measure::ns_per_tick(),
            cpu_level: format!("{:?}", cellgate_simd::Level::chosen()).to_lowercase(),
            calibration: Spread::default(),
            quiet: false,
            figures: Vec::new(),
            ratios: Vec::new(),
            rows: Vec::new(),
            values: Vec::new(),
            goals: Vec::new(),
            notes: Vec::new(),
            calibrations: Vec::new(),
        }
    }

    pub(super) fn ns_per_tick(&self) -> f64 {
        self.ns_per_tick
    }

    pub(super) fn figure(&mut self, times: &Times) {
        let cycles_per_cell = times.spread();
        self.figures.push(Figure {
            name: times.name.clone(),
            cycles_per_cell,
            ns_per_cell: cycles_per_cell.times(self.ns_per_tick),
        });
    }

    /// Runs all contestants in turn, `repeats` times; a figure for each.
    pub(super) fn take_turns<'a>(
        &mut self,
        contestants: impl IntoIterator<Item = Contestant<'a>>,
        repeats: usize,
    ) -> Vec<Times> {
        let contestants = contestants.into_iter().collect();
        let times = take_turns(contestants, repeats, &mut self.calibrations);
        times.iter().for_each(|times| self.figure(times));
        times
    }

    pub(super) fn ratio(&mut self, mine: &Times, theirs: &Times) -> Spread {
        let ratio = mine.over(theirs);
        self.ratios.push(Ratio {
            name: mine.name.clone(),
            over: theirs.name.clone(),
            ratio,
        });
        ratio
    }

    pub(super) fn value(&mut self, name: impl Into<String>, unit: &'static str, value: f64) {
        self.values.push(Value {
            name: name.into(),
            unit,
            value,
        });
    }

    /// A row of a table; rows after each other have the same columns.
    pub(super) fn row(&mut self, name: &str, values: &[(&'static str, f64)]) {
        let values = values.iter().map(|&(name, value)| Column { name, value });
        self.rows.push(Row {
            name: name.to_owned(),
            values: values.collect(),
        });
    }

    pub(super) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    pub(super) fn ratio_at_most(&mut self, name: impl Into<String>, value: f64, bound: f64) {
        self.goal(name.into(), Kind::Ratio, value, Some(bound), None);
    }

    pub(super) fn ratio_at_least(&mut self, name: impl Into<String>, value: f64, bound: f64) {
        self.goal(name.into(), Kind::Ratio, value, None, Some(bound));
    }

    pub(super) fn cycles_at_most(&mut self, name: impl Into<String>, value: f64, bound: f64) {
        self.goal(name.into(), Kind::Cycles, value, Some(bound), None);
    }

    pub(super) fn rate_at_most(&mut self, name: impl Into<String>, value: f64, bound: f64) {
        self.goal(name.into(), Kind::Rate, value, Some(bound), None);
    }

    pub(super) fn rate_at_least(&mut self, name: impl Into<String>, value: f64, bound: f64) {
        self.goal(name.into(), Kind::Rate, value, None, Some(bound));
    }

    pub(super) fn count_at_most(&mut self, name: impl Into<String>, value: f64, bound: f64) {
        self.goal(name.into(), Kind::Count, value, Some(bound), None);
    }

    fn goal(
        &mut self,
        name: String,
        kind: Kind,
        value: f64,
        at_most: Option<f64>,
        at_least: Option<f64>,
    ) {
        self.goals.push(Goal {
            name,
            kind,
            value,
            at_most,
            at_least,
            verdict: Verdict::NotJudged,
        });
    }

    /// Judges the goals and prints everything.
    pub(super) fn finish(mut self, json: bool) -> anyhow::Result<Exit> {
        self.calibration = Spread::of(std::mem::take(&mut self.calibrations));
        self.quiet = self.ticks_are == "tsc" && self.calibration.median <= QUIET;
        let (quick, quiet) = (self.quick, self.quiet);
        for goal in &mut self.goals {
            goal.judge(quick, quiet);
        }
        match json {
            true => output::print_json(&self)?,
            false => output::print(&self.text())?,
        }
        Ok(
            match self.goals.iter().any(|goal| goal.verdict == Verdict::Fail) {
                true => Exit::Failed,
                false => Exit::Ok,
            },
        )
    }

    fn text(&self) -> String {
        let mut text = format!(
            "bench {}: level {}, {} {:.4} ns; calibration {} ticks/op ({})\n",
            self.bench,
            self.cpu_level,
            self.ticks_are,
            self.ns_per_tick,
            self.calibration.text(3),
            if self.quiet { "quiet" } else { "busy host" },
        );
        text += "Spreads are min/q1/median/q3/max over the repeats.\n\n";
        let head = |names: [&str; 3]| names.map(str::to_owned);
        let mut figures = vec![head(["", "cycles/cell", "ns/cell"])];
        figures.extend(self.figures.iter().map(|figure| {
            let ns = format!("{:.2}", figure.ns_per_cell.median);
            [figure.name.clone(), figure.cycles_per_cell.text(1), ns]
        }));
        let mut ratios = vec![head(["ratio of", "to", ""])];
        ratios.extend(
            self.ratios
                .iter()
                .map(|ratio| [ratio.name.clone(), ratio.over.clone(), ratio.ratio.text(2)]),
        );
        let values: Vec<_> = self.values.iter().map(Value::row).collect();
        let goals: Vec<_> = self.goals.iter().map(Goal::row).collect();
        let mut part = |is_any: bool, part: String| {
            if is_any {
                text += &part;
                text.push('\n');
            }
        };
        part(!self.figures.is_empty(), table(&figures));
        part(!self.ratios.is_empty(), table(&ratios));
        for rows in self.rows.chunk_by(|a, b| a.values.len() == b.values.len()) {
            part(true, columns(&shown(rows)));
        }
        part(!values.is_empty(), columns(&values));
        part(!goals.is_empty(), columns(&goals));
        for note in &self.notes {
            text += &format!("- {note}\n");
        }
        text
    }
}

/// Rows with the same columns, below their names.
fn shown(rows: &[Row]) -> Vec<Vec<String>> {
    let names = rows.iter().take(1).flat_map(|row| &row.values);
    let names = names.map(|column| column.name.to_owned());
    let mut all = vec![[String::new()].into_iter().chain(names).collect()];
    all.extend(rows.iter().map(|row| {
        let values = row.values.iter().map(|column| {
            let decimals = if column.value.abs() < 100.0 { 2 } else { 0 };
            format!("{:.decimals$}", column.value)
        });
        [row.name.clone()].into_iter().chain(values).collect()
    }));
    all
}

impl Value {
    fn row(&self) -> [String; 3] {
        let decimals = match self.value.abs() {
            0.0 => 0,
            ..0.01 => 6,
            ..100.0 => 2,
            _ => 0,
        };
        [
            self.name.clone(),
            format!("{:.decimals$}", self.value),
            self.unit.to_owned(),
        ]
    }
}

impl Goal {
    fn judge(&mut self, quick: bool, quiet: bool) {
        let judged = match self.kind {
            Kind::Ratio => !quick,
            Kind::Cycles | Kind::Rate => !quick && quiet,
            Kind::Count => true,
        };
        let holds = self.at_most.is_none_or(|bound| self.value <= bound)
            && self.at_least.is_none_or(|bound| self.value >= bound);
        self.verdict = match (judged, holds) {
            (false, _) => Verdict::NotJudged,
            (true, true) => Verdict::Pass,
            (true, false) => Verdict::Fail,
        };
    }

    fn row(&self) -> [String; 4] {
        let bound = match (self.at_most, self.at_least) {
            (Some(bound), _) => format!("<= {bound:.2}"),
            (_, Some(bound)) => format!(">= {bound:.2}"),
            _ => String::new(),
        };
        let verdict = match self.verdict {
            Verdict::Pass => "pass",
            Verdict::Fail => "FAIL",
            Verdict::NotJudged => "not judged",
        };
        [
            self.name.clone(),
            format!("{:.2}", self.value),
            bound,
            verdict.to_owned(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(kind: Kind, value: f64, quick: bool, quiet: bool) -> Verdict {
        let mut goal = Goal {
            name: String::new(),
            kind,
            value,
            at_most: Some(2.0),
            at_least: None,
            verdict: Verdict::NotJudged,
        };
        goal.judge(quick, quiet);
        goal.verdict
    }

    #[test]
    fn cycles_are_judged_on_a_quiet_host_only_and_nothing_timed_in_a_quick_run() {
        assert!(verdict(Kind::Ratio, 2.0, false, false) == Verdict::Pass);
        assert!(verdict(Kind::Ratio, 2.1, false, false) == Verdict::Fail);
        assert!(verdict(Kind::Ratio, 2.1, true, true) == Verdict::NotJudged);
        assert!(verdict(Kind::Cycles, 2.1, false, false) == Verdict::NotJudged);
        assert!(verdict(Kind::Cycles, 2.1, false, true) == Verdict::Fail);
        assert!(verdict(Kind::Rate, 2.1, false, false) == Verdict::NotJudged);
        assert!(verdict(Kind::Rate, 2.1, false, true) == Verdict::Fail);
        assert!(verdict(Kind::Count, 2.1, true, false) == Verdict::Fail);
    }
}
