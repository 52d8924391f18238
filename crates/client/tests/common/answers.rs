//! What the simple server answers.

use std::os::fd::{AsFd, OwnedFd};

use cellgate::{
    AdapterInfo, AdapterSection, Address, AdmissionSection, Change, ConnectionInfo, EndReason,
    Indication, InterfaceInfo, InterfaceSpec, Link, Quota, Refused, Reserve, Resource,
    ResourceInfo, Settings, Shortage, UserQuota, UserSettings,
};
use cellgate_core::adapter::{Assumptions, Interleaving, Notification, PortIndex, Terms};
use cellgate_core::contract::{CellRate, PduStream, ServiceCategory, TrafficContract, aal5_cells};
use cellgate_core::queue::AttachmentSizes;
use cellgate_core::server::{
    Confirm, FromClient, FromServer, InterfaceCounts, InterfaceState, Open, Opened, Request,
    Response, VERSION, descriptions,
};
use cellgate_host::control::{Answer, Ask, NewRegion, ReceiveInto};
use rustix::fs::{MemfdFlags, fstat, memfd_create};

use super::{FAKE_LINE, RESTARTED, Server, Vc, say, tell};

/// One user a part.
fn settings(from: u32) -> Settings {
    let user = UserSettings {
        name: format!("user{from}"),
        uid: from,
        quota: UserQuota::default(),
    };
    Settings {
        server: None,
        adapters: vec![AdapterSection::default()],
        admission: AdmissionSection::default(),
        quota: Quota::NONE,
        users: vec![user],
        reserves: match from {
            0 => vec![Reserve::default()],
            _ => Vec::new(),
        },
        next: Some(from + 1).filter(|next| *next < 3),
    }
}

/// The longest stall of an adapter that costs nothing.
const GAP_MAX_NS: u64 = 30_000_000;

type Answered = Result<(Confirm, Vec<OwnedFd>), Refused>;

/// The contract that `CanGrow` offers.
pub const OFFER: &str = "cbr,aal5:pcr=100000,max_sdu=2000";

impl Server {
    pub(super) fn handle(&mut self, i: usize, message: FromClient, fds: Vec<OwnedFd>) {
        let heard = FromClient::Response {
            id: RESTARTED,
            response: Response::Heard,
        };
        if self.clients[i].unheard {
            self.clients[i].unheard = message != heard;
            return;
        }
        let (id, answered) = match message {
            FromClient::Request { id, request } => (id, self.answer(i, request, &fds)),
            FromClient::Response { id, response } => match response {
                Response::Accept => (id, self.modify(i, OFFER.to_owned())),
                Response::Decline | Response::Heard => return,
            },
        };
        let (result, fds) = match answered {
            Ok((confirm, fds)) => (Ok(confirm), fds),
            Err(refused) => (Err(refused), Vec::new()),
        };
        let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
        let changed = matches!(result, Ok(Confirm::Modified { .. }));
        say(&self.clients[i], &FromServer::Confirm { id, result }, &fds);
        if let Some(indication) = self.tell_after.clone().filter(|_| changed) {
            tell(&self.clients[i], indication, &[]);
        }
    }

