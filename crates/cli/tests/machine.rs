//! A machine that has less than the configuration says. What it lacks itself is skipped, and said.

mod daemon;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use cellgate::{Error, Refused, Resource, Settings};
use daemon::{Daemon, eventually};

/// A control group of memory, gone when dropped; of version 1 or 2, whichever there is.
struct Group {
    directory: PathBuf,
    limit: &'static str,
    usage: &'static str,
}

impl Group {
    /// Why there is none, if there is none.
    fn new() -> Result<Self, String> {
        let name = format!("cellgate-test-{}", std::process::id());
        let (top, limit, usage) = match fs::exists("/sys/fs/cgroup/memory/memory.limit_in_bytes") {
            Ok(true) => (
                "/sys/fs/cgroup/memory",
                "memory.limit_in_bytes",
                "memory.usage_in_bytes",
            ),
            _ => ("/sys/fs/cgroup", "memory.max", "memory.current"),
        };
        let group = Self {
            directory: PathBuf::from(top).join(name),
            limit,
            usage,
        };
        let made = fs::create_dir(&group.directory);
        made.map_err(|error| format!("no control group: {error}"))?;
        group.set_limit(LIMIT)?;
        Ok(group)
    }

    fn set_limit(&self, octets: u64) -> Result<(), String> {
        let set = fs::write(self.directory.join(self.limit), octets.to_string());
        set.map_err(|error| format!("no limit of memory: {error}"))
    }

    fn usage(&self) -> u64 {
        let text = fs::read_to_string(self.directory.join(self.usage)).expect("it is told");
        text.trim().parse().expect("a number")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for _ in 0..100 {
            if fs::remove_dir(&self.directory).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

const LIMIT: u64 = 150 << 20;

/// A connection with some 20 MiB of memory.
const LARGE: &str = "ubr,aal5:max_sdu=65535";
