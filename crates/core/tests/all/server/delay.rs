//! How long PDUs take at most: the arithmetic, and a schedule that keeps it.

use std::collections::VecDeque;

use cellgate_core::Time;
use cellgate_core::adapter::{
    Assumptions, Class, Interleaving, Marks, Notification, PortIndex, Schedule, Terms, Transmit,
    VcIndex,
};
use cellgate_core::contract::CellRate;
use cellgate_core::server::{
    Confirm, Precedence, ReceiveBound, Request, Surroundings, TransmitBound,
};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::world::{World, config, open, user};

const LINE: PortIndex = PortIndex(0);

const AROUND: Surroundings = Surroundings {
    line: CellRate::OC3,
    others: Precedence {
        cells: 0,
        made_good: 0,
    },
    rest_late_ns: None,
    gap_max_ns: 30_000_000,
    wake_up_ns: 10_000_000,
};

fn terms(text: &str) -> Terms {
    let assumptions = Assumptions {
        line: CellRate::OC3,
        cdvt_ns: 1_000_000,
        interleaving: Interleaving {
            mids: 2,
            reassembly_timeout_ns: 1_000_000_000,
        },
        notification: Notification::LastCell,
        marks: Marks::None,
        transmit_pdus: None,
        receive_pdus: 0,
        wake_up_ns: 10_000_000,
        gap_max_ns: 30_000_000,
        clump_cells: 29,
    };
    Terms::of(&text.parse().unwrap(), &assumptions).unwrap()
}

fn sends(text: &str, around: &Surroundings) -> TransmitBound {
    let terms = terms(text);
    let transmit = terms.transmit.unwrap();
    TransmitBound::of(&transmit, terms.transmit_cells(), 12, around).unwrap()
}

#[test]
fn a_bound_is_the_sum_of_its_parts() {
    // docs/contract.md computes the same: 171 cells of 8 us; a cell of each of 4 others and of best
    // effort, and a tick; 7/8 of 1 ms is made good, 100 cells of the others.
    let around = Surroundings {
        others: Precedence {
            cells: 4,
            made_good: 100,
        },
        rest_late_ns: Some(250_000),
        ..AROUND
    };
    let bound = sends("cbr,aal5:pcr=125000,max_sdu=8192", &around);
    let expected = TransmitBound {
        delay_ns: 1_368_000 + 15_181 + 718_750 + 31_158_121,
        jitter_ns: 33_260_052 - 485_000,
        queue_ns: 11 * 1_368_000,
        pacing_ns: 1_368_000,
        others_ns: 14_157 + 1_024,
        rest_ns: 218_750 + 2 * 250_000,
        stall_ns: 30_000_000 + 875_000 + 283_121,
    };
    assert_eq!(bound, expected);
    let receive = terms("cbr,aal5:pcr=125000,max_sdu=8192").receive.unwrap();
    let bound = ReceiveBound::of(&receive, &around).unwrap();
    let parts = [
        bound.rest_ns,
        bound.silent_ns,
        bound.wake_up_ns,
        bound.stall_ns,
    ];
    assert_eq!(parts, [250_000, 0, 10_000_000, 30_000_000]);
    assert_eq!((bound.delay_ns, bound.jitter_ns), (40_250_000, 40_250_000));
    assert_eq!(bound.without_stall_ns(), 10_250_000);
}

#[test]
fn what_a_short_cdvt_does_not_make_good_is_lost_by_each_cell() {
    let around = Surroundings {
        others: Precedence {
            cells: 100,
            made_good: 0,
        },
        ..AROUND
    };
    let kept = sends("cbr,aal5:pcr=1000,max_sdu=40,cdvt=1ms", &around);
    assert_eq!(kept.pacing_ns, 1_000_000);
    // 101 cells and a tick are 287 us, of which 87.5 are made good.
    let lost = sends("cbr,aal5:pcr=1000,max_sdu=40,cdvt=100us", &around);
    assert_eq!(lost.pacing_ns, 1_000_000 + (lost.others_ns - 87_500));
    let longer = sends("cbr,aal5:pcr=1000,max_sdu=1000,cdvt=100us", &around);
    assert_eq!(longer.pacing_ns, 21 * lost.pacing_ns);
}

#[test]
fn best_effort_has_no_bound() {
    let terms = terms("ubr,aal5:pcr=1000,max_sdu=1500");
    let (transmit, receive) = (terms.transmit.unwrap(), terms.receive.unwrap());
    assert_eq!(TransmitBound::of(&transmit, 32, 1, &AROUND), None);
    assert_eq!(ReceiveBound::of(&receive, &AROUND), None);
    assert_eq!(Precedence::of(&transmit), Precedence::default());
}

