//! What has come.

use std::collections::{BTreeMap, VecDeque};

use super::frame::{FrameHeader, FrameKind, PREAMBLE, StreamFault};
use crate::terminal::conversation::{Inbox, TooLong};
use crate::terminal::{DiskHeader, DiskPdu, Event, Store};

/// What is staged at most: a disk-PDU's tail.
const STAGED: usize = DiskHeader::TAIL;

/// What the next octets are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Preamble,
    Header,
    DiskHeader(FrameHeader),
    /// So many octets of the payload have come.
    Payload(FrameHeader, u32),
    Tail(FrameHeader),
}

#[derive(Clone, Debug)]
struct Transfer<S> {
    store: S,
    /// Up to where it has come, and where it ends.
    at: u64,
    end: u64,
    disk_pdu: Option<DiskHeader>,
    /// No more of it comes.
    is_over: bool,
}

/// What has come.
#[derive(Clone, Debug)]
pub(super) struct Incoming<S> {
    next: Next,
    staged: [u8; STAGED],
    used: usize,
    inbox: Inbox,
    /// Octets of the conversation that have come.
    heard: u64,
    transfers: BTreeMap<u16, Transfer<S>>,
    /// Transfers that nobody here wants any more, and of which something may be on its way: how
    /// often the other end will say that no more comes.
    unwanted: BTreeMap<u16, u32>,
}

impl<S: Store> Incoming<S> {
    pub(super) fn new() -> Self {
        Self {
            next: Next::Preamble,
            staged: [0; STAGED],
            used: 0,
            inbox: Inbox::default(),
            heard: 0,
            transfers: BTreeMap::new(),
            unwanted: BTreeMap::new(),
        }
    }

    pub(super) fn is_established(&self) -> bool {
        self.next != Next::Preamble
    }

    pub(super) fn hear(&mut self, message: &mut Vec<u8>) -> Result<bool, TooLong> {
        self.inbox.pop(self.heard, message)
    }

    pub(super) fn begin(&mut self, transfer: u16, (at, end): (u64, u64), store: S) -> bool {
        if self.transfers.contains_key(&transfer) {
            return false;
        }
        let new = Transfer {
            store,
            at,
            end,
            disk_pdu: None,
            is_over: false,
        };
        self.transfers.insert(transfer, new);
        true
    }

    pub(super) fn extent(&self, transfer: u16) -> Option<(u64, u64)> {
        let transfer = self.transfers.get(&transfer)?;
        Some((transfer.at, transfer.end))
    }

    pub(super) fn store_mut(&mut self, transfer: u16) -> Option<&mut S> {
        Some(&mut self.transfers.get_mut(&transfer)?.store)
    }

    pub(super) fn end(&mut self, transfer: u16) -> Option<S> {
        let ended = self.transfers.remove(&transfer)?;
        if !ended.is_over {
            *self.unwanted.entry(transfer).or_default() += 1;
        }
        Some(ended.store)
    }

    /// Takes some of the octets: how many. None are while there is no place for the next.
    pub(super) fn take(
        &mut self,
        octets: &[u8],
        events: &mut VecDeque<Event>,
    ) -> Result<usize, StreamFault> {
        let wanted = match self.next {
            Next::Preamble => PREAMBLE.len(),
            Next::Header => FrameHeader::LEN,
            Next::DiskHeader(_) => DiskHeader::LEN,
            Next::Tail(_) => DiskHeader::TAIL,
            Next::Payload(header, come) => return Ok(self.payload(header, come, octets)),
        };
        let len = octets.len().min(wanted - self.used);
        self.staged[self.used..self.used + len].copy_from_slice(&octets[..len]);
        self.used += len;
        if self.used < wanted {
            return Ok(len);
        }
        self.used = 0;
        match self.next {
            Next::Preamble if self.staged[..wanted] == PREAMBLE => self.next = Next::Header,
            Next::Preamble => return Err(StreamFault::Stranger),
            Next::Header => self.header()?,
            Next::DiskHeader(header) => self.disk_header(header)?,
            Next::Tail(header) => self.tail(header, events),
            Next::Payload(..) => {}
        }
        Ok(len)
    }

    /// The transfer of a part, unless nobody here wants that any more.
    fn transfer(&mut self, header: &FrameHeader) -> Option<&mut Transfer<S>> {
        match self.unwanted.contains_key(&header.transfer) {
            true => None,
            false => self.transfers.get_mut(&header.transfer),
        }
    }

