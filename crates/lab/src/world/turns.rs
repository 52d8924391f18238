//! Sources that put cells on one line, by when they are due.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::Ps;

/// A source and when it is due. At one time, by number.
pub(crate) type Turn = (Ps, u32);

/// Turns before which a source is brought nearer to the CPU.
const LATER: usize = 4;

/// Who is due next. Sources of one rate cost the same however many they are: who has had a turn is
/// due after all others then, and stands in a row; the rest are in a heap.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    row: VecDeque<Turn>,
    /// The last that was put there.
    last: Turn,
    rest: BinaryHeap<Reverse<Turn>>,
}

impl Turns {
    /// A source is due.
    pub(crate) fn push(&mut self, turn: Turn) {
        if self.last <= turn || self.row.is_empty() {
            self.last = turn;
            self.row.push_back(turn);
        } else {
            self.rest.push(Reverse(turn));
        }
    }

    /// Who is due first.
    pub(crate) fn first(&self) -> Option<Turn> {
        let of_rest = self.rest.peek().map(|Reverse(turn)| *turn);
        match (self.row.front().copied(), of_rest) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }

    /// A source is due; takes who is due first then.
    #[inline]
    pub(crate) fn exchange(&mut self, turn: Turn) -> Turn {
        if self.rest.is_empty() {
            match self.row.front().copied() {
                Some(first) if self.last <= turn => {
                    self.row.pop_front();
                    self.row.push_back(turn);
                    self.last = turn;
                    return first;
                }
                Some(first) if first < turn => {}
                _ => return turn,
            }
        }
        self.push(turn);
        self.pop().unwrap_or(turn)
    }

    /// A source has had its turn and is due again, or never: who is due first then.
    #[inline]
    pub(crate) fn after(&mut self, number: u32, due: Option<Ps>) -> Option<Turn> {
        match due {
            Some(due) => Some(self.exchange((due, number))),
            None => self.pop(),
        }
    }

    /// Whether nobody is due.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.row.is_empty() && self.rest.is_empty()
    }

    /// Who is due some turns later, if that is known.
    #[inline]
    pub(crate) fn later(&self) -> Option<u32> {
        self.row.get(LATER).map(|(_, number)| *number)
    }

    /// Takes who is due first.
    pub(crate) fn pop(&mut self) -> Option<Turn> {
        let first = self.first();
        if self.row.front().copied() == first {
            self.row.pop_front()
        } else {
            self.rest.pop().map(|Reverse(turn)| turn)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_is_first_and_at_one_time_the_lowest_number() {
        let mut turns = Turns::default();
        assert_eq!((turns.first(), turns.pop()), (None, None));
        let mut expected = Vec::new();
        let mut state = 7_u64;
        for number in 0..2_000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let turn = (Ps::new(state >> 55), number);
            turns.push(turn);
            expected.push(turn);
        }
        expected.sort_unstable();
        for turn in expected {
            assert_eq!((turns.first(), turns.pop()), (Some(turn), Some(turn)));
        }
        assert_eq!(turns.pop(), None);
    }

    #[test]
    fn sources_of_one_rate_stand_in_a_row() {
        let mut turns = Turns::default();
        (0..10).for_each(|n| turns.push((Ps::new(n), n as u32)));
        for _ in 0..100 {
            let (at, number) = turns.pop().expect("ten of them");
            turns.push((at.plus(Ps::new(10)), number));
        }
        assert!(turns.rest.is_empty());
        assert_eq!(turns.first(), Some((Ps::new(100), 0)));
    }

    #[test]
    fn an_exchange_is_a_push_and_a_pop() {
        let (mut one, mut other) = (Turns::default(), Turns::default());
        let mut state = 3_u64;
        for number in 0..2_000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let turn = (Ps::new(state >> 57), number);
            let first = match state >> 40 & 3 {
                0 => {
                    one.push(turn);
                    other.push(turn);
                    continue;
                }
                1 => (one.pop(), other.pop()),
                _ => {
                    other.push(turn);
                    (Some(one.exchange(turn)), other.pop())
                }
            };
            assert_eq!(first.0, first.1);
        }
        let left = std::iter::from_fn(|| one.pop());
        assert!(left.eq(std::iter::from_fn(|| other.pop())));
    }
}
