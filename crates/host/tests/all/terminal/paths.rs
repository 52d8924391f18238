use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use super::*;
use rustix::process::geteuid;

#[test]
fn what_is_no_path_below_a_root_is_refused_by_name() {
    let long_step = [b'x'; 256];
    let long = [b"x/".repeat(2_048), b"x".to_vec()].concat();
    let cases: [(&[u8], PathFault); 18] = [
        (b"", PathFault::Empty),
        (b"/", PathFault::Absolute),
        (b"/etc/passwd", PathFault::Absolute),
        (b"a//b", PathFault::EmptyStep),
        (b"a/", PathFault::EmptyStep),
        (b".", PathFault::Dots),
        (b"..", PathFault::Dots),
        (b"../a", PathFault::Dots),
        (b"a/..", PathFault::Dots),
        (b"a/../../b", PathFault::Dots),
        (b"a/./b", PathFault::Dots),
        (b"a\0b", PathFault::Nul),
        (&long_step, PathFault::LongStep),
        (&long, PathFault::Long),
        (b".cellgate-partial", PathFault::Partial),
        (b".cellgate-partial/a", PathFault::Partial),
        (b"a/.cellgate-partial/b", PathFault::Partial),
        (b".CELLGATE-Partial/b", PathFault::Partial),
    ];
    for (octets, fault) in cases {
        assert_eq!(PathBelow::new(octets), Err(fault), "{:?}", os(octets));
    }
    let good: [&[u8]; 8] = [
        b"a",
        b"...",
        b"..a/b..",
        b"\xff\xfe/\n",
        b" /-/\\",
        &long_step[1..],
        &long[..4_095],
        b".cellgate-partial2",
    ];
    for octets in good {
        assert_eq!(PathBelow::new(octets).unwrap().octets(), octets);
    }
    assert_eq!(path(b"a\xff\n\\b").to_string(), "a\\xff\\n\\\\b");
    assert_eq!(path("a/b/c").split(), (Some(path("a/b")), &b"c"[..]));
    assert_eq!(path("a").split(), (None, &b"a"[..]));
    assert_eq!(path("a").join(b".."), Err(PathFault::Dots));
}

/// All that touches a path, and what came of it.
fn touch(root: &Root, at: &PathBelow, source: &Entry) -> Vec<(&'static str, Option<DiskError>)> {
    let mut group = Group::new(root.clone());
    vec![
        ("stat", root.stat(at).err()),
        ("list", root.list(Some(at)).err()),
        ("open_file", root.open_file(at).err()),
        ("target", root.target(at).err()),
        (
            "make_directory",
            root.make_directory(&at.join(b"made").unwrap()).err(),
        ),
        ("make_link", root.make_link(at, b"elsewhere", true).err()),
        ("unlink", root.unlink(at).err()),
        ("remove_directory", root.remove_directory(at).err()),
        ("settle", root.settle(source).err()),
        (
            "partial",
            disk::open(root, at, source, Some(1), SHORT).err(),
        ),
        ("group", group.add(at, source, b"x", true).err()),
        ("walk", Walk::new(root, Some(at)).err()),
    ]
}

#[test]
fn a_link_is_followed_at_no_place_of_a_path() {
    let steps = ["a", "b", "c", "d"];
    for planted in 0..steps.len() - 1 {
        let (place, outside) = (Place::new("links"), Place::new("outside"));
        let root = place.root();
        let below: PathBuf = steps[..planted].iter().collect();
        fs::create_dir_all(place.0.join(&below)).unwrap();
        let rest: PathBuf = steps[planted + 1..].iter().collect();
        fs::create_dir_all(outside.0.join(rest.parent().unwrap())).unwrap();
        fs::write(outside.0.join(&rest), b"theirs").unwrap();
        for target in [
            outside.0.as_path(),
            Path::new("/proc/self/cwd"),
            Path::new("."),
        ] {
            let link = place.0.join(&below).join(steps[planted]);
            symlink(target, &link).unwrap();
            let at = path(steps.join("/"));
            let mut source = source(&outside, b"x");
            source.path = at.clone();
            source.kind = Kind::Directory;
            for (what, error) in touch(&root, &at, &source) {
                let is_named =
                    matches!(&error, Some(DiskError::Link { path }) if path.contains("a"));
                assert!(is_named, "{what} through {}: {error:?}", link.display());
            }
            fs::remove_file(link).unwrap();
        }
        assert_eq!(fs::read(outside.0.join(&rest)).unwrap(), b"theirs");
        assert!(!place.at(PARTIAL).exists(), "nothing is left");
    }
}

