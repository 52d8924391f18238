use cellgate_report::{
    Check, Claim, Entry, Figure, Outcome, Rational, Table, Tolerance, Value, dec,
};

use super::{Error, Experiment, Pc386Work, Progress, Settings};

/// Numbers in the text, and the law of the best PDU.
pub(in crate::experiments) struct Arithmetic;

impl Experiment for Arithmetic {
    fn name(&self) -> &'static str {
        "terminals-arithmetic"
    }

    fn source(&self) -> &'static str {
        "High Performance ATM Terminals, numbers in the text (T1 to T9)"
    }

    fn run(&self, _: &Settings, progress: &mut dyn Progress) -> Result<Outcome, Error> {
        let mut checks = bus();
        checks.extend(rates());
        checks.extend(best());
        progress.step(1, 1);
        Ok(Outcome {
            tables: vec![table()],
            figures: vec![Figure::of_claims("claims", "Numbers in the text", &checks)],
            checks,
            notes: vec![
                "The law: a PDU of S octets with 32 around them is lost with p = 1 - (1 - \
                 BER)^(384 n), n its cells, and S (1 - p) / 48 n of a line's payload are the \
                 file's. AAL5, selective retransmission, PDUs that fill their cells."
                    .to_owned(),
            ],
        })
    }
}

/// T1.
fn bus() -> Vec<Check> {
    let claim = |what: &str, paper: &str| Claim::derived("T1", what, paper);
    let mega = |number: Rational| Value::new(number / dec("1000000"), 0, "x 10^6 bit/s");
    let bus = |bits: &str, hertz: &str| dec(bits) * dec(hertz);
    vec![
        claim("ISA, 8 bits", "64 Mbit/s").prints(dec("64")).number(
            dec("64"),
            Tolerance::Exact,
            &mega(bus("8", "8000000")),
        ),
        claim("PCI, 32 bits", "1.056 Gbit/s")
            .prints(dec("1056"))
            .number(dec("1056"), Tolerance::Exact, &mega(bus("32", "33000000"))),
        claim("PCI, 64 bits", "2.112 Gbit/s")
            .prints(dec("2112"))
            .number(dec("2112"), Tolerance::Exact, &mega(bus("64", "33000000"))),
        claim("bus cycles of a cell's payload, 32 bits", "12")
            .prints(dec("12"))
            .number(
                dec("12"),
                Tolerance::Exact,
                &Value::new(dec("48") / dec("4"), 0, "cycles"),
            ),
    ]
}

/// T7 and T8.
fn rates() -> Vec<Check> {
    let ratio = |octet_s: &str| dec(octet_s) / Pc386Work::FILE_OCTET_S;
    let claim = |what: &str, paper: &str| Claim::derived("T8", what, paper);
    vec![
        claim("TCP/IP beside the file transfer", "220 and 410 KB/s").number(
            dec("0.537"),
            Tolerance::Absolute(dec("0.001")),
            &Value::new(ratio("220000"), 3, "times"),
        ),
        claim("XTP beside the file transfer", "90 and 410 KB/s").number(
            dec("0.220"),
            Tolerance::Absolute(dec("0.001")),
            &Value::new(ratio("90000"), 3, "times"),
        ),
        claim("cells of AAL3/4 of the file transfer", "").number(
            dec("9318"),
            Tolerance::Absolute(dec("1")),
            &Value::new(
                Pc386Work::FILE_OCTET_S / Pc386Work::CELL_OCTETS,
                0,
                "cells/s",
            ),
        ),
    ]
}

/// Octets around the payload: the terminal's header and AAL5's trailer.
const AROUND: u32 = 24 + 8;
/// Bits of a cell that damage its PDU: a HEC corrects the header's.
const EXPOSED: f64 = 384.0;

/// What of a line's payload is the file's, with PDUs of `n` full cells.
fn share(n: u32, ber: f64) -> f64 {
    let payload = f64::from(48 * n - AROUND);
    let whole = (f64::from(n) * EXPOSED * (-ber).ln_1p()).exp();
    payload / f64::from(48 * n) * whole
}

/// The best PDU: its octets of payload, and what it gives.
fn best_of(ber: f64) -> (u32, f64) {
    let most = (65_535 + 8) / 48;
    let n = (1..=most).max_by(|a, b| share(*a, ber).total_cmp(&share(*b, ber)));
    let n = n.unwrap_or(1);
    (48 * n - AROUND, share(n, ber))
}

/// To a ten-thousandth.
fn number(of: f64) -> Rational {
    Rational::new((of * 10_000.0).round() as i128, 10_000)
}

const RATES: [(&str, f64, &str, &str); 4] = [
    ("1e-8", 1e-8, "19984", "0.9968"),
    ("1e-7", 1e-7, "6304", "0.9899"),
    ("1e-6", 1e-6, "1984", "0.9684"),
    ("1e-5", 1e-5, "640", "0.9025"),
];

/// T9: ours, since the paper's protocol is lost.
fn best() -> Vec<Check> {
    let mut checks = Vec::new();
    for (name, ber, octets, share) in RATES {
        let (best, gives) = best_of(ber);
        checks.push(
            Claim::derived("T9", &format!("best PDU at {name}"), "").number(
                dec(octets),
                Tolerance::Exact,
                &Value::new(u64::from(best), 0, "octets"),
            ),
        );
        checks.push(
            Claim::derived("T9", &format!("what it gives at {name}"), "").number(
                dec(share),
                Tolerance::Absolute(dec("0.0001")),
                &Value::new(number(gives), 4, "of the payload"),
            ),
        );
    }
    for pair in RATES.windows(2) {
        let [few, many] = pair else { continue };
        let ratio = f64::from(best_of(few.1).0) / f64::from(best_of(many.1).0);
        let what = format!("best PDU at {} over that at {}", few.0, many.0);
        checks.push(
            Claim::derived("T9", &what, "smaller for higher bit error rates")
                .reading("sqrt(10)")
                .number(
                    dec("3.16"),
                    Tolerance::Percent(dec("10")),
                    &Value::new(number(ratio), 2, "times"),
                ),
        );
    }
    let twice = (2 * (1_984 + AROUND)) / 48;
    checks.push(
        Claim::derived("T9", "what twice the best PDU costs at 1e-6", "").number(
            dec("0.8"),
            Tolerance::Absolute(dec("0.1")),
            &Value::new(
                number(100.0 * (1.0 - share(twice, 1e-6) / best_of(1e-6).1)),
                2,
                "%",
            ),
        ),
    );
    checks
}

fn table() -> Table {
    let mut table = Table::new(
        "best",
        "The best PDU",
        &[
            ("bit errors", ""),
            ("payload", "octets"),
            ("of the line", "%"),
        ],
    );
    for (name, ber, ..) in RATES {
        let (octets, share) = best_of(ber);
        table.row([
            Entry::text(name),
            Entry::number(u64::from(octets), 0),
            Entry::number(number(share) * Rational::whole(100), 2),
        ]);
    }
    table
}
