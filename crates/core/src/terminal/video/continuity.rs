//! Continuity counters of a transport stream (H.222.0, section 2.4.3.3).

use crate::wire::{Pid, TsHeader};

/// What of a PID's octet says that it has been seen, and that its last packet came twice.
const SEEN: u8 = 0x80;
const TWICE: u8 = 0x40;

/// The counters of all PIDs: an octet each.
#[derive(Clone, Debug)]
pub struct Continuity {
    last: Box<[u8]>,
}

impl Default for Continuity {
    fn default() -> Self {
        Self {
            last: vec![0; usize::from(Pid::NULL.number()) + 1].into_boxed_slice(),
        }
    }
}

impl Continuity {
    /// Whether a packet follows the one before it of its PID. A packet may come twice in a row; one
    /// without payload has the number of the one before.
    pub fn follows(&mut self, header: &TsHeader) -> bool {
        if header.pid == Pid::NULL || header.error {
            return true;
        }
        let last = &mut self.last[usize::from(header.pid.number())];
        let (before, is_twice) = (*last & 0x0f, *last & TWICE != 0);
        let is_new = *last & SEEN == 0 || header.is_discontinuity();
        let is_same = header.counter == before;
        let is_next = header.counter == (before + 1) & 0x0f;
        let follows = is_new
            || match header.has_payload {
                true => is_next || is_same && !is_twice,
                false => is_same,
            };
        let again = !is_new && header.has_payload && is_same;
        let kept = if header.has_payload { 0 } else { *last & TWICE };
        *last = SEEN | header.counter | if again { TWICE } else { kept };
        follows
    }
}
