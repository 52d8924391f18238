//! `cellgate vc monitor`: what the server tells of connections and interfaces.

use cellgate::{Admin, Change, ConnectionInfo, Indication};
use cellgate_report::output::{Exit, json_line, print_on};

use super::vc::slots;

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
            "vc {} {} contract {}{}\n",
            verb(*change),
            info.address,
            info.contract,
            state(*change, info)
        )),
        Indication::Interface { change, info } => {
            Some(format!("itf {} {}\n", verb(*change), info.spec.name))
        }
        Indication::Restarted => Some("the server is a new one\n".to_owned()),
        _ => None,
    }
}

/// News that its application has heard, or is about to hear: a risk, an offer, its share. A
/// connection that has ended has its last account.
fn state(change: Change, info: &ConnectionInfo) -> String {
    let mut text = String::new();
    if change == Change::Removed {
        let [out, back] = [&info.slots.transmit, &info.slots.receive].map(slots);
        return format!(", slots to send: {out}; to receive: {back}");
    }
    if let Some(risk) = info.risk.as_ref().filter(|risk| risk.now) {
        text += &format!(", at risk: {}", risk.reason);
    }
    if let Some(offer) = &info.offer {
        text += &format!(", may grow to {offer}");
    }
    let shares = [("send", info.transmit), ("receive", info.receive)];
    for (what, share) in shares.iter().filter(|_| !info.guaranteed) {
        if let Some(share) = share {
            text += &format!(", its share to {what} {} cells/s", share.cell_s());
        }
    }
    if let Some(abr) = &info.stats.abr {
        let (allowed, why) = (abr.allowed_cell_s, abr.reason.meaning());
        text += &format!(", the network allows {allowed} cells/s: {why}");
    }
    text
}

fn verb(change: Change) -> &'static str {
    match change {
        Change::Added => "added",
        Change::Changed => "changed",
        Change::Removed => "removed",
    }
}
