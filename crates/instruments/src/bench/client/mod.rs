//! `cellgate bench client`: what an application gets from a connection, beside what it would use
//! otherwise, in turns.
//!
//! ```text
//! 2 app:  application -- queue -> adapter process -- queue -> other application   (and back)
//!         CPU 0                   CPU 1: segments, memory link, reassembles        CPU 0
//! 1 app:  application -- queue -> adapter process -- queue -> the same application
//! peers:  process ------------------- kernel, or memory ------------------------> process
//!         CPU 0                                                                    CPU 1
//! ```

mod copies;
mod endpoint;
mod ends;
#[cfg(feature = "iceoryx2")]
mod iceoryx;
mod kind;
mod overhead;
mod partner;
mod turns;

use std::io::sink;
use std::rc::Rc;

use cellgate_core::server::Idle;
use cellgate_host::sys::{Scheduling, pin_thread};
use cellgate_report::output::Exit;

use super::cpus::{Cpus, be_prompt, round_trip};
use super::measure::{Times, calibration};
use super::report::Report;
use crate::live::daemon::Daemon;
use crate::live::spread::Spread;

use ends::{Descriptors, Ends, Size};
use kind::{Kind, Socket, Waits};
pub(crate) use partner::run as partner;
use partner::{Job, Partner};
use turns::{Amount, Contestant};

/// `a` and `b` are each other's peer; `loop` receives what it sends.
///
/// The line rate is more than any adapter can do. The tolerances are small so that buffers, which
/// have room for what arrives within them, are no larger than those of the peers. A flow that keeps
/// the adapter busy is no overload here.
const INTERFACES: &str = "\
vcs = 16
attachments = 16
ports = 3
overload_cells = 0
[admission]
cdvt_ns = 0
wake_up_ns = 0
[[interface]]
name = \"a\"
link.memory.peer = \"b\"
line_rate.cell_s = 4000000000
[[interface]]
name = \"b\"
link.memory.peer = \"a\"
line_rate.cell_s = 4000000000
[[interface]]
name = \"loop\"
link.memory.peer = \"loop\"
line_rate.cell_s = 4000000000
";

/// The daemon's configuration.
fn config(idle: Idle) -> String {
    let gap_max_ns = match idle.rests() {
        true => Idle::LATE_NS_MAX,
        false => 2_500,
    };
    format!("[adapter]\nidle = \"{idle}\"\ngap_max_ns = {gap_max_ns}\n{INTERFACES}")
}

const SDUS: [u16; 5] = [64, 512, 1_500, 8_192, 65_535];

/// Below this median the spin round trip says that the two CPUs are near each other.
const NEAR_NS: f64 = 250.0;

#[derive(clap::Args)]
#[group(skip)]
pub(super) struct Args {
    #[command(flatten)]
    common: super::Args,
    /// The adapter's idle mode: spin, adaptive or sleep
    #[arg(long, value_name = "HOW", default_value_t = Idle::Spin)]
    idle: Idle,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let super::Args { json, quick } = args.common;
    let mut report = Report::new("client", quick);
    let mut run = Run::start(quick, args.idle)?;
    let sdus: &[u16] = if quick { &[64, 8_192] } else { &SDUS };
    for (number, sdu) in (0..).zip(sdus) {
        run.size(*sdu, number, &mut report)?;
    }
    run.tell(&mut report);
    copies::count(&run.daemon, &mut report)?;
    overhead::measure(&run.daemon, quick, &mut report)?;
    report.finish(json)
}

struct Run {
    daemon: Daemon,
    partner: Partner,
    descriptors: Rc<Descriptors>,
    cpus: Cpus,
    scheduling: Scheduling,
    repeats: usize,
    amount: Amount,
    /// Median round trips of a spin on shared memory, in nanoseconds.
    spins: Vec<f64>,
    sent: u64,
    lost: u64,
    wrong: u64,
}

