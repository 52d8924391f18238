//! Best-effort work: a process that counts loops for as long as it lives.

use std::hint::black_box;

use cellgate_host::clock::{MonotonicClock, process_cpu_ns};
use cellgate_host::sys::{begin_session, name_thread};

use super::actor::{Loops, Task};
use crate::live::actor::{Ear, Mouth, started};

/// Loops between two readings of the clock.
const LOOPS: u64 = 10_000;

pub(crate) fn run() -> anyhow::Result<()> {
    let (mut mouth, mut ear, alone): (Mouth, Ear, bool) = started()?;
    name_thread("cg-spinner");
    if alone {
        begin_session();
    }
    let mut state = 1_u64;
    while let Some(Task { begin, end, .. }) = ear.hear::<Task>()? {
        super::spin_until(begin, &mut state);
        let (cpu_ns, mut loops) = (process_cpu_ns(), 0_u64);
        while MonotonicClock.now() < end {
            for _ in 0..LOOPS {
                state = black_box(
                    state
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1),
                );
            }
            loops += LOOPS;
        }
        let cpu_ns = process_cpu_ns() - cpu_ns;
        mouth.say(&Loops { loops, cpu_ns })?;
    }
    Ok(())
}
