//! Usage control by credit interval (paper 003, sections 2.5 and 3.2).

use core::num::{NonZeroU32, NonZeroU64};

use serde::{Deserialize, Serialize};

use super::{Jitter, PduStream, TrafficDescriptor};
use crate::Time;
use crate::wire::PAYLOAD_LEN;

const NS_PER_S: u64 = 1_000_000_000;
const NS_PER_MS: u64 = 1_000_000;

/// A control interval and the octets of SDU that it brings.
///
/// The credit is whole PDUs of the largest size, and the interval is as long as they take, as a
/// rational number of nanoseconds: no rate is rounded, however long it lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credit {
    /// Numerator of its nanoseconds, over `per`.
    length: NonZeroU64,
    per: NonZeroU64,
    octets: u64,
    /// The most of a credit that can be kept for a PDU that waits: an octet less than the largest.
    remainder_max: u32,
}

impl Credit {
    fn new(length: u64, per: impl Into<NonZeroU64>, octets: u64, sdu: u32) -> Self {
        Self {
            length: NonZeroU64::new(length).unwrap_or(NonZeroU64::MIN),
            per: per.into(),
            octets,
            remainder_max: sdu.saturating_sub(1),
        }
    }

    /// The credit of `sdu_bit_s` bit/s of SDUs of at most `sdu` octets, whatever cells they take.
    /// None for a rate of 0 or an SDU of 0 octets.
    pub fn for_sdu_rate(sdu_bit_s: u64, sdu: u16, jitter: Jitter) -> Option<Self> {
        let octets = jitter.pdus() as u64 * sdu as u64;
        let rate = NonZeroU64::new(sdu_bit_s).filter(|_| sdu > 0)?;
        // At most 50 * 2^16 octets: below 2^55.
        Some(Self::new(octets * 8 * NS_PER_S, rate, octets, sdu.into()))
    }

    /// Length of an interval, rounded up to a nanosecond.
    pub const fn interval_ns(&self) -> u64 {
        self.length.get().div_ceil(self.per.get())
    }

    /// Octets of SDU that may pass in an interval.
    pub const fn octets(&self) -> u64 {
        self.octets
    }
}

impl TrafficDescriptor {
    /// How sensitive to jitter a direction is whose PDUs are paced as `stream` says: as `jitter=`
    /// has it, else as its delay variation tolerance has (paper 003, section 3.2): its longest
    /// interval that is no longer than that. The paper gives no numbers; an interval is what usage
    /// control may hold back a PDU for.
    pub fn sensitivity(&self, stream: &PduStream) -> Jitter {
        let longest = || {
            let dvt = self.dvt_ns?;
            let tolerated = |jitter: &Jitter| stream.credit(*jitter).interval_ns() <= dvt;
            let longest = [Jitter::High, Jitter::Default].into_iter().find(tolerated);
            Some(longest.unwrap_or(Jitter::Low))
        };
        self.jitter.or_else(longest).unwrap_or_default()
    }
}

impl PduStream {
    /// The credit that paces a sender at the sustained rate.
    pub fn credit(&self, jitter: Jitter) -> Credit {
        let pdus = jitter.pdus() as u64;
        let length = (pdus * self.pdu_cells() as u64).saturating_mul(NS_PER_S);
        let rate: NonZeroU32 = self.sustained.divisor();
        Credit::new(length, rate, pdus * self.sdu as u64, self.sdu)
    }

    /// Interval and credit as paper 003 prints them (Table 2): whole milliseconds, and the octets
    /// of a millisecond truncated before they are multiplied, all 48 of a cell counted.
    pub fn credit_printed(&self, jitter: Jitter) -> Credit {
        let octet_s = self.sustained.cell_s() as u64 * PAYLOAD_LEN as u64;
        let octets = jitter.pdus() as u64 * self.sdu as u64;
        // At most 50 * 2^32 * 1,000 / 48 of 10^6 ns: below 2^63.
        let interval_ms = (octets * 1_000 / octet_s).max(1);
        Credit::new(
            interval_ms * NS_PER_MS,
            NonZeroU64::MIN,
            (octet_s / 1_000).saturating_mul(interval_ms),
            self.sdu,
        )
    }
}

/// What becomes of a credit that is less than a PDU. Paper 003 says one thing and measures another:
/// its Table 2 has the rates of [`Carried`](Self::Carried) only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Remainder {
    /// It is kept if a PDU was waiting for more when the interval ended.
    #[default]
    Carried,
    /// It is lost (section 2.5, "oblivious"): a PDU that does not divide the credit never gets the
    /// whole rate.
    Lost,
    /// It lets one more PDU pass, and the debt is forgiven: always more than the rate.
    Overdrawn,
}

/// What usage control says to a PDU that is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a PDU that has no credit is not sent"]
pub enum UsageDecision {
    /// It conforms, and its octets are taken off the credit.
    Transfer,
    /// It does not: its writer is suspended until then, the start of the next interval, and asks
    /// again. Nothing was taken.
    SuspendUntil(Time),
}

