//! The lab's tests.

mod contracts;
mod recorded;

mod abr;
mod corpus;
mod crossing;
mod ends;
mod ethernet;
mod experiments;
mod hostile;
mod l4atm;
mod needs;
mod neighbours;
mod oracle;
mod ports;
mod rest;
mod rings;
mod singles;
mod terminals;
mod v1s;
mod verdicts;
mod world;
mod world_abr;
mod world_charges;
mod world_rings;
mod world_servers;
mod world_streams;
mod world_transfers;
