//! More real-time connections than FIFOs (section 5.4).

use std::collections::BTreeMap;

use cellgate_core::contract::CellRate;
use cellgate_core::wire::{CELL_LEN, Header, HeaderForm, PAYLOAD_LEN};
use cellgate_report::{Check, Claim, Entry, Rational, Table, Tolerance, Value};

use super::{Error, HostCosts, Ps, SDU, address, cells, per_s, rate};
use crate::machine::{BoardConfig, Departed, Pacing, Quiet, SendSpec, Workstation};

/// More connections than FIFOs: the two of the highest rates have one each, the others share the
/// third (section 5.4).
const CELL_S: [(usize, u64); 6] = [
    (0, 120_000),
    (1, 60_000),
    (SHARED, 24_000),
    (SHARED, 12_000),
    (SHARED, 6_000),
    (SHARED, 3_000),
];
/// The FIFO of several of them.
pub(super) const SHARED: usize = 2;

/// Cells/s of that FIFO's tokens where whole PDUs take turns: the peak of its connections.
const PEAK_CELL_S: u64 = 100_000;

/// How connections share a FIFO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sharing {
    /// The firmware schedules each cell.
    ByCell,
    /// A whole PDU leaves at the FIFO's rate, then one of another (VBR).
    ByPdu,
}

impl Sharing {
    pub(super) fn pacing(self, rate: CellRate) -> Pacing {
        match self {
            Self::ByCell => Pacing::ByCell(rate),
            Self::ByPdu => Pacing::ByPdu(rate),
        }
    }

    /// Cells that leave together.
    fn cells(self) -> Rational {
        match self {
            Self::ByCell => Rational::ONE,
            Self::ByPdu => cells(SDU),
        }
    }

    fn how(self) -> &'static str {
        match self {
            Self::ByCell => "scheduled",
            Self::ByPdu => "interleaved",
        }
    }
}

/// Six connections on three FIFOs, and best effort on the last.
pub(super) struct Shared {
    sharing: Sharing,
    /// Cells per second by VCI.
    rates: BTreeMap<u16, Rational>,
    /// A cell in the time that was measured, per second.
    one_cell_s: Rational,
    /// PDUs of which a cell was out of its place.
    disordered: u64,
    /// PDUs of the shared FIFO between whose cells one of another was.
    broken: u64,
}

/// VCI of the first of them.
const FIRST_VCI: u16 = 40;

impl Shared {
    pub(super) fn measured(config: BoardConfig, span: Ps, sharing: Sharing) -> Result<Self, Error> {
        let mut workstation = Workstation::new(config, HostCosts::NONE)?;
        for (i, (fifo, cell_s)) in CELL_S.into_iter().enumerate() {
            let rate = rate(cell_s)?;
            let shared = fifo == SHARED;
            if !shared {
                workstation.board().transmitter().set_rate(fifo, rate);
            } else if sharing == Sharing::ByPdu {
                let peak = self::rate(PEAK_CELL_S)?;
                workstation.board().transmitter().set_rate(fifo, peak);
            }
            workstation.send(&SendSpec {
                address: address(FIRST_VCI + i as u16)?,
                fifo,
                sdu: SDU,
                pacing: if shared {
                    sharing.pacing(rate)
                } else {
                    Pacing::ByFifo
                },
            })?;
        }
        let best_effort = FIRST_VCI + CELL_S.len() as u16;
        workstation.send(&SendSpec {
            address: address(best_effort)?,
            fifo: 3,
            sdu: SDU,
            pacing: Pacing::ByFifo,
        })?;
        workstation.run(workstation.now().plus(Ps::from_ns(20_000_000)), &mut Quiet);
        workstation.board().keep_departed();
        let begin = workstation.now();
        let end = begin.plus(span).plus(span);
        let one_cell_s = per_s(1, end.since(begin));
        let mut taken = Taken::default();
        while workstation.now() < end {
            workstation.run(workstation.now().plus(Ps::from_ns(1_000_000)), &mut Quiet);
            for cell in workstation.board().take_departed() {
                taken.add(&cell);
            }
        }
        let span = workstation.now().since(begin);
        let rates = taken.cells.iter().map(|(vci, n)| (*vci, per_s(*n, span)));
        Ok(Self {
            rates: rates.collect(),
            one_cell_s,
            disordered: taken.disordered,
            broken: taken.broken,
            sharing,
        })
    }

    fn of(&self, index: usize) -> Rational {
        let vci = FIRST_VCI + index as u16;
        self.rates.get(&vci).copied().unwrap_or(Rational::ZERO)
    }

