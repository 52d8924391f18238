//! Interfaces: links on the adapter's ports.

use super::connection::Asker;
use super::machine::{Pending, Server};
use super::{
    AdapterAnswer, AdapterAsk, AdapterIndex, AdapterRefusal, Address, Bugs, Change, Confirm,
    Indication, InterfaceCounts, InterfaceInfo, InterfaceSpec, InterfaceState, On, Refused,
};
use crate::adapter::PortIndex;
use crate::contract::CellRate;
use crate::keeper::Answer;
use crate::line::LineSpec;

#[derive(Debug)]
pub(super) struct Interface {
    pub(super) spec: InterfaceSpec,
    pub(super) port: On<PortIndex>,
    pub(super) up: bool,
    /// Its port has its link, waiting for the other end or not.
    pub(super) linked: bool,
    pub(super) stage: LinkStage,
    /// As last told; none: nothing was told yet.
    pub(super) dropped_cells: Option<u64>,
    pub(super) state: InterfaceState,
    pub(super) counts: InterfaceCounts,
}

/// What the adapter was asked for an interface and has not answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LinkStage {
    /// The link of a new one.
    Adding(Asker),
    /// The link, again, after the adapter was lost.
    Relinking,
    /// The same; it is removed when that is answered.
    Leaving(Asker),
    /// Another line, and how the one before was impaired.
    Impairing(Asker, Option<Box<LineSpec>>),
    There,
    /// The end of its link.
    Removing(Asker),
}

impl Interface {
    pub(super) fn line(&self) -> CellRate {
        self.spec.line_rate.unwrap_or(CellRate::OC3)
    }

    fn memory_peer(&self) -> Option<&str> {
        self.spec.link.memory_peer()
    }
}

/// The interface of an address that names none, where there are several. A daemon without
/// configuration has a loop of this name.
pub const LOOP: &str = "lo";

/// An interface that connections can be opened on.
pub(super) struct Found {
    pub(super) address: Address,
    pub(super) port: On<PortIndex>,
}

impl<B: Bugs> Server<B> {
    /// The interface of an address: the one it names, else the only one, else `lo`.
    pub(super) fn find_interface(&self, address: &Address) -> Result<Found, Refused> {
        let named = match &address.interface {
            Some(name) => self.interfaces.get(name),
            None => match (self.interfaces.len(), self.interfaces.get(LOOP)) {
                (0..=1, _) => self.interfaces.values().next(),
                (_, Some(of_itself)) => Some(of_itself),
                (_, None) => {
                    let names = self.interfaces.keys().cloned().collect();
                    return Err(Refused::InterfaceUnnamed { names });
                }
            },
        };
        let usable = |interface: &&Interface| {
            matches!(
                interface.stage,
                LinkStage::There | LinkStage::Relinking | LinkStage::Impairing(..)
            )
        };
        let interface = named.filter(usable).ok_or(Refused::NoInterface)?;
        if let Some(refused) = interface.spec.bars(address.vc) {
            return Err(refused);
        }
        Ok(Found {
            address: Address {
                interface: Some(interface.spec.name.clone()),
                vc: address.vc,
            },
            port: interface.port,
        })
    }

    pub(super) fn interface_name(&self, port: On<PortIndex>) -> Option<&str> {
        let mut all = self.interfaces.values();
        let found = all.find(|interface| interface.port == port);
        found.map(|interface| interface.spec.name.as_str())
    }

    pub(super) fn interface_info(&self, interface: &Interface) -> InterfaceInfo {
        let on_port = (interface.port, crate::wire::VpiVci::default())..;
        let connections = self.addresses.range(on_port);
        let connections = connections.take_while(|((port, _), _)| *port == interface.port);
        InterfaceInfo {
            spec: interface.spec.clone(),
            port: interface.port.id,
            up: interface.up,
            connections: connections.count() as u32,
            dropped_cells: interface.dropped_cells.unwrap_or(0),
            state: interface.state.clone(),
            counts: interface.counts.clone(),
        }
    }

    /// The interfaces that are there.
    pub(super) fn interface_infos(&self) -> Vec<InterfaceInfo> {
        let all = self.interfaces.values();
        let there = all.filter(|one| !matches!(one.stage, LinkStage::Adding(_)));
        there.map(|one| self.interface_info(one)).collect()
    }

