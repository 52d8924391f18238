use serde::{Deserialize, Serialize};

use super::{PortIndex, oam};
use crate::contract::Gcra;

/// The virtual paths in use: those of open VCs, and those that the adapter tests. Only these have
/// OAM flows, each policed on its own.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Paths {
    /// Where in `paths` the VPIs of each port are, port by port.
    places: Vec<u16>,
    paths: Vec<Path>,
    free: Vec<u16>,
    /// VPIs of a port.
    vpis: usize,
    /// Ports from this one on have never had a path.
    ports: usize,
}

/// A virtual path of a port.
#[derive(Debug, Serialize, Deserialize)]
struct Path {
    /// Who uses it; it is free without any.
    users: u32,
    /// The bucket of its OAM cells.
    oam: Gcra,
}

/// The place of a path that is not in use.
const NOWHERE: u16 = u16::MAX;

impl Paths {
    /// For so many ports, VPIs of 0 to `vpi_max`, and at most `users` users at once, fewer than
    /// 65,535.
    pub(super) fn new(ports: usize, vpi_max: u16, users: usize) -> Self {
        let vpis = usize::from(vpi_max) + 1;
        let idle = || Path {
            users: 0,
            oam: oam::police(),
        };
        Self {
            places: vec![NOWHERE; ports * vpis],
            paths: (0..users).map(|_| idle()).collect(),
            free: (0..users as u16).collect(),
            vpis,
            ports: 0,
        }
    }

    /// Ports from this one on have never had a path.
    #[inline(always)]
    pub(super) const fn ports(&self) -> usize {
        self.ports
    }

    /// One user more.
    pub(super) fn open(&mut self, port: PortIndex, vpi: u16) {
        let at = self.at(port, vpi);
        let Some(place) = self.places.get_mut(at) else {
            return;
        };
        if *place == NOWHERE {
            // There are as many paths as users.
            *place = self.free.pop().unwrap_or(NOWHERE);
        }
        if let Some(path) = self.paths.get_mut(usize::from(*place)) {
            path.users += 1;
            self.ports = self.ports.max(usize::from(port.0) + 1);
        }
    }

    /// One user less.
    pub(super) fn close(&mut self, port: PortIndex, vpi: u16) {
        let at = self.at(port, vpi);
        let Some(place) = self.places.get_mut(at) else {
            return;
        };
        let Some(path) = self.paths.get_mut(usize::from(*place)) else {
            return;
        };
        path.users -= 1;
        if path.users == 0 {
            path.oam = oam::police();
            self.free.push(*place);
            *place = NOWHERE;
        }
    }

    /// Paths that nobody uses.
    pub(super) fn idle(&self) -> usize {
        self.free.len()
    }

    /// The bucket of the OAM cells of a path, if it is in use.
    pub(super) fn police(&mut self, port: PortIndex, vpi: u16) -> Option<&mut Gcra> {
        let place = *self.places.get(self.at(port, vpi))?;
        let path = self.paths.get_mut(usize::from(place))?;
        Some(&mut path.oam)
    }

    fn at(&self, port: PortIndex, vpi: u16) -> usize {
        usize::from(port.0) * self.vpis + usize::from(vpi)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_lasts_as_long_as_its_users_and_starts_anew() {
        let mut paths = Paths::new(2, 255, 2);
        let port = PortIndex(1);
        assert!(paths.police(port, 7).is_none());
        paths.open(port, 7);
        paths.open(port, 7);
        let fresh = *paths.police(port, 7).unwrap();
        paths.police(port, 7).unwrap().charge(3);
        assert!(paths.police(PortIndex(0), 7).is_none());
        assert!(paths.police(port, 8).is_none());
        paths.close(port, 7);
        assert_ne!(*paths.police(port, 7).unwrap(), fresh);
        paths.close(port, 7);
        assert!(paths.police(port, 7).is_none());
        // As many paths as users, again and again.
        for vpi in 0..255 {
            paths.open(port, vpi);
            paths.open(PortIndex(0), vpi);
            assert_eq!(*paths.police(port, vpi).unwrap(), fresh);
            paths.close(port, vpi);
            paths.close(PortIndex(0), vpi);
        }
    }
}
