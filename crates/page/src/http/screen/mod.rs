//! A screen: a film that comes, shown by a browser.
//!
//! Whoever has the film's packets puts them in; neither viewers nor their number make it wait. The
//! player is mpegts.js, as it lies in `player`.

mod log;

use std::convert::Infallible;
use std::net::TcpListener;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use serde_json::Value;
use tokio::sync::{Semaphore, watch};
use tokio_stream::wrappers::WatchStream;
use tokio_stream::{Stream, StreamExt};

use super::site::{self, Answer, EVENTS, Site, TEXT, full, is_known, text};
use super::viewers::event;
use super::{Listener, accept, runtime};
use log::Log;

/// Viewers at once.
pub const VIEWERS_MAX: usize = 8;
/// Pages that hear counters at once.
const HEARERS_MAX: usize = 2 * VIEWERS_MAX;

const PAGE: &str = include_str!("page.html");
const PLAYER: &str = include_str!("../../../player/mpegts.js");
const LICENCE: &str = include_str!("../../../player/LICENSE");
const ORIGIN: &str = include_str!("../../../player/README.md");

const SCRIPT: &str = "text/javascript; charset=utf-8";
const TRANSPORT_STREAM: &str = "video/mp2t";

/// Where a film's packets go in.
#[derive(Debug)]
pub struct Screen {
    log: Arc<Log>,
    told: watch::Sender<Bytes>,
}

/// Those who watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watched {
    /// Viewers now.
    pub viewers: usize,
    /// Viewers that ended with more than three seconds unread.
    pub behind: u64,
}

impl Screen {
    /// Shows a film to whoever asks `listener` for it, by the name of one of `hosts` where not by
    /// an IP address or `localhost`. A thread of its own does so, for as long as the process runs.
    ///
    /// # Errors
    /// The kernel refuses what a server needs.
    pub fn open(listener: TcpListener, hosts: Vec<String>) -> std::io::Result<Self> {
        let log = Arc::new(Log::new(VIEWERS_MAX));
        let told = watch::Sender::new(event("counters", "{}"));
        let cinema = Arc::new(Cinema {
            log: Arc::clone(&log),
            told: told.subscribe(),
            hearers: Arc::new(Semaphore::new(HEARERS_MAX)),
            hosts,
        });
        let runtime = runtime()?;
        std::thread::Builder::new()
            .name("cg-screen".to_owned())
            .spawn(move || {
                // It ends with the process. A listener that fails shows nobody anything more.
                let ended = runtime.block_on(accept(Listener::Tcp(listener), cinema));
                if let Err(error) = ended {
                    eprintln!("cellgate: the page has ended: {error}");
                }
            })?;
        Ok(Self { log, told })
    }

    /// Shows whole packets. With `tables`, packets that a viewer needs before, one who comes late
    /// begins with them.
    pub fn show(&self, packets: Vec<u8>, tables: Option<Vec<u8>>) {
        self.log.add(packets, tables);
    }

    /// What comes has another clock than what came: players begin anew.
    pub fn anew(&self) {
        self.log.anew();
    }

    /// Tells counters to all.
    pub fn tell(&self, counters: &Value) {
        self.told
            .send_replace(event("counters", &counters.to_string()));
    }

    /// Those who watch.
    pub fn watched(&self) -> Watched {
        Watched {
            viewers: self.log.viewers(VIEWERS_MAX),
            behind: self.log.behind(),
        }
    }
}

/// What all answers are made of.
struct Cinema {
    log: Arc<Log>,
    told: watch::Receiver<Bytes>,
    hearers: Arc<Semaphore>,
    hosts: Vec<String>,
}

impl Site for Cinema {
    fn knows(&self, host: Option<&HeaderValue>) -> bool {
        is_known(host, &self.hosts)
    }

    async fn answer(&self, request: Request<Incoming>) -> Answer {
        let is_head = match *request.method() {
            Method::GET => false,
            Method::HEAD => true,
            _ => return site::read_only(),
        };
        match request.uri().path() {
            "/" => {
                let nonce = site::nonce();
                let page = PAGE.replace("{nonce}", &nonce);
                site::html(page, &nonce, "media-src blob:; ")
            }
            "/mpegts.js" => full(StatusCode::OK, SCRIPT, PLAYER),
            "/licence" => full(StatusCode::OK, TEXT, format!("{ORIGIN}\n{LICENCE}\n")),
            "/stream.ts" if is_head => full(StatusCode::OK, TRANSPORT_STREAM, Bytes::new()),
            "/stream.ts" => match self.log.admit() {
                Some(viewing) => endless(TRANSPORT_STREAM, viewing),
                None => text(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "As many watch already as may.\n",
                ),
            },
            "/events" if is_head => full(StatusCode::OK, EVENTS, Bytes::new()),
            "/events" => match Arc::clone(&self.hearers).try_acquire_owned() {
                Ok(place) => {
                    let told = WatchStream::new(self.told.clone()).map(move |told| {
                        let _as_long_as_this = &place;
                        told
                    });
                    endless(EVENTS, told)
                }
                Err(_) => text(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "As many look already as may.\n",
                ),
            },
            _ => site::nothing_here(),
        }
    }
}

/// An answer that goes on.
fn endless(kind: &'static str, octets: impl Stream<Item = Bytes> + Send + 'static) -> Answer {
    let frames = octets.map(|octets| Ok::<_, Infallible>(Frame::data(octets)));
    let mut answer = Response::new(StreamBody::new(frames).boxed_unsync());
    let kind = HeaderValue::from_static(kind);
    answer.headers_mut().insert(header::CONTENT_TYPE, kind);
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_player_is_the_one_that_its_page_names() {
        assert!(ORIGIN.contains("mpegts.js 1.8.0"));
        assert!(PLAYER.contains("\"1.8.0\""));
        assert!(LICENCE.contains("Apache License") && LICENCE.contains("Version 2.0"));
        assert!(ORIGIN.contains(&format!("{} octets", PLAYER.len())));
    }

    #[test]
    fn the_page_asks_nobody_else() {
        for elsewhere in ["http://", "https://", "//cdn"] {
            let without = PAGE.replace("http://www.w3.org/2000/svg", "");
            assert!(!without.contains(elsewhere), "{elsewhere}");
        }
    }
}
