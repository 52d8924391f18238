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
