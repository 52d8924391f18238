//! Contracts of the replay: text to what the adapter is asked for.

use std::collections::BTreeMap;
use std::str::FromStr;

use cellgate_core::aal::aal0::SDU_LEN;
use cellgate_core::adapter::{
    self, Assumptions, Excess, Interleaving, Marks, Notification, Receive,
};
use cellgate_core::contract::{Aal, CellRate, TrafficContract};
use cellgate_core::server::{AdapterSection, AdmissionSection};
use cellgate_core::wire::VpiVci;

use super::survey::Look;
use crate::captured::aal::{AalOption, AalWord};

/// How early cells may be beside their contract.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tolerance {
    /// Where the contract does not say it.
    pub(super) cdvt_ns: u64,
    /// Cells that a link may bring at once though they were sent one by one.
    pub(super) clump_cells: u16,
}

impl Default for Tolerance {
    /// A daemon's that nobody has configured.
    fn default() -> Self {
        Self {
            cdvt_ns: AdmissionSection::default().cdvt_ns,
            clump_cells: AdapterSection::default().clump_cells,
        }
    }
}

/// A time as contracts write it: `1ms`.
pub(super) fn time_ns(text: &str) -> Result<u64, String> {
    const PREFIX: &str = "cbr:pcr=1,cdvt=";
    let contract = format!("{PREFIX}{text}").parse::<TrafficContract>();
    let descriptor = contract.ok().and_then(|contract| contract.receive);
    let cdvt_ns = descriptor.and_then(|descriptor| descriptor.cdvt_ns);
    let is_plain = !text.contains([',', ':']);
    let cdvt_ns = cdvt_ns.filter(|_| is_plain);
    cdvt_ns.ok_or_else(|| "expected a time such as 1ms, 250us or 0ns".into())
}

/// A capture says when each cell came, and its PDUs are taken as they are complete.
const ASSUMED: Assumptions = Assumptions {
    marks: Marks::None,
    line: CellRate::OC3,
    cdvt_ns: 0,
    interleaving: Interleaving {
        mids: Interleaving::MIDS_MAX,
        reassembly_timeout_ns: Contracts::REASSEMBLY_TIMEOUT_NS,
    },
    notification: Notification::Polled,
    transmit_pdus: None,
    receive_pdus: 0,
    wake_up_ns: 0,
    gap_max_ns: 0,
    clump_cells: 1,
};

/// `vpi.vci=contract`.
#[derive(Clone, Debug)]
pub(super) struct VcOption {
    address: VpiVci,
    text: String,
}

impl FromStr for VcOption {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (address, text) = text.split_once('=').ok_or("expected vpi.vci=contract")?;
        let address = address.parse().map_err(|e| format!("{address}: {e}"))?;
        Ok(Self {
            address,
            text: text.into(),
        })
    }
}

/// How a VC receives.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub(super) aal: adapter::Aal,
    /// Nobody has said which AAL it is.
    pub(super) aal_guessed: bool,
    pub(super) receive: Receive,
}

/// A contract as the user said it.
#[derive(Clone, Copy, Debug)]
struct Said {
    aal: Option<Aal>,
    /// None: the largest there is.
    max_sdu: Option<u16>,
    receive: Receive,
}

impl Said {
    /// Everything that comes, in SDUs of any size.
    const NOTHING: Self = Self {
        aal: None,
        max_sdu: None,
        receive: Receive {
            marks: Marks::None,
            rate: None,
            sustained: None,
            cdvt_ns: 0,
            max_sdu: u16::MAX,
            fixed_sdu: false,
            excess: Excess::Discard,
            notification: Notification::Polled,
            queue_threshold: 0,
            guaranteed: true,
        },
    };

    fn parse(text: &str, tolerance: Tolerance) -> Result<Self, String> {
        let contract: TrafficContract = text.parse().map_err(|e| format!("{text}: {e}"))?;
        Self::of(&contract, tolerance).map_err(|e| format!("{text}: {e}"))
    }

