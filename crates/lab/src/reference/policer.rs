//! GCRA in virtual scheduling form (I.371), in exact fractions: one bucket, and the two of TM 4.0.

use cellgate_core::adapter::{Aal, ClpScope, Receive};

use super::aal34::cells_of_sdu;

const NS_PER_S: i128 = 1_000_000_000;

/// One GCRA. Times are numerators over `rate`: `t` nanoseconds are `t * rate`, and the increment
/// T = 10^9 / rate nanoseconds is exactly 10^9.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Policer {
    rate: i128,
    theoretical_arrival: i128,
    limit_ns: i128,
}

impl Policer {
    /// `tolerance_cells` increments are tolerated beyond `tolerance_ns`; the limit is whole
    /// nanoseconds, rounded up.
    pub(crate) fn new(cell_s: u32, tolerance_ns: i128, tolerance_cells: u64) -> Self {
        let rate = i128::from(cell_s);
        let cells_ns = (i128::from(tolerance_cells) * NS_PER_S + rate - 1) / rate;
        Self {
            rate,
            theoretical_arrival: 0,
            limit_ns: tolerance_ns + cells_ns,
        }
    }

    pub(crate) fn conforms(&self, now_ns: u64) -> bool {
        i128::from(now_ns) * self.rate >= self.theoretical_arrival - self.limit_ns * self.rate
    }

    /// The theoretical arrival time is never before an arrival.
    pub(crate) fn arrive(&mut self, earliest_ns: u64) {
        let earliest = i128::from(earliest_ns) * self.rate;
        self.theoretical_arrival = self.theoretical_arrival.max(earliest);
    }

    pub(crate) fn charge(&mut self, cells: u64) {
        self.theoretical_arrival += i128::from(cells) * NS_PER_S;
    }

    /// What was charged stays charged under another rate, in whole nanoseconds rounded up: the same
    /// time, at a higher rate the same cells.
    fn carry_over(&mut self, now_ns: u64, old: &Self) {
        let ns = (old.theoretical_arrival + old.rate - 1).div_euclid(old.rate);
        let owed = ns - i128::from(now_ns);
        let ns = match owed > 0 && self.rate > old.rate {
            true => i128::from(now_ns) + (owed * old.rate + self.rate - 1) / self.rate,
            false => ns,
        };
        self.theoretical_arrival = ns * self.rate;
    }
}

/// Which buckets a PDU is charged to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Charged {
    pub(crate) peak: bool,
    pub(crate) sustained: bool,
}

/// What the buckets say of a PDU, by its first cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Conforming(Charged),
    /// Beyond the contract. `tagged`: what it is charged to if it is tagged for it.
    Excess {
        tagged: Charged,
    },
}

/// The buckets of a receive contract. Without a peak bucket everything conforms.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Buckets {
    peak: Option<Policer>,
    sustained: Option<(Policer, ClpScope)>,
}

impl Buckets {
    pub(crate) fn new(aal: Aal, receive: &Receive, clump_cells: u16) -> Self {
        let clump = u64::from(clump_cells.max(1)) - 1;
        let frame = match aal {
            Aal::Aal0 => 0,
            Aal::Aal5 => u64::from((u32::from(receive.max_sdu) + 8).div_ceil(48)),
            Aal::Aal34(_) => cells_of_sdu(receive.max_sdu.into()) as u64,
        };
        let cdvt_ns = i128::from(receive.cdvt_ns);
        let peak = receive.rate;
        let sustained = receive.sustained.map(|sustained| {
            let tolerance_ns = i128::from(sustained.burst_tolerance_ns) + cdvt_ns;
            let rate = sustained.rate.cell_s();
            (
                Policer::new(rate, tolerance_ns, frame + clump),
                sustained.clp,
            )
        });
        Self {
            peak: peak.map(|rate| Policer::new(rate.cell_s(), cdvt_ns, frame + clump)),
            sustained,
        }
    }

