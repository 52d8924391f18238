//! Scenarios that have shown a bug once: each is clean, and shows the bug when that is planted
//! again. `tests/corpus/index.txt` has a line for each: its file, the bug, what it guards. Those
//! without a bug (`-`) are what a seed drew that failed before something was mended: of the world,
//! of its judge, or of a server; those of `isolation` failed when runs with and without hazards or
//! hostile writes were compared.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use cellgate_lab::Silent;
use cellgate_lab::world::scenario::Scenario;
use cellgate_lab::world::{Failure, Options, check, check_isolation, with_bug};

#[test]
fn every_plan_of_the_corpus_is_clean_and_shows_the_bug_it_names() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let index = fs::read_to_string(folder.join("index.txt")).expect("the index");
    let mut listed = BTreeSet::from(["index.txt".to_string()]);
    for line in index.lines() {
        let (names, guards) = line.split_once(": ").expect("file bug: what it guards");
        let (file, bug) = names.split_once(' ').expect("file bug: what it guards");
        assert!(!guards.is_empty() && listed.insert(file.into()), "{line}");
        let text = fs::read_to_string(folder.join(file)).expect(file);
        let scenario: Scenario = serde_json::from_str(&text).expect(file);
        let clean = Options {
            reference: true,
            ..Options::default()
        };
        for options in [clean, Options::default()] {
            check(&scenario, options).unwrap_or_else(|failure| panic!("{file}: {failure}"));
        }
        match bug {
            "-" => {}
            "isolation" => {
                check_isolation(&scenario, Options::default(), &mut Silent)
                    .unwrap_or_else(|failure| panic!("{file}: {failure}"));
            }
            bug => {
                let planted = with_bug(bug).expect(bug);
                let shown = check(&scenario, planted);
                let shows = matches!(shown, Err(Failure::Violation(_)));
                assert!(shows, "{file} does not show {bug}");
            }
        }
    }
    let files = fs::read_dir(&folder).expect("the corpus");
    let files = files.map(|file| file.expect("a file").file_name());
    let files: BTreeSet<String> = files.filter_map(|name| name.into_string().ok()).collect();
    assert_eq!(files, listed);
    assert!(files.len() > 10);
}
