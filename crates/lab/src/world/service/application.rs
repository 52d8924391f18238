//! A program with a control socket: what it has asked for, and what it uses.

use std::collections::VecDeque;

use cellgate_core::Time;
use cellgate_core::adapter::{Notification, VcId};
use cellgate_core::contract::{
    Aal, CellRate, Credit, Peak, Remainder, ServiceCategory, TrafficContract, UsageControl,
    UsageDecision,
};
use cellgate_core::server::{ClientId, Opened, Peer, Request};

use cellgate_core::wire::VpiVci;

use super::credit::{Ledger, is_of_rate};
use super::scenario::ApplicationSpec;
use crate::world::content::cells_of;
use crate::world::endpoint::HEADER;
use crate::world::scenario::ConnectionSpec;
use crate::world::{Interval, Ps};

/// A Request without a Confirm.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    pub(crate) id: u64,
    /// None: the answer to an Indication of this number.
    pub(crate) request: Option<Request>,
    pub(crate) capability: Option<VcId>,
    /// It is what a refusal has offered.
    pub(crate) takes_offer: bool,
}

/// The connection that an application uses.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) vc: VcId,
    /// Ticket of the command that brought its memory.
    pub(crate) memory: u64,
    pub(crate) contract: TrafficContract,
    pub(crate) max_sdu: u16,
    /// It is written and read.
    pub(crate) in_use: bool,
    /// None: no share yet.
    usage: Option<UsageControl>,
    /// What it has handed over by its present credit.
    ledger: Option<Ledger>,
}

impl Held {
    /// What is handed over of an SDU of a source: of AAL0 a header, too.
    fn handed_over(&self, len: u16) -> u16 {
        match self.contract.aal {
            Some(Aal::Aal0) => HEADER as u16 + len,
            _ => len,
        }
    }
}

/// An application in a run.
#[derive(Debug)]
pub(crate) struct Application {
    pub(crate) spec: ApplicationSpec,
    pub(crate) host: usize,
    /// Number of the port that its connection goes through.
    pub(crate) port: usize,
    /// Number of its connection.
    pub(crate) connection: u32,
    pub(crate) address: VpiVci,
    pub(crate) notification: Notification,
    /// It sends; else it receives.
    pub(crate) sends: bool,
    /// Cells per second of its line.
    pub(crate) line: CellRate,
    pub(crate) client: Option<ClientId>,
    next_id: u64,
    pub(crate) waiting: VecDeque<Waiting>,
    /// Calls that are made when the Request before has its Confirm.
    pub(crate) later: VecDeque<usize>,
    pub(crate) held: Option<Held>,
    /// Of which adapter it has memory, and how many octets.
    pub(crate) mapped: Option<(u32, u64)>,
    /// A change of contract that waits until everything has been sent.
    pub(crate) flushing: Option<Flush>,
    /// What best effort has heard of its share: of what it sends, of what it receives.
    pub(crate) share: [Option<CellRate>; 2],
    /// When all that it has handed over is to have been sent.
    shaped: Ps,
    /// What becomes of a credit that is less than a PDU.
    pub(crate) remainder: Remainder,
    /// It has not said hello.
    pub(crate) is_mute: bool,
    /// Processes that it has been.
    pub(crate) lives: u32,
    pub(crate) counts: Counts,
}

/// What is asked when everything has been sent.
#[derive(Clone, Debug)]
pub(crate) enum Flush {
    Modify(String),
    /// The same, to what a refusal has offered.
    Take(String),
    /// The Indication of this number is accepted.
    Accept(u64),
}

/// What an application has asked and heard.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) requests: u64,
    pub(crate) confirmed: u64,
    pub(crate) refused: u64,
    pub(crate) suspended: u64,
}

/// Whether an SDU may be handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    Open,
    /// There is credit again at this time.
    SuspendedUntil(Time),
    Shut,
}

