use std::collections::VecDeque;

use cellgate_core::upper::msna;

use crate::world::Ps;
use crate::world::rings::application::Route;

/// Blocks that wait for an association.
const PENDING: usize = 8;

/// An association that a node has asked for, or was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Link {
    #[default]
    Closed,
    /// It was asked for; its circuit here is open.
    Asked { call: msna::Call, own: u16 },
    /// Blocks come on our circuit and go on the other's; somebody has used it last at that time.
    Open { own: u16, far: u16, used: Ps },
}

/// Another host.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    /// The way of messages to it, and the circuit of those from it.
    pub(super) route: Route,
    pub(super) comes: u16,
    pub(super) ours: Link,
    pub(super) theirs: Link,
    pub(super) pending: VecDeque<Vec<u8>>,
}

impl Link {
    pub(super) const fn own(self) -> Option<u16> {
        match self {
            Self::Closed => None,
            Self::Asked { own, .. } | Self::Open { own, .. } => Some(own),
        }
    }

    const fn far(self) -> Option<u16> {
        match self {
            Self::Open { far, .. } => Some(far),
            _ => None,
        }
    }
}

impl Peer {
    pub(super) const fn new(route: Route, comes: u16) -> Self {
        Self {
            route,
            comes,
            ours: Link::Closed,
            theirs: Link::Closed,
            pending: VecDeque::new(),
        }
    }

    pub(super) fn forget(&mut self) {
        (self.ours, self.theirs) = (Link::Closed, Link::Closed);
        self.pending.clear();
    }

    pub(super) fn is_closed(&self) -> bool {
        (self.ours, self.theirs) == (Link::Closed, Link::Closed)
    }

    /// A circuit of ours on which it sends.
    pub(super) fn has(&self, vci: u16) -> bool {
        [self.ours, self.theirs]
            .iter()
            .any(|link| link.own() == Some(vci))
    }

    /// The circuit on which blocks go to it.
    pub(super) fn far(&self) -> Option<u16> {
        self.ours.far().or(self.theirs.far())
    }

    /// A block waits until there is an association.
    pub(super) fn waits(&mut self, block: Vec<u8>) {
        if self.pending.len() < PENDING {
            self.pending.push_back(block);
        }
    }

    /// Blocks came or went.
    pub(super) fn is_used(&mut self, at: Ps, own: Option<u16>) {
        for link in [&mut self.ours, &mut self.theirs] {
            let is_it = own.is_none() || link.own() == own;
            if let (true, Link::Open { used, .. }) = (is_it, link) {
                *used = at;
            }
        }
    }

    /// When an association was idle for so long.
    pub(super) fn due(&self, idle: Ps) -> Ps {
        let links = [self.ours, self.theirs].into_iter();
        let ends = links.filter_map(|link| match link {
            Link::Open { used, .. } => Some(used.plus(idle)),
            _ => None,
        });
        ends.fold(Ps::MAX, Ps::min)
    }
}
