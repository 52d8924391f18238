//! `cellgate bench queue`: a queue of descriptors between two CPUs, beside DPDK's ring.
//!
//! ```text
//! producer, last CPU --- 32, 8 or 1 descriptors of 16 octets at once ---> consumer, first CPU
//!                    <-- how many were taken ---------------------------
//! ```

use std::ffi::{OsStr, OsString};
use std::hint::spin_loop;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::ensure;
use cellgate_core::adapter::Region;
use cellgate_core::queue::layout::TRANSMIT_DESCRIPTOR_LEN;
use cellgate_core::queue::{ConnectionGeometry, Consumer, Producer, queue};
use cellgate_host::client::memory_for;
use cellgate_host::sys::pin_thread;
use cellgate_report::output::Exit;
use cellgate_shm::{ClientMemory, ConnectionMemory, ReceiveBuffer};
use cellgate_simd::{Fold, Kernel, with_features};

use super::cpus::{Cpus, be_prompt, round_trip};
use super::measure::{Contestant, ticks};
use super::process::Process;
use super::report::Report;
use crate::live::spread::Spread;

/// Descriptors that are handed over at once. The first is judged.
const BULKS: [usize; 3] = [32, 8, 1];
/// Slots of either queue.
const SLOTS: u32 = 1_024;
/// Descriptors of a pass: whole bulks of each size, and short beside what others are given of a
/// CPU.
const DESCRIPTORS: usize = 1 << 16;

/// Hand descriptors over between two CPUs, beside DPDK's rte_ring
#[derive(clap::Args)]
#[group(skip)]
pub(super) struct Args {
    #[command(flatten)]
    shared: super::Args,
    /// Program that hands elements over by DPDK's ring, built from peers/rte_ring.c
    #[arg(long, value_name = "PROGRAM")]
    peer: Option<OsString>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let mut report = Report::new("queue", args.shared.quick);
    let cpus = Cpus::allowed()?;
    if !cpus.are_two() {
        report.note("skipped: this machine has one CPU, and a queue between two takes two");
        return report.finish(args.shared.json);
    }
    let (descriptors, repeats) = match args.shared.quick {
        true => (DESCRIPTORS / 4, 3),
        false => (DESCRIPTORS, 101),
    };
    be_prompt();
    let mut spins = Vec::new();
    for bulk in BULKS {
        let peer = args.peer.as_deref();
        let peer = peer.map(|program| ring(program, bulk, descriptors, cpus));
        pin_thread(cpus.first)?;
        measure(
            &mut report,
            bulk,
            descriptors,
            repeats,
            cpus,
            peer.transpose()?,
        )?;
        spins.push(round_trip(cpus) * report.ns_per_tick());
    }
    let spin = Spread::of(spins).median;
    report.value("spin round trip of a word between the CPUs", "ns", spin);
    report.note(
        "a cell is a descriptor here: two words, written by the producer, copied into the queue \
         and out of it, and added up by the consumer",
    );
    report.note(
        "both queues take a bulk as a whole or not at all, and pause before they try again; ours \
         checks the other side's index whenever it reads it, and lies in two files, of which each \
         side can write one alone; both are compiled for the CPU's best instructions",
    );
    report.finish(args.shared.json)
}

/// Both queues in turn, or ours alone.
fn measure(
    report: &mut Report,
    bulk: usize,
    descriptors: usize,
    repeats: usize,
    cpus: Cpus,
    mut peer: Option<Process>,
) -> anyhow::Result<()> {
    let mut ours = Ours::new(bulk, descriptors, cpus)?;
    let name = format!("descriptor queue, bulks of {bulk}");
    let mut contestants = vec![Contestant::new(name, descriptors, || ours.pass())];
    if let Some(peer) = &mut peer {
        let name = format!("DPDK rte_ring, SP/SC, bulks of {bulk}");
        contestants.push(Contestant::new(name, descriptors, || {
            peer.round_judged(|sum| {
                ensure!(sum == sum_of(descriptors), "rte_ring: elements were lost");
                Ok(())
            })
        }));
    }
    let times = report.take_turns(contestants, repeats);
    ours.ensure()?;
    if let (Some(peer), [mine, theirs]) = (peer, &times[..]) {
        peer.end()?;
        let ratio = report.ratio(mine, theirs).median;
        if bulk == BULKS[0] {
            let name = format!("descriptor queue over rte_ring, bulks of {bulk}");
            report.ratio_at_most(name, ratio, 1.0);
        }
    }
    Ok(())
}

/// DPDK's ring, in a process of its own; what comes of a round is the sum of all words.
fn ring(program: &OsStr, bulk: usize, descriptors: usize, cpus: Cpus) -> anyhow::Result<Process> {
    let args = [bulk, descriptors, SLOTS as usize, cpus.first, cpus.last];
    Process::spawn(program, &args.map(|number| number.to_string()))
}

/// The words of the descriptors from 1 on, added up as their consumer does.
fn sum_of(descriptors: usize) -> u64 {
    (1..=descriptors as u64)
        .map(|number| number + 3 * number)
        .sum()
}

/// Writes descriptors from `number` on: a number, and three times that.
#[inline(always)]
fn fill(slots: &mut [u8], number: u64) {
    let (slots, _) = slots.as_chunks_mut::<TRANSMIT_DESCRIPTOR_LEN>();
    for (number, slot) in (number..).zip(slots) {
        slot[..8].copy_from_slice(&number.to_le_bytes());
        slot[8..].copy_from_slice(&(3 * number).to_le_bytes());
    }
}

/// Adds the words of descriptors up.
#[inline(always)]
fn add(slots: &[u8], sum: u64) -> u64 {
    let (words, _) = slots.as_chunks::<8>();
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    words.fold(sum, u64::wrapping_add)
}

