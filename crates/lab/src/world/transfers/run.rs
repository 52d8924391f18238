//! One transfer in virtual time: two terminals, the line between them, and the disk.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use cellgate_core::Time;
use cellgate_core::aal::tree;
use cellgate_core::contract::Aal;
use cellgate_core::line::LineSpec;
use cellgate_core::terminal::unfinished::Finishing;
use cellgate_core::terminal::{
    DiskHeader, Existing, Given as Heard, Manner, SenderCounts, Settled,
};

use super::FileBug;
use super::content::{Clock, Given, Tree};
use super::disk::LosingDisk;
use super::held::SharedDisk;
use super::line::{Line, TURN_CELLS};
use super::oracle::{former, is_no_room};
use super::place::{Desk, Place, SharedLog};
use super::scenario::{Death, DeathAt, DeathSpec, ExistingSpec, RepeatSpec, TransferSpec};
use super::terminal::{Over, Terminal, Told};
use crate::world::fnv::fnv1a;
use crate::world::{Ps, Violation};

/// A terminal looks so often if nothing happens.
const LOOK_NS: u64 = 100_000_000;
/// A job of the disk takes so long.
const JOB_NS: u64 = 2_000_000;
/// Whoever gives begins anew so long after its session was over.
const RETRY_NS: u64 = 100_000_000;
/// What was found right is safe so long after: the time between two syncs, a look, and jobs.
const SAFE_NS: u64 = 1_000_000_000 + LOOK_NS + 100 * JOB_NS;
/// A transfer ends so long after the last death, and what its octets take, or never.
const PATIENCE_NS: u64 = 120_000_000_000;

/// What has come of a transfer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) cells: u64,
    pub(crate) turns: u64,
    pub(crate) ended: u64,
    pub(crate) hash: u64,
    pub(crate) there: u64,
    pub(crate) failed: u64,
    pub(crate) sent: SenderCounts,
    pub(crate) giver_deaths: u64,
    pub(crate) taker_deaths: u64,
    pub(crate) power_losses: u64,
    pub(crate) in_operations: u64,
    pub(crate) resumed: u64,
    pub(crate) thrown_away: u64,
    pub(crate) small: u64,
    pub(crate) compared: u64,
    pub(crate) no_room: u64,
    pub(crate) large: u64,
    pub(crate) settled: u64,
    pub(crate) failed_syncs: u64,
    pub(crate) changed: u64,
    pub(crate) silent: u64,
    pub(crate) again: u64,
    pub(crate) repeats: u64,
    pub(crate) spoiled: u64,
}

/// A process, or nobody until then.
enum End {
    Alive(Box<Terminal>),
    Dead { until: Time },
}

/// Who waits for the disk, for one place.
struct Finisher {
    finishing: Finishing<SharedDisk>,
    desk: Desk,
    free: Time,
}

impl Finisher {
    fn does(&mut self, now: Time) {
        if let Some(job) = self.desk.next_job() {
            self.finishing.handle(now, job, &|| false);
        } else if !self.desk.is_shared() {
            self.finishing.end();
        } else if self.finishing.next_deadline().is_some_and(|at| at <= now) {
            self.finishing.handle_deadline(now);
        } else {
            return;
        }
        self.free = now.plus_ns(JOB_NS);
    }

    /// When it has something to do.
    fn next(&self) -> Option<Time> {
        let jobs = self.desk.has_jobs().then_some(self.free);
        let deadline = self.finishing.next_deadline();
        jobs.into_iter()
            .chain(deadline.map(|at| at.max(self.free)))
            .min()
    }

    fn is_over(&self) -> bool {
        !self.desk.is_shared() && !self.desk.has_jobs() && self.finishing.next_deadline().is_none()
    }
}

/// A transfer that runs.
pub(super) struct Run<'a> {
    pub(super) spec: &'a TransferSpec,
    tree: Arc<tree::Tree>,
    pub(super) files: Arc<Vec<Given>>,
    clock: Clock,
    pub(super) disk: SharedDisk,
    pub(super) log: SharedLog,
    lines: [Line; 2],
    giver: End,
    taker: End,
    /// The last is that of the place in use; the others end what they have begun.
    finishers: Vec<Finisher>,
    pub(super) deaths: VecDeque<DeathSpec>,
    repeats: VecDeque<RepeatSpec>,
    since: Time,
    cells_since: u64,
    pub(super) now: Time,
    next_run: u32,
    pub(super) told: BTreeMap<Vec<u8>, Option<String>>,
    pub(super) settled: BTreeSet<String>,
    pub(super) has_lost_power: bool,
    /// The taker has said that all is settled, in this life.
    pub(super) is_settled: bool,
    is_done: bool,
    pub(super) counts: Counts,
    last_end: Time,
    bug: Option<FileBug>,
}

