//! `cellgate tun`: network devices over connections.

use std::io;
use std::net::IpAddr;
use std::str::FromStr;

use anyhow::ensure;
use cellgate::{Address, Admin, DeviceInfo, DeviceSpec, TrafficContract};
use cellgate_core::contract::Aal;
use cellgate_core::upper::Encapsulation;
use cellgate_host::sys::{Tun, TunKind};
use cellgate_report::output::{Exit, print, print_json_line};
use clap::Subcommand;
use serde_json::json;

use super::{Server, usage};
use crate::completion;
use crate::words::WORDS;

/// Best effort; the largest SDU that RFC 2225 has by default.
const CONTRACT: &str = "ubr,aal5:max_sdu=9188";

/// Network devices over connections: add, del, show.
#[derive(clap::Args)]
pub(crate) struct Command {
    #[command(flatten)]
    server: Server,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Make a network device over a connection
    ///
    /// It lies in this command's network namespace. To make it needs CAP_NET_ADMIN; one that was
    /// made persistent for a user (`ip tuntap add NAME mode tun user USER`) needs nothing. A worker
    /// of the server carries its packets from then on, and a successor of the server goes on with
    /// it. The kernel copies each packet between itself and the connection's memory; nothing else
    /// does. Words stand in any order behind the name; hyphens before them are optional.
    #[command(
        override_usage = "cellgate tun add [OPTIONS] NAME vc ADDRESS encap KIND [WORD VALUE]..."
    )]
    #[command(after_long_help = "\
Examples:
  $ cellgate tun add cell0 vc wan.0.100 encap ipoa-llcsnap address 10.0.0.1/24")]
    Add {
        /// The device's name
        name: String,
        #[command(flatten)]
        words: AddWords,
    },
    /// End a network device, with its connection
    #[command(after_long_help = "\
Examples:
  $ cellgate tun del cell0")]
    Del {
        /// The device's name, or its connection's address
        #[arg(add = completion::devices())]
        name: String,
    },
    /// List network devices, and what they have carried
    #[command(visible_aliases = ["list", "ls", "sh"])]
    #[command(after_long_help = "\
Examples:
  $ cellgate tun show cell0")]
    Show {
        /// Only this one
        #[arg(add = completion::devices())]
        name: Option<String>,
    },
}

pub(crate) fn run(command: &Command) -> anyhow::Result<Exit> {
    let json = command.server.json;
    match &command.verb {
        Verb::Add { name, words } => {
            let wanted = usage(Wanted::read(words))?;
            let mut admin = command.server.admin()?;
            let info = wanted.add(&mut admin, name)?;
            match json {
                true => print_json_line(&info)?,
                false => print(&what(&info))?,
            }
        }
        Verb::Del { name } => {
            command.server.admin()?.remove_device(name)?;
            if json {
                print_json_line(&json!({ "device": name }))?;
            }
        }
        Verb::Show { name } => {
            let mut all = command.server.admin()?.devices()?;
            if let Some(name) = name {
                all.retain(|info| info.device == *name);
                ensure!(!all.is_empty(), "no network device has the name {name}");
            }
            if json {
                print_json_line(&json!({ "devices": all }))?;
            } else {
                let texts = all.iter().map(|info| what(info) + &carried(info));
                print(&texts.collect::<String>())?;
            }
        }
    }
    Ok(Exit::Ok)
}

/// What a device is.
fn what(info: &DeviceInfo) -> String {
    let mtu = info.mtu_octets.map(|mtu| format!(", MTU {mtu}"));
    format!(
        "{}: {} over {}{}, under {}; {}\n",
        info.device,
        info.encapsulation,
        info.vc,
        mtu.unwrap_or_default(),
        info.contract,
        info.scheduling,
    )
}

/// What it carried.
fn carried(info: &DeviceInfo) -> String {
    let (device, counts) = (&info.device, &info.carried);
    let peer = counts.inatmarp.peer;
    let peer = peer.map(|ip| format!(", {ip} at the other end"));
    let mut text = format!(
        "{device}: {} packets sent, {} received{}\n",
        counts.sent_pdus,
        counts.received_pdus,
        peer.unwrap_or_default()
    );
    for (what, counts) in [
        ("not sent", &counts.not_sent),
        ("not received", &counts.not_received),
    ] {
        for (reason, n) in counts.iter().filter(|(_, n)| **n > 0) {
            text += &format!("{device}: {n} {what}: {reason}\n");
        }
    }
    if counts.beyond_share > 0 {
        let n = counts.beyond_share;
        text += &format!("{device}: its worker used more CPU time than admitted, {n} times\n");
    }
    text
}

