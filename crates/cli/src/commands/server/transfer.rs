//! One direction of a connection, as `send`, `recv` and `perf` use it.

use std::num::NonZeroU32;

use cellgate::{Builder, Connection, TrafficContract};

use super::{Misuse, Server, growth};

/// Best effort; the SDU is the largest IP packet that ATM carries by default (RFC 1626).
pub(super) const CONTRACT: &str = "ubr,aal5:max_sdu=9180";

/// Octets that may wait to be worked on, and PDUs.
const WAITING: u32 = 4 << 20;
const WAITING_PDUS: u32 = 4_096;

/// Octets that may wait to be sent, and SDUs.
const TO_SEND: u32 = 256 << 10;
const TO_SEND_PDUS: u32 = 256;

/// The connection that is used.
#[derive(clap::Args)]
pub(super) struct Endpoint {
    #[command(flatten)]
    pub(super) server: Server,
    /// The connection: [interface.]vpi.vci
    #[arg(long, value_name = "ADDRESS", default_value = "0.100")]
    pub(super) vc: String,
    /// Its contract; of it, only the direction that is used
    #[arg(long, value_name = "TEXT", default_value = CONTRACT)]
    contract: String,
    /// Use the permanent connection that is there, under its own contract
    #[arg(long, conflicts_with = "contract")]
    take: bool,
}

/// A direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Transmit,
    Receive,
}

impl Endpoint {
    /// Opens the connection to send; one that `grows`, under less at first.
    pub(super) fn transmit(&self, grows: bool) -> anyhow::Result<Connection> {
        let with = |builder: Builder| builder.transmit_pdus(to_send(&self.contract));
        if !grows || self.take {
            return self.open(Way::Transmit, with);
        }
        let contract = one_way(&self.contract, Way::Transmit).map_err(Misuse)?;
        let open = |contract| with(self.builder().contract(contract));
        Ok(growth::open(&contract, open)?)
    }

    fn builder(&self) -> Builder {
        let builder = Connection::builder().address(&self.vc);
        builder.socket(self.server.path())
    }

    /// Opens the connection to receive, with room for what comes while the rest is worked on.
    pub(super) fn receive(&self) -> anyhow::Result<Connection> {
        let contract = self.contract.parse::<TrafficContract>().ok();
        let max_sdu = contract.and_then(|contract| contract.receive?.max_sdu);
        let pdus = WAITING / max_sdu.map_or(u16::MAX.into(), NonZeroU32::get);
        self.open(Way::Receive, |builder| {
            builder.receive_pdus(pdus.min(WAITING_PDUS))
        })
    }

    /// Whether the connection was there before.
    pub(super) fn is_taken(&self) -> bool {
        self.take
    }

    fn open(&self, way: Way, with: impl FnOnce(Builder) -> Builder) -> anyhow::Result<Connection> {
        let builder = self.builder();
        if self.take {
            return Ok(builder.take()?);
        }
        let contract = one_way(&self.contract, way).map_err(Misuse)?;
        Ok(with(builder.contract(contract)).open()?)
    }
}

/// SDUs that may wait to be sent: a writer whom the machine keeps waiting leaves enough to the
/// adapter.
pub(super) fn to_send(contract: &str) -> u32 {
    let contract = contract.parse::<TrafficContract>().ok();
    let max_sdu = contract.and_then(|contract| contract.transmit?.max_sdu);
    let max_sdu = max_sdu.map_or(u16::MAX.into(), NonZeroU32::get);
    (TO_SEND / max_sdu).clamp(4, TO_SEND_PDUS)
}

/// The contract without its other direction, for which nothing needs to be reserved: both ends can
/// be given one text.
pub(super) fn one_way(text: &str, way: Way) -> Result<TrafficContract, String> {
    let contract: TrafficContract = text.parse().map_err(|error| {
        format!("`{text}` is no contract: {error}; `cellgate contract TEXT` explains them")
    })?;
    let (this, what) = match way {
        Way::Transmit => (contract.transmit, "sends"),
        Way::Receive => (contract.receive, "receives"),
    };
    if this.is_none() {
        return Err(format!("a connection under `{text}` {what} nothing"));
    }
    Ok(match way {
        Way::Transmit => TrafficContract {
            receive: None,
            ..contract
        },
        Way::Receive => TrafficContract {
            transmit: None,
            ..contract
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_of_a_transfer_can_be_given_one_text() {
        let text = "cbr,aal5:pcr=1000,max_sdu=100";
        let sends = one_way(text, Way::Transmit).unwrap();
        let receives = one_way(text, Way::Receive).unwrap();
        assert!(sends.transmit.is_some() && sends.receive.is_none());
        assert!(receives.receive.is_some() && receives.transmit.is_none());
        assert_eq!(sends.transmit, receives.receive);
    }

    #[test]
    fn says_what_is_wrong_with_a_contract() {
        let error = one_way("cbr,aal5:pcr", Way::Transmit).unwrap_err();
        assert!(error.contains("no contract"), "{error}");
        let error = one_way("ubr,aal5:tx:none", Way::Transmit).unwrap_err();
        assert!(error.contains("sends nothing"), "{error}");
    }
}
