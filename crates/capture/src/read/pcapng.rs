//! pcapng (draft-ietf-opsawg-pcapng): blocks, each with its length at both ends. Behind a damaged
//! one the next is found by that.

mod block;

use std::io::{self, Read};

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
/// Names, statistics, a section of systemd, decryption secrets: skipped, and known.
const OTHERS: [u32; 4] = [4, 5, 9, 10];
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
            if u32::from_be_bytes(kind) == SECTION_HEADER
                && let Err(fault) = self.start_section(input)
            {
                return match fault {
                    Unstarted::Io(error) => Err(Fault::Io(error)),
                    Unstarted::Broken(reason) => self.lost(input, offset, reason),
                };
            }
            let kind = self.order.u32(kind);
            let len = self.order.u32(len);
            if !is_block_len(len) {
                return self.lost(input, offset, Reason::BlockLength { len });
            }
            let step = match kind {
                INTERFACE | OLD_PACKET | SIMPLE_PACKET | ENHANCED_PACKET => {
                    self.read_block(input, offset, kind, len)
                }
                _ if len as usize <= BLOCK_LEN_MAX => self.whole(input, offset, len).map(|_| None),
                _ => self.skip(input, offset, len).map(|()| None),
            };
            if let Some(record) = step? {
                return Ok(Some(record));
            }
        }
    }

    /// Whether a whole block of a kind that is known begins `at` octets on.
    fn begins<R: Read>(&self, input: &mut Input<R>, at: usize) -> io::Result<bool> {
        let front = input.peek(at + AROUND_LEN)?.get(at..);
        let Some([k0, k1, k2, k3, len @ .., m0, m1, m2, m3]) =
            front.and_then(|front| front.first_chunk::<AROUND_LEN>())
        else {
            return Ok(false);
        };
        let kind = [*k0, *k1, *k2, *k3];
        let (order, known) = match u32::from_be_bytes(kind) {
            SECTION_HEADER => (section_order([*m0, *m1, *m2, *m3]), true),
            _ => {
                let kind = self.order.u32(kind);
                let known = (INTERFACE..=SIMPLE_PACKET).contains(&kind)
                    || kind == ENHANCED_PACKET
                    || OTHERS.contains(&kind);
                (Some(self.order), known)
            }
        };
        let Some(order) = order.filter(|_| known) else {
            return Ok(false);
        };
        let front_len = order.u32(*len);
        if !is_block_len(front_len) || front_len as usize > BLOCK_LEN_MAX {
            return Ok(false);
        }
        let end = at + front_len as usize;
        let octets = input.peek(end)?;
        let last = octets.split_last_chunk::<4>();
        Ok(octets.len() == end && last.is_some_and(|(_, last)| order.u32(*last) == front_len))
    }

    /// Takes octets up to the next block that is whole, at least one.
    fn lost<R: Read>(&self, input: &mut Input<R>, offset: u64, reason: Reason) -> Step {
        loop {
            input.consume(1);
            if input.peek(AROUND_LEN)?.len() < AROUND_LEN {
                return Err(Fault::Lost(offset, reason));
            }
            if self.begins(input, 0)? {
                return Err(Fault::Broken(offset, reason));
            }
        }
    }

    /// Takes a block of `len` octets, and gives its body. Where the length behind it is another, or
    /// the file ends, what follows is the next block that is whole.
    fn whole<R: Read>(
        &self,
        input: &mut Input<R>,
        offset: u64,
        len: u32,
    ) -> Result<Vec<u8>, Fault> {
        let wanted = len as usize;
        let octets = input.peek(wanted)?;
        let found = octets.len();
        let last = match octets.split_last_chunk::<4>() {
            Some((front, last)) if found == wanted => {
                let last = self.order.u32(*last);
                if last == len {
                    let body = front.get(FRONT_LEN..).unwrap_or_default().to_vec();
                    input.consume(wanted);
                    return Ok(body);
                }
                Some(last)
            }
            _ => None,
        };
        self.look_inside(input, offset, wanted)?;
        match last {
            Some(last) => {
                input.consume(wanted);
                Err(Fault::Broken(offset, Reason::BlockEnd { first: len, last }))
            }
            None => Err(Fault::Lost(offset, Reason::Truncated { wanted, found })),
        }
    }

    /// Whether a whole block begins in what was taken for one of `said` octets, as far as a block
    /// is read: then the input stands before it.
    fn look_inside<R: Read>(
        &self,
        input: &mut Input<R>,
        offset: u64,
        said: usize,
    ) -> Result<(), Fault> {
        let len = input.peek(said.min(BLOCK_LEN_MAX))?.len();
        for found in FRONT_LEN..len {
            if self.begins(input, found)? {
                input.consume(found);
                return Err(Fault::Broken(offset, Reason::NextRecord { said, found }));
            }
        }
        Ok(())
    }

    /// Takes a block of any length without keeping it.
    fn skip<R: Read>(&self, input: &mut Input<R>, offset: u64, len: u32) -> Result<(), Fault> {
        self.look_inside(input, offset, len as usize)?;
        skip_block(input, offset, self.order, len)
    }

    /// Takes the byte order of the section whose header is next; its interfaces are new.
    fn start_section<R: Read>(&mut self, input: &mut Input<R>) -> Result<(), Unstarted> {
        const MIN: usize = 16;
        let octets = input.peek(MIN).map_err(Unstarted::Io)?;
        let Some([.., m0, m1, m2, m3, v0, v1, _, _]) = octets.first_chunk::<MIN>() else {
            let (wanted, found) = (28, octets.len());
            return Err(Unstarted::Broken(Reason::Truncated { wanted, found }));
        };
        let magic = [*m0, *m1, *m2, *m3];
        let Some(order) = section_order(magic) else {
            let reason = Reason::Section(u32::from_be_bytes(magic));
            return Err(Unstarted::Broken(reason));
        };
        let version = order.u16([*v0, *v1]);
        if version != 1 {
            return Err(Unstarted::Broken(Reason::SectionVersion(version)));
        }
        self.order = order;
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
            return self.lost(input, offset, Reason::TooLong { len });
        }
        let body = self.whole(input, offset, len);
        if body.is_err() && kind == INTERFACE {
            self.describe(offset, Interface::unknown())?;
        }
        let body = body?;
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
        let kept = interface.kept(packet.octets, packet.is_simple());
        let decoded = link.decode(kept, packet.original, interface.fcs_len(&packet))?;
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
            marks: decoded.marks.and(packet.marks),
            comments: packet.comments,
        })
    }
}

/// Why a section does not start.
enum Unstarted {
    Io(io::Error),
    Broken(Reason),
}

/// Whether a block can be so long: a multiple of 4, and no shorter than what is around its body.
fn is_block_len(len: u32) -> bool {
    len.is_multiple_of(4) && len as usize >= AROUND_LEN
}

/// Takes a block without looking into it.
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
