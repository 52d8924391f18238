//! PDUs that cross a link between two ports of one adapter as a whole.

use crate::common::*;
use cellgate_core::adapter::PortIndex;
use cellgate_core::contract::CellRate;
use cellgate_core::queue::SduOptions;
use cellgate_host::adapter::AdapterThread;
use cellgate_host::client::{Control, memory_for};

const PDUS: u64 = 200;

#[test]
fn pdus_cross_octet_for_octet_unless_the_line_has_faults() {
    // The line divides no PDU.
    let mut options = options();
    for port in &mut options.config.ports {
        port.line_rate = CellRate::new(4_000_000_000).unwrap();
    }
    let (adapter, mut control) = AdapterThread::spawn(options).unwrap();
    let mut itself = Control::new(control.connect().unwrap()).unwrap();
    control
        .join(PortIndex(1), &mut itself, PortIndex(0))
        .unwrap();
    let mut attached = control.attach(attachment_sizes(), false).unwrap();
    let at = address(2, 300);
    let mut out = control
        .open(
            transmits(at, 1, &attached, SDU_MAX),
            memory_for(SDU_MAX, 0, 4),
        )
        .unwrap();
    let mut back = control
        .open(
            receives(at, 0, &attached, SDU_MAX),
            memory_for(SDU_MAX, 8, 0),
        )
        .unwrap();
    let mut crossed = Vec::new();
    // A line that loses next to nothing changes nothing of what arrives; but only cells can meet
    // it.
    for words in ["clean", "loss 1e-12", "clean"] {
        control.line(PortIndex(0), words.parse().unwrap()).unwrap();
        for sdu in Sdus::new(crossed.len() as u64, SDU_MAX.into()).take(PDUS as usize) {
            assert!(out.send(&mut attached, &sdu, SduOptions::default()));
            assert_eq!(next_sdu(&mut attached, &mut back), sdu);
        }
        let stats = control.enumerate().unwrap().vcs[0].stats;
        crossed.push(stats.pdus_crossed);
    }
    assert_eq!(crossed, [PDUS, PDUS, 2 * PDUS]);

    let sent = control.close(out.id()).unwrap().stats;
    let received = control.close(back.id()).unwrap().stats;
    assert_eq!(sent.pdus_transmitted, 3 * PDUS);
    assert_eq!(received.cells_delivered, sent.cells_transmitted);
    eventually("the ports' counters lag", || {
        let ports = control.ports().unwrap();
        let told = [ports[1].transmit.sent, ports[0].receive.received];
        (told == [sent.cells_transmitted; 2]).then_some(())
    });
    control.shutdown().unwrap();
    adapter.join().unwrap();
}