#[test]
fn what_others_may_send_first_is_what_the_schedule_says() {
    let texts = ["cbr:pcr=1000", "cbr:pcr=2000,burst=7", "cbr:pcr=50000"];
    let all: Vec<Transmit> = texts
        .iter()
        .map(|text| terms(text).transmit.unwrap())
        .collect();
    let mut schedule = Schedule::new(&[CellRate::OC3], 256, all.len() + 1);
    for (index, transmit) in all.iter().enumerate() {
        schedule.open(VcIndex(index as u16), LINE, class(transmit));
    }
    let sum = all
        .iter()
        .map(Precedence::of)
        .fold(Precedence::default(), Precedence::plus);
    for (text, transmit) in texts.iter().zip(&all) {
        let around = Surroundings {
            others: sum.without(Precedence::of(transmit)),
            ..AROUND
        };
        assert_eq!(
            sends(text, &around).others_ns,
            schedule.contention_ns(LINE),
            "{text}"
        );
    }
}

#[test]
fn a_server_tells_the_bound_beside_the_most_that_it_has_promised() {
    let mut world = World::with_wan(config()).0;
    let (first, second) = (world.hello(user(1)), world.hello(user(2)));
    let contract = "cbr,aal5:pcr=1000,max_sdu=1500";
    assert!(matches!(
        world.open(first, 100, contract),
        Ok(Confirm::Opened(_))
    ));
    let told = |world: &mut World| world.list(first)[0].bound;
    let alone = told(&mut world).transmit.unwrap();
    let burst = "cbr,aal5:pcr=1000,max_sdu=1500,burst=9";
    let opened = world.done(second, Request::Open(open(101, burst)));
    assert!(matches!(opened, Ok(Confirm::Opened(_))), "{opened:?}");
    let beside = told(&mut world).transmit.unwrap();
    // Its burst, and a cell that it makes good after a stall.
    let slots_ns = (9 + 1) * 1_000_000_000_u64 / 353_207;
    let more_ns = beside.delay_ns - alone.delay_ns;
    assert!(more_ns.abs_diff(slots_ns) <= 2, "{more_ns}");
    world.done(second, Request::Close).unwrap();
    assert_eq!(
        told(&mut world).transmit,
        Some(beside),
        "it was so since it is open"
    );
}

fn class(transmit: &Transmit) -> Class {
    Class::Guaranteed {
        rate: transmit.rate.unwrap(),
        cdvt_ns: transmit.cdvt_ns,
        burst: transmit.burst,
        sustained: transmit.sustained,
    }
}

/// A VC whose writer hands PDUs over.
struct Sender {
    transmit: Transmit,
    cells: u32,
    /// When each PDU was handed over.
    queue: VecDeque<Time>,
    /// Cells of the first that have left.
    gone: u32,
    /// Since when the first is the first.
    turn: Time,
    longest_ns: u64,
}

/// How late this adapter is up, and how long it stands still.
const LATE_NS: u64 = 100_000;
const GAP_NS: u64 = 30_000_000;

