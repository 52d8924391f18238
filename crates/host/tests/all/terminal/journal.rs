use super::*;

/// A file of some disk-PDUs of which the last is missing, dropped without finish.
fn unfinished(place: &Place, entry: &Entry, all: &[u8], name: &str) {
    let mut partial = open(place, name, entry).file;
    let count = SHORT.count(entry.size);
    for index in 0..count - 1 {
        assert!(receive(&mut partial, all, index));
        if index == 1 {
            partial.sync().unwrap();
        }
    }
    partial.sync().unwrap();
}

#[test]
fn what_was_found_right_and_synced_is_there_again() {
    let (place, outside) = (Place::new("again"), Place::new("outside"));
    let all = octets(1, 5 * LEN + 9);
    let entry = source(&outside, &all);
    let mut partial = open(&place, "f", &entry).file;
    for index in [0, 1, 3] {
        assert!(receive(&mut partial, &all, index));
    }
    partial.sync().unwrap();
    // Right, and not synced; and written, but not known to be right.
    assert!(receive(&mut partial, &all, 4));
    partial.write(5 * LEN as u64, b"unknown");
    drop(partial);
    let opened = open(&place, "f", &entry);
    assert_eq!(
        (opened.former, &*opened.there),
        (Former::Kept, &[0..2, 3..4][..])
    );
    let found = fs::read(part(&place, "part")).unwrap();
    assert_eq!(found.len(), all.len());
    assert!(found[..2 * LEN] == all[..2 * LEN]);
    assert!(
        found[4 * LEN..].iter().all(|octet| *octet == 0),
        "the rest are zeros"
    );
    let mut partial = opened.file;
    for index in [2, 4, 5] {
        assert!(receive(&mut partial, &all, index));
    }
    assert_eq!(
        partial.finish(entry.size, &entry, false).unwrap(),
        Digest::of_file(&all)
    );
    assert_eq!(place.names(), ["f"]);
}

#[test]
fn octets_that_have_changed_are_not_there_whatever_the_journal_says() {
    let (place, outside) = (Place::new("changed"), Place::new("outside"));
    let all = octets(1, 5 * LEN);
    let entry = source(&outside, &all);
    unfinished(&place, &entry, &all, "f");
    let file = part(&place, "part");
    let mut octets = fs::read(&file).unwrap();
    octets[2 * LEN + 77] ^= 1;
    fs::write(&file, &octets).unwrap();
    assert_eq!(open(&place, "f", &entry).there, [0..2, 3..4]);
    fs::write(&file, &octets[..LEN]).unwrap();
    let mut opened = open(&place, "f", &entry);
    assert_eq!(opened.there, one(0..1));
    // What is received again counts, beside the record that is wrong.
    for index in 1..5 {
        assert!(receive(&mut opened.file, &all, index));
    }
    opened.file.sync().unwrap();
    drop(opened.file);
    let opened = open(&place, "f", &entry);
    assert_eq!(opened.there, one(0..5));
    assert_eq!(
        opened.file.finish(entry.size, &entry, false).unwrap(),
        Digest::of_file(&all)
    );
}

/// The journal cut at `len`: which disk-PDUs are there, and what was there before.
fn reopened(place: &Place, entry: &Entry, journal: &[u8], data: &[u8]) -> (u64, Former) {
    fs::write(part(place, "journal"), journal).unwrap();
    fs::write(part(place, "part"), data).unwrap();
    let opened = open(place, "f", entry);
    let there = opened.there.iter().map(|run| run.end - run.start).sum();
    assert_eq!(opened.file.subtrees().present(), there);
    (there, opened.former)
}

#[test]
fn a_journal_is_torn_at_any_length_and_edited_at_any_octet() {
    let (place, outside) = (Place::in_memory("torn"), Place::new("outside"));
    let all = octets(1, 4 * LEN);
    let entry = source(&outside, &all);
    unfinished(&place, &entry, &all, "f");
    let journal = fs::read(part(&place, "journal")).unwrap();
    let data = fs::read(part(&place, "part")).unwrap();
    const RECORD: usize = 52;
    let header = journal.len() - 3 * RECORD;
    for len in 0..journal.len() {
        let found = reopened(&place, &entry, &journal[..len], &data);
        let expected = match len.checked_sub(header) {
            Some(records) => ((records / RECORD) as u64, Former::Kept),
            None => (0, Former::Refused(Refusal::Damaged)),
        };
        assert_eq!(found, expected, "{len}");
    }
    // A tail that a power failure has left as zeros, or as what was there before.
    for tail in [
        vec![0; RECORD],
        vec![0; 5 * RECORD],
        journal[..100].to_vec(),
        vec![1; 7],
    ] {
        let found = reopened(&place, &entry, &[&*journal, &tail].concat(), &data);
        assert_eq!(found, (3, Former::Kept));
    }
    for at in 0..journal.len() {
        let mut edited = journal.clone();
        edited[at] ^= 1 << (at % 8);
        let expected = match at {
            8..12 => (0, Former::Refused(Refusal::OtherVersion)),
            // The last alone cannot be told from one that was not written whole.
            _ if at >= journal.len() - RECORD => (2, Former::Kept),
            _ => (0, Former::Refused(Refusal::Damaged)),
        };
        assert_eq!(reopened(&place, &entry, &edited, &data), expected, "{at}");
    }
    assert_eq!(reopened(&place, &entry, &journal, &data), (3, Former::Kept));
}

