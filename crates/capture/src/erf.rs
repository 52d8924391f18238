//! ERF records: packets of link type 197, and what a native ERF file is made of.
//!
//! ```text
//!  0               8     9      10          12          14          16
//! +---------------+-----+------+-----------+-----------+-----------+--- -- --- -- ----
//! | time, 32.32   |type |flags | record    | lost      | wire      | extension headers,
//! | little-endian |     |      | length    |           | length    | ATM header, payload
//! +---------------+-----+------+-----------+-----------+-----------+--- -- --- -- ----
//! ```
//!
//! The capture interface, the low two bits of the flags, is 0 for what the host sent and 1 for what
//! it received: so Wireshark shows the channel of an ATM record.
//!
//! `lost` counts the records that were lost since the one before; the coloured types have a colour
//! in its place.

use cellgate_core::wire::{CELL_LEN_NO_HEC, Framing, Header};

use crate::error::Reason;
use crate::link::{Decoded, SDU_LEN_MAX, check_sdu};
use crate::record::{Content, Direction, Marks};

/// Octets of the record header.
pub(crate) const HEADER_LEN: usize = 16;
/// Octets of the cell header before a PDU.
const ATM_HEADER_LEN: usize = 4;
const NS_PER_S: u64 = 1_000_000_000;

/// Types of record.
const ETHERNET: u8 = 2;
const ATM: u8 = 3;
const AAL5: u8 = 4;
const MC_ATM: u8 = 7;
const MC_AAL5: u8 = 9;
const COLOR_ETHERNET: u8 = 11;
const MC_AAL2: u8 = 12;
const DSM_COLOR_ETHERNET: u8 = 16;
const AAL2: u8 = 18;
const COLOR_HASH_ETHERNET: u8 = 20;
const IPV4: u8 = 22;
const IPV6: u8 = 23;
const META: u8 = 27;
const LAST_KNOWN: u8 = 29;
const PAD: u8 = 48;

/// Flags: the capture interface, its third bit apart from the others.
const INTERFACE: u8 = 0x43;
/// Flag: the record length differs from record to record. Flag: octets were cut off.
const VARYING: u8 = 0x04;
const TRUNCATED: u8 = 0x08;
/// Flag: the receiver found an error. Flag: the card found its own record damaged.
const RECEIVE_ERROR: u8 = 0x10;
const STREAM_ERROR: u8 = 0x20;
const RESERVED: u8 = 0x80;
/// Extension headers that a record is believed to have where nothing else says that it is one.
const EXTENSIONS_LIKELY: usize = 4;

/// The fixed part of a record.
#[derive(Clone, Copy)]
pub(crate) struct ErfHeader {
    time: u64,
    kind: u8,
    flags: u8,
    record_len: u16,
    lost: u16,
    wire_len: u16,
}

/// A record that was understood.
pub(crate) struct ErfRecord {
    pub(crate) time_ns: u64,
    pub(crate) decoded: Decoded,
}

impl ErfHeader {
    pub(crate) fn parse(octets: &[u8; HEADER_LEN]) -> Self {
        let [time @ .., kind, flags, r0, r1, l0, l1, w0, w1] = *octets;
        Self {
            time: u64::from_le_bytes(time),
            kind,
            flags,
            record_len: u16::from_be_bytes([r0, r1]),
            lost: u16::from_be_bytes([l0, l1]),
            wire_len: u16::from_be_bytes([w0, w1]),
        }
    }

    pub(crate) fn record_len(&self) -> usize {
        self.record_len.into()
    }

    /// Without the bit that says that extension headers follow.
    fn kind(&self) -> u8 {
        self.kind & 0x7f
    }

    /// Whether it holds no traffic, but padding or notes about the file.
    pub(crate) fn is_filler(&self) -> bool {
        matches!(self.kind(), PAD | META)
    }

    /// Whether sixteen octets can be the header of a record: there is no magic number.
    pub(crate) fn is_plausible(&self) -> bool {
        let known = matches!(self.kind(), 1..=LAST_KNOWN | PAD);
        let headers = HEADER_LEN + EXTENSIONS_LIKELY * 8 + 4 + 7;
        known
            && self.flags & RESERVED == 0
            && self.record_len() >= HEADER_LEN
            && (self.is_filler() || self.record_len() <= headers + usize::from(self.wire_len))
            && (self.is_filler() || self.wire_len > 0)
    }

