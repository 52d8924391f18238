//! A guaranteed connection under heavy time-sharing load (Figure 10), for 22 hours.

use cellgate_core::Time;
use cellgate_core::contract::{Credit, Jitter, Remainder, UsageControl};
use cellgate_report::{
    At, Axis, Check, Claim, Entry, Figure, Look, Mark, Outcome, Panel, Rational, Series, Table,
    Tolerance, Value, dec,
};

use super::units::{BINARY, READINGS, rate, seconds, writer};
use crate::experiments::{Error, Experiment, Parameter, Progress, Settings};
use crate::machine::p90::{Cpu, Host, HostThread, Level, ThreadId, User, Waking, Writer};
use crate::world::Ps;

/// `l4atm-figure-10`.
pub(in crate::experiments) struct Figure10;

const SDU: u16 = 8_192;
/// Why the rate of a sample may be off by what is accepted.
const TICK: &str = "a sample begins and ends at a step of the clock";
const USERS: u64 = 75;
const JOB_CPU_MS: u64 = 800;

const PARAMETERS: &[Parameter] = &[
    Parameter::whole("samples", "samples of the peer's rate", 5_000, (20, 20_000)),
    Parameter::whole(
        "loaded_samples",
        "samples until the load has gone",
        2_398,
        (10, 20_000),
    ),
    Parameter::whole("datagrams", "packets of a sample", 10_000, (1_000, 100_000)),
    Parameter::whole(
        "premature_percent",
        "sleepers that the kernel wakes a step too early at a load of 75, ours: lost, %",
        25,
        (0, 100),
    ),
];

impl Experiment for Figure10 {
    fn name(&self) -> &'static str {
        "l4atm-figure-10"
    }

    fn source(&self) -> &'static str {
        "L4ATM, Figure 10"
    }

    fn parameters(&self) -> &'static [Parameter] {
        PARAMETERS
    }

    fn run(&self, settings: &Settings, progress: &mut dyn Progress) -> Result<Outcome, Error> {
        let plan = Plan {
            samples: settings.whole("samples"),
            loaded: settings
                .whole("loaded_samples")
                .min(settings.whole("samples")),
            datagrams: settings.whole("datagrams"),
            premature_ppm: settings.whole("premature_percent") as u32 * 10_000,
            seed: settings.seed,
        };
        let [trusting, asking] = [Waking::IsTrusted, Waking::AsksTheClock];
        let trusting = plan.run(trusting, progress, 0)?;
        let asking = plan.run(asking, progress, plan.samples)?;
        Ok(Outcome {
            tables: vec![plan.table(&trusting, &asking)],
            figures: vec![plan.figure(&trusting, &asking)],
            checks: plan.checks(&trusting, &asking),
            notes: vec![
                "How often the kernel wakes a thread too early is lost; here a share of sleepers, \
                 in proportion to the load. A rate above the contract also needs a worker that \
                 takes waking for the start of its interval; the paper names only the kernel."
                    .to_owned(),
                "A worker that asks the clock again sleeps again: core's usage control is never \
                 ahead of its contract by more than one packet an interval, whoever wakes it."
                    .to_owned(),
            ],
        })
    }
}

/// What is to be run.
#[derive(Clone, Copy)]
struct Plan {
    samples: u64,
    loaded: u64,
    datagrams: u64,
    premature_ppm: u32,
    seed: u64,
}

/// Of one worker: bit/s of each sample, and how long all of them took.
struct Run {
    bit_s: Vec<Rational>,
    time: Ps,
    loaded_time: Ps,
    /// The most packets that it was ahead of its contract at the end of a sample.
    ahead: i128,
}

impl Plan {
    fn run(self, waking: Waking, progress: &mut dyn Progress, done: u64) -> Result<Run, Error> {
        let credit = Credit::for_sdu_rate(40 * BINARY, SDU, Jitter::Default);
        let credit = credit.ok_or(Error::new("the connection has no rate"))?;
        let control = UsageControl::new(Time::ZERO, credit, Remainder::Carried);
        let mut thread = Writer::new(SDU.into(), Some(control), waking);
        thread.received.sample_pdus = self.datagrams;
        let mut cpu = Cpu::new(Host::seeded(Host::CLOCK_STEP_NS, self.seed));
        let id = cpu.start(Level::RealTime, HostThread::Writer(thread));
        // The first sample has the connection's beginning in it, and is not counted.
        let taken = |cpu: &Cpu<HostThread>| {
            let samples = &writer(cpu.activity(id)).received.samples;
            (samples.len() as u64).saturating_sub(1)
        };
        let mut load = Load::default();
        // The load follows the samples by a tenth of one.
        let step = Ps::from_ns(self.datagrams * u64::from(SDU) * 8 * 100_000_000 / (40 * BINARY));
        while taken(&cpu) < self.samples {
            load.adapt(self, taken(&cpu), &mut cpu);
            progress.step(done + taken(&cpu), 2 * self.samples);
            cpu.run(cpu.now().plus(step));
        }
        Ok(self.judged(&writer(cpu.activity(id)).received.samples))
    }

