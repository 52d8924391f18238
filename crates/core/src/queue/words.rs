use super::Planted;

/// The door to memory that two parties share: 64-bit words for indices, octets for contents.
///
/// One party writes, the other only reads. Implementations: mapped memory (cellgate-shm), a plain
/// vector with an adversary called before every load (cellgate-lab), loom's atomics (tests).
/// Offsets are in octets; `load` and `store` take multiples of 8. An offset outside the memory is a
/// caller's bug and panics: offsets never come from the other party unchecked.
pub trait Words {
    /// Reads a word; what its writer wrote before storing it is visible after (acquire).
    fn load(&self, offset: usize) -> u64;
    /// Writes a word after everything written before (release).
    fn store(&self, offset: usize, value: u64);
    /// Orders every store before against every load after (sequentially consistent fence).
    fn fence(&self);
    /// Asks for octets near `offset`, which are about to be read: a hint, without effect on what is
    /// read.
    #[inline(always)]
    fn prefetch(&self, _offset: usize) {}
    /// Copies `octets` into the memory.
    fn copy_in(&self, offset: usize, octets: &[u8]);
    /// Copies octets out of the memory, each once.
    fn copy_out(&self, offset: usize, octets: &mut [u8]);
    /// Whether the queues have this bug. Never, but in tests of the tests.
    #[inline(always)]
    fn planted(&self, _bug: Planted) -> bool {
        false
    }
}
