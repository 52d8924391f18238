//! `cellgate sim`: the same run from a seed and from its file, exit codes, small failures.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use cellgate_lab::world::{OUT_OF_REACH, scenario_of};

fn sim(args: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_cellgate");
    let mut command = Command::new(program);
    command.arg("sim").args(args).output().expect("it runs")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_seed_and_its_file_are_the_same_run() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (plan, tape) = (folder.join("plan.toml"), folder.join("tape.pcapng"));
    let (plan, tape) = (plan.to_str().expect("UTF-8"), tape.to_str().expect("UTF-8"));
    let first = sim(&["run", "--seed", "4", "--json", "--save", plan]);
    assert_eq!(first.status.code(), Some(0), "{first:?}");
    let again = sim(&["run", "--plan", plan, "--json", "--trace", tape]);
    assert_eq!(text(&first), text(&again));
    assert!(text(&first).contains("\"trace_hash\""), "{first:?}");
    let mut decode = Command::new(env!("CARGO_BIN_EXE_cellgate"));
    let decoded = decode.args(["decode", tape]).output().expect("it runs");
    assert!(decoded.status.success(), "{decoded:?}");
}

/// What it prints changes with the generator, and with what becomes of worlds. `.ci/run` compares
/// what a release build prints with the same file.
#[test]
fn every_build_has_the_same_traces() {
    let seeds = ["20", "4294967296..4294967316", "8589934592..8589934604"];
    let det = seeds.map(|seeds| text(&sim(&["det", "--seeds", seeds])));
    assert_eq!(det.concat(), include_str!("../data/sim_det.txt"));
}

/// Runs `examples/NAME.toml`; what it printed.
fn example(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let path = folder.join(format!("{name}.toml"));
    let run = sim(&["run", "--plan", path.to_str().expect("UTF-8")]);
    assert_eq!(run.status.code(), Some(0), "{run:?}");
    text(&run)
}

#[test]
fn the_examples_show_what_they_say() {
    let servers = example("servers");
    let line = "server of b: 8 requests, 6 confirmed, 2 refused; take-ups 1, of connections 1";
    assert!(servers.contains(line), "{servers}");
    // A cell alone takes 2.8 us on each line, and what nobody measured is no zero.
    let video = servers.lines().find(|line| line.starts_with("video"));
    let video: Vec<&str> = video.expect("video").split_whitespace().collect();
    let longest = video.last().and_then(|us| us.parse::<f64>().ok());
    assert!(longest.is_some_and(|us| us > 10.0), "{servers}");
    let precision = example("precision");
    let rate = |name: &str| {
        let row = precision.lines().find(|line| line.starts_with(name));
        let rate = row.and_then(|row| row.split_whitespace().nth(5));
        rate.expect(name).to_owned()
    };
    assert_eq!(
        (rate("large"), rate("small")),
        ("64.225".into(), "24.215".into())
    );
    let flood = example("flood");
    for stream in ["film", "news"] {
        let row = flood
            .lines()
            .find(|line| line.starts_with(stream))
            .expect(stream);
        let numbers: Vec<&str> = row.split_whitespace().skip(1).take(3).collect();
        assert_eq!(numbers, ["117", "117", "0"], "{flood}");
    }
    assert!(flood.contains("non_conforming"), "{flood}");
    let video = example("video");
    let line = "stream on video: 101 frames on time, 0 late, 0 missing; of 5,546 packets 5,546 \
                released, 0 of them late";
    assert!(video.contains(line), "{video}");
}

