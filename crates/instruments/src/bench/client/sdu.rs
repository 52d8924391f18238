//! What is sent: every octet of an SDU is its mark, written by its sender and looked at by its
//! reader, whatever carries it.

/// Which SDU an octet belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark(u8);

impl Mark {
    /// Behind the last SDU of a flow that may lose some.
    pub(super) const END: Self = Self(255);

    /// That of the `n`th SDU.
    pub(super) fn of(n: usize) -> Self {
        Self((n % 251) as u8)
    }

    /// Each octet of its SDU.
    #[cfg(feature = "iceoryx2")]
    #[inline]
    pub(super) const fn octet(self) -> u8 {
        self.0
    }

    /// Writes a whole SDU.
    #[inline]
    pub(super) fn fill(self, sdu: &mut [u8]) {
        sdu.fill(self.0);
    }

    /// Reads a whole SDU: none if it has another length, or octets of two marks.
    #[inline]
    pub(super) fn read(sdu: &[u8], len: usize) -> Option<Self> {
        let mark = *sdu.first()?;
        let word = u64::from_ne_bytes([mark; 8]);
        let (words, rest) = sdu.as_chunks();
        let wrong = words.iter().fold(0, |wrong, octets| {
            wrong | (u64::from_ne_bytes(*octets) ^ word)
        });
        let whole = sdu.len() == len && wrong == 0 && rest.iter().all(|octet| *octet == mark);
        whole.then_some(Self(mark))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_sdu_is_read_to_its_last_octet() {
        for len in [1, 8, 64, 65, 1_503] {
            let mut sdu = vec![0; len];
            let mark = Mark::of(len);
            mark.fill(&mut sdu);
            assert_eq!(Mark::read(&sdu, len), Some(mark));
            assert_eq!(Mark::read(&sdu, len + 1), None);
            for i in 1..len {
                sdu[i] ^= 4;
                assert_eq!(Mark::read(&sdu, len), None, "octet {i} of {len}");
                sdu[i] ^= 4;
            }
        }
        assert_eq!(Mark::read(&[], 0), None);
    }
}
