//! Senders on ports of their own: sources of PDUs, and the stranger.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context;
use cellgate_core::Time;
use cellgate_core::adapter::PortIndex;
use cellgate_core::wire::VpiVci;
use cellgate_host::client::Control;
use cellgate_host::clock::MonotonicClock;
use cellgate_host::sys::{Scheduling, name_thread};
use serde::{Deserialize, Serialize};

use super::cells::PduMaker;
use super::pace::{Next, Pace, sleep_until};
use super::plan::{Connection, HAZARD, Hazard, PDU_CELLS, STRANGER_PORT, Strange, port_cells};
use super::shared;
use super::stranger::Stranger;
use super::wire::{SendPort, Wire};
use crate::live::actor::{Ear, prefer, started};
use crate::live::sdu::Name;

/// Cells for nobody that a source lets wait on its port: so many that the adapter, which takes 256
/// in a step, never finds too few, and so few that what is due has room.
const EXCESS_CELLS: usize = 1_024;
/// How long a sender that has nothing to send waits for a word.
const IDLE: Duration = Duration::from_millis(5);

/// Who a sender's process is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Part {
    /// One connection's source.
    Source(Connection),
    /// Cells that belong to nobody.
    Stranger {
        /// Addresses to leave out of a scan.
        open: Vec<VpiVci>,
    },
    /// All of them, on one port.
    All(Vec<Connection>),
}

impl Part {
    /// Where its cells go.
    pub(crate) fn port(&self) -> PortIndex {
        match self {
            Self::Source(connection) => connection.port,
            Self::Stranger { .. } => STRANGER_PORT,
            Self::All(_) => PortIndex(0),
        }
    }
}

/// What a sender's process is told at its begin.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Begin {
    /// Who it is.
    pub(crate) part: Part,
    /// Its pseudowire; without, its port is in memory.
    pub(crate) wire: Option<Wire>,
}

/// What a sender is to do, said once it has its port.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Task {
    /// For the SDUs' names.
    pub(crate) run: u32,
    /// The first release.
    pub(crate) begin: Time,
    /// No release from here on.
    pub(crate) end: Time,
    /// The hazard's rate.
    pub(crate) hazard: Hazard,
    /// What the stranger sends.
    pub(crate) strange: Strange,
    /// Whether the hazard and the stranger do what they are told meanwhile ([`Steer`]), and all
    /// end when they are told.
    pub(crate) steered: bool,
}

/// What senders are told in the middle of a task.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Steer {
    /// The hazard's rate.
    pub(crate) hazard: Hazard,
    /// Whether the stranger scans.
    pub(crate) scan: bool,
    /// Whether this is the task's end.
    pub(crate) over: bool,
}

/// What a sender was told last.
#[derive(Clone, Debug)]
pub(crate) struct Helm {
    told: Arc<Mutex<Steer>>,
    /// Told and not done yet.
    new: Arc<AtomicBool>,
}

impl Helm {
    /// Hears until the task's end, in a thread of its own.
    fn listen(mut ear: Ear, task: &Task) -> Self {
        let steer = Steer {
            hazard: task.hazard,
            scan: task.strange == Strange::Scan,
            over: false,
        };
        let helm = Self {
            told: Arc::new(Mutex::new(steer)),
            new: Arc::new(AtomicBool::new(false)),
        };
        let listener = helm.clone();
        std::thread::spawn(move || {
            // The starter ends a sender that hears nothing more.
            while let Ok(Some(steer)) = ear.hear::<Steer>() {
                *listener.lock() = steer;
                listener.new.store(true, Ordering::Release);
            }
        });
        helm
    }

    fn lock(&self) -> MutexGuard<'_, Steer> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is new.
    fn turned(&self) -> Option<Steer> {
        let is_new = self.new.load(Ordering::Relaxed) && self.new.swap(false, Ordering::Acquire);
        is_new.then(|| *self.lock())
    }
}

impl Task {
    /// The rate of a connection's source.
    pub(crate) fn rate(&self, connection: &Connection) -> Hazard {
        match connection.index {
            HAZARD => self.hazard,
            _ => Hazard::BitS(connection.contract_bit_s),
        }
    }

    /// Whether a connection's source sends for nobody, too.
    fn floods_beside(&self, connection: &Connection) -> bool {
        connection.index == HAZARD && self.strange == Strange::Beside
    }
}

