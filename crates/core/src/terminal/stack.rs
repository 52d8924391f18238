//! The stacks of a terminal's kernel, as text: layer over layer, from the disk layer down to where
//! the board takes over.

use crate::aal::aal34;
use crate::contract::{Aal, aal5_cells};

/// The units that the board and the kernel hand each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Cells: SAR and CPCS are the kernel's.
    Cell,
    /// SDUs: the board makes cells of them.
    Packet,
}

/// The layers of a VC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stack {
    Aal34,
    Aal5,
    /// Over a board that does AAL5.
    Packet,
}

impl Stack {
    /// All there are.
    pub const ALL: [Self; 3] = [Self::Aal34, Self::Aal5, Self::Packet];

    /// As text.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Aal34 => "disk/cpcs34/sar34",
            Self::Aal5 => "disk/aal5",
            Self::Packet => "disk/packet",
        }
    }

    /// The stack of this name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|stack| stack.name() == text)
    }

    /// The AAL of its cells.
    pub const fn aal(self) -> Aal {
        match self {
            Self::Aal34 => Aal::Aal34,
            Self::Aal5 | Self::Packet => Aal::Aal5,
        }
    }

    /// Where the board takes over.
    pub const fn level(self) -> Level {
        match self {
            Self::Aal34 | Self::Aal5 => Level::Cell,
            Self::Packet => Level::Packet,
        }
    }

    /// Cells of an SDU of so many octets, 65,535 at most.
    pub const fn cells(self, sdu: usize) -> u64 {
        match self {
            Self::Aal34 => aal34::cells(sdu as u16) as u64,
            Self::Aal5 | Self::Packet => aal5_cells(sdu as u32) as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_is_its_text() {
        for stack in Stack::ALL {
            assert_eq!(Stack::parse(stack.name()), Some(stack));
        }
        assert_eq!(Stack::parse("disk/aal2"), None);
    }

    #[test]
    fn an_sdu_has_as_many_cells_as_its_aal_makes() {
        for (stack, sdu, cells) in [
            (Stack::Aal5, 40, 1),
            (Stack::Packet, 41, 2),
            (Stack::Aal34, 36, 1),
            (Stack::Aal34, 37, 2),
        ] {
            assert_eq!(stack.cells(sdu), cells, "{stack:?} {sdu}");
        }
    }
}
