//! What two terminals say about files.
//!
//! A message is an octet for what it says, and fields behind each other, numbers most significant
//! octet first. A field of octets without a length of its own is the rest of the message; one with
//! a length has it in 16 bits before.
//!
//! ```text
//!   who asks            who gives                who takes
//!   1 put  --------------------------------------->        |  4 accepted, or 5 refused
//!   2 get  ------------->                                  |
//!   3 list ------------->                                  |
//!                       6 offer, one an entry -->
//!                                           <--  9 want an extent, 10 take it as a whole,
//!                                                12 have it, 19 compare it with what is there
//!                       20 compared ----------->
//!                       11 content  ----------->
//!                                           <--  13 got, all extents
//!                       14 whole, 15 changed -->
//!                                           <--  12 have it: under its name, and safe
//!                       7 left, a directory --->
//!                       8 end ---------------->
//!                                           <--  17 done
//! ```

use crate::terminal::DiskHeader;

/// An entry of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name below what was asked for, of any octets but 0, with `/` between; empty for that
    /// itself.
    pub path: Vec<u8>,
    pub kind: EntryKind,
    /// Permissions: twelve bits.
    pub mode: u16,
    pub user: u32,
    pub group: u32,
    /// When it was changed last: nanoseconds since 1970.
    pub modified_ns: i64,
    /// Another if the giver's file is another, or was changed.
    pub mark: [u8; 16],
}

/// What an entry is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryKind {
    File {
        len: u64,
        /// It may have holes.
        holes: bool,
    },
    Directory,
    /// A symbolic link, and where it leads.
    Link {
        to: Vec<u8>,
    },
    /// A file whose length nobody knows before its end, and whose octets are there once.
    Stream,
}

/// How what is there already is treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Existing {
    /// A file of the same length and time of change stays, another is refused.
    #[default]
    Refuse,
    /// A file of the same length and time of change stays, another is replaced.
    Replace,
    /// It stays, whatever it is.
    Skip,
}

impl Existing {
    const ALL: [Self; 3] = [Self::Refuse, Self::Replace, Self::Skip];
}

/// How files are put.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Manner {
    pub existing: Existing,
    /// A file of the same length that is there is the same if its digest is; otherwise if its time
    /// of change is.
    pub by_digest: bool,
    /// What has come of a file before is thrown away.
    pub anew: bool,
}

impl Manner {
    const BY_DIGEST: u8 = 1 << 2;
    const ANEW: u8 = 1 << 3;

    fn parse(octet: u8) -> Option<Self> {
        let flags = octet & (Self::BY_DIGEST | Self::ANEW);
        let existing = *Existing::ALL.get(usize::from(octet & !flags))?;
        Some(Self {
            existing,
            by_digest: flags & Self::BY_DIGEST != 0,
            anew: flags & Self::ANEW != 0,
        })
    }

    fn emit(self) -> u8 {
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        self.existing as u8 | flag(self.by_digest, Self::BY_DIGEST) | flag(self.anew, Self::ANEW)
    }
}

/// The digest of a file, or a part.
pub type Digest = [u8; DiskHeader::TAIL];

/// What is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Take what I offer, below this path.
    Put {
        manner: Manner,
        path: Vec<u8>,
    },
    /// Offer what is below this path.
    Get {
        path: Vec<u8>,
    },
    /// Offer what is in this directory, or this entry; nothing will be wanted.
    List {
        path: Vec<u8>,
    },
    Accepted,
    Refused {
        reason: String,
    },
    Offer {
        id: u32,
        entry: Entry,
    },
    /// All in this directory is settled.
    Left {
        id: u32,
    },
    /// No more is offered.
    End,
    /// Send octets `start` to `end` as this transfer; there is room up to `edge`.
    Want {
        id: u32,
        transfer: u16,
        start: u64,
        end: u64,
        edge: u64,
    },
    /// Say all of its octets.
    Take {
        id: u32,
    },
    Content {
        id: u32,
        digest: Digest,
        octets: Vec<u8>,
    },
    /// It is there; the digest of a file that was sent.
    Have {
        id: u32,
        digest: Option<Digest>,
    },
    /// All extents have come.
    Got {
        id: u32,
    },
    /// The file was not changed while it was sent.
    Whole {
        id: u32,
    },
    /// The file was changed while it was sent: what has come is of no use. It is offered anew.
    Changed {
        id: u32,
    },
    /// Of this entry nothing will become.
    Failed {
        id: u32,
        reason: String,
    },
    /// All that was offered is settled.
    Done,
    /// The other end stops.
    Stop {
        reason: String,
    },
    /// A file of this length is there, and has this digest: is it the same?
    Compare {
        id: u32,
        digest: Digest,
    },
    /// Whether it is.
    Compared {
        id: u32,
        is_same: bool,
    },
}

