use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use cellgate_core::line::LineSpec;
use cellgate_core::server::{
    AdapterInfo, Address, Confirm, ConnectionInfo, CpuTime, Description, DeviceInfo, DeviceSpec,
    Indication, InterfaceInfo, InterfaceSpec, PingFlow, Request, ResourceInfo, Settings, Tried,
};

use cellgate_shm::CountersView;

use crate::control::{Control, unexpected};
use crate::{Builder, Error, socket_path};

/// Who answers at the control socket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerInfo {
    /// Its program's name and version.
    pub server: String,
    /// Its process.
    pub pid: u32,
    /// What it could not have (real-time classes, a CPU of its own, ...), for people.
    pub notes: Vec<String>,
}

/// The memory that the server shows its counters in.
#[derive(Debug)]
pub struct Counters {
    /// The file, read-only.
    pub file: OwnedFd,
    /// Octets.
    pub len: u64,
}

impl Counters {
    /// Maps the counters, to be read as often as wanted.
    ///
    /// # Errors
    /// The file is not what it should be, or the kernel refuses.
    pub fn map(&self) -> Result<CountersView, Error> {
        Ok(CountersView::open(self.file.as_fd(), self.len)?)
    }
}

/// Asks for CPU time.
pub(crate) fn cpu_time(tid: u32, times: (Duration, Duration), address: Option<Address>) -> Request {
    let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    Request::ReserveCpu(CpuTime {
        tid,
        budget_ns: ns(times.0),
        period_ns: ns(times.1),
        address,
    })
}

/// What concerns the server as a whole: lists, permanent connections, interfaces, loopback.
#[derive(Debug)]
pub struct Admin {
    control: Control,
}

impl Admin {
    /// Talks to the usual server.
    ///
    /// # Errors
    /// There is none.
    pub fn connect() -> Result<Self, Error> {
        Self::at(socket_path())
    }

    /// Talks to the server whose control socket is `path`.
    ///
    /// # Errors
    /// There is none.
    pub fn at(path: impl AsRef<Path>) -> Result<Self, Error> {
        let control = Control::connect(path.as_ref(), Control::PATIENCE)?;
        Ok(Self { control })
    }

    /// Who answers.
    pub fn server(&self) -> &ServerInfo {
        self.control.server()
    }

    /// Opens a permanent connection, which stays until it is deleted: its contract in canonical
    /// form.
    ///
    /// # Errors
    /// Admission refuses.
    pub fn add(&mut self, connection: &Builder) -> Result<String, Error> {
        match self.ask(Request::Add(connection.request()?))? {
            Confirm::Added { contract } => Ok(contract),
            other => Err(unexpected(&other)),
        }
    }

    /// Whether the connection could be opened by what is promised so far, and what would be
    /// reserved for it. The adapter is not asked, and nothing changes: another program may be
    /// first.
    ///
    /// # Errors
    /// [`Error::Refused`] as opening it would be, with the same offers.
    pub fn try_open(&mut self, connection: &Builder) -> Result<Tried, Error> {
        match self.ask(Request::Try(connection.request()?))? {
            Confirm::Tried(tried) => Ok(*tried),
            other => Err(unexpected(&other)),
        }
    }

    /// Changes the contract of a permanent connection that nobody uses.
    ///
    /// # Errors
    /// Admission refuses, it is in use, or there is none.
    pub fn set(&mut self, address: &str, contract: &str) -> Result<(), Error> {
        let (address, contract) = (address.parse()?, contract.to_owned());
        self.done(Request::Set { address, contract })
    }

    /// Closes a permanent connection, whoever uses it.
    ///
    /// # Errors
    /// There is none, or it is not this user's.
    pub fn delete(&mut self, address: &str) -> Result<(), Error> {
        let address = address.parse()?;
        self.done(Request::Delete { address })
    }

    /// All connections, those of all users, by number.
    ///
    /// # Errors
    /// The server is gone.
    pub fn list(&mut self) -> Result<Vec<ConnectionInfo>, Error> {
        let mut all = Vec::new();
        let mut from = 0;
        loop {
            match self.ask(Request::List { from })? {
                Confirm::Connections { connections, next } => {
                    all.extend(connections);
                    match next {
                        Some(next) if next > from => from = next,
                        _ => return Ok(all),
                    }
                }
                other => return Err(unexpected(&other)),
            }
        }
    }

    /// What is reserved and what is free.
    ///
    /// # Errors
    /// The server is gone.
    pub fn resources(&mut self) -> Result<Vec<ResourceInfo>, Error> {
        match self.ask(Request::Resources)? {
            Confirm::Resources(resources) => Ok(resources),
            other => Err(unexpected(&other)),
        }
    }

