//! The demo in a browser: a visitor sends the flood.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, bail};
use cellgate_core::adapter::{AdapterState, Discard, PortIndex, VcStats};
use cellgate_core::server::{
    AdapterInfo, Address, ConnectionInfo, Idle, InterfaceCounts, InterfaceInfo, InterfaceSpec,
    InterfaceState, Link,
};
use cellgate_host::clock::MonotonicClock;
use cellgate_host::sys::{Heard, Signals};
use cellgate_page::http::{Listener, Options, is_private, serve};
use cellgate_page::{Look, Source, Stats};
use cellgate_report::grouped;
use cellgate_report::output::Exit;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value, json};

use super::text::mbit;
use crate::flood::host::HostReport;
use crate::flood::plan::{AT_CONTRACT, CONTRACTS_BIT_S, Connection, HAZARD, Hazard, SDU};
use crate::flood::plan::{STRANGER_PORT, port_cells};
use crate::flood::sender::{Sent, Steer};
use crate::flood::stage::Stage;
use crate::live::verdict::{Verdict, Voice};
use crate::live::weather::GAP_MAX_NS;

/// From one look to the next.
const LOOK: Duration = Duration::from_millis(250);
/// Octets of the token in the printed address.
const TOKEN_LEN: usize = 16;
/// The slider's right end.
const FLOOD_MOST: u64 = 100;
/// From one place of the slider to the next the rate grows by this, in hundredths: from the
/// contract's 40 to some 5,000 Mbit/s, and then as fast as the sender can.
const STEP_PERCENT: u64 = 105;

/// What a visitor wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    Flood(u64),
    Scan(bool),
    Stop(bool),
}

impl Wish {
    /// Reads it as the page says it.
    fn of(what: &Value) -> Option<Self> {
        let (name, value) = what.as_object()?.iter().next()?;
        match name.as_str() {
            "flood" => value
                .as_u64()
                .filter(|place| *place <= FLOOD_MOST)
                .map(Self::Flood),
            "scan" => value.as_bool().map(Self::Scan),
            "stop" => value.as_bool().map(Self::Stop),
            _ => None,
        }
    }
}

/// What the visitor has wished so far.
#[derive(Clone, Copy, Debug, Default)]
struct Helm {
    /// The place of the slider.
    flood: u64,
    scan: bool,
    stop: bool,
}

impl Helm {
    fn steer(&self) -> Steer {
        Steer {
            hazard: rate_at(self.flood),
            scan: self.scan,
            over: false,
        }
    }
}

/// The hazard's rate at a place of the slider.
fn rate_at(place: u64) -> Hazard {
    if place >= FLOOD_MOST {
        return Hazard::Max;
    }
    let contract = CONTRACTS_BIT_S[HAZARD];
    let rate = (0..place).fold(contract, |rate, _| rate * STEP_PERCENT / 100);
    Hazard::BitS(rate)
}

fn told(rate: Hazard) -> String {
    match rate {
        Hazard::Max => "as fast as it can".to_owned(),
        AT_CONTRACT => "40 Mbit/s, its contract".to_owned(),
        Hazard::BitS(bit_s) => format!("{} Mbit/s", mbit(bit_s)),
    }
}

/// The demo as the page has it.
struct Shown {
    newest: Arc<Mutex<Look>>,
    token: String,
    wishes: Sender<Wish>,
}

impl Source for Shown {
    fn look(&mut self) -> Result<Look, String> {
        Ok(self
            .newest
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone())
    }

    fn try_open(&mut self, _: &str, _: &str) -> Result<Value, String> {
        Err("the demo has no server that admits connections".to_owned())
    }

    fn steer(&mut self, token: &str, what: &Value) -> bool {
        let wish = Wish::of(what).filter(|_| token == self.token);
        wish.is_some_and(|wish| self.wishes.send(wish).is_ok())
    }
}

