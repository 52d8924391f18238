use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use cellgate_host::sys::{Heard, Signals};
use cellgate_report::output::{Exit, print, print_json_line};
use futures::{Sink, Stream, StreamExt};
use serde_json::json;
use tarpc::client::{Config, NewClient};
use tarpc::context::{self, Context};
use tarpc::server::{BaseChannel, Channel};
use tarpc::{ClientMessage, Response};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::task::{LocalSet, spawn_local};

use super::over::{address, called, caller, framed};
use super::{Ask, Over, Serve};
use crate::commands::server::Server;
use crate::commands::server::msna::times::Times;

/// Calls with octets.
#[tarpc::service]
trait Octets {
    /// Returns them.
    async fn echo(octets: Vec<u8>) -> Vec<u8>;
    /// Returns how many there were.
    async fn sink(octets: Vec<u8>) -> usize;
}

#[derive(Clone)]
struct Served;

impl Octets for Served {
    async fn echo(self, _: Context, octets: Vec<u8>) -> Vec<u8> {
        octets
    }

    async fn sink(self, _: Context, octets: Vec<u8>) -> usize {
        octets.len()
    }
}

/// The kinds of calls.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Echo,
    Sink,
}

/// A signal is heard within this.
const TURN: Duration = Duration::from_millis(100);

fn run<T>(what: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, what)
}

pub(super) fn serve(server: &Server, args: &Serve) -> anyhow::Result<Exit> {
    let signals = Signals::listen()?;
    run(async {
        match args.over {
            Over::Msna => {
                let at = address(&args.at)?;
                let node = args.place.node_of(server, at.host)?;
                spawn_local(answer(called(node, at)?));
            }
            Over::Tcp => {
                let listener = TcpListener::bind(&args.at).await;
                let listener = listener.with_context(|| args.at.clone())?;
                spawn_local(accept(listener));
            }
        }
        eprintln!("serving calls");
        while signals.heard().iter().all(|heard| *heard == Heard::Child) {
            tokio::time::sleep(TURN).await;
        }
        Ok(Exit::Ok)
    })
}

async fn accept(listener: TcpListener) {
    loop {
        match listener
            .accept()
            .await
            .map_err(Into::into)
            .and_then(|(stream, _)| framed(stream))
        {
            Ok(transport) => drop(spawn_local(answer(transport))),
            // One that has gone again, or no descriptor is left for it.
            Err(_) => tokio::time::sleep(TURN).await,
        }
    }
}

/// Answers all calls of one transport.
async fn answer<T, E>(transport: T)
where
    T: Stream<Item = Result<ClientMessage<OctetsRequest>, E>>
        + Sink<Response<OctetsResponse>, Error = E>
        + 'static,
    E: std::error::Error + Send + Sync + 'static,
{
    let calls = BaseChannel::with_defaults(transport).execute(Served.serve());
    calls.for_each(async |call| drop(spawn_local(call))).await;
}

pub(super) fn ask(server: &Server, args: &Ask, kind: Kind) -> anyhow::Result<Exit> {
    let signals = Signals::listen()?;
    run(async {
        let client = match args.over {
            Over::Msna => {
                let to = address(&args.to)?;
                let node = args.place.node(server, Some(to))?;
                begun(OctetsClient::new(Config::default(), caller(node, to)?))
            }
            Over::Tcp => {
                let stream = TcpStream::connect(&args.to).await;
                let stream = stream.with_context(|| args.to.clone())?;
                begun(OctetsClient::new(Config::default(), framed(stream)?))
            }
        };
        let mut tally = Tally::new(args)?;
        for _ in 0..args.count {
            tally.call(&client, kind).await?;
            if signals.heard().iter().any(|heard| *heard != Heard::Child) {
                break;
            }
        }
        tally.tell(server)
    })
}

/// A client whose requests leave.
fn begun<D: Future<Output = Result<(), E>> + 'static, E>(
    made: NewClient<OctetsClient, D>,
) -> OctetsClient {
    let dispatch = made.dispatch;
    spawn_local(async { drop(dispatch.await) });
    made.client
}

/// Calls so far.
struct Tally<'a> {
    args: &'a Ask,
    octets: Vec<u8>,
    calls: u64,
    times: Times,
    failure: Option<String>,
}

impl<'a> Tally<'a> {
    fn new(args: &'a Ask) -> anyhow::Result<Self> {
        Ok(Self {
            args,
            octets: (0..args.size)
                .map(|at| (at * 7 + args.size) as u8)
                .collect(),
            calls: 0,
            times: Times::new()?,
            failure: None,
        })
    }

    async fn call(&mut self, client: &OctetsClient, kind: Kind) -> anyhow::Result<()> {
        let mut context = context::current();
        let began = Instant::now();
        context.deadline = began + self.args.wait;
        self.calls += 1;
        let octets = self.octets.clone();
        let replied = match kind {
            Kind::Echo => client
                .echo(context, octets)
                .await
                .map(|back| back == self.octets),
            Kind::Sink => client
                .sink(context, octets)
                .await
                .map(|len| len == self.octets.len()),
        };
        match replied {
            Ok(true) => self.times.record(began.elapsed())?,
            Ok(false) => return Err(anyhow!("other octets came back")),
            Err(error) => self.failure = Some(error.to_string()),
        }
        Ok(())
    }

    fn tell(&self, server: &Server) -> anyhow::Result<Exit> {
        let replied = self.times.count();
        let over = match self.args.over {
            Over::Msna => "msna",
            Over::Tcp => "tcp",
        };
        let failed = self.calls - replied;
        if server.json() {
            let mut report = self.times.json();
            report.extend([
                ("to".to_owned(), json!(self.args.to)),
                ("over".to_owned(), json!(over)),
                ("octets".to_owned(), json!(self.args.size)),
                ("calls".to_owned(), json!(self.calls)),
                ("replied".to_owned(), json!(replied)),
                ("failed".to_owned(), json!(failed)),
            ]);
            print_json_line(&report)?;
        } else {
            let (calls, size, to) = (self.calls, self.args.size, &self.args.to);
            let text = self.times.text();
            print(&format!(
                "{calls} calls of {size} octets to {to} over {over}: {replied} replied, \
                 {failed} failed\n{text}"
            ))?;
        }
        if let Some(failure) = &self.failure {
            eprintln!("the last failure: {failure}");
        }
        Ok(if failed == 0 { Exit::Ok } else { Exit::Failed })
    }
}
