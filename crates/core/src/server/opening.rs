//! Opening a connection: whether the books have room for it, which asks nobody and changes nothing,
//! and then the connection itself.

use std::collections::BTreeSet;

use super::awaiting::Lacking;
use super::connection::{Asker, Connection, User};
use super::interfaces::Found;
use super::machine::Server;
use super::plan::{Plan, Share};
use super::requests::Outcome;
use super::{
    Address, Bugs, ClientId, Confirm, Direction, OWN_VCI_MIN, On, Open, Peer, Planted, Precedence,
    Refused, Request, Tried, divide,
};
use crate::adapter::{Config, PortIndex, VcId};
use crate::contract::TrafficContract;
use crate::wire::VpiVci;

/// A connection that the server would promise.
struct Judged {
    at: Found,
    peer: Peer,
    worker: bool,
    /// With the interface's name, and the contract in canonical form.
    open: Open,
    /// The connection in whose transmit buffer its PDUs are put together.
    into: Option<u32>,
    plan: Plan,
    number: u32,
    /// Whether there is room for it at once; if not, it waits for what is on its way back.
    room: Result<(), Refused>,
}

/// Why a request opens nothing.
enum Unopened {
    Refused(Refused),
    /// There is not enough for this contract.
    Short(Refused, Box<(Address, TrafficContract)>),
    /// This very request has added it before.
    Added {
        contract: String,
    },
}

impl<E: Into<Refused>> From<E> for Unopened {
    fn from(refused: E) -> Self {
        Self::Refused(refused.into())
    }
}

impl<B: Bugs> Server<B> {
    /// What comes of an Open or Add by the books alone.
    fn judge(
        &self,
        asker: Asker,
        open: Open,
        permanent: bool,
        capability: Option<On<VcId>>,
    ) -> Result<Judged, Unopened> {
        let client = self.clients.get(&asker.client).ok_or(Refused::NotFound)?;
        let (peer, worker) = (client.peer, client.worker);
        if !permanent {
            self.check_socket(asker.client)?;
        }
        let at = self.find_interface(&open.address)?;
        let (port, vc) = (at.port, at.address.vc);
        if self.is_away(port.adapter) {
            return Err(Refused::AdapterAway.into());
        }
        self.check_reserved(asker.client, peer.uid, &at.address)?;
        let contract: TrafficContract = open.contract.parse()?;
        let open = Open {
            address: at.address.clone(),
            contract: contract.to_string(),
            ..open
        };
        let (open, into) = self.chained(peer.uid, port, open, permanent, capability)?;
        let circumstances = self.circumstances(&open, port, worker);
        let plan = circumstances.plan(&contract)?;
        let ignored = self.bugs.planted(Planted::AddressNotLooked);
        let there = self.addresses.get(&(port, vc)).copied();
        let there = there.filter(|_| !ignored);
        let closing = there.is_some_and(|number| self.is_closing(number));
        if let (Some(number), false) = (there, closing) {
            let contract = open.contract;
            return Err(match permanent && self.is_added_by(number, asker, peer) {
                true => Unopened::Added { contract },
                false => Refused::AddressInUse.into(),
            });
        }
        if self.is_awaited(port, vc) && !ignored {
            return Err(Refused::AddressInUse.into());
        }
        self.check_block(peer.uid, port, vc, Connection::is_wanted)?;
        let number = self.last_number.checked_add(1).ok_or(Refused::TooMany)?;
        let promised = self.promised();
        if let Err(mut shortage) = promised.check(peer.uid, port, &plan.demand) {
            if self.bugs.planted(Planted::ReturningUntold)
                && let Err(taken) = self.admission.check(peer.uid, port, &plan.demand)
            {
                shortage = taken;
            }
            let fits = |plan: Plan| promised.check(peer.uid, port, &plan.demand).is_ok();
            let refused = circumstances
                .offers(&contract, &shortage, fits)
                .refuse(shortage);
            return Err(Unopened::Short(refused, Box::new((at.address, contract))));
        }
        let room = match closing {
            true => Err(Refused::AddressInUse),
            false => self
                .check_block(peer.uid, port, vc, |_| true)
                .and_then(|()| Ok(self.admission.check(peer.uid, port, &plan.demand)?)),
        };
        Ok(Judged {
            at,
            peer,
            worker,
            open,
            into,
            plan,
            number,
            room,
        })
    }

    pub(super) fn open(
        &mut self,
        asker: Asker,
        open: Open,
        permanent: bool,
        capability: Option<On<VcId>>,
    ) -> Outcome {
        let judged = match self.judge(asker, open, permanent, capability) {
            Ok(judged) => judged,
            Err(Unopened::Refused(refused)) => return Err(refused),
            Err(Unopened::Added { contract }) => return Ok(Some(Confirm::Added { contract })),
            Err(Unopened::Short(refused, wanted)) => {
                if let (Some(client), false) = (self.clients.get_mut(&asker.client), permanent) {
                    client.wanted = Some(*wanted);
                }
                return Err(refused);
            }
        };
        let Found { address, port } = judged.at;
        let (open, plan, uid) = (judged.open, judged.plan, judged.peer.uid);
        if let Err(refused) = judged.room {
            let request = match permanent {
                true => Request::Add(open),
                false => Request::Open(open),
            };
            let lacking = Lacking {
                capability,
                uid,
                port,
                demand: plan.demand,
                opens: Some(address.vc),
                refused: false,
            };
            return match self.awaits(asker, request, lacking, None) {
                true => Ok(None),
                false => Err(refused),
            };
        }
        let grant = self.admission.take(uid, port, plan.demand);
        self.last_number = judged.number;
        let mut connection = Connection::new(judged.number, address, port, open, plan);
        connection.grant = Some(grant);
        connection.into = judged.into;
        connection.uid = uid;
        connection.worker = judged.worker;
        connection.permanent = permanent;
        connection.opener = Some(asker);
        if let (Some(client), false) = (self.clients.get_mut(&asker.client), permanent) {
            client.connections.insert(asker.connection, judged.number);
            client.may_have_closed = false;
            connection.user = Some(User {
                client: asker.client,
                pid: judged.peer.pid,
                connection: asker.connection,
            });
        }
        self.insert(connection);
        Ok(None)
    }

