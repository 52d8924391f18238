use std::collections::{BTreeMap, BTreeSet, VecDeque};

use cellgate_core::Time;
use cellgate_core::server::{
    Address, Confirm, ConnectionInfo, FromClient, FromServer, InterfaceInfo, Open, Refused,
    Request, VERSION,
};

use super::Config;
use crate::events::{Event, Field, Kind};

/// The wait before what was refused is asked for again doubles from the first to the second.
const AGAIN_NS: [u64; 2] = [1_000_000_000, 30_000_000_000];
/// What is asked for again at a time: each refusal is work, and applications wait meanwhile.
const AGAIN_AT_ONCE: usize = 32;
/// From one such time to the next.
const PAUSE_NS: u64 = 10_000_000;
/// What is missing of the configuration begins with this.
pub(super) const MISSING: &str = "missing: ";
/// What is named of all that is missing.
const NAMED_MAX: usize = 3;

/// The server's own application: it asks for what the configuration names, as others would.
///
/// An interface or connection that is refused is asked for again until it is there: the network may
/// come up later than the daemon, and others give back what they have. So is a connection that a
/// new adapter refuses to open again. A change or removal that is refused is not: somebody uses
/// what stays.
pub(super) struct Operator {
    wanted: Config,
    /// What was asked for before; connections and interfaces that others added stay.
    before: Option<Config>,
    queue: VecDeque<Request>,
    waits_for: Option<(u64, Request)>,
    last_id: u64,
    /// Something was refused because there was no adapter.
    missed: bool,
    /// All of the configuration was asked for: only what was refused is asked for again, and what
    /// others have deleted since is not.
    settled: bool,
    /// What was refused otherwise, to be asked for again.
    refused: VecDeque<Request>,
    /// Of this, what is asked for now.
    pass: VecDeque<Request>,
    /// It is looked first what of that is there by now.
    looks_again: bool,
    /// When to ask for it, and the wait before that.
    again: Option<Time>,
    wait_ns: u64,
    /// What is missing of the configuration.
    missing: BTreeMap<String, Missing>,
    /// It is not what was told last.
    missing_changed: bool,
    /// What there is, as far as it is listed.
    interfaces: Vec<InterfaceInfo>,
    connections: Vec<ConnectionInfo>,
}

/// Something that was refused.
struct Missing {
    why: String,
    /// People know since the configuration was read.
    told: bool,
}

impl Operator {
    /// It brings `config` about, once it is let in.
    pub(super) fn new(config: Config) -> Self {
        Self {
            wanted: config,
            before: None,
            queue: VecDeque::new(),
            waits_for: None,
            last_id: 0,
            missed: false,
            settled: false,
            refused: VecDeque::new(),
            pass: VecDeque::new(),
            looks_again: false,
            again: None,
            wait_ns: 0,
            missing: BTreeMap::new(),
            missing_changed: false,
            interfaces: Vec::new(),
            connections: Vec::new(),
        }
    }

    /// It is let in.
    pub(super) fn begin(&mut self) {
        let version = VERSION;
        self.queue = VecDeque::from([Request::Hello { version }, Request::Interfaces]);
    }

    /// Brings another configuration about. What was to be removed and is not yet, is still to be.
    pub(super) fn change(&mut self, config: Config) {
        let mut before = std::mem::replace(&mut self.wanted, config);
        if let Some(older) = self.before.take() {
            before.interfaces.extend(older.interfaces);
            before.connections.extend(older.connections);
        }
        self.before = Some(before);
        for missing in self.missing.values_mut() {
            missing.told = false;
        }
        self.wait_ns = 0;
        self.look();
    }

    /// Asks for what there is, and then for what there is not.
    fn look(&mut self) {
        self.queue = VecDeque::from([Request::Interfaces]);
        self.settled = false;
        self.pass.clear();
        self.looks_again = false;
        self.refused.clear();
        self.again = None;
    }

    /// There is an adapter: what was refused for want of one is asked for once more.
    pub(super) fn finds_adapter(&mut self) {
        self.wait_ns = 0;
        self.again = None;
        if std::mem::take(&mut self.missed) {
            self.look();
        }
    }

