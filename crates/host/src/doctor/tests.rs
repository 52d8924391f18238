mod conditions;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use cellgate_core::server::{AdapterInfo, InterfaceInfo, InterfaceState};
use cellgate_simd::Level as CpuLevel;

use super::ask::{Daemon, Left, Said};
use super::facts::{
    Adapters, Facts, Offloads, OtherAdapter, Places, Pseudowire, Rights, Threads, Tun, list, steal,
    taken_by, wanted_ns,
};
use super::judge::judge;
use super::look::Look;
use super::*;
use conditions::CONDITIONS;

const STATUS: &str = "Name:\tcellgate\nUid:\t0\t0\t0\t0\nCapEff:\t000001ffffffffff\n";
const LIMITS: &str = "\
Limit                     Soft Limit           Hard Limit           Units     
Max open files            1024                 524288               files     
Max locked memory         65536                65536                bytes     
Max nice priority         0                    0                    
Max realtime priority     0                    0                    
";

/// A machine on which nothing is to be wished for, and the daemon that runs there.
fn good() -> Facts {
    let mut config = Config::default();
    config.adapters[0].cpu = Some(3);
    let own = OtherAdapter {
        pid: 100,
        cpu: Some(3),
        own: true,
        orphan: false,
        replaced: false,
        busy_ppm: 1_000_000,
    };
    let said = Said {
        server: "cellgate 1.2.3".to_owned(),
        pid: 99,
        notes: Vec::new(),
        section: Some(config.server.clone()),
        adapter_sections: config.adapters.clone(),
        admission: config.admission.clone(),
        interfaces: Vec::new(),
        adapters: vec![AdapterInfo {
            name: None,
            seen_ns: Some(1),
            pid: 0,
            cpu_ns: 0,
            replaced: 0,
            gaps: 0,
            gaps_total_ns: 0,
            gap_longest_ns: 0,
            gap_admitted_ns: 30_000_000,
            rests: None,
            shared: None,
            histograms: None,
        }],
        resources: Vec::new(),
    };
    Facts {
        adapter: config.adapters[0].clone(),
        config,
        daemon: Daemon::There(Box::new(said)),
        left: Left::None,
        version: "1.2.3".to_owned(),
        kernel: "6.1.0-9-amd64".to_owned(),
        level: CpuLevel::V4,
        is_x86: true,
        rights: Rights::read(STATUS, LIMITS),
        connections: 4_096,
        threads: Threads {
            rt_runtime_us: Some(-1),
            autogroup: true,
            isolated: "3".to_owned(),
            online: "0-3".to_owned(),
            allowed: vec![0, 1, 2, 3],
            siblings: Vec::new(),
            governor: Some("performance".to_owned()),
        },
        cpu: Some(3),
        adapters: Adapters(vec![own]),
        cpu_limit: None,
        memory_limit: None,
        memory_available: Some(16 << 30),
        clock: ("tsc".to_owned(), "tsc hpet".to_owned()),
        look: Look {
            wake_up: WakeUp::of(&mut [20_000]).ok_or_else(String::new),
            gap_ns: Ok(10_000),
            steal_ppm: Some(0),
            clock_ns: 25,
        },
        pseudowires: vec![pseudowire()],
        offloads: Offloads {
            send: 64,
            receive: 64,
        },
        tun: Tun::There,
        places: Places {
            directory: "/run/cellgate".to_owned(),
            ..Places::default()
        },
    }
}

/// The same machine before a daemon runs there.
fn idle() -> Facts {
    let mut facts = good();
    facts.daemon = Daemon::None;
    facts.adapters = Adapters::default();
    facts.pseudowires[0].state = None;
    facts
}

/// The same without any privilege.
fn plain() -> Facts {
    let mut facts = idle();
    facts.rights = Rights::read(&STATUS.replace("1ffffffffff", "0"), LIMITS);
    facts
}

