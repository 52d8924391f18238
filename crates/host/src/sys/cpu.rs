use std::io;

use rustix::process::Pid;

/// CPU time of another process, all threads, in nanoseconds.
///
/// # Errors
/// The process does not exist (a zombie still does), or may not be looked at.
pub fn cpu_ns_of(pid: Pid) -> io::Result<u64> {
    let mut clock: libc::clockid_t = 0;
    // SAFETY: `clock` is a valid place for the one clock identifier that the call writes.
    let error = unsafe { libc::clock_getcpuclockid(pid.as_raw_nonzero().get(), &raw mut clock) };
    if error != 0 {
        return Err(io::Error::from_raw_os_error(error));
    }
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid place for the one timespec that the call writes.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// The CPU's time stamp counter, for benches; none where there is none.
#[inline(always)]
pub fn tsc() -> Option<u64> {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: RDTSC is part of the x86-64 baseline; Linux leaves it readable to user space.
        Some(unsafe { core::arch::x86_64::_rdtsc() })
    }
    #[cfg(not(target_arch = "x86_64"))]
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_cpu_time_of_a_process_by_its_id() {
        let me = rustix::process::getpid();
        let before = cpu_ns_of(me).unwrap();
        while cpu_ns_of(me).unwrap() == before {
            std::hint::spin_loop();
        }
        // Linux gives no process an identifier beyond 2^22.
        assert!(cpu_ns_of(Pid::from_raw(4_194_305).unwrap()).is_err());
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn the_time_stamp_counter_counts() {
        let before = tsc().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(1));
        assert!(tsc().unwrap() > before);
    }
}
