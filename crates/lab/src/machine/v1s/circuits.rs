//! Circuits that come and go while a host runs.

use std::collections::BTreeMap;

use cellgate_core::upper::msna::{Association, Msdl, Notify, To};

use super::Station;
use super::access::{Below, terms};
use crate::world::Ps;

/// The circuits on which a host receives.
pub struct Circuits<'a> {
    pub(super) at: Ps,
    pub(super) msdl: &'a mut Msdl,
    pub(super) below: &'a Below,
    pub(super) station: &'a mut Station,
    pub(super) opened: &'a mut BTreeMap<u16, Association>,
}

impl Circuits<'_> {
    /// The first of these that is free becomes a circuit of the host's. None: none is free, or one
    /// was a moment ago.
    pub fn open(&mut self, vcis: impl IntoIterator<Item = u16>, notify: Notify) -> Option<u16> {
        let (now, below) = (self.at.time(), self.below);
        for vci in vcis {
            if let Some(association) = self.msdl.begin(now, below, terms(vci, vci, To::Channel(0)))
            {
                self.opened.insert(vci, association);
                self.station.listens(self.at, vci, Some(notify));
                return Some(vci);
            }
        }
        None
    }

    /// A circuit is nobody's from here on.
    pub fn close(&mut self, vci: u16) {
        if let Some(association) = self.opened.remove(&vci) {
            self.msdl.end(self.at.time(), association);
            self.station.listens(self.at, vci, None);
        }
    }

    /// The circuits that were opened.
    pub fn all(&self) -> Vec<u16> {
        self.opened.keys().copied().collect()
    }
}
