//! What became of a device's packets.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use cellgate_core::server::{DeviceCounts, InAtmArpCounts};
use cellgate_core::upper::MisfitCounts;

/// Every packet that the kernel sent is sent or counted below `not_sent`, every PDU that came is
/// carried, resolved or counted below `not_received`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    /// Packets from the kernel that were sent.
    pub(super) sent: u64,
    /// Packets that the kernel received.
    pub(super) received: u64,
    /// InATMARP packets that came.
    pub(super) resolved: u64,
    /// The last address told for the other end.
    pub(super) peer: Option<Ipv4Addr>,
    /// InATMARP questions and answers that were sent.
    pub(super) asked: u64,
    pub(super) answered: u64,
    /// Questions without an answer, for want of an address, of room or of credit.
    pub(super) unanswered: u64,
    /// Packets of another kind than the device's.
    pub(super) unsent_misfits: MisfitCounts,
    /// Packets longer than the SDUs: somebody has set the device's MTU.
    pub(super) too_long: u64,
    /// Packets that were read while the connection got new memory.
    pub(super) memory_renewed: u64,
    /// PDUs of another encapsulation.
    pub(super) misfits: MisfitCounts,
    /// ATMARP packets that are no InATMARP.
    pub(super) bad_inatmarp: u64,
    /// The kernel had no room for the packet.
    pub(super) device_full: u64,
    /// The device was not up.
    pub(super) device_down: u64,
    /// The kernel takes no such packet.
    pub(super) device_refused: u64,
    /// Times that the worker had used more CPU time than was admitted.
    pub(super) beyond_share: u64,
    /// Copies by the library: none.
    pub(super) copies: u64,
    /// PDUs that the library dismissed.
    pub(super) dismissed: u64,
}

impl Counts {
    /// As users are told.
    pub(super) fn told(&self) -> DeviceCounts {
        DeviceCounts {
            sent_pdus: self.sent,
            received_pdus: self.received,
            not_sent: reasons(
                &self.unsent_misfits,
                &[
                    ("too_long", self.too_long),
                    ("memory_renewed", self.memory_renewed),
                ],
            ),
            not_received: reasons(
                &self.misfits,
                &[
                    ("bad_inatmarp", self.bad_inatmarp),
                    ("device_full", self.device_full),
                    ("device_down", self.device_down),
                    ("device_refused", self.device_refused),
                    ("dismissed", self.dismissed),
                ],
            ),
            inatmarp: InAtmArpCounts {
                peer: self.peer,
                received: self.resolved,
                asked: self.asked,
                answered: self.answered,
                unanswered: self.unanswered,
            },
            beyond_share: self.beyond_share,
            copies: self.copies,
        }
    }
}

fn reasons(misfits: &MisfitCounts, others: &[(&str, u64)]) -> BTreeMap<String, u64> {
    let misfits = misfits.iter().map(|(reason, n)| (reason.name(), n));
    let all = misfits.chain(others.iter().copied());
    all.map(|(name, n)| (name.to_owned(), n)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cellgate_core::upper::Misfit;

    #[test]
    fn every_reason_is_told() {
        let mut counts = Counts {
            sent: 7,
            received: 6,
            resolved: 2,
            too_long: 5,
            device_full: 4,
            ..Counts::default()
        };
        counts.misfits.add(Misfit::Pad);
        let told = counts.told();
        assert_eq!((told.sent_pdus, told.received_pdus), (7, 6));
        assert_eq!(told.inatmarp.received, 2);
        assert_eq!(told.not_sent["too_long"], 5);
        assert_eq!(told.not_sent.len(), Misfit::ALL.len() + 2);
        assert_eq!(told.not_received["bad_pad"], 1);
        assert_eq!(told.not_received["device_full"], 4);
        assert_eq!(told.not_received.values().sum::<u64>(), 5);
    }
}
