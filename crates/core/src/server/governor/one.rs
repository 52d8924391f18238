//! The server's side of one adapter: what is asked of its keeper, for what, and what is heard.

use std::collections::{BTreeMap, VecDeque};

use super::memory::Memory;
use super::take_up::{Left, TakeUp};
use crate::adapter::{AdapterState, AttachmentIndex, PortIndex, VcIndex};
use crate::keeper::{
    Answer, Ask, ControlError, Handle, Hello, PORTS_MAX, PortReport, Reply, Request, RestReport,
    TakenUp, VERSION,
};
use crate::server::{
    AdapterAnswer, AdapterRefusal, Health, Histograms, InterfaceSpec, Record, RestInfo, Ticket,
};

/// What is asked of the adapter, and for what.
#[derive(Debug)]
enum Purpose {
    Hello,
    /// For the server.
    Server(Ticket),
    /// The same; what it was about is gone when it is done.
    Detach(Ticket, AttachmentIndex),
    /// For a link that comes or goes.
    Link(Ticket),
    TakeUp,
    /// What is taken up is listed.
    Listed,
    /// What was kept with a port.
    Recorded(PortIndex),
    Report,
    Gaps,
    Ports,
    /// What was kept for a worker is let go.
    LetGo(u32),
    /// Nobody waits for it.
    Nobody,
}

/// What a governor has for others.
#[derive(Debug)]
pub(super) enum Said {
    /// To be sent to the keeper, with these descriptors, which are released then.
    Send(Request, Vec<Handle>),
    /// The descriptors are no more.
    Release(Handle),
    /// The adapter has begun, and has nothing yet.
    Ready(Box<Hello>),
    /// It has outlived another server, and this is what it has; with a port goes what was kept of
    /// its link.
    TakenUp(Box<Hello>, Vec<(PortIndex, InterfaceSpec)>, Vec<Left>),
    /// To the server's question.
    Answer(Ticket, Result<AdapterAnswer, AdapterRefusal>),
    /// To what a link that comes or goes needs.
    Link(Ticket, Result<Answer, ControlError>, Vec<Handle>),
    /// A page of its state.
    State(Box<AdapterState>),
    /// How it does, but for its links; what it reports of its ports.
    Health(Health, Vec<PortReport>),
    /// It holds nothing of the worker's device any more.
    LetGo(u32),
    /// It has gone; why it did not start, if that is why.
    Lost(Option<ControlError>),
}

/// The server's end of the control connection to one adapter.
#[derive(Debug)]
pub(super) struct Governor {
    is_there: bool,
    hello: Option<Box<Hello>>,
    memory: Memory,
    ports: Vec<PortReport>,
    /// The next reading of them, as far as it has come.
    ports_to_come: Vec<PortReport>,
    taking_up: Option<TakeUp>,
    last_id: u64,
    /// What was asked, by number, and is not answered.
    waiting: BTreeMap<u64, Purpose>,
    said: VecDeque<Said>,
    /// For how long looks have found the last question unanswered, in nanoseconds.
    unanswered_ns: u64,
}

impl Governor {
    pub(super) fn new() -> Self {
        Self {
            is_there: false,
            hello: None,
            memory: Memory::default(),
            ports: Vec::new(),
            ports_to_come: Vec::new(),
            taking_up: None,
            last_id: 0,
            waiting: BTreeMap::new(),
            said: VecDeque::new(),
            unanswered_ns: 0,
        }
    }

    /// Says hello to an adapter over a fresh connection: one that has just begun, or one that
    /// another server has left.
    pub(super) fn begin(&mut self, was_left: bool) {
        self.taking_up = was_left.then(TakeUp::default);
        self.is_there = true;
        self.last_id = 0;
        self.unanswered_ns = 0;
        self.send(Purpose::Hello, Ask::Hello { version: VERSION }, Vec::new());
    }

    /// What it said of itself.
    pub(super) fn hello(&self) -> Option<&Hello> {
        self.hello.as_deref()
    }

    pub(super) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Asks for the server.
    pub(super) fn ask(&mut self, ticket: Ticket, mut ask: Ask, record: Option<&Record>) {
        if let (Some(kept), Some(record)) = (ask.record(), record) {
            *kept = record.text();
        }
        let purpose = match &ask {
            Ask::Detach { attachment } => Purpose::Detach(ticket, *attachment),
            _ => Purpose::Server(ticket),
        };
        self.send(purpose, ask, Vec::new());
    }

    /// Asks for what a link needs.
    pub(super) fn link(&mut self, ticket: Ticket, ask: Ask, enclosed: Vec<Handle>) {
        self.send(Purpose::Link(ticket), ask, enclosed);
    }