    /// When, in seconds since 1970.
    pub(crate) fn seconds(&self) -> u32 {
        (self.time >> 32) as u32
    }

    fn marks(&self) -> Marks {
        let colored = matches!(
            self.kind(),
            COLOR_ETHERNET | DSM_COLOR_ETHERNET | COLOR_HASH_ETHERNET
        );
        Marks {
            lost_before: if colored { 0 } else { self.lost.into() },
            receive_error: self.flags & RECEIVE_ERROR != 0,
            stream_error: self.flags & STREAM_ERROR != 0,
            truncated: self.flags & TRUNCATED != 0,
        }
    }

    fn time_ns(&self) -> u64 {
        let fraction = u128::from(self.time & 0xffff_ffff) * u128::from(NS_PER_S);
        // To the nearest: 4.3 units are a nanosecond, so one that was written comes back exactly.
        let ns = (fraction + (1 << 31)) >> 32;
        (self.time >> 32) * NS_PER_S + ns as u64
    }

    fn direction(&self) -> Direction {
        match self.flags & INTERFACE {
            0 => Direction::Transmit,
            1 => Direction::Receive,
            _ => Direction::Unknown,
        }
    }
}

/// What a record is, of which the last `missing` octets were not kept.
pub(crate) fn parse(octets: &[u8], missing: usize) -> Result<ErfRecord, Reason> {
    let (header, rest) = octets
        .split_first_chunk::<HEADER_LEN>()
        .ok_or(Reason::TooShort {
            what: "ERF record",
            len: octets.len(),
            least: HEADER_LEN,
        })?;
    let header = ErfHeader::parse(header);
    if header.record_len() < HEADER_LEN || header.record_len() > octets.len() + missing {
        return Err(Reason::ErfLength {
            len: header.record_len(),
            least: HEADER_LEN,
        });
    }
    let body = header.record_len() - HEADER_LEN;
    let rest = rest.get(..body).unwrap_or(rest);
    let rest = skip_extensions(header, rest)?;
    let (extra, payload) = split_type_header(header, rest)?;
    // A record may be padded to eight octets.
    let wire_len = usize::from(header.wire_len);
    let payload = payload.get(..wire_len).unwrap_or(payload);
    let missing = match header.wire_len {
        // The field cannot say more; what framed the record may.
        u16::MAX => missing.max(wire_len - payload.len()),
        _ => wire_len - payload.len(),
    };
    Ok(ErfRecord {
        time_ns: header.time_ns(),
        decoded: decode(header, extra, payload, missing)?,
    })
}

/// Eight octets each; the first bit of each says whether another follows.
fn skip_extensions(header: ErfHeader, octets: &[u8]) -> Result<&[u8], Reason> {
    let mut rest = octets;
    let mut more = header.kind & 0x80 != 0;
    while more {
        let (extension, after) = rest
            .split_first_chunk::<8>()
            .ok_or(too_short(header, octets.len() + 8))?;
        more = extension[0] & 0x80 != 0;
        rest = after;
    }
    Ok(rest)
}

fn too_short(header: ErfHeader, headers: usize) -> Reason {
    Reason::ErfLength {
        len: header.record_len(),
        least: HEADER_LEN + headers,
    }
}

/// What the type puts before its payload: the channel of the multichannel types and of AAL2, two
/// octets of Ethernet.
fn split_type_header(header: ErfHeader, octets: &[u8]) -> Result<(&[u8], &[u8]), Reason> {
    let len = match header.kind() {
        ETHERNET | COLOR_ETHERNET | DSM_COLOR_ETHERNET | COLOR_HASH_ETHERNET => 2,
        MC_ATM | MC_AAL5 | MC_AAL2 | AAL2 => 4,
        _ => 0,
    };
    octets.split_at_checked(len).ok_or(too_short(header, len))
}

