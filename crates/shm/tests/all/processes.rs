//! Shared memory between two processes: contents, seals, wake-ups, and a client that does its
//! worst.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::common;
use crate::common::{Adapter, GENERATION, Other, descriptors, geometry, say_done, sdu};
use cellgate_core::adapter::{Attachment, Region};
use cellgate_core::queue::layout::{DOORBELL_LEN, EVENT_SLOT_LEN, PAGE_LEN, connection};
use cellgate_core::queue::{
    AttachmentGeometry, AttachmentSizes, ConnectionGeometry, ConnectionSizes, Consumer, Doorbell,
    PortGeometry, PortSizes, Producer, SduOptions, Words, queue,
};
use cellgate_core::wire::CellFormat;
use cellgate_shm::{
    AttachmentMemory, ClientAttachment, ClientMemory, ConnectionMemory, Files, PortReceiver,
    PortSender, Presence, ReceiveBuffer, Sleeper, Waker, Woken, wake_descriptors,
};
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;
use rustix::fs::{
    FallocateFlags, Mode, OFlags, fallocate, fcntl_getfl, fcntl_setfl, ftruncate, open,
};
use rustix::io::{Errno, pwrite, write};
use rustix::mm::{
    Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap, mmap_anonymous, mprotect, munmap,
};

const PDUS: u32 = 5_000;
const WAKE_UPS: u32 = 10_000;
const SCRIBBLES: u64 = 1_000_000;

/// The other process.
#[test]
#[ignore = "run by the other tests of this file"]
fn other() {
    match common::role().expect("started by a test").as_str() {
        "echo" => echo(files(2)),
        "break_seals" => break_seals(files(2)),
        "sleep" => sleep(),
        "scribble" => scribble(files(2)),
        "send_cells" => send_cells(files(2)),
        role => panic!("no role {role}"),
    }
    say_done();
}

fn files(n: usize) -> Files {
    let mut descriptors = descriptors(n).into_iter();
    let mut next = || descriptors.next().expect("as many as asked");
    Files {
        from_adapter: next(),
        from_client: next(),
    }
}

fn create() -> (Adapter, Files) {
    let (region, files) =
        ConnectionMemory::create(&geometry(), GENERATION, 16 << 10, ReceiveBuffer::Own).unwrap();
    (Adapter::new(region), files)
}

#[test]
fn pdus_cross_processes_in_place_and_come_back() {
    let (mut adapter, files) = create();
    let both = [files.from_adapter.as_fd(), files.from_client.as_fd()];
    let mut other = Other::start("echo", &both);
    let (mut sent, mut echoed) = (0, 0);
    while echoed < PDUS {
        if sent < PDUS && adapter.deliver(&sdu(sent)) {
            sent += 1;
        }
        match adapter.take() {
            Some(octets) => {
                assert_eq!(octets, sdu(echoed));
                echoed += 1;
            }
            None => {
                assert!(other.is_running(), "the other process died");
                std::thread::yield_now();
            }
        }
    }
    other.finish();
    assert_eq!(
        (adapter.receive.faults(), adapter.transmit.faults()),
        (0, 0)
    );
}

/// Sends every PDU back; gives them back in pairs, in the wrong order.
fn echo(files: Files) {
    let mut client =
        ClientMemory::open(&files, &geometry(), GENERATION, ReceiveBuffer::Own).unwrap();
    let mut held = None;
    for i in 0..PDUS {
        let pdu = loop {
            match client.next_pdu() {
                Some(pdu) => break pdu,
                None => std::thread::yield_now(),
            }
        };
        let octets = client.sdu(&pdu).expect("the adapter's own buffer").to_vec();
        assert_eq!(octets, sdu(i));
        let mut space = loop {
            match client.reserve(pdu.len() as u32) {
                Some(space) => break space,
                None => std::thread::yield_now(),
            }
        };
        client.space_mut(&mut space).copy_from_slice(&octets);
        assert!(client.submit(space, SduOptions::default()));
        match held.take() {
            None => held = Some(pdu),
            Some(earlier) => {
                assert!(client.release(pdu));
                assert!(client.release(earlier));
            }
        }
    }
}