fn pseudowire() -> Pseudowire {
    Pseudowire {
        name: "wan".to_owned(),
        local: "192.0.2.1:6635".parse().unwrap(),
        is_here: true,
        taken_by: None,
        reserved_below: None,
        needed: 841_000,
        gap_max_ns: 30_000_000,
        granted: 8 << 20,
        state: Some(InterfaceState::Up),
    }
}

fn said(facts: &mut Facts) -> &mut Said {
    match &mut facts.daemon {
        Daemon::There(said) => said,
        _ => panic!("there is a daemon"),
    }
}

fn stranger(pid: u32, cpu: usize) -> OtherAdapter {
    OtherAdapter {
        pid,
        cpu: Some(cpu),
        own: false,
        orphan: false,
        replaced: false,
        busy_ppm: 0,
    }
}

#[test]
fn of_a_good_machine_there_is_nothing_to_say() {
    for facts in [good(), idle()] {
        let found = judge(&facts);
        assert!(found.len() > 15, "{found:?}");
        for finding in found {
            assert_eq!(finding.level, Level::Ok, "{finding:?}");
            assert!(
                finding.promise.is_none() && finding.cure.is_none(),
                "{finding:?}"
            );
        }
    }
}

#[test]
fn each_condition_has_its_line_its_promise_and_its_cure() {
    assert!(CONDITIONS.len() > 20);
    for (base, change, level, subject, text, cure) in CONDITIONS {
        let mut facts = base();
        change(&mut facts);
        let found = judge(&facts);
        let bad = |finding: &&Finding| finding.level != Level::Ok && finding.subject == *subject;
        let of: Vec<_> = found.iter().filter(bad).collect();
        let [finding] = of[..] else {
            panic!("{subject} {text}: {of:?}");
        };
        assert_eq!(finding.level, *level, "{finding:?}");
        assert!(finding.text.contains(text), "{finding:?}: {text}");
        assert!(
            finding.cure.as_ref().is_some_and(|of| of.contains(cure)),
            "{finding:?}: {cure}"
        );
        assert!(
            finding.promise.as_ref().is_some_and(|of| of.len() > 10),
            "{finding:?}"
        );
        // Nothing else is said of it, but where there are no privileges at all.
        let worse: Vec<_> = found.iter().filter(|one| one.level != Level::Ok).collect();
        let others = if facts.rights.sys_nice { 1 } else { 4 };
        let alone = matches!(facts.daemon, Daemon::There(_) | Daemon::None);
        assert!(!alone || worse.len() == others, "{worse:?}");
        assert!(!format!("{finding:?}").contains("os error"), "{finding:?}");
    }
}

#[test]
fn a_limit_does_instead_of_a_capability() {
    let mut facts = plain();
    let limits = LIMITS
        .replace(
            "Max nice priority         0 ",
            "Max nice priority         40",
        )
        .replace(
            "Max realtime priority     0 ",
            "Max realtime priority     40",
        )
        .replace(
            "Max locked memory         65536    ",
            "Max locked memory         unlimited",
        );
    facts.rights = Rights::read("CapEff:\t0\n", &limits);
    let bad: Vec<_> = judge(&facts)
        .into_iter()
        .filter(|one| one.level != Level::Ok)
        .collect();
    assert_eq!(bad, []);
    // One less than is wanted.
    facts.rights.nice = 39;
    let of = |facts: &Facts| judge(facts).into_iter().find(|one| one.subject == "nice");
    assert_eq!(of(&facts).map(|one| one.level), Some(Level::Warn));
    facts.adapter.nice = -19;
    assert_eq!(of(&facts).map(|one| one.level), Some(Level::Ok));
}

#[test]
fn who_has_taken_an_adapter_up_is_no_reason_to_fear_for_it() {
    // Left in its directory: whoever governs it may have another socket.
    let mut facts = idle();
    facts.adapters.0.push(OtherAdapter {
        orphan: false,
        ..stranger(7, 0)
    });
    let of = |facts: &Facts| {
        judge(facts)
            .into_iter()
            .find(|one| one.subject == "orphans")
    };
    assert_eq!(of(&facts).map(|one| one.level), Some(Level::Ok));
}

