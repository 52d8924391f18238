//! Every `unsafe` block that is no system call, over heap memory: Miri runs these.

use std::thread;

use cellgate_core::Time;
use cellgate_core::aal::{Memory, aal34};
use cellgate_core::adapter::{Attachment, Region};
use cellgate_core::queue::layout::{self, connection};
use cellgate_core::queue::{
    AttachmentGeometry, AttachmentSizes, ConnectionGeometry, ConnectionSizes, Consumer, Doorbell,
    PortGeometry, PortSizes, Producer, ReceiveDescriptor, SduOptions, TransmitDescriptor, Words,
    queue,
};
use cellgate_core::wire::{CellFormat, Checked, Header, SarPdu};
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

use crate::{AttachmentMemory, ConnectionMemory, Map, PortSender, ReceiveMemory};

const GENERATION: u32 = 5;
const PDUS: u32 = if cfg!(miri) { 40 } else { 20_000 };

fn geometry() -> ConnectionGeometry {
    ConnectionGeometry::new(ConnectionSizes {
        receive_slots: 4,
        receive_len: 4096,
        receive_elsewhere: false,
        transmit_slots: 4,
        transmit_len: 4096,
    })
    .unwrap()
}

/// As much of an adapter as a queue needs.
struct Adapter {
    region: ConnectionMemory,
    receive: Producer<queue::Receive>,
    transmit: Consumer<queue::Transmit>,
    position: u64,
}

impl Adapter {
    fn new(region: ConnectionMemory) -> Self {
        Self {
            receive: Producer::new(region.receive_slots()),
            transmit: Consumer::new(region.transmit_slots()),
            position: 0,
            region,
        }
    }

    /// Writes a PDU of whole cells and shows it; `false` if the queue is full. (The tests' PDUs are
    /// at most a quarter of the buffer, so a free descriptor means free space.)
    fn deliver(&mut self, cells: &[u8]) -> bool {
        if self.receive.free(self.region.from_client(), 1) == 0 {
            return false;
        }
        let buffer = self.region.receive_buffer();
        let offset = (self.position % buffer.len() as u64) as usize;
        buffer.write_payloads(offset, cells, CellFormat::NoHec);
        let n = cells.len() / 52;
        let descriptor = ReceiveDescriptor {
            position: self.position,
            time: Time::ZERO,
            len: (n * 48) as u32,
            cells: n as u32,
            generation: GENERATION,
            uu: 0,
            cpi: 0,
            clp: false,
            congestion: false,
            lent: false,
            mid: 0,
        };
        self.position += (n * 48).next_multiple_of(64) as u64;
        let slot = descriptor.emit();
        self.receive
            .push(self.region.from_adapter(), self.region.from_client(), &slot)
    }

    /// Takes an SDU, if one waits and its descriptor is sane.
    fn take(&mut self) -> Option<Vec<u8>> {
        let mut slot = [0; layout::TRANSMIT_DESCRIPTOR_LEN];
        if self.transmit.available(self.region.from_client(), 1) == 0 {
            return None;
        }
        self.region
            .from_client()
            .copy_out(self.transmit.slot_at(0), &mut slot);
        let descriptor = TransmitDescriptor::parse(&slot);
        let sane = descriptor.is_within(self.region.transmit_len());
        let sdu = sane.then(|| {
            let len = descriptor.len as usize;
            self.region.stage(descriptor.offset, len)[..len].to_vec()
        });
        self.transmit.release(self.region.from_adapter(), 1);
        sdu
    }
}

/// The cells of the `i`-th PDU: every payload octet tells PDU and cell.
fn cells(i: u32) -> Vec<u8> {
    (0..1 + i % 20)
        .flat_map(|cell| {
            let mut octets = [(i ^ cell << 3) as u8; 52];
            octets[..4].fill(0xff);
            octets
        })
        .collect()
}

fn payloads(cells: &[u8]) -> Vec<u8> {
    cells
        .chunks(52)
        .flat_map(|cell| cell[4..].to_vec())
        .collect()
}

#[test]
fn a_pdu_of_another_connection_is_neither_shown_nor_released() {
    let (region, mut client) = ConnectionMemory::heap(&geometry(), GENERATION, 4096);
    let (_other_region, mut other) = ConnectionMemory::heap(&geometry(), GENERATION, 4096);
    assert!(Adapter::new(region).deliver(&cells(0)));
    let pdu = client.next_pdu().expect("one was delivered");
    assert!(client.sdu(&pdu).is_some());
    assert_eq!(other.sdu(&pdu), None);
    assert!(!other.release(pdu));
}

