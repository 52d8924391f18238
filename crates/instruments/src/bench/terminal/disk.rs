//! One buffer B(4) and two before a file on a disk (section 3.2).
//!
//! ```text
//!   cells --> kernel --> B(4), 1 MiB --> a thread: write, fdatasync --> the file
//! ```
//!
//! One buffer is filled or written, of two one is filled while the other is written.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use anyhow::{Context, ensure};
use cellgate_report::Panel;

use super::pair::{DISK_LEN, Memory, Pair, Spec, TRANSFER};
use super::plot;
use crate::bench::measure::{Contestant, Sizes, Times, ticks};
use crate::bench::report::Report;

/// Disk-PDUs of a pass.
const DISK_PDUS: usize = 16;
/// The file is written again from the front behind so many.
const FILE_DISK_PDUS: u64 = 64;

pub(super) fn run(
    report: &mut Report,
    sizes: Sizes,
    directory: Option<&Path>,
) -> anyhow::Result<Panel> {
    let temporary = std::env::temp_dir();
    let path = directory.unwrap_or(&temporary);
    let path = path.join(format!(".cellgate-bench-{}", std::process::id()));
    let file = File::create_new(&path).with_context(|| path.display().to_string())?;
    // Open, it is there until all of this is over, whatever becomes of it.
    std::fs::remove_file(&path)?;
    let mut writer = Writer::new(&file)?;
    for at in 0..FILE_DISK_PDUS {
        writer.write(at, vec![0; DISK_LEN as usize])?;
        writer.wait()?;
    }
    let mut ends = [(1, true), (2, true), (2, false)]
        .into_iter()
        .map(|(buffers, writes)| {
            let writer = writes.then(|| Writer::new(&file)).transpose()?;
            Receiving::new(buffers, writer)
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    let names = ["one B(4)", "two B(4)s", "the terminal alone"];
    let (mut buffer, mut fault) = (vec![0x5a; DISK_LEN as usize], None);
    let mut contestants: Vec<_> = names
        .iter()
        .zip(&mut ends)
        .map(|(name, end)| Contestant::new(*name, DISK_PDUS, || end.pass()))
        .collect();
    contestants.push(Contestant::whole("the disk alone", DISK_PDUS, || {
        for at in 0..DISK_PDUS as u64 {
            let written = writer.write(at, std::mem::take(&mut buffer));
            match written.and_then(|()| writer.wait()) {
                Ok(back) => buffer = back,
                Err(error) => fault = Some(error),
            }
        }
    }));
    let times = report.take_turns(contestants, 3 * sizes.repeats);
    fault.map_or(Ok(()), Err)?;
    for end in &ends {
        end.ensure()?;
    }
    let both = |name: &str, of: fn(f64, f64) -> f64| {
        let pairs = times[2].ticks.iter().zip(&times[3].ticks);
        Times {
            name: name.to_owned(),
            ticks: pairs.map(|(net, disk)| of(*net, *disk)).collect(),
        }
    };
    for (of, law) in [
        (0, both("1 / (1 / net + 1 / disk)", |net, disk| net + disk)),
        (1, both("the least of net and disk", f64::max)),
    ] {
        let off = report.ratio(&times[of], &law).median;
        let name = format!("{}, over {}", times[of].name, law.name);
        report.ratio_at_most(name.clone(), off, 1.05);
        report.ratio_at_least(name, off, 0.95);
    }
    let net = report.ratio(&times[2], &times[3]).median;
    report.value("the terminal's time over the disk's", "times", net);
    report.note(
        "disk: a cell is a disk-PDU of 1 MiB here, written to a file and synced by a thread of its \
         own; the terminal alone moves it to a buffer",
    );
    Ok(plot::repeats(&times, report.ns_per_tick()))
}

/// A thread that writes disk-PDUs.
struct Writer {
    full: SyncSender<(u64, Vec<u8>)>,
    empty: Receiver<std::io::Result<Vec<u8>>>,
}

impl Writer {
    fn new(file: &File) -> anyhow::Result<Self> {
        let file = file.try_clone()?;
        let (full, writes) = sync_channel::<(u64, Vec<u8>)>(2);
        let (written, empty) = sync_channel(2);
        std::thread::spawn(move || {
            for (at, octets) in writes {
                let at = at % FILE_DISK_PDUS * u64::from(DISK_LEN);
                let done = file.write_all_at(&octets[..DISK_LEN as usize], at);
                let done = done.and_then(|()| file.sync_data()).map(|()| octets);
                if written.send(done).is_err() {
                    break;
                }
            }
        });
        Ok(Self { full, empty })
    }

    /// The disk-PDU of this number is written.
    fn write(&mut self, at: u64, octets: Vec<u8>) -> anyhow::Result<()> {
        self.full.send((at, octets)).context("the writer has ended")
    }

    /// Until a buffer is empty again.
    fn wait(&mut self) -> anyhow::Result<Vec<u8>> {
        let written = self.empty.recv().context("the writer has ended")?;
        written.context("the disk")
    }
}

/// A terminal whose receiver has buffers, and a disk behind them or none.
struct Receiving {
    pair: Pair,
    buffers: u64,
    writer: Option<Writer>,
    /// Disk-PDUs that were full, and those that are on the disk.
    full: u64,
    written: u64,
    fault: Option<anyhow::Error>,
}

impl Receiving {
    fn new(buffers: u64, writer: Option<Writer>) -> anyhow::Result<Self> {
        let room = buffers * u64::from(DISK_LEN);
        let spec = Spec {
            window: room,
            ..Spec::default()
        };
        // The disk-PDU of number n is in buffer n modulo their number.
        let memory = Memory::new(buffers as usize, DISK_LEN as usize, 0);
        Ok(Self {
            pair: Pair::new(spec, memory, room)?,
            buffers,
            writer,
            full: 0,
            written: 0,
            fault: None,
        })
    }

    /// Until so many disk-PDUs more are where they belong.
    fn pass(&mut self) -> u64 {
        let from = ticks();
        let until = self.written + DISK_PDUS as u64;
        while self.written < until && self.fault.is_none() {
            let (_, disk_pdus) = self.pair.turn();
            for _ in 0..disk_pdus {
                self.fault = self.is_full().err();
            }
        }
        ticks() - from
    }

    /// A buffer is full. It is given away; the next is taken once it is empty.
    fn is_full(&mut self) -> anyhow::Result<()> {
        let store = self.pair.exchanges[1].store_mut(TRANSFER);
        let buffers = &mut store.context("nothing is received")?.parts;
        match &mut self.writer {
            None => self.written += 1,
            Some(writer) => {
                let at = (self.full % self.buffers) as usize;
                writer.write(self.full, std::mem::take(&mut buffers[at]))?;
                if self.full + 1 - self.written == self.buffers {
                    let at = (self.written % self.buffers) as usize;
                    buffers[at] = writer.wait()?;
                    self.written += 1;
                }
            }
        }
        self.full += 1;
        let limit = (self.written + self.buffers) * u64::from(DISK_LEN);
        let now = self.pair.now;
        self.pair.exchanges[1].allow(now, TRANSFER, limit);
        Ok(())
    }

    /// That all went well, and the last buffer has what was sent.
    fn ensure(&self) -> anyhow::Result<()> {
        if let Some(fault) = &self.fault {
            anyhow::bail!("{fault:#}");
        }
        ensure!(self.written > 0, "nothing was written");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_disk_pdu_is_on_the_disk_by_one_buffer_and_by_two() {
        let path = std::env::temp_dir();
        for buffers in [1, 2] {
            let path = path.join(format!("cellgate-b4-{buffers}-{}", std::process::id()));
            let file = File::options()
                .read(true)
                .write(true)
                .create_new(true)
                .open(&path)
                .unwrap();
            std::fs::remove_file(&path).unwrap();
            let writer = Some(Writer::new(&file).unwrap());
            let mut receiving = Receiving::new(buffers, writer).unwrap();
            receiving.pass();
            receiving.ensure().unwrap();
            let mut octets = vec![0; DISK_PDUS * DISK_LEN as usize];
            file.read_exact_at(&mut octets, 0).unwrap();
            assert!(octets.iter().all(|octet| *octet == 0x5a));
        }
    }
}
