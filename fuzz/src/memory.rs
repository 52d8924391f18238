//! Memory that is looked at from both sides.

use cellgate_core::aal::Memory;

/// A receive buffer that repeats.
#[derive(Debug)]
pub(crate) struct Buffer {
    octets: Vec<u8>,
    stable: bool,
}

impl Buffer {
    pub(crate) fn new(len: usize, stable: bool) -> Self {
        Self {
            octets: vec![0; 2 * len],
            stable,
        }
    }

    pub(crate) fn read(&self, offset: usize, len: usize) -> &[u8] {
        &self.octets[offset..offset + len]
    }
}

impl Memory for Buffer {
    fn len(&self) -> usize {
        self.octets.len() / 2
    }

    fn write(&mut self, offset: usize, octets: &[u8]) {
        let len = self.len();
        assert!(octets.len() <= len && offset + octets.len() <= 2 * len);
        let offset = offset % len;
        let (first, second) = octets.split_at(octets.len().min(len - offset));
        for (at, part) in [(offset, first), (0, second)] {
            self.octets[at..at + part.len()].copy_from_slice(part);
            self.octets[len + at..len + at + part.len()].copy_from_slice(part);
        }
    }

    fn stable(&self, offset: usize, len: usize) -> Option<&[u8]> {
        self.stable.then(|| &self.octets[offset..offset + len])
    }
}
