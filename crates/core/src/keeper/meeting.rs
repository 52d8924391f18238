//! How the two ends of a memory link between daemons meet at a socket's path: what each says of
//! itself, whether they fit, and when who tries again.
//!
//! ```text
//!  finds nobody at the path: listens            finds somebody there: connects
//!         Hail, descriptors   --------------------->  judges, joins
//!         judges, joins   <---------------------   Hail, descriptors
//!  either is gone: the socket hangs up, and the other is away again
//! ```
//!
//! Both say the same, whoever has listened. The machine knows no socket and no memory: the process
//! around it calls, listens and makes ports.

use serde::{Deserialize, Serialize};

use super::MeetingReport;
use crate::Time;
use crate::queue::{PortGeometry, PortSizes};
use crate::wire::HeaderForm;

/// The version of what is said at a meeting, and of the memory that is handed over there.
pub const MEETING_VERSION: u32 = 1;

/// Descriptors that come along with a [`Hail`]: those of [`Ask::ReceivePort`](super::Ask).
pub const HAIL_DESCRIPTORS: usize = 4;

/// From one look at the path to the next, while nobody is there.
const AGAIN_NS: u64 = 250_000_000;
/// The same, after what only somebody's help ends.
const TROUBLE_NS: u64 = 1_000_000_000;
/// How long a trouble is told that has not come again.
const TOLD_NS: u64 = 3 * TROUBLE_NS;
/// Octets of the words for a trouble at most: an answer has those of many ports.
pub const TROUBLE_LEN_MAX: usize = 400;
/// How long the other end has for its first word.
const PATIENCE_NS: u64 = 2_000_000_000;

/// One message at a meeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Word {
    /// The port that the speaker receives from; its descriptors come along.
    Hail(Hail),
    /// The speaker is joined to another already.
    Taken,
}

/// An end's own description.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hail {
    /// [`MEETING_VERSION`].
    pub version: u32,
    /// Of the cells.
    pub form: HeaderForm,
    /// Of the port that it receives from.
    pub sizes: PortSizes,
    /// Of that port's files.
    pub files_generation: u32,
}

/// A message of any version.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum AnyWord {
    Hail { version: u32 },
    Taken,
}

/// Why two ends do not come together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misfit {
    /// The other end is of another release.
    #[error(
        "the other end speaks version {speaks} of memory links, this one {MEETING_VERSION}: run \
         one release at both"
    )]
    Version { speaks: u32 },
    /// One is a UNI, the other an NNI.
    #[error("the other end is {}, this one {}: give both one `form`", theirs.name(), ours.name())]
    Form {
        theirs: HeaderForm,
        ours: HeaderForm,
    },
    /// The other end has a peer.
    #[error("the other end is joined to a third: a socket is for two interfaces")]
    Taken,
    /// The octets are no message of a meeting.
    #[error("whoever has the other end speaks of no memory link")]
    Nonsense,
    /// Nothing came.
    #[error("whoever has the other end says nothing")]
    Silence,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Away {
        /// When to look at the path.
        next: Time,
    },
    Greeting {
        since: Time,
    },
    Joined,
}

/// One end of a memory link between daemons.
#[derive(Clone, Debug)]
pub struct Meeting {
    form: HeaderForm,
    sizes: PortSizes,
    place: Place,
    /// When it was joined last.
    parted: Option<Time>,
    trouble: Option<(Time, String)>,
}

impl Meeting {
    /// An end that receives cells of this form from a port of these sizes; it looks at the path at
    /// once.
    pub const fn new(form: HeaderForm, sizes: PortSizes) -> Self {
        Self {
            form,
            sizes,
            place: Place::Away { next: Time::ZERO },
            parted: None,
            trouble: None,
        }
    }

    /// Whether it is time to look who is at the path.
    pub fn is_due(&self, now: Time) -> bool {
        matches!(self.place, Place::Away { next } if next <= now)
    }

    /// When something is due at the latest; none: it waits for others.
    pub const fn next_deadline(&self) -> Option<Time> {
        match self.place {
            Place::Away { next } => Some(next),
            Place::Greeting { since } => Some(since.plus_ns(PATIENCE_NS)),
            Place::Joined => None,
        }
    }

    /// Whether somebody who comes is let in.
    pub const fn is_away(&self) -> bool {
        matches!(self.place, Place::Away { .. })
    }

    pub const fn is_joined(&self) -> bool {
        matches!(self.place, Place::Joined)
    }

    /// Somebody is there: what to say, with the descriptors of a port whose files are of this
    /// generation.
    pub fn greet(&mut self, now: Time, files_generation: u32) -> Word {
        self.place = Place::Greeting { since: now };
        Word::Hail(Hail {
            version: MEETING_VERSION,
            form: self.form,
            sizes: self.sizes,
            files_generation,
        })
    }

    /// Judges the first word of the other end, and the number of descriptors that came along; gives
    /// the port to join to.
    ///
    /// # Errors
    /// They do not fit: hang up.
    pub fn hear(&mut self, now: Time, octets: &[u8], fds: usize) -> Result<Hail, Misfit> {
        let fits = self.judge(octets, fds);
        match fits {
            Ok(_) => (self.place, self.trouble) = (Place::Joined, None),
            Err(misfit) => self.fail(now, misfit.to_string()),
        }
        fits
    }