#[test]
fn seals_keep_a_client_from_writing_or_resizing() {
    let (mut adapter, files) = create();
    assert!(adapter.deliver(&sdu(1)));
    let before = adapter.region.from_adapter().load(connection::RECEIVE_HEAD);
    let both = [files.from_adapter.as_fd(), files.from_client.as_fd()];
    Other::start("break_seals", &both).finish();
    let words = adapter.region.from_adapter();
    assert_eq!(words.load(connection::RECEIVE_HEAD), before);
    // The hole that the client punched into its own file reads as zeros and costs nobody else.
    let mut octets = [1; 64];
    adapter.region.from_client().copy_out(PAGE_LEN, &mut octets);
    assert_eq!(octets, [0; 64]);
    assert!(adapter.deliver(&sdu(2)));
}

fn map_shared(file: &OwnedFd, prot: ProtFlags) -> Result<*mut std::ffi::c_void, Errno> {
    // SAFETY: a new mapping at an address of the kernel's choice.
    unsafe {
        mmap(
            std::ptr::null_mut(),
            PAGE_LEN,
            prot,
            MapFlags::SHARED,
            file,
            0,
        )
    }
}

fn break_seals(files: Files) {
    const HOLE: FallocateFlags = FallocateFlags::PUNCH_HOLE.union(FallocateFlags::KEEP_SIZE);
    let both = ProtFlags::READ | ProtFlags::WRITE;
    let len = geometry().from_adapter_len() as u64;
    let theirs = &files.from_adapter;
    assert_eq!(ftruncate(theirs, 0), Err(Errno::PERM));
    assert_eq!(ftruncate(theirs, 2 * len), Err(Errno::PERM));
    assert_eq!(pwrite(theirs, b"forged", 0), Err(Errno::PERM));
    assert_eq!(fallocate(theirs, HOLE, 0, 4096), Err(Errno::PERM));
    assert_eq!(map_shared(theirs, both), Err(Errno::PERM));
    let again = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(theirs));
    let again = open(again, OFlags::RDWR, Mode::empty()).unwrap();
    assert_eq!(map_shared(&again, both), Err(Errno::PERM));
    let read_only = map_shared(theirs, ProtFlags::READ).unwrap();
    // SAFETY: only this function knows the mapping.
    unsafe {
        let writable = MprotectFlags::READ | MprotectFlags::WRITE;
        assert_eq!(mprotect(read_only, PAGE_LEN, writable), Err(Errno::ACCESS));
        let removed = madvise(read_only, PAGE_LEN, Advice::LinuxRemove);
        assert!(
            matches!(removed, Err(Errno::ACCESS | Errno::PERM)),
            "{removed:?}"
        );
        munmap(read_only, PAGE_LEN).unwrap();
    }
    let ours = &files.from_client;
    let len = geometry().from_client_len() as u64;
    assert_eq!(ftruncate(ours, 0), Err(Errno::PERM));
    assert_eq!(ftruncate(ours, 2 * len), Err(Errno::PERM));
    let seals = rustix::fs::SealFlags::WRITE;
    assert_eq!(rustix::fs::fcntl_add_seals(ours, seals), Err(Errno::PERM));
    let map = map_shared(ours, both).unwrap();
    // SAFETY: the mapping is this function's alone, and page-aligned.
    unsafe {
        map.cast::<u64>().write(1);
        munmap(map, PAGE_LEN).unwrap();
    }
    assert_eq!(pwrite(ours, b"own octets", PAGE_LEN as u64), Ok(10));
    assert_eq!(fallocate(ours, HOLE, 0, len), Ok(()));
}

fn attachment_geometry() -> AttachmentGeometry {
    AttachmentGeometry::new(AttachmentSizes {
        event_slots: 4,
        doorbell_slots: 4,
    })
    .unwrap()
}

/// Wakes the client if it is due; whether it was.
fn wakes(waker: &mut Waker, bell: &OwnedFd) -> bool {
    let due = waker.is_due();
    if due {
        write(bell, &1u64.to_ne_bytes()).unwrap();
    }
    due
}

