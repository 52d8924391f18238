//! The test SDU: which one it is, and octets that belong to no other.
//!
//! ```text
//!  0        4            8          16
//!  "CGGU"   connection   sequence   noise ...
//! ```
//!
//! Numbers are big-endian.

/// Octets of the shortest SDU.
pub(super) const HEADER: usize = 16;

const MAGIC: &[u8; 4] = b"CGGU";
/// Noise that SDUs begin in; a power of two.
const STARTS: usize = 1 << 15;
/// The longest SDU.
const SDU_MAX: usize = u16::MAX as usize;

/// Makes SDUs and checks them.
pub(super) struct Pattern {
    connection: u32,
    noise: Vec<u8>,
}

impl Pattern {
    /// That of the connection with this number.
    pub(super) fn new(connection: u32) -> Self {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut noise = Vec::with_capacity(STARTS + SDU_MAX + 8);
        while noise.len() < STARTS + SDU_MAX {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            noise.extend_from_slice(&state.to_be_bytes());
        }
        Self { connection, noise }
    }

    /// Fills an SDU of [`HEADER`] octets or more.
    pub(super) fn fill(&self, sequence: u64, sdu: &mut [u8]) {
        let (header, rest) = sdu.split_at_mut(HEADER);
        header.copy_from_slice(&self.header(sequence));
        rest.copy_from_slice(self.noise(sequence, rest.len()));
    }

    /// The sequence number of an SDU of this connection, every octet of which is right.
    pub(super) fn check(&self, sdu: &[u8]) -> Option<u64> {
        let (header, rest) = sdu.split_first_chunk::<HEADER>()?;
        let sequence = u64::from_be_bytes(*header.last_chunk()?);
        let right = *header == self.header(sequence) && rest == self.noise(sequence, rest.len());
        right.then_some(sequence)
    }

    fn header(&self, sequence: u64) -> [u8; HEADER] {
        let mut header = [0; HEADER];
        header[..4].copy_from_slice(MAGIC);
        header[4..8].copy_from_slice(&self.connection.to_be_bytes());
        header[8..].copy_from_slice(&sequence.to_be_bytes());
        header
    }

    fn noise(&self, sequence: u64, len: usize) -> &[u8] {
        let name = sequence
            .wrapping_mul(0x9e37_79b9)
            .wrapping_add(u64::from(self.connection));
        let from = name as usize % STARTS;
        &self.noise[from..from + len.min(SDU_MAX)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_sdu_is_known_and_each_octet_of_it_is_checked() {
        let pattern = Pattern::new(3);
        for len in [HEADER, 100, SDU_MAX] {
            let mut sdu = vec![0; len];
            pattern.fill(77, &mut sdu);
            assert_eq!(pattern.check(&sdu), Some(77));
            assert_eq!(Pattern::new(4).check(&sdu), None);
            for at in [0, 5, len / 2, len - 1] {
                sdu[at] ^= 1;
                assert_ne!(pattern.check(&sdu), Some(77), "octet {at} of {len}");
                sdu[at] ^= 1;
            }
        }
        assert_eq!(pattern.check(&[0; HEADER - 1]), None);
    }
}