impl Application {
    pub(crate) fn new(
        spec: ApplicationSpec,
        host: usize,
        (connection, at, sends): (u32, &ConnectionSpec, bool),
        (port, line): (usize, CellRate),
    ) -> Self {
        Self {
            spec,
            host,
            port,
            connection,
            address: at.address,
            notification: at.notification,
            sends,
            line,
            client: None,
            next_id: 0,
            waiting: VecDeque::new(),
            later: VecDeque::new(),
            held: None,
            mapped: None,
            remainder: Remainder::Carried,
            flushing: None,
            share: [None; 2],
            shaped: Ps::ZERO,
            is_mute: false,
            lives: 0,
            counts: Counts::default(),
        }
    }

    /// What the kernel says of it.
    pub(crate) fn peer(&self, number: usize) -> Peer {
        Peer {
            uid: self.spec.uid,
            pid: 1_000 + 100 * number as u32 + self.lives,
        }
    }

    /// The next Request's number.
    pub(crate) fn number(&mut self) -> u64 {
        self.next_id += 1;
        self.counts.requests += 1;
        // Indications are numbered by the server, from 1 on.
        self.next_id + (1 << 32)
    }

    /// The Request that a Confirm ends; none: it was confirmed already.
    pub(crate) fn ended(&mut self, id: u64) -> Option<Waiting> {
        let at = self.waiting.iter().position(|waiting| waiting.id == id)?;
        self.waiting.remove(at)
    }

    /// Whether a call is under way.
    pub(crate) fn is_busy(&self) -> bool {
        !self.waiting.is_empty() || self.flushing.is_some()
    }

    /// Whether it has asked for the end of its connection.
    pub(crate) fn is_closing(&self) -> bool {
        let closes = |waiting: &Waiting| matches!(waiting.request, Some(Request::Close));
        self.waiting.iter().any(closes)
    }

    /// Whether a change of its contract is under way.
    pub(crate) fn is_changing(&self) -> bool {
        let modifies =
            |waiting: &Waiting| matches!(waiting.request, None | Some(Request::Modify { .. }));
        self.flushing.is_some() || self.waiting.iter().any(modifies)
    }

    /// Uses the connection that was opened; what is wrong with it, if anything.
    pub(crate) fn holds(&mut self, now: Time, opened: &Opened, memory: u64) -> Result<(), String> {
        self.flushing = None;
        self.share = [None; 2];
        self.lets_go(now)?;
        self.renews(now, opened, Some(memory))
    }

    /// Uses no connection any more; what was wrong with its pace, if anything.
    pub(crate) fn lets_go(&mut self, now: Time) -> Result<(), String> {
        self.mapped = None;
        let ledger = self.held.take().and_then(|held| held.ledger);
        let excess = ledger.and_then(|ledger| ledger.excess(now));
        excess.map_or(Ok(()), Err)
    }

    /// The contract is another, and perhaps the memory.
    pub(crate) fn renews(
        &mut self,
        now: Time,
        opened: &Opened,
        memory: Option<u64>,
    ) -> Result<(), String> {
        let contract = opened.contract.parse::<TrafficContract>();
        let contract = contract.map_err(|error| format!("it has no contract: {error}"))?;
        let max_sdu = match self.sends {
            true => opened.transmit_max_sdu,
            false => opened.receive_max_sdu,
        };
        let max_sdu = max_sdu.ok_or("the direction that was asked for is not there")?;
        let (before, usage, ledger) = match self.held.take() {
            Some(held) => (Some(held.memory), held.usage, held.ledger),
            None => (None, None, None),
        };
        self.held = Some(Held {
            vc: opened.vc,
            memory: memory.or(before).ok_or("it has no memory")?,
            contract,
            max_sdu,
            in_use: true,
            usage,
            ledger,
        });
        self.paces(now, opened.transmit_credit)?;
        match (self.guaranteed(), opened.transmit_credit) {
            (Some(rate), Some(credit)) if self.sends => {
                let cells = cells_of(contract.aal.unwrap_or(Aal::Aal5), max_sdu);
                let (rate, sdu) = (rate.cell_s().into(), max_sdu.into());
                let is_right = is_of_rate(&credit, rate, cells.into(), sdu);
                let text = || format!("{credit:?} is no credit of {rate} cells/s");
                is_right.then_some(()).ok_or_else(text)
            }
            _ => Ok(()),
        }
    }