/// What a source, or the stranger, really sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sent {
    /// The connection; none: the stranger.
    pub(crate) connection: Option<usize>,
    /// PDUs that its rate asked for; 0 without a rate.
    pub(crate) due_pdus: u64,
    /// PDUs released.
    pub(crate) released_pdus: u64,
    /// PDUs of which every cell was taken by the port.
    pub(crate) sent_pdus: u64,
    /// PDUs of which some cells were, the others not: the port was full.
    pub(crate) damaged_pdus: u64,
    /// Cells that the port took.
    pub(crate) sent_cells: u64,
    /// Cells that found the port full. A source of its own port withdraws the whole PDU before it
    /// sends any of it, so the port's own count does not have these.
    pub(crate) withdrawn_cells: u64,
    /// The longest lateness of a release.
    pub(crate) late_max_ns: u64,
    /// Of all times from one release to the next, what exceeded CDVT: a flood gives that much of
    /// its contract away.
    pub(crate) pause_lost_ns: u64,
}

/// A source of PDUs with its record.
pub(crate) struct Source {
    pub(crate) pace: Pace,
    pub(crate) maker: PduMaker,
    pub(crate) sent: Sent,
    flow: u32,
    last: Time,
    cdvt_ns: u64,
}

impl Source {
    pub(crate) fn new(connection: &Connection, task: &Task) -> Self {
        let rate = task.rate(connection);
        let catch_up_ns = match connection.allows(rate) {
            true => connection.cdvt_ns(),
            false => u64::MAX,
        };
        let pace = Pace::new(task.begin, task.end, rate, catch_up_ns);
        Self {
            sent: Sent {
                connection: Some(connection.index),
                due_pdus: pace.due(),
                ..Sent::default()
            },
            pace,
            maker: PduMaker::new(connection.address()),
            flow: connection.flow(task.run),
            last: task.begin,
            cdvt_ns: connection.cdvt_ns(),
        }
    }

    /// Makes the PDU that is released at `now`, `late_ns` too late.
    pub(crate) fn release(&mut self, now: Time, late_ns: u64) {
        let name = Name {
            flow: self.flow,
            number: self.sent.released_pdus,
        };
        let sent = &mut self.sent;
        sent.released_pdus += 1;
        sent.late_max_ns = sent.late_max_ns.max(late_ns);
        self.pause(now);
        self.maker.make(name, now);
    }

    /// Goes on from `now` at another rate.
    fn go_on(&mut self, now: Time, end: Time, rate: Hazard) {
        self.pace = Pace::new(now, end, rate, self.cdvt_ns);
    }

    /// Counts the time since the last release.
    fn pause(&mut self, now: Time) {
        let pause_ns = now.since_ns(self.last);
        self.last = now;
        self.sent.pause_lost_ns += pause_ns.saturating_sub(self.cdvt_ns);
    }

    /// Sends what is due at `now`.
    fn step(&mut self, now: Time, port: &mut SendPort) -> Next {
        let next = self.pace.next(now);
        let Next::Release { late_ns } = next else {
            return next;
        };
        self.release(now, late_ns);
        let sent = &mut self.sent;
        //  The rest of a PDU that lacks a cell would only cost the adapter time: all of it is
        //  withdrawn, as a switch with partial packet discard does.
        if port.free_for(PDU_CELLS) < PDU_CELLS {
            sent.withdrawn_cells += PDU_CELLS as u64;
        } else {
            sent.sent_cells += port.send(self.maker.made()) as u64;
            sent.sent_pdus += 1;
        }
        next
    }
}

/// The life of a sender's process.
pub(crate) fn run() -> anyhow::Result<()> {
    let (mut mouth, mut ear, Begin { part, wire }) = started()?;
    let mut control = Control::from_stdin()?;
    let mut port = SendPort::take(&mut control, part.port(), wire.as_ref())?;
    mouth.say(&port.source_port()?)?;
    let Some(task) = ear.hear::<Task>()? else {
        return Ok(());
    };
    prepare(&part, &task, &control.hello().scheduling);
    if task.steered {
        let helm = Helm::listen(ear, &task);
        mouth.say(&steered(part, &task, &mut port, &helm))?;
        // The port is this process's until it is killed.
        loop {
            std::thread::park();
        }
    }
    let sent = match part {
        Part::Source(connection) if task.floods_beside(&connection) => {
            beside(&connection, &task, &mut port).to_vec()
        }
        Part::Source(connection) => {
            vec![send(Source::new(&connection, &task), task.end, &mut port)]
        }
        Part::Stranger { open } => vec![strange(open, &task, &mut port)],
        Part::All(connections) => shared::run(&connections, &task, &mut port),
    };
    mouth.say(&sent)?;
    //  The port is this process's until it ends: it stays until it is told to, or killed.
    ear.hear::<()>().context("waiting for the end")?;
    Ok(())
}