    /// Has nothing leave or come by a port any more.
    pub(super) fn unlink(&mut self, port: PortIndex) {
        self.send(Purpose::Nobody, Ask::Unlink { port }, Vec::new());
    }

    /// Has the adapter keep descriptors, and what they are.
    pub(super) fn keep(
        &mut self,
        attachment: AttachmentIndex,
        descriptors: Vec<Handle>,
        record: Option<String>,
    ) {
        let ask = Ask::Keep { attachment, record };
        self.send(Purpose::Nobody, ask, descriptors);
    }

    /// Has the adapter keep nothing with an attachment, for a worker that is to end.
    pub(super) fn let_go(&mut self, attachment: AttachmentIndex, worker: u32) {
        if self.is_there {
            let record = None;
            let ask = Ask::Keep { attachment, record };
            self.send(Purpose::LetGo(worker), ask, Vec::new());
        } else {
            self.said.push_back(Said::LetGo(worker));
        }
    }

    /// Whether there is somebody to ask.
    pub(super) fn is_there(&self) -> bool {
        self.is_there
    }

    /// Asks how it does, `since_ns` after the last time, unless an earlier answer is still due: for
    /// how long it was, by looks in a row with nothing from the firmware's thread in between.
    /// `unsent`: requests of the last that the socket has not taken.
    pub(super) fn look(&mut self, since_ns: u64, unsent: u64) -> u64 {
        if self.taking_up.is_some() || !self.is_there {
            return 0;
        }
        let due = |(_, purpose): &(&u64, &Purpose)| {
            matches!(purpose, Purpose::Report | Purpose::Ports | Purpose::Gaps)
        };
        if let Some((first, _)) = self.waiting.iter().find(due) {
            // What was not sent cannot be answered.
            if *first + unsent <= self.last_id {
                self.unanswered_ns += since_ns;
            }
            return self.unanswered_ns;
        }
        self.unanswered_ns = 0;
        let from = VcIndex(0);
        let restart_maxima = true;
        self.send(Purpose::Report, Ask::Enumerate { from }, Vec::new());
        self.ports_to_come.clear();
        let from = PortIndex(0);
        self.send(Purpose::Ports, Ask::Ports { from }, Vec::new());
        self.send(Purpose::Gaps, Ask::Gaps { restart_maxima }, Vec::new());
        0
    }

    /// Asks it to end.
    pub(super) fn shut_down(&mut self) {
        self.send(Purpose::Nobody, Ask::Shutdown, Vec::new());
    }

    fn send(&mut self, purpose: Purpose, ask: Ask, enclosed: Vec<Handle>) {
        if self.is_there {
            self.last_id += 1;
            let id = self.last_id;
            self.waiting.insert(id, purpose);
            self.said
                .push_back(Said::Send(Request { id, ask }, enclosed));
            return;
        }
        if let Purpose::Server(ticket) | Purpose::Detach(ticket, _) = purpose {
            let away = Err(AdapterRefusal::Away);
            self.said.push_back(Said::Answer(ticket, away));
        }
        self.drop_all(enclosed);
    }

    /// What it has to tell next.
    pub(super) fn next(&mut self) -> Option<Said> {
        self.said.pop_front()
    }

    /// The connection has ended, or what came over it makes no sense.
    pub(super) fn lose(&mut self, why: Option<ControlError>) {
        if !self.is_there {
            return;
        }
        self.is_there = false;
        let said = core::mem::take(&mut self.said);
        for one in said {
            match one {
                Said::Send(_, enclosed) => self.drop_all(enclosed),
                other => self.said.push_back(other),
            }
        }
        for purpose in core::mem::take(&mut self.waiting).into_values() {
            // What it held, it holds no more.
            if let Purpose::LetGo(worker) = purpose {
                self.said.push_back(Said::LetGo(worker));
            }
        }
        self.hello = None;
        if let Some(taking_up) = self.taking_up.take() {
            let (left, _) = taking_up.finish();
            let kept = left.into_iter().flat_map(|left| left.kept);
            self.drop_all(kept);
        }
        let gone = self.memory.forget_all();
        self.drop_all(gone);
        self.unanswered_ns = 0;
        self.said.push_back(Said::Lost(why));
    }

    /// The keeper has replied; of what came along, what is not needed is released.
    pub(super) fn handle_reply(&mut self, reply: Reply, came: Vec<Handle>) {
        match (self.waiting.remove(&reply.id), reply.result) {
            (Some(purpose), result) => {
                let rest = self.hear(purpose, result, came);
                self.drop_all(rest);
            }
            // An adapter that does not start says why under the number 0.
            (None, Err(error)) => {
                self.drop_all(came);
                self.lose(Some(error));
            }
            (None, Ok(_)) => self.drop_all(came),
        }
    }

