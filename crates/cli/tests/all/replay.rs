//! `cellgate replay` as a user meets it: counts, contracts, the capture it writes.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use cellgate_capture::{Direction, Item, Recorder};
use cellgate_core::wire::{Cell, Loopback, Oam, SAR_PAYLOAD_LEN, SarPdu, SegmentType, VpiVci};
use serde_json::{Value, json};

const CELLS: &str = "\
vpi.vci  cells  delivered  answered  held  discarded  PDUs  discarded  octets
1.100        8          2         1     1          4     1          0      68
all         14          2         1     1         10     1          0      68

1.100 cells discarded: crc_error 1, not_user_data 3
cells of no VC discarded: hec_error 3, idle 1, unknown_vc 2
14 records over 130000 ns; 0 broken
";

fn data(name: &str) -> String {
    format!(
        "{}/../capture/tests/data/{name}",
        env!("CARGO_MANIFEST_DIR")
    )
}

fn cellgate(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cellgate"));
    command.args(args).output().expect("cellgate")
}

/// Cells of AAL3/4 with their faults.
fn aal34_file() -> String {
    format!("{}/tests/data/aal34.trc", env!("CARGO_MANIFEST_DIR"))
}

fn replay(name: &str, args: &[&str]) -> Value {
    replay_file(&data(name), args)
}

fn replay_file(path: &str, args: &[&str]) -> Value {
    let output = cellgate(&[&["replay", path, "--json"], args].concat());
    let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    // A replay of nothing has failed.
    let code = i32::from(told["cells_received"] == 0);
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    told
}

