//! Five real-time writers that come and go beside best effort (Figures 7 and 8).

use cellgate_core::contract::{CellRate, Credit};
use cellgate_core::server::{ClientId, Refused};
use cellgate_report::{
    Axis, Check, Claim, Entry, Figure, Look, Outcome, Panel, Rational, Series, Table, Tolerance,
    Value, dec,
};

use super::units::{BINARY, DECIMAL, after_seconds, mbps, paced, percent, rate_between, writer};
use crate::experiments::{Error, Experiment, Parameter, Progress, Settings};
use crate::machine::p90::{
    Application, ApplicationError, Cpu, Host, HostThread, Level, Meter, P90, ThreadId,
};
use crate::world::Ps;

/// `l4atm-figure-8`.
pub(in crate::experiments) struct Figure8;

/// The connections: 2^20 bit/s and octets of a packet. Ours: those of the figure are lost.
const WRITERS: [(u64, u16); 5] = [
    (8, 4_096),
    (12, 8_192),
    (15, 8_192),
    (18, 4_096),
    (25, 8_192),
];
const BEST_EFFORT: &str = "ubr:jitter=high,tx:max_sdu=8192,rx:none";
/// One writer more, which there is no room for beside the five.
const TOO_MUCH: u64 = 50;

const PARAMETERS: &[Parameter] = &[
    Parameter::whole(
        "minutes",
        "virtual minutes; a third of them alone, min",
        240,
        (4, 1_440),
    ),
    Parameter::whole(
        "line_mbit_s",
        "what the host can send, by configuration, 10^6 bit/s of 8 KB packets",
        120,
        (90, 130),
    ),
];

impl Experiment for Figure8 {
    fn name(&self) -> &'static str {
        "l4atm-figure-8"
    }

    fn source(&self) -> &'static str {
        "L4ATM, Figures 7 and 8"
    }

    fn parameters(&self) -> &'static [Parameter] {
        PARAMETERS
    }

    fn run(&self, settings: &Settings, progress: &mut dyn Progress) -> Result<Outcome, Error> {
        let phases = schedule(settings.whole("minutes") * 60);
        let mut bench = Bench::new(settings.whole("line_mbit_s") * DECIMAL)?;
        let mut measured = Vec::new();
        for (i, (present, length)) in phases.iter().enumerate() {
            measured.push(bench.phase(*present, *length)?);
            progress.step(i as u64 + 1, phases.len() as u64);
        }
        Ok(Outcome {
            tables: vec![connections(&bench), table(&measured)],
            figures: vec![figure(&measured)],
            checks: checks(&measured, &bench),
            notes: vec![
                "Rates and schedule are ours: those of Figure 7 are lost. Each writer runs alone \
                 for a fifteenth of the time, then all 26 other combinations follow."
                    .to_owned(),
                "Best effort has intervals of 50 packets and the line is configured below what the \
                 CPU can send: a worker that sleeps until a step of the 2 ms clock needs time to \
                 catch up in the same interval."
                    .to_owned(),
            ],
        })
    }
}

/// Who is there (a bit each), and for how long: each alone, then the combinations of two and more
/// in the order of a Gray code.
fn schedule(seconds: u64) -> Vec<(u32, Ps)> {
    let alone = (0..WRITERS.len()).map(|i| 1 << i);
    let gray = (0_u32..1 << WRITERS.len()).map(|i| i ^ (i >> 1));
    let together: Vec<_> = gray.filter(|present| present.count_ones() > 1).collect();
    let part = |parts: u64| Ps::new(after_seconds(seconds).ps() / parts);
    // Two thirds of the time, divided.
    let each = part(together.len() as u64 * 3 / 2);
    let alone = alone.map(|present| (present, part(3 * WRITERS.len() as u64)));
    alone
        .chain(together.into_iter().map(|present| (present, each)))
        .collect()
}

