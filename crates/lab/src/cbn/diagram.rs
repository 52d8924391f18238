//! A picture of slots: where each is at which time, and whose cell lies in it.

use cellgate_report::{Axis, Band, BandPanel, Figure, Owner};

use super::{RingDeed, RingSpec, SlotDeed};
use crate::world::Ps;

/// A picture of one ring, made from its deeds.
#[derive(Clone, Debug)]
pub struct Diagram {
    name: String,
    spec: RingSpec,
    /// The names of its stations.
    stations: Vec<String>,
    /// The time at which it begins; none: when the first slot is filled.
    from: Option<Ps>,
    span: Ps,
    /// Whose each slot is, and since when; by frame, then by channel.
    slots: Vec<(Ps, Owner)>,
    /// Those of each channel.
    bands: Vec<Vec<Band>>,
    taken: Vec<Vec<(f64, f64)>>,
}

fn us(at: Ps) -> f64 {
    at.ps() as f64 / 1e6
}

impl Diagram {
    /// Rotations that a picture shows.
    pub const ROTATIONS: u64 = 8;

    /// Of a ring with these stations, from a time on, or from the time on at which the first slot
    /// is filled.
    pub fn new(name: &str, spec: RingSpec, stations: Vec<String>, from: Option<Ps>) -> Self {
        let channels = usize::from(spec.channels);
        Self {
            name: name.to_owned(),
            stations,
            from,
            span: Ps::new(spec.rotation.ps() * Self::ROTATIONS),
            slots: vec![(Ps::ZERO, Owner::Empty); spec.frames as usize * channels],
            bands: vec![Vec::new(); channels],
            taken: vec![Vec::new(); channels],
            spec,
        }
    }

    /// A deed, none before one that was told.
    pub fn hears(&mut self, deed: &RingDeed) {
        let frame = (deed.number % u64::from(self.spec.frames)) as u32;
        let spot = (frame, usize::from(deed.channel));
        match deed.what {
            SlotDeed::Filled => {
                self.from.get_or_insert(deed.at);
                self.becomes(spot, deed.at, Owner::Number(deed.who));
            }
            SlotDeed::Taken => {
                let place = self.turns(frame, deed.at).fract() * f64::from(self.spec.places);
                if self.shows(deed.at, deed.at) {
                    self.taken[spot.1].push((us(deed.at), place));
                }
            }
            SlotDeed::Stuck => self.becomes(spot, deed.at, Owner::Nobody),
            SlotDeed::Flipped if self.slots[self.index(spot)].1 != Owner::Empty => {}
            SlotDeed::Flipped => self.becomes(spot, deed.at, Owner::Nobody),
            SlotDeed::Emptied
            | SlotDeed::Released
            | SlotDeed::Cleared
            | SlotDeed::Lost
            | SlotDeed::Damaged => self.becomes(spot, deed.at, Owner::Empty),
        }
    }

    const fn index(&self, (frame, channel): (u32, usize)) -> usize {
        frame as usize * self.spec.channels as usize + channel
    }

    /// Whether something of a slot whose front moves from one time to another is to be seen.
    fn shows(&self, from: Ps, to: Ps) -> bool {
        let frame = self.spec.frame_part(1, 1);
        let begins = self.from.is_some_and(|begin| to.plus(frame) > begin);
        begins && self.from.is_none_or(|begin| from < begin.plus(self.span))
    }

    /// How often a frame's front has gone round.
    fn turns(&self, frame: u32, at: Ps) -> f64 {
        let begun = f64::from(frame) / f64::from(self.spec.frames);
        (us(at) / us(self.spec.rotation) - begun).max(0.0)
    }

    /// A slot is another's from here on.
    fn becomes(&mut self, spot: (u32, usize), at: Ps, owner: Owner) {
        let index = self.index(spot);
        let (since, former) = std::mem::replace(&mut self.slots[index], (at, owner));
        if self.shows(since, at) {
            self.draws(spot, since, at, former);
        }
    }

