//! Connections of ABR between hosts of the world, through a switch that marks.

use cellgate_lab::world::scenario::{
    ConnectionSpec, HostSpec, LinkSpec, Scenario, SourceSpec, SwitchSpec, Traffic,
};
use cellgate_lab::world::{Options, Outcome, QueueMark, check};

/// Two hosts that send whenever they may, over one link of 10 Mbit/s: 23,584 cells/s.
fn shared(mark: Option<QueueMark>) -> Scenario {
    let contract = "abr,aal5:pcr=20000cps,icr=500,max_sdu=400,cdvt=1ms";
    let hosts = ["a", "b", "reader"];
    let connection = |name: &str, vci: u16| {
        let address = format!("0.{vci}").parse().expect("an address");
        ConnectionSpec::between(name, [name, "reader"], address, contract)
    };
    let source = |name: &str| SourceSpec {
        by_adapter: true,
        ..SourceSpec::on(name, Traffic::Paced { cell_s: 20_000 }, &[400])
    };
    Scenario {
        duration_ns: 4_000_000_000,
        hosts: hosts.map(HostSpec::named).into(),
        switches: vec![SwitchSpec {
            queue_cells: 200,
            mark,
            ..SwitchSpec::named("s")
        }],
        links: vec![
            LinkSpec::between("a", "s"),
            LinkSpec::between("b", "s"),
            LinkSpec {
                bit_s: 10_000_000,
                ..LinkSpec::between("s", "reader")
            },
        ],
        connections: vec![connection("a", 60), connection("b", 61)],
        sources: ["a", "b"].map(source).into(),
        ..Scenario::default()
    }
}

fn run(mark: Option<QueueMark>) -> (Outcome, u64) {
    let options = Options {
        reference: true,
        ..Options::default()
    };
    let outcome = check(&shared(mark), options).unwrap_or_else(|wrong| panic!("{mark:?}: {wrong}"));
    let outputs = outcome.switches.iter().flat_map(|switch| &switch.outputs);
    let lost = outputs.map(|output| output.discarded).sum();
    (outcome, lost)
}

#[test]
fn sources_of_abr_share_a_link_and_lose_nothing_where_its_switch_marks() {
    let marks = [
        QueueMark::Efci(20),
        QueueMark::Ci(20),
        QueueMark::Er { target_percent: 95 },
    ];
    for mark in marks {
        let (outcome, lost) = run(Some(mark));
        let cells = ["a", "b"].map(|name| outcome.connections[name].delivered_cells);
        println!("{mark:?}: {cells:?} cells, {lost} lost");
        assert_eq!(lost, 0, "{mark:?}");
        // Of 94,336 cells of the link, RM cells among them.
        let [less, more] = [cells[0].min(cells[1]), cells[0].max(cells[1])];
        assert!(less * 10 >= more * 9, "{mark:?}: {cells:?}");
        assert!(less + more > 94_336 * 6 / 10, "{mark:?}: {cells:?}");
    }
    let (_, lost) = run(None);
    assert!(lost > 1_000, "without marks {lost} are lost");
}
