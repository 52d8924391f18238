//! Adapters over pseudowires, and ports with faults.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::common::*;
use cellgate_core::adapter::{PortIndex, VcId};
use cellgate_core::line::{LineCounts, LineSpec};
use cellgate_core::queue::SduOptions;
use cellgate_core::wire::{CellFormat, MPLS_UDP_PORT, VpiVci};
use cellgate_host::adapter::{AdapterOptions, AdapterThread};
use cellgate_host::client::{ClientError, Control, memory_for};
use cellgate_host::control::ControlError;
use cellgate_host::link::udp::{UdpLink, UdpReceiver, UdpSender};

/// Address `host` of this process: 127/8 is all of this machine's.
fn end(host: u8) -> SocketAddr {
    let [_, _, high, low] = std::process::id().to_be_bytes();
    let address = Ipv4Addr::new(127, high | 1, low, host);
    SocketAddr::new(IpAddr::V4(address), MPLS_UDP_PORT)
}

/// A pseudowire from `near` to `far`; the same one from there is `(far, near)`.
fn between(near: u8, far: u8, mode: &str) -> UdpLink {
    UdpLink {
        local: end(near),
        peer: end(far),
        source_port: 50_000,
        peer_source_port: Some(50_000),
        label_out: 1_000 + u32::from(near),
        label_in: 1_000 + u32::from(far),
        mode: mode.parse().unwrap(),
        mtu: 1_500,
        pack: None,
        timer_ns: 0,
    }
}

fn udp_options() -> AdapterOptions {
    let mut options = options();
    options.config.clump_cells = 29;
    options
}

#[test]
fn pdus_go_both_ways_between_two_adapters() {
    let one = address(300, 77);
    let other = address(12, 77);
    let pseudowires: [(_, VpiVci, _, VpiVci); 4] = [
        ("n1", one, "n1", one),
        ("n1-cw", one, "n1-cw", one),
        // What is not sent of an address is not the same at both ends.
        ("vcc@300.77", one, "vcc@9.1", address(9, 1)),
        ("vpc@300", one, "vpc@12", other),
    ];
    for (i, (mode_a, vc_a, mode_b, vc_b)) in pseudowires.into_iter().enumerate() {
        let (near, far) = (20 + 2 * i as u8, 21 + 2 * i as u8);
        let (first, mut a) = AdapterThread::spawn(udp_options()).unwrap();
        let (second, mut b) = AdapterThread::spawn(udp_options()).unwrap();
        let (at, from) = a
            .pseudowire(PortIndex(0), between(near, far, mode_a))
            .unwrap();
        assert_eq!((at, from.port()), (end(near), 50_000));
        b.pseudowire(PortIndex(0), between(far, near, mode_b))
            .unwrap();
        let mut at_a = a.attach(attachment_sizes(), false).unwrap();
        let mut at_b = b.attach(attachment_sizes(), false).unwrap();
        let both = |vc, attached: &_| {
            let mut request = transmits(vc, 0, attached, SDU_MAX);
            request.receive = Some(receiving(SDU_MAX));
            request
        };
        let sizes = memory_for(SDU_MAX, 8, 4);
        let mut vc_a = a.open(both(vc_a, &at_a), sizes).unwrap();
        let mut vc_b = b.open(both(vc_b, &at_b), sizes).unwrap();
        for sdu in Sdus::new(2, SDU_MAX.into()).take(60) {
            assert!(vc_a.send(&mut at_a, &sdu, SduOptions::default()));
            assert_eq!(next_sdu(&mut at_b, &mut vc_b), sdu);
            assert!(vc_b.send(&mut at_b, &sdu, SduOptions::default()));
            assert_eq!(next_sdu(&mut at_a, &mut vc_a), sdu);
        }
        let sent = a.close(vc_a.id()).unwrap().stats.cells_transmitted;
        let (out, inward) = eventually("the counters lag", || {
            let out = a.pseudowire_report(PortIndex(0)).unwrap();
            let inward = b.pseudowire_report(PortIndex(0)).unwrap();
            (out.sent_cells == sent && inward.received_cells == sent).then_some((out, inward))
        });
        assert_eq!(out.sent_datagrams, inward.received_datagrams);
        assert!(out.sent_datagrams >= sent.div_ceil(29) && out.send_calls <= out.sent_datagrams);
        assert_eq!((out.send_errors, out.dropped_cells), (0, 0));
        let lost = (inward.overflows, inward.missing_datagrams);
        assert_eq!((lost, inward.discarded_datagrams.total()), ((0, 0), 0));
        assert!(inward.receive_buffer_octets > 0);
        let ports = b.ports().unwrap();
        assert_eq!(
            (ports[0].receive.received, ports[0].receive.faults),
            (sent, 0)
        );
        a.shutdown().unwrap();
        b.shutdown().unwrap();
        first.join().unwrap();
        second.join().unwrap();
    }
}

