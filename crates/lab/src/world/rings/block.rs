//! Blocks that say whose they are, and which.

/// A block, from which its octets follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// Number of the association on which it was sent first.
    pub(super) association: u32,
    pub(super) serial: u64,
    pub(super) len: u16,
}

/// What a block says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// It is this one, octet for octet.
    Whole(Block),
    /// It is none.
    Strange,
}

/// Octets that say whose it is.
const HEAD: usize = 12;

impl Block {
    /// The octets: those of no two cells are alike, nor those of two blocks.
    pub(super) fn octets(self) -> Vec<u8> {
        let mut octets = Vec::with_capacity(self.len.into());
        octets.extend(self.association.to_be_bytes());
        octets.extend(self.serial.to_be_bytes());
        let of = self.serial as usize * 7 + self.association as usize * 13;
        octets.extend((HEAD..self.len.into()).map(|n| (n * 31 + n / 251 + of) as u8));
        octets
    }

    pub(super) fn seen(octets: &[u8]) -> Seen {
        let block = || {
            let (association, rest) = octets.split_first_chunk()?;
            let (serial, _) = rest.split_first_chunk()?;
            let block = Self {
                association: u32::from_be_bytes(*association),
                serial: u64::from_be_bytes(*serial),
                len: u16::try_from(octets.len()).ok()?,
            };
            (block.serial < 1 << 40 && block.octets() == octets).then_some(block)
        };
        block().map_or(Seen::Strange, Seen::Whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_seen_for_what_it_is_and_no_other() {
        let block = Block {
            association: 3,
            serial: 9,
            len: 70,
        };
        let mut octets = block.octets();
        assert_eq!(Block::seen(&octets), Seen::Whole(block));
        for n in 0..octets.len() {
            octets[n] ^= 1;
            let seen = Block::seen(&octets);
            assert!(seen != Seen::Whole(block), "{n}");
            octets[n] ^= 1;
        }
        assert_eq!(Block::seen(&octets[..11]), Seen::Strange);
    }
}
