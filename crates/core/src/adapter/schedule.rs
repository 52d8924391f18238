//! When each cell leaves: guaranteed VCs on time, best effort in all the slots that they leave.

mod held;
mod line;
mod list;
mod robin;
mod tolerances;
mod wheel;

use serde::{Deserialize, Serialize};

use self::line::Line;
use self::list::Links;
use super::{Planted, PortIndex, SustainedRate, VcIndex};
use crate::Time;
use crate::contract::{Bursts, CellRate, Early, Shaper};

/// When a VC sends that may not.
const NEVER: Time = Time::from_ns(u64::MAX);

/// How a VC transmits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Class {
    /// A cell every 1 / `rate`, before all best effort.
    Guaranteed {
        rate: CellRate,
        /// How much lateness the VC makes good. To keep the rate on a crowded line it takes at
        /// least [`Schedule::contention_ns`] and the caller's own delay between two grants.
        cdvt_ns: u64,
        /// Cells back to back, a burst every so many cell times; 0 counts as 1.
        burst: u16,
        /// VBR: this rate is guaranteed, and `rate` is the peak, at which bursts leave.
        sustained: Option<SustainedRate>,
    },
    /// A share of the rest of the line.
    BestEffort {
        /// The share, relative to other VCs on the line: the contract's MCR. 0 counts as 1.
        weight: u32,
        /// The most that it may send; none: whatever the line has left.
        peak: Option<PeakRate>,
    },
    /// ABR: a share of the rest of the line as far as the network lets it, and a floor that is
    /// guaranteed.
    Available {
        /// MCR: a cell leaves so long after the one before at the latest. None: 0.
        floor: Option<CellRate>,
        /// The share, relative to other VCs on the line. 0 counts as 1.
        weight: u32,
        /// ACR, the most that it may send now. It is no less than the floor.
        allowed: PeakRate,
    },
}

/// The most that a best-effort VC may send, cell by cell: its cells conform to GCRA(1 / `rate`,
/// `cdvt_ns`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PeakRate {
    pub rate: CellRate,
    /// How much lateness the VC makes good.
    pub cdvt_ns: u64,
}

/// Who may send now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Grant {
    pub vc: VcIndex,
    /// How many cells, 1 at least. More than one only if no other VC could have had a slot between
    /// them.
    pub cells: u32,
}

/// The transmit schedule of an adapter: which VC sends the next cell of each line.
///
/// ```text
///  activate --> guaranteed: Wheel, by theoretical time -----.
///           \-> bursts of VBR: Wheel, by what PCR, BT let ---+--> grant --> sent --> deactivate
///  activate --> best effort: Robin, by weight --------------'     one line slot a cell
///                          Held, until its peak allows
/// ```
///
/// A VC of ABR is in the robin, with ACR as its peak, and its floor in the wheel: whichever comes
/// to a cell first sends it, and both are charged.
///
/// A line has slots of 1 / line rate, exact. A slot in which nobody had anything to send is lost; a
/// slot missed because nobody called is made good, as long as the burst that the line is built for
/// allows. A guaranteed cell leaves when its theoretical time ([`Shaper`]) has come and is
/// served in the order of these times, to a resolution of 1,024 ns. A slot for which none is due
/// goes to the bursts of VBR: cells that PCR and burst tolerance let leave before their sustained
/// rate has them due ([`Early`]), in the order of the times from which they may. Every other slot
/// goes to best effort.
///
/// So a burst makes a guaranteed cell later by the cell that is on the line, as best effort does,
/// and each cell of it leaves when SCR has it due at the latest.
///
/// Work: every call is O(1) with the exceptions written at [`Self::grant`]. Nothing is allocated
/// after [`Self::new`]. Time must not run backwards; if it does, cells wait for it.
/// Calls about VCs that are not open, or lines that do not exist, do nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedule {
    lines: Vec<Line>,
    /// The VCs, and behind them as many for their bursts and floors, in the same order.
    entries: Vec<Entry>,
}

/// A VC. A cache line, since every cell touches one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    pace: Pace,
    place: Place,
    links: Links,
    line: PortIndex,
}

