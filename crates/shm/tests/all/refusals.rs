//! Descriptors that are not what they should be are refused by name before anything is mapped.

use std::os::fd::{AsFd, OwnedFd};

use crate::common::{Adapter, GENERATION, geometry, sdu};
use cellgate_core::aal::Memory;
use cellgate_core::adapter::Region;
use cellgate_core::queue::layout::PAGE_LEN;
use cellgate_core::queue::{ConnectionGeometry, ConnectionSizes, FileKind, HeaderError, Words};
use cellgate_shm::{
    ClientMemory, ConnectionMemory, Files, ReceiveBuffer, ShmError, is_same_file, name_of,
};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fstat, ftruncate, memfd_create};
use rustix::io::Errno;

fn create() -> (ConnectionMemory, Files) {
    ConnectionMemory::create(&geometry(), GENERATION, 0, ReceiveBuffer::Own).unwrap()
}

fn open(files: &Files) -> Result<ClientMemory, ShmError> {
    ClientMemory::open(files, &geometry(), GENERATION, ReceiveBuffer::Own)
}

fn memfd(len: usize, seals: SealFlags) -> OwnedFd {
    let file = memfd_create("test", MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&file, len as u64).unwrap();
    fcntl_add_seals(&file, seals).unwrap();
    file
}

const ALL: SealFlags = SealFlags::SHRINK
    .union(SealFlags::GROW)
    .union(SealFlags::FUTURE_WRITE)
    .union(SealFlags::SEAL);

/// A file on disk, or as near as this machine has one, without a name.
fn file_on_disk(len: usize) -> OwnedFd {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("cellgate-{}-{n}", std::process::id()));
    let file = std::fs::File::options()
        .create_new(true)
        .read(true)
        .write(true)
        .open(&path)
        .unwrap();
    std::fs::remove_file(&path).unwrap();
    file.set_len(len as u64).unwrap();
    file.into()
}

#[test]
fn files_are_for_their_owner_alone_and_wholly_allocated() {
    let (_memory, files) = create();
    for (file, len) in [
        (&files.from_adapter, geometry().from_adapter_len()),
        (&files.from_client, geometry().from_client_len()),
    ] {
        let stat = fstat(file).unwrap();
        assert_eq!(stat.st_mode & 0o777, 0o600);
        assert_eq!(stat.st_size as usize, len);
        assert!(stat.st_blocks as usize * 512 >= len, "pages are missing");
    }
}

#[test]
fn files_that_are_no_sealed_memory_are_refused() {
    let len = geometry().from_adapter_len();
    let (_memory, good) = create();
    let with = |from_adapter| Files {
        from_adapter,
        from_client: good.from_client.try_clone().unwrap(),
    };
    let (pipe, _other_end) = rustix::pipe::pipe().unwrap();
    assert_eq!(open(&with(pipe)).unwrap_err(), ShmError::NotSealable);
    // On tmpfs a file answers, without the seals due; elsewhere it cannot be asked.
    let error = open(&with(file_on_disk(len))).unwrap_err();
    assert!(matches!(
        error,
        ShmError::NotSealable | ShmError::NotSealed { .. }
    ));
    for missing in [
        SealFlags::SHRINK,
        SealFlags::GROW,
        SealFlags::FUTURE_WRITE,
        SealFlags::SEAL,
    ] {
        let has = ALL.difference(missing);
        assert_eq!(
            open(&with(memfd(len, has))).unwrap_err(),
            ShmError::NotSealed {
                has: has.bits(),
                needs: ALL.bits()
            }
        );
    }
    assert_eq!(
        open(&with(memfd(len - PAGE_LEN, ALL))).unwrap_err(),
        ShmError::Length {
            has: (len - PAGE_LEN) as u64,
            needs: len as u64
        }
    );
    assert_eq!(
        open(&with(memfd(len, ALL))).unwrap_err(),
        ShmError::Header(HeaderError::Magic)
    );
}