#[test]
fn what_a_run_recorded_is_sent_again() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (plan, tape) = (folder.join("again.toml"), folder.join("again.pcapng"));
    let (plan, tape) = (plan.to_str().expect("UTF-8"), tape.to_str().expect("UTF-8"));
    let scenario = |ms: u32, traffic: &str| {
        format!(
            "duration_ns = {ms}_000_000\n\
             hosts = [{{ name = 'a' }}, {{ name = 'b' }}]\n\
             links = [{{ ends = ['a', 'b'] }}]\n\
             connections = [{{ name = 'x', from = 'a', to = 'b', address = '0.32', \
             contract = 'ubr,aal5:max_sdu=1000' }}]\n\
             sources = [{{ connection = 'x', sdus = [1000], traffic = {traffic} }}]\n"
        )
    };
    let delivered = |args: &[&str]| {
        let run = sim(args);
        assert_eq!(run.status.code(), Some(0), "{run:?}");
        let told: serde_json::Value = serde_json::from_slice(&run.stdout).expect("JSON");
        told["hosts"][1]["delivered_cells"]
            .as_u64()
            .expect("a number")
    };
    std::fs::write(plan, scenario(20, "{ paced = { cell_s = 20_000 } }")).expect("a file");
    let first = delivered(&["run", "--plan", plan, "--json", "--trace", tape]);
    assert!(first > 300, "{first}");
    let again = |interface: &str| {
        let traffic = format!("{{ capture = 'again.pcapng'{interface} }}");
        std::fs::write(plan, scenario(40, &traffic)).expect("a file");
        delivered(&["run", "--plan", plan, "--json"])
    };
    assert_eq!(again(""), first);
    assert_eq!(again(", interface = 0"), first);
    std::fs::write(plan, scenario(40, "{ capture = 'again.toml' }")).expect("a file");
    let wrong = sim(&["run", "--plan", plan]);
    assert_eq!(wrong.status.code(), Some(1), "{wrong:?}");
    assert!(
        String::from_utf8_lossy(&wrong.stderr).contains("again.toml"),
        "{wrong:?}"
    );
}

/// A cell that crosses a switch is on two lines of the trace.
#[test]
fn each_line_of_a_trace_is_an_interface_and_one_is_sent_again() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (plan, tape) = (folder.join("lines.toml"), folder.join("lines.pcapng"));
    let (plan, tape) = (plan.to_str().expect("UTF-8"), tape.to_str().expect("UTF-8"));
    let scenario = |traffic: &str| {
        format!(
            "duration_ns = 20_000_000\n\
             hosts = [{{ name = 'a' }}, {{ name = 'b' }}]\n\
             switches = [{{ name = 's' }}]\n\
             links = [{{ ends = ['a', 's'] }}, {{ ends = ['s', 'b'] }}]\n\
             connections = [{{ name = 'x', from = 'a', to = 'b', address = '0.32', \
             contract = 'ubr,aal5:max_sdu=1000' }}]\n\
             sources = [{{ connection = 'x', sdus = [1000], traffic = {traffic} }}]\n"
        )
    };
    let run = |traffic: &str| {
        std::fs::write(plan, scenario(traffic)).expect("a file");
        let run = sim(&["run", "--plan", plan, "--json"]);
        let told: Option<serde_json::Value> = serde_json::from_slice(&run.stdout).ok();
        (run, told)
    };
    std::fs::write(plan, scenario("{ paced = { cell_s = 2_000 } }")).expect("a file");
    let first = sim(&["run", "--plan", plan, "--trace", tape]);
    assert!(text(&first).contains("host b: "), "{first:?}");
    let octets = std::fs::read(tape).expect("the trace");
    for name in ["a -> s", "s -> a", "s -> b", "b -> s"] {
        let named = octets
            .windows(name.len())
            .filter(|at| *at == name.as_bytes());
        assert_eq!(named.count(), 1, "{name}");
    }
    let (all, _) = run("{ capture = 'lines.pcapng' }");
    assert_eq!(all.status.code(), Some(1), "{all:?}");
    let told = String::from_utf8_lossy(&all.stderr).into_owned();
    assert!(told.contains("interfaces 0 and 2"), "{told}");
    let (_, one) = run("{ capture = 'lines.pcapng', interface = 2 }");
    let one = one.expect("JSON");
    assert_eq!(one["lines"][0]["ends"], serde_json::json!(["a", "s"]));
    assert_eq!(one["switches"][0]["name"], "s");
    assert_eq!(one["hosts"][1]["name"], "b");
    let sent = |line: usize| one["lines"][line]["sent_cells"].as_u64();
    assert!(sent(0) > Some(30) && sent(0) == sent(2), "{one}");
}

