//! Charging: slots add up to what contracts grant, cost what a tariff says, and two ends differ by
//! what was counted between them. The core's accounts are held against sums that are made here.

use std::collections::BTreeMap;

use cellgate_core::Time;
use cellgate_core::adapter::{AdapterStats, Discard, DiscardCounts, PortStats, VcStats};
use cellgate_core::contract::{Slots, Tariff};
use cellgate_core::line::LineCounts;
use cellgate_core::server::{
    Account, Accounts, Address, AtInterface, ConnectionInfo, ConnectionSlots, Way,
};
use cellgate_core::wire::VpiVci;

use super::Oracle;
use crate::world::Violation;
use crate::world::host::{ChargeBug, VcAccount};

const NS_PER_S: u128 = 1_000_000_000;
/// Of an amount, in 10^-15.
const UNIT: u128 = 1_000_000_000_000_000;
/// What a connection costs, a reserved slot, a cell of CLP 0, a cell of CLP 1: in 10^-15, and as a
/// tariff says it.
const SET_UP: (u128, &str) = (UNIT / 2, "0.5");
const RESERVED: (u128, &str) = (UNIT / 100_000_000, "0.00000001");
const CLP0: (u128, &str) = (UNIT / 5_000, "0.0002");
const CLP1: (u128, &str) = (UNIT / 20_000, "0.00005");

/// The one interface at which all of a network's cells leave, and come.
const NETWORK: &str = "network";
/// The paths on which connections are there, by their numbers: on the way there, on the way back,
/// and for cells that are no connection's.
const THERE: u16 = 0;
const BACK: u16 = 1;
const NOBODYS: u16 = 2;
/// The first VCI that connections may have.
const FIRST_VCI: u16 = 32;

/// The word for RM cells that were taken.
const TAKEN: &str = "taken: resource management";
const HELD: &str = "held: their PDU is in progress";

/// Slots that a VC has had each way: one at once when it has a rate, and one every 1 / rate.
pub(super) fn granted(since: &[(Time, [u64; 2])], until: Time) -> [u64; 2] {
    [0, 1].map(|way| {
        let ends = since.iter().skip(1).map(|(at, _)| *at).chain([until]);
        let spans = since.iter().zip(ends);
        let parts = spans.map(|((at, rates), end)| {
            u128::from(end.ns().saturating_sub(at.ns())) * u128::from(rates[way])
        });
        let has_some = since.iter().any(|(_, rates)| rates[way] > 0);
        (parts.sum::<u128>() / NS_PER_S) as u64 + u64::from(has_some)
    })
}

/// An amount of 10^-15, as it is printed: two decimals at least.
fn printed(amount: u128) -> String {
    let decimals = format!("{:015}", amount % UNIT);
    let mut decimals = decimals.trim_end_matches('0').to_owned();
    while decimals.len() < 2 {
        decimals.push('0');
    }
    format!("{}.{decimals}", amount / UNIT)
}

fn tariff() -> Tariff {
    let price = |(_, text): (u128, &str)| text.parse().unwrap_or_default();
    Tariff {
        currency: "EUR".to_owned(),
        set_up: price(SET_UP),
        reserved_slot: price(RESERVED),
        cell_clp0: price(CLP0),
        cell_clp1: price(CLP1),
    }
}

/// RM cells that a VC has taken.
fn managing(stats: &VcStats) -> u64 {
    let abr = stats.abr.unwrap_or_default();
    abr.forward_received + abr.backward_received
}

/// Cells that came to a VC as one of its own, whatever became of them.
fn came(stats: &VcStats) -> u64 {
    let gone = stats.cells_delivered + stats.cells_discarded.total() + stats.cells_held;
    gone + managing(stats)
}

fn signed(cells: u64) -> i64 {
    i64::try_from(cells).unwrap_or(i64::MAX)
}

/// One end of a connection: what all its VCs there tell, and what they have counted.
#[derive(Clone, Debug)]
struct End {
    account: Account,
    received: Received,
}

/// What an end has received, by what became of it.
#[derive(Clone, Debug, Default)]
struct Received {
    came: u64,
    delivered: u64,
    reasons: BTreeMap<String, i64>,
}

impl Received {
    fn add(&mut self, stats: &VcStats) {
        self.came += came(stats);
        self.delivered += stats.cells_delivered;
        let discarded = stats.cells_discarded.iter();
        let discarded = discarded.map(|(reason, cells)| (reason.name(), cells));
        let rest = [(TAKEN, managing(stats)), (HELD, stats.cells_held)];
        for (reason, cells) in discarded.chain(rest).filter(|(_, cells)| *cells > 0) {
            *self.reasons.entry(reason.to_owned()).or_default() += signed(cells);
        }
    }
}

