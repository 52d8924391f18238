//! How long the PDUs of a guaranteed connection take at most. Admission makes it true: the
//! guaranteed rates of a line have a cell schedule ([`Demand`](super::Demand)), and the adapter's
//! core has time for them.

use serde::{Deserialize, Serialize};

use crate::adapter::{Receive, Schedule, Transmit};
use crate::contract::{CellRate, Increment};

/// Beside its contract, what delays the PDUs of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Surroundings {
    /// The line that it sends on.
    pub line: CellRate,
    /// Cells of the line's other guaranteed connections that go first.
    pub others: Precedence,
    /// How late an adapter that rests may be, in nanoseconds; none: it does not rest while the
    /// connection is open.
    pub rest_late_ns: Option<u64>,
    /// The longest stall of the adapter that is admitted, in nanoseconds.
    pub gap_max_ns: u64,
    /// How late an application may be, in nanoseconds.
    pub wake_up_ns: u64,
}

/// Cells that guaranteed connections may send before another one's cell that is due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Precedence {
    /// At any time: what each may send back to back.
    pub cells: u64,
    /// After a stall besides: what each makes good of its lateness.
    pub made_good: u64,
}

impl Precedence {
    /// Of one connection; best effort sends nothing before others.
    pub fn of(transmit: &Transmit) -> Self {
        let Some(rate) = transmit.guaranteed() else {
            return Self::default();
        };
        // Below 2^64 * 2^32.
        let made_good = u128::from(transmit.cdvt_ns) * u128::from(rate.cell_s());
        let made_good = made_good.div_ceil(1_000_000_000);
        Self {
            cells: transmit.burst.max(1).into(),
            made_good: u64::try_from(made_good).unwrap_or(u64::MAX),
        }
    }

    fn each(self, other: Self, f: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            cells: f(self.cells, other.cells),
            made_good: f(self.made_good, other.made_good),
        }
    }

    /// Both together.
    pub fn plus(self, other: Self) -> Self {
        self.each(other, u64::saturating_add)
    }

    /// Without what is `other`'s.
    pub fn without(self, other: Self) -> Self {
        self.each(other, u64::saturating_sub)
    }

    /// The most of both.
    pub fn or(self, other: Self) -> Self {
        self.each(other, u64::max)
    }
}

/// The longest time that a guaranteed PDU takes to leave, in nanoseconds: from the moment at which
/// its application has handed it over and all before it have left, to its last cell.
///
/// With T the time of a cell at the connection's rate, n the cells of a PDU of the largest size, N
/// those of a burst, tau what the shaper makes good of its lateness
/// ([`Terms::made_good_ns`](crate::adapter::Terms::made_good_ns)), and L = `others_ns` + the
/// adapter's patience + its wake-up:
///
/// - A cell leaves at most L after its theoretical time (ITU-T I.371's GCRA, from the sender's
///   side) while the adapter runs: cells leave in the order of these times, and the rates of all
///   together do not exceed the line's.
/// - The first cell's theoretical time is at most N T after the last cell before it. Each further
///   one is T later, and by what of the lateness before it exceeds tau: (L - tau) at most, which is
///   nothing for a connection whose CDVT is long enough for its line.
/// - VBR has its sustained rate here: T is a cell time of SCR, as after a burst. What of a burst
///   leaves sooner counts in the jitter alone. To a guaranteed cell all bursts of others together
///   are one cell that is on the line, as best effort is.
/// - A stall of the adapter makes one cell late by as much, or all that are behind it. Of the stall
///   before, tau at most is not made good yet, which a line that is full keeps, and what the others
///   make good of it goes first.
///
/// So `delay_ns` = `pacing_ns` + `others_ns` + `rest_ns` + `stall_ns`. It holds while the adapter
/// stands still for no longer than is admitted, once in a PDU; what its steps take is made good, as
/// stalls within tau are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransmitBound {
    /// The sum of what follows, but for the queue.
    pub delay_ns: u64,
    /// By how much more one PDU of the largest size takes than another.
    pub jitter_ns: u64,
    /// What PDUs of the largest size add, if the transmit buffer is full of them when it comes.
    pub queue_ns: u64,
    /// Its own cells at its rate.
    pub pacing_ns: u64,
    /// Cells of other connections that go first.
    pub others_ns: u64,
    /// If the adapter rests: its patience, its wake-up for that, and the one for the PDU itself.
    pub rest_ns: u64,
    /// The stall that is admitted, and what is left of the one before.
    pub stall_ns: u64,
}

