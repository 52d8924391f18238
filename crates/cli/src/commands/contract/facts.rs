//! What a contract costs, and whether there is room for it: the same of any contract.

use cellgate::Refused;
use cellgate_core::contract::mbit_s;
use cellgate_core::contract::{CellRate, Increment, Peak, TrafficContract, TrafficDescriptor};
use cellgate_core::server::DelayBounds;
use cellgate_report::output::wrapped;
use serde::Serialize;

use super::assumed::Assumed;
use super::trial::Trial;

/// The names of the fields are those of the JSON.
#[derive(Serialize)]
pub(super) struct Facts {
    /// Cells/s that are reserved of the line; none: none are.
    transmit_cell_s: Option<u64>,
    receive_cell_s: Option<u64>,
    /// The same in millionths of the line.
    transmit_share_ppm: Option<u64>,
    receive_share_ppm: Option<u64>,
    /// Cells of the largest message, or burst.
    largest_cells: u64,
    /// How long these take to leave where nothing is late; of a burst, while the line is free.
    way_ns: Option<u64>,
    /// The same of a burst where the line is not.
    way_most_ns: Option<u64>,
    #[serde(skip)]
    pub(super) bound: DelayBounds,
    ends: Vec<End>,
    #[serde(skip)]
    usage: Use,
    commands: Vec<String>,
}

/// A connection under the contract, or under one of its directions.
#[derive(Serialize)]
struct End {
    #[serde(skip)]
    words: &'static str,
    contract: String,
    memory_octets: Option<u64>,
    /// As the server would reserve it; none: no server was asked, or it refuses.
    cpu_reserved_ppm: Option<u64>,
    cpu_expected_ppm: Option<u64>,
    /// Whether the server would open it now; none: none was asked.
    fits: Option<bool>,
    refused: Option<String>,
    offer: Option<String>,
}

/// The largest message, or burst, and how it leaves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    pub(super) cells: u64,
    pub(super) ns: Option<u64>,
    pub(super) most_ns: Option<u64>,
}

impl Way {
    /// Of a contract by itself: its burst if it has one, else its largest PDU, of `cells` cells.
    pub(super) fn of(contract: &TrafficContract, cells: u64, line: CellRate) -> Self {
        let descriptor = contract.transmit.or(contract.receive);
        let said = descriptor.filter(|_| is_guaranteed(contract));
        let burst = said.and_then(|descriptor| descriptor.mbs);
        let cells = burst.map_or(cells, |mbs| mbs.get().into());
        let ns = |rate: CellRate| Increment::of(rate).times_ns(cells);
        Self {
            cells,
            ns: said.map(|said| ns(said.peak().on(line))),
            most_ns: said.map(|said| ns(said.sustained(line))),
        }
    }
}

/// Which connections use a contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// One, as it says.
    AsItIs,
    /// One that sends by it, and one that receives.
    OneWay,
    /// A network device at either end.
    Device,
}

fn is_guaranteed(contract: &TrafficContract) -> bool {
    contract.category.is_guaranteed()
}

impl Facts {
    pub(super) fn of(
        contract: &TrafficContract,
        usage: Use,
        way: Way,
        assumed: &Assumed,
        trial: Option<&mut Trial>,
    ) -> anyhow::Result<Self> {
        let reserved = |descriptor: Option<TrafficDescriptor>| {
            let descriptor = descriptor.filter(|_| is_guaranteed(contract))?;
            // A rate above the line is asked of the daemon all the same.
            let rate = match (descriptor.scr, descriptor.peak()) {
                (Some(rate), _) | (None, Peak::Rate(rate)) => rate,
                (None, Peak::Max) => assumed.line(),
            };
            Some(u64::from(rate.cell_s()))
        };
        let line = u64::from(assumed.line().cell_s());
        let share = |cell_s: u64| (cell_s * 1_000_000).div_ceil(line);
        let (sent, received) = (reserved(contract.transmit), reserved(contract.receive));
        let bound = assumed
            .prospect(contract)
            .ok()
            .map(|prospect| prospect.bound);
        let addresses = trial.as_ref().map_or_else(
            || ["ITF.VPI.VCI".to_owned(), "ITF.VPI.VCI".to_owned()],
            |trial| trial.addresses(),
        );
        let sends = TrafficContract {
            receive: None,
            ..*contract
        };
        let receives = TrafficContract {
            transmit: None,
            ..*contract
        };
        let ends = match usage {
            Use::OneWay => vec![("to send", sends), ("to receive", receives)],
            Use::AsItIs | Use::Device => vec![("", *contract)],
        };
        Ok(Self {
            transmit_cell_s: sent,
            receive_cell_s: received,
            transmit_share_ppm: sent.map(share),
            receive_share_ppm: received.map(share),
            largest_cells: way.cells,
            way_ns: way.ns,
            way_most_ns: way.most_ns,
            bound: bound.unwrap_or_default(),
            ends: End::all(ends, assumed, trial)?,
            usage,
            commands: commands(contract, usage, &addresses),
        })
    }

