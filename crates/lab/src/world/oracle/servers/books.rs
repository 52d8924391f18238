//! I15: the books of a server say what its adapter has, and no more is promised than there is.

use std::collections::BTreeMap;

use cellgate_core::adapter::{PortIndex, VcId};
use cellgate_core::server::{AdapterIndex, ConnectionInfo, Direction, On, Resource};

use super::{Audit, View, Wrong};
use crate::world::servers::{KeptVc, SERVER_UID, Serving};

/// Cells per second that a VC guarantees each way at the adapter. What is received without a rate,
/// its buffer being its only police, has what is reserved for it; at a higher rate than its line's,
/// all of the line.
fn guaranteed(kept: &KeptVc, line: u64) -> [u64; 2] {
    let request = &kept.request;
    let transmit = request.transmit;
    let transmit = transmit.and_then(|one| one.sustained.map(|s| s.rate).or(one.rate));
    let receive = request.receive.filter(|receive| receive.guaranteed);
    let receive = receive.map_or(0, |receive| {
        let sustained = receive.sustained.map(|sustained| sustained.rate);
        let rate = sustained.or(receive.rate);
        let reserved = kept.record.demand.receive.guaranteed;
        rate.map_or(reserved, |rate| rate.cell_s().into()).min(line)
    });
    [transmit.map_or(0, |rate| rate.cell_s().into()), receive]
}

const WAYS: [&str; 2] = ["transmit", "receive"];

impl Audit {
    /// No more is promised than there is.
    pub(crate) fn promises_fit(&mut self, server: &Serving) -> Result<(), Wrong> {
        let mut all = server.admission().resources(|_| None, |_| None);
        let memory = all.iter().find(|one| one.resource == Resource::Memory);
        let memory = memory.map_or(0, |one| one.reserved);
        let before = std::mem::replace(&mut self.promised, memory);
        // What is promised stays promised where a limit is lowered.
        all.retain(|one| one.resource != Resource::Memory || memory > before);
        match all.iter().find(|one| one.reserved > one.capacity) {
            Some(one) => {
                let (resource, reserved, capacity) = (one.resource, one.reserved, one.capacity);
                Err(("I15", format!("{resource}: {reserved} of {capacity}")))
            }
            None => Ok(()),
        }
    }

    /// When nothing is under way the books say what the adapter has, and the accounts go on.
    pub(crate) fn is_at_rest(&mut self, seen: &View<'_>) -> Result<(), Wrong> {
        self.audits += 1;
        if let Some(text) = seen.out_of_books() {
            return Err(("I15", text));
        }
        self.accounts_go_on(seen)
    }
}

