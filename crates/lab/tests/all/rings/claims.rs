//! Each claim of the ring's experiments fails where what it rests on is wrong.

use std::collections::BTreeSet;

use crate::recorded::{failed, run};
use cellgate_lab::experiments::find;
use cellgate_report::{Check, Class};

/// A wrong setting, by key and value.
type Wrong = (&'static str, &'static str);

/// The claims that fail with one of these, or that are judged, with none.
fn claims(name: &str, wrong: Option<Wrong>) -> BTreeSet<String> {
    let checks = run(name, wrong.as_slice()).checks;
    let is_meant = |check: &&Check| match wrong {
        Some(_) => !check.pass,
        None => check.class != Class::Lost,
    };
    let named = |check: &Check| {
        let reading = check.reading.as_deref().unwrap_or("");
        format!("{}: {} {reading}", check.id, check.what)
    };
    checks.iter().filter(is_meant).map(named).collect()
}

/// An experiment, wrong settings with which each claim fails once, and claims that hold whatever
/// is set: what the machines are says so, and no constant.
type Broken = (&'static str, &'static [Wrong], &'static [&'static str]);

fn are_seen(all: &[Broken]) {
    let mut found = Vec::new();
    for (name, wrong, whatever) in all {
        let mut left = claims(name, None);
        for wrong in *wrong {
            let fails = claims(name, Some(*wrong));
            if fails.is_empty() {
                found.push(format!("{name}: {wrong:?} is not seen"));
            }
            left.retain(|claim| !fails.contains(claim));
        }
        let left: Vec<_> = left.iter().map(|claim| claim.trim_end()).collect();
        if left != *whatever {
            found.push(format!("{name}: {left:#?}"));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Each parameter by so many per cent of its default.
fn moved(name: &str, key: &str, percent: i32) -> String {
    let parameters = find(name).unwrap().parameters();
    let parameter = parameters.iter().find(|parameter| parameter.key == key);
    let default: f64 = parameter.unwrap().default_text().parse().unwrap();
    format!("{:.4}", default * f64::from(percent) / 100.0)
}

/// Of these each is seen in both directions.
#[test]
#[cfg_attr(debug_assertions, ignore = "long without optimization: --release")]
fn a_wrong_constant_is_seen() {
    const ALL: [(&str, &[&str]); 13] = [
        (
            "ring-arithmetic",
            &["rotation_us", "ram_cycle_ns", "line_mhz", "copy_us"],
        ),
        ("ring-dma", &["protocol_us", "dma_word_ns", "handshake_ns"]),
        ("ring-duplex", &["handshake_ns"]),
        (
            "ring-figure-4",
            &["handshake_ns", "transmit_cycles", "buffers_us"],
        ),
        ("ring-figure-5", &["handshake_ns", "receive_cycles"]),
        ("ring-figure-6", &["handshake_ns", "receive_cycles"]),
        ("ring-figure-7", &["handshake_ns", "receive_cycles"]),
        ("ring-figure-8", &["ether_word_ns", "ether_start_us"]),
        ("ring-figure-9", &["ansa_us"]),
        (
            "ring-foreseen",
            &["cell_us", "handshake_ns", "transmit_cycles"],
        ),
        ("ring-ram", &["ram_cycle_ns", "rotation_us", "handshake_ns"]),
        ("ring-slots", &["rotation_us"]),
        ("ring-stations", &["rotation_us", "station_mbit_s"]),
    ];
    for (name, keys) in ALL {
        for key in keys {
            for percent in [95, 105] {
                let value = moved(name, key, percent);
                let fails = failed(&run(name, &[(key, &value)]));
                assert!(!fails.is_empty(), "{name}: {key} = {value} is not seen");
            }
        }
    }
}

#[test]
fn claims_of_arithmetic_formats_and_tables_fail_when_what_they_judge_is_broken() {
    are_seen(&[
        (
            "ring-arithmetic",
            &[
                ("rotation_us", "23.8"),
                ("frames", "8"),
                ("ram_cycle_ns", "328"),
                ("fifo_cells", "243"),
                ("line_mhz", "537"),
                ("data_octets", "34"),
                ("copy_us", "12.6"),
                ("short_mbit_s", "52.5"),
                ("long_mbit_s", "78.75"),
            ],
            &[],
        ),
        (
            "ring-formats",
            &[
                ("vci_bits", "15"),
                ("data_bits", "271"),
                ("sequence_bits", "7"),
                ("rid_bits", "5"),
            ],
            &[],
        ),
        (
            "ring-tables",
            &[
                ("channels", "3"),
                ("transmit_call", "11"),
                ("check_broadcast", "3"),
                ("select_channel", "11"),
                ("transmit_cell", "13"),
                ("receive_call", "14"),
                ("look_up", "11"),
                ("receive_cell", "15"),
                ("interrupt_call", "4"),
                ("interrupt_entry", "5"),
                ("back_to_routine", "8"),
                ("deschedule", "3"),
                ("save_state", "13"),
            ],
            &[],
        ),
    ]);
}

/// By 5 per cent.
const SLOWER: Wrong = ("handshake_ns", "1071.9");
const SLOWER_RECEIVER: Wrong = ("receive_cycles", "9.0471");
const SLOWER_RING: Wrong = ("rotation_us", "23.9");
/// Slower than the receiver.
const SLOW_SENDER: Wrong = ("transmit_cycles", "12");
/// Instructions that cost nothing.
const FREE_RECEIVER: Wrong = ("receive_cycles", "0");

#[test]
#[cfg_attr(debug_assertions, ignore = "long without optimization: --release")]
fn claims_of_figures_fail_when_what_they_judge_is_broken() {
    are_seen(&[
        (
            "ring-figure-4",
            &[("buffers_us", "236.1"), ("transmit_cycles", "6.825")],
            &[],
        ),
        (
            "ring-figure-5",
            &[SLOWER_RECEIVER, FREE_RECEIVER],
            &["5: longer blocks are faster"],
        ),
        (
            "ring-figure-6",
            &[SLOWER_RECEIVER, FREE_RECEIVER, SLOW_SENDER],
            &["6: furthest from a straight line, of 16 cells and more"],
        ),
        (
            "ring-figure-7",
            &[SLOWER, SLOWER_RECEIVER, SLOW_SENDER],
            &[],
        ),
        (
            "ring-figure-8",
            &[
                ("ether_start_us", "598.9"),
                ("ether_word_ns", "884"),
                ("handshake_ns", "5000"),
            ],
            &[],
        ),
        (
            "ring-figure-9",
            &[
                ("ansa_us", "3000"),
                ("result_percent", "95"),
                ("ether_start_us", "400"),
                ("ether_start_us", "1100"),
            ],
            &[],
        ),
    ]);
}

#[test]
#[cfg_attr(debug_assertions, ignore = "long without optimization: --release")]
fn claims_of_ring_and_station_fail_when_what_they_judge_is_broken() {
    are_seen(&[
        (
            "ring-ram",
            &[("ram_cycle_ns", "328.2"), SLOWER_RING, SLOWER],
            &[],
        ),
        (
            "ring-slots",
            &[SLOWER_RING, ("frames", "8"), ("reuse", "at_once")],
            &["slots: the same, slots reused at once"],
        ),
        ("ring-stations", &[("station_mbit_s", "24.3")], &[]),
        (
            "ring-dma",
            &[
                SLOWER,
                ("dma_word_ns", "932"),
                ("lock", "0"),
                ("dma_word_ns", "1"),
            ],
            &["C12: cells lost, each by a bus error"],
        ),
        ("ring-duplex", &[SLOWER, ("receive_cycles", "4")], &[]),
        (
            "ring-foreseen",
            &[
                ("cell_us", "5.376"),
                SLOWER,
                ("transmit_cycles", "6.825"),
                SLOWER_RECEIVER,
                ("fifo_cells", "4096"),
            ],
            &[
                "foreseen: a ping of one circuit alone over the same with one FIFO",
                "foreseen: the same, a FIFO for each circuit",
            ],
        ),
    ]);
}

#[test]
#[cfg_attr(debug_assertions, ignore = "long without optimization: --release")]
fn claims_of_queues_fail_when_what_they_judge_is_broken() {
    are_seen(&[
        (
            "ring-overflow",
            &[
                ("fifo_cells", "243"),
                ("fifo_cells", "600"),
                SLOWER_RECEIVER,
                ("receive_cycles", "6.6"),
            ],
            &[],
        ),
        (
            "ring-load",
            &[
                SLOW_SENDER,
                ("receive_cycles", "3"),
                ("receive_cycles", "12"),
                ("handshake_ns", "2000"),
                ("rotation_us", "25"),
                SLOWER,
            ],
            &[
                "load: ping falls with the load by at most",
                "load: the same where others offer 95 %",
            ],
        ),
    ]);
}

#[test]
#[cfg_attr(debug_assertions, ignore = "long without optimization: --release")]
fn claims_of_interrupts_fail_when_what_they_judge_is_broken() {
    are_seen(&[(
        "ring-interrupts",
        &[
            SLOWER,
            ("handshake_ns", "5000"),
            ("slow_us", "15"),
            ("slow_us", "80"),
        ],
        &[
            "interrupts: last of a block of 255 cells, 50 us apart",
            "interrupts: the best other dally, over hindsight, at most",
        ],
    )]);
}
