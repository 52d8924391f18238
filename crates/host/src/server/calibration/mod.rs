//! What cells and PDUs cost this machine: an adapter of heap memory is driven for a fraction of a
//! second, and what was measured is kept for as long as the machine stays the same.

mod worker;

use std::collections::BTreeMap;
use std::fs;

use cellgate_core::Time;
use cellgate_core::aal::aal0;
use cellgate_core::adapter::{
    Aal, Adapter, AttachmentIndex, Board, Command, Completion, Config, Excess, Marks, Notification,
    OpenRequest, Outcome, PortConfig, PortIndex, Receive, Transmit, VcId,
};
use cellgate_core::contract::{CellRate, aal5_cells};
use cellgate_core::queue::{
    AttachmentGeometry, AttachmentSizes, ConnectionGeometry, Doorbell, SduOptions,
};
use cellgate_core::server::{CpuLaw, Direction, Sample};
use cellgate_core::wire::{CellFormat, HeaderForm, PAYLOAD_LEN, VpiVci};
use cellgate_shm::{AttachmentMemory, ClientAttachment, ClientMemory, ConnectionMemory};
use serde::{Deserialize, Serialize};

use crate::client::memory_for;
use crate::clock::thread_cpu_ns;
use crate::sys::{WakeUp, allowed_cpus, plain};

/// Octets of the SDUs that are measured: one cell, a few, an Ethernet frame's worth, a large PDU.
const SDUS: [u16; 4] = [40, 232, 1_500, 9_180];
/// Cells of a slice, at least: long beside a reading of the clock, short beside a time slice.
const SLICE_CELLS: u32 = 1_024;
/// Slices of each size and direction.
const SLICES: usize = 100;
/// Nanoseconds of CPU after which a size has slices enough, on a machine (or in a build) that is
/// slow.
const SIZE_NS_MAX: u64 = 35_000_000;
/// Beyond any adapter's rate: nothing waits for its departure.
const LINE: u32 = 400_000_000;
/// From one step to the next, by the adapter's clock.
const STEP_NS: u64 = 100_000;
/// Steps without a cell after which a slice is given up.
const IDLE_STEPS_MAX: u32 = 10_000;

/// What measurements belong to: on another machine, kernel or build they say nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// As the kernel names the CPU.
    pub cpu: String,
    /// CPUs that this process may use.
    pub cpus: usize,
    /// The kernel's release.
    pub kernel: String,
    /// This program's version and kind of build.
    pub build: String,
}

impl Machine {
    /// The present one.
    pub fn present() -> Self {
        let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let named = |line: &str| {
            let (key, value) = line.split_once(':')?;
            let named = ["model name", "CPU part", "cpu model", "uarch"].contains(&key.trim());
            named.then(|| value.trim().to_owned())
        };
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Self {
            cpu: info.lines().find_map(named).unwrap_or_default(),
            cpus: allowed_cpus().len(),
            kernel: kernel.trim().to_owned(),
            build: format!(
                "{} {}",
                env!("CARGO_PKG_VERSION"),
                match cfg!(debug_assertions) {
                    true => "debug",
                    false => "release",
                }
            ),
        }
    }
}

/// Measurements and what they were made on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    pub machine: Machine,
    /// What the adapter costs.
    pub samples: Vec<Sample>,
    /// What a worker costs.
    pub workers: Vec<Sample>,
    /// Why Linux's TCP/IP is not in that, if it is not.
    pub without_tcp: Option<String>,
    /// Whether network devices could be made for that.
    pub had_devices: bool,
    /// What a wake-up of the firmware thread takes, by the CPU that it is pinned to.
    #[serde(default)]
    pub wake_ups: BTreeMap<usize, WakeUp>,
}

