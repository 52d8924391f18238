//! What a receiver tells its sender.
//!
//! ```text
//!  octet  0        8        16       20       24       26       28
//!         | acked  | edge   | seen   | held   | extents| again  | extents: 16 octets each,
//!         | 8      | 8      | 4      | 4      | 2      | 2      | again: 4 octets each
//! ```
//!
//! All numbers are big-endian. It follows the header of a PDU of its own.

use std::ops::Range;

use super::Extents;

/// Octets before the lists.
const FIXED: usize = 28;
/// Stretches in one status, at most.
pub const EXTENTS_MAX: usize = 256;
/// Disk-PDUs to be sent again in one status, at most.
pub const AGAIN_MAX: usize = 64;
/// In `held`: all is there, checked, and in its place.
const FINISHED: u32 = 1 << 31;

/// What a receiver has of a transfer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// All octets before this one are there, checked and safe.
    pub acknowledged: u64,
    /// Octets from here on find no room yet.
    pub edge: u64,
    /// The sequence number of the newest PDU that came; [`Status::NONE_SEEN`] before the first.
    pub seen: u32,
    /// Microseconds since that came (17 minutes at most).
    pub held_us: u32,
    /// The whole is there, checked, and has its name.
    pub is_finished: bool,
    /// What is there beyond `acknowledged`, safe or not; the first of it if there is too much.
    pub extents: Extents,
    /// Numbers of disk-PDUs whose digest was wrong: nothing of them is there any more.
    pub again: Vec<u32>,
}

/// Why octets are no status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a status of a transfer that makes no sense: {0}")]
pub struct StatusError(&'static str);

impl Status {
    /// The number before the first.
    pub const NONE_SEEN: u32 = u32::MAX;

    /// Adds it to `out`: of what is too much the first.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let extents = self.extents.len().min(EXTENTS_MAX);
        let again = self.again.len().min(AGAIN_MAX);
        let held = self.held_us.min(FINISHED - 1) | if self.is_finished { FINISHED } else { 0 };
        out.extend(self.acknowledged.to_be_bytes());
        out.extend(self.edge.to_be_bytes());
        out.extend(self.seen.to_be_bytes());
        out.extend(held.to_be_bytes());
        out.extend((extents as u16).to_be_bytes());
        out.extend((again as u16).to_be_bytes());
        for extent in self.extents.iter().take(extents) {
            out.extend(extent.start.to_be_bytes());
            out.extend(extent.end.to_be_bytes());
        }
        for index in &self.again[..again] {
            out.extend(index.to_be_bytes());
        }
    }

    /// What octets say.
    pub fn parse(octets: &[u8]) -> Result<Self, StatusError> {
        let short = StatusError("it is too short");
        let (fixed, rest) = octets.split_first_chunk::<FIXED>().ok_or(short)?;
        let [acknowledged, edge] = [0, 8].map(|at| be64(&fixed[at..]));
        let [seen, held] = [16, 20].map(|at| be64(&fixed[at - 4..]) as u32);
        let extents = usize::from(u16::from_be_bytes([fixed[24], fixed[25]]));
        let again = usize::from(u16::from_be_bytes([fixed[26], fixed[27]]));
        if extents > EXTENTS_MAX || again > AGAIN_MAX {
            return Err(StatusError("its lists are too long"));
        }
        if rest.len() != 16 * extents + 4 * again {
            return Err(StatusError("its lists have another length than it says"));
        }
        let (listed, numbers) = rest.split_at(16 * extents);
        let mut last = acknowledged.checked_sub(1);
        let mut found = Extents::new();
        for pair in listed.chunks_exact(16) {
            let extent: Range<u64> = be64(pair)..be64(&pair[8..]);
            if Some(extent.start) <= last || extent.is_empty() {
                return Err(StatusError("its stretches are not apart and in order"));
            }
            last = Some(extent.end);
            found.insert(extent);
        }
        let numbers = numbers.as_chunks::<4>().0.iter();
        Ok(Self {
            acknowledged,
            edge,
            seen,
            held_us: held & !FINISHED,
            is_finished: held & FINISHED != 0,
            extents: found,
            again: numbers.map(|octets| u32::from_be_bytes(*octets)).collect(),
        })
    }
}

/// The first eight octets.
fn be64(octets: &[u8]) -> u64 {
    let first = octets.first_chunk::<8>().copied().unwrap_or_default();
    u64::from_be_bytes(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Status {
        Status {
            acknowledged: 1 << 40,
            edge: (1 << 40) + 1_000_000,
            seen: u32::MAX - 3,
            held_us: 1_234,
            is_finished: false,
            extents: [
                (1 << 40) + 10..(1 << 40) + 20,
                (1 << 40) + 30..(1 << 40) + 31,
            ]
            .into_iter()
            .collect(),
            again: vec![7, 9],
        }
    }

    #[test]
    fn what_is_told_is_what_is_heard() {
        for is_finished in [false, true] {
            let status = Status {
                is_finished,
                ..sample()
            };
            let mut octets = Vec::new();
            status.emit(&mut octets);
            assert_eq!(Status::parse(&octets), Ok(status));
        }
    }

    #[test]
    fn of_too_much_the_first_is_told() {
        let status = Status {
            extents: (1..1_000).map(|n| 10 * n..10 * n + 5).collect(),
            again: (0..1_000).collect(),
            ..Status::default()
        };
        let mut octets = Vec::new();
        status.emit(&mut octets);
        let heard = Status::parse(&octets).expect("it is a status");
        assert_eq!(
            (heard.extents.len(), heard.again.len()),
            (EXTENTS_MAX, AGAIN_MAX)
        );
        assert!(
            heard
                .extents
                .iter()
                .eq(status.extents.iter().take(EXTENTS_MAX))
        );
    }

    #[test]
    fn nonsense_is_refused() {
        let mut octets = Vec::new();
        sample().emit(&mut octets);
        for len in 0..octets.len() {
            assert!(Status::parse(&octets[..len]).is_err(), "{len}");
        }
        octets.push(0);
        assert!(Status::parse(&octets).is_err());
        octets.pop();
        // The first stretch may begin where what is acknowledged ends, and not before.
        let begins = |at: u64| {
            let mut octets = octets.clone();
            octets[FIXED..FIXED + 8].copy_from_slice(&at.to_be_bytes());
            Status::parse(&octets)
        };
        assert!(begins(1 << 40).is_ok() && begins((1 << 40) - 1).is_err());
        let mut empty = octets.clone();
        let start: [u8; 8] = empty[FIXED..FIXED + 8].try_into().expect("eight octets");
        empty[FIXED + 8..FIXED + 16].copy_from_slice(&start);
        assert!(Status::parse(&empty).is_err());
    }
}
