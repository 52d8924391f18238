use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use cellgate_host::sys::{Heard, Signals};
use cellgate_msna::{Address, Error, Event, Liaison, Node, Sap};
use cellgate_report::output::{Exit, print, print_json_line};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::json;

use super::super::Server;
use super::{Place, told, us};

#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  $ cellgate msna serve --itf b --host 10.0.0.2")]
pub(super) struct Args {
    #[command(flatten)]
    place: Place,
    /// Look for so long before sleeping
    #[arg(long, value_name = "US", value_parser = us, default_value = "0")]
    dally: Duration,
}

/// As the services of RFC 862 and RFC 863.
const ECHO: Sap = Sap(7);
const DISCARD: Sap = Sap(9);

/// A node looks at its times so often.
const TURN: Duration = Duration::from_millis(100);

/// Blocks of one association that are served before others are looked at.
const IN_A_ROW: usize = 64;

struct Association {
    from: Address,
    to: Sap,
    liaison: Liaison,
}

pub(super) fn run(server: &Server, args: &Args) -> anyhow::Result<Exit> {
    let signals = Signals::listen()?;
    let mut node = args.place.node(server, None)?;
    node.serve(ECHO);
    node.serve(DISCARD);
    let mut service = Service {
        node,
        associations: Vec::new(),
        block: Vec::new(),
        json: server.json(),
    };
    eprintln!("serving by {}", args.place.access.name());
    let mut idle = Instant::now();
    loop {
        if service.turn()? {
            idle = Instant::now();
        }
        if idle.elapsed() >= args.dally && service.sleep(&signals)? {
            return Ok(Exit::Ok);
        }
    }
}

struct Service {
    node: Node,
    associations: Vec<Association>,
    block: Vec<u8>,
    json: bool,
}

impl Service {
    fn tell(&self, what: &str, whom: &serde_json::Value) -> anyhow::Result<()> {
        match self.json {
            true => print_json_line(&json!({ what: whom })),
            false => print(&format!("{what} {}\n", whom.as_str().unwrap_or_default())),
        }
    }

    /// Hears all and answers it; whether there was anything.
    fn turn(&mut self) -> anyhow::Result<bool> {
        let mut any = false;
        while let Some(event) = self.node.next_event(Some(Duration::ZERO)).map_err(told)? {
            any = true;
            self.hears(event)?;
        }
        let mut gone = Vec::new();
        for (index, association) in self.associations.iter_mut().enumerate() {
            match association.serve(&mut self.block) {
                Ok(served) => any |= served,
                Err(_) => gone.push(index),
            }
        }
        for index in gone.into_iter().rev() {
            let ended = self.associations.swap_remove(index);
            self.tell("ended", &json!(ended.from.to_string()))?;
        }
        Ok(any)
    }

    fn hears(&mut self, event: Event) -> anyhow::Result<()> {
        match event {
            Event::Connected { from, to, liaison } => {
                self.tell("connected", &json!(from.to_string()))?;
                self.associations.push(Association { from, to, liaison });
            }
            Event::Datagram {
                from,
                to: ECHO,
                octets,
            } => {
                self.node.datagram(ECHO, from, &octets).map_err(told)?;
            }
            Event::Released { circuit } => {
                self.ends(|liaison| liaison.circuit() == circuit)?;
            }
            Event::Restarted { host } => self.ends(|liaison| liaison.peer() == host)?,
            _ => {}
        }
        Ok(())
    }

    fn ends(&mut self, is_over: impl Fn(&Liaison) -> bool) -> anyhow::Result<()> {
        let over = self
            .associations
            .extract_if(.., |association| is_over(&association.liaison));
        for association in over.collect::<Vec<_>>() {
            self.tell("ended", &json!(association.from.to_string()))?;
        }
        Ok(())
    }

    /// Waits until there may be something; whether somebody wants the command to end.
    fn sleep(&mut self, signals: &Signals) -> anyhow::Result<bool> {
        let mut ready = !self.node.arm().map_err(told)?;
        for association in &mut self.associations {
            // One that has ended is heard of when it is served.
            ready |= !association.liaison.arm().unwrap_or(false);
        }
        let due = self.associations.iter();
        let due = due
            .filter_map(|association| association.liaison.due())
            .min();
        let timeout = match ready {
            true => Duration::ZERO,
            false => due.unwrap_or(TURN),
        };
        let timeout = Timespec::try_from(timeout).ok();
        let mut fds = vec![PollFd::new(signals, PollFlags::IN)];
        fds.push(PollFd::from_borrowed_fd(self.node.as_fd(), PollFlags::IN));
        fds.extend(self.associations.iter().map(|association| {
            PollFd::from_borrowed_fd(association.liaison.as_fd(), PollFlags::IN)
        }));
        let _ = poll(&mut fds, timeout.as_ref());
        Ok(signals.heard().iter().any(|heard| *heard != Heard::Child))
    }
}

impl Association {
    /// Answers what has come; whether there was anything.
    fn serve(&mut self, block: &mut Vec<u8>) -> Result<bool, Error> {
        for served in 0..IN_A_ROW {
            if !self.liaison.try_recv(block)? {
                return Ok(served > 0);
            }
            if self.to == ECHO {
                self.liaison.send(block)?;
            }
        }
        Ok(true)
    }
}
