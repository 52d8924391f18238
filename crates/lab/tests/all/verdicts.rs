//! What users write is judged by what was promised: scenarios that no seed draws, of one
//! connection or two from `a` to `b`, and what must be found wrong with them, if anything.

use cellgate_lab::world::scenario::Scenario;
use cellgate_lab::world::{Failure, Options, check, with_bug};

/// A scenario of this length, with more of its top and of its link.
fn of(duration_ns: u64, top: &str, link: &str, connections: &[(&str, &str)]) -> Scenario {
    let mut text = format!(
        "duration_ns = {duration_ns}\n{top}\n\
         hosts = [{{ name = \"a\" }}, {{ name = \"b\" }}]\n\
         links = [{{ ends = [\"a\", \"b\"]{link} }}]\n"
    );
    for (n, (contract, source)) in connections.iter().enumerate() {
        text += &format!(
            "[[connections]]\nname = \"c{n}\"\nfrom = \"a\"\nto = \"b\"\n\
             address = \"0.{}\"\ncontract = \"{contract}\"\n\
             [[sources]]\nconnection = \"c{n}\"\n{source}\n",
            32 + n
        );
    }
    toml::from_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The invariant that is first violated, with a bug or without, where no reference runs beside.
fn found(scenario: &Scenario, bug: Option<&str>) -> Option<String> {
    let options = Options {
        reference: false,
        ..bug.map_or(Options::default(), |bug| with_bug(bug).expect(bug))
    };
    match check(scenario, options) {
        Ok(_) => None,
        Err(Failure::Violation(violation)) => Some(violation.invariant),
        Err(failure) => panic!("{failure}"),
    }
}

const BEST_EFFORT: &str = "ubr,aal5:max_sdu=1500";
const GREEDY: &str = "sdus = [1500]\nby_adapter = true\ntraffic = \"greedy\"";

fn paced(cell_s: u32, more: &str) -> String {
    format!("sdus = [400]\ntraffic = {{ paced = {{ cell_s = {cell_s} }} }}\n{more}")
}

#[test]
fn what_an_adapter_cannot_begin_at_once_is_promised_no_time() {
    let ms = 1_000_000;
    // More than the line has; more than the contract; no tolerance for what passes in a step.
    let two = of(
        20 * ms,
        "",
        "",
        &[(BEST_EFFORT, GREEDY), (BEST_EFFORT, GREEDY)],
    );
    assert_eq!(found(&two, None), None);
    for (contract, source) in [
        (
            "cbr,aal5:pcr=20000cps,max_sdu=400,cdvt=1ms",
            GREEDY.replace("1500", "400"),
        ),
        (
            "cbr,aal5:pcr=10000cps,max_sdu=400,cdvt=1ms",
            paced(20_000, "by_adapter = true"),
        ),
        (
            "vbr,aal5:pcr=60000cps,scr=20000cps,mbs=50,max_sdu=400,cdvt=1ms",
            "sdus = [400]\nby_adapter = true\ntraffic = { on_off = { cell_s = 60000, \
             on_ns = 1000000, off_ns = 2000000 } }"
                .to_owned(),
        ),
        (
            "cbr,aal5:pcr=90000cps,max_sdu=400",
            paced(90_000, "by_adapter = true"),
        ),
        (
            "cbr,aal5:pcr=200000cps,max_sdu=400",
            paced(200_000, "by_adapter = true"),
        ),
    ] {
        let scenario = of(20 * ms, "", "", &[(contract, &source)]);
        assert_eq!(found(&scenario, None), None, "{contract} {source}");
    }
    // What it can begin at once is promised one.
    let source = paced(90_000, "by_adapter = true");
    let conforms = of(
        20 * ms,
        "",
        "",
        &[("cbr,aal5:pcr=90000cps,max_sdu=400,cdvt=1ms", &source)],
    );
    assert_eq!(found(&conforms, None), None);
    let long = found(&conforms, Some("world: LineLong"));
    assert_eq!(long.as_deref(), Some("I7"));
}

#[test]
fn a_fault_of_a_host_is_no_excuse_for_what_it_does_not_touch() {
    let contract = "cbr,aal5:pcr=20000cps,max_sdu=400,cdvt=100us";
    for fault in ["adapter_stall", "host_stall", "interrupts_lost"] {
        let fault = format!("faults = [{{ {fault} = {{ host = \"a\", at_ns = 0, for_ns = 1 }} }}]");
        let scenario = of(20_000_000, &fault, "", &[(contract, &paced(20_000, ""))]);
        assert_eq!(found(&scenario, None), None, "{fault}");
        for (bug, invariant) in [
            ("world: SourceHurries", "I6"),
            ("world: WakeUpLate", "I7"),
            ("world: LineLong", "I7"),
        ] {
            let found = found(&scenario, Some(bug));
            assert_eq!(found.as_deref(), Some(invariant), "{fault} {bug}");
        }
    }
}

#[test]
fn a_flood_that_stops_is_owed_what_its_contract_has_until_then() {
    let contract = "cbr,aal5:pcr=20000cps,max_sdu=400";
    let stops = paced(200_000, "hazard = true\nstop_ns = 50000000");
    let scenario = of(100_000_000, "", "", &[(contract, &stops)]);
    assert_eq!(found(&scenario, None), None);
    let starved = found(&scenario, Some("RefusedCharged"));
    assert_eq!(starved.as_deref(), Some("I9"));
}

#[test]
fn stalls_that_no_step_parts_are_one() {
    for (cell_s, sdu) in [(20_000, 400), (100_000, 48)] {
        let contract = format!("cbr,aal5:pcr={cell_s}cps,max_sdu={sdu},cdvt=100us");
        let source = paced(cell_s, "").replace("400", &sdu.to_string());
        let stall = |at_ms: u64| {
            let at_ns = at_ms * 1_000_000;
            format!("{{ adapter_stall = {{ host = \"b\", at_ns = {at_ns}, for_ns = 2000000 }} }}")
        };
        let faults = |stalls: &[u64]| {
            let stalls: Vec<String> = stalls.iter().map(|at_ms| stall(*at_ms)).collect();
            format!("faults = [{}]", stalls.join(", "))
        };
        let of = |stalls: &[u64]| of(30_000_000, &faults(stalls), "", &[(&contract, &source)]);
        // Each by itself is covered, and what is lost then is told.
        for stalls in [&[5][..], &[5, 7], &[5, 12]] {
            assert_eq!(found(&of(stalls), None), None, "{stalls:?}");
        }
        let hurries = Some("world: SourceHurries");
        assert_eq!(found(&of(&[5, 12]), hurries).as_deref(), Some("I6"));
    }
}

#[test]
fn a_line_may_rest_where_a_fifo_does_not_last_a_step() {
    let fast = of(
        2_000_000,
        "",
        ", bit_s = 10000000000",
        &[(BEST_EFFORT, GREEDY)],
    );
    assert_eq!(found(&fast, None), None);
    let plain = of(20_000_000, "", "", &[(BEST_EFFORT, GREEDY)]);
    assert_eq!(found(&plain, None), None);
    let withheld = found(&plain, Some("world: RestWithheld"));
    assert_eq!(withheld.as_deref(), Some("I13"));
}

#[test]
fn a_line_that_is_held_beyond_the_healing_excuses_what_comes_of_that() {
    let contract = "cbr,aal5:pcr=20000cps,max_sdu=400,cdvt=10us";
    let held = |ns: u64| {
        let top = format!(
            "heal_ns = 12000000\nfaults = [{{ cell = {{ link = 0, cell = 200, \
             effect = {{ hold = {{ ns = {ns} }} }} }} }}]"
        );
        of(200_000_000, &top, "", &[(contract, &paced(20_000, ""))])
    };
    assert_eq!(found(&held(80_000_000), None), None);
    assert_eq!(found(&held(1_000_000), None), None);
}
