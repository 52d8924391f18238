use core::ops::Deref;

/// Up to `N` octets that go in front of something else: what emitting a header gives.
#[derive(Clone, Copy, Debug)]
pub struct Prefix<const N: usize> {
    octets: [u8; N],
    len: usize,
}

impl<const N: usize> Prefix<N> {
    pub(super) const EMPTY: Self = Self {
        octets: [0; N],
        len: 0,
    };

    /// The octets of `parts`, one after the other. What is beyond `N` octets is left out: each
    /// caller names an `N` that holds its longest header.
    pub(crate) fn of(parts: &[&[u8]]) -> Self {
        let mut prefix = Self::EMPTY;
        let octets = parts.iter().copied().flatten();
        for (place, octet) in prefix.octets.iter_mut().zip(octets) {
            *place = *octet;
            prefix.len += 1;
        }
        prefix
    }
}

impl<const N: usize> Deref for Prefix<N> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.octets.get(..self.len).unwrap_or_default()
    }
}

impl<const N: usize> PartialEq for Prefix<N> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<const N: usize> Eq for Prefix<N> {}
