//! On a disk that is too small.

use super::*;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

/// A file system of 4 MiB in memory, as long as this stands.
struct Small(Place);

impl Small {
    /// None, told as a test that was skipped: this user may not mount.
    fn new(name: &str) -> Option<Self> {
        let place = Place::new(name);
        let mounted = mount("none", &place.0, "tmpfs", MountFlags::empty(), c"size=4m");
        match mounted {
            Ok(()) => {
                println!("ran {name}");
                Some(Self(place))
            }
            Err(error) => {
                println!("skipped {name}: no file system can be mounted: {error}");
                None
            }
        }
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = unmount(&self.0.0, UnmountFlags::DETACH);
    }
}

fn missing<T: std::fmt::Debug>(result: Result<T, DiskError>) -> u64 {
    match result {
        Err(DiskError::Full { missing }) => missing,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_full_disk_is_told_before_the_first_octet_with_what_is_missing() {
    let Some(small) = Small::new("disk_full") else {
        return;
    };
    let (place, outside) = (&small.0, Place::new("outside"));
    let mut entry = source(&outside, b"x");
    (entry.size, entry.allocated) = (6 << 20, 6 << 20);
    let open = |entry: &Entry, size| disk::open(&place.root(), &path("f"), entry, size, SHORT);
    let error = open(&entry, Some(entry.size)).unwrap_err();
    let words = error.to_string();
    let missing_octets = missing::<()>(Err(error));
    assert!(
        (2 << 20..=(2 << 20) + (64 << 10)).contains(&missing_octets),
        "{words}"
    );
    assert_eq!(
        words,
        format!("no room on the disk: {missing_octets} octets are missing")
    );
    assert!(place.names().is_empty(), "nothing is left behind");
    // One with holes has room, if its data have.
    entry.allocated = 5 << 20;
    assert!((1 << 20..2 << 20).contains(&missing(open(&entry, Some(entry.size)))));
    entry.allocated = 1 << 20;
    open(&entry, Some(entry.size))
        .unwrap()
        .file
        .discard()
        .unwrap();
    // One whose size is not known finds out when it makes room.
    let mut partial = open(&entry, None).unwrap().file;
    let mut at = 0;
    let missing_octets = loop {
        match partial.make_room(at..at + (1 << 20)) {
            Ok(to) => at = to,
            Err(error) => break missing::<()>(Err(error)),
        }
    };
    assert!((3 << 20..4 << 20).contains(&at), "{at}");
    assert!(missing_octets <= 1 << 20, "{missing_octets}");
    partial.is_sound().unwrap();
    let mut group = Group::new(place.root());
    assert!(missing(group.add(&path("g"), &entry, &octets(1, 2 << 20), false)) > 0);
    drop(group);
    partial.discard().unwrap();
    assert!(place.names().is_empty());
}

#[test]
fn what_is_there_of_a_file_outlives_a_full_disk() {
    let Some(small) = Small::new("disk_full_later") else {
        return;
    };
    let (place, outside) = (&small.0, Place::new("outside"));
    let all = octets(1, 40 * LEN);
    let entry = source(&outside, &all);
    let mut sparse = entry.clone();
    sparse.allocated = LEN as u64;
    let mut partial = open(place, "f", &sparse).file;
    for index in 0..3 {
        assert!(receive(&mut partial, &all, index));
    }
    partial.sync().unwrap();
    drop(partial);
    fs::write(place.at("other"), vec![0; 3 << 20]).unwrap();
    let again = disk::open(&place.root(), &path("f"), &entry, Some(entry.size), SHORT);
    assert!(missing(again) > 1 << 20);
    fs::remove_file(place.at("other")).unwrap();
    let mut opened = open(place, "f", &entry);
    assert_eq!(opened.there, one(0..3));
    for index in 3..40 {
        assert!(receive(&mut opened.file, &all, index));
    }
    assert_eq!(
        opened.file.finish(entry.size, &entry, false).unwrap(),
        Digest::of_file(&all)
    );
    assert_eq!(place.names(), ["f"]);
}

/// Without room made first the disk is full in the middle of a write.
#[test]
fn a_disk_that_is_full_in_the_middle_fails_the_transfer_and_not_the_process() {
    let Some(small) = Small::new("disk_full_fault") else {
        return;
    };
    let (place, outside) = (&small.0, Place::new("outside"));
    let mut entry = source(&outside, b"x");
    (entry.size, entry.allocated) = (8 << 20, 1 << 20);
    let mut partial = open(place, "f", &entry).file;
    // The window is mapped, but room is made for its beginning alone.
    partial.make_room(0..4_096).unwrap();
    for at in 0..128 {
        partial.write(at * LEN as u64, &octets(at, LEN));
    }
    let error = partial.is_sound().unwrap_err();
    assert!(matches!(error, DiskError::Lost { .. }), "{error}");
    partial.discard().unwrap();
    assert!(place.names().is_empty());
}
