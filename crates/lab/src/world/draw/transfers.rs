//! Scenarios of files that terminals move.

use cellgate_core::line::LineSpec;

use crate::generate::Draw;
use crate::world::scenario::{
    Death, DeathAt, DeathSpec, ExistingSpec, FileSpec, HostSpec, KindSpec, LinkSpec, RepeatSpec,
    Scenario, TransferSpec,
};

/// Octets of a file that goes as a message, at most, and of a disk-PDU.
const SMALL: u64 = 1 << 16;

pub(super) fn scenario(draw: &mut Draw) -> Scenario {
    let mut transfer = TransferSpec {
        aal34: draw.percent(30),
        go_back: draw.percent(25),
        pdu_octets: draw.pick(&[200, 640, 1_984, 1_984, 4_000, 9_000]),
        window_octets: draw.pick(&[1 << 14, 1 << 16, 1 << 17, 1 << 18]),
        jobs: draw.between(1, 3) as u16,
        existing: draw.pick(&[
            ExistingSpec::Refuse,
            ExistingSpec::Replace,
            ExistingSpec::Replace,
            ExistingSpec::Skip,
        ]),
        ..TransferSpec::between("west", "east")
    };
    // So that seconds pass while a file is on its way.
    let bit_s = draw.pick(&[400_000, 1_000_000, 2_000_000, 20_000_000, 149_760_000]);
    files(draw, &mut transfer, bit_s);
    deaths(draw, &mut transfer, bit_s);
    place(draw, &mut transfer);
    Scenario {
        duration_ns: 1_000_000_000,
        hosts: ["west", "east"].map(HostSpec::named).into(),
        links: vec![LinkSpec {
            bit_s,
            delay_ns: draw.pick(&[5_000, 1_000_000, 20_000_000]),
            line: line(draw),
            ..LinkSpec::between("west", "east")
        }],
        transfers: vec![transfer],
        ..Scenario::default()
    }
}

fn line(draw: &mut Draw) -> Option<LineSpec> {
    let seed = draw.below(1 << 40);
    let words = match draw.below(5) {
        0 | 1 => return None,
        2 => "ber 1e-6",
        3 => "loss 1e-3",
        _ => "ber 1e-6 loss 1e-4 duplicate 1e-4",
    };
    format!("{words} seed {seed}").parse().ok()
}

/// Directories, links, small files and long ones.
fn files(draw: &mut Draw, transfer: &mut TransferSpec, bit_s: u64) {
    let mut directories = vec![String::new()];
    let small = match draw.below(20) {
        0..3 => draw.between(20, 140),
        3..8 => 0,
        _ => draw.below(10),
    };
    let large = draw.below(if bit_s > 2_000_000 { 4 } else { 3 });
    let count = (small + large).max(1);
    for n in 0..count {
        let above = directories[draw.below(directories.len() as u64) as usize].clone();
        let path = format!("{above}{n:03}");
        if draw.percent(if small == 0 { 35 } else { 12 }) {
            let kind = draw.pick(&[KindSpec::Directory, KindSpec::Directory, KindSpec::Link]);
            let mut entry = FileSpec::of(&path, 0);
            entry.kind = kind;
            transfer.files.push(entry);
            if kind == KindSpec::Directory {
                directories.push(format!("{path}/"));
            }
            continue;
        }
        let is_small = draw.below(count) >= large;
        let octets = match is_small {
            true if draw.percent(5) => draw.below(SMALL + 1),
            true => draw.below(3) * draw.below(1_500),
            false => SMALL + 1 + draw.below(4 * SMALL),
        };
        transfer.files.push(FileSpec {
            mode: draw.pick(&[0o644, 0o600, 0o755]),
            content: draw.below(1 << 48),
            former: draw.percent(15),
            holes: if is_small {
                Vec::new()
            } else {
                holes(draw, octets)
            },
            changes_ns: changes(draw, if is_small { 4 } else { 15 }),
            ..FileSpec::of(&path, octets)
        });
    }
    // Each directory comes before what is in it, and all in it before what is not.
    transfer
        .files
        .sort_by(|one, other| one.path.split('/').cmp(other.path.split('/')));
}

fn holes(draw: &mut Draw, octets: u64) -> Vec<(u64, u64)> {
    if draw.percent(60) {
        return Vec::new();
    }
    let mut holes = Vec::new();
    let mut at = draw.below(octets / 2);
    while at < octets && holes.len() < 3 {
        let end = (at + 4_096 + draw.below(2 * SMALL)).min(octets);
        holes.push((at, end));
        at = end + 1 + draw.below(octets / 2);
    }
    holes
}

fn changes(draw: &mut Draw, percent: u64) -> Vec<u64> {
    if !draw.percent(percent) {
        return Vec::new();
    }
    let mut changes: Vec<u64> = (0..draw.between(1, 3))
        .map(|_| draw.below(3_000_000_000))
        .collect();
    changes.sort_unstable();
    changes
}

/// How files that are there are compared, and the room of the disk.
fn place(draw: &mut Draw, transfer: &mut TransferSpec) {
    if draw.percent(25) {
        transfer.by_digest = true;
        for file in transfer.files.iter_mut().filter(|file| file.former) {
            file.former_is_same = draw.percent(50);
        }
    }
    if draw.percent(20) {
        let octets: u64 = transfer.files.iter().map(|file| file.octets).sum();
        transfer.room_octets = Some(draw.below(octets + octets / 4 + 1));
    }
}

/// Who dies, at any event: when time has passed, cells have come, or in an operation of the disk.
fn deaths(draw: &mut Draw, transfer: &mut TransferSpec, bit_s: u64) {
    let octets: u64 = transfer.files.iter().map(|file| file.octets).sum();
    let takes_ns = octets * 10 * 1_000_000_000 / bit_s;
    for _ in 0..draw.below(5) {
        let whose = draw.pick(&[Death::Giver, Death::Taker, Death::Power, Death::Power]);
        let at = match draw.below(3) {
            _ if whose == Death::Giver => DeathAt::AfterNs(draw.below(takes_ns + 100_000_000)),
            0 => DeathAt::AfterNs(draw.below(takes_ns + 100_000_000)),
            1 => DeathAt::AfterCells(draw.below(octets / 40 + 50)),
            _ => DeathAt::AfterOperations(draw.below(20 + 8 * transfer.files.len() as u64)),
        };
        transfer.deaths.push(DeathSpec {
            whose,
            at,
            back_ns: draw.pick(&[0, 1_000_000, 300_000_000, 12_000_000_000]),
            keeps: draw.below(1 << 62),
            spoils: whose != Death::Giver && draw.percent(15),
        });
    }
    if draw.percent(12) {
        transfer.failing_syncs = vec![draw.below(12)];
    }
    if draw.percent(20) {
        let repeat = |_| RepeatSpec {
            at_ns: draw.below(2 * takes_ns + 200_000_000),
            back: draw.pick(&[100, 500, 2_000, RepeatSpec::CELLS_MAX]),
            cells: draw.between(1, 400) as u16,
            damaged: draw.percent(50),
        };
        transfer.repeats = (0..4).map(repeat).collect();
        transfer.repeats.sort_by_key(|repeat| repeat.at_ns);
    }
}
