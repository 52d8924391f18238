//! What a run of iperf3 over a connection must have carried.

use serde_json::{Value, json};

/// Looks at what the client tells of a run: no more came than the cells of the contract hold, and
/// at least half of what was asked for of it. Less is void if an adapter stood still, or TCP had to
/// send again: an error says so.
pub(crate) fn judge(
    told: &Value,
    cell_s: u64,
    asked_octet_s: u64,
    excuse: Option<String>,
) -> Result<(), String> {
    let end = &told["end"];
    let (sent, received) = (&end["sum_sent"], &end["sum_received"]);
    let bytes = |sum: &Value| sum["bytes"].as_u64().expect("octets");
    let octets = bytes(received);
    let seconds = received["seconds"].as_f64().expect("a time");
    // UDP has none.
    let retransmits = sent["retransmits"].as_u64().unwrap_or(0);
    println!(
        "iperf3: {:.2} of {:.2} x 10^6 bit/s that the cells carry; retransmits {retransmits}, \
         lost {}",
        octets as f64 * 8.0 / seconds / 1e6,
        (cell_s * 48 * 8) as f64 / 1e6,
        received["lost_packets"],
    );
    assert!(octets <= bytes(sent), "{end}");
    // What its buffers held before is beyond it.
    let room = (cell_s * 48) as f64 * (seconds + 0.5);
    assert!(octets as f64 <= room, "{octets} octets in {seconds} s");
    let least = asked_octet_s.min(cell_s * 48) as f64 * seconds / 2.0;
    if octets as f64 >= least {
        return Ok(());
    }
    let little = format!("{octets} octets of {least:.0} in {seconds:.2} s");
    match (excuse, retransmits) {
        (Some(excuse), _) => Err(format!("{little}: {excuse}")),
        (None, 1..) => Err(format!("{little}: {retransmits} retransmits")),
        (None, 0) => panic!("{little}, and nothing explains it"),
    }
}

#[test]
fn little_is_void_only_if_something_explains_it() {
    let told = |octets: u64, retransmits: u64| {
        json!({ "end": {
            "sum_sent": { "bytes": 9_600_000, "retransmits": retransmits },
            "sum_received": { "bytes": octets, "seconds": 2.0 },
        }})
    };
    let stalled = || Some("the adapter did not run".to_owned());
    // 4,800,000 octets/s.
    let judge = |told, asked, excuse| judge(&told, 100_000, asked, excuse);
    assert_eq!(judge(told(4_800_000, 0), u64::MAX, None), Ok(()));
    assert!(judge(told(4_799_999, 0), u64::MAX, stalled()).is_err());
    assert!(judge(told(4_799_999, 1), u64::MAX, None).is_err());
    assert_eq!(judge(told(2_000_000, 0), 2_000_000, None), Ok(()));
    for octets in [0, 1, 1_999_999] {
        let judged = std::panic::catch_unwind(|| judge(told(octets, 0), 2_000_000, None));
        assert!(judged.is_err(), "{octets}");
    }
}
