use core::fmt;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::adapter::Refusal;
use crate::contract::{ContractError, mbit_s};
use crate::wire::CellPseudowire;

/// What admission hands out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    /// Cells/s that an interface sends.
    TransmitBandwidth,
    /// Cells/s that an interface receives.
    ReceiveBandwidth,
    /// Time of the adapter's core, in millionths.
    AdapterCpu,
    /// Time of the cores that the server's workers share, in millionths of one core.
    WorkerCpu,
    /// Octets of memory.
    Memory,
    Connections,
}

impl Resource {
    /// Its unit, as people read it.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::TransmitBandwidth | Self::ReceiveBandwidth => "cells/s",
            Self::AdapterCpu | Self::WorkerCpu => "ppm of a core",
            Self::Memory => "octets",
            Self::Connections => "connections",
        }
    }

    /// Its name, as people read it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TransmitBandwidth => "transmit bandwidth",
            Self::ReceiveBandwidth => "receive bandwidth",
            Self::AdapterCpu => "CPU time of the adapter",
            Self::WorkerCpu => "CPU time of the workers",
            Self::Memory => "memory",
            Self::Connections => "connections",
        }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// More was asked for than is free, or than its user may have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[error(
    "not enough {resource}: {needed} {}{} needed, {free}{} free{}{}{}",
    resource.unit(),
    in_bits(*resource, *needed),
    in_bits(*resource, *free),
    quota_of(*quota),
    limited(limit.as_deref()),
    offered(offer.as_deref(), others)
)]
pub struct Shortage {
    /// What there is not enough of.
    pub resource: Resource,
    /// What the request needs, in the resource's unit.
    pub needed: u64,
    /// What is free.
    pub free: u64,
    /// The user whose quota is the bound; none: the machine is.
    pub quota: Option<u32>,
    /// A contract that would fit, if one would: at a lower rate, if that does.
    pub offer: Option<String>,
    /// Others that would fit: where memory is short, with another `jitter=` or a smaller
    /// `max_sdu=`; where CPU time is short, with a larger one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<String>,
    /// The limit of the machine that leaves no more; none: the configuration does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
}

/// A rate as it is typed.
fn in_bits(resource: Resource, amount: u64) -> String {
    match resource {
        Resource::TransmitBandwidth | Resource::ReceiveBandwidth => {
            format!(" ({} Mbit/s)", mbit_s(amount))
        }
        _ => String::new(),
    }
}

fn limited(limit: Option<&str>) -> String {
    limit.map_or_else(String::new, |limit| format!(" ({limit})"))
}

fn quota_of(user: Option<u32>) -> String {
    user.map_or_else(String::new, |uid| format!(" in the quota of user {uid}"))
}

fn who(users: &[u32], groups: &[u32]) -> String {
    let users = users.iter().map(|uid| match uid {
        0 => "root".to_owned(),
        uid => format!("user {uid}"),
    });
    let groups = groups.iter().map(|gid| format!("group {gid}"));
    users.chain(groups).collect::<Vec<_>>().join(", ")
}

fn offered(offer: Option<&str>, others: &[String]) -> String {
    let fits = |offer| format!("; this would fit: {offer}");
    let others = others.iter().map(|other| format!("; or this: {other}"));
    offer.map(fits).into_iter().chain(others).collect()
}

