//! A program with a control socket: what it has asked for, and what it uses.

use std::collections::VecDeque;

use cellgate_core::Time;
use cellgate_core::adapter::{Notification, VcId};
use cellgate_core::application::{self, OpenConnection};
use cellgate_core::contract::{
    Aal, CellRate, Credit, Peak, Remainder, ServiceCategory, TrafficContract, UsageDecision,
};
use cellgate_core::queue::ReceivedPdu;
use cellgate_core::server::{ClientId, Opened, Peer, Request};
use cellgate_core::wire::VpiVci;

use super::credit::{Ledger, is_of_rate};
use super::daemon::Enclosure;
use super::scenario::ApplicationSpec;
use crate::world::content::cells_of;
use crate::world::endpoint::HEADER;
use crate::world::log::Terms;
use crate::world::scenario::ConnectionSpec;
use crate::world::{Interval, Ps};

/// How long a library's Request waits for its Confirm if nothing else is said.
const PATIENCE_NS: u64 = 30_000_000_000;

/// What comes along with a message to an application.
#[derive(Debug, Default)]
pub(crate) struct Came(pub(super) Option<Box<Enclosure>>);

impl application::Enclosure for Came {
    /// Ticket of the command that brought it.
    type Memory = u64;

    fn memory(&self) -> Option<u64> {
        self.0.as_ref().map(|enclosure| enclosure.files.memory)
    }
}

/// What an application has asked for last.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// None: it has not been said yet.
    pub(crate) id: Option<u64>,
    /// None: the answer to an Indication.
    pub(crate) request: Option<Request>,
    pub(crate) capability: Option<VcId>,
    /// It is what a refusal has offered.
    pub(crate) takes_offer: bool,
}

impl Asked {
    pub(crate) fn new(request: Option<Request>) -> Self {
        Self {
            id: None,
            request,
            capability: None,
            takes_offer: false,
        }
    }
}

/// The connection that an application uses.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) vc: VcId,
    /// It is written and read.
    pub(crate) in_use: bool,
    /// What it has handed over by its present credit.
    ledger: Option<Ledger>,
}

