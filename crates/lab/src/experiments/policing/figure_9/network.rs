use cellgate_core::contract::aal5_cells;

use super::super::{LINE_BIT_S, Ps};
use super::point::Setup;
use super::{SDU, STREAM_BIT_S, VCIS};
use crate::machine::{Arrivals, Stream};
use crate::world::{Flying, Interval, Line, Output};

/// The time of a cell at so many bit/s of SDU, as exact as bit/s of cells are.
pub(super) fn interval(sdu_bit_s: u64) -> Interval {
    let cell_bit_s = u128::from(sdu_bit_s) * u128::from(aal5_cells(SDU.into())) * 424;
    let cell_bit_s = cell_bit_s / (8 * u128::from(SDU));
    Interval::of_line(u64::try_from(cell_bit_s).unwrap_or(u64::MAX))
}

/// Three streams, a switch, and the line to host C.
pub(super) struct Network {
    /// With the number of each at the switch.
    streams: Vec<(Stream, u32)>,
    output: Output,
    line: Line,
}

impl Network {
    pub(super) fn new(setup: &Setup, hazard_bit_s: u64, start: Ps) -> Self {
        let pdu = interval(STREAM_BIT_S).times(aal5_cells(SDU.into()).into());
        let mut streams = Vec::new();
        for (i, bit_s) in [STREAM_BIT_S, STREAM_BIT_S, hazard_bit_s]
            .into_iter()
            .enumerate()
        {
            if bit_s == 0 {
                continue;
            }
            // Spread over the time of a PDU, so that two do not always end together.
            let begin = start.plus(Ps::new(pdu.ps() * i as u64 / 3));
            let stream = Stream::new(setup.cells[i].clone(), interval(bit_s), begin);
            let seed = setup.seed.wrapping_mul(VCIS.len() as u64);
            let seed = seed.wrapping_add(i as u64);
            let slot = Interval::of_line(LINE_BIT_S).times(1);
            streams.push((stream.jittered(seed, slot), i as u32));
        }
        Self {
            streams,
            output: Output::new(setup.discard, setup.port_cells, VCIS.len()),
            line: Line::new(LINE_BIT_S, Ps::ZERO),
        }
    }
}

impl Arrivals for Network {
    fn next(&mut self, now: Ps) -> Option<Flying> {
        while let Some((stream, flow)) = self.streams.iter_mut().min_by_key(|(s, _)| s.due())
            && stream.due() <= now
        {
            let cell = stream.send();
            self.output
                .offer(cell.at, *flow, &cell.octets, &mut self.line);
        }
        self.line.take(now)
    }
}
