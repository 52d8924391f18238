//! Test SDUs: which one it is, and octets that belong to no other.
//!
//! ```text
//!  0       2        4      8        16     24
//! +-------+--------+------+--------+------+----------------------+
//! | magic | length | flow | number | time | pattern              |
//! +-------+--------+------+--------+------+----------------------+
//! ```
//! Numbers are little-endian. All but the time follows from flow, number and length; the time is
//! under the PDU's CRC. An SDU of less than 24 octets has no time.
//!
//! A [`Mark`] is for SDUs that are written and read within what is measured: one octet over and
//! over.

use cellgate_core::Time;

/// Octets of the shortest SDU.
pub(crate) const HEADER: usize = 16;
/// Octets before the pattern where there is a time.
const TIMED: usize = 24;

const MAGIC: [u8; 2] = *b"CG";

/// Which SDU: everything but when it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    /// Whose it is: another for each connection, and for each run, so that nothing of an earlier
    /// one counts.
    pub(crate) flow: u32,
    /// From 0 in each flow.
    pub(crate) number: u64,
}

impl Name {
    fn header(self, len: usize) -> [u8; HEADER] {
        let mut header = [0; HEADER];
        header[..2].copy_from_slice(&MAGIC);
        header[2..4].copy_from_slice(&(len as u16).to_le_bytes());
        header[4..8].copy_from_slice(&self.flow.to_le_bytes());
        header[8..].copy_from_slice(&self.number.to_le_bytes());
        header
    }

    /// What the pattern is made of (SplitMix64's finalizer over all three).
    fn seed(self, len: usize) -> u64 {
        mix(mix(u64::from(self.flow) << 32 | len as u64) ^ self.number)
    }
}

const fn mix(x: u64) -> u64 {
    let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// Word `i` of the pattern.
#[inline(always)]
fn word(seed: u64, i: usize) -> [u8; 8] {
    let x = seed.wrapping_add((i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let x = (x ^ x >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    (x ^ x >> 32).to_le_bytes()
}

/// Octets before the pattern.
const fn head_len(len: usize) -> usize {
    if len < TIMED { HEADER } else { TIMED }
}

/// Writes the SDU of `name`, sent at `now`. `sdu` has [`HEADER`] to 65,535 octets.
#[inline(always)]
pub(crate) fn fill(sdu: &mut [u8], name: Name, now: Time) {
    let len = sdu.len();
    let seed = name.seed(len);
    let (head, body) = sdu.split_at_mut(head_len(len));
    let (header, time) = head.split_at_mut(HEADER);
    header.copy_from_slice(&name.header(len));
    time.copy_from_slice(&now.ns().to_le_bytes()[..time.len()]);
    let (words, rest) = body.as_chunks_mut();
    for (i, octets) in words.iter_mut().enumerate() {
        *octets = word(seed, i);
    }
    let last = word(seed, words.len());
    rest.copy_from_slice(&last[..rest.len()]);
}

/// What an SDU says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Checked {
    pub(crate) name: Name,
    /// 0 where there is none.
    pub(crate) sent: Time,
    /// Whether every other octet is what the name asks for.
    pub(crate) is_whole: bool,
}

/// Reads all of an SDU; none if it is no SDU of this module, or has another length than it had.
pub(crate) fn check(sdu: &[u8]) -> Option<Checked> {
    let header = sdu.first_chunk::<HEADER>()?;
    let long = |at: usize| u64::from_le_bytes(core::array::from_fn(|i| header[at + i]));
    let name = Name {
        flow: (long(0) >> 32) as u32,
        number: long(8),
    };
    if *header != name.header(sdu.len()) {
        return None;
    }
    let seed = name.seed(sdu.len());
    let (head, body) = sdu.split_at(head_len(sdu.len()));
    let sent = head[HEADER..].first_chunk().copied().unwrap_or_default();
    let (words, rest) = body.as_chunks();
    // All differences together, so that the loop has no branch: a mistake is rare, and which octet
    // is wrong does not matter.
    let differences = words
        .iter()
        .enumerate()
        .fold(0, |differences, (i, octets)| {
            differences | (u64::from_le_bytes(*octets) ^ u64::from_le_bytes(word(seed, i)))
        });
    let last = word(seed, words.len());
    Some(Checked {
        name,
        sent: Time::from_ns(u64::from_le_bytes(sent)),
        is_whole: differences == 0 && *rest == last[..rest.len()],
    })
}

/// Which SDU each of its octets belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark(u8);

impl Mark {
    /// Behind the last SDU of a flow that may lose some.
    pub(crate) const END: Self = Self(255);

    /// That of the `n`th SDU.
    pub(crate) fn of(n: usize) -> Self {
        Self((n % 251) as u8)
    }

    /// Each octet of its SDU.
    #[cfg(feature = "iceoryx2")]
    #[inline]
    pub(crate) const fn octet(self) -> u8 {
        self.0
    }

    /// Writes a whole SDU.
    #[inline]
    pub(crate) fn fill(self, sdu: &mut [u8]) {
        sdu.fill(self.0);
    }

    /// Reads a whole SDU: none if it has another length, or octets of two marks.
    #[inline]
    pub(crate) fn read(sdu: &[u8], len: usize) -> Option<Self> {
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

    const NAME: Name = Name {
        flow: 0x0102_0304,
        number: 123_456_789_012,
    };
    const SENT: Time = Time::from_ns(42);

    fn sdu(name: Name, len: usize) -> Vec<u8> {
        let mut sdu = vec![0; len];
        fill(&mut sdu, name, SENT);
        sdu
    }

    #[test]
    fn an_sdu_is_known_and_each_octet_of_it_is_checked() {
        for len in [HEADER, 23, TIMED, 25, 1_000, 8_192] {
            let good = sdu(NAME, len);
            let checked = Checked {
                name: NAME,
                sent: if len < TIMED { Time::ZERO } else { SENT },
                is_whole: true,
            };
            assert_eq!(check(&good), Some(checked), "{len} octets");
            for at in 0..len {
                let mut bad = good.clone();
                bad[at] ^= 0x10;
                let is_time = len >= TIMED && (HEADER..TIMED).contains(&at);
                let found = check(&bad).filter(|found| found.is_whole && found.name == NAME);
                assert_eq!(found.is_some(), is_time, "octet {at} of {len}");
            }
            assert_eq!(check(&good[..len - 1]), None);
        }
        let longest = sdu(NAME, usize::from(u16::MAX));
        assert!(check(&longest).is_some_and(|found| found.is_whole));
        assert_eq!(check(&[0; 100]), None);
    }

    #[test]
    fn neighbours_have_nothing_in_common() {
        let first = sdu(NAME, 8_192);
        let next = Name {
            number: NAME.number + 1,
            ..NAME
        };
        let others = Name {
            flow: NAME.flow + 1,
            ..NAME
        };
        for other in [next, others].map(|name| sdu(name, 8_192)) {
            let pairs = other[TIMED..].iter().zip(&first[TIMED..]);
            // One octet in 256 by chance: 32 of 8,168.
            assert!(pairs.filter(|(a, b)| a == b).count() < 100);
        }
    }

    #[test]
    fn a_marked_sdu_is_read_to_its_last_octet() {
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
