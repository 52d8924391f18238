//! An adapter that rests, as a process of its own: whoever has something for it wakes it.

#[path = "all/common/mod.rs"]
mod common;

use std::hint::spin_loop;
use std::time::{Duration, Instant};

use cellgate_core::adapter::{OpenRequest, PortIndex};
use cellgate_core::contract::CellRate;
use cellgate_core::queue::SduOptions;
use cellgate_core::server::Idle;
use cellgate_host::adapter::{AdapterProcess, run_as_child};
use cellgate_host::client::{Attached, Control, OpenVc, memory_for};
use common::*;
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

/// No test by itself: the adapter's process.
#[test]
fn plays_its_role() {
    if std::env::var(ROLE).as_deref() == Ok("adapter") {
        run_as_child().unwrap();
    }
}

/// An adapter whose lines are OC-3s.
fn spawn(idle: Idle) -> (AdapterProcess, Control) {
    let program = in_role(module_path!(), "adapter");
    let mut options = options();
    options.scheduling.idle = idle;
    for port in &mut options.config.ports {
        port.line_rate = CellRate::OC3;
    }
    AdapterProcess::spawn(program, &options).unwrap()
}

/// What an answer may take: a wake-up, and what a machine with other work makes of it.
const LATE: Duration = Duration::from_micros(50_250);
/// A call that was lost is heard at the next step that something else causes: within a second, of
/// which most of the time is more than this.
const LOST: Duration = Duration::from_millis(400);

/// Pauses, then sends a PDU to itself: through the adapter, or as cells over a port. How long each
/// answer took.
struct Caller {
    attached: Attached,
    looped: OpenVc,
    heard: OpenVc,
    sender: cellgate_host::link::CellSender,
    random: Pcg64Mcg,
}

impl Caller {
    fn new(control: &mut Control) -> Self {
        let attached = control.attach(attachment_sizes(), false).unwrap();
        let sender = control.cell_sender(PortIndex(0)).unwrap();
        let mut itself = Control::new(control.connect().unwrap()).unwrap();
        control
            .join(PortIndex(1), &mut itself, PortIndex(1))
            .unwrap();
        // The connection that joined has the port.
        std::mem::forget(itself);
        let both = OpenRequest {
            transmit: Some(transmitting(1_000)),
            ..receives(address(0, 70), 1, &attached, 1_000)
        };
        let looped = control.open(both, memory_for(1_000, 8, 8)).unwrap();
        let heard = receives(address(0, 71), 0, &attached, 1_000);
        let heard = control.open(heard, memory_for(1_000, 8, 0)).unwrap();
        Self {
            attached,
            looped,
            heard,
            sender,
            random: Pcg64Mcg::new(7),
        }
    }

    /// Most are about as long as the adapter looks on. One in 20 is longer than it ever does.
    fn pause(&mut self) {
        let ns = match self.random.next_u64() % 20 {
            0 => 300_000 + self.random.next_u64() % 2_000_000,
            _ => self.random.next_u64() % 150_000,
        };
        let until = Instant::now() + Duration::from_nanos(ns);
        while Instant::now() < until {
            spin_loop();
        }
    }

    fn call(&mut self, round: u32) -> Duration {
        self.pause();
        let sdu = round.to_be_bytes();
        let from = Instant::now();
        let vc = if round.is_multiple_of(2) {
            let options = SduOptions::default();
            assert!(self.looped.send(&mut self.attached, &sdu, options));
            &mut self.looped
        } else {
            send_all(&mut self.sender, &cells(address(0, 71), &sdu));
            &mut self.heard
        };
        let pdu = loop {
            if let Some(pdu) = vc.next_pdu() {
                break pdu;
            }
            while self.attached.next_event().is_some() {}
            // By polling: no other wake-up is in the answer.
            assert!(from.elapsed() < PATIENCE, "round {round}: no answer");
            spin_loop();
        };
        let took = from.elapsed();
        assert_eq!(vc.sdu(&pdu), Some(&sdu[..]));
        assert!(vc.release(pdu));
        took
    }
}

