use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};

use cellgate_core::server::{Disk, Former, Keeping};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, mkdirat};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with,
};
use rustix::process::geteuid;

use super::*;

/// A user and a group that no machine has.
const USER: u32 = 419_993;
const GROUP: u32 = 419_994;

/// A directory that goes with its test.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let name = format!("cellgate-place-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        // Other tests make sockets, for which the process has no mask for a moment: what others may
        // write is no place for a directory of one's own.
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o755).create(&path).unwrap();
        Self(path)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn bound(path: &Path, kind: SocketType, listens: bool) -> OwnedFd {
    let socket = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
    bind(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
    if listens {
        listen(&socket, 1).unwrap();
    }
    socket
}

fn refused(made: io::Result<Entrance>, part: &str) {
    let error = made.unwrap_err().to_string();
    assert!(error.contains(part), "{error}");
}

#[test]
fn nobody_elses_socket_is_removed() {
    let place = Place::new("sockets");
    let path = place.at("control.sock");
    let make = || Entrance::make(&path, 0o600, (None, None));
    let kinds = [
        (SocketType::STREAM, true),
        (SocketType::STREAM, false),
        (SocketType::SEQPACKET, true),
        (SocketType::SEQPACKET, false),
        (SocketType::DGRAM, false),
    ];
    for (kind, listens) in kinds {
        let theirs = bound(&path, kind, listens);
        let inode = fs::symlink_metadata(&path).unwrap().ino();
        refused(make(), "another program's socket");
        assert_eq!(fs::symlink_metadata(&path).unwrap().ino(), inode);
        drop(theirs);
        // The name has outlived its socket.
        make().unwrap().remove();
        assert!(!path.exists(), "{kind:?}");
    }
    fs::write(&path, "x").unwrap();
    refused(make(), "is no socket");
    fs::remove_file(&path).unwrap();
    let theirs = bound(&place.at("theirs"), SocketType::SEQPACKET, true);
    symlink(place.at("theirs"), &path).unwrap();
    refused(make(), "is no socket");
    fs::remove_file(&path).unwrap();
    drop(theirs);
    let rest = fs::read_dir(&place.0).unwrap().count();
    assert_eq!(rest, 1, "nothing is left aside");
}

#[test]
fn a_socket_that_is_gone_is_made_again_and_anothers_left_alone() {
    let place = Place::new("again");
    let path = place.at("in/control.sock");
    fs::create_dir(place.at("in")).unwrap();
    let mut entrance = Entrance::make(&path, 0o640, (None, None)).unwrap();
    assert_eq!(entrance.look().unwrap(), Look::Same);
    let is_there = || {
        let mode = fs::symlink_metadata(&path).unwrap().mode();
        assert_eq!(mode & 0o7777, 0o640);
        cellgate_shm::socket::dial(&path, std::time::Duration::from_secs(1)).unwrap();
    };
    is_there();
    let gone: [fn(&Place); 2] = [
        |place| fs::remove_file(place.at("in/control.sock")).unwrap(),
        |place| fs::rename(place.at("in"), place.at("out")).unwrap(),
    ];
    for harm in gone {
        harm(&place);
        assert_eq!(entrance.look().unwrap(), Look::Again);
        is_there();
    }
    fs::remove_file(&path).unwrap();
    let theirs = bound(&path, SocketType::STREAM, true);
    let error = entrance.look().unwrap_err().to_string();
    assert!(error.contains("another program's socket"), "{error}");
    entrance.remove();
    assert!(path.exists());
    drop(theirs);
}

#[test]
fn what_could_not_be_made_at_first_is_made_by_a_later_look() {
    let place = Place::new("later");
    let path = place.at("gone/control.sock");
    fs::write(place.at("gone"), "").unwrap();
    assert!(Entrance::make(&path, 0o600, (None, None)).is_err());
    let mut entrance = Entrance::later(&path, 0o600, (None, None)).unwrap();
    assert!(entrance.look().is_err());
    let mut polled = [PollFd::new(&entrance, PollFlags::IN)];
    assert_eq!(poll(&mut polled, Some(&Timespec::default())).unwrap(), 0);
    fs::remove_file(place.at("gone")).unwrap();
    assert_eq!(entrance.look().unwrap(), Look::Again);
    assert_eq!(entrance.look().unwrap(), Look::Same);
    entrance.remove();
    assert!(!path.exists());
}

#[test]
fn a_planted_link_is_neither_followed_nor_replaced() {
    let place = Place::new("links");
    let mut directory = Directory::make(&place.at("state"), None).unwrap();
    let target = place.at("made");
    symlink(&target, place.at("state/lock")).unwrap();
    symlink(&target, place.at("state/kept")).unwrap();
    symlink(&target, place.at("state/.new.new")).unwrap();
    assert!(Lock::take(&directory).is_err());
    assert!(directory.read("kept", 9).is_err());
    let mut keeping = Keeping::new("new");
    keeping.keep(cellgate_core::Time::ZERO, vec![1]);
    keeping.look(cellgate_core::Time::ZERO, &mut directory);
    assert_eq!(keeping.problem(), None);
    assert_eq!(directory.read("new", 9).unwrap(), [1]);
    assert!(!target.exists());
    symlink(place.at("state"), place.at("linked")).unwrap();
    let made = Directory::make(&place.at("linked"), None);
    let error = made.unwrap_err().to_string();
    assert!(error.contains("must be a directory"), "{error}");
}

#[test]
fn what_is_removed_of_a_lock_is_noticed_and_taken_again() {
    let place = Place::new("lock");
    let directory = Directory::make(&place.at("state"), None).unwrap();
    let (mut lock, former) = Lock::take(&directory).unwrap();
    assert_eq!(former, Former::Unknown);
    let error = Lock::take(&directory).unwrap_err().to_string();
    let holder = format!("process {}", std::process::id());
    assert!(error.contains(&holder), "{error}");
    assert!(!lock.look(&directory).unwrap());
    fs::remove_file(place.at("state/lock")).unwrap();
    let (theirs, _) = Lock::take(&directory).unwrap();
    assert!(lock.look(&directory).is_err());
    drop(theirs);
    assert!(lock.look(&directory).unwrap());
    let mode = place.at("state/lock").metadata().unwrap().mode();
    assert_eq!(mode & 0o777, 0o600);
    drop(lock);
    let (mut lock, former) = Lock::take(&directory).unwrap();
    assert_eq!(former, Former::Left);
    lock.let_go();
    drop(lock);
    assert_eq!(Lock::take(&directory).unwrap().1, Former::Ended);
}

#[test]
fn no_link_of_another_user_is_followed() {
    if !geteuid().is_root() {
        println!("skipped links_of_another_user: only root can be two users");
        return;
    }
    println!("ran links_of_another_user");
    let place = Place::new("others");
    fs::create_dir(place.at("far")).unwrap();
    for (link, owner) in [("own", 0), ("planted", USER)] {
        symlink("far", place.at(link)).unwrap();
        lchown(place.at(link), Some(owner), None).unwrap();
    }
    assert!(Directory::make(&place.at("own/state"), None).is_ok());
    let made = Directory::make(&place.at("planted/other"), None);
    let error = made.unwrap_err().to_string();
    assert!(error.contains("another user's link"), "{error}");
    assert!(!place.at("far/other").exists());
    let made = Entrance::make(&place.at("planted/x.sock"), 0o600, (None, None));
    refused(made, "another user's link");
    // A link of root's that a user may have moved there is that user's.
    fs::create_dir(place.at("users")).unwrap();
    symlink("../far", place.at("users/link")).unwrap();
    chown(place.at("users"), Some(USER), None).unwrap();
    assert!(Directory::open(&place.at("users/link")).is_err());
}

#[test]
fn root_makes_files_as_their_owner() {
    if !geteuid().is_root() {
        println!("skipped files_of_owners: only root can be two users");
        return;
    }
    println!("ran files_of_owners");
    let place = Place::new("owners");
    let owner = Some((USER, GROUP));
    let is_of = |path: &Path| {
        let found = fs::symlink_metadata(path).unwrap();
        (found.uid(), found.gid())
    };
    // In root's directory; then in the user's.
    let state = Directory::make(&place.at("state"), owner).unwrap();
    assert_eq!(is_of(&place.at("state")), (USER, GROUP));
    Directory::make(&place.at("state/deep"), owner).unwrap();
    assert_eq!(is_of(&place.at("state/deep")), (USER, GROUP));
    let actor = Some(Actor {
        uid: USER,
        gid: GROUP,
        anywhere: false,
    });
    acting_as(actor, || Lock::take(&state).map(drop)).unwrap();
    assert_eq!(is_of(&place.at("state/lock")), (USER, GROUP));
    assert!(geteuid().is_root());
    let made = (Some(USER), Some(GROUP + 1));
    for path in [place.at("state/control.sock"), place.at("control.sock")] {
        let entrance = Entrance::make(&path, 0o660, made).unwrap();
        assert_eq!(is_of(&path), (USER, GROUP + 1));
        drop(entrance);
    }
    // A directory that the user has of root's is not given to it.
    fs::create_dir(place.at("state/roots")).unwrap();
    assert!(Directory::make(&place.at("state/roots"), owner).is_err());
    assert_eq!(is_of(&place.at("state/roots")), (0, 0));
    // As the user, root does what the user may.
    let denied = acting_as(actor, || {
        let roots = Directory::open(&place.0)?;
        Ok(mkdirat(&roots, OsStr::new("new"), Mode::empty())?)
    });
    assert_eq!(denied.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
}
