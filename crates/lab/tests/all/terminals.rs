//! The experiments of *High Performance ATM Terminals*: each as it was recorded, and seen to fail
//! where a constant is wrong.
#![cfg(not(any(miri, loom)))]

use crate::recorded::{fails, is_as_recorded};

#[test]
fn terminals_arithmetic_is_as_recorded() {
    is_as_recorded("terminals-arithmetic", &[]);
}

#[test]
fn terminals_figure_8_is_as_recorded() {
    is_as_recorded("terminals-figure-8", &[]);
}

#[test]
fn terminals_crc_is_as_recorded() {
    is_as_recorded("terminals-crc", &[]);
}

#[test]
fn terminals_polling_is_as_recorded() {
    is_as_recorded("terminals-polling", &[]);
}

#[test]
#[cfg_attr(debug_assertions, ignore = "long without optimization: --release")]
fn terminals_figure_10_is_as_recorded() {
    is_as_recorded("terminals-figure-10", &[]);
}

#[test]
fn checks_fail_when_what_they_judge_is_broken() {
    fails("terminals-figure-8", &[("copy_us", "1")], "T3");
    // A PDU that costs a PC more than all of its cells.
    fails("terminals-figure-8", &[("pdu_us", "50000")], "T3");
    fails("terminals-crc", &[("crc_us", "0.5")], "T6");
    fails("terminals-polling", &[("interrupt_us", "15")], "T7");
    fails("terminals-polling", &[("queue_us", "20")], "T7");
}
