//! A station whose receive software takes its time: cells one by one, and work at each.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use cellgate::{Connection, Error, Marks, Notification, Time, TrafficContract};
use cellgate_core::aal::mssar::{CELLS_MAX, Limits, Reassembler, Segmenter, Verdict, block_max};
use cellgate_core::wire::MSSAR_ATM_LEN;

/// Octets of an AAL0 SDU before a cell's payload.
const HEADER: usize = 4;
/// A look at a block that goes on while nobody tells.
const LOOK: Duration = Duration::from_millis(1);
/// Octets of an AAL0 SDU.
const SDU: usize = 52;

pub(super) struct Station {
    connection: Connection,
    /// Of the next block.
    rid: u8,
    reassembler: Reassembler,
    /// At each cell that it receives.
    work: Duration,
}

impl Station {
    pub(super) fn open(
        socket: &Path,
        address: &str,
        notification: Notification,
        work: Duration,
    ) -> anyhow::Result<Self> {
        let contract: TrafficContract = "ubr,aal0".parse()?;
        let cells = 2 * u32::from(CELLS_MAX);
        let connection = Connection::builder()
            .socket(socket)
            .address(address)
            .contract(contract)
            .notification(notification)
            .marks(Marks::Mssar)
            .completions(false)
            .receive_pdus(cells)
            .transmit_pdus(cells)
            .open()?;
        let data_len = MSSAR_ATM_LEN as u8;
        Ok(Self {
            connection,
            rid: 0,
            reassembler: Reassembler::new(Limits {
                data_len,
                max_block: block_max(data_len),
                blocks: 1,
                timeout_ns: 1_000_000_000,
            }),
            work,
        })
    }

    /// Sends a block of so many cells.
    pub(super) fn send(&mut self, cells: u8) -> anyhow::Result<()> {
        let block = vec![cells; usize::from(cells) * MSSAR_ATM_LEN];
        let segmenter = Segmenter::new(block.len(), self.rid, MSSAR_ATM_LEN as u8);
        let mut segmenter = segmenter.context("a block")?;
        self.rid = self.rid.wrapping_add(1);
        while segmenter.left() > 0 {
            let mut space = self.connection.reserve(SDU)?;
            let (header, payload) = space.split_at_mut(HEADER);
            header.fill(0);
            segmenter.emit_cell(&block, payload);
            match segmenter.left() % 16 {
                0 => space.submit()?,
                _ => space.submit_more()?,
            }
        }
        Ok(())
    }

    /// Receives a block and tells its cells; none: nothing has come in `patience`.
    pub(super) fn recv(&mut self, patience: Duration) -> anyhow::Result<Option<u8>> {
        let mut idle = Instant::now();
        loop {
            // Told of a block's first cell, nobody is told of its others.
            let is_amid = self.reassembler.held_cells() > 0;
            let look = if is_amid { LOOK } else { patience };
            let pdu = match self.connection.next_pdu_timeout(look) {
                Ok(pdu) => pdu,
                Err(Error::TimedOut) if idle.elapsed() < patience => continue,
                Err(Error::TimedOut) => return Ok(None),
                Err(error) => return Err(error.into()),
            };
            idle = Instant::now();
            let payload = pdu.get(HEADER..).unwrap_or_default();
            let told = self.reassembler.handle(Time::ZERO, payload);
            drop(pdu);
            while idle.elapsed() < self.work {
                core::hint::spin_loop();
            }
            ensure!(told.failed.is_none(), "a cell was lost");
            if let Verdict::Delivered(block) = told.cell {
                self.reassembler.recycle(block.octets);
                return Ok(Some(block.cells));
            }
        }
    }
}
