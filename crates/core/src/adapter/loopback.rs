//! Loopback cells of the adapter's own (I.610): sent on a host's wish, recognised when they return.

use serde::{Deserialize, Serialize};

use super::{
    Aal, Adapter, Attachment, Board, Command, Completion, Outcome, Planted, PortIndex, Refusal,
    Region,
};
use crate::Time;
use crate::wire::{Loopback, Oam, OamFlow, VpiVci};

/// What a host wants tested.
#[derive(Clone, Copy, Debug)]
pub(super) struct Test {
    pub(super) ticket: u64,
    pub(super) port: PortIndex,
    pub(super) address: VpiVci,
    pub(super) flow: OamFlow,
    pub(super) timeout_ns: u64,
}

/// Where a loopback cell travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Route {
    pub(super) port: PortIndex,
    /// In F4 that of the flow's own VC.
    pub(super) address: VpiVci,
    pub(super) flow: OamFlow,
}

/// A loopback cell that waits to leave or is out.
#[derive(Debug, Serialize, Deserialize)]
struct Out {
    ticket: u64,
    route: Route,
    tag: u32,
    deadline: Time,
    left: Option<Time>,
    /// Nanoseconds; some: it is back.
    round_trip_ns: Option<u64>,
}

/// All of them.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Loopbacks {
    out: Vec<Out>,
    /// The correlation tag of the next one. No two that are out have the same.
    tag: u32,
}

impl Loopbacks {
    /// Loopback cells out at once.
    pub(super) const MAX: usize = 16;

    /// Tags begin somewhere else in each life of an adapter: what returns late is not mistaken.
    pub(super) fn new(now: Time) -> Self {
        Self {
            out: Vec::with_capacity(Self::MAX),
            tag: now.ns() as u32,
        }
    }

    /// Whether no loopback cell is out.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// Whether a loopback cell waits to leave `port`.
    pub(super) fn wait_for(&self, port: PortIndex) -> bool {
        let waits = |out: &Out| out.left.is_none() && out.route.port == port;
        self.out.iter().any(waits)
    }

    pub(super) fn deadlines(&self) -> impl Iterator<Item = Time> {
        self.out.iter().map(|out| out.deadline)
    }

    /// The next cell to leave `port` at `now`, if one waits: its route and the request in it.
    pub(super) fn leave(&mut self, now: Time, port: PortIndex) -> Option<(Route, Oam)> {
        let waits = |out: &&mut Out| out.left.is_none() && out.route.port == port;
        let out = self.out.iter_mut().find(waits)?;
        out.left = Some(now);
        Some((out.route, Oam::Loopback(Loopback::request(out.tag))))
    }

    /// Whether a cell that came back along `route` is one of ours that is out.
    pub(super) fn take_back<B: Board>(
        &mut self,
        now: Time,
        route: Route,
        tag: u32,
        board: &B,
    ) -> bool {
        let is_same = |out: &Out| {
            let same_flow = out.route == route
                || board.planted(Planted::ReturnInOtherFlow)
                    && (out.route.port, out.route.address) == (route.port, route.address);
            let same_port = same_flow
                || board.planted(Planted::ReturnOnOtherPort)
                    && (out.route.address, out.route.flow) == (route.address, route.flow);
            let same_tag = out.tag == tag || board.planted(Planted::ReturnTagIgnored);
            same_port && same_tag && out.round_trip_ns.is_none()
        };
        for out in self.out.iter_mut().filter(|out| is_same(out)) {
            if let Some(left) = out.left {
                out.round_trip_ns = Some(now.since_ns(left));
                return true;
            }
        }
        false
    }
}

impl<R: Region, A: Attachment> Adapter<R, A> {
    /// Takes a test on; its command ends when the cell is back or late.
    pub(super) fn begin_loopback<B>(
        &mut self,
        now: Time,
        test: Test,
        board: &B,
    ) -> Result<(), Refusal>
    where
        B: Board<Region = R, Attachment = A>,
    {
        let Test { port, flow, .. } = test;
        let known = self.ports.get(usize::from(port.0));
        let known = known.ok_or(Refusal::NoPort)?;
        if test.address.vpi() > known.config.form.vpi_max() {
            return Err(Refusal::VpiTooLarge);
        }
        if !(1..=Command::<R, A>::LOOPBACK_MAX_NS).contains(&test.timeout_ns) {
            return Err(Refusal::BadParameter);
        }
        let address = flow.address(test.address);
        let route = Route {
            port,
            address,
            flow,
        };
        if !self.has_flow(route) {
            return Err(Refusal::NoFlow);
        }
        if self.loopbacks.out.len() == Loopbacks::MAX {
            return Err(Refusal::LoopbacksInUse);
        }
        let tag = self.loopbacks.tag;
        let kept = board.planted(Planted::LoopbackTagKept);
        self.loopbacks.tag = tag.wrapping_add(u32::from(!kept));
        self.loopbacks.out.push(Out {
            ticket: test.ticket,
            route,
            tag,
            deadline: now.plus_ns(test.timeout_ns),
            left: None,
            round_trip_ns: None,
        });
        if flow.is_f4() {
            self.paths.open(port, address.vpi());
        }
        Ok(())
    }

    /// Whether what returns along `route` is looked at as OAM: the VC is open, in F4 none is.
    fn has_flow(&self, route: Route) -> bool {
        let entry = self.table.lookup(route.port, route.address);
        let receiver = entry.is_open().then(|| entry.vc());
        if route.flow.is_f4() {
            return receiver.is_none();
        }
        let named = receiver.or_else(|| self.table.transmitter(route.port, route.address));
        let cold = named.and_then(|vc| self.cold.get(usize::from(vc.0))?.as_ref());
        cold.is_some_and(|cold| cold.request.aal != Aal::Aal0)
    }

    /// Ends the tests whose cell is back or late. What a step takes is in time.
    pub(super) fn settle_loopbacks<B>(&mut self, now: Time, board: &mut B)
    where
        B: Board<Region = R, Attachment = A>,
    {
        let mut at = 0;
        while let Some(out) = self.loopbacks.out.get(at) {
            let result = match out.round_trip_ns {
                Some(round_trip_ns) => Ok(Outcome::Returned { round_trip_ns }),
                None if out.deadline <= now && !board.planted(Planted::LoopbackNotTimed) => {
                    Err(Refusal::NoReturn)
                }
                None => {
                    at += 1;
                    continue;
                }
            };
            let Out { ticket, route, .. } = self.loopbacks.out.remove(at);
            if route.flow.is_f4() && !board.planted(Planted::TestedPathKept) {
                self.paths.close(route.port, route.address.vpi());
            }
            board.complete(Completion {
                ticket,
                result,
                region: None,
                attachment: None,
            });
        }
    }
}
