//! The host's tests: adapters and daemons in processes of their own.

mod common;

mod aal34;
mod adapter;
mod control;
mod crossing;
mod hostile;
mod loopback;
mod meetings;
mod processes;
mod server_adapters;
mod server_daemon;
mod server_pages;
mod server_places;
mod server_take_up;
mod terminal;
mod udp;
