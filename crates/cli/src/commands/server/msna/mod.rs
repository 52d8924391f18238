//! `cellgate msna`: blocks over associations, as the hosts of the Cambridge networks had them.

mod connect;
mod datagram;
mod list;
mod ping;
mod relay;
mod rpc;
mod serve;
mod times;

use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

use cellgate_msna::{Access, Address, Error, Node, NodeConfig, PORT, Refusal};
use cellgate_report::output::Exit;
use clap::{Args, Subcommand, ValueEnum};

use super::Server;

/// Blocks over associations that another host admits: MSNA of Cambridge
///
/// A host is known by a number of four octets and has service access points: 10.0.0.2:7. An
/// interface has one node at a time, which uses circuit 32.
#[derive(Args)]
pub(crate) struct Command {
    #[command(flatten)]
    server: Server,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Answer: access point 7 sends all back, 9 throws all away
    Serve(serve::Args),
    /// Send blocks to an access point that sends them back, and time their return
    Ping(ping::Args),
    /// Send what comes on standard input to an access point, and print what comes back
    Connect(connect::Args),
    /// Hand on between two interfaces, whose hosts call each other
    Relay(relay::Args),
    /// List the daemon's nodes and their circuits, with cells so far
    #[command(visible_aliases = ["show", "ls", "sh"])]
    #[command(after_long_help = "\
Examples:
  $ cellgate msna list")]
    List,
    /// Send octets to an access point, without an association
    Datagram(datagram::Args),
    /// Call over MSNA, and over TCP beside it (in builds with the feature `rpc`)
    Rpc(rpc::Command),
}

/// A host of the network on this machine.
#[derive(Args)]
struct Place {
    /// The interface; a daemon of one needs no name
    #[arg(long, value_name = "NAME", add = crate::completion::interfaces())]
    itf: Option<String>,
    /// This host's number: with packets an IPv4 address of this machine [default: 10.0.0.1; with
    /// packets the address from which the other is reached]
    #[arg(long, value_name = "A.B.C.D")]
    host: Option<Ipv4Addr>,
    /// The way of blocks: in cells that this host fills, as AAL5 PDUs, as UDP datagrams
    #[arg(long, default_value = "cells")]
    access: Way,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Way {
    Cells,
    Aal5,
    Packets,
}

impl Way {
    const fn name(self) -> &'static str {
        match self {
            Self::Cells => "cells",
            Self::Aal5 => "aal5",
            Self::Packets => "packets",
        }
    }
}

impl Place {
    const fn access(&self) -> Access {
        match self.access {
            Way::Cells => Access::Cells,
            Way::Aal5 => Access::Aal5,
            Way::Packets => Access::Packets,
        }
    }

    /// Begins the host. `to` is whom it calls.
    fn node(&self, server: &Server, to: Option<Address>) -> anyhow::Result<Node> {
        let access = self.access();
        let host = match (self.host, to) {
            (Some(host), _) => host,
            (None, Some(to)) if access == Access::Packets => source_for(to)?,
            (None, _) => Ipv4Addr::new(10, 0, 0, 1),
        };
        self.node_of(server, host)
    }

    /// Begins a host of this number.
    fn node_of(&self, server: &Server, host: Ipv4Addr) -> anyhow::Result<Node> {
        let access = self.access();
        let mut config = NodeConfig::new(host, access).at(server.path());
        if let Some(itf) = &self.itf {
            config = config.on(itf.clone());
        }
        Node::open(config).map_err(told)
    }
}

/// The address of this machine from which another is reached.
fn source_for(to: Address) -> std::io::Result<Ipv4Addr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.connect((to.host, PORT))?;
    match socket.local_addr()?.ip() {
        std::net::IpAddr::V4(address) => Ok(address),
        std::net::IpAddr::V6(_) => Ok(Ipv4Addr::LOCALHOST),
    }
}

/// An error of the daemon's is told as any command tells it.
fn told(error: Error) -> anyhow::Error {
    match error {
        Error::Atm(error) => error.into(),
        error => error.into(),
    }
}

/// The exit code of what another host, or this library, says.
pub(super) fn exit_of(error: &anyhow::Error) -> Option<Exit> {
    Some(match error.downcast_ref()? {
        Error::Refused {
            reason: Refusal::NotAdmitted,
            ..
        } => Exit::Refused,
        Error::Contract(_) | Error::TooLong { .. } => Exit::Usage,
        _ => Exit::Failed,
    })
}

/// Microseconds.
fn us(text: &str) -> Result<Duration, String> {
    let us: u64 = text.parse().map_err(|_| "expected microseconds")?;
    Ok(Duration::from_micros(us))
}

pub(crate) fn run(command: &Command) -> anyhow::Result<Exit> {
    match &command.verb {
        Verb::Serve(args) => serve::run(&command.server, args),
        Verb::Ping(args) => ping::run(&command.server, args),
        Verb::Connect(args) => connect::run(&command.server, args),
        Verb::Relay(args) => relay::run(&command.server, args),
        Verb::List => list::run(&command.server),
        Verb::Datagram(args) => datagram::run(&command.server, args),
        Verb::Rpc(args) => rpc::run(&command.server, args),
    }
}
