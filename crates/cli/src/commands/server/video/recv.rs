//! `cellgate stream recv`.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use cellgate::{Connection, Error, Interest};
use cellgate_core::adapter::DiscardCounts;
use cellgate_core::contract::{CellRate, TrafficContract};
use cellgate_core::terminal::video::{OnLoss, PACK, Playout, PlayoutTerms, Recovery};
use cellgate_core::{Time, TimeWord};
use cellgate_host::clock::MonotonicClock;
use cellgate_host::sys::Signals;
use cellgate_report::output::{Exit, print_json_line};
use clap::ValueEnum;
use serde_json::json;

use super::sink::{Named, Plays, Sink, Who};
use super::told::{Present, line, tell, word};
use super::{Once, cpu, heed, of_aal5, pack, scheduled};
use crate::commands::server::lost::Lost;
use crate::commands::server::recv::seconds;
use crate::commands::server::transfer::Endpoint;
use crate::commands::server::{Misuse, interrupted};

/// How long a wait is that looks for signals between.
const LOOK: Duration = Duration::from_millis(50);
/// Packets due within so long leave together: a wake-up for each would be 5,000 a second.
const GRAIN_NS: u64 = 1_000_000;
/// The longest latency.
const LATENCY_NS_MAX: u64 = 60_000_000_000;

/// Play a transport stream in the sender's time
///
/// Each packet is played --latency behind the arrival of one that nothing has delayed, as far from
/// the others as they were sent. The sender's clock is recovered, so that the buffer neither
/// empties nor fills, whatever the clocks drift. Under a contract with bursts (`vbr`) their wait
/// for the sustained rate is added to the latency, and told.
///
/// Each second a line tells how it is; with --json an object does so at the end. A stream that
/// jumps, begins anew or stands still is followed anew, and the latency stays. Exit code 0 also
/// where the player has gone away.
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  $ cellgate stream recv --vc b.0.60 --contract cbr,aal5:pcr=10Mbps -o film.ts
  $ cellgate stream recv --vc b.0.60 --contract cbr,aal5:pcr=10Mbps --to test
  $ cellgate stream recv --vc b.0.60 --contract ubr,aal5 --to http:127.0.0.1:8081")]
