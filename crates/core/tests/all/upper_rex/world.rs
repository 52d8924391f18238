//! Three ends that call each other over a network that loses, doubles, delays and damages blocks,
//! and that begin anew while they execute.

use core::net::Ipv4Addr;
use std::collections::{BTreeMap, BTreeSet};

use cellgate_core::Time;
use cellgate_core::upper::msna::rex::{
    Call, Event, Exchange, Failure, Held, Outcome, Planted, Rex, RexConfig, RexDiscard,
};
use cellgate_core::upper::msna::{Address, Sap};
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

pub(super) const MS: u64 = 1_000_000;
const ENDS: usize = 3;
/// A run takes some thousand steps.
const STEPS_MAX: u32 = 20_000;

pub(super) fn address(end: usize) -> Address {
    Address {
        host: Ipv4Addr::new(10, 0, 0, 1 + end as u8),
        sap: Sap(7),
    }
}

pub(super) fn config() -> RexConfig {
    RexConfig {
        incarnation: 1,
        fragment_max: 16,
        window: 8,
        message_max: 2048,
        retry_ns: MS,
        tries: 6,
        probe_ns: 2 * MS,
        acknowledge_ns: MS / 4,
        keep_ns: 50 * MS,
        calls_max: 16,
        exchanges_max: 4,
        octets_max: 4096,
        peers_max: 4,
    }
}

/// What is asked in this call: its number, and octets that follow from it.
fn question(id: u64) -> Vec<u8> {
    octets(id, Pcg64Mcg::new(u128::from(id)).next_u32())
}

fn answer(id: u64) -> Vec<u8> {
    octets(!id, Pcg64Mcg::new(u128::from(!id)).next_u32())
}

fn octets(id: u64, dice: u32) -> Vec<u8> {
    let len = match dice % 16 {
        0 => dice / 16 % 1500,
        1..4 => dice / 16 % 150,
        _ => dice / 16 % 16,
    };
    let filler = (0..len).map(|at| (at as u8).wrapping_mul(31) ^ id as u8);
    id.to_be_bytes().into_iter().chain(filler).collect()
}

fn id(octets: &[u8]) -> Option<u64> {
    octets.first_chunk().map(|id| u64::from_be_bytes(*id))
}

/// What goes wrong, in parts of 256.
#[derive(Clone, Copy, Default)]
struct Rates {
    lost: u32,
    doubled: u32,
    late: u32,
    damaged: u32,
    /// Ends that die as they are called.
    dies: u32,
    abandons: u32,
}

struct Asked {
    id: u64,
    to: usize,
    is_late: bool,
}

struct End {
    rex: Rex<Option<Planted>>,
    incarnation: u64,
    calls: BTreeMap<Call, Asked>,
    /// Replies that are made, and when.
    working: BTreeMap<Exchange, (Time, u64)>,
}

struct World {
    random: Pcg64Mcg,
    bug: Option<Planted>,
    config: RexConfig,
    now: Time,
    rates: Rates,
    ends: Vec<End>,
    dead: Option<usize>,
    /// From, to, and the octets.
    line: BTreeMap<(Time, u64), (usize, usize, Vec<u8>)>,
    serial: u64,
    executed: BTreeMap<u64, u32>,
    refused: BTreeSet<u64>,
    /// Announcements that must come.
    announced: BTreeSet<u64>,
    last_id: u64,
    steps: u32,
    tally: Tally,
}

/// What has happened in a run, or in many.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) replies: u64,
    pub(super) refused: u64,
    pub(super) timed_out: u64,
    pub(super) restarted: u64,
    pub(super) cancelled: u64,
    pub(super) dropped: u64,
    pub(super) deaths: u64,
    pub(super) damaged: u64,
    pub(super) blocks: u64,
}

impl Tally {
    pub(super) fn all(&self) -> [u64; 9] {
        [
            self.replies,
            self.refused,
            self.timed_out,
            self.restarted,
            self.cancelled,
            self.dropped,
            self.deaths,
            self.damaged,
            self.blocks,
        ]
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.replies += other.replies;
        self.refused += other.refused;
        self.timed_out += other.timed_out;
        self.restarted += other.restarted;
        self.cancelled += other.cancelled;
        self.dropped += other.dropped;
        self.deaths += other.deaths;
        self.damaged += other.damaged;
        self.blocks += other.blocks;
    }
}

