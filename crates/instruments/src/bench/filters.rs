//! `cellgate bench filters`: what a datagram that nobody wants costs this host, by who throws it
//! away: nftables, sockets, or an adapter behind a pseudowire.
//!
//! ```text
//! sender's namespace: one socket for each -- a pair of devices -- a namespace for each receiver
//! ```
//!
//! All of it is the work of one CPU: a virtual Ethernet device hands a datagram to the receiver's
//! side in the sender's own call. The time of a call includes sending, which a device that throws
//! everything away measures alone.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process::Command;
use std::rc::Rc;

use anyhow::{Context, ensure};
use cellgate_core::Time;
use cellgate_core::adapter::Discard;
use cellgate_core::contract::CellRate;
use cellgate_core::wire::{CELL_LEN_NO_HEC, VpiVci};
use cellgate_host::link::udp::{UdpLink, UdpReceiver, UdpSender};
use cellgate_host::sys::pin_thread;
use cellgate_report::output::Exit;
use rustix::process::geteuid;

use super::Args;
use super::cpus::Cpus;
use super::measure::{Contestant, take_turns, ticks};
use super::report::Report;
use super::rig::Rig;
use super::site::{finish, ip, within};
use super::train::{Train, user_cell};
use super::udp::options;

/// The port of pseudowires over UDP (RFC 7510).
const PORT: u16 = 6_635;
/// Datagrams that any socket's queue holds.
const AT_ONCE: usize = 40;
/// Cells of a datagram: the least, and what an MTU of 1,500 holds.
const CELLS: [usize; 2] = [1, 28];

/// Ways to throw a datagram away.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    /// A device that throws away all that it is to send (`ifb`): the sender's own work.
    Device,
    /// A rule of nftables at the device (`netdev`, hook `ingress`).
    Ingress,
    /// A rule of nftables before sockets (`inet`, hook `input`).
    Input,
    /// The kernel: nobody has the port.
    Nobody,
    /// The kernel: the socket of the port is full.
    Full,
    /// An adapter that has no such VC, over the `udp` link.
    Adapter,
}

impl By {
    const ALL: [Self; 6] = [
        Self::Device,
        Self::Ingress,
        Self::Input,
        Self::Nobody,
        Self::Full,
        Self::Adapter,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Device => "sending alone",
            Self::Ingress => "nft, at the device",
            Self::Input => "nft, before sockets",
            Self::Nobody => "no socket",
            Self::Full => "a full socket",
            Self::Adapter => "adapter, unknown VC",
        }
    }

    /// The program of nftables.
    const fn rules(self) -> Option<&'static str> {
        match self {
            Self::Ingress => Some(
                "table netdev filter { chain flood { type filter hook ingress device cell0 \
                 priority 0; udp dport 6635 counter drop; }; }",
            ),
            Self::Input => Some(
                "table inet filter { chain flood { type filter hook input priority 0; \
                 udp dport 6635 counter drop; }; }",
            ),
            _ => None,
        }
    }

    fn addresses(self) -> [Ipv4Addr; 2] {
        [1, 2].map(|host| Ipv4Addr::new(10, 166, 100 + self as u8, host))
    }

    fn link(self) -> UdpLink {
        let [local, peer] = self
            .addresses()
            .map(|address| SocketAddr::from((address, PORT)));
        UdpLink {
            source_port: PORT,
            ..options(local, peer)
        }
    }
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    ensure!(
        geteuid().is_root(),
        "network namespaces need root: run it by sudo"
    );
    let mut report = Report::new("filters", args.quick);
    let (datagrams, repeats) = if args.quick { (2_000, 3) } else { (20_000, 21) };
    let has_nft = Command::new("nft").arg("--version").output().is_ok();
    if !has_nft {
        report.note("nftables is left out: there is no nft");
    }
    let all = By::ALL.into_iter();
    let all: Vec<_> = all.filter(|by| has_nft || by.rules().is_none()).collect();
    pin_thread(Cpus::allowed()?.first)?;
    for cells in CELLS {
        let ground = Ground::new(&all)?;
        let contestants = all
            .iter()
            .map(|by| ground.contestant(*by, cells, datagrams));
        let contestants = contestants.collect::<anyhow::Result<Vec<_>>>()?;
        let times = take_turns(contestants, repeats, &mut report.calibrations);
        for by in &all {
            ground.ensure_thrown_away(*by, datagrams * repeats)?;
        }
        let (alone, others) = times.split_first().context("sending alone comes first")?;
        for times in others {
            let ns = times.less(alone).times(report.ns_per_tick());
            let columns = [
                ("ns a datagram", ns.median),
                ("least", ns.min),
                ("most", ns.max),
            ];
            report.row(&times.name, &columns);
        }
    }
    report.note(
        "each less than the sender's own work (spreads: repeat by repeat), on one CPU, which does \
         all of it: the adapter's work, too, which otherwise has a CPU of its own",
    );
    report.finish(args.json)
}

/// The namespaces, which end with it.
struct Ground(Vec<String>);

impl Ground {
    fn new(all: &[By]) -> anyhow::Result<Self> {
        let sender = format!("cg-filters-{}", std::process::id());
        let mut ground = Self(Vec::new());
        ground.namespace(sender.clone())?;
        for by in all {
            let [from, to] = by.addresses().map(|address| format!("{address}/24"));
            let device = format!("cell{}", *by as u8);
            if *by == By::Device {
                ip(&["-n", &sender, "link", "add", &device, "type", "ifb"])?;
            } else {
                let receiver = format!("{sender}-{}", *by as u8);
                ground.namespace(receiver.clone())?;
                let add = ["-n", &sender, "link", "add", &device, "type", "veth"];
                ip(&[&add[..], &["peer", "name", "cell0", "netns", &receiver]].concat())?;
                ip(&["-n", &receiver, "address", "add", &to, "dev", "cell0"])?;
                ip(&["-n", &receiver, "link", "set", "cell0", "up"])?;
                if let Some(rules) = by.rules() {
                    finish(Command::new("ip").args(["netns", "exec", &receiver, "nft", rules]))?;
                }
            }
            ip(&["-n", &sender, "address", "add", &from, "dev", &device])?;
            ip(&["-n", &sender, "link", "set", &device, "up"])?;
        }
        Ok(ground)
    }

