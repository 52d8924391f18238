//! Requests that the core's server knows nothing of: about network devices, whose workers tell
//! more, about CPU time for applications, and about what this daemon runs with.

use cellgate_core::adapter::AttachmentIndex;
use cellgate_core::server::{
    AdapterIndex, ClientId, Confirm, CpuTime, On, Peer, Refused, Request, TakenVc,
};
use rustix::process::getpid;

use super::super::ServeError;
use super::super::workers::{Asking, Event, How, Outcome, Start};
use super::Daemon;
use crate::closer::Closer;
use crate::control::pair;

/// A connection, who asked for its end, and what they are told.
pub(super) type Parting = (Option<u32>, Asking, Result<Confirm, Refused>);

impl Daemon {
    /// Whether a request is about what the core's server knows nothing of, or its answer is made
    /// once for all.
    pub(super) fn is_of_host(request: &Request) -> bool {
        use Request::{AddDevice, Describe, Devices, RemoveDevice, ReserveCpu, Settings};
        matches!(
            request,
            AddDevice(_)
                | RemoveDevice { .. }
                | Devices { .. }
                | ReserveCpu(_)
                | Settings { .. }
                | Describe
        )
    }

    /// Carries one of them out, for somebody who has said hello.
    pub(super) fn ask_host(
        &mut self,
        asking: Asking,
        peer: Peer,
        request: Request,
        fds: Vec<Closer>,
    ) {
        let governs = self.server.is_governor(peer.uid);
        let outcome = match request {
            Request::AddDevice(spec) => {
                let user = (peer.uid, governs);
                self.workers.add(asking, user, spec, fds)
            }
            Request::RemoveDevice { name } => self.workers.remove(asking, (peer, governs), &name),
            Request::ReserveCpu(time) => {
                let reserved = self.reserve_cpu(asking, peer.uid, &time);
                reserved.map(|confirm| Outcome::Confirm(Box::new(confirm)))
            }
            Request::Describe => return self.describe(asking),
            Request::Devices { from } => {
                let devices = self.workers.list(from);
                Ok(Outcome::Confirm(Box::new(devices)))
            }
            Request::Settings { from } => {
                let settings = Confirm::Settings(Box::new(self.settings(peer.uid, from)));
                Ok(Outcome::Confirm(Box::new(settings)))
            }
            _ => Err(Refused::NotFound),
        };
        match outcome {
            Ok(Outcome::Start(start)) => {
                let groups = self.server.groups_of(asking.client).to_vec();
                self.start_worker(start, groups);
            }
            Ok(Outcome::LetGo(attachment, number)) => self.adapters.let_go(attachment, number),
            Ok(Outcome::Confirm(confirm)) => self.confirm(asking, Ok(*confirm)),
            Err(refused) => self.confirm(asking, Err(refused)),
        }
    }

    fn reserve_cpu(
        &mut self,
        asking: Asking,
        uid: u32,
        time: &CpuTime,
    ) -> Result<Confirm, Refused> {
        let client = asking.client;
        let ppm = self.server.reserve_cpu(client, asking.connection, time)?;
        let scheduled = match ppm {
            0 => {
                self.cpu_times.release(client);
                Ok("as any thread".to_owned())
            }
            ppm => {
                let held = self.cpu_times.hold(client, uid, (time, ppm));
                held.map(|scheduling| scheduling.to_string())
            }
        };
        if scheduled.is_err() {
            self.server.release_cpu(client);
        }
        self.keep_cpu_times();
        self.settle();
        scheduled.map(|scheduling| Confirm::CpuReserved { scheduling })
    }

    /// Who has gone, or whose connection has ended, has no CPU time any more.
    pub(super) fn end_cpu_times(&mut self) {
        let outdated = self
            .cpu_times
            .outdated(|client| self.server.cpu_ppm_of(client));
        if outdated.is_empty() {
            return;
        }
        for client in outdated {
            self.cpu_times.release(client);
            self.server.release_cpu(client);
        }
        self.keep_cpu_times();
        self.settle();
    }

    fn keep_cpu_times(&mut self) {
        let places = &mut self.places;
        places.reserved.keep(self.now, self.cpu_times.octets());
        places.reserved.look(self.now, &mut places.directory);
    }

    fn confirm(&mut self, asking: Asking, result: Result<Confirm, Refused>) {
        let message = asking.confirm(result);
        let told = self
            .applications
            .tell(self.now, asking.client, &message, Vec::new());
        if !told {
            self.hung_up(asking.client);
        }
    }

