//! Trees between two terminals, over SDUs some of which are lost and over octets: each file is
//! there once, whole, with its name, or has failed by a reason that both ends tell.

mod hostile;
mod lines;
mod streams;
mod trees;

use cellgate_core::Time;
use cellgate_core::terminal::{
    CONTENT_MAX, Carrier, Event, Existing, Given, Giving, Manner, Message, Settled, Taking,
};
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

use super::terminal_stack::{below, random};
use lines::{Line, Octets, SPLIT, Sdus};
use trees::{DISK_LEN, Files, Given0, Kept, Node};

/// Both ends, and what they have told.
struct Trial<L> {
    rng: Pcg64Mcg,
    now: Time,
    line: L,
    giving: Giving<Given0>,
    taking: Taking<Kept>,
    given: Vec<Given>,
    settled: Vec<Settled>,
    octets: u64,
}

impl<L: Line> Trial<L> {
    fn new(giving: Given0, kept: Kept, run: u32, lost: u64) -> Self {
        Self {
            rng: Pcg64Mcg::new(u128::from(run) << 1 | 1),
            now: Time::ZERO,
            line: L::new(run, lost),
            giving: Giving::new(giving, SPLIT),
            taking: Taking::new(kept, 3),
            given: Vec::new(),
            settled: Vec::new(),
            octets: 0,
        }
    }

    /// A turn of both ends; the line is as fast as one is.
    fn turn(&mut self) {
        self.now = self.now.plus_ns(200_000);
        let (now, mut message) = (self.now, Vec::new());
        let (giver, taker) = self.line.ends();
        if giver.is_established() {
            for _ in 0..16 {
                self.giving.step(giver, &mut self.given);
            }
        }
        self.taking.step(now, taker, &mut self.settled);
        for _ in 0..16 {
            self.octets += self.line.carry(now, &mut self.rng, false);
            let (_, taker) = self.line.ends();
            while let Some(event) = taker.poll_event() {
                let Event::DiskPdu { transfer, disk_pdu } = event else {
                    panic!("{event:?}");
                };
                let settled = &mut self.settled;
                self.taking
                    .handle_disk_pdu(now, taker, transfer, &disk_pdu, settled);
            }
            self.line.carry(now, &mut self.rng, true);
            let (giver, taker) = self.line.ends();
            while giver.hear(now, &mut message).unwrap() {
                let message = Message::parse(&message).unwrap();
                self.giving.handle(giver, message, &mut self.given);
            }
            while taker.hear(now, &mut message).unwrap() {
                let message = Message::parse(&message).unwrap();
                self.taking.handle(now, taker, message, &mut self.settled);
            }
        }
    }

    fn run(&mut self, seed: u64) {
        for _ in 0..100_000 {
            if self.giving.is_done() && self.taking.is_done() {
                return;
            }
            self.turn();
        }
        panic!(
            "seed {seed}: it never ends: {:?} {:?}",
            self.given, self.settled
        );
    }

    fn kept(&mut self) -> &mut Kept {
        self.taking.destination_mut()
    }
}

/// A tree of a few directories, links, small files and long ones.
fn files(rng: &mut Pcg64Mcg) -> Files {
    let mut files = Files::new();
    let mut directories = vec![Vec::new()];
    for n in 0..2 + below(rng, 30) {
        let above = directories[below(rng, directories.len() as u64) as usize].clone();
        let mut path: Vec<u8> = above;
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend(format!("{n}").bytes());
        path.push(0x80 | rng.next_u32() as u8);
        let node = match below(rng, 6) {
            0 => {
                directories.push(path.clone());
                Node::Directory
            }
            1 => Node::Link(random(rng, 9)),
            2 => {
                let len = CONTENT_MAX + 1 + below(rng, 400_000);
                let mut octets = random(rng, len as usize);
                let hole = below(rng, len);
                let end = (hole + below(rng, 200_000)).min(len);
                octets[hole as usize..end as usize].fill(0);
                Node::File(octets)
            }
            _ => {
                let len = below(rng, 3) * below(rng, 3_000);
                Node::File(random(rng, len as usize))
            }
        };
        files.insert(path, node);
    }
    files
}

fn rng(seed: u64) -> Pcg64Mcg {
    Pcg64Mcg::new(u128::from(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) << 1 | 1)
}

#[test]
fn a_tree_arrives_as_it_is_whatever_is_lost() {
    tree_arrives::<Sdus>();
    tree_arrives::<Octets>();
}