fn refusal<T>(result: Result<T, ClientError>) -> ControlError {
    match result {
        Err(ClientError::Refused(error)) => error,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was not refused"),
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let mut options = udp_options();
    options.config.ports[1].format = CellFormat::WithHec;
    let (_adapter, mut control) = AdapterThread::spawn(options).unwrap();
    let good = between(5, 6, "n1");
    let error = refusal(control.pseudowire(PortIndex(1), good));
    assert!(matches!(error, ControlError::BadGeometry(_)), "{error}");
    let error = refusal(control.pseudowire(PortIndex(9), good));
    assert_eq!(error, ControlError::NotYours);
    let bad = UdpLink { mtu: 40, ..good };
    let error = refusal(control.pseudowire(PortIndex(0), bad));
    assert!(matches!(error, ControlError::Pseudowire(_)), "{error}");
    // Its peer's datagrams are more at once than contracts tolerate.
    let long = UdpLink { mtu: 9_000, ..good };
    let error = refusal(control.pseudowire(PortIndex(0), long));
    assert!(error.to_string().contains("pack 29"), "{error}");
    let nowhere = UdpLink {
        local: "192.0.2.77:6635".parse().unwrap(),
        ..good
    };
    let error = refusal(control.pseudowire(PortIndex(0), nowhere));
    assert!(matches!(error, ControlError::Kernel(_)), "{error}");
    assert_eq!(
        refusal(control.pseudowire_report(PortIndex(0))),
        ControlError::NotYours
    );
    // What opens sockets for the adapter is not for everybody.
    let mut guest = Control::new(control.connect().unwrap()).unwrap();
    let error = refusal(guest.pseudowire(PortIndex(0), good));
    assert_eq!(error, ControlError::NotGoverning);
    assert_eq!(
        refusal(guest.line(PortIndex(0), LineSpec::default())),
        ControlError::NotGoverning
    );
    // A port that another has is taken; after its end it is not.
    let sender = guest.cell_sender(PortIndex(0)).unwrap();
    assert_eq!(
        refusal(control.pseudowire(PortIndex(0), good)),
        ControlError::PortTaken
    );
    drop((sender, guest));
    eventually("the port stays taken", || {
        control.pseudowire(PortIndex(0), good).ok()
    });
    let taken = refusal(control.cell_sender(PortIndex(0)));
    assert_eq!(taken, ControlError::PortTaken);
    // Who has a pseudowire may have another instead.
    control.pseudowire(PortIndex(0), good).unwrap();
}

/// Sends `pdus` PDUs to the adapter over port 0, whatever that is, and waits until it has got
/// `arriving()` cells; what was delivered.
fn deliver(
    control: &mut Control,
    mut send: impl FnMut(&[u8]),
    pdus: usize,
    received: impl Fn(&mut Control) -> u64,
) -> (Vec<Vec<u8>>, Vec<Vec<u8>>, u64, VcId) {
    let mut attached = control.attach(attachment_sizes(), false).unwrap();
    let at = address(1, 100);
    let request = receives(at, 0, &attached, 2_000);
    let mut vc = control.open(request, memory_for(2_000, 64, 0)).unwrap();
    let (mut sent, mut delivered, mut cells_sent) = (Vec::new(), Vec::new(), 0);
    for sdu in Sdus::new(9, 2_000).take(pdus) {
        let cells = cells(at, &sdu);
        send(&cells);
        cells_sent += cells.len() as u64 / 52;
        sent.push(sdu);
        let mut read = || {
            while let Some(pdu) = vc.next_pdu() {
                delivered.push(vc.sdu(&pdu).unwrap().to_vec());
                assert!(vc.release(pdu));
            }
            while attached.next_event().is_some() {}
        };
        eventually("the cells do not come", || {
            read();
            (received(control) >= cells_sent).then_some(())
        });
        read();
    }
    (sent, delivered, cells_sent, vc.id())
}

/// What the line on which port 0 receives has done.
fn line_of(control: &mut Control) -> LineCounts {
    control.ports().unwrap()[0].line.unwrap_or_default()
}

/// Cells that the line has done with.
fn passed(control: &mut Control) -> u64 {
    let line = line_of(control);
    line.cells_in - line.in_flight
}

#[test]
fn a_line_is_impaired_as_its_words_say_and_every_cell_is_accounted_for() {
    for words in [
        "ber 5e-6 loss 0.2% duplicate 0.1% seed 1",
        "ber 5e-6 loss 0.2% duplicate 0.1% delay 2ms jitter 1ms seed 1",
    ] {
        let (_adapter, mut control) = AdapterThread::spawn(options()).unwrap();
        let mut sender = control.cell_sender(PortIndex(0)).unwrap();
        control.line(PortIndex(0), words.parse().unwrap()).unwrap();
        let send = |cells: &[u8]| send_all(&mut sender, cells);
        let (sent, delivered, cells, vc) = deliver(&mut control, send, 500, passed);
        assert!(cells > 8_000, "{cells}");
        let line = line_of(&mut control);
        let stats = control.stats().unwrap();
        assert_eq!(line.cells_in, cells);
        // 0.2 % of the cells, and three times the root of that.
        assert!(line.lost.abs_diff(cells / 500) <= 13, "{line:?}");
        assert!(line.duplicated > 0 && line.payload_errors > 0, "{line:?}");
        assert_eq!(line.cells_out, cells - line.lost + line.duplicated);
        assert_eq!(stats.cells_received, line.cells_out);
        let accounted = stats.cells_delivered + stats.cells_discarded.total() + stats.cells_held;
        assert_eq!(stats.cells_received, accounted);
        // What is delivered was sent, in its order.
        let mut rest = sent.iter();
        assert!(delivered.iter().all(|sdu| rest.any(|other| other == sdu)));
        let harmed = line.lost + line.duplicated + line.header_errors + line.payload_errors;
        assert!(delivered.len() < sent.len());
        assert!(delivered.len() + 2 * harmed as usize >= sent.len());
        // On a clean line everything arrives again, but for what the last ones left open.
        control.close(vc).unwrap();
        control.line(PortIndex(0), LineSpec::default()).unwrap();
        assert_eq!(control.ports().unwrap()[0].line, None);
        let before = control.stats().unwrap().cells_received;
        let taken = |control: &mut Control| control.stats().unwrap().cells_received - before;
        let send = |cells: &[u8]| send_all(&mut sender, cells);
        let (sent, delivered, ..) = deliver(&mut control, send, 50, taken);
        assert_eq!(sent, delivered);
    }
}

#[test]
fn a_line_stands_before_a_pseudowire_too() {
    let (_adapter, mut control) = AdapterThread::spawn(udp_options()).unwrap();
    control
        .pseudowire(PortIndex(0), between(7, 8, "n1-cw"))
        .unwrap();
    let mut far = UdpSender::open(&between(8, 7, "n1-cw")).unwrap();
    let line = "loss 1% seed 4".parse().unwrap();
    control.line(PortIndex(0), line).unwrap();
    let send = |cells: &[u8]| {
        assert_eq!(far.send(cells), cells.len() / 52);
        assert!(far.flush());
    };
    let (sent, delivered, cells, _) = deliver(&mut control, send, 150, passed);
    let line = line_of(&mut control);
    assert_eq!((line.cells_in, line.cells_out + line.lost), (cells, cells));
    assert!(line.lost > 0, "{line:?}");
    let harmed = 2 * line.lost as usize;
    assert!((sent.len() - harmed..sent.len()).contains(&delivered.len()));
}

#[test]
fn a_port_can_be_wired_anew() {
    let (_adapter, mut control) = AdapterThread::spawn(udp_options()).unwrap();
    let mut guest = Control::new(control.connect().unwrap()).unwrap();
    let mut sender = guest.cell_sender(PortIndex(0)).unwrap();
    let before = |control: &mut Control| control.stats().unwrap().cells_received;
    send_all(&mut sender, &cells(address(9, 9), &[1; 40]));
    eventually("the cell does not come", || {
        (before(&mut control) == 1).then_some(())
    });
    drop((sender, guest));
    let options = between(9, 10, "n1");
    eventually("the port stays taken", || {
        control.pseudowire(PortIndex(0), options).ok()
    });
    let mut far = UdpSender::open(&between(10, 9, "n1")).unwrap();
    far.send(&cells(address(9, 9), &[2; 40]));
    assert!(far.flush());
    eventually("the cell does not come", || {
        (before(&mut control) == 2).then_some(())
    });
    // The other end is anybody who keeps to the RFCs: here, the far end's own receiver.
    let mut near = UdpReceiver::open(&between(10, 9, "n1")).unwrap();
    near.poll(cellgate_core::Time::from_ns(1 << 40));
    assert_eq!(near.take(&mut [0; 52]), 0);
}
