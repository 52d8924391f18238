//! Where a stream is played: a pipe, a file, a socket, browsers, or the stand-in of a display.

use std::io::{self, ErrorKind, Write};
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use anyhow::Context;
use cellgate_core::Time;
use cellgate_core::terminal::video::{Display, DisplayCounts, PlayoutCounts, Released};
use cellgate_core::wire::TS_LEN;
use cellgate_report::whole::create;
use serde_json::Value;

use super::source::socket;
use super::told::Present;
#[cfg(feature = "page")]
use super::web::Web;
#[cfg(not(feature = "page"))]
use crate::commands::server::Misuse;

/// Packets of a datagram: what an Ethernet frame has room for.
const DATAGRAM: usize = 7;
/// Chunks that may wait for a pipe that is slow, and packets of each: 12 MB.
const CHUNKS: usize = 1_024;
const CHUNK: usize = 64;
/// How long a player may take for what it has not read at the end.
const LAST: Duration = Duration::from_secs(2);

/// A sink's name on the command line.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Named {
    File(PathBuf),
    Udp(SocketAddr),
    Http(SocketAddr),
    Display { fps: u32 },
}

impl std::str::FromStr for Named {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(address) = text.strip_prefix("udp:") {
            return socket(address).map(Self::Udp);
        }
        if let Some(address) = text.strip_prefix("http:") {
            return socket(address).map(Self::Http);
        }
        if text == "test" {
            return Ok(Self::Display { fps: 25 });
        }
        if let Some(fps) = text.strip_prefix("test:") {
            let fps = fps.parse().ok().filter(|fps| (1..=1_000).contains(fps));
            let fps = fps.ok_or("expected 1 to 1000 frames a second, as test:25")?;
            return Ok(Self::Display { fps });
        }
        Ok(Self::File(text.into()))
    }
}

/// Who may watch by a page.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct Who {
    /// Let `--to http:` name an address that others reach. Anybody who does sees the video
    #[arg(long)]
    pub(super) public: bool,
    /// A name of this host by which browsers may ask for the page, beside localhost and IP
    /// addresses
    #[arg(long, value_name = "NAME")]
    pub(super) host: Vec<String>,
}

/// Whether a player plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plays {
    /// It does.
    On,
    /// It has gone away.
    Gone,
}

/// A sink that is open.
pub(super) enum Sink {
    Pipe(Pipe),
    Udp {
        socket: UdpSocket,
        datagram: Vec<u8>,
        refused: u64,
    },
    Display(Box<Display>),
    #[cfg(feature = "page")]
    Web(Box<Web>),
}

/// A thread writes what a pipe takes, so that nothing else waits for it.
pub(super) struct Pipe {
    chunks: Option<SyncSender<Vec<u8>>>,
    writer: JoinHandle<io::Result<()>>,
    name: String,
    chunk: Vec<u8>,
    /// Packets for which a slow player had no room.
    dropped: u64,
}

impl Sink {
    pub(super) fn open(named: &Named, who: &Who) -> anyhow::Result<Self> {
        Ok(match named {
            Named::File(path) => {
                let name = match path.as_os_str() == "-" {
                    true => "standard output".to_owned(),
                    false => path.display().to_string(),
                };
                let mut out = create(path).with_context(|| name.clone())?;
                let (chunks, coming) = sync_channel::<Vec<u8>>(CHUNKS);
                let writer = std::thread::spawn(move || {
                    while let Ok(chunk) = coming.recv() {
                        out.write_all(&chunk)?;
                    }
                    Ok(())
                });
                Self::Pipe(Pipe {
                    chunks: Some(chunks),
                    writer,
                    name,
                    chunk: Vec::new(),
                    dropped: 0,
                })
            }
            Named::Udp(address) => {
                let any: SocketAddr = match address.is_ipv4() {
                    true => (std::net::Ipv4Addr::UNSPECIFIED, 0).into(),
                    false => (std::net::Ipv6Addr::UNSPECIFIED, 0).into(),
                };
                let socket = UdpSocket::bind(any).and_then(|socket| {
                    socket.connect(address)?;
                    socket.set_nonblocking(true)?;
                    Ok(socket)
                });
                Self::Udp {
                    socket: socket.with_context(|| format!("sending to udp:{address}"))?,
                    datagram: Vec::with_capacity(DATAGRAM * TS_LEN),
                    refused: 0,
                }
            }
            Named::Display { fps } => Self::Display(Box::new(Display::new(*fps))),
            #[cfg(feature = "page")]
            Named::Http(address) => Self::Web(Box::new(Web::open(*address, who)?)),
            #[cfg(not(feature = "page"))]
            Named::Http(_) => {
                let _ = who;
                let why = "this cellgate has no page: build it with `--features page`, or name \
                           another --to";
                return Err(Misuse(why.to_owned()).into());
            }
        })
    }

