use cellgate::{Aal, ConnectionInfo, Notification, TrafficContract};
use cellgate_report::output::{Exit, print, print_json_line, table};
use serde_json::{Value, json};

use super::super::Server;
use super::super::quantity::NotifyWord;

/// The circuit of a node's messages, of which an interface has one.
const SIGNALLING: u32 = 32;

/// A circuit of a node's.
struct Circuit<'a>(&'a ConnectionInfo);

impl Circuit<'_> {
    fn is_signalling(&self) -> bool {
        self.0.address.vc.vpi() == 0 && u32::from(self.0.address.vc.vci()) == SIGNALLING
    }

    /// A node's circuits are of the process that has its circuit 32.
    fn is_of(&self, node: &Circuit<'_>) -> bool {
        let (own, its) = (self.0, node.0);
        own.pid.is_some() && own.pid == its.pid && own.address.interface == its.address.interface
    }

    fn access(&self) -> &'static str {
        let contract: Result<TrafficContract, _> = self.0.contract.parse();
        match contract.ok().and_then(|contract| contract.aal) {
            Some(Aal::Aal0) => "cells",
            _ => "aal5",
        }
    }

    fn notify(&self) -> String {
        let notification = self.0.notification.unwrap_or(Notification::LastCell);
        NotifyWord(notification).to_string()
    }

    fn json(&self) -> Value {
        let stats = &self.0.stats;
        json!({
            "interface": self.0.address.interface,
            "circuit": self.0.address.vc.vci(),
            "signalling": self.is_signalling(),
            "access": self.access(),
            "notify": self.notify(),
            "pid": self.0.pid,
            "cells_sent": stats.cells_transmitted,
            "cells_received": stats.cells_received,
            "cells_discarded": stats.cells_discarded.total(),
            "contract": self.0.contract,
        })
    }

    fn row(&self) -> [String; 9] {
        let stats = &self.0.stats;
        [
            self.0.address.interface.clone().unwrap_or_default(),
            self.0.address.vc.vci().to_string(),
            match self.is_signalling() {
                true => "messages".to_owned(),
                false => self.notify(),
            },
            self.access().to_owned(),
            self.0.pid.map_or("-".to_owned(), |pid| pid.to_string()),
            stats.cells_transmitted.to_string(),
            stats.cells_received.to_string(),
            stats.cells_discarded.total().to_string(),
            self.0.contract.clone(),
        ]
    }
}

/// The daemon's nodes and their circuits.
pub(super) fn run(server: &Server) -> anyhow::Result<Exit> {
    let all = server.admin()?.list()?;
    let circuits = || all.iter().map(Circuit);
    let nodes: Vec<Circuit<'_>> = circuits().filter(Circuit::is_signalling).collect();
    let theirs: Vec<Circuit<'_>> = circuits()
        .filter(|circuit| nodes.iter().any(|node| circuit.is_of(node)))
        .collect();
    if server.json() {
        let circuits: Vec<Value> = theirs.iter().map(Circuit::json).collect();
        print_json_line(&json!({ "circuits": circuits }))?;
        return Ok(Exit::Ok);
    }
    let head = [
        "interface",
        "circuit",
        "wakes",
        "access",
        "process",
        "sent",
        "received",
        "discarded",
        "contract",
    ];
    let mut rows = vec![head.map(str::to_owned)];
    rows.extend(theirs.iter().map(Circuit::row));
    print(&table(&rows))?;
    Ok(Exit::Ok)
}