    fn drop_all(&mut self, handles: impl IntoIterator<Item = Handle>) {
        let handles = handles.into_iter().map(Said::Release);
        self.said.extend(handles);
    }

    /// What of `came` is nobody's in the end.
    fn hear(
        &mut self,
        purpose: Purpose,
        answer: Result<Answer, ControlError>,
        came: Vec<Handle>,
    ) -> Vec<Handle> {
        match (purpose, answer) {
            (Purpose::LetGo(worker), _) => self.said.push_back(Said::LetGo(worker)),
            (Purpose::Hello, Ok(Answer::Hello(hello))) => self.greeted(Box::new(hello)),
            (Purpose::Hello, Ok(_)) => self.lose(None),
            (Purpose::Hello, Err(error)) => self.lose(Some(error)),
            (Purpose::Link(ticket), answer) => {
                self.said.push_back(Said::Link(ticket, answer, came));
                return Vec::new();
            }
            (Purpose::Detach(ticket, attachment), answer) => {
                if answer.is_ok() {
                    let gone = self.memory.forget_attachment(attachment);
                    self.drop_all(gone);
                }
                let answer = answer.map(|_| AdapterAnswer::Keeper(Answer::Done));
                let answer = answer.map_err(AdapterRefusal::from);
                self.said.push_back(Said::Answer(ticket, answer));
            }
            (Purpose::Server(ticket), answer) => {
                let (answer, rest) = match answer {
                    Ok(answer) => {
                        let rest = self.note(&answer, came);
                        (Ok(AdapterAnswer::Keeper(answer)), rest)
                    }
                    Err(error) => (Err(error.into()), came),
                };
                self.said.push_back(Said::Answer(ticket, answer));
                return rest;
            }
            (Purpose::TakeUp, answer) => return self.taken_up(answer, came),
            (Purpose::Listed, answer) => self.listed(answer),
            (Purpose::Recorded(port), answer) => self.recorded(port, answer),
            (Purpose::Report, Ok(Answer::State(state))) => {
                self.unanswered_ns = 0;
                if let Some(from) = state.next {
                    self.send(Purpose::Report, Ask::Enumerate { from }, Vec::new());
                }
                self.said.push_back(Said::State(state));
            }
            (Purpose::Ports, Ok(Answer::Ports(ports))) => self.reported(ports),
            (Purpose::Gaps, Ok(Answer::Gaps(gaps))) => {
                let health = Health {
                    // The process is the host's affair.
                    pid: 0,
                    cpu_ns: 0,
                    gap_ns: gaps.max_ns,
                    gaps: gaps.count,
                    gaps_total_ns: gaps.total_ns,
                    unlocked: gaps.unlocked,
                    histograms: Some(Box::new(Histograms::from(&gaps))),
                    rests: self.rests(gaps.rests),
                    ports: Vec::new(),
                };
                self.said
                    .push_back(Said::Health(health, self.ports.clone()));
            }
            (Purpose::Report | Purpose::Ports | Purpose::Gaps | Purpose::Nobody, _) => {}
        }
        came
    }

    /// Notes the memory that came with an answer for the server; what of `came` is nobody's.
    fn note(&mut self, answer: &Answer, came: Vec<Handle>) -> Vec<Handle> {
        let (former, rest) = match (answer, &came[..]) {
            (Answer::Attached { attachment, .. }, [files]) => {
                (self.memory.note_attachment(*attachment, *files), Vec::new())
            }
            (Answer::Opened { vc, .. }, [files]) => (self.memory.note_vc(*vc, *files), Vec::new()),
            (Answer::Opened { vc, .. }, _) => {
                self.memory.rename_vc(*vc);
                (None, came)
            }
            (Answer::Closed(info), _) => (self.memory.forget_vc(info.vc.index), came),
            _ => (None, came),
        };
        self.drop_all(former);
        rest
    }

    fn reported(&mut self, ports: Vec<PortReport>) {
        let is_short = ports.len() < PORTS_MAX;
        self.ports_to_come.extend(ports);
        let all = self.ports_of_adapter().count();
        if is_short || self.ports_to_come.len() >= all {
            self.ports = core::mem::take(&mut self.ports_to_come);
        } else {
            let from = PortIndex(u8::try_from(self.ports_to_come.len()).unwrap_or(u8::MAX));
            self.send(Purpose::Ports, Ask::Ports { from }, Vec::new());
        }
    }

