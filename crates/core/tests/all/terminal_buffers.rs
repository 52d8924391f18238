//! The common buffer against lists of faults: whatever happens to PDUs and cells on their way, no
//! acknowledged octet changes, and in the end the file is there.
//!
//! A seed again: `CELLGATE_SEED=7`. A million: `CELLGATE_LISTS=1000000 cargo test --release
//! -p cellgate-core --test all terminal_buffers -- --nocapture`.

use std::sync::Arc;

use cellgate_core::aal::tree::{Place, Tree};
use cellgate_core::contract::Aal;
use cellgate_core::terminal::{
    Arq, Demultiplexer, Discard, Multiplexer, Outcome, Pci, Pointers, ReceiveBuffer, Terms,
    TransmitBuffer,
};
use rand_pcg::Pcg64Mcg;

use super::terminal_stack::*;

/// A PDU as the sender plans it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Plan {
    place: Place,
    offset: u64,
    length: u16,
}

/// What happens to a PDU on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Lost,
    Duplicated,
    /// It comes behind all others of its turn.
    Late,
    /// One to three bits of the PCI.
    HeaderDamaged,
    StaleRun,
    OtherTransfer,
    FarSequence,
    FarOffset,
    /// One cell is lost, comes twice, is damaged, changes places with the one before.
    CellLost,
    CellTwice,
    CellDamaged,
    CellsSwapped,
    /// A wrong place with a right check (AAL5).
    Forged,
}

const FAULTS: [Fault; 13] = [
    Fault::Lost,
    Fault::Duplicated,
    Fault::Late,
    Fault::HeaderDamaged,
    Fault::StaleRun,
    Fault::OtherTransfer,
    Fault::FarSequence,
    Fault::FarOffset,
    Fault::CellLost,
    Fault::CellTwice,
    Fault::CellDamaged,
    Fault::CellsSwapped,
    Fault::Forged,
];

/// What arrives of a PDU.
#[derive(Clone)]
enum Arrival {
    Sdu(Vec<u8>),
    Cells(Vec<Payload>),
}

struct Trial<'a> {
    rng: Pcg64Mcg,
    aal: Aal,
    cells: bool,
    /// Faults to come.
    faults: u64,
    start: u64,
    file: Vec<u8>,
    plan: Vec<Plan>,
    /// Where disk-PDUs begin and end.
    disks: Vec<(u64, u64)>,
    transmit: TransmitBuffer<File>,
    receive: ReceiveBuffer<Watched>,
    mux: Multiplexer,
    demux: Demultiplexer,
    tallies: &'a mut Tallies,
}

/// What all trials have seen, so that none of it is missed.
#[derive(Default)]
struct Tallies {
    faults: [u64; FAULTS.len()],
    discards: [u64; Discard::ALL.len()],
    acknowledged: u64,
    behind_a_gap: u64,
}

