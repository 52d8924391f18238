//! A reassembler made the naive way.

use std::collections::BTreeMap;

use cellgate_core::aal::aal34::{Discard, Failed, Limits, Outcome, Received, Verdict};

const BOM: u8 = 2;
const COM: u8 = 0;
const EOM: u8 = 1;
const SSM: u8 = 3;

/// CRC-10, bit by bit, of the first 374 bits.
fn crc(payload: &[u8; 48]) -> u16 {
    (0..374).fold(0, |register: u16, bit| {
        let next = u16::from(payload[bit / 8] >> (7 - bit % 8) & 1);
        let out = register >> 9 ^ next;
        (register << 1 & 0x3ff) ^ (out * 0x233)
    })
}

pub(crate) fn repair(payload: &mut [u8; 48]) {
    let [high, low] = crc(payload).to_be_bytes();
    payload[46] = payload[46] & 0xfc | high;
    payload[47] = low;
}

/// A PDU in progress in the reference: all its cells' octets.
pub(crate) struct Open {
    octets: Vec<u8>,
    next_sn: u8,
    pub(crate) since: u64,
    cells: u16,
    cells_clp1: u16,
    start: u64,
}

/// The naive reassembler of one VC.
pub(crate) struct Reference {
    pub(crate) limits: Limits,
    pub(crate) open: BTreeMap<u16, Open>,
    /// MIDs whose PDU failed and has not ended, and whether the memory of it may be lost.
    pub(crate) failing: BTreeMap<u16, (Discard, bool)>,
    /// Octets in use, `(start, end)`, by start.
    pub(crate) live: BTreeMap<u64, u64>,
    delivered_to: u64,
    /// PDUs that the client has not given back: index, start, SDU.
    pub(crate) delivered: BTreeMap<u64, (u64, Vec<u8>)>,
    pub(crate) deliveries: u64,
    pub(crate) releases: u64,
}