    /// Plays a packet.
    pub(super) fn take(&mut self, now: Time, released: &Released) {
        match self {
            Self::Pipe(pipe) => {
                pipe.chunk.extend_from_slice(&released.packet);
                if pipe.chunk.len() >= CHUNK * TS_LEN {
                    // Whether it has gone is asked when all is taken.
                    let _ = pipe.flush();
                }
            }
            Self::Udp { datagram, .. } => {
                datagram.extend_from_slice(&released.packet);
                if datagram.len() >= DATAGRAM * TS_LEN {
                    self.datagram();
                }
            }
            Self::Display(display) if !released.is_mark => {
                display.handle(now, released.due, &released.packet);
            }
            Self::Display(_) => {}
            #[cfg(feature = "page")]
            Self::Web(web) => web.take(&released.packet),
        }
    }

    fn datagram(&mut self) {
        if let Self::Udp {
            socket,
            datagram,
            refused,
        } = self
            && !datagram.is_empty()
        {
            // A player that is not there may come yet.
            *refused += u64::from(socket.send(datagram).is_err());
            datagram.clear();
        }
    }

    /// All that is due has been taken.
    pub(super) fn flush(&mut self) -> Plays {
        match self {
            Self::Pipe(pipe) => pipe.flush(),
            Self::Udp { .. } => {
                self.datagram();
                Plays::On
            }
            Self::Display(_) => Plays::On,
            #[cfg(feature = "page")]
            Self::Web(web) => {
                web.flush();
                Plays::On
            }
        }
    }

    /// Tells those who watch by a page how it is.
    pub(super) fn tell(&self, counts: &PlayoutCounts, present: &Present) {
        #[cfg(feature = "page")]
        if let Self::Web(web) = self {
            web.tell(counts, present);
        }
        #[cfg(not(feature = "page"))]
        let _ = (counts, present);
    }

    /// Those who watch by a page, as JSON; none: there is no page.
    pub(super) fn watched(&self) -> Option<Value> {
        match self {
            #[cfg(feature = "page")]
            Self::Web(web) => Some(web.watched()),
            _ => None,
        }
    }

    /// The verdict of a display so far.
    pub(super) fn shown(&self) -> Option<&DisplayCounts> {
        match self {
            Self::Display(display) => Some(display.counts()),
            _ => None,
        }
    }

    /// Packets, or datagrams, that the player had no room for or refused.
    pub(super) fn dropped(&self) -> u64 {
        match self {
            Self::Pipe(pipe) => pipe.dropped,
            Self::Udp { refused, .. } => *refused,
            Self::Display(_) => 0,
            #[cfg(feature = "page")]
            Self::Web(_) => 0,
        }
    }

    /// Lets the player have what is left; what a display has seen.
    pub(super) fn end(self) -> anyhow::Result<Option<DisplayCounts>> {
        match self {
            Self::Pipe(pipe) => pipe.end().map(|()| None),
            Self::Udp { .. } => Ok(None),
            Self::Display(display) => Ok(Some(display.end())),
            #[cfg(feature = "page")]
            Self::Web(_) => Ok(None),
        }
    }
}

impl Pipe {
    fn flush(&mut self) -> Plays {
        if self.chunk.is_empty() {
            return match self.writer.is_finished() {
                true => Plays::Gone,
                false => Plays::On,
            };
        }
        let chunk = std::mem::take(&mut self.chunk);
        let packets = (chunk.len() / TS_LEN) as u64;
        match self.chunks.as_ref().map(|chunks| chunks.try_send(chunk)) {
            Some(Ok(())) => Plays::On,
            Some(Err(TrySendError::Full(_))) => {
                self.dropped += packets;
                Plays::On
            }
            Some(Err(TrySendError::Disconnected(_))) | None => Plays::Gone,
        }
    }

    fn end(mut self) -> anyhow::Result<()> {
        self.chunks = None;
        let begun = Instant::now();
        while !self.writer.is_finished() {
            if begun.elapsed() >= LAST {
                eprintln!("cellgate: {} does not read the rest", self.name);
                return Ok(());
            }
            sleep(Duration::from_millis(1));
        }
        match self.writer.join() {
            Ok(Err(error)) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            Ok(written) => written.with_context(|| self.name),
            Err(_) => anyhow::bail!("{}: its writer has failed", self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sinks_are_files_sockets_and_displays() {
        let of = |text: &str| text.parse::<Named>();
        assert_eq!(of("test"), Ok(Named::Display { fps: 25 }));
        assert_eq!(of("test:50"), Ok(Named::Display { fps: 50 }));
        assert_eq!(of("-"), Ok(Named::File("-".into())));
        assert_eq!(
            of("udp:127.0.0.1:5004"),
            Ok(Named::Udp(([127, 0, 0, 1], 5004).into()))
        );
        assert_eq!(
            of("http:[::1]:80"),
            Ok(Named::Http("[::1]:80".parse().unwrap()))
        );
        for text in ["test:0", "test:x", "udp:localhost", "http:8081"] {
            assert!(of(text).is_err(), "{text}");
        }
    }
}