const _: () = assert!(size_of::<Entry>() <= 64);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Pace {
    Closed,
    Guaranteed {
        rate: CellRate,
        /// Of the sustained rate, if it is VBR.
        shaper: Bursts,
        /// There is an [`Early`](Pace::Early) of it.
        is_vbr: bool,
    },
    /// Of the VBR VC so many entries before this one.
    Early(Early),
    /// Of the VC of ABR so many entries before this one.
    Floor {
        rate: CellRate,
        shaper: Shaper,
    },
    BestEffort {
        weight: u32,
        deficit: u64,
        /// Of its peak rate.
        shaper: Option<Shaper>,
    },
}

/// The list that an entry is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Place {
    Idle,
    Near(u16),
    Far(u16),
    Beyond,
    Robin,
    Returned,
    Held(u16),
}

impl Class {
    /// The pace of a VC of this class, with this shaper for its rate.
    fn pace(self, shaper: impl FnOnce(CellRate, u64) -> Shaper) -> Pace {
        match self {
            Self::Guaranteed {
                rate,
                cdvt_ns,
                burst,
                sustained,
            } => {
                let rate = sustained.map_or(rate, |sustained| sustained.rate);
                Pace::Guaranteed {
                    rate,
                    shaper: Bursts::new(shaper(rate, cdvt_ns), burst),
                    is_vbr: sustained.is_some(),
                }
            }
            Self::BestEffort { weight, peak } => Pace::BestEffort {
                weight: weight.max(1),
                deficit: 0,
                shaper: peak.map(|peak| shaper(peak.rate, peak.cdvt_ns)),
            },
            Self::Available {
                weight, allowed, ..
            } => Pace::BestEffort {
                weight: weight.max(1),
                deficit: 0,
                shaper: Some(shaper(allowed.rate, allowed.cdvt_ns)),
            },
        }
    }

    /// The floor of a VC of this class whose next cell is due then at the latest.
    fn floor(self, next: Time) -> Option<Pace> {
        let Self::Available {
            floor: Some(rate),
            allowed,
            ..
        } = self
        else {
            return None;
        };
        let mut shaper = Shaper::new(rate, allowed.cdvt_ns);
        shaper.catch_up(next);
        Some(Pace::Floor { rate, shaper })
    }

    /// The bursts of a VC of this class whose shaper has the next cell due then.
    fn early(self, next: Time) -> Option<Early> {
        let Self::Guaranteed {
            rate,
            sustained: Some(sustained),
            ..
        } = self
        else {
            return None;
        };
        let mut early = Early::new(rate, sustained.burst_tolerance_ns);
        early.follow(next);
        Some(early)
    }
}

/// The entry of a VC's bursts, among so many entries.
#[inline(always)]
fn bursts_of(vc: VcIndex, entries: usize) -> VcIndex {
    // At most twice 16,384 entries.
    VcIndex(vc.0 + (entries / 2) as u16)
}

/// Whose bursts an entry is.
#[inline(always)]
fn owner_of(bursts: VcIndex, entries: usize) -> VcIndex {
    VcIndex(bursts.0 - (entries / 2) as u16)
}

impl Entry {
    const CLOSED: Self = Self {
        pace: Pace::Closed,
        place: Place::Idle,
        links: Links::ALONE,
        line: PortIndex(0),
    };

    /// When the next cell of a VC with a rate is due.
    #[inline(always)]
    fn next(&self) -> Time {
        match &self.pace {
            Pace::Guaranteed { shaper, .. } => shaper.next(),
            Pace::Early(early) => early.next(),
            Pace::Floor { shaper, .. } => shaper.next(),
            Pace::BestEffort { shaper, .. } => shaper.map_or(Time::ZERO, |shaper| shaper.next()),
            Pace::Closed => Time::ZERO,
        }
    }

    #[inline(always)]
    fn shaper(&self) -> Option<&Shaper> {
        match &self.pace {
            Pace::Guaranteed { shaper, .. } => Some(shaper.shaper()),
            Pace::BestEffort { shaper, .. } => shaper.as_ref(),
            Pace::Floor { shaper, .. } => Some(shaper),
            Pace::Early(_) | Pace::Closed => None,
        }
    }

