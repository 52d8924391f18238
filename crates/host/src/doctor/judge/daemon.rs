//! The daemon, its adapter, their versions and places.

use cellgate_core::server::VERSION;

use crate::control::VERSION as ADAPTER_VERSION;
use crate::doctor::ask::{Daemon, Left};
use crate::doctor::facts::hides_places;
use crate::doctor::{Facts, Finding, Level};
use crate::sys::Lack;

use super::processes;

const RESTART: &str = "when all connections may end: systemctl restart cellgate";
const REPLACE: &str = "ends the daemon alone; then start the new one, which takes all up";

pub(super) fn answers(facts: &Facts) -> Vec<Finding> {
    const SUBJECT: &str = "daemon";
    let none = "no application can open a connection";
    vec![match &facts.daemon {
        Daemon::There(said) => {
            Finding::ok(SUBJECT, format!("{}, process {}", said.server, said.pid))
        }
        // How the machine does for one that is to come is what is asked then.
        Daemon::None => Finding::ok(SUBJECT, "none: what follows is what one would meet"),
        Daemon::Silent => Finding::new(
            Level::Fail,
            SUBJECT,
            "there is one that does not answer",
            none,
            "kill -CONT it if it is stopped, else kill -9 it and start another",
        ),
        Daemon::Closed => Finding::new(
            Level::Fail,
            SUBJECT,
            "there is one that does not let this user in",
            none,
            "usermod -aG cellgate USER, or socket_mode and socket_group in [server]",
        ),
        Daemon::Version(speaks) => Finding::new(
            Level::Fail,
            SUBJECT,
            format!("it speaks version {speaks} of the protocol, this command {VERSION}"),
            none,
            format!("use its own command, or {RESTART}"),
        ),
    }]
}

pub(super) fn versions(facts: &Facts) -> Vec<Finding> {
    const SUBJECT: &str = "versions";
    let mut found = Vec::new();
    let own = format!("cellgate {}", facts.version);
    if let Some(said) = facts.daemon.said() {
        if said.server == own {
            found.push(Finding::ok(
                SUBJECT,
                format!("command and daemon are {own}"),
            ));
        } else {
            let text = format!("the command is {own}, the daemon {}", said.server);
            let promise = "what this command says and does is another version's";
            let cure = format!("kill -USR1 {} {REPLACE}", said.pid);
            found.push(Finding::new(Level::Warn, SUBJECT, text, promise, cure));
        }
    }
    if let Left::Version(speaks) = facts.left {
        let text = format!(
            "the adapter speaks version {speaks} of its protocol, this program {ADAPTER_VERSION}"
        );
        let promise = "a daemon of this version ends the adapter, and connections begin anew";
        let cure = match facts.daemon {
            Daemon::None => {
                "start the daemon with the program that the adapter was started with".to_owned()
            }
            // An upgrade that could not take it up has left all running.
            _ => format!("leave it running, and {RESTART}"),
        };
        found.push(Finding::new(Level::Warn, SUBJECT, text, promise, cure));
    }
    found
}

pub(super) fn programs(facts: &Facts) -> Vec<Finding> {
    let Some(own) = facts.adapters.own().filter(|own| own.replaced) else {
        return Vec::new();
    };
    let text = format!(
        "adapter {} runs a program whose file has been replaced",
        own.pid
    );
    let promise = "what the new one promises holds from the next adapter on";
    let cure = "systemctl restart cellgate, which ends all connections";
    vec![Finding::new(Level::Note, "versions", text, promise, cure)]
}

