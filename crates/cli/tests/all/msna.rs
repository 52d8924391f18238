//! `cellgate msna` over a daemon whose interfaces `a` and `b` are joined.

use serde_json::Value;

use crate::daemon::{Daemon, octets};

const JOINED: &str = "[adapter]\nidle = \"sleep\"\npin = false\n\
                      [[interface]]\nname = \"a\"\nlink.memory.peer = \"b\"\n\
                      [[interface]]\nname = \"b\"\nlink.memory.peer = \"a\"\n";

fn json(printed: &str) -> Value {
    serde_json::from_str(printed).unwrap_or_else(|error| panic!("{error}: {printed}"))
}

#[test]
fn blocks_come_back_by_every_access() {
    let daemon = Daemon::start_beside(JOINED);
    let serve = ["msna", "serve", "--host", "10.0.0.2", "--itf", "b"];
    for access in ["cells", "aal5"] {
        let way = ["--access", access];
        let server = daemon.begin(&[&serve[..], &way].concat(), "serving");
        let ping = ["msna", "ping", "10.0.0.2:7", "--itf", "a", "-c", "20", "-J"];
        for length in [["-s", "1"], ["--cells", "255"]] {
            let told = json(&daemon.ok(&[&ping[..], &way, &length].concat()));
            let count = |key: &str| told[key].as_u64().unwrap();
            assert_eq!([count("sent"), count("returned")], [20, 20], "{told}");
            assert_eq!([count("lost"), count("wrong")], [0, 0], "{told}");
            assert!(count("min_ns") <= count("p99_ns"), "{told}");
        }
        let text = daemon.ok(&[&ping[..7], &way].concat());
        assert!(text.contains("20 back, 0 lost"), "{text}");
        let datagram = [
            "msna",
            "datagram",
            "10.0.0.2:7",
            "hello",
            "--itf",
            "a",
            "-W",
            "5",
        ];
        assert_eq!(
            daemon.ok(&[&datagram[..], &way].concat()),
            "10.0.0.2:7: hello\n"
        );
        let connect = ["msna", "connect", "10.0.0.2:7", "--itf", "a"];
        let sent = octets(30_000);
        assert_eq!(
            daemon.fed(&[&connect[..], &way].concat(), &sent).stdout,
            sent
        );
        let printed = String::from_utf8(server.interrupt()).unwrap();
        let count = |told: &str| {
            printed
                .lines()
                .filter(|line| line.starts_with(told))
                .count()
        };
        assert_eq!(count("connected"), 4, "{printed}");
        // The last may have ended when the server did.
        assert!((3..=4).contains(&count("ended")), "{printed}");
    }
}

/// Of a block's first cell alone a server hears, and reads the others in time.
#[test]
fn a_server_that_is_told_of_first_cells_reads_the_others() {
    let slow = JOINED.replace(
        "[[interface]]\n",
        "[[interface]]\nline_rate.cell_s = 1000\n",
    );
    let daemon = Daemon::start_beside(&slow);
    let serve = ["msna", "serve", "--host", "10.0.0.2", "--itf", "b"];
    let server = daemon.begin(&serve, "serving");
    let ping = [
        "msna",
        "ping",
        "10.0.0.2:7",
        "--itf",
        "a",
        "--notify",
        "first",
    ];
    let told = json(&daemon.ok(&[&ping[..], &["--cells", "10", "-c", "5", "-J"]].concat()));
    assert_eq!(told["returned"], 5, "{told}");
    // Nine slots of a millisecond each way, of which each cell that was late on a busy machine
    // makes good seven eighths of one; its other times come each hundred.
    let least = told["min_ns"].as_u64().unwrap();
    assert!((12_000_000..80_000_000).contains(&least), "{told}");
    server.interrupt();
}

#[test]
fn what_goes_wrong_is_told_with_its_exit_code() {
    let daemon = Daemon::start_beside(JOINED);
    let serve = ["msna", "serve", "--host", "10.0.0.2", "--itf", "b"];
    let server = daemon.begin(&serve, "serving");
    let ping = |to: &'static str| ["msna", "ping", to, "--itf", "a"];
    let nobody = daemon.fails(1, &ping("10.0.0.2:8"));
    assert!(nobody.contains("nobody serves there"), "{nobody}");
    let silent = daemon.fails(1, &ping("10.0.0.3:7"));
    assert!(silent.contains("nobody answers"), "{silent}");
    let much = ["--contract", "cbr:pcr=90000000"];
    let refused = daemon.fails(3, &[&ping("10.0.0.2:7")[..], &much].concat());
    assert!(
        refused.contains("this would fit: cbr,aal0:pcr="),
        "{refused}"
    );
    let none = daemon.fails(2, &[&ping("10.0.0.2:7")[..], &["--contract", "x"]].concat());
    assert!(none.contains("no contract"), "{none}");
    let long = daemon.fails(2, &[&ping("10.0.0.2:7")[..], &["-s", "11731"]].concat());
    assert!(long.contains("at most 11730"), "{long}");
    let itf = daemon.fails(1, &["msna", "ping", "10.0.0.2:7", "--itf", "x"]);
    assert!(itf.contains("no such interface"), "{itf}");
    daemon.fails(2, &ping("10.0.0.2"));
    let other = daemon.fails(1, &["msna", "serve", "--host", "10.0.0.9", "--itf", "b"]);
    assert!(
        other.contains("open already") || other.contains("in use"),
        "{other}"
    );
    server.interrupt();
}

