//! `cellgate itf`: the server's interfaces.

use cellgate::{
    CellRate, HeaderForm, InterfaceInfo, InterfaceSpec, LineCounts, LineSpec, Link, Loss, Priority,
};
use cellgate_core::contract::mbit_s;
use cellgate_core::keeper::LinkError;
use cellgate_report::output::{Exit, print, print_json_line, table_by_worth, width};
use clap::Subcommand;
use serde_json::json;

use super::{Server, usage};
use crate::completion;
use crate::words::WORDS;

const ADD_USAGE: &str = "\
cellgate itf add [OPTIONS] NAME type memory peer NAME|socket PATH
       cellgate itf add [OPTIONS] NAME type udp local ADDR peer ADDR label OUT";
const SET_USAGE: &str = "\
cellgate itf set [OPTIONS] NAME line WORD VALUE [WORD VALUE]...
       cellgate itf set [OPTIONS] NAME line clean";

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
    /// Add an interface
    ///
    /// Words stand in any order behind the name; hyphens before them are optional.
    #[command(override_usage = ADD_USAGE)]
    #[command(after_long_help = "\
Examples:
  $ cellgate itf add lo2 type memory peer lo2
  $ cellgate itf add wan type udp local 192.0.2.1 peer 192.0.2.2 label 16")]
    Add {
        /// Its name
        name: String,
        #[command(flatten)]
        words: SpecWords,
    },
    /// Remove an interface that has no connections
    #[command(after_long_help = "\
Examples:
  $ cellgate itf del wan")]
    Del {
        /// Its name
        #[arg(add = completion::interfaces())]
        name: String,
    },
    /// Impair the line on which an interface's cells arrive, or clean it
    ///
    /// The peer's end is impaired by itself. The same cells fare alike for the same seed; cells on
    /// their way when it is set are lost. A SHARE is written as 1e-6, 0.001 or 0.1%.
    #[command(override_usage = SET_USAGE)]
    #[command(after_long_help = "\
Examples:
  $ cellgate itf set b line ber 1e-6 loss 0.1% seed 7
  $ cellgate itf set b line rate 10000 queue 64 efci 32
  $ cellgate itf set b line clean")]
    Set {
        /// Its name
        #[arg(add = completion::interfaces())]
        name: String,
        #[command(flatten)]
        words: LineWords,
    },
    /// List interfaces
    #[command(visible_aliases = ["list", "ls", "sh"])]
    #[command(after_long_help = "\
Examples:
  $ cellgate itf show
  $ cellgate itf show wan --json")]
    Show {
        /// Only this one
        #[arg(add = completion::interfaces())]
        name: Option<String>,
        /// Have all columns, however wide the terminal is
        #[arg(long, conflicts_with = "json")]
        wide: bool,
    },
}

/// The words of an interface.
#[derive(clap::Args)]
#[command(next_help_heading = WORDS)]
struct SpecWords {
    /// What carries its cells
    #[arg(long = "type", value_name = "LINK", value_parser = ["memory", "udp"])]
    kind: String,
    /// Memory: the interface of this server at the other end, or its own name for a loop. UDP: the
    /// other end's address, with port 6635 where it names none
    #[arg(
        long,
        value_name = "NAME|ADDR[:PORT]",
        required_unless_present = "word_socket",
        add = completion::interfaces()
    )]
    peer: Option<String>,
    /// Memory: the path at which another daemon's interface is met
    #[arg(long, value_name = "PATH", conflicts_with = "peer")]
    word_socket: Option<String>,
    /// UDP: this end's address, with port 6635 where it names none
    #[arg(long, value_name = "ADDR[:PORT]", required_if_eq("kind", "udp"))]
    local: Option<String>,
    /// UDP: the labels of what is sent and of what arrives, 16 to 1048575
    #[arg(long, value_name = "OUT[:IN]", required_if_eq("kind", "udp"))]
    label: Option<String>,
    /// UDP: the source port of what is sent [default: whichever is free]
    #[arg(long, value_name = "PORT")]
    source_port: Option<String>,
    /// UDP: the source port of what arrives [default: any]
    #[arg(long, value_name = "PORT")]
    peer_source_port: Option<String>,
    /// UDP: octets of the longest IP packet [default: 1500]
    #[arg(long, value_name = "OCTETS")]
    mtu: Option<String>,
    /// UDP: how cells are packed: n1, n1-cw, vcc@VPI.VCI or vpc@VPI [default: n1]
    #[arg(long, value_name = "MODE")]
    mode: Option<String>,
    /// UDP: cells of a datagram at most [default: as many as fit]
    #[arg(long, value_name = "CELLS")]
    pack: Option<String>,
    /// UDP: how long a datagram that is not full waits for more cells, as 100us
    #[arg(long, value_name = "TIME")]
    timer: Option<String>,
    /// Whose cells have headers with a GFC (uni), or a VPI of 12 bits (nni) [default: nni]
    #[arg(long, value_name = "uni|nni")]
    form: Option<HeaderForm>,
    /// The adapter whose port it is, where there are several [default: the first]
    #[arg(long, value_name = "NAME")]
    adapter: Option<String>,
    /// Cells a second of its line [default: 353207, an OC-3c]
    #[arg(long, value_name = "CELLS_S")]
    rate: Option<u32>,
    /// Whether its cells come before those of others [default: normal]
    #[arg(long, value_name = "normal|real-time")]
    priority: Option<Priority>,
}

