//! OAM cells of a VC (I.610): checked, policed, and loopback requests played back.

use std::collections::VecDeque;

use cellgate_core::adapter::{CellOutcome, Discard, OpenRequest};
use cellgate_core::wire::CellFormat;

use super::bits::{Fields, hec, remainder10, seal10};
use super::policer::Policer;

/// OAM cells of one VC that are looked at in a second; and so many at once.
const CELLS_S: u32 = 100;
const LIMIT_NS: i128 = 90_000_000;
/// Replies that wait on one port.
const REPLIES_MAX: usize = 16;

/// OAM type 1, fault management; function 8, loopback.
const LOOPBACK: u8 = 0x18;
const UNUSED: u8 = 0x6a;

/// Replies on their way out, as octets on the wire.
pub(super) type Replies = VecDeque<Vec<u8>>;

pub(super) fn policer() -> Policer {
    Policer::new(CELLS_S, LIMIT_NS, 0)
}

/// A cell with PTI 4 to 7 on an AAL5 VC.
pub(super) struct OamCell<'a> {
    pub(super) now_ns: u64,
    pub(super) earliest: u64,
    pub(super) fields: Fields,
    pub(super) payload: &'a [u8],
}

impl OamCell<'_> {
    pub(super) fn judge(
        &self,
        request: &OpenRequest,
        format: CellFormat,
        policer: &mut Policer,
        replies: &mut Replies,
    ) -> CellOutcome {
        let discarded = CellOutcome::Discarded;
        if self.fields.pti >= 6 {
            return discarded(Discard::NotUserData);
        }
        if remainder10(self.payload) != 0 {
            return discarded(Discard::CrcError);
        }
        if !policer.conforms(self.now_ns) {
            return discarded(Discard::NonConforming);
        }
        policer.arrive(self.earliest);
        policer.charge(1);
        if !self.asks_for_an_answer() {
            return discarded(Discard::NotUserData);
        }
        if replies.len() == REPLIES_MAX {
            return discarded(Discard::QueueFull);
        }
        replies.push_back(self.answer(request, format));
        CellOutcome::Answered
    }

    /// Loopback with the indication set, for whoever is the end point.
    fn asks_for_an_answer(&self) -> bool {
        let location = &self.payload[6..22];
        let all = |octet: u8| location.iter().all(|found| *found == octet);
        self.payload[0] == LOOPBACK && self.payload[1] & 1 == 1 && (all(0xff) || all(0))
    }

    fn answer(&self, request: &OpenRequest, format: CellFormat) -> Vec<u8> {
        let address = request.address;
        let word = u32::from(address.vpi()) << 20
            | u32::from(address.vci()) << 4
            | u32::from(self.fields.pti) << 1;
        let header = word.to_be_bytes();
        let mut cell = header.to_vec();
        if format == CellFormat::WithHec {
            cell.push(hec(header));
        }
        let mut payload = [UNUSED; 48];
        // Type and function, indication 0; correlation tag, location and source as they came.
        payload[..2].copy_from_slice(&[LOOPBACK, 0]);
        payload[2..38].copy_from_slice(&self.payload[2..38]);
        seal10(&mut payload);
        cell.extend(payload);
        cell
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_cells_pass_at_once_and_one_each_ten_milliseconds() {
        let mut policer = policer();
        let mut passed = |now_ns: u64| {
            let conforms = policer.conforms(now_ns);
            if conforms {
                policer.arrive(now_ns);
                policer.charge(1);
            }
            conforms
        };
        let start_ns = 1_000_000_000;
        assert_eq!((0..30).filter(|_| passed(start_ns)).count(), 10);
        assert!(!passed(start_ns + 9_999_999));
        assert!(passed(start_ns + 10_000_000));
        assert!(!passed(start_ns + 10_000_000));
    }
}
