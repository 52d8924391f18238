use std::collections::VecDeque;

use crate::machine::v1s::{V1sSpec, Word};

/// A receive FIFO.
#[derive(Clone, Debug, Default)]
pub(super) struct Receive {
    /// Those of cells that are there as a whole, and of one that is not.
    pub(super) words: VecDeque<Word>,
    pub(super) whole: usize,
    /// Cells that have a place, until their last word has left the RAM.
    pub(super) places: usize,
}

impl Receive {
    /// A word of a cell, where so many of the first words are of one that leaves: the first of a
    /// cell that is there as a whole by that. `swaps`: a bug.
    pub(super) fn write(&mut self, word: Word, leaving: usize, swaps: bool) -> Option<Word> {
        self.words.push_back(word);
        if !(self.words.len() - leaving).is_multiple_of(V1sSpec::WORDS) {
            return None;
        }
        self.whole += 1;
        let first = self.words.len() - V1sSpec::WORDS;
        if swaps {
            self.words.swap(first + 1, first + 2);
        }
        self.words.get(first).copied()
    }

    /// The oldest cell of which nothing was read makes room: a bug.
    pub(super) fn drops_oldest(&mut self, leaving: usize) {
        self.words.drain(leaving..leaving + V1sSpec::WORDS);
        self.whole -= 1;
        self.places -= 1;
    }
}
