//! The protocol server of *L4ATM*, without I/O: connections, admission, shares.
//!
//! ```text
//!  application       Request, Response          AdapterAsk
//! ------------> handle_message --> [ Server ] --------------> adapter, by Output
//! <------------ Confirm, Indication    |      <-------------- handle_answer
//!                                      +-- Admission: bandwidth, CPU, memory, quotas
//! ```
//!
//! The server knows no socket and no descriptor: its messages name what goes along with them
//! ([`Enclosed`]). Data does not pass it.

mod accounts;
mod adapter_port;
mod adapters;
mod address;
mod admission;
mod answers;
mod awaiting;
mod chain;
mod config;
mod connection;
mod counters;
mod cpu_cost;
mod cpu_time;
mod delay;
mod describe;
mod device;
pub mod governor;
mod histogram;
mod interface;
mod interfaces;
mod joint;
mod keeping;
pub mod lambda;
mod lending;
mod losses;
mod machine;
mod message;
mod next_step;
mod offers;
mod opening;
mod pages;
mod plan;
mod planted;
mod possible;
mod rates;
mod refused;
mod reopening;
mod requests;
mod reserve;
mod saying;
mod settings;
mod share;
mod slots;
mod state;
mod take_up;
mod threshold;

pub use crate::keeper::{Idle, Link, MemoryLink, UdpLink};
pub use crate::wire::HeaderForm;
pub use crate::wire::OamFlow as PingFlow;
pub use accounts::{Account, Accounts, AtInterface, Charge, Difference, OneWay, Way};
pub use adapter_port::{
    AdapterAnswer, AdapterAsk, AdapterIndex, AdapterRefusal, ClientId, Enclosed, On, Output, Peer,
    Ticket,
};
pub use address::{Address, AddressError};
pub use admission::{Admission, Bandwidth, Book, Demand, Grant};
pub use config::{
    AdapterBooks, AdmissionConfig, Bound, Limits, Quota, ServerAdapter, ServerAssumptions,
    ServerConfig,
};
pub use counters::{
    CounterRecord, CounterSnapshot, CountersRoom, InterfaceRecord, Shown, counters_header,
    read_counters, write_counters,
};
pub use cpu_cost::{Cost, Costs, CpuLaw, Direction, LawError, Sample};
pub use cpu_time::CpuTime;
pub use delay::{DelayBounds, Precedence, ReceiveBound, Surroundings, TransmitBound};
pub use describe::descriptions;
pub use device::{DeviceCounts, DeviceInfo, DeviceSpec, InAtmArpCounts};
pub use histogram::{Histogram, Histograms};
pub use interface::{
    DatagramCounts, InterfaceCounts, InterfaceInfo, InterfaceSpec, InterfaceState, Loss, Priority,
};
pub use interfaces::LOOP;
pub use keeping::{Disk, Former, Keeping};
pub use lending::Idleness;
pub use machine::Server;
pub use message::{
    AdapterInfo, Buffers, CONNECTIONS_PER_SOCKET, Caller, Change, Confirm, ConnectionInfo,
    Description, EndReason, FromClient, FromServer, Indication, LIST_MAX, MessageKind, Open,
    Opened, Request, ResourceInfo, Response, RestInfo, RiskInfo, SharedCpu, Tried, VERSION,
};
pub use pages::PagesOf;
pub use planted::{Bugs, Planted, Sound};
pub use possible::{Possible, Prospect};
pub use refused::{Crowd, Refused, Resource, Shortage};
pub use requests::LOOPBACKS_PER_USER;
pub use reserve::{OWN_VCI_MIN, Reserve, Span, SpanError};
pub use settings::{
    AdapterSection, AdmissionSection, ServerSection, Settings, UserQuota, UserSettings,
};
pub use share::{Claim, divide};
pub use slots::{ConnectionSlots, SlotClocks};
pub use state::{Done, Health, PortHealth, Record, Reopens, TakenInterface, TakenUp, TakenVc};
pub use threshold::{QueueThreshold, ThresholdError};
