use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering, fence};
use std::sync::{Mutex, OnceLock, PoisonError};

use rustix::param::page_size;

/// Maps that are watched at a time. Whoever gets no place writes without a map.
const PLACES: usize = 512;

/// What SIGBUS did before.
static FORMER: OnceLock<libc::sigaction> = OnceLock::new();
static INSTALLING: Mutex<()> = Mutex::new(());
/// Octets of a page: a handler asks nobody.
static PAGE: AtomicUsize = AtomicUsize::new(0);
static WATCHED: [Place; PLACES] = [const { Place::new() }; PLACES];

/// Where a map lies. A fault in a map finds the map's place as it is: whoever faults there has the
/// map. Other places may change meanwhile, and `version` tells.
#[derive(Debug)]
struct Place {
    taken: AtomicBool,
    /// Odd while the range changes.
    version: AtomicU32,
    from: AtomicUsize,
    to: AtomicUsize,
    failed: AtomicBool,
}

impl Place {
    const fn new() -> Self {
        Self {
            taken: AtomicBool::new(false),
            version: AtomicU32::new(0),
            from: AtomicUsize::new(0),
            to: AtomicUsize::new(0),
            failed: AtomicBool::new(false),
        }
    }

    fn set(&self, range: Range<usize>) {
        self.version.fetch_add(1, Ordering::SeqCst);
        self.from.store(range.start, Ordering::SeqCst);
        self.to.store(range.end, Ordering::SeqCst);
        self.version.fetch_add(1, Ordering::SeqCst);
    }

    /// The range, if it does not change; runs in a handler.
    fn range(&self) -> Option<Range<usize>> {
        let before = self.version.load(Ordering::SeqCst);
        let range = self.from.load(Ordering::SeqCst)..self.to.load(Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let same = self.version.load(Ordering::SeqCst) == before;
        (same && before.is_multiple_of(2)).then_some(range)
    }

    /// Puts memory of nobody's under a fault at `at`, if that lies here: from its page to the end
    /// of the map, so that a map is in two pieces at most. Runs in a handler.
    fn mend(&self, at: usize) -> bool {
        let Some(range) = self.range().filter(|range| range.contains(&at)) else {
            return false;
        };
        let page = at & !(PAGE.load(Ordering::Relaxed) - 1);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let len = range.end - page;
        // SAFETY: the range lies in a live map of a file, whose owner faulted in it; it copies
        // octets in and out and holds no reference. `mmap` is a bare system call, and `errno` is
        // put back.
        unsafe {
            let errno = *libc::__errno_location();
            let put = libc::mmap(page as *mut libc::c_void, len, access, flags, -1, 0);
            *libc::__errno_location() = errno;
            if put == libc::MAP_FAILED {
                return false;
            }
        }
        self.failed.store(true, Ordering::Release);
        true
    }
}

/// A mapping of a file in which no fault ends the process: the first is remembered.
#[derive(Debug)]
pub(super) struct Watched(&'static Place);

impl Watched {
    /// Watches a mapping; to be dropped before that is unmapped. None: there is no place, or the
    /// kernel takes no handler.
    pub(super) fn new(range: Range<usize>) -> Option<Self> {
        install().ok()?;
        let take = |place: &&Place| !place.taken.swap(true, Ordering::AcqRel);
        let place = WATCHED.iter().find(take)?;
        place.failed.store(false, Ordering::Release);
        place.set(range);
        Some(Self(place))
    }

    /// Whether there was a fault. What was written from there on is lost.
    pub(super) fn has_failed(&self) -> bool {
        self.0.failed.load(Ordering::Acquire)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.0.set(0..0);
        self.0.taken.store(false, Ordering::Release);
    }
}

/// Installs the handler, once in this process.
fn install() -> io::Result<()> {
    let _one = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
    if FORMER.get().is_some() {
        return Ok(());
    }
    PAGE.store(page_size(), Ordering::Relaxed);
    // SAFETY: all zeroes is an action without flags and with an empty mask.
    let mut former: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: no action is set; the former one is written to a whole sigaction.
    if unsafe { libc::sigaction(libc::SIGBUS, std::ptr::null(), &raw mut former) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut action = former;
    let handler = on_fault as extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);
    action.sa_sigaction = handler as libc::sighandler_t;
    // On the stack for handlers, where its thread has one: that is what a handler before needs.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
    // Whoever faults meanwhile finds what was there before.
    let _ = FORMER.set(former);
    // SAFETY: `action` is a whole sigaction, and its handler calls only what a handler may call.
    match unsafe { libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

extern "C" fn on_fault(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: with SA_SIGINFO the kernel hands over a whole siginfo_t; a SIGBUS of its own has an
    // address, and any octets of another's are a number that is in no map.
    let (code, at) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    let is_fault = code > 0;
    if is_fault && WATCHED.iter().any(|place| place.mend(at)) {
        return;
    }
    hand_on(is_fault, signal, info, context);
}

/// Does what was done before.
fn hand_on(
    is_fault: bool,
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    let Some(former) = FORMER.get() else {
        return;
    };
    let takes_info = former.sa_flags & libc::SA_SIGINFO != 0;
    match former.sa_sigaction {
        libc::SIG_IGN if !is_fault => {}
        libc::SIG_DFL | libc::SIG_IGN => {
            // SAFETY: all zeroes is the default, without flags and with an empty mask. The access
            // faults again when this returns, or the signal that was sent comes again, and ends
            // the process; `raise` may be called in a handler.
            unsafe {
                let default: libc::sigaction = std::mem::zeroed();
                libc::sigaction(signal, &raw const default, std::ptr::null_mut());
                if !is_fault {
                    libc::raise(signal);
                }
            }
        }
        handler if takes_info => {
            type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);
            // SAFETY: with SA_SIGINFO it was installed as a function of this type.
            let handler = unsafe { std::mem::transmute::<libc::sighandler_t, Handler>(handler) };
            handler(signal, info, context);
        }
        handler => {
            type Handler = extern "C" fn(libc::c_int);
            // SAFETY: without SA_SIGINFO it was installed as a function of this type.
            let handler = unsafe { std::mem::transmute::<libc::sighandler_t, Handler>(handler) };
            handler(signal);
        }
    }
}
