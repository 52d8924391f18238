use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use cellgate_core::Time;
use cellgate_core::adapter::{PortConfig, PortIndex};
use cellgate_core::contract::CellRate;
use cellgate_core::server::{
    AdapterAnswer, AdapterRefusal, DatagramCounts, InterfaceCounts, InterfaceSpec, InterfaceState,
    Link, PortHealth, TakenInterface, Ticket,
};

use crate::control::{Answer, Ask, ControlError, PortReport};
use crate::given::Given;
use crate::link::udp::UdpOptions;

/// The link on a port.
#[derive(Clone, Debug)]
struct Linked {
    port: PortIndex,
    spec: InterfaceSpec,
    up: bool,
}

/// One request to the adapter that a link needs.
#[derive(Clone, Debug)]
enum Step {
    Configure(PortIndex, PortConfig),
    /// The second port is to transmit into the first.
    Join(PortIndex, PortIndex),
    Pseudowire(PortIndex, UdpOptions),
    Unlink(PortIndex),
    /// What a successor needs of the port's link, if it has one.
    Keep(PortIndex, Option<String>),
}

/// A link that comes or goes.
struct Job {
    steps: VecDeque<Step>,
    port: PortIndex,
    /// What is there in the end; none: nothing.
    becomes: Option<Linked>,
    /// The other end of a memory link, which goes up or down with it.
    peer: Option<PortIndex>,
}

/// What a job wants next.
#[expect(
    clippy::large_enum_variant,
    reason = "one at a time, off the data path"
)]
pub(super) enum Next {
    /// This, of the adapter.
    Ask(Ask, Vec<Arc<Given>>),
    /// Nothing: this came of it.
    End(Result<AdapterAnswer, AdapterRefusal>),
}

/// The links of the adapter's ports. They come and go one after the other: what becomes of one
/// depends on whether its peer is there.
pub(super) struct Links {
    on: BTreeMap<PortIndex, Linked>,
    job: Option<(Ticket, Job)>,
    /// A link to put on a port, or to take off.
    queue: VecDeque<(Ticket, PortIndex, Option<InterfaceSpec>)>,
    /// What ports are configured as, but for their rate.
    template: PortConfig,
}

impl Links {
    pub(super) fn new(template: PortConfig) -> Self {
        Self {
            on: BTreeMap::new(),
            job: None,
            queue: VecDeque::new(),
            template,
        }
    }

    /// A new adapter has none.
    pub(super) fn begin_anew(&mut self) {
        self.on.clear();
        self.job = None;
        self.queue.clear();
    }

    /// The links whose specifications an adapter has kept. A memory link is up where its peer is
    /// there, too.
    pub(super) fn take_up(
        &mut self,
        kept: impl IntoIterator<Item = (PortIndex, InterfaceSpec)>,
    ) -> Vec<TakenInterface> {
        self.begin_anew();
        for (port, spec) in kept {
            let up = match &spec.link {
                Link::Memory { peer } if *peer != spec.name => {
                    let peer = self.waits_for(peer, &spec.name);
                    if let Some(peer) = peer.and_then(|peer| self.on.get_mut(&peer)) {
                        peer.up = true;
                    }
                    peer.is_some()
                }
                _ => true,
            };
            self.on.insert(port, Linked { port, spec, up });
        }
        let taken = |link: &Linked| TakenInterface {
            spec: link.spec.clone(),
            port: link.port,
            up: link.up,
        };
        self.on.values().map(taken).collect()
    }

    /// The name of the interface whose link is on a port.
    pub(super) fn name_of(&self, port: PortIndex) -> Option<String> {
        self.on.get(&port).map(|link| link.spec.name.clone())
    }

    /// How the ports with links do.
    pub(super) fn health(&self, now: Time, ports: &[PortReport]) -> Vec<PortHealth> {
        let health = |link: &Linked| {
            let report = ports.get(usize::from(link.port.0));
            let report = report.copied().unwrap_or_default();
            PortHealth {
                port: link.port,
                up: link.up,
                dropped_cells: report.receive.dropped,
                state: link.state(now, &report),
                counts: counts(now, &report),
            }
        };
        self.on.values().map(health).collect()
    }

    /// Has a link be put on a port, or taken off: in its turn.
    pub(super) fn enqueue(&mut self, ticket: Ticket, port: PortIndex, spec: Option<InterfaceSpec>) {
        self.queue.push_back((ticket, port, spec));
    }

    /// Begins with what is next, if nothing is under way.
    pub(super) fn begin(&mut self) -> Option<(Ticket, Next)> {
        if self.job.is_some() {
            return None;
        }
        let (ticket, port, spec) = self.queue.pop_front()?;
        let job = match spec {
            Some(spec) => self.linking(port, spec),
            None => self.unlinking(port),
        };
        self.job = Some((ticket, job));
        Some((ticket, self.next()))
    }

    /// Whether links come or go.
    pub(super) fn are_busy(&self) -> bool {
        self.job.is_some() || !self.queue.is_empty()
    }

