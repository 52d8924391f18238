use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use cellgate_host::sys::{Heard, Signals};
use cellgate_msna::{Access, By, NodeConfig, Relay};
use cellgate_report::output::{Exit, print, print_json_line};
use clap::ValueEnum;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::json;

use super::super::{Server, usage};
use super::{told, us};

#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  $ cellgate msna relay --itf a --itf b --by block")]
pub(super) struct Args {
    /// The two interfaces: --itf a --itf b
    #[arg(long, value_name = "NAME", required = true)]
    itf: Vec<String>,
    /// Hand on each cell as it comes, or each block when it is whole
    #[arg(long, default_value = "cell")]
    by: ByWord,
    /// Look for so long before sleeping
    #[arg(long, value_name = "US", value_parser = us, default_value = "0")]
    dally: Duration,
}

#[derive(Clone, Copy, ValueEnum)]
enum ByWord {
    Cell,
    Block,
}

/// A relay looks at its times so often.
const TURN: Duration = Duration::from_millis(500);

pub(super) fn run(server: &Server, args: &Args) -> anyhow::Result<Exit> {
    let two: Result<[String; 2], _> = args.itf.clone().try_into();
    let two = usage(two.map_err(|_| "a relay has two interfaces: --itf a --itf b".to_owned()))?;
    let lines = two.map(|itf| {
        let config = NodeConfig::new(Ipv4Addr::UNSPECIFIED, Access::Cells);
        config.on(itf).at(server.path())
    });
    let by = match args.by {
        ByWord::Cell => By::Cell,
        ByWord::Block => By::Block,
    };
    let signals = Signals::listen()?;
    let mut relay = Relay::open(lines, by).map_err(told)?;
    eprintln!("relaying between {} and {}", args.itf[0], args.itf[1]);
    let mut idle = Instant::now();
    loop {
        if relay.turn().map_err(told)? {
            idle = Instant::now();
        }
        if idle.elapsed() < args.dally {
            continue;
        }
        let armed = relay.arm().map_err(told)?;
        let timeout = if armed { TURN } else { Duration::ZERO };
        let timeout = Timespec::try_from(timeout).ok();
        let own = [PollFd::new(&signals, PollFlags::IN)];
        let fds = relay.fds().into_iter();
        let fds = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        let mut fds: Vec<_> = own.into_iter().chain(fds).collect();
        let _ = poll(&mut fds, timeout.as_ref());
        if signals.heard().iter().any(|heard| *heard != Heard::Child) {
            break;
        }
    }
    let counts = relay.counts();
    match server.json() {
        true => print_json_line(&json!({
            "relayed": counts.relayed,
            "messages": counts.messages,
            "refused": counts.refused,
            "no_message": counts.no_message,
        }))?,
        false => print(&format!(
            "{} {} handed on, and {} messages; {} calls refused, {} blocks were no message\n",
            counts.relayed,
            match by {
                By::Cell => "cells",
                By::Block => "blocks",
            },
            counts.messages,
            counts.refused,
            counts.no_message
        ))?,
    }
    Ok(Exit::Ok)
}
