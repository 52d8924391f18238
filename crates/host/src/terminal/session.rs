//! One terminal on a connection: what it was asked to do, or asks, until it is done.

use std::collections::VecDeque;
use std::time::Duration;

use cellgate::Error;
use cellgate_core::Time;
use cellgate_core::terminal::{
    Entry, Event, Exchange, ExchangeTerms, Found, Given, Giving, Message, Offers, Origin, Settled,
    Split, Taking,
};

use super::disk::DiskLen;
use super::place::{Place, Receiving};
use super::port::{Looked, Port};
use super::sending::Sending;
use super::served::Served;
use super::terms::Terms;
use super::tree::Tree;
use crate::clock::MonotonicClock;

/// A terminal that nothing comes from for so long is gone.
const SILENCE_NS: u64 = 10_000_000_000;
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
    #[error(transparent)]
    Connection(#[from] Error),
}

/// One terminal.
pub struct Session {
    terms: Terms,
    exchange: Exchange<Sending, Receiving>,
    work: Work,
    /// What others may ask for.
    served: Option<Served>,
    reports: VecDeque<Report>,
    message: Vec<u8>,
}

impl Session {
    /// A terminal that begins.
    pub fn begin(terms: Terms, message: &Message, next: Next) -> Self {
        let mut session = Self::new(terms, true, None);
        session.exchange.say(&message.emit());
        session.work = Work::Asked(next);
        session
    }

    /// A terminal that answers.
    pub fn serve(terms: Terms, served: Served) -> Self {
        Self::new(terms, false, Some(served))
    }

    fn new(terms: Terms, begins: bool, served: Option<Served>) -> Self {
        Self {
            exchange: exchange(&terms, begins),
            terms,
            work: Work::Nothing,
            served,
            reports: VecDeque::new(),
            message: Vec::new(),
        }
    }

    /// What has happened, in order.
    pub fn report(&mut self) -> Option<Report> {
        self.reports.pop_front()
    }

    /// What was exchanged.
    pub const fn exchange(&self) -> &Exchange<Sending, Receiving> {
        &self.exchange
    }