#[test]
fn pdus_cross_in_place_and_sdus_come_back() {
    let (region, mut client) = ConnectionMemory::heap(&geometry(), GENERATION, 4096);
    let adapter = thread::spawn(move || {
        let mut adapter = Adapter::new(region);
        let (mut sent, mut echoed) = (0, 0);
        while echoed < PDUS {
            if sent < PDUS && adapter.deliver(&cells(sent)) {
                sent += 1;
            }
            match adapter.take() {
                Some(sdu) => {
                    assert_eq!(sdu, payloads(&cells(echoed)));
                    echoed += 1;
                }
                None => thread::yield_now(),
            }
        }
    });
    let mut taken = 0;
    while taken < PDUS {
        let Some(pdu) = client.next_pdu() else {
            thread::yield_now();
            continue;
        };
        let sdu = client.sdu(&pdu).expect("the adapter's own buffer").to_vec();
        assert_eq!(sdu, payloads(&cells(taken)));
        let mut copy = vec![0; pdu.len()];
        assert_eq!(client.copy_sdu(&pdu, &mut copy), pdu.len());
        assert_eq!(copy, sdu);
        let mut space = loop {
            match client.reserve(pdu.len() as u32) {
                Some(space) => break space,
                None => thread::yield_now(),
            }
        };
        client.space_mut(&mut space).copy_from_slice(&sdu);
        assert!(client.submit(space, SduOptions::default()));
        assert!(client.release(pdu));
        taken += 1;
    }
    adapter.join().unwrap();
    assert_eq!(client.reclaim(), 0);
    assert_eq!(client.receive_queue().faults(), 0);
}

#[test]
fn events_and_doorbells_cross() {
    let geometry = AttachmentGeometry::new(AttachmentSizes {
        event_slots: 4,
        doorbell_slots: 2,
    })
    .unwrap();
    let (adapter, mut client) = AttachmentMemory::heap(&geometry, GENERATION);
    let adapter = thread::spawn(move || {
        let (mine, peer) = (adapter.from_adapter(), adapter.from_client());
        let mut events = Producer::<queue::Events>::new(adapter.event_slots());
        let mut doorbells = Consumer::<queue::Doorbells>::new(adapter.doorbell_slots());
        for i in 0..PDUS {
            while !events.push(mine, peer, &[i as u8; layout::EVENT_SLOT_LEN]) {
                thread::yield_now();
            }
            let mut slot = [0; layout::DOORBELL_LEN];
            while !doorbells.pop(mine, peer, &mut slot) {
                thread::yield_now();
            }
            assert_eq!(Doorbell::parse(&slot).vc, i);
        }
    });
    for i in 0..PDUS {
        let event = loop {
            match client.next_event() {
                Some(event) => break event,
                None => thread::yield_now(),
            }
        };
        assert_eq!(event, [i as u8; layout::EVENT_SLOT_LEN]);
        let doorbell = Doorbell {
            vc: i,
            generation: GENERATION,
        };
        while !client.ring(doorbell) {
            thread::yield_now();
        }
    }
    adapter.join().unwrap();
    assert_eq!(client.events_lost(), 0);
    assert_eq!(client.events().taken(), u64::from(PDUS));
}

#[test]
fn cells_cross_in_both_formats() {
    for format in [CellFormat::NoHec, CellFormat::WithHec] {
        let geometry = PortGeometry::new(PortSizes { cells: 8, format }).unwrap();
        let (mut sender, mut receiver) = PortSender::heap(&geometry);
        let stride = format.stride();
        let sending = thread::spawn(move || {
            let mut sent = 0;
            while sent < PDUS {
                let n = (1 + sent % 5).min(PDUS - sent);
                let cells: Vec<u8> = (sent..sent + n)
                    .flat_map(|i| vec![i as u8; stride])
                    .collect();
                let taken = sender.send(&cells);
                sent += taken;
                if taken == 0 {
                    thread::yield_now();
                }
            }
            sender.count_dropped(3);
        });
        let (mut taken, mut fifo) = (0, vec![0; 3 * stride]);
        while taken < PDUS {
            if receiver.poll() == 0 {
                thread::yield_now();
            }
            let n = receiver.take(&mut fifo);
            for cell in fifo.chunks(stride).take(n as usize) {
                assert_eq!(cell, vec![taken as u8; stride]);
                taken += 1;
            }
        }
        sending.join().unwrap();
        assert_eq!((receiver.cells_dropped(), receiver.poll()), (3, 0));
    }
}

