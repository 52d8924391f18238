//! Loopback cells of the adapter's own: which must leave, which must be taken back, and when their
//! commands end.

use std::collections::BTreeSet;

use cellgate_core::adapter::{Aal, Config, Outcome, PortIndex, Refusal};
use cellgate_core::wire::{CellFormat, OamFlow, VpiVci};

use super::Reference;
use super::bits::{Fields, hec, seal10};
use super::oam::{self, LOOPBACK, UNUSED};
use crate::plan::{Order, Twist};

/// So many are out at once, and for so long.
const OUT_MAX: usize = 16;
const TIMEOUT_MAX_NS: u64 = 10_000_000_000;

/// Where a loopback cell travels: port, VPI, VCI, and the PTI of an F5 flow (F4: 0).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Route {
    port: PortIndex,
    vpi: u16,
    vci: u16,
    pti: u8,
}

impl Route {
    pub(super) fn of(port: PortIndex, fields: Fields, pti: u8) -> Self {
        Self {
            port,
            vpi: fields.vpi,
            vci: fields.vci,
            pti,
        }
    }

    fn new(port: PortIndex, address: VpiVci, flow: OamFlow) -> Self {
        let (vci, pti) = match flow {
            OamFlow::F4Segment => (3, 0),
            OamFlow::F4EndToEnd => (4, 0),
            OamFlow::F5Segment => (address.vci(), 4),
            OamFlow::F5EndToEnd => (address.vci(), 5),
        };
        Self {
            port,
            vpi: address.vpi(),
            vci,
            pti,
        }
    }

    fn is_f4(&self) -> bool {
        self.pti == 0
    }

    /// A cell of this flow.
    pub(super) fn cell(&self, format: CellFormat, payload: [u8; 48]) -> Vec<u8> {
        let word = u32::from(self.vpi) << 20 | u32::from(self.vci) << 4 | u32::from(self.pti) << 1;
        let header = word.to_be_bytes();
        let mut cell = header.to_vec();
        if format == CellFormat::WithHec {
            cell.push(hec(header));
        }
        cell.extend(payload);
        cell
    }
}

/// A loopback cell that waits to leave or is out.
#[derive(Clone, Debug)]
pub(super) struct Out {
    ticket: u64,
    route: Route,
    deadline_ns: u64,
    /// When it left, and with which tag.
    left: Option<(u64, [u8; 4])>,
    round_trip_ns: Option<u64>,
}

impl Out {
    /// Whether it has yet to leave this port.
    pub(super) fn waits_on(&self, port: usize) -> bool {
        self.left.is_none() && usize::from(self.route.port.0) == port
    }

    /// Takes a cell for its own if it is; whether it did.
    pub(super) fn take_back(&mut self, now_ns: u64, route: &Route, tag: [u8; 4]) -> bool {
        let Some((left_ns, own)) = self.left else {
            return false;
        };
        let mine = self.route == *route && own == tag && self.round_trip_ns.is_none();
        if mine {
            self.round_trip_ns = Some(now_ns - left_ns);
        }
        mine
    }
}

/// A loopback cell that has left.
pub(crate) struct LoopbackLeft {
    pub(crate) ticket: u64,
    route: Route,
    tag: [u8; 4],
}

impl LoopbackLeft {
    /// How it comes back: on which port, as which octets.
    pub(crate) fn echo(&self, twist: Twist, config: &Config) -> (PortIndex, Vec<u8>) {
        let mut route = self.route;
        let mut payload = loopback(0, self.tag);
        match twist {
            Twist::None | Twist::Bit(_) => {}
            Twist::Tag(off_by) => {
                let tag = u32::from_be_bytes(self.tag).wrapping_add(off_by);
                payload = loopback(0, tag.to_be_bytes());
            }
            Twist::Request => payload = loopback(1, self.tag),
            Twist::Flow(flow) => {
                let address = VpiVci::new(route.vpi, route.vci).unwrap_or_default();
                route = Route::new(route.port, address, flow);
            }
            Twist::Port(port) => route.port = port,
            Twist::Location(octet) => {
                payload[6..22].fill(octet);
                seal10(&mut payload);
            }
        }
        if let Twist::Bit(bit) = twist {
            payload[usize::from(bit) / 8 % 48] ^= 0x80 >> (bit % 8);
        }
        let format = config.ports[usize::from(route.port.0)].format;
        (route.port, route.cell(format, payload))
    }
}

/// The payload of a loopback cell to the end point, from nobody in particular.
fn loopback(indication: u8, tag: [u8; 4]) -> [u8; 48] {
    let mut payload = [UNUSED; 48];
    payload[..2].copy_from_slice(&[LOOPBACK, indication]);
    payload[2..6].copy_from_slice(&tag);
    payload[6..38].fill(0xff);
    seal10(&mut payload);
    payload
}

