//! `cellgate charge`: what connections have occupied, what that costs, and where two ends differ.

use std::path::{Path, PathBuf};

use anyhow::bail;
use cellgate::{Address, Slots};
use cellgate_core::contract::Tariff;
use cellgate_core::server::{Account, Accounts, Difference, Way};
use cellgate_report::grouped;
use cellgate_report::output::{Exit, print, print_json_line, table_by_worth, wrapped};

use super::{Misuse, Server};
use crate::input::read_text;

/// Octets of a file that this command reads at most.
const FILE_MAX: u64 = 64 << 20;

/// Tell what connections have occupied, and what that costs
///
/// A slot is occupied by a cell, of CLP 0 or 1, or it was reserved by the contract and no cell
/// came. Occupied and unoccupied slots are all that a connection was granted since it was opened,
/// whatever daemon has served it. A cost is an estimate, by a tariff of your own.
///
/// With --compare it reads what two ends have told (`cellgate charge ADDR --json`), and names the
/// reason for each cell that one sent and the other did not deliver. Exit code 1: neither end
/// accounts for some.
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  $ cellgate charge
  $ cellgate charge a.0.60 --tariff tariff.toml
  $ cellgate charge a.0.60 --json
  $ cellgate charge --compare a.json b.json")]
pub(crate) struct Args {
    #[command(flatten)]
    server: Server,
    /// Of these connections alone
    #[arg(value_name = "ADDR")]
    addresses: Vec<Address>,
    /// Tell costs, by the prices of a TOML file: currency, set_up, reserved_slot, cell_clp0,
    /// cell_clp1, each a text with up to 15 decimals
    #[arg(long, value_name = "FILE", conflicts_with = "compare")]
    tariff: Option<PathBuf>,
    /// Name the reason for each cell in which two ends differ
    #[arg(long, num_args = 2, value_names = ["A.json", "B.json"], conflicts_with = "addresses")]
    compare: Option<Vec<PathBuf>>,
    /// Have all columns, however wide the terminal is
    #[arg(long, conflicts_with = "json")]
    wide: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    if let Some([a, b]) = args.compare.as_deref() {
        return differ(args, &accounts(a)?, &accounts(b)?);
    }
    let tariff = args.tariff.as_deref().map(tariff).transpose()?;
    let mut admin = args.server.admin()?;
    let mut connections = admin.list()?;
    let mut interfaces = admin.interfaces()?;
    for wanted in &args.addresses {
        let known = connections
            .iter()
            .any(|info| is_meant(wanted, &info.address));
        if !known {
            bail!("there is no connection {wanted}; cellgate vc list has all");
        }
    }
    if !args.addresses.is_empty() {
        let wanted = |at: &Address| args.addresses.iter().any(|one| is_meant(one, at));
        connections.retain(|info| wanted(&info.address));
        interfaces.retain(|one| {
            let name = Some(&one.spec.name);
            connections
                .iter()
                .any(|info| info.address.interface.as_ref() == name)
        });
    }
    let told = Accounts::of(&connections, &interfaces, tariff.as_ref());
    if args.server.json {
        print_json_line(&told)?;
    } else {
        print(&people(&told, args.wide))?;
    }
    Ok(Exit::Ok)
}

/// Whether `wanted`, perhaps without its interface, is this address.
fn is_meant(wanted: &Address, address: &Address) -> bool {
    wanted.vc == address.vc && (wanted.interface.is_none() || wanted == address)
}

fn tariff(path: &Path) -> anyhow::Result<Tariff> {
    toml::from_str(&read_text(path, FILE_MAX)?)
        .map_err(|error| Misuse(format!("{}: {error}", path.display())).into())
}

fn accounts(path: &Path) -> anyhow::Result<Accounts> {
    let name = path.display();
    serde_json::from_str(&read_text(path, FILE_MAX)?).map_err(|error| {
        let text = format!("{name} is no answer of `cellgate charge --json`: {error}");
        Misuse(text).into()
    })
}

fn people(told: &Accounts, wide: bool) -> String {
    if told.connections.is_empty() {
        return "no connection is open\n".to_owned();
    }
    let head = [
        "connection",
        "way",
        "CLP 0",
        "CLP 1",
        "unoccupied",
        "granted",
        "cost",
    ];
    let mut rows = vec![head.map(str::to_owned)];
    for account in &told.connections {
        let slots = account.slots;
        for (way, slots) in [("out", slots.transmit), ("in", slots.receive)] {
            let cost = account.charge.as_ref().map(|cost| match way {
                "out" => cost.transmit.to_string(),
                _ => cost.receive.to_string(),
            });
            rows.push(row(account, way, &slots, cost));
        }
    }
    let mut text = table_by_worth(&rows, &[5], wide);
    for account in &told.connections {
        if let Some(charge) = &account.charge {
            let (total, set_up, currency) = (charge.total, charge.set_up, &charge.currency);
            let words = format!("{total} {currency}, of which {set_up} for its set-up");
            text += &wrapped(&format!("{}: ", account.address), &words);
        }
    }
    text
}

fn row(account: &Account, way: &str, slots: &Slots, cost: Option<String>) -> [String; 7] {
    [
        account.address.to_string(),
        way.to_owned(),
        grouped(slots.clp0),
        grouped(slots.clp1),
        grouped(slots.unoccupied),
        grouped(slots.granted()),
        cost.unwrap_or_else(|| "-".to_owned()),
    ]
}

fn differ(args: &Args, a: &Accounts, b: &Accounts) -> anyhow::Result<Exit> {
    let mut ways = a.ways_to(b);
    ways.extend(b.ways_to(a));
    if ways.is_empty() {
        let text = "no connection of one has the VPI and VCI of one of the other";
        return Err(Misuse(text.to_owned()).into());
    }
    if args.server.json {
        print_json_line(&ways)?;
    } else {
        let parts: Vec<String> = ways.iter().map(|way| told(way, args.wide)).collect();
        print(&parts.join("\n"))?;
    }
    let explained = ways.iter().all(|way| way.unexplained == 0);
    Ok(if explained { Exit::Ok } else { Exit::Failed })
}

fn told(way: &Way, wide: bool) -> String {
    let head = ["from", "to", "cells sent", "delivered", "not delivered"];
    let mut rows = vec![head.map(str::to_owned)];
    for vc in &way.vcs {
        let missing = Difference {
            reason: "did not reach it".to_owned(),
            cells: vc.missing,
        };
        let missing = (vc.missing != 0).then_some(&missing);
        let why: Vec<_> = vc.differences.iter().chain(missing).collect();
        let why: Vec<String> = why.iter().map(ToString::to_string).collect();
        rows.push([
            vc.from.to_string(),
            vc.to.to_string(),
            grouped(vc.sent),
            grouped(vc.delivered),
            if why.is_empty() {
                "-".to_owned()
            } else {
                why.join(", ")
            },
        ]);
    }
    let mut text = table_by_worth(&rows, &[], wide);
    let (from, to) = (&way.from, &way.to);
    if !way.line.is_empty() {
        let why: Vec<String> = way.line.iter().map(ToString::to_string).collect();
        text += &wrapped(&format!("between {from} and {to}: "), &why.join(", "));
    }
    let unexplained = match way.unexplained {
        0 => "every cell is accounted for".to_owned(),
        cells if cells > 0 => format!(
            "cells on their way, or lost where neither end counts (a datagram, a network \
             between): {cells}"
        ),
        cells => format!("cells that came and were not sent: {}", -cells),
    };
    text + &wrapped(&format!("{from} to {to}: "), &unexplained)
}