    /// A worker is an application of the server: it gets one end of a control socket, and may do
    /// what who asked for it may.
    fn start_worker(&mut self, Start { number, uid, how }: Start, groups: Vec<u32>) {
        let made = pair()
            .map_err(std::io::Error::other)
            .and_then(|(mine, theirs)| {
                let (client, _) = self.applications.adopt(mine.into())?;
                Ok((client, theirs))
            });
        match made {
            Ok((client, theirs)) => {
                let peer = this_process_as(uid);
                self.server.handle_connect_worker(self.now, client, peer);
                self.server.handle_groups(client, groups);
                self.workers.begin(number, client, theirs, how);
            }
            Err(error) => self.worker_ended(number, Some(Refused::Kernel(error.to_string()))),
        }
        self.settle();
    }

    /// What workers have told.
    pub(super) fn hear_workers(&mut self) -> Result<(), ServeError> {
        for event in self.workers.told() {
            match event {
                Event::Opened(number, opened) => self.workers.opened(number, opened),
                Event::Scheduled(number, scheduling) => {
                    let Some((news, waited)) = self.workers.scheduled(number, scheduling) else {
                        continue;
                    };
                    self.say(news);
                    if let Some((asking, confirm)) = waited {
                        self.confirm(asking, Ok(confirm));
                    }
                }
                Event::Ended(number, why) => self.worker_ended(number, why),
                Event::Uninterrupted(error) => {
                    // What it carries goes on with a successor.
                    self.adapters.leave();
                    return Err(ServeError::of("pseudo-interrupts")(error));
                }
            }
        }
        Ok(())
    }

    /// Workers have what is reserved for their connections, whatever has become of these.
    pub(super) fn tell_shares(&self) {
        self.workers
            .tell_shares(|client| self.server.worker_ppm_of(client));
    }

    fn worker_ended(&mut self, number: u32, why: Option<Refused>) {
        let Some(farewell) = self.workers.ended(number, why) else {
            return;
        };
        let connection = farewell
            .client
            .and_then(|client| self.server.connection_of(client));
        if let Some(client) = farewell.client {
            self.hung_up(client);
        }
        let confirms = farewell.confirms.into_iter();
        self.parting
            .extend(confirms.map(|(asking, result)| (connection, asking, result)));
        self.confirm_parted();
        if let Some(news) = farewell.news {
            self.say(news);
        }
    }

    /// Who had a device removed hears of it when its address is free again.
    pub(super) fn confirm_parted(&mut self) {
        let is_closing = |connection: &Option<u32>| {
            connection.is_some_and(|number| self.server.is_closing(number))
        };
        let parted: Vec<_> = self
            .parting
            .extract_if(.., |(connection, ..)| !is_closing(connection))
            .collect();
        for (_, asking, result) in parted {
            self.confirm(asking, result);
        }
    }

    /// Has the adapter keep what a worker carries; whether `client` is one.
    pub(super) fn keep_for_worker(
        &mut self,
        client: ClientId,
        attachment: On<AttachmentIndex>,
    ) -> bool {
        let Some((fds, record)) = self.workers.keep(client, attachment) else {
            return false;
        };
        self.adapters.keep(attachment, fds, record);
        true
    }

    /// Somebody at whose socket the connection of another server's worker is taken up, if its
    /// device was kept.
    pub(super) fn stand_in(
        &mut self,
        adapter: AdapterIndex,
        taken: &TakenVc,
        kept: Vec<Closer>,
        record: Option<&str>,
    ) -> Option<(ClientId, Peer)> {
        let (mine, theirs) = pair().ok()?;
        let at = (&taken.record.address, adapter.on(taken.vc));
        self.workers.take_up(record, kept, at, theirs)?;
        let (client, _) = self.applications.adopt(mine.into()).ok()?;
        Some((client, this_process_as(taken.record.uid)))
    }

    /// Starts the workers of what was taken up.
    pub(super) fn resume_workers(&mut self) {
        while let Some((number, uid, address, vc)) = self.workers.next_left() {
            let Some(capability) = self.adapters.capability_of(vc) else {
                self.worker_ended(number, Some(Refused::NotFound));
                continue;
            };
            let how = How::Resume(address, capability);
            self.start_worker(Start { number, uid, how }, Vec::new());
        }
    }
}

fn this_process_as(uid: u32) -> Peer {
    Peer {
        uid,
        pid: getpid().as_raw_nonzero().get().cast_unsigned(),
    }
}
