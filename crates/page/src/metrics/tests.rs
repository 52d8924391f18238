use std::collections::BTreeSet;

use cellgate::{
    AbrStats, AdapterInfo, Discard, HeaderForm, Histogram, Histograms, InterfaceCounts,
    InterfaceInfo, InterfaceSpec, InterfaceState, Link, Priority, Resource, ResourceInfo, RestInfo,
};

use super::*;
use crate::Stats;

fn is_name(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.starts_with("cellgate_") && text.chars().all(fits)
}

type Labels<'l> = Vec<(&'l str, String)>;

/// Splits a sample into name and labels; its value must be a number.
fn sample(line: &str) -> Option<(&str, Labels<'_>)> {
    let (name, mut labels, value) = match line.split_once('{') {
        Some((name, rest)) => {
            let (labels, value) = rest.rsplit_once("} ")?;
            (
                name,
                Some(labels).filter(|labels| !labels.is_empty())?,
                value,
            )
        }
        None => {
            let (name, value) = line.split_once(' ')?;
            (name, "", value)
        }
    };
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
    value.parse::<f64>().ok().filter(|value| *value >= 0.0)?;
    Some((name, found))
}

/// Whether `text` is OpenMetrics 1.0 as far as counters, gauges, histograms and infos go: its
/// samples.
fn check(text: &str) -> Result<usize, String> {
    let body = text.strip_suffix("# EOF\n").ok_or("no EOF")?;
    let mut family: Option<(&str, &str)> = None;
    let (mut names, mut samples) = (BTreeSet::new(), BTreeSet::new());
    for line in body.lines() {
        let wrong = |what: &str| Err(format!("{what}: {line}"));
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').ok_or("no help")?;
            if !is_name(name) || !help.ends_with('.') {
                return wrong("help");
            }
            if !names.insert(name) {
                return wrong("family twice");
            }
            family = Some((name, ""));
            continue;
        }
        let Some((name, kind)) = family else {
            return wrong("no family");
        };
        if let Some(kind) = line.strip_prefix(&format!("# TYPE {name} ")) {
            if !["counter", "gauge", "histogram", "info"].contains(&kind) {
                return wrong("type");
            }
            family = Some((name, kind));
        } else if let Some(unit) = line.strip_prefix(&format!("# UNIT {name} ")) {
            if !name.ends_with(&format!("_{unit}")) {
                return wrong("unit");
            }
        } else {
            let Some((sampled, labels)) = sample(line) else {
                return wrong("sample");
            };
            let ends: &[&str] = match kind {
                "counter" => &["_total"],
                "info" => &["_info"],
                "histogram" => &["_bucket", "_count", "_sum"],
                _ => &[""],
            };
            let fits = sampled
                .strip_prefix(name)
                .is_some_and(|end| ends.contains(&end));
            if !fits {
                return wrong("another family's sample");
            }
            if !samples.insert((sampled, labels)) {
                return wrong("sample twice");
            }
        }
    }
    Ok(samples.len())
}

