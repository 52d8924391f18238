//! Pseudowires as people write them: `n1`, `n1-cw`, `vcc@0.100`, `vpc@5`.

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{CellMode, Pseudowire, Service};
use crate::wire::VpiVci;

const WORDS: [(&str, Service); 6] = [
    ("n1", Service::Cells(CellMode::PLAIN)),
    (
        "n1-cw",
        Service::Cells(CellMode::NToOne { control_word: true }),
    ),
    ("vcc", Service::Cells(CellMode::OneToOneVcc)),
    ("vpc", Service::Cells(CellMode::OneToOneVpc)),
    ("aal5-sdu", Service::Aal5Sdu),
    ("aal5-pdu", Service::Aal5Pdu),
];

/// A text that is no service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected one of n1, n1-cw, vcc, vpc, aal5-sdu, aal5-pdu")]
pub struct ServiceError;

impl Service {
    /// The word for it.
    pub fn word(self) -> &'static str {
        let found = WORDS.iter().find(|(_, service)| *service == self);
        found.map_or("", |(word, _)| word)
    }
}

impl FromStr for Service {
    type Err = ServiceError;

    fn from_str(text: &str) -> Result<Self, ServiceError> {
        let found = WORDS.iter().find(|(word, _)| *word == text);
        found.map(|(_, service)| *service).ok_or(ServiceError)
    }
}

/// A pseudowire of cells: how it packs them, and whose they are where it does not send that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CellPseudowire {
    mode: CellMode,
    address: VpiVci,
}

/// A text that is no pseudowire of cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected n1, n1-cw, vcc@VPI.VCI or vpc@VPI")]
pub struct CellPseudowireError;

impl CellPseudowire {
    /// N to one.
    pub const fn n_to_one(control_word: bool) -> Self {
        Self {
            mode: CellMode::NToOne { control_word },
            address: VpiVci::from_bits(0),
        }
    }

    /// How it packs cells.
    pub const fn mode(self) -> CellMode {
        self.mode
    }

    /// Whether it can carry cells of this VC.
    #[inline(always)]
    pub const fn carries(self, vc: VpiVci) -> bool {
        match self.mode {
            CellMode::NToOne { .. } => true,
            CellMode::OneToOneVcc => vc.bits() == self.address.bits(),
            CellMode::OneToOneVpc => vc.vpi() == self.address.vpi(),
        }
    }

    /// The VC, or the VPI of the path, of a pseudowire that sends neither.
    pub const fn address(self) -> VpiVci {
        self.address
    }
}

impl Default for CellPseudowire {
    fn default() -> Self {
        Self::n_to_one(false)
    }
}

impl From<CellPseudowire> for Pseudowire {
    fn from(cells: CellPseudowire) -> Self {
        Self {
            service: Service::Cells(cells.mode),
            address: cells.address,
        }
    }
}

impl fmt::Display for CellPseudowire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Service::Cells(self.mode).word())?;
        match self.mode {
            CellMode::NToOne { .. } => Ok(()),
            CellMode::OneToOneVcc => write!(f, "@{}", self.address),
            CellMode::OneToOneVpc => write!(f, "@{}", self.address.vpi()),
        }
    }
}

impl FromStr for CellPseudowire {
    type Err = CellPseudowireError;

    fn from_str(text: &str) -> Result<Self, CellPseudowireError> {
        let (word, address) = match text.split_once('@') {
            Some((word, address)) => (word, Some(address)),
            None => (text, None),
        };
        let Ok(Service::Cells(mode)) = word.parse() else {
            return Err(CellPseudowireError);
        };
        let address = match (mode, address) {
            (CellMode::NToOne { .. }, None) => Some(VpiVci::from_bits(0)),
            (CellMode::OneToOneVcc, Some(vc)) => vc.parse().ok(),
            // A path is written as the VCs in it are.
            (CellMode::OneToOneVpc, Some(vpi)) => format!("{vpi}.0").parse().ok(),
            _ => None,
        };
        let address = address.ok_or(CellPseudowireError)?;
        Ok(Self { mode, address })
    }
}

impl TryFrom<String> for CellPseudowire {
    type Error = CellPseudowireError;

    fn try_from(text: String) -> Result<Self, CellPseudowireError> {
        text.parse()
    }
}

impl From<CellPseudowire> for String {
    fn from(cells: CellPseudowire) -> Self {
        cells.to_string()
    }
}