#[test]
fn sweeps_and_double_runs_are_clean() {
    let sweep = sim(&["sweep", "--seeds", "0..6", "--jobs", "2", "--isolation"]);
    assert_eq!(sweep.status.code(), Some(0), "{sweep:?}");
    let told = text(&sweep);
    assert!(told.starts_with("6 seeds"), "{sweep:?}");
    let json = sim(&["sweep", "--seeds", "0..6", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
    let planned: u64 = (0..6).map(|seed| scenario_of(seed).faults_planned()).sum();
    assert!(planned > 20 && json["faults"] == planned, "{json}");
    assert!(
        told.contains(&format!("\n{planned} faults planned; ")),
        "{told}"
    );
    let cells = json["cells"].as_u64().expect("a number");
    assert_eq!(json["link_time_ms"], cells * 1_000 / 353_207, "{json}");
    let cut = sim(&["sweep", "--seeds", "1_000_000", "--budget", "1s"]);
    assert_eq!(cut.status.code(), Some(0), "{cut:?}");
    assert!(text(&cut).contains(": stopped by the budget"), "{cut:?}");
    let none = sim(&["sweep", "--seeds", "6", "--budget", "0s"]);
    assert_eq!(none.status.code(), Some(1), "{none:?}");
    let det = sim(&["det", "--seeds", "4"]);
    assert_eq!(det.status.code(), Some(0), "{det:?}");
}

#[test]
fn a_budget_ends_what_would_take_for_ever() {
    let mutants = sim(&[
        "mutants",
        "--seeds",
        "9223372036854775807",
        "--budget",
        "1s",
    ]);
    assert_eq!(mutants.status.code(), Some(1), "{mutants:?}");
    let told = text(&mutants);
    let untried = told.lines().find(|line| line.starts_with("the budget"));
    assert!(
        untried.is_some_and(|line| line.contains("server: ")),
        "{told}"
    );
    assert!(told.contains("survived: []"), "{told}");
    let unplanted = format!("{} more of the adapter's", OUT_OF_REACH.len());
    assert!(told.contains(&unplanted), "{told}");
}

#[test]
fn whoever_waits_is_told_how_far_it_has_come() {
    let plan = Path::new(env!("CARGO_TARGET_TMPDIR")).join("day.toml");
    let day = PLAN.replace("duration_ns = 20000000", "duration_ns = 86_400_000_000_000");
    std::fs::write(&plan, day).expect("a file");
    let plan = plan.to_str().expect("UTF-8");
    for (args, told) in [
        (&["run", "--plan", plan][..], " of 86400000"),
        (&["mutants", "--json", "--seeds", "1_000"], "sim mutants: "),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cellgate"));
        let command = command.arg("sim").args(args).stderr(Stdio::piped());
        let mut child = command.stdout(Stdio::null()).spawn().expect("it runs");
        let mut line = String::new();
        let errors = child.stderr.take().expect("a pipe");
        BufReader::new(errors).read_line(&mut line).expect("a line");
        child.kill().expect("it runs on");
        child.wait().expect("it ends");
        assert!(line.contains(told), "{line}");
    }
}

/// A source that keeps its contract.
const PLAN: &str = r#"
duration_ns = 20000000
hosts = [{ name = "a" }, { name = "b" }]
links = [{ ends = ["a", "b"] }]

[[connections]]
name = "one"
from = "a"
to = "b"
address = "0.32"
contract = "cbr,aal5:pcr=5000cps,max_sdu=400"

[[sources]]
connection = "one"
traffic = { paced = { cell_s = 5000 } }
sdus = [400]
"#;

/// Sources send twice as fast as they say.
const HURRIES: &str = "world: SourceHurries";

#[test]
fn what_is_wrong_has_an_exit_code_and_a_small_file() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (plan, small) = (folder.join("lie.toml"), folder.join("small.json"));
    std::fs::write(&plan, PLAN).expect("a file");
    let (plan, small) = (
        plan.to_str().expect("UTF-8"),
        small.to_str().expect("UTF-8"),
    );
    let plant = ["--plant", HURRIES];
    let with = |args: &[&str]| sim(&[args, &plant].concat());
    let run = with(&["run", "--plan", plan]);
    assert_eq!(run.status.code(), Some(12), "{run:?}");
    assert!(text(&run).starts_with("FAIL I6 --plan"), "{run:?}");
    let cut = with(&["shrink", "--plan", plan, "-o", small, "--budget", "0s"]);
    assert_eq!(cut.status.code(), Some(12), "{cut:?}");
    assert!(
        text(&cut).contains(" 0 runs: stopped by the budget"),
        "{cut:?}"
    );
    let shrunk = with(&["shrink", "--plan", plan, "-o", small]);
    assert_eq!(shrunk.status.code(), Some(12), "{shrunk:?}");
    assert_eq!(with(&["run", "--plan", small]).status.code(), Some(12));
    // Who says that he keeps his contract, and does not, is told so.
    let too_fast = PLAN.replace("cell_s = 5000", "cell_s = 20000");
    std::fs::write(plan, too_fast).expect("a file");
    let refused = sim(&["run", "--plan", plan]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let told = String::from_utf8_lossy(&refused.stderr);
    let what = "connection \"one\": of its 20000 cells/s its contract lets pass 5000";
    assert!(told.contains(what), "{told}");
}

#[test]
fn who_sends_no_sdus_of_its_own_needs_none() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (plan, tape) = (folder.join("no-sdus.toml"), folder.join("no-sdus.pcapng"));
    let (plan, tape) = (plan.to_str().expect("UTF-8"), tape.to_str().expect("UTF-8"));
    std::fs::write(plan, PLAN).expect("a file");
    let recorded = sim(&["run", "--plan", plan, "--trace", tape]);
    assert_eq!(recorded.status.code(), Some(0), "{recorded:?}");
    let cell = format!(
        "{{ cells = [{{ at_ns = 9, octets = '{}' }}] }}",
        "0".repeat(104)
    );
    for traffic in [
        "{ scan = { cell_s = 9 } }",
        "{ capture = 'no-sdus.pcapng' }",
        &cell,
    ] {
        let text = PLAN.replace("{ paced = { cell_s = 5000 } }", traffic);
        let text = text.replace("sdus = [400]", "");
        std::fs::write(plan, text).expect("a file");
        let run = sim(&["run", "--plan", plan, "--json"]);
        assert_eq!(run.status.code(), Some(0), "{traffic}: {run:?}");
        let told: serde_json::Value = serde_json::from_slice(&run.stdout).expect("JSON");
        assert!(told["cells"].as_u64() > Some(0), "{traffic}: {told}");
    }
}

#[test]
fn a_scenario_that_is_read_is_not_written_over() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (plan, other) = (folder.join("read.toml"), folder.join("linked.toml"));
    std::fs::write(&plan, PLAN).expect("a file");
    let _ = std::fs::remove_file(&other);
    std::fs::hard_link(&plan, &other).expect("another name of it");
    let (file, other) = (
        plan.to_str().expect("UTF-8"),
        other.to_str().expect("UTF-8"),
    );
    let ways: [&[&str]; 5] = [
        &["run", "--plan", file, "--save", file],
        &["run", "--plan", file, "--save", other],
        &["run", "--plan", file, "--trace", other],
        &["shrink", "--plan", file, "-o", file],
        &["shrink", "--plan", other, "-o", file],
    ];
    for args in ways {
        let refused = sim(args);
        assert_eq!(refused.status.code(), Some(1), "{args:?}: {refused:?}");
        let told = String::from_utf8_lossy(&refused.stderr);
        assert!(told.contains("is read from it"), "{args:?}: {told}");
        assert_eq!(std::fs::read_to_string(&plan).expect("a file"), PLAN);
    }
    let one = folder.join("both.toml");
    let _ = std::fs::remove_file(&one);
    let one = one.to_str().expect("UTF-8");
    let both = sim(&["run", "--plan", file, "--save", one, "--trace", one]);
    let told = String::from_utf8_lossy(&both.stderr);
    assert!(told.contains("--save and --trace"), "{both:?}");
    assert!(!Path::new(one).exists(), "nothing is written");
    // Any other file is replaced.
    let saved_as = sim(&["run", "--plan", file, "--save", one]);
    assert_eq!(saved_as.status.code(), Some(0));
    let saved = std::fs::read_to_string(one).expect("a scenario");
    std::fs::write(one, "old").expect("a file");
    assert_eq!(
        sim(&["run", "--plan", file, "--save", one]).status.code(),
        Some(0)
    );
    assert_eq!(std::fs::read_to_string(one).expect("a file"), saved);
}

