//! Experiments at the ends of their parameters: whatever their checks say, none panics.
#![cfg(not(any(miri, loom)))]

use std::panic::catch_unwind;

use crate::recorded::run;
use cellgate_lab::experiments::{Kind, Parameter, all};

/// How long an experiment runs, and how often it measures: as little as it takes.
const SPANS: [&str; 6] = [
    "seconds",
    "minutes",
    "milliseconds",
    "samples",
    "loaded_samples",
    "datagrams",
];
/// One run of these takes seconds.
const LONG: [&str; 6] = [
    "policing-figure-9",
    "l4atm-table-2",
    "l4atm-figure-9",
    "ring-overflow",
    "ring-interrupts",
    "ring-load",
];

fn is_span(parameter: &Parameter) -> bool {
    SPANS.contains(&parameter.key)
}

fn ends(parameter: &Parameter) -> Vec<String> {
    match parameter.kind {
        Kind::Choice { of, .. } => of.iter().map(|word| (*word).to_owned()).collect(),
        Kind::Number { min, max, .. } => {
            let ends = [min, max].map(|end| end.fixed(0).replace(',', ""));
            ends[..if is_span(parameter) { 1 } else { 2 }].into()
        }
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "long without optimization: --release")]
fn no_experiment_panics_at_an_end_of_a_parameter() {
    let mut panicked = Vec::new();
    let is_short = |name: &str| !LONG.contains(&name);
    for experiment in all().iter().filter(|one| is_short(one.name())) {
        let (name, parameters) = (experiment.name(), experiment.parameters());
        let spans = parameters.iter().filter(|one| is_span(one));
        let spans: Vec<_> = spans.map(|one| (one.key, ends(one).remove(0))).collect();
        for parameter in parameters.iter().filter(|one| !is_span(one)) {
            for end in ends(parameter) {
                let mut changes: Vec<_> = spans.iter().map(|(key, end)| (*key, &**end)).collect();
                changes.push((parameter.key, &end));
                if catch_unwind(|| run(name, &changes)).is_err() {
                    panicked.push(format!("{name} {changes:?}"));
                }
            }
        }
    }
    assert!(panicked.is_empty(), "{panicked:#?}");
}

#[test]
#[cfg_attr(debug_assertions, ignore = "long without optimization: --release")]
fn a_share_of_nothing_fails_its_claim() {
    let (few, short) = (("rates", "few"), ("milliseconds", "10"));
    let free = [("interrupt_us", "0"), ("pdu_us", "0")];
    for (name, changes) in [
        (
            "policing-figure-9",
            &[free[0], free[1], few, ("pdus", "20")][..],
        ),
        (
            "policing-figure-9",
            &[("c_cell", "10000"), few, ("pdus", "20")],
        ),
        ("policing-figure-8", &[free[0], free[1], short]),
        (
            "policing-figure-8",
            &[("c_cell", "10000"), ("c_pdu", "100000"), short],
        ),
        ("l4atm-table-1", &[("seconds", "1"), ("driver_us", "484")]),
        (
            "l4atm-figure-9",
            &[("minutes", "1"), ("job_cpu_ms", "60000")],
        ),
    ] {
        let checks = run(name, changes).checks;
        let found = checks.iter().find(|check| check.ours == "none");
        assert!(found.is_some_and(|check| !check.pass), "{name} {changes:?}");
    }
}
