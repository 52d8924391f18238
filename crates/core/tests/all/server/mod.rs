//! The protocol server: what applications hear, what the adapter is asked, what stays promised.

mod abr;
mod adapters;
mod admission;
mod awaiting;
mod chain;
mod connections;
mod cpu_cost;
mod cpu_time;
mod delay;
mod describe;
mod fake_adapter;
mod interfaces;
mod joint;
mod lending;
mod offers;
mod pages;
mod quota;
mod reopening;
mod reserves;
mod restart;
mod rests;
mod shares;
mod storm;
mod take_up;
mod tries;
mod world;
