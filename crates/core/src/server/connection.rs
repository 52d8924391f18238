//! One connection: what it is, what is under way, and what comes next.

use super::losses::Losses;
use super::plan::{Plan, Share};
use super::rates::Rates;
use super::{
    Address, ClientId, Confirm, ConnectionInfo, ConnectionSlots, CounterRecord, Direction, Done,
    EndReason, Grant, On, Open, Opened, Precedence, Record, Refused, Request, RiskInfo, SlotClocks,
};
use crate::Time;
use crate::adapter::{AttachmentIndex, PortIndex, VcId, VcStats};
use crate::contract::{CellRate, TrafficContract};
use crate::queue::{AttachmentSizes, ConnectionSizes};

/// Who waits for a Confirm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asker {
    pub(super) client: ClientId,
    /// The Request's number.
    pub(super) id: u64,
    /// The client's own number for the connection that the Request is about.
    pub(super) connection: u32,
    /// The client's next request waits for this one.
    pub(super) in_turn: bool,
}

impl Asker {
    pub(super) const fn new(client: ClientId, id: u64, connection: u32) -> Self {
        Self {
            client,
            id,
            connection,
            in_turn: false,
        }
    }
}

/// A client at the adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Attached {
    pub(super) index: AttachmentIndex,
    pub(super) sizes: AttachmentSizes,
    pub(super) files_generation: u32,
}

/// A VC at the adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OpenVc {
    pub(super) vc: VcId,
    pub(super) sizes: ConnectionSizes,
    pub(super) files_generation: u32,
}

/// The application that uses a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct User {
    pub(super) client: ClientId,
    pub(super) pid: u32,
    /// Its own number for the connection.
    pub(super) connection: u32,
}

impl User {
    /// Whoever gave a connection back that has not been returned yet.
    pub(super) const GONE: Self = Self {
        client: ClientId(0),
        pid: 0,
        connection: 0,
    };
}

/// A change of contract that waits for the adapter.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) asker: Asker,
    pub(super) plan: Plan,
    /// What it takes beyond what the connection has.
    pub(super) more: Grant,
    /// It brings new memory.
    pub(super) memory: bool,
    /// It was asked for by who does not use the connection ([`Request::Set`]).
    pub(super) set: bool,
    /// The slots of the connection from then on.
    pub(super) slots: SlotClocks,
}

/// What the adapter was asked for a connection and has not answered.
///
/// ```text
///           Attaching --> Opening --.          .------> Modifying -------.
///  (new,     (not for a permanent   |          |                         |
///  reopened)  one nobody uses)      v          |                         v
///  ------------------------------> Resting ----+--> Joining --> Moving --> Resting
///                                   |   |      (Take, Reattach)
///                                   |   | given back
///                             ended |   +--> Renewing --> Returning --> Detaching --> Resting
///                                   v
///                                 Closing --> Detaching --> gone
/// ```
#[derive(Debug)]
pub(super) enum Stage {
    /// Nothing: it is open, or waits for the adapter, or is about to do its [`Step`].
    Resting,
    /// An attachment for the application that opens it.
    Attaching,
    Opening,
    /// A change of contract.
    Modifying(Box<Change>),
    /// An attachment for another application.
    Joining(Asker),
    /// The VC to be handed to that application.
    Moving(Asker, Attached),
    /// New memory, which whoever gave the connection back does not have.
    Renewing,
    /// The VC to be handed to the server's own attachment.
    Returning,
    /// The end of its VC.
    Closing,
    /// The end of its application's attachment.
    Detaching,
}

/// What is to be done with a connection at rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Close its VC.
    Close(VcId),
    /// Give its VC new memory.
    Renew(VcId),
    /// Hand its VC to the server's own attachment.
    Return(VcId),
    /// Detach the application it had.
    Detach(AttachmentIndex),
    Remove,
    /// Make an attachment for its application.
    Attach,
    /// Open its VC there.
    Open(AttachmentIndex),
    /// Open its VC at the server's own attachment.
    OpenAtHome,
    /// Tell its application what share it has.
    Share,
    /// It is open.
    Rest,
}

