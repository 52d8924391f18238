//! `--grow`: less than was asked for at first, and more as soon as the server has it.

use std::time::{Duration, Instant};

use cellgate::{Builder, Connection, Error, Indication, Refused, Shortage, TrafficContract};

/// From one look for an offer to the next.
const LOOK: Duration = Duration::from_millis(50);

/// Opens a connection; where there is not enough, under what is offered instead, and has the server
/// tell when there is room for all of `contract`.
pub(super) fn open(
    contract: &TrafficContract,
    with: impl Fn(String) -> Builder,
) -> Result<Connection, Error> {
    let refused = match with(contract.to_string()).open() {
        Err(Error::Refused(refused)) => refused,
        opened => return opened,
    };
    let Refused::Admission(Shortage {
        offer: Some(offer), ..
    }) = &refused
    else {
        return Err(Error::Refused(refused));
    };
    let connection = with(offer.clone()).open()?;
    eprintln!("note: {refused}: opened under that until there is more");
    // The server remembers what it refuses a connection.
    match connection.set_contract(&contract.to_string()) {
        Ok(()) | Err(Error::Refused(Refused::Admission(_))) => Ok(connection),
        Err(error) => Err(error),
    }
}

/// Takes what a connection is offered.
#[derive(Debug, Default)]
pub(super) struct Growth {
    looked: Option<Instant>,
}

impl Growth {
    /// Looks for an offer now and then, and takes it; whether it has one.
    pub(super) fn look(&mut self, connection: &Connection) -> Result<bool, Error> {
        if self.looked.is_some_and(|at| at.elapsed() < LOOK) {
            return Ok(false);
        }
        self.looked = Some(Instant::now());
        let mut grown = false;
        while let Some(indication) = connection.next_indication()? {
            if !matches!(indication, Indication::CanGrow { .. }) {
                continue;
            }
            match connection.accept_offer() {
                Ok(()) => {
                    eprintln!("note: grown to {}", connection.contract());
                    grown = true;
                }
                // Somebody else was faster; the server remembers it again.
                Err(Error::Refused(Refused::Admission(_)) | Error::WouldBlock(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(grown)
    }
}
