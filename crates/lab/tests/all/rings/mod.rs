//! The experiments of *CBN Half-Duplex Stations*: each as it was recorded.
#![cfg(not(any(miri, loom)))]

mod claims;

use crate::recorded::{is_as_recorded, run};

#[test]
fn arithmetic_formats_and_tables_are_as_recorded() {
    is_as_recorded("ring-arithmetic", &[]);
    is_as_recorded("ring-formats", &[]);
    is_as_recorded("ring-tables", &[]);
}

#[test]
fn figures_are_as_recorded() {
    for figure in [
        "ring-figure-4",
        "ring-figure-5",
        "ring-figure-6",
        "ring-figure-7",
        "ring-figure-8",
        "ring-figure-9",
    ] {
        is_as_recorded(figure, &[]);
    }
}

#[test]
fn slots_are_as_recorded() {
    is_as_recorded("ring-slots", &[]);
}

#[test]
fn stations_dma_and_duplex_are_as_recorded() {
    is_as_recorded("ring-stations", &[]);
    is_as_recorded("ring-dma", &[]);
    is_as_recorded("ring-duplex", &[]);
    is_as_recorded("ring-foreseen", &[]);
}

#[test]
#[cfg_attr(debug_assertions, ignore = "long without optimization: --release")]
fn ram_overflow_interrupts_and_load_are_as_recorded() {
    is_as_recorded("ring-load", &[]);
    is_as_recorded("ring-ram", &[]);
    is_as_recorded("ring-overflow", &[]);
    is_as_recorded("ring-interrupts", &[]);
}

#[test]
fn equal_settings_give_equal_outcomes() {
    assert!(run("ring-figure-7", &[]) == run("ring-figure-7", &[]));
}
