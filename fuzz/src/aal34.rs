//! AAL3/4 both ways.

use std::collections::{BTreeMap, VecDeque};

use cellgate_core::Time;
use cellgate_core::aal::aal34::{
    Discard, Failed, Limits, Outcome, Reassembler, Received, Segmenter, Verdict, cells,
};
use cellgate_core::wire::{
    CellFormat, Header, PAYLOAD_LEN, Pti, SAR_PAYLOAD_LEN, SarPdu, SegmentType, VpiVci,
};

use crate::check;
use crate::memory::Buffer;
use crate::take::Take;

/// An SDU through segmenter and reassembler: what comes out went in, and every cell's CRC-10 is
/// right by the letter.
pub fn aal34_round_trip(data: &[u8]) {
    let mut take = Take::new(data);
    let format = take.pick(&[CellFormat::WithHec, CellFormat::NoHec]);
    let pti = Pti::User {
        congested: take.flag(),
        last: false,
    };
    let header = Header::new(VpiVci::from_bits(take.u32()), pti, take.flag());
    let (mid, btag) = (take.u16() & 0x3ff, take.u8());
    let len = match take.u8() {
        0 => take.u16(),
        n if n & 1 == 0 => u16::from(n),
        n => u16::from(n) * 6,
    };
    let strides = [take.u8(), take.u8()];
    // An SDU has at least one octet.
    let len = len.max(1);
    let mut sdu = take.rest().to_vec();
    sdu.resize(len.into(), btag);
    let mut segmenter = Segmenter::new(len, mid, btag, header);
    let mut reassembler = Reassembler::new(Limits {
        mids: 1,
        max_sdu: u16::MAX,
        timeout_ns: 0,
        buffer_len: u32::from(len).next_multiple_of(64),
        descriptors: 1,
    });
    let mut memory = Buffer::new(usize::from(len).next_multiple_of(64), true);
    let (mut sent, mut calls, mut delivered) = (0, 0, None);
    while segmenter.left() > 0 {
        let room = 1 + u16::from(strides[calls & 1]);
        let mut out = vec![0; usize::from(room) * format.stride()];
        let n = segmenter.emit_cells(&sdu, format, &mut out);
        assert_eq!(n, room.min(cells(len) - sent));
        for cell in out.chunks_exact(format.stride()).take(n.into()) {
            let payload: &[u8; PAYLOAD_LEN] = cell.last_chunk().expect("a cell has a payload");
            assert_eq!(check::crc10(payload), 0);
            let sar = SarPdu::parse(payload);
            assert_eq!((sar.crc_valid, sar.value.mid), (true, mid));
            assert_eq!(sar.value.emit(), *payload);
            let outcome = reassembler.receive(Time::ZERO, &mut memory, &sar, false);
            assert_eq!((outcome.failed, delivered), (None, None));
            if let Verdict::Delivered(received) = outcome.cell {
                delivered = Some(received);
            }
        }
        sent += n;
        calls += 1;
    }
    let expected = Received {
        position: 0,
        len,
        cells: cells(len),
        mid,
        cells_clp1: 0,
    };
    assert_eq!(delivered, Some(expected));
    assert_eq!(memory.read(0, len.into()), sdu);
}

/// The sender of one MID, who mostly does what I.363.3 asks.
#[derive(Default)]
pub(crate) struct Sender {
    sn: u8,
    btag: u8,
    /// Octets of SDU and pad sent.
    octets: u32,
}

/// What must come of it: every cell is accounted for, and a PDU that is delivered has the octets
/// of its cells until it is given back.
struct Model {
    reassembler: Reassembler,
    memory: Buffer,
    limits: Limits,
    now_ns: u64,
    /// Octets of PDUs in progress.
    open: BTreeMap<u16, Vec<u8>>,
    unread: VecDeque<(Received, Vec<u8>)>,
    released: u64,
    received: u64,
    gone: u64,
    delivered: u64,
}

