//! `cellgate stream`: a transport stream of MPEG-2, from a camera to a display in time.

mod recv;
mod send;
mod sink;
mod source;
mod told;
#[cfg(feature = "page")]
mod web;

use std::time::Duration;

use cellgate::{Connection, Error, Indication};
use cellgate_core::TimeWord;
use cellgate_core::contract::{Aal, TrafficContract};
use cellgate_host::sys::class_of_thread;
use cellgate_report::output::Exit;
use clap::{Args, Subcommand};

use super::Misuse;

/// The period in which CPU time is reserved.
const PERIOD: Duration = Duration::from_millis(10);

/// Video over a connection: what a camera makes is played in time
///
/// Both ends take packets of MPEG-2 transport streams, as ffmpeg makes and plays them.
#[derive(Args)]
pub(crate) struct Command {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Send(send::Args),
    Recv(recv::Args),
}

pub(crate) fn run(command: &Command) -> anyhow::Result<Exit> {
    match &command.verb {
        Verb::Send(args) => send::run(args),
        Verb::Recv(args) => recv::run(args),
    }
}

/// How an end is scheduled, in words: its class, which is a real-time one as long as it keeps to
/// CPU time of its own, if the server may give it.
fn scheduled(connection: &Connection, cpu: TimeWord) -> String {
    if cpu.0 == 0 {
        return format!(
            "{}: no CPU time of its own was asked for",
            class_of_thread()
        );
    }
    let told = connection.reserve_cpu(Duration::from_nanos(cpu.0), PERIOD);
    match told {
        Ok(scheduling) => format!("class {scheduling}: {cpu} of CPU time in each 10ms"),
        Err(error) => format!("{}: no CPU time of its own: {error}", class_of_thread()),
    }
}

/// Heeds what the server tells: one that comes after another has given nobody CPU time.
fn heed(connection: &Connection, cpu: TimeWord) -> Result<(), Error> {
    while let Some(indication) = connection.next_indication()? {
        match indication {
            Indication::Restarted => {
                eprintln!(
                    "cellgate: the server is a new one; {}",
                    scheduled(connection, cpu)
                );
            }
            Indication::AtRisk { reason } => {
                eprintln!("cellgate: the contract cannot be kept for the time being: {reason}");
            }
            _ => {}
        }
    }
    Ok(())
}

/// CPU time that can be asked for.
fn cpu(text: &str) -> Result<TimeWord, String> {
    let time: TimeWord = text.parse().map_err(|error| format!("{error}"))?;
    match u128::from(time.0) <= PERIOD.as_nanos() {
        true => Ok(time),
        false => Err("expected 10ms at most: it is a part of each 10ms".to_owned()),
    }
}

/// The contract of a connection, which has AAL5: no other AAL tells where a PDU ends and what its
/// number is.
fn of_aal5(connection: &Connection) -> anyhow::Result<TrafficContract> {
    let contract = connection.contract().parse::<TrafficContract>()?;
    if contract.aal != Some(Aal::Aal5) {
        let text = format!("`{contract}` is not AAL5, which a video's PDUs are; name aal5 in it");
        return Err(Misuse(text).into());
    }
    Ok(contract)
}

/// Packets of a PDU.
fn pack(text: &str) -> Result<usize, String> {
    use cellgate_core::terminal::video::PACK_MAX;
    match text.parse() {
        Ok(packets) if (1..=PACK_MAX).contains(&packets) => Ok(packets),
        _ => Err(format!("expected 1 to {PACK_MAX} packets")),
    }
}

/// Warnings that were printed: each is printed once.
#[derive(Default)]
struct Once(Vec<&'static str>);

impl Once {
    fn tell(&mut self, is_so: bool, text: &'static str) {
        if is_so && !self.0.contains(&text) {
            eprintln!("cellgate: {text}");
            self.0.push(text);
        }
    }
}
