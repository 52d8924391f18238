use super::{Entry, EntryKind, Existing, Manner};

/// The kind of thing in the place of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lying {
    File { len: u64, modified_ns: i64 },
    Directory,
    Link { to: Vec<u8> },
}

/// The fate of an entry whose place is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is there.
    Have,
    /// It gives way to whatever is there.
    Stays,
    /// It replaces what is there.
    Want,
    /// By its digest it is there or not.
    Compare,
    Refused,
}

impl Manner {
    /// The fate of an entry in whose place something lies. `is_same`: what their digests say; none:
    /// they were not compared.
    pub fn standing(&self, entry: &Entry, lying: &Lying, is_same: Option<bool>) -> Standing {
        let is_same = match (&entry.kind, lying) {
            (EntryKind::File { len, .. }, Lying::File { len: there, .. }) if self.by_digest => {
                match is_same {
                    None if len == there => return Standing::Compare,
                    is_same => len == there && is_same == Some(true),
                }
            }
            (
                EntryKind::File { len, .. },
                Lying::File {
                    len: there,
                    modified_ns,
                },
            ) => (len, &entry.modified_ns) == (there, modified_ns),
            (EntryKind::Link { to }, Lying::Link { to: there }) => to == there,
            (EntryKind::Directory, Lying::Directory) => true,
            _ => false,
        };
        match self.existing {
            _ if is_same => Standing::Have,
            Existing::Skip => Standing::Stays,
            Existing::Replace => Standing::Want,
            Existing::Refuse => Standing::Refused,
        }
    }
}
