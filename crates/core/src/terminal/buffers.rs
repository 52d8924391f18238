//! The common buffer of all layers (*High Performance ATM Terminals*, section 3.2, Figure 6), at a
//! receiver and at a transmitter.
//!
//! ```text
//!  B(1) SAR     B(2) CPCS            B(3) disk          B(4) payload: the file
//!  +-----+      +--------+           +--------+         +----------------------------+
//!  | PCI |      |        |           | header |         | acknowledged: final        |
//!  +-----+      +--------+ <- a(2)   +--------+ <-w(3)  +----------------------------+ <- Ap
//!               |  PCI   |           |  tail  |         | PDUs of the window         |
//!               |  PCI   |           +--------+         +----------------------------+ <- Wp
//!               +--------+ <- w(2)                      | the PDU in progress        |
//!               |        |                              +----------------------------+ <- p
//!               +--------+ cyclic, one                  | may be written             |
//!                 place a PDU of the window             +----------------------------+ <- edge
//!                                                       | not yet                    |
//!                                                       +----------------------------+ <- end
//! ```
//!
//! Always: `Ap <= Wp <= p <= edge <= end` and `a(2) <= w(2) <= a(2) + window`. Nothing below Ap is
//! written, nor is what is held above it, nor anything outside the extent of the PDU in progress:
//! a PDU that is sent again is written where its damaged original was.
//!
//! B(1) is a value on its way through the controller: both parts of a SAR-PDU's PCI are in one
//! cell. Headers and tails of the disk layer wait in B(2) with the PCI of their PDU until the PDUs
//! before are there, so that a window may reach over several disk-PDUs; B(3) has those of the
//! disk-PDU that Ap is in.

mod extents;
mod list;
mod receive;
mod transmit;

use core::ops::Range;

use super::Planted;

pub use extents::Extent;
pub use receive::{Acknowledged, ReceiveBuffer, Ticket};
pub use transmit::TransmitBuffer;

/// The place payload is written to: the mapping of a file, or octets in memory.
pub trait Store {
    /// Writes `octets` at offset `at` of the file. Below Ap of the buffer, beyond its edge and
    /// above octets that are held, nothing is ever written.
    fn write(&mut self, at: u64, octets: &[u8]);

    /// Whether it has a bug on purpose.
    #[inline(always)]
    fn has(&self, _bug: Planted) -> bool {
        false
    }
}

/// The place payload is read from.
pub trait Source {
    /// Fills `into` from offset `at` of the file. A source that cannot is its owner's concern: the
    /// digest of what was sent tells the receiver.
    fn read(&mut self, at: u64, into: &mut [u8]);

    /// The first octets at or after `at`, and before `end`, that are there to be sent: what is
    /// before them is a hole. Empty if none are.
    fn data(&mut self, at: u64, end: u64) -> Range<u64> {
        at..end
    }

    /// Where it ends, if it is a stream whose end is known by now. Of a stream
    /// [`data`](Self::data) is where octets are, all of a disk-PDU's at once.
    fn end(&mut self) -> Option<u64> {
        None
    }

    /// What could not be read, if there is something: then what was sent is worth nothing.
    fn fault(&mut self) -> Option<String> {
        None
    }

    /// Fills in the disk layer's tail of the disk-PDU that ends at `end`, all of whose payload was
    /// read.
    fn tail(&mut self, _end: u64, _tail: &mut [u8]) {}

    /// What is before `at` is acknowledged and will not be read again.
    fn release(&mut self, _at: u64) {}

    /// Whether it has a bug on purpose.
    #[inline(always)]
    fn has(&self, _bug: Planted) -> bool {
        false
    }
}

/// What becomes of PDUs behind one that is damaged or missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Arq {
    /// They are thrown away and sent again: Wp and p go back to Ap.
    GoBackN,
    /// They are held above Ap, as many as the window has; what is missing alone is sent again.
    Selective,
}

/// What one transfer agrees on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Its number on the VC.
    pub transfer: u16,
    /// The sender's run.
    pub run: u32,
    pub arq: Arq,
    /// PDUs that may be on their way and not acknowledged; 1 to 2^13.
    pub window: u32,
    /// Where in the file the transfer begins.
    pub start: u64,
    /// Where it ends.
    pub end: u64,
}

/// All pointers of a buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pointers {
    /// a(2): PDUs acknowledged.
    pub a2: u64,
    /// w(2): PDUs whose PCI is complete, up to the last.
    pub w2: u64,
    /// w(3): octets of the disk layer's PCI.
    pub w3: usize,
    /// Ap: below it all is acknowledged.
    pub ap: u64,
    /// Wp: where the PDU in progress begins; without one, where the next does that follows all.
    pub wp: u64,
    /// p: the next octet of payload.
    pub p: u64,
    /// Nothing is written from here on: the caller opens it.
    pub edge: u64,
    /// Where the transfer ends.
    pub end: u64,
}

/// The PDU in progress: its number, its extent, and how far it is.
#[derive(Clone, Copy, Debug)]
struct Progress {
    sequence: u64,
    start: u64,
    p: u64,
    end: u64,
}
