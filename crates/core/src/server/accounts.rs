//! What connections have carried, as their charges are told, and where two ends differ.

use core::fmt;

use serde::{Deserialize, Serialize};

use super::{Address, ConnectionInfo, ConnectionSlots, InterfaceInfo};
use crate::adapter::{DiscardCounts, PortStats};
use crate::contract::charging::{Flaws, Planted, Sound};
use crate::contract::{Amount, Tariff};
use crate::line::LineCounts;
use crate::wire::VpiVci;

/// What a connection has carried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    pub address: Address,
    pub number: u32,
    /// In canonical form.
    pub contract: String,
    pub slots: ConnectionSlots,
    /// Cells of user data and resource management that came, whatever became of them.
    pub cells_received: u64,
    /// Of these, cells of resource management that were taken.
    #[serde(default)]
    pub cells_managing: u64,
    /// Of these, cells of PDUs in progress.
    pub cells_held: u64,
    /// Of these, cells that were discarded.
    pub cells_discarded: DiscardCounts,
    /// What the tariff makes of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub charge: Option<Charge>,
}

/// An estimate of what a connection costs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Charge {
    pub currency: String,
    pub set_up: Amount,
    pub transmit: Amount,
    pub receive: Amount,
    pub total: Amount,
}

/// What became of an interface's cells before they reached a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AtInterface {
    pub name: String,
    /// Cells that the queue to the adapter had no room for.
    pub dropped_cells: u64,
    pub cells: PortStats,
    /// Of an impaired line, on which its cells arrive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<LineCounts>,
}

/// What a server's connections have carried since they were opened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accounts {
    pub connections: Vec<Account>,
    pub interfaces: Vec<AtInterface>,
}

impl Accounts {
    /// As a server tells of its connections and interfaces.
    pub fn of(
        connections: &[ConnectionInfo],
        interfaces: &[InterfaceInfo],
        tariff: Option<&Tariff>,
    ) -> Self {
        Self::of_with(connections, interfaces, tariff, &Sound)
    }

    /// The same, perhaps with a bug.
    pub fn of_with(
        connections: &[ConnectionInfo],
        interfaces: &[InterfaceInfo],
        tariff: Option<&Tariff>,
        flaws: &impl Flaws,
    ) -> Self {
        let account = |info: &ConnectionInfo| {
            let abr = info.stats.abr.unwrap_or_default();
            let managing = abr.forward_received + abr.backward_received;
            let answered = match flaws.has(Planted::AnsweredReceived) {
                true => 0,
                false => info.stats.cells_answered,
            };
            let taken = match flaws.has(Planted::ManagingForgotten) {
                true => 0,
                false => managing,
            };
            Account {
                address: info.address.clone(),
                number: info.number,
                contract: info.contract.clone(),
                slots: info.slots,
                cells_received: info.stats.cells_received + taken - answered,
                cells_managing: managing,
                cells_held: info.stats.cells_held,
                cells_discarded: info.stats.cells_discarded,
                charge: tariff.map(|tariff| Charge::of(tariff, &info.slots, flaws)),
            }
        };
        let interface = |info: &InterfaceInfo| AtInterface {
            name: info.spec.name.clone(),
            dropped_cells: info.dropped_cells,
            cells: info.counts.cells,
            line: info.counts.line,
        };
        Self {
            connections: connections.iter().map(account).collect(),
            interfaces: interfaces.iter().map(interface).collect(),
        }
    }

    /// Every way that leads from a connection of these to one of `receiver` with the same VPI and
    /// VCI: what was sent, what came, and the reason for each cell between the two.
    pub fn ways_to(&self, receiver: &Accounts) -> Vec<Way> {
        self.ways_with(receiver, &Sound)
    }

    /// The same, perhaps with a bug.
    pub fn ways_with(&self, receiver: &Accounts, flaws: &impl Flaws) -> Vec<Way> {
        let mut ways: Vec<Way> = Vec::new();
        for from in &self.connections {
            for to in &receiver.connections {
                if from.address.vc != to.address.vc && !flaws.has(Planted::AddressIgnored) {
                    continue;
                }
                let names = [from, to].map(Account::interface);
                let vc = OneWay::of(from, to, flaws);
                match ways.iter_mut().find(|way| [&*way.from, &*way.to] == names) {
                    Some(way) => way.vcs.push(vc),
                    None => ways.push(Way {
                        from: names[0].to_owned(),
                        to: names[1].to_owned(),
                        vcs: vec![vc],
                        line: Vec::new(),
                        unexplained: 0,
                    }),
                }
            }
        }
        for way in &mut ways {
            way.explain(self, receiver, flaws);
        }
        ways
    }

