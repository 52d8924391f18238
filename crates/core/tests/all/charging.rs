//! Slots, what they cost, and where two ends differ: by the letter, and with bugs on purpose.

use cellgate_core::Time;
use cellgate_core::adapter::{AbrStats, Discard, DiscardCounts, PortStats, VcStats};
use cellgate_core::contract::charging::{Flaws, Planted, Sound};
use cellgate_core::contract::{SlotClock, Slots, Tariff};
use cellgate_core::line::LineCounts;
use cellgate_core::server::{Account, Accounts, AtInterface, ConnectionInfo, ConnectionSlots, Way};

const NS: u64 = 1_000_000_000;

fn at(ns: u64) -> Time {
    Time::from_ns(ns)
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, here: T, due: T) -> Result<(), String> {
    let is_so = here == due;
    is_so
        .then_some(())
        .ok_or_else(|| format!("{what}: {here:?}, due {due:?}"))
}

/// The slots of rates one after the other, counted with fractions of 10^-9.
fn slots_are_those_of_the_rates(flaws: &dyn Has) -> Result<(), String> {
    let rates = [1_000, 0, 353_207, 7, 1_000];
    let mut clock = SlotClock::begin_with(at(5), rates[0], &flaws);
    let (mut parts, mut now) = (u128::from(NS), 5);
    for (n, cell_s) in rates.into_iter().enumerate() {
        if n > 0 {
            clock = clock.changed_with(at(now), cell_s, &flaws);
        }
        now += 1_234_567_891 + 333 * n as u64;
        parts += u128::from(1_234_567_891 + 333 * n as u64) * u128::from(cell_s);
        let due = (parts / u128::from(NS)) as u64;
        same("slots", clock.begun(at(now)), due)?;
    }
    Ok(())
}

fn what_reserves_late_has_a_slot_at_once(flaws: &dyn Has) -> Result<(), String> {
    let clock = SlotClock::begin_with(at(0), 0, &flaws);
    let clock = clock.changed_with(at(NS), 10, &flaws);
    same("slots", clock.begun(at(NS)), 1)
}

/// Occupied and unoccupied slots are those that were granted, exactly.
fn slots_are_occupied_or_not(flaws: &dyn Has) -> Result<(), String> {
    for (reserved, cells, clp1) in [(0, 0, 0), (10, 3, 1), (10, 10, 4), (10, 25, 5), (0, 9, 2)] {
        let slots = Slots::of_with(reserved, cells, clp1, &flaws);
        same(
            "CLP 0 and 1",
            (slots.clp0, slots.clp1),
            (cells - clp1, clp1),
        )?;
        same("occupied", slots.occupied(), cells)?;
        let granted = u64::max(reserved, cells);
        same("granted", slots.occupied() + slots.unoccupied, granted)?;
    }
    Ok(())
}

fn tariff() -> Tariff {
    Tariff {
        currency: "EUR".to_owned(),
        set_up: "0.5".parse().expect("an amount"),
        reserved_slot: "0.00000001".parse().expect("an amount"),
        cell_clp0: "0.0002".parse().expect("an amount"),
        cell_clp1: "0.00005".parse().expect("an amount"),
    }
}

fn connection(vc: &str, sent: Slots, delivered: Slots) -> ConnectionInfo {
    let mut info = ConnectionInfo::new(1, vc.parse().expect("an address"), "ubr,aal5");
    (info.slots.transmit, info.slots.receive) = (sent, delivered);
    info
}

fn a_connection_costs_what_the_tariff_says(flaws: &dyn Has) -> Result<(), String> {
    let info = connection(
        "a.0.60",
        Slots::of(3_000, 1_000, 100),
        Slots::of(10, 30, 30),
    );
    let accounts = Accounts::of_with(&[info], &[], Some(&tariff()), &flaws);
    let charge = accounts.connections[0].charge.clone();
    let charge = charge.ok_or("no charge")?;
    // 3,000 slots, 900 and 100 cells; 10 slots, 30 cells.
    same(
        "transmit",
        charge.transmit.to_string(),
        "0.18503".to_owned(),
    )?;
    same(
        "receive",
        charge.receive.to_string(),
        "0.0015001".to_owned(),
    )?;
    same("total", charge.total.to_string(), "0.6865301".to_owned())
}

fn cells_that_came_are_those_of_the_connection(flaws: &dyn Has) -> Result<(), String> {
    let mut info = connection("b.0.60", Slots::default(), Slots::of(0, 80, 0));
    info.stats = VcStats {
        cells_received: 100,
        cells_answered: 7,
        abr: Some(AbrStats {
            forward_received: 3,
            backward_received: 2,
            ..AbrStats::default()
        }),
        ..VcStats::default()
    };
    let accounts = Accounts::of_with(&[info], &[], None, &flaws);
    let account = &accounts.connections[0];
    same("received", account.cells_received, 98)?;
    same("managing", account.cells_managing, 5)
}

