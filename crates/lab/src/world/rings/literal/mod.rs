//! R5: a ring by the letter, as slow as it likes. A register is shifted by a place at a time; each
//! RAM has its cycle, in which somebody has it or nobody; blocks are put together by the text of
//! MSSAR. What hosts do with their stations comes from the run, all else must be as it is here.

mod letter;
mod ram;
mod register;

use std::collections::VecDeque;

use self::letter::Letter;
use self::ram::Ram;
use self::register::Register;
use super::application::Application;
use super::build::{self, Action, Plan};
use crate::cbn::{RingDeed, SlotHarm};
use crate::machine::v1s::{Deed, Network};
use crate::world::scenario::Scenario;
use crate::world::{Ps, Violation};

/// What must come of something, and what did.
#[derive(Debug)]
struct Compared<D> {
    due: VecDeque<D>,
    told: VecDeque<D>,
}

impl<D: PartialEq + std::fmt::Debug> Compared<D> {
    const fn new() -> Self {
        Self {
            due: VecDeque::new(),
            told: VecDeque::new(),
        }
    }

    /// How many were alike.
    fn alike(&mut self, whose: &str) -> Result<u64, String> {
        let mut count = 0;
        while let (Some(due), Some(told)) = (self.due.front(), self.told.front()) {
            if due != told {
                return Err(format!("{whose}: {told:?}, by the letter {due:?}"));
            }
            self.due.pop_front();
            self.told.pop_front();
            count += 1;
        }
        Ok(count)
    }
}

pub(super) struct Literal {
    register: Register,
    rams: Vec<Ram>,
    letters: Vec<Letter>,
    /// Shifts so far, and the cycle of the RAMs that is over last.
    shifts: u64,
    cycle: Ps,
    boundary: Ps,
    /// Whether it is settled who has each RAM in the cycle behind it.
    is_chosen: bool,
    /// What hosts have done that is not so late yet.
    inputs: VecDeque<(Ps, usize, Deed)>,
    slots: Compared<RingDeed>,
    stations: Vec<Compared<Deed>>,
    pub(super) judged: u64,
}

fn time(deed: &Deed) -> Ps {
    match deed {
        Deed::Access { begun: at, .. }
        | Deed::Passes { at, .. }
        | Deed::Fills { at, .. }
        | Deed::FalseCell { at, .. }
        | Deed::Interrupts { at }
        | Deed::Wrote { at, .. }
        | Deed::Read { at, .. }
        | Deed::Acknowledged { at }
        | Deed::Listens { at, .. } => *at,
    }
}

impl Literal {
    pub(super) fn of(scenario: &Scenario, plan: &Plan, ring: usize) -> Self {
        let spec = build::ring_spec(&scenario.rings[ring]);
        let here = plan.seated[ring].iter().map(|n| &scenario.stations[*n]);
        let rams: Vec<Ram> = here
            .clone()
            .map(|station| {
                let circuits = scenario.associations.iter();
                let circuits = circuits.filter(|one| one.to == station.name);
                let circuits = circuits.map(|one| (one.vci, one.notify)).collect();
                Ram::new(build::station_spec(scenario, station, &spec), circuits)
            })
            .collect();
        let count = rams.len();
        Self {
            register: Register::new(spec, here.clone().map(|station| station.at).collect()),
            letters: rams
                .iter()
                .zip(here.clone())
                .map(|(ram, station)| {
                    let onward = build::by_cell(scenario, &station.name);
                    Letter::of(ram.circuits(), onward)
                })
                .collect(),
            shifts: 0,
            cycle: crate::machine::v1s::V1sSpec::CYCLE,
            boundary: Ps::ZERO,
            is_chosen: false,
            inputs: VecDeque::new(),
            slots: Compared::new(),
            stations: (0..count).map(|_| Compared::new()).collect(),
            judged: 0,
            rams,
        }
    }