fn tree_arrives<L: Line>() {
    for seed in 0..40 {
        let rng = &mut rng(seed);
        let files = files(rng);
        let lost = [0, 20, 200][seed as usize % 3];
        let mut trial = Trial::<L>::new(Given0::new(files.clone()), Kept::default(), 1, lost);
        trial.run(seed);
        assert!(trial.kept().files == files, "seed {seed}");
        // Each directory is left once, behind all that is in it.
        let left = trial.kept().left.clone();
        let directories = files.iter().filter(|(_, node)| **node == Node::Directory);
        assert_eq!(left.len(), directories.count(), "seed {seed}");
        for (at, path) in left.iter().enumerate() {
            let inside = [&path[..], b"/"].concat();
            assert!(left[at..].iter().all(|other| !other.starts_with(&inside)));
        }
        // Both ends tell of each that is no directory.
        let told = files.values().filter(|node| **node != Node::Directory);
        let told = told.count();
        let there = |given: &&Given| matches!(given, Given::There { .. });
        assert_eq!(
            trial.given.iter().filter(there).count(),
            told,
            "seed {seed}"
        );
        let there = |settled: &&Settled| matches!(settled, Settled::There { .. });
        assert_eq!(
            trial.settled.iter().filter(there).count(),
            told,
            "seed {seed}"
        );
    }
}

#[test]
fn a_hole_longer_than_the_window_holds_nothing_up() {
    hole::<Sdus>();
    hole::<Octets>();
}

fn hole<L: Line>() {
    for seed in 0..6 {
        let rng = &mut rng(seed);
        let mut octets = random(rng, 2_000_000);
        let start = below(rng, 400_000) as usize;
        let end = 1_000_000 + below(rng, 1_000_001) as usize;
        octets[start..end].fill(0);
        let files: Files = [(b"a".to_vec(), Node::File(octets))].into();
        let lost = [0, 20, 200][seed as usize % 3];
        let mut trial = Trial::<L>::new(Given0::new(files.clone()), Kept::default(), 1, lost);
        trial.run(seed);
        assert!(trial.kept().files == files, "seed {seed}");
    }
}

#[test]
fn what_was_interrupted_goes_on_where_it_was() {
    interrupted::<Sdus>();
    interrupted::<Octets>();
}

fn interrupted<L: Line>() {
    for seed in 0..20 {
        let rng = &mut rng(seed);
        let mut files = Files::new();
        files.insert(b"long".to_vec(), Node::File(random(rng, 1_500_000)));
        let mut kept = Kept::default();
        let (mut octets, mut deaths) = (0, 0);
        for run in 1.. {
            let mut trial = Trial::<L>::new(Given0::new(files.clone()), kept, run, 10);
            for _ in 0..8 + below(rng, 12) {
                trial.turn();
            }
            let is_done = trial.giving.is_done() && trial.taking.is_done();
            if deaths == 3 && !is_done {
                trial.run(seed);
            }
            octets += trial.octets;
            if deaths == 3 || is_done {
                assert!(trial.kept().files == files, "seed {seed}");
                break;
            }
            // Both die; what was checked is on the disk.
            deaths += 1;
            trial.taking.abandon(trial.line.ends().1);
            kept = std::mem::take(trial.taking.destination_mut());
        }
        assert!(deaths > 1, "seed {seed}");
        // A window and a disk-PDU again for each death, and what was lost.
        let again = deaths * (200_000 + DISK_LEN);
        assert!(octets < 1_600_000 + again, "seed {seed}: {octets}");
    }
}

#[test]
fn a_disk_pdu_with_a_wrong_digest_is_sent_again_twice_and_then_its_file_fails() {
    wrong_digest::<Sdus>();
    wrong_digest::<Octets>();
}

fn wrong_digest<L: Line>() {
    let octets = random(&mut rng(1), 300_000);
    for times in 0..5 {
        let files: Files = [
            (b"bad".to_vec(), Node::File(octets.clone())),
            (b"good".to_vec(), Node::File(octets.clone())),
        ]
        .into();
        let given = Given0::new(files.clone());
        let wrong = (b"bad".to_vec(), DISK_LEN);
        given.wrong.borrow_mut().insert(wrong, times);
        let mut trial = Trial::<L>::new(given, Kept::default(), 1, 0);
        trial.run(0);
        assert_eq!(trial.taking.taken().wrong, u64::from(times.min(3)));
        let is_there = trial.kept().files.contains_key(&b"bad"[..]);
        assert_eq!(is_there, times < 3, "{times}");
        assert_eq!(trial.kept().files[&b"good"[..]], files[&b"good"[..]]);
        let failed = |given: &&Given| matches!(given, Given::Failed { .. });
        assert_eq!(
            trial.given.iter().filter(failed).count(),
            usize::from(times >= 3)
        );
    }
}

#[test]
fn a_file_that_changes_while_it_is_sent_is_sent_anew_and_fails_the_third_time() {
    changes::<Sdus>();
    changes::<Octets>();
}

fn changes<L: Line>() {
    for len in [100, 200_000] {
        for times in 0..5 {
            let octets = random(&mut rng(1), len);
            let files: Files = [(b"a".to_vec(), Node::File(octets))].into();
            let mut given = Given0::new(files.clone());
            given.changes.insert(b"a".to_vec(), times);
            let mut trial = Trial::<L>::new(given, Kept::default(), 1, 0);
            trial.run(0);
            assert_eq!(trial.kept().files == files, times < 3, "{len} {times}");
            let failed = |given: &&Given| matches!(given, Given::Failed { .. });
            assert_eq!(
                trial.given.iter().filter(failed).count(),
                usize::from(times >= 3)
            );
        }
    }
}

