//! What arrives: PDUs whole and damaged, strangers, fillers, noise.

use cellgate_core::adapter::{Aal, Config, Marks, OpenRequest, PortIndex};
use cellgate_core::wire::CellFormat;

use super::draw::Draw;
use super::{Line, is_uni};
use crate::plan::Arrival;
use crate::reference::{crc32, hec};

/// How a source keeps its contract.
#[derive(Clone, Copy, Debug)]
enum Manner {
    /// PDUs at the contract's rate, the cells of each as fast as the line is.
    Conforming,
    /// The same, every cell at its theoretical time.
    Smooth,
    /// At a multiple of the rate, in percent.
    Greedy(u64),
    /// Several PDUs at once, then nothing for as long as they took.
    Bursts(u64),
    /// Several PDUs at the peak rate, then nothing until the sustained rate is kept, in percent.
    Vbr(u64, u64),
}

/// Cells as they leave their sender: header word, payload.
pub(super) type Cells = Vec<(u32, [u8; 48])>;

pub(super) struct Cellmaker<'a> {
    pub(super) config: &'a Config,
    pub(super) arrivals: Vec<Arrival>,
}

impl Cellmaker<'_> {
    /// The cells of one VC from its opening to its end.
    pub(super) fn source(&mut self, draw: &mut Draw, line: &Line, until_ns: u64) {
        let Some(receive) = line.request.receive else {
            return;
        };
        let rate = receive.rate.map_or(40_000, |rate| rate.cell_s());
        let t_ns = 1_000_000_000 / u64::from(rate);
        let manner = match draw.below(6) {
            0 => Manner::Conforming,
            1 => Manner::Smooth,
            2 => Manner::Greedy(110),
            3 => Manner::Greedy(draw.pick(&[150, 250, 500])),
            4 => Manner::Greedy(102),
            _ => Manner::Bursts(draw.between(2, 5)),
        };
        let scr = receive.sustained.map(|sustained| sustained.rate.cell_s());
        let manner = if scr.is_some() && draw.percent(70) {
            Manner::Vbr(draw.between(1, 6), draw.pick(&[80, 100, 100, 105, 150]))
        } else {
            manner
        };
        let sustained_ns = 1_000_000_000 / u64::from(scr.unwrap_or(rate));
        let faulty = draw.pick(&[0, 10, 30, 60]);
        let mut now = line.from_ns + draw.below(500_000);
        let (mut burst, mut burst_cells) = (0, 0);
        while now < until_ns.min(line.until_ns) {
            let cells = match line.request.aal {
                Aal::Aal34(_) => self.interleaved(draw, &line.request, faulty),
                Aal::Aal0 | Aal::Aal5 => self.pdu(draw, &line.request, faulty),
            };
            let count = (cells.len() as u64).max(1);
            let line_ns = 2_831;
            let spacing = match manner {
                Manner::Smooth => t_ns,
                Manner::Greedy(percent) if draw.percent(50) => t_ns * 100 / percent,
                _ => line_ns.min(t_ns),
            };
            for (i, (word, payload)) in cells.into_iter().enumerate() {
                let at = now + i as u64 * spacing;
                self.put(draw, at, line.request.port, word, payload, faulty);
            }
            now += match manner {
                Manner::Conforming | Manner::Smooth => count * t_ns + 1,
                Manner::Greedy(percent) => (count * t_ns * 100 / percent).max(1),
                Manner::Bursts(n) => {
                    burst += 1;
                    if burst % n == 0 {
                        n * count * t_ns
                    } else {
                        count * spacing
                    }
                }
                Manner::Vbr(n, percent) => {
                    (burst, burst_cells) = (burst + 1, burst_cells + count);
                    if burst % n == 0 {
                        let whole = std::mem::take(&mut burst_cells);
                        let due_ns = whole * sustained_ns * 100 / percent;
                        due_ns.saturating_sub((whole - count) * t_ns)
                    } else {
                        count * t_ns
                    }
                }
            }
            .max(count * spacing);
        }
    }

    fn pdu(&self, draw: &mut Draw, request: &OpenRequest, faulty: u64) -> Cells {
        let address = request.address.bits() << 4;
        let receive = request.receive.expect("a source has a receiver");
        if request.aal == Aal::Aal0 {
            let pti = draw.below(8) as u32;
            let clp = u32::from(draw.percent(20));
            let word = address | pti << 1 | clp;
            let gfc = self.gfc(draw, request.port);
            let mut octets = payload(&draw.octets(48));
            if receive.marks == Marks::Mssar {
                // Sequences that tell.
                octets[0] %= 4;
            }
            return vec![(word | gfc, octets)];
        }
        let max_sdu = u64::from(receive.max_sdu);
        let len = match draw.below(4) {
            _ if receive.fixed_sdu && draw.percent(80) => max_sdu,
            0 => max_sdu,
            1 => draw.between(1, max_sdu),
            2 => draw.pick(&[1, 39, 40, 41, 87, 88, 89]).min(max_sdu),
            _ => draw.between(max_sdu.div_ceil(2), max_sdu),
        };
        let damage = draw.percent(faulty).then(|| draw.below(12));
        let mut sdu = draw.octets(len as usize);
        let mut stated = len as u16;
        match damage {
            // Longer than the contract's, but perhaps no more cells.
            Some(0) => sdu.resize(draw.between(max_sdu + 1, max_sdu + 60) as usize, 0x5a),
            Some(1) => sdu.resize(draw.between(max_sdu, max_sdu + 300) as usize, 0xa5),
            _ => {}
        }
        if matches!(damage, Some(0 | 1)) {
            stated = sdu.len() as u16;
        }
        match damage {
            Some(2) => stated = 0,
            Some(3) => stated = draw.pick(&[stated.wrapping_add(48), 1, stated / 2, u16::MAX]),
            _ => {}
        }
        let cells = (sdu.len() + 8).div_ceil(48);
        let pad = if draw.percent(30) { 0xee } else { 0 };
        sdu.resize(48 * cells - 8, pad);
        sdu.extend([draw.octet(), draw.octet()]);
        sdu.extend(stated.to_be_bytes());
        let crc = crc32(&sdu);
        sdu.extend(crc.to_be_bytes());
        if damage == Some(4) {
            let bit = draw.below(8 * sdu.len() as u64) as usize;
            sdu[bit / 8] ^= 0x80 >> (bit % 8);
        }
        let marked = draw.percent(20);
        // Contracts that look at the priority see it change from PDU to PDU, and within.
        let low = receive.sustained.is_some() && draw.percent(35);
        let mut out: Cells = sdu
            .chunks(48)
            .enumerate()
            .map(|(i, octets)| {
                let last = u32::from(i + 1 == cells);
                let clp = u32::from(low ^ (marked && draw.percent(40)));
                let congested = u32::from(marked && draw.percent(40));
                let word = address | congested << 2 | last << 1 | clp;
                (word | self.gfc(draw, request.port), payload(octets))
            })
            .collect();
        self.damage_cells(draw, damage, &mut out, address);
        out
    }

    fn damage_cells(&self, draw: &mut Draw, damage: Option<u64>, out: &mut Cells, address: u32) {
        let somewhere = draw.below(out.len() as u64) as usize;
        match damage {
            Some(5) => {
                out.remove(somewhere);
            }
            Some(6) => {
                out.pop();
            }
            Some(7) => out.insert(somewhere, out[somewhere]),
            Some(8 | 9) => {
                for _ in 0..draw.between(1, 3) {
                    let pti = draw.between(4, 7) as u32;
                    let at = draw.below(out.len() as u64 + 1) as usize;
                    out.insert(at, (address | pti << 1, payload(&draw.octets(48))));
                }
            }
            Some(10) => out.truncate(somewhere.max(1)),
            _ => {}
        }
    }

    /// On a UNI the GFC may be anything; on an NNI these bits are address.
    pub(super) fn gfc(&self, draw: &mut Draw, port: PortIndex) -> u32 {
        // Drawn where the first port is a UNI, whatever this one is: what is drawn next does not
        // depend on the port.
        let is_drawn = is_uni(self.config, PortIndex(0)) && draw.percent(30);
        let gfc = if is_drawn { draw.below(16) } else { 0 };
        u32::from(is_uni(self.config, port)) * ((gfc as u32) << 28)
    }

    pub(super) fn put(
        &mut self,
        draw: &mut Draw,
        at_ns: u64,
        port: PortIndex,
        word: u32,
        payload: [u8; 48],
        faulty: u64,
    ) {
        let header = word.to_be_bytes();
        let mut octets = header.to_vec();
        if self.config.ports[usize::from(port.0)].format == CellFormat::WithHec {
            octets.push(hec(header));
            if draw.percent(faulty / 4) {
                for _ in 0..draw.pick(&[1, 1, 1, 2, 3]) {
                    let bit = draw.below(40) as usize;
                    octets[bit / 8] ^= 0x80 >> (bit % 8);
                }
            }
        }
        octets.extend(payload);
        self.arrivals.push(Arrival {
            at_ns,
            port,
            octets,
        });
    }

    /// Cells that belong to nobody: near misses of open addresses, other ports, the whole space,
    /// idle and unassigned cells.
    pub(super) fn strangers(
        &mut self,
        draw: &mut Draw,
        lines: &[Line],
        from_ns: u64,
        until_ns: u64,
    ) {
        let ports = self.config.ports.len() as u64;
        for _ in 0..draw.pick(&[0, 50, 300]) {
            let at_ns = draw.between(from_ns, until_ns);
            let mut port = PortIndex(draw.below(ports) as u8);
            let word = match draw.below(5) {
                0 => draw.below(1 << 32) as u32,
                // Address 0.0 with any PTI, CLP and, on a UNI, GFC.
                1 => draw.below(16) as u32 | self.gfc(draw, port),
                2 if !lines.is_empty() => {
                    let line = &lines[draw.below(lines.len() as u64) as usize];
                    let near = line.request.address.bits() << 4 ^ 1 << draw.between(4, 31);
                    port = line.request.port;
                    near | draw.below(4) as u32
                }
                3 if !lines.is_empty() => {
                    let line = &lines[draw.below(lines.len() as u64) as usize];
                    let other = u64::from(line.request.port.0) + draw.below(ports);
                    port = PortIndex((other % ports) as u8);
                    line.request.address.bits() << 4 | draw.below(16) as u32 | self.gfc(draw, port)
                }
                _ => draw.pick(&[0, 1]),
            };
            let noise = payload(&draw.octets(48));
            self.put(draw, at_ns, port, word, noise, 0);
        }
    }
}

fn payload(octets: &[u8]) -> [u8; 48] {
    octets.try_into().expect("48 octets were cut out")
}