#[test]
fn files_of_another_kind_or_generation_are_refused() {
    let (_memory, files) = create();
    let error = ClientMemory::open(&files, &geometry(), GENERATION + 1, ReceiveBuffer::Own);
    assert_eq!(
        error.unwrap_err(),
        ShmError::WrongFile {
            has: FileKind::ConnectionFromAdapter,
            generation: GENERATION
        }
    );
    let swapped = Files {
        from_adapter: files.from_client,
        from_client: files.from_adapter,
    };
    assert!(matches!(
        open(&swapped).unwrap_err(),
        ShmError::NotSealed { .. }
    ));
}

#[test]
fn the_buffer_lies_behind_itself() {
    let (memory, files) = create();
    let mut client = open(&files).unwrap();
    let mut adapter = Adapter::new(memory);
    // SDUs of all lengths wander over the buffer's end.
    for i in 0..2_000 {
        assert!(adapter.deliver(&sdu(i)));
        let pdu = client.next_pdu().unwrap();
        assert_eq!(client.sdu(&pdu).unwrap(), sdu(i));
        assert!(client.release(pdu));
    }
    let len = geometry().sizes().receive_len as usize;
    let buffer = adapter.region.receive_buffer();
    assert_eq!(buffer.len(), len);
    buffer.write(len - 3, b"mirror");
    assert_eq!(buffer.stable(0, 3), Some(&b"ror"[..]));
    assert_eq!(buffer.stable(len, 3), Some(&b"ror"[..]));
    assert_eq!(buffer.stable(2 * len - 3, 3), Some(&b"mir"[..]));
}

fn elsewhere(receive_len: u32) -> ConnectionGeometry {
    ConnectionGeometry::new(ConnectionSizes {
        receive_len,
        receive_elsewhere: true,
        ..geometry().sizes()
    })
    .unwrap()
}

#[test]
fn pdus_are_reassembled_into_another_connections_transmit_buffer() {
    let (_other, other_files) = create();
    let other = open(&other_files).unwrap();
    let len = geometry().sizes().transmit_len;
    let here = elsewhere(len);
    let there = ReceiveBuffer::TransmitBufferOf {
        from_client: other_files.from_client.as_fd(),
        geometry: geometry(),
    };
    let (memory, files) = ConnectionMemory::create(&here, GENERATION, 0, there).unwrap();
    let mut client = ClientMemory::open(&files, &here, GENERATION, there).unwrap();
    let mut adapter = Adapter::new(memory);
    assert_eq!(adapter.region.receive_buffer().len(), len as usize);
    assert_eq!(
        adapter.region.receive_buffer().stable(0, 1),
        None,
        "its client writes it too"
    );
    assert!(adapter.deliver(&sdu(50)));
    let pdu = client.next_pdu().unwrap();
    assert_eq!(client.sdu(&pdu), None);
    let mut copy = vec![0; pdu.len()];
    assert_eq!(client.copy_sdu(&pdu, &mut copy), copy.len());
    assert_eq!(copy, sdu(50));
    let mut seen = vec![0; pdu.len()];
    other
        .from_client()
        .copy_out(geometry().transmit_buffer_at() + pdu.offset(), &mut seen);
    assert_eq!(seen, sdu(50));
    assert!(client.release(pdu));
    for wrong in [elsewhere(len * 2), geometry()] {
        let error = ConnectionMemory::create(&wrong, GENERATION, 0, there).unwrap_err();
        assert_eq!(error, ShmError::ReceiveBuffer);
    }
    let error = ConnectionMemory::create(&here, GENERATION, 0, ReceiveBuffer::Own).unwrap_err();
    assert_eq!(error, ShmError::ReceiveBuffer);
}

#[test]
fn pdus_are_reassembled_into_a_memory_file_that_cannot_shrink() {
    let len = 64 << 10;
    let here = elsewhere(len as u32);
    let file = memfd(len, SealFlags::SHRINK);
    let buffer = ReceiveBuffer::File(file.as_fd());
    let (memory, files) = ConnectionMemory::create(&here, GENERATION, 0, buffer).unwrap();
    let mut client = ClientMemory::open(&files, &here, GENERATION, buffer).unwrap();
    let mut adapter = Adapter::new(memory);
    // Its owner does its worst, and only its own octets suffer.
    assert_eq!(ftruncate(&file, 0), Err(Errno::PERM));
    let hole = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
    for i in 0..200 {
        rustix::fs::fallocate(&file, hole, 0, len as u64).unwrap();
        assert!(adapter.deliver(&sdu(i)));
        let pdu = client.next_pdu().unwrap();
        let mut copy = vec![0; pdu.len()];
        client.copy_sdu(&pdu, &mut copy);
        assert_eq!(copy, sdu(i));
        assert!(client.release(pdu));
    }
}

