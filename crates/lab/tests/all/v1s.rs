//! The V1S station and its host: what the paper measured comes out, and what it says of the
//! hardware holds.

use cellgate_core::upper::msna::{Notify, To};
use cellgate_lab::cbn::RingSpec;
use cellgate_lab::machine::v1s::{
    Destination, HostCosts, HostSpec, Network, Onward, Order, Script, Seat, Stage, V1sSpec,
};
use cellgate_lab::world::Ps;

const CELL: usize = 32;

const HOST: HostSpec = HostSpec {
    costs: HostCosts::PAPER,
    dally: Ps::ZERO,
    order: Order::InterruptFirst,
    dma: None,
};

/// Two stations, on channels 0 and 1, that receive on circuits 1 and 2.
fn pair(condition: Notify, one: Script, other: Script) -> Network<Script> {
    pair_of(
        HOST,
        V1sSpec::on(&RingSpec::PAPER, 0),
        condition,
        [one, other],
    )
}

fn pair_of(
    host: HostSpec,
    station: V1sSpec,
    condition: Notify,
    scripts: [Script; 2],
) -> Network<Script> {
    let seat = |(n, application): (u8, Script)| Seat {
        place: u32::from(n) * 100,
        station: V1sSpec {
            channel: n,
            ..station
        },
        host,
        circuits: vec![(u16::from(n) + 1, condition)],
        application,
    };
    let seats = (0..).zip(scripts).map(seat);
    Network::new(RingSpec::PAPER, seats.collect())
}

const fn to(vci: u16, channel: u8, octets: usize) -> Destination {
    Destination {
        vci,
        to: To::Channel(channel),
        octets,
    }
}

const LONG: Ps = Ps::from_ns(10_000_000_000);

#[test]
fn a_block_comes_octet_for_octet() {
    for len in [0, 1, 32, 33, 8_160] {
        let sends = Script::sends(to(2, 1, len), 3);
        let mut network = pair(Notify::Every, sends, Script::default());
        network.run(LONG, |network| {
            network.hosts()[1].counts().received_blocks == 3
        });
        let receiver = network.hosts()[1].application();
        assert_eq!((receiver.received.len(), receiver.wrong), (3, 0), "{len}");
    }
}

#[test]
fn each_word_crosses_the_ram_twice() {
    let sends = Script::sends(to(2, 1, 100 * CELL), 2);
    let mut network = pair(Notify::Every, sends, Script::default());
    network.run(LONG, |network| {
        network.hosts()[1].counts().received_blocks == 2
    });
    for station in network.stations() {
        assert_eq!(station.counts().accesses, 2 * 9 * 200);
    }
}

/// Station n receives on channel n.
fn receiving(circuits: [&[u16]; 3], scripts: [Script; 3], by_circuit: bool) -> Network<Script> {
    let seat = |(n, (circuits, application)): (u8, (&[u16], Script))| Seat {
        place: u32::from(n) * 80,
        station: V1sSpec {
            channel: n,
            by_circuit,
            ..V1sSpec::on(&RingSpec::PAPER, 0)
        },
        host: HOST,
        circuits: circuits.iter().map(|vci| (*vci, Notify::Every)).collect(),
        application,
    };
    let seats = (0..).zip(circuits.into_iter().zip(scripts));
    Network::new(RingSpec::PAPER, seats.map(seat).collect())
}

#[test]
fn a_block_to_all_comes_once_on_each_channel() {
    let all = Destination {
        to: To::All,
        ..to(9, 0, 70)
    };
    let scripts = [Script::sends(all, 2), Script::default(), Script::default()];
    let mut network = receiving([&[], &[9], &[9]], scripts, false);
    network.run(Ps::from_ns(5_000_000), |_| false);
    assert_eq!(network.stations()[0].counts().sent, 2 * 4 * 3);
    for host in &network.hosts()[1..] {
        assert_eq!(host.application().lengths, [70, 70]);
        assert_eq!(host.application().wrong, 0);
    }
}