    /// How the adapters have run, as the server saw them last: at least one, in the order of its
    /// configuration.
    ///
    /// # Errors
    /// The server is gone.
    pub fn adapters(&mut self) -> Result<Vec<AdapterInfo>, Error> {
        match self.ask(Request::Adapters)? {
            Confirm::Adapters(adapters) if !adapters.is_empty() => Ok(adapters),
            other => Err(unexpected(&other)),
        }
    }

    /// How the adapter of an interface has run; without a name the first.
    ///
    /// # Errors
    /// The server is gone.
    pub fn adapter_of(&mut self, interface: Option<&str>) -> Result<AdapterInfo, Error> {
        let mut adapters = self.adapters()?;
        let name = match (adapters.len(), interface) {
            (0..=1, _) | (_, None) => None,
            (_, Some(interface)) => {
                let all = self.interfaces()?.into_iter();
                let found = all
                    .map(|info| info.spec)
                    .find(|spec| spec.name == interface);
                found.and_then(|spec| spec.adapter)
            }
        };
        let place = adapters
            .iter()
            .position(|one| name.is_some() && one.name == name);
        Ok(adapters.swap_remove(place.unwrap_or(0)))
    }

    /// The interfaces.
    ///
    /// # Errors
    /// The server is gone.
    pub fn interfaces(&mut self) -> Result<Vec<InterfaceInfo>, Error> {
        match self.ask(Request::Interfaces)? {
            Confirm::Interfaces(interfaces) => Ok(interfaces),
            other => Err(unexpected(&other)),
        }
    }

    /// Adds an interface.
    ///
    /// # Errors
    /// This user may not, or it cannot be had.
    pub fn add_interface(&mut self, spec: InterfaceSpec) -> Result<(), Error> {
        self.done(Request::AddInterface(spec))
    }

    /// Has the line on which an interface's cells arrive be impaired, or clean. Cells on their way
    /// are lost.
    ///
    /// # Errors
    /// The server refuses: only its own user and root may, and there must be such an interface.
    pub fn set_line(&mut self, name: &str, line: LineSpec) -> Result<(), Error> {
        let name = name.to_owned();
        self.done(Request::SetLine { name, line })
    }

    /// Removes an interface without connections.
    ///
    /// # Errors
    /// This user may not, or there is none.
    pub fn remove_interface(&mut self, name: &str) -> Result<(), Error> {
        let name = name.to_owned();
        self.done(Request::RemoveInterface { name })
    }

    /// Has a worker of the server carry a network device over a connection: the device's
    /// descriptor, and that of a datagram socket of IP in the device's network namespace.
    ///
    /// # Errors
    /// Admission refuses, or what the descriptors are of.
    pub fn add_device(
        &mut self,
        spec: DeviceSpec,
        device: BorrowedFd<'_>,
        namespace: BorrowedFd<'_>,
    ) -> Result<DeviceInfo, Error> {
        let request = Request::AddDevice(spec);
        match self.control.request(request, &[device, namespace])? {
            (Confirm::Device(info), _) => Ok(info),
            (other, _) => Err(unexpected(&other)),
        }
    }

    /// Ends a network device's worker and connection.
    ///
    /// # Errors
    /// There is none, or it is not this user's.
    pub fn remove_device(&mut self, name: &str) -> Result<(), Error> {
        let name = name.to_owned();
        self.done(Request::RemoveDevice { name })
    }

    /// Reserves CPU time for a thread of this user, by the number that the kernel gives it:
    /// `budget` in each `period` of 1 ms to 1 s, in place of what was reserved here before; a
    /// budget of zero gives that back. It ends with the connection at `address`, if there is one,
    /// and with this. Gives in words how the thread is scheduled while it is within its budget.
    ///
    /// # Errors
    /// There is not so much, the thread or the connection is not this user's, or the server may
    /// make nobody real-time.
    pub fn reserve_cpu(
        &mut self,
        tid: u32,
        (budget, period): (Duration, Duration),
        address: Option<Address>,
    ) -> Result<String, Error> {
        match self.ask(cpu_time(tid, (budget, period), address))? {
            Confirm::CpuReserved { scheduling } => Ok(scheduling),
            other => Err(unexpected(&other)),
        }
    }