#[test]
fn what_makes_no_world_leaves_old_files_alone() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (plan, old) = (folder.join("nowhere.toml"), folder.join("old.out"));
    let (file, out) = (plan.to_str().expect("UTF-8"), old.to_str().expect("UTF-8"));
    for (good, bad) in [
        ("hosts = ", "nobody = "),
        ("to = \"b\"", "to = \"nowhere\""),
    ] {
        std::fs::write(&plan, PLAN.replace(good, bad)).expect("a file");
        for way in ["--trace", "--save"] {
            std::fs::write(&old, "old").expect("a file");
            let refused = sim(&["run", "--plan", file, way, out]);
            assert_eq!(refused.status.code(), Some(1), "{refused:?}");
            assert_eq!(std::fs::read_to_string(&old).expect("a file"), "old");
        }
    }
}

#[test]
fn what_is_not_wrong_is_not_made_small() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (plan, small) = (folder.join("no-world.toml"), folder.join("nothing.toml"));
    let (file, out) = (
        plan.to_str().expect("UTF-8"),
        small.to_str().expect("UTF-8"),
    );
    let shrink = ["shrink", "--plan", file, "-o", out];
    std::fs::write(&plan, PLAN.replace("to = \"b\"", "to = \"a\"")).expect("a file");
    let none = sim(&shrink);
    assert_eq!(none.status.code(), Some(1), "{none:?}");
    let told = String::from_utf8_lossy(&none.stderr);
    assert!(told.contains("no path"), "{none:?}");
    std::fs::write(&plan, PLAN).expect("a file");
    let right = sim(&shrink);
    assert_eq!(right.status.code(), Some(1), "{right:?}");
    assert!(text(&right).contains("--det"), "{right:?}");
    assert!(!small.exists());
    // What cannot be written is told before the work.
    let nowhere = folder.join("nowhere/small.toml");
    let nowhere = nowhere.to_str().expect("UTF-8");
    let lost = sim(&["shrink", "--plan", file, "-o", nowhere]);
    let told = String::from_utf8_lossy(&lost.stderr);
    assert!(told.contains(nowhere) && lost.stdout.is_empty(), "{lost:?}");
}