    /// Files that are under way, and how many octets of each are.
    pub fn progress(&self) -> Vec<(Entry, u64)> {
        let own = |(entry, octets): (&Entry, u64)| (entry.clone(), octets);
        match &self.work {
            Work::Giving(giving) => giving.progress(&self.exchange).map(own).collect(),
            Work::Taking(taking) => taking.progress(&self.exchange).map(own).collect(),
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
    pub fn end(&mut self, port: &mut Port, reason: &str) {
        let reason = reason.to_owned();
        self.exchange.say(&Message::Stop { reason }.emit());
        self.leave();
        for _ in 0..FAREWELL {
            // Nobody is told of an end that cannot tell.
            if self.turn(port).is_err() || self.exchange.unsaid() == 0 {
                break;
            }
            let soon = MonotonicClock.now().plus_ns(FAREWELL_NS);
            let _ = port.wait(false, soon);
        }
        port.flush(Duration::from_secs(1));
    }

    /// Gives up what it does; what has come so far can be gone on with.
    pub fn leave(&mut self) {
        if let Work::Taking(taking) = &mut self.work {
            taking.abandon(&mut self.exchange);
        }
        self.work = Work::Nothing;
    }

    /// One turn: whether more can be done at once, and what the connection waits for.
    ///
    /// # Errors
    /// The session is over. Of a terminal that answers only the connection's end is an error.
    pub fn turn(&mut self, port: &mut Port) -> Result<Looked, Over> {
        let mut looked = port.look(&mut self.exchange)?;
        looked.is_busy |= self.acts(MonotonicClock.now())?;
        Ok(looked)
    }

    /// Does what follows from what has come; whether it did anything.
    fn acts(&mut self, now: Time) -> Result<bool, Over> {
        while let Some(event) = self.exchange.poll_event() {
            match event {
                Event::DiskPdu { transfer, disk_pdu } => {
                    if let Work::Taking(taking) = &mut self.work {
                        let mut settled = Vec::new();
                        let exchange = &mut self.exchange;
                        taking.handle_disk_pdu(now, exchange, transfer, &disk_pdu, &mut settled);
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
        if !is_idle && now.since_ns(self.exchange.heard_at()) > SILENCE_NS {
            self.over(Over::Silent)?;
        }
        Ok(is_busy)
    }

    /// When the next turn is due if nothing comes.
    pub fn next_deadline(&self) -> Time {
        let now = MonotonicClock.now();
        let look = now.plus_ns(100_000_000);
        let next = self.exchange.next_deadline();
        next.map_or(look, |next| next.min(look))
    }

    /// A terminal that answers forgets; one that begins has to begin anew.
    fn over(&mut self, over: Over) -> Result<(), Over> {
        let is_idle = match &self.work {
            Work::Nothing => true,
            Work::Taking(taking) => taking.is_done(),
            _ => false,
        };
        self.leave();
        if self.served.is_none() {
            return Err(over);
        }
        if !is_idle {
            self.reports.push_back(Report::Ended(over.to_string()));
        }
        self.terms.renew();
        self.exchange = exchange(&self.terms, false);
        Ok(())
    }

    fn hears(&mut self, now: Time) -> Result<bool, Over> {
        let mut message = std::mem::take(&mut self.message);
        let mut is_busy = false;
        while self.exchange.unsaid() < UNSAID_MAX {
            match self.exchange.hear(now, &mut message) {
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
                giving.handle(&mut self.exchange, message, &mut given);
                self.reports.extend(given.into_iter().map(Report::Given));
            }
            (Work::Taking(taking), message) => {
                let mut settled = Vec::new();
                taking.handle(now, &mut self.exchange, message, &mut settled);
                let fault = taking.fault();
                self.reports
                    .extend(settled.into_iter().map(Report::Settled));
                if let Some(fault) = fault {
                    let reason = fault.to_owned();
                    self.reports.push_back(Report::Fault(reason.clone()));
                    self.exchange.say(&Message::Stop { reason }.emit());
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
                return self.exchange.say(&Message::Refused { reason }.emit());
            }
        };
        self.exchange.say(&Message::Accepted.emit());
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
                    if !giving.step(&mut self.exchange, &mut given) {
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
                taking.step(now, &mut self.exchange, &mut settled);
                is_busy = !settled.is_empty();
                self.reports
                    .extend(settled.into_iter().map(Report::Settled));
                // What it has said last is still to be sent.
                if taking.is_done() && self.exchange.unsaid() == 0 {
                    self.work = Work::Nothing;
                }
            }
            Work::Listing(tree, id) => {
                while self.exchange.unsaid() < UNSAID_MAX / 4 {
                    is_busy = true;
                    match tree.next() {
                        Some(Found::Entry(entry)) => {
                            let offer = Message::Offer { id: *id, entry };
                            self.exchange.say(&offer.emit());
                            *id = id.wrapping_add(1);
                        }
                        Some(Found::Left | Found::Skipped { .. }) => {}
                        None => {
                            self.exchange.say(&Message::End.emit());
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

    /// Whether there is nothing to do, and all that was said is acknowledged.
    pub fn is_idle(&mut self) -> bool {
        matches!(self.work, Work::Nothing) && self.exchange.unsaid() == 0
    }
}

fn exchange(terms: &Terms, begins: bool) -> Exchange<Sending, Receiving> {
    let terms_of = ExchangeTerms {
        run: terms.run,
        arq: terms.arq,
        window_pdus: terms.window_pdus(),
        window: terms.window,
        pdu_len: terms.pdu_len,
        begins,
    };
    // The tree of a terminal has the lengths that an exchange wants.
    Exchange::new(MonotonicClock.now(), terms_of, &terms.tree).expect("the terminal's own tree")
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
