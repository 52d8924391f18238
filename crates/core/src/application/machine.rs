//! An application: what it hears and asks, and what its process has to do about it.

use core::fmt::Debug;
use std::collections::VecDeque;

use super::OpenConnection;
use super::dialogue::{Asked, Dialogue};
use crate::Time;
use crate::contract::Remainder;
use crate::server::{
    Confirm, EndReason, FromClient, FromServer, Indication, Opened, Refused, Request, Response,
    VERSION,
};

/// What comes along with a message: in a process descriptors.
pub trait Enclosure {
    /// Which memory it is.
    type Memory: PartialEq + Debug;

    /// The memory of a connection that it is of.
    fn memory(&self) -> Option<Self::Memory>;
}

/// Why a connection has memory that it did not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The connection is the program's from now on. The attachment's memory comes along.
    Opened,
    /// It was opened again: whatever waited in its memory is lost. The attachment's memory comes
    /// along.
    Reopened,
    /// Its contract has changed. What the memory before holds can still be read.
    Modified,
}

/// What the process does.
#[derive(Debug)]
pub enum Output<E> {
    /// Says this to the server. What the program enclosed with its Request goes along each time.
    Say(FromClient),
    /// Gives the connection this memory.
    Memory {
        opened: Opened,
        came: E,
        cause: Cause,
    },
    /// Tells the program what became of what it asked.
    Answer(Answer<E>),
    /// Something that the server told makes no sense, and is not in force.
    Senseless(String),
}

/// The end of what a program asked.
#[derive(Debug)]
pub struct Answer<E> {
    pub result: Result<Confirm, Failure>,
    /// What came along, but for the memory of a connection.
    pub came: Option<E>,
}

/// Why something that was asked has no Confirm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    Refused(Refused),
    /// It was given up. A change may be in force later.
    TimedOut,
    Ended(End),
    /// The Confirm is another Request's.
    Senseless(String),
}

/// Why a connection is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Said(EndReason),
    /// The server has closed the socket.
    HungUp,
}

/// A program with a control socket.
///
/// Work: each input costs what one message does; all but the messages' own octets is of fixed size.
#[derive(Debug)]
pub struct Application<E: Enclosure> {
    dialogue: Dialogue,
    open: Option<OpenConnection<E::Memory>>,
    end: Option<End>,
    remainder: Remainder,
    /// What the server told of its own accord, until somebody wants it.
    indications: VecDeque<Indication>,
    was_told: bool,
    outputs: VecDeque<Output<E>>,
}

impl<E: Enclosure> Application<E> {
    /// Indications that are kept; beyond, the oldest go.
    pub const KEPT_MAX: usize = 64;

    /// On a socket on which nothing was said; what is asked waits for `patience_ns` at most.
    pub fn new(patience_ns: u64) -> Self {
        Self::numbered(0, patience_ns)
    }

    /// One of several on a socket: it says and hears what is about the connection of this number
    /// below 2^31, and what is about none.
    pub fn numbered(connection: u32, patience_ns: u64) -> Self {
        Self {
            dialogue: Dialogue::new(connection, patience_ns),
            open: None,
            end: None,
            remainder: Remainder::Carried,
            indications: VecDeque::with_capacity(Self::KEPT_MAX),
            was_told: false,
            outputs: VecDeque::new(),
        }
    }

    /// What becomes of a credit that is less than a PDU, of connections that are opened later.
    #[must_use]
    pub fn leaving(mut self, remainder: Remainder) -> Self {
        self.remainder = remainder;
        self
    }

    /// The connection that it has, or had at its end.
    pub fn connection(&self) -> Option<&OpenConnection<E::Memory>> {
        self.open.as_ref()
    }

    /// The same, to send and to take.
    pub fn connection_mut(&mut self) -> Option<&mut OpenConnection<E::Memory>> {
        self.open.as_mut()
    }

    /// Whether the connection is over, or the socket is.
    pub fn end(&self) -> Option<End> {
        self.end
    }

    /// Whether something that was asked has not ended.
    pub fn is_asking(&self) -> bool {
        self.dialogue.asked().is_some()
    }

    /// Whether a change of the contract is under way: nothing more is sent until it has ended.
    pub fn is_changing(&self) -> bool {
        self.dialogue.asked().is_some_and(Asked::is_change)
    }

    /// Whether the end of the connection was asked for.
    pub fn is_closing(&self) -> bool {
        let asked = self.dialogue.asked();
        asked.is_some_and(|asked| asked.is(|request| matches!(request, Request::Close)))
    }

    /// Asks. Whoever asks before the last Request has ended gives that one up.
    pub fn ask(&mut self, now: Time, request: Request) {
        if self.is_hung_up(None) {
            return;
        }
        let numbered = self.dialogue.request(request);
        self.outputs.push_back(Output::Say(numbered.1.clone()));
        self.dialogue.begin(now, numbered, true);
    }

