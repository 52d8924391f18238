use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};

use cellgate_core::aal::aal34;
use cellgate_core::adapter::{REGION_HANDLE_MAX, Region};
use cellgate_core::queue::layout::PDU_ALIGN;
use cellgate_core::queue::{
    ConnectionGeometry, FileKind, ReceiveQueue, ReceivedPdu, SduOptions, Space, TransmitQueue,
    Words,
};

use crate::ShmError;
use crate::halves::{ClientReceive, ClientTransmit, Parts};
use crate::map::{Access, Map, SharedWords};
use crate::memfd::{self, FROM_ADAPTER, Files};
use crate::receive::{ReceiveBuffer, ReceiveMemory, map_buffer};

/// The adapter's side of a connection's memory.
///
/// The handle stays small because it lies beside the VC's hot state; what the data path does not
/// touch is behind a pointer. What every cell touches comes first.
#[derive(Debug)]
#[repr(C)]
pub struct ConnectionMemory {
    receive: ReceiveMemory,
    from_adapter: SharedWords,
    cold: Box<Cold>,
}

const _: () = assert!(size_of::<ConnectionMemory>() <= REGION_HANDLE_MAX);

#[derive(Debug)]
struct Cold {
    geometry: ConnectionGeometry,
    /// Looked at when the receive queue seems full, and to transmit.
    from_client: SharedWords,
    staging: Box<[u8]>,
    /// Of an AAL3/4 VC that receives.
    reassembler: Option<Box<aal34::Reassembler>>,
    /// What the handle's views look at.
    maps: [Option<Map>; 3],
    is_locked: bool,
}

impl ConnectionMemory {
    /// Makes the memory of a connection, allocates all of it, and seals it. The files are for the
    /// client; `staging_len` is the room that the adapter keeps for one SDU on its way out.
    pub fn create(
        geometry: &ConnectionGeometry,
        generation: u32,
        staging_len: usize,
        receive: ReceiveBuffer<'_>,
    ) -> Result<(Self, Files), ShmError> {
        let own = matches!(receive, ReceiveBuffer::Own);
        let (from_adapter, mine) = memfd::create_mine(
            "cellgate-from-adapter",
            geometry.from_adapter_len(),
            geometry.receive_buffer_at(),
            geometry.header(FileKind::ConnectionFromAdapter, generation),
        )?;
        let buffer = map_buffer(geometry, mine.as_fd(), receive, Access::ReadWrite)?;
        memfd::seal(&mine, FROM_ADAPTER)?;
        let (from_client, yours) = memfd::create_yours(
            "cellgate-from-client",
            geometry.from_client_len(),
            geometry.header(FileKind::ConnectionFromClient, generation),
        )?;
        let memory = Self::over(
            geometry,
            staging_len,
            own,
            [Some(from_adapter), Some(from_client), buffer],
        );
        let files = Files {
            from_adapter: mine,
            from_client: yours,
        };
        Ok((memory, files))
    }

    /// Both sides of a connection over heap memory, for tests without system calls.
    pub fn heap(
        geometry: &ConnectionGeometry,
        generation: u32,
        staging_len: usize,
    ) -> (Self, ClientMemory) {
        let (mine, theirs) = Map::heap(geometry.receive_buffer_at());
        geometry
            .header(FileKind::ConnectionFromAdapter, generation)
            .write(mine.words());
        let (yours, from_client) = Map::heap(geometry.from_client_len());
        geometry
            .header(FileKind::ConnectionFromClient, generation)
            .write(yours.words());
        // Twice the length, not mirrored: a PDU lies in one piece wherever it starts, and nobody
        // reads the second half but as the end of such a PDU.
        let (buffer, seen) = match geometry.sizes().receive_len as usize {
            0 => (None, None),
            len => {
                let (buffer, seen) = Map::heap(2 * len);
                (Some(buffer), Some(seen))
            }
        };
        let adapter = Self::over(
            geometry,
            staging_len,
            true,
            [Some(mine), Some(from_client), buffer],
        );
        let client = ClientMemory::over(geometry, generation, theirs, yours, seen, true);
        (adapter, client)
    }

    /// The same memory for an AAL3/4 VC that receives, made for what
    /// [`aal34_limits`](cellgate_core::adapter::OpenRequest::aal34_limits) says. Before any PDU has
    /// gone through it.
    pub fn with_reassembler(mut self, limits: aal34::Limits) -> Self {
        self.cold.reassembler = Some(Box::new(aal34::Reassembler::new(limits)));
        self
    }

    /// Keeps its buffers and queues where they are, as far as this process may (`RLIMIT_MEMLOCK`,
    /// which counts a receive buffer twice: it is mapped so).
    ///
    /// # Errors
    /// The kernel refuses; they serve as well, while it has no need of their pages.
    pub fn lock(&mut self) -> Result<(), ShmError> {
        self.cold.maps.iter().flatten().try_for_each(Map::lock)?;
        self.cold.is_locked = true;
        Ok(())
    }

