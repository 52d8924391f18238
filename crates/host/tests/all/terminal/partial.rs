use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::time::{Duration, UNIX_EPOCH};

use super::*;
use cellgate_core::Time;
use cellgate_core::terminal::unfinished::{Finish, Finishing, Job};
use cellgate_core::terminal::{self, EntryKind};
use rustix::fs::{SeekFrom, seek};
use rustix::process::geteuid;

#[test]
fn a_file_that_is_complete_gets_its_name_and_nothing_is_left_behind() {
    for len in [0, 1, LEN - 1, LEN, LEN + 1, 5 * LEN + 77] {
        for known in [true, false] {
            let (place, outside) = (Place::new("whole"), Place::new("outside"));
            let all = octets(len as u64, len);
            let mut entry = source(&outside, &all);
            (entry.mode, entry.mtime) = (
                0o640,
                Moment {
                    seconds: 1_234_567_890,
                    ns: 5,
                },
            );
            let size = known.then_some(len as u64);
            let at = path("in/side/file");
            let opened = disk::open(&place.root(), &at, &entry, size, SHORT).unwrap();
            assert_eq!((opened.former, opened.there.len()), (Former::Nothing, 0));
            let mut partial = opened.file;
            // In any order.
            let count = SHORT.count(len as u64);
            for index in (0..count).map(|index| (index * 5 + 3) % count.max(1)) {
                assert!(receive(&mut partial, &all, index), "{index} of {len}");
            }
            assert_eq!(partial.subtrees().present(), count);
            let root = partial.finish(entry.size, &entry, false).unwrap();
            assert_eq!(root, Digest::of_file(&all), "{len}");
            assert!(fs::read(place.at("in/side/file")).unwrap() == all);
            let found = fs::metadata(place.at("in/side/file")).unwrap();
            assert_eq!(found.permissions().mode() & 0o7777, 0o640);
            assert_eq!((found.mtime(), found.mtime_nsec()), (1_234_567_890, 5));
            assert_eq!(place.names(), ["in"]);
        }
    }
}

#[test]
fn who_gives_a_file_away_keeps_its_special_bits_and_nobody_else_does() {
    let (place, outside) = (Place::new("owner"), Place::new("outside"));
    let mut entry = source(&outside, b"x");
    (entry.mode, entry.uid, entry.gid) = (0o6755, 419_991, 419_990);
    let mut partial = open(&place, "f", &entry).file;
    assert!(receive(&mut partial, b"x", 0));
    partial.finish(entry.size, &entry, false).unwrap();
    let found = fs::metadata(place.at("f")).unwrap();
    match geteuid().is_root() {
        true => {
            println!("ran disk_owners");
            assert_eq!(
                (found.uid(), found.gid(), found.mode() & 0o7777),
                (419_991, 419_990, 0o6755)
            );
        }
        false => {
            println!("skipped disk_owners: only root gives files away");
            assert_eq!(found.mode() & 0o7777, 0o755);
        }
    }
}

#[test]
fn a_file_is_finished_only_when_it_is_complete() {
    let (place, outside) = (Place::new("incomplete"), Place::new("outside"));
    let all = octets(1, 3 * LEN + 5);
    let entry = source(&outside, &all);
    let mut partial = open(&place, "f", &entry).file;
    for index in [0, 3] {
        assert!(receive(&mut partial, &all, index));
    }
    let error = partial.finish(entry.size, &entry, false).unwrap_err();
    assert_eq!(
        error.to_string(),
        "f is not complete: 2 disk-PDUs are missing"
    );
    let opened = open(&place, "f", &entry);
    assert_eq!(
        (opened.former, &*opened.there),
        (Former::Kept, &[0..1, 3..4][..])
    );
    let mut partial = opened.file;
    for index in [1, 2] {
        assert!(receive(&mut partial, &all, index));
    }
    // A source that has grown meanwhile is another one.
    let mut longer = entry.clone();
    longer.size += 1;
    assert!(matches!(
        partial.finish(longer.size, &longer, false),
        Err(DiskError::Incomplete { .. })
    ));
    let opened = open(&place, "f", &entry);
    assert_eq!(opened.there, one(0..4));
    assert_eq!(
        opened.file.finish(entry.size, &entry, false).unwrap(),
        Digest::of_file(&all)
    );
}

