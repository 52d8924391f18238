//! Static probes (USDT) for bpftrace, perf and gdb: docs/probes.md.
//!
//! Where nobody listens a probe is an instruction that does nothing. Those of PDUs look at a word
//! that the kernel raises while somebody listens, and prepare their arguments only then.

use cellgate_core::adapter::{Command, PduEnd, PortIndex};
use cellgate_core::wire::VpiVci;
use probe::{probe, probe_lazy};

/// All there are, by name.
pub const ALL: [&str; 7] = [
    "command",
    "pdu_delivered",
    "pdu_discarded",
    "replaced",
    "rest",
    "step",
    "wake",
];

/// The firmware lies down for so many nanoseconds at most.
pub fn rest(for_ns: u64) {
    probe!(cellgate, rest, for_ns);
}

/// The firmware is up again after so many nanoseconds, so much later than what was due, called by
/// so many.
pub fn wake(rested_ns: u64, late_ns: u64, callers: usize) {
    probe!(cellgate, wake, rested_ns, late_ns, callers);
}

/// A step took so long that it counts as interrupted.
pub fn step(took_ns: u64, bound_ns: u64) {
    probe!(cellgate, step, took_ns, bound_ns);
}

/// A PDU was delivered, or several of one cell in a row; or one was discarded for a reason.
#[inline(always)]
pub fn pdu(port: PortIndex, address: VpiVci, end: PduEnd) {
    match end {
        PduEnd::Delivered { pdus, cells } => {
            probe_lazy!(
                cellgate,
                pdu_delivered,
                port.0,
                address.vpi(),
                address.vci(),
                pdus,
                cells
            );
        }
        PduEnd::Discarded(reason) => {
            let name = || reason.name();
            probe_lazy!(
                cellgate,
                pdu_discarded,
                port.0,
                address.vpi(),
                address.vci(),
                name().as_ptr(),
                name().len()
            );
        }
    }
}

/// The firmware takes a command of the service thread.
pub fn command<R, A>(command: &Command<R, A>) {
    let name = name_of(command);
    probe!(cellgate, command, name.as_ptr(), name.len());
}

/// A new process of the adapter of this number runs, so many nanoseconds after the one before had
/// gone.
pub fn replaced(adapter: usize, process: u32, away_ns: u64) {
    probe!(cellgate, replaced, adapter, process, away_ns);
}

fn name_of<R, A>(command: &Command<R, A>) -> &'static str {
    match command {
        Command::Configure { .. } => "configure",
        Command::Attach { .. } => "attach",
        Command::Detach { .. } => "detach",
        Command::Open { .. } => "open",
        Command::Modify { .. } => "modify",
        Command::Close { .. } => "close",
        Command::Enumerate { .. } => "enumerate",
        Command::Reattach { .. } => "reattach",
        Command::Lease { .. } => "lease",
        Command::Loopback { .. } => "loopback",
    }
}
