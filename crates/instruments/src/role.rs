//! The processes of the instruments, each a run of this program.

use cellgate_report::output::Exit;

use crate::live::actor::Role;
use crate::{bench, flood, guarantee};

/// Be a process of a demo, a trial or a benchmark
#[derive(clap::Args)]
pub struct Args {
    /// Which one
    role: Role,
}

/// Lives until what started it says that it is over.
///
/// # Errors
/// Whatever keeps it from doing its part; nobody has started it, for one.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    match args.role {
        Role::Adapter => cellgate_host::adapter::run_as_child()?,
        Role::Host => flood::host::run()?,
        Role::Sender => flood::sender::run()?,
        Role::Feeder => flood::transmit::feed()?,
        Role::Counter => flood::transmit::count()?,
        Role::Writer => guarantee::writer()?,
        Role::Reader => guarantee::reader()?,
        Role::Spinner => guarantee::spinner()?,
        Role::Partner => bench::partner()?,
    }
    Ok(Exit::Ok)
}
