//! `put`, `get`, `ls` and `serve-files` before a daemon with two interfaces that are joined.

mod ends;
mod kills;
mod lines;
mod others;
mod tree;
mod users;

use crate::daemon::Daemon;

/// Both ways of a transfer.
const CONTRACT: &str = "cbr,aal5:pcr=16Mbps,max_sdu=8192";
/// Octets of files that it carries in a second, at most.
const RATE: u64 = 2_000_000;

fn daemon() -> Daemon {
    Daemon::start_beside(
        "[adapter]\nidle = \"sleep\"\npin = false\n\
         [[interface]]\nname = \"a\"\nlink.memory.peer = \"b\"\n\
         [[interface]]\nname = \"b\"\nlink.memory.peer = \"a\"\n",
    )
}
