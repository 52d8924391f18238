use std::os::fd::AsFd;

use cellgate_core::queue::{CellReceiver, CellSender, FileKind, PortGeometry};
use rustix::fs::fstat;

use crate::ShmError;
use crate::map::Map;
use crate::memfd::{self, FROM_ADAPTER, Files};

/// The sending end of a memory link's port.
#[derive(Debug)]
pub struct PortSender {
    from_sender: Map,
    from_receiver: Map,
    cells: CellSender,
    file: Option<u64>,
}

/// The receiving end of a memory link's port.
#[derive(Debug)]
pub struct PortReceiver {
    from_sender: Map,
    from_receiver: Map,
    cells: CellReceiver,
    file: Option<u64>,
}

/// What tells a port's files from all others that there are at the moment.
fn file(files: &Files) -> Result<Option<u64>, ShmError> {
    let stat = fstat(&files.from_adapter).map_err(ShmError::system("fstat"))?;
    Ok(Some(stat.st_ino))
}

/// The maps of both files at one end: mine, theirs.
fn create(
    geometry: &PortGeometry,
    generation: u32,
    mine: FileKind,
) -> Result<(Map, Map, Files), ShmError> {
    let (theirs, my_len, their_len) = lengths(geometry, mine);
    let header = geometry.header(mine, generation);
    let (map, from_adapter) = memfd::create_mine("cellgate-port", my_len, my_len, header)?;
    memfd::seal(&from_adapter, FROM_ADAPTER)?;
    let header = geometry.header(theirs, generation);
    let (their_map, from_client) = memfd::create_yours("cellgate-port", their_len, header)?;
    let files = Files {
        from_adapter,
        from_client,
    };
    Ok((map, their_map, files))
}

/// The same two maps at the end that was handed the files.
fn open(
    files: &Files,
    geometry: &PortGeometry,
    generation: u32,
    mine: FileKind,
) -> Result<(Map, Map), ShmError> {
    let (theirs, my_len, their_len) = lengths(geometry, mine);
    let file = files.from_adapter.as_fd();
    let header = geometry.header(theirs, generation);
    let their_map = memfd::open_theirs(file, their_len, their_len, header)?;
    let header = geometry.header(mine, generation);
    let map = memfd::open_ours(files.from_client.as_fd(), my_len, header)?;
    Ok((map, their_map))
}

fn lengths(geometry: &PortGeometry, mine: FileKind) -> (FileKind, usize, usize) {
    let (sender, receiver) = (geometry.from_sender_len(), geometry.from_receiver_len());
    if mine == FileKind::PortFromSender {
        (FileKind::PortFromReceiver, sender, receiver)
    } else {
        (FileKind::PortFromSender, receiver, sender)
    }
}

impl PortSender {
    /// Makes a port that this end sends into; the files are for the receiver.
    pub fn create(geometry: &PortGeometry, generation: u32) -> Result<(Self, Files), ShmError> {
        let (mine, theirs, files) = create(geometry, generation, FileKind::PortFromSender)?;
        Ok((Self::over(geometry, mine, theirs, file(&files)?), files))
    }

    /// Judges and maps a port that the receiver made.
    pub fn open(files: &Files, geometry: &PortGeometry, generation: u32) -> Result<Self, ShmError> {
        let (mine, theirs) = open(files, geometry, generation, FileKind::PortFromSender)?;
        Ok(Self::over(geometry, mine, theirs, file(files)?))
    }

    /// Both ends over heap memory, for tests without system calls.
    pub fn heap(geometry: &PortGeometry) -> (Self, PortReceiver) {
        let (from_sender, sent) = Map::heap(geometry.from_sender_len());
        let (from_receiver, received) = Map::heap(geometry.from_receiver_len());
        let sender = Self::over(geometry, from_sender, received, None);
        let receiver = PortReceiver::over(geometry, from_receiver, sent, None);
        (sender, receiver)
    }

    fn over(
        geometry: &PortGeometry,
        from_sender: Map,
        from_receiver: Map,
        file: Option<u64>,
    ) -> Self {
        Self {
            from_sender,
            from_receiver,
            cells: CellSender::new(geometry),
            file,
        }
    }

    /// Whether `receiver` is the other end.
    pub fn ends_at(&self, receiver: &PortReceiver) -> bool {
        self.file.is_some() && self.file == receiver.file
    }

    /// Cells that the port takes now; looks at the receiver's word if fewer than `wanted` were
    /// known.
    #[inline]
    pub fn space(&mut self, wanted: u32) -> u32 {
        self.cells.space(self.from_receiver.words(), wanted)
    }

    /// Sends as many of the contiguous `cells` as fit; how many.
    #[inline]
    #[must_use = "cells that did not fit are not sent"]
    pub fn send(&mut self, cells: &[u8]) -> u32 {
        let (mine, peer) = (self.from_sender.words(), self.from_receiver.words());
        self.cells.send(mine, peer, cells)
    }

    /// Counts cells that were dropped because the port was full.
    pub fn count_dropped(&mut self, cells: u64) {
        self.cells.count_dropped(self.from_sender.words(), cells);
    }

    pub fn cells(&self) -> &CellSender {
        &self.cells
    }
}

impl PortReceiver {
    /// Makes a port that this end receives from; the files are for the sender.
    pub fn create(geometry: &PortGeometry, generation: u32) -> Result<(Self, Files), ShmError> {
        let (mine, theirs, files) = create(geometry, generation, FileKind::PortFromReceiver)?;
        Ok((Self::over(geometry, mine, theirs, file(&files)?), files))
    }

    /// Judges and maps a port that the sender made.
    pub fn open(files: &Files, geometry: &PortGeometry, generation: u32) -> Result<Self, ShmError> {
        let (mine, theirs) = open(files, geometry, generation, FileKind::PortFromReceiver)?;
        Ok(Self::over(geometry, mine, theirs, file(files)?))
    }

    fn over(
        geometry: &PortGeometry,
        from_receiver: Map,
        from_sender: Map,
        file: Option<u64>,
    ) -> Self {
        Self {
            from_sender,
            from_receiver,
            cells: CellReceiver::new(geometry),
            file,
        }
    }

    /// Looks at the port: cells that wait.
    #[inline]
    pub fn poll(&mut self) -> u32 {
        self.cells.poll(self.from_sender.words())
    }

    /// Takes waiting cells, none that came after the last poll; how many.
    #[inline]
    pub fn take(&mut self, fifo: &mut [u8]) -> u32 {
        let (mine, peer) = (self.from_receiver.words(), self.from_sender.words());
        self.cells.take(mine, peer, fifo)
    }

    /// Cells that the sender says it has dropped.
    pub fn cells_dropped(&self) -> u64 {
        cellgate_core::queue::cells_dropped(self.from_sender.words())
    }

    pub fn cells(&self) -> &CellReceiver {
        &self.cells
    }
}
