//! The experiments of *Policing Offloaded*: each as it was recorded, and seen to fail where a
//! constant is wrong.
#![cfg(not(any(miri, loom)))]

use std::path::Path;

use crate::recorded::{fails, is_as_recorded, run};
use cellgate_lab::experiments::all;

#[test]
fn policing_arithmetic_is_as_recorded() {
    is_as_recorded("policing-arithmetic", &[]);
}

#[test]
fn policing_table_1_is_as_recorded() {
    is_as_recorded("policing-table-1", &[]);
}

#[test]
#[cfg_attr(debug_assertions, ignore = "long without optimization: --release")]
fn policing_figure_4_is_as_recorded() {
    is_as_recorded("policing-figure-4", &[]);
}

#[test]
#[cfg_attr(debug_assertions, ignore = "long without optimization: --release")]
fn policing_figure_5_is_as_recorded() {
    is_as_recorded("policing-figure-5", &[]);
}

#[test]
fn policing_figure_6_is_as_recorded() {
    is_as_recorded("policing-figure-6", &[]);
}

#[test]
fn policing_figure_8_is_as_recorded() {
    is_as_recorded("policing-figure-8", &[]);
}

#[test]
#[cfg_attr(debug_assertions, ignore = "long without optimization: --release")]
fn policing_figure_9_is_as_recorded() {
    is_as_recorded("policing-figure-9", &[]);
}

#[test]
fn policing_section_5_is_as_recorded() {
    is_as_recorded("policing-section-5", &[]);
}

#[test]
#[cfg_attr(debug_assertions, ignore = "long without optimization: --release")]
fn checks_fail_when_what_they_judge_is_broken() {
    // A cell for its burst alone: 512 octets fill the line. A dear PDU: three cells do not.
    fails("policing-figure-5", &[("c_cell", "12"), SHORT_5], "P0.11");
    fails("policing-figure-5", &[("c_pdu", "800"), SHORT_5], "P0.11");
    // An i960 that cannot fill the line.
    fails(
        "policing-figure-6",
        &[("c_cell", "100"), ("milliseconds", "50")],
        "P0.12",
    );
    // A scheduler that costs nothing carries whatever is asked for.
    fails(
        "policing-figure-6",
        &[("c_schedule", "0"), ("milliseconds", "50")],
        "P0.10",
    );
    // A host that is always in its interrupt handler.
    fails(
        "policing-figure-8",
        &[("interrupt_us", "900"), ("milliseconds", "10")],
        "8",
    );
    // A switch that loses more than cells of the hazard.
    fails(
        "policing-figure-9",
        &[("discard", "shared"), ("pdus", "20"), ("rates", "few")],
        "P0.15",
    );
    // A tree whose nodes cost so much that a flood is too much for it, and pointers that cost more
    // than what they save.
    fails("policing-section-5", &[("c_entry", "40")], "5.2");
    fails("policing-section-5", &[("c_pointers", "400")], "5.3");
    fails(
        "policing-table-1",
        &[("c_pdu", "77"), ("c_cell", "1")],
        "P0.11",
    );
}

const SHORT_5: (&str, &str) = ("milliseconds", "20");

#[test]
#[cfg_attr(debug_assertions, ignore = "long without optimization: --release")]
fn equal_settings_give_equal_outcomes() {
    let few = [("pdus", "20"), ("rates", "few")];
    let figure_9 = || run("policing-figure-9", &few);
    assert!(figure_9() == figure_9());
}

#[test]
fn every_experiment_is_recorded() {
    let snapshots = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots");
    for one in all() {
        let name = one.name();
        assert!(snapshots.join(format!("{name}.txt")).exists(), "{name}");
    }
}

#[test]
fn names_are_unique_and_fit_into_file_names() {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let mut names: Vec<_> = all().iter().map(|one| one.name()).collect();
    assert!(
        names.iter().all(|name| name.chars().all(plain)),
        "{names:?}"
    );
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}