    fn judged(self, samples: &[Ps]) -> Run {
        let bits = i128::from(self.datagrams) * i128::from(SDU) * 8;
        let samples = &samples[..=self.samples as usize];
        let times = samples.windows(2).map(|ends| ends[1].since(ends[0]));
        let begin = samples[0];
        Run {
            bit_s: times
                .map(|time| Rational::whole(bits) / seconds(time))
                .collect(),
            ahead: self.ahead(samples),
            time: samples[self.samples as usize].since(begin),
            loaded_time: samples[self.loaded as usize].since(begin),
        }
    }
}

impl Plan {
    fn ahead(self, samples: &[Ps]) -> i128 {
        let due_s = 40 * i128::from(BINARY) / (i128::from(SDU) * 8);
        let ahead = samples.iter().zip(1..).map(|(end, sample)| {
            let due = Rational::from(due_s) * seconds(*end);
            i128::from(self.datagrams) * sample - due.floor()
        });
        ahead.max().unwrap_or(0)
    }
}

/// Users of the time-sharing system: they come one by one until the cross-over, then all leave.
#[derive(Default)]
struct Load {
    users: Vec<ThreadId>,
    gone: bool,
}

impl Load {
    fn adapt(&mut self, plan: Plan, taken: u64, cpu: &mut Cpu<HostThread>) {
        if self.gone {
            return;
        }
        if taken >= plan.loaded {
            for user in self.users.drain(..) {
                if let HostThread::User(user) = cpu.activity_mut(user) {
                    user.leave();
                }
            }
            cpu.machine.clock.wake_prematurely(0);
            self.gone = true;
            return;
        }
        let present = 1 + taken * USERS / plan.loaded;
        while (self.users.len() as u64) < present.min(USERS) {
            let user = User::new(self.users.len(), JOB_CPU_MS);
            self.users
                .push(cpu.start(Level::TimeSharing, HostThread::User(user)));
        }
        let users = self.users.len() as u64;
        let ppm = u64::from(plan.premature_ppm) * users / USERS;
        // At most a million.
        cpu.machine.clock.wake_prematurely(ppm as u32);
    }
}

/// The least, the mean and the most of some samples, in Mbps.
struct Spread {
    least: Rational,
    mean: Rational,
    most: Rational,
}

impl Run {
    /// Of samples `from..to`. Their mean is that of all that passed: by time.
    fn spread(&self, from: u64, to: u64) -> Spread {
        let unit = Rational::from(BINARY);
        let of = &self.bit_s[from as usize..to as usize];
        let rounded = of.iter().map(|bit_s| (*bit_s / unit).rounded(6));
        let (mut least, mut most) = (Rational::from(1_000_000), Rational::ZERO);
        let mut sum = Rational::ZERO;
        for rate in rounded {
            (least, most, sum) = (least.min(rate), most.max(rate), sum + rate);
        }
        Spread {
            least,
            mean: sum / Rational::from(of.len().max(1)),
            most,
        }
    }
}

