use std::io;

use rustix::process::{Gid, Uid, getegid, geteuid, getgid, getgroups, getuid};
use rustix::thread::{
    CapabilitySet, capabilities, set_capabilities, set_thread_groups, set_thread_res_gid,
    set_thread_res_uid,
};

/// As whom root makes files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Actor {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// The user need not be allowed to write the directory.
    pub(crate) anywhere: bool,
}

/// Does something as another user, where this thread may become one and is not that one already.
/// What is made is the user's from the first moment, and no name is resolved with root's rights.
///
/// # Errors
/// What was to be done failed, or this thread may not become the user.
pub(crate) fn acting_as<T>(
    actor: Option<Actor>,
    act: impl FnOnce() -> io::Result<T>,
) -> io::Result<T> {
    let same = |actor: &Actor| {
        (actor.uid, actor.gid) == (geteuid().as_raw(), getegid().as_raw()) || !geteuid().is_root()
    };
    let Some(actor) = actor.filter(|actor| !same(actor)) else {
        return act();
    };
    let groups = getgroups()?;
    let own = (getuid(), geteuid(), getgid(), getegid());
    let done = become_actor(actor, own).and_then(|()| act());
    let (uid, euid, gid, egid) = own;
    // With the user's number come the capabilities that the rest needs.
    set_thread_res_uid(uid, euid, euid)?;
    set_thread_res_gid(gid, egid, egid)?;
    set_thread_groups(&groups)?;
    done
}

fn become_actor(actor: Actor, (uid, euid, gid, egid): (Uid, Uid, Gid, Gid)) -> io::Result<()> {
    let group = Gid::from_raw(actor.gid);
    set_thread_groups(&[group])?;
    set_thread_res_gid(gid, group, egid)?;
    // The saved one stays, to come back to.
    set_thread_res_uid(uid, Uid::from_raw(actor.uid), euid)?;
    if actor.anywhere && actor.uid != 0 {
        let mut sets = capabilities(None)?;
        sets.effective = sets.permitted & CapabilitySet::DAC_OVERRIDE;
        set_capabilities(None, sets)?;
    }
    Ok(())
}