#[test]
fn the_failure_of_one_is_told_at_both_ends_and_fails_no_other() {
    one_fails::<Sdus>();
    one_fails::<Octets>();
}

fn one_fails<L: Line>() {
    for seed in 0..10 {
        let rng = &mut rng(seed);
        let files = files(rng);
        let refused: Vec<_> = files
            .iter()
            .filter(|(_, node)| matches!(node, Node::File(_)) && below(rng, 3) == 0)
            .map(|(path, _)| path.clone())
            .collect();
        let kept = Kept {
            refused: refused.clone(),
            ..Kept::default()
        };
        let mut trial = Trial::<L>::new(Given0::new(files.clone()), kept, 1, 50);
        trial.run(seed);
        let mut expected = files.clone();
        expected.retain(|path, _| !refused.contains(path));
        assert!(trial.kept().files == expected, "seed {seed}");
        let mut given: Vec<_> = trial
            .given
            .iter()
            .filter_map(|given| match given {
                Given::Failed { path, reason } if reason == "not here" => Some(path.clone()),
                _ => None,
            })
            .collect();
        given.sort();
        assert_eq!(given, refused, "seed {seed}");
    }
}

#[test]
fn what_somebody_else_has_is_taken_when_they_have_gone() {
    for jobs in 1..5 {
        let octets = random(&mut rng(2), 100_000);
        let files: Files = (0..6)
            .map(|n| (vec![n], Node::File(octets.clone())))
            .collect();
        let kept = Kept {
            in_use: (0..4).map(|n| (vec![n], 3 * n)).collect(),
            ..Kept::default()
        };
        let mut trial = Trial::<Octets>::new(Given0::new(files.clone()), kept, 1, 0);
        trial.taking = Taking::new(std::mem::take(trial.kept()), jobs);
        trial.run(0);
        assert!(trial.kept().files == files);
        assert!(trial.kept().in_use.values().all(|left| *left == 0));
    }
}

#[test]
fn of_files_that_were_compared_and_differ_few_are_received_at_a_time() {
    let rng = &mut rng(3);
    let mut there = Files::new();
    let files: Files = (0..20)
        .map(|n| {
            there.insert(vec![n], Node::File(random(rng, 70_000)));
            (vec![n], Node::File(random(rng, 70_000)))
        })
        .collect();
    let kept = Kept {
        files: there,
        compares: true,
        ..Kept::default()
    };
    let mut trial = Trial::<Octets>::new(Given0::new(files.clone()), kept, 1, 0);
    trial.run(0);
    assert!(trial.kept().files == files);
    assert_eq!(trial.kept().most_open, 3);
}

#[test]
fn messages_come_back_and_octets_that_are_none_are_refused() {
    let entry = Given0::new([(b"a/\xff".to_vec(), Node::Link(b"b".to_vec()))].into());
    let messages = [
        Message::Put {
            manner: Manner {
                existing: Existing::Skip,
                by_digest: true,
                anew: true,
            },
            path: b"x".to_vec(),
        },
        Message::Get { path: Vec::new() },
        Message::List {
            path: b"y/z".to_vec(),
        },
        Message::Accepted,
        Message::Refused {
            reason: "no".to_owned(),
        },
        Message::Offer {
            id: 7,
            entry: entry.entry(b"a/\xff"),
        },
        Message::Left { id: 8 },
        Message::End,
        Message::Want {
            id: 9,
            transfer: 1,
            start: 2,
            end: 3,
            edge: 4,
        },
        Message::Take { id: 10 },
        Message::Content {
            id: 11,
            digest: [12; 32],
            octets: b"content".to_vec(),
        },
        Message::Have {
            id: 13,
            digest: None,
        },
        Message::Have {
            id: 13,
            digest: Some([14; 32]),
        },
        Message::Got { id: 15 },
        Message::Whole { id: 16 },
        Message::Changed { id: 17 },
        Message::Failed {
            id: 18,
            reason: "why".to_owned(),
        },
        Message::Done,
        Message::Stop {
            reason: "enough".to_owned(),
        },
        Message::Compare {
            id: 19,
            digest: [20; 32],
        },
        Message::Compared {
            id: 21,
            is_same: true,
        },
    ];
    let mut kinds: Vec<_> = messages.iter().map(|message| message.emit()[0]).collect();
    kinds.dedup();
    assert_eq!(kinds, (1..=20).collect::<Vec<_>>());
    for message in &messages {
        let octets = message.emit();
        assert_eq!(Message::parse(&octets).as_ref(), Ok(message));
        // Whatever is cut off or changed is refused or another message, and never a panic.
        for len in 0..octets.len() {
            let _ = Message::parse(&octets[..len]);
        }
        let mut rng = rng(1);
        for _ in 0..200 {
            let mut octets = octets.clone();
            let at = below(&mut rng, octets.len() as u64) as usize;
            octets[at] = rng.next_u32() as u8;
            let _ = Message::parse(&octets);
        }
    }
    assert!(Message::parse(&[]).is_err());
    assert!(Message::parse(&[0]).is_err());
    assert!(Message::parse(&[21]).is_err());
    assert!(Message::parse(&[4, 0]).is_err());
}
