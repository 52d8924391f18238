//! How a host's server is judged: the oracle is shown what can be seen of it.

use cellgate_core::adapter::PortIndex;
use cellgate_core::server::{AdapterIndex, Address, Request};

use super::daemon::{Books, Parcel, Serving, to_server};
use super::setup::address_at;
use super::{ServerBug, ServerOutcome};
use crate::world::Ps;
use crate::world::host::Host;
use crate::world::net::Net;
use crate::world::oracle::{Audit, User, View, Wrong};

impl Host {
    /// What can be seen of its server from outside, if it has one.
    fn view(&self, now: Ps) -> Option<View<'_>> {
        let served = self.served.as_deref()?;
        let users = self.applications.iter().enumerate().map(|(n, one)| User {
            name: &one.spec.name,
            address: address_at(one.port, one.address),
            held: one.held.as_ref().map(|held| (held.vc, held.in_use)),
            is_holder: self.holders.get(&one.connection) == Some(&n),
            mapped: one.mapped.map(|(life, _)| life),
            is_connected: one.client.is_some(),
            is_closing: one.program.is_closing(),
            share: one.share,
            asks: one.asked.as_ref().filter(|asked| asked.id.is_some()),
        });
        Some(View {
            now: self.time(now),
            spec: &served.spec,
            interfaces: &served.interfaces,
            lines: self
                .rates()
                .iter()
                .map(|rate| rate.cell_s().into())
                .collect(),
            server: served.server.as_ref(),
            vcs: &served.process.vcs,
            attachments: served.process.attachments.len(),
            adapter_life: served.adapter_life,
            is_adapter_known: served.is_adapter_up && served.known_adapter == served.adapter_life,
            is_quiet: served.asked.is_empty() && served.process.waiting() == 0,
            memory_limit: served.memory.least(),
            was_memory_limited: served.memory.are_some(),
            killers: served.killers.addresses().collect(),
            sockets: &served.clients,
            users: users.collect(),
        })
    }

    /// The oracle looks at its server, if it has one.
    pub(super) fn is_judged<T: Default>(
        &self,
        net: &mut Net,
        judge: impl FnOnce(&mut Audit, &View<'_>) -> Result<T, Wrong>,
    ) -> T {
        let Some(view) = self.view(net.now) else {
            return T::default();
        };
        match judge(net.log.audit(self.number), &view) {
            Ok(found) => found,
            Err((invariant, text)) => {
                self.breaks(invariant, &text, net);
                T::default()
            }
        }
    }

    pub(super) fn breaks(&self, invariant: &str, text: &str, net: &mut Net) {
        let name = &self.spec.name;
        net.violate(invariant, format!("server of {name}: {text}"));
    }

    /// The books of its server.
    pub(super) fn books(&self) -> Option<Books> {
        let server = self.served.as_ref()?.server.as_ref()?;
        Some(server.promised())
    }

    /// When nothing is under way the oracle compares its books with what the adapter has.
    pub(super) fn is_audited(&self, net: &mut Net) {
        let Some(served) = &self.served else {
            return;
        };
        let is_reopening = |server: &Serving| server.is_reopening();
        let is_busy = served.server.as_ref().is_none_or(is_reopening)
            || !served.is_adapter_up
            || served.process.waiting() > 0
            || served.under_way() > 0;
        if !is_busy {
            net.log.seen.has(&served.process);
            self.is_judged(net, |audit, seen| audit.is_at_rest(seen));
        }
    }

    /// Nothing happens any more and everything is open still: its server is judged.
    pub(crate) fn server_is_over(&self, net: &mut Net) {
        self.is_audited(net);
        self.is_judged(net, |_, seen| seen.is_right());
        let served = self.served.as_ref();
        if let Some(text) = served.and_then(|served| served.places.left_wrong()) {
            self.breaks("I19", text, net);
        }
    }

    /// Applications go, one way or the other, and what is permanent is deleted.
    pub(crate) fn applications_end(&mut self, net: &mut Net) {
        for n in 0..self.applications.len() {
            self.applications[n].later.clear();
            let Some(client) = self.applications[n].client else {
                continue;
            };
            let has_one = self.applications[n].held.is_some();
            self.stops_using(n, net);
            self.lets_go(n, net);
            if has_one && self.applications[n].number.is_multiple_of(2) {
                self.request(n, Request::Close, None, net);
            } else {
                self.applications[n].forgets();
                self.post(to_server(client), Parcel::HangUp, net);
            }
        }
        let served = self.served.as_ref();
        let server = served.and_then(|served| served.server.as_ref());
        let all = server.into_iter().flat_map(|server| server.connections());
        let permanent = all.filter(|info| info.permanent);
        let permanent: Vec<Address> = permanent.map(|info| info.address).collect();
        for address in permanent {
            self.operator_asks(Request::Delete { address }, net);
        }
    }

    /// All is closed: its server is judged.
    pub(crate) fn server_has_ended(&self, net: &mut Net) {
        let Some(served) = &self.served else {
            return;
        };
        let (config, uid) = (served.config.admission.clone(), served.config.uid);
        let bug = self.options.server_bug.and_then(ServerBug::inside);
        let mut empty = Books::with_bugs(config, uid, bug);
        for (port, one) in served.interfaces.iter().enumerate() {
            let rate = one.line_rate.map_or(0, |rate| rate.cell_s());
            empty.add_line(AdapterIndex::FIRST.on(PortIndex(port as u8)), rate);
        }
        self.is_judged(net, |_, seen| seen.is_left_clean(&empty));
    }

    /// Its server in numbers, if it has one.
    pub(crate) fn server_outcome(&self, audit: &Audit) -> Option<ServerOutcome> {
        let mut counts = self.served.as_ref()?.counts;
        for one in &self.applications {
            counts.requests += one.counts.requests;
            counts.confirmed += one.counts.confirmed;
            counts.refused += one.counts.refused;
            counts.suspended += one.counts.suspended;
        }
        (counts.offered, counts.audits) = (audit.offers, audit.audits);
        Some(counts)
    }
}