/// An address for a connection's way: there are 16,384 connections at most.
fn way_address(n: usize, back: bool) -> VpiVci {
    let vpi = if back { BACK } else { THERE };
    VpiVci::new(vpi, FIRST_VCI + n as u16).unwrap_or_default()
}

fn empty(address: VpiVci) -> Account {
    let address = Address {
        interface: Some(NETWORK.to_owned()),
        vc: address,
    };
    Account {
        address,
        number: 0,
        contract: String::new(),
        slots: ConnectionSlots::default(),
        cells_received: 0,
        cells_managing: 0,
        cells_held: 0,
        cells_discarded: DiscardCounts::default(),
        charge: None,
    }
}

impl End {
    fn at(address: VpiVci) -> Self {
        Self {
            account: empty(address),
            received: Received::default(),
        }
    }

    /// A VC of its has this account.
    fn add(&mut self, told: &Account, stats: &VcStats) {
        let all = &mut self.account;
        all.slots.transmit = all.slots.transmit.plus(told.slots.transmit);
        all.slots.receive = all.slots.receive.plus(told.slots.receive);
        all.cells_received += told.cells_received;
        all.cells_managing += told.cells_managing;
        all.cells_held += told.cells_held;
        for (reason, cells) in told.cells_discarded.iter() {
            all.cells_discarded.add(reason, cells);
        }
        self.received.add(stats);
    }
}

/// Ends by what their connections are on one way: the number, and whether it is the way back.
type Ends = BTreeMap<(usize, bool), End>;

