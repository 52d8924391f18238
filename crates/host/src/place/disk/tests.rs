use std::collections::BTreeMap;

use rustix::io::Errno;

use super::*;

/// What somebody may have at a name.
#[derive(Clone, Debug, PartialEq)]
enum Thing {
    File(Vec<u8>),
    Directory,
}

/// A disk that fails as it is drawn to.
struct Simulated {
    things: BTreeMap<String, Thing>,
    /// Octets that it has room for.
    room: usize,
    /// Operations until the process is killed.
    life: u32,
    seed: u64,
}

const NAME: &str = "kept";
const DEAD: Errno = Errno::INTR;

impl Simulated {
    fn new(seed: u64) -> Self {
        Self {
            things: BTreeMap::new(),
            room: 1_000,
            life: u32::MAX,
            seed,
        }
    }

    /// SplitMix64.
    fn draw(&mut self, below: u64) -> u64 {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.seed;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % below
    }

    fn lives(&mut self) -> io::Result<()> {
        self.life = self.life.checked_sub(1).ok_or(DEAD)?;
        Ok(())
    }

    fn used(&self) -> usize {
        let len = |thing: &Thing| match thing {
            Thing::File(octets) => octets.len(),
            Thing::Directory => 0,
        };
        self.things.values().map(len).sum()
    }
}

impl Disk for Simulated {
    fn read(&mut self, name: &str, max: u64) -> io::Result<Vec<u8>> {
        match self.things.get(name) {
            Some(Thing::File(octets)) => {
                let max = usize::try_from(max).unwrap_or(usize::MAX);
                Ok(octets[..octets.len().min(max)].to_vec())
            }
            Some(Thing::Directory) => Err(Errno::ISDIR.into()),
            None => Err(Errno::NOENT.into()),
        }
    }

    fn create(&mut self, name: &str, octets: &[u8]) -> io::Result<()> {
        self.lives()?;
        if self.things.contains_key(name) {
            return Err(Errno::EXIST.into());
        }
        let fits = self.room.saturating_sub(self.used()).min(octets.len());
        // Killed in the middle of it, it leaves a part.
        let written = match self.life {
            0 => self.draw(fits as u64 + 1) as usize,
            _ => fits,
        };
        let part = octets[..written].to_vec();
        self.things.insert(name.to_owned(), Thing::File(part));
        match (self.life, written == octets.len()) {
            (0, _) => Err(DEAD.into()),
            (_, true) => Ok(()),
            (_, false) => Err(Errno::NOSPC.into()),
        }
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        self.lives()?;
        if self.things.get(to) == Some(&Thing::Directory) {
            return Err(Errno::ISDIR.into());
        }
        let thing = self.things.remove(from).ok_or(Errno::NOENT)?;
        self.things.insert(to.to_owned(), thing);
        Ok(())
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.lives()?;
        match self.things.get(name) {
            Some(Thing::File(_)) => drop(self.things.remove(name)),
            Some(Thing::Directory) => return Err(Errno::ISDIR.into()),
            None => return Err(Errno::NOENT.into()),
        }
        Ok(())
    }
}

/// A disk's day: it fills up, loses files, has things planted, and its daemon is killed.
fn one_day(seed: u64) {
    let mut disk = Simulated::new(seed);
    let mut keeping = Keeping::new(NAME);
    let mut now = Time::ZERO;
    let mut versions: Vec<Vec<u8>> = Vec::new();
    for step in 0..40_u8 {
        now = now.plus_ns(AGAIN_NS);
        match disk.draw(8) {
            0 => disk.room = disk.draw(600) as usize,
            1 => drop(disk.things.remove(NAME)),
            2 => drop(
                disk.things
                    .insert(".kept.new".into(), Thing::File(vec![0; 90])),
            ),
            3 => drop(disk.things.insert(".kept.new".into(), Thing::Directory)),
            4 => drop(disk.things.remove(".kept.new")),
            5 => disk.life = disk.draw(5) as u32,
            _ => {}
        }
        let version = vec![step; 1 + disk.draw(400) as usize];
        keeping.keep(now, version.clone());
        let before = disk.things.get(NAME).cloned();
        versions.push(version);
        keeping.look(now, &mut disk);
        let after = disk.things.get(NAME).cloned();
        let kept = after == versions.last().cloned().map(Thing::File);
        assert!(kept || after == before, "seed {seed}, step {step}: torn");
        if disk.life == 0 {
            (disk.life, keeping) = (u32::MAX, Keeping::new(NAME));
            continue;
        }
        let told = keeping.problem().is_some();
        assert_eq!(told, !kept, "seed {seed}, step {step}: untold");
        let rest = disk.things.get(".kept.new");
        let planted = rest == Some(&Thing::Directory);
        assert!(
            rest.is_none() || planted,
            "seed {seed}, step {step}: a rest"
        );
    }
    (disk.room, disk.life) = (1_000, u32::MAX);
    disk.things.retain(|_, thing| *thing != Thing::Directory);
    keeping.keep(now, vec![7]);
    keeping.look(now.plus_ns(AGAIN_NS), &mut disk);
    assert_eq!(disk.read(NAME, 9).unwrap(), [7], "seed {seed}");
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
    let mut disk = Simulated::new(1);
    disk.room = 3;
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