#[test]
fn no_wake_up_is_lost_between_processes() {
    let (adapter, files) = AttachmentMemory::create(&attachment_geometry(), GENERATION).unwrap();
    let (bell, watch) = wake_descriptors().unwrap();
    let mut other = Other::start(
        "sleep",
        &[
            files.from_adapter.as_fd(),
            files.from_client.as_fd(),
            watch.as_fd(),
        ],
    );
    let mut waker = Waker::new(&files, &attachment_geometry()).unwrap();
    let (mine, peer) = (adapter.from_adapter(), adapter.from_client());
    let mut events = Producer::<queue::Events>::new(4);
    let mut doorbells = Consumer::<queue::Doorbells>::new(4);
    let mut woken = 0;
    for i in 0..WAKE_UPS {
        assert!(events.push(mine, peer, &[i as u8; EVENT_SLOT_LEN]));
        woken += u32::from(wakes(&mut waker, &bell));
        let mut slot = [0; DOORBELL_LEN];
        while !doorbells.pop(mine, peer, &mut slot) {
            assert!(other.is_running(), "the other process missed a wake-up");
            std::thread::yield_now();
        }
        assert_eq!(Doorbell::parse(&slot).vc, i);
    }
    other.finish();
    assert!(woken <= WAKE_UPS, "{woken} wake-ups for {WAKE_UPS} events");
    assert!(woken > 0, "the other process never slept");
}

fn sleep() {
    let mut descriptors = descriptors(3).into_iter();
    let mut next = || descriptors.next().expect("three");
    let files = Files {
        from_adapter: next(),
        from_client: next(),
    };
    let sleeper = Sleeper::new(next());
    let mut client = ClientAttachment::open(&files, &attachment_geometry(), GENERATION).unwrap();
    for i in 0..WAKE_UPS {
        let event = loop {
            if let Some(event) = client.next_event() {
                break event;
            }
            let woken = client
                .sleep(&sleeper, Some(Duration::from_secs(20)), || false)
                .unwrap();
            assert_ne!(woken, Woken::TimedOut, "wake-up {i} was lost");
        };
        assert_eq!(event, [i as u8; EVENT_SLOT_LEN]);
        assert!(client.ring(Doorbell {
            vc: i,
            generation: GENERATION
        }));
    }
}

#[test]
fn sleep_ends_at_its_time_and_not_before() {
    let (_adapter, files) = AttachmentMemory::create(&attachment_geometry(), GENERATION).unwrap();
    let mut client = ClientAttachment::open(&files, &attachment_geometry(), GENERATION).unwrap();
    let (bell, watch) = wake_descriptors().unwrap();
    let sleeper = Sleeper::new(watch);
    let mut waker = Waker::new(&files, &attachment_geometry()).unwrap();
    let timeout = Duration::from_millis(20);
    let start = Instant::now();
    let woken = client.sleep(&sleeper, Some(timeout), || false).unwrap();
    assert_eq!(woken, Woken::TimedOut);
    assert!(start.elapsed() >= timeout);
    assert!(!wakes(&mut waker, &bell), "nobody sleeps");
    let woken = client.sleep(&sleeper, None, || true).unwrap();
    assert_eq!(woken, Woken::Ready);
}

#[test]
fn one_sleep_costs_one_wake_up_however_often_its_client_is_told() {
    let (_adapter, files) = AttachmentMemory::create(&attachment_geometry(), GENERATION).unwrap();
    let mut client = ClientAttachment::open(&files, &attachment_geometry(), GENERATION).unwrap();
    let (bell, watch) = wake_descriptors().unwrap();
    let sleeper = Sleeper::new(watch);
    let mut waker = Waker::new(&files, &attachment_geometry()).unwrap();
    let mut woken = Vec::new();
    let ready = || {
        woken.extend((0..5).map(|_| wakes(&mut waker, &bell)));
        false
    };
    assert_eq!(
        client.sleep(&sleeper, None, ready).unwrap(),
        Woken::Interrupted
    );
    assert_eq!(woken, [true, false, false, false, false]);
}

