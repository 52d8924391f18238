//! OpenMetrics text, version 1.0.

use std::fmt::Write;

use cellgate::{AdapterInfo, ConnectionInfo, InterfaceInfo, Resource, ResourceInfo};

use super::Stats;

/// One sample for each connection.
type OfConnection = (
    &'static str,
    Kind,
    &'static str,
    &'static str,
    fn(&ConnectionInfo) -> u64,
);

/// Of a metric family.
#[derive(Clone, Copy)]
enum Kind {
    Counter,
    Gauge,
}

impl Kind {
    /// Its name, and what the names of its samples end with.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Counter => ("counter", "_total"),
            Self::Gauge => ("gauge", ""),
        }
    }
}

/// A family of each connection: name, kind, unit (the last part of the name), help, value.
const CONNECTION: [OfConnection; 15] = {
    use Kind::{Counter, Gauge};
    const PER_S: &str = "cells_per_second";
    [
        (
            "received_cells",
            Counter,
            "cells",
            "Cells that arrived.",
            |info| info.stats.cells_received,
        ),
        (
            "delivered_cells",
            Counter,
            "cells",
            "Cells of delivered PDUs.",
            |info| info.stats.cells_delivered,
        ),
        (
            "held_cells",
            Gauge,
            "cells",
            "Cells of PDUs in progress.",
            |info| info.stats.cells_held,
        ),
        (
            "at_risk",
            Gauge,
            "",
            "1 where a guarantee cannot be kept for the time being.",
            |info| info.risk.as_ref().is_some_and(|risk| risk.now).into(),
        ),
        (
            "can_grow",
            Gauge,
            "",
            "1 where more was offered and not answered.",
            |info| info.offer.is_some().into(),
        ),
        (
            "answered_cells",
            Counter,
            "cells",
            "OAM loopback cells answered or returned.",
            |info| info.stats.cells_answered,
        ),
        (
            "delivered_pdus",
            Counter,
            "pdus",
            "PDUs delivered.",
            |info| info.stats.pdus_delivered,
        ),
        (
            "lent_pdus",
            Counter,
            "pdus",
            "PDUs delivered beyond the contract on a lease.",
            |info| info.stats.pdus_lent,
        ),
        (
            "tagged_pdus",
            Counter,
            "pdus",
            "PDUs delivered beyond the contract, tagged.",
            |info| info.stats.pdus_tagged,
        ),
        (
            "transmitted_cells",
            Counter,
            "cells",
            "Cells sent.",
            |info| info.stats.cells_transmitted,
        ),
        ("transmitted_pdus", Counter, "pdus", "PDUs sent.", |info| {
            info.stats.pdus_transmitted
        }),
        (
            "client_faults",
            Counter,
            "faults",
            "Descriptors and indices that cannot be.",
            |info| info.stats.client_faults,
        ),
        (
            "memory_bytes",
            Gauge,
            "bytes",
            "Memory charged to the connection.",
            |info| info.memory,
        ),
        (
            "transmit_rate_cells_per_second",
            Gauge,
            PER_S,
            "Cells/s promised or shared.",
            |info| info.transmit.map_or(0, |rate| rate.cell_s().into()),
        ),
        (
            "receive_rate_cells_per_second",
            Gauge,
            PER_S,
            "Cells/s promised or shared.",
            |info| info.receive.map_or(0, |rate| rate.cell_s().into()),
        ),
    ]
};

/// All counters; the last line is `# EOF`.
pub(super) fn text(stats: &Stats) -> String {
    let mut page = Page::default();
    page.family("cellgate_server", "info", "", "The server.");
    page.sample(
        "cellgate_server_info",
        &[("version", &stats.server.server)],
        1,
    );
    adapters(&mut page, &stats.adapters);
    resources(&mut page, &stats.resources);
    interfaces(&mut page, &stats.interfaces);
    connections(&mut page, &stats.connections);
    page.text + "# EOF\n"
}

/// One sample for each adapter; none: it has none.
type OfAdapter = (
    &'static str,
    Kind,
    &'static str,
    &'static str,
    fn(&AdapterInfo) -> Option<u64>,
);