    /// The way of a slot from one time to another: a band a revolution.
    fn draws(&mut self, (frame, channel): (u32, usize), from: Ps, to: Ps, owner: Owner) {
        let rotation = us(self.spec.rotation);
        let (wide, places) = (us(self.spec.frame_part(1, 1)), f64::from(self.spec.places));
        let begun = rotation * f64::from(frame) / f64::from(self.spec.frames);
        let window = self.from.unwrap_or(Ps::ZERO);
        let first = us(from).max(us(window) - wide).max(begun);
        let last = us(to).min(us(window.plus(self.span)));
        let mut at = first;
        while at < last {
            // The slack is less than a picosecond.
            let turn = ((at - begun) / rotation + 1e-9).floor();
            let end = last.min(begun + rotation * (turn + 1.0));
            let place = |time: f64| ((time - begun) / rotation - turn) * places;
            let (here, there) = (place(at), place(end));
            self.bands[channel].push(Band {
                owner,
                corners: vec![
                    (at, here),
                    (end, there),
                    (end + wide, there),
                    (at + wide, here),
                ],
            });
            at = end;
        }
    }

    /// A panel for each channel on which a slot was full.
    fn panels(mut self) -> Vec<BandPanel> {
        let from = *self.from.get_or_insert(Ps::ZERO);
        let until = from.plus(self.span);
        for frame in 0..self.spec.frames {
            for channel in 0..usize::from(self.spec.channels) {
                let owner = self.slots[self.index((frame, channel))].1;
                self.becomes((frame, channel), until, owner);
            }
        }
        let is_used = |bands: &Vec<Band>| bands.iter().any(|band| band.owner != Owner::Empty);
        let is_any = self.bands.iter().any(is_used);
        let channels = self.bands.into_iter().zip(self.taken).enumerate();
        let shown = channels.filter(|(n, (bands, _))| match is_any {
            true => is_used(bands),
            false => *n == 0,
        });
        let mut panels = Vec::new();
        for (channel, (bands, dots)) in shown {
            panels.push(BandPanel {
                title: format!("{}, channel {channel}", self.name),
                x: Axis::linear("time, us").from(us(from)).to(us(until)),
                y: Axis::linear("place of a slot's front").to(f64::from(self.spec.places)),
                owners: self.stations.clone(),
                bands,
                dots_name: if dots.is_empty() { "" } else { "taken" }.to_owned(),
                dots,
            });
        }
        panels
    }

    /// The picture of some rings.
    pub fn figure(rings: impl IntoIterator<Item = Self>) -> Figure {
        let panels = rings.into_iter().flat_map(Self::panels);
        Figure::of_bands(
            "slots-in-time",
            "Slots on the ring, by who has filled them",
            panels.collect(),
        )
    }
}

#[cfg(test)]
mod tests {
    use cellgate_report::Content;

    use super::*;
    use crate::cbn::{Ring, Saturated};

    /// The bands of a channel on which one of two stations sends.
    fn bands(spec: RingSpec) -> (Vec<Band>, Vec<(f64, f64)>) {
        let mut ring = Ring::new(spec, &[0, 64]).watched(None);
        let mut stations = [Saturated::from(Ps::ZERO), Saturated::from(Ps::MAX)];
        let names = ["west", "east"].map(String::from).to_vec();
        let mut diagram = Diagram::new("r", spec, names, None);
        while ring.next() < Ps::new(spec.rotation.ps() * Diagram::ROTATIONS) {
            ring.turn(&mut stations);
            ring.take_log().iter().for_each(|deed| diagram.hears(deed));
        }
        let Content::Bands(panels) = Diagram::figure([diagram]).content else {
            panic!("no bands");
        };
        let mut panels = panels.into_iter();
        let panel = panels.next().expect("a panel");
        assert!(panels.next().is_none(), "one channel is used");
        (panel.bands, panel.dots)
    }

    #[test]
    fn a_station_alone_has_each_slot_every_second_rotation() {
        let (bands, _) = bands(RingSpec::PAPER);
        let of = |owner| bands.iter().filter(move |band| band.owner == owner);
        let area = |band: &Band| band.corners[1].0 - band.corners[0].0;
        let full: f64 = of(Owner::Number(0)).map(area).sum();
        let empty: f64 = of(Owner::Empty).map(area).sum();
        assert!((full / (full + empty) - 0.5).abs() < 0.05, "{full} {empty}");
        // Slots rise at one rate, and none is drawn beyond the ring.
        for band in &bands {
            let [(x0, y0), (x1, y1), ..] = band.corners[..] else {
                panic!("{band:?}");
            };
            let rate = (y1 - y0) / (x1 - x0);
            assert!((rate - 256.0 / 22.7).abs() < 0.01, "{band:?}");
            assert!((-0.01..=256.01).contains(&y0) && y1 <= 256.01, "{band:?}");
        }
    }
}
