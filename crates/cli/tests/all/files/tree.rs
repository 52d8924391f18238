//! A tree of files to be put, and whether another is the same.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::daemon::octets;

/// Where files are before they are whole.
pub(super) const PARTIAL: &str = ".cellgate-partial";

/// What is known of an entry.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Known {
    mode: u32,
    modified: (i64, i64),
    what: What,
}

#[derive(Clone, PartialEq, Eq)]
enum What {
    File(Vec<u8>),
    Directory,
    Link(PathBuf),
}

impl std::fmt::Debug for Known {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let what = match &self.what {
            What::File(octets) => format!("{} octets", octets.len()),
            What::Directory => "directory".to_owned(),
            What::Link(to) => format!("link to {}", to.display()),
        };
        write!(f, "{what} {:o} {:?}", self.mode, self.modified)
    }
}

/// Makes large and small files, one with holes, directories and links, with modes and times of
/// their own. Octets of data in it.
pub(super) fn make(root: &Path) -> u64 {
    let mut data = 0;
    fs::create_dir(root).expect("a directory");
    for directory in ["many", "many/inner", "empty"] {
        fs::create_dir(root.join(directory)).expect("a directory");
    }
    let mut put = |path: &str, octets: &[u8]| {
        fs::write(root.join(path), octets).expect("a file");
        data += octets.len() as u64;
    };
    put("large", &octets(3 << 20));
    put("odd", &octets((1 << 20) + 70_001));
    for n in 0..40 {
        let path = ["many", "many/inner"][n % 2];
        put(&format!("{path}/{n}"), &octets(n * n * 13));
    }
    put("name \u{1b}[2J\n", b"no name of a terminal");
    let sparse = File::create(root.join("sparse")).expect("a file");
    sparse.set_len(12 << 20).expect("a hole");
    for at in [0, (5 << 20) + 12_288, 9 << 20] {
        sparse.write_all_at(&octets(300_000), at).expect("octets");
        data += 300_000;
    }
    symlink("large", root.join("link")).expect("a link");
    symlink("/nowhere/at all", root.join("many/dangling")).expect("a link");
    for (n, (path, known)) in known(root).iter().enumerate() {
        if matches!(known.what, What::Link(_)) {
            continue;
        }
        let path = root.join(path);
        let modes = [0o644, 0o600, 0o755, 0o4711];
        let mode = match known.what {
            What::Directory => 0o750,
            _ => modes[n % modes.len()],
        };
        fs::set_permissions(&path, Permissions::from_mode(mode)).expect("it is ours");
    }
    // Directories behind what is in them.
    for (n, (path, known)) in known(root).iter().enumerate().rev() {
        if !matches!(known.what, What::Link(_)) {
            let since = Duration::new(1_000_000_000 + n as u64, 123_456_789);
            let file = File::open(root.join(path)).expect("a file");
            file.set_modified(SystemTime::UNIX_EPOCH + since)
                .expect("it is ours");
        }
    }
    data
}

/// All that is in a directory, by path, but for unfinished files.
pub(super) fn known(root: &Path) -> BTreeMap<PathBuf, Known> {
    let mut all = BTreeMap::new();
    let mut directories = vec![PathBuf::new()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(root.join(&directory)).expect("a directory") {
            let name = entry.expect("an entry").file_name();
            let path = directory.join(name);
            if path == Path::new(PARTIAL) {
                continue;
            }
            let at = root.join(&path);
            let found = fs::symlink_metadata(&at).expect("it is there");
            let what = if found.is_dir() {
                directories.push(path.clone());
                What::Directory
            } else if found.is_symlink() {
                What::Link(fs::read_link(&at).expect("a link"))
            } else {
                What::File(fs::read(&at).expect("a file"))
            };
            let is_link = found.is_symlink();
            let known = Known {
                mode: found.mode(),
                // Times of links are not kept.
                modified: match is_link {
                    true => (0, 0),
                    false => (found.mtime(), found.mtime_nsec()),
                },
                what,
            };
            all.insert(path, known);
        }
    }
    all
}

/// Whether both are the same, and holes are holes.
pub(super) fn assert_same(from: &Path, to: &Path) {
    let (from_all, to_all) = (known(from), known(to));
    for (path, known) in &from_all {
        assert_eq!(Some(known), to_all.get(path), "{path:?}");
    }
    assert_eq!(from_all.len(), to_all.len(), "{:?}", to_all.keys());
    for path in from_all.keys() {
        let blocks = |root: &Path| {
            fs::symlink_metadata(root.join(path))
                .expect("there")
                .blocks()
        };
        let (had, has) = (blocks(from), blocks(to));
        assert!(has <= had + 64, "{path:?}: {had} blocks became {has}");
    }
}

/// Looks at a tree that is being put, until it is dropped: whatever has a name there is whole.
pub(super) struct Watcher {
    ends: std::sync::Arc<std::sync::atomic::AtomicBool>,
    thread: Option<std::thread::JoinHandle<u64>>,
}

impl Watcher {
    pub(super) fn new(from: &Path, to: &Path) -> Self {
        let expected = known(from);
        let to = to.to_owned();
        let ends = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let told = std::sync::Arc::clone(&ends);
        let thread = std::thread::spawn(move || {
            let mut seen = BTreeMap::new();
            let mut looks = 0;
            while !told.load(std::sync::atomic::Ordering::Relaxed) {
                look(&to, &expected, &mut seen);
                looks += 1;
                std::thread::sleep(Duration::from_millis(3));
            }
            looks
        });
        Self {
            ends,
            thread: Some(thread),
        }
    }

    /// Ends it: it has looked, and found nothing.
    pub(super) fn end(mut self) {
        self.ends.store(true, std::sync::atomic::Ordering::Relaxed);
        let thread = self.thread.take().expect("it ends once");
        assert!(thread.join().expect("each name was whole") > 0);
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.ends.store(true, std::sync::atomic::Ordering::Relaxed);
    }
}

/// Each file once for each inode that has its name.
fn look(root: &Path, expected: &BTreeMap<PathBuf, Known>, seen: &mut BTreeMap<PathBuf, u64>) {
    for (path, known) in expected {
        let What::File(octets) = &known.what else {
            continue;
        };
        let at = root.join(path);
        let Ok(found) = fs::symlink_metadata(&at) else {
            continue;
        };
        if seen.get(path) == Some(&found.ino()) {
            continue;
        }
        assert_eq!(found.len(), octets.len() as u64, "{path:?}");
        assert_eq!(found.mode(), known.mode, "{path:?}");
        assert!(fs::read(&at).expect("a file") == *octets, "{path:?}");
        seen.insert(path.clone(), found.ino());
    }
}