/// A family of each adapter: name, kind, unit (the last part of the name), help, value.
const ADAPTER: [OfAdapter; 10] = {
    use Kind::{Counter, Gauge};
    const NS: &str = "nanoseconds";
    [
        (
            "gaps",
            Counter,
            "",
            "Times the adapter stood still.",
            |info| Some(info.gaps),
        ),
        (
            "neighbours",
            Gauge,
            "",
            "Other adapters that are pinned to its CPU, as far as can be seen.",
            |info| {
                Some(
                    info.shared
                        .as_ref()
                        .map_or(0, |shared| shared.others.into()),
                )
            },
        ),
        (
            "gap_time_nanoseconds",
            Counter,
            NS,
            "How long the adapter stood still.",
            |info| Some(info.gaps_total_ns),
        ),
        (
            "gap_longest_nanoseconds",
            Gauge,
            NS,
            "Longest time that the adapter stood still.",
            |info| Some(info.gap_longest_ns),
        ),
        (
            "gap_admitted_nanoseconds",
            Gauge,
            NS,
            "Longest time allowed for.",
            |info| Some(info.gap_admitted_ns),
        ),
        ("rests", Counter, "", "Times the adapter rested.", |info| {
            Some(info.rests.as_ref()?.rests)
        }),
        (
            "rests_ended_for_nothing",
            Counter,
            "",
            "Rests that somebody ended for nothing.",
            |info| Some(info.rests.as_ref()?.for_nothing),
        ),
        (
            "rest_time_nanoseconds",
            Counter,
            NS,
            "How long the adapter rested.",
            |info| Some(info.rests.as_ref()?.rests_total_ns),
        ),
        (
            "late_longest_nanoseconds",
            Gauge,
            NS,
            "The most that the adapter was late for what was due.",
            |info| Some(info.rests.as_ref()?.late_longest_ns),
        ),
        (
            "late_allowed_nanoseconds",
            Gauge,
            NS,
            "The most that it may be late.",
            |info| Some(info.rests.as_ref()?.late_allowed_ns),
        ),
    ]
};

fn adapters(page: &mut Page, all: &[AdapterInfo]) {
    let seen = || all.iter().filter(|info| info.seen_ns.is_some());
    for (name, kind, unit, help, value) in ADAPTER {
        if seen().all(|info| value(info).is_none()) {
            continue;
        }
        let name = format!("cellgate_adapter_{name}");
        let (kind, suffix) = kind.words();
        page.family(&name, kind, unit, help);
        for info in seen() {
            let label = info.name.as_deref().map(|name| ("adapter", name));
            if let Some(value) = value(info) {
                page.sample(&format!("{name}{suffix}"), label.as_slice(), value);
            }
        }
    }
}

/// A part of a resource: name, help, value.
type OfResource = (&'static str, &'static str, fn(&ResourceInfo) -> u64);

/// A resource's name, as JSON has it.
fn word(resource: Resource) -> String {
    let word = serde_json::to_value(resource).ok();
    let word = word.as_ref().and_then(serde_json::Value::as_str);
    word.unwrap_or_default().to_owned()
}

fn resources(page: &mut Page, all: &[ResourceInfo]) {
    let parts: [OfResource; 3] = [
        ("capacity", "All there is.", |info| info.capacity),
        ("reserved", "What is promised.", |info| info.reserved),
        (
            "expected",
            "What the promises are expected to use.",
            |info| info.expected,
        ),
    ];
    for (part, help, value) in parts {
        let name = format!("cellgate_resource_{part}");
        page.family(&name, "gauge", "", help);
        for info in all {
            let resource = word(info.resource);
            let unit = info.resource.unit().replace(' ', "_");
            let mut labels = vec![
                ("resource", &*resource),
                ("interface", info.interface.as_deref().unwrap_or("")),
                ("unit", &*unit),
            ];
            labels.extend(info.adapter.as_deref().map(|name| ("adapter", name)));
            page.sample(&name, &labels, value(info));
        }
    }
}

fn interfaces(page: &mut Page, all: &[InterfaceInfo]) {
    page.family(
        "cellgate_interface_up",
        "gauge",
        "",
        "Whether the link is there.",
    );
    for info in all {
        page.sample(
            "cellgate_interface_up",
            &[("interface", &info.spec.name)],
            info.up.into(),
        );
    }
    page.family(
        "cellgate_interface_connections",
        "gauge",
        "connections",
        "Connections.",
    );
    for info in all {
        let count = info.connections.into();
        let labels = [("interface", &*info.spec.name)];
        page.sample("cellgate_interface_connections", &labels, count);
    }
    let dropped = "cellgate_interface_dropped_cells";
    page.family(
        dropped,
        "counter",
        "cells",
        "Cells that the queue had no room for.",
    );
    for info in all {
        let labels = [("interface", &*info.spec.name)];
        page.sample(&format!("{dropped}_total"), &labels, info.dropped_cells);
    }
    for unit in ["cells", "datagrams"] {
        let name = format!("cellgate_interface_discarded_{unit}");
        page.family(
            &name,
            "counter",
            unit,
            "Of no VC, or not of the peer, by reason.",
        );
        for info in all {
            for loss in info.counts.losses().iter().filter(|loss| loss.unit == unit) {
                let labels = [("interface", &*info.spec.name), ("reason", loss.reason)];
                page.sample(&format!("{name}_total"), &labels, loss.count);
            }
        }
    }
}

