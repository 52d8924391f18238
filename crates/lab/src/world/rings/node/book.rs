//! What nodes have done, kept through their deaths, and R10.

use std::collections::BTreeMap;

use cellgate_core::upper::msna;
use cellgate_core::upper::msna::rex::{Call, Outcome};

use super::NodeSpec;
use super::deeds;
use crate::cbn::Reuse;
use crate::world::rings::block::Block;
use crate::world::rings::build;
use crate::world::rings::run::Run;
use crate::world::scenario::{FaultSpec, Load, MessageEffect, MessageKind, Scenario};
use crate::world::{Ps, Violation};

/// A call's name: its association and its number.
type Name = (u32, u64);

/// What has become of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// The right octets have come, or others.
    Replied(bool),
    Refused,
    Failed,
}

/// A call that was made.
#[derive(Clone, Debug)]
struct Made {
    at: Ps,
    incarnation: u64,
    /// REX's name for it; none: REX had no room.
    call: Option<Call>,
    block: Block,
    fates: Vec<(Ps, Fate)>,
}

/// The books of one node.
#[derive(Clone, Debug, Default)]
pub(in crate::world::rings) struct Book {
    calls: BTreeMap<Name, Made>,
    executed: BTreeMap<Name, u64>,
    /// Calls that were executed, and that nobody makes so.
    strange: u64,
    /// Connects by incarnation: how many answers each had.
    connects: BTreeMap<(u64, msna::Call), u64>,
    /// Incarnations that have died.
    died: Vec<u64>,
    /// Messages that something became of.
    pub(super) harmed: u64,
}

/// What a node's calls have come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) calls: u64,
    pub(crate) replies: u64,
    pub(crate) executed: u64,
    pub(crate) failed: u64,
    pub(crate) connects: u64,
    pub(crate) deaths: u64,
    pub(crate) harmed: u64,
}

impl Tally {
    pub(in crate::world::rings) const fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.replies += other.replies;
        self.executed += other.executed;
        self.failed += other.failed;
        self.connects += other.connects;
        self.deaths += other.deaths;
        self.harmed += other.harmed;
    }
}

impl Book {
    pub(super) fn called(&mut self, at: Ps, incarnation: u64, block: Block, call: Option<Call>) {
        let made = Made {
            at,
            incarnation,
            call,
            block,
            fates: Vec::new(),
        };
        self.calls.insert((block.association, block.serial), made);
    }

    pub(super) fn ended(&mut self, at: Ps, incarnation: u64, call: Call, outcome: &Outcome) {
        let mut calls = self.calls.values_mut();
        let is_it = |made: &&mut Made| made.call == Some(call) && made.incarnation == incarnation;
        let Some(made) = calls.find(is_it) else {
            return;
        };
        let fate = match outcome {
            Outcome::Reply(octets) => Fate::Replied(*octets == deeds::reply(&made.block.octets())),
            Outcome::Refused(_) => Fate::Refused,
            Outcome::Failed(_) => Fate::Failed,
        };
        made.fates.push((at, fate));
    }

    /// A call is executed: the reply.
    pub(super) fn executed(&mut self, _: Ps, octets: &[u8]) -> Vec<u8> {
        match deeds::call(octets) {
            Some(block) => {
                let name = (block.association, block.serial);
                *self.executed.entry(name).or_default() += 1;
            }
            None => self.strange += 1,
        }
        deeds::reply(octets)
    }

    pub(super) fn asked(&mut self, incarnation: u64, call: msna::Call) {
        self.connects.insert((incarnation, call), 0);
    }

    pub(super) fn answered(&mut self, incarnation: u64, call: msna::Call) {
        *self.connects.entry((incarnation, call)).or_default() += 1;
    }

    pub(super) fn dies(&mut self, incarnation: u64) {
        self.died.push(incarnation);
    }

    pub(in crate::world::rings) fn tally(&self) -> Tally {
        let fates = |is: fn(Fate) -> bool| {
            let fates = self.calls.values().flat_map(|made| &made.fates);
            fates.filter(|(_, fate)| is(*fate)).count() as u64
        };
        Tally {
            calls: self.calls.len() as u64,
            replies: fates(|fate| matches!(fate, Fate::Replied(_))),
            executed: self.executed.values().sum(),
            failed: fates(|fate| matches!(fate, Fate::Failed | Fate::Refused)),
            connects: self.connects.len() as u64,
            deaths: self.died.len() as u64,
            harmed: self.harmed,
        }
    }

    /// The times from a call to its reply, of an association.
    pub(in crate::world::rings) fn replies(&self, association: u32) -> (u64, Vec<(u16, Ps)>) {
        let own = self.calls.values();
        let own: Vec<_> = own
            .filter(|made| made.block.association == association)
            .collect();
        let replied = own.iter().filter_map(|made| match made.fates.first() {
            Some((at, Fate::Replied(_))) => Some((made.block.len, at.since(made.at))),
            _ => None,
        });
        (own.len() as u64, replied.collect())
    }
}

