//! pcapng (draft-ietf-opsawg-pcapng): blocks, each with its length at both ends.

mod block;

use std::io::Read;

use block::{Block, Interface, Packet, section_order};

use super::input::Input;
use super::pcap::Order;
use super::{Fault, Step};
use crate::error::{Error, Reason, Refusal};
use crate::record::{Direction, Record};

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const OLD_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;
/// Octets before the body of a block, and around it.
const FRONT_LEN: usize = 8;
const AROUND_LEN: usize = 12;
/// Octets of the longest block that is read: a record, its fields and 64 KiB of options.
const BLOCK_LEN_MAX: usize = crate::RECORD_LEN_MAX + 65_536 + 64;
/// Interfaces kept for a section.
const INTERFACES_MAX: usize = 65_536;

/// The section that is being read.
#[derive(Debug)]
pub(super) struct Pcapng {
    order: Order,
    interfaces: Vec<Interface>,
}

impl Pcapng {
    /// The first section header stays in the input: its block is read like any other.
    pub(super) fn open<R: Read>(input: &mut Input<R>) -> Result<Self, Error> {
        let octets = input
            .peek(FRONT_LEN + 4)
            .map_err(|source| Error::Io { offset: 0, source })?;
        let Some([_, _, _, _, _, _, _, _, magic @ ..]) = octets.first_chunk::<12>() else {
            let octets = 28;
            return Err(Error::Refused(Refusal::ShortHeader { octets }));
        };
        let order = section_order(*magic).ok_or(Error::Refused(Refusal::ByteOrder(
            u32::from_be_bytes(*magic),
        )))?;
        Ok(Self {
            order,
            interfaces: Vec::new(),
        })
    }

    /// Reads blocks up to the next packet or fault.
    pub(super) fn next<R: Read>(&mut self, input: &mut Input<R>) -> Step {
        loop {
            let offset = input.offset();
            let front = input.peek(FRONT_LEN)?;
            if front.is_empty() {
                return Ok(None);
            }
            let Some([k0, k1, k2, k3, l0, l1, l2, l3]) = front.first_chunk() else {
                let (wanted, found) = (FRONT_LEN, front.len());
                return Err(Fault::Lost(offset, Reason::Truncated { wanted, found }));
            };
            let (kind, len) = ([*k0, *k1, *k2, *k3], [*l0, *l1, *l2, *l3]);
            if u32::from_be_bytes(kind) == SECTION_HEADER {
                self.start_section(input, offset)?;
            }
            let kind = self.order.u32(kind);
            let len = self.order.u32(len);
            if !len.is_multiple_of(4) || (len as usize) < AROUND_LEN {
                return Err(Fault::Lost(offset, Reason::BlockLength { len }));
            }
            let step = match kind {
                INTERFACE | OLD_PACKET | SIMPLE_PACKET | ENHANCED_PACKET => {
                    self.read_block(input, offset, kind, len)
                }
                _ => skip_block(input, offset, self.order, len).map(|()| None),
            };
            if let Some(record) = step? {
                return Ok(Some(record));
            }
        }
    }

    /// Takes the byte order of the section whose header is next; its interfaces are new.
    fn start_section<R: Read>(&mut self, input: &mut Input<R>, offset: u64) -> Result<(), Fault> {
        const MIN: usize = 16;
        let octets = input.peek(MIN)?;
        let Some([.., m0, m1, m2, m3, v0, v1, _, _]) = octets.first_chunk::<MIN>() else {
            let (wanted, found) = (28, octets.len());
            return Err(Fault::Lost(offset, Reason::Truncated { wanted, found }));
        };
        let magic = [*m0, *m1, *m2, *m3];
        let unknown = Reason::Section(u32::from_be_bytes(magic));
        self.order = section_order(magic).ok_or(Fault::Lost(offset, unknown))?;
        if self.order.u16([*v0, *v1]) != 1 {
            return Err(Fault::Lost(offset, unknown));
        }
        self.interfaces.clear();
        Ok(())
    }