/// The host with its server, and who is connected.
struct Bench {
    cpu: Cpu<HostThread>,
    application: Application,
    line: CellRate,
    writers: [Option<Connected>; WRITERS.len()],
    best_effort: (ThreadId, CellRate),
    /// What the sixth writer heard.
    refused: Option<Refused>,
}

#[derive(Clone, Copy)]
struct Connected {
    client: ClientId,
    thread: ThreadId,
}

/// What came of a phase.
struct Phase {
    present: u32,
    begins: Ps,
    length: Ps,
    /// Bit/s at the peer, of each writer that is there.
    rates: [Option<Rational>; WRITERS.len()],
    best_effort: Rational,
    /// Cells/s: guaranteed, and the share of best effort.
    guaranteed: u64,
    share: CellRate,
}

fn cells(bit_s: u64, sdu: u16) -> Result<CellRate, Error> {
    CellRate::for_sdu_rate(bit_s, sdu.into()).ok_or(Error::new("a writer without a rate"))
}

fn contract(index: usize) -> Result<String, Error> {
    let (mbps, sdu) = WRITERS[index];
    let pcr = cells(mbps * BINARY, sdu)?.cell_s();
    Ok(format!("cbr:tx:pcr={pcr},max_sdu={sdu},rx:none"))
}

impl Bench {
    fn new(line_bit_s: u64) -> Result<Self, Error> {
        let law = P90::PAPER
            .law(0)
            .map_err(|error| Error::new(error.to_string()))?;
        let mut cpu = Cpu::new(Host::new(Host::CLOCK_STEP_NS));
        let now = cpu.now().time();
        let line = cells(line_bit_s, 8_192)?;
        let mut application = Application::new(now, line, law)?;
        let (_, opened) = application.open(now, 32, BEST_EFFORT)?;
        let credit = paces(opened.transmit_credit)?;
        let thread = HostThread::Writer(paced(now, 8_192, credit));
        let thread = cpu.start(Level::BestEffort, thread);
        Ok(Self {
            cpu,
            application,
            line,
            writers: [None; WRITERS.len()],
            best_effort: (thread, line),
            refused: None,
        })
    }

    /// Has those come and go that differ, and runs.
    fn phase(&mut self, present: u32, length: Ps) -> Result<Phase, Error> {
        for index in 0..WRITERS.len() {
            let stays = present & 1 << index != 0;
            match (self.writers[index], stays) {
                (Some(connected), false) => self.leave(index, connected),
                (None, true) => self.come(index)?,
                _ => {}
            }
        }
        if present.count_ones() as usize == WRITERS.len() {
            self.one_more()?;
        }
        self.heed_shares();
        let begins = self.cpu.now();
        let before: Vec<_> = self.meters();
        self.cpu.run(begins.plus(length));
        let after = self.meters();
        let rate = |i: usize| rate_between(&before[i], &after[i], length);
        let here = |i: usize| present & 1 << i != 0;
        let mut guaranteed = 0;
        for index in (0..WRITERS.len()).filter(|i| here(*i)) {
            let (mbps, sdu) = WRITERS[index];
            guaranteed += u64::from(cells(mbps * BINARY, sdu)?.cell_s());
        }
        Ok(Phase {
            present,
            begins,
            length,
            rates: std::array::from_fn(|i| here(i).then(|| rate(i))),
            best_effort: rate(WRITERS.len()),
            guaranteed,
            share: self.best_effort.1,
        })
    }

    fn come(&mut self, index: usize) -> Result<(), Error> {
        let now = self.cpu.now().time();
        let vci = 100 + index as u16;
        let (client, opened) = self.application.open(now, vci, &contract(index)?)?;
        let credit = paces(opened.transmit_credit)?;
        let sdu = WRITERS[index].1.into();
        let now = self.cpu.machine.clock.read(self.cpu.now());
        let thread = HostThread::Writer(paced(now, sdu, credit));
        let thread = self.cpu.start(Level::RealTime, thread);
        self.writers[index] = Some(Connected { client, thread });
        Ok(())
    }

