/// What the receiver says of the first octet of an AAL1 cell (I.363.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnpVerdict {
    /// CRC and parity are right.
    Valid,
    /// One bit was wrong and is corrected: bit 0 is the CSI, bit 7 the parity.
    Corrected {
        /// Which of the eight bits.
        bit: u8,
    },
    /// More than one bit is wrong: CSI and SC mean nothing.
    Invalid,
}

/// The first octet of an AAL1 cell: the SAR-PDU header (I.363.1).
///
/// ```text
///   0     1   2   3     4   5   6     7
/// +-----+-------------+------------+--------+
/// | CSI |     SC      |   CRC-3    | parity |   CRC: x^3 + x + 1 over CSI and SC
/// +-----+-------------+------------+--------+   parity: even over the whole octet
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Aal1Header {
    /// CS indication: a pointer or clock bit follows from it.
    pub csi: bool,
    /// Sequence count, modulo 8.
    pub sc: u8,
}

impl Aal1Header {
    /// From the octet, corrected if one bit of it is wrong. A receiver that has just corrected one
    /// treats `Corrected` as `Invalid` until a valid header comes (the detection mode of I.363.1).
    pub const fn parse(octet: u8) -> (Self, SnpVerdict) {
        let value = Self::of(octet);
        if value.emit() == octet {
            return (value, SnpVerdict::Valid);
        }
        let mut bit = 0;
        while bit < 8 {
            let flipped = octet ^ 0x80 >> bit;
            let value = Self::of(flipped);
            // The code has distance 4: at most one flip can lead to a valid octet.
            if value.emit() == flipped {
                return (value, SnpVerdict::Corrected { bit });
            }
            bit += 1;
        }
        (value, SnpVerdict::Invalid)
    }

    /// The octet. Of `sc` the low three bits count.
    pub const fn emit(self) -> u8 {
        let number = (self.csi as u8) << 3 | self.sc & 7;
        let mut remainder = number << 3;
        let mut bit = 6;
        while bit > 2 {
            if remainder & 1 << bit != 0 {
                remainder ^= 0b1011 << (bit - 3);
            }
            bit -= 1;
        }
        let octet = number << 4 | remainder << 1;
        octet | octet.count_ones() as u8 & 1
    }

    const fn of(octet: u8) -> Self {
        Self {
            csi: octet & 0x80 != 0,
            sc: octet >> 4 & 7,
        }
    }
}

/// What the sequence count of an AAL1 cell says of its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aal1Place {
    /// Behind the one before, after so many that are missing; a loss of eight is not seen.
    InOrder {
        /// 0 to 4.
        missing: u8,
    },
    /// The same as the one before: it came twice, or seven are missing.
    Repeated,
    /// Older than the one before, or five or six are missing.
    OutOfOrder,
}

/// The receiver's side of the sequence counts of one VC.
#[derive(Clone, Copy, Debug, Default)]
pub struct Aal1Sequence {
    expected: Option<u8>,
    /// What would follow the last cell, if it was not out of order but the others are gone.
    instead: Option<u8>,
}

impl Aal1Sequence {
    /// Judges the next cell. One out of order leaves what is expected as it was; two that follow
    /// one another are believed.
    pub fn receive(&mut self, sc: u8) -> Aal1Place {
        let sc = sc & 7;
        let next = (sc + 1) & 7;
        let expected = match self.instead.take() {
            Some(instead) if instead == sc => sc,
            _ => self.expected.unwrap_or(sc),
        };
        match sc.wrapping_sub(expected) & 7 {
            missing @ 0..=4 => {
                self.expected = Some(next);
                Aal1Place::InOrder { missing }
            }
            behind => {
                self.instead = Some(next);
                match behind {
                    7 => Aal1Place::Repeated,
                    _ => Aal1Place::OutOfOrder,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_tell_what_is_missing_and_what_came_twice_or_late() {
        use Aal1Place::{InOrder, OutOfOrder, Repeated};
        let in_order = |missing| InOrder { missing };
        for (counts, wanted) in [
            (&[6, 7, 0, 1][..], &[0; 4].map(in_order)[..]),
            (&[6, 1], &[in_order(0), in_order(2)]),
            (&[3, 3, 4], &[in_order(0), Repeated, in_order(0)]),
            (
                &[3, 5, 4, 6],
                &[in_order(0), in_order(1), OutOfOrder, in_order(0)],
            ),
            // What follows one that seemed old is believed.
            (
                &[3, 2, 3, 4],
                &[in_order(0), OutOfOrder, in_order(0), in_order(0)],
            ),
        ] {
            let mut receiver = Aal1Sequence::default();
            let told: Vec<_> = counts.iter().map(|sc| receiver.receive(*sc)).collect();
            assert_eq!(told, wanted, "{counts:?}");
        }
    }

    #[test]
    fn headers_of_a_sequence_are_those_of_the_recommendation() {
        // CRC-3 and parity worked out by hand for CSI 0: 0, 1, ... 7 gives 0, 3, 6, 5, 7, 4, 1, 2.
        let crcs = [0, 3, 6, 5, 7, 4, 1, 2];
        for (sc, crc) in (0..8).zip(crcs) {
            let octet = Aal1Header { csi: false, sc }.emit();
            assert_eq!(octet >> 1, sc << 3 | crc);
            assert_eq!(octet.count_ones() % 2, 0);
        }
    }

    #[test]
    fn one_wrong_bit_is_corrected_and_two_are_not() {
        for number in 0..16 {
            let header = Aal1Header {
                csi: number & 8 != 0,
                sc: number & 7,
            };
            let octet = header.emit();
            assert_eq!(Aal1Header::parse(octet), (header, SnpVerdict::Valid));
            for bit in 0..8 {
                let wrong = octet ^ 0x80 >> bit;
                let corrected = SnpVerdict::Corrected { bit };
                assert_eq!(Aal1Header::parse(wrong), (header, corrected));
                for other in (0..8).filter(|other| *other != bit) {
                    let (_, verdict) = Aal1Header::parse(wrong ^ 0x80 >> other);
                    assert_eq!(verdict, SnpVerdict::Invalid);
                }
            }
        }
    }
}
