//! The thread of a worker.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use cellgate::{Address, Connection, Error, Refused, TrafficContract};
use cellgate_core::contract::Aal;
use cellgate_core::upper::Encapsulation;
use rustix::io::Errno;

use super::counts::Counts;
use super::device::Device;
use super::interrupts::Line;
use super::share::{Precedence, Share};
use crate::adapter::wake::ring;
use crate::link::Shown;
use crate::sys::{Cpus, ThreadScheduling, Tun, name_thread};

/// Where a worker gets its connection from.
pub(in super::super) enum How {
    Open(Address, String),
    Take(Address),
    /// Another server's worker had it; the capability goes along.
    Resume(Address, OwnedFd),
}

/// What a worker's connection is.
pub(in super::super) struct Opened {
    pub(super) vc: Address,
    pub(super) contract: String,
    pub(super) transmit_max_sdu: u16,
}

/// What a worker tells the service thread.
pub(in super::super) enum Event {
    Opened(u32, Opened),
    /// How it is scheduled from here on.
    Scheduled(u32, ThreadScheduling),
    /// It has given back all that it had; why it did not go on, if nobody asked it to end.
    Ended(u32, Option<Refused>),
    /// Of all of them: nobody wakes them any more.
    Uninterrupted(Errno),
}

pub(super) struct Start {
    pub(super) number: u32,
    pub(super) device: Arc<Tun>,
    pub(super) encapsulation: Encapsulation,
    /// Its end of its control socket.
    pub(super) socket: OwnedFd,
    pub(super) how: How,
    pub(super) line: Line,
    pub(super) shown: Arc<Shown<Counts>>,
    pub(super) share: Arc<Share>,
    pub(super) cpus: Cpus,
    pub(super) events: Sender<Event>,
    pub(super) bell: Arc<OwnedFd>,
}

/// Starts the thread.
pub(super) fn start(start: Start) -> std::io::Result<()> {
    let builder = std::thread::Builder::new().name("worker".to_owned());
    builder.spawn(move || {
        name_thread("cg-worker");
        let mut farewell = Farewell {
            number: start.number,
            why: Some(Refused::Kernel(
                "the device's worker has panicked".to_owned(),
            )),
            events: start.events.clone(),
            bell: Arc::clone(&start.bell),
        };
        farewell.why = run(start).err().map(refused);
    })?;
    Ok(())
}

/// Tells of a worker's end, whatever it ends by.
struct Farewell {
    number: u32,
    why: Option<Refused>,
    events: Sender<Event>,
    bell: Arc<OwnedFd>,
}

impl Drop for Farewell {
    fn drop(&mut self) {
        // The service thread ends with the process only.
        let _ = self.events.send(Event::Ended(self.number, self.why.take()));
        ring(&self.bell);
    }
}

fn run(start: Start) -> Result<(), Error> {
    let builder = Connection::builder().connected(start.socket);
    let connection = match start.how {
        How::Open(address, contract) => builder.address(address).contract(contract).open()?,
        How::Take(address) => builder.address(address).take()?,
        How::Resume(address, capability) => builder.address(address).reattach(capability)?,
    };
    let contract: TrafficContract = connection
        .contract()
        .parse()
        .map_err(|_| Error::BadMessage("no contract".to_owned()))?;
    if !matches!(contract.aal, None | Some(Aal::Aal5)) {
        let reason = "RFC 2684 is for AAL5 only".to_owned();
        return Err(Refused::Unsupported(reason).into());
    }
    let (encapsulation, shown) = (start.encapsulation, &*start.shown);
    let mut device = Device::new(&connection, &start.device, encapsulation, shown)?;
    let tell = |event| {
        // The service thread ends with the process only.
        let _ = start.events.send(event);
        ring(&start.bell);
    };
    tell(Event::Opened(
        start.number,
        Opened {
            vc: connection.address(),
            contract: connection.contract(),
            transmit_max_sdu: connection.transmit_max_sdu().unwrap_or_default(),
        },
    ));
    let scheduled = |scheduling| tell(Event::Scheduled(start.number, scheduling));
    let precedence = Precedence::new(&start.share, &start.cpus, &scheduled);
    device.run(&start.line, precedence)
}

/// As an application hears it.
fn refused(error: Error) -> Refused {
    match error {
        Error::Refused(refused) => refused,
        Error::DoesNotSend | Error::DoesNotReceive => Refused::Unsupported(error.to_string()),
        other => Refused::Kernel(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn the_end_of_a_worker_is_told_whatever_it_ends_by() {
        for panics in [false, true] {
            let (events, told) = channel();
            let bell = Arc::new(cellgate_shm::wake_descriptor().unwrap());
            let number = 7;
            let worker = std::thread::spawn(move || {
                let why = panics.then_some(Refused::NotFound);
                let _farewell = Farewell {
                    number,
                    why,
                    events,
                    bell,
                };
                assert!(!panics, "as is wanted here");
            });
            assert_eq!(worker.join().is_err(), panics);
            let Ok(Event::Ended(of, why)) = told.recv() else {
                panic!("the end");
            };
            assert_eq!((of, why), (number, panics.then_some(Refused::NotFound)));
        }
    }
}