    fn answer(&mut self, i: usize, request: Request, fds: &[OwnedFd]) -> Answered {
        let confirm = match request {
            Request::Hello { version } if version == VERSION => Confirm::Hello {
                version,
                server: "fake 1".to_owned(),
                pid: std::process::id(),
                notes: vec!["no real-time classes".to_owned()],
            },
            Request::Hello { .. } => return Err(Refused::Version { speaks: VERSION }),
            Request::Describe => Confirm::Description(descriptions()),
            Request::Open(open) => return self.opened(i, open),
            Request::Take { address } => {
                let open = self.permanent.get(&address).ok_or(Refused::NotFound)?;
                return self.opened(i, open.clone());
            }
            Request::Reattach { address } => return self.reattach(i, &address, fds),
            Request::Modify { contract } => return self.modify(i, contract),
            Request::Close => {
                let vc = self.clients[i].vc.take().ok_or(Refused::NoConnection)?;
                Confirm::Closed {
                    stats: self.close(&vc),
                }
            }
            Request::Add(open) => {
                let contract = parse(&open.contract)?.to_string();
                self.permanent.insert(open.address.clone(), open);
                Confirm::Added { contract }
            }
            Request::Set { address, contract } => {
                let open = self.permanent.get_mut(&address).ok_or(Refused::NotFound)?;
                open.contract = parse(&contract)?.to_string();
                Confirm::Done
            }
            Request::Delete { address } => {
                self.permanent.remove(&address).ok_or(Refused::NotFound)?;
                Confirm::Done
            }
            Request::List { from } => self.list(from),
            Request::Adapters => Confirm::Adapters(vec![AdapterInfo {
                name: None,
                seen_ns: Some(5),
                gaps: 2,
                gaps_total_ns: 300_000,
                gap_longest_ns: 200_000,
                gap_admitted_ns: GAP_MAX_NS,
                rests: None,
                shared: None,
            }]),
            Request::Resources => Confirm::Resources(vec![ResourceInfo {
                resource: Resource::TransmitBandwidth,
                interface: Some("a".to_owned()),
                adapter: None,
                capacity: FAKE_LINE.into(),
                reserved: 0,
                expected: 0,
                limit: None,
            }]),
            Request::Interfaces => Confirm::Interfaces(vec![interface()]),
            Request::AddInterface(spec) if spec == interface().spec => Confirm::Done,
            Request::AddInterface(_) => return Err(Refused::NotPermitted),
            Request::SetLine { .. } => Confirm::Done,
            Request::RemoveInterface { name } if name == "a" => Confirm::Done,
            Request::RemoveInterface { .. } => return Err(Refused::NoInterface),
            Request::Ping { timeout_ns, .. } => Confirm::Returned {
                round_trip_ns: timeout_ns / 2,
            },
            Request::Monitor => {
                let added = Indication::Interface {
                    change: Change::Added,
                    info: interface(),
                };
                // It may come before the confirm.
                tell(&self.clients[i], added, &[]);
                Confirm::Done
            }
            Request::Counters => {
                let file = memfd_create("counters", MemfdFlags::CLOEXEC).unwrap();
                return Ok((Confirm::Counters { len: 4096 }, vec![file]));
            }
            Request::Lease { pdus: 0, .. } => return Err(Refused::NoConnection),
            Request::Lease { .. } => Confirm::Done,
            Request::Settings { from } => Confirm::Settings(Box::new(settings(from))),
            Request::AddDevice(_) | Request::RemoveDevice { .. } | Request::Devices { .. } => {
                return Err(Refused::Unsupported("no workers".to_owned()));
            }
        };
        Ok((confirm, Vec::new()))
    }

    fn opened(&mut self, i: usize, open: Open) -> Answered {
        let (opened, fds) = self.establish(i, open)?;
        Ok((Confirm::Opened(opened), fds))
    }

