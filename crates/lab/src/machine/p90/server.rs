//! The protocol server of the P-90: core's, with an adapter that does what it is asked.

use std::collections::{BTreeMap, VecDeque};

use cellgate_core::Time;
use cellgate_core::adapter::{
    AttachmentIndex, Interleaving, Marks, OpenRequest, VcId, VcIndex, VcInfo, VcStats,
};
use cellgate_core::contract::{CellRate, Credit};
use cellgate_core::keeper::{Answer, Ask, ReceiveInto};
use cellgate_core::queue::{AttachmentSizes, ConnectionSizes};
use cellgate_core::server::{
    AdapterAnswer, AdapterAsk, AdapterBooks, AdapterIndex, AdmissionConfig, ClientId, Confirm,
    CpuLaw, FromClient, FromServer, HeaderForm, Idle, Indication, InterfaceSpec, Limits, Link,
    Open, Opened, Output, Peer, Priority, Quota, Refused, Request, Resource, ResourceInfo, Server,
    ServerAdapter, ServerAssumptions, ServerConfig, Ticket, VERSION,
};

const INTERFACE: &str = "oc3";
const ATTACHMENT: AttachmentSizes = AttachmentSizes {
    event_slots: 64,
    doorbell_slots: 64,
};

/// Why the server did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApplicationError {
    Refused(Refused),
    /// It answered something else, or nothing.
    Unexpected(&'static str),
}

impl std::fmt::Display for ApplicationError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Refused(refused) => refused.fmt(f),
            Self::Unexpected(what) => write!(f, "the server did not answer {what}"),
        }
    }
}

impl std::error::Error for ApplicationError {}

/// The server of one host with one line, and permanent connections on it. Each connection is
/// served by a worker, which takes CPU time of the host.
pub struct Application {
    server: Server,
    adapter: Book,
    asks: VecDeque<(Ticket, AdapterAsk)>,
    heard: VecDeque<(ClientId, FromServer)>,
    clients: u32,
    requests: u64,
}

/// What the adapter has open. It sends and receives elsewhere: this one keeps the book.
#[derive(Default)]
struct Book {
    made: u32,
    open: BTreeMap<VcId, (OpenRequest, ConnectionSizes)>,
}

impl Application {
    /// A host that can send `line` cells/s, whose packets cost what `law` says.
    pub fn new(now: Time, line: CellRate, law: CpuLaw) -> Result<Self, ApplicationError> {
        let mut application = Self {
            server: Server::new(config(law)),
            adapter: Book::default(),
            asks: VecDeque::new(),
            heard: VecDeque::new(),
            clients: 0,
            requests: 0,
        };
        application
            .server
            .handle_adapter_ready(now, AdapterIndex::FIRST);
        application.settle(now);
        let root = application.hello(now)?;
        let spec = InterfaceSpec {
            adapter: None,
            name: INTERFACE.to_owned(),
            link: Link::peer(INTERFACE),
            form: HeaderForm::Nni,
            priority: Priority::Normal,
            line_rate: Some(line),
            line: None,
        };
        application.confirmed(now, root, Request::AddInterface(spec))?;
        Ok(application)
    }

    /// Opens the connection 0.`vci` for a new application.
    pub fn open(
        &mut self,
        now: Time,
        vci: u16,
        contract: &str,
    ) -> Result<(ClientId, Opened), ApplicationError> {
        let client = self.hello(now)?;
        let address = format!("{INTERFACE}.0.{vci}").parse();
        let open = Open {
            marks: Marks::None,
            address: address.map_err(|_| ApplicationError::Unexpected("to an address"))?,
            contract: contract.to_owned(),
            notification: None,
            transmit_pdus: None,
            receive_pdus: None,
            queue_threshold: None,
            completions: false,
            receive_into: None,
        };
        match self.confirmed(now, client, Request::Open(open)) {
            Ok(Confirm::Opened(opened)) => Ok((client, opened)),
            Ok(_) => Err(ApplicationError::Unexpected("an Open with Opened")),
            Err(error) => {
                self.close(now, client);
                Err(error)
            }
        }
    }

    /// The application ends, and its connection with it.
    pub fn close(&mut self, now: Time, client: ClientId) {
        self.server.handle_hang_up(now, client);
        self.settle(now);
    }