    /// Asks for another contract as soon as all has been sent that was handed over under this one:
    /// [`Application::has_sent_all`] says so.
    pub fn modify(&mut self, now: Time, contract: String) {
        let numbered = self.dialogue.request(Request::Modify { contract });
        self.change(now, numbered);
    }

    /// Accepts what [`Indication::CanGrow`] offered, as [`Application::modify`] changes a contract;
    /// `false`: nothing is offered.
    pub fn accept_offer(&mut self, now: Time) -> bool {
        let Some(id) = self.take_offer() else {
            return false;
        };
        let accepted = self.dialogue.respond(id, Response::Accept);
        self.change(now, (id, accepted));
        true
    }

    /// Leaves what [`Indication::CanGrow`] offered; `false`: nothing is offered.
    pub fn decline_offer(&mut self) -> bool {
        let Some(id) = self.take_offer() else {
            return false;
        };
        self.respond(id, Response::Decline);
        true
    }

    fn take_offer(&mut self) -> Option<u64> {
        self.open.as_mut().and_then(|open| open.offer.take())
    }

    fn change(&mut self, now: Time, numbered: (u64, FromClient)) {
        if !self.is_hung_up(self.end) {
            self.dialogue.begin(now, numbered, false);
        }
    }

    /// Whether nothing can be asked any more: the answer then is that.
    fn is_hung_up(&mut self, end: Option<End>) -> bool {
        let end = end.or(self.end.filter(|end| *end == End::HungUp));
        let Some(end) = end else { return false };
        self.answer(Err(Failure::Ended(end)), None);
        true
    }

    /// All that was handed to the adapter has been sent: a change that waits for it is asked for.
    pub fn has_sent_all(&mut self, now: Time) {
        let said = self.dialogue.say_now(now);
        self.outputs.extend(said.map(Output::Say));
    }

    /// The server says something.
    pub fn handle(&mut self, now: Time, message: FromServer, came: E) {
        match message {
            FromServer::Confirm { id, result, .. } => self.confirmed(now, id, result, came),
            FromServer::Indication { id, indication, .. } => self.told(now, id, indication, came),
        }
    }

    /// The server has closed the socket. What it said before stands.
    pub fn hung_up(&mut self) {
        self.was_told = true;
        let end = *self.end.get_or_insert(End::HungUp);
        if self.dialogue.give_up().is_some() {
            let end = Failure::Ended(end);
            self.answer(Err(end), None);
        }
    }

    /// When what is under way has waited long enough.
    pub fn next_deadline(&self) -> Option<Time> {
        self.dialogue.asked().map(|asked| asked.deadline)
    }

    /// The deadline may have come.
    pub fn expire(&mut self, now: Time) {
        if self.next_deadline().is_some_and(|deadline| deadline <= now) {
            self.dialogue.give_up();
            self.answer(Err(Failure::TimedOut), None);
        }
    }

    /// The next thing that the process has to do.
    pub fn poll(&mut self) -> Option<Output<E>> {
        self.outputs.pop_front()
    }

    /// The oldest thing that the server told of its own accord and nobody has read.
    pub fn next_indication(&mut self) -> Option<Indication> {
        self.indications.pop_front()
    }

    /// Whether the server has told something since the last call.
    pub fn take_told(&mut self) -> bool {
        core::mem::take(&mut self.was_told)
    }

    fn confirmed(&mut self, now: Time, id: u64, result: Result<Confirm, Refused>, came: E) {
        let Some(asked) = self.dialogue.ended_by(id) else {
            // A Confirm that nobody waits for any more: one of a change is in force all the same.
            if self.dialogue.is_late(id)
                && let Ok(Confirm::Modified { opened, memory }) = result
            {
                self.was_told = true;
                let changed = self.is_changed(now, opened, memory, came);
                self.outputs
                    .extend(changed.err().map(|(why, _)| Output::Senseless(why)));
            }
            return;
        };
        match result {
            Ok(confirm) => self.ended(now, &asked, confirm, came),
            Err(refused) => self.answer(Err(Failure::Refused(refused)), Some(came)),
        }
    }

