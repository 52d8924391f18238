use std::collections::BTreeSet;

use cellgate::{Address, Admin, Connection, Error, InterfaceInfo, Refused, Tried};
use cellgate_core::contract::TrafficContract;
use cellgate_core::wire::{Pseudowire, VpiVci};

/// The first VCI that is proposed.
const VCI: u16 = 100;

/// A running server, and an address of it that is free.
pub(super) struct Trial {
    admin: Admin,
    address: Address,
    /// The interface at the other end, if it is this server's.
    peer: Option<String>,
}

impl Trial {
    /// On an interface of the server.
    pub(super) fn on(mut admin: Admin, interface: &InterfaceInfo) -> Result<Self, Error> {
        let spec = &interface.spec;
        let here = |address: &Address| address.interface.as_ref() == Some(&spec.name);
        let there = admin.list()?.into_iter().map(|info| info.address);
        let taken: BTreeSet<VpiVci> = there.filter(here).map(|address| address.vc).collect();
        // Of a pseudowire of one VC, or one path, that one.
        let first = VpiVci::new(0, VCI).unwrap_or_default();
        let (own, all) = match spec.bars(first) {
            Some(Refused::NotCarried { carried }) => {
                let own = Pseudowire::from(carried).address;
                (own, VpiVci::new(own.vpi(), VCI).unwrap_or(own))
            }
            _ => (first, first),
        };
        let carries = |vc: &VpiVci| spec.bars(*vc).is_none() && !taken.contains(vc);
        let more = (all.vci()..=u16::MAX).filter_map(|vci| VpiVci::new(all.vpi(), vci));
        let free = more.into_iter().find(carries);
        let peer = spec.link.memory_peer().map(str::to_owned);
        let address = Address {
            interface: Some(spec.name.clone()),
            // An address that is taken is refused as such.
            vc: free.unwrap_or(own),
        };
        Ok(Self {
            admin,
            address,
            peer,
        })
    }

    /// An address of each end, this one's first; the interface of the other may be anywhere.
    pub(super) fn addresses(&self) -> [String; 2] {
        let peer = self.peer.as_deref().unwrap_or("ITF");
        [
            self.address.to_string(),
            format!("{peer}.{}", self.address.vc),
        ]
    }

    /// Whether the server would open a connection under a contract.
    pub(super) fn of(
        &mut self,
        contract: &TrafficContract,
    ) -> Result<Result<Tried, Refused>, Error> {
        let asked = Connection::builder().address(self.address.to_string());
        match self.admin.try_open(&asked.contract(contract.to_string())) {
            Ok(tried) => Ok(Ok(tried)),
            Err(Error::Refused(refused)) => Ok(Err(refused)),
            Err(error) => Err(error),
        }
    }
}
