//! Headers, HEC and CRC, bit by bit as the Recommendations print them. Shares nothing with core.

/// The remainder of the AAL5 CRC-32 register (I.363.5) after `octets`, starting from all ones and
/// complemented at the end.
pub(crate) fn crc32(octets: &[u8]) -> u32 {
    let (eights, rest) = octets.as_chunks::<8>();
    let register = eights.iter().fold(u32::MAX, |register, eight| {
        let [a, b, c, d] = register.to_be_bytes();
        let mask = [a, b, c, d, 0, 0, 0, 0];
        let left = (0..8).map(|n| REMAINDERS[7 - n][usize::from(eight[n] ^ mask[n])]);
        left.fold(0, |sum, left| sum ^ left)
    });
    let register = rest.iter().fold(register, |register, octet| {
        let index = (register >> 24) as u8 ^ octet;
        register << 8 ^ REMAINDERS[0][usize::from(index)]
    });
    !register
}

/// What each octet at the front of the register leaves in it, bit by bit, after so many octets of
/// zeros behind it.
static REMAINDERS: [[u32; 256]; 8] = {
    let mut table = [[0; 256]; 8];
    let mut octet = 0;
    while octet < 256 {
        let mut register = (octet as u32) << 24;
        let mut bits = 0;
        while bits < 64 {
            let out = register >> 31;
            register <<= 1;
            if out == 1 {
                register ^= 0x04c1_1db7;
            }
            bits += 1;
            if bits % 8 == 0 {
                table[bits / 8 - 1][octet] = register;
            }
        }
        octet += 1;
    }
    table
};

/// What is left of `octets`, one long binary number, after division by the generator of the CRC-10
/// of I.610: x^10 + x^9 + x^5 + x^4 + x + 1. 0 for a payload whose CRC-10 is right.
pub(crate) fn remainder10(octets: &[u8]) -> u16 {
    let mut remainder = 0;
    for octet in octets {
        for i in (0..8).rev() {
            remainder = remainder << 1 | u16::from(octet >> i & 1);
            if remainder >> 10 & 1 == 1 {
                remainder ^= 0b110_0011_0011;
            }
        }
    }
    remainder
}

/// Writes the CRC-10 into the last ten bits of an OAM payload, and zeros into the six before.
pub(crate) fn seal10(payload: &mut [u8; 48]) {
    (payload[46], payload[47]) = (0, 0);
    [payload[46], payload[47]] = remainder10(payload).to_be_bytes();
}

/// Header error control of I.432.1: what is left of header * x^8 after division by
/// x^8 + x^2 + x + 1.
pub(crate) fn hec(header: [u8; 4]) -> u8 {
    let divided = |left: u8, octet: u8| HEC_REMAINDERS[usize::from(left ^ octet)];
    header.into_iter().fold(0, divided) ^ 0x55
}

/// The remainder of octet * x^8, bit by bit.
static HEC_REMAINDERS: [u8; 256] = {
    let mut table = [0; 256];
    let mut octet = 0;
    while octet < table.len() {
        let mut dividend = (octet as u16) << 8;
        let mut bit = 16;
        while bit > 8 {
            bit -= 1;
            if dividend >> bit & 1 == 1 {
                dividend ^= 0x107 << (bit - 8);
            }
        }
        table[octet] = dividend as u8;
        octet += 1;
    }
    table
};

/// The receiver of I.432.1.
#[derive(Clone, Debug, Default)]
pub(crate) struct HecReceiver {
    detecting: bool,
}

impl HecReceiver {
    /// The header as sent, if the five octets may pass.
    pub(crate) fn check(&mut self, octets: [u8; 5]) -> Option<[u8; 4]> {
        let valid = |o: [u8; 5]| hec([o[0], o[1], o[2], o[3]]) == o[4];
        if valid(octets) {
            self.detecting = false;
            return Some([octets[0], octets[1], octets[2], octets[3]]);
        }
        if self.detecting {
            return None;
        }
        self.detecting = true;
        (0..40).find_map(|bit| {
            let mut flipped = octets;
            flipped[bit / 8] ^= 0x80 >> (bit % 8);
            valid(flipped).then(|| [flipped[0], flipped[1], flipped[2], flipped[3]])
        })
    }
}

/// The fields of a header, as I.361 draws them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fields {
    /// 0 on an NNI.
    pub(crate) gfc: u8,
    pub(crate) vpi: u16,
    pub(crate) vci: u16,
    pub(crate) pti: u8,
    pub(crate) clp: u8,
}

impl Fields {
    pub(crate) fn of(octets: [u8; 4], uni: bool) -> Self {
        let [a, b, c, d] = octets.map(u16::from);
        let (gfc, vpi) = if uni {
            (a >> 4, (a & 0xf) << 4 | b >> 4)
        } else {
            (0, a << 4 | b >> 4)
        };
        Self {
            gfc: gfc as u8,
            vpi,
            vci: (b & 0xf) << 12 | c << 4 | d >> 4,
            pti: (d >> 1 & 7) as u8,
            clp: (d & 1) as u8,
        }
    }

    /// An idle or unassigned cell, which belongs to no VC.
    pub(crate) fn is_filler(self) -> bool {
        //= I.361 table 1; I.432.1: idle cells
        let null = self.vpi == 0 && self.vci == 0;
        let unassigned = self.clp == 0 && self.pti < 4;
        let idle = self.clp == 1 && self.pti == 0;
        null && (unassigned || idle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_published_values() {
        // CRC-32/BZIP2 of "123456789"; the HEC of an idle cell and of an unassigned one (I.432.1).
        assert_eq!(crc32(b"123456789"), 0xfc89_1918);
        // CRC-10/ATM of the same: divided with ten zeros behind.
        let text = b"123456789"
            .iter()
            .fold(0, |text, &octet| text << 8 | u128::from(octet));
        assert_eq!(remainder10(&(text << 10).to_be_bytes()), 0x199);
        assert_eq!(hec([0, 0, 0, 1]), 0x52);
        assert_eq!(hec([0, 0, 0, 0]), 0x55);
    }

    #[test]
    fn a_sealed_payload_leaves_nothing_and_one_with_a_wrong_bit_does() {
        let mut payload = [0x6a; 48];
        seal10(&mut payload);
        assert_eq!((remainder10(&payload), payload[46] >> 2), (0, 0));
        for bit in 0..384 {
            let mut wrong = payload;
            wrong[bit / 8] ^= 0x80 >> (bit % 8);
            assert_ne!(remainder10(&wrong), 0, "bit {bit}");
        }
    }

    #[test]
    fn corrects_one_bit_then_detects() {
        let good = [0x12, 0x34, 0x56, 0x70, hec([0x12, 0x34, 0x56, 0x70])];
        let mut bad = good;
        bad[2] ^= 4;
        let mut receiver = HecReceiver::default();
        assert_eq!(receiver.check(bad), Some([0x12, 0x34, 0x56, 0x70]));
        assert_eq!(receiver.check(bad), None);
        assert_eq!(receiver.check(good), Some([0x12, 0x34, 0x56, 0x70]));
        assert_eq!(receiver.check(bad), Some([0x12, 0x34, 0x56, 0x70]));
    }
}