#[test]
fn nothing_is_said_of_places_that_a_daemon_hides() {
    let of = |facts: &Facts| {
        judge(facts)
            .iter()
            .any(|one| one.subject == "state_directory")
    };
    let mut facts = good();
    facts.places.notes.push("/x is a link".to_owned());
    assert!(of(&facts));
    said(&mut facts).section = None;
    assert!(!of(&facts));
    facts.daemon = Daemon::Closed;
    assert!(!of(&facts));
}

#[test]
fn a_figure_beside_an_adapter_that_spins_is_void_and_no_warning() {
    let mut facts = good();
    facts.look.wake_up = Err("adapter 100 spins there".to_owned());
    facts.look.gap_ns = Err("adapter 100 is there".to_owned());
    for subject in ["wake_up", "gaps"] {
        let found = judge(&facts).into_iter().find(|one| one.subject == subject);
        let found = found.expect("a line");
        assert_eq!(found.level, Level::Ok);
        assert!(found.text.starts_with("void: adapter 100"), "{found:?}");
    }
    let adapters = facts.adapters;
    assert_eq!(adapters.spinner_on(Some(3)), Some(100));
    assert_eq!(
        (adapters.spinner_on(Some(2)), adapters.spinner_on(None)),
        (None, None)
    );
}

#[test]
fn odd_texts_say_nothing() {
    for text in [
        "",
        "\n",
        "CapEff:\nUid:\n",
        "CapEff: x\nUid: y z\n",
        "Max open files\n",
    ] {
        let rights = Rights::read(text, text);
        assert_eq!(
            (rights.sys_nice, rights.descriptors),
            (false, 0),
            "{text:?}"
        );
    }
    let rights = Rights::read(STATUS, LIMITS);
    assert!(rights.sys_nice && rights.ipc_lock && rights.bind);
    assert_eq!(
        (rights.uid, rights.locked, rights.descriptors),
        (0, 65_536, 524_288)
    );
    assert_eq!(list("0-2,7"), [0, 1, 2, 7]);
    assert_eq!(list("x,3-,-,5-4,"), [0_usize; 0]);
    assert_eq!(list("0-99999999999").len(), 1_024);
    let stat = "cpu  9 0 0 9 0 0 0 2 0 0\ncpu0 1 1 1 1 1 1 1 1 9 9\ncpu1 2\ncpu12 x\n";
    assert_eq!(steal(stat, None), Some((20, 2)));
    assert_eq!(steal(stat, Some(0)), Some((8, 1)));
    for cpu in [1, 12, 99] {
        assert_eq!(steal(stat, Some(cpu)), None);
    }
}

#[test]
fn a_port_is_taken_by_whoever_has_it_at_an_address_that_meets() {
    let of = |local: &str| {
        let line =
            format!("  1: {local} 00000000:0000 07 00000000:00000000 00:00000000 0 1000 0 5");
        // Its user is the eighth field.
        let line = line.replace(" 0 1000 0 5", " 00000000  1000        0 5");
        format!("  sl  local_address rem_address   st\n{line}\n")
    };
    let word = |octets: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(octets));
    let wanted = "192.0.2.1:6635".parse().unwrap();
    let at = |octets: [u8; 4], port: u16| of(&format!("{}:{port:04X}", word(octets)));
    assert_eq!(taken_by(&at([192, 0, 2, 1], 6_635), wanted), Some(1_000));
    assert_eq!(taken_by(&at([0, 0, 0, 0], 6_635), wanted), Some(1_000));
    assert_eq!(taken_by(&at([192, 0, 2, 2], 6_635), wanted), None);
    assert_eq!(taken_by(&at([192, 0, 2, 1], 6_636), wanted), None);
    let any = of(&format!("{}:19EB", "0".repeat(32)));
    assert_eq!(taken_by(&any, wanted), Some(1_000));
    let six = "[2001:db8::1]:6635".parse().unwrap();
    let octets: Vec<_> = "20010db8000000000000000000000001"
        .as_bytes()
        .chunks(8)
        .collect();
    let words = octets.iter().map(|four| {
        let number = u32::from_str_radix(std::str::from_utf8(four).unwrap(), 16).unwrap();
        word(number.to_be_bytes())
    });
    let line = of(&format!("{}:19EB", words.collect::<String>()));
    assert_eq!(taken_by(&line, six), Some(1_000));
    assert_eq!(taken_by(&line, wanted), None);
    for odd in ["", "x", "1: : :", "1: zz:19EB a b c d 5 6 7"] {
        assert_eq!(taken_by(odd, wanted), None);
    }
}