/// Why a Request was refused. It left no trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refused {
    #[error(transparent)]
    Admission(#[from] Shortage),
    /// The text is no contract.
    #[error("no contract: {reason} (at octet {at})")]
    Contract {
        /// Octets before the mistake.
        at: u32,
        reason: String,
    },
    /// The contract asks for what there is not.
    #[error("not supported: {0}")]
    Unsupported(String),
    /// No Request could be read from the message.
    #[error("not a request: {0}")]
    BadMessage(String),
    /// The first request on a socket is hello.
    #[error("the first request on a socket is hello")]
    HelloFirst,
    /// The server speaks another version.
    #[error("the server speaks version {speaks} of the protocol")]
    Version { speaks: u32 },
    /// The descriptors that came are not those that belong to the request.
    #[error("descriptors: {0}")]
    Descriptors(String),
    /// The socket has a connection of this number already.
    #[error("this socket has a connection of this number already: close it, or give another")]
    Occupied,
    /// The socket has no connection of this number.
    #[error("this socket has no connection of this number")]
    NoConnection,
    /// No such connection, or not for this user.
    #[error("no such connection, or not this user's")]
    NotFound,
    /// The connection is an application's own: it is neither taken, set nor deleted, and goes with
    /// its application.
    #[error("the connection is not permanent: it is its application's own, and goes with that")]
    NotPermanent,
    /// Another application uses the permanent connection.
    #[error("another application uses the connection")]
    InUse,
    /// Only for the server's own user and root.
    #[error("only the server's own user and root may do this")]
    NotPermitted,
    /// No such interface.
    #[error("no such interface")]
    NoInterface,
    /// The address names no interface, and there are several, of which none is `lo`.
    #[error("the address names no interface; name one of: {}", names.join(", "))]
    InterfaceUnnamed {
        /// Those that there are.
        names: Vec<String>,
    },
    /// The interface's pseudowire carries cells of another VC or path alone.
    #[error("the interface carries {carried} alone")]
    NotCarried {
        /// What it carries.
        carried: CellPseudowire,
    },
    /// The address has a VPI that a UNI has no bits for.
    #[error(
        "VPI {vpi}: a UNI has VPIs from 0 to 255; `form = \"nni\"` of its interface has 0 to 4095"
    )]
    VpiTooLarge { vpi: u16 },
    /// The interface cannot be had.
    #[error("the interface cannot be had: {0}")]
    Interface(String),
    /// Connections are open on the interface that is to be removed.
    #[error("the interface has connections, {connections}: delete them first")]
    InterfaceInUse { connections: u32 },
    /// The address is in use.
    #[error("the address is in use")]
    AddressInUse,
    /// The address is for governors, and for those whom the configuration names.
    #[error(
        "the address is reserved: only {} may open it (VCIs below 32 are for signalling, ILMI and \
         OAM flows; the configuration may reserve others, and name who has them)",
        who(users, groups)
    )]
    Reserved {
        /// The users who may open it.
        users: Vec<u32>,
        /// The groups whose members may.
        groups: Vec<u32>,
    },
    /// Its user has connections in as many blocks of 16,384 addresses as one user may.
    #[error(
        "this user has connections in {most} blocks of 16,384 addresses (VPI and the upper 2 bits \
         of VCI), a quarter of what there is: take an address in one of them"
    )]
    AddressBlocks { most: u32 },
    /// The adapter said no.
    #[error("refused by the adapter: {0}")]
    Adapter(#[from] Refusal),
    /// Adapters have died of it: it is not opened again by itself.
    #[error(
        "{deaths} adapters in a row died when it was opened again; open it anew, or have the \
         configuration read again"
    )]
    LeftOut { deaths: u32 },
    /// Its user's programs took pages of their connections' memory away.
    #[error(
        "this user's programs took pages of their connections' memory away, which stops the \
         adapter; it has no connections for another {seconds} s"
    )]
    PagesTaken {
        /// How long it lasts.
        seconds: u32,
    },
    /// The adapter is being restarted.
    #[error("the adapter is being restarted; try again")]
    AdapterAway,
    /// The kernel said no.
    #[error("the kernel refused: {0}")]
    Kernel(String),
    /// The loopback cell did not come back in time.
    #[error("no loopback cell came back in time")]
    NoReturn,
    /// There are as many as there may be at once.
    #[error("{}", full(*of, *most, *quota, *holder))]
    Full {
        of: Crowd,
        most: u32,
        /// The user whose part is the bound; none: the whole is.
        quota: Option<u32>,
        /// Who has most of the whole, and how many.
        holder: Option<(u32, u32)>,
    },
    /// All numbers have been given out.
    #[error("the server has no number left for it; restart it")]
    TooMany,
}

/// What there are only so many of at once, beside what admission hands out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Crowd {
    ControlSockets,
    /// Connections of one control socket.
    ConnectionsOfSocket,
    /// Requests of one control socket without a confirm.
    Requests,
    /// Control sockets that monitor.
    Monitors,
    /// Loopback cells on their way.
    LoopbackCells,
    NetworkDevices,
    /// Requests for the end of one network device.
    Removals,
}

impl fmt::Display for Crowd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ControlSockets => "control sockets",
            Self::ConnectionsOfSocket => "connections of this socket",
            Self::Requests => "requests of this socket",
            Self::Monitors => "monitors",
            Self::LoopbackCells => "loopback cells on their way",
            Self::NetworkDevices => "network devices",
            Self::Removals => "requests for the end of this network device",
        })
    }
}

fn full(of: Crowd, most: u32, quota: Option<u32>, holder: Option<(u32, u32)>) -> String {
    match (quota, holder) {
        (Some(uid), _) => {
            format!("user {uid} has {most} {of}, as many as one user may have; end some first")
        }
        (None, Some((uid, has))) => format!(
            "there are {most} {of}, as many as there may be, {has} of them of user {uid}; try \
             again when some have ended"
        ),
        (None, None) if of == Crowd::ConnectionsOfSocket => {
            format!("there are {most} {of}, as many as there may be; open more on another socket")
        }
        (None, None) => format!("there are {most} {of}, as many as there may be; wait for some"),
    }
}

impl Refused {
    /// There are `most` of all; each is of one of these users.
    pub fn full(of: Crowd, most: u32, users: impl Iterator<Item = u32>) -> Self {
        let mut counts = BTreeMap::new();
        for uid in users {
            *counts.entry(uid).or_insert(0) += 1;
        }
        let holder = counts.into_iter().max_by_key(|(_, count)| *count);
        Self::Full {
            of,
            most,
            quota: None,
            holder,
        }
    }

    /// This user has `most`.
    pub fn full_of_user(of: Crowd, most: u32, uid: u32) -> Self {
        Self::Full {
            of,
            most,
            quota: Some(uid),
            holder: None,
        }
    }
}

impl From<ContractError> for Refused {
    fn from(error: ContractError) -> Self {
        Self::Contract {
            at: u32::try_from(error.at).unwrap_or(u32::MAX),
            reason: error.reason(),
        }
    }
}
