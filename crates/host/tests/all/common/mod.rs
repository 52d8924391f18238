//! What the tests of this crate share: an adapter's options, cells made without the code under
//! test, and a deterministic stream of SDUs.

#![allow(dead_code, reason = "every test binary uses a part of it")]
#![allow(unreachable_pub, reason = "a module of several binaries")]

pub mod aal34;
pub mod application;
pub mod raw;

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use cellgate_core::adapter::{
    Aal, Config, Excess, Marks, Notification, OpenRequest, PortConfig, PortIndex, Receive, Transmit,
};
use cellgate_core::contract::CellRate;
use cellgate_core::queue::AttachmentSizes;
use cellgate_core::wire::{CellFormat, Header, HeaderForm, Pti, VpiVci};
use cellgate_host::adapter::AdapterOptions;
use cellgate_host::client::{Attached, OpenVc};
use cellgate_host::link::CellSender;
use cellgate_host::sys::SchedulingRequest;
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;
use rustix::net::sockopt::set_socket_linger;

/// Long enough for anything on a busy machine; reached only by a failing test.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Names the part that this executable plays when a test has started it.
pub const ROLE: &str = "CELLGATE_TEST_ROLE";

pub const SDU_MAX: u16 = 9_180;

/// This executable in a role, which the test `plays_its_role` of a module (`module_path!()`) plays.
pub fn in_role(module: &str, role: &str) -> Command {
    let module = module.split_once("::");
    let test = module.map_or("plays_its_role".to_owned(), |(_, module)| {
        format!("{module}::plays_its_role")
    });
    let mut program = Command::new(std::env::current_exe().unwrap());
    program
        .args(["--exact", &test, "--nocapture"])
        .env(ROLE, role)
        .stdout(Stdio::null());
    program
}

/// An adapter of two ports that does not ask for a CPU of its own.
pub fn options() -> AdapterOptions {
    let port = PortConfig {
        form: HeaderForm::Nni,
        format: CellFormat::NoHec,
        budget: 256,
        discard_unread: false,
        real_time: false,
        line_rate: CellRate::new(2_000_000).unwrap(),
    };
    let config = Config {
        vcs: 64,
        leaves: 4,
        attachments: 8,
        ports: vec![port; 2],
        gap_max_ns: 30_000_000,
        clump_cells: 1,
        overload_cells: 0,
    };
    AdapterOptions {
        scheduling: SchedulingRequest::modest(),
        port_cells: 4_096,
        ..AdapterOptions::new(config)
    }
}

pub fn attachment_sizes() -> AttachmentSizes {
    AttachmentSizes {
        event_slots: 1_024,
        doorbell_slots: 64,
    }
}

pub fn address(vpi: u16, vci: u16) -> VpiVci {
    VpiVci::new(vpi, vci).unwrap()
}

pub fn receiving(max_sdu: u16) -> Receive {
    Receive {
        marks: Marks::None,
        sustained: None,
        rate: None,
        cdvt_ns: 0,
        max_sdu,
        fixed_sdu: false,
        excess: Excess::Discard,
        notification: Notification::LastCell,
        queue_threshold: 0,
        guaranteed: true,
    }
}

pub fn transmitting(max_sdu: u16) -> Transmit {
    Transmit {
        rate: None,
        cdvt_ns: 0,
        weight: 1,
        abr: None,
        peak: None,
        max_sdu,
        burst: 1,
        sustained: None,
        interrupt_on_completion: true,
    }
}

/// A VC that receives SDUs of up to `max_sdu` octets.
pub fn receives(address: VpiVci, port: u8, attached: &Attached, max_sdu: u16) -> OpenRequest {
    OpenRequest {
        address,
        port: PortIndex(port),
        aal: Aal::Aal5,
        attachment: attached.index(),
        receive: Some(receiving(max_sdu)),
        transmit: None,
    }
}

