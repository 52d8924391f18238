//! Three ways to find what a cell's address belongs to (*Policing Offloaded*, section 5.2), in the
//! entries that each looks at.

use std::collections::BTreeSet;

/// VPI and VCI, as they stand in the header of a UNI: 24 bits.
pub type Address = u32;

/// How the firmware finds the connection of a cell.
#[derive(Clone, Debug)]
pub enum Lookup {
    /// The significant bits of an address are the index of an array.
    Table,
    /// A balanced binary tree over all addresses, in order.
    Tree(Vec<Address>),
    /// Buckets that overflow into chains, in the order of opening.
    Hash(Vec<Vec<Address>>),
}

impl Lookup {
    /// Buckets of the hash: as many as fit beside 1,024 connections, with a mean chain of 4.
    pub const BUCKETS: usize = 256;

    /// A tree of these.
    pub fn tree(open: &BTreeSet<Address>) -> Self {
        Self::Tree(open.iter().copied().collect())
    }

    /// A hash of these.
    pub fn hash(open: &BTreeSet<Address>) -> Self {
        let mut buckets = vec![Vec::new(); Self::BUCKETS];
        for &address in open {
            buckets[Self::bucket(address)].push(address);
        }
        Self::Hash(buckets)
    }

    /// VCI and VPI, folded into the number of a bucket.
    pub const fn bucket(address: Address) -> usize {
        (address ^ address >> 8 ^ address >> 16) as usize % Self::BUCKETS
    }

    /// Entries that are looked at for an address, open or not: one at least.
    pub fn entries(&self, address: Address) -> u64 {
        match self {
            Self::Table => 1,
            Self::Tree(sorted) => {
                let (mut from, mut to, mut looks) = (0, sorted.len(), 0);
                while from < to {
                    let middle = from + (to - from) / 2;
                    looks += 1;
                    match sorted[middle].cmp(&address) {
                        std::cmp::Ordering::Equal => break,
                        std::cmp::Ordering::Less => from = middle + 1,
                        std::cmp::Ordering::Greater => to = middle,
                    }
                }
                looks.max(1)
            }
            Self::Hash(buckets) => {
                let chain = &buckets[Self::bucket(address)];
                let place = chain.iter().position(|open| *open == address);
                place.map_or(chain.len().max(1), |place| place + 1) as u64
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_looks_at_as_many_entries_as_its_shape_has() {
        let open: BTreeSet<Address> = (0..1_023).map(|n| n * 2).collect();
        let tree = Lookup::tree(&open);
        // 2^10 - 1 nodes: a path has 10, and the mean over the nodes is 9 and a little.
        let all: Vec<u64> = open.iter().map(|address| tree.entries(*address)).collect();
        assert_eq!((all.iter().min(), all.iter().max()), (Some(&1), Some(&10)));
        assert_eq!(
            all.iter().sum::<u64>(),
            (1..=10).map(|depth| depth << (depth - 1)).sum::<u64>()
        );
        assert_eq!(tree.entries(1), 10);

        // All in one bucket: the chain is as long as there are connections.
        let alike: BTreeSet<Address> = (0..1_u32 << 16)
            .filter(|address| Lookup::bucket(*address) == 7)
            .take(100)
            .collect();
        let hash = Lookup::hash(&alike);
        let last = *alike.last().expect("a hundred");
        assert_eq!((hash.entries(last), hash.entries(8)), (100, 1));
        let absent = (0..1_u32 << 20)
            .rev()
            .find(|address| Lookup::bucket(*address) == 7);
        assert_eq!(hash.entries(absent.expect("one in 256")), 100);
        assert_eq!(Lookup::Table.entries(0), 1);
    }
}