/// How a line is impaired.
#[derive(clap::Args)]
#[command(next_help_heading = WORDS)]
struct LineWords {
    /// That it is the line that is set
    #[arg(long, required = true)]
    line: bool,
    /// Each bit that arrives is inverted with this probability
    #[arg(long, value_name = "SHARE")]
    ber: Option<String>,
    /// Each cell is lost with this probability
    #[arg(long, value_name = "SHARE")]
    loss: Option<String>,
    /// Each cell arrives twice with this probability
    #[arg(long, value_name = "SHARE")]
    duplicate: Option<String>,
    /// Each cell takes so long, as 5ms: 10s at most
    #[arg(long, value_name = "TIME")]
    delay: Option<String>,
    /// And up to so much longer, in order: 10s at most
    #[arg(long, value_name = "TIME")]
    jitter: Option<String>,
    /// A bottleneck of so many cells a second
    #[arg(long, value_name = "CELLS_S", requires = "queue")]
    rate: Option<String>,
    /// Cells that wait there at most; more are lost
    #[arg(long, value_name = "CELLS", requires = "rate")]
    queue: Option<String>,
    /// A cell that finds so many waiting is marked
    #[arg(long, value_name = "CELLS", requires = "rate")]
    efci: Option<String>,
    /// Of the random numbers [default: 0]
    #[arg(long, value_name = "N")]
    seed: Option<String>,
    /// Not impaired
    #[arg(long, conflicts_with_all = [
        "ber", "loss", "duplicate", "delay", "jitter", "rate", "queue", "efci", "seed",
    ])]
    clean: bool,
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
        Verb::Show { name, wide } => {
            let mut all = command.server.admin()?.interfaces()?;
            if let Some(name) = name {
                all.retain(|info| info.spec.name == *name);
                anyhow::ensure!(!all.is_empty(), "no interface has the name {name}");
            }
            if json {
                print_json_line(&json!({ "interfaces": all }))?;
            } else {
                print(&list(&all, *wide || name.is_some()))?;
            }
        }
    }
    Ok(Exit::Ok)
}

fn spec(name: &str, words: &SpecWords) -> Result<InterfaceSpec, String> {
    if !cellgate::Address::is_interface_name(name) {
        return Err(cellgate::AddressError::Interface.to_string());
    }
    let link = [
        ("type", &Some(words.kind.clone())),
        ("peer", &words.peer),
        ("socket", &words.word_socket),
        ("local", &words.local),
        ("label", &words.label),
        ("source-port", &words.source_port),
        ("peer-source-port", &words.peer_source_port),
        ("mtu", &words.mtu),
        ("mode", &words.mode),
        ("pack", &words.pack),
        ("timer", &words.timer),
    ];
    let link = typed(&link).parse();
    let line_rate = match words.rate.map(CellRate::new) {
        Some(None) => return Err("`rate 0` is no rate".to_owned()),
        Some(rate) => rate,
        None => None,
    };
    Ok(InterfaceSpec {
        name: name.to_owned(),
        adapter: words.adapter.clone(),
        link: link.map_err(|error: LinkError| error.to_string())?,
        form: words.form.unwrap_or_default(),
        priority: words.priority.unwrap_or_default(),
        line_rate,
        line: None,
    })
}