    /// Lines of up to 80 columns, each behind `indent`.
    pub(super) fn to_text(&self, indent: &str, largest: &str) -> String {
        let mut text = String::new();
        let mut line = |label: &str, words: &str| {
            text += &wrapped(&format!("{indent}{label:<22}"), words);
        };
        let share = |ppm: Option<u64>, cell_s: Option<u64>| {
            let (ppm, cell_s) = ppm.zip(cell_s)?;
            Some(format!(
                "{} ({cell_s} cells/s, {} Mbit/s)",
                percent(ppm),
                mbit_s(cell_s)
            ))
        };
        let sends = share(self.transmit_share_ppm, self.transmit_cell_s);
        let receives = share(self.receive_share_ppm, self.receive_cell_s);
        let shares = match (sends, receives) {
            (Some(send), Some(receive)) if send == receive => match self.usage {
                Use::OneWay => format!("{send} at either end"),
                Use::AsItIs | Use::Device => format!("{send} each way"),
            },
            (Some(send), Some(receive)) => format!("{send} to send, {receive} to receive"),
            (Some(send), None) => format!("{send} to send"),
            (None, Some(receive)) => format!("{receive} to receive"),
            (None, None) => "what nobody has reserved".to_owned(),
        };
        line("share of the line", &shares);
        let cells = match self.largest_cells {
            1 => "1 cell".to_owned(),
            cells => format!("{cells} cells"),
        };
        let way = match (self.way_ns, self.way_most_ns) {
            (Some(way), Some(most)) if most > way => format!(
                "{} while the line is free, {} at most: {cells}",
                ms(way),
                ms(most)
            ),
            (Some(way), _) => format!("{}: {cells}", ms(way)),
            (None, _) => format!("nothing is promised: {cells}"),
        };
        line(&format!("way of the {largest}"), &way);
        let sends = self.bound.transmit.map(|bound| {
            let here = bound.others_ns.saturating_add(bound.rest_ns);
            format!("{} to send, a stall {} more", ms(here), ms(bound.stall_ns))
        });
        let reads = self.bound.receive.map(|bound| {
            let here = bound.without_stall_ns();
            format!(
                "{} to its reader, a stall {} more",
                ms(here),
                ms(bound.stall_ns)
            )
        });
        let delays: Vec<_> = sends.into_iter().chain(reads).collect();
        line(
            "delay at the adapter",
            &match delays.is_empty() {
                true => "nothing is promised".to_owned(),
                false => format!("at most {}", delays.join("; ")),
            },
        );
        let each = |of: &dyn Fn(&End) -> String| {
            let each = self
                .ends
                .iter()
                .map(|end| format!("{} {}", of(end), end.words));
            let mut all: Vec<_> = each.map(|text| text.trim_end().to_owned()).collect();
            // Of what is the same at both, one is told.
            let of: Vec<_> = self.ends.iter().map(of).collect();
            if of.windows(2).all(|pair| pair[0] == pair[1]) {
                all = of.into_iter().take(1).collect();
            }
            all.join(", ")
        };
        line(
            "memory",
            &each(&|end| match end.memory_octets {
                Some(octets) => format!("{octets} octets"),
                None => "-".to_owned(),
            }),
        );
        line(
            "CPU time",
            &each(&|end| match end.cpu_reserved_ppm {
                Some(ppm) => format!("{} of the adapter's core", percent(ppm)),
                None if end.fits.is_some() => "-".to_owned(),
                None => "a server that runs tells it".to_owned(),
            }),
        );
        line(
            "fits now",
            &each(&|end| match (end.fits, &end.refused) {
                (None, _) => "no server was asked".to_owned(),
                (Some(true), _) => "yes".to_owned(),
                (Some(false), None) => "no".to_owned(),
                (Some(false), Some(why)) => format!("no: {why}"),
            }),
        );
        text += &format!("{indent}commands\n");
        for command in &self.commands {
            text += &pasted(&format!("{indent}  "), command);
        }
        text
    }
}