#[test]
fn payloads_are_written_as_the_trait_would() {
    /// The trait's own loop over the same memory.
    struct Plain(Vec<u8>);
    impl Memory for Plain {
        fn len(&self) -> usize {
            self.0.len() / 2
        }
        fn write(&mut self, offset: usize, octets: &[u8]) {
            self.0[offset..offset + octets.len()].copy_from_slice(octets);
        }
        fn stable(&self, offset: usize, len: usize) -> Option<&[u8]> {
            Some(&self.0[offset..offset + len])
        }
    }
    let (map, _) = Map::heap(8192);
    let mut memory = ReceiveMemory::over(&map, true);
    let mut plain = Plain(vec![0; 8192]);
    assert_eq!(memory.len(), 4096);
    for format in [CellFormat::NoHec, CellFormat::WithHec] {
        for (n, offset) in [(0, 0), (1, 0), (3, 64), (31, 4032), (1, 8192 - 48)] {
            let cells: Vec<u8> = (0..n * format.stride()).map(|i| i as u8).collect();
            memory.write_payloads(offset, &cells, format);
            plain.write_payloads(offset, &cells, format);
        }
        memory.write(100, &[7; 33]);
        plain.write(100, &[7; 33]);
        assert_eq!(memory.stable(0, 8192), plain.stable(0, 8192));
    }
    assert_eq!(ReceiveMemory::over(&map, false).stable(0, 1), None);
}

#[test]
fn a_client_that_writes_anything_hurts_only_itself() {
    let mut rng = Pcg64Mcg::new(0xcafe_f00d_d15e_a5e5);
    let (region, client) = ConnectionMemory::heap(&geometry(), GENERATION, 4096);
    let (other, mut victim) = ConnectionMemory::heap(&geometry(), GENERATION, 4096);
    let (mut adapter, mut honest) = (Adapter::new(region), Adapter::new(other));
    let len = client.from_client().len();
    for i in 0..PDUS {
        for _ in 0..4 {
            let offset = 8 * (rng.next_u64() as usize % (len / 8));
            client.from_client().store(offset, rng.next_u64());
        }
        let shift = rng.next_u64() % 64;
        for word in [connection::RECEIVE_TAIL, connection::TRANSMIT_HEAD] {
            client.from_client().store(word, rng.next_u64() >> shift);
        }
        adapter.deliver(&cells(i));
        if let Some(sdu) = adapter.take() {
            assert!(!sdu.is_empty() && sdu.len() <= 4096);
        }
        assert!(adapter.receive.free_seen() <= 4 && adapter.transmit.available_seen() <= 4);
        assert!(honest.deliver(&cells(i)));
        let pdu = victim.next_pdu().unwrap();
        assert_eq!(victim.sdu(&pdu).unwrap(), payloads(&cells(i)));
        assert!(victim.release(pdu));
    }
    assert!(adapter.receive.faults() > 0 && adapter.transmit.faults() > 0);
}

/// The payloads of the cells of a PDU of AAL3/4.
fn sar_pdus(mid: u16, sdu: &[u8]) -> Vec<Checked<SarPdu>> {
    let mut segmenter = aal34::Segmenter::new(sdu.len() as u16, mid, 1, Header::default());
    let mut cells = vec![0; 52 * usize::from(segmenter.cells())];
    segmenter.emit_cells(sdu, CellFormat::NoHec, &mut cells);
    let payloads = cells.chunks_exact(52).filter_map(<[u8]>::last_chunk);
    payloads.map(SarPdu::parse).collect()
}

