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
fn terminals_figure_9_is_as_recorded() {
    is_as_recorded("terminals-figure-9", &[]);
}

#[test]
#[cfg_attr(debug_assertions, ignore = "long without optimization: --release")]
fn terminals_figure_10_is_as_recorded() {
    is_as_recorded("terminals-figure-10", &[]);
}

#[test]
fn terminals_figure_11_is_as_recorded() {
    is_as_recorded("terminals-figure-11", &[]);
}

#[test]
fn terminals_stacks_is_as_recorded() {
    is_as_recorded("terminals-stacks", &[]);
}

#[test]
#[cfg_attr(debug_assertions, ignore = "long without optimization: --release")]
fn terminals_disk_is_as_recorded() {
    is_as_recorded("terminals-disk", &[]);
}

#[test]
#[cfg_attr(debug_assertions, ignore = "long without optimization: --release")]
fn terminals_abr_is_as_recorded() {
    is_as_recorded("terminals-abr", &[]);
}

#[test]
fn terminals_figure_12_is_as_recorded() {
    is_as_recorded("terminals-figure-12", &[]);
}

#[test]
#[cfg_attr(debug_assertions, ignore = "long without optimization: --release")]
fn checks_fail_when_what_they_judge_is_broken() {
    fails("terminals-figure-8", &[("copy_us", "1")], "T3");
    // A PDU that costs a PC more than all of its cells.
    fails("terminals-figure-8", &[("pdu_us", "50000")], "T3");
    fails("terminals-crc", &[("crc_us", "0.5")], "T6");
    fails("terminals-polling", &[("interrupt_us", "15")], "T7");
    fails("terminals-polling", &[("queue_us", "20")], "T7");
    fails("terminals-figure-11", &[("tcp_us", "1000")], "T8");
    fails("terminals-figure-11", &[("xtp_us", "50000")], "T8");
    fails("terminals-figure-11", &[("copy_us", "1")], "T8");
    let short = ("milliseconds", "5000");
    fails("terminals-disk", &[("disk_octet_s", "200000"), short], "T8");
    // A board that makes the cells leaves the processor to the other VC.
    fails("terminals-stacks", &[("second", "disk/packet")], "S");
    // A bus that carries less than the line.
    fails("terminals-stacks", &[("bus_us", "5")], "S");
    let (short, few) = (("milliseconds", "200"), ("step_cells", "8"));
    fails(
        "terminals-figure-9",
        &[("pdu_us", "20000"), short, few],
        "T5",
    );
    // More than the PC has cells.
    fails(
        "terminals-figure-9",
        &[("rate_cell_s", "12000"), short, few],
        "T5",
    );
}
