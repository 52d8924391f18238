//! Frames over a stream of octets.

use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use cellgate_core::Time;
use cellgate_core::terminal::{Carrier, FRAME_MAX, OctetStream};

use super::{Octets, Transport};
use crate::clock::MonotonicClock;
use crate::terminal::place::Receiving;
use crate::terminal::port::Looked;
use crate::terminal::sending::Sending;
use crate::terminal::session::Over;
use crate::terminal::terms::Terms;

/// Octets that are read at once, and written.
const INPUT: usize = 256 << 10;
const OUTPUT: usize = 4 * FRAME_MAX;
/// Reads, and writes, before the other way is looked at again.
const BATCH: usize = 8;

/// Octets that wait.
#[derive(Debug)]
struct Buffer {
    octets: Box<[u8]>,
    from: usize,
    to: usize,
}

impl Buffer {
    fn new(len: usize) -> Self {
        Self {
            octets: vec![0; len].into_boxed_slice(),
            from: 0,
            to: 0,
        }
    }

    fn waiting(&self) -> &[u8] {
        &self.octets[self.from..self.to]
    }

    /// Room behind what waits.
    fn room(&mut self) -> &mut [u8] {
        if self.from > 0 {
            self.octets.copy_within(self.from..self.to, 0);
            (self.from, self.to) = (0, self.to - self.from);
        }
        &mut self.octets[self.to..]
    }

    fn take(&mut self, len: usize) {
        self.from += len;
        if self.from == self.to {
            (self.from, self.to) = (0, 0);
        }
    }

    fn is_empty(&self) -> bool {
        self.from == self.to
    }
}

/// Octets with a terminal at each end.
#[derive(Debug)]
pub struct Stream<P> {
    octets: P,
    input: Buffer,
    output: Buffer,
    /// The other end sends no more.
    is_ended: bool,
}

impl<P: Octets> Stream<P> {
    pub fn new(octets: P) -> Self {
        Self {
            octets,
            input: Buffer::new(INPUT),
            output: Buffer::new(OUTPUT),
            is_ended: false,
        }
    }

    /// What was begun.
    pub const fn octets(&self) -> &P {
        &self.octets
    }

    /// Takes what has come, until something has happened that is to be dealt with first.
    fn takes(&mut self, now: Time, carrier: &mut Carried) -> Result<bool, Over> {
        let mut is_busy = false;
        for _ in 0..BATCH {
            let taken = carrier.handle_octets(now, self.input.waiting())?;
            self.input.take(taken);
            is_busy |= taken > 0;
            // What is left waits for events to be drained, or for messages to be heard.
            if !self.input.is_empty() || self.is_ended {
                break;
            }
            let Some(read) = unless_blocked(self.octets.read(self.input.room()))? else {
                break;
            };
            self.input.to += read;
            self.is_ended = read == 0;
        }
        // What was taken last is dealt with before that.
        if self.is_ended && self.input.is_empty() && !is_busy {
            return Err(Over::Closed);
        }
        Ok(is_busy)
    }

    /// Sends what the carrier has: whether something has left.
    fn sends(&mut self, now: Time, carrier: &mut Carried) -> Result<bool, Over> {
        let mut is_busy = false;
        for _ in 0..BATCH {
            if self.output.is_empty() {
                self.output.to = carrier.poll_octets(now, &mut self.output.octets);
            }
            if self.output.is_empty() {
                break;
            }
            let Some(written) = unless_blocked(self.octets.write(self.output.waiting()))? else {
                break;
            };
            self.output.take(written);
            is_busy = true;
        }
        Ok(is_busy)
    }
}

type Carried = OctetStream<Sending, Receiving>;

impl<P: Octets> Transport for Stream<P> {
    type Carrier = Carried;

    const OUTLASTS_TERMINALS: bool = false;

    fn carrier(terms: &Terms, _begins: bool) -> Carried {
        OctetStream::new(MonotonicClock.now(), terms.window)
    }

    fn look(&mut self, carrier: &mut Carried) -> Result<Looked, Over> {
        let now = MonotonicClock.now();
        carrier.handle_deadline(now);
        let has_taken = self.takes(now, carrier)?;
        // What came before the stream broke may say why: that it is broken is found again.
        let has_sent = match self.sends(now, carrier) {
            Err(_) if has_taken => false,
            sent => sent?,
        };
        Ok(Looked {
            is_busy: has_taken || has_sent,
            waits: !self.output.is_empty(),
        })
    }

    fn wait(&mut self, waits: bool, until: Time) -> Result<(), Over> {
        // What waits here says that there is no place for it.
        let reads = self.input.is_empty() && !self.is_ended;
        Ok(self.octets.wait(reads, waits, until)?)
    }

    fn flush(&mut self, timeout: Duration) {
        let begun = Instant::now();
        while !self.output.is_empty() {
            let Some(left) = timeout.checked_sub(begun.elapsed()) else {
                return;
            };
            match unless_blocked(self.octets.write(self.output.waiting())) {
                Ok(Some(written)) => self.output.take(written),
                Ok(None) => {
                    let until = MonotonicClock.now().plus_ns(left.as_nanos() as u64);
                    if self.octets.wait(false, true, until).is_err() {
                        return;
                    }
                }
                // Nobody hears of an end that cannot be told.
                Err(_) => return,
            }
        }
        self.octets.finish(timeout.saturating_sub(begun.elapsed()));
    }
}

/// None if it has to wait.
fn unless_blocked(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(octets) => Ok(Some(octets)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        Err(error) if error.kind() == ErrorKind::Interrupted => Ok(None),
        Err(error) => Err(error),
    }
}
