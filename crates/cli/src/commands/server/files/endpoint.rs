//! The connection of a terminal, and what it is told of transfers.

use std::str::FromStr;
use std::time::Duration;

use anyhow::Context;
use cellgate::{Address, Connection, Link, Peak, TrafficContract};
use cellgate_core::contract::Aal;
use cellgate_core::terminal::{Arq, RateTimer};
use cellgate_host::clock::MonotonicClock;
use cellgate_host::link::udp::{UdpReceiver, UdpSender};
use cellgate_host::terminal::{CellConnection, OVERHEAD, OwnedLine, Port, Terms};

use super::over::{CongestionWord, Over};
use crate::commands::server::recv::seconds;
use crate::commands::server::transfer::{CONTRACT, to_send};
use crate::commands::server::{Misuse, Server};

/// How what is lost is sent again.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum ArqWord {
    /// The lost PDU alone
    Selective,
    /// The lost PDU and all behind it
    Gbn,
}

/// The maker of the cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum LevelWord {
    /// The adapter: SDUs go between it and this process
    Packet,
    /// This process: cells go between it and the adapter
    Cell,
}

/// The length of PDUs.
#[derive(Clone, Copy, Debug)]
enum PduWord {
    Auto,
    Octets(u16),
}

impl FromStr for PduWord {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            _ if text == "auto" => Ok(Self::Auto),
            Ok(octets) if octets > 0 => Ok(Self::Octets(octets)),
            _ => Err("expected `auto`, or octets from 1 to 65,463".to_owned()),
        }
    }
}

/// The connection of a terminal.
#[derive(Clone, clap::Args)]
pub(super) struct Endpoint {
    #[command(flatten)]
    pub(super) server: Server,
    /// The connection: [interface.]vpi.vci [default: 0.100]
    #[arg(long, value_name = "ADDRESS")]
    vc: Option<String>,
    /// The connection's contract, both ways
    #[arg(long, value_name = "TEXT", default_value = CONTRACT)]
    contract: String,
    /// The maker of the cells
    #[arg(long, value_name = "LEVEL", value_enum, default_value_t = LevelWord::Packet)]
    level: LevelWord,
    /// A line of this process's own instead of a connection, as `udp local 127.0.0.1:7001 peer
    /// 127.0.0.1:7002 label 16`: no daemon is needed, and the contract paces what is sent
    #[arg(long, value_name = "LINK", conflicts_with_all = ["level", "socket"])]
    line: Option<String>,
    /// Cells back to back on a line of this process's own
    #[arg(
        long,
        value_name = "CELLS",
        requires = "line",
        default_value_t = 32,
        value_parser = clap::value_parser!(u32).range(1..=4_096)
    )]
    cellburst: u32,
    /// Octets of a file in each PDU: a number, or `auto`, which makes them shorter the more are
    /// lost, from the longest that the contract allows
    #[arg(long, value_name = "N|auto", default_value = "auto")]
    pdu: PduWord,
    /// Octets of a file that may be on their way
    #[arg(long, value_name = "OCTETS", default_value_t = Terms::WINDOW)]
    window: u64,
    /// How what is lost is sent again
    #[arg(long, value_name = "HOW", value_enum, default_value_t = ArqWord::Selective)]
    arq: ArqWord,
    /// Files at a time
    #[arg(
        long,
        value_name = "N",
        default_value_t = 4,
        value_parser = clap::value_parser!(u16).range(1..=256)
    )]
    jobs: u16,
}

/// What a program that begins is told besides.
#[derive(clap::Args)]
pub(super) struct Asking {
    #[command(flatten)]
    pub(super) endpoint: Endpoint,
    /// A stream of octets instead of a connection: tcp:HOST:PORT, where `serve-files --tcp` runs,
    /// or quic:HOST:PORT, where `serve-files --quic` does (in builds with the feature `quic`)
    #[arg(
        long,
        value_name = "TRANSPORT",
        conflicts_with_all = ["vc", "contract", "level", "line", "pdu", "window", "arq", "socket"]
    )]
    pub(super) over: Option<Over>,
    /// By what the server of QUIC is known: what `serve-files --quic` says when it begins
    #[arg(long, value_name = "HEX", requires = "over")]
    pub(super) fingerprint: Option<String>,
    /// How this end finds its rate over QUIC
    #[arg(
        long,
        value_name = "HOW",
        value_enum,
        default_value_t = CongestionWord::Cubic,
        requires = "over"
    )]
    pub(super) congestion: CongestionWord,
    /// Go on after a lost connection, terminal or line for so long
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "60")]
    pub(super) retry: Duration,
}

/// Cells that a line of one's own may send later at once, if it could not before.
const LATE_CELLS: u32 = 4_096;

impl Endpoint {
    /// The same at another address.
    pub(super) fn at(&self, vc: String) -> Self {
        Self {
            vc: Some(vc),
            ..self.clone()
        }
    }

    pub(super) fn vc(&self) -> &str {
        self.vc.as_deref().unwrap_or("0.100")
    }

    /// Whether a connection, or a line, is asked for.
    pub(super) const fn is_named(&self) -> bool {
        self.vc.is_some() || self.line.is_some()
    }

