//! What a browser is sent: all at first, then what has changed.

use std::collections::BTreeMap;

use cellgate::{ConnectionInfo, Discard};
use serde::Serialize;
use serde_json::Value;

use crate::Stats;
use crate::alarms::{Alarm, alarms};
use crate::watch::Look;

/// All that there is to see.
#[derive(Serialize)]
struct Whole<'l> {
    time_ns: u64,
    #[serde(flatten)]
    stats: &'l Stats,
    alarms: Vec<Alarm>,
    #[serde(skip_serializing_if = "Option::is_none")]
    demo: Option<&'l Value>,
}

/// What has changed; lists without a change are left out.
#[derive(Default, Serialize)]
struct Changes<'l> {
    time_ns: u64,
    /// Counters of connections: see [`row`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rows: Vec<[u64; 16]>,
    /// Number, place of the reason in [`Discard::ALL`], PDUs, cells.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    discards: Vec<[u64; 4]>,
    /// Number, what ABR allows and its floor in cells/s, why that changed and when.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    abr: Vec<(u32, u32, u32, &'static str, u64)>,
    /// Those that are new, or of which something else has changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    connections: Vec<&'l ConnectionInfo>,
    /// The numbers of those that are gone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    gone: Vec<u32>,
    #[serde(flatten)]
    lists: BTreeMap<&'static str, Value>,
}

/// All of it, as JSON.
pub(crate) fn whole(look: &Look) -> String {
    json(&Whole {
        time_ns: look.time_ns,
        stats: &look.stats,
        alarms: alarms(&look.stats),
        demo: look.demo.as_ref(),
    })
}

/// What is new since `before`, as JSON; none: nothing is.
pub(crate) fn changes(before: &Look, now: &Look) -> Option<String> {
    let mut changes = Changes {
        time_ns: now.time_ns,
        ..Changes::default()
    };
    let mut old: BTreeMap<u32, &ConnectionInfo> = before
        .stats
        .connections
        .iter()
        .map(|info| (info.number, info))
        .collect();
    for info in &now.stats.connections {
        match old.remove(&info.number) {
            Some(old) if old == info => {}
            Some(old) if differ_in_counters(old, info) => {
                changes.rows.push(row(info));
                changes.discards.extend(discards(old, info));
                changes.abr.extend(abr(old, info));
            }
            _ => changes.connections.push(info),
        }
    }
    changes.gone.extend(old.keys());
    let (was, is) = (&before.stats, &now.stats);
    changes.list("adapters", &was.adapters, &is.adapters);
    changes.list("resources", &was.resources, &is.resources);
    changes.list("interfaces", &was.interfaces, &is.interfaces);
    changes.list("notes", &was.notes, &is.notes);
    changes.list("alarms", &alarms(was), &alarms(is));
    changes.list("demo", &before.demo, &now.demo);
    let is_any = before.time_ns != now.time_ns
        || !changes.rows.is_empty()
        || !changes.connections.is_empty()
        || !changes.gone.is_empty()
        || !changes.lists.is_empty();
    is_any.then(|| json(&changes))
}

impl Changes<'_> {
    fn list<T: PartialEq + Serialize>(&mut self, name: &'static str, was: &T, is: &T) {
        if was != is {
            let value = serde_json::to_value(is).unwrap_or_default();
            self.lists.insert(name, value);
        }
    }
}

fn differ_in_counters(old: &ConnectionInfo, new: &ConnectionInfo) -> bool {
    let old = ConnectionInfo {
        stats: new.stats,
        slots: new.slots,
        ..old.clone()
    };
    old == *new
}

/// A connection's number, then what it has counted: cells and PDUs sent; cells received and
/// delivered; PDUs delivered, lent, tagged; cells held; faults of its client; the longest delay in
/// nanoseconds; loopback cells; cells of CLP 1 sent and delivered; slots reserved to send and to
/// receive, from which follow those that are unoccupied.
fn row(info: &ConnectionInfo) -> [u64; 16] {
    let (stats, slots) = (&info.stats, &info.slots);
    [
        info.number.into(),
        stats.cells_transmitted,
        stats.pdus_transmitted,
        stats.cells_received,
        stats.cells_delivered,
        stats.pdus_delivered,
        stats.pdus_lent,
        stats.pdus_tagged,
        stats.cells_held,
        stats.client_faults,
        stats.delays.max_ns,
        stats.cells_answered,
        stats.cells_transmitted_clp1,
        stats.cells_delivered_clp1,
        slots.transmit.reserved,
        slots.receive.reserved,
    ]
}