impl Plan {
    /// Samples that the load left at its end, and those after it, one sample apart.
    fn halves(self) -> [(&'static str, u64, u64); 3] {
        let heavy = self.loaded - self.loaded / 10;
        let after = (self.loaded + 2).min(self.samples - 1);
        [
            ("under load, all", 0, self.loaded),
            ("under load, the last tenth", heavy, self.loaded),
            ("after it", after, self.samples),
        ]
    }

    fn table(self, trusting: &Run, asking: &Run) -> Table {
        let mut table = Table::new(
            "l4atm-figure-10",
            "Rate at the peer, Mbps (2^20), contract 40",
            &[
                ("samples", "samples"),
                ("least_mbps", "least"),
                ("mean_mbps", "mean"),
                ("most_mbps", "most"),
                ("least_asking_mbps", "asks the clock: least"),
                ("mean_asking_mbps", "mean"),
                ("most_asking_mbps", "most"),
            ],
        );
        for (name, from, to) in self.halves() {
            let (paper, ours) = (trusting.spread(from, to), asking.spread(from, to));
            let entry = |number| Entry::number(number, 3);
            table.row([
                Entry::text(name),
                entry(paper.least),
                entry(paper.mean),
                entry(paper.most),
                entry(ours.least),
                entry(ours.mean),
                entry(ours.most),
            ]);
        }
        table
    }

    fn figure(self, trusting: &Run, asking: &Run) -> Figure {
        let every = (self.samples / 1_000).max(1) as usize;
        let points = |run: &Run| -> Vec<_> {
            let kept = run.bit_s.iter().enumerate().step_by(every);
            let point =
                |(i, bit_s): (usize, &Rational)| (i as f64 + 1.0, bit_s.to_f64() / BINARY as f64);
            kept.map(point).collect()
        };
        let panel = Panel {
            x: Axis::linear("sample"),
            y: Axis::linear("received, Mbps (2^20)").from(39.0),
            series: vec![
                Series::new("woken is taken for begun", Look::Dots, points(trusting)),
                Series::new("asks the clock", Look::Line, points(asking)),
            ],
            marks: vec![Mark {
                at: At::X(self.loaded as f64),
                label: "load ends".to_owned(),
            }],
        };
        Figure::single(
            "l4atm-figure-10",
            "40 Mbps under heavy time-sharing load",
            panel,
        )
    }

    fn checks(self, trusting: &Run, asking: &Run) -> Vec<Check> {
        let [all, heavy, after] = self.halves().map(|(_, from, to)| trusting.spread(from, to));
        let asks = asking.spread(0, self.samples);
        // The end of a sample is late by a step of the clock at most.
        let step = Rational::from(Host::CLOCK_STEP_NS) / Rational::from(1_000_000_000);
        let sample_s =
            Rational::from(self.datagrams * u64::from(SDU) * 8) / Rational::from(40 * BINARY);
        let floor = Rational::from(40) * (sample_s / (sample_s + step + step));
        let near = Tolerance::Percent(dec("0.1").max(step / sample_s * 200.into()));
        let forty = Rational::from(40);
        let found = format!(
            "{} Mbps, at the end {} Mbps",
            all.mean.fixed(2),
            heavy.mean.fixed(2)
        );
        let mut checks = vec![
            Claim::derived(
                "L15",
                "least rate, of all samples",
                "always meets the reserved rate",
            )
            .reading(TICK)
            .number(
                floor,
                Tolerance::AtLeast,
                &rate(trusting.spread(0, self.samples).least),
            ),
            Claim::shape(
                "L15",
                "the rate exceeds the reserved one as the load grows",
                "",
            )
            .holds(all.mean > forty && heavy.mean > all.mean, &found),
            Claim::derived("L15", "least rate after the load", "exactly meets it")
                .reading(TICK)
                .number(forty, near, &rate(after.least)),
            Claim::derived("L15", "most after the load", "exactly meets it")
                .reading(TICK)
                .number(forty, near, &rate(after.most)),
            Claim::derived("L15", "least rate of a worker that asks the clock", "")
                .reading(TICK)
                .number(forty, near, &rate(asks.least)),
            Claim::derived("L15", "most of a worker that asks the clock", "")
                .reading(TICK)
                .number(forty, near, &rate(asks.most)),
            Claim::derived("L15", "most packets it is ahead: a credit and a packet", "").number(
                11.into(),
                Tolerance::AtMost,
                &Value::new(asking.ahead, 0, "packets"),
            ),
            Claim::lost(
                "L15",
                "packets ahead of a worker that trusts its waking",
                "",
                &Value::new(trusting.ahead, 0, "packets"),
            ),
            Claim::lost("L15", "rate under the heaviest load", "", &rate(heavy.mean)),
        ];
        checks.extend(self.time_checks(asking));
        checks
    }

    /// What the sizes and hours of section 4.2 say about its units.
    fn time_checks(self, asking: &Run) -> Vec<Check> {
        let hour = Rational::from(3_600);
        let hours = |number| Value::new(number, 2, "h");
        let octets = Rational::from(10_000 * u64::from(SDU)) / Rational::from(1_000_000);
        let mut checks = vec![Claim::derived("L14", "10,000 datagrams", "80 MB").number(
            dec("81.92"),
            Tolerance::Exact,
            &Value::new(octets, 2, "MB"),
        )];
        let expected = [("22.8", "10.9"), ("21.7", "10.4")];
        for ((reading, unit), (all, loaded)) in READINGS.into_iter().zip(expected) {
            let bits = Rational::from(10_000 * u64::from(SDU) * 8);
            let sample = bits / Rational::from(40 * unit) / hour;
            for (samples, printed, expected) in [(5_000, "22 h", all), (2_398, "10 h", loaded)] {
                let what = format!("{samples} samples");
                let claim = Claim::derived("L14", &what, printed).reading(reading);
                let ours = hours(sample * samples.into());
                checks.push(claim.number(dec(expected), Tolerance::Absolute(dec("0.05")), &ours));
            }
        }
        // Only the paper's own numbers of samples and packets have the paper's time.
        if (self.samples, self.loaded, self.datagrams) == (5_000, 2_398, 10_000) {
            let times = [("all samples", "22 h", asking.time, "21.70")];
            let loaded = ("samples under load", "10 h", asking.loaded_time, "10.41");
            for (what, printed, time, expected) in times.into_iter().chain([loaded]) {
                let claim = Claim::derived("L14", &format!("{what}, on the model"), printed);
                let ours = hours(seconds(time) / hour);
                checks.push(claim.number(dec(expected), Tolerance::Absolute(dec("0.01")), &ours));
            }
        }
        checks
    }
}
