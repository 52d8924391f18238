//! ABR: the least rate is reserved, the rest is a share, and the application hears of its rate.

use cellgate_core::adapter::{AbrStats, AdapterState, AdapterStats, VcInfo, VcStats};
use cellgate_core::contract::RateReason;
use cellgate_core::server::{Confirm, Indication, Refused, Request, Resource};

use super::world::{FIRST, LINE, World, config, user};

#[test]
fn the_least_rate_is_reserved_and_the_rest_is_a_share() {
    let (mut world, monitor) = World::with_wan(config());
    let contract = "abr,aal5:pcr=300000,min_pcr=50000,max_sdu=1500";
    let client = world.opened(user(1), 100, contract);
    let all = world.list(monitor);
    assert_eq!(all[0].contract, contract);
    assert!(!all[0].guaranteed, "not as a whole");
    assert_eq!(all[0].transmit.map(|rate| rate.cell_s()), Some(300_000));
    let reserved = |world: &mut World| {
        let all = world.resources(monitor);
        let mut line = all
            .iter()
            .filter(|one| one.resource == Resource::TransmitBandwidth);
        line.next().map(|one| one.reserved)
    };
    assert_eq!(reserved(&mut world), Some(50_000));
    assert!(all[0].cpu_reserved_ppm > 0);
    let sent = world.adapter.vcs.values().next().unwrap().request.transmit;
    let sent = sent.unwrap();
    assert_eq!(sent.guaranteed().map(|rate| rate.cell_s()), Some(50_000));
    assert_eq!(
        (sent.rate, sent.peak.map(|rate| rate.cell_s())),
        (None, Some(300_000))
    );
    // Beside another of best effort it has its floor, and a part of the rest by weight.
    world.opened(user(2), 101, "ubr,aal5:min_pcr=50000,max_sdu=1500");
    let rate = world.list(monitor)[0].transmit.map(|rate| rate.cell_s());
    assert_eq!(rate, Some(50_000 + (LINE - 50_000) / 2));
    world.hang_up(client);
    world.finish();
    assert_eq!(reserved(&mut world), Some(0));
}

#[test]
fn a_least_rate_that_does_not_fit_comes_with_one_that_does() {
    let (mut world, client) = World::with_wan(config());
    world.opened(user(1), 100, "cbr:pcr=200000,max_sdu=1500");
    for asked in [300_000, 1_000_000] {
        let contract = format!("abr,aal5:min_pcr={asked},max_sdu=1500");
        let refused = match world.open(client, 101, &contract) {
            Err(Refused::Admission(refused)) => refused,
            other => panic!("{asked}: {other:?}"),
        };
        let offer = refused.offer.expect("something fits");
        assert!(offer.contains("min_pcr="), "{offer}");
        let opened = world.open(client, 101, &offer);
        assert!(
            matches!(opened, Ok(Confirm::Opened(_))),
            "{offer}: {opened:?}"
        );
        let closed = world.done(client, Request::Close);
        assert!(matches!(closed, Ok(Confirm::Closed { .. })), "{closed:?}");
    }
}

#[test]
fn its_application_hears_of_the_rate() {
    let (mut world, _) = World::with_wan(config());
    let client = world.opened(user(1), 100, "abr,aal5:pcr=1000,min_pcr=10,max_sdu=1500");
    world.indications(client);
    let (vc, kept) = world.adapter.vcs.iter().next().unwrap();
    let info = VcInfo {
        vc: *vc,
        request: kept.request,
        stats: VcStats {
            abr: Some(AbrStats {
                allowed_cell_s: 400,
                floor_cell_s: 10,
                reason: RateReason::ExplicitRate,
                ..AbrStats::default()
            }),
            ..VcStats::default()
        },
    };
    let state = AdapterState {
        time: world.now,
        stats: AdapterStats::default(),
        vcs: vec![info],
        next: None,
    };
    world.server.handle_report(world.now, FIRST, &state);
    world.drain();
    let told = world.indications(client).into_iter().map(|(_, told)| told);
    let rate = Indication::Rate {
        allowed_cell_s: 400,
        floor_cell_s: 10,
        reason: RateReason::ExplicitRate,
    };
    assert_eq!(told.collect::<Vec<_>>(), [rate]);
}
