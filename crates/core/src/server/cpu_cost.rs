//! What cells and PDUs cost a core: a linear law, fitted to a calibration.

use serde::{Deserialize, Serialize};

const PS_PER_NS: i128 = 1_000;
/// Picoseconds in a second that are a millionth of it.
const PS_PER_PPM: u128 = 1_000_000;

/// One way of a connection, seen from the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    Transmit,
    Receive,
}

/// One measurement of a calibration: a slice of time in which PDUs of one size, and nothing else,
/// went one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sample {
    pub direction: Direction,
    /// Octets of SDU in each PDU.
    pub sdu: u32,
    /// Cells that went.
    pub cells: u64,
    /// PDUs that they made up.
    pub pdus: u64,
    /// Nanoseconds of the core that it took.
    pub ns: u64,
}

/// What one way costs, in picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    /// Of each cell.
    pub cell_ps: u64,
    /// Of each PDU, beside its cells.
    pub pdu_ps: u64,
}

impl Cost {
    /// Millionths of a core that `cell_s` cells/s in PDUs of `pdu_cells` cost, rounded up.
    pub fn ppm(&self, cell_s: u64, pdu_cells: u32) -> u64 {
        let pdu_cells = u128::from(pdu_cells.max(1));
        let pdu_cell_ps = u128::from(self.cell_ps) * pdu_cells + u128::from(self.pdu_ps);
        // Below 2^97, unless nobody could send that much.
        let ps = pdu_cell_ps.saturating_mul(cell_s.into());
        saturated(ps.div_ceil(pdu_cells * PS_PER_PPM))
    }

    /// Picoseconds of `cells` cells in `pdus` PDUs.
    pub(super) fn ps(&self, cells: u64, pdus: u64) -> u128 {
        let cells = u128::from(self.cell_ps) * u128::from(cells);
        cells.saturating_add(u128::from(self.pdu_ps) * u128::from(pdus))
    }
}

/// The cost of both ways.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Costs {
    pub transmit: Cost,
    pub receive: Cost,
}

impl Costs {
    /// Of one way.
    pub const fn of(&self, direction: Direction) -> Cost {
        match direction {
            Direction::Transmit => self.transmit,
            Direction::Receive => self.receive,
        }
    }

    fn of_mut(&mut self, direction: Direction) -> &mut Cost {
        match direction {
            Direction::Transmit => &mut self.transmit,
            Direction::Receive => &mut self.receive,
        }
    }
}

/// What a core's work costs: the adapter's by cell and PDU, a worker's by PDU.
///
/// Paper 003 scales a peak bandwidth by PDU size (Equations 3 and 4, [`super::lambda`]); its
/// hyperbola below 1 KB is a fixed cost per PDU, which this law has by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CpuLaw {
    /// What is reserved before headroom: at no size measured is the 99th percentile above it.
    pub reserve: Costs,
    /// What is expected to be used: fitted to the medians.
    pub expected: Costs,
    /// Reserved beyond that, in percent.
    pub headroom_percent: u32,
}

/// Samples from which no law follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LawError {
    /// A line through two points would show nothing of whether it is one.
    #[error("a law takes samples of three PDU sizes at least, of each direction: {0:?} has {1}")]
    TooFewSizes(Direction, usize),
    /// Nothing went, or in no time.
    #[error("a sample without cells, PDUs or time")]
    Empty,
    /// More than the arithmetic is exact for.
    #[error("a sample of more than 2^32 cells, PDUs or nanoseconds")]
    TooLarge,
    /// As many as are taken.
    #[error("more than {} PDU sizes", CpuLaw::SIZES_MAX)]
    TooManySizes,
}

impl CpuLaw {
    /// PDU sizes in one direction, at most.
    pub const SIZES_MAX: usize = 64;

    /// The law that fits `samples`: per direction and PDU size, the 99th percentile and the median
    /// of the time per PDU; over the sizes, the least squares of the relative error; then, for
    /// what is reserved, enough more that no 99th percentile lies above.
    ///
    /// A term that would be negative is 0, and the other one fitted alone.
    pub fn fit(samples: &[Sample], headroom_percent: u32) -> Result<Self, LawError> {
        let mut law = Self {
            headroom_percent,
            ..Self::default()
        };
        for direction in [Direction::Transmit, Direction::Receive] {
            let worst = points(samples, direction, 99)?;
            let usual = points(samples, direction, 50)?;
            *law.reserve.of_mut(direction) = raised(least_squares(&worst), &worst);
            *law.expected.of_mut(direction) = least_squares(&usual);
        }
        Ok(law)
    }

    /// Millionths of the core to reserve for `cell_s` cells/s in PDUs of `pdu_cells`, headroom
    /// included.
    pub fn reserve_ppm(&self, direction: Direction, cell_s: u64, pdu_cells: u32) -> u64 {
        let ppm = u128::from(self.reserve.of(direction).ppm(cell_s, pdu_cells));
        saturated((ppm * (100 + u128::from(self.headroom_percent))).div_ceil(100))
    }

