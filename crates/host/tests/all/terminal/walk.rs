use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;

use super::*;
use cellgate_core::terminal::Source;
use rustix::fs::{CWD, FallocateFlags, FileType, Mode, fallocate, mknodat};
use rustix::process::geteuid;

#[test]
fn a_walk_comes_by_all_below_a_directory_before_what_is_in_it() {
    let place = Place::new("walk");
    let mut made = BTreeSet::new();
    for at in ["a/b/c", "a/d", "e", "f/g/h/i/j"] {
        fs::create_dir_all(place.at(at)).unwrap();
    }
    // Deeper than directories are held open, and wide on the way back.
    let mut deep = String::from("deep");
    for level in 0..80 {
        fs::create_dir(place.at(&deep)).unwrap();
        for name in ["x", "y", "z"] {
            fs::write(place.at(&format!("{deep}/{name}{level}")), name).unwrap();
        }
        deep.push_str("/d");
    }
    symlink("..", place.at("a/up")).unwrap();
    let mut all = vec![place.0.clone()];
    while let Some(directory) = all.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            made.insert(entry.path().strip_prefix(&place.0).unwrap().to_owned());
            if entry.file_type().unwrap().is_dir() {
                all.push(entry.path());
            }
        }
    }
    let mut walked = BTreeSet::new();
    for found in Walk::new(&place.root(), None).unwrap() {
        let Walked::Entry(entry) = found.unwrap() else {
            panic!("all may be read");
        };
        let at = os(entry.path.octets()).to_owned();
        let above = at.parent().unwrap();
        assert!(above == Path::new("") || walked.contains(above), "{at:?}");
        let found = fs::symlink_metadata(place.0.join(&at)).unwrap();
        assert_eq!(found.is_dir(), entry.kind == Kind::Directory);
        assert_eq!(found.is_symlink(), entry.kind == Kind::Link);
        assert_eq!(found.len(), entry.size);
        assert!(walked.insert(at), "each comes once");
    }
    assert_eq!(walked, made);
    let below = Walk::new(&place.root(), Some(&path("f/g"))).unwrap();
    assert_eq!(below.count(), 3);
}

#[test]
fn what_is_no_file_is_skipped_by_name_and_reason() {
    let place = Place::new("skip");
    let node = |name, kind| mknodat(CWD, place.at(name), kind, Mode::RUSR, 0);
    node("fifo", FileType::Fifo).unwrap();
    let _listens = UnixListener::bind(place.at("socket")).unwrap();
    fs::create_dir(place.at(PARTIAL)).unwrap();
    fs::write(place.at("file"), "x").unwrap();
    let mut expected = BTreeMap::from([
        ("fifo".to_owned(), Skip::Fifo),
        ("socket".to_owned(), Skip::Socket),
        (PARTIAL.to_owned(), Skip::Partial),
    ]);
    match node("device", FileType::CharacterDevice) {
        Ok(()) => {
            println!("ran disk_devices");
            expected.insert("device".to_owned(), Skip::Device);
        }
        Err(error) => println!("skipped disk_devices: {error}"),
    }
    let mut skipped = BTreeMap::new();
    for found in Walk::new(&place.root(), None).unwrap() {
        match found.unwrap() {
            Walked::Entry(entry) => assert_eq!(entry.path, path("file")),
            Walked::Skipped { path, why } => {
                assert!(skipped.insert(path, why).is_none());
            }
        }
    }
    assert_eq!(skipped, expected);
    for name in expected.keys().filter(|name| **name != PARTIAL) {
        let opened = place.root().open_file(&path(name));
        assert!(
            matches!(opened, Err(DiskError::NoFile { .. })),
            "{name}: {opened:?}"
        );
    }
}

#[test]
fn what_this_user_may_not_read_is_skipped() {
    if geteuid().is_root() {
        return println!("skipped disk_unreadable: root reads all");
    }
    println!("ran disk_unreadable");
    let place = Place::new("unreadable");
    fs::write(place.at("file"), "x").unwrap();
    fs::create_dir(place.at("directory")).unwrap();
    fs::set_permissions(place.at("file"), PermissionsExt::from_mode(0o000)).unwrap();
    fs::set_permissions(place.at("directory"), PermissionsExt::from_mode(0o600)).unwrap();
    let mut walked = 0;
    for found in Walk::new(&place.root(), None).unwrap() {
        let why = match found.unwrap() {
            Walked::Entry(entry) => panic!("{entry:?}"),
            Walked::Skipped { why, .. } => why,
        };
        assert_eq!(why, Skip::Unreadable);
        walked += 1;
    }
    assert_eq!(walked, 2);
    let opened = place.root().open_file(&path("file"));
    assert!(matches!(opened, Err(DiskError::Denied { .. })));
}

#[test]
fn a_source_tells_its_data_from_its_holes_and_whether_it_has_changed() {
    let place = Place::new("source");
    let file = fs::File::create(place.at("sparse")).unwrap();
    file.set_len(1 << 40).unwrap();
    let block = 1 << 16;
    let data = [3 * block..5 * block, (1 << 39)..(1 << 39) + block];
    for range in &data {
        let octets = vec![7; (range.end - range.start) as usize];
        std::os::unix::fs::FileExt::write_all_at(&file, &octets, range.start).unwrap();
    }
    let mut source = place.root().open_file(&path("sparse")).unwrap();
    assert_eq!(source.entry().size, 1 << 40);
    assert!(source.entry().is_sparse());
    let mut found = Vec::new();
    let mut at = 0;
    loop {
        let next = source.data(at);
        if next.is_empty() {
            assert_eq!(next, 1 << 40..1 << 40);
            break;
        }
        at = next.end;
        found.push(next);
    }
    assert_eq!(found, data);
    assert_eq!(source.data(4 * block + 1), 4 * block + 1..5 * block);
    assert_eq!(source.data(u64::MAX), 1 << 40..1 << 40);
    let mut read = [9; 4];
    source.read(3 * block - 2, &mut read);
    assert_eq!(read, [0, 0, 7, 7]);
    assert!(source.is_unchanged().unwrap());
    // Behind its end are zeros, and nobody hears of it but by the digest.
    file.set_len(3 * block + 1).unwrap();
    assert!(!source.is_unchanged().unwrap());
    source.read(3 * block - 1, &mut read);
    assert_eq!(read, [0, 7, 0, 0]);
    assert!(source.fault().is_none());
    let again = place.root().open_file(&path("sparse")).unwrap();
    fallocate(&file, FallocateFlags::KEEP_SIZE, 1 << 20, 1 << 20).unwrap();
    assert!(!again.is_unchanged().unwrap(), "its blocks are others");
}