    fn leave(&mut self, index: usize, connected: Connected) {
        self.application
            .close(self.cpu.now().time(), connected.client);
        if let HostThread::Writer(writer) = self.cpu.activity_mut(connected.thread) {
            writer.stop();
        }
        self.writers[index] = None;
    }

    /// A sixth writer asks.
    fn one_more(&mut self) -> Result<(), Error> {
        let pcr = cells(TOO_MUCH * BINARY, 8_192)?.cell_s();
        let contract = format!("cbr:tx:pcr={pcr},max_sdu=8192,rx:none");
        let now = self.cpu.now().time();
        match self.application.open(now, 200, &contract) {
            Err(ApplicationError::Refused(refused)) => self.refused = Some(refused),
            Err(error) => return Err(error.into()),
            Ok((client, _)) => self.application.close(now, client),
        }
        Ok(())
    }

    /// Best effort adapts to its share.
    fn heed_shares(&mut self) {
        for (_, share, credit) in self.application.shares() {
            self.best_effort.1 = share;
            if let HostThread::Writer(writer) = self.cpu.activity_mut(self.best_effort.0) {
                writer.modify(credit);
            }
        }
    }

    /// At the peer: the writers', then best effort's.
    fn meters(&self) -> Vec<Meter> {
        let meter = |thread| writer(self.cpu.activity(thread)).received.clone();
        let of = |connected: &Option<Connected>| {
            connected.map_or_else(Meter::default, |connected| meter(connected.thread))
        };
        let writers = self.writers.iter().map(of);
        writers.chain([meter(self.best_effort.0)]).collect()
    }
}

fn paces(credit: Option<Credit>) -> Result<Credit, Error> {
    credit.ok_or(Error::new("a writer was given no credit"))
}

impl Phase {
    /// How far off its contract any writer is, of one.
    fn off(&self) -> Rational {
        let off = self
            .rates
            .iter()
            .zip(WRITERS)
            .filter_map(|(rate, (mbps, _))| {
                let contract = Rational::from(mbps * BINARY);
                Some(((*rate)? / contract - Rational::ONE).abs())
            });
        off.fold(Rational::ZERO, Rational::max)
    }

    /// Best effort's rate of its share.
    fn of_share(&self) -> Rational {
        self.best_effort / Rational::from(self.share.sdu_bit_s(8_192))
    }
}

fn connections(bench: &Bench) -> Table {
    let mut table = Table::new(
        "l4atm-figure-7",
        "The connections (Mbps = 2^20 bit/s)",
        &[
            ("connection", "connection"),
            ("contract_mbps", "Mbps"),
            ("sdu_octets", "octets"),
            ("contract_cell_s", "cells/s"),
        ],
    );
    for (i, (mbps, sdu)) in WRITERS.into_iter().enumerate() {
        let rate = CellRate::for_sdu_rate(mbps * BINARY, sdu.into());
        table.row([
            Entry::text(format!("real-time {}", i + 1)),
            Entry::number(mbps, 0),
            Entry::number(i32::from(sdu), 0),
            Entry::number(rate.map_or(0, CellRate::cell_s), 0),
        ]);
    }
    table.row([
        Entry::text("best effort"),
        Entry::text("the rest"),
        Entry::number(8_192, 0),
        Entry::text(format!("of {}", bench.line.cell_s())),
    ]);
    table
}