    /// The network devices, those of all users.
    ///
    /// # Errors
    /// The server is gone.
    pub fn devices(&mut self) -> Result<Vec<DeviceInfo>, Error> {
        let mut all = Vec::new();
        let mut from = 0;
        loop {
            match self.ask(Request::Devices { from })? {
                Confirm::Devices { devices, next } => {
                    all.extend(devices);
                    match next {
                        Some(next) if next > from => from = next,
                        _ => return Ok(all),
                    }
                }
                other => return Err(unexpected(&other)),
            }
        }
    }

    /// What the server runs with, as far as this user may see it.
    ///
    /// # Errors
    /// The server is gone.
    pub fn settings(&mut self) -> Result<Settings, Error> {
        let (mut users, mut reserves) = (Vec::new(), Vec::new());
        let mut from = 0;
        loop {
            match self.ask(Request::Settings { from })? {
                Confirm::Settings(mut settings) => {
                    users.append(&mut settings.users);
                    reserves.append(&mut settings.reserves);
                    match settings.next.take() {
                        Some(next) if next > from => from = next,
                        _ => {
                            return Ok(Settings {
                                users,
                                reserves,
                                ..*settings
                            });
                        }
                    }
                }
                other => return Err(unexpected(&other)),
            }
        }
    }

    /// Sends one OAM loopback cell (I.610), and waits for its return: the round trip.
    ///
    /// # Errors
    /// It does not come back within `timeout`, 10 s at most.
    pub fn ping(
        &mut self,
        address: &Address,
        flow: PingFlow,
        timeout: Duration,
    ) -> Result<Duration, Error> {
        let request = Request::Ping {
            address: address.clone(),
            flow,
            timeout_ns: u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX),
        };
        match self.ask(request)? {
            Confirm::Returned { round_trip_ns } => Ok(Duration::from_nanos(round_trip_ns)),
            other => Err(unexpected(&other)),
        }
    }

    /// The memory that the server shows its counters in: reading it asks nobody.
    ///
    /// # Errors
    /// The server is gone.
    pub fn counters(&mut self) -> Result<Counters, Error> {
        match self.control.request(Request::Counters, &[])? {
            (Confirm::Counters { len }, mut fds) if fds.len() == 1 => {
                let file = fds.pop().ok_or(Error::Closed)?;
                Ok(Counters { file, len })
            }
            (other, _) => Err(unexpected(&other)),
        }
    }

    /// What can be said, by both: each message with an example of its JSON, and the descriptors
    /// that go along with it.
    ///
    /// # Errors
    /// The server is gone.
    pub fn describe(&mut self) -> Result<Vec<Description>, Error> {
        match self.ask(Request::Describe)? {
            Confirm::Description(messages) => Ok(messages),
            other => Err(unexpected(&other)),
        }
    }

    /// Changes of connections and interfaces from here on.
    ///
    /// # Errors
    /// The server is gone.
    pub fn monitor(mut self) -> Result<Monitor, Error> {
        self.done(Request::Monitor)?;
        Ok(Monitor {
            control: self.control,
            ended: false,
        })
    }

    fn ask(&mut self, request: Request) -> Result<Confirm, Error> {
        self.control
            .request(request, &[])
            .map(|(confirm, _)| confirm)
    }

    fn done(&mut self, request: Request) -> Result<(), Error> {
        match self.ask(request)? {
            Confirm::Done => Ok(()),
            other => Err(unexpected(&other)),
        }
    }
}

impl AsFd for Admin {
    /// Readable when the server has hung up.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.control.as_fd()
    }
}

/// Changes of connections and interfaces, as the server tells them. The iterator waits for the
/// next; it ends when the server hangs up.
#[derive(Debug)]
pub struct Monitor {
    control: Control,
    ended: bool,
}

impl Monitor {
    /// The next change, if one waits.
    ///
    /// # Errors
    /// The server has hung up.
    pub fn try_next(&mut self) -> Result<Option<Indication>, Error> {
        if let Some(indication) = self.control.next_indication() {
            return Ok(Some(indication));
        }
        self.control.hear()?;
        Ok(self.control.next_indication())
    }
}

impl AsFd for Monitor {
    /// Readable when a change waits.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.control.as_fd()
    }
}

impl Iterator for Monitor {
    type Item = Result<Indication, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        loop {
            match self.try_next() {
                Ok(Some(indication)) => return Some(Ok(indication)),
                Ok(None) => {
                    if let Err(error) = self.control.wait_to_hear(None) {
                        return Some(Err(error));
                    }
                }
                Err(error) => {
                    self.ended = true;
                    return match error {
                        Error::Closed => None,
                        other => Some(Err(other)),
                    };
                }
            }
        }
    }
}