fn decode(
    record: ErfHeader,
    extra: &[u8],
    payload: &[u8],
    missing: usize,
) -> Result<Decoded, Reason> {
    let mut missing = missing;
    let content = match record.kind() {
        ATM | MC_ATM => {
            if let Some(cell) = payload.first_chunk::<CELL_LEN_NO_HEC>() {
                // A wire length of 53 counts the HEC, which no record has.
                missing = 0;
                Content::Cell(*cell)
            } else if payload.len() + missing >= CELL_LEN_NO_HEC {
                missing = CELL_LEN_NO_HEC - payload.len();
                let (header, payload) = cell_header(payload)?;
                let payload = payload.to_vec();
                Content::PartOfCell { header, payload }
            } else {
                return Err(Reason::CellLength(payload.len()));
            }
        }
        AAL5 | MC_AAL5 => {
            let (header, pdu) = cell_header(payload)?;
            // Octets of the longest PDU: the SDU, one of pad, the trailer, in whole cells.
            check_sdu(pdu, missing, (SDU_LEN_MAX + 8).next_multiple_of(48))?;
            Content::Aal5Pdu {
                header,
                pdu: pdu.to_vec(),
            }
        }
        MC_AAL2 | AAL2 => {
            let (header, packet) = cell_header(payload)?;
            check_sdu(packet, missing, SDU_LEN_MAX)?;
            Content::Aal2Packet {
                header,
                cid: extra.last().copied().unwrap_or_default(),
                packet: packet.to_vec(),
            }
        }
        ETHERNET | COLOR_ETHERNET | DSM_COLOR_ETHERNET | COLOR_HASH_ETHERNET => Content::Frame {
            framing: Framing::Ethernet,
            octets: payload.to_vec(),
        },
        IPV4 | IPV6 => Content::Frame {
            framing: Framing::Ip,
            octets: payload.to_vec(),
        },
        other => return Err(Reason::ErfType(other)),
    };
    Ok(Decoded {
        direction: record.direction(),
        content,
        missing,
        marks: record.marks(),
    })
}

fn cell_header(payload: &[u8]) -> Result<(Header, &[u8]), Reason> {
    let (header, rest) = payload
        .split_first_chunk::<ATM_HEADER_LEN>()
        .ok_or(Reason::TooShort {
            what: "PDU with its cell header",
            len: payload.len(),
            least: ATM_HEADER_LEN,
        })?;
    Ok((Header::parse(*header), rest))
}

/// Appends the record of a cell.
pub(crate) fn emit_cell(
    time_ns: u64,
    direction: Direction,
    cell: &[u8; CELL_LEN_NO_HEC],
    out: &mut Vec<u8>,
) {
    emit(time_ns, direction, ATM, &[cell], out);
}

/// Appends the record of a PDU, as much of it as 65,535 octets of record hold.
pub(crate) fn emit_pdu(
    time_ns: u64,
    direction: Direction,
    header: Header,
    pdu: &[u8],
    out: &mut Vec<u8>,
) {
    emit(time_ns, direction, AAL5, &[&header.emit(), pdu], out);
}

fn emit(time_ns: u64, direction: Direction, kind: u8, parts: &[&[u8]], out: &mut Vec<u8>) {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    let kept = len.min(usize::from(u16::MAX) - HEADER_LEN);
    let interface = match direction {
        Direction::Transmit | Direction::Unknown => 0,
        Direction::Receive => 1,
    };
    let truncated = if kept < len { TRUNCATED } else { 0 };
    let field = |octets: usize| u16::try_from(octets).unwrap_or(u16::MAX).to_be_bytes();
    out.extend(fixed_point(time_ns).to_le_bytes());
    out.extend([kind, VARYING | truncated | interface]);
    out.extend(field(HEADER_LEN + kept));
    out.extend([0, 0]);
    out.extend(field(len));
    out.extend(parts.iter().copied().flatten().take(kept));
}

/// Seconds in the upper half, fractions of 2^-32 s in the lower. What is later than the last such
/// time, in the year 2106, is taken to be then.
fn fixed_point(time_ns: u64) -> u64 {
    const LAST_NS: u64 = (1 << 32) * NS_PER_S - 1;
    let time_ns = time_ns.min(LAST_NS);
    let (seconds, ns) = (time_ns / NS_PER_S, time_ns % NS_PER_S);
    let fraction = (ns << 32) / NS_PER_S;
    seconds << 32 | fraction
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_beyond_the_last_second_are_the_last() {
        let read = |time_ns| {
            let mut octets = Vec::new();
            emit_cell(time_ns, Direction::Receive, &[0; 52], &mut octets);
            parse(&octets, 0).map(|record| record.time_ns).ok()
        };
        let last = u64::from(u32::MAX) * NS_PER_S + NS_PER_S - 1;
        assert_eq!(read(last), Some(last));
        assert_eq!(read(last + 1), Some(last));
        assert_eq!(read(u64::MAX), Some(last));
    }
}
