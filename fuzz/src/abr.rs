//! ABR: a source and a destination, whatever RM cells come and whenever cells leave.

use cellgate_core::Time;
use cellgate_core::contract::{
    AbrParameters, AbrPlanted, AbrRate, CellRate, Destination, NextCell, Part, Source,
};
use cellgate_core::wire::{PAYLOAD_LEN, Rm};

use crate::check;
use crate::take::Take;

const NONE: fn(AbrPlanted) -> bool = |_| false;

fn rate(take: &mut Take<'_>) -> CellRate {
    let cell_s = take.u32() >> (take.u8() % 32);
    CellRate::new(cell_s.max(1)).expect("it is not 0")
}

fn part(take: &mut Take<'_>) -> Part {
    Part::one_of(1 << (take.u8() % 16)).expect("a power of two")
}

fn parameters(take: &mut Take<'_>) -> AbrParameters {
    let [one, other, third] = [rate(take), rate(take), rate(take)];
    let (mcr, pcr) = (one.min(other), one.max(other));
    let icr = third.clamp(mcr, pcr);
    AbrParameters {
        mcr: Some(mcr).filter(|_| take.flag()),
        icr,
        rif: part(take),
        rdf: part(take),
        cdf: Some(part(take)).filter(|_| take.flag()),
        nrm: 2 << (take.u8() % 8),
        trm_ns: u64::from(take.u32()) % 100_000_001,
        adtf_ns: u64::from(take.u32()),
        tbe: take.u32() >> 8,
        ..AbrParameters::new(pcr)
    }
}

/// What an RM cell says, by octets of which the CRC may be right.
fn rm(take: &mut Take<'_>) -> Option<Rm> {
    let mut payload: [u8; PAYLOAD_LEN] = take.octets();
    if take.flag() {
        check::repair_crc10(&mut payload);
    }
    let read = Rm::parse(&payload);
    assert_eq!(read.crc_valid, check::crc10(&payload) == 0);
    let emitted = read.value.emit();
    assert_eq!(check::crc10(&emitted), 0);
    assert_eq!(Rm::parse(&emitted).valid(), Some(read.value));
    read.valid()
}

/// The rate stays between MCR and PCR, rises by what answers alone and by RIF x PCR at most, and
/// falls as the rules say; RM cells leave in their places; what is turned round is what came last.
pub fn abr(data: &[u8]) {
    let mut take = Take::new(data);
    let terms = parameters(&mut take);
    let mut source = Source::new(terms, NONE);
    let mut destination = Destination::default();
    let (mut now, mut since, mut answers, mut begun) = (Time::ZERO, 0_u32, 0_u64, false);
    let (floor, peak) = (terms.floor(), AbrRate::of(terms.pcr));
    let (mut waiting, mut marked) = (None, false);
    while !take.is_empty() {
        now = now.plus_ns(u64::from(take.u32()) >> (take.u8() % 32));
        let before = source.rate();
        match take.u8() % 6 {
            0 | 1 => {
                let (data, backward) = (take.flag(), destination.waits());
                match source.next(now, data, backward, NONE) {
                    NextCell::Forward(rm, clp) => {
                        assert!(!clp && !rm.backward && rm.protocol == Rm::ABR);
                        assert_eq!(rm.ccr, source.rate().to_rm());
                        (since, answers, begun) = (0, answers + 1, true);
                        assert!(source.rate() <= before);
                    }
                    cell => {
                        assert!(
                            begun || cell == NextCell::Nothing,
                            "a forward RM cell is first"
                        );
                        assert_eq!(source.rate(), before);
                        assert!(data || cell != NextCell::Data);
                        since += u32::from(cell != NextCell::Nothing);
                        assert!(since < u32::from(terms.nrm));
                        if cell == NextCell::Backward {
                            let turned = destination.turn(false, NONE).expect("it waits");
                            assert!(turned.backward);
                            if let Some(rm) = waiting.take() {
                                let came: Rm = rm;
                                assert_eq!((turned.er, turned.ccr), (came.er, came.ccr));
                                assert_eq!(turned.congestion, came.congestion || marked);
                                marked = false;
                            } else {
                                assert!(turned.backward_notification);
                            }
                        }
                    }
                }
            }
            2 => {
                answers += u64::from(source.out_of_rate(now, NONE).is_some());
                assert_eq!(source.rate(), before);
            }
            3 => {
                let Some(rm) = rm(&mut take) else { continue };
                let answered = source.backward(now, &rm, NONE);
                assert_eq!(answered, rm.backward_notification || answers > 0);
                answers -= u64::from(answered && !rm.backward_notification);
                let after = source.rate();
                let most = before.plus(peak.part(terms.rif)).min(peak);
                let may_rise = answered && !rm.congestion && !rm.no_increase;
                assert!(after <= if may_rise { most } else { before });
                assert!(after <= AbrRate::of_rm(rm.er).max(floor));
                if rm.congestion {
                    assert!(after <= before.without(terms.rdf).max(floor));
                }
            }
            4 => {
                marked = take.flag();
                destination.data(marked, NONE);
            }
            _ => {
                if let Some(rm) = rm(&mut take) {
                    destination.forward(rm, NONE);
                    waiting = Some(rm);
                } else {
                    destination.congested(now, NONE);
                }
            }
        }
        assert!(floor <= source.rate() && source.rate() <= peak.max(floor));
    }
}
