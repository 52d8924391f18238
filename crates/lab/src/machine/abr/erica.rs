use std::collections::BTreeMap;

use crate::world::Ps;

/// What a switch tells its sources to send (ERICA, Jain and others, 1996): measured each interval,
/// from what has come in it.
///
/// A source's share is the link's target by the number of sources that were heard. Where more comes
/// than the target, each has what it says it sends, less by what is too much, or its share if that
/// is more. Where less comes, each may also have what the fastest was told in the interval before.
#[derive(Clone, Debug)]
pub struct Erica {
    /// Cells/s that the link is to carry.
    target_cell_s: f64,
    interval: Ps,
    begun: Ps,
    /// Cells of this interval, and what each source says that it sends.
    cells: u64,
    rates: BTreeMap<usize, f64>,
    heard: BTreeMap<usize, u64>,
    /// Of the interval before, if there was one: what came, as a part of the target; a share; the
    /// most that was told.
    load: Option<f64>,
    share: f64,
    told_before: f64,
    told: f64,
}

impl Erica {
    /// Of a link that is to carry `target_cell_s`, measured each `interval`.
    pub fn new(target_cell_s: f64, interval: Ps) -> Self {
        Self {
            target_cell_s,
            interval,
            begun: Ps::ZERO,
            cells: 0,
            rates: BTreeMap::new(),
            heard: BTreeMap::new(),
            load: None,
            share: target_cell_s,
            told_before: target_cell_s,
            told: 0.0,
        }
    }

    fn look(&mut self, now: Ps) {
        let passed = now.since(self.begun);
        if passed < self.interval {
            return;
        }
        let seconds = passed.ps() as f64 / 1e12;
        // A source is there as long as it was heard in the last intervals.
        self.load = Some((self.cells as f64 / seconds / self.target_cell_s).max(1e-3));
        self.share = self.target_cell_s / self.heard.len().max(1) as f64;
        self.told_before = if self.told > 0.0 {
            self.told
        } else {
            self.share
        };
        self.heard.retain(|_, left| {
            *left -= 1;
            *left > 0
        });
        (self.begun, self.cells, self.told) = (now, 0, 0.0);
    }

    /// A cell of a source has come to the switch.
    pub fn cell(&mut self, now: Ps, source: usize) {
        self.look(now);
        self.cells += 1;
        self.heard.insert(source, 8);
    }

    /// A forward RM cell says what its source sends.
    pub fn forward(&mut self, source: usize, cell_s: f64) {
        self.rates.insert(source, cell_s);
    }

    /// What a source is told by a backward RM cell.
    pub fn rate(&mut self, now: Ps, source: usize) -> f64 {
        self.look(now);
        let Some(load) = self.load else {
            // Nothing is measured yet: a share among those that were heard.
            return self.target_cell_s / self.heard.len().max(1) as f64;
        };
        let own = self.rates.get(&source).copied().unwrap_or(self.share) / load;
        let most = match load > 1.0 {
            true => self.share.max(own),
            false => self.share.max(own).max(self.told_before),
        };
        let rate = most.min(self.target_cell_s);
        self.told = self.told.max(rate);
        rate
    }
}
