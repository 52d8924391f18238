//! Outcomes of experiments against their snapshots.
// Each test binary compiles this for itself and uses a part of it.
#![allow(dead_code)]

use std::fs;
use std::path::PathBuf;

use cellgate_lab::Silent;
use cellgate_lab::experiments::{Settings, find};
use cellgate_lab::report::Outcome;

/// Runs an experiment with some settings changed.
pub(crate) fn run(name: &str, changes: &[(&str, &str)]) -> Outcome {
    let experiment = find(name).expect(name);
    let mut settings = Settings::new(experiment.parameters());
    for (key, value) in changes {
        settings.set(key, value).expect(key);
    }
    experiment.run(&settings, &mut Silent).expect(name)
}

/// Runs an experiment, and compares with `tests/snapshots/NAME.txt`: what `cellgate lab run NAME`
/// prints, the changes after `--set`. After a change of the code that is meant,
/// `CELLGATE_SNAPSHOTS=write` writes them anew.
pub(crate) fn is_as_recorded(name: &str, changes: &[(&str, &str)]) {
    let outcome = run(name, changes);
    let text = outcome.to_text();
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots");
    let path = path.join(format!("{name}.txt"));
    if std::env::var("CELLGATE_SNAPSHOTS").is_ok_and(|what| what == "write") {
        fs::write(&path, &text).expect("the snapshot is written");
    }
    let recorded = fs::read_to_string(&path).unwrap_or_default();
    assert!(recorded == text, "{name} was\n{recorded}\nand is\n{text}");
    assert_eq!(failed(&outcome), [""; 0], "{name}");
}

/// What failed of its checks.
pub(crate) fn failed(outcome: &Outcome) -> Vec<String> {
    let failed = outcome.checks.iter().filter(|check| !check.pass);
    failed
        .map(|check| format!("{}: {}", check.id, check.what))
        .collect()
}
