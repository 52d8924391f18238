//! The experiments of *CBN Half-Duplex Stations*: each as it was recorded, and seen to fail where
//! a constant is wrong.
#![cfg(not(any(miri, loom)))]

use crate::recorded::{fails, is_as_recorded, run};

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
}

#[test]
#[cfg_attr(debug_assertions, ignore = "long without optimization: --release")]
fn ram_overflow_interrupts_and_load_are_as_recorded() {
    is_as_recorded("ring-load", &[]);
    is_as_recorded("ring-ram", &[]);
    is_as_recorded("ring-overflow", &[]);
    is_as_recorded("ring-interrupts", &[]);
}

/// Each by 5 per cent.
#[test]
fn a_wrong_constant_is_seen() {
    for (key, id) in [
        ("handshake_ns", "C9"),
        ("transmit_cycles", "C9"),
        ("buffers_us", "4"),
    ] {
        for percent in [95, 105] {
            fails(
                "ring-figure-4",
                &[(key, &moved("ring-figure-4", key, percent))],
                id,
            );
        }
    }
    for key in ["handshake_ns", "receive_cycles"] {
        for percent in [95, 105] {
            let value = moved("ring-figure-5", key, percent);
            fails("ring-figure-5", &[(key, &value)], "C11");
            fails("ring-figure-6", &[(key, &value)], "6");
            fails("ring-figure-7", &[(key, &value)], "7");
        }
    }
}

/// So many per cent of what a parameter is by default.
fn moved(name: &str, key: &str, percent: i32) -> String {
    let parameters = cellgate_lab::experiments::find(name).unwrap().parameters();
    let parameter = parameters.iter().find(|parameter| parameter.key == key);
    let default: f64 = parameter.unwrap().default_text().parse().unwrap();
    format!("{:.4}", default * f64::from(percent) / 100.0)
}

#[test]
fn equal_settings_give_equal_outcomes() {
    assert!(run("ring-figure-7", &[]) == run("ring-figure-7", &[]));
}