    pub(super) fn add_interface(
        &mut self,
        asker: Asker,
        spec: InterfaceSpec,
    ) -> Result<(), Refused> {
        let no = |reason: &str| Err(Refused::Interface(reason.to_owned()));
        let adapter = match self.adapter_named(spec.adapter.as_deref()) {
            Some(adapter) => adapter,
            None => return no("there is no such adapter"),
        };
        if self.is_away(adapter) {
            return Err(Refused::AdapterAway);
        }
        if !Address::is_interface_name(&spec.name) {
            return no("a name has 1 to 15 of the characters a-z A-Z 0-9 _ -");
        }
        if self.interfaces.contains_key(&spec.name) {
            return no("the name is in use");
        }
        if self.interfaces.len() as u64 >= self.config.limits.interfaces.into() {
            return no("there are as many as there can be");
        }
        if let Some((_, mistake)) = spec.mistake() {
            return no(&mistake);
        }
        let mut all = self.interfaces.values();
        if let Some(other) = all.find(|other| other.spec.link.collides(&spec.link)) {
            let name = &other.spec.name;
            return no(&format!(
                "{name} has its local address: give both a peer_source_port, or another address"
            ));
        }
        if let Some(peer) = spec.link.memory_peer() {
            let other = self.interfaces.get(peer);
            if !Address::is_interface_name(peer) {
                return no("its peer's name cannot be one");
            }
            if other.is_some_and(|other| other.memory_peer() != Some(&spec.name)) {
                return no("its peer has another peer");
            }
            if let Some(why) = other.and_then(|other| spec.differs(&other.spec)) {
                return no(&why);
            }
            let mut others = self.interfaces.values();
            if others.any(|o| o.memory_peer() == Some(&spec.name) && o.spec.name != peer) {
                return no("another interface waits for this name");
            }
        }
        let ports = (0..self.config.adapter(adapter).ports).map(PortIndex);
        let mut ports = ports.map(|port| adapter.on(port));
        let Some(port) = ports.find(|port| self.interface_name(*port).is_none()) else {
            return no("all ports of the adapter are in use");
        };
        let interface = Interface {
            spec: spec.clone(),
            port,
            up: false,
            linked: false,
            stage: LinkStage::Adding(asker),
            dropped_cells: None,
            state: InterfaceState::Down,
            counts: InterfaceCounts::default(),
        };
        self.interfaces.insert(spec.name.clone(), interface);
        let pending = Pending::Interface(spec.name.clone());
        let ask = AdapterAsk::Link {
            port: port.id,
            spec,
        };
        self.ask(adapter, pending, ask);
        Ok(())
    }

    /// Has the line of an interface be impaired, or clean.
    pub(super) fn set_line(
        &mut self,
        asker: Asker,
        name: &str,
        line: LineSpec,
    ) -> Result<(), Refused> {
        let interface = self.interfaces.get_mut(name).ok_or(Refused::NoInterface)?;
        if !interface.linked || interface.stage != LinkStage::There {
            // Its link comes or goes.
            return Err(Refused::AdapterAway);
        }
        let line = (!line.is_clean()).then(|| Box::new(line));
        let former = core::mem::replace(&mut interface.spec.line, line);
        interface.stage = LinkStage::Impairing(asker, former);
        interface.counts.line = None;
        let (On { adapter, id: port }, spec) = (interface.port, interface.spec.clone());
        let pending = Pending::Interface(name.to_owned());
        self.ask(adapter, pending, AdapterAsk::Link { port, spec });
        Ok(())
    }

    pub(super) fn remove_interface(
        &mut self,
        asker: Asker,
        name: &str,
    ) -> Result<Option<Confirm>, Refused> {
        let interface = self.interfaces.get(name).ok_or(Refused::NoInterface)?;
        if self.is_away(interface.port.adapter) {
            return Err(Refused::AdapterAway);
        }
        let relinking = match interface.stage {
            LinkStage::There => false,
            LinkStage::Relinking => true,
            _ => return Err(Refused::NoInterface),
        };
        let connections = self.interface_info(interface).connections;
        if connections > 0 {
            return Err(Refused::InterfaceInUse { connections });
        }
        if relinking {
            if let Some(interface) = self.interfaces.get_mut(name) {
                interface.stage = LinkStage::Leaving(asker);
            }
            return Ok(None);
        }
        if !interface.linked {
            self.forget_interface(name);
            return Ok(Some(Confirm::Done));
        }
        self.end_link(name, asker);
        Ok(None)
    }

    fn end_link(&mut self, name: &str, asker: Asker) {
        let Some(interface) = self.interfaces.get_mut(name) else {
            return;
        };
        interface.stage = LinkStage::Removing(asker);
        let On { adapter, id: port } = interface.port;
        let pending = Pending::Interface(name.to_owned());
        self.ask(adapter, pending, AdapterAsk::Unlink { port });
    }

