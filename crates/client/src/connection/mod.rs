//! A connection: its memory, its control socket, and what both tell.
//!
//! Each part is in a cell of its own, so that a borrowed [`Space`] keeps nobody from receiving and
//! a held [`Pdu`] nobody from sending. No cell is borrowed while the application's code runs, but
//! that of the transmit half by a `Space`: it is the only one whose borrow can fail.

mod chain;
mod events;
mod indications;
mod memory;
mod receive;
mod transmit;
mod wait;

use std::cell::{Cell, RefCell};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cellgate_core::adapter::VcStats;
use cellgate_core::server::{Address, Confirm, ConnectionInfo, Opened, Refused, Request};
use cellgate_shm::{ClientCounters, ClientTransmit};

use crate::admin::cpu_time;
use crate::control::{Control, NewMemory, unexpected};
use crate::hub::{Attachment, Events, Hub};
use crate::{Builder, Error, ServerInfo};

use memory::Memory;
use receive::Receiver;

pub(crate) use chain::LentBuffer;
pub use chain::{Chain, ChainCounters};
pub(crate) use memory::FROM_CLIENT;
pub use receive::{Pdu, Received};
pub use transmit::Space;

/// A virtual channel with its contract, and the queues that carry its PDUs.
///
/// Blocking calls have siblings with a time limit (`_timeout`) and without waiting (`try_`, which
/// fail with [`Error::WouldBlock`]). A signal interrupts none of them. [`Connection::arm`] says how
/// to wait elsewhere.
///
/// What is sent is paced by credit: a writer that has used up the credit of an interval is
/// suspended until the next. The adapter polices what is received; where the contract has it do no
/// more than look at the buffer (`police=buffer`), what is beyond credit and tolerance is dismissed
/// here, and counted.
///
/// What the server tells of its own accord is acted on within these calls, and kept for
/// [`Connection::next_indication`].
#[derive(Debug)]
pub struct Connection {
    control: RefCell<Control>,
    /// Shared with the others of its session.
    hub: Arc<Hub>,
    attachment: RefCell<Arc<Attachment>>,
    receive: RefCell<Receiver>,
    transmit: RefCell<ClientTransmit>,
    /// What the transmit half becomes as soon as no [`Space`] borrows it.
    next_transmit: RefCell<Option<ClientTransmit>>,
    /// The file that this process writes: whoever has it may take the connection over.
    capability: RefCell<OwnedFd>,
    /// Its transmit buffer; who else has this receives there.
    feed: Arc<()>,
    /// The same of the connection that it receives into.
    into: Option<Arc<()>>,
    /// What was forwarded may still be with the adapter.
    forwards: Cell<bool>,
    sent: Cell<u64>,
    /// The adapter has not been told of all that was handed over.
    untold: Cell<bool>,
    send_copies: Cell<u64>,
    events: Arc<Mutex<Events>>,
    /// SDUs that may go by before events are looked at.
    pass_left: Cell<u32>,
}

/// What this library did for a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectionCounters {
    /// SDUs handed to the adapter.
    pub sent: u64,
    /// Of these, copied into the transmit buffer: one copy each. The adapter stages each SDU, those
    /// that were written in place too, by one copy of its own.
    pub send_copies: u64,
    /// Times that a writer was suspended for want of credit.
    pub suspended: u64,
    /// PDUs handed to the application.
    pub received: u64,
    /// Copies out of the receive buffer: one for each of these that was not held, and one for each
    /// read of a stream.
    pub receive_copies: u64,
    /// PDUs beyond credit and tolerance.
    pub dismissed: u64,
    /// Events, wake-ups and doorbells between this process and the adapter: of all connections
    /// together that a session has there.
    pub client: ClientCounters,
}

impl Connection {
    /// Opens a connection at the usual server: [`Builder`] with an address and a contract.
    ///
    /// # Errors
    /// As [`Builder::open`].
    pub fn open(address: &str, contract: &str) -> Result<Self, Error> {
        Self::builder().address(address).contract(contract).open()
    }

    /// Takes the use of a permanent connection at the usual server.
    ///
    /// # Errors
    /// As [`Builder::take`].
    pub fn take(address: &str) -> Result<Self, Error> {
        Self::builder().address(address).take()
    }

    /// Takes this user's connection over from another process.
    ///
    /// # Errors
    /// As [`Builder::reattach`].
    pub fn reattach(address: &str, capability: impl AsFd) -> Result<Self, Error> {
        Self::builder().address(address).reattach(capability)
    }