/// Octets that are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a message that nobody knows: {0}")]
pub struct MessageError(&'static str);

/// Octets of a reason, at most: more is cut off.
const REASON_MAX: usize = 1_024;

impl Message {
    /// From its octets.
    pub fn parse(octets: &[u8]) -> Result<Self, MessageError> {
        let mut fields = Fields(octets);
        let message = match fields.octet()? {
            1 => Self::Put {
                manner: Manner::parse(fields.octet()?)
                    .ok_or(MessageError("what is to be replaced"))?,
                path: fields.rest(),
            },
            2 => Self::Get {
                path: fields.rest(),
            },
            3 => Self::List {
                path: fields.rest(),
            },
            4 => Self::Accepted,
            5 => Self::Refused {
                reason: fields.reason(),
            },
            6 => Self::Offer {
                id: fields.u32()?,
                entry: fields.entry()?,
            },
            7 => Self::Left { id: fields.u32()? },
            8 => Self::End,
            9 => Self::Want {
                id: fields.u32()?,
                transfer: fields.u16()?,
                start: fields.u64()?,
                end: fields.u64()?,
                edge: fields.u64()?,
            },
            10 => Self::Take { id: fields.u32()? },
            11 => Self::Content {
                id: fields.u32()?,
                digest: fields.take()?,
                octets: fields.rest(),
            },
            12 => Self::Have {
                id: fields.u32()?,
                digest: match fields.0 {
                    [] => None,
                    _ => Some(fields.take()?),
                },
            },
            13 => Self::Got { id: fields.u32()? },
            14 => Self::Whole { id: fields.u32()? },
            15 => Self::Changed { id: fields.u32()? },
            16 => Self::Failed {
                id: fields.u32()?,
                reason: fields.reason(),
            },
            17 => Self::Done,
            18 => Self::Stop {
                reason: fields.reason(),
            },
            19 => Self::Compare {
                id: fields.u32()?,
                digest: fields.take()?,
            },
            20 => Self::Compared {
                id: fields.u32()?,
                is_same: match fields.octet()? {
                    0 => false,
                    1 => true,
                    _ => return Err(MessageError("whether it is the same")),
                },
            },
            _ => return Err(MessageError("its kind")),
        };
        match fields.0 {
            [] => Ok(message),
            _ => Err(MessageError("octets behind its end")),
        }
    }

    /// Its octets.
    pub fn emit(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Put { manner, path } => {
                out.extend([1, manner.emit()]);
                out.extend(path);
            }
            Self::Get { path } => {
                out.push(2);
                out.extend(path);
            }
            Self::List { path } => {
                out.push(3);
                out.extend(path);
            }
            Self::Accepted => out.push(4),
            Self::Refused { reason } => {
                out.push(5);
                out.extend(cut(reason));
            }
            Self::Offer { id, entry } => {
                with_id(&mut out, 6, *id);
                entry.emit(&mut out);
            }
            Self::Left { id } => with_id(&mut out, 7, *id),
            Self::End => out.push(8),
            Self::Want {
                id,
                transfer,
                start,
                end,
                edge,
            } => {
                with_id(&mut out, 9, *id);
                out.extend(transfer.to_be_bytes());
                for number in [start, end, edge] {
                    out.extend(number.to_be_bytes());
                }
            }
            Self::Take { id } => with_id(&mut out, 10, *id),
            Self::Content { id, digest, octets } => {
                with_id(&mut out, 11, *id);
                out.extend(digest);
                out.extend(octets);
            }
            Self::Have { id, digest } => {
                with_id(&mut out, 12, *id);
                out.extend(digest.iter().flatten());
            }
            Self::Got { id } => with_id(&mut out, 13, *id),
            Self::Whole { id } => with_id(&mut out, 14, *id),
            Self::Changed { id } => with_id(&mut out, 15, *id),
            Self::Failed { id, reason } => {
                with_id(&mut out, 16, *id);
                out.extend(cut(reason));
            }
            Self::Done => out.push(17),
            Self::Stop { reason } => {
                out.push(18);
                out.extend(cut(reason));
            }
            Self::Compare { id, digest } => {
                with_id(&mut out, 19, *id);
                out.extend(digest);
            }
            Self::Compared { id, is_same } => {
                with_id(&mut out, 20, *id);
                out.push((*is_same).into());
            }
        }
        out
    }
}