    fn header(&mut self) -> Result<(), StreamFault> {
        let header = self.staged.first_chunk().expect("the stage is longer");
        let header = FrameHeader::parse(header)?;
        self.next = Next::Header;
        match header.kind {
            FrameKind::Alive => {}
            FrameKind::Said if header.transfer == 0 && header.offset == self.heard => {
                self.next = Next::Payload(header, 0);
                self.comes_to_end(header, 0);
            }
            FrameKind::Said => return Err(header.out_of_place()),
            FrameKind::End => self.ends(header.transfer)?,
            FrameKind::Part => {
                let is_unwanted = self.unwanted.contains_key(&header.transfer);
                let transfer = self.transfers.get(&header.transfer);
                let is_known = transfer.is_some_and(|transfer| !transfer.is_over);
                if !is_unwanted && !is_known {
                    return Err(StreamFault::UnknownTransfer(header.transfer));
                }
                if header.place.is_first() {
                    self.next = Next::DiskHeader(header);
                } else {
                    self.begins(header)?;
                }
            }
        }
        Ok(())
    }

    fn ends(&mut self, number: u16) -> Result<(), StreamFault> {
        if let Some(times) = self.unwanted.get_mut(&number) {
            *times -= 1;
            if *times == 0 {
                self.unwanted.remove(&number);
            }
            return Ok(());
        }
        match self.transfers.get_mut(&number) {
            Some(transfer) if !transfer.is_over => {
                transfer.is_over = true;
                Ok(())
            }
            _ => Err(StreamFault::UnknownTransfer(number)),
        }
    }

    fn disk_header(&mut self, header: FrameHeader) -> Result<(), StreamFault> {
        let octets = self.staged.first_chunk().expect("the stage is longer");
        let disk = DiskHeader::parse(octets);
        if let Some(transfer) = self.transfer(&header) {
            let fits = disk.filter(|disk| {
                let end = disk.offset.checked_add(disk.length.into());
                transfer.disk_pdu.is_none()
                    && disk.offset >= transfer.at
                    && disk.length > 0
                    && end.is_some_and(|end| end <= transfer.end)
            });
            transfer.disk_pdu = Some(fits.ok_or(header.out_of_place())?);
        }
        self.begins(header)
    }

    /// The payload of a part begins, if it may be there.
    fn begins(&mut self, header: FrameHeader) -> Result<(), StreamFault> {
        if let Some(transfer) = self.transfer(&header) {
            let disk = transfer.disk_pdu.ok_or(header.out_of_place())?;
            let end = header.offset.checked_add(header.length.into());
            let disk_end = disk.offset + u64::from(disk.length);
            let from = transfer.at.max(disk.offset);
            if header.offset < from || end.is_none_or(|end| end > disk_end) {
                return Err(header.out_of_place());
            }
            transfer.at = header.offset;
        }
        self.comes_to_end(header, 0);
        Ok(())
    }

    /// So many octets of a payload have come: what is next.
    fn comes_to_end(&mut self, header: FrameHeader, come: u32) {
        self.next = if come < header.length {
            Next::Payload(header, come)
        } else if header.place.is_last() {
            Next::Tail(header)
        } else {
            Next::Header
        };
    }

    fn payload(&mut self, header: FrameHeader, come: u32, octets: &[u8]) -> usize {
        let mut len = octets.len().min((header.length - come) as usize);
        let at = header.offset + u64::from(come);
        if header.kind == FrameKind::Said {
            len = len.min((self.inbox.edge() - self.heard) as usize);
            self.inbox.write(at, &octets[..len]);
            self.heard += len as u64;
        } else if let Some(transfer) = self.transfer(&header) {
            transfer.store.write(at, &octets[..len]);
            transfer.at = at + len as u64;
        }
        self.comes_to_end(header, come + len as u32);
        len
    }

    fn tail(&mut self, header: FrameHeader, events: &mut VecDeque<Event>) {
        self.next = Next::Header;
        let digest = self.staged;
        let Some(transfer) = self.transfer(&header) else {
            return;
        };
        let Some(disk) = transfer.disk_pdu.take() else {
            return;
        };
        transfer.at = disk.offset + u64::from(disk.length);
        events.push_back(Event::DiskPdu {
            transfer: header.transfer,
            disk_pdu: DiskPdu {
                header: disk,
                digest,
            },
        });
    }
}