/// Usage parameter control of one direction of a connection (paper 003, section 2.5): every
/// interval brings its credit, PDUs use it up, and what an idle interval leaves lapses.
///
/// ```text
///   credit:   c            c + r          c           c
///        |-----------|-----------|-----------|-----------|
///         PDU PDU  PDU waits      PDU          (idle)
///                     r left    nothing waits: the rest lapses
/// ```
///
/// Intervals lie on a grid that begins with the connection and does not drift. Of octets that pass
/// in `k` of them in a row, whatever is asked: less than `k` credits and one largest PDU
/// ([`Remainder::Carried`]), at most `k` credits ([`Remainder::Lost`]), less than `k` credits and
/// `k` PDUs ([`Remainder::Overdrawn`]).
///
/// As the paper has it, a writer that wakes up an interval too late has lost that interval's
/// credit. That of short intervals then depends on how exactly a machine wakes it:
/// [`catching_up`](Self::catching_up) is for these.
///
/// Work: a comparison of times and one of octets; two divisions when an interval has ended,
/// however many have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageControl {
    /// Octets that may still pass before `end`.
    left: u64,
    /// When the next interval begins, rounded up.
    end: Time,
    /// By how much, in nanoseconds over the interval's `per`.
    end_early: u64,
    remainder: Remainder,
    /// A PDU was told to wait in this interval.
    waiting: bool,
    /// How late a writer that was told to wait may come for all that was its due.
    late_ns: u64,
    credit: Credit,
}

impl UsageControl {
    /// The first interval begins at `now`.
    pub fn new(now: Time, credit: Credit, remainder: Remainder) -> Self {
        let mut control = Self {
            left: 0,
            end: now,
            end_early: 0,
            remainder,
            waiting: false,
            late_ns: 0,
            credit,
        };
        control.renew(now);
        control
    }

    /// With [`Remainder::Carried`], a writer that comes back late to the PDU that waits finds the
    /// credit of the intervals in between, of at most `late_ns` nanoseconds: so much more may then
    /// pass at once. Since the first interval it is never more than what their credits are.
    pub const fn catching_up(mut self, late_ns: u64) -> Self {
        self.late_ns = late_ns;
        self
    }

    /// Outbound: whether a PDU of `octets` may be sent at `now`. An SDU larger than those that the
    /// credit was made for may have to wait for ever; a server refuses it before.
    #[inline]
    pub fn request(&mut self, now: Time, octets: u32) -> UsageDecision {
        if self.accept(now, octets) {
            UsageDecision::Transfer
        } else {
            self.waiting = true;
            UsageDecision::SuspendUntil(self.end)
        }
    }

    /// Inbound: whether a PDU of `octets` that arrived at `now` is taken. One that is not is
    /// dismissed: it does not wait, so nothing is kept for it.
    #[inline]
    pub fn accept(&mut self, now: Time, octets: u32) -> bool {
        if now >= self.end {
            self.renew(now);
        }
        let octets = octets.into();
        let passes = match self.remainder {
            Remainder::Carried | Remainder::Lost => octets <= self.left,
            Remainder::Overdrawn => self.left > 0,
        };
        if passes {
            self.left = self.left.saturating_sub(octets);
        }
        passes
    }

    /// Gives back octets of the last PDU that was let pass, which turned out to be shorter.
    #[inline]
    pub fn give_back(&mut self, octets: u32) {
        self.left = self.left.saturating_add(octets.into());
    }

    /// Another credit from the next interval on. What this interval has left stays as it is.
    pub fn modify(&mut self, credit: Credit) {
        self.credit = credit;
        self.end_early = 0;
    }

    /// Begins the interval that `now` lies in, `now` being at or after the end of the one before.
    #[cold]
    fn renew(&mut self, now: Time) {
        let length: u128 = self.credit.length.get().into();
        let per: u128 = self.credit.per.get().into();
        // Below 2^64 (2^64 - 1).
        let since_end = now.since_ns(self.end) as u128 * per + self.end_early as u128;
        let to_next = length - since_end % length;
        let missed = (since_end / length).min(u128::from(self.late_ns) * per / length);
        let to_next_ns = to_next.div_ceil(per);
        // At most `length` and less than `per`: both are of 64 bits.
        self.end = now.plus_ns(to_next_ns as u64);
        self.end_early = (to_next_ns * per - to_next) as u64;
        // The cap holds if somebody asks for a PDU that can never pass.
        let kept = match self.remainder {
            Remainder::Carried if self.waiting => {
                let missed = self.credit.octets.saturating_mul(missed as u64);
                let rest = self.left.min(self.credit.remainder_max.into());
                missed.saturating_add(rest)
            }
            _ => 0,
        };
        self.left = self.credit.octets.saturating_add(kept);
        self.waiting = false;
    }
}
