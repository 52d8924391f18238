//! The command as it is built has the static probes that its document names.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use cellgate_host::sys::probes;

/// The probes of a provider in what `readelf -n` has said.
fn found(notes: &str, provider: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut is_ours = false;
    for line in notes.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("Provider: ") {
            is_ours = name == provider;
        } else if let Some(name) = line.strip_prefix("Name: ").filter(|_| is_ours) {
            found.insert(name.to_owned());
        }
    }
    found
}

fn wanted() -> BTreeSet<String> {
    probes::ALL.map(str::to_owned).into()
}

#[test]
fn the_command_has_its_probes() {
    let mut readelf = Command::new("readelf");
    let Ok(out) = readelf
        .args(["-n", env!("CARGO_BIN_EXE_cellgate")])
        .output()
    else {
        return println!("skipped probes: no readelf");
    };
    assert!(out.status.success(), "{out:?}");
    let notes = String::from_utf8_lossy(&out.stdout);
    assert_eq!(found(&notes, "cellgate"), wanted());
    // Those of PDUs prepare nothing while nobody listens.
    for name in ["pdu_delivered", "pdu_discarded"] {
        let mut places = notes
            .split("Provider: ")
            .filter(|place| place.contains(name));
        let is_lazy = |place: &str| {
            let words = place.split_once("Semaphore: ").map(|(_, rest)| rest);
            words.is_some_and(|rest| !rest.starts_with("0x0000000000000000"))
        };
        assert!(places.all(is_lazy), "{name}: {notes}");
    }
    println!("ran probes");
}

#[test]
fn each_probe_has_a_row_and_a_line_in_the_document_and_no_other_has() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/probes.md");
    let text = fs::read_to_string(path).expect("a document");
    let rows = text
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    assert_eq!(rows.map(str::to_owned).collect::<BTreeSet<_>>(), wanted());
    let lines = text.lines().filter_map(|line| {
        let rest = line.strip_prefix("bpftrace -e 'usdt:/usr/bin/cellgate:cellgate:")?;
        rest.split_once(" {").map(|(name, _)| name.to_owned())
    });
    assert_eq!(lines.collect::<BTreeSet<_>>(), wanted());
}

#[test]
fn what_has_no_probes_is_found_out() {
    let notes = "Provider: other\n Name: rest\n Provider: cellgate\n Name: wake\n";
    assert_eq!(
        found(notes, "cellgate"),
        BTreeSet::from(["wake".to_owned()])
    );
    assert!(found("", "cellgate").is_empty());
}
