/// Work of MSDL for a block or a cell: the operations of the paper's Tables 1 and 2, but for
/// copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Work {
    /// A block is given to be sent.
    TransmitCall,
    /// A look whether it goes to everybody.
    CheckBroadcast,
    /// The channel on which it goes is found.
    SelectChannel,
    /// A cell of it is made, or the packet that has all of it.
    TransmitCell,
    /// A block is handed on that has come.
    ReceiveCall,
    /// The association of a block is found.
    LookUp,
    /// The header of a cell or packet is looked at.
    ReceiveCell,
}

/// The network below.
pub trait Access {
    /// Octets of a block in each of its cells; none: packets have room for all of it.
    fn data_len(&self) -> Option<u8>;

    /// Channels on each of which some stations receive.
    fn channels(&self) -> u8 {
        1
    }

    /// Work was done.
    fn work(&mut self, _work: Work) {}
}
