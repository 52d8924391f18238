//! A server as simple as can be over real adapters: it speaks the protocol, admits by a line rate,
//! and does what a test orders.
//!
//! Interfaces `a` and `b` have an adapter each: what one sends the other receives.

#![allow(dead_code, reason = "every test binary uses a part of it")]
#![allow(unreachable_pub, reason = "a module of several binaries")]

pub mod answers;
mod daemon;

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use cellgate::{Builder, Connection, Indication};
use cellgate_core::adapter::{Config, PortConfig, PortIndex};
use cellgate_core::contract::CellRate;
use cellgate_core::server::{Address, FromClient, FromServer, Open, Opened, Request};
use cellgate_core::wire::{CellFormat, HeaderForm};
use cellgate_host::adapter::{AdapterOptions, AdapterThread};
use cellgate_host::client::Control;
use cellgate_host::sys::SchedulingRequest;
use cellgate_shm::socket::{MESSAGE_MAX, Received, receive, send};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, socket_with,
};

/// Cells/s of either interface.
const FAKE_LINE: u32 = 1_000_000;

#[allow(unused_imports, reason = "every test binary uses a part of it")]
pub use daemon::*;

/// The number of `Restarted`.
const RESTARTED: u64 = 1 << 41;

/// What a test orders.
enum Order {
    /// Tell every client.
    Tell(Box<Indication>),
    /// End the adapter, start another, open everything again.
    Restart,
    /// Do not answer the next request; say `Restarted` instead.
    Forget,
    /// Before the next Open is confirmed, tell that it was opened again, with memory that has gone.
    Reopen,
    /// Close every client's socket.
    HangUp,
    /// Whether changes of a contract bring new memory.
    Renew(bool),
    /// Tell it whenever a contract has changed, right after the confirm.
    TellAfter(Box<Indication>),
}

pub struct Fake {
    path: PathBuf,
    orders: Sender<Order>,
    thread: Option<JoinHandle<()>>,
}

