//! One terminal on a connection: what it was asked to do, or asks, until it is done.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use cellgate::Error;
use cellgate_core::Time;
use cellgate_core::terminal::{
    Carrier, Counts, Entry, Event, Found, Given, Giving, Message, Offers, Origin, SenderCounts,
    Settled, Split, StreamFault, Taking,
};

use super::disk::DiskLen;
use super::over::Transport;
use super::place::Place;
use super::port::Looked;
use super::served::Served;
use super::terms::Terms;
use super::tree::Tree;
use crate::clock::MonotonicClock;

/// A terminal that nothing comes from for so long is gone: longer than a busy disk holds up a
/// system call.
const SILENCE_NS: u64 = 30_000_000_000;
/// The same where all was served, and it is only to say that it has heard so.
const DONE_SILENCE_NS: u64 = 2_000_000_000;
/// Steps of who gives in one turn.
const STEPS: usize = 64;
/// Turns in which a terminal that ends is heard, and how long each waits.
const FAREWELL: usize = 50;
const FAREWELL_NS: u64 = 10_000_000;
/// While so many octets wait to be acknowledged nothing more is heard, so that no other end makes
/// them grow.
const UNSAID_MAX: usize = 1 << 20;

/// What has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    Given(Given),
    Settled(Settled),
    Listed(Entry),
    /// All was listed.
    ListEnd,
    /// The other end does not do what it was asked.
    Refused(String),
    /// The other end has stopped.
    Stopped(String),
    /// The other end does what nobody may: this one has stopped.
    Fault(String),
    /// What was under way is over.
    Ended(String),
    /// All that came of the other terminal until work was over, if something was thrown away.
    Discarded(Counts),
}

/// What is done when the other end agrees.
pub enum Next {
    Give(Box<Tree>),
    Take(Place),
    List,
}

/// What a session does.
enum Work {
    Nothing,
    /// The other end was asked.
    Asked(Next),
    Giving(Box<Giving<Tree>>),
    Taking(Box<Taking<Place>>),
    /// The other end lists.
    Listed,
    /// This end lists.
    Listing(Box<Tree>, u32),
}

