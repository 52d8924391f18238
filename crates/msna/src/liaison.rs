use core::net::Ipv4Addr;
use std::cell::RefCell;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

use cellgate::DiscardCounts;
use cellgate_core::upper::msna::Notify;

use crate::path::Path;
use crate::{Error, now};

/// A look at a block that goes on while nobody tells.
const LOOK: Duration = Duration::from_millis(1);

/// Liaisons that have ended, for their node to tell the other end.
pub(crate) type Ended = Rc<RefCell<Vec<End>>>;

/// The end of an association, as its node knows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    /// The circuit that it receives on, and that it sends on.
    pub(crate) receives: u16,
    pub(crate) sends: u16,
    /// Its node has chosen that.
    pub(crate) is_own: bool,
    pub(crate) peer: Ipv4Addr,
}

/// One end of an association: it sends and receives blocks.
///
/// Nothing is recovered: a block whose cell is lost is lost. Its drop ends the association, and the
/// node tells the other end at its next call, out of courtesy.
#[derive(Debug)]
pub struct Liaison {
    pub(crate) path: Path,
    pub(crate) end: End,
    ended: Ended,
    notify: Notify,
    dally: Duration,
    sent: u64,
    received: u64,
    sleeps: u64,
}

/// Deeds of one end of an association.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LiaisonCounters {
    /// Blocks that were sent.
    pub sent: u64,
    /// Blocks that were received.
    pub received: u64,
    /// Times that its reader slept.
    pub sleeps: u64,
    /// Cells of blocks that this host gave up, by reason.
    pub discarded: DiscardCounts,
}

impl Liaison {
    pub(crate) const fn new(path: Path, end: End, ended: Ended, notify: Notify) -> Self {
        Self {
            path,
            end,
            ended,
            notify,
            dally: Duration::ZERO,
            sent: 0,
            received: 0,
            sleeps: 0,
        }
    }

    /// The circuit on which it receives: a VCI, or the UDP port of packets.
    pub fn circuit(&self) -> u16 {
        self.end.receives
    }

    /// The host of the other end.
    pub fn peer(&self) -> Ipv4Addr {
        self.end.peer
    }

    /// Has a reader look for so long before it sleeps: a wake-up costs more than a short wait.
    /// Without: it sleeps at once.
    pub fn dally(&mut self, dally: Duration) {
        self.dally = dally;
    }

    /// What it has done so far.
    pub fn counters(&self) -> LiaisonCounters {
        let discarded = match &self.path {
            Path::Cells(cells) => cells.counts().discarded,
            Path::Pdus(_) | Path::Packets { .. } => DiscardCounts::default(),
        };
        LiaisonCounters {
            sent: self.sent,
            received: self.received,
            sleeps: self.sleeps,
            discarded,
        }
    }

    /// Sends a block, and waits for credit and room.
    ///
    /// # Errors
    /// The block is longer than 11,730 octets, or empty and a PDU of AAL5; the connection has
    /// ended.
    pub fn send(&mut self, block: &[u8]) -> Result<(), Error> {
        self.path.send(block)?;
        self.sent += 1;
        Ok(())
    }

    /// Receives a block in the place of `block`, whose memory is used again. False: none has come
    /// within `timeout` (none: for ever).
    ///
    /// # Errors
    /// The connection has ended.
    pub fn recv(&mut self, block: &mut Vec<u8>, timeout: Option<Duration>) -> Result<bool, Error> {
        if self.try_recv(block)? {
            return Ok(true);
        }
        let began = Instant::now();
        let mut idle = began;
        loop {
            let ran = began.elapsed();
            let left = timeout.map(|timeout| timeout.saturating_sub(ran));
            if left == Some(Duration::ZERO) {
                return Ok(false);
            }
            if idle.elapsed() < self.dally {
                core::hint::spin_loop();
            } else {
                let until = [left, self.due()].into_iter().flatten().min();
                self.sleeps += u64::from(self.path.sleep(until)?);
                idle = Instant::now();
            }
            if self.try_recv(block)? {
                return Ok(true);
            }
        }
    }

    /// The same without waiting.
    ///
    /// # Errors
    /// As [`Liaison::recv`].
    pub fn try_recv(&mut self, block: &mut Vec<u8>) -> Result<bool, Error> {
        let came = self.path.try_recv(now(), block)?;
        self.received += u64::from(came);
        Ok(came)
    }

    /// From now to when it is to be read whether or not it is readable; none: it will be. Told of
    /// a block's first cell, nobody is told of its others.
    pub fn due(&self) -> Option<Duration> {
        let is_untold = self.notify == Notify::First && self.path.is_amid();
        is_untold.then_some(LOOK)
    }

    /// For a caller that waits elsewhere: as
    /// [`Connection::arm`](cellgate::Connection::arm) for what is received. It is to look at
    /// [`Liaison::due`], too.
    ///
    /// # Errors
    /// As [`Liaison::recv`].
    pub fn arm(&mut self) -> Result<bool, Error> {
        let armed = self.path.arm()?;
        self.sleeps += u64::from(armed);
        Ok(armed)
    }
}

impl AsFd for Liaison {
    /// Readable when a block may have come, after [`Liaison::arm`].
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.path.as_fd()
    }
}

impl Drop for Liaison {
    fn drop(&mut self) {
        self.ended.borrow_mut().push(self.end);
    }
}
