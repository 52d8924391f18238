use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cellgate_core::FaultCounts;
use cellgate_core::adapter::{AttachmentIndex, PortConfig, PortIndex, PortStats, VcId, VcIndex};
use cellgate_core::queue::{AttachmentSizes, ConnectionSizes, PortSizes};
use cellgate_shm::{Files, RouseFiles};
use rustix::io::Errno;

use super::sources::RestBell;
use crate::closer::Closer;
use crate::control::{Answer, ControlError, PortReport, ReceiveInto, send};
use crate::inflight::InFlight;
use crate::link::udp::UdpReport;
use crate::link::{QueueCounters, Shown};

/// A control connection, never used twice.
pub(super) type ConnectionId = u64;

/// Whose request, and which of its.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asker {
    pub(super) connection: ConnectionId,
    pub(super) id: u64,
}

/// The memory that clients may have together. What ports have is bounded by how many there are.
#[derive(Debug)]
pub(super) struct Budget {
    max: u64,
    used: Arc<AtomicU64>,
}

/// A part of the budget, given back when dropped.
#[derive(Debug)]
pub(super) struct Charge {
    octets: u64,
    used: Arc<AtomicU64>,
}

impl Budget {
    pub(super) fn new(max: u64) -> Self {
        Self {
            max,
            used: Arc::default(),
        }
    }

    /// Takes `octets`. Only the service thread does.
    pub(super) fn charge(&self, octets: u64) -> Result<Arc<Charge>, ControlError> {
        let free = self.max.saturating_sub(self.used.load(Ordering::Relaxed));
        if octets > free {
            return Err(ControlError::MemoryExhausted {
                needed: octets,
                free,
            });
        }
        self.used.fetch_add(octets, Ordering::Relaxed);
        Ok(Arc::new(Charge {
            octets,
            used: Arc::clone(&self.used),
        }))
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.used.fetch_sub(self.octets, Ordering::Relaxed);
    }
}

/// A VC's memory as the service thread knows it.
#[derive(Debug)]
pub(super) struct VcMemory {
    pub(super) files: Arc<Files>,
    pub(super) sizes: ConnectionSizes,
    /// That the files' headers carry.
    pub(super) files_generation: u32,
    pub(super) receive_into: ReceiveInto,
    /// Its own, and that of the connection into whose transmit buffer it receives: the memory
    /// lives as long as either.
    pub(super) charges: Vec<Arc<Charge>>,
}

/// A VC as the service thread knows it.
#[derive(Debug)]
pub(super) struct VcRecord {
    pub(super) vc: VcId,
    /// None: its client is gone and it was to be kept.
    pub(super) owner: Option<ConnectionId>,
    pub(super) attachment: AttachmentIndex,
    /// Its client is gone and nobody is to have it: it will be closed.
    pub(super) doomed: bool,
    pub(super) memory: Arc<VcMemory>,
    /// Its owner's own words, for whoever takes it up.
    pub(super) record: Option<String>,
}

/// A client as the service thread knows it.
#[derive(Debug)]
pub(super) struct AttachmentRecord {
    pub(super) owner: Option<ConnectionId>,
    /// Its VCs outlive its owner's connection.
    pub(super) kept: Option<KeptAttachment>,
    /// Its removal is on its way. A second one could hit whoever gets the slot next.
    pub(super) leaving: bool,
    /// Its end of what ends the firmware thread's rest.
    pub(super) bell: RestBell,
    pub(super) _charge: Arc<Charge>,
}

/// What an attachment can be taken up with.
#[derive(Debug)]
pub(super) struct KeptAttachment {
    pub(super) sizes: AttachmentSizes,
    /// That its files' headers carry.
    pub(super) files_generation: u32,
    pub(super) files: Arc<Files>,
    pub(super) watch: Arc<OwnedFd>,
    pub(super) rouse: Arc<RouseFiles>,
    /// Its owner's end of a socket, or whatever else it wants kept.
    pub(super) descriptors: Vec<Arc<Closer>>,
    /// Its owner's own words about them.
    pub(super) record: Option<String>,
}

/// One end of a port and who has it.
#[derive(Debug, Default)]
pub(super) struct EndRecord {
    pub(super) taken_by: Option<ConnectionId>,
    pub(super) counters: Arc<QueueCounters>,
    /// Of who sends into it.
    pub(super) bell: Option<RestBell>,
}

/// A port as the service thread knows it.
#[derive(Debug, Default)]
pub(super) struct PortRecord {
    pub(super) receive: EndRecord,
    pub(super) transmit: EndRecord,
    /// Of the last pseudowire that it had: receiving and transmitting end.
    pub(super) pseudowire: Option<[Arc<Shown<UdpReport>>; 2]>,
    /// Cells of no VC that it has received.
    pub(super) strays: Arc<Shown<PortStats>>,
    /// Of the faults that are set on it.
    pub(super) faults: Option<Arc<Shown<FaultCounts>>>,
    /// Its owner's own words, for whoever takes the adapter up.
    pub(super) record: Option<String>,
}

