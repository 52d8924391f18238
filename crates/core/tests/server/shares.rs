//! Best effort divides the rest.

use cellgate_core::server::{AdapterAsk, Claim, Confirm, Indication, Request, divide};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::world::{LINE, World, config, user};

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
    assert_eq!(policed, [Some(receive / 4), Some(b_receive), Some(100_000)]);
    assert!(matches!(
        world.done(guaranteed, Request::Close),
        Ok(Confirm::Closed { .. })
    ));
    assert_eq!(told(&mut world, a), Some((rest / 4, rest / 4)));
    world.hang_up(b);
    world.finish();
    assert_eq!(told(&mut world, a), Some((rest, rest)));
}

/// The adapter has taken a share, and its server has died before it could say so.
#[test]
fn a_successor_tells_the_share_that_the_adapter_has() {
    let (mut world, _) = World::with_wan(config());
    let reader = world.opened(user(1), 100, "ubr:max_sdu=1500,tx:none");
    let guaranteed = world.opened(user(2), 101, "cbr:pcr=100000,max_sdu=1500,tx:none");
    let heard = |world: &mut World| {
        let told = world.indications(reader).into_iter();
        let mut shares = told.filter_map(|(_, one)| match one {
            Indication::Share { receive, .. } => receive.map(|rate| rate.cell_s()),
            _ => None,
        });
        shares.next_back()
    };
    assert_eq!(heard(&mut world), Some(LINE - 100_000));
    world.send(guaranteed, Request::Close);
    let shares = |ask: &AdapterAsk| matches!(ask, AdapterAsk::Modify { .. });
    while !world.asks.iter().any(|(_, ask)| shares(ask)) {
        world.answer(0);
    }
    while !shares(&world.asks[0].1) {
        world.answer(0);
    }
    world.restart(1);
    world.finish();
    assert_eq!(heard(&mut world), Some(LINE));
}
