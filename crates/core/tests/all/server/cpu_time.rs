//! CPU time of applications is promised out of what there is for workers, and given back.

use cellgate_core::server::{ClientId, CpuTime, Refused, Request, Resource};

use super::world::{ROOT, World, address, config, user};

const CONTRACT: &str = "ubr:max_sdu=1500";

fn time(percent: u64) -> CpuTime {
    CpuTime {
        tid: 4_711,
        budget_ns: percent * 100_000,
        period_ns: 10_000_000,
        address: None,
    }
}

/// The workers' time that is reserved.
fn reserved(world: &mut World, client: ClientId) -> u64 {
    let all = world.resources(client);
    let mut workers = all.iter().filter(|one| one.resource == Resource::WorkerCpu);
    workers.next().map(|one| one.reserved).unwrap()
}

fn free(refused: Result<u32, Refused>) -> (u64, Option<u32>) {
    match refused {
        Err(Refused::Admission(shortage)) => (shortage.free, shortage.quota),
        other => panic!("{other:?}"),
    }
}

#[test]
fn cpu_time_is_promised_once_and_given_back_with_its_socket() {
    let mut config = config();
    config.admission.worker_ppm = 900_000;
    let (mut world, root) = World::with_wan(config);
    let one = world.hello(ROOT);
    let other = world.hello(ROOT);
    assert_eq!(world.server.reserve_cpu(one, 0, &time(60)), Ok(600_000));
    assert_eq!(
        free(world.server.reserve_cpu(other, 0, &time(31))),
        (300_000, None)
    );
    assert_eq!(world.server.reserve_cpu(other, 0, &time(30)), Ok(300_000));
    // Who changes has its own back first, and keeps it where that is not enough.
    assert_eq!(
        free(world.server.reserve_cpu(one, 0, &time(61))),
        (600_000, None)
    );
    assert_eq!(world.server.cpu_ppm_of(one), Some(600_000));
    assert_eq!(world.server.reserve_cpu(one, 0, &time(10)), Ok(100_000));
    assert_eq!(reserved(&mut world, root), 400_000);
    assert_eq!(world.server.reserve_cpu(one, 0, &time(0)), Ok(0));
    assert_eq!(world.server.cpu_ppm_of(one), None);
    world.hang_up(other);
    assert_eq!(reserved(&mut world, root), 0);
}

#[test]
fn a_user_has_a_quarter_of_it() {
    let mut config = config();
    config.admission.worker_ppm = 1_000_000;
    let (mut world, _) = World::with_wan(config);
    let mine = [0; 3].map(|_| world.hello(user(1)));
    assert_eq!(world.server.reserve_cpu(mine[0], 0, &time(20)), Ok(200_000));
    assert_eq!(
        free(world.server.reserve_cpu(mine[1], 0, &time(6))),
        (50_000, Some(1))
    );
    assert_eq!(world.server.reserve_cpu(mine[1], 0, &time(5)), Ok(50_000));
    let others = world.hello(user(2));
    assert_eq!(world.server.reserve_cpu(others, 0, &time(25)), Ok(250_000));
    world.hang_up(mine[0]);
    assert_eq!(world.server.reserve_cpu(mine[2], 0, &time(20)), Ok(200_000));
}

#[test]
fn cpu_time_ends_with_its_connection() {
    let mut config = config();
    config.admission.worker_ppm = 1_000_000;
    let (mut world, root) = World::with_wan(config);
    let has = world.opened(ROOT, 100, CONTRACT);
    let theirs = world.opened(user(2), 101, CONTRACT);
    // Its own connection is meant where none is named; another socket names it.
    assert!(world.server.reserve_cpu(has, 0, &time(10)).is_ok());
    let names = world.hello(ROOT);
    let mut named = time(10);
    named.address = Some(address(100));
    assert!(world.server.reserve_cpu(names, 0, &named).is_ok());
    assert_eq!(
        world.server.reserve_cpu(theirs, 0, &named),
        Err(Refused::NotFound)
    );
    world.done(has, Request::Close).unwrap();
    for client in [has, names] {
        assert_eq!(world.server.cpu_ppm_of(client), None);
        world.server.release_cpu(client);
    }
    assert_eq!(reserved(&mut world, root), 0);
}

#[test]
fn what_no_thread_can_have_is_refused_by_name() {
    let (mut world, root) = World::with_wan(config());
    let mut ask = |budget_ns, period_ns| {
        let asked = CpuTime {
            budget_ns,
            period_ns,
            ..time(1)
        };
        world
            .server
            .reserve_cpu(root, 0, &asked)
            .unwrap_err()
            .to_string()
    };
    assert!(ask(2, 1).contains("it is from 1ms to 1s"));
    assert!(ask(1, u64::MAX).contains("it is from 1ms to 1s"));
    assert!(ask(u64::MAX, 1_000_000).contains("one thread has one CPU at most"));
}
