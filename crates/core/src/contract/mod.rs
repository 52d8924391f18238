//! What was promised, and the arithmetic that checks it: rates, GCRA, F-GCRA, credit
//! intervals, contract text, the rates of ABR.

mod abr;
mod bursts;
pub mod charging;
mod credit;
mod early;
mod error;
mod gcra;
mod implied;
mod meant;
mod nearest;
mod need;
mod print;
mod rate;
mod scan;
mod shaper;
mod slots;
mod tariff;
mod text;
mod traffic;

pub use abr::{
    AbrParameters, AbrPlanted, AbrRate, AbrWords, AbrWrong, Cutoff, Destination, NextCell, Part,
    PrcaDestination, PrcaParameters, PrcaSource, RateReason, Source,
};
pub use bursts::Bursts;
pub use credit::{Credit, Remainder, UsageControl, UsageDecision};
pub use early::Early;
pub use error::{ContractError, ContractErrorKind};
pub use gcra::{FrameGcra, Gcra, Increment};
pub use implied::{Lateness, PduStream};
pub use need::{Manner, Need, NeedError, Proposal};
pub use rate::{CellRate, aal5_cells, mbit_s};
pub use shaper::Shaper;
pub use slots::{SlotClock, Slots};
pub use tariff::{Amount, AmountError, Tariff};
pub use text::Strictness;
pub use traffic::{
    Aal, Excess, Jitter, Peak, Police, ServiceCategory, TrafficContract, TrafficDescriptor,
};
