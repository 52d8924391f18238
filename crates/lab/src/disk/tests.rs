use cellgate_core::Time;
use cellgate_core::server::{Disk, Keeping};

use super::{SimulatedDisk, Thing};
use crate::generate::Draw;

const NAME: &str = "kept";
const NEW: &str = ".kept.new";
/// From one attempt to write to the next.
const AGAIN_NS: u64 = 10_000_000_000;

/// A disk's day: it fills up, loses files, has things planted, and its daemon is killed.
fn one_day(seed: u64) {
    let mut draw = Draw::new(seed);
    let mut disk = SimulatedDisk::default();
    let mut keeping = Keeping::new(NAME);
    let mut now = Time::ZERO;
    for step in 0..40_u8 {
        now = now.plus_ns(AGAIN_NS);
        match draw.below(8) {
            0 => disk.room = draw.below(600) as usize,
            1 => drop(disk.things.remove(NAME)),
            2 => drop(disk.things.insert(NEW.into(), Thing::File(vec![0; 90]))),
            3 => {
                let things = [&Thing::Directory, &Thing::Link, &Thing::Socket];
                drop(disk.things.insert(NEW.into(), draw.pick(&things).clone()));
            }
            4 => drop(disk.things.remove(NEW)),
            5 => (disk.life, disk.torn) = (draw.between(1, 5) as u32, draw.below(400) as usize),
            _ => {}
        }
        let version = vec![step; 1 + draw.below(400) as usize];
        keeping.keep(now, version.clone());
        let before = disk.things.get(NAME).cloned();
        keeping.look(now, &mut disk);
        let after = disk.things.get(NAME).cloned();
        let kept = after == Some(Thing::File(version));
        assert!(kept || after == before, "seed {seed}, step {step}: torn");
        if disk.has_killed() {
            (disk.life, keeping) = (u32::MAX, Keeping::new(NAME));
            continue;
        }
        let told = keeping.problem().is_some();
        assert_eq!(told, !kept, "seed {seed}, step {step}: untold");
        let rest = disk.things.get(NEW);
        let planted = rest == Some(&Thing::Directory);
        assert!(
            rest.is_none() || planted,
            "seed {seed}, step {step}: a rest"
        );
    }
    (disk.room, disk.life) = (usize::MAX, u32::MAX);
    disk.things.retain(|_, thing| *thing != Thing::Directory);
    keeping.keep(now, vec![7]);
    keeping.look(now.plus_ns(AGAIN_NS), &mut disk);
    assert_eq!(disk.file(NAME), Some(&[7][..]), "seed {seed}");
    assert_eq!(
        (disk.things.len(), keeping.problem()),
        (1, None),
        "seed {seed}"
    );
}

#[test]
fn what_is_kept_is_whole_or_as_it_was_whatever_becomes_of_the_disk() {
    for seed in 0..20_000 {
        one_day(seed);
    }
}

#[test]
fn what_a_full_disk_refused_is_tried_again() {
    let mut disk = SimulatedDisk::default();
    let mut keeping = Keeping::new(NAME);
    keeping.keep(Time::ZERO, vec![1; 4]);
    let looks = [(0, 3), (AGAIN_NS - 1, 9), (AGAIN_NS, 9), (AGAIN_NS, 9)];
    let problems = looks.map(|(ns, room)| {
        disk.room = room;
        keeping.look(Time::ZERO.plus_ns(ns), &mut disk);
        keeping.problem().is_some()
    });
    assert_eq!(problems, [true, true, false, false]);
    assert_eq!(disk.read(NAME, 9).unwrap(), [1; 4]);
}