impl PortRecord {
    /// What its pseudowire has counted at both ends; none: it has none.
    pub(super) fn pseudowire_report(&self) -> Option<UdpReport> {
        let [receive, transmit] = self.pseudowire.as_ref()?;
        let (receive, transmit) = (receive.read(), transmit.read());
        Some(UdpReport {
            sent_datagrams: transmit.sent_datagrams,
            sent_cells: transmit.sent_cells,
            send_calls: transmit.send_calls,
            send_errors: transmit.send_errors,
            dropped_cells: transmit.dropped_cells,
            foreign_cells: transmit.foreign_cells,
            refusals: transmit.refusals,
            last_refusal: transmit.last_refusal,
            ..receive
        })
    }

    /// What it has counted in all.
    pub(super) fn report(&self) -> PortReport {
        PortReport {
            receive: self.receive.counters.report(),
            transmit: self.transmit.counters.report(),
            strays: self.strays.read(),
            pseudowire: self.pseudowire_report(),
        }
    }
}

/// An end of a port that somebody gets: its size and files, and what wakes the adapter.
pub(super) struct PortReply {
    pub(super) sizes: PortSizes,
    pub(super) files_generation: u32,
    pub(super) files: Arc<Files>,
    pub(super) rouse: Option<Arc<RouseFiles>>,
}

/// A command on its way, and what its completion needs.
#[expect(
    clippy::large_enum_variant,
    reason = "as many as there are commands on their way, 64 at most"
)]
pub(super) enum Pending {
    Attach {
        asker: Asker,
        keep: bool,
        sizes: AttachmentSizes,
        files_generation: u32,
        files: Arc<Files>,
        watch: Arc<OwnedFd>,
        bell: RestBell,
        rouse: Arc<RouseFiles>,
        charge: Arc<Charge>,
    },
    Detach {
        asker: Option<Asker>,
        index: AttachmentIndex,
    },
    Open {
        asker: Asker,
        attachment: AttachmentIndex,
        memory: VcMemory,
        record: Option<String>,
    },
    Modify {
        asker: Asker,
        index: VcIndex,
        memory: Option<VcMemory>,
        record: Option<String>,
    },
    Close {
        asker: Option<Asker>,
        vc: VcId,
    },
    Reattach {
        asker: Asker,
        index: VcIndex,
        attachment: AttachmentIndex,
        record: Option<String>,
    },
    /// A request whose completion changes nothing here.
    Plain {
        asker: Asker,
    },
    /// The same, but it may take seconds.
    Loopback {
        asker: Asker,
    },
    Configure {
        asker: Asker,
        port: PortIndex,
        config: PortConfig,
    },
    /// A port has got a new end.
    Port {
        asker: Asker,
        port: PortIndex,
        transmit: bool,
        end: EndRecord,
        /// What ends the firmware thread's rest for whoever sends into it.
        bell: Option<RestBell>,
        /// For an end that the asker gets.
        reply: Option<PortReply>,
    },
    /// A port has got a pseudowire.
    Pseudowire {
        asker: Asker,
        port: PortIndex,
        ends: [EndRecord; 2],
        shown: [Arc<Shown<UdpReport>>; 2],
        answer: Answer,
    },
    /// A port has got rid of both its ends.
    Unlink {
        asker: Asker,
        port: PortIndex,
        /// Where it counts what it drops.
        line: EndRecord,
    },
    /// A port has got faults, or none.
    Faults {
        asker: Asker,
        port: PortIndex,
        counters: Option<Arc<Shown<FaultCounts>>>,
    },
}

impl Pending {
    /// Whose it is; none for the service thread's own.
    pub(super) fn asker(&self) -> Option<Asker> {
        match self {
            Self::Attach { asker, .. }
            | Self::Open { asker, .. }
            | Self::Modify { asker, .. }
            | Self::Reattach { asker, .. }
            | Self::Plain { asker }
            | Self::Loopback { asker }
            | Self::Configure { asker, .. }
            | Self::Pseudowire { asker, .. }
            | Self::Unlink { asker, .. }
            | Self::Faults { asker, .. }
            | Self::Port { asker, .. } => Some(*asker),
            Self::Detach { asker, .. } | Self::Close { asker, .. } => *asker,
        }
    }
}

/// What the service thread has to do of its own accord.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chore {
    Close(VcIndex),
    Detach(AttachmentIndex),
}

/// Descriptors that go along with a message.
#[derive(Clone, Debug)]
pub(super) enum Enclosed {
    Nothing,
    One(Arc<OwnedFd>),
    /// The two files of somebody's memory: written by the adapter, written by the client.
    Two(Arc<Files>),
    /// The same, and what wakes the adapter.
    Port(Arc<Files>, Arc<RouseFiles>),
    /// The two files, what becomes readable when the adapter wakes the client, what wakes the
    /// adapter, and what was kept with them.
    Attachment(Arc<Files>, Arc<OwnedFd>, Arc<RouseFiles>, Vec<Arc<Closer>>),
}

