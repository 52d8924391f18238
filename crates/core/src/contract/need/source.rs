//! The cells of a need, exactly.

use super::{NeedError, Traffic, impossible};
use crate::contract::{CellRate, aal5_cells};
use crate::wire::PAYLOAD_LEN;

const NS_PER_S: u128 = 1_000_000_000;
/// Cells of the largest SDU that fills them: 65,512 octets.
const CELLS_MAX: u64 = 1_365;
/// Octets of two packets of a transport stream (ITU-T H.222.1). An SDU of n such pairs fills its
/// cells, (47 n + 1) / 6, where n is 1 more than a multiple of 6.
const TS_PAIR: u64 = 376;
/// Pairs of the largest such SDU.
const TS_PAIRS_MAX: u64 = 169;
/// Cells of a file's SDUs: the least that hold the default MTU of IP over ATM, 9,180 octets
/// (RFC 2225).
const FILE_CELLS: u64 = 192;
/// Octets of LLC and SNAP before an IP packet (RFC 2684).
const LLC_SNAP: u16 = 8;

/// A fraction.
#[derive(Clone, Copy, Debug)]
struct Ratio {
    over: u128,
    under: u128,
}

/// Messages that are cut into SDUs of one size at most. Of k messages in a row no more than B cells
/// come beyond k - 1 mean messages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source {
    /// Octets of the largest SDU.
    sdu: u16,
    /// Cells of the largest message.
    largest_cells: u64,
    /// B, no less.
    burst_cells: u64,
    /// Cells of a message on the mean.
    mean: Ratio,
    /// Nanoseconds from a message to the next.
    period: Ratio,
}

/// Octets of the SDU that fills so many cells behind its trailer: 48 k - 8.
const fn filling(cells: u64) -> u64 {
    cells * PAYLOAD_LEN as u64 - 8
}

/// How messages become cells: a bound that is linear in their octets, so that messages have no more
/// cells together than the sum of what it says of each. Some messages have as many.
///
/// An SDU of x octets has ceil((x + 8) / 48) <= (x + 55) / 48 cells. A message of x octets that is
/// cut into SDUs of s = 48 k - 8 octets, of k cells each, and a rest, has (k x + 55 k - 16) / s
/// cells at most, which one of s + 41 octets has.
///
/// Of a transport stream, x octets are at most (x + 375) / 376 pairs of packets, and an SDU of j
/// pairs has ceil((47 j + 1) / 6) cells: in one SDU a message has (x + 423) / 48 at most, and in
/// SDUs of n pairs and k cells (k x + 375 k + 376 (n - 1)) / (376 n).
#[derive(Clone, Copy)]
struct Cutting {
    sdu: u64,
    /// SDUs are whole units of a transport stream.
    ts: bool,
    per_octet: u128,
    per_message: u128,
    over: u128,
}

impl Cutting {
    /// Of messages of up to so many octets: as few SDUs as hold the largest one, of equal sizes.
    fn of(largest: u64, ts: bool) -> Self {
        if ts {
            return Self::of_pairs(largest.div_ceil(TS_PAIR));
        }
        let sdus = largest.div_ceil(filling(CELLS_MAX)).max(1);
        let cells = (largest.div_ceil(sdus) + 8).div_ceil(PAYLOAD_LEN as u64);
        let (per_octet, per_message, over) = match sdus {
            1 => (1, 55, PAYLOAD_LEN as u64),
            _ => (cells, 55 * cells - 16, filling(cells)),
        };
        Self {
            sdu: filling(cells),
            ts: false,
            per_octet: per_octet.into(),
            per_message: per_message.into(),
            over: over.into(),
        }
    }

    /// The same of so many pairs of a transport stream's packets.
    fn of_pairs(largest: u64) -> Self {
        let sdus = largest.div_ceil(TS_PAIRS_MAX).max(1);
        let pairs = largest.div_ceil(sdus);
        // The next that fills its cells.
        let pairs = pairs.saturating_sub(1).next_multiple_of(6) + 1;
        let cells = (47 * pairs + 1) / 6;
        let (per_octet, per_message, over) = match sdus {
            1 => (1, 423, PAYLOAD_LEN as u64),
            _ => {
                let rest = (TS_PAIR - 1) * cells + TS_PAIR * (pairs - 1);
                (cells, rest, TS_PAIR * pairs)
            }
        };
        Self {
            sdu: pairs * TS_PAIR,
            ts: true,
            per_octet: per_octet.into(),
            per_message: per_message.into(),
            over: over.into(),
        }
    }

    /// Cells of one message.
    fn cells(&self, octets: u64) -> u64 {
        let octets = match self.ts {
            true => octets.next_multiple_of(TS_PAIR),
            false => octets,
        };
        // Below 65,536.
        let of = |octets: u64| u64::from(aal5_cells(octets as u32));
        let rest = match octets % self.sdu {
            0 => 0,
            rest => of(rest),
        };
        octets / self.sdu * of(self.sdu) + rest
    }
}

impl Source {
    pub(super) fn of(traffic: &Traffic) -> Result<Self, NeedError> {
        match *traffic {
            Traffic::Video {
                bit_s,
                frames_mhz,
                peak_thousandths,
                ts,
            } => Self::video((bit_s, frames_mhz), peak_thousandths, ts),
            Traffic::Voice { bit_s, every_ns } => {
                let octets = (u128::from(bit_s) * u128::from(every_ns)).div_ceil(8 * NS_PER_S);
                Self::even(bounded(octets)?, every_ns)
            }
            Traffic::Sensor { octets, every_ns } => Self::even(octets, every_ns),
            Traffic::File { octets, within_ns } => {
                let cutting = Cutting {
                    sdu: filling(FILE_CELLS),
                    ..Cutting::of(1, false)
                };
                Ok(Self::one_size(cutting, octets, whole(within_ns)))
            }
            Traffic::Ip { bit_s, mtu } => {
                let sdu = mtu.saturating_add(LLC_SNAP);
                let period = Ratio {
                    over: 8 * u128::from(mtu) * NS_PER_S,
                    under: bit_s.into(),
                };
                let cells = aal5_cells(sdu.into()).into();
                Ok(Self::of_one_size(sdu, cells, period))
            }
        }
    }