impl Reference {
    /// If a loopback cell must leave `port` next: whether `octets` are it.
    pub(crate) fn next_loopback(
        &mut self,
        port: PortIndex,
        octets: &[u8],
    ) -> Option<Result<LoopbackLeft, String>> {
        let index = usize::from(port.0);
        let format = self.config.ports[index].format;
        let next = self.loopbacks.iter().position(|out| out.waits_on(index))?;
        // The tag is the adapter's choice, as long as nobody else has it.
        let tag = octets[octets.len() - 46..][..4].try_into().expect("four");
        let mut others = self.loopbacks.iter().filter_map(|out| out.left);
        if others.any(|(_, other)| other == tag) {
            return Some(Err(format!("port {index}: tag {tag:?} is out already")));
        }
        let out = &mut self.loopbacks[next];
        let expected = out.route.cell(format, loopback(1, tag));
        if octets != expected {
            return Some(Err(format!(
                "port {index}: a loopback cell must leave\n  expected {expected:02x?}\n  got      \
                 {octets:02x?}"
            )));
        }
        out.left = Some((self.now_ns, tag));
        self.ports[index].replied += 1;
        Some(Ok(LoopbackLeft {
            ticket: out.ticket,
            route: out.route,
            tag,
        }))
    }

    /// Takes an order on, unless it must be refused.
    pub(super) fn loopback_taken(&mut self, ticket: u64, order: &Order) {
        let &Order::Loopback(port, address, flow, timeout_ns, _) = order else {
            return;
        };
        if self.refusals(ticket, order, None).is_empty() {
            self.loopbacks.push(Out {
                ticket,
                route: Route::new(port, address, flow),
                deadline_ns: self.now_ns + timeout_ns,
                left: None,
                round_trip_ns: None,
            });
        }
    }

    pub(super) fn loopback_refusals(
        &self,
        port: PortIndex,
        address: VpiVci,
        flow: OamFlow,
        timeout_ns: u64,
        refuse: &mut dyn FnMut(bool, Refusal),
    ) {
        let exists = usize::from(port.0) < self.config.ports.len();
        refuse(!exists, Refusal::NoPort);
        let uni = self.is_uni(port);
        refuse(uni && address.vpi() > 255, Refusal::VpiTooLarge);
        let in_range = (1..=TIMEOUT_MAX_NS).contains(&timeout_ns);
        refuse(!in_range, Refusal::BadParameter);
        refuse(self.loopbacks.len() >= OUT_MAX, Refusal::LoopbacksInUse);
        let route = Route::new(port, address, flow);
        let mut vcs = self.at(port, route.vpi, route.vci);
        let receiver = vcs.clone().find(|vc| vc.request.receive.is_some());
        let looked_at = match (route.is_f4(), receiver) {
            (true, receiver) => receiver.is_none(),
            (false, Some(receiver)) => receiver.request.aal != Aal::Aal0,
            (false, None) => vcs.any(|vc| vc.request.aal != Aal::Aal0),
        };
        refuse(!looked_at, Refusal::NoFlow);
    }

    /// A command that was taken on has ended, if it is one: what is wrong about that.
    pub(super) fn loopback_completed(
        &mut self,
        ticket: u64,
        result: &Result<Outcome, Refusal>,
    ) -> Option<Option<String>> {
        let at = self.loopbacks.iter().position(|out| out.ticket == ticket)?;
        let out = self.loopbacks.remove(at);
        let expected = match out.round_trip_ns {
            Some(round_trip_ns) => Some(Ok(Outcome::Returned { round_trip_ns })),
            None => (out.deadline_ns <= self.now_ns).then_some(Err(Refusal::NoReturn)),
        };
        let differs = expected.as_ref() != Some(result);
        Some(differs.then(|| format!("brought {result:?}, expected {expected:?}")))
    }

    /// At the end of a step: no command is left whose cell is back or late.
    pub(crate) fn loopbacks_difference(&self) -> Option<String> {
        let due = |out: &&Out| out.round_trip_ns.is_some() || out.deadline_ns <= self.now_ns;
        let out = self.loopbacks.iter().find(due)?;
        Some(format!("command {} did not end", out.ticket))
    }

    /// Which paths are in use, after something has changed.
    pub(super) fn settle_paths(&mut self) {
        let of_vcs = self.paths_of_vcs.keys().copied();
        let tested = self.loopbacks.iter().filter(|out| out.route.is_f4());
        let used: BTreeSet<(u8, u16)> = of_vcs
            .chain(tested.map(|out| (out.route.port.0, out.route.vpi)))
            .collect();
        self.paths.retain(|path, _| used.contains(path));
        for path in used {
            self.paths.entry(path).or_insert_with(oam::policer);
        }
    }
}
