//! Connections in a chain: one receives into the transmit buffer of another, so that a program
//! sends on what came without a copy (the media server of *L4ATM*, section 1.3).
//!
//! A chain is made as its first part is opened, into a connection that is there already: so none is
//! a circle. The part that receives ends before the part that sends gives its memory back, and is
//! not opened again after an adapter's death: whose buffer it had may come back with another.

use super::connection::Connection;
use super::machine::Server;
use super::{AdapterIndex, Address, Bugs, EndReason, On, Open, Refused};
use crate::adapter::{Aal, PortIndex, Terms, VcId, pdu_octets};
use crate::contract;
use crate::keeper::ReceiveInto;
use crate::queue::ConnectionSizes;
use crate::queue::layout::PAGE_LEN;

/// The transmit buffer that a connection receives into.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room<'a> {
    address: &'a Address,
    aal: Aal,
    /// The largest SDU that leaves from there; none: it does not send.
    max_sdu: Option<u16>,
    sizes: ConnectionSizes,
}

/// A contract's word.
const fn word(aal: Aal) -> &'static str {
    match aal {
        Aal::Aal0 => contract::Aal::Aal0.word(),
        Aal::Aal5 => contract::Aal::Aal5.word(),
        Aal::Aal34(_) => contract::Aal::Aal34.word(),
    }
}

/// A chain that cannot be.
fn unsupported(address: &Address, why: &str) -> Refused {
    Refused::Unsupported(format!("receive-into {address}: {why}"))
}

impl Room<'_> {
    /// Has what `terms` say received there: the sizes of the connection that receives.
    ///
    /// The buffer's end is kept from it: the adapter takes an SDU from one piece, and a PDU that
    /// wraps lies in two. Such a one is copied to the end.
    pub(super) fn hold(&self, terms: &Terms, sizes: &mut ConnectionSizes) -> Result<(), Refused> {
        let refuse = |why: &str| Err(unsupported(self.address, why));
        let Some(receive) = &terms.receive else {
            return refuse("the contract receives nothing; give it a rate of rx:");
        };
        let Some(max_sdu) = self.max_sdu else {
            return refuse("it sends nothing; give its contract a rate of tx:");
        };
        let kind = core::mem::discriminant::<Aal>;
        if kind(&self.aal) != kind(&terms.aal) {
            return refuse(&format!(
                "it has another adaptation layer; {} would do",
                word(self.aal)
            ));
        }
        if receive.max_sdu > max_sdu {
            return refuse(&format!(
                "it sends SDUs of {max_sdu} octets at most, these have up to {}; \
                 max_sdu={max_sdu} would do",
                receive.max_sdu
            ));
        }
        let page = PAGE_LEN as u64;
        let pdu = pdu_octets(self.aal, max_sdu);
        let end = pdu.next_multiple_of(page);
        let (has, needs) = (
            u64::from(self.sizes.transmit_len),
            u64::from(sizes.receive_len),
        );
        if has < end + needs {
            return refuse(&format!(
                "its transmit buffer has {has} octets, {} are needed; transmit_pdus of {} \
                 would do there",
                end + needs,
                (end + needs).div_ceil(u64::from(max_sdu).max(1))
            ));
        }
        // Below what it was taken from.
        sizes.receive_len = (has - end) as u32;
        sizes.receive_slots = sizes.receive_slots.max(self.sizes.transmit_slots);
        sizes.receive_elsewhere = true;
        Ok(())
    }
}

impl Connection {
    /// The refusal of what would part it from the buffer it receives into.
    pub(super) fn keeps_buffer(&self, why: &str) -> Option<Refused> {
        let into = self.open.receive_into.as_ref()?;
        let text = format!("{why}; close it and open it anew");
        Some(unsupported(into, &text))
    }
}