    /// Millionths of the core that the same is expected to use.
    pub fn expected_ppm(&self, direction: Direction, cell_s: u64, pdu_cells: u32) -> u64 {
        self.expected.of(direction).ppm(cell_s, pdu_cells)
    }
}

/// For each PDU size of one direction, the sample whose time per PDU is the `percent`th percentile
/// (nearest rank).
fn points(
    samples: &[Sample],
    direction: Direction,
    percent: usize,
) -> Result<Vec<Sample>, LawError> {
    let mut own: Vec<Sample> = Vec::new();
    for sample in samples.iter().filter(|s| s.direction == direction) {
        let numbers = [sample.cells, sample.pdus, sample.ns];
        if numbers.contains(&0) {
            return Err(LawError::Empty);
        }
        if numbers.iter().any(|n| *n > u32::MAX.into()) {
            return Err(LawError::TooLarge);
        }
        own.push(*sample);
    }
    // By size, then by ns / pdus.
    own.sort_by(|a, b| {
        let by_time = (a.ns * b.pdus).cmp(&(b.ns * a.pdus));
        a.sdu.cmp(&b.sdu).then(by_time)
    });
    let sizes = own.chunk_by(|a, b| a.sdu == b.sdu);
    let points: Vec<Sample> = sizes
        .map(|size| size[(size.len() * percent).div_ceil(100) - 1])
        .collect();
    match points.len() {
        few @ 0..3 => Err(LawError::TooFewSizes(direction, few)),
        3..=CpuLaw::SIZES_MAX => Ok(points),
        _ => Err(LawError::TooManySizes),
    }
}

/// The cell and PDU cost that make the sum of ((predicted - measured) / measured)^2 least.
fn least_squares(points: &[Sample]) -> Cost {
    let cells: Vec<_> = points.iter().map(|p| (p.cells, p.ns)).collect();
    let pdus: Vec<_> = points.iter().map(|p| (p.pdus, p.ns)).collect();
    let (cells, cells_by) = scaled(&cells);
    let (pdus, pdus_by) = scaled(&pdus);
    let dot = |a: &[i128], b: &[i128]| a.iter().zip(b).map(|(a, b)| a * b).sum::<i128>();
    // With 64 points of at most 2^24: sums below 2^30, of products below 2^54.
    let (x, y) = (cells.iter().sum::<i128>(), pdus.iter().sum::<i128>());
    let (xx, xy, yy) = (dot(&cells, &cells), dot(&cells, &pdus), dot(&pdus, &pdus));
    let determinant = xx * yy - xy * xy;
    let (cell, pdu) = (x * yy - y * xy, y * xx - x * xy);
    let (cell_ps, pdu_ps) = if determinant == 0 || pdu <= 0 {
        (quotient_ps(x, xx, cells_by), 0)
    } else if cell <= 0 {
        (0, quotient_ps(y, yy, pdus_by))
    } else {
        let cell_ps = quotient_ps(cell, determinant, cells_by);
        (cell_ps, quotient_ps(pdu, determinant, pdus_by))
    };
    Cost { cell_ps, pdu_ps }
}

/// Each `n / ns`, scaled so that the largest is nearly 2^24, and by what.
fn scaled(ratios: &[(u64, u64)]) -> (Vec<i128>, i128) {
    let by = ratios
        .iter()
        .map(|(n, ns)| (i128::from(*ns) << 24) / i128::from(*n));
    let by = by.min().unwrap_or(1);
    let scaled = ratios
        .iter()
        .map(|(n, ns)| i128::from(*n) * by / i128::from(*ns));
    (scaled.collect(), by)
}

/// `numerator / denominator * by` nanoseconds, in picoseconds. A term costs no more than the slice
/// it was measured in, so the quotient is at most about 2^-24 of the largest scaled value.
fn quotient_ps(numerator: i128, denominator: i128, by: i128) -> u64 {
    // Below 2^84 and 2^40; the quotient below 2^24, times 2^56 and 2^10.
    let quotient = (numerator << 40) / denominator.max(1);
    let ps = quotient.saturating_mul(by).saturating_mul(PS_PER_NS) >> 40;
    u64::try_from(ps).unwrap_or(0)
}

/// `cost`, raised by as many millionths as bring it over each of `points`.
fn raised(cost: Cost, points: &[Sample]) -> Cost {
    const MILLION: u128 = 1_000_000;
    let short = points.iter().map(|point| {
        let measured = u128::from(point.ns) * PS_PER_NS as u128 * MILLION;
        measured.div_ceil(cost.ps(point.cells, point.pdus).max(1))
    });
    let by = short.max().unwrap_or(MILLION).max(MILLION);
    let raise = |ps: u64| saturated((u128::from(ps) * by).div_ceil(MILLION));
    Cost {
        cell_ps: raise(cost.cell_ps),
        pdu_ps: raise(cost.pdu_ps),
    }
}

fn saturated(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}
