//! What ends the rest of the firmware thread: descriptors that it waits for, all in one epoll.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cellgate_shm::{RouseFiles, is_same_file, wake_descriptors};
use rustix::event::epoll;

use crate::sys::timespec;

/// Who ended a rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The service thread.
    Service,
    /// Whoever sends cells, over memory or a pseudowire.
    Link,
    /// The client that has this place among all of them.
    Client(usize),
}

impl Source {
    const fn token(self) -> u64 {
        match self {
            Self::Service => 0,
            Self::Link => 1,
            Self::Client(place) => 2 + place as u64,
        }
    }

    const fn of(token: u64) -> Self {
        match token {
            0 => Self::Service,
            1 => Self::Link,
            place => Self::Client((place - 2) as usize),
        }
    }
}

/// All of them. The service thread adds and removes descriptors, before it closes them; the
/// firmware thread waits.
#[derive(Debug)]
pub(super) struct Sources {
    epoll: OwnedFd,
    /// The adapter's page, for whoever may have to wake it.
    page: OwnedFd,
    /// Whether each client's place is taken.
    places: Mutex<Vec<bool>>,
}

/// A bell that somebody else rings, as the adapter has it: until it is dropped, whoever rings it
/// ends the adapter's rest.
///
/// What is watched is a descriptor over the eventfd, not the eventfd: to take the eventfd itself
/// off the list would wait for whoever is writing to it just then.
#[derive(Debug)]
pub(super) struct RestBell {
    watch: OwnedFd,
    source: Source,
    of: Arc<Sources>,
}

/// Events that one wait takes: more wait for the next.
const EVENTS: usize = 16;

impl Sources {
    /// Room for so many clients at once.
    pub(super) fn new(page: OwnedFd, clients: usize) -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            page,
            places: Mutex::new(vec![false; clients]),
        }))
    }

    /// Whether a file is this adapter's own page.
    pub(super) fn is_page(&self, file: impl AsFd) -> bool {
        is_same_file(&self.page, file)
    }

    fn places(&self) -> MutexGuard<'_, Vec<bool>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A bell for a client, and what the client gets.
    pub(super) fn client(self: &Arc<Self>) -> io::Result<(RestBell, RouseFiles)> {
        let mut places = self.places();
        let free = places.iter().position(|taken| !taken);
        let free = free.ok_or_else(|| io::Error::other("no place for another client's bell"))?;
        let made = self.bell(Source::Client(free))?;
        places[free] = true;
        Ok(made)
    }

    /// A bell for somebody else who may have to wake the adapter, and what that party gets.
    pub(super) fn bell(self: &Arc<Self>, source: Source) -> io::Result<(RestBell, RouseFiles)> {
        let (bell, watch) = wake_descriptors().map_err(io::Error::other)?;
        let data = epoll::EventData::new_u64(source.token());
        // By edges: nobody takes anything off it.
        let edges = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&self.epoll, &watch, data, edges)?;
        let page = self.page.try_clone()?;
        let of = Arc::clone(self);
        Ok((RestBell { watch, source, of }, RouseFiles { page, bell }))
    }

    /// Has what a socket receives end a rest, until it is closed.
    pub(super) fn add_receiving(&self, socket: impl AsFd) -> io::Result<()> {
        self.add(socket, epoll::EventFlags::IN)
    }

    /// Lets a rest end by [`Sources::await_room`] for a socket, until it is closed.
    pub(super) fn add_sending(&self, socket: impl AsFd) -> io::Result<()> {
        self.add(socket, epoll::EventFlags::ONESHOT)
    }

    fn add(&self, socket: impl AsFd, flags: epoll::EventFlags) -> io::Result<()> {
        let data = epoll::EventData::new_u64(Source::Link.token());
        Ok(epoll::add(&self.epoll, socket, data, flags)?)
    }

    /// Has the rest that follows end when a socket takes more.
    pub(super) fn await_room(&self, socket: impl AsFd) {
        let data = epoll::EventData::new_u64(Source::Link.token());
        let once = epoll::EventFlags::OUT | epoll::EventFlags::ONESHOT;
        // It fails where the socket is about to be closed.
        let _ = epoll::modify(&self.epoll, socket, data, once);
    }

    /// A socket is about to be closed.
    pub(super) fn forget(&self, socket: impl AsFd) {
        // It fails where the adapter never rests.
        let _ = epoll::delete(&self.epoll, socket);
    }

    /// Waits for any of them, for `ns` nanoseconds at most; `told` hears of each, of [`EVENTS`] at
    /// most. How many.
    pub(super) fn wait(&self, ns: u64, mut told: impl FnMut(Source)) -> usize {
        let mut events = [const { MaybeUninit::uninit() }; EVENTS];
        // A signal ends a rest, too.
        let Ok((events, _)) = epoll::wait(&self.epoll, &mut events, Some(&timespec(ns))) else {
            return 0;
        };
        for event in &*events {
            told(Source::of(event.data.u64()));
        }
        events.len()
    }
}

