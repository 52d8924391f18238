use std::collections::VecDeque;

use cellgate_core::server::{
    Confirm, ConnectionInfo, FromClient, FromServer, InterfaceInfo, Open, Refused, Request, VERSION,
};

use super::Config;

/// The server's own application: it asks for what the configuration names, as others would.
pub(super) struct Operator {
    wanted: Config,
    /// What was asked for before; connections and interfaces that others added stay.
    before: Option<Config>,
    queue: VecDeque<Request>,
    waits_for: Option<(u64, Request)>,
    last_id: u64,
    /// Something was refused because there was no adapter.
    missed: bool,
    /// What there is, as far as it is listed.
    interfaces: Vec<InterfaceInfo>,
    connections: Vec<ConnectionInfo>,
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
            interfaces: Vec::new(),
            connections: Vec::new(),
        }
    }

    /// It is let in.
    pub(super) fn begin(&mut self) {
        let version = VERSION;
        self.queue = VecDeque::from([Request::Hello { version }, Request::Interfaces]);
    }

    /// Brings another configuration about.
    pub(super) fn change(&mut self, config: Config) {
        self.before = Some(std::mem::replace(&mut self.wanted, config));
        self.queue = VecDeque::from([Request::Interfaces]);
    }

    /// There is an adapter: what was refused for want of one is asked for once more.
    pub(super) fn finds_adapter(&mut self) {
        if std::mem::take(&mut self.missed) {
            self.queue = VecDeque::from([Request::Interfaces]);
        }
    }

    /// Whether all is asked and confirmed.
    pub(super) fn is_done(&self) -> bool {
        self.queue.is_empty() && self.waits_for.is_none() && !self.missed
    }

    /// The next thing to ask, once the one before is confirmed.
    pub(super) fn next(&mut self) -> Option<FromClient> {
        if self.waits_for.is_some() {
            return None;
        }
        let request = self.queue.pop_front()?;
        self.last_id += 1;
        let id = self.last_id;
        self.waits_for = Some((id, request.clone()));
        Some(FromClient::Request { id, request })
    }

    /// Takes a message; what went wrong, for people.
    pub(super) fn hear(&mut self, message: FromServer) -> Option<String> {
        let FromServer::Confirm { id, result } = message else {
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
                    None => self.plan(),
                }
            }
            Ok(_) => {}
            Err(Refused::AdapterAway) => self.missed = true,
            Err(refused) => return Some(format!("{}: {refused}", what(&request))),
        }
        None
    }

    /// Asks for the difference between what there is and what there should be.
    fn plan(&mut self) {
        let kept = |open: &Open| {
            self.wanted
                .connections
                .iter()
                .any(|o| o.address == open.address)
        };
        let before = self.before.iter();
        for open in before.clone().flat_map(|before| &before.connections) {
            if !kept(open) && self.connection(open).is_some() {
                let address = open.address.clone();
                self.queue.push_back(Request::Delete { address });
            }
        }
        for spec in before.flat_map(|before| &before.interfaces) {
            let there = self
                .interfaces
                .iter()
                .any(|info| info.spec.name == spec.name);
            if there && !self.wanted.interfaces.contains(spec) {
                let name = spec.name.clone();
                self.queue.push_back(Request::RemoveInterface { name });
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Ends what the operator asks next, which is `wanted`.
    fn ends(operator: &mut Operator, wanted: &Request, result: Result<Confirm, Refused>) {
        let Some(FromClient::Request { id, request }) = operator.next() else {
            panic!("{wanted:?} is not asked");
        };
        assert_eq!(request, *wanted);
        assert_eq!(operator.hear(FromServer::Confirm { id, result }), None);
    }

    #[test]
    fn what_an_adapter_died_over_is_asked_of_the_next() {
        let text = "[[interface]]\nname = \"a\"\nlink.memory.peer = \"a\"\n";
        let config = Config::parse(text).expect("a configuration");
        let add = Request::AddInterface(config.interfaces[0].clone());
        let mut operator = Operator::new(config);
        operator.begin();
        let version = VERSION;
        ends(
            &mut operator,
            &Request::Hello { version },
            Ok(Confirm::Done),
        );
        for (result, done) in [
            (Err(Refused::AdapterAway), false),
            (Ok(Confirm::Done), true),
        ] {
            let interfaces = Confirm::Interfaces(Vec::new());
            ends(&mut operator, &Request::Interfaces, Ok(interfaces));
            let connections = Confirm::Connections {
                connections: Vec::new(),
                next: None,
            };
            ends(&mut operator, &Request::List { from: 0 }, Ok(connections));
            ends(&mut operator, &add, result);
            assert_eq!(operator.is_done(), done);
            assert!(operator.next().is_none());
            operator.finds_adapter();
        }
        assert!(operator.next().is_none());
    }
}
