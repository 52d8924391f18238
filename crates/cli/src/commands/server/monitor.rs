//! `cellgate vc monitor`: what the server tells of connections and interfaces.

use cellgate::{Admin, Change, Indication};

use crate::output::{Exit, print};

pub(super) fn run(admin: Admin, json: bool) -> anyhow::Result<Exit> {
    for indication in admin.monitor()? {
        let indication = indication?;
        let line = if json {
            Some(serde_json::to_string(&indication)?)
        } else {
            line(&indication)
        };
        if let Some(line) = line {
            print(&format!("{line}\n"))?;
        }
    }
    anyhow::bail!("the server has hung up");
}

fn line(indication: &Indication) -> Option<String> {
    match indication {
        Indication::Connection { change, info } => Some(format!(
            "vc {} {} contract {}",
            verb(*change),
            info.address,
            info.contract
        )),
        Indication::Interface { change, info } => {
            Some(format!("itf {} {}", verb(*change), info.spec.name))
        }
        Indication::Restarted => Some("the server is a new one".to_owned()),
        _ => None,
    }
}

fn verb(change: Change) -> &'static str {
    match change {
        Change::Added => "added",
        Change::Changed => "changed",
        Change::Removed => "removed",
    }
}
