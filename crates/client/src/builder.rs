use core::fmt::Display;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cellgate_core::adapter::{Marks, Notification};
use cellgate_core::server::{Address, Confirm, Open, QueueThreshold, Request};

use crate::connection::LentBuffer;
use crate::control::{Control, unexpected};
use crate::hub::Hub;
use crate::{Connection, Error, socket_path};

/// A connection to open: [`Connection::builder`].
#[derive(Clone, Debug)]
#[must_use = "a builder opens nothing by itself"]
pub struct Builder {
    address: String,
    contract: String,
    socket: Option<PathBuf>,
    /// A socket that is connected already.
    connected: Option<Arc<OwnedFd>>,
    notification: Option<Notification>,
    marks: Marks,
    transmit_pdus: Option<u32>,
    receive_pdus: Option<u32>,
    queue_threshold: Option<QueueThreshold>,
    events: usize,
    completions: bool,
    patience: Duration,
    into: Option<LentBuffer>,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            address: String::new(),
            contract: "ubr,aal5".to_owned(),
            socket: None,
            connected: None,
            notification: None,
            marks: Marks::None,
            transmit_pdus: None,
            receive_pdus: None,
            queue_threshold: None,
            events: 0,
            completions: true,
            patience: Control::PATIENCE,
            into: None,
        }
    }
}

impl Builder {
    /// Where: `[interface.]vpi.vci`, as text or an [`Address`].
    pub fn address(mut self, address: impl Display) -> Self {
        self.address = address.to_string();
        self
    }

    /// The contract, as text or a [`TrafficContract`](crate::TrafficContract). Without: best
    /// effort, `ubr,aal5`.
    pub fn contract(mut self, contract: impl Display) -> Self {
        self.contract = contract.to_string();
        self
    }

    /// The server's control socket. Without: [`socket_path`].
    pub fn socket(mut self, path: impl AsRef<Path>) -> Self {
        self.socket = Some(path.as_ref().to_owned());
        self
    }

    /// A socket of sequenced packets whose other end the server has: nobody is called. It is good
    /// for one connection.
    pub fn connected(mut self, socket: OwnedFd) -> Self {
        self.connected = Some(Arc::new(socket));
        self
    }

    /// When events tell of received cells. Without: at the last cell of each PDU.
    ///
    /// With [`Notification::Polled`] and [`Notification::FirstCell`], which do not tell of complete
    /// PDUs, a waiting reader looks every millisecond.
    pub fn notification(mut self, notification: Notification) -> Self {
        self.notification = Some(notification);
        self
    }

    /// The marks of AAL0 cells that [`Builder::notification`] is about. Without: none, and
    /// each cell is told as a PDU. With [`Marks::Mssar`] the first and last cells of blocks are
    /// told, and those between wait for them.
    pub fn marks(mut self, marks: Marks) -> Self {
        self.marks = marks;
        self
    }

    /// SDUs of the largest size that may wait to be sent. Without: as many as the credit interval
    /// has, at least 2.
    pub fn transmit_pdus(mut self, pdus: u32) -> Self {
        self.transmit_pdus = Some(pdus);
        self
    }

    /// PDUs that may wait to be read beyond those that the contract needs room for.
    pub fn receive_pdus(mut self, pdus: u32) -> Self {
        self.receive_pdus = Some(pdus);
        self
    }

    /// The fill of the receive queue at which an event tells ([`Builder::events`]) and a waiting
    /// reader is woken. Without: none.
    pub fn queue_threshold(mut self, threshold: QueueThreshold) -> Self {
        self.queue_threshold = Some(threshold);
        self
    }

    /// Keeps so many events of the adapter for [`Connection::next_event`]. Without this call they
    /// wake who waits, and are forgotten.
    pub fn events(mut self, kept: usize) -> Self {
        self.events = kept;
        self
    }

    /// Whether a PDU that has left wakes a sender that waits for room. Without this call it does;
    /// if not, such a sender looks every millisecond.
    pub fn completions(mut self, completions: bool) -> Self {
        self.completions = completions;
        self
    }

