/// Octets of the AAL5 trailer.
pub const TRAILER_LEN: usize = 8;

/// The last eight octets of an AAL5 CPCS-PDU (I.363.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trailer {
    /// CPCS user-to-user indication, carried unchanged.
    pub uu: u8,
    /// Common part indicator; 0.
    pub cpi: u8,
    /// Octets of SDU; 0 aborts the PDU.
    pub length: u16,
    /// CRC-32 over the whole PDU but these four octets.
    pub crc: u32,
}

impl Trailer {
    /// From eight octets.
    #[inline(always)]
    pub const fn parse(octets: [u8; TRAILER_LEN]) -> Self {
        let [uu, cpi, l0, l1, c0, c1, c2, c3] = octets;
        Self {
            uu,
            cpi,
            length: u16::from_be_bytes([l0, l1]),
            crc: u32::from_be_bytes([c0, c1, c2, c3]),
        }
    }

    /// The eight octets.
    #[inline(always)]
    pub const fn emit(self) -> [u8; TRAILER_LEN] {
        let [l0, l1] = self.length.to_be_bytes();
        let [c0, c1, c2, c3] = self.crc.to_be_bytes();
        [self.uu, self.cpi, l0, l1, c0, c1, c2, c3]
    }
}
