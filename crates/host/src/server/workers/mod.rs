//! Connections that need a worker of the server: network devices.
//!
//! ```text
//!  service thread            worker, one per device             kernel
//!  Workers ----- starts ---> Connection <--- Device ---> Tun <-------->
//!     ^ ---- ends, lists       |   ^ ring      ^ wake-up   |
//!     +--- opened, ended ------+   adapter     |           |
//!                                  interrupts: waits for both
//! ```
//!
//! A worker is an application of the server like any other: its control socket's other end is here.
//! What it carries is kept by the adapter's process, so that a device outlives a server that dies,
//! and its successor's worker goes on with it.

mod counts;
mod device;
mod interrupts;
mod share;
mod thread;

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use cellgate_core::adapter::{AttachmentIndex, VcId};
use cellgate_core::contract::TrafficContract;
use cellgate_core::server::On;
use cellgate_core::server::{
    Address, ClientId, Confirm, Crowd, DeviceInfo, DeviceSpec, FromServer, LIST_MAX, Peer, Refused,
};
use cellgate_core::upper::Encapsulation;
use cellgate_shm::wake_descriptor;
use serde::{Deserialize, Serialize};

use super::ServeError;
use crate::adapter::wake::{ring, silence};
use crate::closer::Closer;
use crate::events::{self, Field, Kind};
use crate::link::Shown;
use crate::sys::{AdapterCpus, Cpus, ThreadScheduling, Tun, TunKind};
use counts::Counts;
use interrupts::{Bell, Interrupts, Line};
use share::Share;
pub(super) use thread::{Event, How, Opened};

/// Workers at once.
pub(super) const WORKERS_MAX: usize = 64;

/// Who may wait for one worker's end.
const REMOVING_MAX: usize = 4;

/// A request of an application, for its Confirm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asking {
    pub(super) client: ClientId,
    /// The Request's number.
    pub(super) id: u64,
    /// The connection that it names.
    pub(super) connection: u32,
}

impl Asking {
    /// The message that ends the Request.
    pub(super) fn confirm(self, result: Result<Confirm, Refused>) -> FromServer {
        FromServer::Confirm {
            id: self.id,
            connection: self.connection,
            result,
        }
    }
}

/// What is kept with the descriptors of a worker's device.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    spec: DeviceSpec,
    uid: u32,
}

/// A worker that is to be started, and the end of its control socket that the server gets.
pub(super) struct Start {
    pub(super) number: u32,
    pub(super) uid: u32,
    pub(super) how: How,
}

struct Worker {
    spec: DeviceSpec,
    encapsulation: Encapsulation,
    uid: u32,
    device: Arc<Tun>,
    name: String,
    line: Line,
    slot: usize,
    shown: Arc<Shown<Counts>>,
    share: Arc<Share>,
    scheduling: ThreadScheduling,
    /// The server's end of its control socket.
    client: Option<ClientId>,
    attachment: Option<On<AttachmentIndex>>,
    opened: Option<Opened>,
    /// Who waits for it to be open, and to have ended.
    adding: Option<Asking>,
    removing: Vec<Asking>,
    /// Until its worker has the connection: the application's end of the socket that the
    /// connection was taken up with.
    stands_in: Option<OwnedFd>,
}

pub(super) struct Workers {
    workers: BTreeMap<u32, Worker>,
    /// At once, at most [`WORKERS_MAX`]; of one user a quarter.
    most: usize,
    last: u32,
    interrupts: Interrupts,
    cpus: Cpus,
    adapters: AdapterCpus,
    events: Receiver<Event>,
    to_events: Sender<Event>,
    bell: Arc<OwnedFd>,
    /// Taken up, with no worker yet.
    left: VecDeque<(u32, Address, On<VcId>)>,
}

/// What a request comes to at once: something to start or to let go, or its end.
pub(super) enum Outcome {
    Start(Start),
    /// Nobody else is to hold the device: what is kept under this attachment.
    LetGo(Option<On<AttachmentIndex>>, u32),
    Confirm(Box<Confirm>),
}

