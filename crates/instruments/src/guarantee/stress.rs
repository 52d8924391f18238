//! Memory and I/O load that grows in stages, by stress-ng.

use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use cellgate_core::Time;
use cellgate_host::clock::MonotonicClock;

/// Stages that begin at even distances; each adds a process that writes to memory and one that
/// writes to a file. Dropped, all end.
pub(super) struct Ramp {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<usize>>,
}

impl Ramp {
    /// So many stages from `begin` on, the last of them until the ramp ends.
    pub(super) fn start(stages: usize, begin: Time, end: Time) -> Self {
        let (stop, stopped) = mpsc::channel();
        let each_ns = end.since_ns(begin) / stages.max(1) as u64;
        let thread = thread::spawn(move || {
            let mut running = Vec::new();
            for stage in 0..stages as u64 {
                let at = begin.plus_ns(stage * each_ns);
                let left = Duration::from_nanos(at.since_ns(MonotonicClock.now()));
                match stopped.recv_timeout(left) {
                    Err(RecvTimeoutError::Timeout) => {}
                    Ok(()) | Err(RecvTimeoutError::Disconnected) => return running.len(),
                }
                let Some(stress) = Stress::start() else {
                    break;
                };
                running.push(stress);
            }
            // Nobody says anything: it ends with the ramp.
            let _ = stopped.recv();
            running.len()
        });
        Self {
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// Ends the load: the stages that there were; 0 if stress-ng is not installed.
    pub(super) fn end(mut self) -> usize {
        self.join()
    }

    fn join(&mut self) -> usize {
        drop(self.stop.take());
        let thread = self.thread.take();
        // A thread that has panicked has started nothing that counts.
        thread.map_or(0, |thread| thread.join().unwrap_or(0))
    }
}

impl Drop for Ramp {
    fn drop(&mut self) {
        self.join();
    }
}

/// stress-ng's load on memory and I/O; it ends when this is dropped.
struct Stress(Child);

impl Stress {
    /// None: it is not installed.
    fn start() -> Option<Self> {
        let words = [
            "--vm",
            "1",
            "--vm-bytes",
            "64M",
            "--hdd",
            "1",
            "--hdd-bytes",
            "64M",
        ];
        let child = Command::new("stress-ng")
            .args(words)
            .current_dir(std::env::temp_dir())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        child.ok().map(Self)
    }
}

impl Drop for Stress {
    fn drop(&mut self) {
        // SIGTERM, so that it ends its own children; it fails only if it has ended.
        let pid = rustix::process::Pid::from_child(&self.0);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.0.wait();
    }
}
