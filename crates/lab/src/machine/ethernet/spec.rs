use crate::world::Ps;

/// The shape of an Ethernet, and of its interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EtherSpec {
    /// Of an octet on the wire.
    pub octet: Ps,
    /// A word from host to interface, or back.
    pub word: Ps,
    /// From the last word in the interface until it sends, which keeps the CPU.
    pub start: Ps,
}

impl EtherSpec {
    /// Octets of a word.
    pub const WORD_LEN: usize = 4;
    /// Octets before a block that are MSDL's: as on the ring, those of its first word.
    pub const MSDL_LEN: usize = 4;
    /// Octets of the longest block.
    pub const BLOCK_MAX: usize = Self::PAYLOAD_MAX - Self::MSDL_LEN;

    const PAYLOAD_MIN: usize = 46;
    const PAYLOAD_MAX: usize = 1_500;
    /// Preamble, addresses and type, and check sequence.
    const AROUND: usize = 8 + 14 + 4;
    /// Octets' time between two packets: 9.6 us.
    const GAP: u64 = 12;

    /// 10 Mbit/s. What a word and a start take is calibrated: a ping of a cell's octets takes 1.2
    /// ms longer than on the ring, one of a whole packet 3.1 ms (section 5).
    pub const PAPER: Self = Self {
        octet: Ps::from_ns(800),
        word: Self::WORD,
        start: Self::START,
    };
    pub const WORD: Ps = Ps::from_ns(842);
    pub const START: Ps = Ps::from_ns(570_400);

    /// Words of a block and MSDL's octets.
    pub(super) const fn words(block: usize) -> u64 {
        (block + Self::MSDL_LEN).div_ceil(Self::WORD_LEN) as u64
    }

    /// The time of a block on the wire, from its first bit to its last.
    pub(super) fn wire(&self, block: usize) -> Ps {
        let payload = (block + Self::MSDL_LEN).max(Self::PAYLOAD_MIN);
        Ps::new(self.octet.ps() * (payload + Self::AROUND) as u64)
    }

    /// The time between two packets.
    pub(super) const fn gap(&self) -> Ps {
        Ps::new(self.octet.ps() * Self::GAP)
    }
}
