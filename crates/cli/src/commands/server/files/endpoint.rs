//! The connection of a terminal, and what it is told of transfers.

use std::time::Duration;

use anyhow::Context;
use cellgate::{Connection, TrafficContract};
use cellgate_core::contract::Aal;
use cellgate_core::terminal::Arq;
use cellgate_host::terminal::{OVERHEAD, Terms};

use crate::commands::server::recv::seconds;
use crate::commands::server::transfer::{CONTRACT, to_send};
use crate::commands::server::{Misuse, Server};

/// How what is lost is sent again.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum ArqWord {
    /// What is lost alone
    Selective,
    /// What is lost and all behind it
    Gbn,
}

/// The connection of a terminal.
#[derive(clap::Args)]
pub(super) struct Endpoint {
    #[command(flatten)]
    pub(super) server: Server,
    /// The connection's contract, both ways
    #[arg(long, value_name = "TEXT", default_value = CONTRACT)]
    contract: String,
    /// Octets of a file in each PDU [default: as many as the contract allows]
    #[arg(long, value_name = "N")]
    pdu: Option<u16>,
    /// Octets of a file that may be on their way
    #[arg(long, value_name = "OCTETS", default_value_t = Terms::WINDOW)]
    window: u64,
    /// How what is lost is sent again
    #[arg(long, value_name = "HOW", value_enum, default_value_t = ArqWord::Selective)]
    arq: ArqWord,
    /// Files at a time
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: u16,
}

/// What a program that begins is told besides.
#[derive(clap::Args)]
pub(super) struct Asking {
    #[command(flatten)]
    pub(super) endpoint: Endpoint,
    /// The connection: [interface.]vpi.vci
    #[arg(long, value_name = "ADDRESS", default_value = "0.100")]
    pub(super) vc: String,
    /// Go on after a lost connection, terminal or line for so long
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "60")]
    pub(super) retry: Duration,
}

impl Endpoint {
    /// Opens the connection at an address.
    pub(super) fn open(&self, vc: &str) -> anyhow::Result<(Connection, Terms)> {
        let contract: TrafficContract = self.contract.parse().map_err(|error| {
            Misuse(format!(
                "`{}` is no contract: {error}; `cellgate contract TEXT` explains them",
                self.contract
            ))
        })?;
        if contract.transmit.is_none() || contract.receive.is_none() {
            return Err(Misuse(format!(
                "a connection under `{}` has one way only: a terminal needs both",
                self.contract
            ))
            .into());
        }
        let aal = contract.aal.unwrap_or(Aal::Aal5);
        let max_sdu = |end: Option<cellgate::TrafficDescriptor>| {
            end.and_then(|end| end.max_sdu)
                .map_or(u16::MAX, |max| u16::try_from(max.get()).unwrap_or(u16::MAX))
        };
        let max_sdu = max_sdu(contract.transmit).min(max_sdu(contract.receive));
        let mut terms = Terms::new(aal, max_sdu).ok_or_else(|| {
            Misuse(format!(
                "SDUs of {max_sdu} octets of {} have no room for files: {} are the least, of AAL3/4 or \
                 AAL5; give more by max_sdu=",
                aal.word(), OVERHEAD + 1
            ))
        })?;
        if let Some(pdu) = self.pdu {
            if pdu == 0 || pdu > terms.pdu_len {
                return Err(Misuse(format!(
                    "--pdu {pdu}: the contract has room for 1 to {}; give more by max_sdu=",
                    terms.pdu_len
                ))
                .into());
            }
            terms.pdu_len = pdu;
        }
        terms.window = self.window.max(terms.pdu_len.into());
        terms.jobs = self.jobs.into();
        terms.arq = match self.arq {
            ArqWord::Selective => Arq::Selective,
            ArqWord::Gbn => Arq::GoBackN,
        };
        // What may be on its way finds room whatever keeps this process from reading it.
        let waiting = 2 * terms.window / u64::from(max_sdu) + 16;
        let connection = Connection::builder()
            .address(vc)
            .socket(self.server.path())
            .contract(&self.contract)
            .transmit_pdus(to_send(&self.contract))
            .receive_pdus(u32::try_from(waiting).unwrap_or(u32::MAX))
            .open()
            .with_context(|| vc.to_owned())?;
        Ok((connection, terms))
    }
}
