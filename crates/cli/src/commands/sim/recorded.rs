//! Traffic of a scenario's file that a capture has: cells of a source, blocks of a ring's traffic.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use cellgate_capture::Content;
use cellgate_core::Time;
use cellgate_core::aal::mssar::{Limits, Reassembler, Verdict};
use cellgate_core::wire::{CbnCell, HeaderForm, MSSAR_RING_LEN, Mssar};
use cellgate_lab::world::scenario::{Load, Scenario, TimedBlock, TimedCell, Traffic};
use serde_json::{Map, Value, json};

use crate::captured::pseudowire::Labels;
use crate::captured::source::Source;
use crate::captured::train::{Shunter, Way};

/// Cells and blocks of captures in one scenario.
const RECORDED_MAX: usize = 4_000_000;

/// A list of a scenario whose entries may name a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum List {
    Sources,
    Traffic,
}

/// A capture that a scenario names.
pub(super) struct Named {
    list: List,
    /// The number of its entry.
    entry: usize,
    file: String,
    /// The only interface whose records count; none: all.
    interface: Option<u32>,
    /// The circuit whose blocks count, of a ring; none: that of the association.
    vci: Option<u16>,
}

impl List {
    const ALL: [Self; 2] = [Self::Sources, Self::Traffic];

    /// Its key in a scenario, the key of its entries that may name a capture, and what stands there
    /// else, without a capture.
    const fn keys(self) -> [&'static str; 3] {
        match self {
            Self::Sources => ["sources", "traffic", "cells"],
            Self::Traffic => ["traffic", "load", "blocks"],
        }
    }
}

/// Has each entry that names a capture send nothing, and tells what they name.
pub(super) fn take(scenario: &mut Value) -> anyhow::Result<Vec<Named>> {
    let mut all = Vec::new();
    for list in List::ALL {
        let [name, key, sends] = list.keys();
        let entries = scenario.get_mut(name).and_then(Value::as_array_mut);
        for (entry, value) in entries.into_iter().flatten().enumerate() {
            let Some(said) = value.get_mut(key) else {
                continue;
            };
            if !said["capture"].is_string() {
                continue;
            }
            let named = said
                .as_object()
                .and_then(|said| named(list, entry, said))
                .with_context(|| {
                    let circuit = match list {
                        List::Sources => "",
                        List::Traffic => " and `vci`",
                    };
                    format!(
                        "{name}.{entry}.{key}: other keys than `capture` and the numbers \
                         `interface`{circuit}"
                    )
                })?;
            all.push(named);
            *said = json!({ sends: [] });
        }
    }
    Ok(all)
}

/// As an entry says it, if it says nothing else.
fn named(list: List, entry: usize, said: &Map<String, Value>) -> Option<Named> {
    let mut named = Named {
        list,
        entry,
        file: String::new(),
        interface: None,
        vci: None,
    };
    for (key, value) in said {
        match &**key {
            "capture" => named.file = value.as_str()?.to_owned(),
            "interface" => named.interface = Some(value.as_u64()?.try_into().ok()?),
            "vci" if list == List::Traffic => named.vci = Some(value.as_u64()?.try_into().ok()?),
            _ => return None,
        }
    }
    Some(named)
}

/// Has each entry send what its capture has. `open` finds a file, or tells why it is not read.
pub(super) fn put(
    scenario: &mut Scenario,
    named: &[Named],
    open: impl Fn(&str) -> anyhow::Result<PathBuf>,
) -> anyhow::Result<()> {
    let mut room = RECORDED_MAX;
    for one in named {
        let file = open(&one.file)?;
        match one.list {
            List::Sources => {
                let cells = cells(&file, one.interface, room)?;
                room -= cells.len();
                scenario.sources[one.entry].traffic = Traffic::Cells(cells);
            }
            List::Traffic => {
                let traffic = &mut scenario.traffic[one.entry];
                let mut associations = scenario.associations.iter();
                let own = associations.find(|own| own.name == traffic.on);
                // An association that is not there is told when the scenario is checked.
                let Some(vci) = one.vci.or(own.map(|own| own.vci)) else {
                    continue;
                };
                let blocks = blocks(&file, one.interface, vci, room)?;
                room -= blocks.len();
                traffic.load = Load::Blocks(blocks);
            }
        }
    }
    Ok(())
}

