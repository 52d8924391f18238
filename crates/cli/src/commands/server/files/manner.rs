//! How files are put where others may be, as a user says it.

use cellgate_core::terminal::{Existing, Manner};

/// What becomes of files that are there, and of unfinished ones.
#[derive(clap::Args)]
pub(super) struct Putting {
    /// Replace files that are there with other octets
    #[arg(long, conflicts_with = "skip")]
    overwrite: bool,
    /// Leave files that are there as they are
    #[arg(long)]
    skip: bool,
    /// Compare files of the same length by their digests, not by the time of their last change
    #[arg(long, conflicts_with = "skip")]
    checksum: bool,
    /// Throw away what came of unfinished files before
    #[arg(long)]
    no_resume: bool,
}

impl Putting {
    /// Whether files are compared by their digests.
    pub(super) const fn compares(&self) -> bool {
        self.checksum
    }

    /// For one try: those after the first go on where the one before was.
    pub(super) const fn manner(&self, is_first: bool) -> Manner {
        Manner {
            existing: match (self.overwrite, self.skip) {
                (true, _) => Existing::Replace,
                (_, true) => Existing::Skip,
                _ => Existing::Refuse,
            },
            by_digest: self.checksum,
            anew: self.no_resume && is_first,
        }
    }
}