#[test]
fn a_relay_joins_two_lines() {
    let lines = JOINED.to_owned()
        + "[[interface]]\nname = \"c\"\nlink.memory.peer = \"d\"\n\
           [[interface]]\nname = \"d\"\nlink.memory.peer = \"c\"\n";
    let daemon = Daemon::start_beside(&lines);
    let relay = ["msna", "relay", "--itf", "b", "--itf", "c", "--by"];
    let serve = ["msna", "serve", "--host", "10.0.0.2", "--itf", "d"];
    for by in ["cell", "block"] {
        let relay = daemon.begin(&[&relay[..], &[by]].concat(), "relaying");
        let server = daemon.begin(&serve, "serving");
        let ping = [
            "msna",
            "ping",
            "10.0.0.2:7",
            "--itf",
            "a",
            "--cells",
            "40",
            "-J",
        ];
        let told = json(&daemon.ok(&ping));
        assert_eq!(told["returned"], 10, "{told}");
        server.interrupt();
        let told = String::from_utf8(relay.interrupt()).unwrap();
        let handed = if by == "cell" {
            "800 cells"
        } else {
            "20 blocks"
        };
        assert!(told.starts_with(handed), "{told}");
    }
    daemon.fails(2, &["msna", "relay", "--itf", "b"]);
}

/// Calls over MSNA, and over TCP beside it.
#[cfg(feature = "rpc")]
#[test]
fn calls_are_answered_over_msna_and_tcp() {
    let daemon = Daemon::start_beside(JOINED);
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let tcp = format!("127.0.0.1:{port}");
    let rpc = ["msna", "rpc"];
    let over = [
        ("msna", "10.0.0.2:20", ["--itf", "b"], ["--itf", "a"]),
        ("tcp", tcp.as_str(), ["--itf", "b"], ["--itf", "a"]),
    ];
    for (over, to, served, called) in over {
        let way = ["--over", over];
        let serve = [&rpc[..], &["serve", to], &way, &served].concat();
        let server = daemon.begin(&serve, "serving calls");
        for (kind, size) in [("echo", "0"), ("echo", "8000"), ("sink", "100000")] {
            let ask = [kind, to, "-c", "5", "-s", size, "-J"];
            let told = json(&daemon.ok(&[&rpc[..], &ask, &way, &called].concat()));
            assert_eq!([&told["calls"], &told["replied"]], [5, 5], "{told}");
            assert_eq!(told["over"], over, "{told}");
            assert!(told["min_ns"].as_u64() <= told["p99_ns"].as_u64(), "{told}");
        }
        let text = daemon.ok(&[&rpc[..], &["echo", to], &way, &called].concat());
        assert!(text.contains("10 replied, 0 failed"), "{text}");
        server.interrupt();
    }
    let gone = daemon.fails(1, &["msna", "rpc", "echo", &tcp, "--over", "tcp"]);
    assert!(gone.contains("refused"), "{gone}");
    let none = daemon.fails(2, &["msna", "rpc", "echo", "10.0.0.2"]);
    assert!(none.contains("10.0.0.2"), "{none}");
}

#[cfg(not(feature = "rpc"))]
#[test]
fn a_build_without_calls_says_so() {
    let daemon = Daemon::start_beside(JOINED);
    let told = daemon.fails(2, &["msna", "rpc", "echo", "10.0.0.2:20"]);
    assert!(told.contains("the feature `rpc` has them"), "{told}");
}

#[test]
fn circuits_of_nodes_are_listed() {
    let daemon = Daemon::start_beside(JOINED);
    let head = daemon.ok(&["msna", "list"]);
    assert_eq!(head.lines().count(), 1, "{head}");
    let serve = ["msna", "serve", "--host", "10.0.0.2", "--itf", "b"];
    let server = daemon.begin(&serve, "serving");
    daemon.ok(&["vc", "add", "a.0.99", "contract", "ubr,aal5:max_sdu=64"]);
    let told = json(&daemon.ok(&["msna", "list", "-J"]));
    let circuits = told["circuits"].as_array().unwrap();
    assert_eq!(circuits.len(), 1, "{told}");
    assert_eq!(circuits[0]["interface"], "b", "{told}");
    assert_eq!(circuits[0]["circuit"], 32, "{told}");
    assert_eq!(circuits[0]["signalling"], true, "{told}");
    let text = daemon.ok(&["msna", "list"]);
    assert!(text.contains(" messages "), "{text}");
    server.interrupt();
}