    /// Cells of a burst of a guaranteed VC.
    fn burst(&self) -> u32 {
        match &self.pace {
            Pace::Guaranteed { shaper, .. } => shaper.cells().into(),
            Pace::Floor { .. } => 1,
            Pace::Early(_) | Pace::BestEffort { .. } | Pace::Closed => 0,
        }
    }

    fn guaranteed(&self) -> Option<CellRate> {
        match self.pace {
            Pace::Guaranteed { rate, .. } | Pace::Floor { rate, .. } => Some(rate),
            Pace::Early(_) | Pace::BestEffort { .. } | Pace::Closed => None,
        }
    }

    /// Whether it is an open VC, and not the bursts of one.
    #[inline(always)]
    fn is_of_a_vc(&self) -> bool {
        !matches!(
            self.pace,
            Pace::Closed | Pace::Early(_) | Pace::Floor { .. }
        )
    }

    /// Whether there are bursts of it.
    #[inline(always)]
    fn is_vbr(&self) -> bool {
        matches!(self.pace, Pace::Guaranteed { is_vbr: true, .. })
    }
}

impl Schedule {
    /// The longest time for which nobody need ask for a grant once there was none.
    pub const PATIENCE_MAX_NS: u64 = line::PATIENCE_MAX_NS;
    /// To so much the theoretical times of cells are told apart.
    pub const TICK_NS: u64 = 1 << wheel::TICK_BITS;
    /// The most time that a line is ahead of its slots after [`Self::grant_whole`].
    pub const LENT_NS: u64 = 10_000;

    /// A schedule for lines of these rates (cells/s, best effort included) and `vcs` VCs.
    ///
    /// `burst_cells` is how many slots a line may make good at once after a stall of the caller: as
    /// many as its transmit FIFO takes. With 1 a line loses every slot that is not used on time.
    pub fn new(lines: &[CellRate], burst_cells: u32, vcs: usize) -> Self {
        Self {
            lines: lines
                .iter()
                .map(|&rate| Line::new(rate, burst_cells, vcs))
                .collect(),
            entries: vec![Entry::CLOSED; 2 * vcs],
        }
    }

    /// Opens `vc` on `line`, without cells to send. A VC of this index that was open is closed.
    pub fn open(&mut self, vc: VcIndex, line: PortIndex, class: Class) {
        self.close(vc);
        let half = self.entries.len() / 2;
        let (vcs, bursts) = self.entries.split_at_mut(half);
        let (Some(entry), Some(bursts), Some(line_state)) = (
            vcs.get_mut(usize::from(vc.0)),
            bursts.get_mut(usize::from(vc.0)),
            self.lines.get_mut(usize::from(line.0)),
        ) else {
            return;
        };
        entry.line = line;
        entry.pace = class.pace(Shaper::new);
        let floor = class.floor(Time::ZERO).unwrap_or(Pace::Closed);
        bursts.pace = class.early(Time::ZERO).map_or(floor, Pace::Early);
        bursts.line = line;
        line_state.reserve(entry);
        line_state.reserve_floor(bursts);
    }

    /// Changes the class of `vc`. Cells that have left at a rate stay paid for; it keeps its cells
    /// to send.
    pub fn modify(&mut self, now: Time, vc: VcIndex, class: Class) {
        let Some((entries, line)) = self.split(vc) else {
            return;
        };
        let entry = &entries[usize::from(vc.0)];
        let active = entry.place != Place::Idle;
        line.release(entry);
        line.remove(entries, vc);
        line.release_floor(&entries[usize::from(bursts_of(vc, entries.len()).0)]);
        let entry = &mut entries[usize::from(vc.0)];
        let (shaper, was_vbr) = (entry.shaper().copied(), entry.is_vbr());
        entry.pace = class.pace(|rate, cdvt_ns| match shaper {
            Some(mut shaper) if was_vbr => {
                shaper.carry_over(now, rate, cdvt_ns);
                shaper
            }
            Some(mut shaper) => {
                shaper.modify(rate, cdvt_ns);
                shaper
            }
            None => {
                let mut shaper = Shaper::new(rate, cdvt_ns);
                shaper.catch_up(now);
                shaper
            }
        });
        line.reserve(entry);
        let next = entry.next();
        let bursts = bursts_of(vc, entries.len());
        let bursts = &mut entries[usize::from(bursts.0)];
        let before = match bursts.pace {
            Pace::Early(early) => Some(early),
            _ => None,
        };
        bursts.pace = class.early(next).map_or(Pace::Closed, |mut early| {
            early.carry_over(before.as_ref(), next);
            Pace::Early(early)
        });
        if let Some(floor) = class.floor(now) {
            bursts.pace = floor;
            line.reserve_floor(bursts);
        }
        if active {
            line.insert(entries, now, vc);
        }
    }

