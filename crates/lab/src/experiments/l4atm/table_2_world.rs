//! The writers of Table 2 in the world: their server, its credit, its adapter and a line. What runs
//! is a file that anybody can change and run.

use cellgate_report::{Check, Claim, Entry, Table, Tolerance, dec};

use super::table_2::ROWS;
use super::units::{BINARY, mbps, rate};
use crate::experiments::{Error, Progress};
use crate::world::scenario::Scenario;
use crate::world::{Options, check_shown};

const FILE: &str = include_str!("table_2.toml");
const READING: &str = "in the world";

/// Who of the file sends at the rates of the rows.
const CONNECTIONS: [&str; 2] = ["large", "small"];

/// A world's progress by the second, after `steps` of something else.
pub(super) struct Seconds<'a> {
    pub(super) progress: &'a mut dyn Progress,
    pub(super) steps: u64,
}

impl Progress for Seconds<'_> {
    fn step(&mut self, done_ms: u64, all_ms: u64) {
        let after = |ms| self.steps + ms / 1_000;
        self.progress.step(after(done_ms), after(all_ms));
    }
}

/// Runs the file for so long: a table, and whether both rates are kept on both sides. Credit is
/// given for 10 ms at a time: a rate that is wrong by 0.1 % shows after more than ten seconds.
pub(super) fn run(time_s: u64, progress: &mut dyn Progress) -> Result<(Table, Vec<Check>), Error> {
    played(FILE, time_s, progress)
}

fn played(
    file: &str,
    time_s: u64,
    progress: &mut dyn Progress,
) -> Result<(Table, Vec<Check>), Error> {
    let mut scenario: Scenario =
        toml::from_str(file).map_err(|error| Error::new(error.to_string()))?;
    scenario.duration_ns = time_s * 1_000_000_000;
    let outcome = check_shown(&scenario, Options::default(), progress);
    let outcome = outcome.map_err(|error| Error::new(error.to_string()))?;
    let mut table = Table::new(
        "l4atm-table-2-world",
        "Two such writers in the world: examples/precision.toml (Mbps = 2^20 bit/s)",
        &[
            ("connection", "connection"),
            ("requested_octet_s", "requested, octets/s"),
            ("requested_mbps", "Mbps"),
            ("sdu_octets", "data size"),
            ("sent_mbps", "rate sent"),
            ("peer_mbps", "peer rate"),
        ],
    );
    let mut checks = Vec::new();
    for (connection, row) in CONNECTIONS.into_iter().zip(&ROWS) {
        let missing = || Error::new(format!("the scenario has no {connection}"));
        let of = outcome.connections.get(connection).ok_or_else(missing)?;
        let mut sources = scenario.sources.iter();
        let source = sources.find(|source| source.connection == connection);
        let sdu = source.and_then(|source| source.sdus.first().copied());
        let sdu = sdu.ok_or_else(missing)?;
        let sent_bit_s = of.sent_pdus * u64::from(sdu) * 8 / time_s;
        let contract = mbps(u64::from(row.octet_s) * 8, BINARY);
        let (sent, peer) = (mbps(sent_bit_s, BINARY), mbps(of.sdu_bit_s, BINARY));
        table.row([
            Entry::text(connection),
            Entry::number(row.octet_s, 0),
            Entry::number(contract, 2),
            Entry::number(i32::from(sdu), 0),
            Entry::number(sent, 2),
            Entry::number(peer, 2),
        ]);
        for (what, printed, ours) in [("rate sent", row.sent, sent), ("peer rate", row.peer, peer)]
        {
            let what = format!("{what}, {} octets/s requested", row.octet_s);
            let claim = Claim::derived("L6", &what, printed).prints(dec(printed));
            let claim = claim.reading(READING);
            checks.push(claim.number(contract, Tolerance::Percent(dec("0.1")), &rate(ours)));
        }
    }
    Ok((table, checks))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Silent;

    struct Told(Vec<(u64, u64)>);

    impl Progress for Told {
        fn step(&mut self, done: u64, all: u64) {
            self.0.push((done, all));
        }
    }

    #[test]
    fn whoever_waits_is_told() {
        let mut told = Told(Vec::new());
        let (progress, steps) = (&mut told, 4);
        run(1, &mut Seconds { progress, steps }).expect("it plays");
        assert_eq!(told.0.first(), Some(&(4, 5)));
    }

    #[test]
    fn a_rate_that_is_not_kept_is_seen() {
        let (from, to) = ("pcr=62989cps", "pcr=62000cps");
        assert!(FILE.contains(from));
        let (_, checks) = played(&FILE.replace(from, to), 2, &mut Silent).expect("it plays");
        let passes: Vec<bool> = checks.iter().map(|check| check.pass).collect();
        assert_eq!(passes, [true, true, false, false]);
    }
}
