//! The core's tests; what must be a program of its own is beside this folder.

mod aal0;
mod aal34;
mod aal34_model;
mod aal5;
mod aal5_interleaved;
mod application;
mod contract_credit;
mod contract_gcra;
mod contract_implied;
mod contract_terms;
mod contract_text;
mod fault;
mod keeper;
mod oam;
mod queue_layout;
mod queue_model;
mod schedule;
mod schedule_peak;
mod schedule_reference;
mod server;
mod terminal_tree;
mod upper;
mod upper_inquiry;
mod wire;
mod wire_pseudowire;
