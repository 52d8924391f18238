use std::collections::VecDeque;

use cellgate_core::server::{
    Address, Confirm, ConnectionInfo, FromClient, FromServer, InterfaceInfo, Open, Refused,
    Request, VERSION,
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

    /// Brings another configuration about. What was to be removed and is not yet, is still to be.
    pub(super) fn change(&mut self, config: Config) {
        let done = self.is_done();
        let mut before = std::mem::replace(&mut self.wanted, config);
        if let Some(older) = self.before.take_if(|_| !done) {
            before.interfaces.extend(older.interfaces);
            before.connections.extend(older.connections);
        }
        self.before = Some(before);
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
        // Another configuration may have come while this was listed.
        self.queue.clear();
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
    use cellgate_core::adapter::PortIndex;
    use cellgate_core::server::InterfaceSpec;

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
            let none = Confirm::Interfaces(Vec::new());
            ends(&mut operator, &Request::Interfaces, Ok(none));
            lists_connections(&mut operator);
            ends(&mut operator, &add, result);
            assert_eq!(operator.is_done(), done);
            assert!(operator.next().is_none());
            operator.finds_adapter();
        }
        assert!(operator.next().is_none());
    }

    /// Loops of these names; those of `slow` are slower.
    fn loops(names: &[&str], slow: &[&str]) -> Config {
        let one = |name: &&str| {
            let rate = match slow.contains(name) {
                true => "line_rate.cell_s = 1000\n",
                false => "",
            };
            format!("[[interface]]\nname = {name:?}\n{rate}link.memory.peer = {name:?}\n")
        };
        Config::parse(&names.iter().map(one).collect::<String>()).expect("a configuration")
    }

    /// These interfaces.
    fn interfaces(there: &Config) -> Confirm {
        let info = |spec: &InterfaceSpec| InterfaceInfo {
            spec: spec.clone(),
            port: PortIndex(0),
            up: true,
            connections: 0,
            dropped_cells: 0,
        };
        Confirm::Interfaces(there.interfaces.iter().map(info).collect())
    }

    /// The operator is told that there are these, and no connection.
    fn lists(operator: &mut Operator, there: &Config) {
        ends(operator, &Request::Interfaces, Ok(interfaces(there)));
        lists_connections(operator);
    }

    fn lists_connections(operator: &mut Operator) {
        let connections = Confirm::Connections {
            connections: Vec::new(),
            next: None,
        };
        ends(operator, &Request::List { from: 0 }, Ok(connections));
    }

    #[test]
    fn what_an_earlier_change_was_to_remove_a_later_one_removes() {
        let first = loops(&["a", "b", "c"], &[]);
        let remove = |name: &str| Request::RemoveInterface {
            name: name.to_owned(),
        };
        for listed in [false, true] {
            let mut operator = Operator::new(first.clone());
            operator.change(loops(&["a", "b"], &[]));
            if listed {
                lists(&mut operator, &first);
            }
            operator.change(loops(&["a"], &[]));
            lists(&mut operator, &first);
            for name in ["b", "c"] {
                ends(&mut operator, &remove(name), Ok(Confirm::Done));
            }
            assert!(operator.is_done(), "{listed}");
        }
    }

    #[test]
    fn what_is_changed_and_changed_back_stays() {
        let (usual, slow) = (loops(&["a"], &[]), loops(&["a"], &["a"]));
        let mut operator = Operator::new(usual.clone());
        operator.change(slow.clone());
        operator.change(usual.clone());
        lists(&mut operator, &usual);
        assert!(operator.is_done());
        // A change that comes while a list is under way.
        operator.change(slow.clone());
        let Some(FromClient::Request { id, .. }) = operator.next() else {
            panic!("the interfaces are asked for");
        };
        operator.change(usual.clone());
        let result = Ok(interfaces(&slow));
        operator.hear(FromServer::Confirm { id, result });
        lists_connections(&mut operator);
        let name = "a".to_owned();
        let remove = Request::RemoveInterface { name };
        ends(&mut operator, &remove, Ok(Confirm::Done));
        let add = Request::AddInterface(usual.interfaces[0].clone());
        ends(&mut operator, &add, Ok(Confirm::Done));
        assert!(operator.is_done());
    }
}
