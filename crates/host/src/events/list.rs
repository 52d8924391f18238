//! The list of all events: a name that stays, a priority, fields, and what it means.

use std::fmt;

/// The urgency of an event: those priorities of syslog and of the journal that are in use here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// Something that was promised is not kept, or cannot be.
    Err,
    /// Somebody should look, before something is not kept.
    Warning,
    /// As it should be.
    Info,
}

/// A field that an event may have beside its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Field {
    /// An adapter, by its name; the only one of a daemon has none.
    Adapter,
    /// A connection, by its address.
    Address,
    /// A number of things.
    Count,
    /// A network device, by its name.
    Device,
    /// An interface, by its name.
    Interface,
    /// A file or directory.
    Path,
    /// A process, by its number.
    Process,
    /// Why.
    Reason,
    /// A resource of admission.
    Resource,
    /// A section of the configuration.
    Section,
    /// The event that another one is about.
    Subject,
    /// A thread, by its name.
    Thread,
    /// A user, by its number.
    User,
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Err => "err",
            Self::Warning => "warning",
            Self::Info => "info",
        })
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Adapter => "adapter",
            Self::Address => "address",
            Self::Count => "count",
            Self::Device => "device",
            Self::Interface => "interface",
            Self::Path => "path",
            Self::Process => "process",
            Self::Reason => "reason",
            Self::Resource => "resource",
            Self::Section => "section",
            Self::Subject => "subject",
            Self::Thread => "thread",
            Self::User => "user",
        })
    }
}

/// Whether somebody else than the daemon and its operator decides how often an event happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Often {
    /// The daemon, its configuration.
    Own,
    /// Clients, lines, other programs: its rate is bounded.
    Others,
}

macro_rules! events {
    ($($kind:ident = $name:literal, $priority:ident, $often:ident,
       [$($field:ident),*], $meaning:literal;)*) => {
        /// The events that there are.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Kind {
            $(#[doc = $meaning] $kind,)*
        }

        impl Kind {
            /// All there are, by name.
            pub const ALL: &[Self] = &[$(Self::$kind),*];

            /// Its name, which stays.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)* }
            }

            /// Its urgency.
            pub const fn priority(self) -> Priority {
                match self { $(Self::$kind => Priority::$priority,)* }
            }

            /// The fields that it may have beside its text.
            pub const fn fields(self) -> &'static [Field] {
                match self { $(Self::$kind => &[$(Field::$field),*],)* }
            }

            /// Its meaning, for people.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$kind => $meaning,)* }
            }

            const fn often(self) -> Often {
                match self { $(Self::$kind => Often::$often,)* }
            }

            /// The variant's name in the source.
            #[cfg(test)]
            pub(super) const fn variant(self) -> &'static str {
                match self { $(Self::$kind => stringify!($kind),)* }
            }
        }
    };
}

impl Kind {
    /// Whether its rate is bounded: others decide how often it happens.
    pub const fn is_bounded(self) -> bool {
        matches!(self.often(), Often::Others)
    }
}

