//! `cellgate save`: what a running server has, as the configuration that makes it again.

use std::path::PathBuf;

use anyhow::Context;
use cellgate::{AdapterSection, AdmissionSection, InterfaceSpec, Open, Reserve, ServerSection};
use cellgate_host::server::QuotaSection;
use cellgate_report::output::{Exit, print, print_json_line};
use cellgate_report::whole::{is_standard, write_whole};
use serde::Serialize;
use serde_json::json;

use super::Server;

/// What is said where it is not all.
const IN_PART: &str =
    "# [server] and others' quotas are told to root and the server's own user alone.\n\n";

/// Print what the server runs with as TOML, for `cellgate serve -c`
///
/// That is its configuration with interfaces and permanent connections as they are now.
/// Connections that applications have opened are not part of it. [server] and the quotas of others
/// are told to root and the server's own user alone.
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  $ cellgate save /etc/cellgate.toml
  $ cellgate save | cellgate config check -")]
pub(crate) struct Args {
    #[command(flatten)]
    server: Server,
    /// Write it to this file instead: it is there whole, or as it was
    file: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let running = Running::ask(&args.server)?;
    let Some(file) = args.file.as_deref().filter(|file| !is_standard(file)) else {
        return running.show(&args.server);
    };
    let name = file.display().to_string();
    write_whole(file, running.toml()?).with_context(|| name.clone())?;
    if args.server.json {
        print_json_line(&json!({ "file": name }))?;
    }
    Ok(Exit::Ok)
}

/// What a server runs with, in the form of its configuration.
#[derive(Serialize)]
pub(crate) struct Running {
    /// None: this user may not see it.
    server: Option<ServerSection>,
    #[serde(serialize_with = "cellgate_host::server::serialize_adapters")]
    adapter: Vec<AdapterSection>,
    admission: AdmissionSection,
    quota: QuotaSection,
    reserve: Vec<Reserve>,
    interface: Vec<InterfaceSpec>,
    connection: Vec<Open>,
}

impl Running {
    pub(crate) fn ask(server: &Server) -> anyhow::Result<Self> {
        let mut admin = server.admin()?;
        let settings = admin.settings()?;
        let interfaces = admin.interfaces()?.into_iter().map(|info| info.spec);
        let permanent = admin.list()?.into_iter().filter(|info| info.permanent);
        let connections = permanent.map(|info| Open {
            address: info.address,
            contract: info.contract,
            notification: info.notification,
            marks: info.marks,
            transmit_pdus: info.transmit_pdus,
            receive_pdus: info.receive_pdus,
            queue_threshold: info.queue_threshold,
            completions: info.completions,
            receive_into: None,
        });
        Ok(Self {
            server: settings.server,
            adapter: settings.adapters,
            admission: settings.admission,
            quota: QuotaSection::told(settings.quota, settings.users),
            reserve: settings.reserves,
            interface: interfaces.collect(),
            connection: connections.collect(),
        })
    }

    /// Prints it as `server` says.
    pub(crate) fn show(&self, server: &Server) -> anyhow::Result<Exit> {
        match server.json {
            true => print_json_line(self)?,
            false => print(&self.toml()?)?,
        }
        Ok(Exit::Ok)
    }

    fn toml(&self) -> anyhow::Result<String> {
        let text = toml::to_string(self).context("TOML")?;
        Ok(match self.server {
            Some(_) => text,
            None => IN_PART.to_owned() + &text,
        })
    }
}
