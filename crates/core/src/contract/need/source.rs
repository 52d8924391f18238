//! The cells of a need, exactly.

use super::{NeedError, Traffic, impossible};
use crate::contract::{CellRate, aal5_cells};
use crate::wire::PAYLOAD_LEN;

const NS_PER_S: u128 = 1_000_000_000;
/// Cells of the largest SDU that fills them: 65,512 octets.
const CELLS_MAX: u64 = 1_365;
/// Octets of two packets of a transport stream, which fill eight cells (ITU-T H.222.1).
const TS_UNIT: u64 = 376;
const TS_UNIT_CELLS: u64 = 8;
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

/// Messages that are cut into SDUs of one size at most.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source {
    /// Octets of the largest SDU.
    sdu: u16,
    /// B: so many cells beyond what is sustained can come at once.
    burst_cells: u64,
    /// Cells/s on the mean.
    sustained: Ratio,
    /// Nanoseconds from a message to the next.
    period: Ratio,
}

/// Octets of the SDU that fills so many cells behind its trailer: 48 k - 8.
const fn filling(cells: u64) -> u64 {
    cells * PAYLOAD_LEN as u64 - 8
}

/// How messages become cells: a bound that is linear in their octets.
///
/// An SDU of x octets has ceil((x + 8) / 48) <= (x + 55) / 48 cells. A message of x octets that is
/// cut into SDUs of s = 48 k - 8 octets, of k cells each, and a rest, has (k x + 55 k - 16) / s
/// cells at most, which one of n s + 41 octets has. One of whole units of a transport stream has
/// (8 x + 8 * 375) / 376 at most. So k messages of `octets` together have no more than the sum of
/// what the bound says of each, and none of these can be less.
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
            let units = largest.div_ceil(TS_UNIT);
            let most = CELLS_MAX / TS_UNIT_CELLS;
            let each = units.div_ceil(units.div_ceil(most).max(1));
            return Self {
                sdu: each * TS_UNIT,
                ts,
                per_octet: TS_UNIT_CELLS.into(),
                per_message: u128::from(TS_UNIT_CELLS * (TS_UNIT - 1)),
                over: TS_UNIT.into(),
            };
        }
        let sdus = largest.div_ceil(filling(CELLS_MAX)).max(1);
        let cells = (largest.div_ceil(sdus) + 8).div_ceil(PAYLOAD_LEN as u64);
        let (per_octet, per_message, over) = match sdus {
            1 => (1, 55, PAYLOAD_LEN as u64),
            _ => (cells, 55 * cells - 16, filling(cells)),
        };
        Self {
            sdu: filling(cells),
            ts,
            per_octet: per_octet.into(),
            per_message: per_message.into(),
            over: over.into(),
        }
    }

    /// Cells of one message.
    fn cells(&self, octets: u64) -> u64 {
        let whole = octets / self.sdu * u64::from(aal5_cells(self.sdu as u32));
        let rest = match (octets % self.sdu, self.ts) {
            (0, _) => 0,
            (rest, true) => rest.div_ceil(TS_UNIT) * TS_UNIT_CELLS,
            // Below 65,536.
            (rest, false) => aal5_cells(rest as u32).into(),
        };
        whole + rest
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
                let bits = 8 * u128::from(mtu);
                Ok(Self {
                    sdu,
                    burst_cells: aal5_cells(sdu.into()).into(),
                    sustained: Ratio {
                        over: u128::from(aal5_cells(sdu.into())) * u128::from(bit_s),
                        under: bits,
                    },
                    period: Ratio {
                        over: bits * NS_PER_S,
                        under: bit_s.into(),
                    },
                })
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
        let cells = cutting.cells(octets);
        Self {
            // At most 65,512.
            sdu: cutting.sdu as u16,
            burst_cells: cells,
            sustained: Ratio {
                over: u128::from(cells) * NS_PER_S * period.under,
                under: period.over,
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
            // No more cells than octets.
            burst_cells: burst.div_ceil(cutting.over) as u64,
            sustained: Ratio {
                over: 1_000 * cutting.per_octet * rate + 8 * cutting.per_message * frames,
                under: 8 * 1_000 * cutting.over,
            },
            period,
        })
    }

    pub(super) const fn sdu(&self) -> u16 {
        self.sdu
    }

    pub(super) const fn burst_cells(&self) -> u64 {
        self.burst_cells
    }

    /// The mean rate.
    pub(super) fn sustained(&self) -> Result<CellRate, NeedError> {
        rate(self.sustained.over.div_ceil(self.sustained.under))
    }

    /// The rate at which the largest message has left when the next comes.
    pub(super) fn peak(&self) -> Result<CellRate, NeedError> {
        let cells = u128::from(self.burst_cells) * NS_PER_S * self.period.under;
        rate(cells.div_ceil(self.period.over))
    }

    /// The rate at which the largest message leaves within so many nanoseconds.
    pub(super) fn peak_within(&self, ns: u64) -> Result<CellRate, NeedError> {
        rate((u128::from(self.burst_cells) * NS_PER_S).div_ceil(ns.into()))
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
