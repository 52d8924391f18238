//! What became of a device's packets.

use std::net::Ipv4Addr;

use cellgate_core::upper::MisfitCounts;
use serde_json::{Map, Value, json};

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
    /// Copies by the library: none.
    pub(super) copies: u64,
    /// PDUs that the library dismissed.
    pub(super) dismissed: u64,
}

impl Counts {
    fn not_sent(&self) -> Vec<(&'static str, u64)> {
        let misfits = self.unsent_misfits.iter();
        let mut all: Vec<_> = misfits.map(|(reason, n)| (reason.name(), n)).collect();
        all.push(("too_long", self.too_long));
        all.push(("memory_renewed", self.memory_renewed));
        all
    }

    fn not_received(&self) -> Vec<(&'static str, u64)> {
        let misfits = self.misfits.iter();
        let mut all: Vec<_> = misfits.map(|(reason, n)| (reason.name(), n)).collect();
        all.extend([
            ("bad_inatmarp", self.bad_inatmarp),
            ("device_full", self.device_full),
            ("device_down", self.device_down),
            ("device_refused", self.device_refused),
            ("dismissed", self.dismissed),
        ]);
        all
    }

    /// With what the device is.
    pub(super) fn json(&self, mut what: Value) -> Value {
        let object = |counts: Vec<(&str, u64)>| {
            let counts = counts.into_iter();
            Value::Object(
                counts
                    .map(|(name, n)| (name.to_owned(), n.into()))
                    .collect(),
            )
        };
        let counts = json!({
            "sent_pdus": self.sent,
            "received_pdus": self.received,
            "not_sent": object(self.not_sent()),
            "not_received": object(self.not_received()),
            "inatmarp": {
                "peer": self.peer,
                "received": self.resolved,
                "asked": self.asked,
                "answered": self.answered,
                "unanswered": self.unanswered,
            },
            "copies": self.copies,
        });
        if let (Some(what), Value::Object(counts)) = (what.as_object_mut(), counts) {
            what.extend::<Map<String, Value>>(counts);
        }
        what
    }

    /// As users read it.
    pub(super) fn text(&self, device: &str) -> String {
        let peer = self.peer.map(|ip| format!(", {ip} at the other end"));
        let mut text = format!(
            "{device}: {} packets sent, {} received{}\n",
            self.sent,
            self.received,
            peer.unwrap_or_default()
        );
        for (what, counts) in [
            ("not sent", self.not_sent()),
            ("not received", self.not_received()),
        ] {
            for (reason, n) in counts.into_iter().filter(|(_, n)| *n > 0) {
                text += &format!("{device}: {n} {what}: {reason}\n");
            }
        }
        text
    }
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
            peer: Some(Ipv4Addr::new(10, 0, 0, 2)),
            too_long: 5,
            device_full: 4,
            ..Counts::default()
        };
        counts.misfits.add(Misfit::Pad);
        let text = counts.text("ipoa0");
        let wanted = "ipoa0: 7 packets sent, 6 received, 10.0.0.2 at the other end\n\
             ipoa0: 5 not sent: too_long\n\
             ipoa0: 1 not received: bad_pad\n\
             ipoa0: 4 not received: device_full\n";
        assert_eq!(text, wanted);
        let value = counts.json(json!({ "device": "ipoa0" }));
        assert_eq!(value["device"], "ipoa0");
        assert_eq!(value["not_received"]["bad_pad"], 1);
        assert_eq!(value["not_sent"]["too_long"], 5);
        assert_eq!(value["inatmarp"]["peer"], "10.0.0.2");
    }
}