impl Workers {
    /// Starts the pseudo-interrupt thread; how it is scheduled.
    pub(super) fn start(
        cpus: Cpus,
        adapters: AdapterCpus,
        most: usize,
    ) -> Result<(Self, ThreadScheduling), ServeError> {
        let bell = wake_descriptor().map_err(std::io::Error::other);
        let bell = Arc::new(bell.map_err(ServeError::of("pseudo-interrupts"))?);
        let (to_events, events) = channel();
        let (tell, rung) = (to_events.clone(), Arc::clone(&bell));
        let fails = move |error| {
            // The service thread ends with the process only.
            let _ = tell.send(Event::Uninterrupted(error));
            ring(&rung);
        };
        let (interrupts, scheduling) = Interrupts::start(&cpus, adapters, fails)
            .map_err(ServeError::of("pseudo-interrupts"))?;
        let workers = Self {
            workers: BTreeMap::new(),
            most,
            last: 0,
            interrupts,
            cpus,
            adapters,
            events,
            to_events,
            bell,
            left: VecDeque::new(),
        };
        Ok((workers, scheduling))
    }

    /// Adapters are there: all threads keep off their CPUs.
    pub(super) fn keep_off(&mut self, adapters: AdapterCpus) {
        if adapters == self.adapters {
            return;
        }
        self.adapters = adapters;
        self.interrupts.keep_off(&self.cpus, &adapters);
        for worker in self.workers.values() {
            worker.share.keep_off(adapters);
            worker.line.bell().ring(Bell::RUNG);
        }
    }

    /// Readable when a worker has told something.
    pub(super) fn bell(&self) -> &OwnedFd {
        &self.bell
    }

    /// What workers have told.
    pub(super) fn told(&self) -> Vec<Event> {
        silence(&self.bell);
        self.events.try_iter().collect()
    }

    /// A device that somebody has brought along.
    pub(super) fn add(
        &mut self,
        asking: Asking,
        (uid, governs): (u32, bool),
        mut spec: DeviceSpec,
        fds: Vec<Closer>,
    ) -> Result<Outcome, Refused> {
        let mine = self.workers.values().filter(|worker| worker.uid == uid);
        let of_user = self.most.div_ceil(4);
        if mine.count() >= of_user && !governs {
            return Err(Refused::full_of_user(
                Crowd::NetworkDevices,
                of_user as u32,
                uid,
            ));
        }
        // What is kept of it is not as long as its author likes.
        if let Some(text) = &mut spec.contract {
            *text = text.parse::<TrafficContract>()?.to_string();
        }
        let [device, namespace] = <[Closer; 2]>::try_from(fds)
            .map_err(|_| Refused::Descriptors("a device's are two".to_owned()))?;
        let how = match &spec.contract {
            Some(contract) => How::Open(spec.address.clone(), contract.clone()),
            None => How::Take(spec.address.clone()),
        };
        let number = self.adopt((spec, uid), [device, namespace])?;
        if let Some(worker) = self.workers.get_mut(&number) {
            worker.adding = Some(asking);
        }
        Ok(Outcome::Start(Start { number, uid, how }))
    }

    /// Makes an entry of a device.
    fn adopt(
        &mut self,
        (spec, uid): (DeviceSpec, u32),
        [device, namespace]: [Closer; 2],
    ) -> Result<u32, Refused> {
        let wrong = |why: String| Refused::Descriptors(why);
        let encapsulation: Encapsulation = spec
            .encapsulation
            .parse()
            .map_err(|error| Refused::Unsupported(format!("encapsulation: {error}")))?;
        let device = Tun::adopt(device, namespace).map_err(|error| wrong(error.to_string()))?;
        let kind = match encapsulation.is_bridged() {
            true => TunKind::Bridged,
            false => TunKind::Routed,
        };
        if device.kind() != Some(kind) {
            let wanted = match kind {
                TunKind::Bridged => "a TAP device",
                TunKind::Routed => "a TUN device",
            };
            return Err(wrong(format!("{encapsulation} takes {wanted}")));
        }
        let name = device.name();
        // A name is one of its network namespace.
        let namespace = device.namespace();
        let is_carried =
            |worker: &&Worker| worker.name == name && worker.device.namespace() == namespace;
        if let Some(carried) = self.workers.values().find(is_carried) {
            let (at, uid) = (&carried.spec.address, carried.uid);
            return Err(wrong(format!(
                "{name} is carried already, on {at}, for user {uid}"
            )));
        }
        let free = |slot: &usize| self.workers.values().all(|worker| worker.slot != *slot);
        let users = self.workers.values().map(|worker| worker.uid);
        let full = || Refused::full(Crowd::NetworkDevices, self.most as u32, users);
        let slot = (0..self.most).find(free).ok_or_else(full)?;
        self.last = self.last.checked_add(1).ok_or(Refused::TooMany)?;
        let worker = Worker {
            spec,
            encapsulation,
            uid,
            device: Arc::new(device),
            name,
            line: self.interrupts.line(slot),
            slot,
            shown: Arc::default(),
            share: Arc::new(Share::new(self.adapters)),
            scheduling: ThreadScheduling::default(),
            client: None,
            attachment: None,
            opened: None,
            adding: None,
            removing: Vec::new(),
            stands_in: None,
        };
        self.workers.insert(self.last, worker);
        Ok(self.last)
    }

