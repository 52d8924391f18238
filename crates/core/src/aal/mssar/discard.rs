/// Reasons for which cells of blocks are thrown away. Every cell that came is delivered, held in a
/// block in progress, or has one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discard {
    /// A cell before this one is missing, or this one came twice or too late.
    LostCell,
    /// A count of no cells, or of more octets than a cell carries.
    LengthError,
    /// The block has more octets than the largest allowed.
    Oversized,
    /// As many blocks as allowed are in progress under other identifiers.
    TooManyBlocks,
    /// The block was not complete in time.
    ReassemblyTimeout,
}
