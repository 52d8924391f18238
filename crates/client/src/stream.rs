use std::collections::VecDeque;
use std::time::Duration;

use cellgate_core::Time;
use cellgate_shm::HeldPdu;

use crate::clock::now;
use crate::{Connection, Error, Interest, Wait};

/// Reads a connection as a stream without flow control (*L4ATM*'s stream interface): PDUs are
/// released by time, whether they were read or not, and within that time can be read as often as
/// wanted.
///
/// PDUs are numbered from 0 in the order of their arrival. One that the adapter has handled longer
/// than the hold time ago is released; reading it, or what came before it, is [`Error::Late`].
///
/// Nothing runs behind the application's back: time passes in the calls of this reader. The
/// adapter never writes over what is not released, so a copy is whole. A reader that does not call
/// for longer than its buffer has room loses what arrives then, at the adapter (`buffer_full`).
#[derive(Debug)]
pub struct StreamReader<'c> {
    connection: &'c Connection,
    hold_ns: u64,
    held_max: usize,
    held: VecDeque<HeldPdu>,
    /// Number of the first held PDU.
    oldest: u64,
    /// Number of the next PDU to read.
    next: u64,
    unread: u64,
}

impl<'c> StreamReader<'c> {
    /// PDUs that are held at once, however long the hold time.
    pub const HELD_MAX: usize = 65_536;

    /// Reads `connection`; PDUs are held for `hold`, and at most `held_max` of them
    /// ([`StreamReader::HELD_MAX`] at most): beyond, the oldest is released before its time.
    ///
    /// # Errors
    /// The connection does not receive.
    pub fn new(connection: &'c Connection, hold: Duration, held_max: usize) -> Result<Self, Error> {
        if !connection.receives() {
            return Err(Error::DoesNotReceive);
        }
        let held_max = held_max.clamp(1, Self::HELD_MAX);
        Ok(Self {
            connection,
            hold_ns: u64::try_from(hold.as_nanos()).unwrap_or(u64::MAX),
            held_max,
            held: VecDeque::with_capacity(held_max),
            oldest: 0,
            next: 0,
            unread: 0,
        })
    }

    /// Reads the next PDU: waits for it, and copies its first octets; how many octets its SDU has.
    ///
    /// # Errors
    /// [`Error::Late`] once for PDUs in a row that were released unread; the next call goes on with
    /// the oldest that is held. The connection has ended.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
        let connection = self.connection;
        connection.wait_until(None, Interest::RECEIVE, || self.try_read(buffer))
    }

    /// The same; [`Error::TimedOut`] after `timeout`.
    ///
    /// # Errors
    /// As [`StreamReader::read`].
    pub fn read_timeout(&mut self, buffer: &mut [u8], timeout: Duration) -> Result<usize, Error> {
        let connection = self.connection;
        connection.wait_until(Some(timeout), Interest::RECEIVE, || self.try_read(buffer))
    }

    /// The same without waiting.
    ///
    /// # Errors
    /// As [`StreamReader::read`]; [`Error::WouldBlock`].
    pub fn try_read(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
        let ended = self.refresh(now());
        if self.next < self.oldest {
            let missed = self.oldest - self.next;
            self.next = self.oldest;
            return Err(Error::Late { missed });
        }
        if self.next == self.end() {
            // What is held comes before the news that no more will.
            ended?;
            return Err(Error::WouldBlock(Wait::Pdu));
        }
        let len = self.copy(self.next, buffer)?;
        self.next += 1;
        Ok(len)
    }

    /// Reads the PDU of a number, again or out of order; the next PDU to [read](Self::read) stays
    /// the same.
    ///
    /// # Errors
    /// [`Error::Late`] if it is released, [`Error::WouldBlock`] if it has not arrived.
    pub fn read_at(&mut self, number: u64, buffer: &mut [u8]) -> Result<usize, Error> {
        let ended = self.refresh(now());
        if number >= self.end() {
            ended?;
        }
        self.copy(number, buffer)
    }

    /// Number of the oldest PDU that can be read.
    pub fn oldest(&self) -> u64 {
        self.oldest
    }

    /// Number of the next PDU to arrive.
    pub fn end(&self) -> u64 {
        self.oldest + self.held.len() as u64
    }

    /// PDUs that were released unread.
    pub fn released_unread(&self) -> u64 {
        self.unread
    }

    fn copy(&self, number: u64, buffer: &mut [u8]) -> Result<usize, Error> {
        let Some(ahead) = number.checked_sub(self.oldest) else {
            let missed = self.oldest - number;
            return Err(Error::Late { missed });
        };
        let held = usize::try_from(ahead).ok().and_then(|i| self.held.get(i));
        let held = held.ok_or(Error::WouldBlock(Wait::Pdu))?;
        let len = held.len().min(buffer.len());
        buffer[..len].copy_from_slice(&held[..len]);
        self.connection.count_copy();
        Ok(held.len())
    }

    /// Takes what has arrived and releases what is old. At most as many PDUs as can be held are
    /// taken. An error is one of the connection.
    fn refresh(&mut self, now: Time) -> Result<(), Error> {
        self.expire(now);
        for _ in 0..self.held_max {
            match self.connection.try_hold() {
                Ok(held) => {
                    if self.held.len() == self.held_max {
                        self.release_oldest();
                    }
                    self.held.push_back(held);
                }
                Err(Error::WouldBlock(_)) => break,
                Err(error) => {
                    self.expire(now);
                    return Err(error);
                }
            }
        }
        self.expire(now);
        Ok(())
    }

    fn expire(&mut self, now: Time) {
        while let Some(held) = self.held.front() {
            if now.since_ns(held.pdu().descriptor().time) < self.hold_ns {
                break;
            }
            self.release_oldest();
        }
    }

    fn release_oldest(&mut self) {
        if let Some(held) = self.held.pop_front() {
            self.connection.release(held);
            self.unread += u64::from(self.oldest >= self.next);
            self.oldest += 1;
        }
    }
}

/// Writes a connection as a stream without flow control (*L4ATM*'s stream interface): an SDU that
/// finds no room is dropped, so that a source in real time never waits for its network. Who keeps
/// to its contract drops none.
#[derive(Debug)]
pub struct StreamWriter<'c> {
    connection: &'c Connection,
    dropped: u64,
}

impl<'c> StreamWriter<'c> {
    /// Writes `connection`.
    ///
    /// # Errors
    /// The connection does not send.
    pub fn new(connection: &'c Connection) -> Result<Self, Error> {
        if connection.transmit_max_sdu().is_none() {
            return Err(Error::DoesNotSend);
        }
        let dropped = 0;
        Ok(Self {
            connection,
            dropped,
        })
    }

    /// Sends an SDU, or drops it: false.
    ///
    /// # Errors
    /// It is longer than the contract allows; the connection has ended.
    pub fn write(&mut self, sdu: &[u8]) -> Result<bool, Error> {
        match self.connection.try_send(sdu) {
            Ok(()) => Ok(true),
            Err(Error::WouldBlock(_)) => {
                self.dropped += 1;
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// SDUs that were dropped.
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }
}

impl Drop for StreamReader<'_> {
    fn drop(&mut self) {
        for held in self.held.drain(..) {
            self.connection.release(held);
        }
    }
}