/// A connection's transmit queue, on memory files mapped as for two processes.
struct Ours {
    client: ClientMemory,
    adapter: ConnectionMemory,
    producer: Producer<queue::Transmit>,
    consumer: Consumer<queue::Transmit>,
    bulk: usize,
    descriptors: usize,
    cpus: Cpus,
    /// Passes whose words came to another sum.
    wrong: u32,
}

/// What the producer and the consumer tell each other before a pass.
const READY: u32 = 1;
const GO: u32 = 2;

impl Ours {
    fn new(bulk: usize, descriptors: usize, cpus: Cpus) -> anyhow::Result<Self> {
        let geometry = ConnectionGeometry::new(memory_for(1, 0, SLOTS))?;
        let (adapter, files) = ConnectionMemory::create(&geometry, 1, 0, ReceiveBuffer::Own)?;
        let client = ClientMemory::open(&files, &geometry, 1, ReceiveBuffer::Own)?;
        Ok(Self {
            client,
            adapter,
            producer: Producer::new(SLOTS),
            consumer: Consumer::new(SLOTS),
            bulk,
            descriptors,
            cpus,
            wrong: 0,
        })
    }

    /// Hands all descriptors over: the ticks from the word to the producer until the consumer,
    /// which is this thread, has the last.
    fn pass(&mut self) -> u64 {
        let (bulk, descriptors, cpu) = (self.bulk, self.descriptors, self.cpus.last);
        let produce = Produce {
            client: &mut self.client,
            producer: &mut self.producer,
            bulk,
            descriptors,
        };
        let consume = Consume {
            adapter: &self.adapter,
            consumer: &mut self.consumer,
            bulk,
            descriptors,
        };
        let word = AtomicU32::new(0);
        let (ticks, sum) = std::thread::scope(|scope| {
            scope.spawn(|| {
                // Elsewhere it is no worse a producer, and the spin round trip shows it.
                let _ = pin_thread(cpu);
                word.store(READY, Ordering::Release);
                await_word(&word, GO);
                with_features(produce);
            });
            await_word(&word, READY);
            let from = ticks();
            word.store(GO, Ordering::Release);
            let sum = with_features(consume);
            (ticks() - from, sum)
        });
        self.wrong += u32::from(sum != sum_of(descriptors));
        ticks
    }

    /// Fails unless every pass had every descriptor.
    fn ensure(&self) -> anyhow::Result<()> {
        let faults = (self.producer.faults(), self.consumer.faults());
        ensure!(self.wrong == 0, "{} passes had others' words", self.wrong);
        ensure!(faults == (0, 0), "indices that cannot be: {faults:?}");
        Ok(())
    }
}

fn await_word(word: &AtomicU32, wanted: u32) {
    while word.load(Ordering::Acquire) != wanted {
        spin_loop();
    }
}

/// The producer's part of a pass.
struct Produce<'a> {
    /// One thread's alone, whoever may only read it.
    client: &'a mut ClientMemory,
    producer: &'a mut Producer<queue::Transmit>,
    bulk: usize,
    descriptors: usize,
}

impl Kernel for Produce<'_> {
    type Output = ();

    #[inline(always)]
    fn run<F: Fold>(self, _fold: F) {
        let (mine, peer) = (self.client.from_client(), self.client.from_adapter());
        let mut slots = [0; BULKS[0] * TRANSMIT_DESCRIPTOR_LEN];
        let slots = &mut slots[..self.bulk * TRANSMIT_DESCRIPTOR_LEN];
        let wanted = self.bulk as u32;
        for number in (1..=self.descriptors as u64).step_by(self.bulk) {
            fill(slots, number);
            while self.producer.free(peer, wanted) < wanted {
                spin_loop();
            }
            // There is room for all.
            let _all = self.producer.push_batch(mine, peer, slots);
        }
    }
}

/// The consumer's part of a pass; the output is the sum of all words.
struct Consume<'a> {
    adapter: &'a ConnectionMemory,
    consumer: &'a mut Consumer<queue::Transmit>,
    bulk: usize,
    descriptors: usize,
}

impl Kernel for Consume<'_> {
    type Output = u64;

    #[inline(always)]
    fn run<F: Fold>(self, _fold: F) -> u64 {
        let (mine, peer) = (self.adapter.from_adapter(), self.adapter.from_client());
        let mut slots = [0; BULKS[0] * TRANSMIT_DESCRIPTOR_LEN];
        let slots = &mut slots[..self.bulk * TRANSMIT_DESCRIPTOR_LEN];
        let wanted = self.bulk as u32;
        let mut sum = 0;
        for _ in (0..self.descriptors).step_by(self.bulk) {
            while self.consumer.available(peer, wanted) < wanted {
                spin_loop();
            }
            self.consumer.pop_seen(mine, peer, slots);
            sum = add(slots, sum);
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_that_is_lost_or_comes_twice_changes_the_sum() {
        let mut slots = [0; 4 * TRANSMIT_DESCRIPTOR_LEN];
        fill(&mut slots, 1);
        assert_eq!(add(&slots, 0), sum_of(4));
        let len = TRANSMIT_DESCRIPTOR_LEN;
        assert_ne!(add(&slots[len..], 0), sum_of(4));
        slots.copy_within(..len, len);
        assert_ne!(add(&slots, 0), sum_of(4));
    }

    #[test]
    fn all_descriptors_of_a_pass_arrive_whatever_the_bulk() {
        let cpus = Cpus::allowed().unwrap();
        if !cpus.are_two() {
            return println!("skipped queue: one CPU");
        }
        for bulk in BULKS {
            let mut ours = Ours::new(bulk, 8 * SLOTS as usize, cpus).unwrap();
            ours.pass();
            ours.pass();
            ours.ensure().unwrap();
        }
    }
}