pub(crate) struct Args {
    #[command(flatten)]
    endpoint: Endpoint,
    /// Where it is played: `-` for standard output, udp:ADDRESS:PORT, a file, http:ADDRESS:PORT, a
    /// page for browsers, or test:FPS, a display that judges each frame of the camera `test`
    #[arg(short = 'o', long, value_name = "SINK", default_value = "-")]
    to: Named,
    #[command(flatten)]
    who: Who,
    /// From the arrival of a packet that nothing has delayed to when it is played
    #[arg(long, value_name = "TIME", default_value = "200ms", value_parser = latency)]
    latency: TimeWord,
    /// How the sender's clock is recovered: by timestamps, by the buffer's fill, or not
    #[arg(long, default_value = "pcr")]
    clock: Clock,
    /// Drop lost packets, or mark their places by packets with the error flag
    #[arg(long, default_value = "drop")]
    lost: OnLost,
    /// Transport packets of a PDU that is lost
    #[arg(long, value_name = "N", default_value_t = PACK, value_parser = pack)]
    pack: usize,
    /// PDUs are not numbered in the user-to-user octet: the peer is one of H.222.1
    #[arg(long)]
    plain: bool,
    /// End when nothing has come for so long
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,
    /// From one line to the next
    #[arg(short, long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    interval: Duration,
    /// CPU time of its own to ask the server for, in each 10ms; 0s: none
    #[arg(long, value_name = "TIME", default_value = "500us", value_parser = cpu)]
    cpu: TimeWord,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Clock {
    Pcr,
    Occupancy,
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OnLost {
    Drop,
    Mark,
}

fn latency(text: &str) -> Result<TimeWord, String> {
    let time: TimeWord = text.parse().map_err(|error| format!("{error}"))?;
    match (1_000_000..=LATENCY_NS_MAX).contains(&time.0) {
        true => Ok(time),
        false => Err("expected 1ms to 60s".to_owned()),
    }
}

impl Args {
    /// How a stream under this contract is played.
    fn terms(&self, contract: &TrafficContract) -> PlayoutTerms {
        let receive = contract.receive.unwrap_or_default();
        let bursts_ns = match contract.category.is_real_time() || receive.scr.is_some() {
            true => receive.burst_tolerance_ns(CellRate::OC3),
            false => 0,
        };
        let latency_ns = self.latency.0;
        let cell_s = u64::from(receive.peak().on(CellRate::OC3).cell_s());
        PlayoutTerms {
            latency_ns,
            bursts_ns,
            recovery: match self.clock {
                Clock::Pcr => Recovery::Timestamps,
                Clock::Occupancy => Recovery::Occupancy,
                Clock::None => Recovery::Off,
            },
            on_loss: match self.lost {
                OnLost::Drop => OnLoss::Drop,
                OnLost::Mark => OnLoss::Mark,
            },
            pack: self.pack as u32,
            numbered: !self.plain,
            packets_max: PlayoutTerms::room(cell_s, latency_ns, bursts_ns),
        }
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let json = args.endpoint.server.json();
    if !matches!(args.to, Named::Http(_)) && (args.who.public || !args.who.host.is_empty()) {
        let alone = "--public and --host are for a page: say --to http:ADDRESS:PORT";
        return Err(Misuse(alone.to_owned()).into());
    }
    if json && args.to == Named::File("-".into()) {
        let both = "--json needs --to: standard output has the stream without";
        return Err(Misuse(both.to_owned()).into());
    }
    let connection = args.endpoint.receive()?;
    let contract = of_aal5(&connection)?;
    connection.receive_max_sdu().ok_or(Error::DoesNotReceive)?;
    let before = match args.endpoint.is_taken() {
        true => connection.stats()?.pdus_discarded,
        false => DiscardCounts::default(),
    };
    let sink = Sink::open(&args.to, &args.who)?;
    let terms = args.terms(&contract);
    let signals = Signals::listen()?;
    let scheduling = scheduled(&connection, args.cpu);
    eprintln!(
        "receiving on {} under {}; {scheduling}",
        connection.address(),
        connection.contract()
    );
    let bursts = TimeWord(terms.bursts_ns.next_multiple_of(1_000));
    match bursts.0 {
        0 => eprintln!("latency {}", args.latency),
        _ => eprintln!(
            "latency {}, and {bursts} for bursts of the contract",
            args.latency
        ),
    }
    let mut player = Player {
        playout: Playout::new(terms),
        sink,
        once: Once::default(),
        late_max_ns: 0,
    };
    let gone = player.play(&connection, &signals, args)?;
    let now = MonotonicClock.now();
    let present = player.present(now);
    let counts = *player.playout.counts();
    let dropped = player.sink.dropped();
    let watched = player.sink.watched();
    let shown = player.sink.end()?;
    let (address, contract) = (connection.address(), connection.contract());
    let lost = Lost::at_the_end_of(connection, &before)?;
    if gone == Plays::Gone {
        eprintln!(
            "cellgate: the player has gone, behind {} packets",
            counts.released
        );
    }
    eprintln!("{}", line(&counts, &present, None));
    if lost.pdus() > 0 {
        eprintln!("cellgate: {}", lost.words());
    }
    if let Some(shown) = &shown {
        eprintln!(
            "cellgate: of the frames {} were on time, {} late, {} missing; {} packets are missing",
            shown.on_time, shown.late, shown.missing, shown.missing_packets
        );
    }
    if json {
        print_json_line(&json!({
            "address": address,
            "contract": contract,
            "scheduling": scheduling,
            "clock": word(terms.recovery),
            "latency_ns": terms.latency_ns,
            "bursts_ns": terms.bursts_ns,
            "counts": counts,
            "fill_ns": present.fill_ns,
            "clock_ppb": present.clock_ppb,
            "rate_ppb": present.rate_ppb,
            "released_late_max_ns": player.late_max_ns,
            "player_dropped": dropped,
            "player_gone": gone == Plays::Gone,
            "display": shown,
            "page": watched,
            "discarded": lost.discarded,
            "dismissed": lost.dismissed,
        }))?;
    }
    Ok(Exit::Ok)
}

struct Player {
    playout: Playout,
    sink: Sink,
    once: Once,
    /// From when a packet that was there was due to its release, at most.
    late_max_ns: u64,
}

impl Player {
    fn present(&self, now: Time) -> Present {
        Present {
            fill_ns: self.playout.fill_ns(now),
            clock_ppb: self.playout.clock_ppb(),
            rate_ppb: self.playout.rate_ppb(),
        }
    }

    /// Plays until nothing comes any more, somebody wants the command to end, or the player goes.
    fn play(
        &mut self,
        connection: &Connection,
        signals: &Signals,
        args: &Args,
    ) -> anyhow::Result<Plays> {
        let (mut heard, mut shown) = (Instant::now(), Instant::now());
        loop {
            while let Some(pdu) = next(connection)? {
                heard = Instant::now();
                let received = pdu.received();
                self.playout.handle(received.time, received.uu, &pdu);
            }
            let now = MonotonicClock.now();
            while let Some(released) = self.playout.poll(now) {
                self.late_max_ns = self.late_max_ns.max(now.since_ns(released.due));
                self.sink.take(now, &released);
            }
            if self.sink.flush() == Plays::Gone {
                return Ok(Plays::Gone);
            }
            tell(&mut self.once, self.playout.counts());
            self.once.tell(
                self.sink.dropped() > 0,
                "the player does not keep up: packets that it has no room for are left out",
            );
            if shown.elapsed() >= args.interval {
                shown = Instant::now();
                heed(connection, args.cpu)?;
                let present = self.present(now);
                self.sink.tell(self.playout.counts(), &present);
                let shown = self.sink.shown();
                eprintln!("{}", line(self.playout.counts(), &present, shown));
            }
            let next = self.playout.next_deadline();
            let is_silent = args.timeout.is_some_and(|most| heard.elapsed() >= most);
            if is_silent && next.is_none() {
                return Ok(Plays::On);
            }
            let due = next.map(|due| due.max(now.plus_ns(GRAIN_NS)));
            let wait = due.map_or(LOOK, |due| Duration::from_nanos(due.since_ns(now)));
            if connection.arm(Interest::RECEIVE)?
                && interrupted(signals, Some(connection.as_fd()), wait.min(LOOK))
                || interrupted(signals, None, Duration::ZERO)
            {
                return Ok(Plays::On);
            }
        }
    }
}

/// The next PDU, if there is one.
fn next(connection: &Connection) -> anyhow::Result<Option<cellgate::Pdu<'_>>> {
    match connection.try_next_pdu() {
        Ok(pdu) => Ok(Some(pdu)),
        Err(Error::WouldBlock(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_have_bounds() {
        assert_eq!(latency("200ms"), Ok(TimeWord(200_000_000)));
        for text in ["0s", "999us", "61s", "soon"] {
            assert!(latency(text).is_err(), "{text}");
        }
    }
}
