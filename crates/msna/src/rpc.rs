//! Transports of the crate `tarpc` over REX, for a current-thread runtime: a connection belongs to
//! one thread.
//!
//! A request is a REX call and its response the reply, both in postcard. A call that fails is a
//! response with an error; the transport goes on. A request that is dropped is cancelled at the
//! other end. Where an association is to be made, a request waits for it, and with it the thread.

use core::marker::PhantomData;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use cellgate_core::upper::msna::Address;
use cellgate_core::upper::msna::rex::{self, Event, Exchange, Failure, Outcome, Refusal};
use futures::{Sink, Stream};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tarpc::{ClientMessage, Request, Response, ServerError};
use tokio::io::unix::AsyncFd;
use tokio::time::{Instant, Sleep, sleep};

use crate::{Error, Exchanger};

/// An exchanger as a runtime waits for it.
#[derive(Debug)]
struct Driven {
    exchanger: Exchanger,
    readable: AsyncFd<OwnedFd>,
    timer: Pin<Box<Sleep>>,
}

impl Driven {
    fn new(exchanger: Exchanger) -> Result<Self, Error> {
        let fd = exchanger.as_fd().try_clone_to_owned()?;
        #[allow(
            deprecated,
            reason = "its successor is unsafe; what owns a descriptor keeps it open"
        )]
        let readable = AsyncFd::new(fd)?;
        Ok(Self {
            readable,
            timer: Box::pin(sleep(exchanger.due())),
            exchanger,
        })
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Result<Event, Error>> {
        loop {
            if let Some(event) = self
                .exchanger
                .next_event(Some(core::time::Duration::ZERO))?
            {
                return Poll::Ready(Ok(event));
            }
            if !self.exchanger.arm()? {
                continue;
            }
            // A readiness from before is none; one from now on is an edge.
            while let Poll::Ready(guard) = self.readable.poll_read_ready(cx) {
                guard?.clear_ready();
            }
            let at = Instant::now() + self.exchanger.due();
            self.timer.as_mut().reset(at);
            ready!(self.timer.as_mut().poll(cx));
        }
    }
}

/// The end that calls one access point: hand it to the client that `tarpc` has made of a service.
#[derive(Debug)]
pub struct CallerTransport<Req, Resp> {
    driven: Driven,
    to: Address,
    /// Requests by call, and calls by request.
    requests: BTreeMap<rex::Call, u64>,
    calls: BTreeMap<u64, rex::Call>,
    /// Responses to what could not be asked.
    refused: VecDeque<(u64, ServerError)>,
    marker: PhantomData<fn(Req) -> Resp>,
}

impl<Req, Resp> CallerTransport<Req, Resp> {
    /// Calls this access point.
    ///
    /// # Errors
    /// The runtime or the kernel has no room for a descriptor.
    pub fn new(exchanger: Exchanger, to: Address) -> Result<Self, Error> {
        Ok(Self {
            driven: Driven::new(exchanger)?,
            to,
            requests: BTreeMap::new(),
            calls: BTreeMap::new(),
            refused: VecDeque::new(),
            marker: PhantomData,
        })
    }
}

impl<Req, Resp: DeserializeOwned> Stream for CallerTransport<Req, Resp> {
    type Item = Result<Response<Resp>, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if let Some((request_id, error)) = this.refused.pop_front() {
            let message = Err(error);
            return Poll::Ready(Some(Ok(Response {
                request_id,
                message,
            })));
        }
        loop {
            let event = ready!(this.driven.poll_event(cx))?;
            let Event::Ended { call, outcome } = event else {
                continue;
            };
            // One that was cancelled has none.
            let Some(request_id) = this.requests.remove(&call) else {
                continue;
            };
            this.calls.remove(&request_id);
            let message = response(outcome);
            return Poll::Ready(Some(Ok(Response {
                request_id,
                message,
            })));
        }
    }
}

/// The response in a reply, or the error that it means.
fn response<Resp: DeserializeOwned>(outcome: Outcome) -> Result<Resp, ServerError> {
    use io::ErrorKind;
    let (kind, detail) = match outcome {
        Outcome::Reply(octets) => match postcard::from_bytes::<Response<Resp>>(&octets) {
            Ok(response) => return response.message,
            Err(error) => (ErrorKind::InvalidData, format!("no response: {error}")),
        },
        Outcome::Refused(Refusal::Busy) => (ErrorKind::WouldBlock, "it is busy".to_owned()),
        Outcome::Refused(Refusal::TooLong) => {
            let detail = "the call is longer than it takes".to_owned();
            (ErrorKind::InvalidInput, detail)
        }
        Outcome::Failed(failure) => {
            let (kind, why) = match failure {
                Failure::TimedOut => (ErrorKind::TimedOut, "it is silent"),
                Failure::Restarted => (ErrorKind::ConnectionReset, "it has begun anew"),
                Failure::Cancelled => (ErrorKind::Interrupted, "it was cancelled"),
                Failure::Dropped => (ErrorKind::ConnectionAborted, "it has dropped the call"),
                Failure::TooLong => (ErrorKind::InvalidData, "the reply is too long"),
            };
            let detail = format!("{why}: executed once, or not at all");
            (kind, detail)
        }
    };
    Err(ServerError::new(kind, detail))
}

