//! Choices out of a fuzzer's octets. At their end everything is 0, so that every input means
//! something.

/// What is left of an input.
#[derive(Clone, Debug)]
pub(crate) struct Take<'a> {
    rest: &'a [u8],
}

impl<'a> Take<'a> {
    pub(crate) const fn new(data: &'a [u8]) -> Self {
        Self { rest: data }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// All that is left.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// At most `n` octets.
    pub(crate) fn slice(&mut self, n: usize) -> &'a [u8] {
        let (octets, rest) = self.rest.split_at(n.min(self.rest.len()));
        self.rest = rest;
        octets
    }

    pub(crate) fn octets<const N: usize>(&mut self) -> [u8; N] {
        let mut octets = [0; N];
        let found = self.slice(N);
        octets[..found.len()].copy_from_slice(found);
        octets
    }

    pub(crate) fn u8(&mut self) -> u8 {
        u8::from_le_bytes(self.octets())
    }

    pub(crate) fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.octets())
    }

    pub(crate) fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.octets())
    }

    pub(crate) fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.octets())
    }

    pub(crate) fn flag(&mut self) -> bool {
        self.u8() & 1 != 0
    }

    /// One of `of`, by one octet.
    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[usize::from(self.u8()) % of.len()]
    }

    /// 0 to `n` - 1 by one octet; 0 if `n` is 0.
    pub(crate) fn below(&mut self, n: u8) -> u8 {
        self.u8().checked_rem(n).unwrap_or(0)
    }
}
