//! The experiments of *L4ATM*: each as it was recorded, and seen to fail where a constant is wrong.
#![cfg(not(any(miri, loom)))]

use crate::recorded::{failed, is_as_recorded, run};

/// Of 22 hours, a few minutes.
const SHORT: [(&str, &str); 3] = [
    ("samples", "100"),
    ("loaded_samples", "48"),
    ("datagrams", "2000"),
];

#[test]
fn the_worked_example_and_the_equations_are_as_recorded() {
    is_as_recorded("l4atm-example", &[]);
    is_as_recorded("l4atm-lambda", &[]);
}

#[test]
#[cfg_attr(debug_assertions, ignore = "long without optimization: --release")]
fn the_tables_are_as_recorded() {
    is_as_recorded("l4atm-table-1", &[]);
    let short = [("seconds", "130"), ("world_seconds", "8")];
    is_as_recorded("l4atm-table-2", &short);
}

#[test]
fn the_figures_of_one_connection_are_as_recorded() {
    is_as_recorded("l4atm-figure-5", &[]);
    is_as_recorded("l4atm-figure-6", &[("seconds", "10")]);
    is_as_recorded("l4atm-figure-10", &SHORT);
}

#[test]
fn writers_that_come_and_go_are_as_recorded() {
    is_as_recorded("l4atm-figure-8", &[("minutes", "60")]);
}

#[test]
#[cfg_attr(debug_assertions, ignore = "long without optimization: --release")]
fn time_sharing_beside_a_connection_is_as_recorded() {
    is_as_recorded("l4atm-figure-9", &[("minutes", "10")]);
}

#[test]
fn what_random_numbers_decide_is_the_same_in_each_run() {
    assert_eq!(
        run("l4atm-figure-10", &SHORT),
        run("l4atm-figure-10", &SHORT)
    );
}

#[test]
#[cfg_attr(debug_assertions, ignore = "long without optimization: --release")]
fn a_wrong_constant_is_seen() {
    let never = [SHORT[0], SHORT[1], SHORT[2], ("premature_percent", "0")];
    for (name, changes, fails) in [
        ("l4atm-table-1", &[("driver_us", "150")][..], "Linux RX"),
        ("l4atm-table-1", &[("reader_us", "700")], "L4ATM RX"),
        (
            "l4atm-table-2",
            &[
                ("seconds", "130"),
                ("clock_step_us", "30000"),
                ("world_seconds", "8"),
            ],
            "rate sent, 3000000 octets/s requested",
        ),
        (
            "l4atm-figure-9",
            &[("minutes", "1"), ("job_cpu_ms", "700")],
            "jobs per minute and user at a load of 75",
        ),
        (
            "l4atm-figure-10",
            &never,
            "the rate exceeds the reserved one as the load grows",
        ),
    ] {
        let failed = failed(&run(name, changes));
        let found = failed.iter().any(|what| what.ends_with(fails));
        assert!(found, "{name} with {changes:?}: only {failed:?}");
    }
}
