//! A service and its client, on interfaces `a` and `b` of one daemon, which are joined:
//! `cargo run -p cellgate-msna --features tarpc --example rpc`.

use cellgate_msna::rpc::{CallerTransport, ServerTransport};
use cellgate_msna::{Access, Call, Error, Exchanger, Node, NodeConfig, Sap};
use futures::StreamExt;
use tarpc::client::Config;
use tarpc::context::{self, Context};
use tarpc::server::{BaseChannel, Channel};
use tokio::runtime::Builder;
use tokio::task::{LocalSet, spawn_local};

#[tarpc::service]
trait Greeter {
    async fn greet(name: String) -> String;
}

#[derive(Clone)]
struct Warm;

impl Greeter for Warm {
    async fn greet(self, _: Context, name: String) -> String {
        format!("good morning, {name}")
    }
}

fn host(number: [u8; 4], interface: &str) -> Result<Exchanger, Error> {
    let config = NodeConfig::new(number.into(), Access::Cells).on(interface);
    Exchanger::new(Node::open(config)?, Call::default())
}

async fn serve(mut exchanger: Exchanger) -> Result<(), Error> {
    exchanger.serve(Sap(20));
    let calls = BaseChannel::with_defaults(ServerTransport::new(exchanger)?).execute(Warm.serve());
    calls.for_each(async |call| drop(spawn_local(call))).await;
    Ok(())
}

async fn call(exchanger: Exchanger) -> Result<String, Box<dyn std::error::Error>> {
    let caller = CallerTransport::new(exchanger, "10.0.0.2:20".parse()?)?;
    let greeter = GreeterClient::new(Config::default(), caller);
    spawn_local(greeter.dispatch);
    let greeting = greeter
        .client
        .greet(context::current(), "Cambridge".to_owned());
    Ok(greeting.await?)
}

fn run<T>(what: impl Future<Output = T>) -> T {
    let runtime = Builder::new_current_thread().enable_all().build();
    LocalSet::new().block_on(&runtime.expect("a runtime"), what)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A thread in place of another machine.
    std::thread::spawn(|| run(async { serve(host([10, 0, 0, 2], "b")?).await }));
    println!("{}", run(async { call(host([10, 0, 0, 1], "a")?).await })?);
    Ok(())
}
