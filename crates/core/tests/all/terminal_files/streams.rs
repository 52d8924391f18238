//! Files that are there already, and those whose octets are there once.

use super::lines::Narrow;
use super::*;

#[test]
fn a_file_of_the_same_length_is_compared_by_its_digest() {
    a_file_of_the_same_length_is_compared_by_its_digest_by::<Sdus>();
    a_file_of_the_same_length_is_compared_by_its_digest_by::<Octets>();
}

fn a_file_of_the_same_length_is_compared_by_its_digest_by<L: Line>() {
    for len in [100, 200_000] {
        let octets = |seed| Node::File(random(&mut rng(seed), len));
        let files: Files = [
            (b"other".to_vec(), octets(1)),
            (b"same".to_vec(), octets(2)),
        ]
        .into();
        let kept = Kept {
            files: [
                (b"other".to_vec(), octets(3)),
                (b"same".to_vec(), octets(2)),
            ]
            .into(),
            compares: true,
            ..Kept::default()
        };
        let mut trial = Trial::<L>::new(Given0::new(files.clone()), kept, 1, 20);
        trial.run(0);
        assert!(trial.kept().files == files, "{len}");
        let sent = |path: &[u8]| {
            let sent = |given: &Given| match given {
                Given::There { entry, digest } if entry.path == path => Some(digest.is_some()),
                _ => None,
            };
            trial.given.iter().find_map(sent)
        };
        assert_eq!((sent(b"other"), sent(b"same")), (Some(true), Some(false)));
        assert!(trial.octets < len as u64 * 11 / 10 + 2_000, "{len}");
    }
}

#[test]
fn a_stream_arrives_whole_and_its_length_is_known_at_its_end() {
    a_stream_arrives_whole_and_its_length_is_known_at_its_end_by::<Sdus>();
    a_stream_arrives_whole_and_its_length_is_known_at_its_end_by::<Octets>();
}

fn a_stream_arrives_whole_and_its_length_is_known_at_its_end_by<L: Line>() {
    for seed in 0..20 {
        let disk_len = DISK_LEN as usize;
        let len = [1, disk_len, disk_len + 1, 4 * disk_len, 350_000][seed as usize % 5];
        let octets = random(&mut rng(seed), len);
        let files: Files = [
            (b"a".to_vec(), Node::File(random(&mut rng(9), 150_000))),
            (b"s".to_vec(), Node::Stream(octets.clone())),
        ]
        .into();
        let given = Given0::new(files);
        let mut trial = Trial::<L>::new(given, Kept::default(), 1, 30 * (seed % 2));
        trial.run(seed);
        assert!(trial.kept().files[&b"s"[..]] == Node::File(octets), "{len}");
        let told = trial.given.iter().find_map(|given| match given {
            Given::There { entry, .. } if entry.path == b"s" => Some(entry.octets()),
            _ => None,
        });
        assert_eq!(told, Some(len as u64));
    }
}

#[test]
fn of_a_stream_nothing_is_sent_twice_and_nothing_is_kept() {
    of_a_stream_nothing_is_sent_twice_and_nothing_is_kept_by::<Sdus>();
    of_a_stream_nothing_is_sent_twice_and_nothing_is_kept_by::<Octets>();
}

fn of_a_stream_nothing_is_sent_twice_and_nothing_is_kept_by<L: Line>() {
    let octets = random(&mut rng(1), 300_000);
    let given = Given0::new([(b"s".to_vec(), Node::Stream(octets))].into());
    given
        .wrong
        .borrow_mut()
        .insert((b"s".to_vec(), DISK_LEN), 1);
    let mut trial = Trial::<L>::new(given.clone(), Kept::default(), 1, 0);
    trial.run(0);
    assert!(matches!(trial.given[0], Given::Failed { .. }));
    assert!(trial.kept().files.is_empty() && trial.kept().partials.is_empty());
    // The other end is lost in the middle.
    let mut trial = Trial::<L>::new(given, Kept::default(), 2, 0);
    (0..6).for_each(|_| trial.turn());
    trial.taking.abandon(trial.line.ends().1);
    assert!(trial.kept().partials.is_empty());
}

#[test]
fn a_hole_that_is_longer_than_the_window_is_no_end() {
    a_hole_that_is_longer_than_the_window_is_no_end_by::<Sdus>();
    a_hole_that_is_longer_than_the_window_is_no_end_by::<Narrow>();
    a_hole_that_is_longer_than_the_window_is_no_end_by::<Octets>();
}

fn a_hole_that_is_longer_than_the_window_is_no_end_by<L: Line>() {
    for (from, to) in [
        (0, 900_000),
        (70_000, 1_000_000),
        (5, 999_999),
        (30_000, 700_000),
        (0, 1_000_000),
    ] {
        let mut octets = random(&mut rng(1), 1_000_000);
        octets[from..to].fill(0);
        let files: Files = [(b"a".to_vec(), Node::File(octets))].into();
        let mut trial = Trial::<L>::new(Given0::new(files.clone()), Kept::default(), 1, 10);
        trial.run(0);
        assert!(trial.kept().files == files, "{from} {to}");
    }
}