    /// What is to be opened, in parts.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// `is_anothers`: another process may have the memory mapped.
    pub(crate) fn over(
        hub: &Arc<Hub>,
        mut control: Control,
        is_anothers: bool,
        into: Option<&LentBuffer>,
    ) -> Result<Self, Error> {
        let memory = control.next_memory();
        let memory = memory.ok_or_else(|| Error::BadMessage("no memory came along".to_owned()))?;
        let NewMemory { opened, came, .. } = memory;
        let (memory, attachment) = memory::all(hub, &opened, came.0, into)?;
        let Memory {
            mut transmit,
            receive,
            capability,
        } = memory;
        // Whoever had the connection before may not have come to this.
        if transmit.reclaim() > 0 {
            attachment.shared().attached.ring(opened.vc);
        }
        let mut receive = Receiver::new(receive);
        if is_anothers {
            receive.share()?;
            transmit.share();
        }
        let events = Arc::default();
        let number = control.number();
        attachment
            .shared()
            .enter(opened.vc.index, number, &events, is_anothers);
        Ok(Self {
            control: RefCell::new(control),
            hub: Arc::clone(hub),
            attachment: RefCell::new(attachment),
            events,
            pass_left: Cell::new(0),
            receive: RefCell::new(receive),
            transmit: RefCell::new(transmit),
            next_transmit: RefCell::new(None),
            capability: RefCell::new(capability),
            feed: Arc::default(),
            into: into.map(|into| Arc::clone(&into.feed)),
            forwards: Cell::new(false),
            sent: Cell::new(0),
            untold: Cell::new(false),
            send_copies: Cell::new(0),
        })
    }

    /// Where it is.
    pub fn address(&self) -> Address {
        self.control.borrow().open().opened().address.clone()
    }

    /// Its contract in canonical form.
    pub fn contract(&self) -> String {
        self.control.borrow().open().opened().contract.clone()
    }

    /// The largest SDU that it sends, in octets; none: it does not send.
    pub fn transmit_max_sdu(&self) -> Option<u16> {
        self.control.borrow().open().opened().transmit_max_sdu
    }

    /// The largest SDU that it receives, in octets; none: it does not receive.
    pub fn receive_max_sdu(&self) -> Option<u16> {
        self.control.borrow().open().opened().receive_max_sdu
    }

    /// The server at the other end of the control socket when it was opened.
    pub fn server(&self) -> ServerInfo {
        self.hub.server().clone()
    }

    /// A descriptor by which another process of this user may take the connection over
    /// ([`Connection::reattach`]). That process can then give back what this one reads, and write
    /// where this one writes: from now on, until the connection gets new memory, what is held and
    /// what is reserved is a copy.
    ///
    /// # Errors
    /// No descriptors are left; a PDU is held, or a [`Space`] borrowed.
    pub fn capability(&self) -> Result<OwnedFd, Error> {
        let capability = self.capability.borrow().try_clone()?;
        let mut transmit = self.transmitter()?;
        self.receive.borrow_mut().share()?;
        transmit.share();
        Ok(capability)
    }

    /// Changes the contract; nothing is lost. What was sent before goes out under the old one: the
    /// call waits for that. What was received before can still be read.
    ///
    /// # Errors
    /// Admission refuses, and the contract stays as it was; a [`Space`] is borrowed.
    /// [`Error::TimedOut`]: what was sent does not leave in time, or the server does not answer:
    /// what it confirms later is in force then ([`Connection::contract`]).
    pub fn set_contract(&self, contract: &str) -> Result<(), Error> {
        self.flush(Control::PATIENCE)?;
        let modified = self.control.borrow_mut().modify(contract.to_owned());
        self.map_new_memory()?;
        modified
    }

    /// Takes what [`CanGrow`] offered.
    ///
    /// [`CanGrow`]: crate::Indication::CanGrow
    ///
    /// # Errors
    /// As [`Connection::set_contract`]; [`Error::WouldBlock`] if nothing is offered.
    pub fn accept_offer(&self) -> Result<(), Error> {
        self.flush(Control::PATIENCE)?;
        let accepted = self.control.borrow_mut().accept_offer();
        self.map_new_memory()?;
        accepted
    }

    /// Leaves what [`CanGrow`] offered.
    ///
    /// [`CanGrow`]: crate::Indication::CanGrow
    ///
    /// # Errors
    /// The server is gone; [`Error::WouldBlock`] if nothing is offered.
    pub fn decline_offer(&self) -> Result<(), Error> {
        self.control.borrow_mut().decline_offer()
    }

