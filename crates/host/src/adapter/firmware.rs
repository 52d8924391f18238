use std::sync::atomic::{AtomicBool, Ordering};

use cellgate_core::adapter::Adapter;

use super::board::HostBoard;
use super::memory::{HostAttachment, HostRegion};
use crate::clock::MonotonicClock;
use crate::gap::{GapDetector, Gaps};

/// The firmware of one adapter with its board.
pub(super) type Firmware = (Adapter<HostRegion, HostAttachment>, HostBoard);

/// Runs the firmware until `stop`. It allocates nothing, waits for nothing, and makes no system
/// call but writes to eventfds, those of pseudowires, the clock's if the kernel has no vDSO for it,
/// and, with `yields`, giving the CPU away after an idle step.
///
/// What it ran comes back, so that its memory is freed by another thread.
pub(super) fn run(firmware: Firmware, gaps: &Gaps, stop: &AtomicBool, yields: bool) -> Firmware {
    let (mut adapter, mut board) = firmware;
    #[cfg(test)]
    let _watched = crate::sys::allocations::watch_this_thread();
    let mut detector = GapDetector::new(gaps);
    while !stop.load(Ordering::Relaxed) {
        // First the heads, then the clock: whatever the step takes arrived before `now`.
        board.poll();
        let now = MonotonicClock.now();
        detector.observe(now);
        board.begin(now);
        adapter.step(now, &mut board);
        let work = board.end();
        if detector.wants_time(work.cells) {
            detector.step_took(MonotonicClock.now().since_ns(now));
        }
        if yields && work.is_idle() {
            std::thread::yield_now();
        }
    }
    (adapter, board)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use cellgate_core::adapter::{
        Aal, Config, Excess, Notification, OpenRequest, PortConfig, PortIndex, Receive, Transmit,
    };
    use cellgate_core::contract::CellRate;
    use cellgate_core::ring::{AttachmentSizes, SduOptions};
    use cellgate_core::wire::{CellFormat, HeaderForm, VpiVci};

    use crate::adapter::{AdapterOptions, AdapterThread};
    use crate::client::{Attached, Control, OpenVc, memory_for};
    use crate::sys::{SchedulingRequest, allocations};

    fn options() -> AdapterOptions {
        let port = PortConfig {
            format: CellFormat::WithHec,
            budget: 256,
            discard_unread: false,
            line_rate: CellRate::new(1_000_000).unwrap(),
        };
        let config = Config {
            form: HeaderForm::Uni,
            vcs: 16,
            leaves: 2,
            attachments: 2,
            ports: vec![port; 2],
            gap_max_ns: 30_000_000,
            clump_cells: 1,
        };
        AdapterOptions {
            scheduling: SchedulingRequest::modest(),
            port_cells: 1_024,
            ..AdapterOptions::new(config)
        }
    }

    fn open(control: &mut Control, attached: &Attached) -> OpenVc {
        let request = OpenRequest {
            address: VpiVci::new(1, 40).unwrap(),
            port: PortIndex(1),
            aal: Aal::Aal5,
            attachment: attached.index(),
            receive: Some(Receive {
                sustained: None,
                rate: None,
                cdvt_ns: 0,
                max_sdu: 2_000,
                fixed_sdu: false,
                excess: Excess::Discard,
                notification: Notification::FirstAndLastCell,
                queue_threshold: 3,
            }),
            transmit: Some(Transmit {
                rate: CellRate::new(10_000),
                cdvt_ns: 1_000_000,
                weight: 1,
                max_sdu: 2_000,
                interrupt_on_completion: true,
            }),
        };
        let mut vc = control.open(request, memory_for(2_000, 8, 8)).unwrap();
        control.modify(&mut vc, request).unwrap();
        control.renew(vc.id(), request, vc.sizes()).unwrap()
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
        let deadline = Instant::now() + Duration::from_secs(60);
        for round in 0..20 {
            let mut vc = open(&mut control, &attached);
            for i in 1..=20_usize {
                let sdu = vec![i as u8; i * 90];
                assert!(vc.send(&mut attached, &sdu, SduOptions::default()));
                let pdu = loop {
                    if let Some(pdu) = vc.next_pdu() {
                        break pdu;
                    }
                    assert!(Instant::now() < deadline, "nothing comes back");
                    while attached.next_event().is_some() {}
                    attached.wait(Some(Duration::from_millis(5))).unwrap();
                };
                assert_eq!(vc.sdu(&pdu), Some(&sdu[..]), "round {round}");
                assert!(vc.release(pdu));
            }
            control.enumerate().unwrap();
            control.close(vc.id()).unwrap();
        }
        control.detach(&attached).unwrap();
        assert_eq!(allocations::of_watched_threads(), 0);
    }
}