/// Runs until it is interrupted; then says what became of the two streams.
pub(super) fn run(voice: Voice, address: SocketAddr, idle: Idle) -> anyhow::Result<Exit> {
    if !is_private(&address) {
        bail!("{address}: others reach it, and the page steers the demo; name one of this machine");
    }
    let listener = TcpListener::bind(address).with_context(|| address.to_string())?;
    let address = listener.local_addr()?;
    let signals = Signals::listen()?;
    let mut stage = Stage::new(false, port_cells(false), None, idle)?;
    let mut helm = Helm::default();
    let before = stage.control.enumerate()?;
    let mut steered = stage.steer(helm.steer())?;
    let (wishes, wished) = channel();
    let newest = Arc::new(Mutex::new(Look::default()));
    let token = token()?;
    let shown = Shown {
        newest: Arc::clone(&newest),
        token: token.clone(),
        wishes,
    };
    *newest.lock().unwrap_or_else(PoisonError::into_inner) = look(&mut stage, &helm)?;
    std::thread::spawn(move || serve(Listener::Tcp(listener), Box::new(shown), Options::default()));
    voice.say(&format!("adapter {}\n", stage.scheduling()))?;
    voice.say(&format!(
        "open http://{address}/#token={token}\n\
         C1 and C2 send at their contracts; the flood is yours. End with Ctrl-C.\n"
    ))?;
    while !interrupted(&signals) {
        for wish in latest(&wished) {
            match wish {
                Wish::Flood(place) => helm.flood = place,
                Wish::Scan(scan) => helm.scan = scan,
                Wish::Stop(stop) => {
                    helm.stop = stop;
                    stage.read_hazard(!stop)?;
                }
            }
            steered.say(&helm.steer())?;
        }
        let seen = look(&mut stage, &helm)?;
        *newest.lock().unwrap_or_else(PoisonError::into_inner) = seen;
    }
    if helm.stop {
        stage.read_hazard(true)?;
    }
    let (sent, host) = stage.halt(steered, &before)?;
    let after = stage.control.enumerate()?;
    let discarded = after.stats.cells_discarded.total() - before.stats.cells_discarded.total();
    let verdict = judge(&sent, &host, discarded);
    voice.end(&json!({ "verdict": verdict.text() }), &verdict)
}

/// Waits for the next look; whether somebody wants the demo to end.
fn interrupted(signals: &Signals) -> bool {
    let timeout = Timespec::try_from(LOOK).ok();
    // A wait that the kernel refuses is one that it ends.
    let _ = poll(&mut [PollFd::new(signals, PollFlags::IN)], timeout.as_ref());
    signals.heard().iter().any(|heard| *heard != Heard::Child)
}

/// Of each sort of wish the last: a slider has many.
fn latest(wished: &Receiver<Wish>) -> impl Iterator<Item = Wish> + use<> {
    let all = wished.try_iter();
    let sorts: BTreeMap<u8, Wish> = all
        .map(|wish| match wish {
            Wish::Flood(_) => (0, wish),
            Wish::Scan(_) => (1, wish),
            Wish::Stop(_) => (2, wish),
        })
        .collect();
    sorts.into_values()
}

/// A word that nobody can guess: pages from elsewhere steer nothing.
fn token() -> anyhow::Result<String> {
    let mut octets = [0; TOKEN_LEN];
    rustix::rand::getrandom(&mut octets, rustix::rand::GetRandomFlags::empty())?;
    Ok(octets.iter().map(|octet| format!("{octet:02x}")).collect())
}

/// What the page shows of the stage.
fn look(stage: &mut Stage, helm: &Helm) -> anyhow::Result<Look> {
    let state = stage.control.enumerate()?;
    let gaps = stage.control.gaps(false)?;
    let host_cpu_ns = stage.glance()?.cpu_ns;
    let adapter = AdapterInfo {
        seen_ns: Some(state.time.ns()),
        pid: stage.adapter_pid(),
        cpu_ns: stage.adapter_cpu_ns()?,
        gaps: gaps.count,
        gaps_total_ns: gaps.total_ns,
        gap_longest_ns: gaps.max_ns,
        // The connections' buffers are made for so long a one.
        gap_admitted_ns: GAP_MAX_NS,
        ..AdapterInfo::default()
    };
    let connections = stage.connections.iter().map(|one| connection(one, &state));
    let sources = stage.connections.iter();
    let ports = sources.map(|one| (one.port, name_of(one), 0));
    let strange = state.stats.cells_discarded.of(Discard::UnknownVc);
    let stranger = [(STRANGER_PORT, "stranger".to_owned(), strange)];
    Ok(Look {
        time_ns: MonotonicClock.now().ns(),
        stats: Stats {
            server: "the demo".to_owned(),
            pid: std::process::id(),
            notes: stage.scheduling().notes.clone(),
            adapters: vec![adapter],
            resources: Vec::new(),
            interfaces: ports.chain(stranger).map(interface).collect(),
            connections: connections.collect::<anyhow::Result<_>>()?,
        },
        demo: Some(json!({
            "place": helm.flood,
            "flood": told(rate_at(helm.flood)),
            "scan": helm.scan,
            "stop": helm.stop,
            "host_cpu_ns": host_cpu_ns,
        })),
    })
}