    fn linking(&self, port: PortIndex, spec: InterfaceSpec) -> Job {
        let config = PortConfig {
            line_rate: spec.line_rate.unwrap_or(CellRate::OC3),
            ..self.template
        };
        let mut steps = VecDeque::from([Step::Configure(port, config)]);
        let mut peer_port = None;
        let up = match &spec.link {
            Link::Memory { peer } if *peer == spec.name => {
                steps.push_back(Step::Join(port, port));
                true
            }
            Link::Memory { peer } => {
                peer_port = self.waits_for(peer, &spec.name);
                if let Some(other) = peer_port {
                    steps.extend([Step::Join(other, port), Step::Join(port, other)]);
                }
                peer_port.is_some()
            }
            Link::Udp { .. } => {
                steps.extend(udp_options(&spec.link).map(|udp| Step::Pseudowire(port, udp)));
                true
            }
        };
        steps.push_back(Step::Keep(port, serde_json::to_string(&spec).ok()));
        Job {
            steps,
            port,
            becomes: Some(Linked { port, spec, up }),
            peer: peer_port,
        }
    }

    /// The peer's link goes with it.
    fn unlinking(&self, port: PortIndex) -> Job {
        let link = self.on.get(&port).map(|linked| &linked.spec);
        let peer = link.and_then(|spec| match &spec.link {
            Link::Memory { peer } if *peer != spec.name => self.waits_for(peer, &spec.name),
            _ => None,
        });
        // A successor must not take a link for one that is half gone already.
        let mut steps = VecDeque::from([Step::Keep(port, None), Step::Unlink(port)]);
        steps.extend(peer.map(Step::Unlink));
        Job {
            steps,
            port,
            becomes: None,
            peer,
        }
    }

    /// The port of the memory link `name` whose peer is to be `peer`.
    fn waits_for(&self, name: &str, peer: &str) -> Option<PortIndex> {
        let wanted = Link::Memory {
            peer: peer.to_owned(),
        };
        let fits = |linked: &&Linked| linked.spec.name == name && linked.spec.link == wanted;
        self.on.values().find(fits).map(|linked| linked.port)
    }

    /// Goes on with a job; none if nobody waits for it.
    pub(super) fn answered(
        &mut self,
        ticket: Ticket,
        answer: Result<Answer, ControlError>,
        fds: Vec<Given>,
    ) -> Option<Next> {
        let (_, job) = self.job.as_mut().filter(|(asker, _)| *asker == ticket)?;
        Some(match (answer, job.steps.front()) {
            (
                Ok(Answer::Port {
                    sizes,
                    files_generation,
                }),
                Some(Step::Join(_, from)),
            ) => {
                let join = Ask::Join {
                    port: *from,
                    sizes,
                    files_generation,
                };
                Next::Ask(join, fds.into_iter().map(Arc::new).collect())
            }
            (Ok(_), _) => {
                job.steps.pop_front();
                self.next()
            }
            (Err(error), _) => {
                self.job = None;
                Next::End(Err(AdapterRefusal::Link(error.to_string())))
            }
        })
    }

    fn next(&mut self) -> Next {
        let step = self.job.as_ref().and_then(|(_, job)| job.steps.front());
        let ask = match step.cloned() {
            Some(Step::Configure(port, config)) => Ask::Configure { port, config },
            Some(Step::Join(into, _)) => Ask::ReceivePort { port: into },
            Some(Step::Pseudowire(port, options)) => Ask::Pseudowire { port, options },
            Some(Step::Unlink(port)) => Ask::Unlink { port },
            Some(Step::Keep(port, record)) => Ask::KeepPort { port, record },
            None => return Next::End(Ok(self.end())),
        };
        Next::Ask(ask, Vec::new())
    }

    fn end(&mut self) -> AdapterAnswer {
        let Some((_, job)) = self.job.take() else {
            return AdapterAnswer::Done;
        };
        let up = job.becomes.as_ref().is_some_and(|link| link.up);
        if let Some(peer) = job.peer.and_then(|peer| self.on.get_mut(&peer)) {
            peer.up = up;
        }
        let linked = job.becomes.is_some();
        match job.becomes {
            Some(link) => self.on.insert(job.port, link),
            None => self.on.remove(&job.port),
        };
        match linked {
            true => AdapterAnswer::Linked { up },
            false => AdapterAnswer::Done,
        }
    }
}

/// The pseudowire of a link that is one.
pub(super) fn udp_options(link: &Link) -> Option<UdpOptions> {
    match *link {
        Link::Memory { .. } => None,
        Link::Udp {
            local,
            peer,
            source_port,
            peer_source_port,
            label_out,
            label_in,
            mode,
            mtu,
            pack,
            timer_ns,
        } => Some(UdpOptions {
            local,
            peer,
            source_port,
            peer_source_port,
            label_out,
            label_in,
            mode,
            mtu,
            pack,
            timer_ns,
        }),
    }
}

/// A pseudowire's peer is told to be silent after so long: it sends only cells that somebody sends.
const SILENT_NS: u64 = 10_000_000_000;