impl Reference {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            open: BTreeMap::new(),
            failing: BTreeMap::new(),
            live: BTreeMap::new(),
            delivered_to: 0,
            delivered: BTreeMap::new(),
            deliveries: 0,
            releases: 0,
        }
    }

    /// What becomes of a cell, and the SDU if it completes one.
    pub(crate) fn receive(
        &mut self,
        now: u64,
        payload: &[u8; 48],
        clp: bool,
    ) -> (Outcome, Vec<u8>) {
        let received = u16::from_be_bytes([payload[46], payload[47]]) & 0x3ff;
        if crc(payload) != received {
            return (outcome(Verdict::Discarded(Discard::CrcError)), Vec::new());
        }
        let st = payload[0] >> 6;
        let sn = payload[0] >> 2 & 15;
        let mid = u16::from_be_bytes([payload[0] & 3, payload[1]]);
        let li = payload[46] >> 2;
        let body = &payload[2..46];
        let mut sdu = Vec::new();
        let outcome = match st {
            BOM | SSM => {
                let failed = self.fail(mid, Discard::MissingEom);
                self.failing.remove(&mid);
                let result = match st {
                    BOM => self
                        .begin(now, (sn, mid, li), body, clp)
                        .map(|()| Verdict::Held),
                    _ => self.single(mid, li, body, clp, &mut sdu),
                };
                if let (BOM, Err(reason)) = (st, &result) {
                    self.remember(mid, *reason);
                }
                let cell = result.unwrap_or_else(Verdict::Refused);
                Outcome { failed, cell }
            }
            COM | EOM => {
                let outcome = self.proceed((st, sn, mid, li), body, clp, &mut sdu);
                if st == EOM {
                    self.failing.remove(&mid);
                }
                outcome
            }
            _ => unreachable!("two bits"),
        };
        (outcome, sdu)
    }

    fn begin(
        &mut self,
        now: u64,
        (sn, mid, li): (u8, u16, u8),
        body: &[u8],
        clp: bool,
    ) -> Result<(), Discard> {
        if li != 44 {
            return Err(Discard::LengthError);
        }
        let ba_size = u16::from_be_bytes([body[2], body[3]]);
        if body[0] != 0 {
            return Err(Discard::CpiError);
        }
        self.fits(ba_size, 40)?;
        if self.open.len() >= usize::from(self.limits.mids) {
            return Err(Discard::TooManyMids);
        }
        self.demand();
        let start = self.allocate(padded(ba_size.min(self.limits.max_sdu)))?;
        let open = Open {
            octets: body.to_vec(),
            next_sn: (sn + 1) % 16,
            since: now,
            cells: 1,
            cells_clp1: clp.into(),
            start,
        };
        self.open.insert(mid, open);
        Ok(())
    }

    fn single(
        &mut self,
        mid: u16,
        li: u8,
        body: &[u8],
        clp: bool,
        sdu: &mut Vec<u8>,
    ) -> Result<Verdict, Discard> {
        if li > 44 || !li.is_multiple_of(4) || li < 8 {
            return Err(Discard::LengthError);
        }
        if body[0] != 0 {
            return Err(Discard::CpiError);
        }
        *sdu = self.judge(&body[..li.into()])?;
        let octets = u64::from(li) - 8;
        let start = self.allocate(octets)?;
        Ok(self.deliver(start, octets, sdu, (mid, 1, clp.into())))
    }

    fn proceed(
        &mut self,
        (st, sn, mid, li): (u8, u8, u16, u8),
        body: &[u8],
        clp: bool,
        sdu: &mut Vec<u8>,
    ) -> Outcome {
        if let Some((reason, _)) = self.failing.get(&mid) {
            return outcome(Verdict::Discarded(*reason));
        }
        let Some(mut open) = self.open.remove(&mid) else {
            return outcome(Verdict::Discarded(Discard::MissingBom));
        };
        match self.add(&mut open, (st, sn, li), body, clp) {
            Ok(None) => {
                self.open.insert(mid, open);
                outcome(Verdict::Held)
            }
            Ok(Some(complete)) => {
                let octets = open.octets.len() as u64 - 8;
                self.live.remove(&open.start);
                *sdu = complete;
                let about = (mid, open.cells, open.cells_clp1);
                outcome(self.deliver(open.start, octets, sdu, about))
            }
            Err(reason) => {
                self.open.insert(mid, open);
                Outcome {
                    failed: self.fail(mid, reason),
                    cell: Verdict::Discarded(reason),
                }
            }
        }
    }

    fn add(
        &self,
        open: &mut Open,
        (st, sn, li): (u8, u8, u8),
        body: &[u8],
        clp: bool,
    ) -> Result<Option<Vec<u8>>, Discard> {
        if st == EOM && li == 63 {
            return Err(Discard::Aborted);
        }
        if sn != open.next_sn {
            return Err(Discard::LostCell);
        }
        let allowed = match st {
            EOM => li.is_multiple_of(4) && (4..=44).contains(&li),
            _ => li == 44,
        };
        if !allowed {
            return Err(Discard::LengthError);
        }
        let mut octets = open.octets.clone();
        octets.extend(&body[..li.into()]);
        let ba_size = u16::from_be_bytes([octets[2], octets[3]]);
        let trailer = if st == EOM { 4 } else { 0 };
        self.fits(ba_size, octets.len() as u64 - 4 - trailer)?;
        let complete = match st {
            EOM => Some(self.judge(&octets)?),
            _ => None,
        };
        open.octets = octets;
        open.next_sn = (sn + 1) % 16;
        open.cells += 1;
        open.cells_clp1 += u16::from(clp);
        Ok(complete)
    }

    /// The SDU of a whole CPCS-PDU.
    fn judge(&self, pdu: &[u8]) -> Result<Vec<u8>, Discard> {
        let ba_size = u16::from_be_bytes([pdu[2], pdu[3]]);
        let (before, trailer) = pdu.split_at(pdu.len() - 4);
        let length = u16::from_be_bytes([trailer[2], trailer[3]]);
        match () {
            () if trailer[1] != pdu[1] => Err(Discard::TagMismatch),
            () if length == 0 || padded(length) != before.len() as u64 - 4 => {
                Err(Discard::LengthError)
            }
            () if length > ba_size => Err(Discard::BaSizeError),
            () if length > self.limits.max_sdu => Err(Discard::Oversized),
            () => Ok(before[4..][..length.into()].to_vec()),
        }
    }

    /// Whether a PDU with this BAsize may have so many octets of SDU and pad.
    fn fits(&self, ba_size: u16, octets: u64) -> Result<(), Discard> {
        match () {
            () if octets <= padded(ba_size.min(self.limits.max_sdu)) => Ok(()),
            () if ba_size > self.limits.max_sdu => Err(Discard::Oversized),
            () => Err(Discard::BaSizeError),
        }
    }

    fn allocate(&mut self, octets: u64) -> Result<u64, Discard> {
        if self.live.len() == self.limits.descriptors as usize {
            return Err(Discard::QueueFull);
        }
        let newest = self.live.last_key_value().map_or(0, |(_, end)| *end);
        let start = newest.max(self.delivered_to);
        let oldest = self
            .live
            .first_key_value()
            .map_or(start, |(start, _)| *start);
        let end = start + octets.next_multiple_of(64);
        if end - oldest > u64::from(self.limits.buffer_len) {
            return Err(Discard::BufferFull);
        }
        self.live.insert(start, end);
        Ok(start)
    }

    fn deliver(
        &mut self,
        start: u64,
        octets: u64,
        sdu: &[u8],
        (mid, cells, cells_clp1): (u16, u16, u16),
    ) -> Verdict {
        let end = start + octets.next_multiple_of(64);
        self.live.insert(start, end);
        self.delivered_to = self.delivered_to.max(end);
        self.delivered
            .insert(self.deliveries, (start, sdu.to_vec()));
        self.deliveries += 1;
        Verdict::Delivered(Received {
            position: start,
            len: sdu.len() as u16,
            cells,
            mid,
            cells_clp1,
        })
    }

    pub(crate) fn fail(&mut self, mid: u16, reason: Discard) -> Option<Failed> {
        let open = self.open.remove(&mid)?;
        self.live.remove(&open.start);
        self.failing.insert(mid, (reason, false));
        let cells = open.cells;
        Some(Failed { mid, reason, cells })
    }

    /// A slot is wanted: if all are in use, those that only remember a failure may be taken.
    fn demand(&mut self) {
        if self.open.len() + self.failing.len() >= usize::from(self.limits.mids) {
            for (_, forgotten) in self.failing.values_mut() {
                *forgotten = true;
            }
        }
    }

    fn remember(&mut self, mid: u16, reason: Discard) {
        if self.open.len() < usize::from(self.limits.mids) {
            self.demand();
            self.failing.insert(mid, (reason, false));
        }
    }

    pub(crate) fn timeouts(&mut self, now: u64) -> Vec<Failed> {
        let mut late: Vec<_> = self
            .open
            .iter()
            .filter(|(_, open)| now >= open.since + self.limits.timeout_ns)
            .map(|(mid, open)| (open.since, *mid))
            .collect();
        late.sort();
        late.iter()
            .filter_map(|(_, mid)| self.fail(*mid, Discard::ReassemblyTimeout))
            .collect()
    }

    pub(crate) fn held_cells(&self) -> u32 {
        self.open.values().map(|open| u32::from(open.cells)).sum()
    }
}

fn padded(octets: u16) -> u64 {
    u64::from(octets).next_multiple_of(4)
}

pub(crate) fn outcome(cell: Verdict) -> Outcome {
    Outcome { failed: None, cell }
}
