//! The adapter, senders and clients as processes of their own.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::common::*;
use cellgate_core::adapter::{Interleaving, PortIndex, Refusal};
use cellgate_core::queue::SduOptions;
use cellgate_host::adapter::{AdapterOptions, AdapterProcess, run_as_child};
use cellgate_host::client::{ClientError, Control, memory_for, memory_for_aal34};
use cellgate_host::control::ControlError;
use cellgate_host::sys::SchedulingRequest;
use rustix::process::geteuid;

const PDUS: usize = 500;

/// Of AAL3/4: a PDU with each of these, so many times.
const MIDS: [u16; 3] = [0, 5, 1_023];
const ROUNDS: usize = 100;

fn program(role: &str) -> Command {
    in_role(module_path!(), role)
}

fn spawn(options: &AdapterOptions) -> (AdapterProcess, Control) {
    AdapterProcess::spawn(program("adapter"), options).unwrap()
}

/// A process with a control connection of its own.
fn spawn_client(role: &str, control: &mut Control) -> Child {
    let socket = control.connect().unwrap();
    program(role).stdin(Stdio::from(socket)).spawn().unwrap()
}

/// No test by itself: what the processes do that the tests here start.
#[test]
fn plays_its_role() {
    match std::env::var(ROLE).as_deref() {
        Ok("adapter") => run_as_child().unwrap(),
        Ok("sender") => {
            let mut control = Control::from_stdin().unwrap();
            let mut sender = control.cell_sender(PortIndex(0)).unwrap();
            for sdu in Sdus::new(1, SDU_MAX.into()).take(PDUS) {
                send_all(&mut sender, &cells(address(0, 200), &sdu));
            }
        }
        Ok("mixer") => {
            let mut control = Control::from_stdin().unwrap();
            let mut sender = control.cell_sender(PortIndex(0)).unwrap();
            let mut mix = aal34::Mix::new(4, &MIDS, 3_000);
            for _ in 0..ROUNDS {
                let (mixed, _) = mix.round();
                send_all(&mut sender, &aal34::cells(address(0, 202), &mixed));
            }
        }
        Ok("starter") => {
            let (adapter, _control) = spawn(&options());
            println!("\nadapter {}", adapter.id());
            std::thread::sleep(PATIENCE);
        }
        Ok("client") => {
            let mut control = Control::from_stdin().unwrap();
            let attached = control.attach(attachment_sizes(), false).unwrap();
            let mut open = Vec::new();
            for vci in 300..310 {
                let request = receives(address(0, vci), 1, &attached, SDU_MAX);
                open.push(control.open(request, memory_for(SDU_MAX, 32, 0)).unwrap());
            }
            let _sender = control.cell_sender(PortIndex(1)).unwrap();
            std::thread::sleep(PATIENCE);
        }
        _ => {}
    }
}

#[test]
fn pdus_cross_three_processes_octet_for_octet() {
    let (adapter, mut control) = spawn(&options());
    assert_eq!(control.hello().pid, adapter.id());
    let mut attached = control.attach(attachment_sizes(), false).unwrap();
    let request = receives(address(0, 200), 0, &attached, SDU_MAX);
    // More than the sender sends: it does not wait for this reader.
    let mut vc = control
        .open(request, memory_for(SDU_MAX, PDUS as u32, 0))
        .unwrap();
    let mut sender = spawn_client("sender", &mut control);
    for sdu in Sdus::new(1, SDU_MAX.into()).take(PDUS) {
        assert_eq!(next_sdu(&mut attached, &mut vc), sdu);
    }
    assert!(sender.wait().unwrap().success());
    while attached.next_event().is_some() {}
    let counters = attached.counters();
    assert_eq!((counters.events, counters.lost), (PDUS as u64, 0));
    assert!(counters.wakeups <= counters.events, "{counters:?}");
    assert!(adapter.cpu_ns().unwrap() > 0);
    let ports = control.ports().unwrap();
    assert_eq!(ports[0].receive.dropped, 0);
    assert!(ports[0].receive.queued_max > 0);
    control.shutdown().unwrap();
    assert!(adapter.wait().unwrap().success());
}

#[test]
fn interleaved_pdus_cross_three_processes_octet_for_octet() {
    let (_adapter, mut control) = spawn(&options());
    let mut attached = control.attach(attachment_sizes(), false).unwrap();
    let interleaving = Interleaving {
        mids: MIDS.len() as u16,
        reassembly_timeout_ns: 0,
    };
    let request = aal34::interleaved(address(0, 202), 0, &attached, 3_000, interleaving);
    // The sender does not wait for this reader.
    let pdus = (MIDS.len() * ROUNDS) as u32;
    let memory = memory_for_aal34(interleaving, 3_000, pdus, 0);
    let mut vc = control.open(request, memory).unwrap();
    let mut sender = spawn_client("mixer", &mut control);
    let mut mix = aal34::Mix::new(4, &MIDS, 3_000);
    for _ in 0..ROUNDS {
        for expected in mix.round().1 {
            assert_eq!(next_with_mid(&mut attached, &mut vc), expected);
        }
    }
    assert!(sender.wait().unwrap().success());
    let stats = control.close(vc.id()).unwrap().stats;
    assert_eq!(stats.pdus_delivered, u64::from(pdus));
    assert_eq!(stats.cells_delivered, stats.cells_received);
}