impl<Req: Serialize, Resp> Sink<ClientMessage<Req>> for CallerTransport<Req, Resp> {
    type Error = Error;

    fn poll_ready(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn start_send(mut self: Pin<&mut Self>, message: ClientMessage<Req>) -> Result<(), Error> {
        let this = &mut *self;
        let request = match message {
            ClientMessage::Request(request) => request,
            ClientMessage::Cancel { request_id, .. } => {
                if let Some(call) = this.calls.remove(&request_id) {
                    this.requests.remove(&call);
                    this.driven.exchanger.cancel(call);
                }
                return Ok(());
            }
            // There is no other message so far.
            _ => return Ok(()),
        };
        let called = octets(&request).and_then(|octets| {
            let called = this.driven.exchanger.call(this.to, octets);
            called.map_err(|error| error.to_string())
        });
        match called {
            Ok(call) => {
                this.requests.insert(call, request.id);
                this.calls.insert(request.id, call);
            }
            Err(detail) => {
                let error = ServerError::new(io::ErrorKind::NotConnected, detail);
                this.refused.push_back((request.id, error));
            }
        }
        Ok(())
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }
}

fn octets(message: &impl Serialize) -> Result<Vec<u8>, String> {
    postcard::to_stdvec(message).map_err(|error| error.to_string())
}

/// The end that is called, by all callers of its access points: hand it to a `tarpc` channel.
#[derive(Debug)]
pub struct ServerTransport<Req, Resp> {
    driven: Driven,
    /// Requests have numbers of this end: those of two callers may be the same.
    next: u64,
    exchanges: BTreeMap<u64, (Exchange, u64)>,
    requests: BTreeMap<Exchange, u64>,
    marker: PhantomData<fn(Req) -> Resp>,
}

impl<Req, Resp> ServerTransport<Req, Resp> {
    /// Answers at the access points that the exchanger serves.
    ///
    /// # Errors
    /// The runtime or the kernel has no room for a descriptor.
    pub fn new(exchanger: Exchanger) -> Result<Self, Error> {
        Ok(Self {
            driven: Driven::new(exchanger)?,
            next: 0,
            exchanges: BTreeMap::new(),
            requests: BTreeMap::new(),
            marker: PhantomData,
        })
    }
}

impl<Req: DeserializeOwned, Resp> Stream for ServerTransport<Req, Resp> {
    type Item = Result<ClientMessage<Req>, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            let message = match ready!(this.driven.poll_event(cx))? {
                Event::Called { exchange, octets } => {
                    let Ok(mut request) = postcard::from_bytes::<Request<Req>>(&octets) else {
                        this.driven.exchanger.abandon(exchange);
                        continue;
                    };
                    this.exchanges.insert(this.next, (exchange, request.id));
                    this.requests.insert(exchange, this.next);
                    request.id = this.next;
                    this.next += 1;
                    ClientMessage::Request(request)
                }
                Event::Cancelled { exchange } => {
                    let Some(request_id) = this.requests.remove(&exchange) else {
                        continue;
                    };
                    this.exchanges.remove(&request_id);
                    ClientMessage::Cancel {
                        trace_context: tarpc::trace::Context::default(),
                        request_id,
                    }
                }
                Event::Announced { .. } | Event::Ended { .. } => continue,
            };
            return Poll::Ready(Some(Ok(message)));
        }
    }
}

impl<Req, Resp: Serialize> Sink<Response<Resp>> for ServerTransport<Req, Resp> {
    type Error = Error;

    fn poll_ready(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn start_send(mut self: Pin<&mut Self>, mut response: Response<Resp>) -> Result<(), Error> {
        let this = &mut *self;
        // It was cancelled, else.
        let Some((exchange, id)) = this.exchanges.remove(&response.request_id) else {
            return Ok(());
        };
        this.requests.remove(&exchange);
        response.request_id = id;
        let replied = octets(&response).map(|octets| this.driven.exchanger.reply(exchange, octets));
        if !matches!(replied, Ok(Ok(()))) {
            this.driven.exchanger.abandon(exchange);
        }
        Ok(())
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }
}
