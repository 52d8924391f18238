//! The control groups that this process is in, each with all above it, as the kernel shows them in
//! files: of version 2, of version 1, or of both at once.

use std::fs;
use std::path::{Path, PathBuf};

/// Of a file.
const LEN_MAX: usize = 1 << 20;

/// A group's directory of one controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    directory: PathBuf,
    /// As the kernel names it.
    pub(super) name: String,
    version: Version,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// What a group leaves of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Memory {
    /// Octets.
    pub(super) limit: u64,
    /// Of these, what can be had of the kernel only by taking it from a process.
    pub(super) used: u64,
    /// The limit's file.
    pub(super) file: &'static str,
}

/// The groups of a controller, the own first, then those above it.
pub(super) fn groups(root: &Path, controller: &str) -> Vec<Group> {
    let Some((own, mounts)) = text(root, "proc/self/cgroup").zip(text(root, "proc/self/mountinfo"))
    else {
        return Vec::new();
    };
    let of_one = own.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let mut all = controllers.split(',');
        all.any(|one| one == controller)
            .then_some((Version::One, path))
    });
    let of_two = || {
        Some((
            Version::Two,
            own.lines().find_map(|line| line.strip_prefix("0::"))?,
        ))
    };
    let Some((version, path)) = of_one.or_else(of_two) else {
        return Vec::new();
    };
    let mount = mounts.lines().find_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        let mut kind = kind.split(' ');
        let system = kind.next()?;
        let options = kind.next_back()?;
        let fits = match version {
            Version::One => system == "cgroup" && options.split(',').any(|one| one == controller),
            Version::Two => system == "cgroup2",
        };
        let mut place = place.split(' ').skip(3);
        let (top, at) = (place.next()?, place.next()?);
        fits.then_some((top, at))
    });
    let Some((top, at)) = mount else {
        return Vec::new();
    };
    // What is mounted may begin below the top. A path outside of it is another namespace's.
    let below = Path::new(path).strip_prefix(top).unwrap_or(Path::new(""));
    let at = root.join(at.trim_start_matches('/'));
    let mut all = Vec::new();
    for part in below.ancestors() {
        let shown = Path::new(top).join(part);
        all.push(Group {
            directory: at.join(part),
            name: shown.display().to_string(),
            version,
        });
    }
    all
}

impl Group {
    fn text(&self, name: &str) -> Option<String> {
        text(&self.directory, name)
    }

    /// A number; none: no limit, or no such file.
    fn number(&self, name: &str) -> Option<u64> {
        self.text(name)?.trim().parse().ok()
    }

    /// What it leaves of memory, where it has a limit.
    pub(super) fn memory(&self) -> Option<Memory> {
        let (files, usage, cache): (&[_], _, &[_]) = match self.version {
            Version::One => (
                &["memory.limit_in_bytes"],
                "memory.usage_in_bytes",
                &["total_inactive_file", "total_active_file"],
            ),
            Version::Two => (
                &["memory.max", "memory.high"],
                "memory.current",
                &["inactive_file", "active_file", "slab_reclaimable"],
            ),
        };
        let limits = files.iter().filter_map(|file| {
            let limit = self.number(file)?;
            // Version 1 writes no limit as the largest number of pages.
            (limit < i64::MAX as u64 / 2).then_some((limit, *file))
        });
        let (limit, file) = limits.min()?;
        let stat = self.text("memory.stat").unwrap_or_default();
        let cache = stat.lines().filter_map(|line| {
            let (name, octets) = line.split_once(' ')?;
            cache.contains(&name).then(|| octets.trim().parse().ok())?
        });
        let cache: u64 = cache.fold(0, u64::saturating_add);
        let used = self.number(usage).unwrap_or(0).saturating_sub(cache);
        Some(Memory { limit, used, file })
    }

    /// What it may have of the CPUs, in millionths of one, and the limit's file.
    pub(super) fn cpu_ppm(&self) -> Option<(u64, &'static str)> {
        let (quota, period, file) = match self.version {
            Version::One => (
                self.number("cpu.cfs_quota_us")?,
                self.number("cpu.cfs_period_us")?,
                "cpu.cfs_quota_us",
            ),
            Version::Two => {
                let text = self.text("cpu.max")?;
                let (quota, period) = text.trim().split_once(' ')?;
                (quota.parse().ok()?, period.parse().ok()?, "cpu.max")
            }
        };
        let ppm = u128::from(quota) * 1_000_000;
        let ppm = ppm.checked_div(period.into())?;
        Some((u64::try_from(ppm).unwrap_or(u64::MAX), file))
    }

    /// How many CPUs it may use, and the file that says so.
    pub(super) fn cpus(&self) -> Option<(u64, &'static str)> {
        let file = match self.version {
            Version::One => "cpuset.effective_cpus",
            Version::Two => "cpuset.cpus.effective",
        };
        let text = self.text(file)?;
        let count = text.trim().split(',').map(|span| {
            let (first, last) = span.split_once('-').unwrap_or((span, span));
            let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
            last.checked_sub(first)?.checked_add(1)
        });
        let count = count.sum::<Option<u64>>()?;
        Some((count, file))
    }
}

fn text(directory: &Path, name: &str) -> Option<String> {
    let text = fs::read_to_string(directory.join(name)).ok()?;
    (text.len() <= LEN_MAX).then_some(text)
}
