//! `cellgate itf`: the server's interfaces.

use cellgate::{
    CellRate, HeaderForm, InterfaceInfo, InterfaceSpec, LineCounts, LineSpec, Loss, Priority,
};
use cellgate_core::keeper::LinkError;
use cellgate_report::output::{Exit, print, print_json_line, table};
use clap::Subcommand;
use serde_json::json;

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
    /// Adds one: NAME type memory peer NAME, NAME type memory socket PATH, or NAME type udp local
    /// ADDR peer ADDR label OUT[:IN]
    Add {
        /// Its name
        name: String,
        /// type memory peer NAME|socket PATH [form uni|nni] [adapter NAME] [rate CELLS_S]
        /// [priority normal|real-time]
        /// | type udp local ADDR[:PORT] peer ADDR[:PORT] label OUT[:IN] [source-port N]
        /// [peer-source-port N] [mtu N] [mode n1|n1-cw|vcc@VPI.VCI|vpc@VPI] [pack CELLS]
        /// [timer TIME] [adapter NAME] [rate CELLS_S]
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
    // What makes the link is the rest.
    let (own, of_link): (Vec<_>, Vec<_>) = words.chunks(2).partition(|pair| {
        let [key, ..] = pair else { return false };
        ["adapter", "form", "priority", "rate"].contains(&key.as_str())
    });
    let link = of_link.concat().join(" ");
    let link = link.parse().map_err(|error: LinkError| error.to_string())?;
    let mut words = Words::new(&own.concat());
    let rate = words.value("rate")?.map(CellRate::new);
    let adapter = words.value("adapter")?;
    let form = words.value::<HeaderForm>("form")?.unwrap_or_default();
    let priority = words.value::<Priority>("priority")?.unwrap_or_default();
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
        form,
        priority,
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
            info.spec.link.to_string(),
            info.port.0.to_string(),
            rate.cell_s().to_string(),
            info.connections.to_string(),
            info.dropped_cells.to_string(),
            info.state.to_string(),
        ]
    }));
    let mut text = table(&rows);
    for info in all {
        if info.spec.form == HeaderForm::Uni {
            text += &format!("{} form uni\n", info.spec.name);
        }
        if info.spec.priority == Priority::RealTime {
            text += &format!("{} priority real-time\n", info.spec.name);
        }
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
        in_flight,
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
        ("on their way", in_flight),
    ] {
        if count > 0 {
            text += &format!(", {what} {count}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use cellgate::Link;

    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn reads_what_is_of_the_interface_beside_its_link() {
        let memory = spec("a", &words("type memory peer b rate 1000")).unwrap();
        assert_eq!(memory.adapter, None);
        assert_eq!(memory.line_rate, CellRate::new(1000));
        assert_eq!(memory.link, Link::peer("b"));
        let named = spec("a", &words("type memory adapter east peer b")).unwrap();
        assert_eq!(named.adapter.as_deref(), Some("east"));
        let text = "type udp local 10.0.0.1:1 peer 10.0.0.2:7000 label 100:101 mode n1-cw";
        let udp = spec("wan", &words(text)).unwrap();
        assert_eq!(format!("type {}", udp.link), text);
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
            in_flight: 1,
            ..LineCounts::default()
        };
        assert_eq!(done(&counts), "cells in 10, out 8, lost 1, on their way 1");
    }

    #[test]
    fn says_what_is_wrong() {
        for (text, part) in [
            ("", "type VALUE"),
            ("type tin", "memory or udp"),
            ("type memory peer b rate", "behind `rate`"),
            ("type memory peer b rate 0", "no rate"),
            ("type memory peer b rate x", "`rate x`"),
            ("type memory peer b mtu 3", "`mtu` is not known"),
        ] {
            let error = spec("a", &words(text)).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
        assert!(spec("a.b", &words("type memory peer b")).is_err());
    }
}