    fn read_block<R: Read>(
        &mut self,
        input: &mut Input<R>,
        offset: u64,
        kind: u32,
        len: u32,
    ) -> Step {
        if len as usize > BLOCK_LEN_MAX {
            // Whatever it held, later packets must not take its number.
            if kind == INTERFACE {
                self.describe(offset, Interface::unknown())?;
            }
            skip_block(input, offset, self.order, len)?;
            return Err(Fault::Broken(offset, Reason::TooLong { len }));
        }
        let wanted = len as usize;
        let octets = input.peek(wanted)?;
        let found = octets.len();
        let body = match octets.split_last_chunk::<4>() {
            Some((front, last)) if found == wanted => {
                let last = self.order.u32(*last);
                let front = front.get(FRONT_LEN..).unwrap_or_default().to_vec();
                if last == len { Ok(front) } else { Err(last) }
            }
            _ => return Err(Fault::Lost(offset, Reason::Truncated { wanted, found })),
        };
        input.consume(wanted);
        let body =
            body.map_err(|last| Fault::Broken(offset, Reason::BlockEnd { first: len, last }))?;
        let block = Block::new(self.order, &body);
        if kind == INTERFACE {
            let interface = block.interface();
            self.describe(offset, interface.unwrap_or(Interface::unknown()))?;
            return match interface {
                Ok(_) => Ok(None),
                Err(reason) => Err(Fault::Broken(offset, reason)),
            };
        }
        let packet = match kind {
            ENHANCED_PACKET => block.enhanced_packet(),
            OLD_PACKET => block.old_packet(),
            _ => block.simple_packet(),
        };
        packet
            .and_then(|packet| self.record(offset, packet))
            .map(Some)
            .map_err(|reason| Fault::Broken(offset, reason))
    }

    fn describe(&mut self, offset: u64, interface: Interface) -> Result<(), Fault> {
        if self.interfaces.len() >= INTERFACES_MAX {
            return Err(Fault::Lost(offset, Reason::Interfaces(INTERFACES_MAX)));
        }
        self.interfaces.push(interface);
        Ok(())
    }

    fn record(&self, offset: u64, packet: Packet<'_>) -> Result<Record, Reason> {
        let interface = self
            .interfaces
            .get(packet.interface as usize)
            .ok_or(Reason::Interface(packet.interface))?;
        let link = interface.link()?;
        let time_ns = packet
            .ticks
            .map(|ticks| interface.time_ns(ticks))
            .transpose()?;
        if packet.octets.len() > crate::RECORD_LEN_MAX {
            let len = packet.octets.len() as u32;
            return Err(Reason::TooLong { len });
        }
        let original = packet.original;
        let decoded = link.decode(interface.kept(packet.octets, packet.is_simple()), original)?;
        Ok(Record {
            offset,
            time_ns,
            interface: packet.interface,
            link,
            direction: match packet.direction {
                Direction::Unknown => decoded.direction,
                known => known,
            },
            content: decoded.content,
            missing: decoded.missing,
            comments: packet.comments,
        })
    }
}

/// Takes a block of any length without keeping it.
fn skip_block<R: Read>(
    input: &mut Input<R>,
    offset: u64,
    order: Order,
    len: u32,
) -> Result<(), Fault> {
    let wanted = len as usize;
    let skipped = input.skip(u64::from(len) - 4)?;
    let last = input.peek(4)?;
    let Some(octets) = last.first_chunk() else {
        let found = skipped as usize + last.len();
        return Err(Fault::Lost(offset, Reason::Truncated { wanted, found }));
    };
    let last = order.u32(*octets);
    input.consume(4);
    if last != len {
        return Err(Fault::Broken(offset, Reason::BlockEnd { first: len, last }));
    }
    Ok(())
}
