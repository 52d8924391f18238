//! Unfinished PDUs. A capture whose VCs never finish one must not cost more memory than these
//! bounds say: beyond them the oldest are given up.

use std::collections::BTreeMap;

use crate::captured::PDUS_MAX;

/// Octets that may wait.
pub(super) const LEN_MAX: usize = 64 << 20;

/// PDUs in progress by what tells them apart, and in the order in which they began.
#[derive(Debug)]
pub(super) struct Held<K, P> {
    pdus: BTreeMap<K, (u64, P)>,
    order: BTreeMap<u64, K>,
    begun: u64,
    len: usize,
}

impl<K, P> Default for Held<K, P> {
    fn default() -> Self {
        Self {
            pdus: BTreeMap::new(),
            order: BTreeMap::new(),
            begun: 0,
            len: 0,
        }
    }
}

/// Its octets of memory.
pub(super) trait Occupies {
    fn octets(&self) -> usize;
}

impl<P: AsRef<[u8]>> Occupies for P {
    fn octets(&self) -> usize {
        self.as_ref().len()
    }
}

impl<K: Copy + Ord, P: Occupies> Held<K, P> {
    pub(super) fn get(&self, key: K) -> Option<&P> {
        self.pdus.get(&key).map(|(_, pdu)| pdu)
    }

    /// Changes the PDU of `key`; `new` begins it.
    pub(super) fn change(&mut self, key: K, new: impl FnOnce() -> P, change: impl FnOnce(&mut P)) {
        let (_, pdu) = self.pdus.entry(key).or_insert_with(|| {
            self.begun += 1;
            self.order.insert(self.begun, key);
            (self.begun, new())
        });
        self.len -= pdu.octets();
        change(pdu);
        self.len += pdu.octets();
    }

    pub(super) fn end(&mut self, key: K) -> Option<P> {
        let (begun, pdu) = self.pdus.remove(&key)?;
        self.order.remove(&begun);
        self.len -= pdu.octets();
        Some(pdu)
    }

    /// Ends the oldest PDU if too much is held.
    pub(super) fn give_up(&mut self) -> Option<(K, P)> {
        if self.len <= LEN_MAX && self.pdus.len() <= PDUS_MAX {
            return None;
        }
        let (_, key) = self.order.first_key_value()?;
        let key = *key;
        Some((key, self.end(key)?))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (K, &P)> {
        self.pdus.iter().map(|(key, (_, pdu))| (*key, pdu))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_given_up() {
        let mut held = Held::default();
        // The first to begin is not the smallest key.
        let grow = |held: &mut Held<u32, Vec<u8>>, key: u32, len: usize| {
            held.change(key, Vec::new, |pdu| pdu.resize(pdu.len() + len, 0));
        };
        for key in [2, 0, 1] {
            grow(&mut held, key, LEN_MAX / 4);
        }
        grow(&mut held, 2, LEN_MAX / 4);
        assert_eq!(held.give_up(), None);
        grow(&mut held, 1, 1);
        assert_eq!(held.give_up().map(|(key, _)| key), Some(2));
        assert_eq!(held.give_up(), None);
        assert_eq!(held.end(0).map(|pdu| pdu.len()), Some(LEN_MAX / 4));
        assert_eq!(held.iter().map(|(key, _)| key).collect::<Vec<_>>(), [1]);
        assert_eq!((held.len, held.order.len()), (LEN_MAX / 4 + 1, 1));
    }

    #[test]
    fn pdus_without_an_octet_are_so_many() {
        let mut held = Held::<usize, Vec<u8>>::default();
        for key in 0..=PDUS_MAX {
            assert_eq!(held.give_up(), None);
            held.change(key, Vec::new, |_| {});
        }
        assert_eq!(held.give_up(), Some((0, Vec::new())));
        assert_eq!(held.give_up(), None);
    }
}
