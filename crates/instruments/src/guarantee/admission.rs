//! Admission is honest: as many connections as it allows, each keeps its contract; one more is
//! refused, with an offer that is then admitted. What is filled is a line, or the machine itself.

use anyhow::Context;
use cellgate::{Resource, TrafficContract};
use cellgate_host::clock::MonotonicClock;
use cellgate_report::output::table;
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;
use serde_json::json;

use super::Tried;
use super::actor::{NoRoom, Promise, Task};
use super::fill::Short;
use super::ground::{Ground, OC3};
use super::pair::{Acted, Cast, Pair};
use super::rule::Judgement;

/// Octets of SDU that are drawn.
const SDUS: [u16; 7] = [128, 256, 1_024, 1_500, 4_096, 9_180, 16_384];
/// Rates that are drawn lie between the least and so much more, in octets/s.
const OCTET_S: (u64, u64) = (100_000, 1_900_000);
/// PDUs/s of a connection, at most: what an application's process does is not admission's.
const PDU_S_MAX: u64 = 4_000;
/// Pairs that are drawn.
const DRAWN: u32 = 8;
/// Octets/s that no line has left.
const TOO_MUCH: u64 = 1_000_000_000;
/// The largest SDU of what asks for too much.
const REST_SDU: u16 = 9_180;
const SECONDS: f64 = 60.0;
const PREPARE_NS: u64 = 300_000_000;

/// `cellgate guarantee admission`.
#[derive(clap::Args)]
#[group(skip)]
pub struct Args {
    #[command(flatten)]
    pub(super) common: super::Args,
    /// What sizes, rates and directions are drawn by
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Fill this of the machine, on lines that are never short [default: fill a line]
    #[arg(long, value_name = "WHAT", conflicts_with = "socket")]
    resource: Option<Short>,
}

impl Args {
    /// That of a daemon of its own.
    pub(super) fn config(&self) -> String {
        self.resource.map_or(OC3.to_owned(), Short::config)
    }
}

/// The pairs, and what was asked and answered on the way.
#[derive(Default)]
pub(super) struct Full {
    pub(super) pairs: Vec<Pair>,
    pub(super) refusals: Vec<(String, NoRoom)>,
    pub(super) errors: Vec<String>,
    /// Why this machine cannot be filled so, if it cannot.
    pub(super) void: Option<String>,
    /// Of the resource that was filled, what is reserved and what there is.
    pub(super) filled: Option<(u64, u64)>,
}

pub(super) fn run(args: &Args, ground: &Ground) -> anyhow::Result<Tried> {
    let Full {
        mut pairs,
        refusals,
        errors,
        void,
        filled,
    } = match args.resource {
        Some(short) => short.fill(args.seed, ground)?,
        None => fill(args.seed, ground)?,
    };
    let begin = MonotonicClock.now().plus_ns(PREPARE_NS);
    let task = Task::new(begin, begin.plus_ns(args.common.ns(SECONDS)));
    for pair in &mut pairs {
        pair.tell(&task)?;
    }
    super::wait_until(begin);
    let watch = ground.watch()?;
    let acted: Result<Vec<Acted>, _> = pairs
        .into_iter()
        .map(|pair| pair.done(task, begin))
        .collect();
    let stalls = watch.end()?;
    let acted = acted?;
    args.common
        .draw("As many connections as admission allows", &acted)?;
    let mut judgements = vec![Judgement {
        errors,
        void,
        ..Judgement::default()
    }];
    let mut rows = vec![head()];
    let mut connections = Vec::new();
    for acted in &acted {
        let Some(judgement) = acted.judge(&stalls) else {
            continue;
        };
        rows.push(row(acted, &judgement));
        connections.push(acted.with_counts(json!({
            "name": acted.cast.name,
            "from": ground.ends[acted.cast.from],
            "sdu": acted.cast.sdu,
            "promised_octet_s": acted.cast.promise.map(|promise| promise.octet_s()),
            "least": judgement.least,
            "most": judgement.most,
        })));
        judgements.push(judgement);
    }
    let mut text = table(&rows);
    for (what, no_room) in &refusals {
        text += &format!("refused   {what}: {}\n", no_room.text);
    }
    let refused: Vec<_> = refusals
        .iter()
        .map(|(what, no_room)| {
            json!({
                "asked": what,
                "resource": no_room.resource,
                "offer": no_room.offer,
            })
        })
        .collect();
    if let Some((reserved, capacity)) = filled {
        text += &format!("filled    {reserved} of {capacity}\n");
    }
    let figures = json!({
        "seed": args.seed,
        "connections": connections,
        "refused": refused,
        "filled": filled,
    });
    Ok(Tried::of(text, figures, judgements, &stalls))
}