/// SAR-PDUs on a few MIDs by octets of what to do, with times, releases and refusals between
/// them. An octet says what of a cell is as it should be: its CRC-10, SN, LI, tags and lengths.
pub fn aal34_reassembly(data: &[u8]) {
    let mut take = Take::new(data);
    let limits = Limits {
        mids: u16::from(take.below(4)),
        max_sdu: take.pick(&[0, 1, 40, 44, 100, 400, 1_000, u16::MAX]),
        timeout_ns: take.pick(&[0, 1, 1_000, u64::MAX]),
        buffer_len: take.pick(&[0, 64, 128, 512, 2_048, 4_096]),
        descriptors: u32::from(take.below(6)),
    };
    let mut model = Model {
        reassembler: Reassembler::new(limits),
        memory: Buffer::new(limits.buffer_len as usize, true),
        limits,
        now_ns: 0,
        open: BTreeMap::new(),
        unread: VecDeque::new(),
        released: 0,
        received: 0,
        gone: 0,
        delivered: 0,
    };
    let mut senders: [Sender; 4] = Default::default();
    while !take.is_empty() {
        match take.u8() & 15 {
            0 => model.release(&mut take),
            1 => model.pass(u64::from(take.u8())),
            2 => model.close(take.flag()),
            kind => {
                let payload = sar_payload(&mut take, &mut senders, limits.max_sdu);
                model.cell(&payload, take.flag(), kind == 3);
            }
        }
        model.check();
    }
    model.close(false);
    assert_eq!(model.reassembler.held_cells(), 0);
    model.check();
}

/// A cell of one of `senders`, whose MIDs are 0 to 3, by octets of what to do and what not.
pub(crate) fn sar_payload(
    take: &mut Take<'_>,
    senders: &mut [Sender; 4],
    max_sdu: u16,
) -> [u8; PAYLOAD_LEN] {
    let (op, wrong) = (take.u8(), take.u8());
    let segment_type = SegmentType::from_bits(op);
    let mid = op >> 2 & 3;
    let sender = &mut senders[usize::from(mid)];
    let mut payload = [op; SAR_PAYLOAD_LEN];
    if op & 0x10 != 0 {
        payload = take.octets();
    }
    let is_wrong = |bit: u8| wrong >> bit & 1 != 0;
    if segment_type.begins() {
        (sender.btag, sender.octets) = (sender.btag.wrapping_add(1), 0);
        sender.sn = if is_wrong(0) { take.u8() & 15 } else { 0 };
        let ba_size = if is_wrong(1) { take.u16() } else { max_sdu };
        let cpi = if is_wrong(2) { take.u8() } else { 0 };
        payload[..2].copy_from_slice(&[cpi, sender.btag]);
        payload[2..4].copy_from_slice(&ba_size.to_be_bytes());
    }
    let frame = if segment_type.begins() { 4 } else { 0 };
    let mut li = SAR_PAYLOAD_LEN as u8;
    if matches!(segment_type, SegmentType::Eom | SegmentType::Ssm) {
        li = frame + 4 + 4 * take.below(if frame == 0 { 11 } else { 10 });
    }
    sender.octets += u32::from(li - frame);
    if matches!(segment_type, SegmentType::Eom | SegmentType::Ssm) {
        sender.octets -= 4;
        let pad = u32::from(take.u8() & 3);
        let right = sender.octets.saturating_sub(pad) as u16;
        let length = if is_wrong(3) { take.u16() } else { right };
        let etag = sender.btag ^ u8::from(is_wrong(4));
        let at = usize::from(li) - 4;
        payload[at..at + 2].copy_from_slice(&[0, etag]);
        payload[at + 2..at + 4].copy_from_slice(&length.to_be_bytes());
    }
    let sar = SarPdu {
        segment_type,
        sn: sender.sn,
        mid: u16::from(mid),
        payload,
        li: if is_wrong(5) { take.u8() } else { li },
    };
    sender.sn = (sender.sn + 1 + u8::from(is_wrong(6))) & 15;
    let mut octets = sar.emit();
    if is_wrong(7) {
        octets[usize::from(take.below(48))] ^= take.u8();
    }
    octets
}

