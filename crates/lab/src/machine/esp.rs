use cellgate_core::wire::CELL_LEN;

/// Words of a cell's payload.
const WORDS: u64 = 12;

/// The cell header register and payload port of the ESP, as the i960 writes them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Esp {
    header: Option<[u8; 4]>,
    cells: u64,
    headers: u64,
}

impl Esp {
    /// Another PDU begins: its header is written whatever the one before left in the register.
    pub fn begin_pdu(&mut self) {
        self.header = None;
    }

    /// A cell is written. With header coalescing its header is, if it is not the one before.
    pub fn write(&mut self, cell: &[u8; CELL_LEN]) {
        let [a, b, c, d, ..] = *cell;
        let header = Some([a, b, c, d]);
        self.cells += 1;
        self.headers += u64::from(self.header != header);
        self.header = header;
    }

    /// Accesses so far, with header coalescing.
    pub fn coalesced(&self) -> u64 {
        WORDS * self.cells + self.headers
    }

    /// Accesses that the same cells would have taken without.
    pub fn single(&self) -> u64 {
        (WORDS + 1) * self.cells
    }
}
