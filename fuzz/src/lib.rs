//! Fuzz targets: every parser, the reassemblers, the adapter, rings, shared memory from either side, and
//! the texts. Each is a plain function, so that libFuzzer's binaries and an ordinary test run the
//! same code.
//!
//! A fuzzer cannot guess a CRC. Where one stands in the way, an octet of the input says whether it
//! is made right, by code that shares nothing with the product.
#![forbid(unsafe_code)]

mod aal34;
mod aal5;
mod abr;
mod adapter;
mod capture;
mod cbn;
mod cell;
mod check;
mod client;
mod contract;
mod control;
mod files;
mod journal;
mod memory;
mod msna;
mod mssar;
mod payloads;
mod region;
mod take;
mod terminal;
mod upper;
mod video;
mod wrappings;

pub use aal5::{aal5_reassembly, aal5_round_trip};
pub use aal34::{aal34_reassembly, aal34_round_trip};
pub use abr::abr;
pub use adapter::{adapter, attacked, plan};
pub use capture::capture;
pub use cbn::cbn;
pub use cell::cell;
pub use client::client;
pub use contract::contract;
pub use control::control;
pub use files::files;
pub use journal::journal;
pub use msna::msna;
pub use mssar::mssar;
pub use payloads::payloads;
pub use region::region;
pub use terminal::{terminal, terminal_line};
pub use upper::upper;
pub use video::video;
pub use wrappings::{frame, llc, pseudowire};

/// A target: it panics if something is wrong.
pub type Target = fn(&[u8]);

/// All targets by the names of their binaries and of their folders below `corpus`.
pub const TARGETS: [(&str, Target); 26] = [
    ("abr", abr),
    ("cell", cell),
    ("payloads", payloads),
    ("aal5_reassembly", aal5_reassembly),
    ("aal5_round_trip", aal5_round_trip),
    ("aal34_reassembly", aal34_reassembly),
    ("aal34_round_trip", aal34_round_trip),
    ("mssar", mssar),
    ("msna", msna),
    ("llc", llc),
    ("upper", upper),
    ("pseudowire", pseudowire),
    ("frame", frame),
    ("contract", contract),
    ("control", control),
    ("terminal", terminal),
    ("terminal_line", terminal_line),
    ("files", files),
    ("video", video),
    ("journal", journal),
    ("capture", capture),
    ("client", client),
    ("region", region),
    ("adapter", adapter),
    ("cbn", cbn),
    ("attacked", attacked),
];