fn connections(page: &mut Page, all: &[ConnectionInfo]) {
    for (name, kind, unit, help, value) in CONNECTION {
        let name = format!("cellgate_connection_{name}");
        let (kind, suffix) = kind.words();
        page.family(&name, kind, unit, help);
        for info in all {
            let labels = Labels::of(info);
            page.sample(&format!("{name}{suffix}"), &labels.all(), value(info));
        }
    }
    for (name, unit, help) in [
        (
            "cellgate_connection_discarded_pdus",
            "pdus",
            "PDUs discarded.",
        ),
        (
            "cellgate_connection_discarded_cells",
            "cells",
            "Cells discarded.",
        ),
    ] {
        page.family(name, "counter", unit, help);
        for info in all {
            let labels = Labels::of(info);
            let counts = match unit {
                "pdus" => &info.stats.pdus_discarded,
                _ => &info.stats.cells_discarded,
            };
            for (reason, count) in counts.iter() {
                let labels = [&labels.all()[..], &[("reason", reason.name())]].concat();
                page.sample(&format!("{name}_total"), &labels, count);
            }
        }
    }
}

/// What tells a connection from all others: its number is never used twice.
struct Labels {
    number: String,
    address: String,
    uid: String,
}

impl Labels {
    fn of(info: &ConnectionInfo) -> Self {
        Self {
            number: info.number.to_string(),
            address: info.address.to_string(),
            uid: info.uid.to_string(),
        }
    }

    fn all(&self) -> [(&'static str, &str); 3] {
        [
            ("number", &self.number),
            ("address", &self.address),
            ("uid", &self.uid),
        ]
    }
}

#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    /// Begins a family; its samples follow.
    fn family(&mut self, name: &str, kind: &str, unit: &str, help: &str) {
        // Writing to a text cannot fail.
        let _ = writeln!(self.text, "# TYPE {name} {kind}");
        if !unit.is_empty() {
            let _ = writeln!(self.text, "# UNIT {name} {unit}");
        }
        let _ = writeln!(self.text, "# HELP {name} {help}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: u64) {
        let labels: Vec<String> = labels
            .iter()
            .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
            .collect();
        let _ = match labels.is_empty() {
            true => writeln!(self.text, "{name} {value}"),
            false => writeln!(self.text, "{name}{{{}}} {value}", labels.join(",")),
        };
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use cellgate::{
        Discard, HeaderForm, InterfaceCounts, InterfaceSpec, InterfaceState, Link, Marks, Priority,
        RestInfo, ServerInfo,
    };

    use super::*;

    fn is_name(text: &str) -> bool {
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
        text.starts_with("cellgate_") && text.chars().all(fits)
    }

    type Labels<'l> = Vec<(&'l str, String)>;

    /// Splits a sample into name and labels; its value must be a number.
    fn sample(line: &str) -> Option<(&str, Labels<'_>)> {
        let Some((name, rest)) = line.split_once('{') else {
            let (name, value) = line.split_once(' ')?;
            value.parse::<u64>().ok()?;
            return Some((name, Vec::new()));
        };
        let (mut labels, value) = rest.rsplit_once("} ")?;
        let mut found = Vec::new();
        while !labels.is_empty() {
            let (label, rest) = labels.split_once("=\"")?;
            let mut text = String::new();
            let mut chars = rest.char_indices();
            let end = loop {
                match chars.next()? {
                    (at, '"') => break at,
                    (_, '\\') => text.push(match chars.next()?.1 {
                        'n' => '\n',
                        c @ ('"' | '\\') => c,
                        _ => return None,
                    }),
                    (_, c) => text.push(c),
                }
            };
            found.push((label, text));
            labels = &rest[end + 1..];
            labels = match labels.strip_prefix(',') {
                Some(more) if !more.is_empty() => more,
                _ if labels.is_empty() => labels,
                _ => return None,
            };
        }
        value.parse::<u64>().ok()?;
        Some((name, found))
    }

    /// Whether `text` is OpenMetrics 1.0 as far as counters, gauges and infos go: its samples.
    fn check(text: &str) -> Result<usize, String> {
        let body = text.strip_suffix("# EOF\n").ok_or("no EOF")?;
        let mut family: Option<(&str, &str)> = None;
        let (mut names, mut samples) = (BTreeSet::new(), BTreeSet::new());
        for line in body.lines() {
            let wrong = |what: &str| Err(format!("{what}: {line}"));
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').ok_or("no kind")?;
                if !is_name(name) || !["counter", "gauge", "info"].contains(&kind) {
                    return wrong("type");
                }
                if !names.insert(name) {
                    return wrong("family twice");
                }
                family = Some((name, kind));
                continue;
            }
            let Some((name, kind)) = family else {
                return wrong("no family");
            };
            if let Some(unit) = line.strip_prefix(&format!("# UNIT {name} ")) {
                if !name.ends_with(&format!("_{unit}")) {
                    return wrong("unit");
                }
            } else if let Some(help) = line.strip_prefix(&format!("# HELP {name} ")) {
                if !help.ends_with('.') {
                    return wrong("help");
                }
            } else {
                let Some((sampled, labels)) = sample(line) else {
                    return wrong("sample");
                };
                let suffix = match kind {
                    "counter" => "_total",
                    "info" => "_info",
                    _ => "",
                };
                if sampled != format!("{name}{suffix}") {
                    return wrong("another family's sample");
                }
                if !samples.insert((sampled, labels)) {
                    return wrong("sample twice");
                }
            }
        }
        Ok(samples.len())
    }