/// Sources that keep a contract are preferred to those that never sleep.
fn prepare(part: &Part, task: &Task, adapter: &Scheduling) {
    match part {
        Part::Source(connection) => {
            let name = format!("cg-source-{}", connection.index + 1);
            let may_flood = task.steered && connection.index == HAZARD;
            let never_sleeps = may_flood || task.rate(connection) == Hazard::Max;
            if never_sleeps || task.floods_beside(connection) {
                name_thread(&name);
            } else {
                prefer(&name, -10, adapter);
            }
        }
        Part::Stranger { .. } => name_thread("cg-stranger"),
        Part::All(_) => name_thread("cg-senders"),
    }
}

fn strange(open: Vec<VpiVci>, task: &Task, port: &mut SendPort) -> Sent {
    match task.strange {
        Strange::Nothing | Strange::Beside => Sent::default(),
        Strange::Scan => Stranger::new(BTreeSet::from_iter(open)).run(task, port),
    }
}

/// Sends what is due, and in between as fast as it can what is for nobody.
fn beside(connection: &Connection, task: &Task, port: &mut SendPort) -> [Sent; 2] {
    let mut source = Source::new(connection, task);
    let flood = Task {
        hazard: Hazard::Max,
        ..*task
    };
    let mut excess = Source::new(connection, &flood);
    excess.maker = PduMaker::new(connection.nobodys_address());
    excess.sent.connection = None;
    //  Whatever the adapter's gap lets wait on the VC has room.
    let kept_free = port_cells(false) as usize - EXCESS_CELLS;
    loop {
        let now = MonotonicClock.now();
        match source.step(now, port) {
            Next::Release { .. } => {}
            Next::Wait(_) if now < task.begin => sleep_until(task.begin),
            Next::Wait(_) if port.free_for(kept_free + PDU_CELLS) < kept_free + PDU_CELLS => {}
            Next::Wait(_) => {
                excess.step(now, port);
            }
            Next::Over => {
                source.pause(task.end);
                return [source.sent, excess.sent];
            }
        }
    }
}

/// Sends as it is told meanwhile.
fn steered(part: Part, task: &Task, port: &mut SendPort, helm: &Helm) -> Vec<Sent> {
    match part {
        Part::Source(connection) => vec![follow(&connection, task, port, helm)],
        Part::Stranger { open } => {
            let mut stranger = Stranger::new(BTreeSet::from_iter(open));
            let (mut sent, mut scans) = (Sent::default(), task.strange == Strange::Scan);
            loop {
                match helm.turned() {
                    Some(Steer { over: true, .. }) => return vec![sent],
                    Some(Steer { scan, .. }) => scans = scan,
                    None if scans => sent.sent_cells += port.send(stranger.block()) as u64,
                    None => std::thread::sleep(IDLE),
                }
            }
        }
        // One port's senders are not steered.
        Part::All(_) => Vec::new(),
    }
}

fn follow(connection: &Connection, task: &Task, port: &mut SendPort, helm: &Helm) -> Sent {
    let mut source = Source::new(connection, task);
    loop {
        let now = MonotonicClock.now();
        match helm.turned() {
            Some(Steer { over: true, .. }) => return source.sent,
            Some(Steer { hazard, .. }) if connection.index == HAZARD => {
                source.go_on(now, task.end, hazard);
            }
            _ => {}
        }
        match source.step(now, port) {
            Next::Release { .. } => {}
            Next::Wait(instant) => sleep_until(instant),
            Next::Over => std::thread::sleep(IDLE),
        }
    }
}

fn send(mut source: Source, end: Time, port: &mut SendPort) -> Sent {
    loop {
        match source.step(MonotonicClock.now(), port) {
            Next::Release { .. } => {}
            Next::Wait(instant) => sleep_until(instant),
            Next::Over => {
                source.pause(end);
                return source.sent;
            }
        }
    }
}