#[test]
fn each_kind_of_wrong_has_its_exit_code() {
    for (args, code) in [
        (
            &["run", "--seed", "4", "--plant", "world:RunPanics"][..],
            10,
        ),
        (&["run", "--seed", "1", "--plant", "world:WakeUpLost"], 11),
        (&["sweep", "--seeds", "9", "--plant", "MidLost"], 12),
        (
            &["det", "--seeds", "2", "--plant", "world:RunRemembers"],
            13,
        ),
    ] {
        let output = sim(args);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {output:?}");
        assert!(text(&output).starts_with("FAIL "), "{args:?}: {output:?}");
    }
}

#[test]
fn the_command_that_a_failure_names_fails_the_same_way() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (plan, small) = (folder.join("honest.toml"), folder.join("it's small.toml"));
    std::fs::write(&plan, PLAN).expect("a file");
    let (plan, small) = (
        plan.to_str().expect("UTF-8"),
        small.to_str().expect("UTF-8"),
    );
    let panics = "world: RunPanics";
    for args in [
        &["shrink", "--plan", plan, "--plant", panics, "-o", small][..],
        &[
            "shrink",
            "--det",
            "--plan",
            plan,
            "--plant",
            "world:RunRemembers",
            "-o",
            small,
        ],
        &["run", "--seed", "4", "--plant", panics],
        &["sweep", "--seeds", "9", "--plant", "MidLost"],
        &[
            "sweep",
            "--seeds",
            "9",
            "--fast",
            "--plant",
            "world:StepLost",
        ],
        &[
            "sweep",
            "--seeds",
            "5..6",
            "--isolation",
            "--plant",
            "world:SwitchConfuses",
        ],
        &["det", "--seeds", "2", "--plant", "world:RunRemembers"],
    ] {
        let failed = sim(args);
        let told = text(&failed);
        let (what, command) = told.split_once("; reproduce: ").expect(&told);
        let (_, command) = command.split_once(' ').expect("a command");
        let command = command.lines().next().expect("a line");
        let script = format!("\"$0\" {command}");
        let mut shell = Command::new("sh");
        let shell = shell.args(["-c", &script, env!("CARGO_BIN_EXE_cellgate")]);
        let again = shell.output().expect("a shell");
        assert_eq!(again.status.code(), failed.status.code(), "{again:?}");
        // A run that remembers has other traces after other runs.
        let (what, _) = what.split_once(" trace ").unwrap_or((what, ""));
        assert!(text(&again).starts_with(what), "{told}{again:?}");
    }
}