impl<'a> Trial<'a> {
    fn new(seed: u64, trees: &[Arc<Tree>], tallies: &'a mut Tallies) -> Self {
        // The generator wants an odd number; near ones would begin alike.
        let state = u128::from(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        let mut rng = Pcg64Mcg::new(state << 1 | 1);
        let rng = &mut rng;
        let tree = trees[below(rng, trees.len() as u64) as usize].clone();
        let start = below(rng, 1 << 40);
        // Disk-PDUs with holes between them.
        let (mut disks, mut at) = (Vec::new(), start);
        for _ in 0..=below(rng, 3) {
            at += below(rng, 2) * below(rng, 50);
            let end = at + below(rng, 200);
            disks.push((at, end));
            at = end;
        }
        let file = random(rng, (at - start) as usize);
        let terms = Terms {
            transfer: below(rng, 1 << 16) as u16,
            run: below(rng, 1 << 32) as u32,
            arq: [Arq::Selective, Arq::GoBackN][below(rng, 2) as usize],
            window: 1 + below(rng, 8) as u32,
            start,
            end: at,
        };
        let source = File {
            start,
            octets: file.clone(),
        };
        let watched = Watched::new(start, file.len());
        let mut trial = Self {
            aal: tree.aal(),
            cells: below(rng, 2) == 0,
            faults: below(rng, 24),
            start,
            file,
            plan: Vec::new(),
            disks,
            transmit: TransmitBuffer::new(&tree, terms, source),
            receive: ReceiveBuffer::new(&tree, terms, watched),
            mux: Multiplexer::new(tree.clone(), MID).unwrap(),
            demux: Demultiplexer::new(tree, 0).unwrap(),
            rng: rng.clone(),
            tallies,
        };
        trial.plan();
        trial
    }

    fn below(&mut self, n: u64) -> u64 {
        below(&mut self.rng, n)
    }

    /// Plans the PDUs.
    fn plan(&mut self) {
        let (mut disk, mut at) = (0, self.disks[0].0);
        let mut first = true;
        while let Some((_, end)) = self.disks.get(disk).copied() {
            let length = below(&mut self.rng, 70).min(end - at) as u16;
            let last = at + u64::from(length) == end && below(&mut self.rng, 4) > 0;
            let place = Place::new(first, last);
            self.plan.push(Plan {
                place,
                offset: at,
                length,
            });
            at += u64::from(length);
            first = last;
            if last {
                disk += 1;
                at = self.disks.get(disk).map_or(at, |disk| disk.0);
            }
        }
    }

    /// The disk-PDU that PDU `sequence` is of.
    fn disk(&self, sequence: usize) -> u8 {
        let before = &self.plan[..sequence];
        before.iter().filter(|plan| plan.place.is_last()).count() as u8
    }

    fn run(&mut self) {
        let mut turns = 0;
        let mut again = Vec::new();
        while self.transmit.pointers().a2 < self.plan.len() as u64 {
            turns += 1;
            assert!(turns < 2_000, "stuck");
            let edge = self.start + self.below(self.file.len() as u64 + 60);
            self.receive
                .open_to(if turns % 4 == 0 { u64::MAX } else { edge });
            self.transmit.open_to(self.receive.pointers().edge);
            let mut arrivals = Vec::new();
            let mut late = Vec::new();
            for sequence in std::mem::take(&mut again) {
                self.send(sequence, &mut arrivals, &mut late);
            }
            while let Some(sequence) = self.cut() {
                self.send(sequence, &mut arrivals, &mut late);
            }
            for arrival in arrivals.into_iter().chain(late) {
                self.arrive(&arrival);
            }
            self.acknowledge();
            if self.faults > 0 && self.below(5) == 0 {
                continue;
            }
            let a2 = self.receive.pointers().a2;
            let before = self.transmit.pointers().a2;
            let new = self.transmit.handle_acknowledged(a2 as u32);
            assert_eq!(new, Some(a2 - before));
            self.check_transmitter();
            // With go-back-N nothing is held.
            let held: Vec<_> = self
                .receive
                .held()
                .flat_map(|held| held.sequences.clone())
                .collect();
            let Pointers { a2, w2, .. } = self.transmit.pointers();
            again = (a2..w2)
                .filter(|sequence| !held.contains(sequence))
                .collect();
        }
        self.check_file();
    }

    /// Cuts the next planned PDU, if there is room.
    fn cut(&mut self) -> Option<u64> {
        let next = self.transmit.pointers().w2 as usize;
        let Plan {
            place,
            offset,
            length,
        } = *self.plan.get(next)?;
        let disk = self.disk(next);
        let (header, tail) = self.transmit.disk_mut();
        header.fill(disk);
        tail.fill(!disk);
        let sequence = self.transmit.cut(place, offset, length)?;
        assert_eq!(sequence, next as u64);
        self.check_transmitter();
        Some(sequence)
    }

    fn check_transmitter(&self) {
        check(&self.transmit.pointers(), self.transmit.terms());
    }

    /// Sends a PDU through the faults.
    fn send(&mut self, sequence: u64, arrivals: &mut Vec<Arrival>, late: &mut Vec<Arrival>) {
        let Plan { offset, length, .. } = self.plan[sequence as usize];
        let pci = self.transmit.pci(sequence).unwrap();
        assert_eq!(
            (pci.offset, pci.length),
            (offset, length),
            "a PDU keeps its place"
        );
        let arrival = if self.cells {
            Arrival::Cells(multiplex(&mut self.mux, &mut self.transmit, sequence))
        } else {
            let mut sdu = vec![0; 300];
            let len = self
                .mux
                .sdu(&mut self.transmit, sequence, &mut sdu)
                .unwrap();
            sdu.truncate(len.into());
            Arrival::Sdu(sdu)
        };
        if self.faults == 0 || self.below(3) > 0 {
            return arrivals.push(arrival);
        }
        self.faults -= 1;
        let at = self.below(FAULTS.len() as u64) as usize;
        self.tallies.faults[at] += 1;
        match FAULTS[at] {
            Fault::Lost => {}
            Fault::Duplicated => {
                arrivals.push(arrival.clone());
                late.push(arrival);
            }
            Fault::Late => late.push(arrival),
            fault => arrivals.push(self.damaged(fault, arrival, pci)),
        }
    }

    fn damaged(&mut self, fault: Fault, mut arrival: Arrival, good: Pci) -> Arrival {
        let far = 1 + self.below(1 << 32);
        let forged = match fault {
            Fault::StaleRun => Pci {
                run: good.run.wrapping_sub(1 + far as u32 / 2),
                ..good
            },
            Fault::OtherTransfer => Pci {
                transfer: good.transfer ^ 1,
                ..good
            },
            Fault::FarSequence => Pci {
                sequence: good.sequence.wrapping_add(16 + far as u32 % (1 << 22)),
                ..good
            },
            Fault::FarOffset => Pci {
                offset: good.offset + self.file.len() as u64 + far,
                ..good
            },
            Fault::Forged => {
                let offset = good.offset.wrapping_add(self.below(400)).wrapping_sub(200);
                let sequence = good
                    .sequence
                    .wrapping_add(self.below(9) as u32)
                    .wrapping_sub(4);
                let length = self.below(70) as u16;
                Pci {
                    offset,
                    sequence,
                    length,
                    ..good
                }
            }
            _ => good,
        };
        match &mut arrival {
            Arrival::Sdu(sdu) => match fault {
                // A PDU that an adapter hands over has a right CRC, so it has a right place.
                Fault::Forged | Fault::HeaderDamaged => self.flip(&mut sdu[..24]),
                _ => sdu[..24].copy_from_slice(&forged.emit()),
            },
            Arrival::Cells(cells) => {
                let at = self.below(cells.len() as u64) as usize;
                let opening = if self.aal == Aal::Aal5 { 0..24 } else { 6..30 };
                match fault {
                    Fault::HeaderDamaged => self.flip(&mut cells[0].0[opening]),
                    Fault::CellLost => drop(cells.remove(at)),
                    Fault::CellTwice => cells.insert(at, cells[at]),
                    Fault::CellDamaged => self.flip(&mut cells[at].0),
                    Fault::CellsSwapped => cells.swap(at, at.saturating_sub(1)),
                    // AAL5's CRC is not made anew, nor is that of the AAL3/4 cell.
                    _ => cells[0].0[opening].copy_from_slice(&forged.emit()),
                }
            }
        }
        arrival
    }

    /// One to three wrong bits.
    fn flip(&mut self, octets: &mut [u8]) {
        let bits = 8 * octets.len() as u64;
        let mut wrong: Vec<_> = (0..=self.below(3)).map(|_| self.below(bits)).collect();
        wrong.sort_unstable();
        wrong.dedup();
        for bit in wrong {
            octets[bit as usize / 8] ^= 1 << (bit % 8);
        }
    }

    /// Lets the receiver take what arrives; the store says where nothing may be written.
    fn arrive(&mut self, arrival: &Arrival) {
        let openings: Vec<&[u8]> = match arrival {
            Arrival::Sdu(sdu) => vec![&sdu[..24]],
            Arrival::Cells(cells) => {
                let at = if self.aal == Aal::Aal5 { 0..24 } else { 6..30 };
                cells.iter().map(|cell| &cell.0[at.clone()]).collect()
            }
        };
        let own = |octets: &&[u8]| {
            let pci = Pci::parse(octets.first_chunk()?).ok()?;
            Some(pci.offset..pci.end()?)
        };
        self.protect();
        let store = self.receive.store_mut();
        // Of a PDU that is still in progress the extent may still be written.
        if self.demux.counts().held == 0 {
            store.allowed.clear();
        }
        store.allowed.extend(openings.iter().filter_map(own));
        match arrival {
            Arrival::Sdu(sdu) => {
                let outcome = self.demux.sdu(sdu, &mut self.receive);
                self.after(outcome);
            }
            Arrival::Cells(cells) => {
                for cell in cells {
                    let one = std::slice::from_ref(cell);
                    let outcomes = demultiplex(&mut self.demux, self.aal, one, &mut self.receive);
                    self.after(outcomes[0]);
                }
            }
        }
        if self.below(3) == 0 {
            self.acknowledge();
        }
    }

    /// Tells the store what is held: with go-back-N it may be thrown away at any cell.
    fn protect(&mut self) {
        let held = self.receive.held().map(|held| held.octets.clone());
        let keeps = self.receive.terms().arq == Arq::Selective;
        let held = held.filter(|_| keeps).collect();
        self.receive.store_mut().held = held;
    }

    fn after(&mut self, outcome: Outcome) {
        let pointers = self.receive.pointers();
        check(&pointers, self.receive.terms());
        match outcome {
            Outcome::Complete(pci) => {
                let sequence = (0..self.plan.len())
                    .find(|n| *n as u32 == pci.sequence)
                    .unwrap();
                let Plan {
                    place,
                    offset,
                    length,
                } = self.plan[sequence];
                assert_eq!((pci.place, pci.offset, pci.length), (place, offset, length));
                self.tallies.behind_a_gap += u64::from(self.receive.held().count() > 1);
                self.protect();
            }
            Outcome::Discarded(reason, _) => {
                assert!(self.demux.counts().discarded(reason) > 0);
            }
            Outcome::Held | Outcome::Skipped(_) => {}
            Outcome::Control(pci) => panic!("{pci:?}"),
        }
        assert!(self.receive.held().count() <= self.receive.terms().window as usize);
    }

    /// Makes final what can be; what is final must be the file's.
    fn acknowledge(&mut self) {
        while let Some(acknowledged) = self.receive.acknowledge() {
            let Pointers { a2, ap, w3, .. } = self.receive.pointers();
            let sequence = acknowledged.sequence as usize;
            let Plan {
                place,
                offset,
                length,
            } = self.plan[sequence];
            let end = offset + u64::from(length);
            assert_eq!((a2, ap), (acknowledged.sequence + 1, end));
            let octets = (offset - self.start) as usize..(end - self.start) as usize;
            assert_eq!(
                self.receive.store().octets[octets.clone()],
                self.file[octets]
            );
            let disk = self.disk(sequence);
            let (header, tail) = self.receive.disk();
            assert!(
                header.iter().all(|octet| *octet == disk),
                "header of {disk}: {header:?}"
            );
            if place.is_last() {
                assert_eq!(w3, header.len() + tail.len());
                assert!(
                    tail.iter().all(|octet| *octet == !disk),
                    "tail of {disk}: {tail:?}"
                );
            } else {
                assert_eq!(w3, header.len());
            }
            self.receive.store_mut().acknowledged = ap;
            self.tallies.acknowledged += 1;
            check(&self.receive.pointers(), self.receive.terms());
        }
    }

    /// Disk-PDUs are the file's; of what was thrown away nothing is missing in the counters.
    fn check_file(&mut self) {
        for reason in Discard::ALL {
            self.tallies.discards[reason as usize] += self.demux.counts().cells(reason);
        }
        let mut expected = vec![0xee; self.file.len()];
        for (from, to) in &self.disks {
            let octets = (from - self.start) as usize..(to - self.start) as usize;
            expected[octets.clone()].copy_from_slice(&self.file[octets]);
        }
        // A forged PCI may have had a hole written to, before its PDU was found to be damaged.
        let store = self.receive.store();
        for (i, octet) in expected.iter().enumerate() {
            let hole = !self
                .disks
                .iter()
                .any(|disk| (disk.0..disk.1).contains(&(self.start + i as u64)));
            assert!(hole || store.octets[i] == *octet, "octet {i}");
            assert!(hole || store.writes[i] > 0, "octet {i}");
        }
    }
}

fn check(pointers: &Pointers, terms: &Terms) {
    let Pointers {
        a2,
        w2,
        ap,
        wp,
        p,
        edge,
        end,
        ..
    } = *pointers;
    assert!(
        terms.start <= ap && ap <= wp && wp <= p && p <= edge && edge <= end,
        "{pointers:?}"
    );
    assert!(
        a2 <= w2 && w2 <= a2 + u64::from(terms.window),
        "{pointers:?}"
    );
}

/// Prints the seed of a trial that panics.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("CELLGATE_SEED={}", self.0);
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "whoever looks for a bug gives the seed"
)]
fn seeds() -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok()?.parse::<u64>().ok();
    let lists = 0..number("CELLGATE_LISTS").unwrap_or(10_000);
    number("CELLGATE_SEED").map_or(lists, |seed| seed..seed + 1)
}