impl<'a> Run<'a> {
    pub(super) fn new(
        spec: &'a TransferSpec,
        (line, bit_s, delay_ns): (LineSpec, u64, u64),
        bug: Option<FileBug>,
    ) -> Self {
        let aal = if spec.aal34 { Aal::Aal34 } else { Aal::Aal5 };
        let tree = tree::Tree::new(aal, DiskHeader::LENGTHS).expect("terminals know both");
        let files: Vec<Given> = spec.files.iter().map(Given::new).collect();
        let mut disk = LosingDisk::new(spec.files.len() as u64);
        disk.lies = bug == Some(FileBug::SyncLies);
        let disk = SharedDisk::new(disk, bug.and_then(FileBug::inside));
        for file in files.iter().filter(|file| file.spec.former) {
            former(&disk, file);
        }
        disk.lock().begins_with(&spec.failing_syncs);
        disk.lock().room = spec.room_octets;
        let mut run = Self {
            spec,
            tree: Arc::new(tree),
            files: Arc::new(files),
            clock: Clock::default(),
            log: SharedLog::default(),
            lines: [0, 1].map(|number| Line::new(line, number, bit_s, delay_ns)),
            giver: End::Dead { until: Time::ZERO },
            taker: End::Dead { until: Time::ZERO },
            finishers: Vec::new(),
            disk,
            deaths: spec.deaths.iter().cloned().collect(),
            repeats: spec.repeats.iter().copied().collect(),
            since: Time::ZERO,
            cells_since: 0,
            now: Time::ZERO,
            next_run: 1,
            told: BTreeMap::new(),
            settled: BTreeSet::new(),
            has_lost_power: false,
            is_settled: false,
            is_done: false,
            counts: Counts::default(),
            last_end: Time::ZERO,
            bug,
        };
        run.arm();
        run
    }

    pub(super) fn violation(&self, invariant: &str, text: String) -> Violation {
        Violation::new(invariant, Ps::from_ns(self.now.ns()), text)
    }

    /// Runs until all is settled.
    pub(super) fn run(&mut self) -> Result<(), Violation> {
        let octets: u64 = self.spec.files.iter().map(|file| file.octets).sum();
        let cells = 8 * (octets / 44 + 1_000) * (1 + self.spec.deaths.len() as u64);
        let work_ns = cells * self.lines[0].cell.ns();
        while !self.is_done || self.gets_room()? {
            self.begins();
            self.turn()?;
            let late = self.last_end.plus_ns(PATIENCE_NS + work_ns);
            if self.now > late {
                let paths = self.files.iter().map(|given| &given.spec.path);
                let paths: Vec<_> = paths
                    .filter(|path| !self.told.contains_key(path.as_bytes()))
                    .collect();
                let text = format!("it never ends: nothing is told of {paths:?}");
                return Err(self.violation("I28", text));
            }
            self.passes();
        }
        self.ends()
    }

    /// Files that have found no room are given once more, and there is room for them. Whether
    /// there are such files.
    fn gets_room(&mut self) -> Result<bool, Violation> {
        let failed = self.told.values().flatten();
        let had_no_room = failed.filter(|reason| is_no_room(reason)).count() as u64;
        if had_no_room == 0 || self.disk.lock().room.is_none() {
            return Ok(false);
        }
        self.room_was_missing()?;
        self.disk.lock().room = None;
        self.counts.no_room += had_no_room;
        self.is_done = false;
        self.last_end = self.now;
        self.giver_gone(self.now.plus_ns(RETRY_NS));
        Ok(true)
    }

    /// Whoever is due begins.
    fn begins(&mut self) {
        let now = self.now;
        if matches!(self.giver, End::Dead { until } if until <= now) {
            let run = self.run_number();
            let files = Tree::new(&self.files, self.clock.clone(), self.disk.planted);
            self.told.clear();
            let manner = self.manner();
            let giver = Terminal::gives(now, self.spec, &self.tree, run, manner, files);
            self.giver = End::Alive(Box::new(giver));
        }
        if matches!(self.taker, End::Dead { until } if until <= now) {
            self.takes();
        }
    }

    fn takes(&mut self) {
        let run = self.run_number();
        let desk = Desk::default();
        self.finishers.push(Finisher {
            finishing: Finishing::new(self.disk.clone()),
            desk: desk.clone(),
            free: self.now,
        });
        let place = Place::new(self.disk.clone(), self.manner(), desk, self.log.clone());
        let taker = Terminal::takes(self.now, self.spec, &self.tree, run, place);
        self.taker = End::Alive(Box::new(taker));
    }