impl Calibration {
    /// The one that was kept if it is this machine's, shows a law, and lacks nothing that can be
    /// measured now; else a new one, with `true`.
    ///
    /// # Errors
    /// The adapter did not do as it was told.
    pub fn of(kept: &[u8]) -> Result<(Self, bool), CalibrationError> {
        let machine = Machine::present();
        let kept = serde_json::from_slice::<Self>(kept).ok();
        let kept = kept.filter(|kept| kept.machine == machine && kept.shows_laws());
        let is_whole = |kept: &Self| !kept.lacks_devices() || !worker::has_devices();
        if let Some(kept) = kept.filter(is_whole) {
            return Ok((kept, false));
        }
        let had_devices = worker::has_devices();
        let (workers, without) = worker::measure().map_err(wrong)?;
        let new = Self {
            machine,
            samples: measure()?,
            workers,
            without_tcp: without.map(|error| plain(&error)),
            had_devices,
            wake_ups: BTreeMap::new(),
        };
        Ok((new, true))
    }

    /// As it is kept.
    pub fn octets(&self) -> Vec<u8> {
        // Numbers, names and texts: all of it has a form in JSON.
        serde_json::to_vec_pretty(self).unwrap_or_default()
    }

    /// Whether TCP/IP is not in it for want of devices. Where there were some and TCP/IP did not
    /// work, it would not the next time either.
    fn lacks_devices(&self) -> bool {
        self.without_tcp.is_some() && !self.had_devices
    }

    fn shows_laws(&self) -> bool {
        let both = [&self.samples, &self.workers];
        both.iter().all(|samples| CpuLaw::fit(samples, 0).is_ok())
    }
}

/// The adapter of a calibration did not do as it was told.
#[derive(Debug, thiserror::Error)]
#[error("the calibration failed: {0}")]
pub struct CalibrationError(String);

/// Measures. It takes some 200 ms of a core.
///
/// # Errors
/// The adapter did not do as it was told.
pub fn measure() -> Result<Vec<Sample>, CalibrationError> {
    let mut samples = Vec::with_capacity(SDUS.len() * 2 * SLICES);
    for sdu in SDUS {
        let mut rig = Rig::new(sdu)?;
        let from = thread_cpu_ns();
        // The first slices fill caches and tables.
        for slice in 0..SLICES + 2 {
            let pair = [rig.transmit()?, rig.receive()?];
            if slice >= 2 {
                samples.extend(pair);
            }
            // The law needs a few of each.
            if slice >= 12 && thread_cpu_ns() - from > SIZE_NS_MAX {
                break;
            }
        }
    }
    Ok(samples)
}

type HeapAdapter = Adapter<ConnectionMemory, AttachmentMemory>;

/// A wire that holds what is transmitted until it is to be received.
struct Wire {
    cells: Vec<u8>,
    taken: usize,
    receiving: bool,
    command: Option<Command<ConnectionMemory, AttachmentMemory>>,
    completion: Option<Completion<ConnectionMemory, AttachmentMemory>>,
}

impl Board for Wire {
    type Region = ConnectionMemory;
    type Attachment = AttachmentMemory;

    fn receive(&mut self, _port: PortIndex, format: CellFormat, fifo: &mut [u8]) -> usize {
        if !self.receiving {
            return 0;
        }
        let waiting = &self.cells[self.taken..];
        let len = fifo.len().min(waiting.len());
        fifo[..len].copy_from_slice(&waiting[..len]);
        self.taken += len;
        format.cells_in(len)
    }

    fn transmit_space(&mut self, _port: PortIndex) -> usize {
        SLICE_CELLS as usize
    }

    fn transmit(&mut self, _port: PortIndex, _format: CellFormat, cells: &[u8]) {
        self.cells.extend_from_slice(cells);
    }

    fn interrupt(&mut self, _index: AttachmentIndex, _guaranteed: bool) {}

    fn command(&mut self) -> Option<Command<ConnectionMemory, AttachmentMemory>> {
        self.command.take()
    }

    fn complete(&mut self, completion: Completion<ConnectionMemory, AttachmentMemory>) {
        self.completion = Some(completion);
    }
}