/// A directory like the root of a machine, gone when dropped.
struct Root(PathBuf);

impl Root {
    fn new(name: &str) -> Self {
        let name = format!("cellgate-doctor-{name}-{}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    fn process(&self, pid: u32, name: &str, parent: u32, program: &str) {
        let place = self.0.join(format!("proc/{pid}"));
        fs::create_dir_all(&place).expect("made");
        fs::write(place.join("comm"), format!("{name}\n")).expect("written");
        fs::write(
            place.join("status"),
            format!("Name:\t{name}\nPPid:\t{parent}\n"),
        )
        .expect("written");
        std::os::unix::fs::symlink(program, place.join("exe")).expect("made");
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn an_adapter_is_left_behind_where_no_daemon_can_have_it() {
    let root = Root::new("orphans");
    let pinned: BTreeMap<_, _> = [(11, 1), (21, 0), (31, 1)].into();
    let found = |own, daemon| Adapters::found(&root.0, &pinned, own, daemon);
    let orphans = |own, daemon| {
        let found = found(own, daemon);
        let orphans = found.0.iter().filter(|one| one.orphan).map(|one| one.pid);
        let mut orphans: Vec<_> = orphans.collect();
        orphans.sort_unstable();
        orphans
    };
    assert_eq!(orphans(None, None), [0_u32; 0]);
    root.process(10, "cg-service", 1, "/usr/bin/cellgate");
    root.process(11, "cg-adapter", 10, "/usr/bin/cellgate (deleted)");
    assert_eq!(orphans(None, None), [0_u32; 0]);
    let own = found(None, Some(10));
    let own = own.own().expect("the daemon's child");
    assert_eq!((own.pid, own.cpu, own.replaced), (11, Some(1), true));
    // Its daemon was killed; whoever takes such in is not its kin.
    root.process(21, "cg-adapter", 5, "/usr/bin/cellgate");
    root.process(5, "systemd", 1, "/usr/lib/systemd");
    assert_eq!(orphans(None, None), [21]);
    root.process(31, "cg-adapter", 1, "/usr/bin/cellgate");
    assert_eq!(orphans(None, None), [21, 31]);
    // A successor has taken one up: which is not seen from outside.
    root.process(20, "cg-service", 1, "/usr/bin/cellgate");
    assert_eq!(orphans(None, None), [21, 31]);
    assert_eq!(orphans(Some(21), Some(20)), [31]);
    root.process(30, "cg-service", 1, "/usr/bin/cellgate");
    assert_eq!(orphans(None, None), [0_u32; 0]);
    // What its threads have had and waited for.
    assert_eq!(wanted_ns(&root.0, 21), None);
    for (tid, text) in [(21, "5 6 7\n"), (22, "1 1 1\n"), (23, "x\n"), (24, "9\n")] {
        let task = root.0.join(format!("proc/21/task/{tid}"));
        fs::create_dir_all(&task).expect("made");
        fs::write(task.join("schedstat"), text).expect("written");
    }
    assert_eq!(wanted_ns(&root.0, 21), Some(13));
    // A demo's, whose thread is named as any adapter's.
    let root = Root::new("demo");
    let pinned: BTreeMap<_, _> = [(41, 1)].into();
    root.process(40, "cellgate", 1, "/usr/bin/cellgate");
    root.process(41, "cellgate", 40, "/usr/bin/cellgate");
    let found = Adapters::found(&root.0, &pinned, None, None);
    assert_eq!(found.0.len(), 1);
    assert!(!found.0[0].orphan);
}

#[test]
fn this_machine_can_be_examined_whatever_it_is() {
    let before = Instant::now();
    let socket = Path::new("/nonexistent/control.sock");
    let report = examine(&Config::default(), socket, None, || {
        Err(std::io::ErrorKind::NotFound.into())
    });
    let report = report.unwrap();
    assert!(before.elapsed().as_secs() < 60);
    let subjects: Vec<_> = report.findings.iter().map(|one| one.subject).collect();
    for subject in [
        "daemon", "kernel", "nice", "clock", "memory", "gaps", "wake_up",
    ] {
        assert!(subjects.contains(&subject), "{subjects:?}");
    }
    for one in &report.findings {
        assert_eq!(one.level != Level::Ok, one.cure.is_some(), "{one:?}");
        assert_eq!(one.level != Level::Ok, one.promise.is_some(), "{one:?}");
    }
}

#[test]
fn what_an_interface_of_a_daemon_is_counts_for_its_configuration() {
    let spec = Config::default().interfaces.remove(0);
    let info = InterfaceInfo {
        spec: cellgate_core::server::InterfaceSpec {
            name: "other".to_owned(),
            ..spec
        },
        port: serde_json::from_str("0").expect("a port"),
        up: true,
        connections: 0,
        dropped_cells: 0,
        state: InterfaceState::Up,
        counts: Default::default(),
    };
    let mut facts = good();
    said(&mut facts).interfaces.push(info);
    said(&mut facts).adapter_sections[0].vcs = 7;
    let config = super::facts::with(&Config::default(), &facts.daemon);
    assert_eq!(
        (config.interfaces[0].name.as_str(), config.adapters[0].vcs),
        ("other", 7)
    );
    let config = super::facts::with(&Config::default(), &Daemon::None);
    assert_eq!(config, Config::default());
}

#[test]
fn one_of_several_adapters_is_looked_at_by_its_name_and_an_unknown_one_is_named() {
    let text = "[[adapter]]\nname = \"west\"\n[[adapter]]\nname = \"east\"\nvcs = 7\n";
    let config = Config::parse(text).expect("a configuration");
    let socket = Path::new("/nonexistent/control.sock");
    let gather = |name| {
        let program = || Err(std::io::ErrorKind::NotFound.into());
        super::facts::gather(&config, socket, name, program)
    };
    let name = |name| gather(name).unwrap().adapter.name.unwrap();
    assert_eq!((&*name(None), &*name(Some("east"))), ("west", "east"));
    assert_eq!(gather(Some("east")).unwrap().adapter.vcs, 7);
    let unknown = gather(Some("north")).err().unwrap();
    assert_eq!(
        unknown.to_string(),
        "there is no adapter north, but west, east"
    );
}

#[test]
fn whoever_is_to_look_and_does_not_answer_is_not_waited_for() {
    let socket = Path::new("/nonexistent/control.sock");
    let programs: [Looker; 3] = [
        || Ok(std::process::Command::new("/nonexistent")),
        || Ok(std::process::Command::new("true")),
        || {
            let mut program = std::process::Command::new("sleep");
            program.arg("1000").arg("--");
            Ok(program)
        },
    ];
    for program in programs {
        let report = examine(&Config::default(), socket, None, program).unwrap();
        assert!(report.took_ms < 60_000, "{report:?}");
        assert!(report.findings.iter().any(|one| one.subject == "gaps"));
    }
    for odd in ["", "{}", "[]", r#"{"cpu":null,"nice":0,"gaps":1}"#] {
        assert!(look_as_adapter(odd).is_err(), "{odd}");
    }
}
