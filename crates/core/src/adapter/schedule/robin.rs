use serde::{Deserialize, Serialize};

use super::list::List;
use super::{Entry, Pace, Place};
use crate::adapter::VcIndex;

/// A stratum for every power of two of the weight.
const STRATA: usize = 32;
/// Rounds of credit or debt that a stratum keeps at most when others come and go.
const CREDIT_ROUNDS: i64 = 64;

/// The best effort VCs of a line that have cells to send: deficit round robin in cells.
///
/// Weights span 32 bits, so one round of plain deficit round robin is either long (a quantum of
/// millions of cells) or made of visits that send nothing. Here VCs whose weights share a power of
/// two form a stratum. Within it a quantum is one to two cells: every visit sends, no visit sends
/// more than two. Strata take turns cell by cell, each with the sum of its weights: all gain their
/// weight, the richest sends and pays the total.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Robin {
    strata: [Stratum; STRATA],
    /// One bit a stratum that holds VCs.
    occupied: u32,
    /// Sum of the weights.
    weight: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Stratum {
    list: List,
    /// At most 16,384 * 2^32 = 2^46.
    weight: i64,
    /// At most 64 rounds: 2^52.
    credit: i64,
}

#[inline(always)]
fn stratum_of(weight: u32) -> usize {
    weight.max(1).ilog2() as usize
}

impl Robin {
    pub(super) const EMPTY: Self = Self {
        strata: [Stratum {
            list: List::EMPTY,
            weight: 0,
            credit: 0,
        }; STRATA],
        occupied: 0,
        weight: 0,
    };

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.occupied == 0
    }

    /// Puts `vc` at the end of its round.
    pub(super) fn insert(&mut self, entries: &mut [Entry], vc: VcIndex) {
        let entry = &mut entries[usize::from(vc.0)];
        let Pace::BestEffort { weight, deficit } = &mut entry.pace else {
            return;
        };
        *deficit = 0;
        let (index, weight) = (stratum_of(*weight), i64::from(*weight));
        entry.place = Place::Robin;
        let stratum = &mut self.strata[index];
        stratum.list.push_back(entries, vc);
        stratum.weight += weight;
        self.weight += weight;
        self.occupied |= 1 << index;
    }

    /// Takes out `vc`, which is in the round.
    pub(super) fn remove(&mut self, entries: &mut [Entry], vc: VcIndex) {
        let entry = &mut entries[usize::from(vc.0)];
        let Pace::BestEffort { weight, .. } = entry.pace else {
            return;
        };
        let (index, weight) = (stratum_of(weight), i64::from(weight));
        entry.place = Place::Idle;
        let stratum = &mut self.strata[index];
        stratum.list.remove(entries, vc);
        stratum.weight -= weight;
        self.weight -= weight;
        if stratum.list.is_empty() {
            stratum.credit = 0;
            self.occupied &= !(1 << index);
        }
    }

    /// The stratum whose turn it is.
    #[inline(always)]
    fn turn(&self) -> Option<usize> {
        if self.occupied.is_power_of_two() {
            return Some(self.occupied.trailing_zeros() as usize);
        }
        let (mut best, mut most) = (None, i64::MIN);
        let mut left = self.occupied;
        while left != 0 {
            let index = left.trailing_zeros() as usize;
            left &= left - 1;
            let credit = self.strata[index].credit + self.strata[index].weight;
            if credit >= most {
                (best, most) = (Some(index), credit);
            }
        }
        best
    }

    /// The VC whose turn it is.
    #[inline(always)]
    pub(super) fn first(&self) -> Option<VcIndex> {
        self.strata[self.turn()?].list.first()
    }

    /// Whether exactly one VC is in the round.
    #[inline(always)]
    pub(super) fn is_single(&self) -> bool {
        self.occupied.is_power_of_two()
            && self.strata[self.occupied.trailing_zeros() as usize]
                .list
                .is_single()
    }

    /// `vc` sent a cell. Anyone but [`Self::first`] only has its own deficit charged.
    #[inline(always)]
    pub(super) fn sent(&mut self, entries: &mut [Entry], vc: VcIndex) {
        let entry = &mut entries[usize::from(vc.0)];
        let Pace::BestEffort { weight, deficit } = &mut entry.pace else {
            return;
        };
        let index = stratum_of(*weight);
        let cell = 1_u64 << index;
        if *deficit < cell {
            *deficit += u64::from(*weight);
        }
        *deficit -= cell;
        let visit_ends = *deficit < cell;
        self.pay(index);
        let list = &mut self.strata[index].list;
        if visit_ends && !list.is_single() {
            list.remove(entries, vc);
            list.push_back(entries, vc);
        }
    }

    /// Every stratum gains its weight; stratum `index` pays for the cell.
    #[inline(always)]
    fn pay(&mut self, index: usize) {
        if self.occupied.is_power_of_two() {
            return;
        }
        let limit = CREDIT_ROUNDS * self.weight;
        let mut left = self.occupied;
        while left != 0 {
            let stratum = &mut self.strata[left.trailing_zeros() as usize];
            left &= left - 1;
            stratum.credit = (stratum.credit + stratum.weight).clamp(-limit, limit);
        }
        self.strata[index].credit -= self.weight;
    }
}