/// A file in the temporary folder that goes with the test.
struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str) -> Self {
        let name = format!("cellgate-replay-{}-{name}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn tells_what_a_host_would_have_got() {
    let output = cellgate(&["replay", &data("cells.trc")]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), CELLS);
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn sdus_and_pdus_are_cut_into_cells() {
    let sunatm = replay("sunatm.pcap", &[]);
    let octets = sunatm["vcs"].as_array().unwrap().iter();
    let octets: Vec<_> = octets
        .map(|vc| (vc["vci"].clone(), vc["sdu_octets"].clone()))
        .collect();
    let wanted = [
        (5, 123),
        (16, 43),
        (35, 84),
        (36, 76),
        (38, 60),
        (40, 12),
        (41, 16),
        (42, 14),
        (100, 136),
    ];
    assert_eq!(octets, wanted.map(|(vci, n)| (json!(vci), json!(n))));
    assert_eq!(
        (&sunatm["pdus_delivered"], &sunatm["cells_received"]),
        (&json!(11), &json!(19))
    );
    assert_eq!(sunatm["conserved"], true);

    let erf = replay("all.erf", &[]);
    assert_eq!(erf["records_skipped"]["aal2"], 1);
    assert_eq!(
        erf["cells_discarded"],
        json!({ "crc_error": 2, "not_user_data": 1 })
    );
    assert_eq!(
        (&erf["pdus_delivered"], &erf["pdus_discarded"]),
        (&json!(6), &json!(1))
    );
    assert_eq!(
        (&erf["cells_answered"], &erf["cells_held"]),
        (&json!(1), &json!(1))
    );
}

#[test]
fn a_contract_polices_by_the_times_of_the_capture() {
    // Two SDUs of two cells on 0.100, 2 ms apart, and two on 0.5 of one and three, 1 ms apart.
    // T of a largest PDU of two cells is 3 ms: the second on 0.100 is within the limit of one such
    // PDU; at four times that it is not.
    let fits = replay("sunatm.pcap", &["--contract", "cbr:pcr=1000,max_sdu=88"]);
    let of = |outcome: &Value, vci: u64| {
        let vcs = outcome["vcs"].as_array().unwrap();
        vcs.iter().find(|vc| vc["vci"] == vci).unwrap().clone()
    };
    assert_eq!(of(&fits, 100)["pdus_delivered"], 2);
    assert_eq!(of(&fits, 5)["pdus_discarded"], json!({ "oversized": 1 }));
    let slow = replay("sunatm.pcap", &["--vc", "0.100=cbr:pcr=10,max_sdu=40"]);
    assert_eq!(of(&slow, 100)["pdus_discarded"], json!({ "oversized": 2 }));
    assert_eq!(of(&slow, 5)["pdus_delivered"], 2);
    let path = data("sunatm.pcap");
    for bad in ["vbr:", "cbr,aal5:pcr=10,police=cell", "ubr:rx:none"] {
        let output = cellgate(&["replay", &path, "--contract", bad]);
        assert_eq!(output.status.code(), Some(2), "{bad}: {output:?}");
    }
}

#[test]
fn pseudowires_and_bare_sdus_need_a_vc() {
    let bare = replay("rfc1483.pcap", &[]);
    assert_eq!(bare["records_skipped"]["no_address"], 4);
    let named = replay("rfc1483.pcap", &["--address", "0.35"]);
    assert_eq!(
        (&named["pdus_delivered"], &named["vcs"][0]["vci"]),
        (&json!(4), &json!(35))
    );
    let pw = [
        "--pw",
        "1003=vcc@1.103",
        "--pw",
        "1004=vpc@1.0",
        "--pw",
        "1005=aal5-sdu@1.105",
        "--pw",
        "1006=aal5-pdu@1.106",
    ];
    let wires = replay("mplsudp.pcap", &pw);
    assert_eq!(wires["records_skipped"]["no_pseudowire"], 1);
    let vcs = wires["vcs"].as_array().unwrap().iter();
    let counts: Vec<_> = vcs
        .map(|vc| {
            [&vc["vci"], &vc["cells_received"], &vc["pdus_delivered"]].map(|n| n.as_u64().unwrap())
        })
        .collect();
    assert_eq!(counts, [[100, 5, 2], [103, 4, 0], [105, 3, 1], [106, 4, 1]]);
    assert_eq!(wires["cells_answered"], 2);
}

#[test]
fn a_pseudowire_has_12_bits_of_vpi() {
    let vpis = |args: &[&str]| {
        let wires = replay("mplsudp.pcap", args);
        let vcs = wires["vcs"].as_array().unwrap().iter();
        vcs.map(|vc| vc["vpi"].as_u64().unwrap())
            .collect::<Vec<_>>()
    };
    let pw = ["--pw", "1003=vcc@300.103", "--pw", "1005=aal5-sdu@44.103"];
    assert_eq!(vpis(&pw), [1, 44, 300]);
}

#[test]
fn writes_what_arrived_and_says_what_did_not() {
    let out = Temporary::new("out.pcapng");
    replay("all.erf", &["--out", out.path()]);
    let output = cellgate(&["decode", out.path(), "--json"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let lines = String::from_utf8(output.stdout).unwrap();
    let objects = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let objects: Vec<Value> = objects.collect();
    let sdus: Vec<_> = objects.iter().filter(|o| o["kind"] == "sdu").collect();
    assert_eq!(sdus.len(), 6);
    assert_eq!(sdus[0]["time_ns"], 1_700_000_000_000_000_000_u64);
    assert!(sdus.iter().all(|o| o["direction"] == "receive"));
    let comments: Vec<_> = objects
        .iter()
        .filter_map(|o| o["comments"][0].as_str())
        .collect();
    assert_eq!(
        comments,
        ["discarded: crc_error", "discarded: not_user_data"]
    );
}

#[test]
fn a_capture_is_not_written_over() {
    let capture = Temporary::new("kept.erf");
    let link = Temporary::new("link.erf");
    std::fs::copy(data("all.erf"), capture.path()).unwrap();
    std::fs::hard_link(capture.path(), link.path()).unwrap();
    let before = std::fs::read(capture.path()).unwrap();
    for (file, out) in [
        (capture.path(), capture.path()),
        (capture.path(), link.path()),
        ("-", capture.path()),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cellgate"));
        command.stdin(std::fs::File::open(capture.path()).unwrap());
        let output = command.args(["replay", file, "--out", out]).output();
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert_eq!(std::fs::read(capture.path()).unwrap(), before);
    }
}

#[test]
fn what_cannot_be_read_again_is_replayed_all_the_same() {
    let wanted = replay("all.erf", &[]);
    let fifo = Temporary::new("fifo");
    let made = Command::new("mkfifo").arg(fifo.path()).status().unwrap();
    assert!(made.success());
    for file in [fifo.path(), "/dev/stdin", "-"] {
        let mut command = Command::new("timeout");
        command.args(["60", env!("CARGO_BIN_EXE_cellgate"), "replay", file]);
        let command = command.arg("--json");
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut octets = &std::fs::read(data("all.erf")).unwrap()[..];
        let mut pipe: Box<dyn Write> = match file == fifo.path() {
            true => Box::new(std::fs::File::create(file).unwrap()),
            false => Box::new(child.stdin.take().unwrap()),
        };
        std::io::copy(&mut octets, &mut pipe).unwrap();
        drop(pipe);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{file}: {output:?}");
        let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(outcome, wanted, "{file}");
    }
}

#[test]
fn aal34_is_seen_by_its_cells_and_reassembled_by_its_mids() {
    let path = aal34_file();
    let outcome = replay_file(&path, &[]);
    let [aal34, aal5] = &outcome["vcs"].as_array().unwrap()[..] else {
        panic!("{outcome}");
    };
    assert_eq!(
        (&aal34["aal"], &aal34["aal_guessed"]),
        (&json!("aal34"), &json!(true))
    );
    assert_eq!(aal5["aal"], "aal5");
    // Each fault of the capture by the adapter's name for it.
    assert_eq!(
        aal34["pdus_discarded"],
        json!({ "aborted": 1, "length_error": 2, "lost_cell": 2, "tag_mismatch": 1 })
    );
    assert_eq!(
        aal34["cells_discarded"],
        json!({
            "aborted": 2,
            "crc_error": 1,
            "length_error": 3,
            "lost_cell": 5,
            "tag_mismatch": 2,
        })
    );
    assert_eq!(
        (&aal34["pdus_delivered"], &aal34["sdu_octets"]),
        (&json!(3), &json!(160))
    );
    assert_eq!(
        (&aal34["cells_held"], &outcome["conserved"]),
        (&json!(1), &json!(true))
    );
    let output = cellgate(&["replay", &path]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("\n1.60 is aal34?\n"), "{text}");
}

#[test]
fn what_the_user_says_of_an_aal_counts_more_than_the_cells() {
    let path = aal34_file();
    let of = |outcome: &Value| outcome["vcs"][0].clone();
    let said = of(&replay_file(&path, &["--aal", "1.60=aal34"]));
    assert_eq!(
        (&said["pdus_delivered"], &said["aal_guessed"]),
        (&json!(3), &json!(false))
    );
    // No cell says that it is the last of a PDU of AAL5, and every cell is an SDU of AAL0.
    let aal5 = of(&replay_file(&path, &["--aal", "1.60=aal5"]));
    assert_eq!(
        (&aal5["aal"], &aal5["cells_held"]),
        (&json!("aal5"), &json!(20))
    );
    let aal0 = of(&replay_file(&path, &["--aal", "1.60=aal0"]));
    assert_eq!(
        (&aal0["pdus_delivered"], &aal0["sdu_octets"]),
        (&json!(20), &json!(20 * 52))
    );
    let contract = of(&replay_file(&path, &["--vc", "1.60=ubr,aal5"]));
    assert_eq!(
        (&contract["aal"], &contract["aal_guessed"]),
        (&json!("aal5"), &json!(false))
    );
    // A contract that names no AAL leaves it to the cells. Of 100 octets and of 50, one PDU each
    // has no other fault before.
    let narrow = of(&replay_file(&path, &["--contract", "ubr:max_sdu=40"]));
    assert_eq!(narrow["aal"], "aal34");
    assert_eq!(
        (
            &narrow["pdus_delivered"],
            &narrow["pdus_discarded"]["oversized"]
        ),
        (&json!(2), &json!(2))
    );
    for bad in [
        &["--aal", "1.60=aal2"][..],
        &["--aal", "1.60=aal34", "--vc", "1.60=ubr,aal5"],
        &["--aal", "60=aal34"],
    ] {
        let output = cellgate(&[&["replay", &path], bad].concat());
        assert_eq!(output.status.code(), Some(2), "{bad:?}: {output:?}");
    }
}

#[test]
fn sdus_of_aal34_are_written_with_their_mids() {
    let out = Temporary::new("aal34.pcapng");
    replay_file(&aal34_file(), &["--out", out.path()]);
    let output = cellgate(&["decode", out.path(), "--json"]);
    let lines = String::from_utf8(output.stdout).unwrap();
    let objects = lines
        .lines()
        .map(|l| serde_json::from_str::<Value>(l).unwrap());
    let sdus = objects.filter(|o| o["kind"] == "sdu");
    let sdus: Vec<_> = sdus
        .map(|o| (o["length"].clone(), o["comments"][0].clone()))
        .collect();
    let wanted = [
        (json!(20), json!("aal34 mid 0")),
        (json!(40), json!("aal34 mid 1023")),
        (json!(100), json!("aal34 mid 5")),
        (json!(40), Value::Null),
    ];
    assert_eq!(sdus, wanted);
}

/// A capture of so many VCs, and cells of each.
fn many_vcs(name: &str, vcs: u32, payloads: &[[u8; 48]]) -> Temporary {
    let file = Temporary::new(name);
    let out = std::io::BufWriter::new(std::fs::File::create(file.path()).unwrap());
    let mut recorder = Recorder::new(out, "a test").unwrap();
    for vci in 100..100 + vcs {
        for payload in payloads {
            let cell = Cell::user(VpiVci::from_bits(vci), false, *payload);
            let (way, item) = (Direction::Receive, Item::Cell(&cell));
            recorder.record(0, way, item, None).unwrap();
        }
    }
    recorder.finish().unwrap();
    file
}

/// A request on the F4 flow of a path is answered, and of no VC: the counters add up.
#[test]
fn an_f4_request_that_is_answered_is_counted() {
    let file = Temporary::new("f4.pcapng");
    let out = std::io::BufWriter::new(std::fs::File::create(file.path()).unwrap());
    let mut recorder = Recorder::new(out, "a test").unwrap();
    let address = |vci| VpiVci::new(0, vci).unwrap();
    let request = Oam::Loopback(Loopback::request(7)).emit();
    let cells = [
        Cell::user(address(60), true, [0; 48]),
        Cell::user(address(4), false, request),
    ];
    for cell in &cells {
        let (way, item) = (Direction::Receive, Item::Cell(cell));
        recorder.record(0, way, item, None).unwrap();
    }
    recorder.finish().unwrap();
    let outcome = replay_file(file.path(), &[]);
    assert_eq!(
        (&outcome["cells_answered"], &outcome["conserved"]),
        (&json!(1), &json!(true))
    );
}

#[test]
fn as_many_vcs_as_are_opened_are_counted() {
    let file = many_vcs("many.pcapng", 1_025, &[[0; 48]]);
    let outcome = replay_file(file.path(), &[]);
    assert_eq!(outcome["vcs"].as_array().map(Vec::len), Some(1_024));
    assert_eq!(
        (&outcome["vcs_cut"], &outcome["cells_held"]),
        (&json!(true), &json!(1_024))
    );
}

#[test]
fn buffers_for_every_mid_are_not_taken_without_a_bound() {
    let begun = std::array::from_fn::<_, 64, _>(|mid| {
        let sar = SarPdu {
            segment_type: SegmentType::Bom,
            sn: 0,
            mid: mid as u16,
            payload: [1; SAR_PAYLOAD_LEN],
            li: SAR_PAYLOAD_LEN as u8,
        };
        sar.emit()
    });
    let file = many_vcs("mids.pcapng", 300, &begun);
    let output = cellgate(&["replay", file.path()]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("smaller max_sdu"), "{error}");
    let outcome = replay_file(file.path(), &["--contract", "ubr:max_sdu=1000"]);
    assert_eq!(outcome["vcs"][299]["aal"], "aal34");
    assert_eq!(outcome["conserved"], true);
}

#[test]
fn a_broken_record_is_named_counted_and_fails() {
    let cut = Temporary::new("cut.pcap");
    let octets = std::fs::read(data("sunatm.pcap")).unwrap();
    std::fs::write(cut.path(), &octets[..octets.len() - 1]).unwrap();
    let output = cellgate(&["replay", cut.path(), "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&outcome["records"], &outcome["records_broken"]),
        (&json!(10), &json!(1))
    );
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(errors.lines().count(), 1, "{errors}");
    let output = cellgate(&["replay", &data("aal.enc")]);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
}