pub(super) type Checked = Result<(), String>;

pub(super) fn ensure(is_so: bool, what: impl FnOnce() -> String) -> Checked {
    is_so.then_some(()).ok_or_else(what)
}

impl World {
    fn new(seed: u64, bug: Option<Planted>) -> Self {
        let mut random = Pcg64Mcg::new(u128::from(seed) << 1 | 1);
        let mut below = |n: u32| random.next_u32() % n;
        let rates = Rates {
            lost: below(2) * below(100),
            doubled: below(2) * below(128),
            late: below(2) * below(128),
            damaged: below(2) * below(40),
            dies: below(2) * below(80),
            abandons: below(20),
        };
        let config = RexConfig {
            fragment_max: [16, 50, 100, 400][below(4) as usize],
            window: [1, 3, 8, 64][below(4) as usize],
            exchanges_max: 2 + below(4) as usize,
            ..config()
        };
        let ends = (0..ENDS).map(|_| End {
            rex: Rex::with_bugs(config, bug),
            incarnation: 1,
            calls: BTreeMap::new(),
            working: BTreeMap::new(),
        });
        Self {
            bug,
            config,
            now: Time::from_ns(1000),
            rates,
            ends: ends.collect(),
            dead: None,
            line: BTreeMap::new(),
            serial: 0,
            executed: BTreeMap::new(),
            refused: BTreeSet::new(),
            announced: BTreeSet::new(),
            last_id: 0,
            steps: 0,
            tally: Tally::default(),
            random,
        }
    }

    fn below(&mut self, n: u64) -> u64 {
        self.random.next_u64() % n
    }

    fn happens(&mut self, rate: u32) -> bool {
        self.random.next_u32() % 256 < rate
    }

    fn put(&mut self, from: usize, to: usize, mut block: Vec<u8>) {
        self.tally.blocks += 1;
        if self.happens(self.rates.lost) {
            return;
        }
        if self.happens(self.rates.damaged) {
            self.tally.damaged += 1;
            let at = self.below(block.len() as u64) as usize;
            match self.below(3) {
                0 => block.truncate(at),
                1 => block.push(at as u8),
                _ => block[at] ^= 1 << self.below(8),
            }
        }
        let late_ns = match self.happens(self.rates.late) {
            true if self.below(16) == 0 => self.below(3 * self.config.keep_ns),
            true => self.below(5 * MS),
            false => 0,
        };
        let at = self.now.plus_ns(20_000 + self.below(5000) + late_ns);
        self.serial += 1;
        self.line.insert((at, self.serial), (from, to, block));
    }

    /// Takes what an end says and tells.
    fn drain(&mut self, end: usize) -> Checked {
        while let Some(event) = self.ends[end].rex.poll_event() {
            self.hear(end, event)?;
        }
        while let Some((to, block)) = self.ends[end].rex.poll_out(self.now) {
            let to = usize::from(to.host.octets()[3]) - 1;
            if self.happens(self.rates.doubled) {
                self.put(end, to, block.clone());
            }
            self.put(end, to, block);
        }
        Ok(())
    }

    fn hear(&mut self, end: usize, event: Event) -> Checked {
        match event {
            Event::Ended { call, outcome } => self.ended(end, call, outcome),
            Event::Called { exchange, octets } => {
                let id = self.executes(&octets)?;
                let work_ns = match self.below(4) {
                    0 => self.below(12 * MS),
                    _ => self.below(MS / 2),
                };
                let at = self.now.plus_ns(work_ns);
                self.ends[end].working.insert(exchange, (at, id));
                if self.happens(self.rates.dies) {
                    self.dies(end);
                }
                Ok(())
            }
            Event::Announced { octets, .. } => self.executes(&octets).map(drop),
            Event::Cancelled { exchange } => {
                let working = self.ends[end].working.remove(&exchange);
                ensure(working.is_some(), || {
                    format!("nobody executes {exchange:?}")
                })
            }
        }
    }