    /// Starts the worker of an entry; `socket` is its end of the control socket, `client` the
    /// server's.
    pub(super) fn begin(&mut self, number: u32, client: ClientId, socket: OwnedFd, how: How) {
        let Some(worker) = self.workers.get_mut(&number) else {
            return;
        };
        worker.client = Some(client);
        let start = thread::Start {
            number,
            device: Arc::clone(&worker.device),
            encapsulation: worker.encapsulation,
            socket,
            how,
            line: worker.line.clone(),
            shown: Arc::clone(&worker.shown),
            share: Arc::clone(&worker.share),
            cpus: self.cpus.clone(),
            events: self.to_events.clone(),
            bell: Arc::clone(&self.bell),
        };
        if let Err(error) = thread::start(start) {
            // It has told nothing yet, and the receiver is this.
            let why = Some(Refused::Kernel(error.to_string()));
            let _ = self.to_events.send(Event::Ended(number, why));
            ring(&self.bell);
        }
    }

    /// A device that another server has left, with its connection: the entry's number, and the
    /// application's end of the socket that the connection is to be taken up with.
    pub(super) fn take_up(
        &mut self,
        record: Option<&str>,
        kept: Vec<Closer>,
        (address, vc): (&Address, On<VcId>),
        stands_in: OwnedFd,
    ) -> Option<()> {
        let Kept { spec, uid } = serde_json::from_str(record?).ok()?;
        let kept = <[Closer; 2]>::try_from(kept).ok()?;
        let number = self.adopt((spec, uid), kept).ok()?;
        self.workers.get_mut(&number)?.stands_in = Some(stands_in);
        self.left.push_back((number, address.clone(), vc));
        Some(())
    }

    /// The next that was taken up and has no worker yet.
    pub(super) fn next_left(&mut self) -> Option<(u32, u32, Address, On<VcId>)> {
        let (number, address, vc) = self.left.pop_front()?;
        let uid = self.workers.get(&number)?.uid;
        Some((number, uid, address, vc))
    }

    /// Whether a worker is behind a control socket.
    pub(super) fn is_one(&self, client: ClientId) -> bool {
        let mut workers = self.workers.values();
        workers.any(|worker| worker.client == Some(client))
    }

    /// What the adapter is to keep for the worker behind a control socket, under `attachment`.
    pub(super) fn keep(
        &mut self,
        client: ClientId,
        attachment: On<AttachmentIndex>,
    ) -> Option<(Vec<Arc<Closer>>, Option<String>)> {
        let worker = self.workers.values_mut();
        let worker = { worker }.find(|worker| worker.client == Some(client))?;
        worker.attachment = Some(attachment);
        let kept = Kept {
            spec: worker.spec.clone(),
            uid: worker.uid,
        };
        let fds = worker
            .device
            .descriptors()
            .map(|fd| fd.try_clone_to_owned());
        // Without, the device ends with this server.
        let fds = fds.into_iter().flatten().map(Closer::from);
        let fds = fds.map(Arc::new).collect();
        Some((fds, serde_json::to_string(&kept).ok()))
    }

    /// Begins to end a worker.
    pub(super) fn remove(
        &mut self,
        asking: Asking,
        (peer, governs): (Peer, bool),
        name: &str,
    ) -> Result<Outcome, Refused> {
        let is_named = |worker: &Worker| {
            let mine = governs || worker.uid == peer.uid;
            mine && (worker.name == name || worker.spec.address.to_string() == name)
        };
        let mut named = self.workers.iter_mut().filter(|(_, one)| is_named(one));
        let (number, worker) = named.next().ok_or(Refused::NotFound)?;
        if let Some((_, other)) = named.next() {
            let [one, other] = [&worker.spec.address, &other.spec.address];
            let text = format!(
                "{name} is the name of several devices, each in a network namespace of its own: \
                 name the connection instead, {one} or {other}"
            );
            return Err(Refused::Unsupported(text));
        }
        if worker.removing.len() >= REMOVING_MAX {
            return Err(Refused::Full {
                of: Crowd::Removals,
                most: REMOVING_MAX as u32,
                quota: None,
                holder: None,
            });
        }
        worker.removing.push(asking);
        Ok(Outcome::LetGo(worker.attachment, *number))
    }