impl Fake {
    pub fn start() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("cellgate-test-{}-{number}.sock", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_file(&path);
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let listener =
            socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        bind(&listener, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        listen(&listener, 16).unwrap();
        let (orders, receiver) = channel();
        let thread = std::thread::spawn(move || Server::new(listener).run(&receiver));
        Self {
            path,
            orders,
            thread: Some(thread),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn builder(&self, address: &str, contract: &str) -> Builder {
        let builder = Connection::builder().socket(&self.path);
        builder.address(address).contract(contract)
    }

    pub fn open(&self, address: &str, contract: &str) -> Connection {
        self.builder(address, contract).open().unwrap()
    }

    /// Both ends of one connection.
    pub fn pair(&self, contract: &str) -> (Connection, Connection) {
        let ends = (
            self.open("a.0.100", contract),
            self.open("b.0.100", contract),
        );
        assert_eq!(ends.0.address().to_string(), "a.0.100");
        ends
    }

    pub fn tell(&self, indication: Indication) {
        self.orders.send(Order::Tell(Box::new(indication))).unwrap();
    }

    pub fn restart_adapter(&self) {
        self.orders.send(Order::Restart).unwrap();
    }

    pub fn forget_next_request(&self) {
        self.orders.send(Order::Forget).unwrap();
    }

    pub fn reopen_before_the_next_confirm(&self) {
        self.orders.send(Order::Reopen).unwrap();
    }

    pub fn hang_up(&self) {
        self.orders.send(Order::HangUp).unwrap();
    }

    pub fn tell_after_changes(&self, indication: Indication) {
        let order = Order::TellAfter(Box::new(indication));
        self.orders.send(order).unwrap();
    }

    pub fn renew_memory(&self, renew: bool) {
        self.orders.send(Order::Renew(renew)).unwrap();
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        let (ended, _) = channel();
        // The thread ends with its orders.
        drop(std::mem::replace(&mut self.orders, ended));
        let served = self.thread.take().map(JoinHandle::join);
        let _ = std::fs::remove_file(&self.path);
        if !std::thread::panicking() {
            served.unwrap().unwrap();
        }
    }
}

struct Client {
    socket: OwnedFd,
    vc: Option<Vc>,
    /// It was told of a new server, and has not said that it has heard so.
    unheard: bool,
}

/// An open connection and what the server keeps of it.
struct Vc {
    /// Of the adapter.
    host: usize,
    open: Open,
    opened: Opened,
    /// Of the file that the client writes.
    capability: u64,
}

struct Server {
    listener: OwnedFd,
    /// Of interfaces `a` and `b`.
    adapters: Vec<(AdapterThread, Control)>,
    clients: Vec<Client>,
    permanent: BTreeMap<Address, Open>,
    forget: bool,
    reopen: bool,
    tell_after: Option<Indication>,
    renew: bool,
    buffer: Vec<u8>,
}

/// Two adapters, back to back.
fn adapters() -> Vec<(AdapterThread, Control)> {
    let port = PortConfig {
        format: CellFormat::NoHec,
        budget: 256,
        discard_unread: false,
        line_rate: CellRate::new(FAKE_LINE).unwrap(),
    };
    let config = Config {
        form: HeaderForm::Nni,
        vcs: 64,
        leaves: 4,
        attachments: 16,
        ports: vec![port],
        gap_max_ns: 30_000_000,
        clump_cells: 1,
        overload_cells: 0,
    };
    let options = AdapterOptions {
        scheduling: SchedulingRequest::modest(),
        port_cells: 16_384,
        ..AdapterOptions::new(config)
    };
    let (a, mut to_a) = AdapterThread::spawn(options.clone()).unwrap();
    let (b, mut to_b) = AdapterThread::spawn(options).unwrap();
    to_a.join(PortIndex(0), &mut to_b, PortIndex(0)).unwrap();
    to_b.join(PortIndex(0), &mut to_a, PortIndex(0)).unwrap();
    vec![(a, to_a), (b, to_b)]
}

impl Server {
    fn new(listener: OwnedFd) -> Self {
        Self {
            listener,
            adapters: adapters(),
            clients: Vec::new(),
            permanent: BTreeMap::new(),
            forget: false,
            reopen: false,
            tell_after: None,
            renew: true,
            buffer: vec![0; MESSAGE_MAX],
        }
    }

    fn run(mut self, orders: &Receiver<Order>) {
        loop {
            let flags = SocketFlags::CLOEXEC;
            if let Ok(socket) = accept_with(&self.listener, flags) {
                self.clients.push(Client {
                    socket,
                    vc: None,
                    unheard: false,
                });
            }
            for i in (0..self.clients.len()).rev() {
                self.serve(i);
            }
            match orders.recv_timeout(Duration::from_micros(300)) {
                Ok(order) => self.obey(order),
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {}
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => break,
            }
        }
        self.end_adapters();
    }

    fn end_adapters(&mut self) {
        for (adapter, control) in self.adapters.drain(..) {
            control.shutdown().unwrap();
            adapter.join().unwrap();
        }
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::Tell(indication) => {
                for client in &mut self.clients {
                    client.unheard |= *indication == Indication::Restarted;
                    tell(client, (*indication).clone(), &[]);
                }
            }
            Order::Restart => self.restart(),
            Order::Forget => self.forget = true,
            Order::Reopen => self.reopen = true,
            Order::Renew(renew) => self.renew = renew,
            Order::TellAfter(indication) => self.tell_after = Some(*indication),
            Order::HangUp => {
                for i in (0..self.clients.len()).rev() {
                    self.leave(i);
                }
            }
        }
    }

    fn restart(&mut self) {
        self.end_adapters();
        self.adapters = adapters();
        for i in 0..self.clients.len() {
            let Some(vc) = self.clients[i].vc.take() else {
                continue;
            };
            let (opened, fds) = self.establish(i, vc.open).unwrap();
            let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
            tell(&self.clients[i], Indication::Reopened(opened), &fds);
        }
    }

    fn serve(&mut self, i: usize) {
        match receive(&self.clients[i].socket, &mut self.buffer, false) {
            Ok(Received::Message(len, fds)) => {
                let message = serde_json::from_slice(&self.buffer[..len]).unwrap();
                if std::mem::take(&mut self.forget) {
                    self.clients[i].unheard = true;
                    tell(&self.clients[i], Indication::Restarted, &[]);
                } else {
                    self.tell_of_former(i, &message);
                    self.handle(i, message, fds);
                }
            }
            Ok(_) => self.leave(i),
            Err(rustix::io::Errno::AGAIN) => {}
            Err(_) => self.leave(i),
        }
    }

    /// As after an adapter that died twice before its server could confirm an Open.
    fn tell_of_former(&mut self, i: usize, message: &FromClient) {
        let FromClient::Request {
            request: Request::Open(open),
            ..
        } = message
        else {
            return;
        };
        if std::mem::take(&mut self.reopen) {
            let (opened, fds) = self.establish(i, open.clone()).unwrap();
            let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
            tell(&self.clients[i], Indication::Reopened(opened), &fds);
            let former = self.clients[i].vc.take().unwrap();
            self.close(&former);
        }
    }

    /// The connection ends with its socket.
    fn leave(&mut self, i: usize) {
        let client = self.clients.remove(i);
        if let Some(vc) = client.vc {
            self.close(&vc);
        }
    }
}

fn tell(client: &Client, indication: Indication, fds: &[BorrowedFd<'_>]) {
    let id = match indication {
        Indication::CanGrow { .. } => 1 << 40,
        Indication::Restarted => RESTARTED,
        _ => 0,
    };
    say(client, &FromServer::Indication { id, indication }, fds);
}

fn say(client: &Client, message: &FromServer, fds: &[BorrowedFd<'_>]) {
    let octets = serde_json::to_vec(message).unwrap();
    // A client that is gone is noticed when it is read from.
    let _ = send(&client.socket, &octets, fds, true);
}