    /// Closes `vc`.
    pub fn close(&mut self, vc: VcIndex) {
        let Some((entries, line)) = self.split(vc) else {
            return;
        };
        line.remove(entries, vc);
        let entry = &mut entries[usize::from(vc.0)];
        line.release(entry);
        *entry = Entry::CLOSED;
        let bursts = bursts_of(vc, entries.len());
        line.release_floor(&entries[usize::from(bursts.0)]);
        entries[usize::from(bursts.0)] = Entry::CLOSED;
    }

    /// The network allows a VC of ABR another rate, which is no less than its floor; none: less
    /// than a cell/s, and it waits. Cells that have left are paid for at the new rate where that is
    /// higher.
    ///
    /// Work: O(1), O(log n) while it waits for its rate.
    pub fn allow(&mut self, now: Time, vc: VcIndex, rate: Option<CellRate>) {
        let Some((entries, line)) = self.split(vc) else {
            return;
        };
        let active = entries[usize::from(vc.0)].place != Place::Idle;
        if active {
            line.remove(entries, vc);
        }
        if let Pace::BestEffort {
            shaper: Some(shaper),
            ..
        } = &mut entries[usize::from(vc.0)].pace
        {
            match rate {
                None => shaper.catch_up(NEVER),
                Some(rate) if shaper.next() == NEVER => {
                    *shaper = Shaper::new(rate, shaper.cdvt_ns());
                    shaper.catch_up(now);
                }
                Some(rate) => shaper.carry_over(now, rate, shaper.cdvt_ns()),
            }
        }
        if active {
            line.insert(entries, now, vc);
        }
    }

    /// Changes the rate of a line. Slots used stay used.
    pub fn set_line_rate(&mut self, line: PortIndex, rate: CellRate) {
        if let Some(line) = self.lines.get_mut(usize::from(line.0)) {
            line.set_rate(rate);
        }
    }

    /// `vc` has cells to send.
    #[inline]
    pub fn activate(&mut self, now: Time, vc: VcIndex) {
        if let Some((entries, line)) = self.split(vc)
            && entries[usize::from(vc.0)].place == Place::Idle
        {
            line.insert(entries, now, vc);
        }
    }

    /// `vc` has nothing to send.
    #[inline]
    pub fn deactivate(&mut self, vc: VcIndex) {
        if let Some((entries, line)) = self.split(vc) {
            line.remove(entries, vc);
        }
    }

    /// Whether `vc` is taken to have cells to send.
    #[inline]
    pub fn is_active(&self, vc: VcIndex) -> bool {
        self.entries
            .get(usize::from(vc.0))
            .is_some_and(|entry| entry.place != Place::Idle && entry.is_of_a_vc())
    }

    /// The VC that may send on `line` at `now`, and up to `max_cells` cells of it. Nothing is
    /// charged: the caller sends some, says so with [`Self::sent`], and asks again until none. If
    /// the VC turns out to have nothing to send, the caller deactivates it.
    ///
    /// Work: O(1) and O(`cells`), with three exceptions. A best-effort VC whose turn comes before
    /// its peak rate allows a cell is put aside and taken back, in O(log n) each: once at most for
    /// each cell that it has sent, in one call at most for all such VCs. And timers of guaranteed
    /// VCs more than 3 ms ahead are put in order in advance by [`Self::sent`]; if no cell was sent
    /// for so long, the call does it for the VCs due in the same millisecond. VBR VCs that have
    /// sent more than a second's cells ahead are all looked at once a second.
    #[inline]
    pub fn grant(&mut self, now: Time, line: PortIndex, max_cells: u32) -> Option<Grant> {
        self.lines
            .get_mut(usize::from(line.0))?
            .grant(&mut self.entries, now, max_cells)
    }