#[test]
fn no_pause_of_a_client_or_sender_loses_a_wake_up() {
    let calls = std::env::var("CELLGATE_PAUSES").ok();
    let calls: u32 = calls.map_or(10_000, |calls| calls.parse().expect("a number"));
    let modes = [Idle::Adaptive, Idle::Sleep];
    let calls = calls / modes.len() as u32;
    for idle in modes {
        let (_adapter, mut control) = spawn(idle);
        let mut caller = Caller::new(&mut control);
        let before = control.gaps(true).unwrap();
        let mut late = Vec::new();
        for round in 0..calls {
            let took = caller.call(round);
            assert!(took < LOST, "round {round} of {idle}: {took:?}");
            if took > LATE {
                late.push(took);
            }
        }
        let rests = control.gaps(false).unwrap().since(&before).rests;
        println!(
            "{idle}: {calls} calls, {} rests, {} ended by clients, {} by links; late: {late:?}",
            rests.rests, rests.by_clients, rests.by_links
        );
        // It has really rested, and both have really woken it: after the long pauses at least.
        assert!(rests.by_clients > u64::from(calls) / 80, "{rests:?}");
        assert!(rests.by_links > u64::from(calls) / 80, "{rests:?}");
        // Stalls of the machine make some late.
        assert!(late.len() as u32 <= 1 + calls / 10_000, "{late:?}");
    }
    println!("ran pauses");
}

/// A stream at a rate of its own leaves in time, and its adapter rests between the cells.
#[test]
fn what_is_shaped_leaves_in_time_though_the_adapter_rests_in_between() {
    const CELL_S: u32 = 20_000;
    const PDUS: u32 = 400;
    let (_adapter, mut control) = spawn(Idle::Sleep);
    let mut caller = Caller::new(&mut control);
    let mut paced = transmitting(1_000);
    paced.rate = CellRate::new(CELL_S);
    paced.cdvt_ns = 1_000_000;
    let request = OpenRequest {
        transmit: Some(paced),
        ..receives(address(0, 72), 1, &caller.attached, 1_000)
    };
    let mut vc = control.open(request, memory_for(1_000, 64, 64)).unwrap();
    let before = control.gaps(true).unwrap();
    let from = Instant::now();
    let (mut sent, mut received) = (0, 0);
    while received < PDUS {
        let attached = &mut caller.attached;
        while sent < PDUS && vc.send(attached, &[7; 900], SduOptions::default()) {
            sent += 1;
        }
        while let Some(pdu) = vc.next_pdu() {
            assert_eq!(vc.sdu(&pdu), Some(&[7; 900][..]));
            assert!(vc.release(pdu));
            received += 1;
        }
        attached.wait(Some(Duration::from_millis(5))).unwrap();
        assert!(from.elapsed() < PATIENCE, "{received} of {sent}");
    }
    // 19 cells a PDU; the first leave at once.
    let due = Duration::from_secs_f64(f64::from((PDUS - 64) * 19) / f64::from(CELL_S));
    assert!(from.elapsed() >= due, "{:?}", from.elapsed());
    let rests = control.gaps(false).unwrap().since(&before).rests;
    println!("{:?} for {due:?}: {rests:?}", from.elapsed());
    assert!(rests.by_time > 200, "{rests:?}");
}

#[test]
fn who_rings_for_nothing_is_named_and_costs_nobody_else_anything() {
    let (_adapter, mut control) = spawn(Idle::Sleep);
    let mut caller = Caller::new(&mut control);
    let mut idler = Control::new(control.connect().unwrap()).unwrap();
    let (answer, fds) = idler
        .ask(
            cellgate_host::control::Ask::Attach {
                sizes: attachment_sizes(),
                user: 1,
                keep: false,
            },
            &[],
        )
        .unwrap();
    let cellgate_host::control::Answer::Attached { attachment, .. } = answer else {
        panic!("{answer:?}");
    };
    let bell = &fds[4];
    for round in 0..200 {
        rustix::io::write(bell, &1_u64.to_ne_bytes()).unwrap();
        assert!(caller.call(round) < LOST);
        std::thread::sleep(Duration::from_millis(1));
    }
    let rests = control.gaps(false).unwrap().rests;
    let named = rests.clients_for_nothing.iter();
    let of = |index| named.clone().find(|(at, _)| *at == index).map(|(_, n)| *n);
    assert!(of(attachment) > Some(10), "{rests:?}");
    assert!(of(caller.attached.index()) < of(attachment), "{rests:?}");
    // One that is filled wakes nobody, and its owner alone has it.
    rustix::io::write(bell, &(u64::MAX - 1_000_000).to_ne_bytes()).unwrap();
    for round in 0..200 {
        assert!(caller.call(round) < LOST);
    }
}
