//! `cellgate tun`: a network device over a connection.

mod counts;
mod worker;

use std::net::IpAddr;
use std::str::FromStr;

use anyhow::{Context, ensure};
use cellgate::{Address, Connection, Error, TrafficContract};
use cellgate_core::contract::Aal;
use cellgate_core::upper::Encapsulation;
use cellgate_host::sys::{Signals, Tun, TunKind};
use clap::Subcommand;
use serde_json::json;

use super::words::Words;
use super::{Misuse, Server, usage};
use crate::output::{Exit, print, print_json};
use worker::Worker;

/// Best effort; the largest SDU that RFC 2225 has by default.
const CONTRACT: &str = "ubr,aal5:max_sdu=9188";

/// A network device over a connection: add.
#[derive(clap::Args)]
pub(crate) struct Command {
    #[command(flatten)]
    server: Server,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Makes one and carries its packets: NAME vc ADDRESS encap ENCAPSULATION
    ///
    /// The device and the connection exist as long as the command runs: until it is interrupted.
    /// Then it tells what it carried. To make a device needs CAP_NET_ADMIN; one that was made
    /// persistent for a user (`ip tuntap add NAME mode tun user USER`) needs nothing.
    ///
    /// The kernel copies each packet between itself and the connection's memory; nothing else
    /// does in this process.
    Add {
        /// The device's name
        name: String,
        /// vc ADDRESS encap ipoa-llcsnap|ipoa-vcmux|bridged-llcsnap|bridged-vcmux [mtu N]
        /// [address IP/PREFIX] [contract TEXT | take]
        words: Vec<String>,
        /// What was carried as one JSON object
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(command: &Command) -> anyhow::Result<Exit> {
    let Verb::Add { name, words, json } = &command.verb;
    let wanted = usage(Wanted::read(words))?;
    let signals = Signals::listen()?;
    let connection = wanted.connect(&command.server)?;
    let mtu = usage(wanted.mtu(&connection)?)?;
    let device = wanted
        .device(name, mtu)
        .with_context(|| format!("network device {name}"))?;
    let encapsulation = wanted.encapsulation;
    let what = json!({
        "device": device.name(),
        "vc": connection.address(),
        "contract": connection.contract(),
        "encapsulation": encapsulation.name(),
        "mtu_octets": mtu,
    });
    // For whoever waits for the device.
    eprintln!(
        "{}: {encapsulation} over {}, MTU {mtu}, under {}",
        device.name(),
        connection.address(),
        connection.contract()
    );
    let mut worker = Worker::new(&connection, &device, encapsulation)?;
    let ended = worker.run(&signals);
    let counts = worker.counts();
    match json {
        true => print_json(&counts.json(what))?,
        false => print(&counts.text(&device.name()))?,
    }
    ended.map(|()| Exit::Ok)
}

/// What the words ask for.
#[derive(Debug)]
struct Wanted {
    vc: Address,
    encapsulation: Encapsulation,
    mtu: Option<u16>,
    address: Option<Network>,
    /// None: that of a permanent connection.
    contract: Option<String>,
}

impl Wanted {
    fn read(words: &[String]) -> Result<Self, String> {
        let mut words = Words::new(words);
        let vc = words.required("vc")?;
        let encapsulation = words.required("encap")?;
        let mtu = words.value("mtu")?;
        let address = words.value("address")?;
        let contract = words.text("contract")?;
        let take = words.flag("take");
        words.finish()?;
        if take && contract.is_some() {
            return Err("`take` uses the permanent connection's own contract".to_owned());
        }
        let contract = contract.unwrap_or_else(|| CONTRACT.to_owned());
        Ok(Self {
            vc,
            encapsulation,
            mtu,
            address,
            contract: (!take).then_some(contract),
        })
    }

    fn connect(&self, server: &Server) -> anyhow::Result<Connection> {
        let builder = Connection::builder()
            .address(&self.vc)
            .socket(server.path());
        let connection = match &self.contract {
            Some(contract) => builder.contract(contract).open()?,
            None => builder.take()?,
        };
        let contract: TrafficContract = connection.contract().parse()?;
        let is_aal5 = matches!(contract.aal, None | Some(Aal::Aal5));
        ensure!(is_aal5, Misuse("RFC 2684 is for AAL5 only".to_owned()));
        connection.receive_max_sdu().ok_or(Error::DoesNotReceive)?;
        Ok(connection)
    }

    /// The device's MTU.
    fn mtu(&self, connection: &Connection) -> Result<Result<u16, String>, Error> {
        let max_sdu = connection.transmit_max_sdu().ok_or(Error::DoesNotSend)?;
        Ok(mtu(self.encapsulation, max_sdu, self.mtu))
    }

    /// The device, up.
    fn device(&self, name: &str, mtu: u16) -> std::io::Result<Tun> {
        let kind = match self.encapsulation.is_bridged() {
            true => TunKind::Bridged,
            false => TunKind::Routed,
        };
        let device = Tun::open(name, kind)?;
        device.set_mtu(mtu)?;
        if let Some(Network { address, prefix }) = self.address {
            device.set_address(address, prefix)?;
        }
        device.set_up()?;
        Ok(device)
    }
}

/// The usual MTU, or what the contract's SDUs have room for; no more than these if it is given.
fn mtu(encapsulation: Encapsulation, max_sdu: u16, given: Option<u16>) -> Result<u16, String> {
    let max = encapsulation.mtu_max(max_sdu);
    let max = max.ok_or_else(|| format!("SDUs of {max_sdu} octets are too short for IP"))?;
    match given {
        None => Ok(encapsulation.mtu_usual().min(max)),
        Some(mtu) if mtu <= max => Ok(mtu),
        Some(mtu) => Err(format!(
            "`mtu {mtu}`: {encapsulation} in SDUs of {max_sdu} octets has room for {max}; give \
             more by max_sdu="
        )),
    }
}

/// An address in its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Network {
    address: IpAddr,
    prefix: u8,
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let read = || {
            let (address, prefix) = text.split_once('/')?;
            let address: IpAddr = address.parse().ok()?;
            let bits = if address.is_ipv4() { 32 } else { 128 };
            let prefix = prefix.parse().ok().filter(|prefix| *prefix <= bits)?;
            Some(Self { address, prefix })
        };
        read().ok_or_else(|| "expected IP/PREFIX, as 10.0.0.1/24".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Wanted, String> {
        let words: Vec<_> = text.split_whitespace().map(str::to_owned).collect();
        Wanted::read(&words)
    }

    #[test]
    fn reads_what_is_wanted() {
        let wanted = read("vc wan.0.100 encap bridged-vcmux").unwrap();
        assert_eq!(wanted.vc.to_string(), "wan.0.100");
        assert_eq!(wanted.encapsulation, Encapsulation::BridgedVcmux);
        assert_eq!(wanted.contract.as_deref(), Some(CONTRACT));
        let text = "encap ipoa-vcmux mtu 1500 address fd00::1/64 vc 0.100 take";
        let wanted = read(text).unwrap();
        assert_eq!((wanted.mtu, wanted.contract), (Some(1_500), None));
        let network = Network {
            address: "fd00::1".parse().unwrap(),
            prefix: 64,
        };
        assert_eq!(wanted.address, Some(network));
    }

    #[test]
    fn says_what_is_wrong() {
        for (text, part) in [
            ("encap ipoa-vcmux", "vc VALUE"),
            ("vc 0.100", "encap VALUE"),
            ("vc 0.100 encap ethernet", "bridged-vcmux"),
            ("vc 0.100 encap ipoa-vcmux address 10.0.0.1", "IP/PREFIX"),
            ("vc 0.100 encap ipoa-vcmux address 10.0.0.1/33", "IP/PREFIX"),
            (
                "vc 0.100 encap ipoa-vcmux take contract ubr,aal5",
                "own contract",
            ),
            ("vc 0.100 encap ipoa-vcmux mut 3", "`mut` is not known"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn the_mtu_is_the_usual_one_where_it_fits() {
        use Encapsulation::{BridgedVcmux, IpoaLlcsnap};
        assert_eq!(mtu(IpoaLlcsnap, 9_188, None), Ok(9_180));
        assert_eq!(mtu(IpoaLlcsnap, 1_508, None), Ok(1_500));
        assert_eq!(mtu(IpoaLlcsnap, u16::MAX, None), Ok(9_180));
        assert_eq!(mtu(IpoaLlcsnap, u16::MAX, Some(65_527)), Ok(65_527));
        assert_eq!(mtu(BridgedVcmux, 9_188, None), Ok(1_500));
        let error = mtu(BridgedVcmux, 1_519, Some(1_500)).unwrap_err();
        assert!(error.contains("room for 1499"), "{error}");
        assert!(
            mtu(IpoaLlcsnap, 48, None)
                .unwrap_err()
                .contains("too short")
        );
    }
}