fn table(phases: &[Phase]) -> Table {
    let mut table = Table::new(
        "l4atm-figure-8",
        "Rates at the peer by phase (Mbps = 2^20 bit/s)",
        &[
            ("begins_min", "from, min"),
            ("writer_1_mbps", "1"),
            ("writer_2_mbps", "2"),
            ("writer_3_mbps", "3"),
            ("writer_4_mbps", "4"),
            ("writer_5_mbps", "5"),
            ("best_effort_mbps", "best effort"),
            ("share_mbps", "its share"),
        ],
    );
    let unit = Rational::from(BINARY);
    for phase in phases {
        let minutes = Rational::new(phase.begins.ps().into(), 60_000_000_000_000);
        let rate = |i: usize| match phase.rates[i] {
            Some(rate) => Entry::number(rate / unit, 2),
            None => Entry::Empty,
        };
        table.row([
            Entry::number(minutes, 1),
            rate(0),
            rate(1),
            rate(2),
            rate(3),
            rate(4),
            Entry::number(phase.best_effort / unit, 2),
            Entry::number(mbps(phase.share.sdu_bit_s(8_192), BINARY), 2),
        ]);
    }
    table
}

fn figure(phases: &[Phase]) -> Figure {
    let minutes = |time: Ps| time.ps() as f64 / 60e12;
    let of = |rate: Rational| rate.to_f64() / BINARY as f64;
    let steps = |rate: &dyn Fn(&Phase) -> f64| {
        let ends = |phase: &Phase| [phase.begins, phase.begins.plus(phase.length)];
        let step = |phase| ends(phase).map(|end| (minutes(end), rate(phase)));
        phases.iter().flat_map(step).collect()
    };
    let mut series = vec![Series::new(
        "best effort",
        Look::Line,
        steps(&|phase: &Phase| of(phase.best_effort)),
    )];
    for (i, (mbps, _)) in WRITERS.iter().enumerate() {
        let rate = |phase: &Phase| phase.rates[i].map_or(0.0, of);
        series.push(Series::new(
            &format!("{mbps} Mbps"),
            Look::Dashed,
            steps(&rate),
        ));
    }
    let panel = Panel {
        x: Axis::linear("time, min"),
        y: Axis::linear("received by the peer, Mbps (2^20)"),
        series,
        marks: Vec::new(),
    };
    Figure::single(
        "l4atm-figure-8",
        "Five real-time writers and best effort",
        panel,
    )
}

fn checks(phases: &[Phase], bench: &Bench) -> Vec<Check> {
    let off = phases
        .iter()
        .map(Phase::off)
        .fold(Rational::ZERO, Rational::max);
    let shares = phases.iter().map(Phase::of_share);
    let (mut least, mut most) = (Rational::from(2), Rational::ZERO);
    for share in shares {
        (least, most) = (least.min(share), most.max(share));
    }
    let line = u64::from(bench.line.cell_s());
    let whole = |phase: &&Phase| phase.guaranteed + u64::from(phase.share.cell_s()) == line;
    let exact = phases.iter().filter(whole).count();
    let combinations: std::collections::BTreeSet<_> =
        phases.iter().map(|phase| phase.present).collect();
    let heard = bench.refused.as_ref().map(ToString::to_string);
    let near = |number: &str| Tolerance::Absolute(dec(number));
    let id = "Figure 8";
    vec![
        Claim::derived("Figure 7", "combinations of writers that are met", "").number(
            31.into(),
            Tolerance::Exact,
            &Value::new(combinations.len(), 0, ""),
        ),
        Claim::shape(
            id,
            "real-time writers, largest distance from contract",
            "\"perfectly\"",
        )
        .number(Rational::ZERO, near("0.1"), &percent(off)),
        Claim::derived(
            id,
            "phases in which contracts and share are exactly the line",
            "",
        )
        .number(
            phases.len().into(),
            Tolerance::Exact,
            &Value::new(exact, 0, "phases"),
        ),
        Claim::shape(id, "best effort has the rest: least of its share", "").number(
            100.into(),
            near("2"),
            &percent(least),
        ),
        Claim::shape(id, "best effort has the rest: most of its share", "").number(
            100.into(),
            near("2"),
            &percent(most),
        ),
        Claim::shape(
            id,
            "a sixth writer that does not fit is refused, with an offer",
            "",
        )
        .holds(
            heard
                .as_ref()
                .is_some_and(|heard| heard.contains("this would fit")),
            heard.as_deref().unwrap_or("it was admitted"),
        ),
    ]
}