pub(crate) fn stats() -> Stats {
    let connection = |number, address: &str| ConnectionInfo {
        permanent: true,
        uid: 1_000,
        memory: 4_096,
        ..ConnectionInfo::new(number, address.parse().unwrap(), "ubr,aal5")
    };
    let mut connections = vec![connection(1, "lo.0.32"), connection(2, "lo.0.32")];
    connections[1].stats.pdus_delivered = 7;
    let discards = &mut connections[1].stats.cells_discarded;
    discards.add(Discard::NonConforming, 9);
    Stats {
        server: "a \\ \"quoted\"\nname".to_owned(),
        pid: 1,
        notes: Vec::new(),
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
            least_free: 1,
            limit: None,
        }],
        adapters: vec![
            AdapterInfo {
                name: Some("east".to_owned()),
                seen_ns: Some(1),
                gaps: 4,
                rests: Some(RestInfo::default()),
                histograms: Some(Box::new(Histograms {
                    gaps: Histogram::of_logarithms(3_000_000, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 1]),
                    ..Histograms::default()
                })),
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
    let text = text(&stats(), PER_VC);
    let of_connection = 20 + 2 * Discard::ALL.len();
    assert_eq!(
        check(&text),
        Ok(1 + (3 * 8 + 6 + 3 * (2 + Histogram::BUCKETS)) + 4 + (4 + 3) + 2 * of_connection),
        "{text}"
    );
    for line in [
        "cellgate_connection_discarded_cells_total{number=\"2\",address=\"lo.0.32\",uid=\"1000\",\
         reason=\"non_conforming\"} 9.0\n",
        "cellgate_interface_dropped_cells_total{interface=\"lo\"} 3.0\n",
        "cellgate_adapter_gaps_total{adapter=\"east\"} 4.0\n",
        "cellgate_adapter_gaps_total 0.0\n",
        "cellgate_adapter_gap_seconds_sum{adapter=\"east\"} 0.003\n",
        "cellgate_adapter_gap_seconds_count{adapter=\"east\"} 3\n",
        "cellgate_adapter_gap_seconds_bucket{le=\"0.000001024\",adapter=\"east\"} 2\n",
        "cellgate_adapter_gap_seconds_bucket{le=\"0.000002048\",adapter=\"east\"} 3\n",
        "cellgate_adapter_gap_seconds_bucket{le=\"+Inf\",adapter=\"east\"} 3\n",
        "# TYPE cellgate_adapter_wake_up_lateness_seconds histogram\n",
        "# UNIT cellgate_adapter_step_seconds seconds\n",
        "cellgate_resource_capacity{resource=\"memory\",adapter=\"east\"} 3.0\n",
        "cellgate_connection_memory_octets{number=\"1\",address=\"lo.0.32\",uid=\"1000\"} 4096.0\n",
    ] {
        assert!(text.contains(line), "{line}{text}");
    }
}

#[test]
fn connections_beyond_a_number_have_one_sum() {
    let mut stats = stats();
    let mut more = stats.connections[1].clone();
    (more.number, more.guaranteed) = (3, true);
    stats.connections.push(more);
    let text = text(&stats, 1);
    check(&text).unwrap();
    assert!(
        text.contains("cellgate_connection_delivered_pdus_total{number=\"3\""),
        "{text}"
    );
    assert!(!text.contains("{number=\"1\""), "{text}");
    assert!(
        text.contains("cellgate_connection_memory_octets{address=\"others\"} 8192.0\n"),
        "{text}"
    );
    let line = "cellgate_connection_discarded_cells_total{address=\"others\",\
                reason=\"non_conforming\"} 9.0\n";
    assert!(text.contains(line), "{text}");
}

#[test]
fn abr_has_its_rates_and_its_rm_cells_by_connection_and_in_the_sum() {
    let mut stats = stats();
    let none = text(&stats, PER_VC);
    assert!(
        !none.contains("_rm_") && !none.contains("_floor_"),
        "{none}"
    );
    let abr = AbrStats {
        allowed_cell_s: 9,
        floor_cell_s: 5,
        forward_sent: 1,
        backward_sent: 2,
        forward_received: 3,
        backward_received: 4,
        crc_error: 6,
        wrong_protocol: 7,
        too_many: 8,
        unasked: 10,
        below_floor: 11,
        ..AbrStats::default()
    };
    stats.connections[0].stats.abr = Some(abr);
    let one = text(&stats, PER_VC);
    // Two rates, and two, two and five counts.
    assert_eq!(check(&one).unwrap(), check(&none).unwrap() + 2 + 9);
    stats.connections[1].stats.abr = Some(abr);
    let both = text(&stats, 0);
    check(&both).unwrap();
    let (alone, others) = (
        "number=\"1\",address=\"lo.0.32\",uid=\"1000\"",
        "address=\"others\"",
    );
    for (name, label, value) in [
        ("allowed_rate_cells_per_second", "", 9),
        ("floor_rate_cells_per_second", "", 5),
        ("rm_transmitted_cells_total", ",direction=\"forward\"", 1),
        ("rm_transmitted_cells_total", ",direction=\"backward\"", 2),
        ("rm_received_cells_total", ",direction=\"forward\"", 3),
        ("rm_received_cells_total", ",direction=\"backward\"", 4),
        ("rm_distrusted_cells_total", ",reason=\"crc_error\"", 6),
        ("rm_distrusted_cells_total", ",reason=\"wrong_protocol\"", 7),
        ("rm_distrusted_cells_total", ",reason=\"too_many\"", 8),
        ("rm_distrusted_cells_total", ",reason=\"unasked\"", 10),
        ("rm_distrusted_cells_total", ",reason=\"below_floor\"", 11),
    ] {
        for (text, of, times) in [(&one, alone, 1), (&both, others, 2)] {
            let line = format!(
                "cellgate_connection_{name}{{{of}{label}}} {}.0\n",
                value * times
            );
            assert!(text.contains(&line), "{line}{text}");
        }
    }
}

