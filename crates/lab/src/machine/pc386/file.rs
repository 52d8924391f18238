use core::ops::Range;
use std::collections::BTreeSet;

use cellgate_core::terminal::{Source, Store};

/// A file of numbers that are known everywhere.
pub(super) struct Numbers;

fn octet(at: u64) -> u8 {
    (at ^ at >> 8 ^ at >> 16) as u8
}

impl Source for Numbers {
    fn read(&mut self, at: u64, into: &mut [u8]) {
        for (to, at) in into.iter_mut().zip(at..) {
            *to = octet(at);
        }
    }

    fn data(&mut self, at: u64, end: u64) -> Range<u64> {
        at..end
    }
}

/// Looks at each octet as it is written, and keeps where those are that are wrong.
#[derive(Default)]
pub(super) struct Looked {
    pub(super) wrong: BTreeSet<u64>,
    pub(super) written: u64,
}

impl Store for Looked {
    fn write(&mut self, at: u64, octets: &[u8]) {
        self.written += octets.len() as u64;
        let is_right = |(is, at): (&u8, u64)| *is == octet(at);
        let end = at + octets.len() as u64;
        if !self.wrong.is_empty() {
            let mut behind = self.wrong.split_off(&at);
            self.wrong.extend(behind.split_off(&end));
        }
        if !octets.iter().zip(at..).all(is_right) {
            let pairs = octets.iter().zip(at..);
            let wrong = pairs.filter(|pair| !is_right((pair.0, pair.1)));
            self.wrong.extend(wrong.map(|(_, at)| at));
        }
    }
}