fn abr(old: &ConnectionInfo, new: &ConnectionInfo) -> Option<(u32, u32, u32, &'static str, u64)> {
    let abr = new.stats.abr.filter(|abr| old.stats.abr != Some(*abr))?;
    Some((
        new.number,
        abr.allowed_cell_s,
        abr.floor_cell_s,
        abr.reason.name(),
        abr.changed_ns,
    ))
}

fn discards<'i>(
    old: &'i ConnectionInfo,
    new: &'i ConnectionInfo,
) -> impl Iterator<Item = [u64; 4]> + use<'i> {
    let of = |info: &ConnectionInfo, reason| {
        let stats = &info.stats;
        (
            stats.pdus_discarded.of(reason),
            stats.cells_discarded.of(reason),
        )
    };
    let all = Discard::ALL.into_iter().enumerate();
    let changed = all.filter(move |(_, reason)| of(old, *reason) != of(new, *reason));
    changed.map(move |(place, reason)| {
        let (pdus, cells) = of(new, reason);
        [new.number.into(), place as u64, pdus, cells]
    })
}

/// What serializes into JSON always does: there are no maps with keys that are none.
fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use cellgate::{AbrStats, RateReason};

    use super::*;
    use crate::metrics::tests::stats;

    fn look() -> Look {
        Look {
            time_ns: 5,
            stats: stats(),
            demo: None,
        }
    }

    #[test]
    fn nothing_new_is_nothing_to_send() {
        assert_eq!(changes(&look(), &look()), None);
        // Time passes: rates go on.
        let later = Look {
            time_ns: 6,
            ..look()
        };
        assert_eq!(
            changes(&look(), &later).as_deref(),
            Some(r#"{"time_ns":6}"#)
        );
    }

    #[test]
    fn counters_are_rows_and_all_else_is_told_in_full() {
        let before = look();
        let mut now = look();
        let [first, second] = &mut now.stats.connections[..] else {
            panic!("two");
        };
        first.stats.pdus_delivered = 8;
        first.stats.cells_discarded.add(Discard::BufferFull, 3);
        first.stats.cells_delivered_clp1 = 2;
        first.slots.transmit.reserved = 4;
        first.stats.abr = Some(AbrStats {
            allowed_cell_s: 9,
            floor_cell_s: 5,
            reason: RateReason::ExplicitRate,
            changed_ns: 6,
            ..AbrStats::default()
        });
        second.pid = Some(7);
        let told: Value = serde_json::from_str(&changes(&before, &now).unwrap()).unwrap();
        assert_eq!(
            told["rows"],
            serde_json::json!([[1, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 2, 4, 0]])
        );
        assert_eq!(
            told["abr"],
            serde_json::json!([[1, 9, 5, "explicit_rate", 6]])
        );
        let place = Discard::BufferFull as u64;
        assert_eq!(told["discards"], serde_json::json!([[1, place, 0, 3]]));
        assert_eq!(told["connections"][0]["pid"], 7);
        assert_eq!(told["connections"].as_array().unwrap().len(), 1);
        for absent in ["gone", "adapters", "interfaces", "resources", "alarms"] {
            assert_eq!(told.get(absent), None, "{absent}");
        }
        now.stats.connections.remove(0);
        now.stats.interfaces[0].dropped_cells = 77;
        let told: Value = serde_json::from_str(&changes(&before, &now).unwrap()).unwrap();
        assert_eq!(told["gone"], serde_json::json!([1]));
        assert_eq!(told["interfaces"][0]["dropped_cells"], 77);
    }

    #[test]
    fn all_of_it_has_the_words_of_the_command() {
        let told: Value = serde_json::from_str(&whole(&look())).unwrap();
        for word in [
            "server",
            "pid",
            "notes",
            "adapters",
            "resources",
            "interfaces",
            "connections",
        ] {
            assert!(told.get(word).is_some(), "{word}");
        }
        assert_eq!(told["time_ns"], 5);
    }
}
