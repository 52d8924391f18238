//! What the daemon gives up once it has its socket.

use std::fs;
use std::io;

use rustix::process::{Gid, Uid, geteuid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, configure_capability_in_ambient_set, set_capabilities,
    set_keep_capabilities, set_no_new_privs, set_thread_groups, set_thread_res_gid,
    set_thread_res_uid,
};

/// What the adapter's process needs of root: its nice value and its memory in place.
const KEPT: CapabilitySet = CapabilitySet::SYS_NICE.union(CapabilitySet::IPC_LOCK);

/// The number of a group, by name (`/etc/group`) or number.
pub(super) fn group(name: &str) -> io::Result<u32> {
    match name.parse() {
        Ok(number) => Ok(number),
        Err(_) => Ok(entry("/etc/group", |fields| fields[0] == name)?.0),
    }
}

/// A user and its group, by name or number (`/etc/passwd`).
pub(super) fn user(name: &str) -> io::Result<(u32, u32)> {
    let found = entry("/etc/passwd", |fields| {
        fields[0] == name || fields[2] == name
    });
    match (found, name.parse()) {
        (Err(_), Ok(number)) => Ok((number, number)),
        (found, _) => found,
    }
}

/// The two numbers of the entry that `is` the one looked for; a group has but the first.
fn entry(path: &str, is: impl Fn(&[&str]) -> bool) -> io::Result<(u32, u32)> {
    let text = fs::read_to_string(path)?;
    let mut entries = text.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let found = entries.find(|fields| fields.len() >= 4 && is(fields));
    let found = found.ok_or_else(|| io::Error::other(format!("no such entry in {path}")))?;
    let number = |field: &str| field.parse().map_err(io::Error::other);
    Ok((number(found[2])?, number(found[3]).unwrap_or_default()))
}

/// Becomes the user, if one is given, keeps of root what the adapter needs, and never gets more
/// again. The calling thread is the process's only one.
pub(super) fn drop_to(user: Option<(u32, u32)>) -> io::Result<()> {
    if let Some((uid, gid)) = user.filter(|(uid, _)| *uid != geteuid().as_raw()) {
        become_user(Uid::from_raw(uid), Gid::from_raw(gid))?;
    }
    Ok(set_no_new_privs(true)?)
}

fn become_user(uid: Uid, gid: Gid) -> io::Result<()> {
    set_keep_capabilities(true)?;
    set_thread_groups(&[gid])?;
    set_thread_res_gid(gid, gid, gid)?;
    set_thread_res_uid(uid, uid, uid)?;
    set_keep_capabilities(false)?;
    let sets = CapabilitySets {
        effective: KEPT,
        permitted: KEPT,
        inheritable: KEPT,
    };
    // Where root has less than that, in a container, nothing is kept.
    if set_capabilities(None, sets).is_err() {
        let none = CapabilitySet::empty();
        let sets = CapabilitySets {
            effective: none,
            permitted: none,
            inheritable: none,
        };
        set_capabilities(None, sets)?;
        return Ok(());
    }
    for capability in KEPT.iter() {
        configure_capability_in_ambient_set(capability, true)?;
    }
    Ok(())
}