    /// The VC that may send on `line` at `now`, if it may send all of `cells` cells then. What is
    /// not due yet the line lends, and makes up for with the slots that follow: as many as pass in
    /// [`Self::LENT_NS`], to a best-effort VC, within its peak rate, if no other VC of the line has
    /// cells to send and none is guaranteed a rate.
    ///
    /// Work: as [`Self::grant`].
    pub fn grant_whole(&mut self, now: Time, line: PortIndex, cells: u32) -> Option<VcIndex> {
        let Grant { vc, cells: granted } = self.grant(now, line, cells)?;
        let line = self.lines.get(usize::from(line.0))?;
        let first = self.entries.get(usize::from(vc.0))?;
        (granted >= cells || line.lends(first, now, cells)).then_some(vc)
    }

    /// `vc` sent `cells` cells at `now`: no more than granted at this `now`, with no other call for
    /// its line in between.
    #[inline]
    pub fn sent(&mut self, now: Time, vc: VcIndex, cells: u32) {
        if let Some((entries, line)) = self.split(vc)
            && cells > 0
        {
            line.sent(entries, now, vc, cells);
        }
    }

    /// The earliest time at which [`Self::grant`] might answer, if nothing changes. Later than
    /// `now` after a grant at `now` that did not. None while nobody has cells to send.
    pub fn next_deadline(&self, line: PortIndex) -> Option<Time> {
        self.lines
            .get(usize::from(line.0))?
            .next_deadline(&self.entries)
    }

    /// When whoever has just asked [`Self::grant`] in vain is to ask again: not before something is
    /// due, and no sooner than a quarter of the least CDVT on the line, 128 of its slots, or those
    /// of an OC-3, have passed. The line makes 256 slots good, and who asks late by another quarter
    /// of the CDVT leaves half of it for what other VCs delay. None while nobody has cells to send.
    pub(super) fn rest_until(
        &self,
        now: Time,
        line: PortIndex,
        planted: impl Fn(Planted) -> bool,
    ) -> Option<Time> {
        let due = self.next_deadline(line)?;
        let patience_ns = self.lines.get(usize::from(line.0))?.patience_ns(planted);
        Some(match due <= now {
            true => due,
            false => due.max(now.plus_ns(patience_ns)),
        })
    }

    /// The least CDVT of VCs with a rate, rounded down by an eighth at most.
    pub fn least_cdvt_ns(&self) -> Option<u64> {
        self.lines.iter().filter_map(Line::least_cdvt_ns).min()
    }

    /// Cells/s of all guaranteed VCs open on `line`.
    pub fn guaranteed_cell_s(&self, line: PortIndex) -> u64 {
        self.lines
            .get(usize::from(line.0))
            .map_or(0, Line::guaranteed_cell_s)
    }

    /// How late other VCs of the line can make a guaranteed cell: a cell of each other one, or
    /// a burst, and one of best effort may be before it, and it may wait for a tick of the wheel.
    /// Holds while the guaranteed rates do not exceed the line's and nobody makes good more.
    pub fn contention_ns(&self, line: PortIndex) -> u64 {
        self.lines
            .get(usize::from(line.0))
            .map_or(0, Line::contention_ns)
    }

    /// The entries and the line of an open VC.
    #[inline(always)]
    fn split(&mut self, vc: VcIndex) -> Option<(&mut [Entry], &mut Line)> {
        let entry = self.entries.get(usize::from(vc.0))?;
        if !entry.is_of_a_vc() {
            return None;
        }
        let line = self.lines.get_mut(usize::from(entry.line.0))?;
        Some((&mut self.entries, line))
    }
}
