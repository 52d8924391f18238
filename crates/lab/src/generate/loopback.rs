//! Loopback cells of the adapter's own and what comes of them, OAM flows of paths, OAM cells of VCs
//! that only transmit.

use cellgate_core::adapter::{Aal, Command, Config, OpenRequest, PortIndex};
use cellgate_core::wire::{OamFlow, VpiVci};

use super::actions::Actions;
use super::cells::Cellmaker;
use super::draw::Draw;
use super::{Line, OPENED_NS, QUIET_NS, is_uni, oam};
use crate::plan::{Echo, Order, Twist};

impl Actions {
    /// Tests of the lines, some of which cannot be.
    pub(super) fn loopbacks(&mut self, draw: &mut Draw, config: &Config, lines: &[Line]) {
        for _ in 0..draw.pick(&[0, 2, 8, 20]) {
            let at_ns = draw.between(OPENED_NS, QUIET_NS - 2_000_000);
            let order = test(draw, config, lines);
            self.order(at_ns, order);
        }
        if draw.percent(10) {
            // More than may be out at once.
            let at_ns = draw.between(OPENED_NS, QUIET_NS / 2);
            for _ in 0..20 {
                let line = &lines[draw.below(lines.len() as u64) as usize];
                let (port, address) = (line.request.port, line.request.address);
                let flow = draw.pick(&OamFlow::ALL);
                let timeout_ns = draw.between(5_000_000, 20_000_000);
                let echoes = Vec::new();
                self.order(
                    at_ns,
                    Order::Loopback(port, address, flow, timeout_ns, echoes),
                );
            }
        }
    }
}

fn test(draw: &mut Draw, config: &Config, lines: &[Line]) -> Order {
    let line = &lines[draw.below(lines.len() as u64) as usize];
    let mut port = line.request.port;
    let mut address = line.request.address;
    let flow = draw.pick(&OamFlow::ALL);
    // Regular steps end some of these exactly at the deadline.
    let mut timeout_ns = draw.pick(&[300_000, 900_000, 3_000_000, 9_000_000, 30_000_000]);
    match draw.below(24) {
        0 => port = PortIndex(60),
        1 => port = PortIndex(draw.below(config.ports.len() as u64) as u8),
        2 if is_uni(config, PortIndex(0)) => {
            address = VpiVci::new(256, 40).unwrap_or_default();
        }
        3 => timeout_ns = draw.pick(&[0, Command::<(), ()>::LOOPBACK_MAX_NS + 1]),
        4 => address = VpiVci::from_bits(address.bits() ^ 1 << draw.below(24)),
        _ => {}
    }
    let echoes = (0..draw.pick(&[0, 1, 1, 1, 2, 3]))
        .map(|_| Echo {
            after_ns: draw.between(1, 2 * timeout_ns.min(4_000_000) + 1),
            twist: twist(draw, config),
        })
        .collect();
    Order::Loopback(port, address, flow, timeout_ns, echoes)
}

fn twist(draw: &mut Draw, config: &Config) -> Twist {
    match draw.below(16) {
        0 => Twist::Tag(draw.pick(&[1, u32::MAX, 256, 1 << 24])),
        1 => Twist::Request,
        2 | 3 => Twist::Flow(draw.pick(&OamFlow::ALL)),
        4..=6 => Twist::Port(PortIndex(draw.below(config.ports.len() as u64) as u8)),
        7 => Twist::Bit(draw.below(384) as u16),
        8 => Twist::Location(draw.octet()),
        _ => Twist::None,
    }
}

impl Cellmaker<'_> {
    /// Cells on VCI 3 and 4 of the lines' paths and of others near them.
    pub(super) fn oam_of_paths(&mut self, draw: &mut Draw, lines: &[Line]) {
        let ports = self.config.ports.len() as u64;
        for _ in 0..draw.pick(&[0, 0, 5, 40, 80]) {
            let line = &lines[draw.below(lines.len() as u64) as usize];
            let mut port = line.request.port;
            let mut vpi = line.request.address.vpi();
            match draw.below(12) {
                0 => vpi ^= 1 << draw.below(8),
                1 => port = PortIndex(draw.below(ports) as u8),
                _ => {}
            }
            let at_ns = draw.between(OPENED_NS / 2, QUIET_NS - 2_000_000);
            // Now and then more at once than are looked at.
            for _ in 0..draw.pick(&[1, 1, 1, 1, 13]) {
                let vci = draw.pick(&[3, 4, 3, 4, 3, 4, 2, 5]);
                let bits = draw.pick(&[0, 0, 0, 1, 2, 4, 15]);
                let word = u32::from(vpi) << 20 | vci << 4 | bits | self.gfc(draw, port);
                let payload = oam::payload(draw);
                self.put(draw, at_ns, port, word, payload, 0);
            }
        }
    }

    /// OAM and user cells of VCs that only transmit, on their port and on others.
    pub(super) fn oam_of_transmitters(&mut self, draw: &mut Draw, lines: &[Line]) {
        let ports = self.config.ports.len() as u64;
        let deaf = |line: &&Line| line.request.receive.is_none();
        for line in lines.iter().filter(deaf) {
            let busy = draw.pick(&[0, 4, 30]);
            for _ in 0..busy * u64::from(line.request.aal != Aal::Aal0 || draw.percent(50)) {
                let mut port = line.request.port;
                if draw.percent(15) {
                    port = PortIndex(draw.below(ports) as u8);
                }
                let at_ns = draw.between(OPENED_NS / 2, QUIET_NS - 2_000_000);
                let pti = draw.pick(&[4, 5, 4, 5, 4, 5, 6, 7, 0, 1]);
                let word = line.request.address.bits() << 4 | pti << 1 | self.gfc(draw, port);
                let payload = oam::payload(draw);
                self.put(draw, at_ns, port, word, payload, 0);
            }
        }
    }
}

/// Sometimes a line is on the VCI of a path's flow: that VCI is then a user's.
pub(super) fn turn(draw: &mut Draw, request: &mut OpenRequest) {
    if draw.percent(3) {
        let vci = draw.pick(&[3, 4]);
        let vpi = request.address.vpi();
        request.address = VpiVci::new(vpi, vci).unwrap_or_default();
    }
}