/// An adapter with one VC, and its client.
struct Rig {
    adapter: HeapAdapter,
    wire: Wire,
    attachment: ClientAttachment,
    client: ClientMemory,
    vc: VcId,
    sdu: u16,
    pdus: u32,
    now: Time,
}

impl Rig {
    fn new(sdu: u16) -> Result<Self, CalibrationError> {
        let cells = aal5_cells(sdu.into());
        let pdus = SLICE_CELLS.div_ceil(cells);
        let now = Time::from_ns(1_000_000_000);
        let (memory, attachment) = AttachmentMemory::heap(&attachment_geometry()?, 1);
        let geometry = ConnectionGeometry::new(memory_for(sdu, pdus, pdus)).map_err(wrong)?;
        let staging_len = (cells as usize * PAYLOAD_LEN).max(aal0::SDU_LEN);
        let (region, client) = ConnectionMemory::heap(&geometry, 1, staging_len);
        let mut wire = Wire {
            cells: Vec::with_capacity((pdus * cells) as usize * CellFormat::NoHec.stride()),
            taken: 0,
            receiving: false,
            command: Some(Command::Attach {
                ticket: 0,
                attachment: memory,
            }),
            completion: None,
        };
        let mut adapter = HeapAdapter::new(config(), now).map_err(wrong)?;
        adapter.handle_commands(now, &mut wire);
        wire.command = Some(Command::Open {
            ticket: 0,
            request: request(sdu)?,
            region,
        });
        adapter.handle_commands(now, &mut wire);
        let opened = wire.completion.take().map(|completion| completion.result);
        let Some(Ok(Outcome::Vc(vc))) = opened else {
            return Err(wrong(format!("{opened:?}")));
        };
        Ok(Self {
            adapter,
            wire,
            attachment,
            client: client.named(&geometry, vc.generation),
            vc,
            sdu,
            pdus,
            now,
        })
    }

    /// Sends a slice onto the wire.
    fn transmit(&mut self) -> Result<Sample, CalibrationError> {
        self.wire.cells.clear();
        self.wire.receiving = false;
        self.client.reclaim();
        for _ in 0..self.pdus {
            let space = self.client.reserve(self.sdu.into());
            let submitted = space.map(|space| self.client.submit(space, SduOptions::default()));
            if submitted != Some(true) {
                return Err(wrong("no room to transmit"));
            }
        }
        let doorbell = Doorbell {
            vc: self.vc.index.0.into(),
            generation: self.vc.generation,
        };
        // The queue is empty: the adapter has seen the last one.
        let _rung = self.attachment.ring(doorbell);
        let len = self.wire.cells.capacity();
        self.run(Direction::Transmit, |wire| wire.cells.len() >= len)
    }

    /// Receives what was sent.
    fn receive(&mut self) -> Result<Sample, CalibrationError> {
        self.wire.taken = 0;
        self.wire.receiving = true;
        let sample = self.run(Direction::Receive, |wire| wire.taken >= wire.cells.len())?;
        let mut received = 0;
        while let Some(pdu) = self.client.next_pdu() {
            self.client.release(pdu);
            received += 1;
        }
        while self.attachment.next_event().is_some() {}
        match received == self.pdus {
            true => Ok(sample),
            false => Err(wrong(format!("{received} of {} PDUs came", self.pdus))),
        }
    }

    fn run(
        &mut self,
        direction: Direction,
        done: impl Fn(&Wire) -> bool,
    ) -> Result<Sample, CalibrationError> {
        let mut steps = 0;
        let from = thread_cpu_ns();
        while !done(&self.wire) {
            self.now = self.now.plus_ns(STEP_NS);
            self.adapter.step(self.now, &mut self.wire);
            steps += 1;
            if steps > IDLE_STEPS_MAX {
                return Err(wrong("the adapter stands still"));
            }
        }
        let ns = (thread_cpu_ns() - from).max(1);
        Ok(Sample {
            direction,
            sdu: self.sdu.into(),
            cells: (self.pdus * aal5_cells(self.sdu.into())).into(),
            pdus: self.pdus.into(),
            ns,
        })
    }
}

