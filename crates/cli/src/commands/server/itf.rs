//! `cellgate itf`: the server's interfaces.

use std::num::NonZeroU16;

use cellgate::{
    CellPseudowire, CellRate, InterfaceInfo, InterfaceSpec, LineCounts, LineSpec, Link, Loss,
    UdpLink,
};
use cellgate_report::output::{Exit, print, print_json_line, table};
use clap::Subcommand;
use serde_json::json;

use super::quantity::TimeWord;
use super::words::Words;
use super::{Server, usage};

/// Interfaces: add, del, set, show.
#[derive(clap::Args)]
pub(crate) struct Command {
    #[command(flatten)]
    server: Server,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Adds one: NAME type memory peer NAME, or NAME type udp local ADDR peer ADDR label OUT[:IN]
    Add {
        /// Its name
        name: String,
        /// type memory peer NAME [adapter NAME] [rate CELLS_S] | type udp local ADDR[:PORT]
        /// peer ADDR[:PORT] label OUT[:IN] [source-port N] [peer-source-port N] [mtu N]
        /// [mode n1|n1-cw|vcc@VPI.VCI|vpc@VPI] [pack CELLS] [timer TIME] [adapter NAME]
        /// [rate CELLS_S]
        words: Vec<String>,
    },
    /// Removes one that has no connections
    Del {
        /// Its name
        name: String,
    },
    /// Has the line on which its cells arrive be impaired, or clean: NAME line ber 1e-6 | NAME line
    /// clean
    ///
    /// The peer's end is impaired by itself. The same cells fare alike for the same seed; cells on
    /// their way when it is set are lost.
    Set {
        /// Its name
        name: String,
        /// line [ber SHARE] [loss SHARE] [duplicate SHARE] [delay TIME] [jitter TIME]
        /// [rate CELLS_S queue CELLS [efci CELLS]] [seed N] | line clean; a SHARE as 1e-6 or 0.1%
        words: Vec<String>,
    },
    /// Lists them
    Show {
        /// Only this one
        name: Option<String>,
    },
}

pub(crate) fn run(command: &Command) -> anyhow::Result<Exit> {
    let json = command.server.json;
    match &command.verb {
        Verb::Add { name, words } => {
            let spec = usage(spec(name, words))?;
            command.server.admin()?.add_interface(spec.clone())?;
            if json {
                print_json_line(&spec)?;
            }
        }
        Verb::Del { name } => {
            command.server.admin()?.remove_interface(name)?;
            if json {
                print_json_line(&json!({ "name": name }))?;
            }
        }
        Verb::Set { name, words } => {
            let line = usage(line(words))?;
            command.server.admin()?.set_line(name, line)?;
            if json {
                print_json_line(&json!({ "name": name, "line": line }))?;
            }
        }
        Verb::Show { name } => {
            let mut all = command.server.admin()?.interfaces()?;
            if let Some(name) = name {
                all.retain(|info| info.spec.name == *name);
                anyhow::ensure!(!all.is_empty(), "no interface has the name {name}");
            }
            if json {
                print_json_line(&json!({ "interfaces": all }))?;
            } else {
                print(&list(&all))?;
            }
        }
    }
    Ok(Exit::Ok)
}

fn spec(name: &str, words: &[String]) -> Result<InterfaceSpec, String> {
    if !cellgate::Address::is_interface_name(name) {
        return Err(cellgate::AddressError::Interface.to_string());
    }
    let mut words = Words::new(words);
    let kind: String = words.required("type")?;
    let link = match &*kind {
        "memory" => Link::Memory {
            peer: words.required("peer")?,
        },
        "udp" => udp(&mut words)?,
        other => return Err(format!("`type {other}`: expected memory or udp")),
    };
    let rate = words.value("rate")?.map(CellRate::new);
    let adapter = words.value("adapter")?;
    words.finish()?;
    let line_rate = match rate {
        Some(None) => return Err("`rate 0` is no rate".to_owned()),
        Some(rate) => rate,
        None => None,
    };
    Ok(InterfaceSpec {
        name: name.to_owned(),
        adapter,
        link,
        line_rate,
        line: None,
    })
}

fn line(words: &[String]) -> Result<LineSpec, String> {
    match words.split_first() {
        Some((word, words)) if word == "line" => words
            .join(" ")
            .parse()
            .map_err(|error| format!("line: {error}")),
        Some((word, _)) => Err(format!("`{word}` is not known: expected line")),
        None => Err("expected line and how it is impaired, or line clean".to_owned()),
    }
}

