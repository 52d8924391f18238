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
        const CALL: u64 = Instructions::PAPER.receive_block();
        const LOOSE: u64 = Instructions::PAPER.receive_cell / 2;
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instructions {
    pub transmit_call: u64,
    pub check_broadcast: u64,
    pub select_channel: u64,
    pub transmit_cell: u64,
    pub receive_call: u64,
    pub look_up: u64,
    pub receive_cell: u64,
    pub interrupt_call: u64,
    pub interrupt_entry: u64,
    pub back_to_routine: u64,
    pub deschedule: u64,
    pub save_state: u64,
}

impl Instructions {
    pub const PAPER: Self = Self {
        transmit_call: 10,
        check_broadcast: 2,
        select_channel: 10,
        transmit_cell: 12,
        receive_call: 13,
        look_up: 10,
        receive_cell: 14,
        interrupt_call: 3,
        interrupt_entry: 4,
        back_to_routine: 7,
        deschedule: 2,
        save_state: 12,
    };

    /// Of a block that is sent on a channel, beside its cells.
    pub const fn transmit_block(&self) -> u64 {
        self.transmit_call + self.check_broadcast + self.select_channel
    }

    /// Of a block that is received, beside its cells.
    pub const fn receive_block(&self) -> u64 {
        self.receive_call + self.look_up
    }

    /// Of an interrupt.
    pub const fn interrupt(&self) -> u64 {
        self.interrupt_call
            + self.interrupt_entry
            + self.back_to_routine
            + self.deschedule
            + self.save_state
    }
}

/// The costs of a host's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostCosts {
    pub instructions: Instructions,
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
        instructions: Instructions::PAPER,
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

    /// Of an interrupt.
    pub const fn interrupt(&self) -> Ps {
        self.receives(self.instructions.interrupt())
    }

    pub(super) const fn receives(&self, instructions: u64) -> Ps {
        Ps::new(self.receive.ps() * instructions)
    }

    /// Of MSDL's work.
    pub(super) const fn of(&self, work: Work) -> Ps {
        let of = &self.instructions;
        let (each, instructions) = match work {
            Work::TransmitCell => (self.transmit, of.transmit_cell),
            Work::ReceiveCell => (self.receive, of.receive_cell + self.stage.more()),
            _ if !self.blocks_cost => return Ps::ZERO,
            Work::TransmitCall => (self.transmit, of.transmit_call),
            Work::CheckBroadcast => (self.transmit, of.check_broadcast),
            Work::SelectChannel => (self.transmit, of.select_channel),
            Work::ReceiveCall => (self.receive, of.receive_call),
            Work::LookUp => (self.receive, of.look_up),
        };
        Ps::new(each.ps() * instructions)
    }
}