    /// A permanent connection of the server's own user is gone, though nobody deleted it: the
    /// adapter has refused to open it again. One that the configuration names is asked for like
    /// any that is refused; that, for people.
    pub(super) fn loses(&mut self, address: &Address, why: &Refused) -> Option<Event> {
        self.connections.retain(|info| info.address != *address);
        let mut connections = self.wanted.connections.iter();
        let open = connections.find(|open| open.address == *address)?;
        let request = Request::Add(open.clone());
        let asked = self.waits_for.iter().map(|(_, request)| request);
        let mut asked = asked
            .chain(&self.queue)
            .chain(&self.pass)
            .chain(&self.refused);
        if asked.any(|asked| *asked == request) {
            return None;
        }
        let said = self.is_refused(request, why.to_string());
        if matches!(why, Refused::LeftOut { .. }) {
            // Asked for again it would kill again; it is, as the configuration is read again.
            self.refused.pop_back();
        }
        said
    }

    /// Whether all is asked, and confirmed or refused.
    pub(super) fn is_done(&self) -> bool {
        self.queue.is_empty() && self.waits_for.is_none() && !self.missed
    }

    /// What is missing of the configuration, or that nothing is, if that was not told yet.
    pub(super) fn news(&mut self) -> Option<String> {
        if !std::mem::take(&mut self.missing_changed) {
            return None;
        }
        if self.missing.is_empty() {
            return Some("all of the configuration is there".to_owned());
        }
        let named = self.missing.iter().take(NAMED_MAX);
        let named: Vec<_> = named
            .map(|(what, of)| format!("{what}: {}", of.why))
            .collect();
        let more = match self.missing.len() - named.len() {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        Some(format!("{MISSING}{}{more}", named.join("; ")))
    }

    /// When there is something to ask for again.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.again
    }

    /// The next thing to ask, once the one before is confirmed.
    pub(super) fn next(&mut self, now: Time) -> Option<FromClient> {
        if self.waits_for.is_some() {
            return None;
        }
        if self.queue.is_empty() && !self.missed {
            self.before = None;
            self.settled = true;
            self.ask_again(now);
        }
        let request = self.queue.pop_front()?;
        self.last_id += 1;
        let id = self.last_id;
        self.waits_for = Some((id, request.clone()));
        Some(FromClient::Request {
            connection: 0,
            id,
            request,
        })
    }

    /// Asks again for some of what was refused, if it is time.
    fn ask_again(&mut self, now: Time) {
        if self.pass.is_empty() && self.refused.is_empty() {
            self.wait_ns = 0;
            return;
        }
        match self.again {
            None => {
                let wait_ns = if self.pass.is_empty() {
                    let [first, last] = AGAIN_NS;
                    self.wait_ns = (self.wait_ns * 2).clamp(first, last);
                    self.wait_ns
                } else {
                    PAUSE_NS
                };
                self.again = Some(now.plus_ns(wait_ns));
            }
            Some(due) if due <= now => {
                self.again = None;
                if self.pass.is_empty() {
                    self.pass = std::mem::take(&mut self.refused);
                    self.looks_again = true;
                    self.queue.push_back(Request::Interfaces);
                    return;
                }
                self.ask_some();
            }
            Some(_) => {}
        }
    }

    fn ask_some(&mut self) {
        let some = self.pass.len().min(AGAIN_AT_ONCE);
        self.queue.extend(self.pass.drain(..some));
    }

    /// Takes a message; what went wrong, or right after all, for people.
    pub(super) fn hear(&mut self, message: FromServer) -> Option<Event> {
        let FromServer::Confirm { id, result, .. } = message else {
            return None;
        };
        let (_, request) = self.waits_for.take_if(|(asked, _)| *asked == id)?;
        match result {
            Ok(Confirm::Interfaces(interfaces)) => {
                self.interfaces = interfaces;
                self.connections.clear();
                self.queue.push_front(Request::List { from: 0 });
            }
            Ok(Confirm::Connections { connections, next }) => {
                self.connections.extend(connections);
                match next {
                    Some(from) => self.queue.push_front(Request::List { from }),
                    None if std::mem::take(&mut self.looks_again) => self.pass_over(),
                    None => self.plan(),
                }
            }
            Ok(_) => {
                let what = what(&request);
                self.missing.remove(&what)?;
                self.missing_changed = true;
                let text = format!("{what}: is there");
                return Some(about(Event::of(Kind::ConfiguredThere, text), &request));
            }
            Err(Refused::AdapterAway) if self.settled => self.refused.push_back(request),
            Err(Refused::AdapterAway) => self.missed = true,
            Err(refused) => return self.is_refused(request, refused.to_string()),
        }
        None
    }

