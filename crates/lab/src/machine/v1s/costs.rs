use cellgate_core::upper::msna::Work;

use crate::world::Ps;

/// Instructions of the receive side before it was written anew, for each cell, beside those of
/// Table 2. The paper has no number: ours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Cells are copied to the driver's buffer, and the layer above is called to copy them on.
    Original,
    /// One copy less.
    NoCopy,
    /// The driver reassembles.
    Merged,
    /// In fewer instructions: those of Table 2.
    #[default]
    Tight,
}

impl Stage {
    pub const ALL: [Self; 4] = [Self::Original, Self::NoCopy, Self::Merged, Self::Tight];

    /// An extra copy from memory to memory takes two instructions a word; an up-call those that
    /// Table 2 has for a call and a look-up; what was written anew is half as long.
    pub const fn more(self) -> u64 {
        const COPY: u64 = 16;
        const CALL: u64 = Instructions::RECEIVE_CALL + Instructions::LOOK_UP;
        const LOOSE: u64 = Instructions::RECEIVE_CELL / 2;
        match self {
            Self::Original => COPY + CALL + LOOSE,
            Self::NoCopy => CALL + LOOSE,
            Self::Merged => LOOSE,
            Self::Tight => 0,
        }
    }
}

/// Instructions that the paper counts: Tables 1, 2 and 3. Those that copy words are not among
/// them.
pub struct Instructions;

impl Instructions {
    pub const TRANSMIT_CALL: u64 = 10;
    pub const CHECK_BROADCAST: u64 = 2;
    pub const SELECT_CHANNEL: u64 = 10;
    pub const TRANSMIT_CELL: u64 = 12;
    pub const RECEIVE_CALL: u64 = 13;
    pub const LOOK_UP: u64 = 10;
    pub const RECEIVE_CELL: u64 = 14;
    pub const INTERRUPT_CALL: u64 = 3;
    pub const INTERRUPT_ENTRY: u64 = 4;
    pub const BACK_TO_ROUTINE: u64 = 7;
    pub const DESCHEDULE: u64 = 2;
    pub const SAVE_STATE: u64 = 12;

    /// Of a block that is sent, beside its cells.
    pub const TRANSMIT_BLOCK: u64 =
        Self::TRANSMIT_CALL + Self::CHECK_BROADCAST + Self::SELECT_CHANNEL;
    /// Of a block that is received, beside its cells.
    pub const RECEIVE_BLOCK: u64 = Self::RECEIVE_CALL + Self::LOOK_UP;
    /// Of an interrupt.
    pub const INTERRUPT: u64 = Self::INTERRUPT_CALL
        + Self::INTERRUPT_ENTRY
        + Self::BACK_TO_ROUTINE
        + Self::DESCHEDULE
        + Self::SAVE_STATE;
}

/// The costs of a host's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostCosts {
    /// An instruction of the transmit side, and of the receive side and interrupts.
    pub transmit: Ps,
    pub receive: Ps,
    /// Of a block that is sent, beside its instructions: buffers.
    pub sent_block: Ps,
    /// Of a block that is received, beside its instructions: buffers, and the process that waits
    /// for it.
    pub received_block: Ps,
    /// Whether the instructions of a block beside its cells cost anything.
    pub blocks_cost: bool,
    pub stage: Stage,
}

impl HostCosts {
    /// The paper's 68030 of 20 MHz.
    pub const PAPER: Self = Self {
        transmit: Self::TRANSMIT,
        receive: Self::RECEIVE,
        sent_block: Self::SENT_BLOCK,
        received_block: Self::RECEIVED_BLOCK,
        blocks_cost: true,
        stage: Stage::Tight,
    };

    /// 6.5 cycles: 3.9 us for 12 instructions (section 4.1).
    pub const TRANSMIT: Ps = Ps::new(325_000);
    /// 8.6 cycles: 6.03 us for 14 instructions (section 4.1).
    pub const RECEIVE: Ps = Ps::new(430_714);
    /// With 22 instructions the 232 us that make blocks of 255 cells go at 15.23 Mbit/s (section
    /// 7).
    pub const SENT_BLOCK: Ps = Ps::new(224_850_000);
    /// Ours: the paper's is lost.
    pub const RECEIVED_BLOCK: Ps = Ps::new(10_000_000);

    pub(super) const fn receives(&self, instructions: u64) -> Ps {
        Ps::new(self.receive.ps() * instructions)
    }

    /// Of MSDL's work.
    pub(super) const fn of(&self, work: Work) -> Ps {
        let (each, instructions) = match work {
            Work::TransmitCell => (self.transmit, Instructions::TRANSMIT_CELL),
            Work::ReceiveCell => {
                let all = Instructions::RECEIVE_CELL + self.stage.more();
                (self.receive, all)
            }
            _ if !self.blocks_cost => return Ps::ZERO,
            Work::TransmitCall => (self.transmit, Instructions::TRANSMIT_CALL),
            Work::CheckBroadcast => (self.transmit, Instructions::CHECK_BROADCAST),
            Work::SelectChannel => (self.transmit, Instructions::SELECT_CHANNEL),
            Work::ReceiveCall => (self.receive, Instructions::RECEIVE_CALL),
            Work::LookUp => (self.receive, Instructions::LOOK_UP),
        };
        Ps::new(each.ps() * instructions)
    }
}