/// The cells of a capture, from the first one's time on; SDUs and PDUs are cut into cells. Where
/// several interfaces have cells, these may be the same ones at several places: one must be chosen.
fn cells(path: &Path, interface: Option<u32>, room: usize) -> anyhow::Result<Vec<TimedCell>> {
    let name = path.display();
    let mut shunter = Shunter::new(Way::Both, HeaderForm::Nni, None, Labels::default());
    let mut cells = Vec::new();
    let mut clock = Clock::default();
    let mut cells_on = None;
    for record in Source::new(path).open()? {
        let record = record.map_err(|error| anyhow!("{name}: {error}"))?;
        let on = record.interface;
        if interface.is_some_and(|interface| interface != on) {
            continue;
        }
        if matches!(record.content, Content::Cell(_) | Content::CellWithHec(_)) {
            one_place(path, &mut cells_on, on)?;
        }
        shunter.shunt(&record);
        clock.goes_to(record.time_ns);
        for octets in shunter.cells() {
            let at_ns = clock.since_first();
            let [a, b, c, d, _, payload @ ..] = octets;
            let octets = [&[*a, *b, *c, *d][..], payload].concat();
            cells.push(TimedCell { at_ns, octets });
        }
        fits(path, cells.len(), room)?;
    }
    if cells.is_empty() {
        bail!("{name}: no cells");
    }
    Ok(cells)
}

/// The blocks of a circuit of a ring's capture, each when its first cell is there, from the first
/// one on. One of which a cell is missing is none.
fn blocks(
    path: &Path,
    interface: Option<u32>,
    vci: u16,
    room: usize,
) -> anyhow::Result<Vec<TimedBlock>> {
    let name = path.display();
    let mut reassembler = Reassembler::new(Limits {
        data_len: MSSAR_RING_LEN as u8,
        max_block: u16::MAX,
        blocks: 1,
        timeout_ns: u64::MAX,
    });
    let mut blocks = Vec::new();
    let mut clock = Clock::default();
    let (mut cells_on, mut begun) = (None, 0);
    for record in Source::new(path).open()? {
        let record = record.map_err(|error| anyhow!("{name}: {error}"))?;
        let Content::RingCell { octets, .. } = &record.content else {
            continue;
        };
        let cell = CbnCell::parse(octets);
        if cell.vci != vci || interface.is_some_and(|interface| interface != record.interface) {
            continue;
        }
        one_place(path, &mut cells_on, record.interface)?;
        clock.goes_to(record.time_ns);
        if Mssar::parse([cell.data[0], cell.data[1]]).start {
            begun = clock.since_first();
        }
        if let Verdict::Delivered(block) = reassembler.handle(Time::default(), &cell.data).cell {
            let octets = block.octets.len() as u16;
            blocks.push(TimedBlock {
                at_ns: begun,
                octets,
            });
        }
        fits(path, blocks.len(), room)?;
    }
    if blocks.is_empty() {
        bail!("{name}: no whole blocks on circuit {vci} of a ring");
    }
    Ok(blocks)
}

/// The time of a capture.
#[derive(Default)]
struct Clock {
    first: Option<u64>,
    last: u64,
}

impl Clock {
    /// A capture of several interfaces need not be in order; some records have no time.
    fn goes_to(&mut self, time_ns: Option<u64>) {
        self.last = self.last.max(time_ns.unwrap_or(self.last));
    }

    /// From the first time that this was asked for.
    fn since_first(&mut self) -> u64 {
        self.last - *self.first.get_or_insert(self.last)
    }
}

/// Refuses cells on another interface than those before.
fn one_place(path: &Path, on: &mut Option<u32>, now: u32) -> anyhow::Result<()> {
    let other = *on.get_or_insert(now);
    if other != now {
        bail!(
            "{}: cells on the interfaces {other} and {now}, perhaps the same ones; \
             `interface = N` chooses one",
            path.display()
        );
    }
    Ok(())
}

fn fits(path: &Path, has: usize, room: usize) -> anyhow::Result<()> {
    if has > room {
        bail!(
            "{}: more than {RECORDED_MAX} cells or blocks of captures",
            path.display()
        );
    }
    Ok(())
}
