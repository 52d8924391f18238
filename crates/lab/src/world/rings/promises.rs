//! What is promised to blocks: R3, what is read was sent; R4, in order and once; R11, what meets no
//! fault comes.

use std::collections::{BTreeMap, BTreeSet};

use cellgate_core::upper::msna::Notify;

use super::application::{Begun, Read};
use super::block::Seen;
use super::build;
use super::run::Run;
use super::scenario::{BridgeBy, Load};
use crate::cbn::Reuse;
use crate::machine::v1s::Order;
use crate::world::{Ps, Violation};

/// A block that was read, and the association on which it came.
pub(super) struct Came {
    pub(super) association: usize,
    pub(super) read: Read,
}

/// All blocks that were read, by the association on which they came.
pub(super) fn came(run: &Run<'_>) -> Vec<Came> {
    let mut all = Vec::new();
    for (n, one) in run.scenario.associations.iter().enumerate() {
        // Messages of nodes are judged by what these do.
        if build::is_of_rpc(run.scenario, &one.name) {
            continue;
        }
        let (ring, seat) = run.plan.seats[build::station(run.scenario, &one.to)];
        let reads = &run.networks[ring].hosts()[seat].application().read;
        let own = reads.iter().filter(|read| read.vci == one.vci);
        all.extend(own.map(|read| Came {
            association: n,
            read: *read,
        }));
    }
    all
}

/// All blocks that were begun.
pub(super) fn begun(run: &Run<'_>) -> Vec<Begun> {
    let hosts = run.networks.iter().flat_map(|network| network.hosts());
    let all = hosts.flat_map(|host| host.application().begun.iter().copied());
    all.collect()
}

/// Blocks that were read, and that nobody has sent so.
pub(super) fn strange(run: &Run<'_>) -> u64 {
    let came = came(run);
    let strange = came.iter().filter(|one| one.read.seen == Seen::Strange);
    strange.count() as u64
}

/// The associations whose blocks may come on this one: its own, those that come back on it, and
/// those that a bridge leads to it.
fn origins(run: &Run<'_>, on: usize) -> BTreeSet<u32> {
    let scenario = run.scenario;
    let mut origins = BTreeSet::from([on as u32]);
    let name = &scenario.associations[on].name;
    for traffic in &scenario.traffic {
        if matches!(&traffic.load, Load::Ping { back } if back == name) {
            origins.insert(build::association(scenario, &traffic.on) as u32);
        }
    }
    for bridge in scenario.bridges.iter().filter(|bridge| bridge.to == *name) {
        origins.extend(self::origins(
            run,
            build::association(scenario, &bridge.from),
        ));
    }
    origins
}

pub(super) fn judge(run: &Run<'_>) -> Result<(), Violation> {
    let came = came(run);
    let begun: BTreeMap<(u32, u64), Begun> = begun(run)
        .into_iter()
        .map(|one| ((one.association, one.serial), one))
        .collect();
    let flips: u64 = run.laws.iter().map(|laws| laws.flips).sum();
    let was_bypassed = run.laws.iter().any(|laws| laws.was_bypassed);
    let mut excused = flips;
    // Digests of blocks that a flip has spoilt: hosts send them back, and bridges send them on.
    let mut spoilt = BTreeSet::new();
    let mut last: BTreeMap<(usize, u32), u64> = BTreeMap::new();
    let all: Vec<_> = (0..run.scenario.associations.len())
        .map(|n| origins(run, n))
        .collect();
    for Came { association, read } in &came {
        let name = &run.scenario.associations[*association].name;
        let sent = match read.seen {
            Seen::Whole(block) => begun
                .get(&(block.association, block.serial))
                .filter(|begun| {
                    let is_its = all[*association].contains(&block.association);
                    is_its && begun.len == block.len && begun.at <= read.at
                }),
            Seen::Strange => None,
        };
        let Some(sent) = sent else {
            if spoilt.contains(&read.digest) {
                continue;
            }
            if excused > 0 {
                excused -= 1;
                spoilt.insert(read.digest);
                continue;
            }
            let text = format!(
                "association {name}: a block of {} octets was never sent",
                read.len
            );
            return Err(Violation::new("R3", read.at, text));
        };
        let before = last.insert((*association, sent.association), sent.serial);
        let is_later = before.is_none_or(|before| before < sent.serial);
        if !is_later && !was_bypassed && flips == 0 {
            let text = format!(
                "association {name}: block {} comes behind {before:?}",
                sent.serial
            );
            return Err(Violation::new("R4", read.at, text));
        }
    }
    arrives(run, &came, &begun)
}

/// R11: a block that is begun when all is healed comes, if its station had room for all of its
/// cells and hears of its last one. None is promised while a station empties a slot that another
/// has filled, as a station does that counts and has lost its cell.
fn arrives(
    run: &Run<'_>,
    came: &[Came],
    begun: &BTreeMap<(u32, u64), Begun>,
) -> Result<(), Violation> {
    let scenario = run.scenario;
    let healed = match scenario.faults.is_empty() {
        true => Ps::ZERO,
        false if scenario.heal_ns == 0 => return Ok(()),
        false => Ps::from_ns(scenario.heal_ns),
    };
    let read: BTreeSet<(usize, u64)> = (came.iter())
        .filter_map(|one| match one.read.seen {
            Seen::Whole(block) => Some((one.association, block)),
            Seen::Strange => None,
        })
        .filter(|(on, block)| *on == block.association as usize)
        .map(|(on, block)| (on, block.serial))
        .collect();
    for one in begun.values() {
        let on = one.association as usize;
        let spec = &scenario.associations[on];
        let [from, to] = [&spec.from, &spec.to].map(|name| build::station(scenario, name));
        let (ring, seat) = run.plan.seats[to];
        let (_, source) = run.plan.seats[from];
        let shape = &scenario.rings[ring];
        let network = &run.networks[ring];
        let rotations = Ps::from_ns(4 * shape.rotation_ns);
        let hears = spec.notify != Notify::First || scenario.stations[to].order == Order::InTurn;
        // A bridge that sends cells on reads no blocks.
        let mut bridges = scenario.bridges.iter();
        let reads = !bridges.any(|bridge| bridge.by == BridgeBy::Cell && bridge.from == spec.name);
        let is_promised = one.at >= healed.plus(rotations)
            && hears
            && reads
            && run.laws[ring].robbed.is_none_or(|robbed| robbed < one.at)
            && shape.reuse == Reuse::PassedOn
            && network.stations()[seat].counts().overflowed == 0
            && network.hosts()[source].counts().bus_errors == 0;
        if is_promised && !read.contains(&(on, one.serial)) {
            let text = format!(
                "association {}: block {} never comes",
                spec.name, one.serial
            );
            return Err(Violation::new("R11", one.at, text));
        }
    }
    Ok(())
}
