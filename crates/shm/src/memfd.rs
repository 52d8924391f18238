//! Memory files: made, sealed, handed out; and judged when they come from somebody else.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use cellgate_core::queue::{FileKind, Header};
use rustix::fs::{
    FallocateFlags, FileType, FsWord, MemfdFlags, Mode, SealFlags, fallocate, fchmod,
    fcntl_add_seals, fcntl_get_seals, fstat, fstatfs, ftruncate, memfd_create,
};
use rustix::io::Errno;

use crate::ShmError;
use crate::map::{Access, Map};

/// The two files of a connection, an attachment or a port, as they are handed to the client.
#[derive(Debug)]
pub struct Files {
    /// Written by the adapter. Whoever holds it can only read.
    pub from_adapter: OwnedFd,
    /// Written by the client.
    pub from_client: OwnedFd,
}

impl Files {
    /// Both, in their order.
    pub fn fds(&self) -> [BorrowedFd<'_>; 2] {
        [self.from_adapter.as_fd(), self.from_client.as_fd()]
    }

    /// Descriptors of the same two files.
    pub fn try_clone(&self) -> std::io::Result<Self> {
        Ok(Self {
            from_adapter: self.from_adapter.try_clone()?,
            from_client: self.from_client.try_clone()?,
        })
    }
}

/// Seals of a file that the adapter writes: nobody maps it writable any more, writes to it,
/// resizes it or punches holes into it.
pub(crate) const FROM_ADAPTER: SealFlags = SealFlags::SHRINK
    .union(SealFlags::GROW)
    .union(SealFlags::FUTURE_WRITE)
    .union(SealFlags::SEAL);
/// Seals of a file that the client writes: nobody resizes it.
pub(crate) const FROM_CLIENT: SealFlags = SealFlags::SHRINK
    .union(SealFlags::GROW)
    .union(SealFlags::SEAL);
/// Seals without which no foreign file is mapped at all.
pub(crate) const FOREIGN: SealFlags = SealFlags::SHRINK;

/// Makes a memory file of `len` octets, all of them allocated.
pub(crate) fn create(name: &str, len: usize) -> Result<OwnedFd, ShmError> {
    let file = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
        .map_err(ShmError::system("memfd_create"))?;
    fchmod(&file, Mode::RUSR | Mode::WUSR).map_err(ShmError::system("fchmod"))?;
    ftruncate(&file, len as u64).map_err(ShmError::system("ftruncate"))?;
    fallocate(&file, FallocateFlags::empty(), 0, len as u64)
        .map_err(ShmError::system("fallocate"))?;
    Ok(file)
}

/// Adds seals for good.
pub(crate) fn seal(file: impl AsFd, seals: SealFlags) -> Result<(), ShmError> {
    fcntl_add_seals(file, seals).map_err(ShmError::system("fcntl(F_ADD_SEALS)"))
}

/// The file system of memory files with ordinary pages.
const TMPFS_MAGIC: FsWord = 0x0102_1994;

/// How long a foreign file must be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Length {
    Exactly(usize),
    AtLeast(usize),
}

/// Device and inode of a memory file; none: it is no such file, or the kernel does not say.
///
/// Others are not asked at all: a file system of FUSE would answer when it likes.
pub fn name_of(file: impl AsFd) -> Option<(u64, u64)> {
    fcntl_get_seals(&file).ok()?;
    let stat = fstat(file).ok()?;
    Some((stat.st_dev, stat.st_ino))
}

/// Whether two descriptors are of one memory file.
pub fn is_same_file(a: impl AsFd, b: impl AsFd) -> bool {
    let (a, b) = (name_of(a), name_of(b));
    a.is_some() && a == b
}

/// Judges somebody else's descriptor before anything of it is mapped.
pub(crate) fn verify(
    file: BorrowedFd<'_>,
    needs: SealFlags,
    length: Length,
) -> Result<(), ShmError> {
    // Before anything else: other files than the kernel's own may answer when they like.
    let has = match fcntl_get_seals(file) {
        Ok(seals) => seals,
        Err(Errno::INVAL) => return Err(ShmError::NotSealable),
        Err(errno) => return Err(ShmError::system("fcntl(F_GET_SEALS)")(errno)),
    };
    let stat = fstat(file).map_err(ShmError::system("fstat"))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(ShmError::NotSealable);
    }
    if !has.contains(needs) {
        return Err(ShmError::NotSealed {
            has: has.bits(),
            needs: needs.bits(),
        });
    }
    // Huge pages: a hole in such a file may not be filled again, and reading it kills the reader.
    if fstatfs(file).map_err(ShmError::system("fstatfs"))?.f_type != TMPFS_MAGIC {
        return Err(ShmError::NotSealable);
    }
    // The length is read after the seals: from here on it cannot shrink.
    let stat = fstat(file).map_err(ShmError::system("fstat"))?;
    let has = u64::try_from(stat.st_size).unwrap_or(0);
    let (fits, needs) = match length {
        Length::Exactly(len) => (has == len as u64, len as u64),
        Length::AtLeast(len) => (has >= len as u64, len as u64),
    };
    if fits {
        Ok(())
    } else {
        Err(ShmError::Length { has, needs })
    }
}

/// A file that its creator writes: mapped writable, header written. The caller maps what else it
/// needs, then seals.
pub(crate) fn create_mine(
    name: &str,
    len: usize,
    words_len: usize,
    header: Header,
) -> Result<(Map, OwnedFd), ShmError> {
    let file = create(name, len)?;
    let map = Map::file(file.as_fd(), words_len, Access::ReadWrite)?;
    header.write(map.words());
    Ok((map, file))
}

/// A file that the peer will write: header written, sealed, mapped read-only.
pub(crate) fn create_yours(
    name: &str,
    len: usize,
    header: Header,
) -> Result<(Map, OwnedFd), ShmError> {
    let file = create(name, len)?;
    let first = Map::file(
        file.as_fd(),
        cellgate_core::queue::layout::PAGE_LEN,
        Access::ReadWrite,
    )?;
    header.write(first.words());
    drop(first);
    seal(&file, FROM_CLIENT)?;
    let map = Map::file(file.as_fd(), len, Access::ReadOnly)?;
    Ok((map, file))
}

/// Maps a file that its creator writes, after judging it.
pub(crate) fn open_theirs(
    file: BorrowedFd<'_>,
    len: usize,
    words_len: usize,
    header: Header,
) -> Result<Map, ShmError> {
    verify(file, FROM_ADAPTER, Length::Exactly(len))?;
    let map = Map::file(file, words_len, Access::ReadOnly)?;
    check_header(&map, header.kind, header.generation)?;
    Ok(map)
}

/// Maps a file that its creator made for us to write, after judging it.
pub(crate) fn open_ours(file: BorrowedFd<'_>, len: usize, header: Header) -> Result<Map, ShmError> {
    verify(file, FROM_CLIENT, Length::Exactly(len))?;
    let map = Map::file(file, len, Access::ReadWrite)?;
    check_header(&map, header.kind, header.generation)?;
    Ok(map)
}

fn check_header(map: &Map, kind: FileKind, generation: u32) -> Result<(), ShmError> {
    let header = Header::read(map.words())?;
    if header.kind == kind && header.generation == generation {
        Ok(())
    } else {
        Err(ShmError::WrongFile {
            has: header.kind,
            generation: header.generation,
        })
    }
}