/// The longest time from the arrival of a guaranteed PDU's last cell to its reader, in nanoseconds.
///
/// All parts can be 0, so that the jitter is as long as the delay. It holds while the adapter
/// stands still for no longer than is admitted, and the reader is no later than assumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReceiveBound {
    /// The sum of what follows.
    pub delay_ns: u64,
    /// By how much more one PDU takes than another.
    pub jitter_ns: u64,
    /// The adapter's wake-up, if it rests.
    pub rest_ns: u64,
    /// The longest delay of silent events.
    pub silent_ns: u64,
    /// The reader's wake-up.
    pub wake_up_ns: u64,
    /// The stall that is admitted.
    pub stall_ns: u64,
}

/// The bounds of both directions; none: it is not there, or not guaranteed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DelayBounds {
    pub transmit: Option<TransmitBound>,
    pub receive: Option<ReceiveBound>,
}

impl TransmitBound {
    /// Of PDUs of up to `cells` cells, `waiting` of which can be in the transmit buffer; none: the
    /// rate is not guaranteed.
    pub fn of(
        transmit: &Transmit,
        cells: u32,
        waiting: u64,
        around: &Surroundings,
    ) -> Option<Self> {
        let cell = Increment::of(transmit.guaranteed()?);
        let soonest = Increment::of(transmit.rate?);
        let slot = Increment::of(around.line);
        let (cells, burst) = (u64::from(cells.max(1)), Precedence::of(transmit).cells);
        let made_good_ns = transmit.cdvt_ns;
        // A burst of each other one, the rest of its own, and a cell of best effort.
        let others_ns = slot
            .times_ns(around.others.cells.saturating_add(burst))
            .saturating_add(Schedule::TICK_NS);
        let patience_ns = match around.rest_late_ns {
            Some(_) => (made_good_ns / 4).min(Schedule::PATIENCE_MAX_NS),
            None => 0,
        };
        let wake_up_ns = around.rest_late_ns.unwrap_or(0);
        let rest_ns = patience_ns.saturating_add(wake_up_ns.saturating_mul(2));
        let late_ns = others_ns.saturating_add(rest_ns);
        let slip_ns = late_ns.saturating_sub(made_good_ns.saturating_add(wake_up_ns));
        let slips_ns = slip_ns.saturating_mul(cells);
        let pacing_ns = cell.times_ns(cells + burst - 1).saturating_add(slips_ns);
        let gap_ns = around.gap_max_ns;
        let left_ns = made_good_ns.min(gap_ns);
        let left_of_others_ns = slot.times_ns(around.others.made_good).min(gap_ns);
        let stall_ns = gap_ns
            .saturating_add(left_ns)
            .saturating_add(left_of_others_ns);
        let delay_ns = late_ns.saturating_add(pacing_ns).saturating_add(stall_ns);
        // The first cell may leave at once, and what it has made good is not waited for.
        let made_good_ns = made_good_ns.saturating_add(cell.times_ns(burst - 1));
        let smooth_ns = soonest.times_ns(cells - 1).saturating_sub(made_good_ns);
        let least_ns = smooth_ns.max(slot.times_ns(cells - 1));
        let each_ns = cell.times_ns(cells).saturating_add(slips_ns);
        Some(Self {
            delay_ns,
            jitter_ns: delay_ns.saturating_sub(least_ns),
            queue_ns: each_ns.saturating_mul(waiting.saturating_sub(1)),
            pacing_ns,
            others_ns,
            rest_ns,
            stall_ns,
        })
    }
}

impl ReceiveBound {
    /// None: what is received is not guaranteed.
    pub fn of(receive: &Receive, around: &Surroundings) -> Option<Self> {
        if !receive.guaranteed {
            return None;
        }
        let rest_ns = around.rest_late_ns.unwrap_or(0);
        let silent_ns = receive.notification.longest_delay_ns();
        let (wake_up_ns, stall_ns) = (around.wake_up_ns, around.gap_max_ns);
        let parts = [rest_ns, silent_ns, wake_up_ns, stall_ns];
        let delay_ns = parts.into_iter().fold(0, u64::saturating_add);
        Some(Self {
            delay_ns,
            jitter_ns: delay_ns,
            rest_ns,
            silent_ns,
            wake_up_ns,
            stall_ns,
        })
    }

    /// The same without a stall.
    pub const fn without_stall_ns(&self) -> u64 {
        self.delay_ns.saturating_sub(self.stall_ns)
    }
}