    /// What best effort was told since the last call: its share of the line, and the pace of what
    /// it sends.
    pub fn shares(&mut self) -> Vec<(ClientId, CellRate, Credit)> {
        let heard = self.heard.drain(..);
        let share = heard.filter_map(|(client, message)| match message {
            FromServer::Indication { indication, .. } => match indication {
                Indication::Share {
                    transmit,
                    transmit_credit,
                    ..
                } => Some((client, transmit?, transmit_credit?)),
                _ => None,
            },
            FromServer::Confirm { .. } => None,
        });
        share.collect()
    }

    /// What is promised of the workers' CPU time.
    pub fn cpu(&mut self, now: Time) -> Result<ResourceInfo, ApplicationError> {
        let client = self.hello(now)?;
        let confirm = self.confirmed(now, client, Request::Resources);
        self.close(now, client);
        let Confirm::Resources(resources) = confirm? else {
            return Err(ApplicationError::Unexpected("Resources with them"));
        };
        let mut resources = resources.into_iter();
        let cpu = resources.find(|info| info.resource == Resource::WorkerCpu);
        cpu.ok_or(ApplicationError::Unexpected("with the workers' CPU"))
    }

    fn hello(&mut self, now: Time) -> Result<ClientId, ApplicationError> {
        self.clients += 1;
        let client = ClientId(self.clients);
        let peer = Peer { uid: 0, pid: 1 };
        self.server.handle_connect_worker(now, client, peer);
        self.confirmed(now, client, Request::Hello { version: VERSION })?;
        Ok(client)
    }

    fn confirmed(
        &mut self,
        now: Time,
        client: ClientId,
        request: Request,
    ) -> Result<Confirm, ApplicationError> {
        self.requests += 1;
        let asked = self.requests;
        let message = FromClient::Request {
            connection: 0,
            id: asked,
            request,
        };
        self.server.handle_message(now, client, message, None);
        self.settle(now);
        let is_it = |(to, message): &(ClientId, FromServer)| {
            let same = |id: &u64| *to == client && *id == asked;
            matches!(message, FromServer::Confirm { id, .. } if same(id))
        };
        let at = self.heard.iter().position(is_it);
        match at.and_then(|at| self.heard.remove(at)) {
            Some((_, FromServer::Confirm { result, .. })) => {
                result.map_err(ApplicationError::Refused)
            }
            _ => Err(ApplicationError::Unexpected("a Request with a Confirm")),
        }
    }

    /// Answers what the server asks of the adapter until it asks nothing.
    fn settle(&mut self, now: Time) {
        loop {
            while let Some(output) = self.server.poll_output() {
                match output {
                    Output::Adapter { ticket, ask, .. } => self.asks.push_back((ticket, ask)),
                    Output::Client {
                        client, message, ..
                    } => self.heard.push_back((client, message)),
                    Output::Keep { .. }
                    | Output::HangUp { .. }
                    | Output::Lost { .. }
                    | Output::LeftOut { .. }
                    | Output::PagesTaken { .. } => {}
                }
            }
            let Some((ticket, ask)) = self.asks.pop_front() else {
                return;
            };
            let answer = self.adapter.answer(ask);
            self.server.handle_answer(now, ticket, Ok(answer));
        }
    }
}

impl Book {
    fn answer(&mut self, ask: AdapterAsk) -> AdapterAnswer {
        let ask = match ask {
            AdapterAsk::Keeper(ask, _) => ask,
            AdapterAsk::Link { .. } => return AdapterAnswer::Linked { up: true },
            AdapterAsk::Unlink { .. } => return AdapterAnswer::Keeper(Answer::Done),
        };
        AdapterAnswer::Keeper(match ask {
            Ask::Attach { sizes, .. } => {
                self.made += 1;
                Answer::Attached {
                    // A server keeps fewer than 65,536.
                    attachment: AttachmentIndex(self.made as u16),
                    sizes,
                    files_generation: self.made,
                }
            }
            Ask::Open { request, sizes, .. } => {
                self.made += 1;
                let vc = VcId {
                    index: VcIndex(self.made as u16),
                    generation: self.made,
                };
                self.open(vc, request, sizes)
            }
            Ask::Modify {
                vc,
                request,
                region,
                ..
            } => {
                let kept = self.open.get(&vc).map(|(_, sizes)| *sizes);
                match region.map(|region| region.sizes).or(kept) {
                    Some(sizes) => self.open(vc, request, sizes),
                    None => Answer::Done,
                }
            }
            Ask::Close { vc } => match self.open.remove(&vc) {
                Some((request, _)) => Answer::Closed(Box::new(VcInfo {
                    vc,
                    request,
                    stats: VcStats::default(),
                })),
                None => Answer::Done,
            },
            _ => Answer::Done,
        })
    }