#[test]
fn another_source_length_or_size_throws_away_what_was_there() {
    type Change = fn(&mut Entry);
    let changes: [(&str, Change); 7] = [
        ("size", |entry| entry.identity.size += 1),
        ("mtime", |entry| entry.identity.mtime.seconds += 1),
        ("mtime ns", |entry| entry.identity.mtime.ns ^= 1),
        ("ctime", |entry| entry.identity.ctime.seconds -= 1),
        ("ctime ns", |entry| entry.identity.ctime.ns ^= 1),
        ("inode", |entry| entry.identity.inode += 1),
        ("device", |entry| entry.identity.device += 1),
    ];
    let (place, outside) = (Place::new("other"), Place::new("outside"));
    let all = octets(1, 3 * LEN);
    let entry = source(&outside, &all);
    let try_with = |what: &str, entry: &Entry, size, disk_len, refusal| {
        unfinished(&place, &source(&outside, &all), &all, "f");
        let opened = disk::open(&place.root(), &path("f"), entry, size, disk_len).unwrap();
        assert_eq!(opened.former, Former::Refused(refusal), "{what}");
        assert!(opened.there.is_empty());
        let found = fs::read(part(&place, "part")).unwrap();
        assert!(found.iter().all(|octet| *octet == 0), "{what}");
        opened.file.discard().unwrap();
    };
    let size = Some(entry.size);
    for (what, change) in changes {
        let mut other = source(&outside, &all);
        change(&mut other);
        try_with(what, &other, size, SHORT, Refusal::OtherSource);
    }
    let longer = DiskLen::DEFAULT;
    try_with(
        "length",
        &source(&outside, &all),
        size,
        longer,
        Refusal::OtherLength,
    );
    try_with(
        "no size",
        &source(&outside, &all),
        None,
        SHORT,
        Refusal::OtherSource,
    );
    try_with(
        "another size",
        &source(&outside, &all),
        Some(7),
        SHORT,
        Refusal::OtherSource,
    );
    // Another file's journal under this one's name, and data without a journal.
    let entry = source(&outside, &all);
    unfinished(&place, &entry, &all, "f");
    let theirs = fs::read(part(&place, "journal")).unwrap();
    discard(&place.root(), PartialName::of(&path("f"))).unwrap();
    unfinished(&place, &entry, &all, "g");
    fs::write(part(&place, "journal"), theirs).unwrap();
    let opened = open(&place, "g", &entry);
    assert_eq!(opened.former, Former::Refused(Refusal::OtherSource));
    drop(opened);
    fs::remove_file(part(&place, "journal")).unwrap();
    fs::write(part(&place, "part"), &all).unwrap();
    let opened = open(&place, "g", &entry);
    assert_eq!(opened.former, Former::Refused(Refusal::Damaged));
    assert!(opened.there.is_empty());
}

#[test]
fn what_is_not_finished_is_listed_and_thrown_away() {
    let (place, outside) = (Place::new("listed"), Place::new("outside"));
    let root = place.root();
    assert_eq!(leftovers(&root).unwrap().count(), 0);
    assert!(!discard(&root, PartialName::of(&path("f"))).unwrap());
    let all = octets(1, 3 * LEN);
    let entry = source(&outside, &all);
    for name in ["f", "in/g"] {
        unfinished(&place, &entry, &all, name);
    }
    let stream = disk::open(&root, &path("s"), &entry, None, SHORT).unwrap();
    // Without a journal nobody knows whose it is; what is nobody's is not listed.
    let unknown = PartialName::of(&path("u"));
    fs::write(place.at(PARTIAL).join(format!("{unknown}.part")), b"x").unwrap();
    fs::write(place.at(PARTIAL).join("readme"), b"x").unwrap();
    let mut found: Vec<_> = leftovers(&root).unwrap().map(Result::unwrap).collect();
    found.sort_by_key(|leftover| leftover.path.clone());
    let told: Vec<_> = found
        .iter()
        .map(|leftover| {
            let path = leftover.path.as_ref().map(ToString::to_string);
            (path, leftover.size, leftover.is_in_use)
        })
        .collect();
    let size = Some(entry.size);
    let expected = [
        (None, None, false),
        (Some("f".to_owned()), size, false),
        (Some("in/g".to_owned()), size, false),
        (Some("s".to_owned()), None, true),
    ];
    assert_eq!(told, expected);
    assert!(found[1].allocated >= 2 * LEN as u64);
    assert!(matches!(
        discard(&root, found[3].name),
        Err(DiskError::InUse { .. })
    ));
    drop(stream);
    for leftover in found {
        assert!(discard(&root, leftover.name).unwrap());
        assert!(!discard(&root, leftover.name).unwrap());
    }
    assert_eq!(names(&place.at(PARTIAL)), ["readme"]);
    fs::remove_file(place.at(PARTIAL).join("readme")).unwrap();
    open(&place, "f", &entry).file.discard().unwrap();
    assert!(place.names().is_empty());
}