    /// Opens at the adapter what a client asks for.
    pub(super) fn establish(
        &mut self,
        i: usize,
        open: Open,
    ) -> Result<(Opened, Vec<OwnedFd>), Refused> {
        if self.clients[i].vc.is_some() {
            return Err(Refused::Occupied);
        }
        let contract = parse(&open.contract)?;
        let terms = terms(&contract, &open)?;
        let host = match open.address.interface.as_deref() {
            Some("a") => 0,
            Some("b") => 1,
            _ => return Err(Refused::NoInterface),
        };
        let control = &mut self.adapters[host].1;
        let sizes = AttachmentSizes {
            event_slots: 256,
            doorbell_slots: 16,
        };
        let (answer, attachment_fds) = control
            .ask(
                Ask::Attach {
                    sizes,
                    user: 0,
                    keep: false,
                },
                &[],
            )
            .unwrap();
        let Answer::Attached {
            attachment,
            sizes: attachment_sizes,
            files_generation: attachment_generation,
        } = answer
        else {
            panic!("{answer:?}")
        };
        let ask = Ask::Open {
            request: terms.request(open.address.vc, PortIndex(0), attachment),
            sizes: terms.sizes().unwrap(),
            receive_into: ReceiveInto::Own,
            record: None,
        };
        let (answer, mut fds) = control
            .ask(ask, &[])
            .map_err(|error| Refused::Kernel(error.to_string()))?;
        let Answer::Opened {
            vc,
            sizes,
            files_generation,
            ..
        } = answer
        else {
            panic!("{answer:?}")
        };
        let opened = Opened {
            address: open.address.clone(),
            contract: contract.to_string(),
            vc,
            sizes,
            files_generation,
            attachment,
            attachment_sizes,
            attachment_generation,
            notification: open.notification,
            completions: open.completions,
            transmit_max_sdu: terms.transmit.map(|transmit| transmit.max_sdu),
            receive_max_sdu: terms.receive.map(|receive| receive.max_sdu),
            transmit_credit: credit(&contract, contract.transmit),
            receive_credit: credit(&contract, contract.receive),
            receive_early_ns: terms
                .receive
                .map_or(0, |receive| receive.cdvt_ns + GAP_MAX_NS),
        };
        self.clients[i].vc = Some(Vc {
            host,
            open,
            opened: opened.clone(),
            capability: fstat(&fds[1]).unwrap().st_ino,
        });
        fds.extend(attachment_fds);
        Ok((opened, fds))
    }

    fn reattach(&mut self, i: usize, address: &Address, fds: &[OwnedFd]) -> Answered {
        let [capability] = fds else {
            return Err(Refused::Descriptors("one belongs to it".to_owned()));
        };
        let came = fstat(capability).unwrap().st_ino;
        let owner = self.clients.iter_mut().find(|client| {
            let vc = client.vc.as_ref();
            vc.is_some_and(|vc| vc.open.address == *address && vc.capability == came)
        });
        let owner = owner.ok_or(Refused::NotFound)?;
        let former = owner.vc.take().unwrap();
        tell(owner, Indication::Ended(EndReason::TakenOver), &[]);
        self.close(&former);
        self.opened(i, former.open)
    }

    fn modify(&mut self, i: usize, text: String) -> Answered {
        let contract = parse(&text)?;
        let vc = self.clients[i].vc.as_mut().ok_or(Refused::NoConnection)?;
        vc.open.contract = text;
        let terms = terms(&contract, &vc.open)?;
        let region = self.renew.then(|| NewRegion {
            sizes: terms.sizes().unwrap(),
            receive_into: ReceiveInto::Own,
        });
        let ask = Ask::Modify {
            vc: vc.opened.vc,
            request: terms.request(vc.open.address.vc, PortIndex(0), vc.opened.attachment),
            region,
            record: None,
        };
        let (answer, fds) = self.adapters[vc.host].1.ask(ask, &[]).unwrap();
        let Answer::Opened {
            vc: id,
            sizes,
            files_generation,
            ..
        } = answer
        else {
            panic!("{answer:?}")
        };
        vc.opened = Opened {
            contract: contract.to_string(),
            vc: id,
            sizes,
            files_generation,
            transmit_max_sdu: terms.transmit.map(|transmit| transmit.max_sdu),
            receive_max_sdu: terms.receive.map(|receive| receive.max_sdu),
            transmit_credit: credit(&contract, contract.transmit),
            receive_credit: credit(&contract, contract.receive),
            receive_early_ns: terms
                .receive
                .map_or(0, |receive| receive.cdvt_ns + GAP_MAX_NS),
            ..vc.opened.clone()
        };
        let memory = !fds.is_empty();
        if let Some(from_client) = fds.get(1) {
            vc.capability = fstat(from_client).unwrap().st_ino;
        }
        let opened = vc.opened.clone();
        Ok((Confirm::Modified { opened, memory }, fds))
    }

    pub(super) fn close(&mut self, vc: &Vc) -> cellgate::VcStats {
        let control = &mut self.adapters[vc.host].1;
        let stats = control.close(vc.opened.vc).unwrap().stats;
        let attachment = vc.opened.attachment;
        control.ask(Ask::Detach { attachment }, &[]).unwrap();
        stats
    }

