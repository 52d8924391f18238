//! The file and the video in a browser: the page of the demo's daemon, with what its VCs are and
//! how far both are.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, bail};
use cellgate_page::http::{Listener, Options, is_private, serve};
use cellgate_page::{Look, Source, Watch};
use serde_json::{Value, json};

use super::{file, video};

/// The page, as the demo has it.
pub(super) struct Page {
    told: Arc<Mutex<Value>>,
    address: SocketAddr,
}

/// The same, as whoever serves it has it.
struct Shown {
    daemon: Watch,
    told: Arc<Mutex<Value>>,
}

impl Source for Shown {
    fn look(&mut self) -> Result<Look, String> {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Look {
            demo: Some(told.clone()),
            ..self.daemon.look()?
        })
    }

    fn try_open(&mut self, address: &str, contract: &str) -> Result<Value, String> {
        self.daemon.try_open(address, contract)
    }
}

/// A place that no other machine reaches.
pub(super) fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    if !is_private(&address) {
        bail!("{address}: others reach it; name one of this machine");
    }
    TcpListener::bind(address).with_context(|| address.to_string())
}

impl Page {
    /// Serves it, of the daemon at this socket, until the process ends.
    pub(super) fn open(listener: TcpListener, socket: PathBuf) -> anyhow::Result<Self> {
        let address = listener.local_addr()?;
        let told = Arc::new(Mutex::new(words("it begins", "it begins")));
        let shown = Shown {
            daemon: Watch::of(socket),
            told: Arc::clone(&told),
        };
        let listener = Listener::Tcp(listener);
        std::thread::spawn(move || serve(listener, Box::new(shown), Options::default()));
        Ok(Self { told, address })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Shows how far both are.
    pub(super) fn tell(&self, file: &str, video: &str) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        *told = words(file, video);
    }
}

fn words(file: &str, video: &str) -> Value {
    let roles: serde_json::Map<String, Value> = [file::ROLES, video::ROLES]
        .into_iter()
        .flatten()
        .map(|(address, role)| (address.to_owned(), json!(role)))
        .collect();
    json!({ "file": file, "video": video, "roles": roles })
}
