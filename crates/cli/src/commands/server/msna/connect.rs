use std::io::{Read, Write, stdin, stdout};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use cellgate_host::sys::{Heard, Signals};
use cellgate_msna::{Address, Call, Event};
use cellgate_report::output::Exit;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::super::Server;
use super::super::recv::seconds;
use super::{Place, told};

#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  $ echo hello | cellgate msna connect 10.0.0.2:7 --itf a")]
pub(super) struct Args {
    #[command(flatten)]
    place: Place,
    /// HOST:SAP
    to: Address,
    /// The traffic contract, without AAL
    #[arg(long, value_name = "TEXT", default_value = "ubr")]
    contract: String,
    /// Time for answers behind the end of the input
    #[arg(short = 'W', value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    wait: Duration,
}

/// Octets of a block.
const BLOCK: usize = 8_160;

/// A node looks at its times so often.
const TURN: Duration = Duration::from_millis(100);

pub(super) fn run(server: &Server, args: &Args) -> anyhow::Result<Exit> {
    let signals = Signals::listen()?;
    let mut node = args.place.node(server, Some(args.to))?;
    let call = Call {
        contract: args.contract.clone(),
        ..Call::default()
    };
    let mut liaison = node.connect(args.to, &call).map_err(told)?;
    let (mut input, mut output) = (stdin().lock(), stdout().lock());
    let mut octets = vec![0; BLOCK];
    let mut block = Vec::new();
    let mut ended = None;
    loop {
        while liaison.try_recv(&mut block).map_err(told)? {
            output.write_all(&block)?;
            output.flush()?;
            ended = ended.map(|_| Instant::now());
        }
        while let Some(event) = node.next_event(Some(Duration::ZERO)).map_err(told)? {
            let is_over = match event {
                Event::Released { circuit } => circuit == liaison.circuit(),
                Event::Restarted { host } => host == liaison.peer(),
                _ => false,
            };
            if is_over {
                anyhow::ensure!(ended.is_some(), "{} has ended the association", args.to);
                return Ok(Exit::Ok);
            }
        }
        if ended.is_some_and(|at: Instant| at.elapsed() >= args.wait) {
            return Ok(Exit::Ok);
        }
        let armed = liaison.arm().map_err(told)? && node.arm().map_err(told)?;
        let timeout = if armed { TURN } else { Duration::ZERO };
        let is_readable = {
            let mut fds = vec![
                PollFd::new(&signals, PollFlags::IN),
                PollFd::from_borrowed_fd(liaison.as_fd(), PollFlags::IN),
                PollFd::from_borrowed_fd(node.as_fd(), PollFlags::IN),
            ];
            if ended.is_none() {
                fds.push(PollFd::new(&input, PollFlags::IN));
            }
            let _ = poll(&mut fds, Timespec::try_from(timeout).ok().as_ref());
            fds.get(3).is_some_and(|input| !input.revents().is_empty())
        };
        if signals.heard().iter().any(|heard| *heard != Heard::Child) {
            return Ok(Exit::Ok);
        }
        if is_readable {
            match input.read(&mut octets)? {
                0 => ended = Some(Instant::now()),
                len => liaison.send(&octets[..len]).map_err(told)?,
            }
        }
    }
}