    fn stats() -> Stats {
        let connection = |number, address: &str| ConnectionInfo {
            marks: Marks::None,
            number,
            address: address.parse().unwrap(),
            contract: "ubr,aal5".to_owned(),
            notification: None,
            transmit_pdus: None,
            receive_pdus: None,
            queue_threshold: None,
            completions: false,
            guaranteed: false,
            permanent: true,
            uid: 1_000,
            pid: None,
            transmit: None,
            receive: None,
            memory: 4_096,
            cpu_reserved_ppm: 0,
            cpu_expected_ppm: 0,
            keeps_awake: false,
            delay_ns: None,
            risk: None,
            offer: None,
            buffers: Default::default(),
            bound: Default::default(),
            stats: Default::default(),
        };
        let mut connections = vec![connection(1, "lo.0.32"), connection(2, "lo.0.32")];
        connections[1].stats.pdus_delivered = 7;
        let discards = &mut connections[1].stats.cells_discarded;
        discards.add(Discard::NonConforming, 9);
        Stats {
            server: ServerInfo {
                server: "a \\ \"quoted\"\nname".to_owned(),
                ..ServerInfo::default()
            },
            connections,
            interfaces: vec![InterfaceInfo {
                spec: InterfaceSpec {
                    name: "lo".to_owned(),
                    adapter: None,
                    link: Link::peer("lo"),
                    form: HeaderForm::Nni,
                    priority: Priority::Normal,
                    line_rate: None,
                    line: None,
                },
                port: serde_json::from_str("0").unwrap(),
                up: true,
                connections: 2,
                dropped_cells: 3,
                state: InterfaceState::Up,
                counts: InterfaceCounts::default(),
            }],
            resources: vec![ResourceInfo {
                resource: Resource::Memory,
                interface: None,
                adapter: Some("east".to_owned()),
                capacity: 3,
                reserved: 2,
                expected: 1,
                limit: None,
            }],
            adapters: vec![
                AdapterInfo {
                    name: Some("east".to_owned()),
                    seen_ns: Some(1),
                    gaps: 4,
                    rests: Some(RestInfo::default()),
                    ..AdapterInfo::default()
                },
                AdapterInfo {
                    name: Some("west".to_owned()),
                    seen_ns: Some(1),
                    ..AdapterInfo::default()
                },
                AdapterInfo::default(),
            ],
        }
    }

    #[test]
    fn every_line_is_open_metrics() {
        let text = text(&stats());
        let of_connection = CONNECTION.len() + 2 * Discard::ALL.len();
        assert_eq!(
            check(&text),
            Ok(1 + 10 + 5 + 3 + 3 + 3 + 2 * of_connection),
            "{text}"
        );
        let line = "cellgate_connection_discarded_cells_total{number=\"2\",address=\"lo.0.32\",\
                    uid=\"1000\",reason=\"non_conforming\"} 9\n";
        assert!(text.contains(line), "{text}");
        assert!(text.contains("cellgate_interface_dropped_cells_total{interface=\"lo\"} 3\n"));
        assert!(text.contains("cellgate_adapter_gaps_total{adapter=\"east\"} 4\n"));
    }

    #[test]
    fn the_check_finds_mistakes() {
        let good = "# TYPE cellgate_a_cells counter\n# UNIT cellgate_a_cells cells\n\
                    # HELP cellgate_a_cells Help.\ncellgate_a_cells_total{b=\"c\"} 1\n# EOF\n";
        assert_eq!(check(good), Ok(1));
        for (of, to) in [
            ("# EOF\n", ""),
            ("cells_total", "cells"),
            (" cells\n", " pdus\n"),
            ("\"c\"", "\"c\\\""),
            ("\"c\"", "\"c\","),
            ("} 1", "} one"),
            ("Help.", "Help.\n# TYPE cellgate_a_cells counter"),
            ("} 1\n", "} 1\ncellgate_a_cells_total{b=\"c\"} 2\n"),
            ("counter", "number"),
        ] {
            assert!(good.contains(of), "{of}");
            assert!(check(&good.replacen(of, to, 1)).is_err(), "{of} as {to}");
        }
    }
}
