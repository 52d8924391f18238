use super::PAYLOAD_LEN;

/// The generator x^10 + x^9 + x^5 + x^4 + x + 1 without its first term (I.610, I.363.3).
const GENERATOR: u16 = 0x233;
/// Bits of the last octet but one that are not CRC.
const NOT_CRC: u8 = 0xfc;

/// What an octet leaves behind when 0, 1, 2 or 3 octets follow it: registers whose ten bits stand
/// at the top of 16. Four tables, so that four octets wait for the register only once.
static REMAINDERS: [[u16; 256]; 4] = remainders();

const fn remainders() -> [[u16; 256]; 4] {
    let mut tables = [[0; 256]; 4];
    let mut octet = 0;
    while octet < 256 {
        let mut register = (octet as u16) << 8;
        let mut table = 0;
        while table < 4 {
            let mut bit = 0;
            while bit < 8 {
                let carry = register & 0x8000 != 0;
                register <<= 1;
                if carry {
                    register ^= GENERATOR << 6;
                }
                bit += 1;
            }
            tables[table][octet] = register;
            table += 1;
        }
        octet += 1;
    }
    tables
}

/// The register, its ten bits at the top of 16, after `octets`.
#[inline(always)]
fn register(octets: &[u8]) -> u16 {
    let (fours, rest) = octets.as_chunks::<4>();
    let mut register = 0;
    for four in fours {
        let [a, b, c, d] = (u32::from_be_bytes(*four) ^ u32::from(register) << 16).to_be_bytes();
        register = REMAINDERS[3][usize::from(a)]
            ^ REMAINDERS[2][usize::from(b)]
            ^ REMAINDERS[1][usize::from(c)]
            ^ REMAINDERS[0][usize::from(d)];
    }
    for octet in rest {
        let [high, low] = register.to_be_bytes();
        register = u16::from_be_bytes([low, 0]) ^ REMAINDERS[0][usize::from(high ^ octet)];
    }
    register
}

/// CRC-10 of whole octets (x^10 + x^9 + x^5 + x^4 + x + 1, register at first 0).
pub fn crc10(octets: &[u8]) -> u16 {
    register(octets) >> 6
}

/// Writes the CRC-10 of the first 374 bits of a payload into its last ten (I.610, I.363.3).
#[inline(always)]
pub fn seal_crc10(payload: &mut [u8; PAYLOAD_LEN]) {
    let [before @ .., high, low] = payload;
    let register = register(before);
    // Six bits are left before the CRC. As an octet with leading zeros they leave the same behind.
    let six = (register >> 10) as u8 ^ *high >> 2;
    let crc = (register << 6 ^ REMAINDERS[0][usize::from(six)]) >> 6;
    let [crc_high, crc_low] = crc.to_be_bytes();
    *high = *high & NOT_CRC | crc_high;
    *low = crc_low;
}

/// Whether the last ten bits of a payload are the CRC-10 of those before them.
#[inline(always)]
pub fn crc10_is_valid(payload: &[u8; PAYLOAD_LEN]) -> bool {
    register(payload) == 0
}

/// A value read from a payload, and whether the payload's CRC-10 was right: a capture shows damaged
/// cells too, a receiver takes only what [`Checked::valid`] gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checked<T> {
    /// What the octets say.
    pub value: T,
    /// Whether the CRC-10 belongs to them.
    pub crc_valid: bool,
}

impl<T> Checked<T> {
    /// The value, if nothing damaged it.
    #[inline(always)]
    pub fn valid(self) -> Option<T> {
        self.crc_valid.then_some(self.value)
    }
}
