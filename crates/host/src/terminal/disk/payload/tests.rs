use super::*;
use rustix::fs::{MemfdFlags, memfd_create};
use std::os::fd::OwnedFd;

/// Octets of a window here: small, so that a file has many.
const WINDOW: u64 = 1 << BITS;
const BITS: u32 = 16;

fn locked(file: OwnedFd) -> Arc<LockedFile> {
    Arc::new(LockedFile::new(file).unwrap().unwrap())
}

fn payload(size: Option<u64>) -> Payload {
    let file = memfd_create("cellgate-test", MemfdFlags::CLOEXEC).unwrap();
    Payload::new(locked(file), "f".to_owned(), size, BITS).unwrap()
}

fn contents(payload: &Payload, range: Range<u64>) -> Vec<u8> {
    let mut octets = Vec::new();
    let read = payload.read(range, |piece| octets.extend_from_slice(piece));
    read.unwrap();
    octets
}

/// What the file has, whatever is mapped.
fn in_file(payload: &Payload) -> Vec<u8> {
    let mut octets = vec![0; payload.len() as usize];
    assert_eq!(pread(payload, &mut octets, 0).unwrap(), octets.len());
    octets
}

fn octets(len: u64) -> Vec<u8> {
    let octet = |n: u64| (n.wrapping_mul(2_654_435_761) >> 7) as u8;
    (0..len).map(octet).collect()
}

#[test]
fn windows_move_along_and_nothing_is_lost_on_the_way() {
    let len = 11 * WINDOW + 777;
    let all = octets(len);
    for (size, is_mapped) in [
        (Some(len), true),
        (None, true),
        (Some(len), false),
        (None, false),
    ] {
        let mut payload = payload(size);
        payload.is_mapped = is_mapped;
        let mut edge = 0;
        for (number, piece) in all.chunks(1_000).enumerate() {
            let at = number as u64 * 1_000;
            let end = at + piece.len() as u64;
            while edge < end {
                let more = payload.make_room(at..len.min(end + WINDOW)).unwrap();
                assert!(edge < more && more <= at + 2 * WINDOW, "{more} at {at}");
                edge = more;
            }
            payload.write(at, piece);
        }
        let mapped = payload.windows.iter().flatten().count();
        assert_eq!(mapped, if is_mapped { WINDOWS } else { 0 });
        payload.check().unwrap();
        assert!(contents(&payload, 0..len) == all);
        assert!(contents(&payload, 5..len - 5) == all[5..all.len() - 5]);
        payload.unmap_all();
        assert!(in_file(&payload)[..all.len()] == all);
        payload.check().unwrap();
    }
}

#[test]
fn what_has_no_room_is_written_as_well() {
    let len = 9 * WINDOW;
    let all = octets(len);
    for size in [Some(len), None] {
        let mut payload = payload(size);
        payload.make_room(0..WINDOW).unwrap();
        // Backwards, over the edges of windows, and behind the end of the file.
        for (number, piece) in all.chunks(50_001).enumerate().rev() {
            payload.write(number as u64 * 50_001, piece);
        }
        payload.check().unwrap();
        assert!(contents(&payload, 0..len + 9) == all);
        assert!(in_file(&payload) == all);
    }
}

#[test]
fn what_cannot_be_written_is_told_once_it_is_asked_for() {
    use rustix::fs::{Mode, OFlags, open};
    let file = open("/dev/full", OFlags::RDWR, Mode::empty()).unwrap();
    let mut payload = Payload::new(locked(file), "f".to_owned(), None, BITS).unwrap();
    payload.write(5, b"lost");
    let error = payload.check().unwrap_err();
    assert!(matches!(error, DiskError::Full { .. }), "{error}");
}

#[test]
fn a_window_that_failed_is_not_forgotten_with_its_map() {
    let len = 6 * WINDOW;
    let mut payload = payload(Some(len));
    payload.make_room(0..len).unwrap();
    ftruncate(&payload, 10).unwrap();
    payload.write(5_000, b"lost");
    assert!(payload.check().is_err());
    ftruncate(&payload, len).unwrap();
    payload.make_room(4 * WINDOW..6 * WINDOW).unwrap();
    payload.unmap_all();
    let error = payload.check().unwrap_err();
    assert!(matches!(error, DiskError::Lost { .. }), "{error}");
}

#[test]
fn room_is_made_once_and_not_in_holes() {
    let len = 8 * WINDOW;
    let mut payload = payload(Some(len));
    payload.punch(WINDOW..2 * WINDOW).unwrap();
    payload
        .punch(3 * WINDOW + 4_096..3 * WINDOW + 8_192)
        .unwrap();
    let mut at = 0;
    while at < len {
        assert_eq!(payload.make_room(at..at).unwrap(), at);
        at = payload.make_room(at..len).unwrap();
        let again = payload.make_room(at - WINDOW..at).unwrap();
        assert_eq!((again, payload.reserved.clone()), (at, 0..at));
    }
    assert_eq!(payload.allocated(), len - WINDOW - 4_096);
    assert_eq!(payload.populated, 0..len);
    // What is cleared gets its room back.
    payload.write(100, &[7; 9_000]);
    payload.clear(0..2 * WINDOW).unwrap();
    assert_eq!(payload.allocated(), len - 4_096);
    assert!(
        contents(&payload, 0..2 * WINDOW)
            .iter()
            .all(|octet| *octet == 0)
    );
}
