//! A node's turn.

use std::net::Ipv4Addr;

use cellgate_core::upper::msna::rex::{self, Failure, Outcome};
use cellgate_core::upper::msna::{Asked, Connect, Event, Notify, Refusal, To};

use super::link::Link;
use super::{CIRCUITS, CbnBug, Circuits, MessageEffect, Node, Outgoing, Ps, SAP, WAITING};
use crate::world::rings::block::{Block, Seen};

impl Node {
    /// The CPU is free: takes what has come, does what is due, and says what is to be said.
    pub(in crate::world::rings) fn turn(&mut self, circuits: &mut Circuits<'_>, at: Ps) {
        if let Some(until) = self.dead_until {
            for vci in circuits.all() {
                circuits.close(vci);
            }
            self.inbox.clear();
            self.is_open = false;
            if at < until {
                return;
            }
            self.dead_until = None;
        }
        while let Some((vci, block)) = self.inbox.pop_front() {
            self.takes(circuits, at, vci, &block);
        }
        self.msnl.handle_deadline(at.time());
        self.hears(circuits, at);
        self.rex.handle_deadline(at.time());
        self.is_told(at);
        while self.works.front().is_some_and(|(due, ..)| *due <= at) {
            if let Some((_, exchange, octets)) = self.works.pop_front() {
                // Who waits no more needs none.
                let _ = self.rex.reply(at.time(), exchange, octets);
                self.is_told(at);
            }
        }
        self.calls(at);
        self.ends_idle(circuits, at);
        self.says(circuits, at);
    }

    /// A block has come.
    fn takes(&mut self, circuits: &mut Circuits<'_>, at: Ps, vci: u16, block: &[u8]) {
        if self.peers.values().any(|peer| peer.comes == vci) {
            self.msnl.handle(at.time(), block);
            return self.hears(circuits, at);
        }
        let mut peers = self.peers.iter_mut();
        let Some((host, peer)) = peers.find(|(_, peer)| peer.has(vci)) else {
            return;
        };
        peer.is_used(at, Some(vci));
        let from = Self::address(*host);
        self.rex.handle(at.time(), from, block);
        self.is_told(at);
    }

    /// What MSNL tells.
    fn hears(&mut self, circuits: &mut Circuits<'_>, at: Ps) {
        while let Some(event) = self.msnl.poll_event() {
            match event {
                Event::Accepted { call, vci } => {
                    self.book.answered(self.incarnation, call);
                    self.is_open(circuits, at, call, vci);
                }
                Event::Refused { call, .. } | Event::Silent { call } => {
                    if self.spec.bug != Some(CbnBug::SilenceKept) {
                        self.book.answered(self.incarnation, call);
                    }
                    let mut peers = self.peers.values_mut();
                    let is_it = |link| matches!(link, Link::Asked { call: own, .. } if own == call);
                    if let Some(peer) = peers.find(|peer| is_it(peer.ours)) {
                        peer.pending.clear();
                        close(circuits, &mut peer.ours);
                    }
                }
                Event::Asked { asked, connect } => self.is_asked(circuits, at, asked, &connect),
                Event::Released { vci } => {
                    let links = self.peers.values_mut();
                    let links = links.flat_map(|peer| [&mut peer.ours, &mut peer.theirs]);
                    for link in links.filter(|link| link.own() == Some(vci)) {
                        close(circuits, link);
                    }
                }
                Event::Restarted { host } => {
                    if let Some(peer) = self.peers.get_mut(&host) {
                        close(circuits, &mut peer.theirs);
                        // What was asked for is asked for still.
                        if matches!(peer.ours, Link::Open { .. }) {
                            close(circuits, &mut peer.ours);
                        }
                    }
                }
                Event::Datagram { .. } => {}
            }
        }
    }

    /// An association that was asked for is there.
    fn is_open(
        &mut self,
        circuits: &mut Circuits<'_>,
        at: Ps,
        call: cellgate_core::upper::msna::Call,
        far: u16,
    ) {
        let mut opened = None;
        for (host, peer) in &mut self.peers {
            if let Link::Asked { call: asked, own } = peer.ours
                && asked == call
            {
                peer.ours = Link::Open { own, far, used: at };
                opened = Some((*host, std::mem::take(&mut peer.pending)));
            }
        }
        let Some((host, pending)) = opened else {
            return;
        };
        for block in pending {
            self.sends_block(circuits, at, host, block);
        }
    }

    /// Another host asks for an association.
    fn is_asked(&mut self, circuits: &mut Circuits<'_>, at: Ps, asked: Asked, connect: &Connect) {
        let first = self.spec.first_vci;
        let refuse = |node: &mut Self| {
            let (reason, offer) = (Refusal::Busy, String::new());
            node.msnl.refuse(at.time(), asked, reason, offer);
        };
        let host = asked.host();
        if !self.peers.contains_key(&host) {
            return refuse(self);
        }
        let Some(own) = circuits.open(first..first + CIRCUITS, connect.notify) else {
            return refuse(self);
        };
        let far = connect.vci;
        if let Some(peer) = self.peers.get_mut(&host) {
            // A caller that asks again has lost the one before.
            close(circuits, &mut peer.theirs);
            peer.theirs = Link::Open { own, far, used: at };
        }
        if !self.msnl.accept(at.time(), asked, own)
            && let Some(peer) = self.peers.get_mut(&host)
        {
            close(circuits, &mut peer.theirs);
        }
    }