#[test]
fn a_bridge_by_cell_hands_on_blocks_octet_for_octet() {
    let sends = Script::sends(to(2, 1, 100 * CELL - 1), 2);
    let scripts = [sends, Script::default(), Script::default()];
    let mut network = receiving([&[], &[2], &[3]], scripts, false);
    let onward = Onward { vci: 3, channel: 2 };
    network.seat(1).1.relays(2, onward);
    network.run(Ps::from_ns(50_000_000), |_| false);
    let hosts = network.hosts();
    assert_eq!(hosts[1].counts().received_blocks, 0);
    assert_eq!(hosts[1].counts().cells_written, 200);
    assert_eq!(hosts[1].charges().total(), hosts[1].counts().busy);
    assert_eq!(hosts[2].application().lengths, [100 * CELL - 1; 2]);
    assert_eq!(hosts[2].application().wrong, 0);
}

#[test]
fn circuits_with_fifos_of_their_own_are_read_in_turn() {
    let scripts = || {
        let to_one = Script::sends(to(7, 2, 60 * CELL), 3);
        let to_other = Script::sends(to(8, 2, 60 * CELL), 3);
        [to_one, to_other, Script::default()]
    };
    let blocks = |by_circuit| {
        let mut network = receiving([&[], &[], &[7, 8]], scripts(), by_circuit);
        network.run(Ps::from_ns(50_000_000), |_| false);
        let station = network.stations()[2].counts();
        assert_eq!((station.read, station.overflowed), (360, 0));
        assert_eq!(network.hosts()[2].application().wrong, 0);
        assert_eq!(network.hosts()[2].application().lengths, [60 * CELL; 6]);
        station.high_water
    };
    assert!(blocks(true) < blocks(false));
}

fn us(span: Ps) -> f64 {
    span.ps() as f64 / 1e6
}

#[test]
fn cells_are_sent_and_received_in_the_paper_s_time() {
    let mut times = Vec::new();
    for cells in [55, 155] {
        let sends = Script::sends(to(2, 1, cells * CELL), 1);
        let mut network = pair(Notify::Every, sends, Script::default());
        network.run(LONG, |network| {
            network.hosts()[1].counts().received_blocks == 1
        });
        let hosts = network.hosts();
        times.push((
            us(hosts[0].application().sent[0]),
            us(hosts[1].application().received[0]),
        ));
    }
    let sent = (times[1].0 - times[0].0) / 100.0;
    let received = (times[1].1 - times[0].1) / 100.0;
    assert!((sent / 15.9 - 1.0).abs() < 0.005, "{sent}");
    assert!((received / 18.03 - 1.0).abs() < 0.005, "{received}");
}

/// Round trips of one block, in microseconds.
fn ping(condition: Notify, cells: usize, stage: Stage) -> f64 {
    let one = Script::pings(to(2, 1, cells * CELL), 1);
    let other = Script::answers(to(1, 0, 0));
    let costs = HostCosts {
        stage,
        ..HostCosts::PAPER
    };
    let host = HostSpec { costs, ..HOST };
    let station = V1sSpec::on(&RingSpec::PAPER, 0);
    let mut network = pair_of(host, station, condition, [one, other]);
    network.run(LONG, |network| {
        network.hosts()[0].counts().received_blocks == 1
    });
    us(network.hosts()[0].application().received[0])
}

#[test]
fn a_ping_has_the_slopes_of_the_paper() {
    let slope = |condition| {
        let time = |cells| ping(condition, cells, Stage::Tight);
        (time(150) - time(50)) / 100.0
    };
    let every = slope(Notify::Every);
    let first = slope(Notify::First);
    let last = slope(Notify::Last);
    assert!((every / 36.06 - 1.0).abs() < 0.01, "{every}");
    assert!((first / 36.06 - 1.0).abs() < 0.01, "{first}");
    assert!((last / 67.86 - 1.0).abs() < 0.01, "{last}");
    let stages = Stage::ALL.map(|stage| ping(Notify::Every, 50, stage));
    assert!(
        stages.is_sorted_by(|slower, faster| slower > faster),
        "{stages:?}"
    );
}