/// The longest that PDUs of each sender took, and what is promised of it. Writers are as irregular
/// as they like; the adapter stands still twice a second.
fn play(seed: u64) -> Vec<(u64, TransmitBound)> {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let mut below = |n: u64| rng.next_u64() % n;
    let mut left = 335_000;
    let mut senders = Vec::new();
    while left > 2_000 && senders.len() < 24 {
        let rate = (1_000 + below(left.min(60_000) - 1_000)) as u32;
        left -= u64::from(rate);
        let cells = 1 + below(30) as u32;
        let cdvt_us = [1_000, 1_000, 4_000][below(3) as usize];
        let burst = [1, 1, 1, 5][below(4) as usize];
        let sdu = cells * 48 - 8;
        let text = format!("cbr,aal5:pcr={rate},max_sdu={sdu},cdvt={cdvt_us}us,burst={burst}");
        senders.push(Sender {
            transmit: terms(&text).transmit.unwrap(),
            cells,
            queue: VecDeque::new(),
            gone: 0,
            turn: Time::ZERO,
            longest_ns: 0,
        });
    }
    let mut schedule = Schedule::new(&[CellRate::OC3], 256, senders.len() + 1);
    for (index, sender) in senders.iter().enumerate() {
        schedule.open(VcIndex(index as u16), LINE, class(&sender.transmit));
    }
    let greedy = VcIndex(senders.len() as u16);
    let weight = Class::BestEffort {
        weight: 1,
        peak: None,
    };
    schedule.open(greedy, LINE, weight);
    let mut now = Time::from_ns(1_000_000_000);
    schedule.activate(now, greedy);
    let mut stall = now.plus_ns(100_000_000);
    while now < Time::from_ns(3_000_000_000) {
        let before = now;
        now = match now >= stall {
            true => {
                stall = now.plus_ns(400_000_000 + below(200_000_000));
                now.plus_ns(GAP_NS)
            }
            // A quarter of the 875 us that all make good, and a wake-up.
            false => now.plus_ns(1 + below(218_750 + LATE_NS)),
        };
        for (index, sender) in senders.iter_mut().enumerate() {
            let rate = u64::from(sender.transmit.rate.unwrap().cell_s());
            let pdu_ns = u64::from(sender.cells) * 1_000_000_000 / rate;
            // As many as its rate allows, or none for a while, or two at once.
            let passed_ns = now.since_ns(before);
            if sender.queue.len() < 6 && below(pdu_ns.max(1)) < passed_ns {
                let rang = before.plus_ns(passed_ns - below(passed_ns.min(LATE_NS) + 1));
                for _ in 0..1 + below(2) {
                    if sender.queue.is_empty() {
                        sender.turn = rang;
                    }
                    sender.queue.push_back(rang);
                }
                schedule.activate(now, VcIndex(index as u16));
            }
        }
        while let Some(grant) = schedule.grant(now, LINE, 1) {
            schedule.sent(now, grant.vc, 1);
            let Some(sender) = senders.get_mut(usize::from(grant.vc.0)) else {
                continue;
            };
            sender.gone += 1;
            if sender.gone == sender.cells {
                sender.gone = 0;
                sender.queue.pop_front();
                sender.longest_ns = sender.longest_ns.max(now.since_ns(sender.turn));
                sender.turn = now;
                if sender.queue.is_empty() {
                    schedule.deactivate(grant.vc);
                }
            }
        }
    }
    let each = senders.iter().map(|one| Precedence::of(&one.transmit));
    let all = each.fold(Precedence::default(), Precedence::plus);
    let told = senders.iter().map(|sender| {
        let around = Surroundings {
            others: all.without(Precedence::of(&sender.transmit)),
            rest_late_ns: Some(LATE_NS),
            gap_max_ns: GAP_NS,
            ..AROUND
        };
        let bound = TransmitBound::of(&sender.transmit, sender.cells, 1, &around);
        (sender.longest_ns, bound.unwrap())
    });
    told.collect()
}

/// Whether PDUs took no longer than `bound` says.
fn keeps(all: &[(u64, TransmitBound)], bound: impl Fn(&TransmitBound) -> u64) -> bool {
    all.iter()
        .all(|(longest_ns, told)| *longest_ns <= bound(told))
}

fn over(all: &[(u64, TransmitBound)]) -> Vec<&(u64, TransmitBound)> {
    all.iter()
        .filter(|(ns, bound)| *ns > bound.delay_ns)
        .collect()
}

#[test]
fn no_pdu_of_a_schedule_takes_longer_than_its_bound() {
    let mut closest = 0;
    let mut without = [0; 3];
    for seed in 0..20 {
        let all = play(seed);
        assert!(
            all.iter().all(|(longest_ns, _)| *longest_ns > 0),
            "seed {seed}: nothing sent"
        );
        assert!(
            keeps(&all, |bound| bound.delay_ns),
            "seed {seed}: {:#?}",
            over(&all)
        );
        let percent = all.iter().map(|(ns, bound)| ns * 100 / bound.delay_ns);
        closest = closest.max(percent.max().unwrap_or(0));
        // Bounds that forget a part are too small, and are found out.
        let parts: [fn(&TransmitBound) -> u64; 3] = [
            |bound| bound.delay_ns - bound.stall_ns,
            |bound| bound.delay_ns - bound.pacing_ns,
            |bound| bound.pacing_ns,
        ];
        for (count, part) in without.iter_mut().zip(parts) {
            *count += u32::from(!keeps(&all, part));
        }
    }
    assert!(
        closest >= 70,
        "the bound is far off: {closest} % of it were seen"
    );
    assert!(without.iter().all(|found| *found > 0), "{without:?}");
}
