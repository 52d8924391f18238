use std::os::unix::fs::{MetadataExt, PermissionsExt};

use super::*;

#[test]
fn a_group_of_files_gets_its_names_together() {
    let (place, outside) = (Place::new("group"), Place::new("outside"));
    let mut entry = source(&outside, b"");
    (entry.mode, entry.mtime) = (
        0o600,
        Moment {
            seconds: 1_111_111_111,
            ns: 9,
        },
    );
    let mut group = Group::new(place.root());
    assert!(group.is_empty());
    fs::write(place.at("there"), b"former").unwrap();
    fs::write(place.at("stays"), b"former").unwrap();
    let files: Vec<_> = (0..40)
        .map(|n| (format!("d{}/f{n}", n / 7), n * 100))
        .collect();
    for (name, len) in &files {
        let all = octets(*len as u64, *len);
        let root = group.add(&path(name), &entry, &all, false).unwrap();
        assert_eq!(root, Digest::of_file(&all));
    }
    group.add(&path("there"), &entry, b"new", true).unwrap();
    group.add(&path("stays"), &entry, b"new", false).unwrap();
    assert_eq!(group.len(), 42);
    assert!(!place.at("d0/f0").exists(), "no file has its name so far");
    let failed = group.finish().unwrap();
    assert!(matches!(&*failed, [(path, DiskError::Exists { .. })] if path.octets() == b"stays"));
    for (name, len) in &files {
        assert!(fs::read(place.at(name)).unwrap() == octets(*len as u64, *len));
        let found = fs::metadata(place.at(name)).unwrap();
        assert_eq!((found.mtime(), found.mtime_nsec()), (1_111_111_111, 9));
        assert_eq!(found.permissions().mode() & 0o7777, 0o600);
    }
    assert_eq!(fs::read(place.at("there")).unwrap(), b"new");
    assert_eq!(fs::read(place.at("stays")).unwrap(), b"former");
    assert!(!place.at(PARTIAL).exists(), "nothing is left behind");
    // Once more: a group is used again.
    group.add(&path("d0/f0"), &entry, b"again", true).unwrap();
    assert!(group.finish().unwrap().is_empty());
    assert_eq!(fs::read(place.at("d0/f0")).unwrap(), b"again");
    assert!(group.finish().unwrap().is_empty(), "there is nothing to do");
}

#[test]
fn a_group_that_is_dropped_or_full_leaves_nothing_behind() {
    let (place, outside) = (Place::new("dropped"), Place::new("outside"));
    let entry = source(&outside, b"");
    let mut group = Group::new(place.root());
    for n in 0..Group::MAX {
        assert!(!group.is_full());
        group
            .add(&path(format!("f{n}")), &entry, b"x", false)
            .unwrap();
    }
    assert!(group.is_full());
    assert!(group.add(&path("more"), &entry, b"x", false).is_err());
    drop(group);
    assert!(place.names().is_empty());
}
