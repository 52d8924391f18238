//! Best effort divides the rest.

use cellgate_core::server::{Claim, Confirm, Indication, Request, divide};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::world::{LINE, World, config, user};

fn weighing(weights: &[u32]) -> Vec<Claim> {
    let claim = |weight: &u32| Claim {
        weight: *weight,
        most: None,
    };
    weights.iter().map(claim).collect()
}

#[test]
fn shares_go_by_weight() {
    assert_eq!(divide(600, &weighing(&[1, 2, 3])), [100, 200, 300]);
    assert_eq!(divide(10, &weighing(&[0, 1, 1])), [3, 3, 4]);
    assert_eq!(divide(7, &[]), [0; 0]);
    // One for each, at the expense of the largest.
    assert_eq!(divide(10, &weighing(&[1, 1_000, 1])), [1, 8, 1]);
    assert_eq!(divide(2, &weighing(&[1, 1, 1])).iter().sum::<u64>(), 2);
}

#[test]
fn what_one_may_not_have_goes_to_the_others() {
    let mut claims = weighing(&[1, 1, 2]);
    claims[0].most = Some(10);
    assert_eq!(divide(400, &claims), [10, 130, 260]);
    claims[2].most = Some(100);
    assert_eq!(divide(400, &claims), [10, 290, 100]);
    claims[1].most = Some(50);
    assert_eq!(divide(400, &claims), [10, 50, 100]);
}

#[test]
fn the_sum_is_the_rest_whatever_the_claims() {
    for seed in 0..2_000 {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let count = 1 + random.next_u32() % 40;
        let claims: Vec<Claim> = (0..count)
            .map(|_| Claim {
                weight: random.next_u32() >> (random.next_u32() % 32),
                most: random
                    .next_u32()
                    .is_multiple_of(3)
                    .then(|| u64::from(1 + (random.next_u32() >> (random.next_u32() % 32)))),
            })
            .collect();
        let rest = u64::from(count + (random.next_u32() >> (random.next_u32() % 32)));
        let shares = divide(rest, &claims);
        let bounds = claims.iter().map(|claim| claim.most.unwrap_or(u64::MAX));
        let bounds = bounds.fold(0_u64, u64::saturating_add);
        assert_eq!(shares.iter().sum::<u64>(), rest.min(bounds), "seed {seed}");
        for (claim, share) in claims.iter().zip(&shares) {
            assert!(*share > 0, "seed {seed}");
            assert!(claim.most.is_none_or(|most| *share <= most), "seed {seed}");
        }
    }
}

/// The cells/s that an application was told of last.
fn told(world: &mut World, client: cellgate_core::server::ClientId) -> Option<(u32, u32)> {
    let indications = world.indications(client);
    let mut shares = indications.into_iter().filter_map(|(_, one)| match one {
        Indication::Share {
            transmit, receive, ..
        } => Some((transmit?.cell_s(), receive?.cell_s())),
        _ => None,
    });
    shares.next_back()
}

#[test]
fn best_effort_adapts_as_guaranteed_connections_come_and_go() {
    let (mut world, _) = World::with_wan(config());
    let a = world.opened(user(1), 100, "ubr:max_sdu=1500");
    let b = world.opened(user(1), 101, "ubr:min_pcr=3,max_sdu=1500");
    let rest = LINE;
    assert_eq!(told(&mut world, a), Some((rest / 4, rest / 4)));
    let guaranteed = world.opened(user(2), 102, "cbr:pcr=100000,max_sdu=1500,tx:pcr=50000");
    let (transmit, receive) = (rest - 50_000, rest - 100_000);
    assert_eq!(told(&mut world, a), Some((transmit / 4, receive / 4)));
    let (b_transmit, b_receive) = (transmit - transmit / 4, receive - receive / 4);
    assert_eq!(told(&mut world, b), Some((b_transmit, b_receive)));
    let policed: Vec<_> = world.adapter.vcs.values().collect();
    let policed = policed
        .iter()
        .map(|kept| kept.request.receive.and_then(|r| r.rate));
    let policed: Vec<_> = policed.map(|rate| rate.map(|rate| rate.cell_s())).collect();
    // What was sent under a share may arrive under a smaller one: shares are never policed.
    assert_eq!(policed, [None, None, Some(100_000)]);
    assert!(matches!(
        world.done(guaranteed, Request::Close),
        Ok(Confirm::Closed { .. })
    ));
    assert_eq!(told(&mut world, a), Some((rest / 4, rest / 4)));
    world.hang_up(b);
    world.finish();
    assert_eq!(told(&mut world, a), Some((rest, rest)));
}

/// A server may have died before it could tell an application its share.
#[test]
fn a_successor_tells_the_share_whatever_was_told_before() {
    let (mut world, _) = World::with_wan(config());
    let best_effort = world.opened(user(1), 100, "ubr:max_sdu=1500");
    world.opened(user(2), 101, "cbr:pcr=100000,max_sdu=1500");
    let rest = Some((LINE - 100_000, LINE - 100_000));
    assert_eq!(told(&mut world, best_effort), rest);
    assert_eq!(told(&mut world, best_effort), None);
    world.restart(1);
    world.finish();
    assert_eq!(told(&mut world, best_effort), rest);
}

#[test]
fn best_effort_is_policed_by_a_peak_rate_of_its_own_alone() {
    let (mut world, _) = World::with_wan(config());
    let client = world.opened(user(1), 100, "ubr:pcr=100000,max_sdu=1500");
    let policed = |world: &World| {
        let mut vcs = world.adapter.vcs.values();
        let receive = vcs.next().and_then(|kept| kept.request.receive);
        receive.and_then(|receive| receive.rate.map(|rate| rate.cell_s()))
    };
    assert_eq!(policed(&world), Some(100_000));
    // Its share is half of that, for a while.
    let other = world.opened(user(2), 101, "cbr:pcr=300000,max_sdu=1500");
    assert_eq!(
        told(&mut world, client),
        Some((LINE - 300_000, LINE - 300_000))
    );
    assert_eq!(policed(&world), Some(100_000));
    world.hang_up(other);
    world.restart(1);
    world.finish();
    assert_eq!(policed(&world), Some(100_000));
}