fn account(vc: &str, sent: u64, delivered: u64) -> Account {
    Account {
        address: vc.parse().expect("an address"),
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

/// What 1,200 cells of two VCs and 50 of one that nobody has open have come to.
fn ways(flaws: &dyn Has) -> Vec<Way> {
    let sender = Accounts {
        connections: [("a.0.60", 1_000), ("a.0.61", 200), ("a.0.62", 50)]
            .map(|(vc, sent)| account(vc, sent, 0))
            .into(),
        interfaces: Vec::new(),
    };
    let mut first = account("b.0.60", 0, 900);
    first.cells_discarded.add(Discard::CrcError, 60);
    first.cells_held = 3;
    first.cells_received = 963;
    let receiver = Accounts {
        connections: vec![first, account("b.0.61", 0, 199)],
        interfaces: vec![AtInterface {
            name: "b".to_owned(),
            dropped_cells: 4,
            cells: PortStats {
                unknown_vc: 50,
                hec_error: 6,
                ..PortStats::default()
            },
            line: Some(LineCounts {
                lost: 20,
                queue_full: 10,
                duplicated: 2,
                ..LineCounts::default()
            }),
        }],
    };
    sender.ways_with(&receiver, &flaws)
}

/// Two ends differ by what the line and the reader have counted, and by nothing else.
fn each_cell_in_which_two_ends_differ_has_its_reason(flaws: &dyn Has) -> Result<(), String> {
    let ways = ways(flaws);
    let [way] = &ways[..] else {
        return Err(format!("{} ways", ways.len()));
    };
    let told = |way: &[cellgate_core::server::Difference]| -> Vec<String> {
        way.iter().map(ToString::to_string).collect()
    };
    let vcs: Vec<_> = way
        .vcs
        .iter()
        .map(|vc| (vc.sent, vc.delivered, vc.missing))
        .collect();
    same("VCs", vcs, vec![(1_000, 900, 37), (200, 199, 1)])?;
    let reasons = told(&way.vcs[0].differences);
    let due = ["crc_error: 60", "held: their PDU is in progress: 3"];
    same("reader", reasons, due.map(str::to_owned).into())?;
    let due = [
        "line: lost: 20",
        "line: queue full: 10",
        "line: came twice: -2",
        "hec_error: 6",
        "unknown_vc: 50",
        "no room before the adapter: 4",
    ];
    same("line", told(&way.line), due.map(str::to_owned).into())?;
    same("unexplained", way.unexplained, 0)
}

/// As [`Flaws`], of whoever that is.
trait Has {
    fn one(&self) -> Option<Planted>;
}

impl Has for Sound {
    fn one(&self) -> Option<Planted> {
        None
    }
}

impl Has for Planted {
    fn one(&self) -> Option<Planted> {
        Some(*self)
    }
}

impl Flaws for &dyn Has {
    fn has(&self, bug: Planted) -> bool {
        self.one() == Some(bug)
    }
}

type Case = fn(&dyn Has) -> Result<(), String>;

const CASES: [(&str, Case); 6] = [
    ("slots_are_those_of_the_rates", slots_are_those_of_the_rates),
    (
        "what_reserves_late_has_a_slot_at_once",
        what_reserves_late_has_a_slot_at_once,
    ),
    ("slots_are_occupied_or_not", slots_are_occupied_or_not),
    (
        "a_connection_costs_what_the_tariff_says",
        a_connection_costs_what_the_tariff_says,
    ),
    (
        "cells_that_came_are_those_of_the_connection",
        cells_that_came_are_those_of_the_connection,
    ),
    (
        "each_cell_in_which_two_ends_differ_has_its_reason",
        each_cell_in_which_two_ends_differ_has_its_reason,
    ),
];

#[test]
fn slots_charges_and_accounts_are_exact() {
    for (name, case) in CASES {
        assert_eq!(case(&Sound), Ok(()), "{name}");
    }
}

#[test]
fn each_planted_bug_of_charging_is_noticed() {
    for bug in Planted::ALL {
        let noticed = CASES.iter().find_map(|(name, case)| {
            let wrong = case(bug).err()?;
            Some(format!("{name}: {wrong}"))
        });
        println!("{bug:?} is noticed by {noticed:?}");
        assert!(noticed.is_some(), "{bug:?}");
    }
}
