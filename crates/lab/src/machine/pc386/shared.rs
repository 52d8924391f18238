use super::pair::{Pair, PairConfig, PairCounts, PairError};
use crate::world::Ps;

/// Two PCs with two VCs between them, each with a stack of its own. A PC's VCs share its processor
/// and its line.
pub struct Shared {
    vcs: [Pair; 2],
}

impl Shared {
    /// Two VCs, about to begin; both have the costs and the line of the first.
    ///
    /// # Errors
    /// As [`Pair::new`].
    pub fn new([first, second]: [PairConfig; 2]) -> Result<Self, PairError> {
        let second = PairConfig {
            costs: first.costs,
            line_cell_s: first.line_cell_s,
            ..second
        };
        let mut shared = Self {
            vcs: [Pair::new(first)?, Pair::new(second)?],
        };
        for who in 0..2 {
            let [first, second] = &mut shared.vcs;
            let clocks = [first.pcs[who].clock(), second.pcs[who].clock()];
            let [a, b] = clocks;
            let later = if a.at < b.at { b } else { a };
            first.pcs[who].set_clock(later);
            second.pcs[who].set_clock(later);
        }
        Ok(shared)
    }

    /// The PC that is behind does a step for each of its VCs, or waits for what comes next.
    fn turn(&mut self) {
        let pcs = &self.vcs[0].pcs;
        let who = usize::from(pcs[1].board.at < pcs[0].board.at);
        let mut clock = pcs[who].clock();
        let mut idle = [None; 2];
        for (vc, idle) in self.vcs.iter_mut().zip(&mut idle) {
            vc.pcs[who].set_clock(clock);
            *idle = vc.works(who);
            clock = vc.pcs[who].clock();
        }
        if let [Some(a), Some(b)] = idle {
            clock.at = clock.at.max(a.min(b));
        }
        for vc in &mut self.vcs {
            vc.pcs[who].set_clock(clock);
        }
    }

    /// Runs on for `warm`, and then counts for `span`, each VC by itself.
    ///
    /// # Errors
    /// As [`Pair::run`].
    pub fn run(&mut self, warm: Ps, span: Ps) -> Result<[PairCounts; 2], PairError> {
        self.until(self.at().plus(warm));
        let begin = self.at();
        let before = self.now()?;
        self.until(begin.plus(span));
        let (after, span) = (self.now()?, self.at().since(begin));
        Ok([0, 1].map(|vc| after[vc].since(&before[vc], span)))
    }

    fn at(&self) -> Ps {
        self.vcs[0].pcs[1].board.at
    }

    fn until(&mut self, end: Ps) {
        while self.vcs[0].pcs.iter().any(|pc| pc.board.at < end) {
            self.turn();
        }
    }

    fn now(&mut self) -> Result<[PairCounts; 2], PairError> {
        let [first, second] = &mut self.vcs;
        Ok([first.now()?, second.now()?])
    }
}
