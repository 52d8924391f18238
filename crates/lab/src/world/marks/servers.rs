//! Coverage marks of servers: what random scenarios with them are to have reached, counted where
//! the world sees it, in what servers ask and say and in what they have left at the adapter.

use std::collections::{BTreeMap, BTreeSet};

use cellgate_core::contract::CellRate;
use cellgate_core::keeper::Ask;
use cellgate_core::server::{
    AdapterAsk, Change, EndReason, FromServer, Indication, Refused, Request, Resource, Shortage,
    TakenUp,
};

use crate::world::servers::{Asked, KeptVc, Process};

/// What a connection can be in the middle of, as the commands say that are not answered.
const STAGES: [&str; 13] = [
    "attach",
    "open",
    "open_again",
    "open_permanent",
    "modify",
    "new_memory",
    "renew",
    "hand_over",
    "give_back",
    "close",
    "detach",
    "link",
    "lease",
];

/// Names that a group's marks have.
type Group = (&'static str, &'static [&'static str]);
/// A group, a name in it, and how often that was reached.
type Reached = (&'static str, &'static str, u64);

/// What is to be reached. Whatever else is, is counted, too.
const MARKS: &[Group] = &[
    ("asked", &STAGES),
    ("server_died_in", &STAGES),
    ("server_died_in", &["nothing", "no_adapter"]),
    ("adapter_died_in", &STAGES),
    ("adapter_died_in", &["nothing", "no_server"]),
    (
        "adapter_refused",
        &[
            "attach",
            "open",
            "open_again",
            "open_permanent",
            "modify",
            "new_memory",
            "renew",
            "hand_over",
            "give_back",
        ],
    ),
    (
        "has",
        &["guaranteed", "best_effort", "permanent", "permanent_unused"],
    ),
    (
        "refused",
        &[
            "admission",
            "contract",
            "unsupported",
            "hello_first",
            "descriptors",
            "occupied",
            "no_connection",
            "not_found",
            "in_use",
            "address_in_use",
            "adapter",
            "adapter_away",
        ],
    ),
    (
        "short_of",
        &[
            "transmit_bandwidth",
            "receive_bandwidth",
            "adapter_cpu",
            "memory",
            "connections",
            "quota",
        ],
    ),
    ("offer", &["made", "none", "taken", "confirmed", "refused"]),
    ("growth", &["accepted", "declined", "confirmed"]),
    (
        "told",
        &[
            "ended_deleted",
            "ended_taken_over",
            "ended_not_reopened",
            "reopened",
            "share",
            "at_risk",
            "can_grow",
            "restarted",
            "connection_added",
            "connection_changed",
            "connection_removed",
            "interface_added",
            "interface_changed",
        ],
    ),
    (
        "share",
        &["transmit_up", "transmit_down", "receive_up", "receive_down"],
    ),
    (
        "taken_up",
        &[
            "used",
            "unused",
            "given_back",
            "left",
            "attached",
            "attached_alone",
            "opened_again_untold",
            "not_opened_again",
        ],
    ),
    (
        "asked_again",
        &["open", "take", "reattach", "modify", "close", "delete"],
    ),
    ("hung_up", &["silent", "with_server"]),
    ("killer", &["killed", "left_out"]),
    ("memory", &["shrinks", "killed", "refused"]),
    ("waits", &["for_what_comes_back"]),
    (
        "state_directory",
        &[
            "full",
            "vanished",
            "stale",
            "halved",
            "killed",
            "planted",
            "not_begun",
            "not_written",
            "written_later",
            "killed_writing",
            "measured_again",
            "socket_awaited",
            "socket_again",
            "lock_again",
        ],
    ),
    ("writer", &["suspended"]),
    (
        "discarded_beside",
        &[
            "unknown_vc",
            "non_conforming",
            "buffer_full",
            "queue_full",
            "oversized",
            "crc_error",
            "closed",
            "overload",
            "reassembly_timeout",
        ],
    ),
];

/// What a run has reached, and how often.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen(BTreeMap<(&'static str, &'static str), u64>);

impl Seen {
    /// All marks, those never reached too, and what else was seen.
    pub(crate) fn marks(&self) -> Vec<Reached> {
        let all = MARKS.iter();
        let all = all.flat_map(|(group, names)| names.iter().map(move |name| (*group, *name)));
        let mut keys: Vec<_> = all.collect();
        let listed: BTreeSet<_> = keys.iter().copied().collect();
        keys.extend(self.0.keys().filter(|key| !listed.contains(key)));
        let count = |key| self.0.get(key).copied().unwrap_or(0);
        keys.iter().map(|key| (key.0, key.1, count(key))).collect()
    }

    pub(crate) fn note(&mut self, group: &'static str, name: &'static str) {
        self.add(group, name, 1);
    }

    pub(crate) fn add(&mut self, group: &'static str, name: &'static str, count: u64) {
        if count > 0 {
            *self.0.entry((group, name)).or_default() += count;
        }
    }

    /// Somebody has died while these commands were not answered.
    pub(crate) fn died(
        &mut self,
        group: &'static str,
        under_way: impl Iterator<Item = &'static str>,
    ) {
        let stages: BTreeSet<&'static str> = under_way.collect();
        stages.iter().for_each(|stage| self.note(group, stage));
        if stages.is_empty() {
            self.note(group, "nothing");
        }
    }

    pub(crate) fn has(&mut self, process: &Process) {
        for KeptVc {
            record, request, ..
        } in process.vcs.values()
        {
            let receive = request.receive.is_some_and(|receive| receive.guaranteed);
            let transmit = request
                .transmit
                .is_some_and(|transmit| transmit.rate.is_some());
            self.note(
                "has",
                match (record.permanent, record.pid, receive || transmit) {
                    (true, None, _) => "permanent_unused",
                    (true, ..) => "permanent",
                    (false, _, true) => "guaranteed",
                    (false, _, false) => "best_effort",
                },
            );
        }
    }

    /// An application hears that what it has asked for was refused.
    pub(crate) fn refused(&mut self, asked: &Asked, refused: &Refused) {
        self.note("refused", reason(refused));
        if asked.takes_offer {
            self.note("offer", "refused");
        }
        let Refused::Admission(Shortage {
            resource,
            quota,
            offer,
            ..
        }) = refused
        else {
            return;
        };
        self.note("short_of", resource_name(*resource));
        self.add("short_of", "quota", quota.is_some().into());
        self.note("offer", if offer.is_some() { "made" } else { "none" });
    }

    /// An application hears that it was carried out.
    pub(crate) fn confirmed(&mut self, asked: &Asked) {
        self.add("offer", "confirmed", asked.takes_offer.into());
        self.add("growth", "confirmed", asked.request.is_none().into());
    }

    /// What a server says without being asked.
    pub(crate) fn told(&mut self, message: &FromServer) {
        if let FromServer::Indication { indication, .. } = message {
            self.note("told", indication_name(indication));
        }
    }

    /// Best effort hears its share, before and now: of what it sends and of what it receives.
    pub(crate) fn share(&mut self, before: [Option<CellRate>; 2], now: [Option<CellRate>; 2]) {
        let names = [
            ["transmit_up", "transmit_down"],
            ["receive_up", "receive_down"],
        ];
        for ((before, now), [up, down]) in before.into_iter().zip(now).zip(names) {
            if let (Some(before), Some(now)) = (before, now) {
                self.add("share", up, (now > before).into());
                self.add("share", down, (now < before).into());
            }
        }
    }

    /// A server finds this at its adapter.
    pub(crate) fn taken_up(&mut self, taken: &[TakenUp]) {
        for one in taken {
            let Some(vc) = &one.vc else {
                self.note(
                    "taken_up",
                    match (one.client, !one.reopens.0.is_empty()) {
                        (Some(_), true) => "not_opened_again",
                        (Some(_), false) => "attached",
                        (None, _) => "attached_alone",
                    },
                );
                continue;
            };
            let record = &vc.record;
            self.add("taken_up", "opened_again_untold", record.reopened.into());
            self.note(
                "taken_up",
                match (record.permanent, record.pid, one.client) {
                    (true, None, _) => "unused",
                    (_, Some(0), _) => "given_back",
                    (_, _, Some(_)) => "used",
                    (_, _, None) => "left",
                },
            );
        }
    }

    /// An application asks a new server for what the one before has not confirmed.
    pub(crate) fn asked_again(&mut self, asked: &Asked) {
        self.note(
            "asked_again",
            match &asked.request {
                None => "accept",
                Some(Request::Open(_)) => "open",
                Some(Request::Take { .. }) => "take",
                Some(Request::Reattach { .. }) => "reattach",
                Some(Request::Modify { .. }) => "modify",
                Some(Request::Close) => "close",
                Some(Request::Add(_)) => "add",
                Some(Request::Delete { .. }) => "delete",
                Some(Request::Hello { .. }) => "hello",
                Some(_) => "another",
            },
        );
    }
}

/// What a command is for.
pub(crate) fn stage(ask: &AdapterAsk) -> &'static str {
    let (ask, record) = match ask {
        AdapterAsk::Keeper(ask, record) => (ask, record.as_deref()),
        AdapterAsk::Link { .. } => return "link",
        AdapterAsk::Unlink { .. } => return "unlink",
    };
    match (ask, record) {
        (Ask::Attach { .. }, _) => "attach",
        (Ask::Detach { .. }, _) => "detach",
        (Ask::Open { .. }, Some(record)) if record.reopened => "open_again",
        (Ask::Open { .. }, Some(record)) if record.permanent => "open_permanent",
        (Ask::Open { .. }, _) => "open",
        // Whoever gave it back is no process.
        (Ask::Modify { .. }, Some(record)) if record.pid == Some(0) => "renew",
        (
            Ask::Modify {
                region: Some(_), ..
            },
            _,
        ) => "new_memory",
        (Ask::Modify { .. }, _) => "modify",
        (Ask::Reattach { .. }, Some(record)) if record.pid.is_none() => "give_back",
        (Ask::Reattach { .. }, _) => "hand_over",
        (Ask::Close { .. }, _) => "close",
        (Ask::Lease { .. }, _) => "lease",
        (Ask::Loopback { .. }, _) => "ping",
        _ => "other",
    }
}

fn reason(refused: &Refused) -> &'static str {
    match refused {
        Refused::Admission(_) => "admission",
        Refused::Contract { .. } => "contract",
        Refused::Unsupported(_) => "unsupported",
        Refused::BadMessage(_) => "bad_message",
        Refused::HelloFirst => "hello_first",
        Refused::Version { .. } => "version",
        Refused::Descriptors(_) => "descriptors",
        Refused::Occupied => "occupied",
        Refused::NoConnection => "no_connection",
        Refused::NotFound => "not_found",
        Refused::NotPermanent => "not_permanent",
        Refused::InUse => "in_use",
        Refused::NotPermitted => "not_permitted",
        Refused::NoInterface => "no_interface",
        Refused::InterfaceUnnamed { .. } => "interface_unnamed",
        Refused::NotCarried { .. } => "not_carried",
        Refused::VpiTooLarge { .. } => "vpi_too_large",
        Refused::Interface(_) => "interface",
        Refused::InterfaceInUse { .. } => "interface_in_use",
        Refused::AddressInUse => "address_in_use",
        Refused::Reserved { .. } => "reserved",
        Refused::AddressBlocks { .. } => "address_blocks",
        Refused::Adapter(_) => "adapter",
        Refused::LeftOut { .. } => "left_out",
        Refused::PagesTaken { .. } => "pages_taken",
        Refused::AdapterAway => "adapter_away",
        Refused::Kernel(_) => "kernel",
        Refused::NoReturn => "no_return",
        Refused::Full { .. } => "full",
        Refused::TooMany => "too_many",
    }
}