    /// What was asked is carried out.
    fn ended(&mut self, now: Time, asked: &Asked, confirm: Confirm, came: E) {
        let opens = |request: &Request| {
            matches!(
                request,
                Request::Open(_) | Request::Take { .. } | Request::Reattach { .. }
            )
        };
        let put_in_force = match &confirm {
            Confirm::Hello { version, .. } if *version != VERSION => {
                let speaks = *version;
                let refused = Refused::Version { speaks };
                return self.answer(Err(Failure::Refused(refused)), Some(came));
            }
            Confirm::Opened(opened) if asked.is(opens) => self.is_opened(now, opened.clone(), came),
            Confirm::Modified { opened, memory } if asked.is_change() => {
                self.is_changed(now, opened.clone(), *memory, came)
            }
            Confirm::Opened(_) | Confirm::Modified { .. } => Err((unexpected(&confirm), came)),
            Confirm::Closed { .. } => {
                self.open = None;
                Ok(Some(came))
            }
            _ => Ok(Some(came)),
        };
        match put_in_force {
            Ok(came) => self.answer(Ok(confirm), came),
            Err((why, came)) => self.answer(Err(Failure::Senseless(why)), Some(came)),
        }
    }

    fn is_opened(&mut self, now: Time, opened: Opened, came: E) -> Result<Option<E>, (String, E)> {
        let memory = came.memory();
        match OpenConnection::new(now, opened.clone(), memory, self.remainder) {
            Ok(open) => self.open = Some(open),
            Err(why) => return Err((why, came)),
        }
        self.end = None;
        self.outputs.push_back(Output::Memory {
            opened,
            came,
            cause: Cause::Opened,
        });
        Ok(None)
    }

    fn is_changed(
        &mut self,
        now: Time,
        opened: Opened,
        has_memory: bool,
        came: E,
    ) -> Result<Option<E>, (String, E)> {
        // It can have been closed meanwhile.
        let Some(open) = &mut self.open else {
            return Ok(Some(came));
        };
        let memory = came.memory().filter(|_| has_memory);
        if let Err(why) = open.renew(now, opened.clone(), memory) {
            return Err((why, came));
        }
        if !has_memory {
            return Ok(Some(came));
        }
        self.outputs.push_back(Output::Memory {
            opened,
            came,
            cause: Cause::Modified,
        });
        Ok(None)
    }

    fn told(&mut self, now: Time, id: u64, indication: Indication, came: E) {
        self.was_told = true;
        match &indication {
            Indication::Ended(reason) => {
                self.end = Some(End::Said(*reason));
                self.give_up_what_waits();
            }
            Indication::Reopened(opened) => {
                if !self.is_reopened(now, opened.clone(), came) {
                    return;
                }
            }
            Indication::Share {
                transmit_credit, ..
            } => {
                if let Some(open) = &mut self.open {
                    open.keep_pace(now, *transmit_credit);
                }
            }
            Indication::CanGrow { .. } => {
                if let Some(open) = &mut self.open {
                    open.offer = Some(id);
                }
            }
            Indication::Restarted => {
                // The new server leaves unread what comes before it knows that it is known.
                self.respond(id, Response::Heard);
                let again = self.dialogue.again();
                self.outputs.extend(again.map(Output::Say));
            }
            Indication::AtRisk { .. }
            | Indication::Connection { .. }
            | Indication::Interface { .. }
            | Indication::Losing { .. }
            | Indication::Rate { .. } => {}
        }
        if self.indications.len() == Self::KEPT_MAX {
            self.indications.pop_front();
        }
        self.indications.push_back(indication);
    }

    /// A change that was not asked for yet never will be.
    fn give_up_what_waits(&mut self) {
        if self.dialogue.again().is_none() && self.is_asking() {
            self.dialogue.give_up();
            let end = self.end.unwrap_or(End::HungUp);
            self.answer(Err(Failure::Ended(end)), None);
        }
    }

    /// Whether the connection has other memory than before.
    fn is_reopened(&mut self, now: Time, opened: Opened, came: E) -> bool {
        // The Confirm of one that is being opened brings its own memory, one that is being closed
        // needs none.
        let (is_closing, end) = (self.is_closing(), self.end);
        let Some(open) = self.open.as_mut().filter(|_| !is_closing && end.is_none()) else {
            return false;
        };
        // A new server cannot know whether the one before it has told this already.
        let memory = came.memory();
        if memory.is_some() && memory == open.memory {
            return false;
        }
        if let Err(why) = open.renew(now, opened.clone(), memory) {
            self.outputs.push_back(Output::Senseless(why));
            return false;
        }
        self.outputs.push_back(Output::Memory {
            opened,
            came,
            cause: Cause::Reopened,
        });
        true
    }

    fn respond(&mut self, id: u64, response: Response) {
        let said = self.dialogue.respond(id, response);
        self.outputs.push_back(Output::Say(said));
    }

    fn answer(&mut self, result: Result<Confirm, Failure>, came: Option<E>) {
        self.outputs
            .push_back(Output::Answer(Answer { result, came }));
    }
}

/// A confirm that belongs to another request.
fn unexpected(confirm: &Confirm) -> String {
    let mut text = format!("{confirm:?}");
    text.truncate(text.floor_char_boundary(200));
    text
}