/// A sender that was killed is back before its first session has finished a file.
#[test]
fn a_file_that_another_session_has_put_there_meanwhile_is_done() {
    let (place, outside) = (Place::new("meanwhile"), Place::new("outside"));
    let all = octets(1, 2 * LEN + 5);
    let entry = source(&outside, &all);
    let finish = |changed: i64| {
        let mut partial = open(&place, "f", &entry).file;
        for index in 0..3 {
            receive(&mut partial, &all, index);
        }
        fs::write(place.at("f"), &all).unwrap();
        let mut lying = entry.mtime;
        lying.seconds += changed;
        let since = Duration::new(lying.seconds as u64, lying.ns);
        let there = fs::File::options().write(true).open(place.at("f")).unwrap();
        there.set_modified(UNIX_EPOCH + since).unwrap();
        let mut finishing = Finishing::new(place.root());
        let job = Job::Finish(Box::new(Finish {
            id: 7,
            entry: terminal::Entry {
                path: b"f".to_vec(),
                kind: EntryKind::File {
                    len: entry.size,
                    holes: false,
                },
                mode: 0o644,
                user: 0,
                group: 0,
                modified_ns: 0,
                mark: [0; 16],
            },
            path: path("f"),
            traits: entry.clone(),
            file: partial,
            holes: Vec::new(),
            overwrite: false,
        }));
        finishing.handle(Time::ZERO, job, &|| false);
        finishing.settled().unwrap().2
    };
    assert_eq!(finish(0), Ok(Digest::of_file(&all).0));
    assert_eq!(place.names(), ["f"]);
    // Another file stays, and what has come as well.
    let refused = finish(1).unwrap_err();
    assert!(refused.contains("f is there already"), "{refused}");
    assert_eq!(place.names(), [PARTIAL, "f"]);
}

#[test]
fn a_disk_pdu_counts_only_with_its_digest_index_offset_and_length() {
    let (place, outside) = (Place::new("wrong"), Place::new("outside"));
    let all = octets(1, 2 * LEN + 5);
    let entry = source(&outside, &all);
    let mut partial = open(&place, "f", &entry).file;
    let len = LEN as u64;
    partial.make_room(0..3 * len).unwrap();
    partial.write(0, &all);
    let right = [0, 1, 2].map(|index| digest(&all, index));
    let wrong = [
        (0, 0, LEN, &right[1]),
        (0, 0, LEN - 1, &right[0]),
        (0, 0, 0, &right[0]),
        (0, len, LEN, &right[1]),
        (1, 0, LEN, &right[0]),
        (2, 2 * len, LEN, &right[2]),
        (2, 2 * len, 4, &right[2]),
        (3, 3 * len, 0, &right[0]),
        (3, 3 * len, LEN, &right[0]),
        (u64::MAX, 0, LEN, &right[0]),
        (1 << 48, 0, LEN, &right[0]),
    ];
    for (index, offset, len, expected) in wrong {
        assert!(!partial.check(index, offset, len as u32, expected).unwrap());
    }
    let shorter = Digesting::new(0).octets(&all[..LEN - 1]).digest().unwrap();
    assert!(!partial.check(0, 0, LEN as u32 - 1, &shorter).unwrap());
    assert_eq!(partial.subtrees().present(), 0);
    for (index, expected) in right.iter().enumerate() {
        let range = SHORT.range(index as u64, entry.size);
        let len = (range.end - range.start) as u32;
        for _ in 0..2 {
            assert!(
                partial
                    .check(index as u64, range.start, len, expected)
                    .unwrap()
            );
        }
    }
    assert_eq!(
        partial.finish(entry.size, &entry, false).unwrap(),
        Digest::of_file(&all)
    );
}