    /// What [`open`](Self::open) would come to. The adapter is not asked, and nothing is taken.
    pub(super) fn try_open(
        &self,
        asker: Asker,
        open: Open,
        capability: Option<On<VcId>>,
    ) -> Outcome {
        let judged = match self.judge(asker, open, false, capability) {
            Ok(judged) => judged,
            Err(Unopened::Refused(refused) | Unopened::Short(refused, _)) => return Err(refused),
            Err(Unopened::Added { .. }) => return Err(Refused::AddressInUse),
        };
        let waits = judged.room.is_err();
        if let Err(refused) = judged.room
            && !self.may_wait(judged.peer.uid, None)
        {
            return Err(refused);
        }
        let (plan, port) = (judged.plan, judged.at.port);
        let share = self.share_beside(&plan, port);
        let guaranteed = |direction| plan.guaranteed(direction);
        Ok(Some(Confirm::Tried(Box::new(Tried {
            address: judged.at.address,
            contract: judged.open.contract,
            demand: plan.demand,
            transmit: guaranteed(Direction::Transmit).or(share.transmit),
            receive: guaranteed(Direction::Receive).or(share.receive),
            buffers: plan.buffers(),
            bound: plan.bound(self.precedence_on(port)),
            keeps_awake: plan.keeps_awake,
            waits,
        }))))
    }

    /// Cells that the connections of an interface may send before another one's.
    pub(super) fn precedence_on(&self, port: On<PortIndex>) -> Precedence {
        let on_port = self.connections.values().filter(|one| one.port == port);
        let each = on_port.map(|one| one.plan.precedence());
        each.fold(Precedence::default(), Precedence::plus)
    }

    /// What an interface would have for another connection, if that is best effort.
    fn share_beside(&self, plan: &Plan, port: On<PortIndex>) -> Share {
        let share = |direction| {
            let own = plan.claim(direction)?;
            let on_port = self.connections.values().filter(|one| one.port == port);
            let others = on_port.filter_map(|one| one.plan.claim(direction));
            let claims: Vec<_> = others.chain([own]).collect();
            let cell_s = *divide(self.admission.rest(port, direction), &claims).last()?;
            plan.share(direction, cell_s)
        };
        Share {
            transmit: share(Direction::Transmit),
            receive: share(Direction::Receive),
        }
    }

    /// Some addresses are for governors, and for whom the configuration names.
    fn check_reserved(&self, client: ClientId, uid: u32, at: &Address) -> Result<(), Refused> {
        if self.is_governor(uid) {
            return Ok(());
        }
        let covering = self.config.reserves.iter();
        let covering = covering.filter(|one| one.covers(at.interface.as_deref(), at.vc));
        let (mut users, mut groups) = (BTreeSet::new(), BTreeSet::new());
        let mut reserved = at.vc.vci() < OWN_VCI_MIN;
        for reserve in covering {
            users.extend(&reserve.users);
            groups.extend(&reserve.groups);
            reserved = true;
        }
        let mut mine = self.groups_of(client).iter();
        if !reserved || users.contains(&uid) || mine.any(|group| groups.contains(group)) {
            return Ok(());
        }
        users.extend([0, self.config.uid]);
        Err(Refused::Reserved {
            users: users.into_iter().collect(),
            groups: groups.into_iter().collect(),
        })
    }

    /// Each block of addresses in use costs the adapter a part of its lookup.
    fn check_block(
        &self,
        uid: u32,
        port: On<PortIndex>,
        vc: VpiVci,
        counts: impl Fn(&Connection) -> bool,
    ) -> Result<(), Refused> {
        let block = |port, vc: VpiVci| (port, vc.bits() >> Config::BLOCK_BITS);
        let of_user = self.connections.values();
        let here = |one: &&Connection| one.uid == uid && one.port.adapter == port.adapter;
        let of_user = of_user.filter(|one| here(one) && counts(one));
        let blocks: BTreeSet<_> = of_user.map(|one| block(one.port, one.address.vc)).collect();
        let most = self.config.adapter(port.adapter).blocks.div_ceil(4);
        let has = blocks.len() as u64 >= most.into() && !blocks.contains(&block(port, vc));
        match has && !self.is_governor(uid) {
            true => Err(Refused::AddressBlocks { most }),
            false => Ok(()),
        }
    }

    /// Whether this very request added the connection, before the server was restarted.
    fn is_added_by(&self, number: u32, asker: Asker, peer: Peer) -> bool {
        self.connections.get(&number).is_some_and(|connection| {
            let done = connection.done.filter(|_| connection.repeatable);
            let mine = connection.permanent && connection.uid == peer.uid;
            mine && done.is_some_and(|done| done.id == asker.id)
        })
    }
}