    /// What a terminal on a stream of octets is told.
    pub(super) fn terms_of_stream(&self) -> Terms {
        let mut terms = Terms::of_stream();
        terms.jobs = self.jobs.into();
        terms
    }

    /// The terms, if what the user says makes sense.
    pub(super) fn checked(&self) -> Result<Terms, Misuse> {
        self.terms(&self.contract()?)
    }

    /// Opens what the terminal sends and receives by.
    pub(super) fn open(&self) -> anyhow::Result<(Port, Terms)> {
        let contract = self.contract()?;
        let terms = self.terms(&contract)?;
        let port = match &self.line {
            Some(line) => Port::Line(Box::new(self.line(line, &contract)?)),
            None => self.connection(contract, &terms)?,
        };
        Ok((port, terms))
    }

    fn contract(&self) -> Result<TrafficContract, Misuse> {
        let text = &self.contract;
        let contract: TrafficContract = text.parse().map_err(|error| {
            Misuse(format!(
                "`{text}` is no contract: {error}; `cellgate contract TEXT` explains them"
            ))
        })?;
        if contract.transmit.is_none() || contract.receive.is_none() {
            return Err(Misuse(format!(
                "a connection under `{text}` has one way only: a terminal needs both"
            )));
        }
        Ok(contract)
    }

    fn terms(&self, contract: &TrafficContract) -> Result<Terms, Misuse> {
        let aal = contract.aal.unwrap_or(Aal::Aal5);
        let max_sdu = max_sdu(contract);
        let mut terms = Terms::new(aal, max_sdu).ok_or_else(|| {
            Misuse(format!(
                "SDUs of {max_sdu} octets of {} have no room for files: {} are the least, of \
                 AAL3/4 or AAL5; give more by max_sdu=",
                aal.word(),
                OVERHEAD + 1
            ))
        })?;
        if let PduWord::Octets(pdu) = self.pdu {
            if pdu > terms.pdu_len {
                return Err(Misuse(format!(
                    "--pdu {pdu}: the contract has room for 1 to {}; give more by max_sdu=",
                    terms.pdu_len
                )));
            }
            terms.pdu_len = pdu;
            terms.adapts = false;
        }
        terms.window = self.window.max(terms.pdu_len.into());
        terms.jobs = self.jobs.into();
        terms.arq = match self.arq {
            ArqWord::Selective => Arq::Selective,
            ArqWord::Gbn => Arq::GoBackN,
        };
        Ok(terms)
    }

    fn connection(&self, contract: TrafficContract, terms: &Terms) -> anyhow::Result<Port> {
        let is_cells = self.level == LevelWord::Cell;
        let sdu = if is_cells { 48 } else { max_sdu(&contract) };
        // What may be on its way finds room whatever keeps this process from reading it.
        let waiting = 2 * terms.window / u64::from(sdu) + 16;
        let contract = if is_cells {
            of_cells(contract)
        } else {
            contract
        };
        let text = contract.to_string();
        let connection = Connection::builder()
            .address(self.vc())
            .socket(self.server.path())
            .contract(&text)
            .transmit_pdus(if is_cells { 1_024 } else { to_send(&text) })
            .receive_pdus(u32::try_from(waiting).unwrap_or(u32::MAX))
            .open()
            .with_context(|| self.vc().to_owned())?;
        Ok(match is_cells {
            true => Port::Cells(Box::new(CellConnection::new(connection))),
            false => Port::Packets(Box::new(connection)),
        })
    }

    fn line(&self, line: &str, contract: &TrafficContract) -> anyhow::Result<OwnedLine> {
        let link: Link = format!("type {line}")
            .parse()
            .map_err(|error| Misuse(format!("--line {line}: {error}")))?;
        let Link::Udp(udp) = link else {
            return Err(Misuse(format!("--line {line}: expected udp")).into());
        };
        let address: Address = self
            .vc()
            .parse()
            .map_err(|error| Misuse(format!("--vc {}: {error}", self.vc())))?;
        let rate = contract.transmit.and_then(|transmit| transmit.pcr);
        let timer = match rate {
            Some(Peak::Rate(rate)) => {
                let late = LATE_CELLS / self.cellburst;
                let now = MonotonicClock.now();
                Some(RateTimer::new(now, rate, self.cellburst, late))
            }
            Some(Peak::Max) | None => None,
        };
        let receiver = UdpReceiver::open(&udp)?;
        let sender = UdpSender::open(&udp)?;
        Ok(OwnedLine::new(receiver, sender, address.vc, timer))
    }
}

/// Octets of the longest SDU that both ways carry.
fn max_sdu(contract: &TrafficContract) -> u16 {
    let max = |end: Option<cellgate::TrafficDescriptor>| {
        end.and_then(|end| end.max_sdu)
            .map_or(u16::MAX, |max| u16::try_from(max.get()).unwrap_or(u16::MAX))
    };
    max(contract.transmit).min(max(contract.receive))
}

/// The same in cells that the terminal makes.
fn of_cells(contract: TrafficContract) -> TrafficContract {
    let end = |end: Option<cellgate::TrafficDescriptor>| {
        end.map(|end| cellgate::TrafficDescriptor {
            max_sdu: None,
            ..end
        })
    };
    TrafficContract {
        aal: Some(Aal::Aal0),
        transmit: end(contract.transmit),
        receive: end(contract.receive),
        ..contract
    }
}
