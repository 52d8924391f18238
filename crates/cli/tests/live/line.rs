//! A line that is impaired on purpose: what arrives of what was sent, by its law.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use cellgate::{Connection, Error};
use serde_json::Value;

use crate::daemon::{Daemon, stdout};

/// PDUs of a cell each, and some more whose arrival shows that all before have had their chance.
const SDU: usize = 40;
const LAST: u64 = 16;
/// Bits of such a cell on an NNI without HEC, of which an inverted one loses its PDU: the payload,
/// VPI and VCI, and the PTI's first bit. The PTI's last bit, which ends PDUs, loses the next, too.
const BITS: f64 = 384.0 + 28.0 + 1.0;
const BITS_OF_TWO: f64 = 1.0;

struct Pair {
    daemon: Daemon,
    near: Connection,
    far: Connection,
}

impl Pair {
    fn new() -> Self {
        let daemon = Daemon::start_told(
            "[[interface]]\nname = \"a\"\nlink.memory.peer = \"b\"\n\
             [[interface]]\nname = \"b\"\nlink.memory.peer = \"a\"\nline = \"loss 100%\"\n",
        );
        let open = |address: &str| {
            let builder = Connection::builder().socket(daemon.socket());
            let builder = builder.address(address).contract("ubr,aal5:max_sdu=40");
            builder.transmit_pdus(64).receive_pdus(256).open().unwrap()
        };
        let (near, far) = (open("a.0.40"), open("b.0.40"));
        Self { daemon, near, far }
    }

    /// The line of `b`, in words.
    fn set(&self, words: &str) {
        let words = words.split(' ');
        let words: Vec<&str> = ["itf", "set", "b", "line"]
            .into_iter()
            .chain(words)
            .collect();
        self.daemon.ok(&words);
    }

    /// What the line of `b` has done.
    fn counts(&self) -> Value {
        let output = self.daemon.run(&["itf", "show", "b", "--json"]);
        let told: Value = serde_json::from_str(&stdout(&output)).unwrap();
        told["interfaces"][0]["counts"]["line"].clone()
    }

    /// Sends so many PDUs from `a` to `b`; the numbers of those that did not arrive.
    fn lost(&self, pdus: u64) -> BTreeSet<u64> {
        let deadline = Instant::now() + Duration::from_secs(300);
        let mut lost: BTreeSet<u64> = (0..pdus).collect();
        let (mut next, mut buffer) = (0_u64, [0; SDU]);
        loop {
            let mut sdu = [0x55; SDU];
            sdu[..8].copy_from_slice(&next.to_be_bytes());
            let is_sent = next < pdus + LAST
                && match self.near.try_send(&sdu) {
                    Ok(()) => true,
                    Err(Error::WouldBlock(_)) => false,
                    Err(error) => panic!("{error}"),
                };
            next += u64::from(is_sent);
            match self.far.try_recv(&mut buffer) {
                Ok(received) => {
                    assert_eq!(
                        (received.sdu_len, &buffer[8..]),
                        (SDU, &[0x55; SDU - 8][..])
                    );
                    let number = u64::from_be_bytes(*buffer.first_chunk().unwrap());
                    if number >= pdus {
                        break;
                    }
                    assert!(lost.remove(&number), "{number} came twice");
                }
                Err(Error::WouldBlock(_)) if is_sent => {}
                Err(Error::WouldBlock(_)) => std::thread::yield_now(),
                Err(error) => panic!("{error}"),
            }
            assert!(
                Instant::now() < deadline,
                "{next} sent, {} away",
                lost.len()
            );
        }
        // The rest, so that the next run begins with nothing on its way.
        while next < pdus + LAST {
            let mut sdu = [0x55; SDU];
            sdu[..8].copy_from_slice(&next.to_be_bytes());
            self.near.send(&sdu).unwrap();
            next += 1;
        }
        self.near.flush(Duration::from_secs(60)).unwrap();
        while self.counts()["cells_in"] != pdus + LAST {
            assert!(Instant::now() < deadline, "{}", self.counts());
        }
        while self
            .far
            .recv_timeout(&mut buffer, Duration::from_millis(1))
            .is_ok()
        {}
        lost
    }
}

fn is_by_the_law(pdus: u64, ber: f64) {
    let pair = Pair::new();
    // The configuration has one: the daemon tells of it when it has looked at its adapter.
    let deadline = Instant::now() + Duration::from_secs(60);
    while pair.counts()["cells_in"] != 0 {
        assert!(Instant::now() < deadline, "{}", pair.counts());
    }
    pair.set("ber 1e-12 seed 1");
    assert_eq!(
        pair.lost(pdus / 10),
        BTreeSet::new(),
        "nothing else is lost"
    );
    let words = format!("ber {ber:e} seed 7");
    let run = || {
        pair.set(&words);
        let lost = pair.lost(pdus);
        let counts = pair.counts();
        let damaged = ["header_errors", "payload_errors"].map(|key| counts[key].as_u64());
        assert!(damaged[1] > Some(0) && counts["cells_out"] == counts["cells_in"]);
        lost
    };
    let lost = run();
    let mean = pdus as f64 * ber * (BITS + 2.0 * BITS_OF_TWO);
    let sigma = (pdus as f64 * ber * (BITS + 4.0 * BITS_OF_TWO)).sqrt();
    let count = lost.len() as f64;
    println!(
        "{} of {pdus} PDUs lost at {ber:e}: {mean:.0} +- {sigma:.0}",
        lost.len()
    );
    assert!(
        (count - mean).abs() <= 3.0 * sigma,
        "{count}, not {mean} +- {sigma}"
    );
    assert_eq!(run(), lost, "the same PDUs for the same seed");
    pair.set(&format!("ber {ber:e} seed 8"));
    assert_ne!(pair.lost(pdus), lost);
    pair.set("clean");
    assert_eq!(pair.counts(), Value::Null);
}

#[test]
fn bit_errors_damage_as_many_pdus_as_the_law_says_and_the_same_for_a_seed() {
    is_by_the_law(20_000, 1e-5);
}

/// The same over a million PDUs.
#[test]
#[cfg_attr(not(feature = "live"), ignore = "live: --features live")]
fn bit_errors_damage_a_millionth_of_a_million() {
    is_by_the_law(1_000_000, 1e-6);
    println!("ran line_of_a_million");
}
