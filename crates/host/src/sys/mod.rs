//! System calls that rustix has no safe door to. The only place of this crate with `unsafe`.
//! What lacks a privilege here says so and goes on without.

#![allow(unsafe_code)]

mod activation;
#[cfg(test)]
pub(crate) mod allocations;
mod bus_error;
mod cpu;
mod duty;
mod favoured;
mod file_lock;
mod file_map;
mod interrupt;
mod lack;
mod neighbours;
pub mod probes;
mod scheduling;
mod signals;
mod socket;
mod tun;
mod wake_up;

pub use activation::activated_socket;
pub use cellgate_core::keeper::{Scheduling, WakeUp};
pub use cpu::{cpu_ns_of, tsc};
pub use duty::{
    AdapterCpus, Cpus, Duty, RESERVED_PERIOD_NS, ThreadScheduling, take_duty, take_idle, take_share,
};
pub use favoured::demote;
pub(crate) use favoured::{FavouredThread, demote_left};
pub(crate) use file_lock::{LockedFile, is_locked};
pub(crate) use file_map::FileMap;
pub use interrupt::{interrupt, let_interrupt};
pub use lack::{Lack, plain};
pub use neighbours::{
    FIRMWARE, FirmwareThread, Walk, cpus_of_machine, expected_cpu, has_cpu, others_on,
};
pub(crate) use neighbours::{beginning, spans_of_cpus};
pub use scheduling::{
    ADAPTER_FIFO, SchedulingRequest, allowed_cpus, avoid_cpu, begin_session, class_of_thread,
    die_with_parent, lock_memory, name_thread, note_wake_up, pin_thread, schedule,
};
pub use signals::{Heard, Signals};
pub(crate) use socket::is_read;
pub use socket::{
    RECEIVE_MANY, SEND_MANY, SocketMemory, enter_network_namespace, own_network_namespace,
    peer_credentials, peer_groups, receive_many, send_many, socket_memory, tell_octets_only,
};
pub(crate) use tun::is_tun;
pub use tun::{Tun, TunKind};
pub(crate) use wake_up::timespec;
pub use wake_up::{fine_timers, measure_wake_up, wake_ups};