impl Oracle<'_> {
    /// C1, C2, C3.
    pub(super) fn charges_are_right(&self) -> Result<(), Violation> {
        let bug = ChargeBug(self.charge_bug);
        let tariff = tariff();
        let (mut senders, mut receivers) = (Ends::new(), Ends::new());
        for (at, host) in self.report().hosts.iter().enumerate() {
            for vc in &host.accounts {
                self.slots_are_granted(at, vc)?;
                let address = Address {
                    interface: None,
                    vc: vc.info.request.address,
                };
                let mut info = ConnectionInfo::new(1, address, "");
                (info.stats, info.slots) = (vc.info.stats, vc.slots);
                let told = Accounts::of_with(&[info], &[], Some(&tariff), &bug);
                let told = &told.connections[0];
                self.slots_cost_what_they_should(at, vc, told)?;
                let Some((n, receives)) = self.end_of(at, vc) else {
                    continue;
                };
                let is_abr = self.plan.connections[n].is_abr();
                for back in [false, true].into_iter().filter(|back| is_abr || !back) {
                    let ends = match receives != back {
                        true => &mut receivers,
                        false => &mut senders,
                    };
                    let end = ends.entry((n, back));
                    let end = end.or_insert_with(|| End::at(way_address(n, back)));
                    end.add(told, &vc.info.stats);
                }
            }
        }
        self.ends_differ_by_what_was_counted(senders, receivers, bug)
    }

    /// The connection whose end a VC is, and whether that is the one that receives.
    fn end_of(&self, host: usize, vc: &VcAccount) -> Option<(usize, bool)> {
        let request = &vc.info.request;
        let output = self
            .host(host)
            .ports
            .get(usize::from(request.port.0))?
            .output;
        let mut all = self.plan.connections.iter().enumerate();
        all.find_map(|(n, one)| {
            let is_it = |receives: bool| {
                let (at, line) = one.end(receives);
                let there = if receives { line ^ 1 } else { line };
                one.address == request.address && at == host && there == output
            };
            [false, true]
                .into_iter()
                .find(|receives| is_it(*receives))
                .map(|receives| (n, receives))
        })
    }

    /// C1: occupied and unoccupied slots are together those that the contract has granted.
    fn slots_are_granted(&self, host: usize, vc: &VcAccount) -> Result<(), Violation> {
        let stats = &vc.info.stats;
        let cells = [vc.sent, [stats.cells_delivered, stats.cells_delivered_clp1]];
        let told = [vc.slots.transmit, vc.slots.receive];
        let reserved = granted(&vc.since, vc.until);
        for (way, told) in told.iter().enumerate() {
            let [all, clp1] = cells[way];
            let due = Slots {
                reserved: reserved[way],
                clp0: all - clp1,
                clp1,
                unoccupied: reserved[way].saturating_sub(all),
            };
            if *told != due {
                let (name, address) = (&self.scenario.hosts[host].name, vc.info.request.address);
                let text = format!("host {name}: {address}: {told:?}, due {due:?}");
                return Err(self.wrong("C1", text));
            }
        }
        Ok(())
    }

    /// C3: they cost what the tariff says.
    fn slots_cost_what_they_should(
        &self,
        host: usize,
        vc: &VcAccount,
        told: &Account,
    ) -> Result<(), Violation> {
        let cost = |slots: &Slots| {
            u128::from(slots.reserved) * RESERVED.0
                + u128::from(slots.clp0) * CLP0.0
                + u128::from(slots.clp1) * CLP1.0
        };
        let [transmit, receive] = [&vc.slots.transmit, &vc.slots.receive].map(cost);
        let due = [transmit, receive, SET_UP.0 + transmit + receive].map(printed);
        let charge = told.charge.as_ref();
        let charge = charge.map(|one| [one.transmit, one.receive, one.total]);
        let charge = charge.map(|sums| sums.map(|sum| sum.to_string()));
        if charge.as_ref() != Some(&due) {
            let name = &self.scenario.hosts[host].name;
            let text = format!(
                "host {name}: {} costs {charge:?}, due {due:?}",
                vc.info.request.address
            );
            return Err(self.wrong("C3", text));
        }
        Ok(())
    }

    /// C2: two ends differ in cells by what lines, switches and adapters have counted between them.
    fn ends_differ_by_what_was_counted(
        &self,
        mut senders: Ends,
        receivers: Ends,
        bug: ChargeBug,
    ) -> Result<(), Violation> {
        // Who puts cells on a line itself has no VC.
        for (source, counted) in self.plan.sources.iter().zip(&self.report().sources) {
            let n = source.connection as usize;
            if !source.is_by_adapter() {
                let end = senders.entry((n, false));
                let end = end.or_insert_with(|| End::at(way_address(n, false)));
                let cells = Slots {
                    clp0: counted.cells,
                    ..Slots::default()
                };
                end.account.slots.transmit = end.account.slots.transmit.plus(cells);
            }
        }
        let sent: BTreeMap<_, _> = senders
            .iter()
            .map(|(at, end)| (*at, end.account.slots.transmit.occupied()))
            .collect();
        let (from, to) = (
            self.all_that_send(senders),
            self.all_that_receive(&receivers),
        );
        let ways = from.ways_with(&to, &bug);
        let pairs = receivers.iter().filter(|(at, _)| sent.contains_key(at));
        let pairs: Vec<_> = pairs.map(|(at, end)| (*at, end)).collect();
        let vcs: usize = ways.iter().map(|way| way.vcs.len()).sum();
        if ways.len() > 1 || vcs != pairs.len() {
            let text = format!(
                "{vcs} VCs on {} ways, and {} pairs of ends",
                ways.len(),
                pairs.len()
            );
            return Err(self.wrong("C2", text));
        }
        let Some(way) = ways.first() else {
            return Ok(());
        };
        let came = pairs.iter().map(|(_, end)| end.received.came).sum();
        for (at, end) in pairs {
            self.pair_differs_by_reasons(way, at, sent[&at], end)?;
        }
        // What an adapter that has died had counted nobody knows.
        match self.report().hosts.iter().all(|host| host.stats.len() == 1) {
            true => self.way_differs_by_reasons(way, sent.values().sum(), came),
            false => Ok(()),
        }
    }

    fn all_that_send(&self, senders: Ends) -> Accounts {
        let hosts = self.report().hosts.iter();
        let lines = self.report().lines.iter();
        let nobodys = hosts.map(|host| host.answers).sum::<u64>()
            + lines.map(|line| line.counts.faults.inserted).sum::<u64>();
        let mut rest = empty(VpiVci::new(NOBODYS, FIRST_VCI).unwrap_or_default());
        rest.slots.transmit.clp0 = nobodys;
        let connections = senders.into_values().map(|end| end.account);
        Accounts {
            connections: connections.chain([rest]).collect(),
            interfaces: Vec::new(),
        }
    }

    fn all_that_receive(&self, receivers: &Ends) -> Accounts {
        let report = self.report();
        let adapters = |reason: Discard| -> u64 {
            let stats = report.hosts.iter().flat_map(|host| &host.stats);
            stats.map(|stats| stats.cells_discarded.of(reason)).sum()
        };
        let lines = || report.lines.iter().map(|line| line.counts.faults);
        let outputs = report.switches.iter().flat_map(|one| &one.outputs);
        let network = AtInterface {
            name: NETWORK.to_owned(),
            dropped_cells: report.hosts.iter().map(|host| host.counts.overflowed).sum(),
            cells: PortStats {
                unknown_vc: adapters(Discard::UnknownVc),
                hec_error: adapters(Discard::HecError),
                idle: adapters(Discard::Idle),
                last_unknown: None,
            },
            line: Some(LineCounts {
                lost: lines().map(|faults| faults.lost).sum(),
                queue_full: outputs.map(|output| output.discarded).sum(),
                overflowed: report.switches.iter().map(|one| one.unrouted_cells).sum(),
                duplicated: lines().map(|faults| faults.duplicated).sum(),
                ..LineCounts::default()
            }),
        };
        Accounts {
            connections: receivers.values().map(|end| end.account.clone()).collect(),
            interfaces: vec![network],
        }
    }

    /// C2, of one connection and one way of it.
    fn pair_differs_by_reasons(
        &self,
        way: &Way,
        (n, back): (usize, bool),
        sent: u64,
        end: &End,
    ) -> Result<(), Violation> {
        let address = way_address(n, back);
        let name = &self.plan.connections[n].name;
        let Some(told) = way.vcs.iter().find(|vc| vc.from.vc == address) else {
            let text = format!("connection {name}: nothing is told of {address}");
            return Err(self.wrong("C2", text));
        };
        let received = &end.received;
        let missing = signed(sent) - signed(received.came);
        let numbers = [
            ("cells sent", signed(told.sent), signed(sent)),
            (
                "delivered",
                signed(told.delivered),
                signed(received.delivered),
            ),
            ("missing", told.missing, missing),
        ];
        for (what, told, due) in numbers {
            if told != due {
                let text = format!("connection {name}: {told} {what}, due {due}");
                return Err(self.wrong("C2", text));
            }
        }
        let reasons = told.differences.iter();
        let reasons = reasons.map(|one| (one.reason.clone(), one.cells));
        let reasons: BTreeMap<String, i64> = reasons.collect();
        let sum: i64 = told.missing + reasons.values().sum::<i64>();
        if reasons != received.reasons || sum != told.sent as i64 - told.delivered as i64 {
            let due = &received.reasons;
            let text = format!("connection {name}: not delivered {reasons:?}, due {due:?}");
            return Err(self.wrong("C2", text));
        }
        Ok(())
    }

    /// C2, of the whole network: each cell that reached no connection has its reason. So many were
    /// `sent`, and `came` to ends of connections that send.
    fn way_differs_by_reasons(&self, way: &Way, sent: u64, came: u64) -> Result<(), Violation> {
        let report = self.report();
        let lines = || report.lines.iter().map(|line| line.counts.faults);
        let hosts = || report.hosts.iter();
        let stats = || hosts().flat_map(|host| &host.stats);
        let of = |reason: Discard| -> u64 {
            stats().map(|stats| stats.cells_discarded.of(reason)).sum()
        };
        let switches = report.switches.iter();
        let full = switches.clone().flat_map(|one| &one.outputs);
        let twice: u64 = lines().map(|faults| faults.duplicated).sum();
        let dropped: u64 = hosts().map(|host| host.counts.overflowed).sum();
        let due = [
            (
                "line: lost",
                signed(lines().map(|faults| faults.lost).sum()),
            ),
            (
                "line: queue full",
                signed(full.map(|one| one.discarded).sum()),
            ),
            (
                "line: too many on their way",
                signed(switches.map(|one| one.unrouted_cells).sum()),
            ),
            ("line: came twice", -signed(twice)),
            ("hec_error", signed(of(Discard::HecError))),
            ("unknown_vc", signed(of(Discard::UnknownVc))),
            ("idle", signed(of(Discard::Idle))),
            ("no room before the adapter", signed(dropped)),
        ];
        let due: BTreeMap<_, _> = due.into_iter().filter(|(_, cells)| *cells != 0).collect();
        let told = way.line.iter().map(|one| (&*one.reason, one.cells));
        let told: BTreeMap<_, _> = told.collect();
        if told != due {
            let text = format!("cells that reached no connection: {told:?}, due {due:?}");
            return Err(self.wrong("C2", text));
        }
        // Cells that adapters have answered, or that are of VCs of guests or of an end to which
        // nobody sends, reach no connection.
        let taken = |stats: &AdapterStats| {
            let ports = [Discard::HecError, Discard::UnknownVc, Discard::Idle];
            let ports = ports.map(|reason| stats.cells_discarded.of(reason));
            stats.cells_received - ports.iter().sum::<u64>()
        };
        let taken: u64 = stats().map(taken).sum();
        let others: i64 = due.values().sum();
        let answers: u64 = hosts().map(|host| host.answers).sum();
        let inserted: u64 = lines().map(|faults| faults.inserted).sum();
        let between = signed(sent + answers + inserted) - signed(came) - others;
        if way.unexplained != between || between != signed(taken) - signed(came) {
            let text = format!(
                "{} cells are unexplained, due {between}; {taken} were taken, {came} came",
                way.unexplained
            );
            return Err(self.wrong("C2", text));
        }
        Ok(())
    }
}
