//! Paper 003's units, and what its experiments share.

use cellgate_core::Time;
use cellgate_core::contract::{Credit, UsageControl};
use cellgate_core::server::lambda::Ratio;
use cellgate_report::{Check, Claim, Rational, Tolerance, Value, dec};

use crate::machine::p90::{ApplicationError, HostThread, Meter, Waking, Writer};
use crate::world::Ps;

use crate::experiments::Error;

/// "Mbps" is 10^6 bit/s in Table 1 and of the machine's peak rates.
pub(super) const DECIMAL: u64 = 1_000_000;
/// "Mbps" is 2^20 bit/s in the worked example, the footnote and Table 2.
pub(super) const BINARY: u64 = 1 << 20;
/// Both, with the name of the reading.
pub(super) const READINGS: [(&str, u64); 2] = [
    ("Mbps = 10^6 bit/s", DECIMAL),
    ("Mbps = 2^20 bit/s", BINARY),
];

/// Bit/s in the unit of a reading.
pub(super) fn mbps(bit_s: u64, unit: u64) -> Rational {
    Rational::new(bit_s.into(), unit.into())
}

/// A rate to two decimals.
pub(super) fn rate(number: Rational) -> Value {
    Value::new(number, 2, "Mbps")
}

/// Hundredths.
pub(super) fn percent(of_one: impl Into<Option<Rational>>) -> Value {
    let of_one = of_one.into();
    Value::ratio(of_one.map(|one| one * Rational::whole(100)), 2, "%")
}

/// L11, the 31.2 % that the time-sharing system is expected to lose to a connection of 40 Mbps:
/// from 30.1 to 31.5, to one decimal, whatever Mbps means.
pub(super) fn degradation(what: &str, reading: &str, of_one: impl Into<Option<Rational>>) -> Check {
    let lost = of_one
        .into()
        .map(|one| (one * Rational::whole(100)).rounded(1));
    let claim = Claim::calibrated("L11", what, "31.2 %").reading(reading);
    claim.number(
        dec("30.8"),
        Tolerance::Absolute(dec("0.7")),
        &Value::ratio(lost, 1, "%"),
    )
}

/// A fraction of the core as one of a report.
pub(super) fn rational(ratio: Ratio) -> Rational {
    let part = |part: u128| i128::try_from(part).expect("sizes and rates have 64 bits");
    Rational::new(part(ratio.numerator()), part(ratio.denominator()))
}

/// Seconds.
pub(super) fn seconds(time: Ps) -> Rational {
    Rational::new(time.ps().into(), 1_000_000_000_000)
}

/// So many seconds.
pub(super) const fn after_seconds(seconds: u64) -> Ps {
    Ps::from_ns(seconds * 1_000_000_000)
}

/// Bit/s of what passed a meter between two looks at it, rounded down.
pub(super) fn rate_between(before: &Meter, after: &Meter, time: Ps) -> Rational {
    let bits = i128::from(after.octets - before.octets) * 8;
    Rational::whole((Rational::whole(bits) / seconds(time)).floor())
}

/// A writer whose first interval begins now, and whose worker asks the clock.
pub(super) fn paced(now: Time, sdu: u32, credit: Credit) -> Writer {
    let control = UsageControl::new(now, credit, Default::default());
    Writer::new(sdu, Some(control), Waking::AsksTheClock)
}

/// The writer of a thread that was started with one.
///
/// # Panics
///
/// If it was started with something else.
pub(super) fn writer(thread: &HostThread) -> &Writer {
    match thread {
        HostThread::Writer(writer) => writer,
        HostThread::User(_) => panic!("a thread stays what it was started as"),
    }
}

impl From<ApplicationError> for Error {
    fn from(error: ApplicationError) -> Self {
        Self::new(error.to_string())
    }
}