    pub(super) fn table(&self) -> Table {
        let title = match self.sharing {
            Sharing::ByCell => {
                "Six real-time connections on three FIFOs, cell by cell (section 5.4)"
            }
            Sharing::ByPdu => "The same with whole PDUs in turn, of VBR (section 5.4)",
        };
        let mut table = Table::new(
            self.sharing.how(),
            title,
            &[
                ("connection", "connection"),
                ("fifo", "FIFO"),
                ("set_cell_s", "set to, cells/s"),
                ("cell_s", "ours, cells/s"),
            ],
        );
        for (i, (fifo, cell_s)) in CELL_S.into_iter().enumerate() {
            table.row([
                Entry::text(format!("R{}", i + 1)),
                Entry::number(fifo, 0),
                Entry::number(cell_s, 0),
                Entry::number(self.of(i), 0),
            ]);
        }
        let best_effort = Entry::number(self.of(CELL_S.len()), 0);
        let name = Entry::text("best effort");
        table.row([name, Entry::number(3, 0), Entry::Empty, best_effort]);
        table
    }

    pub(super) fn checks(&self) -> Vec<Check> {
        // A cell, or a PDU, more or less in any time is its phase.
        let phase = self.one_cell_s * self.sharing.cells();
        let rated = CELL_S.into_iter().enumerate();
        let mut checks: Vec<_> = rated
            .map(|(i, (fifo, cell_s))| {
                let how = if fifo == SHARED {
                    self.sharing.how()
                } else {
                    "alone"
                };
                let what = format!("R{}, {how} on FIFO {fifo}", i + 1);
                let ours = Value::new(self.of(i), 0, "cells/s");
                let claim = Claim::derived("P0.10", &what, "section 5.4, not measured");
                claim.number(cell_s.into(), Tolerance::Absolute(phase), &ours)
            })
            .collect();
        let ours = Value::new(self.disordered, 0, "PDUs");
        let claim = Claim::derived(
            "P0.10",
            "PDUs with cells out of order",
            "cells keep in order",
        );
        checks.push(claim.number(Rational::ZERO, Tolerance::Exact, &ours));
        if self.sharing == Sharing::ByPdu {
            let ours = Value::new(self.broken, 0, "PDUs");
            let claim = Claim::derived(
                "P0.10",
                "PDUs with others' cells inside",
                "PDU interleaving",
            );
            checks.push(claim.number(Rational::ZERO, Tolerance::Exact, &ours));
        }
        checks
    }
}

/// Cells that left, by VCI.
#[derive(Default)]
struct Taken {
    cells: BTreeMap<u16, u64>,
    /// Of the PDU in progress, and whether each was in its place; none before the first PDU seen
    /// begins.
    of_pdu: BTreeMap<u16, (u16, bool)>,
    disordered: u64,
    /// Whose PDU is in progress on the shared FIFO, once one has ended there.
    in_progress: Option<Option<u16>>,
    broken: u64,
}

impl Taken {
    fn add(&mut self, cell: &Departed) {
        let octets = cell.octets;
        let [a, b, c, d, ..] = octets;
        let header = Header::parse([a, b, c, d]);
        let vci = header.address(HeaderForm::Uni).vci();
        *self.cells.entry(vci).or_default() += 1;
        if cell.fifo == SHARED {
            let others = self.in_progress.flatten().is_some_and(|other| other != vci);
            self.broken += u64::from(others);
            self.in_progress = match header.is_last() {
                true => Some(None),
                false => self.in_progress.map(|_| Some(vci)),
            };
        }
        if let Some((held, right)) = self.of_pdu.get_mut(&vci) {
            // The host numbers what each cell carries of its SDU.
            let sdu = usize::from(SDU) - usize::from(*held) * PAYLOAD_LEN;
            let payload = &octets[CELL_LEN - PAYLOAD_LEN..][..sdu.min(PAYLOAD_LEN)];
            let number = held.to_be_bytes();
            *right &= payload.chunks(2).all(|pair| pair == number);
            *held += 1;
            let ends = Rational::from(u32::from(*held)) == cells(SDU);
            if header.is_last() || ends {
                self.disordered += u64::from(!*right || header.is_last() != ends);
                self.of_pdu.remove(&vci);
            }
        }
        if header.is_last() {
            self.of_pdu.insert(vci, (0, true));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::pdu_cells;

    #[test]
    fn cells_that_change_places_are_seen() {
        let pdu = pdu_cells(address(FIRST_VCI).expect("an address"), SDU).expect("a PDU");
        let disordered = |of: &[crate::world::Octets]| {
            let mut taken = Taken::default();
            let all = pdu.iter().chain(of).chain(&pdu);
            all.for_each(|octets| {
                taken.add(&Departed {
                    at: Ps::ZERO,
                    fifo: SHARED,
                    octets: *octets,
                });
            });
            taken.disordered
        };
        assert_eq!(disordered(&pdu), 0);
        let mut swapped = pdu.clone();
        swapped.swap(3, 4);
        assert_eq!(disordered(&swapped), 1);
        assert_eq!(disordered(&pdu[1..]), 1);
    }
}