impl Enclosed {
    /// In their order.
    pub(super) fn fds(&self) -> Vec<BorrowedFd<'_>> {
        match self {
            Self::Nothing => Vec::new(),
            Self::One(fd) => vec![fd.as_fd()],
            Self::Two(files) => files.fds().to_vec(),
            Self::Port(files, rouse) => [files.fds(), rouse.fds()].concat(),
            Self::Attachment(files, fd, rouse, kept) => {
                let mut fds = files.fds().to_vec();
                fds.push(fd.as_fd());
                fds.extend(rouse.fds());
                fds.extend(kept.iter().map(|kept| kept.as_fd()));
                fds
            }
        }
    }
}

/// A message on its way to a client.
pub(super) struct Outgoing {
    pub(super) octets: Vec<u8>,
    pub(super) fds: Enclosed,
}

/// A control connection.
pub(super) struct Connection {
    pub(super) socket: Closer,
    pub(super) greeted: bool,
    /// Whether it may do what concerns everybody: configure ports, end the adapter.
    pub(super) governs: bool,
    /// Its other end is closed; what was asked before is still done.
    pub(super) ending: bool,
    /// Requests that wait for the firmware thread.
    pub(super) in_flight: usize,
    pub(super) replies: VecDeque<Outgoing>,
    on_way: InFlight,
    /// Of the replies, those at the front whose descriptors cannot be sent for now.
    held: usize,
    /// The socket took no more.
    is_full: bool,
}

impl Connection {
    /// Requests and replies that one client may have waiting; further ones stay in its socket.
    const WAITING_MAX: usize = 16;

    pub(super) fn new(socket: Closer, governs: bool) -> Self {
        Self {
            on_way: InFlight::of(&socket),
            socket,
            greeted: false,
            governs,
            ending: false,
            in_flight: 0,
            replies: VecDeque::new(),
            held: 0,
            is_full: false,
        }
    }

    /// Sends what the socket takes; `false` if nobody is there. Where too many descriptors are on
    /// their way, what goes without any overtakes what waits for that.
    pub(super) fn flush(&mut self) -> bool {
        (self.held, self.is_full) = (0, false);
        while let Some(next) = self.replies.get(self.held) {
            let fds = next.fds.fds();
            let count = fds.len();
            // Whoever governs takes what it has asked for.
            let waits = count > 0 && self.held > 0;
            let sent = match !waits && (self.governs || self.on_way.takes(&self.socket, count)) {
                true => send(&self.socket, &next.octets, &fds, false),
                false => Err(Errno::TOOMANYREFS),
            };
            match sent {
                Ok(()) => {
                    self.on_way.add(count);
                    self.replies.remove(self.held);
                }
                Err(Errno::TOOMANYREFS) => self.held += 1,
                Err(Errno::AGAIN) => {
                    self.is_full = true;
                    return true;
                }
                Err(_) => return false,
            }
        }
        true
    }

    /// Whether it has to be told when the socket takes more.
    pub(super) fn wants_to_send(&self) -> bool {
        self.is_full
    }

    /// Whether it has replies that are to be sent again in a while.
    pub(super) fn is_held(&self) -> bool {
        self.held > 0
    }

    /// Whether another request may be read from it.
    pub(super) fn is_open(&self) -> bool {
        // Each reply that is held for whoever governs is of something that has its memory already.
        let held = if self.governs { self.held } else { 0 };
        self.in_flight + self.replies.len() - held < Self::WAITING_MAX
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use crate::control::{FDS_MAX, Received, pair, receive};

    #[test]
    fn a_guest_leaves_few_descriptors_unread_and_gets_the_rest_as_it_reads() {
        let fd = Arc::new(OwnedFd::from(File::open("/dev/null").unwrap()));
        let enclosed = |with: bool| match with {
            true => Enclosed::One(Arc::clone(&fd)),
            false => Enclosed::Nothing,
        };
        for governs in [false, true] {
            let (mine, theirs) = pair().unwrap();
            let mut connection = Connection::new(mine.into(), governs);
            // A plain one after each three with a descriptor.
            let replies = (0..32_u8).map(|i| Outgoing {
                octets: vec![i],
                fds: enclosed(i % 4 != 3),
            });
            connection.replies.extend(replies);
            assert!(connection.flush());
            let most = 2 * FDS_MAX;
            let sent_at_once = if governs { 32 } else { most + 8 };
            assert_eq!(connection.replies.len(), 32 - sent_at_once);
            assert_eq!(connection.is_held(), !governs);
            let mut read = || match receive(&theirs, &mut [0; 8], false) {
                Ok(Received::Message(_, fds)) => Some(fds.len()),
                _ => None,
            };
            let first: Vec<_> = std::iter::from_fn(&mut read).collect();
            let fds: usize = first.iter().sum();
            assert_eq!((first.len(), fds), (sent_at_once, sent_at_once - 8));
            assert!(connection.flush() && connection.replies.is_empty());
            assert!(!connection.is_held() && !connection.wants_to_send());
            let rest: usize = std::iter::from_fn(read).sum();
            assert_eq!(fds + rest, 24);
        }
    }
}
