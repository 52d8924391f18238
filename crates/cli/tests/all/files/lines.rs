//! Lines that damage cells: what is lost is sent again, the loss is that of its law, and what a
//! terminal throws away is told.

use std::fs;

use serde_json::Value;

use super::ends::{End, Place};
use crate::daemon::{Daemon, octets};

const LEN: usize = 3_000_000;
const CONTRACT: &str = "cbr,aal5:pcr=20000,burst=32,max_sdu=9180";
/// Octets of a file in a PDU of 14 cells, and the share of such PDUs that is lost: a bit error in
/// any of 416 bits of a cell, where no HEC mends its header.
const PDU: &str = "640";
const LOST: f64 = 0.056_6;

fn daemon() -> Daemon {
    Daemon::start_beside(
        "[adapter]\nidle = \"sleep\"\npin = false\n\
         [[interface]]\nname = \"a\"\nlink.memory.peer = \"b\"\n\
         [[interface]]\nname = \"b\"\nlink.memory.peer = \"a\"\nline = \"ber 1e-5 seed 3\"\n",
    )
}

/// Puts a file, each end at a level of its own: what the sender says at last, and the server of
/// what it threw away.
fn put(daemon: &Daemon, place: &Place, levels: [&str; 2], vci: u16, pdu: &str) -> [Value; 2] {
    let to = place.directory(&format!("to-{vci}"));
    let [a, b] = ["a", "b"].map(|end| format!("{end}.0.{vci}"));
    let words = |vc, level| ["--vc", vc, "--contract", CONTRACT, "--level", level];
    let server = End::serve(
        daemon,
        &to,
        &[&["--writable"], &words(&b, levels[1])[..]].concat(),
    );
    let from = place.text("file");
    let put = [&["put", &from, "--pdu", pdu][..], &words(&a, levels[0])].concat();
    let (code, lines, told) = End::begin(daemon, &put).end();
    assert_eq!(code, 0, "{levels:?}: {told}");
    let both = [place.at("file"), to.join("file")].map(|path| fs::read(path).unwrap());
    assert!(both[0] == both[1], "{levels:?}");
    let discards = |line: &Value| {
        let of = &line["discarded"];
        of.is_object().then(|| of.clone())
    };
    let sent = lines.last().expect("a summary").clone();
    let lost = number(&sent, "pdus_lost");
    // Damaged PDUs come as far as a terminal that reassembles them. What of them came before the
    // file is told for itself, if there was some.
    let most = |line: &Value| {
        discards(line).filter(|of| of["pdus"]["crc_error"].as_f64().unwrap_or(0.0) > lost / 2.0)
    };
    // Where nothing is thrown away nothing is told.
    let discarded = match levels[1] {
        "cell" => server.until("discards", most),
        _ => server.lines().iter().find_map(discards).unwrap_or_default(),
    };
    [sent, discarded]
}

fn number(value: &Value, key: &str) -> f64 {
    value[key]
        .as_f64()
        .unwrap_or_else(|| panic!("{key}: {value}"))
}

#[test]
fn bit_errors_lose_pdus_as_their_law_says_whoever_makes_the_cells() {
    let (daemon, place) = (daemon(), Place::new("bit-errors"));
    fs::write(place.at("file"), octets(LEN)).unwrap();
    let levels = [
        ["packet", "cell"],
        ["cell", "packet"],
        ["packet", "packet"],
        ["cell", "cell"],
    ];
    for (vci, levels) in (120..).zip(levels) {
        let [sent, discarded] = put(&daemon, &place, levels, vci, PDU);
        let (pdus, lost) = (number(&sent, "pdus"), number(&sent, "pdus_lost"));
        let spread = (pdus * LOST * (1.0 - LOST)).sqrt();
        assert!(
            (lost - pdus * LOST).abs() < 5.0 * spread,
            "{levels:?}: {sent}"
        );
        // Nothing else is sent again, but for what a busy machine was too late with: who went back
        // by a window would send ten times as much.
        let again = number(&sent, "sent_again") / 640.0;
        assert!(again < 2.0 * lost + 64.0, "{levels:?}: {sent}");
        let damaged = discarded["pdus"]["crc_error"].as_f64().unwrap_or(0.0);
        assert_eq!(
            damaged > 0.0,
            levels[1] == "cell",
            "{levels:?}: {discarded}"
        );
    }
}

#[test]
fn pdus_become_as_short_as_errors_make_best() {
    let (daemon, place) = (daemon(), Place::new("length"));
    fs::write(place.at("file"), octets(LEN)).unwrap();
    let [sent, _] = put(&daemon, &place, ["packet", "packet"], 130, "auto");
    // 600 to 700 octets at the best, 9,108 at first.
    assert!(
        (3_500.0..7_000.0).contains(&number(&sent, "pdus")),
        "{sent}"
    );
    let [long, _] = put(&daemon, &place, ["packet", "packet"], 131, "9108");
    assert!(
        number(&sent, "sent") * 1.5 < number(&long, "sent"),
        "{sent} {long}"
    );
}