    fn interface(&self, name: &str) -> Option<&AtInterface> {
        self.interfaces.iter().find(|one| one.name == name)
    }
}

impl Account {
    fn interface(&self) -> &str {
        self.address.interface.as_deref().unwrap_or_default()
    }
}

impl Charge {
    fn of(tariff: &Tariff, slots: &ConnectionSlots, flaws: &impl Flaws) -> Self {
        let cost = |slots| tariff.cost_with(slots, flaws);
        let (transmit, receive) = (cost(&slots.transmit), cost(&slots.receive));
        let both = transmit.plus(receive);
        Self {
            currency: tariff.currency.clone(),
            set_up: tariff.set_up,
            transmit,
            receive,
            total: match flaws.has(Planted::SetUpTwice) {
                true => tariff.set_up.plus(tariff.set_up).plus(both),
                false => tariff.set_up.plus(both),
            },
        }
    }
}

/// Cells that one end sent and the other did not deliver, by why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// A discard's name, or what the line or an interface did with them.
    pub reason: String,
    /// Negative: cells that came and were not sent.
    pub cells: i64,
}

/// One VC in one direction, as both ends tell of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OneWay {
    pub from: Address,
    pub to: Address,
    pub sent: u64,
    pub delivered: u64,
    /// Cells that reached the other end and were not delivered.
    pub differences: Vec<Difference>,
    /// Cells that did not reach the connection there.
    pub missing: i64,
}

/// All VCs from an interface of one end to one of the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Way {
    pub from: String,
    pub to: String,
    pub vcs: Vec<OneWay>,
    /// Why cells did not reach their connections.
    pub line: Vec<Difference>,
    /// Cells that neither end accounts for. 0, once nothing is on its way any more.
    pub unexplained: i64,
}

fn signed(cells: u64) -> i64 {
    i64::try_from(cells).unwrap_or(i64::MAX)
}

impl OneWay {
    fn of(from: &Account, to: &Account, flaws: &impl Flaws) -> Self {
        let held = match flaws.has(Planted::HeldForgotten) {
            true => 0,
            false => to.cells_held,
        };
        let sent = from.slots.transmit.occupied();
        let delivered = to.slots.receive.occupied();
        let discarded = to.cells_discarded.iter();
        let discarded = discarded.map(|(reason, cells)| (reason.name(), cells));
        let why = discarded.chain([
            ("taken: resource management", to.cells_managing),
            ("held: their PDU is in progress", held),
        ]);
        let differences = why.filter(|(_, cells)| *cells > 0).map(Difference::from);
        Self {
            from: from.address.clone(),
            to: to.address.clone(),
            sent,
            delivered,
            differences: differences.collect(),
            missing: signed(sent) - signed(to.cells_received),
        }
    }
}

impl From<(&str, u64)> for Difference {
    fn from((reason, cells): (&str, u64)) -> Self {
        Self {
            reason: reason.to_owned(),
            cells: signed(cells),
        }
    }
}

impl Way {
    /// Finds the reasons for what is missing.
    fn explain(&mut self, sender: &Accounts, receiver: &Accounts, flaws: &impl Flaws) {
        let met = |vc: VpiVci| self.vcs.iter().any(|one| one.from.vc == vc);
        let others = sender
            .connections
            .iter()
            .filter(|one| one.interface() == self.from && !met(one.address.vc));
        let others: i64 = match flaws.has(Planted::OthersForgotten) {
            true => 0,
            false => others
                .map(|one| signed(one.slots.transmit.occupied()))
                .sum(),
        };
        let missing: i64 = others + self.vcs.iter().map(|one| one.missing).sum::<i64>();
        if let Some(at) = receiver.interface(&self.to) {
            let mut line = at.line.unwrap_or_default();
            if flaws.has(Planted::ReasonsMixed) {
                (line.lost, line.queue_full) = (line.queue_full, line.lost);
            }
            let twice = match flaws.has(Planted::TwiceIsLost) {
                true => signed(line.duplicated),
                false => -signed(line.duplicated),
            };
            let reasons = [
                ("line: lost", signed(line.lost)),
                ("line: queue full", signed(line.queue_full)),
                ("line: too many on their way", signed(line.overflowed)),
                ("line: on their way", signed(line.in_flight)),
                ("line: came twice", twice),
                ("hec_error", signed(at.cells.hec_error)),
                ("unknown_vc", signed(at.cells.unknown_vc)),
                ("idle", signed(at.cells.idle)),
                ("no room before the adapter", signed(at.dropped_cells)),
            ];
            let some = reasons.into_iter().filter(|(_, cells)| *cells != 0);
            self.line = some
                .map(|(reason, cells)| Difference {
                    reason: reason.to_owned(),
                    cells,
                })
                .collect();
        }
        self.unexplained = missing - self.line.iter().map(|one| one.cells).sum::<i64>();
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason, self.cells)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapter::{Discard, VcStats};
    use crate::contract::Slots;

