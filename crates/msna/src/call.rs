use core::num::NonZeroU32;

use cellgate::{Aal, TrafficContract};
use cellgate_core::aal::mssar;
use cellgate_core::upper::msna::Notify;
use cellgate_core::wire::MSSAR_ATM_LEN;

use crate::Error;

/// Octets of the longest block in ATM cells.
pub(crate) const BLOCK_MAX: usize = mssar::block_max(MSSAR_ATM_LEN as u8) as usize;

/// A way for blocks to go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// In AAL0 cells, which this host fills and puts together: the station of the Cambridge ring.
    #[default]
    Cells,
    /// As an AAL5 PDU, which the adapter fills and puts together: the paper's interface with a
    /// processor of its own.
    Aal5,
    /// As a UDP datagram: the paper's networks of packets of any size. There are no contracts.
    Packets,
}

/// The terms of an association that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The traffic contract, without AAL: what goes out and what comes in. Both ends admit it.
    pub contract: String,
    /// The cells that wake a reader, at both ends.
    pub notify: Notify,
    /// Whether this end is woken by none, and looks.
    pub polled: bool,
}

impl Default for Call {
    /// Best effort, woken at a block's last cell.
    fn default() -> Self {
        Self {
            contract: "ubr".to_owned(),
            notify: Notify::Last,
            polled: false,
        }
    }
}

impl Access {
    /// A contract as this way for blocks needs it.
    pub(crate) fn fit(self, contract: &str) -> Result<TrafficContract, Error> {
        let parsed: Result<TrafficContract, _> = contract.parse();
        let mut contract = parsed.map_err(|error| Error::Contract(error.to_string()))?;
        contract.aal = Some(match self {
            Self::Cells => Aal::Aal0,
            Self::Aal5 | Self::Packets => Aal::Aal5,
        });
        let max_sdu = NonZeroU32::new(BLOCK_MAX as u32).filter(|_| self != Self::Cells);
        let directions = [&mut contract.transmit, &mut contract.receive];
        for direction in directions.into_iter().flatten() {
            direction.max_sdu = direction.max_sdu.filter(|_| max_sdu.is_some()).or(max_sdu);
        }
        Ok(contract)
    }
}

/// The same contract, seen from the other end.
pub(crate) fn mirrored(contract: &TrafficContract) -> TrafficContract {
    TrafficContract {
        transmit: contract.receive,
        receive: contract.transmit,
        ..*contract
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contract_has_the_aal_of_its_way_and_room_for_a_block() {
        let fit = |access: Access, text: &str| access.fit(text).unwrap().to_string();
        assert_eq!(fit(Access::Cells, "ubr,aal5:max_sdu=9"), "ubr,aal0");
        assert_eq!(
            fit(Access::Aal5, "cbr:pcr=9"),
            "cbr,aal5:pcr=9,max_sdu=11730"
        );
        assert!(Access::Cells.fit("much").is_err());
        let contract = Access::Cells.fit("cbr:tx:pcr=5,rx:pcr=9").unwrap();
        assert_eq!(
            mirrored(&contract).to_string(),
            "cbr,aal0:tx:pcr=9,rx:pcr=5"
        );
    }
}