    /// Nobody else holds the device any more.
    pub(super) fn stop(&mut self, number: u32) {
        if let Some(worker) = self.workers.get(&number) {
            worker.line.bell().ring(Bell::STOP);
        }
    }

    /// A worker has its connection.
    pub(super) fn opened(&mut self, number: u32, opened: Opened) {
        if let Some(worker) = self.workers.get_mut(&number) {
            worker.spec.address = opened.vc.clone();
            worker.opened = Some(opened);
            worker.stands_in = None;
        }
    }

    /// Tells each worker that has its connection what is reserved for it, in millionths of a core,
    /// by the server's end of its control socket.
    pub(super) fn tell_shares(&self, ppm_of: impl Fn(ClientId) -> u32) {
        let open = self
            .workers
            .values()
            .filter(|worker| worker.opened.is_some());
        for worker in open {
            let ppm = worker.client.map_or(0, &ppm_of);
            if worker.share.tell(ppm) {
                worker.line.bell().ring(Bell::RUNG);
            }
        }
    }

    /// How a worker is scheduled from here on: its news, and who has waited for its device.
    pub(super) fn scheduled(
        &mut self,
        number: u32,
        scheduling: ThreadScheduling,
    ) -> Option<(events::Event, Option<(Asking, Confirm)>)> {
        let worker = self.workers.get_mut(&number)?;
        let address = worker.spec.address.to_string();
        let text = format!("worker of {address}: {scheduling}");
        let news = events::Event::of(Kind::WorkerScheduled, text).with(Field::Address, address);
        worker.scheduling = scheduling;
        let asking = worker.adding.take();
        let info = self.info(number)?;
        Some((news, asking.map(|asking| (asking, Confirm::Device(info)))))
    }

    /// A worker has ended: its control socket, and who is to be told what.
    pub(super) fn ended(&mut self, number: u32, why: Option<Refused>) -> Option<Farewell> {
        let worker = self.workers.remove(&number)?;
        let ended = Refused::Kernel("the device's worker has ended".to_owned());
        let refused = why.clone().unwrap_or(ended);
        let added = worker.adding.map(|asking| (asking, Err(refused)));
        let removed = worker.removing.iter();
        let removed = removed.map(|asking| (*asking, Ok(Confirm::Done)));
        let unasked = worker.adding.is_none() && worker.removing.is_empty();
        Some(Farewell {
            client: worker.client,
            confirms: added.into_iter().chain(removed).collect(),
            news: unasked.then(|| {
                let text = format!("network device {} has ended", worker.name);
                let event = events::Event::because(Kind::DeviceEnded, text, why);
                event.with(Field::Device, &*worker.name)
            }),
        })
    }

    /// The devices from a number on.
    pub(super) fn list(&self, from: u32) -> Confirm {
        let mut open = self.workers.range(from..).map(|(number, _)| *number);
        let mut infos = open.by_ref().filter_map(|number| self.info(number));
        let devices = infos.by_ref().take(LIST_MAX).collect();
        let next = infos.next().map(|info| info.number);
        Confirm::Devices { devices, next }
    }

    fn info(&self, number: u32) -> Option<DeviceInfo> {
        let worker = self.workers.get(&number)?;
        let opened = worker.opened.as_ref()?;
        Some(DeviceInfo {
            number,
            device: worker.name.clone(),
            vc: opened.vc.clone(),
            contract: opened.contract.clone(),
            encapsulation: worker.encapsulation.name().to_owned(),
            transmit_max_sdu: opened.transmit_max_sdu,
            mtu_octets: worker.device.mtu(),
            uid: worker.uid,
            scheduling: worker.scheduling.to_string(),
            carried: worker.shown.read().told(),
        })
    }
}