    /// What REX tells.
    fn is_told(&mut self, at: Ps) {
        while let Some(event) = self.rex.poll_event() {
            match event {
                rex::Event::Ended { call, outcome } => {
                    if outcome == Outcome::Failed(Failure::TimedOut) {
                        // The next call asks for another association.
                        self.silent.insert(call.to().host);
                    }
                    self.book.ended(at, self.incarnation, call, &outcome);
                }
                rex::Event::Called { exchange, octets } => {
                    let reply = self.book.executed(at, &octets);
                    let reply = match self.spec.bug {
                        Some(CbnBug::OtherReply) => octets,
                        _ => reply,
                    };
                    self.works.push_back((at.plus(self.work), exchange, reply));
                }
                rex::Event::Announced { .. } | rex::Event::Cancelled { .. } => {}
            }
        }
    }

    /// Calls that are due.
    fn calls(&mut self, at: Ps) {
        for n in 0..self.callers.len() {
            while self.callers[n].due() <= at {
                let caller = &mut self.callers[n];
                let len = caller.octets[(caller.made % caller.octets.len() as u64) as usize];
                let block = Block {
                    association: caller.association,
                    serial: caller.made,
                    len,
                };
                caller.made += 1;
                let to = Self::address(caller.to);
                let called = self.rex.call(at.time(), to, block.octets());
                self.book.called(at, self.incarnation, block, called.ok());
                self.is_told(at);
            }
        }
    }

    /// Associations end that nobody has used for long, or on which nobody answers.
    fn ends_idle(&mut self, circuits: &mut Circuits<'_>, at: Ps) {
        let idle = self.idle();
        let silent = std::mem::take(&mut self.silent);
        for (host, peer) in &mut self.peers {
            for link in [&mut peer.ours, &mut peer.theirs] {
                if let Link::Open { far, used, .. } = *link
                    && (used.plus(idle) <= at || silent.contains(host))
                {
                    self.msnl.release(*host, far);
                    close(circuits, link);
                }
            }
        }
    }

    /// Has blocks leave.
    fn says(&mut self, circuits: &mut Circuits<'_>, at: Ps) {
        while self.out.len() < WAITING
            && let Some((to, block)) = self.rex.poll_out(at.time())
        {
            self.sends_block(circuits, at, to.host, block);
        }
        while let Some((host, block)) = self.msnl.poll_out() {
            if let Some(peer) = self.peers.get(&host) {
                let route = peer.route;
                self.leaves_later(
                    at,
                    false,
                    Outgoing {
                        vci: route.vci,
                        to: To::Channel(route.channel),
                        octets: block,
                    },
                );
            }
        }
    }

    /// A block of REX goes to a host, when there is an association.
    fn sends_block(&mut self, circuits: &mut Circuits<'_>, at: Ps, host: Ipv4Addr, block: Vec<u8>) {
        let Some(peer) = self.peers.get_mut(&host) else {
            return;
        };
        if let Some(vci) = peer.far() {
            peer.is_used(at, None);
            let channel = peer.route.channel;
            return self.leaves_later(
                at,
                true,
                Outgoing {
                    vci,
                    to: To::Channel(channel),
                    octets: block,
                },
            );
        }
        peer.waits(block);
        if peer.ours == Link::Closed {
            self.asks(circuits, at, host);
        }
    }

    /// Asks a host for an association.
    fn asks(&mut self, circuits: &mut Circuits<'_>, at: Ps, host: Ipv4Addr) {
        let first = self.spec.first_vci;
        let Some(own) = circuits.open(first..first + CIRCUITS, Notify::Every) else {
            return;
        };
        let connect = Connect {
            from: SAP,
            to: SAP,
            vci: own,
            notify: Notify::Every,
            contract: String::new(),
        };
        let call = self.msnl.connect(at.time(), host, connect);
        self.book.asked(self.incarnation, call);
        if let Some(peer) = self.peers.get_mut(&host) {
            peer.ours = Link::Asked { call, own };
        }
    }

    /// A block leaves, unless something becomes of it.
    fn leaves_later(&mut self, at: Ps, is_rex: bool, block: Outgoing) {
        let mut whens = vec![at];
        for harm in &mut self.harms {
            if harm.is_rex != is_rex || at < harm.from || at >= harm.until {
                continue;
            }
            harm.met += 1;
            if !(harm.met - 1).is_multiple_of(harm.every) {
                continue;
            }
            self.book.harmed += 1;
            match harm.effect {
                MessageEffect::Lose => whens.clear(),
                MessageEffect::Double { ns } => whens.push(at.plus(Ps::from_ns(ns))),
                MessageEffect::Late { ns } => {
                    whens
                        .iter_mut()
                        .for_each(|when| *when = when.plus(Ps::from_ns(ns)));
                }
            }
        }
        for when in whens {
            self.sent += 1;
            self.out.insert((when, self.sent), block.clone());
        }
    }
}

fn close(circuits: &mut Circuits<'_>, link: &mut Link) {
    if let Some(vci) = link.own() {
        circuits.close(vci);
    }
    *link = Link::Closed;
}

/// The octets of a reply to a call.
pub(super) fn reply(octets: &[u8]) -> Vec<u8> {
    octets.iter().map(|octet| octet ^ 0x55).collect()
}

/// The call that octets are.
pub(super) fn call(octets: &[u8]) -> Option<Block> {
    match Block::seen(octets) {
        Seen::Whole(block) => Some(block),
        Seen::Strange => None,
    }
}
