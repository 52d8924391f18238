//! A source of ABR by the rules of TM 4.0, section 5.10.4.

use serde::{Deserialize, Serialize};

use super::planted::Planted;
use super::{AbrParameters, AbrRate};
use crate::Time;
use crate::wire::Rm;

/// Why a source's rate changed the last time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RateReason {
    /// It has not: it is the initial rate.
    #[default]
    Initial,
    /// An RM cell without congestion raised it (rule 8).
    Increase,
    /// An RM cell told congestion, CI (rule 8).
    Congestion,
    /// An RM cell told a rate, ER, that was lower (rule 9).
    ExplicitRate,
    /// RM cells did not come back (rule 6).
    Silence,
    /// It was not used (rule 5).
    Unused,
    /// The contract changed.
    Contract,
}

impl RateReason {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Initial,
        Self::Increase,
        Self::Congestion,
        Self::ExplicitRate,
        Self::Silence,
        Self::Unused,
        Self::Contract,
    ];

    /// As users read it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Initial => "initial",
            Self::Increase => "increase",
            Self::Congestion => "congestion",
            Self::ExplicitRate => "explicit_rate",
            Self::Silence => "silence",
            Self::Unused => "unused",
            Self::Contract => "contract",
        }
    }

    /// What it means, for people.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Initial => "as the connection began",
            Self::Increase => "the network has room",
            Self::Congestion => "the network or the receiver is congested",
            Self::ExplicitRate => "the network named a rate",
            Self::Silence => "RM cells do not come back",
            Self::Unused => "it was not used for a while",
            Self::Contract => "the contract changed",
        }
    }
}

/// What leaves next in-rate (rule 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextCell {
    /// A forward RM cell, and its loss priority.
    Forward(Rm, bool),
    /// The backward RM cell that waits.
    Backward,
    /// A cell of data that waits.
    Data,
    /// Nothing waits.
    Nothing,
}

/// A source: its allowed cell rate (ACR), and which cell it sends next.
///
/// Whoever runs it asks [`next`](Self::next) before each in-rate cell, sends what that names, and
/// sends no faster than [`rate`](Self::rate).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    parameters: AbrParameters,
    acr: AbrRate,
    reason: RateReason,
    changed: Time,
    /// When the last in-rate forward RM cell left; none: nothing has.
    forward: Option<Time>,
    /// In-rate cells since.
    cells: u32,
    /// A backward RM cell was among them.
    backward: bool,
    /// In-rate forward RM cells since the last backward one with BN 0 came.
    unanswered: u32,
    /// Forward RM cells that may yet be answered, each once.
    expected: u64,
    /// When the last out-of-rate forward RM cell left.
    out_of_rate: Option<Time>,
}

type Bug = fn(Planted) -> bool;

impl Source {
    /// A source that has sent nothing (rule 2).
    pub fn new(parameters: AbrParameters, planted: Bug) -> Self {
        let initial = match planted(Planted::InitialRateForgotten) {
            true => parameters.pcr,
            false => parameters.icr.min(parameters.pcr),
        };
        Self {
            parameters,
            acr: AbrRate::of(initial).max(parameters.floor()),
            reason: RateReason::Initial,
            changed: Time::ZERO,
            forward: None,
            cells: 0,
            backward: false,
            unanswered: 0,
            expected: 0,
            out_of_rate: None,
        }
    }

    /// The allowed cell rate.
    pub const fn rate(&self) -> AbrRate {
        self.acr
    }

    /// What it was told when it began, or since.
    pub const fn parameters(&self) -> &AbrParameters {
        &self.parameters
    }

    /// Why the rate changed the last time, and when.
    pub const fn last_change(&self) -> (RateReason, Time) {
        (self.reason, self.changed)
    }

    /// Other parameters from now on: the rate stays within them.
    pub fn modify(&mut self, now: Time, parameters: AbrParameters) {
        self.parameters = parameters;
        self.set(now, self.acr, RateReason::Contract, |_| false);
    }

    /// The rate becomes what a rule says, within rule 1.
    fn set(&mut self, now: Time, rate: AbrRate, reason: RateReason, planted: Bug) {
        let mut rate = rate;
        if !planted(Planted::PeakExceeded) {
            rate = rate.min(AbrRate::of(self.parameters.pcr));
        }
        if !planted(Planted::FloorForgotten) {
            rate = rate.max(self.parameters.floor());
        }
        if rate != self.acr {
            (self.acr, self.reason, self.changed) = (rate, reason, now);
        }
    }

    /// Which cell leaves next, if `data` and `backward` wait. Whoever asks sends it.
    pub fn next(&mut self, now: Time, data: bool, backward: bool, planted: Bug) -> NextCell {
        if !data && !backward {
            return match planted(Planted::DataOutOfNothing) {
                true => NextCell::Data,
                false => NextCell::Nothing,
            };
        }
        //= TM 4.0 5.10.4 rules 2 and 3a
        if self.is_forward_due(now, data, planted) {
            let rm = self.begin_forward(now, planted);
            return NextCell::Forward(rm, planted(Planted::InRateLowPriority));
        }
        self.cells = self.cells.saturating_add(1);
        //= TM 4.0 5.10.4 rule 3b
        let first = !self.backward && !planted(Planted::BackwardLast);
        if backward && (first || !data || planted(Planted::BackwardAlwaysFirst)) {
            self.backward = true;
            return NextCell::Backward;
        }
        NextCell::Data
    }