#[test]
fn only_the_last_disk_pdu_of_a_stream_is_shorter() {
    let (place, outside) = (Place::new("short"), Place::new("outside"));
    let all = octets(1, 2 * LEN);
    let entry = source(&outside, &all);
    let opened = disk::open(&place.root(), &path("f"), &entry, None, SHORT).unwrap();
    let mut partial = opened.file;
    partial.make_room(0..entry.size).unwrap();
    partial.write(0, &all);
    let shorter = Digesting::new(0).octets(&all[..9]).digest().unwrap();
    assert!(partial.check(0, 0, 9, &shorter).unwrap());
    assert!(
        partial
            .check(1, LEN as u64, LEN as u32, &digest(&all, 1))
            .unwrap()
    );
    assert!(matches!(
        partial.finish(entry.size, &entry, false),
        Err(DiskError::Incomplete { .. })
    ));
    assert_eq!(place.names(), [PARTIAL]);
}

#[test]
fn what_is_rejected_is_zeros_and_is_written_once_more() {
    let (place, outside) = (Place::new("reject"), Place::new("outside"));
    let all = octets(1, 3 * LEN);
    let entry = source(&outside, &all);
    let mut partial = open(&place, "f", &entry).file;
    let other = octets(2, 3 * LEN);
    let range = SHORT.range(1, entry.size);
    partial.make_room(0..entry.size).unwrap();
    partial.write(range.start, &other[LEN..2 * LEN]);
    assert!(
        !partial
            .check(1, range.start, LEN as u32, &digest(&all, 1))
            .unwrap()
    );
    partial.reject(range.clone()).unwrap();
    let mut found = vec![1; LEN];
    let file = fs::File::open(part(&place, "part")).unwrap();
    file.read_exact_at(&mut found, range.start).unwrap();
    assert!(found.iter().all(|octet| *octet == 0));
    for index in 0..3 {
        assert!(receive(&mut partial, &all, index));
    }
    partial.is_sound().unwrap();
    assert_eq!(
        partial.finish(entry.size, &entry, false).unwrap(),
        Digest::of_file(&all)
    );
}

/// Stretches of data of a file.
fn data(file: &Path) -> Vec<std::ops::Range<u64>> {
    let file = fs::File::open(file).unwrap();
    let mut found = Vec::new();
    let mut at = 0;
    while let Ok(start) = seek(&file, SeekFrom::Data(at)) {
        at = seek(&file, SeekFrom::Hole(start)).unwrap();
        found.push(start..at);
    }
    found
}

#[test]
fn holes_stay_holes() {
    for sparse in [true, false] {
        for resumed in [true, false] {
            let (place, outside) = (Place::new("holes"), Place::new("outside"));
            let mut all = octets(1, 8 * LEN);
            let len = LEN as u64;
            let holes = [
                len..3 * len,
                4 * len + 4_096..5 * len - 8_192,
                7 * len..8 * len,
            ];
            for hole in &holes {
                all[hole.start as usize..hole.end as usize].fill(0);
            }
            let mut entry = source(&outside, &all);
            entry.allocated = if sparse { 4 * len } else { entry.size };
            let mut partial = open(&place, "f", &entry).file;
            // The first is announced before there is room, the others behind it.
            partial.punch(holes[0].clone()).unwrap();
            partial.make_room(0..8 * len).unwrap();
            let mut at = 0;
            for hole in &holes {
                partial.write(at as u64, &all[at..hole.start as usize]);
                partial.punch(hole.clone()).unwrap();
                at = hole.end as usize;
            }
            partial.make_room(len..8 * len).unwrap();
            for index in 0..8 {
                let expected = digest(&all, index);
                assert!(
                    partial
                        .check(index, index * len, LEN as u32, &expected)
                        .unwrap()
                );
            }
            if resumed {
                partial.sync().unwrap();
                drop(partial);
                let opened = open(&place, "f", &entry);
                assert_eq!(opened.there, one(0..8));
                partial = opened.file;
            }
            assert_eq!(
                partial.finish(entry.size, &entry, false).unwrap(),
                Digest::of_file(&all)
            );
            let stretches = [0..len, 3 * len..4 * len + 4_096, 5 * len - 8_192..7 * len];
            let name = format!("sparse {sparse}, resumed {resumed}");
            assert_eq!(data(&place.at("f")), stretches, "{name}");
            let found = fs::metadata(place.at("f")).unwrap();
            assert!(found.blocks() * 512 < 5 * len, "{name}: {}", found.blocks());
        }
    }
}