    /// Octets that are mapped and not locked.
    pub fn unlocked(&self) -> u64 {
        let maps = self.cold.maps.iter().flatten();
        let mapped = maps.map(|map| map.mapped_len() as u64).sum();
        if self.cold.is_locked { 0 } else { mapped }
    }

    pub fn geometry(&self) -> &ConnectionGeometry {
        &self.cold.geometry
    }

    fn over(
        geometry: &ConnectionGeometry,
        staging_len: usize,
        own: bool,
        maps: [Option<Map>; 3],
    ) -> Self {
        let view = |map: &Option<Map>| match map {
            Some(map) => map.words().alias(),
            None => SharedWords::none(),
        };
        Self {
            receive: match &maps[2] {
                Some(buffer) => ReceiveMemory::over(buffer, own),
                None => ReceiveMemory::none(),
            },
            from_adapter: view(&maps[0]),
            cold: Box::new(Cold {
                geometry: *geometry,
                from_client: view(&maps[1]),
                staging: vec![0; staging_len].into_boxed_slice(),
                reassembler: None,
                maps,
                is_locked: false,
            }),
        }
    }
}

impl Region for ConnectionMemory {
    type Words = SharedWords;
    type Buffer = ReceiveMemory;

    #[inline(always)]
    fn from_adapter(&self) -> &SharedWords {
        &self.from_adapter
    }

    #[inline(always)]
    fn from_client(&self) -> &SharedWords {
        &self.cold.from_client
    }

    #[inline(always)]
    fn receive_buffer(&mut self) -> &mut ReceiveMemory {
        &mut self.receive
    }

    fn aal34(&mut self) -> Option<(&mut aal34::Reassembler, &mut ReceiveMemory)> {
        Some((self.cold.reassembler.as_deref_mut()?, &mut self.receive))
    }

    fn receive_slots(&self) -> u32 {
        self.cold.geometry.sizes().receive_slots
    }

    fn transmit_slots(&self) -> u32 {
        self.cold.geometry.sizes().transmit_slots
    }

    fn transmit_len(&self) -> u32 {
        self.cold.geometry.sizes().transmit_len
    }

    #[inline(always)]
    fn stage(&mut self, offset: u32, len: usize) -> &mut [u8] {
        let at = self.cold.geometry.transmit_buffer_at() + offset as usize;
        let cold = &mut *self.cold;
        cold.from_client.copy_out(at, &mut cold.staging[..len]);
        &mut self.cold.staging
    }

    #[inline(always)]
    fn prefetch_stage(&self, offset: u32) {
        let at = self.cold.geometry.transmit_buffer_at() + offset as usize;
        self.cold.from_client.prefetch(at);
        self.cold.from_client.prefetch(at + PDU_ALIGN);
    }

    #[inline(always)]
    fn staging(&self) -> &[u8] {
        &self.cold.staging
    }

    fn carry(&mut self, offset: u32, len: usize, to: Option<&mut Self>, at: usize) {
        let from = self.cold.geometry.transmit_buffer_at() + offset as usize;
        let to = to.map_or(&mut self.receive, |to| &mut to.receive);
        to.write_from(at, &self.cold.from_client, from, len);
    }
}