fn with_id(out: &mut Vec<u8>, kind: u8, id: u32) {
    out.push(kind);
    out.extend(id.to_be_bytes());
}

fn cut(reason: &str) -> &[u8] {
    &reason.as_bytes()[..reason.floor_char_boundary(REASON_MAX)]
}

impl Entry {
    /// Octets of a file or a link; 0 of what has none, or as many as nobody knows.
    pub fn octets(&self) -> u64 {
        match &self.kind {
            EntryKind::File { len, .. } => *len,
            EntryKind::Directory | EntryKind::Stream => 0,
            EntryKind::Link { to } => to.len() as u64,
        }
    }

    fn emit(&self, out: &mut Vec<u8>) {
        let kind = match self.kind {
            EntryKind::File { holes: false, .. } => 0,
            EntryKind::File { holes: true, .. } => 3,
            EntryKind::Directory => 1,
            EntryKind::Link { .. } => 2,
            EntryKind::Stream => 4,
        };
        out.push(kind);
        out.extend(self.mode.to_be_bytes());
        out.extend(self.user.to_be_bytes());
        out.extend(self.group.to_be_bytes());
        out.extend(self.modified_ns.to_be_bytes());
        out.extend(self.mark);
        out.extend((self.path.len() as u16).to_be_bytes());
        out.extend(&self.path);
        match &self.kind {
            EntryKind::File { len, .. } => out.extend(len.to_be_bytes()),
            EntryKind::Directory | EntryKind::Stream => {}
            EntryKind::Link { to } => out.extend(to),
        }
    }
}

/// What is left of a message.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], MessageError> {
        let (field, rest) = self
            .0
            .split_first_chunk()
            .ok_or(MessageError("it is too short"))?;
        self.0 = rest;
        Ok(*field)
    }

    fn octet(&mut self) -> Result<u8, MessageError> {
        let [octet] = self.take()?;
        Ok(octet)
    }

    fn u16(&mut self) -> Result<u16, MessageError> {
        self.take().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Result<u32, MessageError> {
        self.take().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Result<u64, MessageError> {
        self.take().map(u64::from_be_bytes)
    }

    fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.0).to_vec()
    }

    fn reason(&mut self) -> String {
        let octets = self.rest();
        let shown = &octets[..octets.len().min(REASON_MAX)];
        String::from_utf8_lossy(shown).into_owned()
    }

    fn entry(&mut self) -> Result<Entry, MessageError> {
        let kind = self.octet()?;
        let mode = self.u16()?;
        let (user, group) = (self.u32()?, self.u32()?);
        let modified_ns = i64::from_be_bytes(self.take()?);
        let mark = self.take()?;
        let len = self.u16()?.into();
        let (path, rest) = self
            .0
            .split_at_checked(len)
            .ok_or(MessageError("it is too short"))?;
        self.0 = rest;
        let path = path.to_vec();
        let kind = match kind {
            0 | 3 => EntryKind::File {
                len: self.u64()?,
                holes: kind == 3,
            },
            1 => EntryKind::Directory,
            2 => EntryKind::Link { to: self.rest() },
            4 => EntryKind::Stream,
            _ => return Err(MessageError("the kind of an entry")),
        };
        Ok(Entry {
            path,
            kind,
            mode: mode & 0o7777,
            user,
            group,
            modified_ns,
            mark,
        })
    }
}
