//! Who speaks as nobody should, before a session that serves.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use cellgate_core::contract::Aal;
use cellgate_core::terminal::{EntryKind, Exchange, Manner};

use super::*;
use crate::terminal::disk::Root;
use crate::terminal::place::Receiving;
use crate::terminal::port::Port;
use crate::terminal::sending::Sending;

/// A directory that goes with its test.
struct Place(PathBuf);

impl Place {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("cellgate-session-{}-{count}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(path.join("root")).unwrap();
        fs::create_dir(path.join("outside")).unwrap();
        Self(path)
    }

    fn is_empty(&self, directory: &str) -> bool {
        fs::read_dir(self.0.join(directory))
            .unwrap()
            .next()
            .is_none()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A peer that says what it likes, and the session.
struct Trial {
    place: Place,
    now: Time,
    peer: Exchange<Sending, Receiving>,
    session: Session<Port>,
}

impl Trial {
    fn new() -> Self {
        let place = Place::new();
        let served = Served {
            root: Root::open(&place.0.join("root")).unwrap(),
            is_writable: true,
        };
        let terms = Terms::new(Aal::Aal5, 9_180).unwrap();
        let other = Terms::new(Aal::Aal5, 9_180).unwrap();
        Self {
            place,
            now: MonotonicClock.now(),
            peer: Port::carrier(&other, true),
            session: Session::serve(terms, served),
        }
    }

    /// Time passes; both are heard by the other.
    fn turns(&mut self, count: u32) {
        let mut sdu = [0; 9_180];
        for _ in 0..count {
            self.now = self.now.plus_ns(1_000_000);
            let now = self.now;
            self.peer.handle_deadline(now);
            self.session.carrier.handle_deadline(now);
            while let Some(len) = self.peer.poll_sdu(now, &mut sdu) {
                self.session.carrier.handle_sdu(now, &sdu[..len.into()]);
            }
            self.session.acts(now).unwrap();
            while let Some(len) = self.session.carrier.poll_sdu(now, &mut sdu) {
                self.peer.handle_sdu(now, &sdu[..len.into()]);
            }
        }
    }

    /// What the session says next.
    fn hears(&mut self) -> Message {
        let mut message = Vec::new();
        for _ in 0..2_000 {
            if self.peer.hear(self.now, &mut message).unwrap() {
                return Message::parse(&message).unwrap();
            }
            self.turns(1);
        }
        panic!("it says nothing");
    }

    fn says(&mut self, message: &Message) {
        self.peer.say(&message.emit());
    }

    fn puts(&mut self) {
        self.says(&Message::Put {
            manner: Manner::default(),
            path: Vec::new(),
        });
        assert_eq!(self.hears(), Message::Accepted);
    }
}

fn entry(path: &[u8], kind: EntryKind) -> Entry {
    Entry {
        path: path.to_vec(),
        kind,
        mode: 0o644,
        user: 0,
        group: 0,
        modified_ns: 0,
        mark: [1; 16],
    }
}

const fn file(len: u64) -> EntryKind {
    EntryKind::File { len, holes: false }
}

#[test]
fn a_name_that_leads_elsewhere_is_refused_by_name() {
    let mut trial = Trial::new();
    let long = [&b"x".repeat(300)[..], b"/y"].concat();
    let names = [
        (&b"/etc/passwd"[..], "that of the machine"[..].to_owned()),
        (b"..", "\"..\"".to_owned()),
        (b"a/../../b", "\"..\"".to_owned()),
        (b"./a", "\".\"".to_owned()),
        (b"", "empty".to_owned()),
        (b"a//b", "empty".to_owned()),
        (b"a\0b", "octet 0".to_owned()),
        (b".cellgate-partial/x", "not finished".to_owned()),
        (&long, "more than 255".to_owned()),
    ];
    trial.puts();
    let kinds = |name: &[u8]| {
        let link = EntryKind::Link { to: name.to_vec() };
        [
            file(5),
            file(1 << 20),
            EntryKind::Stream,
            EntryKind::Directory,
            link,
        ]
    };
    for (name, why) in &names {
        for kind in kinds(name) {
            trial.says(&Message::Offer {
                id: 1,
                entry: entry(name, kind.clone()),
            });
            let Message::Failed { id: 1, reason } = trial.hears() else {
                panic!("{name:?} {kind:?} was taken");
            };
            assert!(reason.contains(why), "{name:?}: {reason}");
        }
    }
    trial.says(&Message::Stop {
        reason: String::new(),
    });
    for (name, _) in names.iter().filter(|(name, _)| !name.is_empty()) {
        let path = name.to_vec();
        let asked = [
            Message::Get { path: path.clone() },
            Message::List { path: path.clone() },
            Message::Put {
                manner: Manner::default(),
                path,
            },
        ];
        for message in asked {
            trial.says(&message);
            let heard = trial.hears();
            assert!(
                matches!(heard, Message::Refused { .. }),
                "{message:?}: {heard:?}"
            );
        }
    }
    assert!(trial.place.is_empty("root") && trial.place.is_empty("outside"));
}

#[test]
fn a_link_that_a_peer_plants_is_not_written_through() {
    let mut trial = Trial::new();
    trial.puts();
    for (id, to) in [(1, trial.place.0.join("outside")), (2, "..".into())] {
        let name = format!("link-{id}");
        let to = std::os::unix::ffi::OsStrExt::as_bytes(to.as_os_str()).to_vec();
        trial.says(&Message::Offer {
            id,
            entry: entry(name.as_bytes(), EntryKind::Link { to }),
        });
        assert_eq!(trial.hears(), Message::Have { id, digest: None });
        for kind in [
            file(5),
            file(1 << 20),
            EntryKind::Stream,
            EntryKind::Directory,
        ] {
            trial.says(&Message::Offer {
                id: 9,
                entry: entry(format!("{name}/x").as_bytes(), kind),
            });
            let Message::Failed { id: 9, reason } = trial.hears() else {
                panic!("it was taken");
            };
            assert!(reason.contains("leads through a link"), "{reason}");
        }
    }
    assert!(trial.place.is_empty("outside"));
}

#[test]
fn offers_without_end_end_the_session_by_name_and_the_next_one_is_served() {
    let mut trial = Trial::new();
    trial.puts();
    for id in 0..5_000 {
        let name = id.to_string();
        trial.says(&Message::Offer {
            id,
            entry: entry(name.as_bytes(), file(5)),
        });
    }
    let reason = loop {
        match trial.hears() {
            Message::Take { .. } => {}
            Message::Stop { reason } => break reason,
            other => panic!("{other:?}"),
        }
    };
    assert!(reason.contains("more is offered"), "{reason}");
    assert_eq!(trial.session.report(), Some(Report::Fault(reason)));
    trial.turns(100);
    trial.puts();
    assert!(trial.place.is_empty("root"));
}

/// Threads and descriptors of this process, and pages of its memory.
fn held() -> (usize, usize, u64) {
    let count = |directory| fs::read_dir(directory).unwrap().count();
    let pages = fs::read_to_string("/proc/self/statm").unwrap();
    let pages = pages.split(' ').nth(1).unwrap().parse().unwrap();
    (count("/proc/self/task"), count("/proc/self/fd"), pages)
}

#[test]
fn requests_without_end_take_no_memory() {
    let mut trial = Trial::new();
    let count = std::env::var("CELLGATE_REQUESTS").ok();
    let count = count.map_or(20_000, |count| count.parse::<u32>().unwrap());
    let before = held();
    let path = Vec::new();
    let requests = [
        Message::List { path: path.clone() },
        Message::Get {
            path: b"nothing".to_vec(),
        },
        Message::Put {
            manner: Manner::default(),
            path: path.clone(),
        },
        Message::Stop {
            reason: "no".to_owned(),
        },
        Message::Get { path },
        Message::Stop {
            reason: "no".to_owned(),
        },
        Message::Take { id: 7 },
        Message::Done,
    ];
    let mut message = Vec::new();
    for n in 0..count {
        trial.says(&requests[n as usize % requests.len()]);
        if n % 64 == 0 {
            trial.turns(1);
            while trial.peer.hear(trial.now, &mut message).unwrap() {}
            while trial.session.report().is_some() {}
        }
    }
    trial.turns(100);
    let after = held();
    // Other tests run beside it.
    assert!(after.0 < before.0 + 100, "{before:?} {after:?}");
    assert!(after.1 < before.1 + 200, "{before:?} {after:?}");
    assert!(
        after.2 < before.2 + (64 << 20) / 4_096,
        "{before:?} {after:?}"
    );
}

#[test]
fn who_is_silent_is_forgotten_after_thirty_seconds() {
    let mut trial = Trial::new();
    trial.puts();
    let name = b"long";
    trial.says(&Message::Offer {
        id: 1,
        entry: entry(name, file(5 << 20)),
    });
    assert!(matches!(trial.hears(), Message::Want { .. }));
    let last = trial.session.carrier.heard_at();
    trial.session.acts(last.plus_ns(SILENCE_NS)).unwrap();
    assert_eq!(trial.session.report(), None);
    trial.session.acts(last.plus_ns(SILENCE_NS + 1)).unwrap();
    let Some(Report::Ended(reason)) = trial.session.report() else {
        panic!("nothing is told");
    };
    assert!(reason.contains("nothing has come"), "{reason}");
    assert!(matches!(trial.session.work, Work::Nothing));
}

#[test]
fn who_was_served_and_has_gone_is_not_waited_for_long() {
    let mut trial = Trial::new();
    trial.puts();
    trial.says(&Message::End);
    // What is said in return does not come.
    let (now, mut sdu) = (trial.now.plus_ns(1_000_000), [0; 9_180]);
    while let Some(len) = trial.peer.poll_sdu(now, &mut sdu) {
        trial.session.carrier.handle_sdu(now, &sdu[..len.into()]);
    }
    trial.session.acts(now).unwrap();
    assert!(trial.session.is_done() && trial.session.carrier.unsaid() > 0);
    let last = trial.session.carrier.heard_at();
    trial.session.acts(last.plus_ns(DONE_SILENCE_NS)).unwrap();
    assert!(trial.session.is_done());
    trial
        .session
        .acts(last.plus_ns(DONE_SILENCE_NS + 1))
        .unwrap();
    assert!(matches!(trial.session.work, Work::Nothing));
    assert_eq!(trial.session.report(), Some(Report::Settled(Settled::Done)));
    assert_eq!(trial.session.report(), None);
}