impl RestBell {
    /// The client's place.
    pub(super) fn place(&self) -> Option<usize> {
        match self.source {
            Source::Client(place) => Some(place),
            Source::Service | Source::Link => None,
        }
    }
}

impl Drop for RestBell {
    fn drop(&mut self) {
        // It is there: whoever made the bell has added it.
        let _ = epoll::delete(&self.of.epoll, &self.watch);
        if let Source::Client(place) = self.source {
            self.of.places()[place] = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use cellgate_shm::{AdapterPage, Rouser};

    use super::*;

    const PATIENCE_NS: u64 = 60_000_000_000;

    fn wakes(sources: &Sources, ns: u64) -> Vec<Source> {
        let mut who = Vec::new();
        sources.wait(ns, |source| who.push(source));
        who
    }

    #[test]
    fn a_bell_ends_each_rest_whatever_its_holder_does_with_it() {
        let (mut page, file) = AdapterPage::create(true).unwrap();
        let sources = Sources::new(file, 2).unwrap();
        let (bell, files) = sources.client().unwrap();
        let ring = files.bell.try_clone().unwrap();
        let mut rouser = Rouser::open(files).unwrap().unwrap();
        for round in 0..100 {
            page.announce();
            rouser.rouse();
            // One rest costs one write.
            rouser.rouse();
            assert_eq!(wakes(&sources, PATIENCE_NS), [Source::Client(0)], "{round}");
            assert_eq!(wakes(&sources, 0), []);
            page.end();
            rouser.rouse();
            assert_eq!(wakes(&sources, 0), []);
            match round {
                // Its holder takes the count, and fills it.
                50 => drop(rustix::io::read(&ring, &mut [0; 8])),
                60 => drop(rustix::io::write(&ring, &(u64::MAX - 1_000).to_ne_bytes())),
                _ => {}
            }
            wakes(&sources, 0);
        }
        // One that is full wakes nobody, but its holder alone has it.
        rustix::io::read(&ring, &mut [0; 8]).unwrap();
        rustix::io::write(&ring, &(u64::MAX - 1).to_ne_bytes()).unwrap();
        wakes(&sources, 0);
        page.announce();
        rouser.rouse();
        assert_eq!(wakes(&sources, 0), []);
        let (_other, files) = sources.client().unwrap();
        let mut rouser = Rouser::open(files).unwrap().unwrap();
        rouser.rouse();
        assert_eq!(wakes(&sources, PATIENCE_NS), [Source::Client(1)]);
        // Who has gone wakes nobody.
        drop(bell);
        rustix::io::read(&ring, &mut [0; 8]).unwrap();
        rustix::io::write(&ring, &1_u64.to_ne_bytes()).unwrap();
        assert_eq!(wakes(&sources, 0), []);
        // Its place is free again, and there is no third.
        let (_again, _) = sources.client().unwrap();
        assert!(sources.client().is_err());
    }

    #[test]
    fn who_is_told_that_an_adapter_never_rests_does_not_look() {
        let (_page, file) = AdapterPage::create(false).unwrap();
        let sources = Sources::new(file, 1).unwrap();
        let (_bell, files) = sources.client().unwrap();
        assert!(Rouser::open(files).unwrap().is_none());
        // Only an adapter's page is one.
        let (_bell, mut files) = sources.bell(Source::Link).unwrap();
        files.page = files.bell.try_clone().unwrap();
        Rouser::open(files).unwrap_err();
    }

    #[test]
    fn a_socket_ends_rests_while_it_holds_something_and_once_when_it_takes_more() {
        let (_page, file) = AdapterPage::create(true).unwrap();
        let sources = Sources::new(file, 1).unwrap();
        let [mine, theirs] = [(); 2].map(|()| std::net::UdpSocket::bind("127.0.0.1:0").unwrap());
        sources.add_receiving(&mine).unwrap();
        sources.add_sending(&theirs).unwrap();
        assert_eq!(wakes(&sources, 0), []);
        theirs.send_to(&[1], mine.local_addr().unwrap()).unwrap();
        for _ in 0..3 {
            assert_eq!(wakes(&sources, PATIENCE_NS), [Source::Link]);
        }
        assert_eq!(mine.recv(&mut [0]).unwrap(), 1);
        assert_eq!(wakes(&sources, 0), []);
        sources.await_room(&theirs);
        assert_eq!(wakes(&sources, PATIENCE_NS), [Source::Link]);
        assert_eq!(wakes(&sources, 0), []);
        theirs.send_to(&[1], mine.local_addr().unwrap()).unwrap();
        sources.forget(&mine);
        assert_eq!(wakes(&sources, 0), []);
    }
}
