use std::collections::VecDeque;

use super::host::Packet;
use super::{EtherHost, EtherSpec};
use crate::machine::v1s::{Application, HostCosts};
use crate::world::Ps;

/// A host at an Ethernet.
pub struct Attachment<A> {
    pub costs: HostCosts,
    /// Circuits on which it receives.
    pub circuits: Vec<u16>,
    pub application: A,
}

/// Hosts on one wire.
///
/// Of what happens at one time, the wire is first, then the hosts in their order.
pub struct Segment<A> {
    spec: EtherSpec,
    hosts: Vec<EtherHost<A>>,
    /// Packets that interfaces hold until the wire is free, with their senders, and that on the
    /// wire with the time of its last bit.
    waiting: VecDeque<(Ps, usize, Packet)>,
    sent: Option<(Ps, usize, Packet)>,
    /// When the wire may be taken.
    free: Ps,
    now: Ps,
}

impl<A: Application> Segment<A> {
    pub fn new(spec: EtherSpec, attached: Vec<Attachment<A>>) -> Self {
        let host =
            |one: Attachment<A>| EtherHost::new(spec, one.costs, one.circuits, one.application);
        Self {
            spec,
            hosts: attached.into_iter().map(host).collect(),
            waiting: VecDeque::new(),
            sent: None,
            free: Ps::ZERO,
            now: Ps::ZERO,
        }
    }

    pub const fn now(&self) -> Ps {
        self.now
    }

    pub fn hosts(&self) -> &[EtherHost<A>] {
        &self.hosts
    }

    /// Runs until `end`, or until `is_done`.
    pub fn run(&mut self, end: Ps, mut is_done: impl FnMut(&Self) -> bool) {
        while self.now < end && !is_done(self) {
            self.turn(end);
        }
    }

    /// The next event; none before `end`: the time is then that.
    fn turn(&mut self, end: Ps) {
        let hosts = self.hosts.iter().map(EtherHost::next).enumerate();
        let (host, step) = hosts.min_by_key(|(_, at)| *at).unwrap_or((0, Ps::MAX));
        let last_bit = self.sent.as_ref().map_or(Ps::MAX, |(at, ..)| *at);
        let first_bit = match (&self.sent, self.waiting.front()) {
            (None, Some((at, ..))) => self.free.max(*at),
            _ => Ps::MAX,
        };
        self.now = last_bit.min(first_bit).min(step).min(end);
        if self.now == end {
            return;
        }
        if self.now == last_bit {
            self.arrives();
        } else if self.now == first_bit {
            self.leaves();
        } else if let Some((at, packet)) = self.hosts[host].step() {
            let behind = self.waiting.partition_point(|(from, ..)| *from <= at);
            self.waiting.insert(behind, (at, host, packet));
        }
    }

    fn leaves(&mut self) {
        if let Some((_, from, packet)) = self.waiting.pop_front() {
            let last_bit = self.now.plus(self.spec.wire(packet.block.len()));
            self.free = last_bit.plus(self.spec.gap());
            self.sent = Some((last_bit, from, packet));
        }
    }

    fn arrives(&mut self) {
        if let Some((at, from, packet)) = self.sent.take() {
            let mut others = self.hosts.iter_mut().enumerate();
            others.any(|(to, host)| to != from && host.arrives(at, &packet));
        }
    }
}