    fn of(contract: &TrafficContract, tolerance: Tolerance) -> Result<Self, String> {
        const NOTHING: &str = "it receives nothing";
        let descriptor = contract.receive.ok_or(NOTHING)?;
        let received = TrafficContract {
            transmit: None,
            ..*contract
        };
        let assumed = Assumptions {
            cdvt_ns: tolerance.cdvt_ns,
            clump_cells: tolerance.clump_cells,
            ..ASSUMED
        };
        let terms = adapter::Terms::of(&received, &assumed).map_err(|e| e.to_string())?;
        let receive = terms.receive.ok_or(NOTHING)?;
        // The host takes every PDU at once: nothing needs to be kept free.
        let excess = match receive.excess {
            Excess::Discard => Excess::Discard,
            Excess::Tag { .. } => Excess::Tag { reserve: 0 },
            Excess::WhenIdle { .. } => Excess::WhenIdle { reserve: 0 },
        };
        Ok(Self {
            aal: contract.aal,
            max_sdu: descriptor.max_sdu.map(|_| receive.max_sdu),
            receive: Receive { excess, ..receive },
        })
    }
}

/// The terms of every VC.
#[derive(Clone, Debug)]
pub(super) struct Contracts {
    all: Said,
    each: BTreeMap<VpiVci, Said>,
    aals: BTreeMap<VpiVci, AalWord>,
    pub(super) tolerance: Tolerance,
}

impl Contracts {
    /// How long a PDU of AAL3/4 may take.
    const REASSEMBLY_TIMEOUT_NS: u64 = 1_000_000_000;

    pub(super) fn new(
        all: Option<&str>,
        each: &[VcOption],
        aals: &[AalOption],
        tolerance: Tolerance,
    ) -> Result<Self, String> {
        let of = |option: &VcOption| Ok((option.address, Said::parse(&option.text, tolerance)?));
        let contracts = Self {
            all: all.map_or(Ok(Said::NOTHING), |text| Said::parse(text, tolerance))?,
            each: each.iter().map(of).collect::<Result<_, String>>()?,
            aals: aals.iter().map(|aal| (aal.address, aal.aal)).collect(),
            tolerance,
        };
        for (address, aal) in &contracts.aals {
            contracts.check(*address, *aal)?;
        }
        Ok(contracts)
    }

    /// Whether a VC can be opened with this AAL, and its own contract names no other.
    fn check(&self, address: VpiVci, aal: AalWord) -> Result<(), String> {
        let word = aal.word();
        let opened = [AalWord::Aal0, AalWord::Aal34, AalWord::Aal5];
        if !opened.contains(&aal) {
            return Err(format!(
                "{address}={word}: a replay opens aal0, aal34 and aal5"
            ));
        }
        let said = self.each.get(&address).and_then(|said| said.aal);
        if said.is_some_and(|said| word_of(said) != aal) {
            return Err(format!("{address}={word}: its contract names another AAL"));
        }
        Ok(())
    }

    /// The terms of a VC whose cells have this look.
    pub(super) fn of(&self, address: VpiVci, look: &Look) -> Terms {
        let said = self.each.get(&address).unwrap_or(&self.all);
        let word = self.aals.get(&address).copied();
        let word = word.or_else(|| said.aal.map(word_of));
        let aal = match word {
            Some(AalWord::Aal0) => adapter::Aal::Aal0,
            Some(AalWord::Aal34) => interleaved(look),
            None if look.is_aal34() => interleaved(look),
            _ => adapter::Aal::Aal5,
        };
        let max_sdu = match aal {
            adapter::Aal::Aal0 => SDU_LEN as u16,
            adapter::Aal::Aal5 | adapter::Aal::Aal34(_) => u16::MAX,
        };
        Terms {
            aal,
            aal_guessed: word.is_none(),
            receive: Receive {
                max_sdu: said.max_sdu.unwrap_or(max_sdu),
                ..said.receive
            },
        }
    }
}

const fn word_of(aal: Aal) -> AalWord {
    match aal {
        Aal::Aal0 => AalWord::Aal0,
        Aal::Aal34 => AalWord::Aal34,
        Aal::Aal5 => AalWord::Aal5,
    }
}

/// AAL3/4 with as many MIDs as the capture has, if the adapter can have them in progress at once.
fn interleaved(look: &Look) -> adapter::Aal {
    adapter::Aal::Aal34(Interleaving {
        mids: look.mids().clamp(1, Interleaving::MIDS_MAX),
        reassembly_timeout_ns: Contracts::REASSEMBLY_TIMEOUT_NS,
    })
}