impl Linked {
    fn state(&self, now: Time, report: &PortReport) -> InterfaceState {
        let Link::Udp { .. } = self.spec.link else {
            return match self.up {
                true => InterfaceState::Up,
                false => InterfaceState::Down,
            };
        };
        let counted = report.pseudowire.unwrap_or_default();
        if let Some(errno) = counted.last_refusal {
            let reason = std::io::Error::from_raw_os_error(errno).to_string();
            return InterfaceState::CannotSend { reason };
        }
        match counted.heard.map(|heard| now.since_ns(heard)) {
            Some(0..SILENT_NS) => InterfaceState::Up,
            silent_ns => InterfaceState::NoPeer { silent_ns },
        }
    }
}

/// What a port has thrown away, and could not send.
fn counts(now: Time, report: &PortReport) -> InterfaceCounts {
    let datagrams = report.pseudowire.map(|counted| DatagramCounts {
        received: counted.received_datagrams,
        wrong_source: counted.discarded_datagrams.wrong_source,
        bad_stack: counted.discarded_datagrams.bad_stack,
        wrong_label: counted.discarded_datagrams.wrong_label,
        bad_control_word: counted.discarded_datagrams.bad_control_word,
        bad_length: counted.discarded_datagrams.bad_length,
        out_of_order: counted.discarded_datagrams.out_of_order,
        missing: counted.missing_datagrams,
        overflows: counted.overflows,
        sent: counted.sent_datagrams,
        refused: counted.refusals.iter().collect(),
        silent_ns: counted.heard.map(|heard| now.since_ns(heard)),
        last_refused: counted.last_refused,
    });
    InterfaceCounts {
        cells: report.strays,
        datagrams,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What an adapter has kept, and which ports are joined.
    #[derive(Default)]
    struct Adapter {
        kept: BTreeMap<PortIndex, InterfaceSpec>,
        unlinked: Vec<PortIndex>,
    }

    fn links() -> Links {
        Links::new(PortConfig {
            format: cellgate_core::wire::CellFormat::NoHec,
            budget: 256,
            discard_unread: false,
            line_rate: CellRate::OC3,
        })
    }

    fn memory(name: &str, peer: &str) -> InterfaceSpec {
        InterfaceSpec {
            name: name.to_owned(),
            link: Link::Memory {
                peer: peer.to_owned(),
            },
            line_rate: None,
        }
    }

    /// Carries out what links want, `asks` at most: what the adapter has then.
    fn carry_out(links: &mut Links, adapter: &mut Adapter, mut asks: usize) {
        while let Some((ticket, mut next)) = links.begin() {
            while let Next::Ask(ask, _) = next {
                let Some(left) = asks.checked_sub(1) else {
                    return;
                };
                asks = left;
                let answer = match ask {
                    Ask::KeepPort { port, record } => {
                        let spec = record.map(|record| serde_json::from_str(&record).unwrap());
                        match spec {
                            Some(spec) => drop(adapter.kept.insert(port, spec)),
                            None => drop(adapter.kept.remove(&port)),
                        }
                        Answer::Done
                    }
                    Ask::ReceivePort { .. } => Answer::Port {
                        sizes: cellgate_core::ring::PortSizes {
                            cells: 8,
                            format: cellgate_core::wire::CellFormat::NoHec,
                        },
                        files_generation: 1,
                    },
                    Ask::Unlink { port } => {
                        adapter.unlinked.push(port);
                        Answer::Done
                    }
                    _ => Answer::Done,
                };
                next = links.answered(ticket, Ok(answer), Vec::new()).unwrap();
            }
        }
    }

    fn found(adapter: &Adapter) -> Vec<(String, bool)> {
        let taken = links().take_up(adapter.kept.clone());
        let found = taken.into_iter().map(|taken| (taken.spec.name, taken.up));
        found.collect()
    }

    #[test]
    fn a_successor_finds_no_link_that_is_half_there_whenever_a_server_dies() {
        let [a, b] = [0, 1].map(PortIndex);
        let both = [("a".to_owned(), true), ("b".to_owned(), true)];
        let alone = |name: &str| vec![(name.to_owned(), false)];
        let build = |asks| {
            let (mut links, mut adapter) = (links(), Adapter::default());
            links.enqueue(Ticket(1), a, Some(memory("a", "b")));
            links.enqueue(Ticket(2), b, Some(memory("b", "a")));
            carry_out(&mut links, &mut adapter, asks);
            (links, adapter)
        };
        let mut seen = Vec::new();
        for asks in 0..20 {
            seen.push(found(&build(asks).1));
        }
        seen.dedup();
        assert_eq!(seen, [vec![], alone("a"), both.to_vec()]);
        let mut seen = Vec::new();
        for asks in 0..20 {
            let (mut links, mut adapter) = build(20);
            links.enqueue(Ticket(3), a, None);
            carry_out(&mut links, &mut adapter, asks);
            let left = found(&adapter);
            // No port is silent that a successor takes for one with a link that is up.
            let is_silent = |port| adapter.unlinked.contains(&port);
            assert!(!is_silent(a) || left == alone("b"), "{asks}");
            seen.push(left);
        }
        seen.dedup();
        assert_eq!(seen, [both.to_vec(), alone("b")]);
    }
}
