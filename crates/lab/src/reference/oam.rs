//! OAM cells of VCs and paths (I.610): checked, policed, and loopback requests played back.

use std::collections::VecDeque;

use cellgate_core::adapter::{CellOutcome, Discard, PortIndex};
use cellgate_core::wire::CellFormat;

use super::bits::{Fields, remainder10, seal10};
use super::loopback::{Out, Route};
use super::policer::Policer;
use super::{Judged, Reference};

/// OAM cells of one VC or path that are looked at in a second; and how far they may be ahead.
const CELLS_S: u32 = 100;
const LIMIT_NS: i128 = 90_000_000;
/// Replies that wait on one port.
const REPLIES_MAX: usize = 16;

/// OAM type 1, fault management; function 8, loopback.
pub(super) const LOOPBACK: u8 = 0x18;
pub(super) const UNUSED: u8 = 0x6a;

/// Replies on their way out, as octets on the wire.
pub(super) type Replies = VecDeque<Vec<u8>>;

pub(super) fn policer() -> Policer {
    Policer::new(CELLS_S, LIMIT_NS, 0)
}

/// An OAM cell of a VC or a path in use.
pub(super) struct OamCell<'a> {
    pub(super) now_ns: u64,
    pub(super) earliest: u64,
    pub(super) route: Route,
    pub(super) payload: &'a [u8],
}

impl OamCell<'_> {
    fn judge(
        &self,
        format: CellFormat,
        policer: &mut Policer,
        replies: &mut Replies,
        loopbacks: &mut [Out],
    ) -> CellOutcome {
        let discarded = CellOutcome::Discarded;
        if remainder10(self.payload) != 0 {
            return discarded(Discard::CrcError);
        }
        if !policer.conforms(self.now_ns) {
            return discarded(Discard::NonConforming);
        }
        policer.arrive(self.earliest);
        policer.charge(1);
        if self.returns(loopbacks) {
            return CellOutcome::Answered;
        }
        if !self.asks_for_an_answer() {
            return discarded(Discard::NotUserData);
        }
        if replies.len() == REPLIES_MAX {
            return discarded(Discard::QueueFull);
        }
        replies.push_back(self.answer(format));
        CellOutcome::Answered
    }

    /// Loopback with the indication clear and the tag of a cell that is out along this route.
    fn returns(&self, loopbacks: &mut [Out]) -> bool {
        let tag = self.payload[2..6].try_into().expect("four octets");
        self.payload[0] == LOOPBACK
            && self.payload[1] & 1 == 0
            && loopbacks
                .iter_mut()
                .any(|out| out.take_back(self.now_ns, &self.route, tag))
    }

    /// Loopback with the indication set, for whoever is the end point.
    fn asks_for_an_answer(&self) -> bool {
        let location = &self.payload[6..22];
        let all = |octet: u8| location.iter().all(|found| *found == octet);
        self.payload[0] == LOOPBACK && self.payload[1] & 1 == 1 && (all(0xff) || all(0))
    }

    fn answer(&self, format: CellFormat) -> Vec<u8> {
        let mut payload = [UNUSED; 48];
        // Type and function, indication 0; correlation tag, location and source as they came.
        payload[..2].copy_from_slice(&[LOOPBACK, 0]);
        payload[2..38].copy_from_slice(&self.payload[2..38]);
        seal10(&mut payload);
        self.route.cell(format, payload)
    }
}

impl Reference {
    /// A cell with PTI 4 to 7 of an open VC.
    pub(super) fn oam_cell_of_vc(
        &mut self,
        index: u16,
        fields: Fields,
        payload: &[u8],
        earliest: u64,
    ) {
        let vc = self.vcs.get_mut(index).expect("the caller found it");
        let port = vc.request.port;
        let outcome = if fields.pti >= 6 {
            CellOutcome::Discarded(Discard::NotUserData)
        } else {
            let cell = OamCell {
                now_ns: self.now_ns,
                earliest,
                route: Route::of(port, fields, fields.pti),
                payload,
            };
            let index = usize::from(port.0);
            let format = self.config.ports[index].format;
            let replies = &mut self.ports[index].replies;
            cell.judge(format, &mut vc.oam, replies, &mut self.loopbacks)
        };
        match outcome {
            CellOutcome::Discarded(reason) => vc.stats.cells_discarded.add(reason, 1),
            _ => vc.stats.cells_answered += 1,
        }
        self.oam_judged(port, fields, outcome);
    }

    /// A cell that no VC receives: of a path's own flows, or nobody's.
    pub(super) fn cell_of_path(
        &mut self,
        port: PortIndex,
        fields: Fields,
        payload: &[u8],
        earliest: u64,
    ) {
        let path = self.paths.get_mut(&(port.0, fields.vpi));
        let Some(policer) = path.filter(|_| [3, 4].contains(&fields.vci)) else {
            return self.nobodys(Discard::UnknownVc, port, Some(fields));
        };
        let cell = OamCell {
            now_ns: self.now_ns,
            earliest,
            route: Route::of(port, fields, 0),
            payload,
        };
        let index = usize::from(port.0);
        let format = self.config.ports[index].format;
        let replies = &mut self.ports[index].replies;
        let outcome = cell.judge(format, policer, replies, &mut self.loopbacks);
        self.oam_judged(port, fields, outcome);
    }

    fn oam_judged(&mut self, port: PortIndex, fields: Fields, outcome: CellOutcome) {
        match outcome {
            CellOutcome::Discarded(reason) => self.discarded.add(reason, 1),
            _ => self.answered += 1,
        }
        let cell = Judged {
            port,
            fields: Some(fields),
        };
        self.expected.outcomes.push_back((Some(outcome), cell));
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
