//! A writer on one interface and its reader on the other.

use std::process::Stdio;

use anyhow::bail;
use cellgate_core::Time;
use cellgate_host::clock::MonotonicClock;
use serde_json::Value;

use super::actor::{Begin, Done, NoRoom, Opening, Promise, Task};
use super::ground::Ground;
use super::rule::{Flow, Judgement, READER_LATE_MS};
use super::stalls::Stalls;
use crate::live::actor::{Actor, Role};

/// The first VCI of an experiment's connections.
const FIRST_VCI: u32 = 200;
/// The writer opens so much later than its reader.
const WRITER_LATER_NS: u64 = 20_000_000;

/// What a pair is.
#[derive(Clone, Debug)]
pub(super) struct Cast {
    pub(super) name: String,
    /// Among the experiment's connections.
    pub(super) number: u32,
    /// The end that writes: 0 or 1.
    pub(super) from: usize,
    /// None: best effort.
    pub(super) promise: Option<Promise>,
    /// Octets of each SDU.
    pub(super) sdu: u16,
    pub(super) open_at: Time,
}

pub(super) struct Pair {
    pub(super) cast: Cast,
    writer: Actor,
    reader: Actor,
}

/// What both did.
#[derive(Clone, Debug)]
pub(super) struct Acted {
    pub(super) cast: Cast,
    /// When both ends were open.
    pub(super) opened: Time,
    /// From when to when the writer was to send.
    pub(super) task: Task,
    pub(super) sent: Done,
    pub(super) received: Done,
}

impl Cast {
    /// A pair that opens at once and writes from the first end, under this contract.
    pub(super) fn guaranteed(name: impl Into<String>, number: u32, promise: Promise) -> Self {
        Self {
            promise: Some(promise),
            ..Self::best_effort(name, number, promise.sdu)
        }
    }

    /// The same without one.
    pub(super) fn best_effort(name: impl Into<String>, number: u32, sdu: u16) -> Self {
        Self {
            name: name.into(),
            number,
            from: 0,
            promise: None,
            sdu,
            open_at: MonotonicClock.now(),
        }
    }

    fn contracts(&self) -> [String; 2] {
        match self.promise {
            Some(promise) => [promise.sends(), promise.receives()],
            None => {
                let sdu = self.sdu;
                [
                    format!("ubr,aal5:tx:max_sdu={sdu},rx:none"),
                    format!("ubr,aal5:tx:none,rx:max_sdu={sdu}"),
                ]
            }
        }
    }

    /// Starts the process of one end.
    fn start(&self, role: Role, ground: &Ground) -> anyhow::Result<Actor> {
        Actor::start(
            role,
            Stdio::null(),
            &self.begin(ground, role == Role::Writer),
        )
    }

    fn begin(&self, ground: &Ground, writes: bool) -> Begin {
        let [sends, receives] = self.contracts();
        let end = if writes { self.from } else { 1 - self.from };
        let octet_s = self.promise.map(|promise| promise.octet_s());
        let late = octet_s.map(|octet_s| {
            let pdus = octet_s * READER_LATE_MS as f64 / 1e3 / f64::from(self.sdu);
            pdus.ceil() as u32
        });
        Begin {
            socket: ground.socket().to_owned(),
            address: format!("{}.0.{}", ground.ends[end], FIRST_VCI + self.number),
            contract: if writes { sends } else { receives },
            receive_pdus: late.filter(|_| !writes),
            number: self.number,
            sdu: self.sdu,
            open_at: match writes {
                true => self.open_at.plus_ns(WRITER_LATER_NS),
                false => self.open_at,
            },
            adapter: ground.scheduling.clone(),
        }
    }
}

impl Pair {
    /// Starts both, the reader first.
    pub(super) fn start(ground: &Ground, cast: Cast) -> anyhow::Result<Self> {
        Ok(Self {
            reader: cast.start(Role::Reader, ground)?,
            writer: cast.start(Role::Writer, ground)?,
            cast,
        })
    }

    /// Starts both and waits until both are open.
    pub(super) fn open(ground: &Ground, cast: Cast) -> anyhow::Result<Result<Self, NoRoom>> {
        let mut reader = cast.start(Role::Reader, ground)?;
        if let Err(no_room) = reader.hear::<Opening>()? {
            return Ok(Err(no_room));
        }
        let mut writer = cast.start(Role::Writer, ground)?;
        Ok(writer.hear::<Opening>()?.map(|_| Self {
            cast,
            writer,
            reader,
        }))
    }

    /// Tells both what to do.
    pub(super) fn tell(&mut self, task: &Task) -> anyhow::Result<()> {
        self.reader.say(task)?;
        self.writer.say(task)
    }

    /// What both did, if they were started only; admission must have admitted them.
    pub(super) fn acted(mut self, task: Task) -> anyhow::Result<Acted> {
        let mut open = Time::ZERO;
        for actor in [&mut self.reader, &mut self.writer] {
            match actor.hear::<Opening>()? {
                Ok(at) => open = open.max(at),
                Err(no_room) => bail!("{}: {}", self.cast.name, no_room.text),
            }
        }
        self.done(task, open)
    }

    /// What both did since they were open.
    pub(super) fn done(mut self, task: Task, opened: Time) -> anyhow::Result<Acted> {
        Ok(Acted {
            sent: self.writer.hear()?,
            received: self.reader.hear()?,
            cast: self.cast,
            opened,
            task,
        })
    }
}

impl Acted {
    /// Figures of an experiment, and with them what was sent and received.
    pub(super) fn with_counts(&self, mut figures: Value) -> Value {
        for (name, count) in [
            ("sent_pdus", self.sent.pdus),
            ("received_pdus", self.received.pdus),
            ("wrong_pdus", self.received.wrong),
            ("reordered_pdus", self.received.reordered),
        ] {
            figures[name] = count.into();
        }
        figures
    }

    /// What it shows of the guarantee; none for best effort.
    pub(super) fn judge(&self, stalls: &Stalls) -> Option<Judgement> {
        let mut judgement = self.flow()?.judge(stalls);
        if self.opened > self.task.begin {
            let ms = self.opened.since_ns(self.task.begin) as f64 / 1e6;
            let name = &self.cast.name;
            judgement.void = Some(format!("{name} was open {ms:.0} ms after it should send"));
        }
        Some(judgement)
    }

    fn flow(&self) -> Option<Flow<'_>> {
        Some(Flow {
            name: &self.cast.name,
            promise: self.cast.promise?,
            sent: &self.sent,
            received: &self.received,
            from: self.task.begin,
            to: self.task.end,
        })
    }
}