fn resource_name(resource: Resource) -> &'static str {
    match resource {
        Resource::TransmitBandwidth => "transmit_bandwidth",
        Resource::ReceiveBandwidth => "receive_bandwidth",
        Resource::AdapterCpu => "adapter_cpu",
        Resource::WorkerCpu => "worker_cpu",
        Resource::Memory => "memory",
        Resource::Connections => "connections",
    }
}

fn indication_name(indication: &Indication) -> &'static str {
    match indication {
        Indication::Ended(EndReason::Deleted) => "ended_deleted",
        Indication::Ended(EndReason::InterfaceRemoved) => "ended_interface_removed",
        Indication::Ended(EndReason::TakenOver) => "ended_taken_over",
        Indication::Ended(EndReason::NotReopened) => "ended_not_reopened",
        Indication::Ended(EndReason::ShuttingDown) => "ended_shutting_down",
        Indication::Ended(EndReason::PagesTaken) => "ended_pages_taken",
        Indication::Ended(EndReason::BufferGone) => "ended_buffer_gone",
        Indication::Reopened(_) => "reopened",
        Indication::Share { .. } => "share",
        Indication::AtRisk { .. } => "at_risk",
        Indication::CanGrow { .. } => "can_grow",
        Indication::Losing { .. } => "losing",
        Indication::Rate { .. } => "rate",
        Indication::Restarted => "restarted",
        Indication::Connection { change, .. } => match change {
            Change::Added => "connection_added",
            Change::Changed => "connection_changed",
            Change::Removed => "connection_removed",
        },
        Indication::Interface { change, .. } => match change {
            Change::Added => "interface_added",
            Change::Changed => "interface_changed",
            Change::Removed => "interface_removed",
        },
    }
}