/// R10: a call is executed at most once, and once where nothing is in its way; each call and each
/// Connect has one answer, unless its caller died; nothing is left when all is at rest.
pub(in crate::world::rings) fn judge(run: &Run<'_>) -> Result<(), Violation> {
    let networks = run.networks.iter();
    let hosts: Vec<_> = networks.flat_map(|network| network.hosts()).collect();
    let nodes = hosts
        .iter()
        .filter_map(|host| host.application().node.as_ref());
    let wrong = |text: String| Err(Violation::new("R10", run.now, text));
    let mut executed: BTreeMap<Name, u64> = BTreeMap::new();
    for node in nodes.clone() {
        if node.book.strange > 0 {
            return wrong(format!("{} calls that nobody has made", node.book.strange));
        }
        for (name, times) in &node.book.executed {
            *executed.entry(*name).or_default() += times;
        }
    }
    for (name, times) in &executed {
        if *times > 1 {
            return wrong(format!("call {name:?} is executed {times} times"));
        }
    }
    for node in nodes {
        for ((incarnation, call), answers) in &node.book.connects {
            let has_died = node.book.died.contains(incarnation);
            if *answers > 1 || (*answers == 0 && !has_died) {
                return wrong(format!("{call:?} of {incarnation} has {answers} answers"));
            }
        }
        for (name, made) in &node.book.calls {
            let times = executed.get(name).copied().unwrap_or(0);
            answered(
                run,
                node.book.died.contains(&made.incarnation),
                name,
                made,
                times,
            )?;
        }
        if let Some(left) = node.left() {
            return wrong(format!("at the end is left: {left}"));
        }
    }
    match hosts.iter().map(|host| host.opened()).sum::<usize>() {
        0 => Ok(()),
        open => wrong(format!("at the end {open} circuits are open")),
    }
}

fn answered(
    run: &Run<'_>,
    has_died: bool,
    name: &Name,
    made: &Made,
    times: u64,
) -> Result<(), Violation> {
    let wrong = |text: String| {
        let text = format!("call {name:?}: {text}");
        Err(Violation::new("R10", made.at, text))
    };
    let fates: Vec<Fate> = made.fates.iter().map(|(_, fate)| *fate).collect();
    match fates[..] {
        [] if has_died || made.call.is_none() => {}
        [] => return wrong("it has no end".into()),
        [Fate::Replied(true)] if times == 1 => {}
        [Fate::Replied(is_right)] => {
            return wrong(format!(
                "executed {times} times, a reply, right: {is_right}"
            ));
        }
        [Fate::Refused] if times > 0 => return wrong("refused, and executed".into()),
        [Fate::Refused | Fate::Failed] => {}
        _ => return wrong(format!("it ends as {fates:?}")),
    }
    let is_done = fates == [Fate::Replied(true)];
    match is_promised(run, name.0, made.at) && !is_done {
        true => wrong(format!("nothing is in its way, and it ends as {fates:?}")),
        false => Ok(()),
    }
}

/// Whether nothing happens but to messages of REX, and for so short that one of its tries is said
/// before or behind it.
fn is_mild(scenario: &Scenario, beat: Ps) -> bool {
    let mut harmed_ns = 0;
    for fault in &scenario.faults {
        let FaultSpec::Messages {
            for_ns, of, effect, ..
        } = fault
        else {
            return false;
        };
        let late_ns = match effect {
            MessageEffect::Late { ns } => *ns,
            MessageEffect::Lose | MessageEffect::Double { .. } => 0,
        };
        harmed_ns += for_ns + late_ns;
        if *of != MessageKind::Rex {
            return false;
        }
    }
    harmed_ns <= 2 * beat.ns()
}

/// Whether a call must come to its reply: all is healed for long, and its two stations have nothing
/// else to do and lose nothing.
fn is_promised(run: &Run<'_>, association: u32, at: Ps) -> bool {
    let scenario = run.scenario;
    let beat = build::beat(scenario);
    let settled = match scenario.heal_ns {
        _ if is_mild(scenario, beat) => Ps::ZERO,
        0 => return false,
        heal_ns => Ps::from_ns(heal_ns).plus(Ps::new(beat.ps() * 2 * NodeSpec::KEEP)),
    };
    let spec = &scenario.associations[association as usize];
    let is_of_rpc = |name: &str| build::is_of_rpc(scenario, name);
    let is_alone = |station: &str| {
        let mut circuits = scenario.associations.iter();
        circuits.all(|one| {
            let is_there = one.to == station || one.from == station;
            !is_there || is_of_rpc(&one.name)
        })
    };
    let calls = scenario.traffic.iter();
    let calls = calls.filter(|one| matches!(one.load, Load::Rpc { .. }));
    let ends = [&spec.from, &spec.to];
    let loses_nothing = ends.iter().all(|name| {
        let (ring, seat) = run.plan.seats[build::station(scenario, name)];
        let network = &run.networks[ring];
        scenario.rings[ring].reuse == Reuse::PassedOn
            && network.stations()[seat].counts().overflowed == 0
            && network.hosts()[seat].counts().bus_errors == 0
    });
    // Ours: with few calls a beat no host has more to do than it can, nor has the ring.
    let (mut call_s, mut octets) = (0, 0);
    for one in calls {
        if let Load::Rpc { call_s: more, .. } = one.load {
            call_s += u64::from(more);
            octets = one.octets.iter().copied().fold(octets, u16::max);
        }
    }
    let (ring, _) = run.plan.seats[build::station(scenario, &spec.from)];
    let (shape, senders) = (&scenario.rings[ring], run.plan.seated[ring].len() as u64);
    // Of a call, its reply and what is said around them, each of which waits for a slot.
    let cells = (u64::from(octets) / 32 + 8) * 3;
    let call_ns = cells * shape.rotation_ns * (senders + 1) / u64::from(shape.frames);
    let is_light = call_s * beat.ns() <= 2_000_000_000
        && call_s * call_ns <= 500_000_000
        && call_ns <= 2 * beat.ns();
    at >= settled && is_light && loses_nothing && ends.iter().all(|name| is_alone(name))
}
