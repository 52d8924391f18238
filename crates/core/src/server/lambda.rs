//! Paper 003's estimate of CPU use, in exact rationals: as printed, and with its gaps closed.
//!
//! For its figures only: admission uses [`CpuLaw`](super::CpuLaw).

/// A fraction in lowest terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio {
    numerator: u128,
    denominator: u128,
}

impl Ratio {
    pub const ZERO: Self = Self {
        numerator: 0,
        denominator: 1,
    };
    pub const ONE: Self = Self {
        numerator: 1,
        denominator: 1,
    };

    /// None for a denominator of 0.
    pub const fn new(numerator: u128, denominator: u128) -> Option<Self> {
        if denominator == 0 {
            return None;
        }
        let (mut a, mut b) = (numerator, denominator);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        Some(Self {
            numerator: numerator / a,
            denominator: denominator / a,
        })
    }

    /// Above the line.
    pub const fn numerator(self) -> u128 {
        self.numerator
    }

    /// Below the line, at least 1.
    pub const fn denominator(self) -> u128 {
        self.denominator
    }

    /// Whole millionths, rounded to the nearest. None if there are too many.
    pub fn ppm(self) -> Option<u128> {
        let twice = self.numerator.checked_mul(2_000_000)?;
        let twice = twice.checked_add(self.denominator)?;
        Some(twice / self.denominator.checked_mul(2)?)
    }

    fn checked_add(self, other: Self) -> Option<Self> {
        let a = self.numerator.checked_mul(other.denominator)?;
        let b = other.numerator.checked_mul(self.denominator)?;
        let denominator = self.denominator.checked_mul(other.denominator)?;
        Self::new(a.checked_add(b)?, denominator)
    }

    fn checked_mul(self, other: Self) -> Option<Self> {
        let numerator = self.numerator.checked_mul(other.numerator)?;
        Self::new(numerator, self.denominator.checked_mul(other.denominator)?)
    }
}

/// How the factor depends on the size of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lambda {
    /// Equation 3. It falls by 5.7 % at 4096 octets, and rises by 25 % at 1024, where packets of
    /// 818 to 1023 octets are cheaper than longer ones.
    Printed,
    /// The same but for 1024 to 4096 octets: the line between the two other pieces.
    Continuous,
}

impl Lambda {
    /// How much longer the octets of packets of `sdu` octets take than those of long ones. 0 for
    /// no octets.
    pub const fn of(self, sdu: u32) -> Ratio {
        let octets = sdu as u128;
        let factor = match (self, sdu) {
            (_, 0) => None,
            (_, 1..1024) => Ratio::new(2_201, octets),
            // 3.238 - sdu / 1878.
            (Self::Printed, 1024..4096) => Ratio::new(3_238 * 1_878 - 1_000 * octets, 1_878_000),
            // From (1024, 2201/1024) to (4096, 1).
            (Self::Continuous, 1024..4096) => {
                Ratio::new(2_201 * 3_072 - (octets - 1_024) * 1_177, 1_024 * 3_072)
            }
            (_, 4096..) => Some(Ratio::ONE),
        };
        match factor {
            Some(factor) => factor,
            None => Ratio::ZERO,
        }
    }

    /// The share of the CPU that `transmit` and `receive` take (Equation 4), of a machine that can
    /// send or receive so many bit/s of long packets and do nothing else. None for a machine that
    /// cannot, or a fraction that 128 bits do not hold.
    pub fn utilisation(
        self,
        transmit: &[Flow],
        transmit_max_bit_s: u64,
        receive: &[Flow],
        receive_max_bit_s: u64,
    ) -> Option<Ratio> {
        let ways = [(transmit, transmit_max_bit_s), (receive, receive_max_bit_s)];
        let mut sum = Ratio::ZERO;
        for (flows, max) in ways {
            for flow in flows {
                let share = Ratio::new(flow.bit_s.into(), max.into())?;
                sum = sum.checked_add(share.checked_mul(self.of(flow.sdu))?)?;
            }
        }
        Some(sum)
    }
}

/// A guaranteed flow of packets of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Bit/s.
    pub bit_s: u64,
    /// Octets of each packet.
    pub sdu: u32,
}
