//! Interleaved PDUs of AAL3/4, whole and damaged.

use cellgate_core::adapter::{Aal, Interleaving, OpenRequest};

use super::cells::{Cellmaker, Cells};
use super::draw::Draw;
use crate::reference::{cells_of_aal34, payloads, raw, seal};

/// Most AAL5 VCs become AAL3/4 VCs.
pub(super) fn turn(draw: &mut Draw, request: &mut OpenRequest) {
    if request.aal != Aal::Aal5 || draw.percent(20) {
        return;
    }
    request.aal = Aal::Aal34(Interleaving {
        mids: draw.pick(&[1, 2, 2, 3, 4, 8, 64]),
        reassembly_timeout_ns: draw.pick(&[0, 200_000, 1_000_000, 1_000_000, 3_000_000]),
    });
    if draw.percent(3) {
        request.aal = Aal::Aal34(Interleaving {
            mids: draw.pick(&[0, Interleaving::MIDS_MAX + 1]),
            reassembly_timeout_ns: 0,
        });
    }
    let transmit = request
        .transmit
        .as_mut()
        .map(|transmit| &mut transmit.max_sdu);
    let receive = request.receive.as_mut().map(|receive| &mut receive.max_sdu);
    let max_sdu = draw.pick(&[36, 37, 80, 84, 200, 424, 1000]);
    for bound in transmit.into_iter().chain(receive) {
        *bound = max_sdu;
    }
}

impl Cellmaker<'_> {
    /// Some PDUs at once, mostly as many as there may be, their cells one between the other.
    pub(super) fn interleaved(&self, draw: &mut Draw, request: &OpenRequest, faulty: u64) -> Cells {
        let mids = request.aal.interleaving().map_or(1, |numbers| numbers.mids);
        let most = u64::from(mids.min(4)) + u64::from(draw.percent(20));
        let first = draw.pick(&[0, 1, 512, 1020]);
        let mut pdus: Vec<Cells> = (0..draw.between(1, most.max(1)))
            .map(|i| {
                let mid = if draw.percent(10) {
                    first
                } else {
                    first + i as u16
                };
                let mut pdu = self.pdu_of_mid(draw, request, mid & 1023, faulty);
                pdu.reverse();
                pdu
            })
            .collect();
        let mut cells = Vec::new();
        while !pdus.is_empty() {
            let at = draw.below(pdus.len() as u64) as usize;
            match pdus[at].pop() {
                Some(cell) => cells.push(cell),
                None => drop(pdus.swap_remove(at)),
            }
        }
        cells
    }

    fn pdu_of_mid(&self, draw: &mut Draw, request: &OpenRequest, mid: u16, faulty: u64) -> Cells {
        let address = request.address.bits() << 4;
        let max_sdu = u64::from(request.receive.map_or(1, |receive| receive.max_sdu));
        let mut len = match draw.below(4) {
            0 => max_sdu,
            1 => draw.between(1, max_sdu),
            2 => draw.pick(&[1, 36, 37, 40, 41, 80, 81, 84]).min(max_sdu),
            _ => draw.between(max_sdu.div_ceil(2), max_sdu),
        };
        let damage = draw.percent(faulty).then(|| draw.below(16));
        if damage == Some(0) {
            len = max_sdu + draw.between(1, 100);
        }
        let sdu = draw.octets(len as usize);
        let mut payloads = payloads(&sdu, mid, draw.octet());
        if let Some(damage) = damage {
            harm(draw, damage, &mut payloads, mid, cells_of_aal34(sdu.len()));
        }
        let marked = draw.percent(20);
        let mut cells: Cells = payloads
            .into_iter()
            .map(|payload| {
                let clp = u32::from(marked && draw.percent(40));
                let congested = u32::from(marked && draw.percent(40));
                // Whether the last user data bit is set means nothing here.
                let last = u32::from(draw.percent(5));
                let word = address | congested << 2 | last << 1 | clp;
                (word | self.gfc(draw, request.port), payload)
            })
            .collect();
        if damage == Some(1) {
            let pti = draw.between(4, 7) as u32;
            let at = draw.below(cells.len() as u64 + 1) as usize;
            let noise = draw.octets(48).try_into().unwrap_or([0; 48]);
            cells.insert(at, (address | pti << 1, noise));
        }
        cells
    }
}

fn harm(draw: &mut Draw, damage: u64, cells: &mut Vec<[u8; 48]>, mid: u16, count: usize) {
    let somewhere = draw.below(count as u64) as usize;
    let last = count - 1;
    match damage {
        2 => drop(cells.remove(somewhere)),
        3 => drop(cells.pop()),
        4 => drop(cells.remove(0)),
        5 => cells.insert(somewhere, cells[somewhere]),
        6 => {
            let bit = draw.below(8 * 48) as usize;
            cells[somewhere][bit / 8] ^= 0x80 >> (bit % 8);
        }
        // Behind the CRC's back: tags, lengths, CPI, BAsize, length indicator, sequence number.
        7 => patch(cells, 0, 3, draw.octet()),
        8 => {
            let trailer = 2 + usize::from(cells[last][46] >> 2) - 4;
            let at = trailer + draw.between(1, 3) as usize;
            patch(cells, last, at, draw.octet());
        }
        9 => patch(cells, 0, 2, 1),
        10 => patch(cells, 0, 5, draw.octet()),
        11 => patch(cells, 0, 4, draw.pick(&[0, 1, 0xff])),
        12 => {
            let li = draw.below(64) as u8;
            patch(cells, somewhere, 46, li << 2);
        }
        13 => {
            let first = cells[somewhere][0] ^ (draw.between(1, 15) as u8) << 2;
            patch(cells, somewhere, 0, first);
        }
        14 => {
            let sn = (last & 15) as u8;
            cells.truncate(last.max(1));
            cells.push(raw(1, sn, mid, &[], 63));
        }
        15 => {
            let segment_type = draw.below(4) as u8;
            let octets = draw.octets(44);
            let stray = raw(
                segment_type,
                draw.octet(),
                mid,
                &octets,
                draw.below(64) as u8,
            );
            cells.insert(somewhere, stray);
        }
        _ => {}
    }
}

/// Writes an octet of a payload and makes its CRC right again.
fn patch(cells: &mut [[u8; 48]], cell: usize, at: usize, octet: u8) {
    cells[cell][at] = octet;
    seal(&mut cells[cell]);
}
