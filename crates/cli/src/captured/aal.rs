//! Which AAL a VC carries, where the user says so: no capture format that is read here does.

use std::str::FromStr;

use cellgate_core::wire::VpiVci;

/// An AAL by its word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum AalWord {
    /// Cells, no PDUs.
    Aal0,
    Aal1,
    Aal2,
    Aal34,
    /// Blocks of the Cambridge networks, in cells without an AAL.
    Mssar,
    /// What VCs carry of which nobody says anything.
    #[default]
    Aal5,
}

impl AalWord {
    const ALL: [Self; 6] = [
        Self::Aal0,
        Self::Aal1,
        Self::Aal2,
        Self::Aal34,
        Self::Aal5,
        Self::Mssar,
    ];

    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Aal0 => "aal0",
            Self::Aal1 => "aal1",
            Self::Aal2 => "aal2",
            Self::Aal34 => "aal34",
            Self::Aal5 => "aal5",
            Self::Mssar => "mssar",
        }
    }
}

impl FromStr for AalWord {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|aal| aal.word() == word);
        found.ok_or_else(|| {
            let words = Self::ALL.map(Self::word).join(", ");
            format!("{word}: expected one of {words}")
        })
    }
}

/// `vpi.vci=aal`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AalOption {
    pub(crate) address: VpiVci,
    pub(crate) aal: AalWord,
}

impl FromStr for AalOption {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (address, word) = text.split_once('=').ok_or("expected vpi.vci=aal")?;
        let address = address.parse().map_err(|e| format!("{address}: {e}"))?;
        let aal = word.parse()?;
        Ok(Self { address, aal })
    }
}

/// `vpi.vci=aal` of one VC, `aal` of all the others.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AalChoice {
    Of(AalOption),
    OfOthers(AalWord),
}

impl FromStr for AalChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.contains('=') {
            true => text.parse().map(Self::Of),
            false => text.parse().map(Self::OfOthers),
        }
    }
}