fn udp(words: &mut Words) -> Result<Link, String> {
    let local = Link::end(&words.required::<String>("local")?)?;
    let peer = Link::end(&words.required::<String>("peer")?)?;
    let labels: String = words.required("label")?;
    let (label_out, label_in) = match labels.split_once(':') {
        Some((out, into)) => (label(out)?, label(into)?),
        None => (label(&labels)?, label(&labels)?),
    };
    Ok(Link::Udp(UdpLink {
        local,
        peer,
        source_port: words.value("source-port")?.unwrap_or(0),
        peer_source_port: words.value("peer-source-port")?,
        label_out,
        label_in,
        mode: words.value("mode")?.unwrap_or_default(),
        mtu: words.value("mtu")?.unwrap_or(Link::MTU),
        pack: words.text("pack")?.map(|text| cells(&text)).transpose()?,
        timer_ns: words.value("timer")?.map_or(0, |TimeWord(ns)| ns),
    }))
}

fn label(text: &str) -> Result<u32, String> {
    let label = text
        .parse()
        .ok()
        .filter(|label| (16..1 << 20).contains(label));
    label.ok_or_else(|| format!("`label {text}`: expected 16 to 1048575"))
}

fn cells(text: &str) -> Result<NonZeroU16, String> {
    text.parse()
        .map_err(|_| format!("`pack {text}`: expected 1 to 65535"))
}

fn list(all: &[InterfaceInfo]) -> String {
    let head = [
        "name",
        "link",
        "port",
        "cells/s",
        "connections",
        "dropped",
        "state",
    ];
    let mut rows = vec![head.map(str::to_owned)];
    rows.extend(all.iter().map(|info| {
        let rate = info.spec.line_rate.unwrap_or(CellRate::OC3);
        [
            info.spec.name.clone(),
            link(&info.spec.link),
            info.port.0.to_string(),
            rate.cell_s().to_string(),
            info.connections.to_string(),
            info.dropped_cells.to_string(),
            info.state.to_string(),
        ]
    }));
    let mut text = table(&rows);
    for info in all {
        if let Some(line) = &info.spec.line {
            text += &format!("{} line {line}\n", info.spec.name);
        }
        if let Some(counts) = info.counts.line {
            text += &format!("{} line {}\n", info.spec.name, done(&counts));
        }
        let losses = info.counts.losses().into_iter();
        for loss in losses.filter(Loss::is_met) {
            text += &format!("{} discarded {loss}\n", info.spec.name);
        }
    }
    text
}

/// What an impaired line has done, but for what it has not.
fn done(counts: &LineCounts) -> String {
    let LineCounts {
        cells_in,
        cells_out,
        lost,
        queue_full,
        overflowed,
        duplicated,
        bit_errors,
        header_errors,
        payload_errors,
        marked,
    } = *counts;
    let mut text = format!("cells in {cells_in}, out {cells_out}");
    for (what, count) in [
        ("lost", lost),
        ("queue full", queue_full),
        ("overflowed", overflowed),
        ("duplicated", duplicated),
        ("bit errors", bit_errors),
        ("headers damaged", header_errors),
        ("payloads damaged", payload_errors),
        ("marked", marked),
        ("on their way", counts.in_flight()),
    ] {
        if count > 0 {
            text += &format!(", {what} {count}");
        }
    }
    text
}

