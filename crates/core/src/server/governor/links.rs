//! Links come and go, one job at a time, each by a few requests to one adapter or two.

use std::collections::{BTreeMap, VecDeque};

use crate::Time;
use crate::adapter::{PortConfig, PortIndex};
use crate::contract::CellRate;
use crate::keeper::{
    Answer, Ask, ControlError, Handle, Link, MeetingReport, MemoryLink, PortReport, UdpLink,
};
use crate::line::LineSpec;
use crate::server::{
    AdapterAnswer, AdapterIndex, AdapterRefusal, DatagramCounts, InterfaceCounts, InterfaceSpec,
    InterfaceState, On, PortHealth, Priority, TakenInterface, Ticket,
};

/// The link on a port.
#[derive(Clone, Debug)]
struct Linked {
    port: On<PortIndex>,
    spec: InterfaceSpec,
    up: bool,
}

/// One request to the adapter that a link needs.
#[derive(Clone, Debug)]
enum Step {
    Configure(On<PortIndex>, PortConfig),
    /// The second port is to transmit into the first.
    Join(On<PortIndex>, On<PortIndex>),
    Pseudowire(On<PortIndex>, UdpLink),
    /// The port is to meet another server's at a socket's path.
    Meet(On<PortIndex>, String),
    /// The line on which the port receives.
    Line(On<PortIndex>, LineSpec),
    Unlink(On<PortIndex>),
    /// What a successor needs of the port's link, if it has one.
    Keep(On<PortIndex>, Option<String>),
}

impl Step {
    /// Whose adapter is asked first.
    const fn port(&self) -> On<PortIndex> {
        match self {
            Self::Configure(port, _)
            | Self::Join(port, _)
            | Self::Pseudowire(port, _)
            | Self::Meet(port, _)
            | Self::Line(port, _)
            | Self::Unlink(port)
            | Self::Keep(port, _) => *port,
        }
    }
}

impl Job {
    /// Whether the job needs an adapter.
    fn concerns(&self, adapter: AdapterIndex) -> bool {
        let peer = self.peer.iter();
        peer.chain([&self.port]).any(|port| port.adapter == adapter)
    }
}

/// A link that comes or goes.
#[derive(Debug)]
struct Job {
    steps: VecDeque<Step>,
    port: On<PortIndex>,
    /// What is there in the end; none: nothing.
    becomes: Option<Linked>,
    /// The other end of a memory link, which goes up or down with it.
    peer: Option<On<PortIndex>>,
}

/// What the end of an adapter leaves of other adapters' links.
pub(super) struct Parted {
    /// Ports that were joined to its own.
    pub(super) alone: Vec<On<PortIndex>>,
    /// A port whose link was to be joined to it, and who waits for that.
    pub(super) waits: Option<(On<PortIndex>, Ticket)>,
}

/// What a job wants next.
pub(super) enum Next {
    /// This, of an adapter.
    Ask(AdapterIndex, Ask, Vec<Handle>),
    /// Nothing: this came of it, for the interface on a port.
    End(On<PortIndex>, Result<AdapterAnswer, AdapterRefusal>),
}

/// The links of all adapters' ports. They come and go one after the other: what becomes of one
/// depends on whether its peer is there, on whichever adapter.
#[derive(Debug)]
pub(super) struct Links {
    on: BTreeMap<On<PortIndex>, Linked>,
    job: Option<(Ticket, Job)>,
    /// A link to put on a port, or to take off.
    queue: VecDeque<(Ticket, On<PortIndex>, Option<InterfaceSpec>)>,
    /// What ports are configured as, but for their rate.
    template: PortConfig,
    words: ErrorWords,
}

/// What the kernel's error number means, in its words.
pub type ErrorWords = fn(i32) -> String;

impl Links {
    pub(super) fn new(template: PortConfig, words: ErrorWords) -> Self {
        Self {
            words,
            on: BTreeMap::new(),
            job: None,
            queue: VecDeque::new(),
            template,
        }
    }