impl<B: Bugs> Server<B> {
    /// What is asked for with the name of the connection that it receives into, and that one's
    /// number.
    pub(super) fn chained(
        &self,
        uid: u32,
        port: On<PortIndex>,
        mut open: Open,
        permanent: bool,
        capability: Option<On<VcId>>,
    ) -> Result<(Open, Option<u32>), Refused> {
        let Some(into) = &mut open.receive_into else {
            return Ok((open, None));
        };
        let found = self.find_interface(into)?;
        *into = found.address;
        let refuse = |why: &str| Err(unsupported(into, why));
        if *into == open.address {
            return refuse("it is the connection itself; name one that sends at another address");
        }
        if permanent {
            return refuse("a permanent connection has memory of its own; add it without");
        }
        let number = self.addresses.get(&(found.port, into.vc));
        let other = number.and_then(|number| self.connections.get(number));
        let other = other.filter(|other| other.uid == uid && other.is_wanted());
        let Some((other, vc)) = other.and_then(|other| Some((other, other.vc?.vc))) else {
            return refuse("this user has no such connection; open it first");
        };
        if other.permanent {
            return refuse("it is permanent, and its memory is renewed; open one that is not");
        }
        if other.port.adapter != port.adapter {
            return refuse(&format!(
                "it is at another adapter, {}; receive at one of its interfaces",
                self.place_name(other.port.adapter)
            ));
        }
        if capability.is_none() {
            let missing = "that of the connection it receives into is missing";
            return Err(Refused::Descriptors(missing.to_owned()));
        }
        if capability != Some(other.port.adapter.on(vc)) {
            let others = "they are another connection's than it receives into";
            return Err(Refused::Descriptors(others.to_owned()));
        }
        if let Some(first) = self.feeder(other.number) {
            return refuse(&format!(
                "{} receives there already; close that, or open another to receive into",
                first.address
            ));
        }
        let number = other.number;
        Ok((open, Some(number)))
    }

    fn place_name(&self, adapter: AdapterIndex) -> &str {
        self.adapter_name(adapter).unwrap_or("the first")
    }

    /// Who receives into the transmit buffer of a connection.
    fn feeder(&self, number: u32) -> Option<&Connection> {
        let mut all = self.connections.values();
        all.find(|one| one.into == Some(number))
    }

    /// The buffer that `open` names; none: one of its own.
    pub(super) fn room_of<'a>(&'a self, open: &'a Open) -> Option<Room<'a>> {
        let address = open.receive_into.as_ref()?;
        let found = self.find_interface(address).ok()?;
        let number = self.addresses.get(&(found.port, found.address.vc))?;
        let plan = &self.connections.get(number)?.plan;
        Some(Room {
            address,
            aal: plan.terms.aal,
            max_sdu: plan.terms.transmit.map(|transmit| transmit.max_sdu),
            sizes: plan.sizes,
        })
    }

    /// Where the adapter puts the PDUs of a connection together; none: the buffer is gone.
    pub(super) fn receive_into(&self, number: u32) -> Option<ReceiveInto> {
        let connection = self.connections.get(&number)?;
        match connection.into {
            None => Some(ReceiveInto::Own),
            Some(into) => {
                let other = self.connections.get(&into)?.vc?;
                Some(ReceiveInto::TransmitBufferOf(other.vc))
            }
        }
    }

    /// The capability of a connection.
    pub(super) fn capability(&self, number: u32) -> Option<On<VcId>> {
        let connection = self.connections.get(&number)?;
        Some(connection.port.adapter.on(connection.vc?.vc))
    }

    /// A connection cannot be opened for want of the buffer that it receives into.
    pub(super) fn lose_buffer(&mut self, number: u32) {
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        connection.ending.get_or_insert(EndReason::BufferGone);
        self.fail_open(number, Refused::NotFound);
        self.work.settle.insert(number);
    }

    /// Has whoever receives into a connection's transmit buffer end; whether there is one still.
    pub(super) fn ends_its_feeder(&mut self, number: u32) -> bool {
        let mut all = self.connections.values_mut();
        let Some(feeder) = all.find(|one| one.into == Some(number)) else {
            return false;
        };
        feeder.ending.get_or_insert(EndReason::BufferGone);
        let feeder = feeder.number;
        self.work.settle.insert(feeder);
        true
    }

    /// # Errors
    /// New memory would part a chain.
    pub(super) fn check_memory_is_its_own(&self, number: u32) -> Result<(), Refused> {
        let of_it = self.connections.get(&number);
        let why = "the new contract needs other memory than it has";
        if let Some(refused) = of_it.and_then(|one| one.keeps_buffer(why)) {
            return Err(refused);
        }
        match self.feeder(number) {
            None => Ok(()),
            Some(feeder) => Err(Refused::Unsupported(format!(
                "{why}, and {} receives into that; close that first",
                feeder.address
            ))),
        }
    }

    /// Of the connections that were taken up: who receives into whose buffer.
    pub(super) fn link_chains(&mut self) {
        let into = |one: &Connection| {
            let address = one.open.receive_into.as_ref()?;
            let found = self.find_interface(address).ok()?;
            let number = self.addresses.get(&(found.port, found.address.vc));
            Some((one.number, number.copied()))
        };
        let links: Vec<_> = self.connections.values().filter_map(into).collect();
        for (number, into) in links {
            let Some(one) = self.connections.get_mut(&number) else {
                continue;
            };
            one.into = into;
            if into.is_none() {
                one.ending.get_or_insert(EndReason::BufferGone);
            }
        }
    }
}
