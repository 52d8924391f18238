//! `cellgate save`: what a running server has, as the configuration that makes it again.

use cellgate_host::server::Config;

use super::Server;
use crate::output::{Exit, print};
use cellgate::Open;

/// Print the server's interfaces and permanent connections as TOML, for `cellgate serve -c`
///
/// Connections that applications have opened are not part of it.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    server: Server,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    print(&running(&args.server)?)?;
    Ok(Exit::Ok)
}

/// What `server` has, as TOML.
pub(crate) fn running(server: &Server) -> anyhow::Result<String> {
    let mut admin = server.admin()?;
    let interfaces = admin.interfaces()?.into_iter().map(|info| info.spec);
    let interfaces = interfaces.collect();
    let permanent = admin.list()?.into_iter().filter(|info| info.permanent);
    let connections = permanent.map(|info| Open {
        address: info.address,
        contract: info.contract,
        notification: info.notification,
        transmit_pdus: info.transmit_pdus,
        receive_pdus: info.receive_pdus,
        completions: info.completions,
    });
    let config = Config {
        interfaces,
        connections: connections.collect(),
        ..Config::default()
    };
    Ok(config.print_contents())
}