    /// An adapter has gone, and its links with it: what that leaves of others.
    pub(super) fn lose(&mut self, adapter: AdapterIndex) -> Parted {
        let of_it = |port: &On<PortIndex>, _: &mut Linked| port.adapter == adapter;
        let gone: Vec<_> = self.on.extract_if(.., of_it).collect();
        let mut alone = Vec::new();
        for (_, Linked { spec, .. }) in gone {
            let peer = match spec.link.memory_peer() {
                Some(peer) => self.waits_for(peer, &spec.name),
                None => None,
            };
            if let Some(peer) = peer.and_then(|peer| self.on.get_mut(&peer)) {
                peer.up = false;
                alone.push(peer.port);
            }
        }
        self.queue.retain(|(_, port, _)| port.adapter != adapter);
        let over = self.job.take_if(|(_, job)| job.concerns(adapter));
        let waits = over.filter(|(_, job)| job.port.adapter != adapter);
        Parted {
            alone,
            waits: waits.map(|(ticket, job)| (job.port, ticket)),
        }
    }

    /// The links whose specifications an adapter has kept. A memory link is up where its peer is
    /// there, too.
    pub(super) fn take_up(
        &mut self,
        adapter: AdapterIndex,
        kept: impl IntoIterator<Item = (PortIndex, InterfaceSpec)>,
    ) -> Vec<TakenInterface> {
        for (port, spec) in kept {
            let port = adapter.on(port);
            let up = match spec.link.memory_peer() {
                Some(peer) if peer != spec.name => {
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
            port: link.port.id,
            up: link.up,
        };
        self.on_adapter(adapter).map(taken).collect()
    }

    /// The name of the interface whose link is on a port.
    pub(super) fn name_of(&self, port: On<PortIndex>) -> Option<String> {
        self.on.get(&port).map(|link| link.spec.name.clone())
    }

    fn on_adapter(&self, adapter: AdapterIndex) -> impl Iterator<Item = &Linked> {
        let all = self.on.values();
        all.filter(move |link| link.port.adapter == adapter)
    }

    /// How an adapter's ports with links do, by what it reports of them.
    pub(super) fn health(
        &self,
        now: Time,
        adapter: AdapterIndex,
        ports: &[PortReport],
    ) -> Vec<PortHealth> {
        let health = |link: &Linked| {
            let report = ports.get(usize::from(link.port.id.0));
            let report = report.cloned().unwrap_or_default();
            PortHealth {
                port: link.port.id,
                up: link.is_up(&report),
                dropped_cells: report.receive.dropped,
                state: link.state(now, &report, self.words),
                counts: counts(now, &report),
            }
        };
        self.on_adapter(adapter).map(health).collect()
    }

    /// Has a link be put on a port, or taken off: in its turn.
    pub(super) fn enqueue(
        &mut self,
        ticket: Ticket,
        port: On<PortIndex>,
        spec: Option<InterfaceSpec>,
    ) {
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
        Some((ticket, self.next()?))
    }

    /// Whether links of an adapter come or go.
    pub(super) fn are_busy(&self, adapter: AdapterIndex) -> bool {
        let under_way = self.job.as_ref();
        let mut queue = self.queue.iter();
        under_way.is_some_and(|(_, job)| job.concerns(adapter))
            || queue.any(|(_, port, _)| port.adapter == adapter)
    }

    fn linking(&self, port: On<PortIndex>, spec: InterfaceSpec) -> Job {
        if let Some(there) = self
            .on
            .get(&port)
            .filter(|there| there.is_but_for_line(&spec))
        {
            return there.clone().impairing(spec);
        }
        let config = PortConfig {
            form: spec.form,
            format: spec.format(),
            real_time: spec.priority == Priority::RealTime,
            line_rate: spec.line_rate.unwrap_or(CellRate::OC3),
            ..self.template
        };
        // A server that has died may have left a link there that nobody knows, with other cells.
        // The line is there before the first cell can come; the port may have had another.
        let line = spec.line.as_deref().copied().unwrap_or_default();
        let mut steps = VecDeque::from([
            Step::Unlink(port),
            Step::Configure(port, config),
            Step::Line(port, line),
        ]);
        let mut peer_port = None;
        let up = match &spec.link {
            Link::Memory(MemoryLink::Peer(peer)) if *peer == spec.name => {
                steps.push_back(Step::Join(port, port));
                true
            }
            Link::Memory(MemoryLink::Peer(peer)) => {
                peer_port = self.waits_for(peer, &spec.name);
                if let Some(other) = peer_port {
                    if other.adapter != port.adapter {
                        // It may be joined to an adapter that has died.
                        steps.push_back(Step::Unlink(other));
                    }
                    steps.extend([Step::Join(other, port), Step::Join(port, other)]);
                }
                peer_port.is_some()
            }
            Link::Memory(MemoryLink::Socket(path)) => {
                steps.push_back(Step::Meet(port, path.clone()));
                // Whether the other end is there, the port reports.
                false
            }
            Link::Udp(udp) => {
                steps.push_back(Step::Pseudowire(port, *udp));
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
    fn unlinking(&self, port: On<PortIndex>) -> Job {
        let link = self.on.get(&port).map(|linked| &linked.spec);
        let peer = link.and_then(|spec| match spec.link.memory_peer() {
            Some(peer) if peer != spec.name => self.waits_for(peer, &spec.name),
            _ => None,
        });
        // A successor must not take a link for one that is half gone already.
        let mut steps = VecDeque::from([Step::Keep(port, None), Step::Unlink(port)]);
        steps.extend(peer.map(Step::Unlink));
        // Its memory is needed no more.
        if link.is_some_and(|spec| spec.line.is_some()) {
            steps.push_back(Step::Line(port, LineSpec::default()));
        }
        Job {
            steps,
            port,
            becomes: None,
            peer,
        }
    }

    /// The port of the memory link `name` whose peer is to be `peer`.
    fn waits_for(&self, name: &str, peer: &str) -> Option<On<PortIndex>> {
        let wanted = Link::peer(peer);
        let fits = |linked: &&Linked| linked.spec.name == name && linked.spec.link == wanted;
        self.on.values().find(fits).map(|linked| linked.port)
    }

    /// Goes on with a job, if somebody waits for it; what of `came` nobody needs.
    pub(super) fn answered(
        &mut self,
        ticket: Ticket,
        answer: Result<Answer, ControlError>,
        came: Vec<Handle>,
    ) -> (Option<Next>, Vec<Handle>) {
        let Some((_, job)) = self.job.as_mut().filter(|(asker, _)| *asker == ticket) else {
            return (None, came);
        };
        match (answer, job.steps.front()) {
            (
                Ok(Answer::Port {
                    sizes,
                    files_generation,
                }),
                Some(Step::Join(_, from)),
            ) => {
                let join = Ask::Join {
                    port: from.id,
                    sizes,
                    files_generation,
                };
                (Some(Next::Ask(from.adapter, join, came)), Vec::new())
            }
            (Ok(_), _) => {
                job.steps.pop_front();
                (self.next(), came)
            }
            (Err(error), _) => {
                let port = job.port;
                self.job = None;
                let refusal = AdapterRefusal::Link(error.to_string());
                (Some(Next::End(port, Err(refusal))), came)
            }
        }
    }

    /// Ends a job whose peer is on an adapter that is away; none if nobody waits for it.
    pub(super) fn give_up(&mut self, ticket: Ticket) -> Option<Next> {
        let (_, job) = self.job.take_if(|(asker, _)| *asker == ticket)?;
        Some(Next::End(job.port, Err(Self::peer_away())))
    }

    /// The refusal of a link to an adapter that is being restarted.
    pub(super) fn peer_away() -> AdapterRefusal {
        AdapterRefusal::Link("the adapter of its peer is being restarted".to_owned())
    }

    /// What the job under way wants next; none: there is no such job.
    fn next(&mut self) -> Option<Next> {
        let (_, job) = self.job.as_ref()?;
        let Some(step) = job.steps.front().cloned() else {
            let (_, job) = self.job.take()?;
            return Some(self.end(job));
        };
        let On { adapter, id: port } = step.port();
        let ask = match step {
            Step::Configure(_, config) => Ask::Configure { port, config },
            Step::Join(..) => Ask::ReceivePort { port },
            Step::Pseudowire(_, options) => Ask::Pseudowire { port, options },
            Step::Meet(_, path) => Ask::Meet { port, path },
            Step::Line(_, line) => Ask::Line { port, line },
            Step::Unlink(_) => Ask::Unlink { port },
            Step::Keep(_, record) => Ask::KeepPort { port, record },
        };
        Some(Next::Ask(adapter, ask, Vec::new()))
    }

    fn end(&mut self, job: Job) -> Next {
        let up = job.becomes.as_ref().is_some_and(|link| link.up);
        if let Some(peer) = job.peer.and_then(|peer| self.on.get_mut(&peer)) {
            peer.up = up;
        }
        let linked = job.becomes.is_some();
        match job.becomes {
            Some(link) => self.on.insert(job.port, link),
            None => self.on.remove(&job.port),
        };
        let answer = match linked {
            true => AdapterAnswer::Linked { up },
            false => AdapterAnswer::Keeper(Answer::Done),
        };
        Next::End(job.port, Ok(answer))
    }
}

/// A pseudowire's peer is told to be silent after so long: it sends only cells that somebody sends.
const SILENT_NS: u64 = 10_000_000_000;

impl Linked {
    /// Whether a specification asks for what is there, but for how its line is impaired.
    fn is_but_for_line(&self, spec: &InterfaceSpec) -> bool {
        let asked = InterfaceSpec {
            line: self.spec.line.clone(),
            ..spec.clone()
        };
        asked == self.spec
    }

    /// Its line becomes another, and nothing else does.
    fn impairing(self, spec: InterfaceSpec) -> Job {
        let port = self.port;
        let line = Step::Line(port, spec.line.as_deref().copied().unwrap_or_default());
        let keep = Step::Keep(port, serde_json::to_string(&spec).ok());
        Job {
            steps: VecDeque::from([line, keep]),
            port,
            becomes: Some(Self { spec, ..self }),
            peer: None,
        }
    }

    /// Whether its link is there: where the other end is another server's, the port reports it.
    fn is_up(&self, report: &PortReport) -> bool {
        let meeting = report.meeting.as_ref();
        meeting.map_or(self.up, |meeting| meeting.joined)
    }

    fn state(&self, now: Time, report: &PortReport, words: ErrorWords) -> InterfaceState {
        match (&self.spec.link, &report.meeting) {
            (Link::Udp(_), _) => {}
            (Link::Memory(MemoryLink::Socket(_)), Some(meeting)) => return met(now, meeting),
            (Link::Memory(_), _) => {
                return match self.up {
                    true => InterfaceState::Up,
                    false => InterfaceState::Down,
                };
            }
        }
        let counted = report.pseudowire.unwrap_or_default();
        if let Some(errno) = counted.last_refusal {
            let reason = words(errno);
            return InterfaceState::CannotSend { reason };
        }
        match counted.heard.map(|heard| now.since_ns(heard)) {
            Some(0..SILENT_NS) => InterfaceState::Up,
            silent_ns => InterfaceState::NoPeer { silent_ns },
        }
    }
}

/// How a memory link to another server does.
fn met(now: Time, meeting: &MeetingReport) -> InterfaceState {
    match (meeting.joined, &meeting.trouble) {
        (true, _) => InterfaceState::Up,
        (false, Some(reason)) => InterfaceState::NoLink {
            reason: reason.clone(),
        },
        (false, None) => InterfaceState::NoPeer {
            silent_ns: meeting.parted.map(|parted| now.since_ns(parted)),
        },
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
        line: report.line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::HeaderForm;

    /// What adapters have kept, and which ports were unlinked.
    #[derive(Default)]
    struct Adapters {
        kept: BTreeMap<On<PortIndex>, InterfaceSpec>,
        unlinked: Vec<On<PortIndex>>,
    }

    fn links() -> Links {
        let template = PortConfig {
            form: HeaderForm::Nni,
            format: crate::wire::CellFormat::NoHec,
            budget: 256,
            discard_unread: false,
            real_time: false,
            line_rate: CellRate::OC3,
        };
        Links::new(template, |errno| errno.to_string())
    }

    fn memory(name: &str, peer: &str) -> InterfaceSpec {
        InterfaceSpec {
            name: name.to_owned(),
            adapter: None,
            link: Link::peer(peer),
            form: HeaderForm::Nni,
            priority: Priority::Normal,
            line_rate: None,
            line: None,
        }
    }

    /// Carries out what links want, `asks` at most.
    fn carry_out(links: &mut Links, adapters: &mut Adapters, mut asks: usize) {
        // What was under way goes on.
        let under_way = links.job.as_ref().map(|(ticket, _)| *ticket);
        let mut first = under_way.and_then(|ticket| Some((ticket, links.next()?)));
        while let Some((ticket, mut next)) = first.take().or_else(|| links.begin()) {
            while let Next::Ask(adapter, ask, _) = next {
                let Some(left) = asks.checked_sub(1) else {
                    return;
                };
                asks = left;
                let answer = match ask {
                    Ask::KeepPort { port, record } => {
                        let spec = record.map(|record| serde_json::from_str(&record).unwrap());
                        match spec {
                            Some(spec) => drop(adapters.kept.insert(adapter.on(port), spec)),
                            None => drop(adapters.kept.remove(&adapter.on(port))),
                        }
                        Answer::Done
                    }
                    Ask::ReceivePort { .. } => Answer::Port {
                        sizes: crate::queue::PortSizes {
                            cells: 8,
                            format: crate::wire::CellFormat::NoHec,
                        },
                        files_generation: 1,
                    },
                    Ask::Unlink { port } => {
                        adapters.unlinked.push(adapter.on(port));
                        Answer::Done
                    }
                    _ => Answer::Done,
                };
                next = links.answered(ticket, Ok(answer), Vec::new()).0.unwrap();
            }
        }
    }

    /// The first cell may come as soon as there is a link.
    #[test]
    fn a_line_is_impaired_before_there_is_a_link_and_ends_with_it() {
        let port = AdapterIndex(0).on(PortIndex(0));
        let udp = r#"{"local": "10.0.0.1", "peer": "10.0.0.2", "label_out": 100, "label_in": 101}"#;
        for link in [
            Link::Udp(serde_json::from_str(udp).unwrap()),
            memory("a", "a").link,
        ] {
            let spec = InterfaceSpec {
                link,
                line: Some(Box::new("loss 1%".parse().unwrap())),
                ..memory("a", "a")
            };
            let steps = links().linking(port, spec).steps;
            let at = |wanted: fn(&Step) -> bool| steps.iter().position(wanted).unwrap();
            let line = at(|step| matches!(step, Step::Line(..)));
            let link = at(|step| matches!(step, Step::Join(..) | Step::Pseudowire(..)));
            assert!(line < link, "{steps:?}");
        }
        let impaired = InterfaceSpec {
            line: Some(Box::new("loss 1%".parse().unwrap())),
            ..memory("a", "b")
        };
        let mut links = links();
        links.enqueue(Ticket(1), port, Some(impaired));
        carry_out(&mut links, &mut Adapters::default(), 20);
        let last = links.unlinking(port).steps.pop_back();
        assert!(matches!(last, Some(Step::Line(_, line)) if line.is_clean()));
    }

    /// A UNI's cells have a HEC; whether another server's end is there, the port reports.
    #[test]
    fn a_link_to_another_server_is_up_where_its_port_has_met_somebody() {
        let port = AdapterIndex(0).on(PortIndex(0));
        let spec = InterfaceSpec {
            link: Link::Memory(MemoryLink::Socket("/a".to_owned())),
            form: HeaderForm::Uni,
            priority: Priority::RealTime,
            ..memory("a", "a")
        };
        let mut links = links();
        let steps = links.linking(port, spec.clone()).steps;
        let meets = |step: &Step| matches!(step, Step::Meet(_, path) if path == "/a");
        assert!(steps.iter().any(meets), "{steps:?}");
        let fits = |step: &Step| match step {
            Step::Configure(_, config) => {
                let with_hec = config.format == crate::wire::CellFormat::WithHec;
                config.form == HeaderForm::Uni && with_hec && config.real_time
            }
            _ => false,
        };
        assert!(steps.iter().any(fits), "{steps:?}");
        links.enqueue(Ticket(1), port, Some(spec));
        carry_out(&mut links, &mut Adapters::default(), 20);
        let health = |joined, trouble: Option<&str>| {
            let report = PortReport {
                meeting: Some(MeetingReport {
                    joined,
                    parted: Some(Time::from_ns(5)),
                    trouble: trouble.map(str::to_owned),
                }),
                ..PortReport::default()
            };
            let mut all = links.health(Time::from_ns(7), AdapterIndex(0), &[report]);
            let one = all.remove(0);
            (one.up, one.state.to_string())
        };
        assert_eq!(health(true, None), (true, "up".to_owned()));
        let silent = "no peer seen for 0 s".to_owned();
        assert_eq!(health(false, None), (false, silent));
        let told = "no link: it rains".to_owned();
        assert_eq!(health(false, Some("it rains")), (false, told));
    }

    /// The links that a successor finds, by name.
    fn found(adapters: &Adapters) -> Vec<(String, bool)> {
        let mut links = links();
        for adapter in [0, 1].map(AdapterIndex) {
            let kept = adapters
                .kept
                .iter()
                .filter(|(port, _)| port.adapter == adapter);
            links.take_up(adapter, kept.map(|(port, spec)| (port.id, spec.clone())));
        }
        let found = links
            .on
            .values()
            .map(|link| (link.spec.name.clone(), link.up));
        found.collect()
    }

    /// Two ports of one adapter, and one each of two.
    const PORTS: [[On<PortIndex>; 2]; 2] = [
        [
            AdapterIndex(0).on(PortIndex(0)),
            AdapterIndex(0).on(PortIndex(1)),
        ],
        [
            AdapterIndex(0).on(PortIndex(0)),
            AdapterIndex(1).on(PortIndex(0)),
        ],
    ];

    #[test]
    fn a_successor_finds_no_link_that_is_half_there_whenever_a_server_dies() {
        PORTS.into_iter().for_each(dies_whenever);
    }

    fn dies_whenever([a, b]: [On<PortIndex>; 2]) {
        let both = [("a".to_owned(), true), ("b".to_owned(), true)];
        let alone = |name: &str| vec![(name.to_owned(), false)];
        let build = |asks| {
            let (mut links, mut adapter) = (links(), Adapters::default());
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
            // No port is silent that a successor takes for one with a link that is up. A port is
            // unlinked before it gets a link, one of another adapter before it is joined, too.
            let joined = 1 + usize::from(a.adapter != b.adapter);
            let silent = adapter.unlinked.iter().filter(|port| **port == a).count();
            assert!(silent <= joined || left == alone("b"), "{asks}");
            seen.push(left);
        }
        seen.dedup();
        assert_eq!(seen, [both.to_vec(), alone("b")]);
    }

    /// A link between two adapters, one of which dies at any time while it comes: nobody waits for
    /// what cannot be, and it comes again with the next adapter.
    #[test]
    fn a_link_between_two_adapters_ends_with_one_and_comes_again_with_its_successor() {
        let [a, b] = PORTS[1];
        for (dead, lives) in [(a, b), (b, a)] {
            for asks in 0..12 {
                let (mut links, mut adapters) = (links(), Adapters::default());
                links.enqueue(Ticket(1), a, Some(memory("a", "b")));
                links.enqueue(Ticket(2), b, Some(memory("b", "a")));
                carry_out(&mut links, &mut adapters, asks);
                let was_up = links.on.get(&lives).is_some_and(|link| link.up);
                let Parted { alone, waits } = links.lose(dead.adapter);
                assert_eq!(alone, Vec::from_iter(was_up.then_some(lives)), "{asks}");
                assert!(waits.is_none_or(|(port, _)| port == lives), "{asks}");
                assert!(links.on.values().all(|link| !link.up), "{asks}");
                carry_out(&mut links, &mut adapters, 20);
                assert!(!links.are_busy(a.adapter) && !links.are_busy(b.adapter));
                // The server asks again for what is not there.
                for (ticket, port, name, peer) in [(3, a, "a", "b"), (4, b, "b", "a")] {
                    if !links.on.contains_key(&port) {
                        links.enqueue(Ticket(ticket), port, Some(memory(name, peer)));
                    }
                }
                carry_out(&mut links, &mut adapters, 20);
                let up = links.on.values().map(|link| (link.port, link.up));
                assert_eq!(up.collect::<Vec<_>>(), [(a, true), (b, true)], "{asks}");
            }
        }
    }
}
