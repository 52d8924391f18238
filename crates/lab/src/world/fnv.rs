/// FNV-1a of nothing.
pub(super) const START: u64 = 0xcbf2_9ce4_8422_2325;

/// The same of some more octets.
pub(super) fn fnv1a(hash: u64, octets: &[u8]) -> u64 {
    let step = |hash: u64, octet: &u8| (hash ^ u64::from(*octet)).wrapping_mul(0x0100_0000_01b3);
    octets.iter().fold(hash, step)
}