impl Run {
    fn start(quick: bool, idle: Idle) -> anyhow::Result<Self> {
        let cpus = Cpus::allowed()?;
        let daemon = Daemon::start(&config(idle), sink())?;
        let (mine, others) = Descriptors::pair()?;
        let partner = Partner::start(&others)?;
        let scheduling = be_prompt();
        pin_thread(cpus.first)?;
        let amount = match quick {
            true => Amount { trips: 80, flow: 0 },
            false => Amount {
                trips: 400,
                flow: 16 << 20,
            },
        };
        Ok(Self {
            daemon,
            partner,
            descriptors: Rc::new(mine),
            cpus,
            scheduling,
            repeats: if quick { 2 } else { 21 },
            amount,
            spins: Vec::new(),
            sent: 0,
            lost: 0,
            wrong: 0,
        })
    }

    /// All contestants with SDUs of one size, in turns.
    fn size(&mut self, sdu: u16, number: u16, report: &mut Report) -> anyhow::Result<()> {
        self.daemon.let_adapter_run(true)?;
        let socket = self.daemon.socket();
        let size = Size {
            socket,
            sdu,
            number,
        };
        let ends = Ends::open(&size, false, Rc::clone(&self.descriptors))?;
        self.partner.begin(&Job::Open(size))?;
        let mut contestants: Vec<Contestant> = Kind::all()
            .into_iter()
            .map(|kind| Contestant::new(kind, sdu, ends.endpoint(kind)))
            .collect();
        let spun = self.spins.len();
        for repeat in 0..=self.repeats {
            report.calibrations.push(calibration());
            for contestant in &mut contestants {
                self.daemon
                    .let_adapter_run(contestant.kind.needs_adapter())?;
                contestant.turn(
                    &mut self.partner,
                    self.cpus,
                    self.amount,
                    report.ns_per_tick(),
                )?;
            }
            self.spins
                .push(round_trip(self.cpus) * report.ns_per_tick());
            if repeat == 0 {
                contestants.iter_mut().for_each(Contestant::start_over);
            }
        }
        self.daemon.let_adapter_run(true)?;
        self.tell_size(sdu, &mut contestants, spun, report);
        Ok(())
    }

    fn tell_size(
        &mut self,
        sdu: u16,
        contestants: &mut [Contestant],
        spun: usize,
        report: &mut Report,
    ) {
        let ns = report.ns_per_tick();
        for contestant in &mut *contestants {
            let us = contestant.percentiles().map(|ticks| ticks * ns / 1e3);
            let flow = contestant.flow.spread();
            let kilo = |ticks: f64| if ticks > 0.0 { 1e6 / (ticks * ns) } else { 0.0 };
            report.row(
                &contestant.name,
                &[
                    ("p50 us", us[0]),
                    ("p99 us", us[1]),
                    ("max us", us[2]),
                    ("K PDU/s", kilo(flow.median)),
                    ("q1", kilo(flow.q3)),
                    ("q3", kilo(flow.q1)),
                ],
            );
            self.sent += contestant.sent;
            self.wrong += contestant.wrong;
            if !contestant.kind.may_lose() {
                self.lost += contestant.sent - contestant.arrived;
            }
        }
        let spin = Spread::of(self.spins[spun..].to_vec()).median;
        report.value(format!("{sdu}: spin round trip"), "ns", spin);
        Judged { sdu, contestants }.compare(spin, report);
    }