#[test]
fn a_failure_names_the_commit_that_was_built() {
    let failed = sim(&["run", "--seed", "4", "--plant", "world:RunPanics"]);
    let told = text(&failed);
    let (_, named) = told.split_once(" commit=").expect(&told);
    let (named, _) = named.split_once(' ').expect(&told);
    let mut git = Command::new("git");
    git.current_dir(env!("CARGO_MANIFEST_DIR"));
    let asked = ["rev-parse", "--show-prefix", "--short=12", "HEAD"];
    let output = git.args(asked).output().map(|output| output.stdout);
    let answer = output.map(|answer| String::from_utf8(answer).expect("UTF-8"));
    match answer.unwrap_or_default().split_once('\n') {
        Some(("crates/cli/", head)) => assert_eq!(named.trim_end_matches('+'), head.trim()),
        // As a package, not a checkout of its own.
        _ => assert_eq!(named, "unknown"),
    }
}

#[test]
fn a_mark_that_was_never_reached_fails_if_that_is_asked_for() {
    let told = sim(&["sweep", "--seeds", "1"]);
    assert_eq!(told.status.code(), Some(0), "{told:?}");
    assert!(!text(&told).contains("never reached: "), "{told:?}");
    let asked = sim(&["sweep", "--seeds", "1", "--marks"]);
    assert_eq!(asked.status.code(), Some(1), "{asked:?}");
    assert!(
        text(&asked).contains("never reached: discarded:"),
        "{asked:?}"
    );
    let json = sim(&["sweep", "--seeds", "1", "--marks", "--json"]);
    assert_eq!(json.status.code(), Some(1), "{json:?}");
    let report: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
    let missing = report["missing"].as_array().expect("a list");
    assert!(report["pass"] == false && !missing.is_empty(), "{report}");
    // Those of servers, where there are any, and those of worlds without only where there are such.
    let served = sim(&["sweep", "--seeds", "4294967296..4294967297", "--marks"]);
    assert_eq!(served.status.code(), Some(1), "{served:?}");
    let (reached, never) = (text(&served), "never reached: asked:");
    assert!(
        reached.contains(never) && !reached.contains("wrap:"),
        "{reached}"
    );
    let both = sim(&["sweep", "--seeds", "4294967295..4294967297", "--marks"]);
    let both = text(&both);
    assert!(
        both.contains("asked:open ") && both.contains("wrap:"),
        "{both}"
    );
}