#[test]
fn an_interleaved_pdu_stays_while_others_are_put_together() {
    let limits = aal34::Limits {
        mids: 2,
        max_sdu: 700,
        timeout_ns: 0,
        buffer_len: geometry().sizes().receive_len,
        descriptors: geometry().sizes().receive_slots,
    };
    let (plain, _) = ConnectionMemory::heap(&geometry(), GENERATION, 0);
    assert!({ plain }.aal34().is_none(), "of another AAL");
    let (region, client) = ConnectionMemory::heap(&geometry(), GENERATION, 0);
    let mut adapter = Adapter::new(region.with_reassembler(limits));
    let mut client = client.named(&geometry(), GENERATION);
    let mut receive = |cell: &Checked<SarPdu>| {
        let (reassembler, buffer) = adapter.region.aal34().unwrap();
        let outcome = reassembler.receive(Time::ZERO, buffer, cell, false);
        let aal34::Verdict::Delivered(received) = outcome.cell else {
            assert_eq!(outcome.cell, aal34::Verdict::Held);
            return;
        };
        let descriptor = ReceiveDescriptor {
            position: received.position,
            time: Time::ZERO,
            len: received.len.into(),
            cells: received.cells.into(),
            generation: GENERATION,
            uu: 0,
            cpi: 0,
            clp: false,
            congestion: false,
            lent: false,
            mid: received.mid,
        };
        let region = &adapter.region;
        let slot = descriptor.emit();
        assert!(
            adapter
                .receive
                .push(region.from_adapter(), region.from_client(), &slot)
        );
        reassembler_is_given_back(&mut adapter);
    };
    for i in 0..40 {
        let (first, second) = ([i; 700], [!i; 300]);
        let (one, two) = (sar_pdus(1, &first), sar_pdus(1_023, &second));
        receive(&one[0]);
        two.iter().for_each(&mut receive);
        let pdu = client.next_pdu().unwrap();
        assert_eq!((pdu.mid(), client.sdu(&pdu)), (1_023, Some(&second[..])));
        one[1..].iter().for_each(&mut receive);
        assert_eq!(client.sdu(&pdu), Some(&second[..]), "the other is behind");
        let other = client.next_pdu().unwrap();
        assert_eq!((other.mid(), client.sdu(&other)), (1, Some(&first[..])));
        assert!(client.release(other) && client.release(pdu));
    }
}

/// Lets the reassembler know what the client has given back.
fn reassembler_is_given_back(adapter: &mut Adapter) {
    adapter.receive.refresh(adapter.region.from_client());
    let tail = adapter.receive.tail();
    if let Some((reassembler, _)) = adapter.region.aal34() {
        reassembler.release(tail);
    }
}

#[test]
fn staging_is_private_and_as_long_as_asked() {
    let (mut region, client) = ConnectionMemory::heap(&geometry(), GENERATION, 96);
    let buffer = geometry().transmit_buffer_at();
    client.from_client().copy_in(buffer + 10, &[3; 48]);
    region.stage(10, 48)[48..].fill(4);
    client.from_client().copy_in(buffer + 10, &[5; 48]);
    assert_eq!(region.staging(), [[3; 48], [4; 48]].concat());
    assert_eq!((region.receive_slots(), region.transmit_len()), (4, 4096));
}

#[test]
#[should_panic(expected = "no word at 4096")]
fn a_word_behind_the_memory_panics() {
    Map::heap(4096).0.words().load(4096);
}

#[test]
#[should_panic(expected = "no word at 4")]
fn an_unaligned_word_panics() {
    Map::heap(4096).0.words().load(4);
}

#[test]
#[should_panic(expected = "read-only")]
fn a_store_to_read_only_memory_panics() {
    Map::heap(4096).1.words().store(0, 1);
}

#[test]
#[should_panic(expected = "read-only")]
fn a_copy_into_read_only_memory_panics() {
    Map::heap(4096).1.words().copy_in(0, &[1]);
}

#[test]
#[should_panic(expected = "no 2 octets at 4095")]
fn a_copy_over_the_end_panics() {
    Map::heap(4096).0.words().copy_in(4095, &[1, 2]);
}

#[test]
#[should_panic(expected = "octets at 18446744073709551615")]
fn an_offset_that_would_overflow_panics() {
    Map::heap(4096).0.words().copy_out(usize::MAX, &mut [0; 2]);
}

#[test]
#[should_panic(expected = "octets at 8145")]
fn a_payload_over_the_end_panics() {
    let (map, _) = Map::heap(8192);
    ReceiveMemory::over(&map, true).write_payloads(8145, &[0; 52], CellFormat::NoHec);
}
