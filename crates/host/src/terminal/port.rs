//! What a terminal sends and receives by.

use std::time::Duration;

use cellgate::{Connection, Error, Interest};
use cellgate_core::Time;
use cellgate_core::terminal::{Exchange, ExchangeTerms};
use cellgate_core::wire::CELL_LEN_NO_HEC;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::cells::{CellConnection, OwnedLine};
use super::over::Transport;
use super::packets;
use super::place::Receiving;
use super::sending::Sending;
use super::session::Over;
use super::terms::Terms;
use crate::clock::MonotonicClock;

/// What a terminal sends and receives by.
pub enum Port {
    /// SDUs: the adapter makes the cells.
    Packets(Box<Connection>),
    /// A connection of AAL0: the terminal makes the cells.
    Cells(Box<CellConnection>),
    /// A line without a daemon.
    Line(Box<OwnedLine>),
}

/// One look at a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Looked {
    /// Something came or was sent.
    pub is_busy: bool,
    /// There may be more to send than the port takes now.
    pub waits: bool,
}

impl Port {
    /// The connection, if it is one.
    pub fn connection(&self) -> Option<&Connection> {
        match self {
            Self::Packets(connection) => Some(connection),
            Self::Cells(cells) => Some(&cells.connection),
            Self::Line(_) => None,
        }
    }

    fn look(&mut self, exchange: &mut Exchange<Sending, Receiving>) -> Result<Looked, Error> {
        let now = MonotonicClock.now();
        exchange.handle_deadline(now);
        match self {
            Self::Packets(connection) => packets::look(connection, now, exchange),
            Self::Cells(cells) => cells.look(now, exchange),
            Self::Line(line) => Ok(line.look(now, exchange)),
        }
    }

    fn wait(&mut self, waits: bool, until: Time) -> Result<(), Error> {
        let now = MonotonicClock.now();
        let (connection, len) = match self {
            Self::Packets(connection) => {
                let max = connection.transmit_max_sdu();
                (&**connection, max.unwrap_or(1).into())
            }
            Self::Cells(cells) => (&cells.connection, CELL_LEN_NO_HEC),
            Self::Line(line) => {
                line.wait(now, waits, until);
                return Ok(());
            }
        };
        let interest = match waits {
            true => Interest::RECEIVE.or(Interest::send(len)),
            false => Interest::RECEIVE,
        };
        if !connection.arm(interest)? {
            return Ok(());
        }
        let left = Duration::from_nanos(until.since_ns(now));
        let timeout = Timespec::try_from(left).ok();
        // A wait that a signal ends is over.
        let _ = poll(
            &mut [PollFd::new(connection, PollFlags::IN)],
            timeout.as_ref(),
        );
        connection.disarm()
    }
}

impl Transport for Port {
    type Carrier = Exchange<Sending, Receiving>;

    const OUTLASTS_TERMINALS: bool = true;

    fn carrier(terms: &Terms, begins: bool) -> Self::Carrier {
        let terms_of = ExchangeTerms {
            run: terms.run,
            arq: terms.arq,
            window_pdus: terms.window_pdus(),
            window: terms.window,
            pdu_len: terms.pdu_len,
            begins,
        };
        // The tree of a terminal has the lengths that an exchange wants.
        let exchange = Exchange::new(MonotonicClock.now(), terms_of, &terms.tree);
        let mut exchange = exchange.expect("the terminal's own tree");
        if terms.adapts {
            exchange.adapt();
        }
        exchange
    }

    fn look(&mut self, carrier: &mut Self::Carrier) -> Result<Looked, Over> {
        Ok(self.look(carrier)?)
    }

    fn wait(&mut self, waits: bool, until: Time) -> Result<(), Over> {
        Ok(self.wait(waits, until)?)
    }

    fn flush(&mut self, timeout: Duration) {
        if let Some(connection) = self.connection() {
            // Who waits for it will ask again.
            let _ = connection.flush(timeout);
        }
    }
}