#[test]
fn the_check_finds_mistakes() {
    let good = "# HELP cellgate_a_cells Help.\n# TYPE cellgate_a_cells counter\n\
                # UNIT cellgate_a_cells cells\ncellgate_a_cells_total{b=\"c\"} 1\n# EOF\n";
    assert_eq!(check(good), Ok(1));
    for (of, to) in [
        ("# EOF\n", ""),
        ("cells_total", "cells"),
        (" cells\n", " pdus\n"),
        ("\"c\"", "\"c\\\""),
        ("\"c\"", "\"c\","),
        ("} 1", "} one"),
        ("} 1\n", "} 1\n# HELP cellgate_a_cells Help.\n"),
        ("Help.", "Help"),
        ("} 1\n", "} 1\ncellgate_a_cells_total{b=\"c\"} 2\n"),
        ("counter", "number"),
    ] {
        assert!(good.contains(of), "{of}");
        assert!(check(&good.replacen(of, to, 1)).is_err(), "{of} as {to}");
    }
}

#[test]
fn prometheus_own_format_has_the_same_samples_under_the_names_of_families() {
    let open_metrics = text(&stats(), PER_VC);
    let plain = plain(&open_metrics);
    let samples = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines.map(str::to_owned).collect()
    };
    assert_eq!(samples(&plain), samples(&open_metrics));
    let mut families = BTreeSet::new();
    for line in plain.lines() {
        match line
            .strip_prefix("# TYPE ")
            .and_then(|rest| rest.split_once(' '))
        {
            Some((name, kind)) => {
                assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
                families.insert(name.to_owned());
                if kind == "histogram" {
                    families.extend(["sum", "count", "bucket"].map(|of| format!("{name}_{of}")));
                }
            }
            None if line.starts_with("# HELP ") => {}
            None => {
                let name = line.split(['{', ' ']).next().unwrap();
                assert!(families.contains(name), "{line}");
            }
        }
    }
}

/// Names of metrics that no panel shows.
const UNSHOWN: [&str; 7] = [
    "cellgate_adapter_gaps_total",
    "cellgate_adapter_linger_seconds",
    "cellgate_connection_answered_cells_total",
    "cellgate_connection_can_grow",
    "cellgate_connection_client_faults_total",
    "cellgate_connection_held_cells",
    "cellgate_connection_memory_octets",
];

#[test]
fn the_dashboard_and_the_alerts_have_the_names_that_there_are() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/grafana/");
    let read = |name: &str| std::fs::read_to_string(format!("{root}{name}")).unwrap();
    let names = |text: &str| -> BTreeSet<String> {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let names = words.filter(|word| word.starts_with("cellgate_"));
        names.map(str::to_owned).collect()
    };
    let mut stats = stats();
    let (one, rate) = (&mut stats.connections[0], cellgate::CellRate::new(1));
    (one.transmit, one.receive) = (rate, rate);
    one.stats.abr = Some(AbrStats::default());
    stats.interfaces[0].counts.datagrams = Some(Default::default());
    let plain = plain(&text(&stats, PER_VC));
    let samples = plain.lines().filter(|line| !line.starts_with('#'));
    let there: BTreeSet<String> = samples
        .map(|line| line.split(['{', ' ']).next().unwrap().to_owned())
        .collect();
    let dashboard = read("cellgate.json");
    let shown = names(&dashboard);
    for (file, text) in [
        ("cellgate.json", dashboard),
        ("alerts.yml", read("alerts.yml")),
    ] {
        let unknown: Vec<_> = names(&text).difference(&there).cloned().collect();
        assert!(unknown.is_empty(), "{file}: {unknown:?}");
    }
    let unshown: Vec<&str> = there.difference(&shown).map(String::as_str).collect();
    assert_eq!(unshown, UNSHOWN);
}