/// The words that make it again.
fn link(link: &Link) -> String {
    match link {
        Link::Memory { peer } => format!("memory peer {peer}"),
        Link::Udp(UdpLink {
            local,
            peer,
            source_port,
            peer_source_port,
            label_out,
            label_in,
            mode,
            mtu,
            pack,
            timer_ns,
        }) => {
            let mut words = format!("udp local {local} peer {peer} label {label_out}:{label_in}");
            let mut say = |told: bool, word: String| {
                if told {
                    words += " ";
                    words += &word;
                }
            };
            say(*source_port != 0, format!("source-port {source_port}"));
            let peers = peer_source_port.unwrap_or(0);
            say(
                peer_source_port.is_some(),
                format!("peer-source-port {peers}"),
            );
            say(*mtu != Link::MTU, format!("mtu {mtu}"));
            say(*mode != CellPseudowire::default(), format!("mode {mode}"));
            let cells = pack.map_or(0, |pack| pack.get());
            say(pack.is_some(), format!("pack {cells}"));
            say(*timer_ns != 0, format!("timer {}", TimeWord(*timer_ns)));
            words
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn reads_both_links() {
        let memory = spec("a", &words("type memory peer b rate 1000")).unwrap();
        assert_eq!(memory.adapter, None);
        let named = spec("a", &words("type memory peer b adapter east")).unwrap();
        assert_eq!(named.adapter.as_deref(), Some("east"));
        assert_eq!(memory.line_rate, CellRate::new(1000));
        assert_eq!(memory.link, Link::Memory { peer: "b".into() });
        let text = "type udp local 10.0.0.1 peer 10.0.0.2:7000 label 100:101 mode n1-cw";
        let Link::Udp(UdpLink {
            local,
            peer,
            label_out,
            label_in,
            mode,
            mtu,
            ..
        }) = spec("wan", &words(text)).unwrap().link
        else {
            panic!("a UDP link");
        };
        assert_eq!(local.to_string(), "10.0.0.1:6635");
        assert_eq!(peer.to_string(), "10.0.0.2:7000");
        assert_eq!(
            (label_out, label_in, mode, mtu),
            (100, 101, CellPseudowire::n_to_one(true), 1500)
        );
    }

    #[test]
    fn shows_a_link_as_the_words_that_make_it() {
        let all = "type udp local 10.0.0.1:1 peer 10.0.0.2:2 label 100:101 source-port 5 \
                   peer-source-port 6 mtu 900 mode n1-cw pack 8 timer 250us";
        for text in [
            all,
            "type udp local [::1]:1 peer [::1]:2 label 16:16",
            "type udp local [::1]:1 peer [::1]:2 label 16:16 mode vcc@4095.65535",
            "type udp local [::1]:1 peer [::1]:2 label 16:16 mode vpc@5 timer 1ms",
            "type memory peer b",
        ] {
            let made = spec("a", &words(text)).unwrap().link;
            assert_eq!(format!("type {}", link(&made)), text);
        }
        let Link::Udp(UdpLink { pack, timer_ns, .. }) = spec("a", &words(all)).unwrap().link else {
            panic!("a UDP link");
        };
        assert_eq!((pack.map(|pack| pack.get()), timer_ns), (Some(8), 250_000));
    }

    #[test]
    fn a_line_is_impaired_in_its_own_words() {
        let made = line(&words("line loss 0.1% ber 1e-6 delay 5ms seed 7")).unwrap();
        assert_eq!(made.to_string(), "ber 1e-6 loss 0.1% delay 5ms seed 7");
        assert!(line(&words("line clean")).unwrap().is_clean());
        for (text, part) in [
            ("", "line clean"),
            ("noise 3", "`noise` is not known: expected line"),
            ("line", "or clean"),
            ("line loss 200%", "line: `loss 200%`"),
        ] {
            let error = line(&words(text)).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
        let counts = LineCounts {
            cells_in: 10,
            cells_out: 8,
            lost: 1,
            ..LineCounts::default()
        };
        assert_eq!(done(&counts), "cells in 10, out 8, lost 1, on their way 1");
    }

    #[test]
    fn says_what_is_wrong() {
        for (text, part) in [
            ("", "type VALUE"),
            ("type tin", "memory or udp"),
            ("type memory", "peer VALUE"),
            ("type memory peer b rate 0", "no rate"),
            ("type memory peer b mtu 3", "`mtu` is not known"),
            ("type udp local x peer 10.0.0.2 label 100", "`x` is no IP"),
            ("type udp local ::1 peer ::1 label 15", "16 to 1048575"),
            (
                "type udp local ::1 peer ::1 label 16 pack 0",
                "`pack 0`: expected 1",
            ),
            (
                "type udp local ::1 peer ::1 label 16 mode vcc",
                "vcc@VPI.VCI",
            ),
            (
                "type udp local ::1 peer ::1 label 16 mode vpc@4096",
                "vpc@VPI",
            ),
            (
                "type udp local ::1 peer ::1 label 16 mode aal5-sdu@0.40",
                "n1-cw",
            ),
            ("type udp local ::1 peer ::1 label 16 timer 5", "250us"),
            ("type memory peer b timer 5ms", "`timer` is not known"),
        ] {
            let error = spec("a", &words(text)).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
        assert!(spec("a.b", &words("type memory peer b")).is_err());
    }
}