    fn executes(&mut self, octets: &[u8]) -> Result<u64, String> {
        let id = id(octets).ok_or("a call without a number")?;
        ensure(octets == question(id), || {
            format!("call {id}: other octets")
        })?;
        let times = self.executed.entry(id).or_default();
        *times += 1;
        ensure(*times == 1, || format!("call {id} executed twice"))?;
        ensure(!self.refused.contains(&id), || {
            format!("call {id} executed though refused")
        })?;
        self.announced.remove(&id);
        Ok(id)
    }

    fn ended(&mut self, end: usize, call: Call, outcome: Outcome) -> Checked {
        let asked = self.ends[end].calls.remove(&call);
        let asked = asked.ok_or(format!("{call:?} has two outcomes"))?;
        let id = asked.id;
        let executed = self.executed.contains_key(&id);
        let tally = &mut self.tally;
        let is_fine = match outcome {
            Outcome::Reply(octets) => {
                tally.replies += 1;
                ensure(octets == answer(id), || format!("reply {id}: other octets"))?;
                ensure(executed, || format!("reply {id} without a call"))?;
                true
            }
            Outcome::Refused(_) => {
                tally.refused += 1;
                self.refused.insert(id);
                ensure(!executed, || format!("call {id} refused though executed"))?;
                false
            }
            Outcome::Failed(Failure::TimedOut) => {
                tally.timed_out += 1;
                self.dead == Some(asked.to)
            }
            Outcome::Failed(Failure::Restarted) => {
                tally.restarted += 1;
                false
            }
            Outcome::Failed(Failure::Cancelled) => {
                tally.cancelled += 1;
                false
            }
            Outcome::Failed(Failure::Dropped) => {
                tally.dropped += 1;
                false
            }
            Outcome::Failed(Failure::TooLong) => return Err("a reply too long".to_owned()),
        };
        ensure(is_fine || !asked.is_late, || {
            format!("call {id} not answered though all is well")
        })
    }

    fn dies(&mut self, end: usize) {
        self.tally.deaths += 1;
        let it = &mut self.ends[end];
        it.incarnation += 1;
        let config = RexConfig {
            incarnation: it.incarnation,
            ..self.config
        };
        it.rex = Rex::with_bugs(config, self.bug);
        it.calls.clear();
        it.working.clear();
    }

    fn asks(&mut self, end: usize, to: usize, is_late: bool) -> Checked {
        self.last_id += 1;
        let id = self.last_id;
        let (now, octets) = (self.now, question(id));
        if let Ok(call) = self.ends[end].rex.call(now, address(to), octets) {
            let asked = Asked { id, to, is_late };
            self.ends[end].calls.insert(call, asked);
        } else {
            ensure(!is_late, || format!("call {id} not taken"))?;
        }
        self.drain(end)
    }

    fn announces(&mut self, end: usize, to: usize, is_late: bool) -> Checked {
        self.last_id += 1;
        let id = self.last_id;
        let (now, octets) = (self.now, question(id));
        let said = self.ends[end].rex.announce(now, address(to), octets);
        if is_late && said.is_ok() {
            self.announced.insert(id);
        }
        self.drain(end)
    }

    /// Something that an end does of its own.
    fn acts(&mut self) -> Checked {
        let end = self.below(ENDS as u64) as usize;
        let to = (end + 1 + self.below(ENDS as u64 - 1) as usize) % ENDS;
        match self.below(16) {
            0 if self.rates.dies > 0 => self.dies(end),
            1 => self.announces(end, to, false)?,
            2 => {
                let (now, calls) = (self.now, &self.ends[end].calls);
                let call = calls.keys().next().copied();
                if let Some(call) = call {
                    self.ends[end].rex.cancel(now, call);
                }
            }
            _ => self.asks(end, to, false)?,
        }
        self.drain(end)
    }

    fn works(&mut self, end: usize) -> Checked {
        let due = |it: &(&Exchange, &(Time, u64))| it.1.0 <= self.now;
        let working = self.ends[end].working.iter();
        let Some((exchange, id)) = working.clone().find(due).map(|(it, of)| (*it, of.1)) else {
            return Ok(());
        };
        self.ends[end].working.remove(&exchange);
        let rex = &mut self.ends[end].rex;
        if self.random.next_u32() % 256 < self.rates.abandons {
            rex.abandon(exchange);
        } else {
            let said = rex.reply(self.now, exchange, answer(id));
            ensure(said.is_ok(), || format!("reply {id}: {said:?}"))?;
        }
        self.drain(end)
    }

