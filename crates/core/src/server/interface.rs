use core::net::IpAddr;
use core::str::FromStr;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Refused;
use crate::adapter::{PortIndex, PortStats};
use crate::contract::CellRate;
use crate::keeper::Link;
use crate::line::{LineCounts, LineSpec};
use crate::wire::{CellFormat, HeaderForm, VpiVci};

/// When an adapter takes the cells of an interface. Each has its budget in each step, whatever
/// comes on others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Priority {
    /// After those that are real-time.
    #[default]
    Normal,
    /// Before others.
    RealTime,
}

impl Priority {
    const ALL: [Self; 2] = [Self::Normal, Self::RealTime];

    /// Its word, in a configuration and a command.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::RealTime => "real-time",
        }
    }

    fn is_normal(&self) -> bool {
        *self == Self::Normal
    }
}

impl FromStr for Priority {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut all = Self::ALL.into_iter();
        let found = all.find(|priority| priority.word() == text);
        found.ok_or_else(|| format!("`{text}` is no priority: normal or real-time"))
    }
}

/// An interface to add: a link on a port of the adapter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InterfaceSpec {
    /// Its name ([`super::Address::is_interface_name`]).
    pub name: String,
    /// The name of the adapter whose port it takes; none: the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapter: Option<String>,
    /// What carries its cells.
    pub link: Link,
    /// Of its cells: a UNI's have a GFC, and VPIs from 0 to 255.
    #[serde(default, skip_serializing_if = "HeaderForm::is_nni")]
    pub form: HeaderForm,
    /// Before or after other interfaces of its adapter.
    #[serde(default, skip_serializing_if = "Priority::is_normal")]
    pub priority: Priority,
    /// Cells/s that it can send and receive; none: 353,207, an OC-3c.
    #[serde(default)]
    pub line_rate: Option<CellRate>,
    /// How the line is impaired on which its cells arrive; none: it is clean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<Box<LineSpec>>,
}

impl InterfaceSpec {
    /// What no machine can have of it, if anything, and the key that says so.
    pub fn mistake(&self) -> Option<(&'static str, String)> {
        if let Some(mistake) = self.link.mistake() {
            return Some(("link", mistake));
        }
        let uni = matches!(self.link, Link::Udp(_)) && self.form == HeaderForm::Uni;
        // RFC 4717: the VPI of a cell in a packet has 12 bits, in all modes that send one.
        let why = "a pseudowire's cells have VPIs of 12 bits and no GFC: `form = \"nni\"`, or none";
        uni.then(|| ("form", why.to_owned()))
    }

    /// Why it carries no cells of this VC, if it does not.
    pub fn bars(&self, vc: VpiVci) -> Option<Refused> {
        if vc.vpi() > self.form.vpi_max() {
            return Some(Refused::VpiTooLarge { vpi: vc.vpi() });
        }
        let carried = self.link.bars(vc)?;
        Some(Refused::NotCarried { carried })
    }

    /// Cells on its link: those of a UNI have a HEC, which their receiver judges.
    pub const fn format(&self) -> CellFormat {
        match self.form {
            HeaderForm::Uni => CellFormat::WithHec,
            HeaderForm::Nni => CellFormat::NoHec,
        }
    }

    /// Whether the other end of a memory link speaks another form; that is told.
    pub fn differs(&self, peer: &Self) -> Option<String> {
        let (name, theirs, ours) = (&peer.name, peer.form.name(), self.form.name());
        (self.form != peer.form)
            .then(|| format!("its peer {name} is {theirs}, this one {ours}: give both one `form`"))
    }
}

/// An interface as the list shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InterfaceInfo {
    /// As it was added.
    pub spec: InterfaceSpec,
    /// The adapter's port.
    pub port: PortIndex,
    /// Whether its link is there: the peer of a memory link is added, or another server's is met, a
    /// pseudowire has its sockets.
    pub up: bool,
    /// Connections on it.
    pub connections: u32,
    /// Cells that its queue to the adapter had no room for.
    pub dropped_cells: u64,
    /// What it carries, beyond having a link.
    #[serde(default)]
    pub state: InterfaceState,
    /// What was thrown away of what came, and could not be sent, since the adapter began.
    #[serde(default)]
    pub counts: InterfaceCounts,
}

/// How an interface does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum InterfaceState {
    /// Its link is not there.
    #[default]
    Down,
    /// It carries cells, as far as this end can know.
    Up,
    /// A pseudowire whose peer has sent nothing for a while, or a memory link to another server
    /// whose other end is nobody's.
    NoPeer {
        /// For how long, in nanoseconds; none: never since the link was made.
        silent_ns: Option<u64>,
    },
    /// A pseudowire whose datagrams the kernel refuses, or has refused within a second of the last
    /// one that it took.
    CannotSend {
        /// Why, in the kernel's words.
        reason: String,
    },
    /// A memory link to another server that more keeps apart than that nobody is there.
    NoLink { reason: String },
}