events! {
    AdapterFailed = "adapter_failed", Err, Own, [Reason],
        "The adapter's process ends by itself; it says why.";
    AdapterLeftUseless = "adapter_left_useless", Warning, Own, [Adapter, Reason],
        "A former daemon's adapter cannot be taken up; a new one is started in its place.";
    AdapterLost = "adapter_lost", Err, Others, [Adapter, Reason],
        "An adapter's process is gone; no connection of it carries anything.";
    AdapterNotStarted = "adapter_not_started", Err, Own, [Adapter, Reason],
        "An adapter's process cannot be started; the daemon tries again after five seconds.";
    AdapterReady = "adapter_ready", Info, Own, [Adapter, Process],
        "A new adapter runs; its text tells how it is scheduled.";
    AdapterSilent = "adapter_silent", Err, Others, [Adapter, Count],
        "An adapter has left questions unanswered for so many milliseconds; it is killed.";
    AdapterTakenUp = "adapter_taken_up", Info, Own, [Adapter, Count, Process],
        "A former daemon's adapter, with so many VCs, belongs to this daemon.";
    CellsDiscarded = "cells_discarded", Warning, Others, [Count, Interface, Reason],
        "An interface has discarded cells or datagrams for a reason, so many by now.";
    ConfiguredRefused = "configured_refused", Err, Own, [Address, Interface, Reason],
        "An interface or connection cannot be made, changed or removed as it is configured.";
    ConfiguredThere = "configured_there", Info, Own, [Address, Interface],
        "An interface or connection that was refused is there after all.";
    ConnectionLeftOut = "connection_left_out", Err, Others, [Address, Reason, User],
        "Adapters died of a connection again and again; it is not opened again.";
    CpuAlone = "cpu_alone", Info, Others, [Adapter],
        "No other adapter uses the adapter's CPU any more.";
    CpuShared = "cpu_shared", Warning, Others, [Adapter, Reason],
        "Another program's adapter uses the adapter's CPU.";
    DescriptorsFit = "descriptors_fit", Info, Own, [],
        "How many connections and devices the limit on descriptors has room for.";
    DeviceEnded = "device_ended", Warning, Others, [Device, Reason],
        "A network device has ended, though nobody has removed it.";
    InterfaceCannotSend = "interface_cannot_send", Warning, Others, [Interface, Reason],
        "The kernel refuses datagrams of an interface.";
    InterfaceNoLink = "interface_no_link", Warning, Others, [Interface, Reason],
        "An interface has no link.";
    InterfaceSends = "interface_sends", Info, Others, [Interface],
        "An interface can send again.";
    InterfaceUp = "interface_up", Info, Others, [Interface],
        "An interface has its link again.";
    LeftoverEnded = "leftover_ended", Info, Own, [Path],
        "A former daemon's adapter is ended: the configuration has none of its name.";
    LinesLost = "lines_lost", Warning, Others, [Count],
        "So many events were not read in time and are lost here.";
    Listening = "listening", Info, Own, [Path],
        "Applications find the daemon at this socket.";
    MemoryLocked = "memory_locked", Info, Others, [],
        "The memory of all connections is locked again.";
    MemoryUnlocked = "memory_unlocked", Warning, Others, [Count, Reason],
        "So many octets of connections' memory are not locked.";
    PagesTaken = "pages_taken", Warning, Others, [Count, User],
        "A user took pages of shared memory away; so many connections of that user are ended.";
    PlaceGone = "place_gone", Err, Others, [Reason],
        "A file or directory of the daemon is gone or cannot be written.";
    PlaceMadeAgain = "place_made_again", Warning, Others, [Path],
        "A file or directory of the daemon was gone and is made again.";
    PlacesWell = "places_well", Info, Others, [],
        "The daemon's files and directories are as they should be again.";
    PromiseAsConfigured = "promise_as_configured", Info, Others, [Adapter, Count, Resource],
        "The machine has room for all of a resource that the configuration wants to promise.";
    PromiseBounded = "promise_bounded", Warning, Others, [Adapter, Count, Reason, Resource],
        "A limit of the machine leaves less of a resource to promise than is configured.";
    Ready = "ready", Info, Own, [],
        "The configuration is brought about as far as it can be; applications are let in.";
    ReloadRefused = "reload_refused", Err, Own, [Path, Reason],
        "The configuration cannot be used; the daemon keeps the one it has.";
    ReloadWithoutFile = "reload_without_file", Warning, Own, [],
        "The daemon was asked to read a configuration again, and has no file.";
    SectionFixed = "section_fixed", Warning, Own, [Section],
        "A changed section of the configuration takes effect at the next start only.";
    ServeFailed = "serve_failed", Err, Own, [Reason],
        "The daemon does not start, or ends by itself.";
    Suppressed = "suppressed", Warning, Own, [Count, Subject],
        "So many more events of this name have happened and were not told one by one.";
    TcpCostUnknown = "tcp_cost_unknown", Warning, Own, [Reason],
        "The cost of Linux's TCP/IP is not measured.";
    ThreadScheduled = "thread_scheduled", Info, Own, [Thread],
        "How a thread of the daemon is scheduled.";
    WorkerScheduled = "worker_scheduled", Info, Others, [Address],
        "How the thread of a network device is scheduled.";
}
