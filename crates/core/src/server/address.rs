use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::wire::VpiVci;

/// A PVC's address, `[interface.]vpi.vci`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Address {
    /// The interface's name; none: the only one there is.
    pub interface: Option<String>,
    /// Where on it.
    pub vc: VpiVci,
}

/// A text that is no address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Not two or three parts.
    #[error("expected [interface.]vpi.vci, as 0.100 or wan.0.100")]
    Form,
    /// No name of an interface.
    #[error("an interface's name has 1 to 15 of the characters a-z A-Z 0-9 _ -")]
    Interface,
    #[error("the VPI is not a number of 0 to 4095")]
    Vpi,
    #[error("the VCI is not a number of 0 to 65535")]
    Vci,
    /// No VC (I.361).
    #[error("0.0 is no VC: unassigned cells have it")]
    Unassigned,
}

impl Address {
    /// Whether `name` can name an interface: 1 to 15 of the characters a-z A-Z 0-9 _ -.
    pub fn is_interface_name(name: &str) -> bool {
        let fits = |c: u8| c.is_ascii_alphanumeric() || c == b'_' || c == b'-';
        (1..=15).contains(&name.len()) && name.bytes().all(fits)
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let mut parts = text.rsplitn(3, '.');
        let (Some(vci), Some(vpi)) = (parts.next(), parts.next()) else {
            return Err(AddressError::Form);
        };
        let interface = match parts.next() {
            None => None,
            Some(name) if Self::is_interface_name(name) => Some(name.to_owned()),
            Some(_) => return Err(AddressError::Interface),
        };
        let digits = |part: &str| part.bytes().all(|c| c.is_ascii_digit());
        let vpi = vpi.parse().ok().filter(|_| digits(vpi));
        let vci = vci.parse().ok().filter(|_| digits(vci));
        let vci = vci.ok_or(AddressError::Vci)?;
        let vc = vpi.and_then(|vpi| VpiVci::new(vpi, vci));
        let vc = vc.ok_or(AddressError::Vpi)?;
        match vc.bits() {
            0 => Err(AddressError::Unassigned),
            _ => Ok(Self { interface, vc }),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(interface) = &self.interface {
            write!(f, "{interface}.")?;
        }
        write!(f, "{}.{}", self.vc.vpi(), self.vc.vci())
    }
}

impl TryFrom<String> for Address {
    type Error = AddressError;

    fn try_from(text: String) -> Result<Self, AddressError> {
        text.parse()
    }
}

impl From<Address> for String {
    fn from(address: Address) -> Self {
        address.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_prints() {
        for text in ["0.32", "wan.0.100", "a-b_C9.4095.65535", "1.2.3"] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.to_string(), text);
            let json = serde_json::to_string(&address).unwrap();
            assert_eq!(json, format!("\"{text}\""));
            assert_eq!(serde_json::from_str::<Address>(&json).unwrap(), address);
        }
    }

    #[test]
    fn says_what_is_wrong() {
        use AddressError::*;
        let long = format!("{}.0.1", "x".repeat(16));
        for (text, error) in [
            ("", Form),
            ("5", Form),
            (".1.2", Interface),
            ("a.b.1.2", Interface),
            ("w n.1.2", Interface),
            (&long, Interface),
            ("4096.1", Vpi),
            ("+1.1", Vpi),
            (".1", Vpi),
            ("1.65536", Vci),
            ("1.+1", Vci),
            ("1.", Vci),
            ("0.0", Unassigned),
            ("wan.0.0", Unassigned),
        ] {
            assert_eq!(text.parse::<Address>(), Err(error), "{text:?}");
        }
    }
}
