//! Senders that go on until they are told to stop, and do meanwhile as they are told.

use cellgate_core::adapter::AdapterState;
use cellgate_host::clock::MonotonicClock;

use super::super::host::{HostReport, Order};
use super::super::plan::{Hazard, Strange};
use super::super::sender::{Sent, Steer, Task};
use super::{HEAD_START_NS, Stage};
use crate::live::actor::Actor;

/// A year: somebody ends it before.
const FOR_EVER_NS: u64 = 31_536_000_000_000_000;

/// Senders that do as they are told.
pub(crate) struct Steered {
    senders: Vec<Actor>,
}

impl Steered {
    pub(crate) fn say(&mut self, steer: &Steer) -> anyhow::Result<()> {
        self.senders.iter_mut().try_for_each(|one| one.say(steer))
    }
}

impl Stage {
    /// The adapter's process.
    pub(crate) fn adapter_pid(&self) -> u32 {
        self.control.hello().pid
    }

    /// Everybody sends until it is told to stop, and the hazard and the stranger do as they are
    /// told meanwhile.
    pub(crate) fn steer(&mut self, first: Steer) -> anyhow::Result<Steered> {
        self.runs += 1;
        let mut senders = self.senders()?;
        let run = self.runs;
        let () = self.ask(Order::Begin { run })?;
        let begin = MonotonicClock.now().plus_ns(HEAD_START_NS);
        let task = Task {
            run,
            begin,
            end: begin.plus_ns(FOR_EVER_NS),
            hazard: first.hazard,
            strange: match first.scan {
                true => Strange::Scan,
                false => Strange::Nothing,
            },
            steered: true,
        };
        for sender in &mut senders {
            sender.say(&task)?;
        }
        Ok(Steered { senders })
    }

    /// Has the host read the hazard's PDUs, or leave them in their buffer.
    pub(crate) fn read_hazard(&mut self, reads: bool) -> anyhow::Result<()> {
        self.ask(Order::Read { hazard: reads })
    }

    /// All stop: what each has sent, and what the host has counted.
    pub(crate) fn halt(
        &mut self,
        mut steered: Steered,
        before: &AdapterState,
    ) -> anyhow::Result<(Vec<Sent>, HostReport)> {
        steered.say(&Steer {
            hazard: Hazard::BitS(0),
            scan: false,
            over: true,
        })?;
        let mut sent = Vec::new();
        for sender in &mut steered.senders {
            let more: Vec<Sent> = sender.hear()?;
            sent.extend(more);
        }
        self.drain(before, &sent)?;
        Ok((sent, self.ask(Order::End)?))
    }
}
