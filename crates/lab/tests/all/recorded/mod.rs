//! Outcomes of experiments against their snapshots.
// Each test binary compiles this for itself and uses a part of it.
#![allow(dead_code)]

use std::fs;
use std::path::PathBuf;

use cellgate_lab::Silent;
use cellgate_lab::experiments::{Settings, find};
use cellgate_report::{Content, Outcome};

/// Runs an experiment with some settings changed.
pub(crate) fn run(name: &str, changes: &[(&str, &str)]) -> Outcome {
    let experiment = find(name).expect(name);
    let mut settings = Settings::new(experiment.parameters());
    for (key, value) in changes {
        settings.set(key, value).expect(key);
    }
    experiment.run(&settings, &mut Silent).expect(name)
}

/// With these changes, this check fails: it judges.
pub(crate) fn fails(name: &str, changes: &[(&str, &str)], id: &str) {
    let checks = run(name, changes).checks;
    let failed = checks.iter().any(|check| check.id == id && !check.pass);
    assert!(failed, "{name} with {changes:?}: {id} passes");
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
    shows_its_claims(name, &outcome);
}

/// There is a figure; and where figures are made of claims, each claim is in one, and is drawn.
fn shows_its_claims(name: &str, outcome: &Outcome) {
    assert!(!outcome.figures.is_empty(), "{name} draws nothing");
    let mut drawn = 0;
    for figure in &outcome.figures {
        let words: Vec<String> = match &figure.content {
            Content::Panels(_) | Content::Bands(_) => continue,
            Content::Claims(rows) => {
                drawn += rows.len();
                let words = rows.iter().flat_map(|row| [&row.claim, &row.found]);
                words.cloned().collect()
            }
            Content::Bars(groups) => {
                let bars = || groups.iter().flat_map(|group| &group.bars);
                drawn += bars().filter(|bar| bar.verdict.is_some()).count();
                let numbers = bars().map(|bar| format!("{} {}", bar.name, bar.text));
                let names = groups.iter().map(|group| group.name.clone());
                names.chain(numbers).collect()
            }
        };
        let text = visible(&figure.to_svg());
        for words in words {
            assert!(text.contains(&words), "{name}: no {words:?} in {text}");
        }
    }
    assert!(
        drawn == 0 || drawn == outcome.checks.len(),
        "{name}: {drawn}"
    );
}

/// What is written in a figure, as if it were one line.
fn visible(svg: &str) -> String {
    let texts = svg.lines().filter(|line| line.starts_with("<text"));
    let words = texts.filter_map(|line| line.split_once('>')?.1.strip_suffix("</text>"));
    let words: Vec<_> = words.collect();
    let text = words.join(" ").replace("&lt;", "<").replace("&gt;", ">");
    text.replace("&quot;", "\"").replace("&amp;", "&")
}

/// What failed of its checks.
pub(crate) fn failed(outcome: &Outcome) -> Vec<String> {
    let failed = outcome.checks.iter().filter(|check| !check.pass);
    failed
        .map(|check| format!("{}: {}", check.id, check.what))
        .collect()
}