#[test]
fn a_file_of_2_to_the_40_octets_takes_what_its_data_take() {
    let (place, outside) = (Place::new("large"), Place::new("outside"));
    let mut entry = source(&outside, b"x");
    (entry.size, entry.allocated) = (1 << 40, 3 << 20);
    let long = DiskLen::MAX;
    let len = u64::from(long.octets());
    let at = path("f");
    let opened = disk::open(&place.root(), &at, &entry, Some(1 << 40), long).unwrap();
    let mut partial = opened.file;
    let last = long.count(1 << 40) - 1;
    for index in [0, 1 << 14, last] {
        let all = octets(index, 1_000);
        let range = long.range(index, 1 << 40);
        assert_eq!(range.end - range.start, len);
        let there = partial.make_room(range.start..range.start + 1_000).unwrap();
        assert_eq!(there, range.start + 1_000);
        partial.write(range.start, &all);
        let mut digesting = Digesting::new(range.start);
        let expected = digesting.octets(&all).zeros(len - 1_000).digest().unwrap();
        assert!(
            partial
                .check(index, range.start, len as u32, &expected)
                .unwrap()
        );
    }
    assert!(partial.make_room(1 << 39..u64::MAX).unwrap() <= (1 << 39) + (128 << 20));
    assert_eq!(partial.make_room(1 << 40..u64::MAX).unwrap(), 1 << 40);
    partial.sync().unwrap();
    drop(partial);
    let opened = disk::open(&place.root(), &at, &entry, Some(1 << 40), long).unwrap();
    assert_eq!(opened.there, [0..1, 1 << 14..(1 << 14) + 1, last..last + 1]);
    let file = fs::metadata(part(&place, "part")).unwrap();
    assert_eq!(file.size(), 1 << 40);
    assert!(file.blocks() * 512 < 1 << 20, "{}", file.blocks());
    opened.file.discard().unwrap();
    assert!(place.names().is_empty());
}

#[test]
fn a_file_that_is_shortened_while_it_is_written_fails_its_transfer_by_name() {
    let (place, outside) = (Place::new("shortened"), Place::new("outside"));
    let all = octets(1, 4 * LEN);
    let entry = source(&outside, &all);
    let mut partial = open(&place, "f", &entry).file;
    let beside = Place::new("beside");
    let mut other = open(&beside, "f", &entry).file;
    partial.make_room(0..entry.size).unwrap();
    let file = fs::OpenOptions::new()
        .write(true)
        .open(part(&place, "part"))
        .unwrap();
    file.set_len(LEN as u64).unwrap();
    for (index, piece) in all.chunks(LEN).enumerate() {
        partial.write((index * LEN) as u64, piece);
        assert!(receive(&mut other, &all, index as u64));
    }
    let lost = "f was shortened while it was written, or its disk failed: look after the disk, and \
                send it again";
    assert_eq!(partial.is_sound().unwrap_err().to_string(), lost);
    let checked = partial.check(2, 2 * LEN as u64, LEN as u32, &digest(&all, 2));
    assert_eq!(checked.unwrap_err().to_string(), lost);
    assert!(partial.finish(entry.size, &entry, false).is_err());
    other.is_sound().unwrap();
    assert_eq!(
        other.finish(entry.size, &entry, false).unwrap(),
        Digest::of_file(&all)
    );
}