    /// Another pace; what was wrong with the one before, if anything.
    pub(crate) fn paces(&mut self, now: Time, credit: Option<Credit>) -> Result<(), String> {
        let (sends, rate) = (self.sends, self.guaranteed());
        let Some(held) = &mut self.held else {
            return Ok(());
        };
        let before = held.ledger.take();
        let left = before.as_ref().map_or((0, 0), |ledger| ledger.left(now));
        let excess = before.and_then(|ledger| ledger.excess(now));
        // The grid of one that is changed goes on from where it was.
        let length = rate.filter(|_| held.usage.is_none());
        match (credit.filter(|_| sends), &mut held.usage) {
            (Some(credit), Some(usage)) => usage.modify(credit),
            (credit, usage) => {
                let paced = |credit| UsageControl::new(now, credit, self.remainder);
                *usage = credit.map(paced);
            }
        }
        let aal = held.contract.aal.unwrap_or(Aal::Aal5);
        let cells = u64::from(cells_of(aal, held.max_sdu));
        let ledger = |credit: Credit| {
            let ledger = Ledger::new(now, credit, held.max_sdu, left);
            match length {
                Some(rate) => {
                    let pdus = credit.octets() / u64::from(held.max_sdu.max(1));
                    ledger.on_grid((pdus * cells * 1_000_000_000, rate.cell_s().into()))
                }
                None => ledger,
            }
        };
        held.ledger = credit.filter(|_| sends).map(ledger);
        excess.map_or(Ok(()), Err)
    }

    /// Cells per second that its direction keeps up; none: best effort, or nothing.
    pub(crate) fn guaranteed(&self) -> Option<CellRate> {
        let held = self.held.as_ref()?;
        self.most()
            .filter(|_| held.contract.category != ServiceCategory::Ubr)
    }

    /// The rate that bounds what it sends, or what it may receive: guaranteed, or the peak rate of
    /// best effort. None: a line's alone.
    pub(crate) fn most(&self) -> Option<CellRate> {
        let held = self.held.as_ref().filter(|held| held.in_use)?;
        let descriptor = match self.sends {
            true => held.contract.transmit,
            false => held.contract.receive,
        }?;
        if held.contract.category != ServiceCategory::Ubr {
            return Some(descriptor.sustained(self.line));
        }
        match descriptor.pcr.or(descriptor.max_pcr)? {
            Peak::Rate(rate) => Some(rate),
            Peak::Max => None,
        }
    }

    /// Whether an SDU that there is room for may be handed over; if so, its credit is taken.
    pub(crate) fn gate(&mut self, now: Time, len: u16) -> Gate {
        if self.is_changing() {
            return Gate::Shut;
        }
        let Some(held) = self.held.as_mut().filter(|held| held.in_use) else {
            return Gate::Shut;
        };
        let len = held.handed_over(len);
        let Some(usage) = held.usage.as_mut().filter(|_| len <= held.max_sdu) else {
            return Gate::Shut;
        };
        match usage.request(now, len.into()) {
            UsageDecision::Transfer => Gate::Open,
            UsageDecision::SuspendUntil(until) => {
                self.counts.suspended += 1;
                if let Some(ledger) = &mut held.ledger {
                    ledger.waits(now, until);
                }
                Gate::SuspendedUntil(until)
            }
        }
    }

    /// When a shaper that has nothing else to do is to have sent what is handed over now, behind
    /// what was before.
    pub(crate) fn leaves(&mut self, now: Ps, octets: u16) -> Ps {
        if let Some(rate) = self.guaranteed() {
            let aal = self.held.as_ref().and_then(|held| held.contract.aal);
            let cells = cells_of(aal.unwrap_or(Aal::Aal5), octets);
            self.shaped = self
                .shaped
                .max(now)
                .plus(Interval::of_rate(rate).times(cells.into()));
        }
        self.shaped
    }

    /// An SDU was handed over.
    pub(crate) fn sent(&mut self, now: Time, octets: u16) {
        let Some(held) = &mut self.held else {
            return;
        };
        let octets = held.handed_over(octets);
        if let Some(ledger) = &mut held.ledger {
            ledger.sent(now, octets);
        }
    }
}