#[test]
fn files_that_make_no_scenario_are_told() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    for (n, (from, to, expected)) in [
        ("duration_ns = 20000000", "duration_ns = -1", "duration_ns"),
        (
            "duration_ns = 20000000",
            "duration_ns = 9223372036854775807",
            "a day",
        ),
        ("duration_ns = 20000000", "", "duration_ns"),
        ("duration_ns", "duration", "unknown field"),
        ("\"0.32\"", "\"0.70000\"", "address"),
        ("\"0.32\"", "\"x\"", "address"),
        (
            "paced = { cell_s = 5000 }",
            "paced = { cell_s = 4294967296 }",
            "u32",
        ),
        (
            "paced = { cell_s = 5000 }",
            "paced = { cell_s = 0 }",
            "cell_s",
        ),
        ("paced = { cell_s = 5000 }", "walk = 1", "unknown variant"),
        ("sdus = [400]", "sdus = [70000]", "u16"),
        (
            "sdus = [400]",
            "",
            "connection \"one\": `sdus` has no entry",
        ),
        ("sdus = [400]", "sdus = [400, 11]", "12 octets at least"),
        ("to = \"b\"", "to = \"a\"", "no path"),
        // With its place: the line is shown, and a mark stands below the name.
        ("to = \"b\"", "to = \"zz\"", "mistake at line "),
        ("to = \"b\"", "to = \"zz\"", "to = \"zz\"\n"),
        ("\"b\" }]", "\"b\", step_ns = 0 }]", "step_ns"),
        ("[\"a\", \"b\"]", "[\"a\"]", "ends"),
        ("[[sources]]", "[[sources]", "sources"),
    ]
    .into_iter()
    .enumerate()
    {
        let text = PLAN.replace(from, to);
        assert_ne!(text, PLAN, "{from}");
        let path = folder.join(format!("bad{n}.toml"));
        std::fs::write(&path, text).expect("a file");
        let output = sim(&["run", "--plan", path.to_str().expect("UTF-8")]);
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{to}: {output:?}");
        assert!(told.contains(expected), "{to}: {told}");
    }
    let path = folder.join("bad.json");
    std::fs::write(&path, "[".repeat(100_000)).expect("a file");
    let output = sim(&["run", "--plan", path.to_str().expect("UTF-8")]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
}

#[test]
fn all_that_is_wrong_with_a_scenario_is_told_with_its_lines() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("wrong.toml");
    let mut text = PLAN.to_owned() + "\n[[faults]]\nearly_timers = { host = \"c\", at_ns = 0 }\n";
    for (right, wrong) in [
        ("name = \"b\" }", "name = \"b\", budget = 0 }"),
        ("sdus = [400]", "sdus = [401]"),
    ] {
        assert!(text.contains(right), "{right}");
        text = text.replace(right, wrong);
    }
    std::fs::write(&path, text).expect("a file");
    let path = path.to_str().expect("UTF-8");
    let output = sim(&["run", "--plan", path]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    let lines = [
        ":3: host \"b\": budget is 1 to 1,024",
        ":13: source 0 of connection \"one\": SDUs have 12 octets at least, and at most the \
         contract's max_sdu; on aal0 48",
        ":19: fault 0 at host \"c\": nothing has the name \"c\"",
    ];
    let lines = lines.map(|line| format!("{path}{line}"));
    assert!(told.contains(&lines.join("\n")), "{told}");
}

#[test]
fn a_fault_that_never_happened_is_told() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("unmet.toml");
    let fault = |cell: u64| {
        format!("\n[[faults]]\ncell = {{ link = 0, cell = {cell}, effect = \"lose\" }}\n")
    };
    let plan = PLAN.to_owned() + &fault(0) + &fault(1_000_000);
    std::fs::write(&path, plan).expect("a file");
    let path = path.to_str().expect("UTF-8");
    let told = text(&sim(&["run", "--plan", path]));
    let unmet = "fault 1 never happened: it waits for cell 1000000 from a to b, where ";
    assert!(told.contains(unmet) && !told.contains("fault 0"), "{told}");
    let json = text(&sim(&["run", "--plan", path, "--json"]));
    let both = ["\"unmet_faults\"", unmet].map(|told| json.contains(told));
    assert_eq!(both, [true; 2], "{json}");
}

#[test]
fn what_makes_no_sense_is_told() {
    for (args, code) in [
        (&["run", "--seed", "1", "--plant", "Nobody"][..], 2),
        (&["frobnicate"], 2),
        (&["run", "--seed", "18446744073709551616"], 2),
        (&["run"], 2),
        (&["run", "--seed", "1", "--plan", "x"], 2),
        (&["run", "--plan", "/does/not/exist"], 1),
        (&["sweep", "--seeds", "3..3"], 2),
        (&["sweep", "--seeds", "3", "--budget", "1x"], 2),
    ] {
        assert_eq!(sim(args).status.code(), Some(code), "{args:?}");
    }
}