    /// The adapter answered about the link of an interface.
    pub(super) fn link_answered(
        &mut self,
        name: &str,
        answer: Result<AdapterAnswer, AdapterRefusal>,
    ) {
        let Some(interface) = self.interfaces.get_mut(name) else {
            return;
        };
        let linked = answer.and_then(|answer| match answer {
            AdapterAnswer::Linked { up } => Ok(up),
            AdapterAnswer::Keeper(Answer::Done) => Ok(false),
            _ => Err(AdapterRefusal::Other(
                "an answer to something else".to_owned(),
            )),
        });
        let stage = core::mem::replace(&mut interface.stage, LinkStage::There);
        match (stage, linked) {
            (LinkStage::Adding(asker), Ok(up)) => {
                let (port, cell_s) = (interface.port, interface.line().cell_s());
                interface.linked = true;
                self.admission.add_line(port, cell_s);
                self.set_up(name, up);
                self.announce_interface(name, Change::Added);
                self.confirm(asker, Ok(Confirm::Done));
            }
            (LinkStage::Adding(asker), Err(refusal)) => {
                self.interfaces.remove(name);
                self.confirm(asker, Err(link_refused(refusal)));
            }
            (LinkStage::Relinking | LinkStage::There, linked) => {
                interface.linked = linked.is_ok();
                self.set_up(name, linked.unwrap_or(false));
            }
            (LinkStage::Impairing(asker, _), Ok(_)) => {
                self.announce_interface(name, Change::Changed);
                self.confirm(asker, Ok(Confirm::Done));
            }
            (LinkStage::Impairing(asker, former), Err(refusal)) => {
                interface.spec.line = former;
                self.confirm(asker, Err(link_refused(refusal)));
            }
            (LinkStage::Leaving(asker), Ok(_)) => self.end_link(name, asker),
            (LinkStage::Removing(asker), Ok(_)) | (LinkStage::Leaving(asker), Err(_)) => {
                self.forget_interface(name);
                self.confirm(asker, Ok(Confirm::Done));
            }
            (LinkStage::Removing(asker), Err(refusal)) => {
                self.confirm(asker, Err(link_refused(refusal)));
            }
        }
    }

    /// Whether the link of an interface is there, which is so at both ends of a memory link.
    pub(super) fn set_up(&mut self, name: &str, up: bool) {
        let Some(interface) = self.interfaces.get_mut(name) else {
            return;
        };
        interface.up = up;
        let peer = interface.memory_peer().map(str::to_owned);
        let peer = peer.filter(|peer| peer != name);
        let Some(other) = peer.as_ref().and_then(|peer| self.interfaces.get_mut(peer)) else {
            return;
        };
        let changed = other.up != up && !matches!(other.stage, LinkStage::Adding(_));
        if let (true, Some(peer)) = (changed, peer) {
            other.up = up;
            self.announce_interface(&peer, Change::Changed);
        }
    }

    fn forget_interface(&mut self, name: &str) {
        self.set_up(name, false);
        self.announce_interface(name, Change::Removed);
        if let Some(interface) = self.interfaces.remove(name) {
            self.admission.remove_line(interface.port);
        }
    }

    pub(super) fn announce_interface(&mut self, name: &str, change: Change) {
        if let Some(interface) = self.interfaces.get(name) {
            let info = Box::new(self.interface_info(interface));
            self.tell_monitors(&Indication::Interface { change, info });
        }
    }

    /// The names of the interfaces on an adapter.
    fn names_on(&self, adapter: AdapterIndex) -> Vec<String> {
        let on = self.interfaces.iter();
        let on = on.filter(|(_, interface)| interface.port.adapter == adapter);
        on.map(|(name, _)| name.clone()).collect()
    }

    /// An adapter has gone: an interface that was to be removed is, one that was to be added is
    /// not. Memory links of other adapters that ended there are down.
    pub(super) fn lose_links(&mut self, adapter: AdapterIndex) {
        for name in self.names_on(adapter) {
            let Some(interface) = self.interfaces.get_mut(&name) else {
                continue;
            };
            interface.up = false;
            interface.state = InterfaceState::Down;
            interface.linked = false;
            // A new link counts anew.
            interface.dropped_cells = None;
            match core::mem::replace(&mut interface.stage, LinkStage::There) {
                LinkStage::Adding(asker) => {
                    self.interfaces.remove(&name);
                    self.confirm(asker, Err(Refused::AdapterAway));
                }
                LinkStage::Removing(asker) | LinkStage::Leaving(asker) => {
                    self.forget_interface(&name);
                    self.confirm(asker, Ok(Confirm::Done));
                }
                LinkStage::Impairing(asker, former) => {
                    interface.spec.line = former;
                    self.confirm(asker, Err(Refused::AdapterAway));
                }
                LinkStage::Relinking | LinkStage::There => {}
            }
        }
        for name in self.names_on(adapter) {
            let interface = self.interfaces.get(&name);
            let peer = interface.and_then(Interface::memory_peer);
            let peer = peer.and_then(|peer| self.interfaces.get(peer));
            if peer.is_some_and(|peer| peer.port.adapter != adapter) {
                self.set_up(&name, false);
            }
        }
    }

    /// An adapter is there again, or was and has refused a link: its interfaces without one get
    /// theirs.
    pub(super) fn find_links(&mut self, adapter: AdapterIndex) {
        self.note_links(adapter);
        for name in self.names_on(adapter) {
            if let Some(interface) = self.interfaces.get_mut(&name)
                && !interface.linked
                && matches!(interface.stage, LinkStage::There)
            {
                interface.stage = LinkStage::Relinking;
                let (port, spec) = (interface.port.id, interface.spec.clone());
                let ask = AdapterAsk::Link { port, spec };
                self.ask(adapter, Pending::Interface(name), ask);
            }
        }
    }
}

fn link_refused(refusal: AdapterRefusal) -> Refused {
    match refusal {
        AdapterRefusal::Link(reason) => Refused::Interface(reason),
        other => super::answers::refused(other),
    }
}
