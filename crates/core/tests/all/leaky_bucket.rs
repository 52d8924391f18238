//! A second form of GCRA, for what leaves a schedule.

const S: u64 = 1_000_000_000;

/// GCRA as a continuous-state leaky bucket, in fractions of a cell: not the adapter's form.
#[derive(Clone, Copy)]
pub(crate) struct Bucket {
    rate: u128,
    tau: u128,
    /// Cells, times 10^9.
    content: u128,
    last: u64,
}

impl Bucket {
    pub(crate) fn new(rate: u32, tau_ns: u64) -> Self {
        Self {
            rate: rate.into(),
            tau: tau_ns.into(),
            content: 0,
            last: 0,
        }
    }

    pub(crate) fn conforms(&mut self, now: u64) -> bool {
        let drained = u128::from(now - self.last) * self.rate;
        let content = self.content.saturating_sub(drained);
        let conforms = content <= self.tau * self.rate;
        if conforms {
            (self.content, self.last) = (content + u128::from(S), now);
        }
        conforms
    }
}