    fn manner(&self) -> Manner {
        Manner {
            existing: match self.spec.existing {
                ExistingSpec::Refuse => Existing::Refuse,
                ExistingSpec::Replace => Existing::Replace,
                ExistingSpec::Skip => Existing::Skip,
            },
            by_digest: self.spec.by_digest,
            ..Manner::default()
        }
    }

    fn run_number(&mut self) -> u32 {
        let run = self.next_run;
        self.next_run += u32::from(self.bug != Some(FileBug::RunKept) || run < 2);
        run
    }

    /// Both terminals and the disk do what is to be done now.
    fn turn(&mut self) -> Result<(), Violation> {
        self.counts.turns += 1;
        self.clock.set(self.now);
        self.log.lock().now = self.now;
        self.gives_turn();
        let now = self.now;
        while let Some(repeat) = self.repeats.pop_front_if(|one| one.at_ns <= now.ns()) {
            self.counts.repeats += 1;
            self.lines[0].repeats(now, &repeat);
        }
        self.takes_turn()?;
        self.dies_of_operations()?;
        self.finishes();
        self.dies_of_operations()?;
        self.dies_in_time()?;
        if std::mem::take(&mut self.has_lost_power) {
            self.all_are_whole()?;
        }
        self.looks()
    }

    fn gives_turn(&mut self) {
        let now = self.now;
        let mut told = Told::default();
        let [there, back] = &mut self.lines;
        let End::Alive(giver) = &mut self.giver else {
            while back.next(now).is_some() {}
            return;
        };
        while let Some(cell) = back.next(now) {
            giver.handle_cell(now, &cell);
        }
        let acted = giver.acts(now, &mut told);
        for given in told.given {
            match given {
                Heard::There { entry, digest } => {
                    self.told.insert(entry.path.clone(), None);
                    self.counts.hash = fnv1a(self.counts.hash, &entry.path);
                    if let Some(digest) = digest {
                        self.counts.hash = fnv1a(self.counts.hash, &digest);
                    }
                }
                Heard::Failed { path, reason } | Heard::Skipped { path, reason } => {
                    self.told.insert(path, Some(reason));
                }
                Heard::Done => self.is_done = true,
            }
        }
        while there.takes(now)
            && let Some(cell) = giver.poll_cell(now)
        {
            self.counts.cells += 1;
            there.put(now, &cell);
        }
        if let Err(over) = acted {
            self.counts.silent += u64::from(over == Over::Silent);
            self.counts.again += 1;
            self.giver_gone(now.plus_ns(RETRY_NS));
        }
    }

    pub(super) fn giver_gone(&mut self, until: Time) {
        if let End::Alive(giver) = std::mem::replace(&mut self.giver, End::Dead { until }) {
            self.counts.sent += giver.sent();
        }
    }

    fn takes_turn(&mut self) -> Result<(), Violation> {
        let now = self.now;
        let mut told = Told::default();
        let life = self
            .deaths
            .front()
            .and_then(|death| match (death.whose, death.at) {
                (Death::Taker | Death::Power, DeathAt::AfterCells(cells)) => Some(cells),
                _ => None,
            });
        let [there, back] = &mut self.lines;
        let End::Alive(taker) = &mut self.taker else {
            while there.next(now).is_some() {}
            return Ok(());
        };
        let mut is_killed = false;
        while let Some(cell) = there.next(now) {
            if life.is_some_and(|life| self.cells_since >= life) {
                is_killed = true;
                break;
            }
            self.cells_since += 1;
            taker.handle_cell(now, &cell);
        }
        if is_killed {
            return self.taker_dies();
        }
        let acted = taker.acts(now, &mut told);
        if self.disk.lock().fate.is_dead {
            return Ok(());
        }
        while back.takes(now)
            && let Some(cell) = taker.poll_cell(now)
        {
            self.counts.cells += 1;
            back.put(now, &cell);
        }
        self.settles(told.settled);
        if acted.is_err() {
            if let End::Alive(taker) = &mut self.taker {
                taker.leaves();
            }
            self.takes();
        }
        Ok(())
    }

    fn settles(&mut self, settled: Vec<Settled>) {
        for settled in settled {
            self.is_settled |= settled == Settled::Done;
            let Settled::There {
                entry,
                digest: Some(_),
            } = settled
            else {
                continue;
            };
            let path = String::from_utf8_lossy(&entry.path).into_owned();
            self.counts.settled += 1;
            let why = self.disk.lock().is_unsafe(&path);
            let mut log = self.log.lock();
            log.forget(&path);
            if let Some(why) = why {
                let text = format!("{path} is said to be safe: {why}");
                log.violations.push(("I24", text));
            }
            drop(log);
            self.settled.insert(path);
        }
    }

