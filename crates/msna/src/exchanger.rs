use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use cellgate_core::upper::msna::rex::{
    self, Exchange, Failure, MESSAGE_MAX, OVERHEAD, Outcome, Rex,
};
use cellgate_core::upper::msna::{Address, Sap};
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

use crate::{Call, Error, Event, Liaison, Node, now};

/// Calls and their replies between hosts, at most once: REX over associations.
///
/// A call makes an association where there is none to its access point, and keeps it. An
/// association that is gone is made again as long as a call wants it; what the server has executed
/// is not executed again, whatever is lost, and whoever begins anew.
#[derive(Debug)]
pub struct Exchanger {
    node: Node,
    rex: Rex,
    /// The terms of associations that it makes.
    terms: Call,
    ways: BTreeMap<Address, Liaison>,
    /// Access points that are called, and when an association is tried again.
    called: BTreeMap<Address, Instant>,
    events: VecDeque<rex::Event>,
    /// Readable when the node or an association is.
    epoll: OwnedFd,
    block: Vec<u8>,
}

/// An association that cannot be made is not tried again before this.
const PATIENCE: Duration = Duration::from_secs(1);

/// A node looks at its times so often.
const LOOK: Duration = Duration::from_millis(100);

/// Octets of a block with a fragment: a lost cell costs one.
const BLOCK: usize = 4_096;

/// Blocks that are taken from one association before others are looked at.
const IN_A_ROW: usize = 256;

impl Exchanger {
    /// Over a node, with associations on these terms.
    ///
    /// # Errors
    /// The kernel has no descriptors left.
    pub fn new(node: Node, mut terms: Call) -> Result<Self, Error> {
        // The same whatever association carries a call, and another in each run.
        terms.from = Some(Sap(node.incarnation()));
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        watch(&epoll, node.as_fd())?;
        let config = rex::RexConfig {
            incarnation: node.incarnation(),
            fragment_max: (BLOCK - OVERHEAD) as u16,
            window: 16,
            message_max: MESSAGE_MAX,
            retry_ns: 100_000_000,
            tries: 20,
            probe_ns: 500_000_000,
            acknowledge_ns: 50_000_000,
            keep_ns: 60_000_000_000,
            calls_max: 1_024,
            exchanges_max: 1_024,
            octets_max: 16 * MESSAGE_MAX,
            peers_max: 64,
        };
        Ok(Self {
            node,
            rex: Rex::new(config),
            terms,
            ways: BTreeMap::new(),
            called: BTreeMap::new(),
            events: VecDeque::new(),
            epoll,
            block: Vec::new(),
        })
    }

    /// Has calls to a service access point told from now on.
    pub fn serve(&mut self, sap: Sap) {
        self.node.serve(sap);
    }

    /// Calls another, whose reply is an event; waits where an association is to be made.
    ///
    /// # Errors
    /// There is no association, or too much is under way.
    pub fn call(&mut self, to: Address, octets: Vec<u8>) -> Result<rex::Call, Error> {
        self.join(to)?;
        let call = self.rex.call(now(), to, octets)?;
        self.flush();
        Ok(call)
    }

    /// Tells another something that has no reply. Nobody tells whether it comes.
    ///
    /// # Errors
    /// As [`Exchanger::call`].
    pub fn announce(&mut self, to: Address, octets: Vec<u8>) -> Result<(), Error> {
        self.join(to)?;
        self.rex.announce(now(), to, octets)?;
        self.flush();
        Ok(())
    }

    /// Wants no more of a call, which ends by an event.
    pub fn cancel(&mut self, call: rex::Call) {
        self.rex.cancel(now(), call);
        self.flush();
    }

    /// Replies to a call. A caller that wants it no more does not hear of it.
    ///
    /// # Errors
    /// The reply is longer than 1 MiB.
    pub fn reply(&mut self, exchange: Exchange, octets: Vec<u8>) -> Result<(), Error> {
        let replied = self.rex.reply(now(), exchange, octets);
        self.flush();
        match replied {
            Ok(()) | Err(rex::ReplyError::Ended) => Ok(()),
            Err(rex::ReplyError::TooLong { len, max }) => Err(Error::TooLong { len, max }),
        }
    }

    /// Gives a call of another's up.
    pub fn abandon(&mut self, exchange: Exchange) {
        self.rex.abandon(exchange);
        self.flush();
    }

    /// Calls another and waits for what becomes of it. What else happens is lost: this is for
    /// programs that do one thing at a time.
    ///
    /// # Errors
    /// As [`Exchanger::call`].
    pub fn ask(&mut self, to: Address, octets: Vec<u8>) -> Result<Outcome, Error> {
        let asked = self.call(to, octets)?;
        loop {
            match self.next_event(None)? {
                Some(rex::Event::Ended { call, outcome }) if call == asked => return Ok(outcome),
                _ => {}
            }
        }
    }