    /// Lends host time for `pdus` PDUs beyond the contract (`excess=when-idle`), for `expires_in`,
    /// at most 10 ms.
    ///
    /// # Errors
    /// The server refuses.
    pub fn lease(&self, pdus: u32, expires_in: Duration) -> Result<(), Error> {
        let expires_in_ns = u64::try_from(expires_in.as_nanos()).unwrap_or(u64::MAX);
        let request = Request::Lease {
            pdus,
            expires_in_ns,
        };
        match self.request(request)? {
            Confirm::Done => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// Reserves CPU time for the calling thread, `budget` in each `period` of 1 ms to 1 s, in place
    /// of what this connection, or another of its session, has reserved before: within its budget
    /// the thread is real-time, and comes before whatever has nothing reserved. A budget of zero
    /// gives it back, and so does the connection's end. A server that comes after this one has
    /// promised nothing: ask it again behind
    /// [`Indication::Restarted`](crate::Indication::Restarted). Gives in words how the thread is
    /// scheduled.
    ///
    /// # Errors
    /// There is not so much, or the server may make nobody real-time.
    pub fn reserve_cpu(&self, budget: Duration, period: Duration) -> Result<String, Error> {
        let tid = rustix::thread::gettid().as_raw_nonzero().get();
        match self.request(cpu_time(tid.cast_unsigned(), (budget, period), None))? {
            Confirm::CpuReserved { scheduling } => Ok(scheduling),
            other => Err(unexpected(&other)),
        }
    }

    /// The adapter's counters of this connection, as of the server's last report.
    ///
    /// # Errors
    /// The server refuses or is gone.
    pub fn stats(&self) -> Result<VcStats, Error> {
        Ok(self.info()?.stats)
    }

    /// This connection as the server lists it.
    ///
    /// # Errors
    /// As [`Connection::stats`].
    pub fn info(&self) -> Result<ConnectionInfo, Error> {
        let (address, pid) = (self.address(), std::process::id());
        let mut from = 0;
        loop {
            let (connections, next) = match self.request(Request::List { from })? {
                Confirm::Connections { connections, next } => (connections, next),
                other => return Err(unexpected(&other)),
            };
            // Two connections can share an address, one sending and one receiving: whose is asked
            // only if there is another.
            let mine = |info: &ConnectionInfo| info.address == address;
            let sure = |info: &&ConnectionInfo| mine(info) && info.pid == Some(pid);
            let found = connections.iter().find(sure);
            if let Some(info) = found.or_else(|| connections.iter().find(|info| mine(info))) {
                return Ok(info.clone());
            }
            match next {
                Some(next) if next > from => from = next,
                _ => return Err(Refused::NotFound.into()),
            }
        }
    }

    /// What this library counted; no system call.
    pub fn counters(&self) -> ConnectionCounters {
        ConnectionCounters {
            sent: self.sent.get(),
            send_copies: self.send_copies.get(),
            suspended: self.control.borrow().open().suspensions(),
            client: self.attachment.borrow().shared().attached.counters(),
            ..self.receive.borrow().counters
        }
    }

    /// Waits until the adapter has sent what was handed to it, and closes the connection: its last
    /// counters. A connection that is dropped closes at once; what waits in its queue is not sent.
    ///
    /// # Errors
    /// What was sent does not leave within `linger`; the server is gone.
    pub fn close(self, linger: Duration) -> Result<VcStats, Error> {
        let flushed = self.flush(linger);
        let closed = match self.request(Request::Close)? {
            Confirm::Closed { stats } => *stats,
            other => return Err(unexpected(&other)),
        };
        flushed.map(|()| closed)
    }

    /// Its number among the connections of its [`Session`](crate::Session), which
    /// [`Session::wait`](crate::Session::wait) names it by.
    pub fn number(&self) -> u32 {
        self.control.borrow().number()
    }

    /// Its events come to another attachment from now on.
    fn move_to(&self, attachment: Arc<Attachment>, opened: &Opened) {
        let number = self.number();
        let former = self.attachment.replace(Arc::clone(&attachment));
        if !Arc::ptr_eq(&former, &attachment) {
            self.hub.leave(&former, number);
        }
        attachment
            .shared()
            .enter(opened.vc.index, number, &self.events, true);
    }

    fn request(&self, request: Request) -> Result<Confirm, Error> {
        let confirmed = self.control.borrow_mut().request(request, &[]);
        self.map_new_memory()?;
        Ok(confirmed?.0)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let control = self.control.borrow();
        self.hub.leave(&self.attachment.borrow(), control.number());
        if control.is_open() {
            self.hub.end(control.number());
        }
    }
}