    /// Messages of one size at equal times.
    fn even(octets: u64, every_ns: u64) -> Result<Self, NeedError> {
        let octets = bounded(octets.into())?;
        let cutting = Cutting::of(octets, false);
        Ok(Self::one_size(cutting, octets, whole(every_ns)))
    }

    fn one_size(cutting: Cutting, octets: u64, period: Ratio) -> Self {
        // At most 65,512.
        Self::of_one_size(cutting.sdu as u16, cutting.cells(octets), period)
    }

    fn of_one_size(sdu: u16, cells: u64, period: Ratio) -> Self {
        Self {
            sdu,
            largest_cells: cells,
            burst_cells: cells,
            mean: Ratio {
                over: cells.into(),
                under: 1,
            },
            period,
        }
    }

    /// Of a mean of m = 1000 r / (8 f) octets, r in bit/s and f in thousandths of a frame/s.
    fn video(
        (bit_s, frames_mhz): (u64, u64),
        peak_thousandths: u64,
        ts: bool,
    ) -> Result<Self, NeedError> {
        let (rate, frames) = (u128::from(bit_s), u128::from(frames_mhz));
        let largest = (rate * u128::from(peak_thousandths)).div_ceil(8 * frames);
        let largest = bounded(largest)?;
        let cutting = Cutting::of(largest, ts);
        let period = Ratio {
            over: 1_000 * NS_PER_S,
            under: frames,
        };
        if peak_thousandths == 1_000 {
            return Ok(Self::one_size(cutting, largest, period));
        }
        let burst = cutting.per_octet * u128::from(largest) + cutting.per_message;
        Ok(Self {
            // At most 65,512.
            sdu: cutting.sdu as u16,
            largest_cells: cutting.cells(largest),
            // No more cells than octets.
            burst_cells: burst.div_ceil(cutting.over) as u64,
            mean: Ratio {
                over: 1_000 * cutting.per_octet * rate + 8 * cutting.per_message * frames,
                under: 8 * frames * cutting.over,
            },
            period,
        })
    }

    pub(super) const fn sdu(&self) -> u16 {
        self.sdu
    }

    pub(super) const fn largest_cells(&self) -> u64 {
        self.largest_cells
    }

    pub(super) const fn burst_cells(&self) -> u64 {
        self.burst_cells
    }

    /// S, the mean rate.
    pub(super) fn sustained(&self) -> Result<CellRate, NeedError> {
        let Self { mean, period, .. } = self;
        rate((mean.over * NS_PER_S * period.under).div_ceil(mean.under * period.over))
    }

    /// The least rate at which each message has left so many nanoseconds after it came; none: when
    /// the next comes.
    ///
    /// With L the cells of the largest message, P the time between two and D that time: the
    /// largest leaves within D at L / D. Of those before it no more than B + S P - R P cells are
    /// left at a rate R, so R (D + P) is at least B + S P.
    pub(super) fn peak(&self, within_ns: Option<u64>) -> Result<CellRate, NeedError> {
        let Self { mean, period, .. } = self;
        let within = within_ns.map_or(*period, whole);
        let largest = u128::from(self.largest_cells) * NS_PER_S * within.under;
        let largest = largest.div_ceil(within.over);
        let both = match within_ns {
            // By then the one before has left.
            None => 0,
            Some(ns) => {
                let cells = u128::from(self.burst_cells) * mean.under + mean.over;
                let time = u128::from(ns) * period.under + period.over;
                (NS_PER_S * period.under * cells).div_ceil(mean.under * time)
            }
        };
        Ok(rate(largest.max(both))?.max(self.sustained()?))
    }

    /// Cells that leave from a message's coming to its last, at most, at a rate of
    /// [`peak`](Self::peak).
    pub(super) fn way_cells(&self, peak: CellRate) -> u64 {
        let Self { mean, period, .. } = self;
        let cells = u128::from(self.burst_cells) * mean.under + mean.over;
        let sent = u128::from(peak.cell_s()) * period.over * mean.under;
        let left = (cells * NS_PER_S * period.under).saturating_sub(sent);
        let left = left.div_ceil(mean.under * NS_PER_S * period.under);
        // No more than B and a message.
        self.largest_cells.max(left as u64)
    }
}

const fn whole(ns: u64) -> Ratio {
    Ratio {
        over: ns as u128,
        under: 1,
    }
}

/// Messages of up to 10^12 octets: with any rate, frequency or peak of a need, products stay below
/// 2^128.
fn bounded(octets: u128) -> Result<u64, NeedError> {
    match u64::try_from(octets) {
        Ok(octets @ 1..=1_000_000_000_000) => Ok(octets),
        _ => Err(impossible(format!(
            "a message would have {octets} octets; 1 to 10^12 can be had"
        ))),
    }
}

fn rate(cell_s: u128) -> Result<CellRate, NeedError> {
    let rate = i32::try_from(cell_s).ok();
    let rate = rate.and_then(|cell_s| CellRate::new(cell_s.unsigned_abs()));
    rate.ok_or_else(|| {
        impossible(format!(
            "this needs {cell_s} cells/s; a contract can state 1 to 2147483647"
        ))
    })
}
