use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use cellgate_core::adapter::{AdapterState, AttachmentIndex, PortIndex, Refusal, VcIndex};
use cellgate_core::server::{
    AdapterAnswer, AdapterAsk, AdapterRefusal, Health, InterfaceSpec, Record, RestInfo, Ticket,
};

use super::files::Files;
use super::link::{AdapterLink, Answered, Gone};
use super::take_up::{Left, TakeUp};
use crate::adapter::AdapterProcess;
use crate::closer::Closer;
use crate::control::{
    Answer, Ask, ControlError, Hello, NewRegion, PORTS_MAX, PortReport, ReceiveInto, TakenUp,
    VERSION,
};
use crate::rests::RestReport;

/// What is asked of the adapter, and for what.
pub(super) enum Purpose {
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

/// A message of an adapter.
pub(super) enum Said {
    /// It has begun, and has nothing yet.
    Ready(Box<Hello>),
    /// It has outlived another server, and this is what it has; with a port goes what was kept of
    /// its link.
    TakenUp(Box<Hello>, Vec<(PortIndex, InterfaceSpec)>, Vec<Left>),
    /// To the server's question.
    Answer(Ticket, Result<AdapterAnswer, AdapterRefusal>),
    /// To what a link that comes or goes needs.
    Link(Ticket, Answered, Vec<Closer>),
    /// A page of its state.
    State(Box<AdapterState>),
    /// How it does, but for its links; what it reports of its ports.
    Health(Health, Vec<PortReport>),
    /// It holds nothing of the worker's device any more.
    LetGo(u32),
    /// It has gone; why it did not start, if that is why.
    Lost(Option<ControlError>),
}

/// An adapter as the server's process has it: the connection to it and the descriptors that came
/// over it.
pub(super) struct AdapterSide {
    link: Option<AdapterLink<Purpose>>,
    /// None: it is no child of this process.
    process: Option<AdapterProcess>,
    hello: Option<Box<Hello>>,
    files: Files,
    ports: Vec<PortReport>,
    /// The next reading of them, as far as it has come.
    ports_to_come: Vec<PortReport>,
    taking_up: Option<TakeUp>,
    said: VecDeque<Said>,
    /// For how long looks have found the last question unanswered, in nanoseconds.
    unanswered_ns: u64,
}

impl AdapterSide {
    pub(super) fn new(files: Files) -> Self {
        Self {
            link: None,
            process: None,
            hello: None,
            files,
            ports: Vec::new(),
            ports_to_come: Vec::new(),
            taking_up: None,
            said: VecDeque::new(),
            unanswered_ns: 0,
        }
    }

    /// Says hello to an adapter: one that was started just now, or one that another server left.
    pub(super) fn begin(&mut self, socket: OwnedFd, process: Option<AdapterProcess>) {
        self.taking_up = process.is_none().then(TakeUp::default);
        self.process = process;
        self.link = Some(AdapterLink::new(socket));
        self.unanswered_ns = 0;
        self.send(Purpose::Hello, Ask::Hello { version: VERSION }, Vec::new());
    }

    /// Something to poll, while there is an adapter; whether for writing too.
    pub(super) fn poll(&self) -> Option<(BorrowedFd<'_>, bool)> {
        let link = self.link.as_ref()?;
        Some((link.as_fd(), link.wants_to_send()))
    }

    /// Whether what it is to be sent waits for the kernel to take more descriptors.
    pub(super) fn is_held(&self) -> bool {
        self.link.as_ref().is_some_and(AdapterLink::is_held)
    }

    /// What it said of itself.
    pub(super) fn hello(&self) -> Option<&Hello> {
        self.hello.as_deref()
    }

    /// Asks for the server.
    pub(super) fn ask(&mut self, ticket: Ticket, ask: AdapterAsk) {
        let purpose = match &ask {
            AdapterAsk::Detach { attachment } => Purpose::Detach(ticket, *attachment),
            _ => Purpose::Server(ticket),
        };
        self.send(purpose, control_ask(ask), Vec::new());
    }

    /// Asks for what a link needs.
    pub(super) fn link(&mut self, ticket: Ticket, ask: Ask, fds: Vec<Arc<Closer>>) {
        self.send(Purpose::Link(ticket), ask, fds);
    }