/// What is left to do when a worker has ended.
pub(super) struct Farewell {
    pub(super) client: Option<ClientId>,
    pub(super) confirms: Vec<(Asking, Result<Confirm, Refused>)>,
    pub(super) news: Option<events::Event>,
}

#[cfg(test)]
mod tests {
    use cellgate_core::server::Peer;
    use rustix::net::{AddressFamily, SocketType, socket};

    use super::*;
    use crate::closer::given;
    use crate::sys::own_network_namespace;

    type Added = Result<u32, Refused>;

    fn asking(id: u64) -> Asking {
        Asking {
            client: ClientId(1),
            id,
            connection: 0,
        }
    }

    /// Adds a device of the user 1,000; none: none can be made.
    fn add(workers: &mut Workers, name: &str, contract: &str, governs: bool) -> Option<Added> {
        let device = match Tun::open(name, TunKind::Routed) {
            Ok(device) => device,
            Err(error) => {
                println!("skipped tun_entry: {error}");
                return None;
            }
        };
        let [wire, _] = device.descriptors();
        let fds = vec![
            wire.try_clone_to_owned().unwrap(),
            socket(AddressFamily::INET, SocketType::DGRAM, None).unwrap(),
        ];
        let fds = given(fds);
        let spec = DeviceSpec {
            address: "0.100".parse().unwrap(),
            contract: Some(contract.to_owned()),
            encapsulation: "ipoa-llcsnap".to_owned(),
        };
        let added = workers.add(asking(1), (1_000, governs), spec, fds);
        Some(added.map(|outcome| match outcome {
            Outcome::Start(start) => start.number,
            _ => panic!("a device's worker is started"),
        }))
    }

    /// Workers, and one's number, whose thread is not there; none: no device can be made.
    fn with_a_device(contract: &str) -> Option<(Workers, u32)> {
        if let Err(error) = own_network_namespace() {
            println!("skipped tun_entry: {error}");
            return None;
        }
        let (mut workers, _) =
            Workers::start(Cpus::present(), AdapterCpus::ANY, WORKERS_MAX).unwrap();
        let number = add(&mut workers, "cell0", contract, false)?.unwrap();
        Some((workers, number))
    }

    #[test]
    fn what_is_kept_of_a_device_is_as_long_as_what_it_says() {
        let blanks = "\t".repeat(30_000);
        let contract = format!("ubr,aal5:max_sdu={blanks}1508");
        let Some((mut workers, number)) = with_a_device(&contract) else {
            return;
        };
        let client = ClientId(2);
        workers.workers.get_mut(&number).unwrap().client = Some(client);
        let (fds, record) = workers
            .keep(
                client,
                cellgate_core::server::AdapterIndex::FIRST.on(AttachmentIndex(0)),
            )
            .unwrap();
        let record = record.unwrap();
        assert!(fds.len() == 2 && record.len() < 200, "{record}");
        println!("ran tun_entry");
    }

    #[test]
    fn few_wait_for_a_worker_that_does_not_end() {
        let Some((mut workers, number)) = with_a_device("ubr,aal5:max_sdu=1508") else {
            return;
        };
        let owner = Peer { uid: 1_000, pid: 1 };
        for id in 0..1_000 {
            let asked = workers.remove(asking(id), (owner, false), "cell0");
            match id < REMOVING_MAX as u64 {
                true => assert!(matches!(asked, Ok(Outcome::LetGo(None, of)) if of == number)),
                false => assert!(matches!(
                    asked.err(),
                    Some(Refused::Full {
                        of: Crowd::Removals,
                        ..
                    })
                )),
            }
        }
        let told = workers.ended(number, None).unwrap().confirms;
        assert_eq!(told.len(), 1 + REMOVING_MAX);
        println!("ran tun_entry");
    }

    #[test]
    fn a_user_has_a_quarter_of_the_workers() {
        let contract = "ubr,aal5:max_sdu=1508";
        let Some((mut workers, _)) = with_a_device(contract) else {
            return;
        };
        let mut added = |governs| add(&mut workers, "cell%d", contract, governs).unwrap();
        for _ in 1..WORKERS_MAX / 4 {
            added(false).unwrap();
        }
        let most = WORKERS_MAX as u32 / 4;
        let full = Refused::full_of_user(Crowd::NetworkDevices, most, 1_000);
        assert_eq!(added(false), Err(full));
        added(true).unwrap();
        println!("ran tun_entry");
    }
}
