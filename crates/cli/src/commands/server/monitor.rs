//! `cellgate vc monitor`: what the server tells of connections and interfaces.

use cellgate::{Admin, Change, Indication};
use cellgate_report::output::{Exit, json_line, print_on};

pub(super) fn run(admin: Admin, json: bool) -> anyhow::Result<Exit> {
    for indication in admin.monitor()? {
        let indication = indication?;
        let line = match json {
            true => Some(json_line(&indication)?),
            false => line(&indication),
        };
        if let Some(line) = line
            && !print_on(&line)?
        {
            return Ok(Exit::Ok);
        }
    }
    anyhow::bail!("the server has hung up");
}

fn line(indication: &Indication) -> Option<String> {
    match indication {
        Indication::Connection { change, info } => Some(format!(
            "vc {} {} contract {}\n",
            verb(*change),
            info.address,
            info.contract
        )),
        Indication::Interface { change, info } => {
            Some(format!("itf {} {}\n", verb(*change), info.spec.name))
        }
        Indication::Restarted => Some("the server is a new one\n".to_owned()),
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
