//! What is offered in place of what was refused: each is admitted at once.

use cellgate_core::contract::TrafficContract;
use cellgate_core::server::{Confirm, Quota, Refused, Request, Resource, ServerConfig};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::admission::shortage;
use super::world::{World, config, user};

/// Both ways, so that each can become any other.
fn random_exchange(random: &mut Pcg64Mcg) -> String {
    let mut below = |n: u64| random.next_u64() % n;
    let sdu = [40, 576, 1_500, 9_180, 65_535][below(5) as usize];
    let jitter = ["low", "default", "high"][below(3) as usize];
    let rate = 1 + below(60_000);
    match below(4) {
        0 => format!("ubr,aal5:max_sdu={sdu},jitter={jitter}"),
        1 => format!("vbr,aal5:pcr={rate},scr={rate},mbs=9,max_sdu={sdu},jitter={jitter}"),
        _ => format!("cbr,aal5:jitter={jitter},tx:pcr={rate},max_sdu={sdu},rx:pcr=9,max_sdu=99"),
    }
}

/// A machine that is short of one thing or another.
fn random_machine(random: &mut Pcg64Mcg) -> ServerConfig {
    let mut below = |n: u64| random.next_u64() % n;
    let mut config = config();
    config.limits.clients = 1_000;
    config.limits.clients_per_user = 1_000;
    let (admission, kind) = (&mut config.admission, below(6));
    admission.quota = Quota::NONE;
    let books = &mut admission.adapters[0];
    match kind {
        0 => books.cpu_ppm = 20_000 + below(200_000) as u32,
        1 => books.memory = (1 << 20) + below(8 << 20),
        2 => admission.quota.memory = (1 << 19) + below(8 << 20),
        3 => admission.quota.adapter_ppm = 10_000 + below(100_000) as u32,
        4 => admission.quota.cell_s = 1 + below(300_000),
        _ => admission.sdu_floor = Some(40),
    }
    config
}

#[test]
fn every_offer_is_admitted_when_it_is_asked_for_at_once() {
    let (mut rates, mut sizes, mut credits, mut changes) = (0, 0, 0, 0);
    for seed in 0..200 {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let (mut world, _) = World::with_wan(random_machine(&mut random));
        for vci in 100..130 {
            let contract = random_exchange(&mut random);
            let client = world.hello(user(7));
            let refused = match world.open(client, vci, &contract) {
                Ok(_) => {
                    // What is open asks for something else.
                    let contract = random_exchange(&mut random);
                    let changed = world.done(client, Request::Modify { contract });
                    let Err(Refused::Admission(refused)) = changed else {
                        continue;
                    };
                    let mut offers: Vec<_> = refused.offer.into_iter().collect();
                    offers.extend(refused.others);
                    if offers.is_empty() {
                        continue;
                    }
                    let contract = offers.swap_remove(random.next_u64() as usize % offers.len());
                    let shown = format!("seed {seed}: {contract}");
                    let changed = world.done(client, Request::Modify { contract });
                    assert!(
                        matches!(changed, Ok(Confirm::Modified { .. })),
                        "{shown}: {changed:?}"
                    );
                    changes += 1;
                    continue;
                }
                refused => shortage(refused),
            };
            let asked: TrafficContract = contract.parse().unwrap();
            for offer in refused.offer.iter().chain(&refused.others) {
                let opened = world.open(client, vci, offer);
                let shown = format!("seed {seed}: {offer} for {contract}: {opened:?}");
                assert!(matches!(opened, Ok(Confirm::Opened(_))), "{shown}");
                world.done(client, Request::Close).unwrap();
                let offer: TrafficContract = offer.parse().unwrap();
                let size = |contract: &TrafficContract| contract.transmit.unwrap().max_sdu;
                let jitter = |contract: &TrafficContract| contract.transmit.unwrap().jitter;
                let differs = jitter(&offer) != jitter(&asked);
                match (size(&offer) != size(&asked), differs) {
                    (false, false) => rates += 1,
                    (true, false) => sizes += 1,
                    (false, true) => credits += 1,
                    (true, true) => panic!("{shown}: two things differ"),
                }
            }
        }
    }
    let all = [rates, sizes, credits, changes];
    assert!(all.iter().all(|count| *count > 20), "{all:?}");
}

#[test]
fn who_is_short_of_memory_or_cpu_time_is_offered_other_pdus() {
    let mut small = config();
    small.admission.adapters[0].memory = 3 << 20;
    let (mut world, client) = World::with_wan(small);
    let refused = shortage(world.open(client, 100, "cbr:pcr=20000,max_sdu=65535,jitter=high"));
    assert_eq!(refused.resource, Resource::Memory);
    assert!(
        refused
            .others
            .iter()
            .any(|one| one.contains("max_sdu=") && one.contains("jitter=high"))
    );
    let text = refused.to_string();
    assert!(
        text.contains("; this would fit: ") && text.contains("; or this: "),
        "{text}"
    );
    let mut slow = config();
    slow.admission.adapters[0].cpu_ppm = 50_000;
    let (mut world, client) = World::with_wan(slow);
    let refused = shortage(world.open(client, 100, "cbr:pcr=50000,max_sdu=40"));
    assert_eq!(refused.resource, Resource::AdapterCpu);
    let larger = refused.others.first().expect("fewer PDUs");
    assert!(larger.starts_with("cbr:pcr=50000,max_sdu="), "{larger}");
    assert!(matches!(
        world.open(client, 100, larger),
        Ok(Confirm::Opened(_))
    ));
}