/// The words of a device.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = WORDS)]
struct AddWords {
    /// The connection that carries its packets: [interface.]vpi.vci
    #[arg(long, value_name = "ADDRESS")]
    vc: Address,
    /// How packets lie in PDUs (RFC 2684): ipoa-llcsnap, ipoa-vcmux, bridged-llcsnap or
    /// bridged-vcmux
    #[arg(long, value_name = "KIND")]
    encap: Encapsulation,
    /// Octets of the longest packet [default: 9180 for IP, 1500 bridged, where the contract has
    /// room]
    #[arg(long, value_name = "OCTETS")]
    mtu: Option<u16>,
    /// The device's own address
    #[arg(long, value_name = "IP/PREFIX")]
    address: Option<Network>,
    /// The connection's contract [default: ubr,aal5:max_sdu=9188]
    #[arg(long, value_name = "TEXT", conflicts_with = "take")]
    contract: Option<String>,
    /// Use the permanent connection that is there
    #[arg(long)]
    take: bool,
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
    fn read(words: &AddWords) -> Result<Self, String> {
        let contract = words.contract.as_deref().unwrap_or(CONTRACT);
        // What is no contract at all, the server tells.
        let parsed = contract.parse::<TrafficContract>();
        if parsed.is_ok_and(|contract| !matches!(contract.aal, None | Some(Aal::Aal5))) {
            return Err("RFC 2684 is for AAL5 only".to_owned());
        }
        Ok(Self {
            vc: words.vc.clone(),
            encapsulation: words.encap,
            mtu: words.mtu,
            address: words.address,
            contract: (!words.take).then(|| contract.to_owned()),
        })
    }

    /// Makes the device and has the server carry it.
    fn add(&self, admin: &mut Admin, name: &str) -> anyhow::Result<DeviceInfo> {
        let device = self.device(name);
        let device = device.map_err(|error| self.of_device(name, error))?;
        let spec = DeviceSpec {
            address: self.vc.clone(),
            contract: self.contract.clone(),
            encapsulation: self.encapsulation.name().to_owned(),
        };
        let [own, namespace] = device.descriptors();
        let mut info = admin.add_device(spec, own, namespace)?;
        // Nothing passes a device before it is up: the contract decides what it may be given.
        let mtu = mtu(self.encapsulation, info.transmit_max_sdu, self.mtu);
        let up = |mtu: u16| device.set_mtu(mtu).and_then(|()| device.set_up());
        let begun = usage(mtu).map_err(anyhow::Error::from);
        let begun = begun.and_then(|mtu| up(mtu).map_err(|error| self.of_device(name, error)));
        if let Err(error) = begun {
            // What is wrong is told all the same.
            let _ = admin.remove_device(&info.device);
            return Err(error);
        }
        info.mtu_octets = device.mtu();
        Ok(info)
    }

    /// What the kernel has refused of a device.
    fn of_device(&self, name: &str, error: io::Error) -> anyhow::Error {
        let mode = match self.encapsulation.is_bridged() {
            true => "tap",
            false => "tun",
        };
        let what = match error.kind() {
            io::ErrorKind::PermissionDenied => format!(
                "network device {name} takes CAP_NET_ADMIN, or must be one made for this user \
                 (`ip tuntap add {name} mode {mode} user NAME`)"
            ),
            _ => format!("network device {name}"),
        };
        anyhow::Error::from(error).context(what)
    }

    /// The device, with its address.
    fn device(&self, name: &str) -> io::Result<Tun> {
        let kind = match self.encapsulation.is_bridged() {
            true => TunKind::Bridged,
            false => TunKind::Routed,
        };
        let device = Tun::open(name, kind)?;
        if let Some(Network { address, prefix }) = self.address {
            device.set_address(address, prefix)?;
        }
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
        Wanted::read(&crate::words::read(text)?)
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
            ("", "vc <ADDRESS>\n  encap <KIND>"),
            ("vc 0.100 encap ethernet", "bridged-vcmux"),
            ("vc 0.100 encap ipoa-vcmux address 10.0.0.1", "IP/PREFIX"),
            ("vc 0.100 encap ipoa-vcmux address 10.0.0.1/33", "IP/PREFIX"),
            (
                "vc 0.100 encap ipoa-vcmux take contract ubr,aal5",
                "cannot be used with",
            ),
            (
                "vc 0.100 encap ipoa-vcmux mut 3",
                "words here: vc, encap, mtu",
            ),
            ("vc 0.100 encap ipoa-vcmux contract ubr,aal0", "AAL5 only"),
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
