//! AAL5 CPCS-PDUs: their trailers judged, and cells put together to PDUs.

use std::iter;

use cellgate_core::wire::{PAYLOAD_LEN, TRAILER_LEN, Trailer, VpiVci};
use cellgate_simd::{Fold, Kernel, RESIDUE, with_features};

use super::held::Held;
use super::line::Line;
use crate::captured::pseudowire::{End, fits};

/// Octets of the longest PDU: 1,366 cells.
const PDU_LEN_MAX: usize = 65_568;

/// The CRC register over a PDU, its own CRC included.
fn register(pdu: &[u8]) -> u32 {
    struct OnePass<'a>(&'a [u8]);
    impl Kernel for OnePass<'_> {
        type Output = u32;

        #[inline(always)]
        fn run<F: Fold>(self, fold: F) -> u32 {
            fold.one_pass(self.0)
        }
    }
    with_features(OnePass(pdu))
}

/// What the trailer of a PDU says, and whether it is right.
#[derive(Clone, Copy, Debug)]
pub(super) struct Verdict {
    pub(super) trailer: Trailer,
    pub(super) crc_valid: bool,
    pub(super) length_valid: bool,
}

impl Verdict {
    /// None for what is too short to have a trailer.
    pub(super) fn of(pdu: &[u8]) -> Option<Self> {
        let trailer = Trailer::parse(*pdu.last_chunk::<TRAILER_LEN>()?);
        Some(Self {
            trailer,
            crc_valid: register(pdu) == RESIDUE,
            length_valid: fits(pdu, trailer),
        })
    }
}

/// Says what the trailer tells of `pdu`; its SDU, as far as the length can be believed.
pub(super) fn describe<'a>(line: &mut Line, pdu: &'a [u8]) -> Option<&'a [u8]> {
    let Some(verdict) = Verdict::of(pdu) else {
        line.say("too short for a trailer");
        line.field("length_valid", false);
        return None;
    };
    let Trailer {
        uu,
        cpi,
        length,
        crc,
    } = verdict.trailer;
    line.field("cells", pdu.len().div_ceil(PAYLOAD_LEN));
    line.field("uu", uu);
    line.field("cpi", cpi);
    line.field("sdu_length", length);
    line.field("crc32", format!("{crc:08x}"));
    line.say(format!("sdu {length}"));
    for (name, octet) in [("uu", uu), ("cpi", cpi)] {
        if octet != 0 {
            line.say(format!("{name} {octet}"));
        }
    }
    line.verdict("crc32_valid", "crc-32", verdict.crc_valid);
    line.field("length_valid", verdict.length_valid);
    if length == 0 {
        line.say("aborted");
    } else if !verdict.length_valid {
        line.say("length WRONG");
    }
    pdu.get(..length.into()).filter(|_| verdict.length_valid)
}

/// Which cells belong together: those of one VC, one way, on one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Thread {
    pub(super) path: Path,
    /// 0 unknown, 1 to the host, 2 from it.
    pub(super) way: u8,
    pub(super) address: VpiVci,
    /// Whether VPI and VCI are known, or stand for those that a pseudowire does not send.
    pub(super) known: (bool, bool),
}

/// What cells came over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Path {
    Interface(u32),
    /// A channel of a ring.
    Ring {
        interface: u32,
        channel: u8,
    },
    /// A pseudowire: whose, and its label.
    Label(End, u32),
}

/// PDUs in progress.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    threads: Held<Thread, Vec<u8>>,
}

/// What the end of a PDU brought.
#[derive(Debug)]
pub(super) enum Assembled {
    /// The whole PDU.
    Pdu(Vec<u8>),
    /// More cells than any PDU has, or than there is room for, have come without a last one.
    TooLong(usize),
}

impl Assembly {
    /// Adds whole payloads to the PDU of `thread`; what is complete with them, or given up.
    pub(super) fn push(
        &mut self,
        thread: Thread,
        octets: &[u8],
        last: bool,
    ) -> Vec<(Thread, Assembled)> {
        let len = self.held(thread).len() + octets.len();
        if len > PDU_LEN_MAX {
            self.threads.end(thread);
            return vec![(thread, Assembled::TooLong(len))];
        }
        self.threads
            .change(thread, Vec::new, |held| held.extend(octets));
        if last {
            let pdu = self.threads.end(thread);
            let pdu = pdu.map(|pdu| (thread, Assembled::Pdu(pdu)));
            return pdu.into_iter().collect();
        }
        iter::from_fn(|| self.threads.give_up())
            .map(|(thread, pdu)| (thread, Assembled::TooLong(pdu.len())))
            .collect()
    }

    /// The octets of the PDU in progress on `thread`.
    pub(super) fn held(&self, thread: Thread) -> &[u8] {
        self.threads.get(thread).map_or(&[], Vec::as_slice)
    }

    /// What is unfinished at the end.
    pub(super) fn rest(&self) -> impl Iterator<Item = (Thread, usize)> {
        self.threads.iter().map(|(thread, pdu)| (thread, pdu.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::held::LEN_MAX;
    use super::*;

    const THREAD: Thread = Thread {
        path: Path::Interface(0),
        way: 0,
        address: VpiVci::from_bits(33),
        known: (true, true),
    };

    #[test]
    fn a_published_pdu_is_judged_right_and_any_change_wrong() {
        // I.363 example: 01..28h, UU and CPI 0.
        let mut pdu: Vec<u8> = (1..=40).collect();
        pdu.extend([0, 0, 0, 40, 0xbf, 0x67, 0x1e, 0xd0]);
        let verdict = Verdict::of(&pdu).unwrap();
        assert!(verdict.crc_valid && verdict.length_valid);
        pdu[43] = 41;
        let verdict = Verdict::of(&pdu).unwrap();
        assert!(!verdict.crc_valid && !verdict.length_valid);
        assert!(Verdict::of(&[0; 7]).is_none());
    }

    #[test]
    fn cells_without_a_last_one_are_given_up_after_the_longest_pdu() {
        let mut assembly = Assembly::default();
        for _ in 0..PDU_LEN_MAX / PAYLOAD_LEN {
            assert!(assembly.push(THREAD, &[0; 48], false).is_empty());
        }
        let end = assembly.push(THREAD, &[0; 48], true);
        assert!(
            matches!(end[..], [(THREAD, Assembled::TooLong(65_616))]),
            "{end:?}"
        );
        assert_eq!(assembly.rest().count(), 0);
        let end = assembly.push(THREAD, &[0; 48], true);
        assert!(matches!(&end[..], [(THREAD, Assembled::Pdu(pdu))] if pdu.len() == 48));
    }

    #[test]
    fn where_there_is_no_room_the_oldest_makes_it() {
        let mut assembly = Assembly::default();
        let long = vec![0; PDU_LEN_MAX];
        let of = |n: usize| Thread {
            address: VpiVci::from_bits(n as u32),
            ..THREAD
        };
        let many = LEN_MAX / PDU_LEN_MAX;
        for n in 0..many {
            assert!(assembly.push(of(n), &long, false).is_empty());
        }
        for n in 0..3 {
            let end = assembly.push(of(many + n), &long, false);
            assert!(
                matches!(end[..], [(thread, Assembled::TooLong(_))] if thread == of(n)),
                "{end:?}"
            );
        }
    }
}