    fn open(&mut self, vc: VcId, request: OpenRequest, sizes: ConnectionSizes) -> Answer {
        self.open.insert(vc, (request, sizes));
        Answer::Opened {
            vc,
            sizes,
            receive_into: ReceiveInto::Own,
            files_generation: vc.generation,
        }
    }
}

/// CPU time is the workers': the network adapter does the AAL. Best effort is kept a hundredth of
/// the line.
fn config(law: CpuLaw) -> ServerConfig {
    ServerConfig {
        server: "cellgate".to_owned(),
        pid: 1,
        uid: 0,
        notes: Vec::new(),
        counters_len: None,
        adapters: vec![ServerAdapter {
            name: None,
            ports: 1,
            blocks: 64,
            gap_max_ns: 0,
            clump_cells: 1,
            idle: Idle::Spin,
            late_ns: 0,
        }],
        attachment: ATTACHMENT,
        assumptions: ServerAssumptions {
            cdvt_ns: 0,
            interleaving: Interleaving {
                mids: 1,
                reassembly_timeout_ns: 1_000_000_000,
            },
            wake_up_ns: 0,
        },
        admission: AdmissionConfig {
            adapter_law: CpuLaw::default(),
            adapters: vec![AdapterBooks {
                cpu_ppm: 1_000_000,
                memory: 64 << 20,
                connections: 64,
            }],
            worker_law: law,
            worker_ppm: 1_000_000,
            best_effort_percent: 1,
            sdu_floor: None,
            quota: Quota::NONE,
            quotas: BTreeMap::new(),
        },
        limits: Limits::default(),
        reserves: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::p90::P90;

    fn application() -> Application {
        let law = P90::PAPER.law(0).expect("a law");
        let line = CellRate::for_sdu_rate(130_600_000, 8_192).expect("a rate");
        Application::new(Time::ZERO, line, law).expect("a server")
    }

    #[test]
    fn best_effort_is_told_the_rest_whenever_a_guarantee_comes_or_goes() {
        let mut application = application();
        let rate = |credit: Credit| credit.octets() * 1_000_000_000 / credit.interval_ns();
        let ubr = "ubr:tx:max_sdu=8192,rx:none";
        let (ubr, opened) = application.open(Time::ZERO, 32, ubr).expect("room");
        let told = |application: &mut Application| {
            let shares = application.shares();
            assert!(shares.iter().all(|(client, ..)| *client == ubr));
            shares.last().map(|(.., credit)| rate(*credit) * 8)
        };
        let all = rate(opened.transmit_credit.expect("a share")) * 8;
        assert!(all.abs_diff(130_600_000) < 1_000, "{all}");
        let cbr = "cbr:tx:pcr=109440,max_sdu=8192,rx:none";
        let (cbr, opened) = application.open(Time::ZERO, 33, cbr).expect("room");
        let credit = opened.transmit_credit.expect("it sends");
        assert_eq!(
            (credit.octets(), credit.interval_ns()),
            (81_920, 15_625_000)
        );
        let rest = told(&mut application).expect("a share");
        assert!(rest.abs_diff(130_600_000 - (40 << 20)) < 1_000, "{rest}");
        application.close(Time::ZERO, cbr);
        assert_eq!(told(&mut application), Some(all));
    }

    #[test]
    fn more_than_the_cpu_can_do_is_refused_and_something_less_is_offered() {
        let mut application = application();
        // Packets of 512 octets: the whole CPU at 31 Mbit/s.
        let cbr = "cbr:tx:pcr=100000,max_sdu=512,rx:none";
        let error = application.open(Time::ZERO, 32, cbr).expect_err("no CPU");
        let ApplicationError::Refused(Refused::Admission(shortage)) = error else {
            panic!("{error}");
        };
        assert_eq!(shortage.resource, Resource::WorkerCpu);
        let offer = shortage.offer.expect("an offer");
        application.open(Time::ZERO, 32, &offer).expect("the offer");
        let cpu = application.cpu(Time::ZERO).expect("resources");
        assert!(cpu.reserved <= cpu.capacity && cpu.reserved > 990_000);
    }
}
