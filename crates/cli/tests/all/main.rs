//! The command where it needs nobody else, and with a daemon of its own.

#[path = "../live/daemon/mod.rs"]
mod daemon;

mod bench_client;
mod captures;
mod charge;
mod completions;
mod contract;
mod contract_for;
mod decode;
mod delays;
mod fed;
mod files;
mod files_over;
mod growth;
mod joined;
mod json;
mod lab;
mod msna;
mod mssar;
mod offload;
mod output;
mod probes;
mod relay;
mod replay;
mod save;
mod server;
mod sim;
mod sim_slots;
mod stream;
mod transfer;
mod width;
