//! The command `cellgate`; all of it is in the library, where manual pages are made from it.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    cellgate_cli::run()
}