/// How far a permanent connection that nobody uses has been given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GivingBack {
    /// It has the memory that its application had.
    Begun,
    /// It has new memory.
    Renewed,
    /// The adapter refuses one of these: it is closed and opened again.
    Refused,
}

/// An answer that is sent when a connection has gone, or been given back.
#[derive(Debug)]
pub(super) struct Owed {
    pub(super) asker: Asker,
    pub(super) result: Result<OwedConfirm, Refused>,
}

/// What was asked.
#[derive(Clone, Copy, Debug)]
pub(super) enum OwedConfirm {
    /// Its end, by its application: the last counters.
    Closed,
    /// Its end, by another.
    Done,
}

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) number: u32,
    /// With its interface's name.
    pub(super) address: Address,
    pub(super) port: On<PortIndex>,
    /// As it was asked for; the contract in canonical form.
    pub(super) open: Open,
    pub(super) plan: Plan,
    /// The connection in whose transmit buffer its PDUs are put together.
    pub(super) into: Option<u32>,
    pub(super) grant: Option<Grant>,
    pub(super) permanent: bool,
    /// The user it belongs to.
    pub(super) uid: u32,
    pub(super) worker: bool,
    pub(super) user: Option<User>,
    pub(super) stage: Stage,
    pub(super) vc: Option<OpenVc>,
    /// The application's; the VC of a connection that nobody uses is at the server's own.
    pub(super) attachment: Option<Attached>,
    pub(super) giving_back: GivingBack,
    /// Who has given it back, by its own number for it.
    pub(super) gone: User,
    /// What the interface has for it.
    pub(super) share: Share,
    /// What its application knows of that; none: what a server before has told it.
    pub(super) told: Option<Share>,
    /// It is to be closed, whoever uses it.
    pub(super) ending: Option<EndReason>,
    /// Why it could not be opened again, if it is permanent.
    pub(super) lost: Option<Refused>,
    /// Who opens it.
    pub(super) opener: Option<Asker>,
    /// Who waits for its end.
    pub(super) owed: Vec<Owed>,
    /// Requests that wait for it to rest.
    pub(super) waiting: Vec<(Asker, Request, Option<On<VcId>>)>,
    /// The Request that made it what it is.
    pub(super) done: Option<Done>,
    /// That Request may come again: its application may not have heard the Confirm.
    pub(super) repeatable: bool,
    /// Monitors know of it.
    pub(super) announced: bool,
    /// The contract that was refused to its application.
    pub(super) wanted: Option<TrafficContract>,
    /// The contract that an Indication of this number offered.
    pub(super) offered: Option<(u64, TrafficContract)>,
    /// Of its guarantee.
    pub(super) risk: Option<RiskInfo>,
    /// The most that the others of its interface could send before it.
    pub(super) others: Precedence,
    /// The slots of its contract since its VC was opened.
    pub(super) clocks: SlotClocks,
    pub(super) stats: VcStats,
    /// Those slots when `stats` were told.
    pub(super) slots: ConnectionSlots,
    /// Its application has lent to it: no one else does until then.
    pub(super) lent_by_hand_until: Time,
    /// What its application knows of its losses.
    pub(super) losses: Losses,
    /// What it knows of the rate that the network allows.
    pub(super) rates: Rates,
}

impl Connection {
    /// One that nobody has, to be opened.
    pub(super) fn new(
        number: u32,
        address: Address,
        port: On<PortIndex>,
        open: Open,
        plan: Plan,
    ) -> Self {
        Self {
            number,
            address,
            port,
            open,
            plan,
            into: None,
            grant: None,
            permanent: false,
            uid: 0,
            worker: false,
            user: None,
            stage: Stage::Resting,
            vc: None,
            attachment: None,
            giving_back: GivingBack::Begun,
            gone: User::GONE,
            share: Share::default(),
            told: None,
            ending: None,
            lost: None,
            opener: None,
            owed: Vec::new(),
            waiting: Vec::new(),
            done: None,
            repeatable: false,
            announced: false,
            wanted: None,
            offered: None,
            risk: None,
            others: Precedence::default(),
            clocks: SlotClocks::default(),
            stats: VcStats::default(),
            slots: ConnectionSlots::default(),
            lent_by_hand_until: Time::ZERO,
            losses: Losses::default(),
            rates: Rates::default(),
        }
    }