#[test]
fn a_sleeper_cannot_make_its_waker_wait() {
    let (_adapter, files) = AttachmentMemory::create(&attachment_geometry(), GENERATION).unwrap();
    let mut client = ClientAttachment::open(&files, &attachment_geometry(), GENERATION).unwrap();
    let (bell, watch) = wake_descriptors().unwrap();
    // An eventfd whose writer may be made to wait: its flags and count belong to all who hold it.
    fcntl_setfl(&watch, OFlags::empty()).unwrap();
    let full = write(&watch, &(u64::MAX - 1).to_ne_bytes());
    assert_eq!(full.unwrap_err(), Errno::INVAL);
    assert!(fcntl_getfl(&bell).unwrap().contains(OFlags::NONBLOCK));
    let sleeper = Sleeper::new(watch);
    let mut waker = Waker::new(&files, &attachment_geometry()).unwrap();
    for _ in 0..3 {
        let ready = || !wakes(&mut waker, &bell);
        let woken = client.sleep(&sleeper, None, ready).unwrap();
        assert_eq!(woken, Woken::Interrupted);
    }
    // Each wake-up ends one sleep, not the next one too.
    let timeout = Some(Duration::from_millis(5));
    let woken = client.sleep(&sleeper, timeout, || false).unwrap();
    assert_eq!(woken, Woken::TimedOut);
}

#[test]
fn a_client_that_scribbles_over_its_file_hurts_only_itself() {
    let (mut adapter, files) = create();
    let (mut honest, victim_files) = create();
    let mut victim =
        ClientMemory::open(&victim_files, &geometry(), GENERATION, ReceiveBuffer::Own).unwrap();
    let both = [files.from_adapter.as_fd(), files.from_client.as_fd()];
    let mut other = Other::start("scribble", &both);
    let start = Instant::now();
    let (mut i, mut enough) = (0, false);
    while other.is_running() {
        adapter.deliver(&sdu(i));
        if let Some(sdu) = adapter.take() {
            assert!(!sdu.is_empty() && sdu.len() <= 16 << 10);
        }
        assert!(adapter.receive.free_seen() <= 16 && adapter.transmit.available_seen() <= 8);
        assert!(honest.deliver(&sdu(i)));
        let pdu = victim.next_pdu().unwrap();
        assert_eq!(victim.sdu(&pdu).unwrap(), sdu(i));
        assert!(victim.release(pdu));
        i += 1;
        // The other goes on until each of its attacks was met, whoever of the two runs when.
        let met = adapter.receive.faults() > 0
            && adapter.transmit.faults() > 0
            && adapter.descriptors_refused() > 0;
        if !enough && met && i > 1_000 {
            other.stop();
            enough = true;
        }
        assert!(
            enough || start.elapsed() < Duration::from_secs(60),
            "attacks went unmet"
        );
    }
    assert!(enough, "the other process ended early");
    other.finish();
    assert_eq!((honest.receive.faults(), honest.transmit.faults()), (0, 0));
}

fn scribble(files: Files) {
    let client = ClientMemory::open(&files, &geometry(), GENERATION, ReceiveBuffer::Own).unwrap();
    let words = client.from_client();
    let mut rng = Pcg64Mcg::new(0xcafe_f00d_d15e_a5e5);
    let mut i = 0;
    while i < SCRIBBLES || !common::is_stopped() {
        i += 1;
        let forged = rng.next_u64() >> (rng.next_u64() % 64);
        match rng.next_u64() % 4 {
            0 => words.store(connection::RECEIVE_TAIL, forged),
            1 => words.store(connection::TRANSMIT_HEAD, i % 64),
            _ => words.store(8 * (rng.next_u64() as usize % (words.len() / 8)), forged),
        }
    }
}

fn port_geometry() -> PortGeometry {
    PortGeometry::new(PortSizes {
        cells: 256,
        format: CellFormat::NoHec,
    })
    .unwrap()
}

const CELLS: u32 = 100_000;