#[test]
fn whatever_happens_on_the_way_no_acknowledged_octet_changes() {
    let lengths = [(0, 0), (24, 40), (48, 48), (3, 1)];
    let trees: Vec<_> = [Aal::Aal5, Aal::Aal34]
        .into_iter()
        .flat_map(|aal| lengths.map(|(header, tail)| tree(aal, header, tail)))
        .collect();
    let mut tallies = Tallies::default();
    let seeds = seeds();
    for seed in seeds.clone() {
        let _seed = Seed(seed);
        Trial::new(seed, &trees, &mut tallies).run();
    }
    let lists = seeds.end - seeds.start;
    println!(
        "{lists} lists, {} PDUs acknowledged; cells discarded:",
        tallies.acknowledged
    );
    let unseen = [
        Discard::UnknownHeader,
        Discard::Aborted,
        Discard::Oversized,
        Discard::Abandoned,
    ];
    for reason in Discard::ALL
        .into_iter()
        .filter(|reason| !unseen.contains(reason))
    {
        let cells = tallies.discards[reason as usize];
        println!("{:>10} {}", cells, reason.name());
        assert!(cells > 0 || lists < 1_000, "no {}", reason.name());
    }
    assert!(lists < 1_000 || tallies.faults.iter().all(|n| *n > 0));
    assert!(lists < 1_000 || tallies.behind_a_gap > 0);
}