#[test]
fn a_killed_client_leaves_nothing_behind_and_disturbs_nobody() {
    let mut options = options();
    // Room for this test's VC and the client's, not for the client's twice.
    options.memory_max = 16 << 20;
    let (_adapter, mut control) = spawn(&options);
    let mut attached = control.attach(attachment_sizes(), false).unwrap();
    let mut sender = control.cell_sender(PortIndex(0)).unwrap();
    let at = address(0, 201);
    let mut vc = control
        .open(receives(at, 0, &attached, 1_000), memory_for(1_000, 8, 0))
        .unwrap();
    let mut sdus = Sdus::new(2, 1_000);
    let mut pass_some = |n: usize| {
        for sdu in sdus.by_ref().take(n) {
            send_all(&mut sender, &cells(at, &sdu));
            assert_eq!(next_sdu(&mut attached, &mut vc), sdu);
        }
    };
    let mut vcs_open = 0;
    // Several times: memory that is not given back is missing at the latest in the fourth round.
    for _ in 0..6 {
        let mut client = spawn_client("client", &mut control);
        eventually("the client opens nothing", || {
            pass_some(5);
            let ended = client.try_wait().unwrap();
            assert!(ended.is_none(), "the client has failed: {ended:?}");
            vcs_open = control.enumerate().unwrap().vcs.len();
            (vcs_open == 11).then_some(())
        });
        client.kill().unwrap();
        client.wait().unwrap();
        eventually("its VCs stay open", || {
            pass_some(5);
            (control.enumerate().unwrap().vcs.len() == 1).then_some(())
        });
    }
    pass_some(100);
    let info = control.close(vc.id()).unwrap();
    assert_eq!(info.stats.cells_discarded.total(), 0);
}

#[test]
fn what_one_process_transmits_another_receives() {
    let (_first, mut near) = spawn(&options());
    let (_second, mut far) = spawn(&options());
    near.join(PortIndex(0), &mut far, PortIndex(1)).unwrap();
    let mut sending = near.attach(attachment_sizes(), false).unwrap();
    let mut receiving = far.attach(attachment_sizes(), false).unwrap();
    let at = address(5, 5);
    let mut out = near
        .open(
            transmits(at, 0, &sending, SDU_MAX),
            memory_for(SDU_MAX, 0, 4),
        )
        .unwrap();
    let mut back = far
        .open(
            receives(at, 1, &receiving, SDU_MAX),
            memory_for(SDU_MAX, 8, 0),
        )
        .unwrap();
    for sdu in Sdus::new(3, SDU_MAX.into()).take(200) {
        assert!(out.send(&mut sending, &sdu, SduOptions::default()));
        assert_eq!(next_sdu(&mut receiving, &mut back), sdu);
        while sending.next_event().is_some() {}
    }
}

#[test]
fn an_adapter_ends_with_its_last_control_connection() {
    let (adapter, mut control) = spawn(&options());
    let other = control.connect().unwrap();
    drop(control);
    let mut control = Control::new(other).unwrap();
    assert!(control.stats().is_ok());
    drop(control);
    assert!(adapter.wait().unwrap().success());
}

#[test]
fn an_adapter_ends_with_its_starter_however_that_ends() {
    let mut starter = program("starter")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(starter.stdout.take().unwrap()).lines();
    let pid = lines
        .map_while(Result::ok)
        .find_map(|line| line.strip_prefix("adapter ").map(str::to_owned))
        .unwrap();
    // The third field of `stat` is the state; whoever inherits a zombie may be slow to bury it.
    let runs = || {
        std::fs::read_to_string(format!("/proc/{pid}/stat"))
            .is_ok_and(|stat| !stat.rsplit(')').next().unwrap().starts_with(" Z"))
    };
    assert!(runs());
    starter.kill().unwrap();
    starter.wait().unwrap();
    eventually("the adapter goes on", || (!runs()).then_some(()));
}

