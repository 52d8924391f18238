//! What is printed for people fits 80 columns where `$COLUMNS` says so.

use crate::daemon::{Daemon, stderr, stdout};

const CONTRACT: &str = "cbr,aal5:pcr=20Mbps,max_sdu=1500";
const BURSTS: &str = "rt-vbr,aal5:tx:pcr=10000,scr=5000,mbs=200,max_sdu=9180,rx:none";

#[test]
fn tables_and_lines_fit_80_columns() {
    let daemon = Daemon::start("");
    let udp =
        "itf add wan type udp local 127.77.8.1:6635 peer 127.0.0.1:9 label 100:101 mode n1-cw";
    let told = |exit: i32, words: &[&str]| {
        let output = daemon.command(words).env("COLUMNS", "80").output().unwrap();
        let (out, err) = (stdout(&output), stderr(&output));
        assert_eq!(output.status.code(), Some(exit), "{words:?}: {out}{err}");
        for line in out.lines() {
            assert!(line.chars().count() <= 80, "{words:?}: {line}\n{out}");
        }
        out
    };
    daemon.ok(&udp.split(' ').collect::<Vec<_>>());
    daemon.ok(&["vc", "add", "wan.0.101", "contract", BURSTS]);
    daemon.ok(&["vc", "add", "a.0.100", "contract", CONTRACT]);
    let server = ["perf", "--server", "--vc", "b.0.60"];
    let server = daemon.begin(&server, "serving on b.0.60");
    let client = ["perf", "--client", "a.0.60", "--time", "1"];
    assert!(told(0, &client).contains("\njitter "));
    drop(server);
    let all = told(0, &["itf", "show"]);
    assert!(
        all.contains("135.6") && all.contains("udp peer 127.0.0.1:9"),
        "{all}"
    );
    let wide = daemon.ok(&["itf", "show", "--wide"]);
    assert!(
        wide.contains("353207") && wide.contains("label 100:101"),
        "{wide}"
    );
    let all = told(0, &["vc", "show"]);
    assert!(all.contains("with --wide: user, process"), "{all}");
    assert!(!all.contains("permanent"), "{all}");
    let wide = daemon
        .command(&["vc", "show", "--wide"])
        .env("COLUMNS", "80")
        .output();
    let wide = stdout(&wide.unwrap());
    assert!(
        wide.contains("permanent") && wide.contains("scr=5000"),
        "{wide}"
    );
    for words in [
        &["vc", "show", "wan.0.101"][..],
        &["vc", "show", "a.0.100"],
        &["stats"],
        &["top", "--once", "--interval", "0.3"],
        &["tun", "show"],
        &["msna", "list"],
        &["contract", CONTRACT],
        &["config", "new"],
        &["lab", "list"],
        &["lab", "run", "l4atm-example"],
    ] {
        told(0, words);
    }
}
