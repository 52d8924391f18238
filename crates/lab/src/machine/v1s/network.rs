use std::collections::VecDeque;

use cellgate_core::upper::msna::Notify;
use cellgate_core::wire::CbnCell;

use super::{Application, Deed, Host, HostSpec, Station, V1sSpec};
use crate::cbn::{Attached, CbnBug, Ring, RingDeed, RingSpec, SlotHarm};
use crate::world::Ps;

/// A station and its host, and where on the ring they are.
pub struct Seat<A> {
    pub place: u32,
    pub station: V1sSpec,
    pub host: HostSpec,
    /// Circuits on which it receives, and their cells that interrupt.
    pub circuits: Vec<(u16, Notify)>,
    pub application: A,
}

/// Stations on a ring.
///
/// Of what happens at one time, the ring is first, in the order of places, then the RAMs, then the
/// hosts.
pub struct Network<A> {
    ring: Ring,
    stations: Vec<Station>,
    /// The time of each station's next access.
    accesses: Vec<Ps>,
    hosts: Vec<Host<A>>,
    /// Cells from elsewhere, to which station.
    streams: VecDeque<(Ps, usize, CbnCell)>,
    now: Ps,
}

impl<A: Application> Network<A> {
    /// Seats in the rising order of their places.
    pub fn new(ring: RingSpec, seats: Vec<Seat<A>>) -> Self {
        let places: Vec<_> = seats.iter().map(|seat| seat.place).collect();
        let (mut stations, mut hosts) = (Vec::new(), Vec::new());
        for seat in seats {
            let vcis = seat.circuits.iter().map(|(vci, _)| *vci);
            let channels = seat.station.channels;
            hosts.push(Host::new(seat.host, channels, vcis, seat.application));
            stations.push(Station::new(seat.station, seat.circuits));
        }
        Self {
            ring: Ring::new(ring, &places),
            accesses: stations.iter().map(Station::next).collect(),
            stations,
            hosts,
            streams: VecDeque::new(),
            now: Ps::ZERO,
        }
    }

    /// The same with a monitor, and with books of what ring and stations do.
    pub fn watched(ring: RingSpec, seats: Vec<Seat<A>>, bug: Option<CbnBug>) -> Self {
        let network = Self::new(ring, seats);
        let stations = network.stations.into_iter();
        let stations: Vec<_> = stations.map(|station| station.watched(bug)).collect();
        let hosts = network.hosts.into_iter().zip(&stations);
        Self {
            ring: network.ring.watched(bug),
            hosts: hosts
                .map(|(host, station)| host.with(bug, station))
                .collect(),
            stations,
            ..network
        }
    }

    /// Something happens to the ring.
    pub fn harm(&mut self, at: Ps, harm: SlotHarm) {
        self.ring.harm(at, harm);
    }

    /// A station is reset: its host goes on with the next cell.
    pub fn reset(&mut self, at: Ps, number: usize) {
        self.ring.forget(number);
        self.stations[number].reset();
        self.accesses[number] = self.stations[number].next();
        self.hosts[number].lacks_its_station(at);
    }

    /// A station and its host, to which something happens.
    pub fn seat(&mut self, number: usize) -> (&mut Station, &mut Host<A>) {
        (&mut self.stations[number], &mut self.hosts[number])
    }

    /// The deeds of the ring, and those of each station, since they were taken last.
    pub fn take_log(&mut self) -> (Vec<RingDeed>, Vec<Vec<Deed>>) {
        let stations = self.stations.iter_mut().map(Station::take_log);
        (self.ring.take_log(), stations.collect())
    }

    /// When [`Network::turn`] is due.
    pub fn next(&self) -> Ps {
        let accesses = self.accesses.iter().copied();
        let hosts = self.hosts.iter().map(Host::next);
        let own = accesses.chain(hosts).fold(self.ring.next(), Ps::min);
        let stream = self.streams.front().map_or(Ps::MAX, |(at, ..)| *at);
        own.min(stream)
    }

    /// Whether nothing is to be done but to look whether slots are empty.
    pub fn is_at_rest(&self) -> bool {
        let mut hosts = self.hosts.iter();
        let mut accesses = self.accesses.iter();
        self.ring.is_empty()
            && hosts.all(|host| host.next() == Ps::MAX)
            && accesses.all(|at| *at == Ps::MAX)
            && self.stations.iter().all(Station::has_sent_all)
    }

    /// Has cells come to a station as if slots passed whose fronts are there at these times, none
    /// earlier than the one before.
    pub fn stream(&mut self, to: usize, cells: impl IntoIterator<Item = (Ps, CbnCell)>) {
        let cells = cells.into_iter().map(|(at, cell)| (at, to, cell));
        self.streams.extend(cells);
    }

    pub const fn now(&self) -> Ps {
        self.now
    }

    pub const fn ring(&self) -> &Ring {
        &self.ring
    }

    pub fn stations(&self) -> &[Station] {
        &self.stations
    }

    pub fn hosts(&self) -> &[Host<A>] {
        &self.hosts
    }

    /// Runs until `end`, or until `is_done`.
    pub fn run(&mut self, end: Ps, mut is_done: impl FnMut(&Self) -> bool) {
        while self.now < end && !is_done(self) {
            self.turn();
        }
    }

    /// The next event.
    pub fn turn(&mut self) {
        let accesses = self.accesses.iter().copied().enumerate();
        let (station, access) = accesses.min_by_key(|(_, at)| *at).unwrap_or((0, Ps::MAX));
        let hosts = self.hosts.iter().map(Host::next).enumerate();
        let (host, step) = hosts.min_by_key(|(_, at)| *at).unwrap_or((0, Ps::MAX));
        let pass = self.ring.next();
        let stream = self.streams.front().map_or(Ps::MAX, |(at, ..)| *at);
        let changed = if stream <= pass.min(access).min(step)
            && let Some((at, to, cell)) = self.streams.pop_front()
        {
            self.now = at;
            let channel = self.stations[to].spec().channel;
            self.stations[to].passes(at, channel, &cell);
            Some(to)
        } else if pass <= access && pass <= step {
            self.now = pass;
            self.ring.turn(&mut self.stations)
        } else if access <= step {
            self.now = access;
            self.stations[station].access();
            self.hosts[station].wake(access);
            Some(station)
        } else {
            self.now = step;
            self.hosts[host].step(&mut self.stations[host]);
            Some(host)
        };
        if let Some(changed) = changed {
            self.accesses[changed] = self.stations[changed].next();
        }
    }
}