impl View<'_> {
    /// The adapter guarantees no more than there is.
    pub(crate) fn guarantees_fit(&self) -> Result<(), Wrong> {
        let wrong = |text| Err(("I15", format!("its adapter has {text}")));
        self.beyond_capacity().map_or(Ok(()), wrong)
    }

    /// What of a line's cells per second can be promised.
    fn capacity(&self, cell_s: u64) -> u64 {
        cell_s - (cell_s * u64::from(self.spec.best_effort_percent)).div_ceil(100)
    }

    /// I15, at the adapter: what its VCs guarantee and take is there. What is wrong, if anything.
    fn beyond_capacity(&self) -> Option<String> {
        let mut users: BTreeMap<u32, [u64; 2]> = BTreeMap::new();
        let mut ports = vec![[0; 2]; self.lines.len()];
        let mut octets = 0;
        for kept in self.vcs.values() {
            let port = usize::from(kept.request.port.0);
            let rates = guaranteed(kept, self.lines[port]);
            let user = users.entry(kept.record.uid).or_default();
            for way in 0..2 {
                ports[port][way] += rates[way];
                user[way] += rates[way];
            }
            octets += u64::from(kept.sizes.receive_len) + u64::from(kept.sizes.transmit_len);
        }
        for (port, (sums, line)) in ports.iter().zip(&self.lines).enumerate() {
            for (way, sum) in WAYS.iter().zip(sums) {
                let capacity = self.capacity(*line);
                if *sum > capacity {
                    return Some(format!("port {port}: {way} {sum} cells/s of {capacity}"));
                }
            }
        }
        let quota = match self.spec.quota_cell_s {
            0 => u64::MAX,
            cell_s => cell_s,
        };
        let bound = users
            .iter()
            .filter(|(uid, _)| ![0, SERVER_UID].contains(*uid));
        for (uid, sums) in bound {
            if let Some(sum) = sums.iter().find(|sum| **sum > quota) {
                return Some(format!("user {uid}: {sum} cells/s of {quota}"));
            }
        }
        if octets > self.spec.memory {
            return Some(format!("{octets} octets of {}", self.spec.memory));
        }
        let (count, most) = (self.vcs.len(), self.spec.connections);
        (count > most as usize).then(|| format!("{count} connections of {most}"))
    }

    /// I15, I19: what of the books is not so, if anything.
    fn out_of_books(&self) -> Option<String> {
        let list: Vec<ConnectionInfo> = self.server?.connections().collect();
        if list.len() != self.vcs.len() {
            let (books, adapter) = (list.len(), self.vcs.len());
            return Some(format!("{books} connections in the books, {adapter} VCs"));
        }
        let mut sums: BTreeMap<PortIndex, [u64; 2]> = BTreeMap::new();
        for info in &list {
            let address = &info.address;
            let Some((vc, kept)) = self.vc_at(address) else {
                return Some(format!("{address} is in the books, and no VC"));
            };
            let line = self.line(kept.request.port);
            let sum = sums.entry(kept.request.port).or_default();
            for (way, rate) in [info.transmit, info.receive].iter().enumerate() {
                let rate = rate.filter(|_| info.guaranteed);
                let rate = rate.map_or(0, |rate| u64::from(rate.cell_s()));
                let has = guaranteed(kept, line)[way];
                if rate != has {
                    let way = WAYS[way];
                    let text = format!("{address}: {way} {rate} in the books, {has} cells/s");
                    return Some(text);
                }
                sum[way] += rate;
            }
            if let Some(text) = self.is_nobodys(info, *vc) {
                return Some(text);
            }
        }
        let unbalanced = self.unbalanced(&list, &sums);
        unbalanced.or_else(|| self.shared_wrong(&list))
    }

    /// Whether a connection that is in use is used by nobody, or in memory of an adapter that has
    /// died: its application was not told of the next.
    fn is_nobodys(&self, info: &ConnectionInfo, vc: VcId) -> Option<String> {
        let pid = info.pid?;
        let mut users = self.sockets.values().map(|n| &self.users[*n]);
        let is_used = users.any(|user| {
            let is_of_this = |life| life == self.adapter_life;
            user.held.is_some_and(|held| held.0 == vc) && user.mapped.is_none_or(is_of_this)
        });
        let address = &info.address;
        (!is_used).then(|| format!("{address} is said to be used by process {pid}, and is not"))
    }

    /// Whether what is reserved is not the sum of what was promised.
    fn unbalanced(
        &self,
        list: &[ConnectionInfo],
        sums: &BTreeMap<PortIndex, [u64; 2]>,
    ) -> Option<String> {
        let server = self.server?;
        let port_of = |name: &str| {
            let port = self.interfaces.iter().position(|one| one.name == name);
            PortIndex(port.unwrap_or(0) as u8)
        };
        let interface =
            |port: On<PortIndex>| Some(self.interfaces.get(usize::from(port.id.0))?.name.as_str());
        for one in server.admission().resources(interface, |_| None) {
            let on_port = one.interface.as_deref().map(port_of);
            let sum = on_port
                .and_then(|port| sums.get(&port))
                .copied()
                .unwrap_or_default();
            let due = match one.resource {
                Resource::TransmitBandwidth => sum[0],
                Resource::ReceiveBandwidth => sum[1],
                Resource::Memory => list.iter().map(|info| info.memory).sum(),
                Resource::AdapterCpu => list.iter().map(|c| u64::from(c.cpu_reserved_ppm)).sum(),
                Resource::Connections => list.len() as u64,
                Resource::WorkerCpu => 0,
            };
            if one.reserved != due {
                let (resource, reserved) = (one.resource, one.reserved);
                return Some(format!("{resource}: {reserved} reserved, {due} promised"));
            }
        }
        for (port, sum) in sums {
            for (direction, sum) in [Direction::Transmit, Direction::Receive].iter().zip(sum) {
                let line = self.line(*port);
                let rest = server
                    .admission()
                    .rest(AdapterIndex::FIRST.on(*port), *direction);
                if rest + sum != line {
                    return Some(format!("{port:?}: {sum} promised, {rest} left of {line}"));
                }
            }
        }
        None
    }
}