    /// What happens next; none: nothing within `timeout` (none: for ever).
    ///
    /// # Errors
    /// The node's connection has ended.
    pub fn next_event(&mut self, timeout: Option<Duration>) -> Result<Option<rex::Event>, Error> {
        let began = Instant::now();
        loop {
            self.turn()?;
            if let Some(event) = self.events.pop_front() {
                return Ok(Some(event));
            }
            let left = timeout.map(|timeout| timeout.saturating_sub(began.elapsed()));
            if left == Some(Duration::ZERO) {
                return Ok(None);
            }
            if self.arm()? {
                self.sleep(left)?;
            }
        }
    }

    /// For a caller that waits elsewhere: as [`Liaison::arm`]. It has times to keep, too: look at
    /// [`Exchanger::next_event`] a few times a second at least.
    ///
    /// # Errors
    /// As [`Exchanger::next_event`].
    pub fn arm(&mut self) -> Result<bool, Error> {
        let mut armed = self.events.is_empty() && self.node.arm()?;
        for liaison in self.ways.values_mut() {
            // One that has ended is heard of when it is read.
            armed &= liaison.arm().unwrap_or(false);
        }
        Ok(armed)
    }

    /// From now to when it is to look whether or not it is readable.
    pub(crate) fn due(&self) -> Duration {
        let due = self.rex.next_deadline();
        let due = due.map(|due| Duration::from_nanos(due.since_ns(now()).max(1)));
        // The node's own times.
        due.unwrap_or(LOOK).min(LOOK)
    }

    fn sleep(&self, timeout: Option<Duration>) -> Result<(), Error> {
        let until = timeout.unwrap_or(Duration::MAX).min(self.due());
        let until = Timespec::try_from(until).ok();
        let mut events = [const { core::mem::MaybeUninit::uninit() }; 4];
        match epoll::wait(&self.epoll, &mut events, until.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// An association with an access point.
    fn join(&mut self, to: Address) -> Result<(), Error> {
        if self.ways.contains_key(&to) {
            return Ok(());
        }
        self.called.insert(to, Instant::now() + PATIENCE);
        let liaison = self.node.connect(to, &self.terms)?;
        // What was heard meanwhile is of those before it.
        self.hear()?;
        self.keep(to, liaison)
    }

    fn keep(&mut self, peer: Address, liaison: Liaison) -> Result<(), Error> {
        watch(&self.epoll, liaison.as_fd())?;
        self.ways.insert(peer, liaison);
        Ok(())
    }

    /// Associations that come and go.
    fn hear(&mut self) -> Result<(), Error> {
        while let Some(event) = self.node.next_event(Some(Duration::ZERO))? {
            match event {
                Event::Connected { from, liaison, .. } => self.keep(from, liaison)?,
                Event::Released { circuit } => {
                    self.ways.retain(|_, liaison| liaison.circuit() != circuit);
                }
                Event::Restarted { host } => {
                    self.ways.retain(|_, liaison| liaison.peer() != host);
                }
                Event::Datagram { .. } => {}
            }
        }
        Ok(())
    }

    /// All that is to be done now.
    fn turn(&mut self) -> Result<(), Error> {
        self.hear()?;
        let peers: Vec<Address> = self.ways.keys().copied().collect();
        for peer in peers {
            for _ in 0..IN_A_ROW {
                let came = match self.ways.get_mut(&peer) {
                    Some(liaison) => liaison.try_recv(&mut self.block),
                    None => break,
                };
                match came {
                    Ok(true) => {
                        self.rex.handle(now(), peer, &self.block);
                        self.flush();
                    }
                    Ok(false) => break,
                    Err(_) => drop(self.ways.remove(&peer)),
                }
            }
        }
        self.rex.handle_deadline(now());
        self.flush();
        Ok(())
    }

    /// Takes all that the machine says.
    fn flush(&mut self) {
        loop {
            while let Some(event) = self.rex.poll_event() {
                if let rex::Event::Ended {
                    call,
                    outcome: Outcome::Failed(Failure::TimedOut),
                } = event
                {
                    // The next call makes another.
                    self.ways.remove(&call.to());
                }
                self.events.push_back(event);
            }
            match self.rex.poll_out(now()) {
                Some((to, block)) => self.send(to, &block),
                None => return,
            }
        }
    }

    /// Sends a block. One that cannot go is one that is lost: REX says it again.
    fn send(&mut self, to: Address, block: &[u8]) {
        let is_due = self.called.get(&to).is_some_and(|at| *at <= Instant::now());
        if !self.ways.contains_key(&to) && is_due {
            let _ = self.join(to);
        }
        if let Some(liaison) = self.ways.get_mut(&to)
            && liaison.send(block).is_err()
        {
            self.ways.remove(&to);
        }
    }
}

impl AsFd for Exchanger {
    /// Readable when something may have happened, after [`Exchanger::arm`].
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

fn watch(epoll: &OwnedFd, fd: BorrowedFd<'_>) -> Result<(), Error> {
    let data = epoll::EventData::new_u64(0);
    Ok(epoll::add(epoll, fd, data, epoll::EventFlags::IN)?)
}
