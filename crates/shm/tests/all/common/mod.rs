//! Another process for a test: this test binary again, told by the environment what to be, with a
//! socket as its standard input over which descriptors go.
#![allow(dead_code, reason = "each test binary uses a part")]

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

use cellgate_core::Time;
use cellgate_core::aal::Memory;
use cellgate_core::adapter::Region;
use cellgate_core::queue::layout::TRANSMIT_DESCRIPTOR_LEN;
use cellgate_core::queue::{
    ConnectionGeometry, ConnectionSizes, Consumer, Producer, ReceiveDescriptor, TransmitDescriptor,
    Words, queue,
};
use cellgate_shm::ConnectionMemory;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

pub(crate) const GENERATION: u32 = 5;
const ROLE: &str = "CELLGATE_TEST_ROLE";

pub(crate) fn geometry() -> ConnectionGeometry {
    ConnectionGeometry::new(ConnectionSizes {
        receive_slots: 16,
        receive_len: 64 << 10,
        receive_elsewhere: false,
        transmit_slots: 8,
        transmit_len: 16 << 10,
    })
    .unwrap()
}

/// The other process. It must say that it is done: one that ran no test would not.
pub(crate) struct Other {
    child: Child,
    pub(crate) socket: UnixStream,
}

impl Other {
    /// Starts this binary's ignored test `other` as `role`.
    pub(crate) fn start(role: &str, files: &[BorrowedFd<'_>]) -> Self {
        let (socket, theirs) = UnixStream::pair().unwrap();
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "processes::other", "--ignored", "--nocapture"])
            .env(ROLE, role)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        send(&socket, files);
        Self { child, socket }
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Tells it that it has done enough.
    pub(crate) fn stop(&self) {
        send(&self.socket, &[]);
    }

    pub(crate) fn finish(mut self) {
        let done = receive(self.socket.as_fd(), 0);
        assert!(
            self.child.wait().unwrap().success(),
            "the other process failed"
        );
        assert!(done.is_some(), "the other process did nothing");
    }
}

/// What this process is told to be, and its descriptors.
pub(crate) fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}

pub(crate) fn descriptors(n: usize) -> Vec<OwnedFd> {
    receive(std::io::stdin().as_fd(), n).unwrap()
}

/// Whether the test has said that it is enough.
pub(crate) fn is_stopped() -> bool {
    let stdin = std::io::stdin();
    let mut descriptors = [PollFd::new(&stdin, PollFlags::IN)];
    poll(&mut descriptors, Some(&Timespec::default())).unwrap() > 0
}

pub(crate) fn say_done() {
    send(std::io::stdin(), &[]);
}

fn send(socket: impl AsFd, files: &[BorrowedFd<'_>]) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() {
        assert!(control.push(SendAncillaryMessage::ScmRights(files)));
    }
    let octets = [IoSlice::new(b"!")];
    sendmsg(socket, &octets, &mut control, SendFlags::empty()).unwrap();
}

fn receive(socket: BorrowedFd<'_>, n: usize) -> Option<Vec<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut octet = [0];
    let mut octets = [IoSliceMut::new(&mut octet)];
    let read = recvmsg(socket, &mut octets, &mut control, RecvFlags::CMSG_CLOEXEC).ok()?;
    let mut files = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            files.extend(rights);
        }
    }
    (read.bytes == 1 && files.len() == n).then_some(files)
}

/// As much of an adapter as a queue needs.
pub(crate) struct Adapter {
    pub(crate) region: ConnectionMemory,
    pub(crate) receive: Producer<queue::Receive>,
    pub(crate) transmit: Consumer<queue::Transmit>,
    position: u64,
    descriptors_refused: u64,
}

impl Adapter {
    pub(crate) fn new(region: ConnectionMemory) -> Self {
        Self {
            receive: Producer::new(region.receive_slots()),
            transmit: Consumer::new(region.transmit_slots()),
            position: 0,
            descriptors_refused: 0,
            region,
        }
    }

    /// Writes an SDU of at most a sixteenth of the buffer and shows it; `false` if the queue is
    /// full.
    pub(crate) fn deliver(&mut self, sdu: &[u8]) -> bool {
        if self.receive.free(self.region.from_client(), 1) == 0 {
            return false;
        }
        let buffer = self.region.receive_buffer();
        let offset = (self.position % buffer.len() as u64) as usize;
        buffer.write(offset, sdu);
        let descriptor = ReceiveDescriptor {
            position: self.position,
            time: Time::ZERO,
            len: sdu.len() as u32,
            cells: sdu.len().div_ceil(48) as u32,
            generation: GENERATION,
            uu: 0,
            cpi: 0,
            clp: false,
            congestion: false,
            lent: false,
            mid: 0,
        };
        self.position += sdu.len().next_multiple_of(64) as u64;
        let slot = descriptor.emit();
        self.receive
            .push(self.region.from_adapter(), self.region.from_client(), &slot)
    }

    /// Takes an SDU, if one waits and its descriptor is sane.
    pub(crate) fn take(&mut self) -> Option<Vec<u8>> {
        if self.transmit.available(self.region.from_client(), 1) == 0 {
            return None;
        }
        let mut slot = [0; TRANSMIT_DESCRIPTOR_LEN];
        self.region
            .from_client()
            .copy_out(self.transmit.slot_at(0), &mut slot);
        let descriptor = TransmitDescriptor::parse(&slot);
        let sdu = descriptor.is_within(self.region.transmit_len()).then(|| {
            let len = descriptor.len as usize;
            self.region.stage(descriptor.offset, len)[..len].to_vec()
        });
        self.descriptors_refused += u64::from(sdu.is_none());
        self.transmit.release(self.region.from_adapter(), 1);
        sdu
    }

    pub(crate) fn descriptors_refused(&self) -> u64 {
        self.descriptors_refused
    }
}

/// The `i`-th SDU.
pub(crate) fn sdu(i: u32) -> Vec<u8> {
    (0..1 + i * 37 % 4096).map(|k| (i + k * 7) as u8).collect()
}