    fn namespace(&mut self, name: String) -> anyhow::Result<()> {
        ip(&["netns", "add", &name])?;
        self.0.push(name);
        Ok(())
    }

    /// Of the sender, or of a receiver.
    fn name(&self, receiver: Option<By>) -> String {
        match receiver {
            None => self.0[0].clone(),
            Some(by) => format!("{}-{}", self.0[0], by as u8),
        }
    }

    fn contestant(
        &self,
        by: By,
        cells: usize,
        datagrams: usize,
    ) -> anyhow::Result<Contestant<'static>> {
        let link = by.link();
        let mut sender = within(self.name(None), move || Ok(UdpSender::open(&link)?))?;
        let name = match cells {
            1 => format!("{}, a cell each", by.name()),
            _ => format!("{}, {cells} cells each", by.name()),
        };
        let train = Rc::new(Train::of_headers(
            (0..AT_ONCE * cells).map(|_| user_cell(VpiVci::from_bits(1 << 20), false, false)),
        ));
        let mut taker = match by {
            By::Adapter => Some(Taker::new(self.name(Some(by)), Rc::clone(&train))?),
            _ => None,
        };
        // It fills in the first pass, which does not count.
        let full = match by {
            By::Full => Some(within(self.name(Some(by)), move || {
                Ok(UdpSocket::bind((Ipv4Addr::UNSPECIFIED, PORT))?)
            })?),
            _ => None,
        };
        let rounds = datagrams / AT_ONCE;
        Ok(Contestant::new(name, rounds * AT_ONCE, move || {
            let _open = &full;
            let mut spent = 0;
            for _ in 0..rounds {
                let from = ticks();
                for cells in train.octets().chunks(cells * CELL_LEN_NO_HEC) {
                    sender.send(cells);
                    sender.flush();
                }
                spent += ticks() - from;
                spent += taker.as_mut().map_or(0, Taker::take);
            }
            spent
        }))
    }

    /// Fails unless nearly all were thrown away where they were to be.
    fn ensure_thrown_away(&self, by: By, sent: usize) -> anyhow::Result<()> {
        let inside = |words: &[&str]| {
            let mut command = Command::new("ip");
            command
                .args(["netns", "exec", &self.name(Some(by))])
                .args(words);
            let output = command.output().context("ip")?;
            anyhow::Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        };
        let counted = match by {
            // The device has counted them as sent; the adapter is asked after each pass.
            By::Device | By::Adapter => return Ok(()),
            By::Ingress | By::Input => {
                let listed = inside(&["nft", "list", "ruleset"])?;
                let mut words = listed
                    .split_whitespace()
                    .skip_while(|word| *word != "packets");
                words.nth(1).and_then(|count| count.parse().ok())
            }
            By::Nobody => udp_count(&inside(&["cat", "/proc/net/snmp"])?, "NoPorts"),
            By::Full => udp_count(&inside(&["cat", "/proc/net/snmp"])?, "RcvbufErrors"),
        };
        let counted: usize = counted.with_context(|| format!("{}: no count", by.name()))?;
        ensure!(
            counted * 10 >= sent * 9,
            "{}: {counted} of {sent}",
            by.name()
        );
        Ok(())
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        for name in &self.0 {
            let _ = ip(&["netns", "delete", name]);
        }
    }
}

/// A count of UDP by the kernel's name for it.
fn udp_count(snmp: &str, name: &str) -> Option<usize> {
    let mut lines = snmp.lines().filter(|line| line.starts_with("Udp:"));
    let names = lines.next()?.split_whitespace();
    let at = names.into_iter().position(|one| one == name)?;
    lines.next()?.split_whitespace().nth(at)?.parse().ok()
}

/// The `udp` link, and an adapter that knows none of its cells.
struct Taker {
    receiver: UdpReceiver,
    rig: Rig,
    fifo: Vec<u8>,
    now: Time,
}

impl Taker {
    fn new(namespace: String, train: Rc<Train>) -> anyhow::Result<Self> {
        let mut link = By::Adapter.link();
        std::mem::swap(&mut link.local, &mut link.peer);
        Ok(Self {
            receiver: within(namespace, move || Ok(UdpReceiver::open(&link)?))?,
            fifo: vec![0; train.octets().len()],
            rig: Rig::new(1, CellRate::OC3, train)?,
            now: Time::ZERO,
        })
    }

    /// Takes what was sent, and has the adapter throw as many cells away: the ticks of both.
    fn take(&mut self) -> u64 {
        let (cells, from) = (self.rig.cells(), ticks());
        let mut taken = 0;
        // Nothing is on its way: two looks find all.
        for _ in 0..2 {
            self.now = self.now.plus_ns(UdpReceiver::LOOK_EVERY_NS);
            self.receiver.poll(self.now);
            taken += self.receiver.take(&mut self.fifo);
        }
        let ticks = ticks() - from + self.rig.pass();
        assert_eq!(taken, cells, "datagrams are missing");
        let stats = self.rig.stats();
        assert_eq!(
            stats.cells_discarded.of(Discard::UnknownVc),
            stats.cells_received
        );
        ticks
    }
}