    fn is_refused(&mut self, request: Request, why: String) -> Option<Event> {
        let what = what(&request);
        let said = Event::because(Kind::ConfiguredRefused, &what, Some(&why));
        let said = about(said, &request);
        if !matches!(request, Request::AddInterface(_) | Request::Add(_)) {
            return Some(said);
        }
        self.refused.push_back(request);
        let told = match self.missing.insert(
            what,
            Missing {
                told: true,
                why: why.clone(),
            },
        ) {
            Some(before) => {
                self.missing_changed |= before.why != why;
                before.told
            }
            None => {
                self.missing_changed = true;
                false
            }
        };
        (!told).then_some(said)
    }

    /// Leaves out of what was refused what is there by now: somebody has added it.
    fn pass_over(&mut self) {
        let mut pass = std::mem::take(&mut self.pass);
        pass.retain(|request| {
            let there = match request {
                Request::AddInterface(spec) => {
                    self.interfaces.iter().any(|info| info.spec == *spec)
                }
                Request::Add(open) => self.connection(open).is_some(),
                _ => false,
            };
            self.missing_changed |= there && self.missing.remove(&what(request)).is_some();
            !there
        });
        self.pass = pass;
        self.ask_some();
    }

    /// Asks for the difference between what there is and what there should be.
    fn plan(&mut self) {
        // Another configuration may have come while this was listed.
        self.queue.clear();
        self.refused.clear();
        if let Some(before) = &self.before {
            let names = |config: &Config, address: &Address| {
                let mut connections = config.connections.iter();
                connections.any(|open| open.address == *address)
            };
            for info in self.connections.iter().filter(|info| info.permanent) {
                let address = &info.address;
                if names(before, address) && !names(&self.wanted, address) {
                    let address = address.clone();
                    self.queue.push_back(Request::Delete { address });
                }
            }
            for InterfaceInfo { spec, .. } in &self.interfaces {
                if before.interfaces.contains(spec) && !self.wanted.interfaces.contains(spec) {
                    let name = spec.name.clone();
                    self.queue.push_back(Request::RemoveInterface { name });
                }
            }
        }
        for spec in &self.wanted.interfaces {
            if !self.interfaces.iter().any(|info| info.spec == *spec) {
                self.queue.push_back(Request::AddInterface(spec.clone()));
            }
        }
        for open in &self.wanted.connections {
            match self.connection(open) {
                None => self.queue.push_back(Request::Add(open.clone())),
                Some(info) if info.contract != open.contract => {
                    self.queue.push_back(Request::Set {
                        address: open.address.clone(),
                        contract: open.contract.clone(),
                    });
                }
                Some(_) => {}
            }
        }
        if !self.missing.is_empty() {
            // The rest came by hand, or is not wanted any more.
            let asked: BTreeSet<_> = self.queue.iter().map(what).collect();
            self.missing.retain(|what, _| asked.contains(what));
            self.missing_changed = true;
        }
    }

    /// The permanent connection that there is at the address.
    fn connection(&self, open: &Open) -> Option<&ConnectionInfo> {
        let there = |info: &&ConnectionInfo| info.permanent && info.address == open.address;
        self.connections.iter().find(there)
    }
}

fn what(request: &Request) -> String {
    match request {
        Request::AddInterface(spec) => format!("interface {}", spec.name),
        Request::RemoveInterface { name } => format!("interface {name}: stays"),
        Request::Add(open) => format!("connection {}", open.address),
        Request::Set { address, .. } => format!("connection {address}: stays as it is"),
        Request::Delete { address } => format!("connection {address}: stays"),
        other => format!("{other:?}"),
    }
}

/// An event with the interface or connection that a request is about.
fn about(event: Event, request: &Request) -> Event {
    match request {
        Request::AddInterface(spec) => event.with(Field::Interface, &*spec.name),
        Request::RemoveInterface { name } => event.with(Field::Interface, &**name),
        Request::Add(open) => event.with(Field::Address, open.address.to_string()),
        Request::Set { address, .. } | Request::Delete { address } => {
            event.with(Field::Address, address.to_string())
        }
        _ => event,
    }
}

#[cfg(test)]
mod tests;
