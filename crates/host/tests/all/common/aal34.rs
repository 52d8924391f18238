//! Cells of AAL3/4 made by the book (I.363.3), apart from the code under test.

use cellgate_core::adapter::{Aal, Interleaving, OpenRequest};
use cellgate_core::wire::{Header, Pti, VpiVci};
use cellgate_host::client::Attached;
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

use super::{Sdus, receives};

pub type Payload = [u8; 48];

/// Makes the last ten bits the CRC-10 of those before them.
pub fn seal(payload: &mut Payload) {
    payload[46] &= 0xfc;
    payload[47] = 0;
    let mut register = 0_u16;
    for bit in 0..374 {
        let sent = u16::from(payload[bit / 8] >> (7 - bit % 8) & 1);
        let feedback = (register >> 9 & 1) ^ sent;
        register = (register << 1 & 0x3ff) ^ (feedback * 0x233);
    }
    payload[46] |= (register >> 8) as u8;
    payload[47] = register as u8;
}

/// The payloads of the cells of one PDU.
pub fn payloads(mid: u16, tag: u8, sdu: &[u8]) -> Vec<Payload> {
    let [high, low] = (sdu.len() as u16).to_be_bytes();
    let mut pdu = vec![0, tag, high, low];
    pdu.extend(sdu);
    pdu.resize(pdu.len().next_multiple_of(4), 0);
    pdu.extend([0, tag, high, low]);
    let count = pdu.len().div_ceil(44);
    let segments = pdu.chunks(44).enumerate();
    segments
        .map(|(i, octets)| {
            let segment_type = match (i == 0, i + 1 == count) {
                (true, true) => 3,
                (true, false) => 2,
                (false, true) => 1,
                (false, false) => 0,
            };
            let first = segment_type << 14 | (i as u16 % 16) << 10 | mid;
            let mut payload = [0; 48];
            payload[..2].copy_from_slice(&first.to_be_bytes());
            payload[2..2 + octets.len()].copy_from_slice(octets);
            payload[46] = (octets.len() as u8) << 2;
            seal(&mut payload);
            payload
        })
        .collect()
}

/// Cells of 52 octets with these payloads.
pub fn cells<'a>(address: VpiVci, payloads: impl IntoIterator<Item = &'a Payload>) -> Vec<u8> {
    let pti = Pti::User {
        congested: false,
        last: false,
    };
    let header = Header::new(address, pti, false).emit();
    let cells = payloads.into_iter().map(|payload| [&header[..], payload]);
    cells.flatten().flatten().copied().collect()
}

/// A VC that receives PDUs of up to `max_sdu` octets, on so many MIDs at once.
pub fn interleaved(
    address: VpiVci,
    port: u8,
    attached: &Attached,
    max_sdu: u16,
    interleaving: Interleaving,
) -> OpenRequest {
    OpenRequest {
        aal: Aal::Aal34(interleaving),
        ..receives(address, port, attached, max_sdu)
    }
}

/// PDUs with each of `mids`, their cells mixed at random. Both ends can make the same.
pub struct Mix {
    rng: Pcg64Mcg,
    mids: Vec<u16>,
    sdus: Sdus,
    tag: u8,
}

impl Mix {
    pub fn new(seed: u64, mids: &[u16], len_max: usize) -> Self {
        Self {
            rng: Pcg64Mcg::new(u128::from(seed) << 1 | 1),
            mids: mids.to_vec(),
            sdus: Sdus::new(seed, len_max),
            tag: 0,
        }
    }

    /// One PDU with each MID: their cells' payloads, and the SDUs in the order of their last cells.
    pub fn round(&mut self) -> (Vec<Payload>, Vec<(u16, Vec<u8>)>) {
        self.tag = self.tag.wrapping_add(1);
        let mut under_way = Vec::new();
        for (mid, sdu) in self.mids.iter().zip(self.sdus.by_ref()) {
            let cells = payloads(*mid, self.tag, &sdu).into_iter();
            under_way.push((*mid, sdu, cells));
        }
        let (mut mixed, mut done) = (Vec::new(), Vec::new());
        while !under_way.is_empty() {
            let at = self.rng.next_u64() as usize % under_way.len();
            mixed.extend(under_way[at].2.next());
            if under_way[at].2.len() == 0 {
                let (mid, sdu, _) = under_way.swap_remove(at);
                done.push((mid, sdu));
            }
        }
        (mixed, done)
    }
}