fn wrong(what: impl std::fmt::Display) -> CalibrationError {
    CalibrationError(what.to_string())
}

fn attachment_geometry() -> Result<AttachmentGeometry, CalibrationError> {
    let sizes = AttachmentSizes {
        event_slots: 4_096,
        doorbell_slots: 64,
    };
    AttachmentGeometry::new(sizes).map_err(wrong)
}

fn rate(cell_s: u32) -> Result<CellRate, CalibrationError> {
    CellRate::new(cell_s).ok_or_else(|| wrong("no rate"))
}

fn config() -> Config {
    Config {
        vcs: 1,
        leaves: 1,
        attachments: 1,
        ports: vec![PortConfig {
            form: HeaderForm::Nni,
            format: CellFormat::NoHec,
            budget: 256,
            discard_unread: false,
            real_time: false,
            line_rate: CellRate::new(LINE).unwrap_or(CellRate::OC3),
        }],
        gap_max_ns: 1_000_000,
        clump_cells: 1,
        overload_cells: 0,
    }
}

/// A VC with a contract in both directions, shaped and policed at a rate that it does not reach.
fn request(sdu: u16) -> Result<OpenRequest, CalibrationError> {
    Ok(OpenRequest {
        address: VpiVci::new(0, 32).ok_or_else(|| wrong("no address"))?,
        port: PortIndex(0),
        aal: Aal::Aal5,
        attachment: AttachmentIndex(0),
        receive: Some(Receive {
            marks: Marks::None,
            rate: Some(rate(LINE)?),
            sustained: None,
            cdvt_ns: STEP_NS,
            max_sdu: sdu,
            fixed_sdu: false,
            excess: Excess::Discard,
            notification: Notification::LastCell,
            queue_threshold: 0,
            guaranteed: true,
        }),
        transmit: Some(Transmit {
            rate: Some(rate(LINE / 2)?),
            cdvt_ns: STEP_NS,
            weight: 1,
            abr: None,
            peak: None,
            max_sdu: sdu,
            burst: 1,
            sustained: None,
            interrupt_on_completion: false,
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_law_of_this_machine_charges_for_cells_and_for_pdus() {
        let samples = measure().unwrap();
        let law = CpuLaw::fit(&samples, 25).unwrap();
        for direction in [Direction::Transmit, Direction::Receive] {
            let cost = |cell_s, cells| law.reserve_ppm(direction, cell_s, cells);
            assert!(
                cost(100_000, 1) > cost(100_000, 192),
                "a PDU costs something"
            );
            assert!(
                cost(200_000, 192) > cost(100_000, 192),
                "a cell costs something"
            );
        }
    }

    #[test]
    fn a_calibration_is_made_once_a_machine() {
        let (first, new) = Calibration::of(&[]).unwrap();
        assert!(new);
        let kept = |kept: &Calibration| Calibration::of(&kept.octets()).unwrap();
        assert_eq!(kept(&first), (first.clone(), false));
        let mut elsewhere = first.clone();
        elsewhere.machine.cpus += 1;
        elsewhere.samples.truncate(1);
        let (again, _) = kept(&elsewhere);
        assert_eq!(again.machine, first.machine);
        assert!(again.samples.len() > 1);
        let mut useless = first.clone();
        useless.workers.truncate(1);
        assert!(kept(&useless).0.workers.len() > 1);
        let mut poor = first.clone();
        poor.without_tcp = Some("not permitted".to_owned());
        for had_devices in [true, false] {
            poor.had_devices = had_devices;
            let (again, _) = kept(&poor);
            let anew = !had_devices && first.had_devices;
            assert_eq!(again != poor, anew, "{had_devices}");
        }
        match first.had_devices {
            true => println!("ran calibration_anew"),
            false => println!("skipped calibration_anew: no devices can be made"),
        }
        assert_eq!(Calibration::of(b"{").unwrap().0.machine, first.machine);
    }
}
