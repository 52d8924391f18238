//! OAM cells among the PDUs of a VC: requests to be answered, everything that must not be, and more
//! of both than is looked at.

use cellgate_core::adapter::Aal;

use super::Line;
use super::cells::Cellmaker;
use super::draw::Draw;
use crate::reference::{remainder10, seal10};

/// How the OAM cells of a VC come.
#[derive(Clone, Copy, Debug)]
enum Manner {
    None,
    /// One each so many nanoseconds.
    Every(u64),
    /// So many at once, now and then.
    Clumps(u64),
}

impl Cellmaker<'_> {
    /// The OAM cells of all VCs. There are moments that they share, so that a port has more to
    /// answer than it can keep.
    pub(super) fn oam_cells(&mut self, draw: &mut Draw, lines: &[Line], until_ns: u64) {
        let moments: Vec<u64> = (0..draw.between(1, 3))
            .map(|_| draw.between(super::OPENED_NS, until_ns))
            .collect();
        let is_crowded = draw.percent(35);
        for line in lines {
            if line.request.receive.is_none() || line.request.aal != Aal::Aal5 {
                continue;
            }
            let until_ns = until_ns.min(line.until_ns);
            // What it may send at such a moment must not be used up.
            if !is_crowded || draw.percent(30) {
                self.oam_source(draw, line, until_ns);
            }
            for &moment in moments.iter().filter(|_| is_crowded) {
                for _ in 0..draw.between(8, 14) {
                    let at_ns = moment + draw.below(10_000);
                    let request = request(draw);
                    self.oam_cell(draw, line, at_ns, request);
                }
            }
        }
    }

    fn oam_source(&mut self, draw: &mut Draw, line: &Line, until_ns: u64) {
        let manner = match draw.below(10) {
            0..4 => Manner::None,
            // 10 ms: exactly as many as are looked at.
            4..8 => Manner::Every(draw.pick(&[400_000, 2_000_000, 5_000_000, 10_000_000])),
            _ => Manner::Clumps(draw.pick(&[3, 9, 10, 11, 30])),
        };
        let mut at_ns = line.from_ns + draw.below(1_000_000);
        while at_ns < until_ns {
            let (cells, pause_ns) = match manner {
                Manner::None => return,
                Manner::Every(pause_ns) => (1, pause_ns),
                Manner::Clumps(cells) => (cells, draw.between(3_000_000, 15_000_000)),
            };
            for _ in 0..cells {
                let payload = payload(draw);
                self.oam_cell(draw, line, at_ns, payload);
            }
            at_ns += pause_ns;
        }
    }

    fn oam_cell(&mut self, draw: &mut Draw, line: &Line, at_ns: u64, payload: [u8; 48]) {
        let pti = draw.pick(&[4, 4, 4, 5, 5, 5, 5, 6, 7]);
        let clp = u32::from(draw.percent(20));
        let word =
            line.request.address.bits() << 4 | pti << 1 | clp | self.gfc(draw, line.request.port);
        self.put(draw, at_ns, line.request.port, word, payload, 0);
    }
}

/// A loopback request for the end point.
fn request(draw: &mut Draw) -> [u8; 48] {
    let mut payload = [0x6a; 48];
    payload[..2].copy_from_slice(&[0x18, 1]);
    payload[2..6].copy_from_slice(&draw.octets(4));
    payload[6..22].fill(draw.pick(&[0xff, 0xff, 0]));
    if draw.percent(50) {
        payload[22..38].fill(0xff);
    } else {
        payload[22..38].copy_from_slice(&draw.octets(16));
    }
    seal10(&mut payload);
    payload
}

/// A request, or something near one.
pub(super) fn payload(draw: &mut Draw) -> [u8; 48] {
    let mut payload = request(draw);
    match draw.below(16) {
        // What is reserved or unused is not looked at.
        0 => payload[1] |= draw.octet(),
        1 => payload[38..46].copy_from_slice(&draw.octets(8)),
        // An answer.
        2 => payload[1] = 0,
        3 => payload[1] = draw.octet() & !1,
        // Other points of the connection.
        4 => payload[6..22].fill(0x6a),
        5 => payload[6..22].copy_from_slice(&draw.octets(16)),
        6 => payload[draw.between(6, 21) as usize] ^= 1 << draw.below(8),
        // Other functions, other types.
        7 => payload[0] = draw.pick(&[0x10, 0x11, 0x14, 0x19]),
        8 => payload[0] = draw.pick(&[0x08, 0x28, 0x58, 0x81, 0xf8]),
        9 => payload[0] = draw.octet(),
        _ => {}
    }
    seal10(&mut payload);
    match draw.below(8) {
        0 => payload[draw.below(48) as usize] ^= 1 << draw.below(8),
        // The six reserved bits are covered by the CRC as well.
        1 => {
            let reserved = draw.octet() & 0xfc;
            payload = reserved_and_sealed(payload, reserved);
        }
        _ => {}
    }
    payload
}

/// `payload` with these six bits before its CRC-10, and the CRC-10 for them.
fn reserved_and_sealed(mut payload: [u8; 48], reserved: u8) -> [u8; 48] {
    payload[46] = reserved;
    payload[47] = 0;
    let crc = remainder10(&payload);
    payload[46] |= (crc >> 8) as u8;
    payload[47] = crc as u8;
    payload
}
