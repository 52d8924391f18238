//! Contracts of the replay: text to what the adapter is asked for.

use std::collections::BTreeMap;
use std::str::FromStr;

use cellgate_core::adapter::{self, ClpScope, Notification, Receive, Sustained};
use cellgate_core::contract::{Aal, CellRate, Excess, Peak, Police, TrafficContract};
use cellgate_core::wire::VpiVci;

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
    pub(super) aal: Aal,
    pub(super) receive: Receive,
}

impl Terms {
    /// Everything that comes, in SDUs of any size.
    const UNPOLICED: Self = Self {
        aal: Aal::Aal5,
        receive: Receive {
            rate: None,
            sustained: None,
            cdvt_ns: 0,
            max_sdu: u16::MAX,
            fixed_sdu: false,
            excess: adapter::Excess::Discard,
            notification: Notification::Polled,
            queue_threshold: 0,
        },
    };

    fn parse(text: &str) -> Result<Self, String> {
        let contract: TrafficContract = text.parse().map_err(|e| format!("{text}: {e}"))?;
        Self::of(&contract).map_err(|e| format!("{text}: {e}"))
    }

    fn of(contract: &TrafficContract) -> Result<Self, &'static str> {
        let aal = contract.aal.unwrap_or(Aal::Aal5);
        let descriptor = contract.receive.ok_or("it receives nothing")?;
        match (aal, contract.policing()) {
            (Aal::Aal5, Police::Frame) | (Aal::Aal0, Police::Cell) => {}
            _ => return Err("a replay polices AAL5 by frame and AAL0 by cell"),
        }
        let line = CellRate::OC3;
        let rate = match descriptor.peak() {
            Peak::Rate(rate) => Some(rate),
            Peak::Max => None,
        };
        let (sustained, excess) = match contract.excess {
            Excess::Discard => (ClpScope::AllCells, adapter::Excess::Discard),
            Excess::Tag => (ClpScope::HighPriority, adapter::Excess::Tag { reserve: 0 }),
            Excess::WhenIdle => (ClpScope::AllCells, adapter::Excess::WhenIdle { reserve: 0 }),
        };
        let max_sdu = descriptor.max_sdu.map_or(u32::from(u16::MAX), |n| n.get());
        Ok(Self {
            aal,
            receive: Receive {
                rate,
                sustained: descriptor.scr.map(|rate| Sustained {
                    rate,
                    burst_tolerance_ns: descriptor.burst_tolerance_ns(line),
                    clp: sustained,
                }),
                cdvt_ns: descriptor.cdvt_ns.unwrap_or(0),
                max_sdu: u16::try_from(max_sdu).map_err(|_| "max_sdu: at most 65535 octets")?,
                excess,
                ..Self::UNPOLICED.receive
            },
        })
    }
}

/// The terms of every VC.
#[derive(Clone, Debug)]
pub(super) struct Contracts {
    all: Terms,
    each: BTreeMap<VpiVci, Terms>,
}

impl Contracts {
    pub(super) fn new(all: Option<&str>, each: &[VcOption]) -> Result<Self, String> {
        let of = |option: &VcOption| Ok((option.address, Terms::parse(&option.text)?));
        Ok(Self {
            all: all.map_or(Ok(Terms::UNPOLICED), Terms::parse)?,
            each: each.iter().map(of).collect::<Result<_, String>>()?,
        })
    }

    pub(super) fn of(&self, address: VpiVci) -> Terms {
        self.each.get(&address).copied().unwrap_or(self.all)
    }
}