/// Millions of bits of cells per second that each host reads, of hosts that cost nothing and send
/// without end on these channels.
fn costless(station: V1sSpec, channels: [&[u8]; 2]) -> Vec<f64> {
    let free = Ps::ZERO;
    let costs = HostCosts {
        transmit: free,
        receive: free,
        sent_block: free,
        received_block: free,
        blocks_cost: false,
        stage: Stage::Tight,
        ..HostCosts::PAPER
    };
    let host = HostSpec { costs, ..HOST };
    let station = V1sSpec {
        host_word: Ps::ZERO,
        ..station
    };
    let scripts = channels.map(|channels| {
        let to = channels.iter().map(|n| to(u16::from(*n) + 1, *n, CELL));
        Script::floods(to.collect())
    });
    let mut network = pair_of(host, station, Notify::Every, scripts);
    let (from, end) = (Ps::from_ns(2_000_000), Ps::from_ns(12_000_000));
    let counts = |network: &Network<Script>| -> Vec<u64> {
        let stations = network.stations().iter();
        stations.map(|station| station.counts().sent).collect()
    };
    network.run(from, |_| false);
    let before = counts(&network);
    network.run(end, |_| false);
    let mbit_s = 288.0 / us(end.since(from));
    let sent = counts(&network).into_iter().zip(before);
    sent.map(|(now, then)| (now - then) as f64 * mbit_s)
        .collect()
}

#[test]
fn the_ram_carries_a_quarter_of_its_words_each_way() {
    let station = V1sSpec::on(&RingSpec::PAPER, 0);
    let near = |is: f64, is_to_be: f64| assert!((is / is_to_be - 1.0).abs() < 0.025, "{is}");
    let one_way = costless(station, [&[1], &[]]);
    near(one_way[0], 44.4);
    let two_channels = costless(station, [&[1, 2], &[]]);
    near(two_channels[0], 51.2);
    let both = costless(station, [&[1], &[0]]);
    near((both[0] + both[1]) / 2.0, 25.6);
}

#[test]
fn half_the_ram_clock_halves_the_station() {
    let station = V1sSpec {
        cycle: Ps::new(2 * V1sSpec::CYCLE.ps()),
        ..V1sSpec::on(&RingSpec::PAPER, 0)
    };
    let both = costless(station, [&[1], &[0]]);
    let mean = (both[0] + both[1]) / 2.0;
    assert!((mean / 12.8 - 1.0).abs() < 0.025, "{mean}");
}

#[test]
fn a_cell_that_finds_256_is_lost_and_nobody_is_told() {
    let sends = Script::sends(to(2, 1, 255 * CELL), 2);
    let costs = HostCosts {
        sent_block: Ps::ZERO,
        ..HostCosts::PAPER
    };
    let host = HostSpec { costs, ..HOST };
    let station = V1sSpec::on(&RingSpec::PAPER, 0);
    let scripts = [sends, Script::default()];
    let mut network = pair_of(host, station, Notify::Last, scripts);
    network.run(Ps::from_ns(20_000_000), |_| false);
    let (counts, host) = (network.stations()[1].counts(), network.hosts()[1].counts());
    assert_eq!(counts.passed, 510);
    assert_eq!(counts.high_water, 256);
    assert!(counts.overflowed > 0);
    assert_eq!(counts.passed, counts.overflowed + counts.read);
    assert_eq!(host.received_blocks, 1);
    // The first cells of a block whose last are lost are held.
    assert!(host.discarded + 255 <= counts.read);
    // The sender hears nothing of it.
    assert_eq!(network.hosts()[0].counts().sent_blocks, 2);
}