#[test]
fn cells_cross_processes_in_order() {
    let (mut receiver, files) = PortReceiver::create(&port_geometry(), GENERATION).unwrap();
    let both = [files.from_adapter.as_fd(), files.from_client.as_fd()];
    let mut other = Other::start("send_cells", &both);
    let (mut taken, mut fifo) = (0u32, vec![0; 52 * 100]);
    while taken < CELLS {
        if receiver.poll() == 0 {
            let running = other.is_running();
            assert!(running || receiver.poll() > 0, "the other process died");
            std::thread::yield_now();
        }
        let n = receiver.take(&mut fifo) as usize;
        for cell in fifo.chunks(52).take(n) {
            assert_eq!(cell[..4], taken.to_le_bytes());
            assert!(cell[4..].iter().all(|&octet| octet == taken as u8));
            taken += 1;
        }
    }
    other.finish();
    assert_eq!(receiver.cells().faults(), 0);
}

fn send_cells(files: Files) {
    let mut sender = PortSender::open(&files, &port_geometry(), GENERATION).unwrap();
    let mut sent = 0;
    while sent < CELLS {
        let cells: Vec<u8> = (sent..(sent + 40).min(CELLS))
            .flat_map(|i| {
                let mut cell = [i as u8; 52];
                cell[..4].copy_from_slice(&i.to_le_bytes());
                cell
            })
            .collect();
        match sender.send(&cells) {
            0 => std::thread::yield_now(),
            n => sent += n,
        }
    }
}

/// Has the kernel put huge pages in place of the small ones of a file; whether it does that.
fn collapse(file: &OwnedFd, len: usize) -> bool {
    const HUGE: usize = 2 << 20;
    const MADV_COLLAPSE: libc::c_int = 25;
    let (read, flags) = (ProtFlags::READ, MapFlags::SHARED | MapFlags::POPULATE);
    let private = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: new mappings at an address of the kernel's choice, the second within the first; they
    // are unmapped before they are used for anything else.
    unsafe {
        let room = mmap_anonymous(
            core::ptr::null_mut(),
            len + HUGE,
            ProtFlags::empty(),
            private,
        );
        let room = room.unwrap();
        let at = room
            .cast::<u8>()
            .add(room.addr().next_multiple_of(HUGE) - room.addr());
        mmap(at.cast(), len, read, flags | MapFlags::FIXED, file, 0).unwrap();
        let collapsed = libc::madvise(at.cast(), len, MADV_COLLAPSE) == 0;
        munmap(room, len + HUGE).unwrap();
        collapsed
    }
}

#[test]
fn pages_that_are_taken_away_are_found() {
    let sizes = ConnectionSizes {
        transmit_len: 8 << 20,
        ..geometry().sizes()
    };
    let geometry = ConnectionGeometry::new(sizes).unwrap();
    let made = ConnectionMemory::create(&geometry, GENERATION, 0, ReceiveBuffer::Own);
    let (_memory, files) = made.unwrap();
    let file = &files.from_client;
    let presence = Presence::of(file).unwrap();
    assert_eq!(presence.restore().unwrap(), 0);
    let punch = |at: u64, pages: u64| {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(file, flags, at, pages * PAGE_LEN as u64).unwrap();
    };
    for pages in [1, 3, 1_000] {
        punch(0, pages);
        // Each is a page of its own: there is none that the kernel could find with it.
        assert_eq!(u64::from(presence.restore().unwrap()), pages);
        assert_eq!(presence.restore().unwrap(), 0, "they are back");
    }
    // Another map that comes and goes takes nothing out of this one.
    drop(Presence::of(file).unwrap());
    assert_eq!(presence.restore().unwrap(), 0);
    match collapse(file, 4 << 20) {
        true => {
            assert!(
                presence.restore().unwrap() > 0,
                "collapsed, and not noticed"
            );
            assert_eq!(presence.restore().unwrap(), 0);
            println!("ran collapsed_pages");
        }
        false => println!("skipped collapsed_pages: this kernel collapses no memory files"),
    }
}