    fn account(address: &str, sent: u64, delivered: u64) -> Account {
        Account {
            address: address.parse().unwrap(),
            number: 1,
            contract: "ubr,aal5".to_owned(),
            slots: ConnectionSlots {
                transmit: Slots::of(0, sent, 0),
                receive: Slots::of(0, delivered, 0),
            },
            cells_received: delivered,
            cells_managing: 0,
            cells_held: 0,
            cells_discarded: DiscardCounts::default(),
            charge: None,
        }
    }

    fn interface(name: &str, line: LineCounts, cells: PortStats) -> AtInterface {
        AtInterface {
            name: name.to_owned(),
            dropped_cells: 0,
            cells,
            line: Some(line),
        }
    }

    #[test]
    fn each_cell_in_which_two_ends_differ_has_a_reason() {
        let sender = Accounts {
            connections: vec![account("a.0.60", 1_000, 0), account("a.0.61", 200, 0)],
            interfaces: Vec::new(),
        };
        let mut to = account("b.0.60", 900, 0);
        (to.slots.receive, to.slots.transmit) = (Slots::of(0, 900, 0), Slots::default());
        to.cells_discarded.add(Discard::CrcError, 60);
        to.cells_discarded.add(Discard::NonConforming, 7);
        to.cells_held = 3;
        to.cells_received = 970;
        let line = LineCounts {
            lost: 21,
            duplicated: 2,
            ..LineCounts::default()
        };
        let cells = PortStats {
            unknown_vc: 200,
            hec_error: 10,
            ..PortStats::default()
        };
        let receiver = Accounts {
            connections: vec![to],
            interfaces: vec![interface("b", line, cells)],
        };
        let ways = sender.ways_to(&receiver);
        let [way] = &ways[..] else {
            panic!("{ways:?}");
        };
        let told = |all: &[Difference]| all.iter().map(ToString::to_string).collect::<Vec<_>>();
        let [vc] = &way.vcs[..] else {
            panic!("{way:?}");
        };
        assert_eq!((vc.sent, vc.delivered, vc.missing), (1_000, 900, 30));
        assert_eq!(
            told(&vc.differences),
            [
                "non_conforming: 7",
                "crc_error: 60",
                "held: their PDU is in progress: 3"
            ]
        );
        assert_eq!(
            told(&way.line),
            [
                "line: lost: 21",
                "line: came twice: -2",
                "hec_error: 10",
                "unknown_vc: 200"
            ]
        );
        // 30 of one VC and 200 of the other, of which 229 have a reason.
        assert_eq!(way.unexplained, 1);
    }

    #[test]
    fn a_connection_costs_its_set_up_and_both_directions() {
        let mut info = ConnectionInfo::new(4, "a.0.60".parse().unwrap(), "ubr,aal5");
        info.stats = VcStats {
            cells_received: 12,
            cells_answered: 2,
            ..VcStats::default()
        };
        info.slots.transmit = Slots::of(50, 20, 0);
        info.slots.receive = Slots::of(0, 10, 10);
        let tariff = Tariff {
            currency: "EUR".to_owned(),
            set_up: "1".parse().unwrap(),
            reserved_slot: "0.01".parse().unwrap(),
            cell_clp0: "0.1".parse().unwrap(),
            cell_clp1: "0.001".parse().unwrap(),
        };
        let accounts = Accounts::of(&[info], &[], Some(&tariff));
        let account = &accounts.connections[0];
        assert_eq!(account.cells_received, 10);
        let charge = account.charge.as_ref().unwrap();
        let told = [charge.transmit, charge.receive, charge.total].map(|sum| sum.to_string());
        assert_eq!(told, ["2.50", "0.01", "3.51"]);
        let text = serde_json::to_string(&accounts).unwrap();
        assert_eq!(serde_json::from_str::<Accounts>(&text).unwrap(), accounts);
    }
}
