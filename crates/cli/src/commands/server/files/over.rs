//! Streams of octets that files go over instead of a connection.

use std::io;
use std::str::FromStr;

#[cfg(feature = "quic")]
use anyhow::Context;
#[cfg(feature = "quic")]
use cellgate_host::terminal::over::{Congestion, Quic, Stream};

use crate::commands::server::Misuse;

/// What a program that begins connects to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Over {
    /// The host and the port.
    Tcp(String),
    Quic(String),
}

/// How who sends by QUIC finds its rate.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(super) enum CongestionWord {
    /// A loss is congestion
    Cubic,
    /// The rate is what has arrived of late: losses by bit errors cost it little
    Bbr,
}

#[cfg(feature = "quic")]
impl From<CongestionWord> for Congestion {
    fn from(word: CongestionWord) -> Self {
        match word {
            CongestionWord::Cubic => Self::Cubic,
            CongestionWord::Bbr => Self::Bbr,
        }
    }
}

impl FromStr for Over {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = "expected tcp:HOST:PORT or quic:HOST:PORT";
        let (kind, to) = text.split_once(':').ok_or(expected)?;
        let (host, port) = to.rsplit_once(':').ok_or(expected)?;
        if host.is_empty() || port.parse::<u16>().is_err() {
            return Err(expected.to_owned());
        }
        match kind {
            "tcp" => Ok(Self::Tcp(to.to_owned())),
            "quic" => Ok(Self::Quic(to.to_owned())),
            _ => Err(expected.to_owned()),
        }
    }
}

/// Whether an error is one of a transport, which may go by.
pub(super) fn may_go_by(error: &anyhow::Error) -> bool {
    error.is::<cellgate::Error>() || error.is::<io::Error>()
}

/// Connects to a server that is known by its fingerprint.
#[cfg(feature = "quic")]
pub(super) fn quic(
    to: &str,
    fingerprint: Option<&str>,
    congestion: CongestionWord,
) -> anyhow::Result<Stream<Quic>> {
    let text = fingerprint.ok_or_else(|| {
        Misuse(format!(
            "who answers at {to} is not known: give --fingerprint HEX, which `serve-files --quic` \
             says when it begins"
        ))
    })?;
    let fingerprint = text
        .parse()
        .map_err(|error| Misuse(format!("--fingerprint {text}: {error}")))?;
    Quic::connect(to, fingerprint, congestion.into()).with_context(|| to.to_owned())
}

/// What is said of QUIC in a build without it.
#[cfg(not(feature = "quic"))]
pub(super) fn no_quic() -> anyhow::Error {
    Misuse("this build is without QUIC: the feature `quic` has it".to_owned()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transport_is_a_kind_a_host_and_a_port() {
        for (text, over) in [
            ("tcp:a.b:7", Some(Over::Tcp("a.b:7".to_owned()))),
            ("tcp:[::1]:7", Some(Over::Tcp("[::1]:7".to_owned()))),
            (
                "quic:1.2.3.4:65535",
                Some(Over::Quic("1.2.3.4:65535".to_owned())),
            ),
            ("tcp:a", None),
            ("tcp::7", None),
            ("tcp:a:65536", None),
            ("udp:a:7", None),
            ("a:7", None),
            ("", None),
        ] {
            assert_eq!(text.parse().ok(), over, "{text}");
        }
    }
}
