//! What a run of iperf3 over a connection must have carried.

use std::time::Duration;

use serde_json::{Value, json};

use crate::daemon::Daemon;

/// What is on its way has come by then.
const ON_ITS_WAY: Duration = Duration::from_millis(200);

/// PDUs that the only devices of both daemons have sent, and that have not come to the other.
pub(crate) fn missing(daemons: &[Daemon; 2]) -> u64 {
    std::thread::sleep(ON_ITS_WAY);
    let carried = daemons.each_ref().map(|daemon| {
        let shown: Value =
            serde_json::from_str(&daemon.ok(&["tun", "show", "--json"])).expect("JSON");
        shown["devices"][0]["carried"].clone()
    });
    let count = |value: &Value| value.as_u64().expect("a count");
    let sent = |this: &Value| {
        let own = &this["inatmarp"];
        count(&this["sent_pdus"]) + count(&own["asked"]) + count(&own["answered"])
    };
    let came = |this: &Value| {
        let refused = this["not_received"].as_object().expect("counts").values();
        count(&this["received_pdus"])
            + count(&this["inatmarp"]["received"])
            + refused.map(count).sum::<u64>()
    };
    let sent: u64 = carried.iter().map(sent).sum();
    // One is asked after the other.
    sent.saturating_sub(carried.iter().map(came).sum())
}

/// Looks at what the client tells of a run in which so many PDUs were `lost` between the devices:
/// no more came than the cells of the contract hold, and at least half of what was asked for of it.
/// Less is void if an adapter stood still, or TCP had to send again what was never lost there: an
/// error says so.
pub(crate) fn judge(
    told: &Value,
    cell_s: u64,
    asked_octet_s: u64,
    excuse: Option<String>,
    lost: u64,
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
    match (excuse, lost, retransmits) {
        (Some(excuse), ..) => Err(format!("{little}: {excuse}")),
        (None, 0, 1..) => Err(format!("{little}: {retransmits} retransmits")),
        (None, ..) => panic!("{little}, {lost} PDUs were lost, and nothing explains it"),
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
    let judge = |told, asked, excuse| judge(&told, 100_000, asked, excuse, 0);
    assert_eq!(judge(told(4_800_000, 0), u64::MAX, None), Ok(()));
    assert!(judge(told(4_799_999, 0), u64::MAX, stalled()).is_err());
    assert!(judge(told(4_799_999, 1), u64::MAX, None).is_err());
    assert_eq!(judge(told(2_000_000, 0), 2_000_000, None), Ok(()));
    let fails = |told: Value, lost| {
        std::panic::catch_unwind(|| self::judge(&told, 100_000, 2_000_000, None, lost)).is_err()
    };
    for octets in [0, 1, 1_999_999] {
        assert!(fails(told(octets, 0), 0), "{octets}");
    }
    assert!(
        fails(told(1_999_999, 1), 1),
        "lost between two adapters that ran"
    );
}
