//! ABR live: a sender follows a bottleneck that is halved and restored, and loses nothing there.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use cellgate::{Connection, Error, Indication};
use serde_json::Value;

use crate::daemon::{Daemon, octets, stdout};

const SDU: usize = 1_496;
/// Cells of such a PDU.
const CELLS: u64 = 32;
/// Of a file: some five seconds of the bottleneck.
const FILE: usize = 4_000_000;
/// Cells/s of the bottleneck.
const WIDE: u64 = 20_000;

/// A daemon whose line from `a` to `b` is a bottleneck.
struct Bottleneck(Daemon);

impl Bottleneck {
    fn new() -> Self {
        Self(Daemon::start_told(&format!(
            "[[interface]]\nname = \"a\"\nlink.memory.peer = \"b\"\n\
             [[interface]]\nname = \"b\"\nlink.memory.peer = \"a\"\nline = \"{}\"\n",
            line(WIDE)
        )))
    }

    fn set(&self, rate: u64) {
        let words = line(rate);
        let words: Vec<&str> = ["itf", "set", "b", "line"]
            .into_iter()
            .chain(words.split(' '))
            .collect();
        self.0.ok(&words);
    }

    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&stdout(&self.0.run(arguments))).unwrap()
    }

    /// Cells that the line has thrown away for want of room since it was set.
    fn overflown(&self) -> u64 {
        let told = self.json(&["itf", "show", "b", "--json"]);
        let counts = &told["interfaces"][0]["counts"]["line"];
        counts["queue_full"].as_u64().unwrap()
    }
}

struct Pair {
    bottleneck: Bottleneck,
    near: Connection,
    far: Connection,
}

impl Pair {
    fn new(contract: &str) -> Self {
        let bottleneck = Bottleneck::new();
        let open = |address: &str| {
            let builder = Connection::builder().socket(bottleneck.0.socket());
            let builder = builder.address(address).contract(contract);
            builder
                .transmit_pdus(64)
                .receive_pdus(1_024)
                .open()
                .unwrap()
        };
        let (near, far) = (open("a.0.40"), open("b.0.40"));
        Self {
            bottleneck,
            near,
            far,
        }
    }

    /// Sends whatever it may for so long; cells/s that arrive.
    fn run(&self, span: Duration) -> u64 {
        let begin = Instant::now();
        let (sdu, mut buffer, mut pdus) = ([0x55; SDU], [0; SDU], 0);
        while begin.elapsed() < span {
            let is_sent = match self.near.try_send(&sdu) {
                Ok(()) => true,
                Err(Error::WouldBlock(_)) => false,
                Err(error) => panic!("{error}"),
            };
            match self.far.try_recv(&mut buffer) {
                Ok(_) => pdus += 1,
                Err(Error::WouldBlock(_)) if is_sent => {}
                Err(Error::WouldBlock(_)) => thread::sleep(Duration::from_micros(200)),
                Err(error) => panic!("{error}"),
            }
        }
        pdus * CELLS * 1_000_000 / begin.elapsed().as_micros() as u64
    }
}

fn line(rate: u64) -> String {
    format!("rate {rate} queue 4000 efci 100")
}

/// ABR with SDUs of so many octets.
fn available(sdu: usize) -> String {
    format!("abr,aal5:pcr=100000,min_pcr=1000,icr=5000,rif=1/512,rdf=1/32,max_sdu={sdu}")
}

#[test]
fn a_sender_follows_a_line_that_is_halved_and_restored() {
    let pair = Pair::new(&available(SDU));
    for rate in [WIDE, WIDE / 2, WIDE] {
        pair.bottleneck.set(rate);
        // It finds the new rate.
        pair.run(Duration::from_millis(1_500));
        let got = pair.run(Duration::from_secs(2));
        println!("line {rate}, got {got} cells/s of data");
        // One cell of 32 is a forward RM cell.
        let most = rate * 31 / 32;
        assert!(
            (most * 8 / 10..=most * 102 / 100).contains(&got),
            "{got} of {most}"
        );
        assert_eq!(pair.bottleneck.overflown(), 0, "at {rate} cells/s");
    }
    let told = pair.bottleneck.json(&["vc", "show", "a.0.40", "--json"]);
    let abr = &told["connections"][0]["stats"]["abr"];
    let number = |key: &str| abr[key].as_u64().unwrap();
    assert_eq!(number("floor_cell_s"), 1_000);
    assert!(number("allowed_cell_s") < 60_000, "{abr}");
    assert!(number("forward_sent") > 1_000 && number("backward_received") > 1_000);
    assert!(["increase", "congestion"].contains(&abr["reason"].as_str().unwrap()));
    let shown = pair.bottleneck.0.ok(&["vc", "show", "a.0.40"]);
    for part in ["allowed (ACR)", "floor (MCR)", "1000 cells/s guaranteed"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let rates = std::iter::from_fn(|| pair.near.next_indication().unwrap());
    let rates = rates.filter(|told| matches!(told, Indication::Rate { .. }));
    assert!(rates.count() > 0, "its application hears of the rate");
    drop(pair);
    // The same as best effort overflows the line.
    let pair = Pair::new("ubr,aal5:pcr=100000,max_sdu=1496");
    pair.run(Duration::from_millis(1_500));
    assert!(
        pair.bottleneck.overflown() > 10_000,
        "{}",
        pair.bottleneck.overflown()
    );
    println!("ran abr_follows");
}

/// Puts a file over the bottleneck, which is halved and restored meanwhile: cells that overflowed.
fn put(contract: &str) -> u64 {
    let bottleneck = Bottleneck::new();
    let daemon = &bottleneck.0;
    let [file, place] = ["file", "place"].map(|name| daemon.path(name));
    fs::write(&file, octets(FILE)).unwrap();
    fs::create_dir(&place).unwrap();
    let [from, to] = [&file, &place].map(|path| path.to_str().unwrap());
    let at = ["--contract", contract, "--vc"];
    let serve = [&["serve-files", to, "--writable"][..], &at, &["b.0.50"]].concat();
    let server = daemon.begin(&serve, "serving");
    let overflown = thread::scope(|scope| {
        let put = [&["put", from, "file"][..], &at, &["a.0.50"]].concat();
        let put = scope.spawn(move || daemon.ok(&put));
        let mut overflown = 0;
        for rate in [WIDE / 2, WIDE] {
            thread::sleep(Duration::from_secs(2));
            overflown += bottleneck.overflown();
            bottleneck.set(rate);
        }
        put.join().expect("it is put");
        overflown + bottleneck.overflown()
    });
    assert!(fs::read(place.join("file")).unwrap() == fs::read(file).unwrap());
    server.kill();
    overflown
}

#[test]
#[cfg_attr(not(feature = "live"), ignore = "live: --features live")]
fn a_file_that_is_put_follows_the_line_as_best_effort_does_not() {
    assert_eq!(put(&available(9_180)), 0);
    let overflown = put("ubr,aal5:pcr=100000,max_sdu=9180");
    assert!(overflown > 1_000, "{overflown}");
    println!("ran abr_put");
}
