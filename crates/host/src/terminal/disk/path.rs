use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;

/// Octets of a path that the kernel takes; it counts the NUL behind it, too.
const PATH_MAX: usize = 4_096 - 1;
/// Octets of a name.
const NAME_MAX: usize = 255;

/// The directory of unfinished files, in the root.
pub(super) const PARTIAL_DIRECTORY: &str = ".cellgate-partial";

/// Why no path below a root is what somebody has named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathFault {
    #[error("it is empty")]
    Empty,
    #[error("it does not begin at the root of the transfer but at that of the machine")]
    Absolute,
    #[error("a step of it is empty")]
    EmptyStep,
    #[error("a step of it is \".\" or \"..\"")]
    Dots,
    #[error("it has an octet 0")]
    Nul,
    #[error("a step of it has more than {NAME_MAX} octets")]
    LongStep,
    #[error("it has more than {PATH_MAX} octets")]
    Long,
    #[error("\"{PARTIAL_DIRECTORY}\" is for files that are not finished")]
    Partial,
}

/// A path below a root: steps of any octets, none of which leads up or into the directory of
/// unfinished files. Links are found when it is resolved.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathBelow(Box<[u8]>);

impl PathBelow {
    /// What a peer or a user has named.
    ///
    /// # Errors
    /// It is no such path.
    pub fn new(octets: &[u8]) -> Result<Self, PathFault> {
        if octets.is_empty() {
            return Err(PathFault::Empty);
        }
        if octets.len() > PATH_MAX {
            return Err(PathFault::Long);
        }
        if octets[0] == b'/' {
            return Err(PathFault::Absolute);
        }
        for step in octets.split(|octet| *octet == b'/') {
            Self::check_step(step)?;
        }
        Ok(Self(octets.into()))
    }

    fn check_step(step: &[u8]) -> Result<(), PathFault> {
        match step {
            [] => Err(PathFault::EmptyStep),
            b"." | b".." => Err(PathFault::Dots),
            _ if step.len() > NAME_MAX => Err(PathFault::LongStep),
            _ if step.contains(&0) => Err(PathFault::Nul),
            // A file system may not tell small letters from capitals.
            _ if step.eq_ignore_ascii_case(PARTIAL_DIRECTORY.as_bytes()) => Err(PathFault::Partial),
            _ => Ok(()),
        }
    }

    /// Its octets.
    pub const fn octets(&self) -> &[u8] {
        &self.0
    }

    /// The path of `name` in the directory that this is.
    ///
    /// # Errors
    /// `name` is no step, or the path gets too long.
    pub fn join(&self, name: &[u8]) -> Result<Self, PathFault> {
        Self::new(&[&self.0, &b"/"[..], name].concat())
    }

    /// The directory that it is in, none: the root; and its name there.
    pub fn split(&self) -> (Option<Self>, &[u8]) {
        match self.0.iter().rposition(|octet| *octet == b'/') {
            Some(at) => (Some(Self(self.0[..at].into())), &self.0[at + 1..]),
            None => (None, &self.0),
        }
    }

    pub(super) fn steps(&self) -> impl Iterator<Item = &OsStr> {
        let steps = self.0.split(|octet| *octet == b'/');
        steps.map(OsStr::from_bytes)
    }

    pub(super) fn os(&self) -> &OsStr {
        OsStr::from_bytes(&self.0)
    }
}

/// For people: octets that are no UTF-8 are shown as such.
impl fmt::Display for PathBelow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown_octets(&self.0))
    }
}

impl fmt::Debug for PathBelow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// No control character gets to a terminal, and no two names look the same.
fn shown(mut text: String, chunk: std::str::Utf8Chunk<'_>) -> String {
    for c in chunk.valid().chars() {
        match c.is_control() || c == '\\' {
            true => text.extend(c.escape_default()),
            false => text.push(c),
        }
    }
    for octet in chunk.invalid() {
        text.push_str(&format!("\\x{octet:02x}"));
    }
    text
}

pub(super) fn shown_octets(octets: &[u8]) -> String {
    octets.utf8_chunks().fold(String::new(), shown)
}