#[test]
fn a_refused_configuration_is_told_to_the_starter() {
    let mut options = options();
    options.config.ports.clear();
    let mut program = program("adapter");
    program.stderr(Stdio::null());
    match AdapterProcess::spawn(program, &options) {
        Err(ClientError::Refused(ControlError::Refused(Refusal::BadParameter))) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_program_that_is_no_adapter_does_not_hang_its_starter() {
    let started = AdapterProcess::spawn(Command::new("true"), &options());
    assert!(
        matches!(started, Err(ClientError::Closed | ClientError::Kernel(_))),
        "{started:?}"
    );
}

#[test]
fn an_adapter_that_is_killed_is_noticed() {
    let (adapter, mut control) = spawn(&options());
    let mut attached = control.attach(attachment_sizes(), false).unwrap();
    adapter.kill().unwrap();
    assert!(matches!(
        control.stats(),
        Err(ClientError::Closed | ClientError::Kernel(_))
    ));
    assert!(!attached.wait(Some(Duration::from_millis(10))).unwrap());
}

#[test]
fn the_firmware_says_how_it_is_scheduled() {
    let mut options = options();
    options.scheduling = SchedulingRequest::default();
    let (_adapter, control) = spawn(&options);
    let scheduling = &control.hello().scheduling;
    // The last one, unless somebody else's adapter has that.
    let pinned = scheduling.pinned.unwrap();
    assert!(scheduling.cpus.contains(&pinned), "{scheduling}");
    assert_eq!(scheduling.yields, scheduling.cpus.len() == 1);
    let nice_had = scheduling.nice == -20;
    let told = scheduling
        .notes
        .iter()
        .any(|note| note.starts_with("not nice -20: "));
    assert!(nice_had != told, "{scheduling}");
    let unlocked = scheduling.notes.iter().any(|note| note.contains("locked"));
    assert!(scheduling.locked != unlocked, "{scheduling}");
}

/// Octets of a process that are locked, as the kernel has it.
fn locked(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmLck:"));
    let kib = line.unwrap().trim().trim_end_matches(" kB");
    kib.parse::<u64>().unwrap() << 10
}

#[test]
fn what_connections_have_is_locked_while_they_are_open_or_told() {
    let mut options = options();
    options.scheduling.lock_memory = true;
    let (_adapter, mut control) = spawn(&options);
    let pid = control.hello().pid;
    let attached = control.attach(attachment_sizes(), false).unwrap();
    let before = locked(pid);
    let request = receives(address(1, 40), 0, &attached, 1_000);
    let memory = memory_for(1_000, 64, 0);
    let vc = control.open(request, memory).unwrap();
    let (grown, unlocked) = (locked(pid) - before, control.gaps(false).unwrap().unlocked);
    let buffer = u64::from(memory.receive_len);
    // It is mapped twice, for PDUs that wrap.
    assert_eq!(grown >= 2 * buffer, unlocked == 0, "{grown} {unlocked}");
    assert!(unlocked == 0 || unlocked >= 2 * buffer, "{unlocked}");
    control.close(vc.id()).unwrap();
    eventually("it stays locked", || (locked(pid) <= before).then_some(()));
    assert_eq!(control.gaps(false).unwrap().unlocked, 0);
}

#[test]
fn what_the_limit_does_not_let_lock_is_told_and_serves_as_well() {
    if geteuid().is_root() && Command::new("setpriv").arg("--version").output().is_err() {
        return println!("skipped: no setpriv, and root may lock whatever the limit");
    }
    let mut options = options();
    options.scheduling.lock_memory = true;
    let words = match geteuid().is_root() {
        true => "ulimit -l 256; exec setpriv --bounding-set=-ipc_lock \"$0\" \"$@\"",
        false => "ulimit -l 256; exec \"$0\" \"$@\"",
    };
    let mut program = Command::new("sh");
    program
        .args(["-c", words])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "processes::plays_its_role", "--nocapture"])
        .env(ROLE, "adapter")
        .stdout(Stdio::null());
    let (_adapter, mut control) = AdapterProcess::spawn(program, &options).unwrap();
    let notes = &control.hello().scheduling.notes;
    let told = notes.iter().any(|note| note.contains("memory not locked"));
    assert!(told, "{notes:?}");
    let mut attached = control.attach(attachment_sizes(), false).unwrap();
    let request = receives(address(1, 40), 0, &attached, 9_180);
    let memory = memory_for(9_180, 64, 0);
    let mut vc = control.open(request, memory).unwrap();
    let unlocked = control.gaps(false).unwrap().unlocked;
    assert!(unlocked >= 2 * u64::from(memory.receive_len), "{unlocked}");
    let mut sender = control.cell_sender(PortIndex(0)).unwrap();
    send_all(&mut sender, &cells(address(1, 40), &[7; 9_180]));
    assert_eq!(next_sdu(&mut attached, &mut vc), [7; 9_180]);
    control.close(vc.id()).unwrap();
    assert_eq!(control.gaps(false).unwrap().unlocked, 0);
}

#[test]
fn a_limit_on_descriptors_that_can_be_raised_is_no_limit_on_vcs() {
    let mut program = Command::new("sh");
    program
        .args(["-c", "ulimit -Sn 64; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "processes::plays_its_role", "--nocapture"])
        .env(ROLE, "adapter")
        .stdout(Stdio::null());
    let (_adapter, mut control) = AdapterProcess::spawn(program, &options()).unwrap();
    let attached = control.attach(attachment_sizes(), false).unwrap();
    // The adapter keeps two descriptors of each.
    for vci in 0..64 {
        let request = receives(address(1, 32 + vci), 0, &attached, 100);
        control.open(request, memory_for(100, 1, 0)).unwrap();
    }
}