#[test]
fn a_link_in_the_place_of_a_file_is_replaced_and_not_written_through() {
    let (place, outside) = (Place::new("last"), Place::new("outside"));
    let root = place.root();
    fs::write(outside.at("theirs"), b"theirs").unwrap();
    for overwrite in [false, true] {
        symlink(outside.at("theirs"), place.at("file")).unwrap();
        assert!(matches!(
            root.open_file(&path("file")),
            Err(DiskError::Link { .. })
        ));
        let source = source(&outside, b"ours");
        let mut opened = open(&place, "file", &source);
        assert!(receive(&mut opened.file, b"ours", 0));
        match opened.file.finish(source.size, &source, overwrite) {
            Ok(root) => assert_eq!((root, overwrite), (Digest::of_file(b"ours"), true)),
            Err(DiskError::Exists { path }) => {
                assert_eq!((&*path, overwrite), ("file", false));
                assert!(discard(&root, PartialName::of(&super::path("file"))).unwrap());
                fs::remove_file(place.at("file")).unwrap();
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(fs::read(place.at("file")).unwrap(), b"ours");
    assert_eq!(fs::read(outside.at("theirs")).unwrap(), b"theirs");
    assert_eq!(place.names(), ["file"]);
}

#[test]
fn a_link_that_is_planted_while_a_file_is_received_is_not_written_through() {
    let (place, outside) = (Place::new("late"), Place::new("outside"));
    let source = source(&outside, b"ours");
    fs::create_dir(place.at("in")).unwrap();
    let mut opened = open(&place, "in/file", &source);
    assert!(receive(&mut opened.file, b"ours", 0));
    fs::remove_dir(place.at("in")).unwrap();
    symlink(&outside.0, place.at("in")).unwrap();
    let error = opened.file.finish(source.size, &source, true).unwrap_err();
    assert!(matches!(error, DiskError::Link { .. }), "{error}");
    assert_eq!(outside.names(), ["source"]);
    fs::remove_file(place.at("in")).unwrap();
    let again = open(&place, "in/file", &source);
    assert_eq!((again.former, &*again.there), (Former::Kept, &*one(0..1)));
    again.file.finish(source.size, &source, true).unwrap();
    assert_eq!(fs::read(place.at("in/file")).unwrap(), b"ours");
}

#[test]
fn unfinished_files_of_others_are_not_taken_for_ones_own() {
    let (place, outside) = (Place::new("ours"), Place::new("outside"));
    let source = source(&outside, b"ours");
    let refused = || {
        let opened = disk::open(&place.root(), &path("file"), &source, Some(4), SHORT);
        assert!(matches!(opened, Err(DiskError::NotOurs)), "{opened:?}");
    };
    symlink(&outside.0, place.at(PARTIAL)).unwrap();
    refused();
    fs::remove_file(place.at(PARTIAL)).unwrap();
    fs::write(place.at(PARTIAL), b"").unwrap();
    refused();
    fs::remove_file(place.at(PARTIAL)).unwrap();
    fs::create_dir(place.at(PARTIAL)).unwrap();
    fs::set_permissions(place.at(PARTIAL), PermissionsExt::from_mode(0o777)).unwrap();
    refused();
    fs::set_permissions(place.at(PARTIAL), PermissionsExt::from_mode(0o700)).unwrap();
    // A link in a file's place, whoever planted it.
    let name = PartialName::of(&path("file"));
    let theirs = outside.at("theirs");
    fs::write(&theirs, b"theirs").unwrap();
    symlink(&theirs, place.at(PARTIAL).join(format!("{name}.journal"))).unwrap();
    let opened = open(&place, "file", &source);
    assert_eq!(opened.former, Former::Refused(Refusal::Damaged));
    opened.file.discard().unwrap();
    fs::create_dir_all(place.at(PARTIAL)).unwrap();
    symlink(&theirs, place.at(PARTIAL).join(format!("{name}.part"))).unwrap();
    assert!(disk::open(&place.root(), &path("file"), &source, Some(4), SHORT).is_err());
    assert_eq!(fs::read(&theirs).unwrap(), b"theirs");
}

#[test]
fn names_are_any_octets_as_long_as_the_disk_takes_them() {
    let (place, outside) = (Place::new("names"), Place::new("outside"));
    let source = source(&outside, b"ours");
    let longest = [b"\xfe".repeat(255), b"x".repeat(255)].join(&b'/');
    let deepest = [b"d/".repeat(1_900), b"f".to_vec()].concat();
    let names: [&[u8]; 6] = [
        b"\xff\x01",
        b"a\nb/ c",
        b"-",
        b"\x1b[2J",
        &longest,
        &deepest,
    ];
    for name in names {
        let at = path(name);
        let mut opened = disk::open(&place.root(), &at, &source, Some(source.size), SHORT).unwrap();
        assert!(receive(&mut opened.file, b"ours", 0));
        opened.file.finish(source.size, &source, false).unwrap();
        let found = place.root().stat(&at).unwrap().unwrap();
        assert_eq!((found.kind, found.size, &found.path), (Kind::File, 4, &at));
        let mut read = [0; 9];
        assert_eq!(
            place
                .root()
                .open_file(&at)
                .unwrap()
                .read_at(0, &mut read)
                .unwrap(),
            4
        );
        assert_eq!(&read[..4], b"ours");
    }
    let listed: Vec<_> = place
        .root()
        .list(None)
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(listed.len(), 6, "{listed:?}");
    assert!(listed.iter().any(|name| **name == b"\xff\x01"[..]));
    let walked = Walk::new(&place.root(), None).unwrap().map(Result::unwrap);
    let files = walked.filter(|walked| match walked {
        Walked::Entry(entry) => entry.kind == Kind::File,
        Walked::Skipped { .. } => panic!("{walked:?}"),
    });
    assert_eq!(files.count(), 6);
}

#[test]
fn directories_and_links_are_made_looked_at_and_removed() {
    let place = Place::new("made");
    let root = place.root();
    root.make_directory(&path("a/b/c")).unwrap();
    root.make_directory(&path("a/b")).unwrap();
    assert_eq!(
        root.stat(&path("a/b/c")).unwrap().unwrap().kind,
        Kind::Directory
    );
    assert_eq!(root.stat(&path("a/x/y")).unwrap(), None);
    root.make_link(&path("a/l"), b"../../../etc", false)
        .unwrap();
    assert_eq!(root.target(&path("a/l")).unwrap(), b"../../../etc");
    let again = root.make_link(&path("a/l"), b"b", false);
    assert!(matches!(again, Err(DiskError::Exists { .. })));
    let former = fs::symlink_metadata(place.at("a/l")).unwrap().ino();
    root.make_link(&path("a/l"), b"\xff", true).unwrap();
    assert_ne!(fs::symlink_metadata(place.at("a/l")).unwrap().ino(), former);
    assert_eq!(fs::read_link(place.at("a/l")).unwrap(), os(b"\xff"));
    let over = root.make_link(&path("a/b"), b"x", true);
    assert!(
        matches!(over, Err(DiskError::IsDirectory { .. })),
        "{over:?}"
    );
    for target in [&b""[..], b"a\0b", &[b'x'; 4_096]] {
        let made = root.make_link(&path("t"), target, true);
        assert!(matches!(made, Err(DiskError::Target { .. })));
    }
    fs::write(place.at("f"), b"").unwrap();
    let through = root.make_directory(&path("f/x"));
    assert!(
        matches!(through, Err(DiskError::NoDirectory { .. })),
        "{through:?}"
    );
    assert!(root.unlink(&path("a/l")).unwrap());
    assert!(!root.unlink(&path("a/l")).unwrap());
    assert!(!root.unlink(&path("no/l")).unwrap());
    assert!(root.remove_directory(&path("a/b")).is_err());
    assert!(root.remove_directory(&path("a/b/c")).unwrap());
    assert_eq!(place.names(), ["a", "f"], "nothing is left behind");
    assert!(Root::open(&place.at("none")).is_err());
}

#[test]
fn directories_and_links_get_permissions_owner_and_time() {
    let place = Place::new("settled");
    let root = place.root();
    root.make_directory(&path("d")).unwrap();
    root.make_link(&path("l"), b"nowhere", false).unwrap();
    for (name, mtime) in [("d", 1_000_000_007), ("l", -86_400)] {
        let mut entry = root.stat(&path(name)).unwrap().unwrap();
        let is_root = geteuid().is_root();
        (entry.mode, entry.mtime) = (
            0o750,
            Moment {
                seconds: mtime,
                ns: 123,
            },
        );
        if is_root {
            (entry.uid, entry.gid) = (419_991, 419_990);
        }
        root.settle(&entry).unwrap();
        let found = fs::symlink_metadata(place.at(name)).unwrap();
        assert_eq!((found.mtime(), found.mtime_nsec()), (mtime, 123));
        assert!(!is_root || (found.uid(), found.gid()) == (419_991, 419_990));
        assert!(name == "l" || found.mode() & 0o7777 == 0o750);
    }
}