    fn next(&self) -> Option<Time> {
        let line = self.line.keys().next().map(|(at, _)| *at);
        let ends = self.ends.iter().flat_map(|end| {
            let working = end.working.values().map(|(at, _)| *at);
            working.chain(end.rex.next_deadline())
        });
        ends.chain(line).min()
    }

    /// Does what is due next, before `until`. False: nothing is.
    fn step(&mut self, until: Time) -> Result<bool, String> {
        self.steps += 1;
        ensure(self.steps < STEPS_MAX, || "it never ends".to_owned())?;
        let Some(next) = self.next().filter(|next| *next <= until) else {
            return Ok(false);
        };
        self.now = self.now.max(next);
        while let Some(first) = self.line.first_entry()
            && first.key().0 <= self.now
        {
            let (from, to, block) = first.remove();
            if self.dead != Some(to) {
                let rex = &mut self.ends[to].rex;
                rex.handle(self.now, address(from), &block);
                self.drain(to)?;
            }
        }
        for end in 0..ENDS {
            self.works(end)?;
            let rex = &mut self.ends[end].rex;
            if rex.next_deadline().is_some_and(|due| due <= self.now) {
                rex.handle_deadline(self.now);
                self.drain(end)?;
            }
        }
        Ok(true)
    }

    fn run_until(&mut self, until: Time) -> Checked {
        while self.step(until)? {}
        self.now = self.now.max(until);
        Ok(())
    }

    /// Until all calls have ended and no block is under way.
    fn settle(&mut self) -> Checked {
        let end_of_time = Time::from_ns(u64::MAX);
        while !self.line.is_empty() || self.ends.iter().any(|end| !end.calls.is_empty()) {
            let goes_on = self.step(end_of_time)?;
            ensure(goes_on, || "a call has no outcome".to_owned())?;
        }
        Ok(())
    }

    fn all_call(&mut self, is_late: bool) -> Checked {
        for end in 0..ENDS {
            for to in (0..ENDS).filter(|to| *to != end) {
                self.asks(end, to, is_late)?;
                if is_late {
                    self.announces(end, to, true)?;
                }
            }
        }
        self.settle()
    }

    fn is_counted(&self) -> Checked {
        for end in &self.ends {
            let counts = end.rex.counts();
            let thrown: u64 = RexDiscard::ALL.map(|it| counts.discarded(it)).iter().sum();
            ensure(counts.received == counts.taken + thrown, || {
                format!("{counts:?}")
            })?;
        }
        Ok(())
    }
}

/// A run from a seed.
pub(super) fn run(seed: u64, bug: Option<Planted>) -> Result<Tally, String> {
    let mut world = World::new(seed, bug);
    for _ in 0..4 + world.below(8) {
        let pause_ns = match world.below(64) {
            0 => 3 * world.config.keep_ns,
            _ => world.below(3 * MS),
        };
        world.run_until(world.now.plus_ns(pause_ns))?;
        for _ in 0..1 + world.below(2) * world.below(8) {
            world.acts()?;
        }
    }
    // Nothing goes wrong from here on; what was said before may still come.
    world.rates = Rates::default();
    world.settle()?;
    // Whoever has died since it was heard last is found to have.
    world.all_call(false)?;
    world.all_call(true)?;
    if world.below(4) == 0 {
        let dead = world.below(ENDS as u64) as usize;
        world.dead = Some(dead);
        world.asks((dead + 1) % ENDS, dead, true)?;
        world.settle()?;
        world.dead = None;
    }
    while world.step(Time::from_ns(u64::MAX))? {}
    world.is_counted()?;
    for end in &world.ends {
        let held = end.rex.held();
        ensure(held == Held::default(), || format!("{held:?} in the end"))?;
        ensure(end.working.is_empty(), || "an exchange stays".to_owned())?;
    }
    let announced = &world.announced;
    ensure(announced.is_empty(), || format!("{announced:?} never came"))?;
    Ok(world.tally)
}
