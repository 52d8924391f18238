//! Capture files of ATM traffic, over any reader and writer. No clock: every time is given.
//!
//! ```text
//! pcapng --+                                      +--> Recorder: pcapng, one interface per view
//! pcap   --+-> Reader -> Record { time, Content } |      sdu  SUNATM (123)
//! ERF    --+                                      |      erf  ERF (197): PDUs, cells, VPI > 255
//! EyeSDN --+                                      |      wire Ethernet (1)
//!                                                 +--> EyeSdnWriter: 53-octet cells with HEC
//! ```
//!
//! - [`Reader`] finds out what a file is and gives its records in order. A broken record is an
//!   [`Error`] with its offset, and the next one is read wherever the format lets it be found.
//! - [`Recorder`] writes what Wireshark, tshark and tcpdump read.
//!
//! The formats are read and written here rather than by a library: a pcap or pcapng library knows
//! neither ERF nor EyeSDN, and its errors name no offset, which is what a user with a broken file
//! needs. A record is never longer than [`RECORD_LEN_MAX`], whatever a file says, and memory does
//! not grow with a file.
//!
//! Not supported: Sniffer files, compressed files, per-packet decryption or name resolution.
#![forbid(unsafe_code)]

mod erf;
mod error;
mod link;
mod read;
mod record;
mod ring;
mod sunatm;
mod write;

pub use error::{Error, Reason, Refusal};
pub use link::Link;
pub use read::Reader;
pub use record::{Content, Direction, Marks, Record, SduKind};
pub use ring::RingHeader;
pub use write::{EyeSdnWriter, InterfaceId, Item, Packet, PcapngWriter, Recorder};

/// Octets of the longest record that is read: as much as libpcap takes.
pub const RECORD_LEN_MAX: usize = 262_144;