    /// How the adapter has rested; none: it never does.
    fn rests(&self, report: RestReport) -> Option<(RestInfo, Vec<(AttachmentIndex, u64)>)> {
        let scheduling = &self.hello.as_ref()?.scheduling;
        let info = RestInfo {
            idle: scheduling.idle,
            late_allowed_ns: scheduling.late_ns,
            late_longest_ns: report.late_max_ns,
            linger_ns: report.linger_ns,
            rests: report.rests,
            rests_total_ns: report.rested_ns,
            for_nothing: report.for_nothing,
            callers: Vec::new(),
        };
        let rests = scheduling.idle.rests();
        rests.then_some((info, report.clients_for_nothing))
    }

    fn greeted(&mut self, hello: Box<Hello>) {
        self.hello = Some(hello.clone());
        if let Some(pid) = hello.governor.filter(|_| self.taking_up.is_some()) {
            return self.lose(Some(ControlError::Governed { pid }));
        }
        if self.taking_up.is_none() {
            self.said.push_back(Said::Ready(hello));
            return;
        }
        for _ in 0..TakeUp::AT_ONCE {
            self.send(Purpose::TakeUp, Ask::TakeUp, Vec::new());
        }
    }

    fn taken_up(
        &mut self,
        answer: Result<Answer, ControlError>,
        mut came: Vec<Handle>,
    ) -> Vec<Handle> {
        let Some(taking_up) = &mut self.taking_up else {
            return came;
        };
        let more = match answer {
            Ok(Answer::TakenUp(TakenUp::Nothing)) => false,
            Ok(Answer::TakenUp(taken)) if !came.is_empty() => {
                let kept = came.split_off(1);
                let former = match &taken {
                    TakenUp::Attachment { attachment, .. } => {
                        self.memory.note_attachment(*attachment, came[0])
                    }
                    TakenUp::Vc { vc, .. } => self.memory.note_vc(*vc, came[0]),
                    TakenUp::Nothing => None,
                };
                taking_up.take(taken, kept);
                came.clear();
                self.drop_all(former);
                true
            }
            // What the former server asked is still under way.
            Err(ControlError::Refused(_)) => true,
            Err(error) => {
                self.lose(Some(error));
                return came;
            }
            Ok(_) => {
                self.lose(None);
                return came;
            }
        };
        if more {
            self.send(Purpose::TakeUp, Ask::TakeUp, Vec::new());
        } else if self.taking_up.as_mut().is_some_and(TakeUp::is_complete) {
            let from = VcIndex(0);
            self.send(Purpose::Listed, Ask::Enumerate { from }, Vec::new());
        }
        came
    }

    fn listed(&mut self, answer: Result<Answer, ControlError>) {
        let (Ok(Answer::State(state)), Some(taking_up)) = (answer, &mut self.taking_up) else {
            return self.lose(None);
        };
        taking_up.list(state.vcs);
        if let Some(from) = state.next {
            return self.send(Purpose::Listed, Ask::Enumerate { from }, Vec::new());
        }
        for port in self.ports_of_adapter() {
            let purpose = Purpose::Recorded(port);
            self.send(purpose, Ask::PortRecord { port }, Vec::new());
        }
        if self.ports_of_adapter().count() == 0 {
            self.finish_take_up();
        }
    }

    fn ports_of_adapter(&self) -> impl Iterator<Item = PortIndex> + use<> {
        let hello = self.hello.as_ref();
        let ports = hello.map_or(0, |hello| hello.config.ports.len());
        (0..ports).filter_map(|port| u8::try_from(port).ok().map(PortIndex))
    }

    fn recorded(&mut self, port: PortIndex, answer: Result<Answer, ControlError>) {
        let ports = self.ports_of_adapter().count();
        let (Ok(Answer::PortRecord(record)), Some(taking_up)) = (answer, &mut self.taking_up)
        else {
            return self.lose(None);
        };
        if taking_up.port(port, record) == ports {
            self.finish_take_up();
        }
    }

    fn finish_take_up(&mut self) {
        let (Some(mut taking_up), Some(hello)) = (self.taking_up.take(), self.hello.clone()) else {
            return;
        };
        let (links, bare) = taking_up.links();
        for port in bare {
            // A former server may have died over a link that was to come or go.
            self.send(Purpose::Nobody, Ask::Unlink { port }, Vec::new());
        }
        let (left, nobodys) = taking_up.finish();
        for vc in nobodys {
            let gone = self.memory.forget_vc(vc.index);
            self.drop_all(gone);
            self.send(Purpose::Nobody, Ask::Close { vc }, Vec::new());
        }
        self.said.push_back(Said::TakenUp(hello, links, left));
    }
}