    /// Has nothing leave or come by a port any more.
    pub(super) fn unlink(&mut self, port: PortIndex) {
        self.send(Purpose::Nobody, Ask::Unlink { port }, Vec::new());
    }

    /// Has the adapter keep descriptors, and what they are.
    pub(super) fn keep(
        &mut self,
        attachment: AttachmentIndex,
        fds: Vec<Arc<Closer>>,
        record: Option<String>,
    ) {
        let ask = Ask::Keep { attachment, record };
        self.send(Purpose::Nobody, ask, fds);
    }

    /// Has the adapter keep nothing with an attachment, for a worker that is to end.
    pub(super) fn let_go(&mut self, attachment: AttachmentIndex, worker: u32) {
        if self.is_there() {
            let record = None;
            let ask = Ask::Keep { attachment, record };
            self.send(Purpose::LetGo(worker), ask, Vec::new());
        } else {
            self.said.push_back(Said::LetGo(worker));
        }
    }

    /// Whether there is somebody to ask.
    pub(super) fn is_there(&self) -> bool {
        self.link.is_some()
    }

    /// Takes it for dead.
    pub(super) fn give_up(&mut self) {
        self.lose(None);
    }

    /// Asks how it does, `since_ns` after the last time, unless an earlier answer is still due: for
    /// how long it was, by looks in a row with nothing from the firmware's thread in between.
    pub(super) fn look(&mut self, since_ns: u64) -> u64 {
        let due =
            |purpose: &Purpose| matches!(purpose, Purpose::Report | Purpose::Ports | Purpose::Gaps);
        let link = self.link.as_ref();
        if self.taking_up.is_some() || link.is_none() {
            return 0;
        }
        if link.is_some_and(|link| link.awaits(due)) {
            // What was not sent cannot be answered.
            if link.is_some_and(|link| link.has_sent(due)) {
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

    /// Lets it live on when this process ends.
    pub(super) fn leave(&mut self) {
        if let Some(process) = self.process.take() {
            process.leave();
        }
    }

    /// The files of its memory.
    pub(super) const fn files(&self) -> &Files {
        &self.files
    }

    fn send(&mut self, purpose: Purpose, ask: Ask, fds: Vec<Arc<Closer>>) {
        match (&mut self.link, purpose) {
            (Some(link), purpose) => {
                if let Err(purpose) = link.ask(purpose, ask, fds) {
                    self.hear(purpose, Err(ControlError::TooLong), Vec::new());
                }
            }
            (None, Purpose::Server(ticket) | Purpose::Detach(ticket, _)) => {
                let away = Err(AdapterRefusal::Away);
                self.said.push_back(Said::Answer(ticket, away));
            }
            (None, _) => {}
        }
    }

    /// Sends what the socket takes.
    pub(super) fn flush(&mut self) {
        let flushed = self.link.as_mut().map(AdapterLink::flush);
        if let Some(Err(Gone(why))) = flushed {
            self.lose(why);
        }
    }

    /// What it has to tell next.
    pub(super) fn next(&mut self) -> Option<Said> {
        loop {
            if let Some(said) = self.said.pop_front() {
                return Some(said);
            }
            match self.link.as_mut()?.next_answer() {
                Ok(Some((purpose, answer, fds))) => self.hear(purpose, answer, fds),
                Ok(None) => return None,
                Err(Gone(why)) => self.lose(why),
            }
        }
    }

    fn lose(&mut self, why: Option<ControlError>) {
        let asked = self.link.take().map(AdapterLink::into_waiting);
        for purpose in asked.into_iter().flatten() {
            // What it held, it holds no more.
            if let Purpose::LetGo(worker) = purpose {
                self.said.push_back(Said::LetGo(worker));
            }
        }
        // Whoever is a child is gone or to go.
        self.process = None;
        self.hello = None;
        self.taking_up = None;
        self.files.forget_all();
        self.unanswered_ns = 0;
        self.said.push_back(Said::Lost(why));
    }

    fn hear(&mut self, purpose: Purpose, answer: Answered, fds: Vec<Closer>) {
        match (purpose, answer) {
            (Purpose::LetGo(worker), _) => self.said.push_back(Said::LetGo(worker)),
            (Purpose::Hello, Ok(Answer::Hello(hello))) => self.greeted(Box::new(hello)),
            (Purpose::Hello, Ok(_)) => self.lose(None),
            (Purpose::Hello, Err(error)) => self.lose(Some(error)),
            (Purpose::Link(ticket), answer) => {
                self.said.push_back(Said::Link(ticket, answer, fds));
            }
            (Purpose::Detach(ticket, attachment), answer) => {
                if answer.is_ok() {
                    self.files.forget_attachment(attachment);
                }
                let result = answer.map(|_| AdapterAnswer::Done).map_err(refusal);
                self.said.push_back(Said::Answer(ticket, result));
            }
            (Purpose::Server(ticket), answer) => {
                let result = match answer {
                    Ok(answer) => self.server_answer(answer, fds),
                    Err(error) => Err(refusal(error)),
                };
                self.said.push_back(Said::Answer(ticket, result));
            }
            (Purpose::TakeUp, answer) => self.taken_up(answer, fds),
            (Purpose::Listed, answer) => self.listed(answer),
            (Purpose::Recorded(port), answer) => self.recorded(port, answer),
            (Purpose::Report, Ok(Answer::State(state))) => {
                self.unanswered_ns = 0;
                if let Some(from) = state.next {
                    self.send(Purpose::Report, Ask::Enumerate { from }, Vec::new());
                }
                self.said.push_back(Said::State(state));
            }
            (Purpose::Ports, Ok(Answer::Ports(ports))) => {
                let is_short = ports.len() < PORTS_MAX;
                self.ports_to_come.extend(ports);
                let all = self.ports_of_adapter().count();
                let is_last = is_short || self.ports_to_come.len() >= all;
                if is_last {
                    self.ports = core::mem::take(&mut self.ports_to_come);
                } else {
                    let from = PortIndex(u8::try_from(self.ports_to_come.len()).unwrap_or(u8::MAX));
                    self.send(Purpose::Ports, Ask::Ports { from }, Vec::new());
                }
            }
            (Purpose::Gaps, Ok(Answer::Gaps(gaps))) => {
                let health = Health {
                    gap_ns: gaps.max_ns,
                    gaps: gaps.count,
                    gaps_total_ns: gaps.total_ns,
                    rests: self.rests(gaps.rests),
                    ports: Vec::new(),
                };
                self.said
                    .push_back(Said::Health(health, self.ports.clone()));
            }
            (Purpose::Report | Purpose::Ports | Purpose::Gaps | Purpose::Nobody, _) => {}
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
        self.files.are_of(hello.pid);
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

    fn taken_up(&mut self, answer: Answered, mut fds: Vec<Closer>) {
        let Some(taking_up) = &mut self.taking_up else {
            return;
        };
        let more = match answer {
            Ok(Answer::TakenUp(TakenUp::Nothing)) => false,
            Ok(Answer::TakenUp(taken)) => {
                let kept = fds.split_off(fds.len().min(5)).into_iter();
                match (&taken, &memory(fds)[..]) {
                    (TakenUp::Attachment { attachment, .. }, [a, b, watch, page, bell]) => {
                        let fds = [a, b, watch, page, bell];
                        self.files.note_attachment(*attachment, fds);
                        taking_up.attachment(taken, kept.map(Arc::new).collect());
                    }
                    (TakenUp::Vc { vc, .. }, [a, b]) => {
                        self.files.note_vc(*vc, [a, b]);
                        taking_up.vc(taken);
                    }
                    _ => return self.lose(None),
                }
                true
            }
            // What the former server asked is still under way.
            Err(ControlError::Refused(_)) => true,
            Err(error) => return self.lose(Some(error)),
            Ok(_) => return self.lose(None),
        };
        if more {
            self.send(Purpose::TakeUp, Ask::TakeUp, Vec::new());
        } else if taking_up.is_complete() {
            let from = VcIndex(0);
            self.send(Purpose::Listed, Ask::Enumerate { from }, Vec::new());
        }
    }

    fn listed(&mut self, answer: Answered) {
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
        let ports = self
            .hello
            .as_ref()
            .map_or(0, |hello| hello.config.ports.len());
        (0..ports).filter_map(|port| u8::try_from(port).ok().map(PortIndex))
    }

    fn recorded(&mut self, port: PortIndex, answer: Answered) {
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
        self.files.are_shared();
        let (links, bare) = taking_up.links();
        for port in bare {
            // A former server may have died over a link that was to come or go.
            self.send(Purpose::Nobody, Ask::Unlink { port }, Vec::new());
        }
        let (left, nobodys) = taking_up.finish();
        for vc in nobodys {
            self.files.forget_vc(vc.index);
            self.send(Purpose::Nobody, Ask::Close { vc }, Vec::new());
        }
        self.said.push_back(Said::TakenUp(hello, links, left));
    }

    /// Notes the descriptors that came, and turns the answer into the server's.
    fn server_answer(
        &mut self,
        answer: Answer,
        fds: Vec<Closer>,
    ) -> Result<AdapterAnswer, AdapterRefusal> {
        Ok(match (answer, &memory(fds)[..]) {
            (
                Answer::Attached {
                    attachment,
                    sizes,
                    files_generation,
                },
                [a, b, watch, page, bell],
            ) => {
                let fds = [a, b, watch, page, bell];
                self.files.note_attachment(attachment, fds);
                AdapterAnswer::Attached {
                    attachment,
                    sizes,
                    files_generation,
                }
            }
            (
                Answer::Opened {
                    vc,
                    sizes,
                    files_generation,
                    ..
                },
                files,
            ) => {
                if let [a, b] = files {
                    self.files.note_vc(vc, [a, b]);
                } else {
                    self.files.rename_vc(vc);
                }
                AdapterAnswer::Opened {
                    vc,
                    sizes,
                    files_generation,
                }
            }
            (Answer::Closed(info), _) => {
                self.files.forget_vc(info.vc.index);
                AdapterAnswer::Closed(*info)
            }
            (Answer::Returned { round_trip_ns }, _) => AdapterAnswer::Returned { round_trip_ns },
            (Answer::Done, _) => AdapterAnswer::Done,
            (other, _) => return Err(AdapterRefusal::Other(format!("{other:?}"))),
        })
    }
}

/// What the adapter itself has made: it closes at once.
fn memory(fds: Vec<Closer>) -> Vec<Arc<OwnedFd>> {
    let fds = fds.into_iter().map(Closer::into_inner);
    fds.map(Arc::new).collect()
}

fn refusal(error: ControlError) -> AdapterRefusal {
    match error {
        ControlError::Refused(Refusal::NoReturn) => AdapterRefusal::NoReturn,
        ControlError::Refused(refusal) => AdapterRefusal::Refused(refusal),
        ControlError::MemoryExhausted { needed, free } => AdapterRefusal::Memory {
            needed,
            free,
            limit: None,
        },
        // Whoever hears it says who refused.
        ControlError::Kernel(reason) => AdapterRefusal::Other(reason),
        other => AdapterRefusal::Other(other.to_string()),
    }
}

fn control_ask(ask: AdapterAsk) -> Ask {
    match ask {
        AdapterAsk::Attach { sizes, user } => Ask::Attach {
            sizes,
            user,
            keep: true,
        },
        AdapterAsk::Detach { attachment } => Ask::Detach { attachment },
        AdapterAsk::Open {
            request,
            sizes,
            record,
        } => Ask::Open {
            request,
            sizes,
            receive_into: ReceiveInto::Own,
            record: json(&record),
        },
        AdapterAsk::Modify {
            vc,
            request,
            sizes,
            record,
        } => Ask::Modify {
            vc,
            request,
            region: sizes.map(|sizes| NewRegion {
                sizes,
                receive_into: ReceiveInto::Own,
            }),
            record: json(&record),
        },
        AdapterAsk::Reattach {
            vc,
            attachment,
            record,
        } => Ask::Reattach {
            vc,
            attachment,
            record: json(&record),
        },
        AdapterAsk::Close { vc } => Ask::Close { vc },
        AdapterAsk::Lease {
            vc,
            pdus,
            expires_in_ns,
        } => Ask::Lease {
            vc,
            pdus,
            expires_in_ns,
        },
        AdapterAsk::Ping {
            port,
            address,
            flow,
            timeout_ns,
        } => Ask::Loopback {
            port,
            address,
            flow,
            timeout_ns,
        },
        // The links have asked for these.
        AdapterAsk::Link { port, .. } | AdapterAsk::Unlink { port, .. } => Ask::Unlink { port },
    }
}

/// Numbers, names and texts: all of it has a form in JSON.
fn json(record: &Record) -> Option<String> {
    serde_json::to_string(record).ok()
}