pub(super) fn orphans(facts: &Facts) -> Vec<Finding> {
    const SUBJECT: &str = "orphans";
    let promise = "its applications open and change nothing, and it takes CPU time and memory";
    let mut left = Vec::new();
    let mut found = Vec::new();
    let own = match (&facts.left, &facts.daemon) {
        (Left::There(hello), Daemon::None) if hello.governor.is_none() => Some(hello.pid),
        _ => None,
    };
    if let Some(pid) = own {
        let text = format!("adapter {pid} of {} has no daemon", facts.places.directory);
        let cure = format!("cellgate serve takes it up; kill {pid} ends it");
        found.push(Finding::new(Level::Warn, SUBJECT, text, promise, cure));
    }
    left.extend(
        facts
            .adapters
            .0
            .iter()
            .filter(|one| one.orphan)
            .map(|one| one.pid),
    );
    left.retain(|pid| Some(*pid) != own);
    if !left.is_empty() {
        let pids = processes(&left);
        let text = format!("adapter {pids} has no daemon, as far as can be seen");
        let cure =
            format!("cellgate serve -c with its configuration takes it up; kill {pids} ends it");
        found.push(Finding::new(Level::Warn, SUBJECT, text, promise, cure));
    }
    if found.is_empty() {
        found.push(Finding::ok(
            SUBJECT,
            "no adapter without a daemon, as far as can be seen",
        ));
    }
    found
}

/// What a daemon says of itself, and is told nowhere else.
pub(super) fn notes(facts: &Facts) -> Vec<Finding> {
    let notes = facts.daemon.said().map(|said| said.notes.as_slice());
    let notes = notes.unwrap_or_default().iter();
    let other = notes.filter(|note| Lack::of_note(note).is_none() && !note.contains("can be seen"));
    let told = |note: &String| {
        let promise = "what the configuration asks for is not there, or not kept";
        Finding::new(
            Level::Warn,
            "daemon",
            note,
            promise,
            "cellgate stats tells when it is over",
        )
    };
    other.map(told).collect()
}

pub(super) fn places(facts: &Facts) -> Vec<Finding> {
    const SUBJECT: &str = "state_directory";
    let promise = "no daemon starts";
    if hides_places(&facts.daemon) {
        return Vec::new();
    }
    let places = &facts.places;
    let directory = &places.directory;
    let fail = |text: String, cure: String| Finding::new(Level::Fail, SUBJECT, text, promise, cure);
    let mut found = Vec::new();
    if facts.daemon == Daemon::None {
        if let Some(uid) = places.owner {
            let text = format!("{directory} is user {uid}'s");
            let me = facts.rights.uid;
            let cure = format!("chown {me} {directory}, or name another state_dir in [server]");
            found.push(fail(text, cure));
        }
        if let Some(closed) = &places.closed {
            let text = format!("{directory} cannot be used: this user may not write {closed}");
            let cure = "start as another user, or name another state_dir in [server]";
            found.push(fail(text, cure.to_owned()));
        }
        if let Some(pid) = places.holder {
            let text = format!("server {pid} has {directory}");
            let cure = format!("end it (kill {pid}), or name another state_dir in [server]");
            found.push(fail(text, cure));
        }
    }
    for note in &places.notes {
        // Each says what is wrong, and most say what to do.
        let other = "name another in [server], or start as another user";
        let (text, cure) = match (note.split_once(" (os error"), note.rsplit_once(": ")) {
            (Some((text, _)), _) => (text, other),
            (None, Some(parts)) => parts,
            (None, None) => (note.as_str(), other),
        };
        found.push(match note.contains("octets left") {
            true => Finding::new(
                Level::Warn,
                SUBJECT,
                note,
                "each start measures the machine anew, and what it measures is not kept",
                format!("make room in {directory}"),
            ),
            false => fail(text.to_owned(), cure.to_owned()),
        });
    }
    if found.is_empty() {
        found.push(Finding::ok(SUBJECT, directory));
    }
    found
}

pub(super) fn users(facts: &Facts) -> Vec<Finding> {
    let Some(unknown) = &facts.places.unknown else {
        return Vec::new();
    };
    let cure = "systemd-sysusers makes that of docs/systemd; or name another in [server]";
    let text = format!("there is no {unknown}");
    vec![Finding::new(
        Level::Fail,
        "users",
        text,
        "no daemon starts",
        cure,
    )]
}
