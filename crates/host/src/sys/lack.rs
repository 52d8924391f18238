//! What a thread or process may not have, what is lost without it, and what gives it: the texts of
//! the daemon's start, of `cellgate stats` and of `cellgate doctor`.

use std::fmt::Display;
use std::io;

/// Something that a thread or process lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lack {
    /// The adapter's nice value.
    Nice,
    /// That of its session, where the kernel shares CPUs out by sessions.
    Session,
    /// A class or nice value of the daemon's threads.
    RealTime,
    /// CPU time that the kernel keeps for a worker.
    Reservation,
    /// A CPU for the adapter's thread alone, as the configuration wants it.
    Unpinned,
    /// A CPU beside the adapter's.
    OneCpu,
    /// The CPU that the adapter is to be pinned to.
    Cpu,
    /// Memory that stays in place.
    Memory,
    /// Network devices to measure Linux's TCP/IP with.
    Devices,
}

impl Lack {
    /// All there are.
    pub const ALL: [Self; 9] = [
        Self::Nice,
        Self::Session,
        Self::RealTime,
        Self::Reservation,
        Self::Unpinned,
        Self::OneCpu,
        Self::Cpu,
        Self::Memory,
        Self::Devices,
    ];

    /// What is lost.
    pub const fn lost(self) -> &'static str {
        match self {
            Self::Nice => "other programs on the adapter's CPU make PDUs late",
            Self::Session => "programs of other sessions on the adapter's CPU make PDUs late",
            Self::RealTime => "other programs make wake-ups and answers to applications late",
            Self::Reservation => "other real-time threads make a guaranteed worker late",
            Self::Unpinned => "no thread of the daemon is real-time, and wake-ups are late",
            Self::OneCpu => "adapter, daemon and applications take turns, and all of them are late",
            Self::Cpu => "the adapter moves from CPU to CPU, and PDUs are late",
            Self::Memory => "PDUs are late when the kernel has taken the adapter's memory away",
            Self::Devices => "more network devices are admitted than the workers can carry in time",
        }
    }

    /// What gives it.
    pub const fn cure(self) -> &'static str {
        match self {
            Self::Nice | Self::Session => {
                "LimitNICE=-20 in the unit (docs/systemd), or setcap \
                 cap_sys_nice,cap_ipc_lock+ep \"$(command -v cellgate)\""
            }
            Self::RealTime => {
                "LimitNICE=-20 and LimitRTPRIO=40 in the unit (docs/systemd), or setcap \
                 cap_sys_nice,cap_ipc_lock+ep \"$(command -v cellgate)\""
            }
            Self::Memory => {
                "LimitMEMLOCK=infinity in the unit (docs/systemd), or setcap \
                 cap_sys_nice,cap_ipc_lock+ep \"$(command -v cellgate)\""
            }
            Self::Reservation => {
                "isolcpus=N for the kernel and cpu = N in [adapter], with AmbientCapabilities=\
                 CAP_SYS_NICE in the unit (docs/systemd)"
            }
            Self::Devices => {
                "start it once as root, or with the drop-in of docs/server.md (systemd)"
            }
            Self::Unpinned => "pin = true in [adapter]",
            Self::OneCpu => "give the machine, or AllowedCPUs= of the unit, a second CPU",
            Self::Cpu => {
                "name another cpu in [adapter], or allow this one: AllowedCPUs= in the unit"
            }
        }
    }

    /// A note: `what` is not to be had, so that ...; and what gives it.
    pub fn note(self, what: impl Display) -> String {
        format!("{what}: {}; {}", self.lost(), self.cure())
    }

    /// The same where the kernel has refused it; what is no matter of rights is told as it is.
    pub fn refused(self, what: impl Display, error: impl Into<io::Error>) -> String {
        let error = error.into();
        let invalid = self == Self::Cpu && error.kind() == io::ErrorKind::InvalidInput;
        // Whoever may not lock as much is told that there is no memory; who may not have a
        // reservation, that there is no time.
        let full = match self {
            Self::Memory => error.kind() == io::ErrorKind::OutOfMemory,
            Self::Reservation => error.kind() == io::ErrorKind::ResourceBusy,
            _ => false,
        };
        match error.kind() == io::ErrorKind::PermissionDenied || invalid || full {
            true => self.note(what),
            false => self.note(format!("{what} ({})", plain(&error))),
        }
    }

    /// What a note says, and what it is that is missing.
    pub fn of_note(note: &str) -> Option<(Self, &str)> {
        let of = |lack: Self| {
            let (what, _) = note.split_once(&format!(": {}; ", lack.lost()))?;
            Some((lack, what))
        };
        Self::ALL.into_iter().find_map(of)
    }

    /// Notes in their order, but what is lost and cured alike in one, at the place of the first.
    pub fn together<'a>(notes: impl IntoIterator<Item = &'a String>) -> Vec<String> {
        let mut all: Vec<(Option<Self>, String)> = Vec::new();
        for note in notes {
            let of = Self::of_note(note);
            let lack = of.map(|(lack, _)| lack);
            let what = of.map_or(note.as_str(), |(_, what)| what);
            match all.iter_mut().find(|(of, _)| of.is_some() && *of == lack) {
                Some((_, text)) => *text += &format!(", {what}"),
                None => all.push((lack, what.to_owned())),
            }
        }
        let told = |(lack, what): (Option<Self>, String)| match lack {
            Some(lack) => lack.note(what),
            None => what,
        };
        all.into_iter().map(told).collect()
    }
}

/// An error in words, without its number.
pub fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((words, _)) => words.to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_says_what_is_lost_and_what_gives_it_and_no_number_of_an_error() {
        for lack in Lack::ALL {
            let denied = io::Error::from_raw_os_error(libc::EPERM);
            let note = lack.refused("this", denied);
            assert_eq!(note, lack.note("this"));
            assert!(
                note.starts_with(&format!("this: {}", lack.lost())),
                "{note}"
            );
            assert!(note.ends_with(lack.cure()), "{note}");
            assert_eq!(Lack::of_note(&note), Some((lack, "this")));
            let threads = format!("service: {note}");
            assert_eq!(Lack::of_note(&threads), Some((lack, "service: this")));
            let odd = lack.refused("this", io::Error::from_raw_os_error(libc::ENOSYS));
            assert!(
                odd.starts_with("this (Function not implemented): "),
                "{odd}"
            );
            assert_eq!(Lack::of_note(&odd).map(|(lack, _)| lack), Some(lack));
            assert!(!format!("{note}{odd}").contains("os error"));
        }
        let locked = Lack::Memory.refused("x", io::Error::from_raw_os_error(libc::ENOMEM));
        assert_eq!(locked, Lack::Memory.note("x"));
        for other in ["", ": ", "service: hello", "a: b: c"] {
            assert_eq!(Lack::of_note(other), None);
        }
        let notes = [
            "service: full".to_owned(),
            Lack::Nice.note("a"),
            Lack::Memory.note("b"),
            Lack::Nice.note("service: c"),
            "service: full".to_owned(),
        ];
        let together = Lack::together(&notes);
        assert_eq!(together[1], Lack::Nice.note("a, service: c"));
        assert_eq!(
            [&together[0], &together[2], &together[3]],
            [&notes[0], &notes[2], &notes[4]]
        );
        assert_eq!(plain(&io::Error::other("no room")), "no room");
    }
}