/// An application in a run.
#[derive(Debug)]
pub(crate) struct Application {
    pub(crate) spec: ApplicationSpec,
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
    /// What it is on its present socket, or was on its last.
    pub(crate) program: application::Application<Came>,
    pub(crate) asked: Option<Asked>,
    /// Calls that are made when the Request before has its Confirm.
    pub(crate) later: VecDeque<usize>,
    pub(crate) held: Option<Held>,
    /// Of which adapter it has memory, and how many octets.
    pub(crate) mapped: Option<(u32, u64)>,
    /// What best effort has heard of its share: of what it sends, of what it receives.
    pub(crate) share: [Option<CellRate>; 2],
    /// Its program has a pace, whose intervals go on whatever becomes of the contract.
    pub(super) is_paced: bool,
    /// When all that it has handed over is to have been sent.
    shaped: Ps,
    /// What becomes of a credit that is less than a PDU.
    pub(super) remainder: Remainder,
    /// It has not said hello.
    pub(crate) is_mute: bool,
    /// Its number in the scenario.
    pub(super) number: usize,
    /// What was written down of it last, if it reads.
    pub(super) told: Option<Terms>,
    /// Processes that it has been.
    pub(crate) lives: u32,
    pub(crate) counts: Counts,
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
        number: usize,
        spec: ApplicationSpec,
        (connection, at, sends): (u32, &ConnectionSpec, bool),
        (port, line): (usize, CellRate),
    ) -> Self {
        Self {
            spec,
            port,
            connection,
            address: at.address,
            notification: at.notification,
            sends,
            line,
            client: None,
            program: application::Application::new(PATIENCE_NS),
            asked: None,
            later: VecDeque::new(),
            held: None,
            mapped: None,
            remainder: Remainder::Carried,
            share: [None; 2],
            is_paced: false,
            shaped: Ps::ZERO,
            is_mute: false,
            number,
            told: None,
            lives: 0,
            counts: Counts::default(),
        }
    }

    /// What the kernel says of it.
    pub(crate) fn peer(&self) -> Peer {
        Peer {
            uid: self.spec.uid,
            pid: 1_000 + 100 * self.number as u32 + self.lives,
        }
    }

    /// Begins anew, on a socket of its own.
    pub(crate) fn is_run(&mut self) {
        self.lives += 1;
        self.forgets();
        let program = application::Application::new(PATIENCE_NS);
        self.program = program.leaving(self.remainder);
    }

    /// What was under way ends with its socket.
    pub(crate) fn forgets(&mut self) {
        self.client = None;
        self.asked = None;
    }

    /// The connection that it uses.
    pub(crate) fn open(&self) -> Option<&OpenConnection<u64>> {
        self.held.as_ref().and(self.program.connection())
    }

    /// What it was promised, if it has a connection.
    pub(super) fn terms(&self) -> Option<Terms> {
        Some(Terms {
            max_sdu: self.max_sdu()?,
            most: self.most(),
            guaranteed: self.guaranteed(),
            is_changing: self.program.is_changing(),
        })
    }

    /// Whether its library takes a PDU that has arrived.
    pub(crate) fn takes(&mut self, pdu: &ReceivedPdu) -> bool {
        let open = self.program.connection_mut();
        open.is_none_or(|open| open.takes(pdu.descriptor(), pdu.len()))
    }

    fn max_sdu(&self) -> Option<u16> {
        let opened = self.open()?.opened();
        match self.sends {
            true => opened.transmit_max_sdu,
            false => opened.receive_max_sdu,
        }
    }

    fn contract(&self) -> Option<&TrafficContract> {
        self.open().map(OpenConnection::contract)
    }

    /// What is handed over of an SDU of a source: of AAL0 a header, too.
    fn handed_over(&self, len: u16) -> u16 {
        match self.contract().and_then(|contract| contract.aal) {
            Some(Aal::Aal0) => HEADER as u16 + len,
            _ => len,
        }
    }

    /// Uses the connection that was opened; what is wrong with it, if anything.
    pub(crate) fn holds(&mut self, now: Time, opened: &Opened) -> Result<(), String> {
        self.share = [None; 2];
        self.renews(now, opened)
    }

    /// Uses no connection any more; what was wrong with its pace, if anything.
    pub(crate) fn lets_go(&mut self, now: Time) -> Result<(), String> {
        self.mapped = None;
        let ledger = self.held.take().and_then(|held| held.ledger);
        let excess = ledger.and_then(|ledger| ledger.excess(now));
        excess.map_or(Ok(()), Err)
    }

    /// The contract is another, and perhaps the memory.
    pub(crate) fn renews(&mut self, now: Time, opened: &Opened) -> Result<(), String> {
        let before = self.held.take();
        self.held = Some(Held {
            vc: opened.vc,
            in_use: true,
            ledger: before.and_then(|held| held.ledger),
        });
        let max_sdu = self.max_sdu();
        let max_sdu = max_sdu.ok_or("the direction that was asked for is not there")?;
        self.paces(now, opened.transmit_credit)?;
        let aal = self.contract().and_then(|contract| contract.aal);
        match (self.pace(), opened.transmit_credit) {
            (Some(rate), Some(credit)) if self.sends => {
                let cells = cells_of(aal.unwrap_or(Aal::Aal5), max_sdu);
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
        let rate = self.pace();
        let (max_sdu, aal) = (self.max_sdu().unwrap_or(0), self.contract());
        let aal = aal.and_then(|contract| contract.aal).unwrap_or(Aal::Aal5);
        let Some(held) = &mut self.held else {
            return Ok(());
        };
        let before = held.ledger.take();
        // The grid of one that is changed goes on from where it was.
        let length = rate.filter(|_| !self.is_paced);
        self.is_paced = credit.is_some();
        let left = before.as_ref().map_or((0, 0), |ledger| ledger.left(now));
        let cells = u64::from(cells_of(aal, max_sdu));
        let ledger = |credit: Credit| {
            let ledger = Ledger::new(now, credit, max_sdu, left).after(before.as_ref());
            match length {
                Some(rate) => {
                    let pdus = credit.octets() / u64::from(max_sdu.max(1));
                    ledger.on_grid((pdus * cells * 1_000_000_000, rate.cell_s().into()))
                }
                None => ledger,
            }
        };
        held.ledger = credit.filter(|_| self.sends).map(ledger);
        let excess = before.and_then(|ledger| ledger.excess(now));
        excess.map_or(Ok(()), Err)
    }

    /// Cells per second that its direction keeps up; none: best effort, or nothing.
    fn guaranteed(&self) -> Option<CellRate> {
        let category = self.contract()?.category;
        self.most().filter(|_| category != ServiceCategory::Ubr)
    }

    /// Cells per second of its credit: guaranteed, or of the bursts that it sends.
    fn pace(&self) -> Option<CellRate> {
        let guaranteed = self.guaranteed()?;
        let sent = self.contract()?.transmit.filter(|_| self.sends);
        let peak = sent.map_or(guaranteed, |descriptor| descriptor.peak().on(self.line));
        let bursts =
            sent.and_then(|descriptor| descriptor.mbs.filter(|_| descriptor.scr.is_some()));
        Some(match bursts {
            Some(mbs) if mbs.get() > 1 && peak > guaranteed => peak,
            _ => guaranteed,
        })
    }

    /// The rate that bounds what it sends, or what it may receive: guaranteed, or the peak rate of
    /// best effort. None: a line's alone.
    fn most(&self) -> Option<CellRate> {
        self.held.as_ref().filter(|held| held.in_use)?;
        let contract = self.contract()?;
        let descriptor = match self.sends {
            true => contract.transmit,
            false => contract.receive,
        }?;
        if contract.category != ServiceCategory::Ubr {
            return Some(descriptor.sustained(self.line));
        }
        match descriptor.pcr.or(descriptor.max_pcr)? {
            Peak::Rate(rate) => Some(rate),
            Peak::Max => None,
        }
    }

    /// Whether an SDU that there is room for may be handed over; if so, its credit is taken.
    pub(crate) fn gate(&mut self, now: Time, len: u16) -> Gate {
        let len = self.handed_over(len);
        let held = self.held.as_mut().filter(|held| held.in_use);
        let (Some(held), false) = (held, self.program.is_changing()) else {
            return Gate::Shut;
        };
        let Some(open) = self.program.connection_mut() else {
            return Gate::Shut;
        };
        let Ok(octets) = open.sendable(len.into()) else {
            return Gate::Shut;
        };
        match open.request(now, octets) {
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
            let aal = self.contract().and_then(|contract| contract.aal);
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
        let octets = self.handed_over(octets);
        if let Some(Held {
            ledger: Some(ledger),
            ..
        }) = &mut self.held
        {
            ledger.sent(now, octets);
        }
    }
}