/// What an interface has thrown away, or could not send.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InterfaceCounts {
    /// Cells of no VC.
    pub cells: PortStats,
    /// Of a pseudowire: its datagrams.
    #[serde(default)]
    pub datagrams: Option<DatagramCounts>,
    /// Of an impaired line: what it has done since it was set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<LineCounts>,
}

/// What became of a pseudowire's datagrams.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatagramCounts {
    /// Received, with cells in them.
    pub received: u64,
    /// Not from the peer's address.
    pub wrong_source: u64,
    /// Without a label stack.
    pub bad_stack: u64,
    /// With the label of something else.
    pub wrong_label: u64,
    /// With a control word that is none, or whose length is wrong.
    pub bad_control_word: u64,
    /// No whole number of cells, or none, or of another mode.
    pub bad_length: u64,
    /// Older than one that came before.
    pub out_of_order: u64,
    /// Numbers that none had: sequence gaps.
    pub missing: u64,
    /// That found the socket's queue full.
    pub overflows: u64,
    pub sent: u64,
    /// Refused by the kernel on their way out, by its error number (`errno`).
    pub refused: BTreeMap<i32, u64>,
    /// Nanoseconds since the last that had cells in it came; none: none has come.
    pub silent_ns: Option<u64>,
    /// Who was refused last for not being the peer.
    pub last_refused: Option<IpAddr>,
}

/// One way in which an interface loses what it should carry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The reason's name.
    pub reason: &'static str,
    /// Cells or datagrams.
    pub unit: &'static str,
    pub count: u64,
    /// The last one's address, or the errors that there were.
    pub detail: Option<String>,
}

impl Loss {
    /// Whether something was lost. Idle cells are no loss: nobody sent anything.
    pub fn is_met(&self) -> bool {
        self.count > 0 && self.reason != "idle"
    }
}

impl core::fmt::Display for Loss {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self {
            reason,
            unit,
            count,
            detail,
        } = self;
        write!(f, "{reason}: {count} {unit}")?;
        detail.iter().try_for_each(|detail| write!(f, ", {detail}"))
    }
}

impl DatagramCounts {
    /// The kernel's error numbers, with how many datagrams met each.
    fn errors(&self) -> Option<String> {
        let each = self.refused.iter();
        let each: Vec<String> = each
            .map(|(errno, count)| format!("{count} with error {errno}"))
            .collect();
        (!each.is_empty()).then(|| each.join(", "))
    }
}

impl InterfaceCounts {
    /// Every way in which something can be lost here, those that were not met, too.
    pub fn losses(&self) -> Vec<Loss> {
        let loss = |reason, unit, count| Loss {
            reason,
            unit,
            count,
            detail: None,
        };
        let cells = &self.cells;
        let last = cells.last_unknown.map(|vc| format!("last {vc}"));
        let mut all = vec![
            Loss {
                detail: last,
                ..loss("unknown_vc", "cells", cells.unknown_vc)
            },
            loss("hec_error", "cells", cells.hec_error),
            loss("idle", "cells", cells.idle),
        ];
        let Some(of) = &self.datagrams else {
            return all;
        };
        let datagrams = |reason, count| loss(reason, "datagrams", count);
        all.extend([
            Loss {
                detail: of.last_refused.map(|peer| format!("last {peer}")),
                ..datagrams("wrong_source", of.wrong_source)
            },
            datagrams("bad_stack", of.bad_stack),
            datagrams("wrong_label", of.wrong_label),
            datagrams("bad_control_word", of.bad_control_word),
            datagrams("bad_length", of.bad_length),
            datagrams("out_of_order", of.out_of_order),
            datagrams("missing", of.missing),
            datagrams("overflow", of.overflows),
            Loss {
                detail: of.errors(),
                ..datagrams("not_sent", of.refused.values().sum())
            },
        ]);
        all
    }
}

impl core::fmt::Display for InterfaceState {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Down => write!(f, "down"),
            Self::Up => write!(f, "up"),
            Self::NoPeer { silent_ns: None } => write!(f, "no peer seen"),
            Self::NoPeer {
                silent_ns: Some(ns),
            } => write!(f, "no peer seen for {} s", ns / 1_000_000_000),
            Self::CannotSend { reason } => write!(f, "cannot send: {reason}"),
            Self::NoLink { reason } => write!(f, "no link: {reason}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_datagrams_are_told_by_error() {
        let refused = [(90, 46), (101, 3)].into();
        let datagrams = DatagramCounts {
            refused,
            ..DatagramCounts::default()
        };
        let counts = InterfaceCounts {
            datagrams: Some(datagrams),
            ..InterfaceCounts::default()
        };
        let told = counts.losses().last().map(Loss::to_string);
        let wanted = "not_sent: 49 datagrams, 46 with error 90, 3 with error 101";
        assert_eq!(told.as_deref(), Some(wanted));
    }
}