    /// Why it is gone, if it is permanent and nobody wanted that.
    pub(super) fn loss(&mut self) -> Option<Refused> {
        let is_delete = |request: &Request| matches!(request, Request::Delete { .. });
        let mut waiting = self.waiting.iter();
        let deleted = waiting.any(|(_, request, _)| is_delete(request));
        let lost = self.lost.take();
        lost.filter(|_| self.ending == Some(EndReason::NotReopened) && !deleted)
    }

    /// Whether it is to be there.
    pub(super) fn is_wanted(&self) -> bool {
        self.ending.is_none() && (self.permanent || self.user.is_some())
    }

    /// What is next, if nothing is under way.
    pub(super) fn step(&self) -> Step {
        let is_wanted = self.is_wanted();
        let given_back = self.user.is_none() && self.attachment.is_some();
        match (self.vc, self.attachment) {
            (Some(open), _) if !is_wanted => Step::Close(open.vc),
            (Some(open), _) if given_back => match self.giving_back {
                GivingBack::Begun => Step::Renew(open.vc),
                GivingBack::Renewed => Step::Return(open.vc),
                GivingBack::Refused => Step::Close(open.vc),
            },
            (None, Some(attached)) if !is_wanted || given_back => Step::Detach(attached.index),
            _ if !is_wanted => Step::Remove,
            (None, None) if self.user.is_some() => Step::Attach,
            (None, None) => Step::OpenAtHome,
            (None, Some(attached)) => Step::Open(attached.index),
            (Some(_), _) if self.has_other_share() => Step::Share,
            _ => Step::Rest,
        }
    }

    fn has_other_share(&self) -> bool {
        !self.plan.is_guaranteed() && self.told != Some(self.share)
    }

    /// Whether it is the connection that a Request names.
    pub(super) fn is_used_by(&self, asker: Asker) -> bool {
        let is_of = |user: User| (user.client, user.connection) == (asker.client, asker.connection);
        self.user.is_some_and(is_of)
    }

    /// Whether this very Request has opened it, and its application did not hear the Confirm.
    pub(super) fn is_opened_by(&self, asker: Asker) -> bool {
        self.is_used_by(asker)
            && self
                .done
                .is_some_and(|done| done.id == asker.id && done.modified.is_none())
    }

    pub(super) fn is_resting(&self) -> bool {
        matches!(self.stage, Stage::Resting)
    }

    /// What the adapter keeps with the VC, `plan` and `user` being as they will be.
    pub(super) fn record(
        &self,
        plan: &Plan,
        slots: SlotClocks,
        user: Option<User>,
        done: Option<Done>,
    ) -> Box<Record> {
        Box::new(Record {
            number: self.number,
            address: self.address.clone(),
            open: Open {
                contract: plan.contract.to_string(),
                ..self.open.clone()
            },
            permanent: self.permanent,
            uid: self.uid,
            worker: self.worker,
            pid: user.map(|user| user.pid),
            connection: user.map_or(0, |user| user.connection),
            demand: plan.demand,
            slots,
            done,
            reopened: false,
        })
    }

    /// The adapter says what happened on it.
    pub(super) fn hear_stats(&mut self, now: Time, stats: VcStats) {
        self.stats = stats;
        self.slots = self.clocks.slots(now, &stats);
    }

