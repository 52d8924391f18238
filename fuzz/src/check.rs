//! The codes of ATM by their definitions, bit by bit and once for all; nothing shared with the
//! product.

/// What an octet leaves behind, for each register of up to 32 bits at the top of 32.
const fn remainders(generator: u32) -> [u32; 256] {
    let mut table = [0; 256];
    let mut octet = 0;
    while octet < 256 {
        let mut register = (octet as u32) << 24;
        let mut bit = 0;
        while bit < 8 {
            let out = register >> 31;
            register <<= 1;
            if out == 1 {
                register ^= generator;
            }
            bit += 1;
        }
        table[octet] = register;
        octet += 1;
    }
    table
}

/// x^8 + x^2 + x + 1.
static HEC: [u32; 256] = remainders(0x07 << 24);
/// x^10 + x^9 + x^5 + x^4 + x + 1.
static CRC10: [u32; 256] = remainders(0x233 << 22);
static CRC32: [u32; 256] = remainders(0x04c1_1db7);

fn register(table: &[u32; 256], start: u32, octets: &[u8]) -> u32 {
    octets.iter().fold(start, |register, octet| {
        register << 8 ^ table[usize::from((register >> 24) as u8 ^ octet)]
    })
}

/// HEC of I.432.1, coset 0x55.
pub(crate) fn hec(header: [u8; 4]) -> u8 {
    (register(&HEC, 0, &header) >> 24) as u8 ^ 0x55
}

/// CRC-10 of I.610 and I.363.3: 0 over a payload that ends in its own.
pub(crate) fn crc10(octets: &[u8]) -> u16 {
    (register(&CRC10, 0, octets) >> 22) as u16
}

/// Writes the CRC-10 of the first 374 bits of a payload into its last ten.
pub(crate) fn repair_crc10(payload: &mut [u8; 48]) {
    let mut crc = crc10(&payload[..46]);
    for bit in (2..8).rev() {
        let out = crc >> 9 ^ u16::from(payload[46] >> bit & 1);
        crc = ((crc << 1) & 0x3ff) ^ (out * 0x233);
    }
    payload[46] = payload[46] & 0xfc | (crc >> 8) as u8;
    payload[47] = crc as u8;
}

/// CRC-32 of I.363.5.
pub(crate) fn crc32(octets: &[u8]) -> u32 {
    !register(&CRC32, u32::MAX, octets)
}