fn name_of(connection: &Connection) -> String {
    connection.name().to_lowercase()
}

fn connection(one: &Connection, state: &AdapterState) -> anyhow::Result<ConnectionInfo> {
    let vc = one.address();
    let found = state.vcs.iter().find(|info| info.request.address == vc);
    let address: Address = format!("{}.{}.{}", name_of(one), vc.vpi(), vc.vci()).parse()?;
    let contract = format!(
        "cbr,aal5:tx:none,rx:pcr={},max_sdu={SDU}",
        one.rate().cell_s()
    );
    Ok(ConnectionInfo {
        guaranteed: true,
        uid: rustix::process::geteuid().as_raw(),
        receive: Some(one.rate()),
        stats: found.map_or_else(VcStats::default, |info| info.stats),
        ..ConnectionInfo::new(one.index as u32 + 1, address, contract)
    })
}

fn interface((port, name, unknown_vc): (PortIndex, String, u64)) -> InterfaceInfo {
    let mut counts = InterfaceCounts::default();
    counts.cells.unknown_vc = unknown_vc;
    InterfaceInfo {
        spec: InterfaceSpec {
            link: Link::peer("a sender"),
            name,
            adapter: None,
            form: Default::default(),
            priority: Default::default(),
            line_rate: None,
            line: None,
        },
        port,
        up: true,
        connections: 1,
        dropped_cells: 0,
        state: InterfaceState::Up,
        counts,
    }
}

/// What became of the two streams.
fn judge(sent: &[Sent], host: &HostReport, discarded: u64) -> Verdict {
    let of = |index: usize| {
        let sent = sent.iter().find(|one| one.connection == Some(index));
        (
            sent.map_or(0, |one| one.sent_pdus),
            &host.connections[index],
        )
    };
    let both = [of(0), of(1)];
    let sum = |of: fn(&(u64, &crate::flood::host::ReaderReport)) -> u64| -> u64 {
        both.iter().map(of).sum()
    };
    let (sent, delivered) = (sum(|one| one.0), sum(|one| one.1.delivered));
    let wrong = sum(|one| one.1.corrupt + one.1.repeated);
    let text = format!(
        "two guaranteed connections delivered {} of {} PDUs, {wrong} of them wrong, while {} \
         cells were thrown away on the adapter.",
        grouped(delivered),
        grouped(sent),
        grouped(discarded),
    );
    match delivered == sent && wrong == 0 {
        true => Verdict::Pass(text),
        false => Verdict::Fail(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slider_goes_from_the_contract_to_all_that_there_is() {
        assert_eq!(rate_at(0), AT_CONTRACT);
        assert_eq!(rate_at(100), Hazard::Max);
        let rates = (0..100).map(|place| match rate_at(place) {
            Hazard::BitS(bit_s) => bit_s,
            Hazard::Max => 0,
        });
        assert!(rates.clone().is_sorted());
        assert!(rates.clone().max() > Some(4_000_000_000));
    }

    #[test]
    fn what_is_no_wish_is_none() {
        assert_eq!(Wish::of(&json!({ "flood": 7 })), Some(Wish::Flood(7)));
        assert_eq!(Wish::of(&json!({ "scan": true })), Some(Wish::Scan(true)));
        for bad in [
            json!({ "flood": 101 }),
            json!({ "flood": -1 }),
            json!([1]),
            json!({}),
            json!({ "scan": 1 }),
            json!({ "other": 1 }),
        ] {
            assert_eq!(Wish::of(&bad), None, "{bad}");
        }
    }
}
