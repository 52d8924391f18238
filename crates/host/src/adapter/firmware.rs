use std::sync::atomic::{AtomicBool, Ordering};

use cellgate_core::adapter::Adapter;

use super::board::HostBoard;
use super::memory::{HostAttachment, HostRegion};
use super::rest::Rester;
use crate::clock::MonotonicClock;
use crate::gap::{GapDetector, Gaps};

/// The firmware of one adapter with its board.
pub(super) type Firmware = (Adapter<HostRegion, HostAttachment>, HostBoard);

/// Runs the firmware until `stop`. It allocates nothing, waits only in a rest, and makes no system
/// call but writes to eventfds of this process alone, those of pseudowires, the clock's if the
/// kernel has no vDSO for it, those of a rest ([`Rester`]), and, with `yields`, giving the CPU away
/// after an idle step.
///
/// What it ran comes back, so that its memory is freed by another thread.
pub(super) fn run(
    mut firmware: Firmware,
    gaps: &Gaps,
    stop: &AtomicBool,
    yields: bool,
    mut rester: Option<Rester>,
) -> Firmware {
    #[cfg(test)]
    let _watched = crate::sys::allocations::watch_this_thread();
    let mut detector = GapDetector::new(gaps);
    while !stop.load(Ordering::Relaxed) {
        let (adapter, board) = &mut firmware;
        // First the heads, then the clock: whatever the step takes arrived before `now`.
        board.poll();
        let now = MonotonicClock.now();
        detector.observe(now);
        board.begin(now);
        let answered = adapter.doorbells_answered();
        adapter.step(now, board);
        let work = board.end();
        board.show_strays(|port| adapter.port_stats(port));
        if detector.wants_time(work.cells) {
            detector.step_took(MonotonicClock.now().since_ns(now));
        }
        let rang = adapter.doorbells_answered() != answered;
        match &mut rester {
            Some(rester) => {
                let came = work.came || rang;
                rester.after_step(now, came, &mut firmware, &mut detector, &gaps.rests);
            }
            None if yields && work.is_idle() && !rang => std::thread::yield_now(),
            None => {}
        }
    }
    firmware
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use cellgate_core::aal::aal34;
    use cellgate_core::adapter::{
        Aal, Config, Discard, Excess, Interleaving, Marks, Notification, OpenRequest, PortConfig,
        PortIndex, Receive, Transmit,
    };
    use cellgate_core::contract::CellRate;
    use cellgate_core::queue::{AttachmentSizes, SduOptions};
    use cellgate_core::wire::{CELL_LEN, CellFormat, Header, HeaderForm, Pti, VpiVci};

    use crate::adapter::{AdapterOptions, AdapterThread};
    use crate::client::{Attached, Control, OpenVc, memory_for, memory_for_aal34};
    use crate::link::CellSender;
    use crate::sys::{SchedulingRequest, allocations};

    fn options() -> AdapterOptions {
        let port = PortConfig {
            form: HeaderForm::Uni,
            format: CellFormat::WithHec,
            budget: 256,
            discard_unread: false,
            real_time: false,
            line_rate: CellRate::new(1_000_000).unwrap(),
        };
        let config = Config {
            vcs: 16,
            leaves: 2,
            attachments: 2,
            ports: vec![port; 2],
            gap_max_ns: 30_000_000,
            clump_cells: 1,
            overload_cells: 0,
        };
        AdapterOptions {
            scheduling: SchedulingRequest::modest(),
            port_cells: 1_024,
            ..AdapterOptions::new(config)
        }
    }

    const INTERLEAVING: Interleaving = Interleaving {
        mids: 4,
        reassembly_timeout_ns: 0,
    };

    fn request(attached: &Attached, aal: Aal) -> OpenRequest {
        OpenRequest {
            address: VpiVci::new(1, 40).unwrap(),
            port: PortIndex(1),
            aal,
            attachment: attached.index(),
            receive: Some(Receive {
                marks: Marks::None,
                sustained: None,
                rate: None,
                cdvt_ns: 0,
                max_sdu: 2_000,
                fixed_sdu: false,
                excess: Excess::Discard,
                notification: Notification::FirstAndLastCell,
                queue_threshold: 3,
                guaranteed: true,
            }),
            transmit: Some(Transmit {
                rate: CellRate::new(10_000),
                cdvt_ns: 1_000_000,
                weight: 1,
                abr: None,
                peak: None,
                max_sdu: 2_000,
                burst: 1,
                sustained: None,
                interrupt_on_completion: true,
            }),
        }
    }

    fn open(control: &mut Control, attached: &Attached, aal: Aal) -> OpenVc {
        let request = request(attached, aal);
        let memory = match aal.interleaving() {
            Some(interleaving) => memory_for_aal34(interleaving, 2_000, 8, 8),
            None => memory_for(2_000, 8, 8),
        };
        let mut vc = control.open(request, memory).unwrap();
        control.modify(&mut vc, request).unwrap();
        control.renew(vc.id(), request, vc.sizes()).unwrap()
    }

    /// Lets an AAL3/4 PDU that only begins be given up.
    fn begin_only(control: &mut Control, attached: &Attached, sender: &mut CellSender) {
        let address = VpiVci::new(1, 41).unwrap();
        let timed = Interleaving {
            reassembly_timeout_ns: 1_000,
            ..INTERLEAVING
        };
        let request = OpenRequest {
            address,
            port: PortIndex(0),
            transmit: None,
            ..request(attached, Aal::Aal34(timed))
        };
        let memory = memory_for_aal34(timed, 2_000, 8, 0);
        let vc = control.open(request, memory).unwrap();
        let pti = Pti::User {
            congested: false,
            last: false,
        };
        let header = Header::new(address, pti, false);
        let mut cell = [0; CELL_LEN];
        let mut segmenter = aal34::Segmenter::new(100, 7, 1, header);
        segmenter.emit_cells(&[1; 100], CellFormat::WithHec, &mut cell);
        assert_eq!(sender.send(&cell), 1);
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let given_up = control.enumerate().unwrap().vcs[0].stats.pdus_discarded;
            if given_up.of(Discard::ReassemblyTimeout) == 1 {
                break;
            }
            assert!(Instant::now() < deadline, "the PDU stays");
            std::thread::sleep(Duration::from_millis(1));
        }
        control.close(vc.id()).unwrap();
    }

    #[test]
    fn allocates_and_frees_nothing() {
        let (_adapter, mut control) = AdapterThread::spawn(options()).unwrap();
        let mut itself = Control::new(control.connect().unwrap()).unwrap();
        // Everything that port 1 sends comes back.
        control
            .join(PortIndex(1), &mut itself, PortIndex(1))
            .unwrap();
        let sizes = AttachmentSizes {
            event_slots: 64,
            doorbell_slots: 16,
        };
        let mut attached = control.attach(sizes, false).unwrap();
        let mut sender = control.cell_sender(PortIndex(0)).unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        let aals = [Aal::Aal5, Aal::Aal34(INTERLEAVING)];
        for (round, aal) in aals.into_iter().cycle().take(20).enumerate() {
            let mut vc = open(&mut control, &attached, aal);
            for i in 1..=20_usize {
                let sdu = vec![i as u8; i * 90];
                let options = SduOptions {
                    mid: i as u16,
                    ..SduOptions::default()
                };
                assert!(vc.send(&mut attached, &sdu, options));
                let pdu = loop {
                    if let Some(pdu) = vc.next_pdu() {
                        break pdu;
                    }
                    assert!(Instant::now() < deadline, "nothing comes back");
                    while attached.next_event().is_some() {}
                    attached.wait(Some(Duration::from_millis(5))).unwrap();
                };
                assert_eq!(vc.sdu(&pdu), Some(&sdu[..]), "round {round}");
                assert_eq!(pdu.mid(), if aal == Aal::Aal5 { 0 } else { i as u16 });
                assert!(vc.release(pdu));
            }
            control.enumerate().unwrap();
            control.close(vc.id()).unwrap();
            begin_only(&mut control, &attached, &mut sender);
        }
        control.detach(&attached).unwrap();
        assert_eq!(allocations::of_watched_threads(), 0);
    }
}
