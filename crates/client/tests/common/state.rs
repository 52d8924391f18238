//! The state directory of a daemon for tests, which then measures nothing and waits for nobody.

use std::path::Path;

use cellgate_core::server::{Direction, Former, Sample};
use cellgate_host::server::{Calibration, Machine};
use cellgate_host::sys::{WakeUp, allowed_cpus};

/// Tells the daemon that will have `directory` what cells and PDUs cost, and that no daemon before
/// it has left anything.
pub(crate) fn write(directory: &Path, calibration: &[u8]) {
    std::fs::write(directory.join("calibration.json"), calibration).unwrap();
    std::fs::write(directory.join("lock"), Former::ENDED).unwrap();
}

/// Cells and PDUs cost next to nothing: whether a contract is admitted depends on no machine and on
/// no build.
pub(crate) fn calibration() -> Vec<u8> {
    let sample = |direction, sdu, pdus| Sample {
        direction,
        sdu,
        cells: 1_000,
        pdus,
        ns: 10_000,
    };
    let samples = |direction| {
        // One, ten, a hundred cells.
        [(40, 1_000), (472, 100), (4_792, 10)].map(|(sdu, pdus)| sample(direction, sdu, pdus))
    };
    let samples = [samples(Direction::Transmit), samples(Direction::Receive)].concat();
    let wake_up = WakeUp {
        p50_ns: 10_000,
        p99_ns: 20_000,
        p999_ns: 50_000,
        max_ns: 100_000,
    };
    let wake_ups = allowed_cpus().into_iter().map(|cpu| (cpu, wake_up));
    let calibration = Calibration {
        machine: Machine::present(),
        samples: samples.clone(),
        workers: samples,
        without_tcp: None,
        had_devices: true,
        wake_ups: wake_ups.collect(),
    };
    calibration.octets()
}