#[test]
fn a_receive_buffer_that_its_owner_could_shorten_is_refused() {
    let len = 64 << 10;
    let here = elsewhere(len as u32);
    let create = |file: &OwnedFd| {
        ConnectionMemory::create(&here, GENERATION, 0, ReceiveBuffer::File(file.as_fd()))
            .map(|_| ())
    };
    let unsealed = memfd(len, SealFlags::GROW);
    assert!(matches!(create(&unsealed), Err(ShmError::NotSealed { .. })));
    // It really is a danger.
    assert_eq!(ftruncate(&unsealed, 0), Ok(()));
    let disk = file_on_disk(len);
    let error = create(&disk).unwrap_err();
    assert!(matches!(
        error,
        ShmError::NotSealable | ShmError::NotSealed { .. }
    ));
    assert_eq!(ftruncate(&disk, 0), Ok(()));
    assert_eq!(
        create(&memfd(len / 2, SealFlags::SHRINK)),
        Err(ShmError::Length {
            has: len as u64 / 2,
            needs: len as u64
        })
    );
    // Nor one that the adapter may not write.
    let error = create(&memfd(len, SealFlags::SHRINK | SealFlags::WRITE)).unwrap_err();
    assert_eq!(
        error,
        ShmError::System {
            call: "mmap",
            errno: Errno::PERM
        }
    );
}

#[test]
fn a_connection_may_receive_nothing_and_send_nothing() {
    let nothing = ConnectionGeometry::new(ConnectionSizes {
        receive_slots: 1,
        receive_len: 0,
        receive_elsewhere: false,
        transmit_slots: 1,
        transmit_len: 0,
    })
    .unwrap();
    let (mut memory, files) =
        ConnectionMemory::create(&nothing, GENERATION, 0, ReceiveBuffer::Own).unwrap();
    let mut client = ClientMemory::open(&files, &nothing, GENERATION, ReceiveBuffer::Own).unwrap();
    assert_eq!(memory.receive_buffer().len(), 0);
    assert!(client.next_pdu().is_none() && client.reserve(1).is_none());
}

#[test]
fn memory_goes_with_its_last_user() {
    let maps = || std::fs::read_to_string("/proc/self/maps").unwrap();
    let (memory, files) = ConnectionMemory::create(
        &elsewhere(0),
        GENERATION,
        0,
        ReceiveBuffer::File(memfd(0, SealFlags::SHRINK).as_fd()),
    )
    .unwrap();
    let inode = fstat(&files.from_adapter).unwrap().st_ino;
    let holds = |maps: String| {
        maps.split_whitespace()
            .any(|word| word == inode.to_string())
    };
    assert!(holds(maps()));
    drop(memory);
    assert!(!holds(maps()));
}

#[test]
fn a_receive_buffer_of_huge_pages_is_refused() {
    let flags = MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC | MemfdFlags::HUGETLB;
    // A kernel without huge pages has nothing to refuse.
    let Ok(file) = memfd_create("test", flags) else {
        return;
    };
    ftruncate(&file, 4 << 20).unwrap();
    fcntl_add_seals(&file, SealFlags::SHRINK).unwrap();
    let buffer = ReceiveBuffer::File(file.as_fd());
    let made = ConnectionMemory::create(&elsewhere(4 << 20), GENERATION, 0, buffer);
    assert_eq!(made.map(|_| ()), Err(ShmError::NotSealable));
}

#[test]
fn only_memory_files_have_a_name_to_compare() {
    let (one, other) = (memfd(PAGE_LEN, ALL), memfd(PAGE_LEN, ALL));
    let again = one.try_clone().unwrap();
    assert!(is_same_file(&one, &again));
    assert!(!is_same_file(&one, &other));
    // The same file on both sides, whose file system would have to be asked.
    let proc: OwnedFd = std::fs::File::open("/proc/self/stat").unwrap().into();
    assert_eq!(name_of(&proc), None);
    assert!(!is_same_file(&proc, &proc));
}