    fn tell(&self, report: &mut Report) {
        report.value("SDUs sent", "", self.sent as f64);
        report.count_at_most(
            "SDUs with other octets than were sent",
            self.wrong as f64,
            0.0,
        );
        report.count_at_most("SDUs lost on ways that lose none", self.lost as f64, 0.0);
        report.note(
            "a round trip: an SDU there and one back, each written and read whole by its \
             application; K PDU/s: one way, as received",
        );
        report.note(
            "cellgate, best effort: the adapter's process copies a PDU from the sender's buffer to \
             the receiver's. It spins on the last CPU; two applications share the first, and yield \
             when they poll. 1 app: its connection receives what it sends",
        );
        report.note(
            "peers have a process on each CPU, and the adapter is stopped. UDP carries at most \
             65,507 octets, and loses what its reader is too slow for",
        );
        report.note(format!("both processes: nice {}", self.scheduling.nice));
        for note in &self.scheduling.notes {
            report.note(note);
        }
    }
}

/// The contestants of one size, measured.
struct Judged<'a> {
    sdu: u16,
    contestants: &'a [Contestant],
}

impl Judged<'_> {
    fn of(&self, kind: Kind) -> Option<&Contestant> {
        self.contestants.iter().find(|c| c.kind == kind)
    }

    /// Ratios, and the goals that there are for this size.
    fn compare(&self, spin_ns: f64, report: &mut Report) {
        let ours = |waits| {
            let in_place = true;
            self.of(Kind::Cellgate { in_place, waits })
        };
        let sockets = |socket, waits| self.of(Kind::Socket { socket, waits });
        let sdu = self.sdu;
        let (Some(alone), Some(polling), Some(sleeping), Some(event)) = (
            ours(Waits::Spinning),
            ours(Waits::Yielding),
            ours(Waits::Sleeping),
            self.of(Kind::EventFd),
        ) else {
            return;
        };
        let mut trip = |name: &str, mine: &Contestant, theirs: &Contestant, bound: Option<f64>| {
            let ratio = report.ratio(&mine.trip, &theirs.trip).median;
            if let Some(bound) = bound {
                report.ratio_at_most(format!("{sdu}: round trip {name}"), ratio, bound);
            }
        };
        // The goals stand for a bare wake-up, which has no SDU to write and to read.
        let bound = (sdu == 64).then_some(1.3);
        trip("sleeping / eventfd", sleeping, event, bound);
        for socket in [Socket::SeqPacket, Socket::UnixDatagram, Socket::Udp] {
            for (mine, waits) in [(sleeping, Waits::Sleeping), (alone, Waits::Spinning)] {
                if let Some(theirs) = sockets(socket, waits) {
                    trip("", mine, theirs, None);
                }
            }
        }
        #[cfg(feature = "iceoryx2")]
        if let Some(theirs) = self.of(Kind::Iceoryx2) {
            trip("polling, 1 app / iceoryx2", alone, theirs, Some(0.6));
        }
        let near = spin_ns < NEAR_NS;
        for (socket, name, bound) in [
            (Socket::Udp, "loopback UDP", 8.0),
            (Socket::UnixDatagram, "Unix datagram", 5.0),
            (Socket::SeqPacket, "SOCK_SEQPACKET", 0.0),
        ] {
            let Some(theirs) = sockets(socket, Waits::Sleeping) else {
                continue;
            };
            for mine in [polling, sleeping, alone] {
                self.flow(mine, theirs, report);
            }
            if sdu == 8_192 && socket != Socket::SeqPacket {
                let faster = theirs.flow.over(&polling.flow).median;
                let name = format!("8192: K PDU/s, 2 app polling / {name}");
                if near {
                    report.ratio_at_least(format!("{name}, near"), faster, bound);
                }
                if socket == Socket::UnixDatagram {
                    report.ratio_at_least(name, faster, 0.9);
                }
            }
        }
    }

    /// How many times as many PDUs of `mine` arrive: their time over its own, which are named for
    /// that.
    fn flow(&self, mine: &Contestant, theirs: &Contestant, report: &mut Report) {
        let [numerator, denominator] =
            [(theirs, mine), (mine, theirs)].map(|(times, named)| Times {
                name: format!("{}, K PDU/s", named.name),
                ticks: times.flow.ticks.clone(),
            });
        report.ratio(&numerator, &denominator);
    }
}
