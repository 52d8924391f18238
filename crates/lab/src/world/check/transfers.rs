//! Files that terminals move.

use std::collections::BTreeSet;

use super::{At, Found};
use crate::world::names::{Names, Node};
use crate::world::scenario::{FileSpec, KindSpec, RepeatSpec, Scenario, TransferSpec};

/// Files of all transfers together, and their octets, with what they become.
pub(super) const FILES_MAX: usize = 1 << 14;
const OCTETS_MAX: u64 = 1 << 28;
/// Octets of a PDU and of a window.
const PDU_MAX: u16 = 60_000;
const WINDOW_MAX: u64 = 1 << 26;
const JOBS_MAX: u16 = 64;
const BACK_MAX_NS: u64 = 1 << 46;

pub(super) fn check(scenario: &Scenario, names: &Names<'_>, found: &mut Found<'_>) {
    if scenario.transfers.is_empty() {
        return;
    }
    let is_alone = scenario.hosts.len() == 2
        && scenario.links.len() == 1
        && scenario.switches.is_empty()
        && scenario.connections.is_empty()
        && scenario.sources.is_empty()
        && scenario.streams.is_empty()
        && scenario.faults.is_empty()
        && scenario.servers.is_empty()
        && scenario.applications.is_empty();
    let what = "transfers have two hosts and a link, and nothing beside them";
    found.due(At::Whole, is_alone, what);
    let octets = scenario.transfers.iter().flat_map(|one| &one.files);
    let octets = octets.map(|file| file.octets.saturating_mul(1 + file.changes_ns.len() as u64));
    let octets = octets.fold(0, u64::saturating_add);
    let what = "files have at most 2^28 octets in all, each as often as it changes";
    found.due(At::Whole, octets <= OCTETS_MAX, what);
    for (n, transfer) in scenario.transfers.iter().enumerate() {
        for name in [&transfer.from, &transfer.to] {
            let host = names.node(name);
            let host = host.filter(|node| matches!(node, Node::Host(_)));
            found.known(At::Transfer(n), name, host);
        }
        one(transfer, |is_so, what| {
            found.due(At::Transfer(n), is_so, what)
        });
    }
}

fn one(spec: &TransferSpec, mut due: impl FnMut(bool, &'static str)) {
    due(spec.from != spec.to, "from and to are two hosts");
    let fits = (1..=PDU_MAX).contains(&spec.pdu_octets);
    due(fits, "pdu_octets is 1 to 60000");
    let fits = (u64::from(spec.pdu_octets)..=WINDOW_MAX).contains(&spec.window_octets);
    due(fits, "window_octets is pdu_octets to 2^26");
    due((1..=JOBS_MAX).contains(&spec.jobs), "jobs is 1 to 64");
    let back = spec.deaths.iter().map(|death| death.back_ns);
    due(
        back.max().unwrap_or(0) <= BACK_MAX_NS,
        "back_ns is at most 2^46",
    );
    let few = |one: &RepeatSpec| one.cells.max(one.back) <= RepeatSpec::CELLS_MAX;
    due(
        spec.repeats.iter().all(few),
        "cells and back are at most 8192",
    );
    let in_order = spec.repeats.is_sorted_by_key(|repeat| repeat.at_ns);
    due(in_order, "repeats are in the order of time");
    let mut before = BTreeSet::new();
    for file in &spec.files {
        let (parent, name) = file.path.rsplit_once('/').unwrap_or(("", &file.path));
        let is_path = !["", ".", "..", ".cellgate-partial"].contains(&name) && name.len() < 256;
        due(is_path, "a path has steps that are names");
        let is_inside = parent.is_empty() || before.contains(parent);
        due(is_inside, "a directory comes before what is in it");
        if file.kind == KindSpec::Directory {
            before.insert(&*file.path);
        }
        octets(file, &mut due);
    }
    let mut paths = BTreeSet::new();
    let is_first = spec.files.iter().all(|file| paths.insert(&file.path));
    due(is_first, "a path comes once");
}

fn octets(file: &FileSpec, due: &mut impl FnMut(bool, &'static str)) {
    let mut at = 0;
    let follows = |(start, end): &(u64, u64)| {
        let is_behind = at <= *start && start < end && *end <= file.octets;
        at = *end;
        is_behind
    };
    due(
        file.holes.iter().all(follows),
        "holes are in the file, in order",
    );
    let is_sorted = file.changes_ns.is_sorted();
    due(is_sorted, "changes are in the order of time");
    let is_file = file.kind == KindSpec::File;
    let is_plain = file.octets == 0 && file.changes_ns.is_empty() && !file.former;
    due(
        file.former || !file.former_is_same,
        "former_is_same speaks of a former",
    );
    due(
        is_file || is_plain,
        "what is no file has no octets, changes or former",
    );
}