    /// Judges a PDU whose first cell has this CLP bit. Charges nothing.
    pub(crate) fn judge(&self, now_ns: u64, clp: u8) -> Verdict {
        let peak_conforms = self.peak.is_none_or(|peak| peak.conforms(now_ns));
        if !peak_conforms {
            return Verdict::Excess {
                tagged: Charged::default(),
            };
        }
        let applies = |scope: ClpScope| match scope {
            ClpScope::AllCells => true,
            ClpScope::HighPriority { .. } => clp == 0,
        };
        let sustained = self.sustained.filter(|(_, scope)| applies(*scope));
        let charged = Charged {
            peak: true,
            sustained: sustained.is_some(),
        };
        if sustained.is_none_or(|(policer, _)| policer.conforms(now_ns)) {
            Verdict::Conforming(charged)
        } else {
            Verdict::Excess {
                tagged: Charged {
                    sustained: false,
                    ..charged
                },
            }
        }
    }

    /// Octets that a PDU whose first cell has this CLP bit leaves to those of CLP 0; none if there
    /// is no such difference.
    pub(crate) fn kept_for_others(&self, clp: u8) -> Option<u32> {
        match self.sustained {
            Some((_, ClpScope::HighPriority { reserve })) if clp == 1 => Some(reserve),
            _ => None,
        }
    }

    /// The accepted PDU's first cell came at `earliest_ns`, or later.
    pub(crate) fn arrive(&mut self, to: Charged, earliest_ns: u64) {
        self.each(to, |policer| policer.arrive(earliest_ns));
    }

    pub(crate) fn charge(&mut self, to: Charged, cells: u64) {
        self.each(to, |policer| policer.charge(cells));
    }

    fn each(&mut self, to: Charged, mut change: impl FnMut(&mut Policer)) {
        if let Some(peak) = self.peak.as_mut().filter(|_| to.peak) {
            change(peak);
        }
        if let Some((sustained, _)) = self.sustained.as_mut().filter(|_| to.sustained) {
            change(sustained);
        }
    }

    /// What was charged under the old contract stays charged, bucket by bucket; a bucket that was
    /// not there owes nothing.
    pub(crate) fn carry_over(&mut self, now_ns: u64, old: &Self) {
        if let (Some(new), Some(old)) = (&mut self.peak, &old.peak) {
            new.carry_over(now_ns, old);
        }
        if let (Some((new, _)), Some((old, _))) = (&mut self.sustained, &old.sustained) {
            new.carry_over(now_ns, old);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_third_of_a_nanosecond_is_not_lost() {
        // T = 333,333,333 1/3 ns.
        let mut policer = Policer::new(3, 0, 0);
        for second in 0..5u64 {
            for third in [0, 333_333_334, 666_666_667] {
                let now = second * 1_000_000_000 + third;
                assert!(policer.conforms(now));
                assert!(now == 0 || !policer.conforms(now - 1));
                policer.charge(1);
            }
        }
    }

    /// TM 4.0: of cells at PCR, GCRA(1/PCR, 0) and GCRA(1/SCR, BT) let MBS through.
    #[test]
    fn the_burst_tolerance_lets_the_maximum_burst_through() {
        // PCR 1,000 cells/s, SCR 100 cells/s, MBS 5: BT = 4 (10 ms - 1 ms).
        let mut buckets = Buckets {
            peak: Some(Policer::new(1_000, 0, 0)),
            sustained: Some((
                Policer::new(100, 36_000_000, 0),
                ClpScope::HighPriority { reserve: 0 },
            )),
        };
        let both = Charged {
            peak: true,
            sustained: true,
        };
        let peak = Charged {
            sustained: false,
            ..both
        };
        for cell in 0..5 {
            let now_ns = cell * 1_000_000;
            assert_eq!(buckets.judge(now_ns, 0), Verdict::Conforming(both));
            buckets.charge(both, 1);
            let tagged = Charged::default();
            assert_eq!(buckets.judge(now_ns, 0), Verdict::Excess { tagged });
        }
        assert_eq!(
            buckets.judge(5_000_000, 0),
            Verdict::Excess { tagged: peak }
        );
        assert_eq!(buckets.judge(5_000_000, 1), Verdict::Conforming(peak));
        assert_eq!(
            buckets.judge(13_999_999, 0),
            Verdict::Excess { tagged: peak }
        );
        assert_eq!(buckets.judge(14_000_000, 0), Verdict::Conforming(both));
    }
}
