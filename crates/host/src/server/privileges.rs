//! What the daemon gives up once it has its socket.

use std::fs;
use std::io;

use rustix::process::{Gid, Uid, geteuid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, configure_capability_in_ambient_set,
    remove_capability_from_bounding_set, set_capabilities, set_keep_capabilities, set_no_new_privs,
    set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};

/// What the adapter's process needs of root: its nice value and its memory in place.
const KEPT: CapabilitySet = CapabilitySet::SYS_NICE.union(CapabilitySet::IPC_LOCK);

/// The number of a group, by name (`/etc/group`) or number.
pub(crate) fn group(name: &str) -> io::Result<u32> {
    match name.parse() {
        Ok(number) => Ok(number),
        Err(_) => Ok(entry("/etc/group", |fields| fields[0] == name)?.0),
    }
}

/// A user and its group, by name or number (`/etc/passwd`).
pub(crate) fn user(name: &str) -> io::Result<(u32, u32)> {
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

/// Becomes the user, if one is given, keeps of all privileges what the adapter needs, and never
/// gets more again; nor does what it starts. With the group that the control socket has it can make
/// that again. The calling thread is the process's only one.
pub(super) fn drop_to(user: Option<(u32, u32)>, group: Option<u32>) -> io::Result<()> {
    for capability in CapabilitySet::all().difference(KEPT).iter() {
        // Who may not shorten the set has nothing in it to come by: no program gives privileges
        // from now on. There are capabilities that older kernels do not know, too.
        let _ = remove_capability_from_bounding_set(capability);
    }
    if let Some((uid, gid)) = user.filter(|(uid, _)| *uid != geteuid().as_raw()) {
        become_user(Uid::from_raw(uid), Gid::from_raw(gid), group)?;
    }
    keep()?;
    Ok(set_no_new_privs(true)?)
}

/// A user who owns nothing, as Debian and others have it.
const NOBODY: u32 = 65_534;

/// Gives up all of root's privileges for good, and keeps one group: that of a socket, say. Whoever
/// is not root has none. The calling thread is the process's only one.
///
/// # Errors
/// The kernel refuses.
pub fn become_nobody(group: u32) -> io::Result<()> {
    if geteuid().is_root() {
        become_user(Uid::from_raw(NOBODY), Gid::from_raw(group), None)?;
        set_capabilities(
            None,
            CapabilitySets {
                effective: CapabilitySet::empty(),
                permitted: CapabilitySet::empty(),
                inheritable: CapabilitySet::empty(),
            },
        )?;
    }
    Ok(set_no_new_privs(true)?)
}

fn become_user(uid: Uid, gid: Gid, beside: Option<u32>) -> io::Result<()> {
    set_keep_capabilities(true)?;
    let groups: Vec<_> = [gid].into_iter().chain(beside.map(Gid::from_raw)).collect();
    set_thread_groups(&groups)?;
    set_thread_res_gid(gid, gid, gid)?;
    set_thread_res_uid(uid, uid, uid)?;
    Ok(set_keep_capabilities(false)?)
}

/// Gives up what is not [`KEPT`]; of that, a container may have given only some, or nothing.
fn keep() -> io::Result<()> {
    let kept = capabilities(None)?.permitted.intersection(KEPT);
    let sets = CapabilitySets {
        effective: kept,
        permitted: kept,
        inheritable: kept,
    };
    set_capabilities(None, sets)?;
    for capability in kept.iter() {
        configure_capability_in_ambient_set(capability, true)?;
    }
    Ok(())
}
