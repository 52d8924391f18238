//! What is said to the server: one Request at a time, its number, and how long it waits.

use crate::Time;
use crate::server::{FromClient, Request, Response};

/// Numbers of Requests begin above those that a server gives its Indications: a Confirm says by its
/// number alone whether it ends a Request or a Response. Each connection has so many of its own.
const IDS: u64 = 1 << 32;

/// What is under way.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) id: u64,
    pub(super) message: FromClient,
    pub(super) deadline: Time,
    /// It was said; else it waits until all has been sent.
    is_said: bool,
}

impl Asked {
    /// Whether it changes a connection's contract, and perhaps its memory.
    pub(super) fn is_change(&self) -> bool {
        match &self.message {
            FromClient::Request { request, .. } => matches!(request, Request::Modify { .. }),
            FromClient::Response { response, .. } => *response == Response::Accept,
        }
    }

    pub(super) fn is(&self, kind: fn(&Request) -> bool) -> bool {
        matches!(&self.message, FromClient::Request { request, .. } if kind(request))
    }
}

/// Requests and Responses about one connection.
#[derive(Debug)]
pub(super) struct Dialogue {
    /// The connection's number.
    connection: u32,
    last_id: u64,
    patience_ns: u64,
    asked: Option<Asked>,
    /// A change that was given up before its Confirm came, and may have been carried out.
    given_up: Option<u64>,
}

impl Dialogue {
    pub(super) fn new(connection: u32, patience_ns: u64) -> Self {
        Self {
            connection,
            last_id: (u64::from(connection) + 1) * IDS,
            patience_ns,
            asked: None,
            given_up: None,
        }
    }

    pub(super) fn asked(&self) -> Option<&Asked> {
        self.asked.as_ref()
    }

    /// Numbers a Request.
    pub(super) fn request(&mut self, request: Request) -> (u64, FromClient) {
        self.last_id += 1;
        let id = self.last_id;
        let connection = self.connection;
        let message = FromClient::Request {
            id,
            connection,
            request,
        };
        (id, message)
    }

    /// The answer to an Indication.
    pub(super) fn respond(&self, id: u64, response: Response) -> FromClient {
        FromClient::Response {
            id,
            connection: self.connection,
            response,
        }
    }

    /// Begins to wait for the end of what is said now, or once all has been sent. What was under
    /// way is given up.
    pub(super) fn begin(&mut self, now: Time, (id, message): (u64, FromClient), is_said: bool) {
        self.give_up();
        self.asked = Some(Asked {
            id,
            message,
            deadline: now.plus_ns(self.patience_ns),
            is_said,
        });
    }

    /// What waited until all has been sent is said now, if anything has.
    pub(super) fn say_now(&mut self, now: Time) -> Option<FromClient> {
        let asked = self.asked.as_mut().filter(|asked| !asked.is_said)?;
        asked.is_said = true;
        asked.deadline = now.plus_ns(self.patience_ns);
        Some(asked.message.clone())
    }

    /// What a new server has to be asked again: it reads nothing that was said before.
    pub(super) fn again(&self) -> Option<FromClient> {
        let asked = self.asked.as_ref().filter(|asked| asked.is_said)?;
        Some(asked.message.clone())
    }

    /// What the Confirm of this number ends. Number 0 ends whatever is under way: the server could
    /// not read it, or has no room for whoever asks.
    pub(super) fn ended_by(&mut self, id: u64) -> Option<Asked> {
        self.asked
            .take_if(|asked| asked.is_said && (asked.id == id || id == 0))
    }

    /// Whether the Confirm of this number is that of a change which was given up.
    pub(super) fn is_late(&mut self, id: u64) -> bool {
        self.given_up.take_if(|given_up| *given_up == id).is_some()
    }

    /// Nobody waits any more for what is under way.
    pub(super) fn give_up(&mut self) -> Option<Asked> {
        let asked = self.asked.take()?;
        if asked.is_said && asked.is_change() {
            self.given_up = Some(asked.id);
        }
        Some(asked)
    }
}
