//! The slots of rings: in a capture, and in a picture.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;

use anyhow::Context;
use cellgate_capture::{Direction, InterfaceId, Link, Packet, PcapngWriter, RingHeader};
use cellgate_lab::cbn::{Diagram, RingDeed, SlotDeed};
use cellgate_lab::world::scenario::Scenario;
use cellgate_lab::world::{CellTrace, Flying, Ps, ring_spec};
use cellgate_report::output::write_svg;
use cellgate_report::whole::create;

/// A file of the cells that each station has sent and taken, virtual time from 1970 on. It is
/// written as the run goes.
pub(super) struct SlotFile<'a> {
    path: &'a Path,
    file: PcapngWriter<BufWriter<File>>,
    /// Of each station, in order.
    stations: Vec<InterfaceId>,
    /// Hears the same.
    drawn: Option<&'a mut dyn CellTrace>,
    /// The first error: nothing is written from then on.
    failed: Option<io::Error>,
}

impl<'a> SlotFile<'a> {
    pub(super) fn create(
        path: &'a Path,
        scenario: &Scenario,
        drawn: Option<&'a mut dyn CellTrace>,
    ) -> anyhow::Result<Self> {
        let name = || path.display().to_string();
        let file = BufWriter::new(create(path).with_context(name)?);
        let mut file = PcapngWriter::new(file, "cellgate sim").with_context(name)?;
        let stations = scenario.stations.iter();
        let stations: io::Result<_> = stations
            .map(|one| file.interface(Link::Ring, &format!("{} on {}", one.name, one.ring)))
            .collect();
        Ok(Self {
            path,
            stations: stations.with_context(name)?,
            file,
            drawn,
            failed: None,
        })
    }

    /// Whether all of it was written.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        let written = match self.failed {
            Some(error) => Err(error),
            None => self.file.finish().map(drop),
        };
        written.with_context(|| self.path.display().to_string())
    }

    fn records(&mut self, station: usize, direction: Direction, deed: &RingDeed) {
        let header = RingHeader {
            direction,
            type_bit: deed.slot.type_bit,
            response: deed.slot.response,
            channel: deed.channel,
        };
        let octets = [&[header.emit()][..], &deed.slot.cell.emit()].concat();
        let packet = Packet {
            time_ns: deed.at.ns(),
            direction,
            octets: &octets,
            missing: 0,
            comment: None,
        };
        let written = self.file.packet(self.stations[station], packet);
        self.failed = written.err();
    }
}

impl CellTrace for SlotFile<'_> {
    fn arrives(&mut self, _: usize, _: &Flying) {}

    fn slot(&mut self, ring: usize, station: Option<usize>, deed: &RingDeed) {
        if let Some(drawn) = &mut self.drawn {
            drawn.slot(ring, station, deed);
        }
        let direction = match deed.what {
            SlotDeed::Filled => Direction::Transmit,
            SlotDeed::Taken => Direction::Receive,
            _ => return,
        };
        if let (Some(station), None) = (station, &self.failed) {
            self.records(station, direction, deed);
        }
    }
}

/// A picture of all rings.
pub(super) struct Drawn<'a> {
    path: &'a Path,
    rings: Vec<Diagram>,
}

impl<'a> Drawn<'a> {
    pub(super) fn new(path: &'a Path, scenario: &Scenario, from_ns: Option<u64>) -> Self {
        let rings = scenario.rings.iter().map(|ring| {
            let here = scenario.stations.iter();
            let mut here: Vec<_> = here.filter(|one| one.ring == ring.name).collect();
            here.sort_by_key(|one| one.at);
            let names = here.into_iter().map(|one| one.name.clone());
            let from = from_ns.map(Ps::from_ns);
            Diagram::new(&ring.name, ring_spec(ring), names.collect(), from)
        });
        Self {
            path,
            rings: rings.collect(),
        }
    }

    pub(super) fn finish(self) -> anyhow::Result<()> {
        write_svg(self.path, &Diagram::figure(self.rings))
    }
}

impl CellTrace for Drawn<'_> {
    fn arrives(&mut self, _: usize, _: &Flying) {}

    fn slot(&mut self, ring: usize, _: Option<usize>, deed: &RingDeed) {
        self.rings[ring].hears(deed);
    }
}