impl End {
    fn all(
        contracts: Vec<(&'static str, TrafficContract)>,
        assumed: &Assumed,
        mut trial: Option<&mut Trial>,
    ) -> anyhow::Result<Vec<Self>> {
        let mut ends = Vec::new();
        for (words, contract) in contracts {
            let answer = match &mut trial {
                Some(trial) => Some(trial.of(&contract)?),
                None => None,
            };
            let prospect = assumed.prospect(&contract).ok();
            let tried = answer.as_ref().and_then(|answer| answer.as_ref().ok());
            let refused = answer.as_ref().and_then(|answer| answer.as_ref().err());
            ends.push(Self {
                words,
                contract: contract.to_string(),
                memory_octets: tried
                    .map(|tried| tried.demand.memory)
                    .or(prospect.map(|prospect| prospect.memory)),
                cpu_reserved_ppm: tried.map(|tried| tried.demand.adapter_ppm),
                cpu_expected_ppm: tried.map(|tried| tried.demand.adapter_expected_ppm),
                fits: answer.as_ref().map(Result::is_ok),
                refused: refused.map(Refused::to_string),
                offer: match refused {
                    Some(Refused::Admission(shortage)) => shortage.offer.clone(),
                    _ => None,
                },
            });
        }
        Ok(ends)
    }
}

/// The commands that use a contract.
fn commands(contract: &TrafficContract, usage: Use, [here, there]: &[String; 2]) -> Vec<String> {
    let (sends, receives) = (contract.transmit.is_some(), contract.receive.is_some());
    let mut all = Vec::new();
    match usage {
        Use::Device => all.push(format!(
            "cellgate tun add cell0 vc {here} encap ipoa-llcsnap contract {contract}"
        )),
        Use::OneWay | Use::AsItIs => {
            if receives {
                all.push(format!("cellgate recv --vc {there} --contract {contract}"));
            }
            if sends {
                all.push(format!(
                    "cellgate send --vc {here} --contract {contract} FILE"
                ));
            }
        }
    }
    // Of a message's two ends each was asked for by itself.
    if usage != Use::OneWay {
        all.push(format!(
            "cellgate vc add {here} contract {contract} --dry-run"
        ));
    }
    all
}

/// A command that a shell takes as it stands: lines of up to 80 columns.
fn pasted(indent: &str, command: &str) -> String {
    const WIDTH: usize = 80;
    let mut lines = vec![indent.to_owned()];
    for word in command.split(' ') {
        let line = lines.last_mut().map_or(0, |line| line.len());
        // As much as a blank before it, and a blank and a backslash behind it.
        if line > indent.len() && line + word.len() + 3 > WIDTH {
            lines.push(format!("{indent}  "));
        }
        if let Some(line) = lines.last_mut() {
            let blank = if line.trim().is_empty() { "" } else { " " };
            *line += &format!("{blank}{word}");
        }
    }
    lines.join(" \\\n") + "\n"
}

/// Millionths, in hundredths of a per cent, rounded up.
fn percent(ppm: u64) -> String {
    let hundredths = ppm.div_ceil(100);
    format!("{}.{:02} %", hundredths / 100, hundredths % 100)
}

/// Nanoseconds in milliseconds, rounded up to a microsecond.
fn ms(ns: u64) -> String {
    let us = ns.div_ceil(1_000);
    format!("{}.{:03} ms", us / 1_000, us % 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_takes_what_is_shown() {
        let words = vec!["word"; 40].join(" ");
        let shown = pasted("  ", &words);
        assert!(shown.lines().all(|line| line.len() <= 80), "{shown}");
        let lines: Vec<_> = shown
            .lines()
            .map(|line| line.trim_end_matches('\\').trim())
            .collect();
        assert!(lines.len() > 2 && lines.join(" ") == words, "{shown}");
        assert_eq!(pasted("", "one two"), "one two\n");
    }

    #[test]
    fn quantities_are_rounded_up() {
        assert_eq!(percent(0), "0.00 %");
        assert_eq!(percent(1), "0.01 %");
        assert_eq!(percent(236_053), "23.61 %");
        assert_eq!(percent(2_000_000), "200.00 %");
        assert_eq!(ms(1), "0.001 ms");
        assert_eq!(ms(89_998_921), "89.999 ms");
    }
}