    /// As its application needs it; none: it is not open there.
    pub(super) fn opened(&self) -> Option<Opened> {
        let (open, attached) = (self.vc?, self.attachment?);
        let told = self.told.unwrap_or_default();
        Some(Opened {
            address: self.address.clone(),
            contract: self.open.contract.clone(),
            vc: open.vc,
            sizes: open.sizes,
            files_generation: open.files_generation,
            attachment: attached.index,
            attachment_sizes: attached.sizes,
            attachment_generation: attached.files_generation,
            notification: self.open.notification,
            marks: self.open.marks,
            completions: self.open.completions,
            transmit_max_sdu: self.plan.max_sdu(Direction::Transmit),
            receive_max_sdu: self.plan.max_sdu(Direction::Receive),
            transmit_credit: self.plan.credit(Direction::Transmit, told.transmit),
            receive_credit: self.plan.credit(Direction::Receive, told.receive),
            receive_early_ns: self.plan.receive_early_ns(),
        })
    }

    /// Cells/s of a direction: guaranteed, or its share.
    fn rate(&self, direction: Direction) -> Option<CellRate> {
        let share = match direction {
            Direction::Transmit => self.share.transmit,
            Direction::Receive => self.share.receive,
        };
        self.plan.guaranteed(direction).or(share)
    }

    /// As the list shows it.
    pub(super) fn info(&self) -> ConnectionInfo {
        let demand = self.grant.as_ref().map(Grant::demand);
        let demand = demand.unwrap_or(&self.plan.demand);
        let ppm = |ppm: u64| u32::try_from(ppm).unwrap_or(u32::MAX);
        let bound = self.plan.bound(self.others);
        ConnectionInfo {
            number: self.number,
            address: self.address.clone(),
            contract: self.open.contract.clone(),
            notification: self.open.notification,
            marks: self.open.marks,
            transmit_pdus: self.open.transmit_pdus,
            receive_pdus: self.open.receive_pdus,
            queue_threshold: self.open.queue_threshold,
            completions: self.open.completions,
            guaranteed: self.plan.is_guaranteed(),
            permanent: self.permanent,
            uid: self.uid,
            pid: self.user.map(|user| user.pid),
            transmit: self.rate(Direction::Transmit),
            receive: self.rate(Direction::Receive),
            memory: demand.memory,
            cpu_reserved_ppm: ppm(demand.adapter_ppm),
            cpu_expected_ppm: ppm(demand.adapter_expected_ppm),
            keeps_awake: self.plan.keeps_awake,
            delay_ns: bound.receive.map(|bound| bound.without_stall_ns()),
            risk: self.risk.clone(),
            offer: self.offered.as_ref().map(|(_, offer)| offer.to_string()),
            buffers: self.plan.buffers(),
            bound,
            stats: self.stats,
            slots: self.slots,
        }
    }

    /// Its counters as they are shown, four times a second: without the contract's text and bounds,
    /// which take longer than all else.
    pub(super) fn counters(&self) -> CounterRecord {
        let cell_s = |direction| {
            let rate = self.rate(direction);
            rate.map_or(0, |rate| rate.cell_s().into())
        };
        CounterRecord {
            address: self.address.to_string(),
            number: self.number,
            uid: self.uid,
            pid: self.user.map_or(0, |user| user.pid),
            guaranteed: self.plan.is_guaranteed(),
            permanent: self.permanent,
            at_risk: self.risk.as_ref().is_some_and(|risk| risk.now),
            can_grow: self.offered.is_some(),
            transmit_cell_s: cell_s(Direction::Transmit),
            receive_cell_s: cell_s(Direction::Receive),
            stats: self.stats,
            slots: self.slots,
        }
    }

    /// What is owed, with the counters as they are.
    pub(super) fn settle_owed(&mut self) -> Vec<(Asker, Result<Confirm, Refused>)> {
        let stats = Box::new(self.stats);
        let owed = core::mem::take(&mut self.owed);
        let confirm = |owed: Owed| {
            let result = owed.result.map(|what| match what {
                OwedConfirm::Closed => Confirm::Closed {
                    stats: stats.clone(),
                },
                OwedConfirm::Done => Confirm::Done,
            });
            (owed.asker, result)
        };
        owed.into_iter().map(confirm).collect()
    }
}