/// A VC that transmits SDUs of up to `max_sdu` octets.
pub fn transmits(address: VpiVci, port: u8, attached: &Attached, max_sdu: u16) -> OpenRequest {
    OpenRequest {
        receive: None,
        transmit: Some(transmitting(max_sdu)),
        ..receives(address, port, attached, max_sdu)
    }
}

/// The CRC of I.363.5, bit by bit as it is written there.
pub fn crc32(octets: &[u8]) -> u32 {
    let mut register = u32::MAX;
    for octet in octets {
        register ^= u32::from(*octet) << 24;
        for _ in 0..8 {
            let carry = register >> 31;
            register = (register << 1) ^ (carry * 0x04c1_1db7);
        }
    }
    !register
}

/// The cells of one AAL5 PDU, 52 octets each, made by the book.
pub fn cells(address: VpiVci, sdu: &[u8]) -> Vec<u8> {
    let mut pdu = sdu.to_vec();
    pdu.resize((sdu.len() + 8).next_multiple_of(48) - 8, 0);
    pdu.extend([0, 0]);
    pdu.extend((sdu.len() as u16).to_be_bytes());
    pdu.extend(crc32(&pdu).to_be_bytes());
    let count = pdu.len() / 48;
    let mut cells = Vec::with_capacity(count * 52);
    for (i, payload) in pdu.chunks_exact(48).enumerate() {
        let pti = Pti::User {
            congested: false,
            last: i + 1 == count,
        };
        cells.extend(Header::new(address, pti, false).emit());
        cells.extend(payload);
    }
    cells
}

/// A stream of SDUs that both ends can make.
pub struct Sdus {
    rng: Pcg64Mcg,
    len_max: usize,
}

impl Sdus {
    pub fn new(seed: u64, len_max: usize) -> Self {
        Self {
            rng: Pcg64Mcg::new((u128::from(seed) << 1) | 1),
            len_max,
        }
    }
}

impl Iterator for Sdus {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        let len = 1 + self.rng.next_u64() as usize % self.len_max;
        let mut sdu = vec![0; len];
        self.rng.fill_bytes(&mut sdu);
        Some(sdu)
    }
}

/// Sends cells, all of them: waits for room.
pub fn send_all(sender: &mut CellSender, cells: &[u8]) {
    let deadline = Instant::now() + PATIENCE;
    let wanted = cells.len() / 52;
    while sender.free() < wanted {
        assert!(Instant::now() < deadline, "the adapter takes no cells");
        std::thread::yield_now();
    }
    assert_eq!(sender.send(cells), wanted);
}

/// Takes the next PDU off `vc`, sleeping for events as a client does.
pub fn next_sdu(attached: &mut Attached, vc: &mut OpenVc) -> Vec<u8> {
    next_with_mid(attached, vc).1
}

/// The same with the PDU's MID.
pub fn next_with_mid(attached: &mut Attached, vc: &mut OpenVc) -> (u16, Vec<u8>) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(pdu) = vc.next_pdu() {
            let mut sdu = vec![0; pdu.len()];
            assert_eq!(vc.copy_sdu(&pdu, &mut sdu), sdu.len());
            if let Some(in_place) = vc.sdu(&pdu) {
                assert_eq!(in_place, sdu);
            }
            let mid = pdu.mid();
            assert!(vc.release(pdu));
            return (mid, sdu);
        }
        assert!(Instant::now() < deadline, "no PDU came");
        while attached.next_event().is_some() {}
        if vc.memory().is_empty() {
            attached.wait(Some(Duration::from_secs(1))).unwrap();
        }
    }
}

/// Repeats `attempt` until it gives something.
pub fn eventually<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = attempt() {
            return value;
        }
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// How long a socket of [`lingering`] holds its closer up.
pub const LINGER: Duration = Duration::from_secs(5);

/// A socket whose last closer waits for what it has sent, and the end that does not read it.
pub fn lingering() -> (TcpStream, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    socket.set_nonblocking(true).unwrap();
    while socket.write(&[0; 1 << 16]).is_ok() {}
    set_socket_linger(&socket, Some(LINGER)).unwrap();
    (socket, listener)
}
