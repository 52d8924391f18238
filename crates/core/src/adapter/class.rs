//! From a request to how its VC is scheduled.

use super::schedule::{Class, PeakRate};
use super::{Board, OpenRequest, Planted, SustainedRate, Transmit};
use crate::contract::{AbrParameters, CellRate};

/// The rate that the transmit direction reserves of its line, in cells/s.
pub(super) fn guaranteed_cell_s(request: &OpenRequest) -> u64 {
    let rate = request.transmit.and_then(|transmit| transmit.guaranteed());
    rate.map_or(0, |rate| rate.cell_s().into())
}

/// The rate and the sustained rate of a guaranteed VC.
fn buckets<B: Board>(
    transmit: &Transmit,
    peak: CellRate,
    board: &B,
) -> (CellRate, Option<SustainedRate>) {
    match transmit.sustained {
        Some(_) if board.planted(Planted::SustainedNotShaped) => (peak, None),
        Some(sustained) if board.planted(Planted::BurstNotRegained) => (sustained.rate, None),
        Some(sustained) if board.planted(Planted::BurstUnbounded) => {
            let endless = SustainedRate {
                burst_tolerance_ns: u64::MAX,
                ..sustained
            };
            (peak, Some(endless))
        }
        sustained if board.planted(Planted::BurstPeakForgotten) => match sustained {
            Some(_) => (CellRate::new(u32::MAX).unwrap_or(peak), sustained),
            None => (peak, None),
        },
        sustained => (peak, sustained),
    }
}

/// The class of a VC of ABR, whose source has not sent yet.
fn available<B: Board>(transmit: &Transmit, board: &B) -> Class {
    let parameters = transmit.abr.map(|abr| abr.transmit);
    let floor = parameters.and_then(|parameters| parameters.mcr);
    let initial = parameters
        .map(|parameters| parameters.icr)
        .or(transmit.peak);
    Class::Available {
        floor: floor.filter(|_| !board.planted(Planted::FloorNotKept)),
        weight: transmit.weight,
        allowed: PeakRate {
            rate: initial.unwrap_or(AbrParameters::TCR),
            cdvt_ns: transmit.cdvt_ns,
        },
    }
}

/// The class of a VC that transmits.
pub(super) fn class<B: Board>(transmit: &Transmit, board: &B) -> Class {
    let cdvt_ns = transmit.cdvt_ns;
    let peak = transmit
        .peak
        .filter(|_| !board.planted(Planted::PeakForgotten));
    match transmit.rate {
        Some(peak) => {
            let (rate, sustained) = buckets(transmit, peak, board);
            Class::Guaranteed {
                rate,
                cdvt_ns,
                burst: transmit.burst,
                sustained,
            }
        }
        None if transmit.abr.is_some() => available(transmit, board),
        None => Class::BestEffort {
            weight: transmit.weight,
            peak: peak.map(|rate| PeakRate { rate, cdvt_ns }),
        },
    }
}