/// A client's receive queue under a name that no other of this process has: a PDU is good for the
/// queue it came from only.
fn identified(queue: ReceiveQueue) -> ReceiveQueue {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    queue.identified(NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The client's side of a connection's memory.
#[derive(Debug)]
pub struct ClientMemory {
    transmit: ClientTransmit,
    receive: ClientReceive,
}

impl ClientMemory {
    /// Judges and maps the files of a connection. `receive` is what it was opened with.
    pub fn open(
        files: &Files,
        geometry: &ConnectionGeometry,
        generation: u32,
        receive: ReceiveBuffer<'_>,
    ) -> Result<Self, ShmError> {
        let own = matches!(receive, ReceiveBuffer::Own);
        let from_adapter = memfd::open_theirs(
            files.from_adapter.as_fd(),
            geometry.from_adapter_len(),
            geometry.receive_buffer_at(),
            geometry.header(FileKind::ConnectionFromAdapter, generation),
        )?;
        let from_client = memfd::open_ours(
            files.from_client.as_fd(),
            geometry.from_client_len(),
            geometry.header(FileKind::ConnectionFromClient, generation),
        )?;
        let file = files.from_adapter.as_fd();
        let buffer = map_buffer(geometry, file, receive, Access::ReadOnly)?;
        Ok(Self::over(
            geometry,
            generation,
            from_adapter,
            from_client,
            buffer,
            own,
        ))
    }

    fn over(
        geometry: &ConnectionGeometry,
        generation: u32,
        from_adapter: Map,
        from_client: Map,
        buffer: Option<Map>,
        own: bool,
    ) -> Self {
        let sizes = geometry.sizes();
        let parts = Parts {
            from_adapter,
            from_client,
            receive: match &buffer {
                Some(buffer) => ReceiveMemory::over(buffer, own),
                None => ReceiveMemory::none(),
            },
            buffer,
            receive_queue: identified(ReceiveQueue::new(
                sizes.receive_slots,
                sizes.receive_len,
                generation,
            )),
            transmit_queue: TransmitQueue::new(
                sizes.transmit_slots,
                sizes.transmit_len,
                generation,
            ),
            transmit_at: geometry.transmit_buffer_at(),
            own,
        };
        let (transmit, receive) = parts.into_halves();
        Self { transmit, receive }
    }

    /// The same memory whose descriptors carry `generation`: the adapter names the VC only after
    /// the files were made. Where another client has used it, this one goes on with its queues.
    pub fn named(mut self, geometry: &ConnectionGeometry, generation: u32) -> Self {
        let sizes = geometry.sizes();
        let words = self.transmit.words();
        let (slots, len) = (sizes.receive_slots, sizes.receive_len);
        let receive = identified(ReceiveQueue::resumed(slots, len, generation, words));
        let (slots, len) = (sizes.transmit_slots, sizes.transmit_len);
        let transmit = TransmitQueue::resumed(slots, len, generation, words);
        self.receive.resume(receive);
        self.transmit.resume(transmit);
        self
    }

    /// The same memory taken apart by direction.
    pub fn into_halves(self) -> (ClientTransmit, ClientReceive) {
        (self.transmit, self.receive)
    }

    /// As [`ClientTransmit::share`] and [`ClientReceive::share`].
    pub fn share(&mut self) {
        self.transmit.share();
        self.receive.share();
    }

    /// The next PDU, if one waits.
    pub fn next_pdu(&mut self) -> Option<ReceivedPdu> {
        self.receive.next_pdu()
    }

    /// Whether no PDU waits.
    pub fn is_empty(&mut self) -> bool {
        self.receive.is_empty()
    }

    /// The SDU in place. None if others can write the receive buffer, or have it used for other
    /// PDUs (then only [`ClientMemory::copy_sdu`] gives octets that stay), or if the PDU is another
    /// connection's.
    pub fn sdu(&self, pdu: &ReceivedPdu) -> Option<&[u8]> {
        self.receive.sdu(pdu)
    }

    /// Copies the first octets of the SDU; how many.
    pub fn copy_sdu(&self, pdu: &ReceivedPdu, octets: &mut [u8]) -> usize {
        self.receive.copy_sdu(pdu, octets)
    }

    /// Gives a PDU back, in any order; `false` if it is another connection's.
    pub fn release(&mut self, pdu: ReceivedPdu) -> bool {
        self.receive.release(pdu)
    }

    /// Borrows room for an SDU of `len` octets, if there is any.
    pub fn reserve(&mut self, len: u32) -> Option<Space> {
        self.transmit.reserve(len)
    }

    /// The borrowed octets, to be written in place.
    pub fn space_mut(&mut self, space: &mut Space) -> &mut [u8] {
        self.transmit.space_mut(space)
    }

    /// Hands a written SDU to the adapter. The doorbell is the caller's to ring. `false` if another
    /// SDU was submitted since the space was borrowed.
    #[must_use = "an SDU that is refused is not sent"]
    pub fn submit(&mut self, space: Space, options: SduOptions) -> bool {
        self.transmit.submit(space, options)
    }

    /// Hands `len` octets at `offset` of the transmit buffer to the adapter, which received them
    /// there for another connection. `false` if they are not all in the buffer or the queue is
    /// full.
    #[must_use = "an SDU that is refused is not sent"]
    pub fn submit_at(&mut self, offset: u32, len: u32, options: SduOptions) -> bool {
        self.transmit.submit_at(offset, len, options)
    }

    /// Takes back what the adapter has sent; SDUs that are still with it.
    pub fn reclaim(&mut self) -> u32 {
        self.transmit.reclaim()
    }

    /// The receive queue's bookkeeping.
    pub fn receive_queue(&self) -> &ReceiveQueue {
        self.receive.queue()
    }

    /// The transmit queue's bookkeeping.
    pub fn transmit_queue(&self) -> &TransmitQueue {
        self.transmit.queue()
    }

    /// The file that this side writes, for tests that break the rules.
    pub fn from_client(&self) -> &SharedWords {
        self.transmit.words().0
    }

    /// The file that the adapter writes.
    pub fn from_adapter(&self) -> &SharedWords {
        self.transmit.words().1
    }
}