    /// One connection a page.
    fn list(&mut self, from: u32) -> Confirm {
        let hosts = self.adapters.iter_mut();
        let states: Vec<_> = hosts.map(|(_, host)| host.enumerate().unwrap()).collect();
        let mut all = (0_u32..).zip(&self.clients).filter_map(|(number, client)| {
            let vc = client.vc.as_ref()?;
            let known = states[vc.host]
                .vcs
                .iter()
                .find(|known| known.vc == vc.opened.vc)?;
            Some(ConnectionInfo {
                number,
                address: vc.open.address.clone(),
                contract: vc.opened.contract.clone(),
                notification: vc.open.notification,
                transmit_pdus: vc.open.transmit_pdus,
                receive_pdus: vc.open.receive_pdus,
                completions: vc.open.completions,
                guaranteed: true,
                permanent: false,
                uid: 0,
                pid: Some(std::process::id()),
                transmit: None,
                receive: None,
                memory: 0,
                cpu_reserved_ppm: 0,
                cpu_expected_ppm: 0,
                keeps_awake: false,
                delay_ns: None,
                stats: known.stats,
            })
        });
        let mut rest = all.by_ref().skip_while(|info| info.number < from);
        let connections: Vec<_> = rest.next().into_iter().collect();
        let next = rest.next().map(|info| info.number);
        Confirm::Connections { connections, next }
    }
}

fn parse(text: &str) -> Result<TrafficContract, Refused> {
    text.parse::<TrafficContract>()
        .map_err(|error| Refused::Contract {
            at: error.at as u32,
            reason: error.kind.to_string(),
        })
}

/// What the adapter makes of a contract, if the line has room for it.
fn terms(contract: &TrafficContract, open: &Open) -> Result<Terms, Refused> {
    let line = CellRate::new(FAKE_LINE).unwrap();
    let assumptions = Assumptions {
        line,
        cdvt_ns: 0,
        interleaving: Interleaving {
            mids: 4,
            reassembly_timeout_ns: 1_000_000_000,
        },
        notification: open.notification.unwrap_or(Notification::LastCell),
        transmit_pdus: open.transmit_pdus,
        receive_pdus: open.receive_pdus.unwrap_or(0),
        wake_up_ns: 1_000_000,
        gap_max_ns: GAP_MAX_NS,
        clump_cells: 1,
    };
    if let Some(asked) = contract.transmit.and_then(|d| d.pcr)
        && let cellgate_core::contract::Peak::Rate(rate) = asked
        && rate > line
    {
        return Err(Refused::Admission(Shortage {
            resource: Resource::TransmitBandwidth,
            needed: rate.cell_s().into(),
            free: FAKE_LINE.into(),
            quota: None,
            offer: Some(format!("cbr,aal5:pcr={FAKE_LINE}")),
            limit: None,
        }));
    }
    let mut terms = Terms::of(contract, &assumptions)
        .map_err(|unserved| Refused::Unsupported(unserved.to_string()))?;
    if let Some(transmit) = &mut terms.transmit {
        transmit.interrupt_on_completion = open.completions;
    }
    Ok(terms)
}

/// The pace of a guaranteed direction.
fn credit(
    contract: &TrafficContract,
    direction: Option<cellgate_core::contract::TrafficDescriptor>,
) -> Option<cellgate::Credit> {
    let line = CellRate::new(FAKE_LINE).unwrap();
    let stream: PduStream = direction?.pdus(line, 1_500);
    assert_eq!(stream.cells, aal5_cells(stream.sdu));
    (contract.category != ServiceCategory::Ubr).then(|| stream.credit(contract.jitter))
}

fn interface() -> InterfaceInfo {
    InterfaceInfo {
        spec: InterfaceSpec {
            name: "a".to_owned(),
            adapter: None,
            link: Link::Memory {
                peer: "b".to_owned(),
            },
            line_rate: None,
            line: None,
        },
        port: PortIndex(0),
        up: true,
        connections: 0,
        dropped_cells: 0,
        state: InterfaceState::Up,
        counts: InterfaceCounts::default(),
    }
}