    fn judge(&self, octets: &[u8], fds: usize) -> Result<Hail, Misfit> {
        match serde_json::from_slice(octets) {
            Ok(AnyWord::Hail {
                version: MEETING_VERSION,
            }) => {}
            Ok(AnyWord::Hail { version }) => return Err(Misfit::Version { speaks: version }),
            Ok(AnyWord::Taken) => return Err(Misfit::Taken),
            Err(_) => return Err(Misfit::Nonsense),
        }
        let Ok(Word::Hail(hail)) = serde_json::from_slice(octets) else {
            return Err(Misfit::Nonsense);
        };
        if hail.form != self.form {
            let (theirs, ours) = (hail.form, self.form);
            return Err(Misfit::Form { theirs, ours });
        }
        let same = hail.sizes.format == self.sizes.format;
        let sane = same && fds == HAIL_DESCRIPTORS && PortGeometry::new(hail.sizes).is_ok();
        sane.then_some(hail).ok_or(Misfit::Nonsense)
    }

    /// Gives up on somebody who has said nothing for too long; whether that is so.
    pub fn gives_up(&mut self, now: Time) -> bool {
        let over = matches!(self.place, Place::Greeting { since }
            if now >= since.plus_ns(PATIENCE_NS));
        if over {
            self.fail(now, Misfit::Silence.to_string());
        }
        over
    }

    /// Nobody is at the path, or who was there has gone.
    pub fn part(&mut self, now: Time) {
        if self.is_joined() {
            self.parted = Some(now);
        }
        let next = now.plus_ns(AGAIN_NS);
        self.place = Place::Away { next };
    }

    /// It came to nothing, and why: for people.
    pub fn fail(&mut self, now: Time, mut why: String) {
        why.truncate(why.floor_char_boundary(TROUBLE_LEN_MAX));
        self.part(now);
        let next = now.plus_ns(TROUBLE_NS);
        self.place = Place::Away { next };
        self.trouble = Some((now, why));
    }

    /// Its state, for people.
    pub fn report(&self, now: Time) -> MeetingReport {
        let told = self.trouble.as_ref();
        let told = told.filter(|(since, _)| now < since.plus_ns(TOLD_NS));
        MeetingReport {
            joined: self.is_joined(),
            parted: self.parted,
            trouble: told.map(|(_, why)| why.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::CellFormat;

    fn sizes(format: CellFormat) -> PortSizes {
        PortSizes { cells: 8, format }
    }

    fn uni() -> Meeting {
        Meeting::new(HeaderForm::Uni, sizes(CellFormat::WithHec))
    }

    fn at(ms: u64) -> Time {
        Time::from_ns(ms * 1_000_000)
    }

    fn said(word: Word) -> Vec<u8> {
        serde_json::to_vec(&word).unwrap()
    }

    #[test]
    fn two_that_fit_join_and_look_for_each_other_again_when_they_have_parted() {
        let (mut a, mut b) = (uni(), uni());
        assert!(a.is_due(at(0)));
        let (from_a, from_b) = (said(a.greet(at(1), 7)), said(b.greet(at(1), 9)));
        assert_eq!(a.hear(at(2), &from_b, 4).unwrap().files_generation, 9);
        assert_eq!(b.hear(at(2), &from_a, 4).unwrap().files_generation, 7);
        assert!(a.is_joined() && !a.is_due(at(9_999)) && a.next_deadline().is_none());
        assert!(a.report(at(3)).joined);
        a.part(at(5));
        assert_eq!(a.next_deadline(), Some(at(255)));
        let report = a.report(at(6));
        assert_eq!((report.joined, report.parted), (false, Some(at(5))));
        assert!(!a.is_due(at(254)) && a.is_due(at(255)));
    }

    #[test]
    fn who_does_not_fit_is_told_why_and_asked_again_later() {
        let other = |version, form, format, cells| {
            said(Word::Hail(Hail {
                version,
                form,
                sizes: PortSizes { cells, format },
                files_generation: 1,
            }))
        };
        let (uni_form, hec) = (HeaderForm::Uni, CellFormat::WithHec);
        let later = br#"{"hail":{"version":2,"colour":"blue"}}"#.to_vec();
        for (octets, fds, part) in [
            (
                other(1, HeaderForm::Nni, CellFormat::NoHec, 8),
                4,
                "an NNI, this one a UNI",
            ),
            (later, 0, "version 2"),
            (said(Word::Taken), 0, "a third"),
            (other(1, uni_form, hec, 8), 3, "no memory link"),
            (
                other(1, uni_form, CellFormat::NoHec, 8),
                4,
                "no memory link",
            ),
            (other(1, uni_form, hec, 7), 4, "no memory link"),
            (b"{}".to_vec(), 4, "no memory link"),
            (
                br#"{"hail":{"version":1,"colour":"blue"}}"#.to_vec(),
                4,
                "no memory link",
            ),
            (Vec::new(), 0, "no memory link"),
        ] {
            let mut meeting = uni();
            meeting.greet(at(1), 1);
            let misfit = meeting.hear(at(2), &octets, fds).unwrap_err();
            assert!(misfit.to_string().contains(part), "{part}: {misfit}");
            assert_eq!(meeting.report(at(3)).trouble, Some(misfit.to_string()));
            assert_eq!(meeting.next_deadline(), Some(at(1_002)));
            // A trouble that does not come again is told no more.
            assert_eq!(meeting.report(at(3_002)).trouble, None);
        }
    }

    #[test]
    fn who_says_nothing_is_not_waited_for() {
        let mut meeting = uni();
        meeting.greet(at(0), 1);
        assert!(!meeting.is_away() && !meeting.gives_up(at(1_999)));
        assert!(meeting.gives_up(at(2_000)) && meeting.is_away());
        let trouble = meeting.report(at(2_000)).trouble.unwrap();
        assert!(trouble.contains("says nothing"), "{trouble}");
    }
}