impl Model {
    fn cell(&mut self, payload: &[u8; PAYLOAD_LEN], clp: bool, refuse: bool) {
        let sar = SarPdu::parse(payload);
        assert_eq!(sar.crc_valid, check::crc10(payload) == 0);
        self.received += 1;
        let outcome = if refuse {
            self.reassembler.refuse(&sar, Discard::Refused)
        } else {
            let now = Time::from_ns(self.now_ns);
            self.reassembler.receive(now, &mut self.memory, &sar, clp)
        };
        self.account(&sar.value, outcome);
    }

    fn account(&mut self, sar: &SarPdu, outcome: Outcome) {
        if let Some(failed) = outcome.failed {
            self.failed(failed);
        }
        let begins = sar.segment_type.begins();
        let from = if begins { 4 } else { 0 };
        match outcome.cell {
            Verdict::Held => {
                let octets = self.open.entry(sar.mid).or_default();
                if begins {
                    octets.clear();
                }
                octets.extend_from_slice(&sar.payload[from..]);
            }
            Verdict::Delivered(received) => {
                let mut octets = self.open.remove(&sar.mid).unwrap_or_default();
                let to = usize::from(sar.li) - 4;
                octets.extend_from_slice(&sar.payload[from..to]);
                assert!(octets.len() - usize::from(received.len) < 4);
                assert!(received.len > 0 && received.len <= self.limits.max_sdu);
                assert!(received.position.is_multiple_of(64));
                octets.truncate(received.len.into());
                self.delivered += u64::from(received.cells);
                self.unread.push_back((received, octets));
            }
            Verdict::Refused(_) | Verdict::Discarded(_) => self.gone += 1,
        }
    }

    fn failed(&mut self, failed: Failed) {
        assert!(failed.cells > 0 && self.open.remove(&failed.mid).is_some());
        self.gone += u64::from(failed.cells);
    }

    /// The client reads and gives back, or writes a tail that cannot be.
    fn release(&mut self, take: &mut Take<'_>) {
        let op = take.u8();
        if op & 0x80 != 0 {
            let beyond = self.released + self.unread.len() as u64 + 1;
            self.reassembler
                .release(beyond.saturating_add(take.u64() >> 1));
            self.reassembler.release(self.released.saturating_sub(1));
            return;
        }
        for _ in 0..op & 7 {
            let Some((received, octets)) = self.unread.pop_front() else {
                break;
            };
            let at = received.position % u64::from(self.limits.buffer_len);
            assert_eq!(self.memory.read(at as usize, octets.len()), octets);
            self.released += 1;
        }
        self.reassembler.release(self.released);
    }

    fn pass(&mut self, ns: u64) {
        self.now_ns += ns * 10;
        while let Some(failed) = self.reassembler.poll_timeout(Time::from_ns(self.now_ns)) {
            assert!(self.limits.timeout_ns > 0);
            self.failed(failed);
        }
    }

    fn close(&mut self, once: bool) {
        while let Some(failed) = self.reassembler.poll_close() {
            self.failed(failed);
            if once {
                break;
            }
        }
    }

    fn check(&self) {
        let held = u64::from(self.reassembler.held_cells());
        assert_eq!(self.received, self.delivered + self.gone + held);
        assert_eq!(self.reassembler.open_mids(), self.open.len());
        assert!(self.open.len() <= self.limits.mids.into());
        assert!(self.open.len() + self.unread.len() <= self.limits.descriptors as usize);
        for (received, octets) in &self.unread {
            let at = received.position % u64::from(self.limits.buffer_len);
            assert_eq!(self.memory.read(at as usize, octets.len()), octets);
        }
    }
}
