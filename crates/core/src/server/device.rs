use core::net::Ipv4Addr;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Address;

/// A network device to carry over a connection (paper 003's stub driver, RFC 2684).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceSpec {
    /// The connection's address.
    pub address: Address,
    /// Its traffic contract; none: that of a permanent connection, which is taken.
    pub contract: Option<String>,
    /// How packets lie in PDUs (`upper::Encapsulation` names them).
    pub encapsulation: String,
}

/// A network device that a worker of the server carries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceInfo {
    /// Its number, never used twice by a server.
    pub number: u32,
    /// The device's name when it was added.
    pub device: String,
    /// Where its connection is.
    pub vc: Address,
    /// The contract in canonical form.
    pub contract: String,
    /// How packets lie in PDUs.
    pub encapsulation: String,
    /// The largest SDU that its connection sends, in octets.
    pub transmit_max_sdu: u16,
    /// The longest packet that the kernel sends; none: it does not say.
    pub mtu_octets: Option<u32>,
    /// The user it belongs to.
    pub uid: u32,
    /// How its worker is scheduled, for people.
    pub scheduling: String,
    /// What became of packets since the worker has begun.
    pub carried: DeviceCounts,
}

/// Every packet that the kernel sent is sent or counted in `not_sent`, every PDU that came is
/// received, InATMARP or counted in `not_received`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceCounts {
    /// Packets that were sent.
    pub sent_pdus: u64,
    /// Packets that the kernel received.
    pub received_pdus: u64,
    /// Packets that were not sent, by reason.
    pub not_sent: BTreeMap<String, u64>,
    /// PDUs that the kernel did not receive, by reason.
    pub not_received: BTreeMap<String, u64>,
    /// Questions about the other end.
    pub inatmarp: InAtmArpCounts,
    /// Times that its worker had used more CPU time than was admitted, and lost its precedence.
    pub beyond_share: u64,
    /// Copies by the library: none.
    pub copies: u64,
}

/// InATMARP (RFC 2225).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InAtmArpCounts {
    /// The last address told for the other end.
    pub peer: Option<Ipv4Addr>,
    /// Questions and answers that came.
    pub received: u64,
    /// Questions that were sent.
    pub asked: u64,
    /// Answers that were sent.
    pub answered: u64,
    /// Questions without an answer, for want of an address, of room or of credit.
    pub unanswered: u64,
}
