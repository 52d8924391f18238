//! Arithmetic modulo the generator of the AAL5 CRC, at compile time.

/// The generator of I.363.5, degree 32 first:
/// x^32 + x^26 + x^23 + x^22 + x^16 + x^12 + x^11 + x^10 + x^8 + x^7 + x^5 + x^4 + x^2 + x + 1.
pub(crate) const GENERATOR: u64 = 0x1_04c1_1db7;

/// x^`exponent` modulo the generator. The generator has a constant term, so x has an inverse and
/// the exponent may be negative.
pub(crate) const fn power_of_x(exponent: i32) -> u64 {
    let mut power = 1u64;
    let mut left = exponent;
    while left > 0 {
        power <<= 1;
        if power >> 32 != 0 {
            power ^= GENERATOR;
        }
        left -= 1;
    }
    while left < 0 {
        if power & 1 != 0 {
            power ^= GENERATOR;
        }
        power >>= 1;
        left += 1;
    }
    power
}

/// The product of `register` (degree < 32) and x^`exponent`, modulo the generator.
pub(crate) const fn times_power_of_x(register: u32, exponent: i32) -> u64 {
    let power = power_of_x(exponent);
    let mut product = 0u64;
    let mut bit = 32;
    while bit > 0 {
        bit -= 1;
        product <<= 1;
        if product >> 32 != 0 {
            product ^= GENERATOR;
        }
        if register >> bit & 1 != 0 {
            product ^= power;
        }
    }
    product
}

/// What multiplies the two halves of a 128-bit block, (low, high), to move it `bits` ahead of the
/// block that it is added to.
pub(crate) const fn fold_by(bits: i32) -> [u64; 2] {
    [power_of_x(bits), power_of_x(bits + 64)]
}

/// x^96 divided by the generator, without the leading x^64.
pub(crate) const QUOTIENT: u64 = {
    let mut remainder = 1u64;
    let mut quotient = 0u64;
    let mut step = 0;
    // Long division: `remainder` is the dividend's leading part, 96 zero coefficients follow.
    while step < 96 {
        remainder <<= 1;
        quotient <<= 1;
        if remainder >> 32 != 0 {
            remainder ^= GENERATOR;
            quotient |= 1;
        }
        step += 1;
    }
    quotient
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_x_are_inverse_to_each_other() {
        assert_eq!(power_of_x(32), GENERATOR & 0xffff_ffff);
        for exponent in 0..if cfg!(miri) { 40 } else { 600 } {
            let power = power_of_x(exponent) as u32;
            assert_eq!(times_power_of_x(power, -exponent), 1, "{exponent}");
        }
    }

    #[test]
    fn the_quotient_times_the_generator_is_x_to_the_96_but_for_a_remainder() {
        let quotient = 1u128 << 64 | u128::from(QUOTIENT);
        let mut product = 0u128;
        for bit in 0..33 {
            if GENERATOR >> bit & 1 != 0 {
                product ^= quotient << bit;
            }
        }
        assert_eq!(product >> 32, 1u128 << 64);
        assert_eq!(product as u32, power_of_x(96) as u32);
    }
}