#[test]
fn a_file_has_one_receiver_at_a_time() {
    let (place, outside) = (Place::new("one"), Place::new("outside"));
    let entry = source(&outside, b"x");
    let first = open(&place, "f", &entry).file;
    let second = || disk::open(&place.root(), &path("f"), &entry, Some(1), SHORT);
    assert!(matches!(second(), Err(DiskError::InUse { .. })));
    let mut group = Group::new(place.root());
    let added = group.add(&path("f"), &entry, b"x", true);
    assert!(matches!(added, Err(DiskError::InUse { .. })));
    let name = PartialName::of(&path("f"));
    assert!(matches!(
        discard(&place.root(), name),
        Err(DiskError::InUse { .. })
    ));
    let other = open(&place, "g", &entry).file;
    drop(first);
    let mut again = second().unwrap().file;
    assert!(receive(&mut again, b"x", 0));
    // A job elsewhere keeps the lock until it is done.
    let job = again.sync_job().unwrap();
    assert!(again.sync_job().is_none());
    drop(again);
    assert!(matches!(second(), Err(DiskError::InUse { .. })));
    std::thread::spawn(|| job.run().unwrap()).join().unwrap();
    assert_eq!(second().unwrap().there, one(0..1));
    drop(other);
}

#[test]
fn a_directory_or_another_file_system_is_found_before_the_first_octet() {
    let (place, outside) = (Place::new("found"), Place::new("outside"));
    let entry = source(&outside, b"x");
    fs::create_dir_all(place.at("d/e")).unwrap();
    fs::write(place.at("f"), b"x").unwrap();
    let open = |root: &Root, name: &str| disk::open(root, &path(name), &entry, Some(1), SHORT);
    assert!(matches!(
        open(&place.root(), "d/e"),
        Err(DiskError::IsDirectory { .. })
    ));
    assert!(matches!(
        open(&place.root(), "f/g"),
        Err(DiskError::NoDirectory { .. })
    ));
    assert!(place.names().iter().all(|name| name != PARTIAL));
    let whole = Root::open(Path::new("/")).unwrap();
    let error = open(&whole, "proc/x").unwrap_err();
    assert!(
        matches!(error, DiskError::OtherFileSystem { .. }),
        "{error}"
    );
}

#[test]
fn transfers_at_once_do_not_take_the_directory_of_unfinished_files_from_each_other() {
    let (place, outside) = (Place::in_memory("at-once"), Place::new("outside"));
    let entry = source(&outside, b"x");
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (place, entry) = (&place, &entry);
            scope.spawn(move || {
                let root = place.root();
                for round in 0..100 {
                    let mut partial = open(place, &format!("p{thread}"), entry).file;
                    assert!(receive(&mut partial, b"x", 0));
                    partial.finish(entry.size, entry, true).unwrap();
                    let link = path(format!("l{thread}"));
                    root.make_link(&link, b"nowhere", true).unwrap();
                    let mut group = Group::new(root.clone());
                    let at = path(format!("g{thread}"));
                    group.add(&at, entry, &octets(round, 9), true).unwrap();
                    assert!(group.finish().unwrap().is_empty());
                    // One that all want is somebody's, and whole whenever it is there.
                    let all = disk::open(&root, &path("all"), entry, Some(1), SHORT);
                    match all {
                        Ok(mut opened) => {
                            assert!(receive(&mut opened.file, b"x", 0));
                            opened.file.finish(entry.size, entry, true).unwrap();
                        }
                        Err(DiskError::InUse { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                    if let Ok(found) = fs::read(place.at("all")) {
                        assert_eq!(found, b"x");
                    }
                }
            });
        }
    });
    assert_eq!(
        place.names().len(),
        13,
        "nothing is left: {:?}",
        place.names()
    );
}
