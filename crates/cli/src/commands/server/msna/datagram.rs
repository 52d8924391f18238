use std::time::Duration;

use cellgate_msna::{Address, Event, Sap};
use cellgate_report::output::{Exit, print, print_json_line};
use serde_json::json;

use super::super::Server;
use super::super::recv::seconds;
use super::{Place, told};

#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  $ cellgate msna datagram 10.0.0.2:7 hello --itf a -W 1")]
pub(super) struct Args {
    #[command(flatten)]
    place: Place,
    /// HOST:SAP
    to: Address,
    /// Its octets
    text: String,
    /// Print the answer that comes within so long
    #[arg(short = 'W', value_name = "SECONDS", value_parser = seconds)]
    wait: Option<Duration>,
}

/// The access point that answers come to.
const OWN: Sap = Sap(1);

pub(super) fn run(server: &Server, args: &Args) -> anyhow::Result<Exit> {
    let mut node = args.place.node(server, Some(args.to))?;
    let sent = node.datagram(OWN, args.to, args.text.as_bytes());
    sent.map_err(told)?;
    let Some(wait) = args.wait else {
        return Ok(Exit::Ok);
    };
    while let Some(event) = node.next_event(Some(wait)).map_err(told)? {
        if let Event::Datagram { from, octets, .. } = event {
            let text = String::from_utf8_lossy(&octets);
            match server.json() {
                true => print_json_line(&json!({ "from": from.to_string(), "text": text }))?,
                false => print(&format!("{from}: {text}\n"))?,
            }
            return Ok(Exit::Ok);
        }
    }
    Err(anyhow::anyhow!("{}: no answer within {wait:?}", args.to))
}