/// Why a session is over.
#[derive(Debug, thiserror::Error)]
pub enum Over {
    #[error("the other terminal has begun anew")]
    Restarted,
    #[error("nothing has come from the other terminal for {} s", SILENCE_NS / 1_000_000_000)]
    Silent,
    #[error("the other terminal says what makes no sense")]
    Fault,
    #[error("the other terminal says what cannot be: {0}")]
    Stream(#[from] StreamFault),
    #[error("the other end has closed the connection")]
    Closed,
    #[error(transparent)]
    Network(#[from] io::Error),
    #[error(transparent)]
    Connection(#[from] Error),
}

/// One terminal, on a transport of this kind.
pub struct Session<T: Transport> {
    terms: Terms,
    carrier: T::Carrier,
    work: Work,
    /// What others may ask for.
    served: Option<Served>,
    reports: VecDeque<Report>,
    message: Vec<u8>,
    /// Cells that were thrown away, and told of.
    discarded_told: u64,
}

impl<T: Transport> Session<T> {
    /// A terminal that begins.
    pub fn begin(terms: Terms, message: &Message, next: Next) -> Self {
        let mut session = Self::new(terms, true, None);
        session.carrier.say(&message.emit());
        session.work = Work::Asked(next);
        session
    }

    /// A terminal that answers.
    pub fn serve(terms: Terms, served: Served) -> Self {
        Self::new(terms, false, Some(served))
    }

    fn new(terms: Terms, begins: bool, served: Option<Served>) -> Self {
        Self {
            carrier: T::carrier(&terms, begins),
            terms,
            work: Work::Nothing,
            served,
            reports: VecDeque::new(),
            message: Vec::new(),
            discarded_told: 0,
        }
    }

    /// What has happened, in order.
    pub fn report(&mut self) -> Option<Report> {
        self.reports.pop_front()
    }

    /// What was sent.
    pub fn sent(&self) -> SenderCounts {
        self.carrier.counts()
    }

    /// Counts of what has come, and of what of it was thrown away.
    pub fn come(&self) -> Counts {
        self.carrier.come()
    }

    /// Files that are under way, and how many octets of each are.
    pub fn progress(&self) -> Vec<(Entry, u64)> {
        let own = |(entry, octets): (&Entry, u64)| (entry.clone(), octets);
        match &self.work {
            Work::Giving(giving) => giving.progress(&self.carrier).map(own).collect(),
            Work::Taking(taking) => taking.progress(&self.carrier).map(own).collect(),
            _ => Vec::new(),
        }
    }

    /// How much is given or taken.
    pub fn offers(&self) -> Offers {
        match &self.work {
            Work::Giving(giving) => giving.offers(),
            Work::Taking(taking) => taking.offers(),
            _ => Offers::default(),
        }
    }

    /// Ends, and tells the other end why.
    pub fn end(&mut self, transport: &mut T, reason: &str) {
        let reason = reason.to_owned();
        self.carrier.say(&Message::Stop { reason }.emit());
        self.leave();
        for _ in 0..FAREWELL {
            // Nobody is told of an end that cannot tell.
            if self.turn(transport).is_err() || self.carrier.unsaid() == 0 {
                break;
            }
            let soon = MonotonicClock.now().plus_ns(FAREWELL_NS);
            let _ = transport.wait(false, soon);
        }
        transport.flush(Duration::from_secs(1));
    }

    /// Gives up what it does; what has come so far can be gone on with.
    pub fn leave(&mut self) {
        if let Work::Taking(taking) = &mut self.work {
            taking.abandon(&mut self.carrier);
        }
        self.work = Work::Nothing;
    }

    /// One turn: whether more can be done at once, and what the connection waits for.
    ///
    /// # Errors
    /// The session is over. Of a terminal that answers only the connection's end is an error.
    pub fn turn(&mut self, transport: &mut T) -> Result<Looked, Over> {
        let mut looked = transport.look(&mut self.carrier)?;
        looked.is_busy |= self.acts(MonotonicClock.now())?;
        Ok(looked)
    }

    /// Does what follows from what has come; whether it did anything.
    fn acts(&mut self, now: Time) -> Result<bool, Over> {
        while let Some(event) = self.carrier.poll_event() {
            match event {
                Event::DiskPdu { transfer, disk_pdu } => {
                    if let Work::Taking(taking) = &mut self.work {
                        let mut settled = Vec::new();
                        let carrier = &mut self.carrier;
                        taking.handle_disk_pdu(now, carrier, transfer, &disk_pdu, &mut settled);
                        self.reports
                            .extend(settled.into_iter().map(Report::Settled));
                    }
                }
                // It says hello again.
                Event::Restarted => self.over(Over::Restarted)?,
                Event::Fault => self.over(Over::Fault)?,
            }
        }
        let mut is_busy = self.hears(now)?;
        is_busy |= self.works(now);
        let is_idle = matches!(self.work, Work::Nothing);
        if is_idle {
            self.tells_discards();
        }
        // Who waits for another to begin hears nothing.
        let is_heard = !is_idle || !T::OUTLASTS_TERMINALS;
        let silence_ns = match self.served.is_some() && self.is_done() {
            true => DONE_SILENCE_NS,
            false => SILENCE_NS,
        };
        if is_heard && now.since_ns(self.carrier.heard_at()) > silence_ns {
            self.over(Over::Silent)?;
        }
        Ok(is_busy)
    }

    fn tells_discards(&mut self) {
        let come = self.carrier.come();
        if come.discarded_cells() > self.discarded_told {
            self.discarded_told = come.discarded_cells();
            self.reports.push_back(Report::Discarded(come));
        }
    }

    /// Serves until `ends`, or the transport has ended: why. What happens meanwhile, `tell` hears.
    pub fn serve_until(
        &mut self,
        transport: &mut T,
        mut ends: impl FnMut() -> bool,
        mut tell: impl FnMut(Report),
    ) -> Option<Over> {
        loop {
            let looked = match self.turn(transport) {
                Ok(looked) => looked,
                Err(over) => {
                    self.leave();
                    return Some(over);
                }
            };
            self.reports.drain(..).for_each(&mut tell);
            if ends() {
                self.end(transport, "the server ends");
                return None;
            }
            if !looked.is_busy
                && let Err(over) = transport.wait(looked.waits, self.next_deadline())
            {
                self.leave();
                return Some(over);
            }
        }
    }

    /// When the next turn is due if nothing comes.
    pub fn next_deadline(&self) -> Time {
        let now = MonotonicClock.now();
        let look = now.plus_ns(100_000_000);
        let next = self.carrier.next_deadline();
        next.map_or(look, |next| next.min(look))
    }

    /// A terminal that answers forgets; one that begins has to begin anew.
    fn over(&mut self, over: Over) -> Result<(), Over> {
        let is_idle = matches!(self.work, Work::Nothing) || self.is_done();
        self.leave();
        if self.served.is_none() || !T::OUTLASTS_TERMINALS {
            return Err(over);
        }
        if !is_idle {
            self.reports.push_back(Report::Ended(over.to_string()));
        }
        self.tells_discards();
        self.discarded_told = 0;
        self.terms.renew();
        self.carrier = T::carrier(&self.terms, false);
        Ok(())
    }

    fn hears(&mut self, now: Time) -> Result<bool, Over> {
        let mut message = std::mem::take(&mut self.message);
        let mut is_busy = false;
        while self.carrier.unsaid() < UNSAID_MAX {
            match self.carrier.hear(now, &mut message) {
                Ok(false) => break,
                Ok(true) => match Message::parse(&message) {
                    Ok(message) => self.handle(now, message),
                    Err(_) => self.over(Over::Fault)?,
                },
                Err(_) => self.over(Over::Fault)?,
            }
            is_busy = true;
        }
        self.message = message;
        Ok(is_busy)
    }

    fn handle(&mut self, now: Time, message: Message) {
        match (&mut self.work, message) {
            (_, Message::Stop { reason }) => {
                self.reports.push_back(Report::Stopped(reason));
                self.leave();
            }
            (Work::Asked(_), Message::Refused { reason }) => {
                self.reports.push_back(Report::Refused(reason));
                self.work = Work::Nothing;
            }
            (Work::Asked(_), Message::Accepted) => {
                if let Work::Asked(next) = std::mem::replace(&mut self.work, Work::Nothing) {
                    self.begins(next);
                }
            }
            (Work::Giving(giving), message) => {
                let mut given = Vec::new();
                giving.handle(&mut self.carrier, message, &mut given);
                self.reports.extend(given.into_iter().map(Report::Given));
            }
            (Work::Taking(taking), message) => {
                let mut settled = Vec::new();
                taking.handle(now, &mut self.carrier, message, &mut settled);
                let fault = taking.fault();
                self.reports
                    .extend(settled.into_iter().map(Report::Settled));
                if let Some(fault) = fault {
                    let reason = fault.to_owned();
                    self.reports.push_back(Report::Fault(reason.clone()));
                    self.carrier.say(&Message::Stop { reason }.emit());
                    self.leave();
                }
            }
            (Work::Listed, Message::Offer { entry, .. }) => {
                self.reports.push_back(Report::Listed(entry));
            }
            (Work::Listed, Message::End) => {
                self.reports.push_back(Report::ListEnd);
                self.work = Work::Nothing;
            }
            (Work::Nothing | Work::Listing(..), message) => self.serves(&message),
            (Work::Asked(_) | Work::Listed, _) => {}
        }
    }

    /// Does what it is asked for, or says why not.
    fn serves(&mut self, message: &Message) {
        let Some(served) = &self.served else {
            return;
        };
        let next = match served.asked(message, self.terms.disk_len) {
            None => return,
            Some(Ok(next)) => next,
            Some(Err(reason)) => {
                return self.carrier.say(&Message::Refused { reason }.emit());
            }
        };
        self.carrier.say(&Message::Accepted.emit());
        match next {
            Next::Give(tree) if matches!(message, Message::List { .. }) => {
                self.work = Work::Listing(tree, 0);
            }
            next => self.begins(next),
        }
    }

    fn begins(&mut self, next: Next) {
        self.work = match next {
            Next::Give(tree) => Work::Giving(Box::new(Giving::new(*tree, split(&self.terms)))),
            Next::Take(place) => Work::Taking(Box::new(Taking::new(place, self.terms.jobs))),
            Next::List => Work::Listed,
        };
    }

    fn works(&mut self, now: Time) -> bool {
        let mut is_busy = false;
        match &mut self.work {
            Work::Giving(giving) => {
                let mut given = Vec::new();
                for _ in 0..STEPS {
                    if !giving.step(&mut self.carrier, &mut given) {
                        break;
                    }
                    is_busy = true;
                }
                self.reports.extend(given.into_iter().map(Report::Given));
                if giving.is_done() {
                    self.work = Work::Nothing;
                }
            }
            Work::Taking(taking) => {
                let mut settled = Vec::new();
                taking.step(now, &mut self.carrier, &mut settled);
                is_busy = !settled.is_empty();
                self.reports
                    .extend(settled.into_iter().map(Report::Settled));
                // What it has said last is still to be sent.
                if taking.is_done() && self.carrier.unsaid() == 0 {
                    self.work = Work::Nothing;
                }
            }
            Work::Listing(tree, id) => {
                while self.carrier.unsaid() < UNSAID_MAX / 4 {
                    is_busy = true;
                    match tree.next() {
                        Some(Found::Entry(entry)) => {
                            let offer = Message::Offer { id: *id, entry };
                            self.carrier.say(&offer.emit());
                            *id = id.wrapping_add(1);
                        }
                        Some(Found::Left | Found::Skipped { .. }) => {}
                        None => {
                            self.carrier.say(&Message::End.emit());
                            self.work = Work::Nothing;
                            break;
                        }
                    }
                }
            }
            Work::Nothing | Work::Asked(_) | Work::Listed => {}
        }
        is_busy
    }

    /// Whether all is taken that was to be.
    fn is_done(&self) -> bool {
        matches!(&self.work, Work::Taking(taking) if taking.is_done())
    }

    /// Whether there is nothing to do, and all that was said is acknowledged.
    pub fn is_idle(&mut self) -> bool {
        matches!(self.work, Work::Nothing) && self.carrier.unsaid() == 0
    }
}

const fn split(terms: &Terms) -> Split {
    Split {
        pdu_len: terms.pdu_len,
        disk_len: Some(DiskLen::octets(terms.disk_len)),
        file_len: None,
    }
}

#[cfg(test)]
mod tests;
