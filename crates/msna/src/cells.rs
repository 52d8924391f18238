use cellgate::{Connection, Time};
use cellgate_core::upper::msna::{
    Access, Association, Msdl, MsdlConfig, MsdlCounts, SendError, Terms, To,
};
use cellgate_core::wire::MSSAR_ATM_LEN;

use crate::Error;
use crate::call::BLOCK_MAX;

/// Octets of an AAL0 SDU before a cell's payload: its header, which the adapter writes.
const HEADER_LEN: usize = 4;
/// Octets of an AAL0 SDU.
pub(crate) const SDU_LEN: usize = 52;
/// Cells of which the adapter is told at once.
const IN_A_ROW: usize = 16;
/// From a block's first cell to its last.
const TIMEOUT_NS: u64 = 1_000_000_000;

/// A circuit whose cells this host fills and puts together.
#[derive(Debug)]
pub(crate) struct Cells {
    pub(crate) connection: Connection,
    msdl: Msdl,
    association: Association,
    vci: u16,
}

/// ATM as MSDL sees it.
struct Atm;

impl Access for Atm {
    fn data_len(&self) -> Option<u8> {
        Some(MSSAR_ATM_LEN as u8)
    }
}

impl Cells {
    /// `vci` is not 0.
    pub(crate) fn new(connection: Connection, vci: u16) -> Self {
        let mut msdl = Msdl::new(MsdlConfig {
            first_vci: vci,
            circuits: 1,
            // The node keeps circuits from being used again.
            hold_ns: 0,
            timeout_ns: TIMEOUT_NS,
            queue_max: BLOCK_MAX,
        });
        let terms = Terms {
            receives: vci,
            sends: vci,
            to: To::Channel(0),
            max_block: BLOCK_MAX as u16,
            senders: 1,
        };
        let association = msdl.begin(Time::ZERO, &Atm, terms);
        Self {
            connection,
            msdl,
            association: association.expect("its only circuit is free"),
            vci,
        }
    }

    pub(crate) const fn counts(&self) -> &MsdlCounts {
        self.msdl.counts()
    }

    /// Whether a block has begun and not ended.
    pub(crate) fn is_amid(&self) -> bool {
        self.msdl.held_cells() > 0
    }

    pub(crate) fn send(&mut self, block: &[u8]) -> Result<(), Error> {
        let sent = self.msdl.send(&mut Atm, self.association, block.to_vec());
        match sent {
            Ok(()) => {}
            Err(SendError::TooLong { len, max }) => {
                let max = max.into();
                return Err(Error::TooLong { len, max });
            }
            // The block before has left, and nobody ends the association.
            Err(SendError::Full | SendError::Ended) => unreachable!("one block at a time"),
        }
        for cell in 1_usize.. {
            let mut space = self.connection.reserve(SDU_LEN)?;
            let (header, payload) = space.split_at_mut(HEADER_LEN);
            header.fill(0);
            let Some(leaving) = self.msdl.poll_cell(&mut Atm, payload) else {
                break;
            };
            match leaving.is_last || cell.is_multiple_of(IN_A_ROW) {
                true => space.submit()?,
                false => space.submit_more()?,
            }
            if leaving.is_last {
                break;
            }
        }
        Ok(())
    }

    /// Takes cells until a block is complete, which takes the place of `block`; false: no cell is
    /// left.
    pub(crate) fn try_recv(&mut self, now: Time, block: &mut Vec<u8>) -> Result<bool, Error> {
        self.msdl.handle_deadline(now);
        loop {
            if let Some(mut received) = self.msdl.poll_received() {
                core::mem::swap(&mut received.block, block);
                self.msdl.recycle(received);
                return Ok(true);
            }
            let pdu = match self.connection.try_next_pdu() {
                Ok(pdu) => pdu,
                Err(error) if error.is_would_block() => return Ok(false),
                Err(error) => return Err(error.into()),
            };
            let payload = pdu.get(HEADER_LEN..).unwrap_or_default();
            self.msdl.handle_cell(now, &mut Atm, self.vci, payload);
        }
    }
}
