use crate::cbn::RingSpec;
use crate::world::Ps;

/// A station's shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct V1sSpec {
    /// From one access to the RAM to the next.
    pub cycle: Ps,
    /// A word's time of a host that waits for nobody; 0: it takes words as they come.
    pub host_word: Ps,
    /// Cells of a FIFO.
    pub fifo: usize,
    /// Each circuit has a receive FIFO of its own (section 8, a future interface).
    pub by_circuit: bool,
    /// Words between RAM and host, each way.
    pub port: usize,
    /// The channel that it receives on.
    pub channel: u8,
    pub channels: u8,
    /// From one word to the next of a cell that comes.
    pub ring_word: Ps,
    /// None: it makes no cells.
    pub false_traffic: Option<FalseTraffic>,
}

impl V1sSpec {
    /// Words of a cell.
    pub const WORDS: usize = 9;
    /// Of a ring of 512 MHz: 3.2 MHz (section 2).
    pub const CYCLE: Ps = Ps::new(312_500);
    /// A word's time beside its cycle. Calibrated: with cycles, nine make the copy of 12 us
    /// (section 4.1).
    pub const HANDSHAKE: Ps = Ps::new(1_020_834);
    /// Section 2.
    pub const FIFO: usize = 256;
    /// Ours. With fewer the ring's words would make the copy of a cell that is received longer
    /// than that of one that is sent, and the paper has 12 us for both.
    pub const PORT: usize = 4;

    /// The paper's station, on a channel of a ring.
    pub const fn on(ring: &RingSpec, channel: u8) -> Self {
        Self {
            cycle: Self::CYCLE,
            host_word: Self::CYCLE.plus(Self::HANDSHAKE),
            fifo: Self::FIFO,
            by_circuit: false,
            port: Self::PORT,
            channel,
            channels: ring.channels,
            ring_word: ring.frame_part(1, Self::WORDS as u32),
            false_traffic: None,
        }
    }

    /// The same with a clock that is `numerator / denominator` times as fast: the ring's, the
    /// RAM's and that of the handshake are one.
    pub fn at_clock(self, numerator: u64, denominator: u64) -> Self {
        let faster = |span: Ps| Ps::new(span.ps() * denominator / numerator);
        Self {
            cycle: faster(self.cycle),
            host_word: faster(self.host_word),
            ring_word: faster(self.ring_word),
            ..self
        }
    }
}

/// Cells that the station itself puts into empty slots, so that the ring has more to carry. They
/// cross no RAM, and are nobody's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FalseTraffic {
    /// From one cell to the next, on each of the first channels.
    pub every: Ps,
    pub channels: u8,
    /// When the first is due, and from when on there is none.
    pub from: Ps,
    pub until: Ps,
}

impl FalseTraffic {
    /// The circuit of its cells.
    pub const VCI: u16 = u16::MAX;
}
