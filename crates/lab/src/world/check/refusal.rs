//! What is wrong with a scenario, and where.

use std::collections::BTreeMap;
use std::fmt;

use crate::world::fault::Whom;
use crate::world::scenario::Scenario;

/// Where a mistake is: in a scenario's own keys, or in an entry of one of its lists. In its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum At {
    Whole,
    Host(usize),
    Switch(usize),
    Link(usize),
    Connection(usize),
    Source(usize),
    Stream(usize),
    Fault(usize),
    Server(usize),
    Application(usize),
    Transfer(usize),
    Ring(usize),
    Station(usize),
    Association(usize),
    Traffic(usize),
    Bridge(usize),
}

impl At {
    /// As a user reads it: by its name, or by its number, from 0.
    fn told(self, scenario: &Scenario) -> String {
        match self {
            Self::Whole => "the scenario".into(),
            Self::Host(n) => format!("host {:?}", scenario.hosts[n].name),
            Self::Switch(n) => format!("switch {:?}", scenario.switches[n].name),
            Self::Link(n) => format!("link {n} ({})", scenario.links[n].ends.join(" - ")),
            Self::Connection(n) => format!("connection {:?}", scenario.connections[n].name),
            Self::Source(n) => {
                let connection = &scenario.sources[n].connection;
                format!("source {n} of connection {connection:?}")
            }
            Self::Stream(n) => {
                let connection = &scenario.streams[n].connection;
                format!("stream {n} of connection {connection:?}")
            }
            Self::Fault(n) => match scenario.faults[n].whom() {
                Whom::Link(link) => format!("fault {n} on link {link}"),
                Whom::Host(host) => format!("fault {n} at host {host:?}"),
                Whom::Connection(name) => format!("fault {n} at connection {name:?}"),
                Whom::Ring(name) => format!("fault {n} on ring {name:?}"),
                Whom::Station(name) => format!("fault {n} at station {name:?}"),
            },
            Self::Server(n) => format!("server of host {:?}", scenario.servers[n].host),
            Self::Application(n) => format!("application {:?}", scenario.applications[n].name),
            Self::Transfer(n) => format!("transfer {n} to {:?}", scenario.transfers[n].to),
            Self::Ring(n) => format!("ring {:?}", scenario.rings[n].name),
            Self::Station(n) => format!("station {:?}", scenario.stations[n].name),
            Self::Association(n) => format!("association {:?}", scenario.associations[n].name),
            Self::Traffic(n) => format!("traffic {n} on {:?}", scenario.traffic[n].on),
            Self::Bridge(n) => format!("bridge {n} from {:?}", scenario.bridges[n].from),
        }
    }

    /// Where that stands in a file: the list, and the entry's number.
    fn key(self) -> Option<(&'static str, usize)> {
        Some(match self {
            Self::Whole => return None,
            Self::Host(n) => ("hosts", n),
            Self::Switch(n) => ("switches", n),
            Self::Link(n) => ("links", n),
            Self::Connection(n) => ("connections", n),
            Self::Source(n) => ("sources", n),
            Self::Stream(n) => ("streams", n),
            Self::Fault(n) => ("faults", n),
            Self::Server(n) => ("servers", n),
            Self::Application(n) => ("applications", n),
            Self::Transfer(n) => ("transfers", n),
            Self::Ring(n) => ("rings", n),
            Self::Station(n) => ("stations", n),
            Self::Association(n) => ("associations", n),
            Self::Traffic(n) => ("traffic", n),
            Self::Bridge(n) => ("bridges", n),
        })
    }
}

/// A mistake in a scenario: where it is, and what is due there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    key: Option<(&'static str, usize)>,
    name: Option<String>,
    whose: String,
    what: String,
}

impl Refusal {
    /// The list of the scenario and the number of the entry that has it; none: a key of its own.
    pub fn key(&self) -> Option<(&'static str, usize)> {
        self.key
    }

    /// The name in that entry that is wrong, if it is one.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.whose, self.what)
    }
}

/// All that is wrong with a scenario, in its order; a line each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusals(Vec<Refusal>);

impl Refusals {
    pub fn iter(&self) -> std::slice::Iter<'_, Refusal> {
        self.0.iter()
    }
}

impl fmt::Display for Refusals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.iter().map(Refusal::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for Refusals {}

/// What was found so far: what is due, and the name that is wrong, if it is one.
#[derive(Debug)]
pub(super) struct Found<'a> {
    scenario: &'a Scenario,
    all: BTreeMap<At, Vec<(String, Option<String>)>>,
}

impl<'a> Found<'a> {
    pub(super) fn nothing(scenario: &'a Scenario) -> Self {
        let all = BTreeMap::new();
        Self { scenario, all }
    }

    /// `what` is due there.
    pub(super) fn wrong(&mut self, at: At, what: impl fmt::Display) {
        self.add(at, (what.to_string(), None));
    }

    /// The same, unless it is so.
    pub(super) fn due(&mut self, at: At, is_so: bool, what: &str) {
        if !is_so {
            self.wrong(at, what);
        }
    }

    /// The number that a name has, if it has one.
    pub(super) fn known<T>(&mut self, at: At, name: &str, number: Option<T>) -> Option<T> {
        if number.is_none() {
            let what = format!("nothing has the name {name:?}");
            self.add(at, (what, Some(name.into())));
        }
        number
    }

    /// A name has another number, too.
    pub(super) fn twice(&mut self, at: At, name: &str) {
        let what = format!("two of the name {name:?}");
        self.add(at, (what, Some(name.into())));
    }

    fn add(&mut self, at: At, wrong: (String, Option<String>)) {
        let here = self.all.entry(at).or_default();
        if !here.contains(&wrong) {
            here.push(wrong);
        }
    }

    /// Whether nothing is wrong there so far.
    pub(super) fn is_right(&self, at: At) -> bool {
        !self.all.contains_key(&at)
    }

    /// `Err` if there is anything.
    pub(super) fn told(&self) -> Result<(), Refusals> {
        let refusals = self.all.iter().flat_map(|(at, all)| {
            all.iter().map(|(what, name)| Refusal {
                key: at.key(),
                name: name.clone(),
                whose: at.told(self.scenario),
                what: what.clone(),
            })
        });
        match self.all.is_empty() {
            true => Ok(()),
            false => Err(Refusals(refusals.collect())),
        }
    }
}