    /// How long a request to the server may take. Without: 30 s.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Has PDUs put together in the transmit buffer of `other`, from which a
    /// [`Chain`](crate::Chain) sends them on without a copy. Both are at one adapter, with one AAL,
    /// and `other` has room for what is received and one SDU more ([`Builder::transmit_pdus`]).
    /// Waits until what `other` has to send has left. From then on, and as long as this builder or
    /// what it opens lives, `other` sends nothing of its own ([`Error::Fed`]). What is opened ends
    /// with `other`, and with the adapter.
    ///
    /// # Errors
    /// As [`Connection::flush`]; no descriptors are left.
    pub fn receive_into(mut self, other: &Connection) -> Result<Self, Error> {
        self.into = Some(other.lend_buffer(self.patience)?);
        Ok(self)
    }

    /// Opens the connection.
    ///
    /// # Errors
    /// There is no server, the address or contract is none, or admission refuses.
    pub fn open(&self) -> Result<Connection, Error> {
        self.open_in(&self.hub()?)
    }

    /// The same in a session.
    pub(crate) fn open_in(&self, hub: &Arc<Hub>) -> Result<Connection, Error> {
        let request = Request::Open(self.request()?);
        let into = self.into.as_ref();
        self.establish(hub, request, into.map(|into| into.capability.as_fd()))
    }

    /// Takes the use of a permanent connection that nobody uses. Its contract, its memory and what
    /// events tell are as it was made.
    ///
    /// # Errors
    /// There is no server, or no such connection for this user.
    pub fn take(&self) -> Result<Connection, Error> {
        self.take_in(&self.hub()?)
    }

    /// The same in a session.
    pub(crate) fn take_in(&self, hub: &Arc<Hub>) -> Result<Connection, Error> {
        let address = self.address.parse()?;
        self.establish(hub, Request::Take { address }, None)
    }

    /// Takes this user's connection over from another process, by right of its
    /// [`Connection::capability`]. That process may still have the memory: until the connection
    /// gets another, what is held and what is reserved is a copy.
    ///
    /// # Errors
    /// There is no server, or no such connection with this capability.
    pub fn reattach(&self, capability: impl AsFd) -> Result<Connection, Error> {
        let address = self.address.parse()?;
        let request = Request::Reattach { address };
        self.establish(&self.hub()?, request, Some(capability.as_fd()))
    }

    /// What is asked for.
    pub(crate) fn request(&self) -> Result<Open, Error> {
        Ok(Open {
            address: self.address.parse::<Address>()?,
            contract: self.contract.clone(),
            notification: self.notification,
            marks: self.marks,
            transmit_pdus: self.transmit_pdus,
            receive_pdus: self.receive_pdus,
            queue_threshold: self.queue_threshold,
            completions: self.completions,
            receive_into: self.into.as_ref().map(|into| into.address.clone()),
        })
    }

    fn hub(&self) -> Result<Arc<Hub>, Error> {
        let hub = match &self.connected {
            Some(socket) => Hub::over(socket.try_clone()?, self.patience)?,
            None => {
                let path = self.socket.clone().unwrap_or_else(socket_path);
                Hub::connect(&path, self.patience)?
            }
        };
        Ok(Arc::new(hub))
    }

    fn establish(
        &self,
        hub: &Arc<Hub>,
        request: Request,
        capability: Option<BorrowedFd<'_>>,
    ) -> Result<Connection, Error> {
        let control = Control::another(hub.socket(), self.patience);
        let number = control.number();
        let established = self.establish_over(hub, control, request, capability);
        if let Err(error) = &established
            && !matches!(error, Error::Refused(_))
        {
            // The server may have opened it, or do so yet.
            hub.end(number);
        }
        established
    }

    fn establish_over(
        &self,
        hub: &Arc<Hub>,
        mut control: Control,
        request: Request,
        capability: Option<BorrowedFd<'_>>,
    ) -> Result<Connection, Error> {
        let opens = matches!(request, Request::Open(_));
        match control.request(request, capability.as_slice())? {
            (Confirm::Opened(_), _) => {
                let is_anothers = capability.is_some() && !opens;
                let into = self.into.as_ref().filter(|_| opens);
                let connection = Connection::over(hub, control, is_anothers, into)?;
                connection.keep_events(self.events);
                Ok(connection)
            }
            (other, _) => Err(unexpected(&other)),
        }
    }
}
