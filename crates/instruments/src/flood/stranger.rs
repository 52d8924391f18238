//! The stranger: cells of VCs that nobody opened, from the whole VPI/VCI space.

use std::collections::BTreeSet;

use cellgate_core::wire::{Header, Pti, VpiVci};
use cellgate_host::clock::MonotonicClock;

use super::pace::sleep_until;
use super::plan::FORMAT;
use super::sender::{Sent, Task};
use super::wire::SendPort;

/// Cells sent at once.
const BLOCK: usize = 256;

/// What the stranger sends: blocks of cells of one address (a VC that somebody believes is open)
/// and blocks of cells of addresses at random (a scan), in turn.
pub(crate) struct Stranger {
    open: BTreeSet<VpiVci>,
    state: u64,
    cells: Vec<u8>,
    blocks: u64,
}

impl Stranger {
    /// One that leaves out the addresses in `open`: cells of these would be no stranger's.
    pub(crate) fn new(open: BTreeSet<VpiVci>) -> Self {
        Self {
            open,
            state: 1,
            cells: vec![0x6a; BLOCK * FORMAT.stride()],
            blocks: 0,
        }
    }

    /// An address that nobody opened, and not the one of idle cells.
    fn address(&mut self) -> VpiVci {
        loop {
            //  A full-period generator over 64 bits (Knuth's MMIX); its high bits are good ones.
            self.state = self
                .state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let address = VpiVci::from_bits((self.state >> 36) as u32);
            if address.bits() != 0 && !self.open.contains(&address) {
                return address;
            }
        }
    }

    /// The headers of the next block: in turn all the same, and all at random.
    fn scan(&mut self) {
        let pti = Pti::User {
            congested: false,
            last: false,
        };
        self.blocks += 1;
        let at_random = self.blocks.is_multiple_of(2);
        let mut address = self.address();
        for i in 0..BLOCK {
            if at_random {
                address = self.address();
            }
            let header = Header::new(address, pti, false).emit();
            self.cells[i * FORMAT.stride()..][..4].copy_from_slice(&header);
        }
    }

    /// The next cells, as many as are sent at once.
    pub(crate) fn block(&mut self) -> &[u8] {
        self.scan();
        &self.cells
    }

    /// Sends until the task's end.
    pub(crate) fn run(mut self, task: &Task, port: &mut SendPort) -> Sent {
        let mut sent = Sent::default();
        loop {
            let now = MonotonicClock.now();
            if now < task.begin {
                sleep_until(task.begin);
                continue;
            }
            if now >= task.end {
                return sent;
            }
            sent.sent_cells += port.send(self.block()) as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use cellgate_core::wire::HeaderForm;

    use super::*;

    #[test]
    fn scans_the_whole_space_but_what_is_open() {
        let open: BTreeSet<VpiVci> = (0..0x0800_0000)
            .step_by(4096)
            .map(VpiVci::from_bits)
            .collect();
        let mut stranger = Stranger::new(open.clone());
        let mut seen = BTreeSet::new();
        for _ in 0..64 {
            for cell in stranger.block().chunks(FORMAT.stride()) {
                let header = Header::parse([cell[0], cell[1], cell[2], cell[3]]);
                let address = header.address(HeaderForm::Nni);
                assert!(address.bits() != 0 && !open.contains(&address));
                seen.insert(address);
            }
        }
        //  32 runs of one address, 32 blocks of 256, hardly ever the same twice.
        assert!(seen.len() > 32 * 255);
        let vpis: BTreeSet<u16> = seen.iter().map(|address| address.vpi() >> 8).collect();
        assert_eq!(vpis.len(), 16, "all of the VPI's first bits");
    }
}