/// Opens what is drawn, and in each direction the rest of what there is.
fn fill(seed: u64, ground: &Ground) -> anyhow::Result<Full> {
    let mut rng = Pcg64Mcg::new(u128::from(seed) << 1 | 1);
    let mut full = Full::default();
    for number in 0..DRAWN {
        let sdu = SDUS[rng.next_u32() as usize % SDUS.len()];
        let octet_s = OCTET_S.0 + rng.next_u64() % OCTET_S.1;
        let octet_s = octet_s.min(PDU_S_MAX * u64::from(sdu));
        let from = rng.next_u32() as usize % 2;
        full.ask(ground, cast(number, from, Promise::of(octet_s, sdu)))?;
    }
    for from in 0..2 {
        let number = DRAWN + from as u32 * 2;
        let refused = full.refusals.len();
        full.ask(ground, cast(number, from, Promise::of(TOO_MUCH, REST_SDU)))?;
        if full.refusals.len() == refused {
            let text = format!("{TOO_MUCH} octets/s were admitted");
            full.errors.push(text);
        }
    }
    for from in 0..2 {
        let more = cast(DRAWN + 4, from, Promise::of(OCTET_S.0, REST_SDU));
        match Pair::open(ground, more.clone())? {
            Err(no_room) => full.refusals.push((what(&more), no_room)),
            // The rest was for want of CPU time, say: it may have left bandwidth one way.
            Ok(_) if full.bound_is_machine() => {}
            Ok(_) => full
                .errors
                .push(format!("one more was admitted: {}", what(&more))),
        }
    }
    Ok(full)
}

pub(super) fn cast(number: u32, from: usize, promise: Promise) -> Cast {
    Cast {
        from,
        ..Cast::guaranteed(format!("C{}", number + 1), number, promise)
    }
}

pub(super) fn what(cast: &Cast) -> String {
    let octet_s = cast.promise.map_or(0.0, |promise| promise.octet_s());
    let way = if cast.from == 0 { "out" } else { "back" };
    format!("{octet_s:.0} octets/s {way} in SDUs of {} octets", cast.sdu)
}

impl Full {
    /// Opens a pair; if one of its ends is refused, what was offered instead. Both ends draw on the
    /// one machine: when the first has what it was offered, the second may have its own offer.
    fn ask(&mut self, ground: &Ground, cast: Cast) -> anyhow::Result<()> {
        const ENDS: usize = 2;
        let mut cast = cast;
        for _ in 0..=ENDS {
            let no_room = match Pair::open(ground, cast.clone())? {
                Ok(pair) => {
                    self.pairs.push(pair);
                    return Ok(());
                }
                Err(no_room) => no_room,
            };
            let offer = no_room.offer.clone();
            self.refusals.push((what(&cast), no_room));
            let Some(offer) = offer else {
                return Ok(());
            };
            let promise = promised(&offer)?;
            cast = Cast {
                promise: Some(promise),
                sdu: promise.sdu,
                ..cast
            };
        }
        let text = format!("what was offered to both ends is refused: {}", what(&cast));
        self.errors.push(text);
        Ok(())
    }

    /// Whether something else than an interface's bandwidth was short.
    fn bound_is_machine(&self) -> bool {
        let bandwidth = [Resource::TransmitBandwidth, Resource::ReceiveBandwidth];
        let of_machine = |(_, no_room): &(String, NoRoom)| !bandwidth.contains(&no_room.resource);
        self.refusals.iter().any(of_machine)
    }
}

/// The promise of a contract's one direction.
fn promised(contract: &str) -> anyhow::Result<Promise> {
    let parsed: TrafficContract = contract.parse().context("the offer")?;
    let descriptor = parsed
        .transmit
        .or(parsed.receive)
        .context("the offer has no direction")?;
    let sdu = descriptor
        .max_sdu
        .context("the offer has no SDU size")?
        .get();
    Ok(Promise {
        cell_s: descriptor
            .peak()
            .on(cellgate::CellRate::OC3)
            .cell_s()
            .into(),
        sdu: u16::try_from(sdu).context("the offer's SDU size")?,
    })
}

fn head() -> [String; 8] {
    [
        "connection",
        "way",
        "SDU",
        "octets/s",
        "sent PDUs",
        "received",
        "worst s",
        "best s",
    ]
    .map(str::to_owned)
}

fn row(acted: &Acted, judgement: &Judgement) -> [String; 8] {
    let octet_s = acted.cast.promise.map_or(0.0, |promise| promise.octet_s());
    [
        acted.cast.name.clone(),
        if acted.cast.from == 0 { "out" } else { "back" }.to_owned(),
        acted.cast.sdu.to_string(),
        format!("{octet_s:.0}"),
        acted.sent.pdus.to_string(),
        acted.received.pdus.to_string(),
        format!("{:.2} %", judgement.least * 100.0),
        format!("{:.2} %", judgement.most * 100.0),
    ]
}
