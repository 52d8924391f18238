//! Files of the terminal on real file systems.

mod digest;
mod group;
mod journal;
mod partial;
mod paths;
mod room;
mod walk;

use std::fs;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use cellgate_core::terminal::Store;
use cellgate_host::terminal::disk::{self, *};
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

/// The directory of unfinished files.
const PARTIAL: &str = ".cellgate-partial";

/// The shortest disk-PDUs there are.
const SHORT: DiskLen = DiskLen::MIN;
const LEN: usize = SHORT.octets() as usize;

/// A directory that goes with its test.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        Self::below(&std::env::temp_dir(), name)
    }

    /// Where syncing waits for no disk, if there is such a place.
    fn in_memory(name: &str) -> Self {
        let memory = Path::new("/dev/shm");
        match memory.is_dir() {
            true => Self::below(memory, name),
            false => Self::new(name),
        }
    }

    fn below(directory: &Path, name: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("cellgate-disk-{name}-{}-{count}", std::process::id());
        let path = directory.join(name);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn root(&self) -> Root {
        Root::open(&self.0).unwrap()
    }

    /// All that is in it, in order.
    fn names(&self) -> Vec<String> {
        names(&self.0)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    let mut names: Vec<String> = entries.map(|entry| name(entry.unwrap())).collect();
    names.sort();
    names
}

fn path(octets: impl AsRef<[u8]>) -> PathBelow {
    PathBelow::new(octets.as_ref()).unwrap()
}

/// Octets that no other seed has.
fn octets(seed: u64, len: usize) -> Vec<u8> {
    let mut octets = vec![0; len];
    Pcg64Mcg::new(seed.into()).fill_bytes(&mut octets);
    octets
}

/// What is known of a file at the sender, which lies in a directory of its own.
fn source(place: &Place, octets: &[u8]) -> Entry {
    let file = place.at("source");
    fs::write(&file, octets).unwrap();
    place.root().stat(&path("source")).unwrap().unwrap()
}

fn digest(octets: &[u8], index: u64) -> Digest {
    let offset = index * LEN as u64;
    let end = octets.len().min(offset as usize + LEN);
    let digest = Digesting::new(offset)
        .octets(&octets[offset as usize..end])
        .digest();
    digest.unwrap()
}

/// Receives the disk-PDU `index` of `octets` in cells. Whether it was right.
fn receive(partial: &mut Partial, octets: &[u8], index: u64) -> bool {
    let range = SHORT.range(index, octets.len() as u64);
    partial.make_room(range.clone()).unwrap();
    let mut at = range.start;
    for cell in octets[range.start as usize..range.end as usize].chunks(48) {
        partial.write(at, cell);
        at += cell.len() as u64;
    }
    let len = (range.end - range.start) as u32;
    let expected = digest(octets, index);
    partial.check(index, range.start, len, &expected).unwrap()
}

fn open(place: &Place, name: &str, source: &Entry) -> Opened {
    disk::open(&place.root(), &path(name), source, Some(source.size), SHORT).unwrap()
}

/// One run of disk-PDUs.
fn one(run: Range<u64>) -> Vec<Range<u64>> {
    vec![run]
}

/// The one journal or file in the directory of unfinished files.
fn part(place: &Place, ending: &str) -> PathBuf {
    let directory = place.at(PARTIAL);
    let names = names(&directory);
    let mut found = names.iter().filter(|name| name.ends_with(ending));
    let name = found.next().unwrap();
    assert!(found.next().is_none(), "{names:?}");
    directory.join(name)
}

fn os(octets: &[u8]) -> &Path {
    Path::new(std::ffi::OsStr::from_bytes(octets))
}
