use std::io;

/// What went wrong with a capture file.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("offset {offset}: {source}")]
    Io {
        /// Octets read before.
        offset: u64,
        /// What the system says.
        source: io::Error,
    },
    /// It is no capture file that can be read; nothing of it is.
    #[error("{0}")]
    Refused(Refusal),
    /// One record is broken.
    #[error("offset {offset}: {reason}")]
    Broken {
        /// Where the record starts in the file.
        offset: u64,
        /// What is wrong with it.
        reason: Reason,
    },
}

/// Why a file is refused as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Nothing in it.
    #[error("no capture file: it is empty")]
    Empty,
    /// It starts like no capture file that is known.
    #[error("no capture file: it starts with none of pcapng, pcap, ERF and EyeSDN")]
    Unknown,
    /// A compressed file.
    #[error("a compressed file: decompress it first")]
    Compressed,
    /// A Network General Sniffer file.
    #[error("a Sniffer file, which is not read: tshark -F pcapng converts it")]
    Sniffer,
    /// A pcap file of a link type that carries no ATM.
    #[error("a capture of link type {0}, which carries no ATM that is read")]
    LinkType(u32),
    /// A file header that ends too early.
    #[error("no capture file: it ends inside its {octets}-octet header")]
    ShortHeader {
        /// Octets of the header.
        octets: usize,
    },
    /// A version of the format that nobody has written.
    #[error("a {format} file of version {version}, which is not known")]
    Version {
        /// Name of the format.
        format: &'static str,
        /// Its major version.
        version: u16,
    },
    /// A pcapng section whose byte order cannot be told.
    #[error("no capture file: byte-order magic 0x{0:08x} of pcapng")]
    ByteOrder(u32),
}

/// What is wrong with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// The file ends inside the record.
    #[error("the file ends inside a record: {wanted} octets wanted, {found} left")]
    Truncated {
        /// Octets of the record, as far as they are known.
        wanted: usize,
        /// Octets from its start to the end of the file.
        found: usize,
    },
    /// A record whose length leads into the middle of another.
    #[error("a record of {said} octets: the next begins after {found}")]
    NextRecord {
        /// Octets it claims.
        said: usize,
        /// Octets up to the next.
        found: usize,
    },
    /// More octets than any record has.
    #[error("a record of {len} octets: at most {} are read", crate::RECORD_LEN_MAX)]
    TooLong {
        /// Octets it claims.
        len: u32,
    },
    /// A pcapng block length that is no multiple of 4 or shorter than a block.
    #[error("a pcapng block of {len} octets")]
    BlockLength {
        /// Octets it claims.
        len: u32,
    },
    /// The two lengths of a pcapng block differ.
    #[error("a pcapng block of {first} octets at its start, {last} at its end")]
    BlockEnd {
        /// The length in front.
        first: u32,
        /// The length behind.
        last: u32,
    },
    /// Fewer octets than a header needs.
    #[error("a {what} of {len} octets: at least {least}")]
    TooShort {
        /// What is too short.
        what: &'static str,
        /// Its octets.
        len: usize,
        /// Octets it needs.
        least: usize,
    },
    /// An option that ends behind its block.
    #[error("a pcapng option of {len} octets ends behind its block")]
    Option {
        /// Octets it claims.
        len: u16,
    },
    /// A packet of an interface that has not been described.
    #[error("a packet of interface {0}, which is not described")]
    Interface(u32),
    /// More interfaces than are kept.
    #[error("more than {0} interfaces")]
    Interfaces(usize),
    /// A packet of a link type that carries no ATM.
    #[error("a packet of link type {0}, which carries no ATM that is read")]
    LinkType(u32),
    /// A pcapng section whose byte order is not known.
    #[error("a pcapng section with byte-order magic 0x{0:08x}")]
    Section(u32),
    /// A pcapng section of another version than 1.
    #[error("a pcapng section of version {0}: only version 1 is read")]
    SectionVersion(u16),
    /// A fraction of a second that is a second or more.
    #[error("{0} units of a second in a time stamp: a second or more")]
    Fraction(u32),
    /// A time beyond what 64 bits of nanoseconds hold.
    #[error("a time stamp beyond the year 2554")]
    Time,
    /// A cell of another length.
    #[error("a cell of {0} octets")]
    CellLength(usize),
    /// A ring cell, with the octet before it, of another length.
    #[error("a record of {0} octets: a ring cell and the octet before it are 37")]
    RingCellLength(usize),
    /// An SDU or PDU of which nothing was kept.
    #[error("nothing of an SDU of {original} octets was kept")]
    Empty {
        /// Octets on the wire.
        original: usize,
    },
    /// More octets than an SDU or PDU of AAL5 can have.
    #[error("an SDU of {0} octets: AAL5 has at most 65,535")]
    SduTooLong(usize),
    /// An ERF record that carries no ATM.
    #[error("an ERF record of type {0}, which is neither ATM nor Ethernet")]
    ErfType(u8),
    /// An ERF record length that does not hold its headers.
    #[error("an ERF record of {len} octets with {least} octets of headers")]
    ErfLength {
        /// The length it claims.
        len: usize,
        /// Octets of its headers.
        least: usize,
    },
    /// Octets between EyeSDN records.
    #[error("octet 0x{0:02x} where an EyeSDN record starts with 0xff")]
    EyeSdnStart(u8),
    /// An escape that stands for nothing.
    #[error("EyeSDN escape 0xfe 0x{0:02x} stands for nothing")]
    EyeSdnEscape(u8),
    /// An EyeSDN record with more or fewer octets than it says.
    #[error("an EyeSDN record of {found} octets that says {said}")]
    EyeSdnLength {
        /// Octets it claims behind its header.
        said: usize,
        /// Octets behind its header.
        found: usize,
    },
    /// An EyeSDN record that is no ATM cell.
    #[error("an EyeSDN record of type {0}, which is no ATM cell")]
    EyeSdnType(u8),
}
