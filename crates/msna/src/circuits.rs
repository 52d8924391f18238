use core::net::Ipv4Addr;
use std::collections::VecDeque;

use cellgate::Time;

/// Circuits of which a node proposes one in each call. A call between two hosts has one circuit
/// both ways: the host of the lower number proposes even ones, the other odd ones, so that two
/// calls that meet do not want the same.
#[derive(Debug)]
pub(crate) struct Circuits {
    /// Those that nobody uses, and from when on.
    free: VecDeque<(Time, u16)>,
}

impl Circuits {
    /// The first, and how many there are.
    const FIRST: u16 = 64;
    pub(crate) const COUNT: u16 = 512;
    /// The cells of an association come no later than this behind its end.
    const HOLD_NS: u64 = 1_000_000_000;

    /// Nodes that begin one after the other begin with different ones: what a predecessor had is
    /// not used again at once.
    pub(crate) fn new(incarnation: u64) -> Self {
        let all = Self::FIRST..Self::FIRST + Self::COUNT;
        let mut free: VecDeque<_> = all.map(|vci| (Time::ZERO, vci)).collect();
        let ms = incarnation / 1_000_000;
        free.rotate_left((ms % u64::from(Self::COUNT)) as usize);
        Self { free }
    }

    /// One on which nothing comes, for a call from a host to another. They are taken in turn.
    pub(crate) fn take(&mut self, now: Time, from: Ipv4Addr, to: Ipv4Addr) -> Option<u16> {
        let parity = u16::from(from > to);
        let fits = |(until, vci): &(Time, u16)| *until <= now && vci % 2 == parity;
        let at = self.free.iter().position(fits)?;
        self.free.remove(at).map(|(_, vci)| vci)
    }

    /// Takes one back.
    pub(crate) fn release(&mut self, now: Time, vci: u16) {
        if (Self::FIRST..Self::FIRST + Self::COUNT).contains(&vci) {
            self.free.push_back((now.plus_ns(Self::HOLD_NS), vci));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_circuit_rests_before_it_is_used_again() {
        let hosts = [1, 2].map(|n| Ipv4Addr::new(10, 0, 0, n));
        let mut circuits = Circuits::new(0);
        let mut now = Time::from_ns(5);
        let taken: Vec<_> = (0..256)
            .map(|_| circuits.take(now, hosts[0], hosts[1]).unwrap())
            .collect();
        assert!(taken.iter().all(|vci| vci % 2 == 0));
        assert_eq!(circuits.take(now, hosts[1], hosts[0]), Some(65));
        assert_eq!(circuits.take(now, hosts[0], hosts[1]), None);
        circuits.release(now, taken[7]);
        now = now.plus_ns(Circuits::HOLD_NS - 1);
        assert_eq!(circuits.take(now, hosts[0], hosts[1]), None);
        now = now.plus_ns(1);
        assert_eq!(circuits.take(now, hosts[0], hosts[1]), Some(taken[7]));
    }
}
