use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use cellgate_core::queue::layout::{PAGE_LEN, adapter, attachment};
use cellgate_core::queue::{AttachmentGeometry, FileKind, Header, Wake};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, epoll, eventfd, poll};
use rustix::io::Errno;

use crate::ShmError;
use crate::map::{Access, Map};
use crate::memfd::{FROM_CLIENT, Files, Length, open_theirs, verify};

/// Makes an eventfd whose writes never wait. It is for one process: flags and count of an eventfd
/// belong to all who hold it, and whoever does can make the others' writes wait for ever.
pub fn wake_descriptor() -> Result<OwnedFd, ShmError> {
    eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(ShmError::system("eventfd"))
}

/// Makes the two ends of a wake-up: an eventfd for the waker, and for the sleeper a descriptor that
/// becomes readable with each write to it, and through which nobody reaches the eventfd itself.
pub fn wake_descriptors() -> Result<(OwnedFd, OwnedFd), ShmError> {
    let bell = wake_descriptor()?;
    let watch = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(ShmError::system("epoll"))?;
    // By edges, since nobody ever reads the eventfd.
    let edges = epoll::EventFlags::IN | epoll::EventFlags::ET;
    epoll::add(&watch, &bell, epoll::EventData::new_u64(0), edges)
        .map_err(ShmError::system("epoll_ctl"))?;
    Ok((bell, watch))
}

/// Why a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// Something waited already: there was no sleep.
    Ready,
    /// The adapter interrupted.
    Interrupted,
    /// The time was over.
    TimedOut,
}

/// The side that blocks.
#[derive(Debug)]
pub struct Sleeper {
    watch: OwnedFd,
}

impl Sleeper {
    /// Blocks on the client's end of [`wake_descriptors`].
    pub fn new(watch: OwnedFd) -> Self {
        Self { watch }
    }

    /// Blocks until woken or `timeout` is over (none: never).
    pub fn block(&self, timeout: Option<Duration>) -> Result<Woken, ShmError> {
        let timeout = timeout.map(|t| Timespec {
            tv_sec: i64::try_from(t.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(t.subsec_nanos()),
        });
        let mut descriptors = [PollFd::new(&self.watch, PollFlags::IN)];
        match poll(&mut descriptors, timeout.as_ref()) {
            Ok(0) => Ok(Woken::TimedOut),
            Ok(_) => self.drain().map(|_| Woken::Interrupted),
            // A signal: the caller looks at its queues and sleeps again.
            Err(Errno::INTR) => Ok(Woken::Interrupted),
            Err(errno) => Err(ShmError::system("poll")(errno)),
        }
    }

    /// The descriptor, for a poll together with others.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }

    /// Takes a wake-up off the descriptor, if there is one, without waiting.
    pub fn drain(&self) -> Result<bool, ShmError> {
        let mut events = [const { MaybeUninit::uninit() }; 1];
        let at_once = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        match epoll::wait(&self.watch, &mut events, Some(&at_once)) {
            Ok((woken, _)) => Ok(!woken.is_empty()),
            Err(Errno::INTR) => Ok(false),
            Err(errno) => Err(ShmError::system("epoll_wait")(errno)),
        }
    }
}

/// Tells when the other party sleeps and is to be woken: a client, or the adapter itself.
#[derive(Debug)]
pub struct Waker {
    /// The first page of the sleeper's file: the word that says whether it sleeps.
    words: Map,
    asleep_at: usize,
    wake: Wake,
}

impl Waker {
    /// For the client of an attachment.
    ///
    /// # Errors
    /// The file is not its client's, or the kernel refuses.
    pub fn new(files: &Files, geometry: &AttachmentGeometry) -> Result<Self, ShmError> {
        let file = files.from_client.as_fd();
        verify(
            file,
            FROM_CLIENT,
            Length::Exactly(geometry.from_client_len()),
        )?;
        Ok(Self {
            words: Map::file(file, PAGE_LEN, Access::ReadOnly)?,
            asleep_at: attachment::ASLEEP,
            wake: Wake::default(),
        })
    }

    /// For the adapter that has made `page`; none: it never rests.
    ///
    /// # Errors
    /// It is no adapter's page, or the kernel refuses.
    pub fn of_adapter(page: impl AsFd) -> Result<Option<Self>, ShmError> {
        let header = FileKind::adapter_header(true);
        let words = open_theirs(page.as_fd(), PAGE_LEN, PAGE_LEN, header)?;
        let rests = Header::read(words.words())? == header;
        Ok(rests.then_some(Self {
            words,
            asleep_at: adapter::FIRMWARE_ASLEEP,
            wake: Wake::default(),
        }))
    }

    /// Whether the other party sleeps and is to be woken for this sleep. Call it after what it
    /// shall see was published; who hears `true` rings the bell.
    #[inline]
    #[must_use = "the other party sleeps until somebody wakes it"]
    pub fn is_due(&mut self) -> bool {
        self.wake.is_due(self.words.words(), self.asleep_at)
    }
}
