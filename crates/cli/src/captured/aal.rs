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
    /// What VCs carry of which nobody says anything.
    #[default]
    Aal5,
}

impl AalWord {
    const ALL: [Self; 5] = [Self::Aal0, Self::Aal1, Self::Aal2, Self::Aal34, Self::Aal5];

    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Aal0 => "aal0",
            Self::Aal1 => "aal1",
            Self::Aal2 => "aal2",
            Self::Aal34 => "aal34",
            Self::Aal5 => "aal5",
        }
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
        let aal = AalWord::ALL.into_iter().find(|aal| aal.word() == word);
        let aal =
            aal.ok_or_else(|| format!("{word}: expected one of aal0, aal1, aal2, aal34, aal5"))?;
        Ok(Self { address, aal })
    }
}
