use serde::{Deserialize, Serialize};

/// The generator x^8 + x^2 + x + 1 without its first term (I.432.1).
const GENERATOR: u8 = 0x07;
/// Added to the remainder so that a slipped bit shows (I.432.1).
const COSET: u8 = 0x55;

/// One table for each of the four octets, so that no look-up waits for another.
static REMAINDERS: [[u8; 256]; 4] = remainders();

/// The wrong bit that a syndrome tells, or `NO_BIT`.
static WRONG_BIT: [u8; 256] = wrong_bits();
const NO_BIT: u8 = u8::MAX;

const fn remainders() -> [[u8; 256]; 4] {
    let mut tables = [[0; 256]; 4];
    let mut octet = 0;
    while octet < 256 {
        let mut register = octet as u8;
        let mut table = 4;
        while table > 0 {
            table -= 1;
            let mut bit = 0;
            while bit < 8 {
                let carry = register & 0x80 != 0;
                register <<= 1;
                if carry {
                    register ^= GENERATOR;
                }
                bit += 1;
            }
            tables[table][octet] = register;
        }
        octet += 1;
    }
    tables
}

const fn wrong_bits() -> [u8; 256] {
    let tables = remainders();
    let mut bits = [NO_BIT; 256];
    let mut bit = 0;
    while bit < 40 {
        let octet = 0x80 >> (bit % 8);
        let syndrome = if bit < 32 {
            tables[bit / 8][octet]
        } else {
            octet as u8
        };
        // The generator has distance 4 over 40 bits: no two single errors share a syndrome.
        assert!(syndrome != 0 && bits[syndrome as usize] == NO_BIT);
        bits[syndrome as usize] = bit as u8;
        bit += 1;
    }
    bits
}

/// Header error control over the first four octets (I.432.1: x^8 + x^2 + x + 1, coset 0x55).
#[inline(always)]
pub const fn hec(header: [u8; 4]) -> u8 {
    let [a, b, c, d] = header;
    REMAINDERS[0][a as usize]
        ^ REMAINDERS[1][b as usize]
        ^ REMAINDERS[2][c as usize]
        ^ REMAINDERS[3][d as usize]
        ^ COSET
}

/// The two modes of the receiver of I.432.1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum HecMode {
    /// One wrong bit is corrected, then the mode changes to detection.
    #[default]
    Correction,
    /// Every error discards the cell; a good cell changes the mode to correction.
    Detection,
}

/// What the receiver says of one header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HecVerdict {
    Valid,
    /// The error in bit `bit` (0 = first on the wire, 39 = last of the HEC) was corrected.
    Corrected {
        /// Which of the 40 bits.
        bit: u8,
    },
    /// The cell is to be discarded.
    Discard,
}

/// The receiver of I.432.1 for one link.
///
/// ```text
///              one wrong bit: correct it
///              more: discard
///       +------------+ -----------------> +-----------+
///       | Correction |                    | Detection | --+ any error: discard
///       +------------+ <----------------- +-----------+ <-+
///                          no error
/// ```
///
/// Correcting every single error would turn bursts, which fibres have too, into misdelivered
/// cells; hence the second mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HecReceiver {
    mode: HecMode,
}

impl HecReceiver {
    /// A receiver in correction mode.
    pub const fn new() -> Self {
        Self {
            mode: HecMode::Correction,
        }
    }

    /// The mode the next header meets.
    pub const fn mode(&self) -> HecMode {
        self.mode
    }

    /// Judges the five octets of a header and repairs them if it may.
    ///
    /// After `Discard` the octets are as they came.
    #[inline(always)]
    pub fn receive(&mut self, octets: &mut [u8; 5]) -> HecVerdict {
        let [a, b, c, d, received] = *octets;
        let syndrome = hec([a, b, c, d]) ^ received;
        if syndrome == 0 {
            self.mode = HecMode::Correction;
            return HecVerdict::Valid;
        }
        self.receive_wrong(octets, syndrome)
    }

    #[cold]
    fn receive_wrong(&mut self, octets: &mut [u8; 5], syndrome: u8) -> HecVerdict {
        let bit = WRONG_BIT[syndrome as usize];
        let correctable = self.mode == HecMode::Correction && bit != NO_BIT;
        self.mode = HecMode::Detection;
        if !correctable {
            return HecVerdict::Discard;
        }
        octets[bit as usize / 8] ^= 0x80 >> (bit % 8);
        HecVerdict::Corrected { bit }
    }
}
