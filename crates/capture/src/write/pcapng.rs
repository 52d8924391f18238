use std::io::{self, Write};

use crate::link::Link;
use crate::record::Direction;

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
const COMMENT: u16 = 1;
const NAME: u16 = 2;
const FLAGS: u16 = 2;
const APPLICATION: u16 = 4;
const RESOLUTION: u16 = 9;
/// Ticks of 10^-9 s.
const NANOSECONDS: u8 = 9;
/// Octets around the body of a block.
const AROUND_LEN: u32 = 12;

/// Writes a pcapng file of one section, little-endian, with times in nanoseconds.
#[derive(Debug)]
pub struct PcapngWriter<W> {
    out: W,
    /// The body of the block that is being made.
    body: Vec<u8>,
    interfaces: u32,
}

/// An interface of the file that gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceId(u32);

/// One packet to write.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Nanoseconds since 1970 began (UTC).
    pub time_ns: u64,
    /// Which way it went.
    pub direction: Direction,
    /// As the link type of its interface wants it. At most
    /// [`RECORD_LEN_MAX`](crate::RECORD_LEN_MAX) octets are kept.
    pub octets: &'a [u8],
    /// Octets beyond these that were on the wire.
    pub missing: usize,
    /// Why it was dropped, for instance.
    pub comment: Option<&'a str>,
}

impl<W: Write> PcapngWriter<W> {
    /// Starts a file that names `application` as its writer.
    pub fn new(out: W, application: &str) -> io::Result<Self> {
        let mut writer = Self {
            out,
            body: Vec::new(),
            interfaces: 0,
        };
        let body = &mut writer.body;
        body.extend(0x1a2b_3c4d_u32.to_le_bytes());
        body.extend([1, 0, 0, 0]);
        // The length of the section is not known in advance.
        body.extend(u64::MAX.to_le_bytes());
        option(body, APPLICATION, application.as_bytes());
        option(body, 0, &[]);
        writer.block(SECTION_HEADER)?;
        Ok(writer)
    }

    /// Describes an interface; packets are written to those that were described before.
    ///
    /// # Errors
    /// Those of the writer, and `InvalidInput` for [`Link::EyeSdn`], which has no number here.
    pub fn interface(&mut self, link: Link, name: &str) -> io::Result<InterfaceId> {
        let number = link.number().ok_or(io::ErrorKind::InvalidInput)?;
        let body = &mut self.body;
        body.extend(number.to_le_bytes());
        body.extend([0, 0]);
        // No limit to what is kept of a packet.
        body.extend(0_u32.to_le_bytes());
        option(body, NAME, name.as_bytes());
        option(body, RESOLUTION, &[NANOSECONDS]);
        option(body, 0, &[]);
        self.block(INTERFACE)?;
        self.interfaces += 1;
        Ok(InterfaceId(self.interfaces - 1))
    }

    /// Writes one packet.
    pub fn packet(&mut self, interface: InterfaceId, packet: Packet<'_>) -> io::Result<()> {
        let kept = packet.octets.len().min(crate::RECORD_LEN_MAX);
        let original = packet.octets.len().saturating_add(packet.missing);
        let original = u32::try_from(original).unwrap_or(u32::MAX);
        let body = &mut self.body;
        body.extend(interface.0.to_le_bytes());
        body.extend(((packet.time_ns >> 32) as u32).to_le_bytes());
        body.extend((packet.time_ns as u32).to_le_bytes());
        body.extend((kept as u32).to_le_bytes());
        body.extend(original.to_le_bytes());
        body.extend(packet.octets.iter().take(kept));
        pad(body);
        let flags = match packet.direction {
            Direction::Unknown => 0_u32,
            Direction::Receive => 1,
            Direction::Transmit => 2,
        };
        if flags != 0 {
            option(body, FLAGS, &flags.to_le_bytes());
        }
        if let Some(comment) = packet.comment {
            option(body, COMMENT, comment.as_bytes());
        }
        if flags != 0 || packet.comment.is_some() {
            option(body, 0, &[]);
        }
        self.block(ENHANCED_PACKET)
    }

    /// Hands the writer back, flushed.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }

    /// Writes what is in `body` as one block.
    fn block(&mut self, kind: u32) -> io::Result<()> {
        // Bodies hold one record and short options.
        let len = (self.body.len() as u32 + AROUND_LEN).to_le_bytes();
        self.out.write_all(&kind.to_le_bytes())?;
        self.out.write_all(&len)?;
        self.out.write_all(&self.body)?;
        self.out.write_all(&len)?;
        self.body.clear();
        Ok(())
    }
}

/// An option; a value longer than 65,535 octets is cut.
fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    let len = u16::try_from(value.len()).unwrap_or(u16::MAX);
    body.extend(code.to_le_bytes());
    body.extend(len.to_le_bytes());
    body.extend(value.iter().take(len.into()));
    pad(body);
}

/// Every field of a block starts at a multiple of four.
fn pad(body: &mut Vec<u8>) {
    body.resize(body.len().next_multiple_of(4), 0);
}
