//! SDUs that can be checked octet by octet, and their cells.
//!
//! ```text
//!  0          8      16    20          24                       8,192
//! +----------+------+-----+-----------+---------------------------+
//! | sequence | time | run | connection| pseudo-random octets      |
//! +----------+------+-----+-----------+---------------------------+
//! ```
//! All but the time follows from (run, connection, sequence); the time is under the PDU's CRC.

use cellgate_core::Time;
use cellgate_core::aal::aal5::Segmenter;
use cellgate_core::wire::{Header, PAYLOAD_LEN, Pti, VpiVci};
use cellgate_simd::{Fold, Kernel, with_features};

use super::plan::{FORMAT, PDU_CELLS, SDU};

/// Octets before the pseudo-random ones.
const HEAD: usize = 24;

/// Which SDU: everything but when it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Name {
    /// Number of the phase and try, so that nothing of an earlier one counts.
    pub(super) run: u32,
    /// Number of the connection.
    pub(super) connection: u32,
    /// From 0 in each run.
    pub(super) sequence: u64,
}

impl Name {
    /// What the octets are made of (SplitMix64's finalizer over all three).
    fn seed(self) -> u64 {
        mix(mix(u64::from(self.run) << 32 | u64::from(self.connection)) ^ self.sequence)
    }
}

const fn mix(x: u64) -> u64 {
    let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// Word `i` of the pseudo-random octets.
#[inline(always)]
fn word(seed: u64, i: usize) -> u64 {
    let x = seed.wrapping_add((i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let x = (x ^ x >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    x ^ x >> 32
}

/// Writes the SDU of `name`, sent at `now`. `sdu` has [`SDU`] octets.
pub(super) fn fill(sdu: &mut [u8], name: Name, now: Time) {
    let (head, body) = sdu.split_at_mut(HEAD);
    head[..8].copy_from_slice(&name.sequence.to_le_bytes());
    head[8..16].copy_from_slice(&now.ns().to_le_bytes());
    head[16..20].copy_from_slice(&name.run.to_le_bytes());
    head[20..24].copy_from_slice(&name.connection.to_le_bytes());
    let seed = name.seed();
    for (i, octets) in body.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        *octets = word(seed, i).to_le_bytes();
    }
}

/// The name that the SDU has itself, the time it was sent, and whether every other octet is what
/// that name asks for. None if it is no SDU of this module at all.
pub(super) fn check(sdu: &[u8]) -> Option<(Name, Time, bool)> {
    if sdu.len() != SDU as usize {
        return None;
    }
    let long = |at: usize| u64::from_le_bytes(core::array::from_fn(|i| sdu[at + i]));
    let name = Name {
        run: long(16) as u32,
        connection: (long(16) >> 32) as u32,
        sequence: long(0),
    };
    let seed = name.seed();
    let (words, _) = sdu[HEAD..].as_chunks::<8>();
    //  All differences together, so that the loop has no branch: a mistake is rare, and which octet
    //  is wrong does not matter.
    let differences = words.iter().enumerate().fold(0, |d, (i, octets)| {
        d | (u64::from_le_bytes(*octets) ^ word(seed, i))
    });
    Some((name, Time::from_ns(long(8)), differences == 0))
}

/// Makes the cells of one connection's PDUs, one PDU at a time.
#[derive(Debug)]
pub(super) struct PduMaker {
    header: Header,
    staging: Vec<u8>,
    cells: Vec<u8>,
}

impl PduMaker {
    /// For PDUs of `address`.
    pub(super) fn new(address: VpiVci) -> Self {
        let pti = Pti::User {
            congested: false,
            last: false,
        };
        Self {
            header: Header::new(address, pti, false),
            staging: vec![0; PDU_CELLS * PAYLOAD_LEN],
            cells: vec![0; PDU_CELLS * FORMAT.stride()],
        }
    }

    /// Makes the cells of the PDU that carries the SDU of `name`, sent at `now`.
    pub(super) fn make(&mut self, name: Name, now: Time) {
        with_features(Making {
            maker: self,
            name,
            now,
        });
    }

    /// The cells made last.
    pub(super) fn made(&self) -> &[u8] {
        &self.cells
    }
}

struct Making<'a> {
    maker: &'a mut PduMaker,
    name: Name,
    now: Time,
}

impl Kernel for Making<'_> {
    type Output = ();

    #[inline(always)]
    fn run<F: Fold>(self, fold: F) {
        let PduMaker {
            header,
            staging,
            cells,
        } = self.maker;
        fill(&mut staging[..SDU as usize], self.name, self.now);
        //  Staging has room for the PDU by construction, so there always is a segmenter.
        if let Some(mut pdu) = Segmenter::seal(fold, staging, SDU as u16, 0, 0, *header) {
            pdu.emit_cells(staging, FORMAT, cells);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: Name = Name {
        run: 7,
        connection: 2,
        sequence: 123_456_789_012,
    };

    fn sdu() -> Vec<u8> {
        let mut sdu = vec![0; SDU as usize];
        fill(&mut sdu, NAME, Time::from_ns(42));
        sdu
    }

    #[test]
    fn finds_its_name_and_its_time_again() {
        assert_eq!(check(&sdu()), Some((NAME, Time::from_ns(42), true)));
    }

    #[test]
    fn every_octet_counts() {
        let good = sdu();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            let time = (8..16).contains(&at);
            assert_eq!(
                check(&bad).is_some_and(|(_, _, good)| good),
                time,
                "octet {at}"
            );
        }
        assert_eq!(check(&good[1..]), None);
    }

    #[test]
    fn neighbours_have_nothing_in_common() {
        let mut other = vec![0; SDU as usize];
        let next = Name {
            sequence: NAME.sequence + 1,
            ..NAME
        };
        fill(&mut other, next, Time::from_ns(42));
        let first = sdu();
        let same = other[HEAD..]
            .iter()
            .zip(&first[HEAD..])
            .filter(|(a, b)| a == b);
        //  One octet in 256 by chance: 32 of 8,168.
        assert!(same.count() < 100);
    }

    #[test]
    fn its_cells_are_a_pdu() {
        let mut maker = PduMaker::new(VpiVci::from_bits(100));
        maker.make(NAME, Time::from_ns(42));
        let cells = maker.made();
        assert_eq!(cells.len(), PDU_CELLS * 52);
        let payloads: Vec<u8> = cells
            .chunks(52)
            .flat_map(|cell| &cell[4..])
            .copied()
            .collect();
        assert_eq!(payloads[..SDU as usize], sdu());
        let last: Vec<bool> = cells
            .chunks(52)
            .map(|cell| Header::parse([cell[0], cell[1], cell[2], cell[3]]).is_last())
            .collect();
        assert_eq!(last.iter().position(|last| *last), Some(PDU_CELLS - 1));
    }
}
