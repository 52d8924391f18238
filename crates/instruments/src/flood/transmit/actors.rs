//! The two processes at the ends of the transmit side: one keeps the queues full, one counts what
//! comes out.

use std::time::Duration;

use cellgate_core::adapter::OpenRequest;
use cellgate_core::contract::CellRate;
use cellgate_core::queue::SduOptions;
use cellgate_core::wire::{Header, HeaderForm, VpiVci};
use cellgate_host::client::{Attached, Control, OpenVc, memory_for};
use serde::{Deserialize, Serialize};

use super::super::plan::{ATTACHMENT, FORMAT, SDU, STRANGER_PORT};
use crate::live::actor::{prefer, started};
use crate::live::rig::{request, transmit};
use crate::live::weather::GAP_MAX_NS;

/// Guaranteed VCs, and the rate of each; one of best effort gets the rest of the line.
const VCS: u16 = 8;
const RATE_CELL_S: u32 = 40_000;
/// VCI of the first of them.
const FIRST_VCI: u32 = 200;
/// PDUs that a VC can have waiting: at 40,000 cells/s, 270 ms of them.
const PDUS: u32 = 64;

/// What the counter found on the line.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Counted {
    /// Cells.
    pub(crate) cells: u64,
    /// Cells of no VC of the feeder.
    pub(crate) foreign: u64,
}

/// The feeder's process: keeps all transmit queues full.
pub(crate) fn feed() -> anyhow::Result<()> {
    let (mut mouth, _ear, ()) = started()?;
    let mut control = Control::from_stdin()?;
    prefer("cg-feeder", -5, &control.hello().scheduling);
    let mut attached = control.attach(ATTACHMENT, false)?;
    let mut vcs = Vec::new();
    for i in 0..=VCS {
        let address = VpiVci::from_bits(FIRST_VCI + u32::from(i));
        let rate = CellRate::new(RATE_CELL_S).filter(|_| i < VCS);
        // After a gap as long as admitted, what was missed is caught up.
        let transmit = transmit(rate, GAP_MAX_NS, SDU as u16);
        let request = OpenRequest {
            port: STRANGER_PORT,
            attachment: attached.index(),
            ..request(address, None, Some(transmit))
        };
        vcs.push(control.open(request, memory_for(SDU as u16, 0, PDUS))?);
    }
    let sdu = vec![0x5a; SDU as usize];
    fill(&mut vcs, &mut attached, &sdu);
    mouth.say(&())?;
    loop {
        //  A tenth of what the queues hold.
        std::thread::sleep(Duration::from_millis(20));
        while attached.next_event().is_some() {}
        fill(&mut vcs, &mut attached, &sdu);
    }
}

fn fill(vcs: &mut [OpenVc], attached: &mut Attached, sdu: &[u8]) {
    for vc in vcs {
        while vc.send(attached, sdu, SduOptions::default()) {}
    }
}

/// The counter's process: the other end of the line.
pub(crate) fn count() -> anyhow::Result<()> {
    let (mut mouth, mut ear, ()) = started()?;
    let mut control = Control::from_stdin()?;
    prefer("cg-counter", -5, &control.hello().scheduling);
    let mut line = control.cell_receiver(STRANGER_PORT)?;
    mouth.say(&())?;
    let ended = std::thread::spawn(move || ear.hear::<()>());
    let mut counted = Counted::default();
    let mut cells = vec![0; 1_024 * FORMAT.stride()];
    while !ended.is_finished() {
        while line.poll() > 0 {
            let n = line.take(&mut cells);
            for cell in cells.chunks(FORMAT.stride()).take(n) {
                let header = Header::parse([cell[0], cell[1], cell[2], cell[3]]);
                let vci = header.address(HeaderForm::Nni).bits();
                let ours = (FIRST_VCI..=FIRST_VCI + u32::from(VCS)).contains(&vci);
                counted.foreign += u64::from(!ours);
            }
            counted.cells += n as u64;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    mouth.say(&counted)
}