    fn is_forward_due(&self, now: Time, data: bool, planted: Bug) -> bool {
        let Some(last) = self.forward else {
            return !(planted(Planted::DataFirst) && data && self.cells == 0);
        };
        let between = u32::from(self.parameters.nrm).saturating_sub(1);
        let between = between + u32::from(planted(Planted::ForwardByOneLate));
        let enough = self.cells >= AbrParameters::MRM || planted(Planted::MrmForgotten);
        let late = now.since_ns(last) >= self.parameters.trm_ns;
        self.cells >= between || enough && late && !planted(Planted::TrmForgotten)
    }

    /// An in-rate forward RM cell leaves (rules 5, 6, 7 and 10).
    fn begin_forward(&mut self, now: Time, planted: Bug) -> Rm {
        let before = self.acr;
        let icr = AbrRate::of(self.parameters.icr);
        //= TM 4.0 5.10.4 rule 5
        if let Some(last) = self.forward
            && now.since_ns(last) > self.parameters.adtf_ns
            && (self.acr > icr || planted(Planted::UnusedRateRaised))
            && !planted(Planted::UnusedRateKept)
        {
            self.set(now, icr, RateReason::Unused, planted);
        }
        //= TM 4.0 5.10.4 rule 6
        let missing = self.parameters.crm() + u32::from(planted(Planted::SilenceOneLate));
        if let Some(cdf) = self.parameters.cdf
            && self.unanswered >= missing
            && !planted(Planted::SilenceIgnored)
        {
            self.set(now, self.acr.without(cdf), RateReason::Silence, planted);
        }
        self.forward = Some(now);
        (self.cells, self.backward) = (0, false);
        self.unanswered = self.unanswered.saturating_add(1);
        self.expected = self.expected.saturating_add(1);
        //= TM 4.0 5.10.4 rule 7
        let told = match planted(Planted::OldRateTold) {
            true => before,
            false => self.acr,
        };
        self.forward_rm(told, planted)
    }

    /// The fields of a forward RM cell (rule 10, table 5-4).
    fn forward_rm(&self, ccr: AbrRate, planted: Bug) -> Rm {
        let er = match planted(Planted::ExplicitRateOfSource) {
            true => self.acr,
            false => AbrRate::of(self.parameters.pcr),
        };
        Rm {
            protocol: Rm::ABR,
            er: er.to_rm(),
            ccr: ccr.to_rm(),
            mcr: self.parameters.floor().to_rm(),
            ..Rm::default()
        }
    }

    /// An out-of-rate forward RM cell and its loss priority, if one may leave (rule 11).
    pub fn out_of_rate(&mut self, now: Time, planted: Bug) -> Option<(Rm, bool)> {
        let due = self.out_of_rate_due();
        if due.is_some_and(|due| now < due) && !planted(Planted::OutOfRateUnbounded) {
            return None;
        }
        self.out_of_rate = Some(now);
        self.expected = self.expected.saturating_add(1);
        let low = !planted(Planted::OutOfRateHighPriority);
        Some((self.forward_rm(self.acr, planted), low))
    }

    /// When the next out-of-rate forward RM cell may leave; none: at once.
    pub fn out_of_rate_due(&self) -> Option<Time> {
        let apart_ns = 1_000_000_000 / u64::from(AbrParameters::TCR.cell_s());
        self.out_of_rate.map(|last| last.plus_ns(apart_ns))
    }

    /// Whether its rate is so low that out-of-rate RM cells find out sooner when it may rise.
    pub fn is_slow(&self) -> bool {
        self.acr < AbrRate::of(AbrParameters::TCR)
    }

    /// A backward RM cell came, in-rate or not (rules 8 and 9); whether it answers anything. One
    /// that does not raises no rate: it was forged or came twice (rule 13 lets a source be slower).
    pub fn backward(&mut self, now: Time, rm: &Rm, planted: Bug) -> bool {
        let pcr = AbrRate::of(self.parameters.pcr);
        let answers = rm.backward_notification || self.expected > 0;
        if !rm.backward_notification {
            self.expected = self.expected.saturating_sub(1);
        }
        if !rm.backward_notification && answers || planted(Planted::NoticeBreaksSilence) {
            self.unanswered = 0;
        }
        let er = AbrRate::of_rm(rm.er);
        if planted(Planted::ExplicitRateFirst) && er < self.acr {
            self.set(now, er, RateReason::ExplicitRate, planted);
        }
        let may_rise = !rm.no_increase || planted(Planted::NoIncreaseIgnored);
        let believed = answers || planted(Planted::UnaskedBelieved);
        //= TM 4.0 5.10.4 rule 8
        if rm.congestion {
            if !planted(Planted::CongestionIgnored) {
                let lower = self.acr.without(self.parameters.rdf);
                self.set(now, lower, RateReason::Congestion, planted);
            }
        } else if may_rise && believed {
            let of = match planted(Planted::IncreaseOfRate) {
                true => self.acr,
                false => pcr,
            };
            let higher = self.acr.plus(of.part(self.parameters.rif));
            //= TM 4.0 5.10.4 rule 9: an increase beyond ER is none
            let ignored =
                planted(Planted::ExplicitRateIgnored) || planted(Planted::ExplicitRateFirst);
            let higher = match ignored {
                true => higher,
                false => higher.min(er.max(self.acr)),
            };
            self.set(now, higher, RateReason::Increase, planted);
        }
        //= TM 4.0 5.10.4 rule 9
        let counts = !planted(Planted::ExplicitRateIgnored) && !planted(Planted::ExplicitRateFirst);
        if er < self.acr && counts {
            self.set(now, er, RateReason::ExplicitRate, planted);
        }
        answers
    }

    /// Silence of the network so far: in-rate forward RM cells without an answer.
    pub const fn unanswered(&self) -> u32 {
        self.unanswered
    }
}
