//! All that a server tells of itself, as it was asked for and as its counters go on.

use std::collections::BTreeMap;

use cellgate::{
    AdapterInfo, Admin, CellRate, ConnectionInfo, CounterRecord, CounterSnapshot, Error,
    InterfaceInfo, ResourceInfo,
};
use serde::Serialize;

/// All that a server tells of itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Stats {
    /// The server's name and version.
    pub server: String,
    /// Its process.
    pub pid: u32,
    /// What it could not have, for people.
    pub notes: Vec<String>,
    /// How the adapters have run, the first first.
    pub adapters: Vec<AdapterInfo>,
    /// What is promised, and what is free.
    pub resources: Vec<ResourceInfo>,
    /// The interfaces.
    pub interfaces: Vec<InterfaceInfo>,
    /// The connections of all users, by number.
    pub connections: Vec<ConnectionInfo>,
}

impl Stats {
    /// Asks a server.
    ///
    /// # Errors
    /// The server is gone.
    pub fn ask(admin: &mut Admin) -> Result<Self, Error> {
        let who = admin.server().clone();
        Ok(Self {
            server: who.server,
            pid: who.pid,
            notes: who.notes,
            adapters: admin.adapters()?,
            resources: admin.resources()?,
            interfaces: admin.interfaces()?,
            connections: admin.list()?,
        })
    }

    /// Takes over what the counters' file says of what is known here. The file has no texts: those
    /// stay as they were asked for. Whether it speaks of the same things as these lists: if not,
    /// they are to be asked for again.
    pub fn take_counters(&mut self, counters: &CounterSnapshot) -> bool {
        let mut same = true;
        for (known, new) in self.adapters.iter_mut().zip(&counters.adapters) {
            let mut next = new.clone();
            if let (Some(next), Some(known)) = (&mut next.rests, &known.rests) {
                next.callers.clone_from(&known.callers);
            }
            if let (Some(next), Some(known)) = (&mut next.shared, &known.shared) {
                next.pids.clone_from(&known.pids);
            }
            same &= known.shared.is_some() == next.shared.is_some();
            *known = next;
        }
        let resources = self.resources.iter_mut();
        for (known, new) in resources.zip(&counters.resources) {
            let limit = known.limit.take();
            *known = new.clone();
            known.limit = limit;
        }
        for (known, new) in self.interfaces.iter_mut().zip(&counters.interfaces) {
            same &= known.spec.name == new.name
                && known.up == new.up
                && (known.state == cellgate::InterfaceState::Up) == new.carries;
            known.connections = new.connections;
            known.dropped_cells = new.dropped_cells;
            let last_unknown = known.counts.cells.last_unknown;
            known.counts.cells = new.cells;
            known.counts.cells.last_unknown = last_unknown;
        }
        let records: BTreeMap<u32, &CounterRecord> = counters
            .records
            .iter()
            .map(|record| (record.number, record))
            .collect();
        for known in &mut self.connections {
            match records.get(&known.number) {
                Some(record) => same &= take_record(known, record),
                None => same = false,
            }
        }
        same && self.adapters.len() == counters.adapters.len()
            && self.resources.len() == counters.resources.len()
            && self.interfaces.len() == counters.interfaces.len()
            && self.connections.len() == counters.records.len()
    }
}

/// Whether the record's flags are as the connection is known.
fn take_record(known: &mut ConnectionInfo, record: &CounterRecord) -> bool {
    let rate = |cell_s: u64| u32::try_from(cell_s).ok().and_then(CellRate::new);
    // 0 is a rate without bound as well: that stays as it was asked for.
    known.transmit = rate(record.transmit_cell_s).or(known.transmit);
    known.receive = rate(record.receive_cell_s).or(known.receive);
    known.stats = record.stats;
    known.slots = record.slots;
    known.at_risk() == record.at_risk
        && known.offer.is_some() == record.can_grow
        && known.pid.unwrap_or(0) == record.pid
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::tests::stats;

    fn counters(stats: &Stats) -> CounterSnapshot {
        let records = stats.connections.iter().map(|info| CounterRecord {
            address: info.address.to_string(),
            number: info.number,
            pid: info.pid.unwrap_or(0),
            stats: info.stats,
            slots: info.slots,
            ..CounterRecord::default()
        });
        let interfaces = stats
            .interfaces
            .iter()
            .map(|info| cellgate::InterfaceRecord {
                name: info.spec.name.clone(),
                up: info.up,
                carries: true,
                connections: info.connections,
                dropped_cells: info.dropped_cells,
                cells: info.counts.cells,
            });
        CounterSnapshot {
            adapters: stats.adapters.clone(),
            resources: stats.resources.clone(),
            interfaces: interfaces.collect(),
            records: records.collect(),
            ..CounterSnapshot::default()
        }
    }

    #[test]
    fn counters_are_taken_over_and_texts_stay() {
        let mut known = stats();
        known.resources[0].limit = Some("a limit".to_owned());
        let mut counters = counters(&known);
        counters.records[0].stats.pdus_delivered = 99;
        counters.resources[0].reserved = 7;
        counters.resources[0].limit = None;
        counters.interfaces[0].dropped_cells = 8;
        counters.adapters[0].gaps = 9;
        assert!(known.take_counters(&counters));
        assert_eq!(known.connections[0].stats.pdus_delivered, 99);
        assert_eq!(known.resources[0].reserved, 7);
        assert_eq!(known.resources[0].limit.as_deref(), Some("a limit"));
        assert_eq!(known.interfaces[0].dropped_cells, 8);
        assert_eq!(known.adapters[0].gaps, 9);
    }

    #[test]
    fn what_the_file_cannot_tell_is_to_be_asked_for() {
        let known = stats();
        let changes: [fn(&mut CounterSnapshot); 5] = [
            |counters| counters.records[0].at_risk = true,
            |counters| counters.records[0].number = 77,
            |counters| drop(counters.records.pop()),
            |counters| counters.interfaces[0].carries = false,
            |counters| drop(counters.interfaces.pop()),
        ];
        for change in changes {
            let mut counters = counters(&known);
            change(&mut counters);
            assert!(!known.clone().take_counters(&counters), "{counters:?}");
        }
    }
}
