//! A page that shows a stream to browsers.

use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use cellgate_core::terminal::video::{Entries, PlayoutCounts, Step};
use cellgate_core::wire::TS_LEN;
use cellgate_host::sys::plain;
use cellgate_page::http::is_private;
use cellgate_page::http::screen::Screen;
use serde_json::{Value, json};

use super::sink::Who;
use super::told::Present;
use crate::commands::server::Misuse;

/// Packets that are shown together, and how long the first of them may wait.
const CHUNK: usize = 64;
const WAIT: Duration = Duration::from_millis(10);

/// A page, and what it has not been given yet.
pub(super) struct Web {
    screen: Screen,
    entries: Entries,
    chunk: Vec<u8>,
    /// With what a viewer can begin at the chunk's first packet.
    tables: Option<Vec<u8>>,
    since: Instant,
}

impl Web {
    pub(super) fn open(address: SocketAddr, who: &Who) -> anyhow::Result<Self> {
        let listener = listen(address, who)?;
        let address = listener.local_addr()?;
        let screen = Screen::open(listener, who.host.clone()).context("page")?;
        eprintln!("cellgate: page at http://{address}/");
        Ok(Self {
            screen,
            entries: Entries::new(),
            chunk: Vec::new(),
            tables: None,
            since: Instant::now(),
        })
    }

    pub(super) fn take(&mut self, packet: &[u8; TS_LEN]) {
        match self.entries.handle(packet) {
            Step::More => {}
            Step::Entry => {
                self.show();
                self.tables = Some(self.entries.tables().flatten().copied().collect());
            }
            Step::Anew => {
                self.show();
                self.screen.anew();
            }
        }
        if self.chunk.is_empty() {
            self.since = Instant::now();
        }
        self.chunk.extend_from_slice(packet);
        if self.chunk.len() >= CHUNK * TS_LEN {
            self.show();
        }
    }

    /// All that is due has been taken.
    pub(super) fn flush(&mut self) {
        if self.since.elapsed() >= WAIT {
            self.show();
        }
    }

    fn show(&mut self) {
        if !self.chunk.is_empty() {
            let chunk = std::mem::take(&mut self.chunk);
            self.screen.show(chunk, self.tables.take());
        }
    }

    pub(super) fn tell(&self, counts: &PlayoutCounts, present: &Present) {
        let watched = self.screen.watched();
        self.screen.tell(&json!({
            "counts": counts,
            "fill_ns": present.fill_ns,
            "clock_ppb": present.clock_ppb,
            "rate_ppb": present.rate_ppb,
            "viewers": watched.viewers,
            "viewers_behind": watched.behind,
        }));
    }

    pub(super) fn watched(&self) -> Value {
        let watched = self.screen.watched();
        json!({ "viewers": watched.viewers, "viewers_behind": watched.behind })
    }
}

fn listen(address: SocketAddr, who: &Who) -> anyhow::Result<TcpListener> {
    if !who.public && !is_private(&address) {
        let why = format!(
            "others reach {address}: whoever does sees the video. Say --public if that is meant"
        );
        return Err(Misuse(why).into());
    }
    TcpListener::bind(address).map_err(|error| anyhow!("{address}: {}", plain(&error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_others_reach_is_to_be_asked_for() {
        let mut who = Who::default();
        for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
            let refused = listen(address.parse().unwrap(), &who).unwrap_err();
            assert!(refused.to_string().contains("--public"), "{refused}");
        }
        let free = listen("127.0.0.1:0".parse().unwrap(), &who).unwrap();
        let taken = listen(free.local_addr().unwrap(), &who).unwrap_err();
        assert!(taken.to_string().contains("in use"), "{taken}");
        who.public = true;
        listen("0.0.0.0:0".parse().unwrap(), &who).unwrap();
    }
}
