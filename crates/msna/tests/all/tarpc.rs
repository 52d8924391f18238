//! tarpc over REX: requests in flight at once, cancelled, and past their deadline.
use std::future::Future;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use ::tarpc::client::{Config, RpcError};
use ::tarpc::context::{self, Context};
use ::tarpc::server::{BaseChannel, Channel};
use cellgate_msna::rpc::{CallerTransport, ServerTransport};
use cellgate_msna::{Access, Address, Call, Exchanger, Node, NodeConfig, Sap};
use futures::StreamExt;
use futures::future::join_all;
use tokio::runtime::Builder;
use tokio::task::{LocalSet, spawn_local};

use crate::common::{Daemon, PATIENCE};

const SERVER: Address = Address {
    host: Ipv4Addr::new(10, 0, 0, 2),
    sap: Sap(20),
};

#[tarpc::service]
trait Service {
    async fn echo(octets: Vec<u8>) -> Vec<u8>;
    async fn late(ms: u64) -> u64;
}

#[derive(Clone, Default)]
struct Served {
    begun: Arc<AtomicU32>,
    ended: Arc<AtomicU32>,
}

impl Service for Served {
    async fn echo(self, _: Context, octets: Vec<u8>) -> Vec<u8> {
        octets
    }

    async fn late(self, _: Context, ms: u64) -> u64 {
        self.begun.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(ms)).await;
        self.ended.fetch_add(1, Ordering::Relaxed);
        ms
    }
}

fn exchanger(daemon: &Daemon, host: Ipv4Addr, itf: &str) -> Exchanger {
    let config = NodeConfig::new(host, Access::Cells)
        .on(itf)
        .at(daemon.path());
    Exchanger::new(Node::open(config).unwrap(), Call::default()).unwrap()
}

fn run<T>(what: impl Future<Output = T>) -> T {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, what)
}

/// Runs a client beside a server.
fn with_server(client: impl AsyncFnOnce(ServiceClient, Served)) {
    let daemon = Daemon::start();
    let served = Served::default();
    let (ready, is_ready) = std::sync::mpsc::channel();
    let (stop, stopped) = futures::channel::oneshot::channel::<()>();
    std::thread::scope(|scope| {
        let (daemon, service) = (&daemon, served.clone());
        scope.spawn(move || {
            run(async move {
                let mut server = exchanger(daemon, SERVER.host, "b");
                server.serve(SERVER.sap);
                let transport = ServerTransport::new(server).unwrap();
                ready.send(()).unwrap();
                let channel = BaseChannel::with_defaults(transport);
                let calls = channel.execute(service.serve());
                let all = calls.for_each(async |call| drop(spawn_local(call)));
                spawn_local(all);
                let _ = stopped.await;
            });
        });
        is_ready.recv().unwrap();
        run(async {
            let caller = exchanger(daemon, Ipv4Addr::new(10, 0, 0, 1), "a");
            let transport = CallerTransport::new(caller, SERVER).unwrap();
            let new = ServiceClient::new(Config::default(), transport);
            spawn_local(new.dispatch);
            client(new.client, served).await;
        });
        stop.send(()).unwrap();
    });
}

fn within(time: Duration) -> Context {
    let mut context = context::current();
    context.deadline = Instant::now() + time;
    context
}

#[test]
fn requests_in_flight_at_once_have_their_responses() {
    with_server(async |client, _| {
        for len in [0, 1, 5_000, 1_000_000] {
            let octets = vec![len as u8 ^ 0x5a; len];
            let echoed = client.echo(within(PATIENCE), octets.clone()).await.unwrap();
            assert!(echoed == octets, "{len} octets");
        }
        let many = (0..50_u8).map(|n| {
            let client = client.clone();
            async move { client.echo(within(PATIENCE), vec![n; 2_000]).await }
        });
        for (n, echoed) in join_all(many).await.into_iter().enumerate() {
            assert_eq!(echoed.unwrap(), vec![n as u8; 2_000]);
        }
        // Those that take less time come back before those that take more.
        let order = std::cell::RefCell::new(Vec::new());
        let late = [300, 20, 150].map(|ms| {
            let (client, order) = (client.clone(), &order);
            async move {
                let came = client.late(within(PATIENCE), ms).await.unwrap();
                order.borrow_mut().push(came);
            }
        });
        join_all(late).await;
        assert_eq!(order.into_inner(), [20, 150, 300]);
    });
}

#[test]
fn a_request_that_is_dropped_or_late_is_cancelled_at_the_server() {
    with_server(async |client, served| {
        client.echo(within(PATIENCE), Vec::new()).await.unwrap();
        let dropped = tokio::time::timeout(
            Duration::from_millis(300),
            client.late(within(PATIENCE), 60_000),
        );
        assert!(dropped.await.is_err());
        let late = client
            .late(within(Duration::from_millis(300)), 60_000)
            .await;
        assert!(matches!(late, Err(RpcError::DeadlineExceeded)), "{late:?}");
        // The transport goes on, and neither is executed to its end.
        assert_eq!(client.late(within(PATIENCE), 1).await.unwrap(), 1);
        let counts = [&served.begun, &served.ended].map(|count| count.load(Ordering::Relaxed));
        assert_eq!(counts, [3, 1]);
    });
}

#[test]
fn what_cannot_be_sent_fails_and_the_next_goes() {
    with_server(async |client, _| {
        let long = client.echo(within(PATIENCE), vec![0; 1 << 21]).await;
        assert!(matches!(long, Err(RpcError::Server(_))), "{long:?}");
        assert_eq!(client.echo(within(PATIENCE), vec![1]).await.unwrap(), [1]);
    });
}

#[test]
fn the_example_greets() {
    let daemon = Daemon::start();
    let test = std::env::current_exe().unwrap();
    let built = test.parent().and_then(std::path::Path::parent).unwrap();
    let output = std::process::Command::new(built.join("examples/rpc"))
        .env("CELLGATE_SOCKET", daemon.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(output.stdout, b"good morning, Cambridge\n");
    let example = include_str!("../../examples/rpc.rs");
    assert!(example.lines().count() < 60);
}