    pub(super) fn acts(&mut self, at: Ps, action: Action) {
        self.advance(at);
        match action {
            Action::Slot(SlotHarm::Lost { frame, channel }) => {
                self.register.loses(at, frame, channel, &mut self.slots.due);
            }
            Action::Slot(SlotHarm::Flipped {
                frame,
                channel,
                bit,
            }) => self
                .register
                .flips(at, (frame, channel), bit, &mut self.slots.due),
            Action::Slot(SlotHarm::Stuck {
                frame,
                channel,
                is_stuck,
            }) => self
                .register
                .sticks(at, (frame, channel), is_stuck, &mut self.slots.due),
            Action::Reset(seat) => {
                // What the DMA was to write is not.
                let is_lost = |deed: &Deed| matches!(deed, Deed::Wrote { .. });
                self.inputs
                    .retain(|(_, who, deed)| *who != seat || !is_lost(deed));
                self.register.resets(seat);
                self.rams[seat].resets();
            }
            Action::Slot(SlotHarm::Cut(is_cut)) => self.register.is_cut = is_cut,
            Action::Slot(SlotHarm::Monitored(is_on)) => self.register.is_monitored = is_on,
            Action::Presence(seat, presence) => self.rams[seat].presence = presence,
            Action::Unheard(seat, is_unheard) => self.rams[seat].is_unheard = is_unheard,
            Action::Stop(..) | Action::NodeDies(..) => {}
        }
    }

    /// Goes on until `now`, and compares.
    pub(super) fn look(
        &mut self,
        now: Ps,
        slots: &[RingDeed],
        stations: &[Vec<Deed>],
    ) -> Result<(), Violation> {
        self.slots.told.extend(slots);
        for (seat, deeds) in stations.iter().enumerate() {
            for deed in deeds {
                match deed {
                    Deed::Wrote { .. }
                    | Deed::Read { .. }
                    | Deed::Acknowledged { .. }
                    | Deed::Listens { .. } => {
                        self.inputs.push_back((time(deed), seat, *deed));
                    }
                    _ => self.stations[seat].told.push_back(*deed),
                }
            }
        }
        self.inputs
            .make_contiguous()
            .sort_by_key(|(at, seat, _)| (*at, *seat));
        self.advance(now);
        self.compare(now)
    }

    fn compare(&mut self, now: Ps) -> Result<(), Violation> {
        self.gather();
        let wrong = |text| Violation::new("R5", now, text);
        self.judged += self.slots.alike("slots").map_err(wrong)?;
        for (seat, one) in self.stations.iter_mut().enumerate() {
            self.judged += one.alike(&format!("station {seat}")).map_err(wrong)?;
            if let Some(text) = self.rams[seat].differs.take() {
                return Err(wrong(format!("station {seat}: {text}")));
            }
        }
        Ok(())
    }

    pub(super) fn ends(
        &mut self,
        now: Ps,
        network: &Network<Application>,
    ) -> Result<(), Violation> {
        self.advance(now.plus(Ps::new(1)));
        self.compare(now)?;
        let wrong = |text: String| Err(Violation::new("R5", now, text));
        let rest = (self.slots.due.front(), self.slots.told.front());
        if rest != (None, None) {
            return wrong(format!("slots: due and told at the end: {rest:?}"));
        }
        for (seat, one) in self.stations.iter().enumerate() {
            let rest = (one.due.front(), one.told.front());
            if rest != (None, None) {
                return wrong(format!("station {seat}: due and told at the end: {rest:?}"));
            }
            let told = self.letters[seat].compare(&network.hosts()[seat]);
            if let Err(text) = told {
                return wrong(format!("station {seat}: {text}"));
            }
            self.judged += self.letters[seat].cells;
        }
        Ok(())
    }

    /// All that happens before `until`: of one time a shift first, then the ends of cycles, then
    /// hosts.
    fn advance(&mut self, until: Ps) {
        loop {
            let shift = self.register.time(self.shifts);
            let boundary = self.boundary.plus(self.cycle);
            let host = self.inputs.front().map_or(Ps::MAX, |(at, ..)| *at);
            let next = shift.min(boundary).min(host);
            if next > self.boundary && !self.is_chosen {
                for ram in &mut self.rams {
                    ram.choose(self.boundary);
                }
                self.is_chosen = true;
            }
            if next >= until {
                return;
            }
            if shift == next {
                self.register
                    .shift(self.shifts, &mut self.rams, &mut self.slots.due);
                self.shifts += 1;
            } else if boundary == next {
                for ram in &mut self.rams {
                    ram.end(self.boundary, boundary);
                }
                self.boundary = boundary;
                self.is_chosen = false;
            } else if let Some((_, seat, deed)) = self.inputs.pop_front() {
                if let Deed::Listens { vci, notify, .. } = deed {
                    self.letters[seat].listens(vci, notify.is_some());
                }
                let cell = self.rams[seat].host(&deed);
                if let Some(cell) = cell {
                    self.letters[seat].reads(&cell);
                }
            }
        }
    }

    /// What stations must have done.
    fn gather(&mut self) {
        for (ram, one) in self.rams.iter_mut().zip(&mut self.stations) {
            one.due.append(&mut ram.deeds);
        }
    }
}