    /// Jobs of the disk are done, each when the one before is.
    fn finishes(&mut self) {
        let now = self.now;
        for n in 0..self.finishers.len() {
            let finisher = &mut self.finishers[n];
            if finisher.free <= now {
                finisher.does(now);
            }
            if self.disk.lock().fate.is_dead {
                return;
            }
            let finisher = &mut self.finishers[n];
            while let Some(settled) = finisher.finishing.settled() {
                finisher.desk.settles(settled);
            }
        }
        let last = self.finishers.len().saturating_sub(1);
        let mut n = 0..;
        self.finishers
            .retain(|finisher| n.next() == Some(last) || !finisher.is_over());
    }

    fn dies_of_operations(&mut self) -> Result<(), Violation> {
        if self.disk.lock().fate.is_dead && matches!(self.taker, End::Alive(_)) {
            self.counts.in_operations += 1;
            self.taker_dies()?;
        }
        Ok(())
    }

    fn dies_in_time(&mut self) -> Result<(), Violation> {
        let Some(death) = self.deaths.front() else {
            return Ok(());
        };
        let is_due = match death.at {
            DeathAt::AfterNs(ns) => self.now >= self.since.plus_ns(ns),
            DeathAt::AfterCells(cells) if death.whose == Death::Giver => self.counts.cells >= cells,
            _ => false,
        };
        if !is_due {
            return Ok(());
        }
        if death.whose == Death::Giver {
            let until = self.now.plus_ns(death.back_ns);
            self.counts.giver_deaths += 1;
            self.giver_gone(until);
            self.deaths.pop_front();
            self.died();
            Ok(())
        } else {
            self.taker_dies()
        }
    }

    /// The taker dies by the next death.
    fn taker_dies(&mut self) -> Result<(), Violation> {
        // What others have seen before counts.
        self.sees()?;
        let Some(death) = self.deaths.pop_front() else {
            return Ok(());
        };
        self.disk.lock().fate.is_dead = true;
        let until = self.now.plus_ns(death.back_ns);
        // What it had in memory goes before anybody begins.
        self.taker = End::Dead { until };
        self.finishers.clear();
        let safe_to = self.now.ns().saturating_sub(SAFE_NS);
        self.log.lock().keeps_to(Time::from_ns(safe_to));
        self.is_settled = false;
        if death.whose == Death::Power {
            self.counts.power_losses += 1;
            self.disk.lock().loses_power(death.keeps);
            self.has_lost_power = true;
        } else {
            self.counts.taker_deaths += 1;
        }
        if death.spoils && self.disk.lock().gets_spoiled(death.keeps) {
            self.counts.spoiled += 1;
            self.log.lock().has_failed = true;
        }
        self.died();
        Ok(())
    }

    fn died(&mut self) {
        self.since = self.now;
        self.cells_since = 0;
        self.last_end = self.now;
        if !matches!(self.taker, End::Alive(_)) {
            self.disk.lock().begins_anew(None);
        }
        self.arm();
    }

    /// The next death may be in an operation of the disk.
    fn arm(&mut self) {
        let life = self
            .deaths
            .front()
            .and_then(|death| match (death.whose, death.at) {
                (Death::Giver, _) => None,
                (_, DeathAt::AfterOperations(operations)) => Some(operations),
                _ => None,
            });
        self.disk.lock().fate.life = life;
    }

    /// When something is to be done next.
    fn passes(&mut self) {
        let step_ns = TURN_CELLS * self.lines[0].cell.ns();
        let arrivals = self.lines.iter().filter_map(|line| line.cells.front());
        let arrivals = arrivals.map(|(at, _)| at.plus_ns(step_ns / 2));
        let ends = [&self.giver, &self.taker]
            .into_iter()
            .filter_map(|end| match end {
                End::Alive(terminal) => terminal.next_deadline(),
                End::Dead { until } => Some(*until),
            });
        let jobs = self.finishers.iter().filter_map(Finisher::next);
        let death = self.deaths.front().and_then(|death| match death.at {
            DeathAt::AfterNs(ns) => Some(self.since.plus_ns(ns)),
            _ => None,
        });
        let sends = self.lines.iter().map(|line| Time::from_ns(line.free.ns()));
        let sends = sends.filter(|at| *at > self.now);
        let next = arrivals.chain(ends).chain(sends);
        let next = next.chain(jobs).chain(death).min();
        let look = self.now.plus_ns(LOOK_NS);
        let next = next.map_or(look, |next| next.min(look));
        self.now = next.max(self.now.plus_ns(step_ns.min(LOOK_NS)));
    }
}