/// The words that are there, as they are typed.
fn typed(words: &[(&str, &Option<String>)]) -> String {
    let words = words.iter();
    let typed = words.filter_map(|(key, value)| Some(format!("{key} {}", value.as_ref()?)));
    typed.collect::<Vec<_>>().join(" ")
}

fn line(words: &LineWords) -> Result<LineSpec, String> {
    let faults = [
        ("ber", &words.ber),
        ("loss", &words.loss),
        ("duplicate", &words.duplicate),
        ("delay", &words.delay),
        ("jitter", &words.jitter),
        ("rate", &words.rate),
        ("queue", &words.queue),
        ("efci", &words.efci),
        ("seed", &words.seed),
    ];
    let text = match words.clean {
        true => "clean".to_owned(),
        false => typed(&faults),
    };
    text.parse().map_err(|error| format!("line: {error}"))
}

fn list(all: &[InterfaceInfo], in_full: bool) -> String {
    let head = [
        "name",
        "Mbit/s",
        "connections",
        "cells dropped",
        "port",
        "cells/s",
        "state",
        "link",
    ];
    let mut rows = vec![head.map(str::to_owned)];
    rows.extend(all.iter().map(|info| {
        let rate = info.spec.line_rate.unwrap_or(CellRate::OC3).cell_s();
        [
            info.spec.name.clone(),
            mbit_s(rate.into()),
            info.connections.to_string(),
            info.dropped_cells.to_string(),
            info.port.0.to_string(),
            rate.to_string(),
            info.state.to_string(),
            match (&info.spec.link, in_full || width().is_none()) {
                (Link::Udp(udp), false) => format!("udp peer {}", udp.peer),
                (link, _) => link.to_string(),
            },
        ]
    }));
    // From the one of least worth on.
    let mut text = table_by_worth(&rows, &[5, 4, 3, 2], in_full);
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
    use super::*;

    fn spec(name: &str, text: &str) -> Result<InterfaceSpec, String> {
        super::spec(name, &crate::words::read(text)?)
    }

    fn line(text: &str) -> Result<LineSpec, String> {
        super::line(&crate::words::read(text)?)
    }

    #[test]
    fn reads_what_is_of_the_interface_beside_its_link() {
        let memory = spec("a", "type memory peer b rate 1000").unwrap();
        assert_eq!(memory.adapter, None);
        assert_eq!(memory.line_rate, CellRate::new(1000));
        assert_eq!(memory.link, Link::peer("b"));
        let named = spec("a", "type memory adapter east peer b").unwrap();
        assert_eq!(named.adapter.as_deref(), Some("east"));
        let text = "type udp local 10.0.0.1:1 peer 10.0.0.2:7000 label 100:101 mode n1-cw";
        let udp = spec("wan", text).unwrap();
        assert_eq!(format!("type {}", udp.link), text);
    }

    #[test]
    fn a_line_is_impaired_in_its_own_words() {
        let made = line("line loss 0.1% ber 1e-6 delay 5ms seed 7").unwrap();
        assert_eq!(made.to_string(), "ber 1e-6 loss 0.1% delay 5ms seed 7");
        assert!(line("line clean").unwrap().is_clean());
        for (text, part) in [
            ("", "line"),
            ("line noise 3", "unexpected argument 'noise'"),
            ("line clean ber 1e-6", "cannot be used with"),
            ("line rate 5", "queue <CELLS>"),
            ("line", "or clean"),
            ("line loss 200%", "line: `loss 200%`"),
        ] {
            let error = line(text).unwrap_err();
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
            ("", "type <LINK>\n  peer <NAME|ADDR[:PORT]>"),
            (
                "type udp",
                "peer <NAME|ADDR[:PORT]>\n  local <ADDR[:PORT]>\n  label <OUT[:IN]>",
            ),
            ("type tin", "memory, udp"),
            ("type memory peer b socket /x", "cannot be used with"),
            (
                "type memory peer b rate",
                "value is required for 'rate <CELLS_S>'",
            ),
            ("type memory peer b rate 0", "no rate"),
            ("type memory peer b rate x", "'rate <CELLS_S>'"),
            ("type memory peer b mtu 3", "`mtu` is not known"),
        ] {
            let error = spec("a", text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
        assert!(spec("a.b", "type memory peer b").is_err());
    }
}
