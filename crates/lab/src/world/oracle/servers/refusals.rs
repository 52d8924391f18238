//! I15: a refusal leaves no trace, says what there is, and offers what would fit.

use cellgate_core::contract::{CellRate, TrafficContract};
use cellgate_core::server::{
    Address, ClientId, ConnectionInfo, FromClient, FromServer, Output, Refused, Request, Resource,
    Shortage,
};

use super::{Audit, View, Wrong};
use crate::world::servers::Books;

/// What a server offered instead of what it refused.
#[derive(Debug)]
pub(super) struct Offered {
    /// The contract, in canonical form.
    contract: String,
    /// It is a change.
    changes: bool,
    /// The books at that time.
    books: Books,
}

/// A contract in canonical form.
fn canonical(text: &str) -> Option<String> {
    let contract = text.parse::<TrafficContract>().ok();
    contract.map(|contract| contract.to_string())
}

impl Audit {
    /// An application has asked for something when the books said `before`, and the server wants
    /// this done.
    pub(crate) fn answers(
        &mut self,
        seen: &View<'_>,
        (client, asked): (ClientId, &FromClient),
        before: &Books,
        outputs: &[Output],
    ) -> Result<(), Wrong> {
        let [
            Output::Client {
                message:
                    FromServer::Confirm {
                        id: confirmed,
                        result: Err(refused),
                        ..
                    },
                ..
            },
        ] = outputs
        else {
            return Ok(());
        };
        match asked {
            FromClient::Request { id, request, .. } if id == confirmed => {
                self.refuses(seen, (client, request), before, refused)
            }
            _ => Ok(()),
        }
    }

    fn refuses(
        &mut self,
        seen: &View<'_>,
        (client, request): (ClientId, &Request),
        before: &Books,
        refused: &Refused,
    ) -> Result<(), Wrong> {
        let wrong = |text: String| Err(("I15", text));
        let after = seen.server.map(|server| server.promised());
        if after.as_ref() != Some(before) {
            return wrong(format!(
                "{request:?} was refused and left a trace: {refused}"
            ));
        }
        if let (Refused::AddressInUse, Request::Open(open) | Request::Add(open)) =
            (refused, request)
            && seen.is_free(&open.address)
        {
            return wrong(format!("{} is refused as taken, and is not", open.address));
        }
        let Refused::Admission(shortage) = refused else {
            return Ok(());
        };
        if let Some(text) = seen.tells_too_little(shortage) {
            return wrong(text);
        }
        let (text, changes) = match request {
            Request::Open(open) => (&open.contract, false),
            Request::Modify { contract } => (contract, true),
            _ => return Ok(()),
        };
        if changes && seen.asks_no_more(client, text, shortage.resource) {
            return wrong(format!(
                "{text} asks for no more than there was: {shortage}"
            ));
        }
        let is_broken = self.offered.remove(&client).is_some_and(|offered| {
            let same = Some(offered.contract) == canonical(text) && offered.changes == changes;
            same && offered.books == *before
        });
        if let Some(contract) = shortage.offer.as_deref().and_then(canonical) {
            self.offers += 1;
            let offered = Offered {
                contract,
                changes,
                books: before.clone(),
            };
            self.offered.insert(client, offered);
        }
        match is_broken {
            true => wrong(format!("it offered {text} and refuses it: {shortage}")),
            false => Ok(()),
        }
    }
}

impl View<'_> {
    /// Whether a refusal tells of less than will be free when what is being closed has gone.
    fn tells_too_little(&self, shortage: &Shortage) -> Option<String> {
        let server = self.server?;
        let of_world = shortage.quota.is_none() && shortage.limit.is_none();
        if !of_world || server.awaiting() > 0 || self.interfaces.len() != 1 {
            return None;
        }
        let all = server.admission().resources(|_| None, |_| None);
        let row = all.iter().find(|one| one.resource == shortage.resource)?;
        let closing = server
            .connections()
            .filter(|info| server.is_closing(info.number));
        let rate = |rate: Option<CellRate>, info: &ConnectionInfo| {
            let rate = rate.filter(|_| info.guaranteed);
            rate.map_or(0, |rate| u64::from(rate.cell_s()))
        };
        let back = closing.map(|info| match row.resource {
            Resource::TransmitBandwidth => rate(info.transmit, &info),
            Resource::ReceiveBandwidth => rate(info.receive, &info),
            Resource::Memory => info.memory,
            Resource::AdapterCpu => info.cpu_reserved_ppm.into(),
            Resource::Connections => 1,
            Resource::WorkerCpu => 0,
        });
        let due = row.capacity.saturating_sub(row.reserved) + back.sum::<u64>();
        // Each connection of best effort keeps a cell per second.
        let mut counts = all.iter();
        let kept = counts.find(|one| one.resource == Resource::Connections);
        let kept = kept.map_or(0, |one| one.reserved);
        (shortage.free + kept < due).then(|| format!("{shortage}, and {due} will be"))
    }

    /// Whether a change keeps to what its connection is guaranteed of a line already.
    fn asks_no_more(&self, client: ClientId, text: &str, of: Resource) -> bool {
        let Some(user) = self.sockets.get(&client).map(|n| &self.users[*n]) else {
            return false;
        };
        let mut all = self
            .server
            .into_iter()
            .flat_map(|server| server.connections());
        let Some(info) = all.find(|info| info.address == user.address && info.guaranteed) else {
            return false;
        };
        let Ok(asked) = text.parse::<TrafficContract>() else {
            return false;
        };
        let (asked, has) = match of {
            Resource::TransmitBandwidth => (asked.transmit, info.transmit),
            Resource::ReceiveBandwidth => (asked.receive, info.receive),
            _ => return false,
        };
        let interfaces = self.interfaces.iter();
        let mut on = interfaces.filter(|one| user.address.interface.as_ref() == Some(&one.name));
        let line = on.next().and_then(|one| one.line_rate);
        match (asked, has, line) {
            (Some(asked), Some(has), Some(line)) => asked.sustained(line) <= has,
            _ => false,
        }
    }

    /// Whether an address that is refused as taken is nobody's. While there is no adapter, what it
    /// was asked to open waits for the next one.
    fn is_free(&self, address: &Address) -> bool {
        let mut all = self
            .server
            .into_iter()
            .flat_map(|server| server.connections());
        let is_listed = all.any(|info| info.address == *address);
        self.is_adapter_known && self.is_quiet && !is_listed && self.vc_at(address).is_none()
    }
}
