//! The framing of a verified transfer: what is lost, damaged or late is known by its number.
//!
//! ```text
//!        0        4          8          12      16
//! data   "CGTD"   transfer   number     check   payload ...
//! end    "CGTE"   transfer   PDUs       check   octets (8)   CRC-64 of all octets (8)
//! ```
//!
//! Numbers are big-endian, the first PDU's is 0. The check is CRC-32C over all but itself: another
//! polynomial than AAL5's, so that what one misses the other sees. The end is sent [`ENDS`] times,
//! [`PAUSE`] apart.

use std::fmt::Write;
use std::ops::RangeInclusive;
use std::time::Duration;

use crc::{CRC_32_ISCSI, CRC_64_XZ, Crc, Digest};

/// How often the end is sent: all is known that was, even if some of these are lost.
pub(super) const ENDS: u32 = 5;
/// From one end to the next.
pub(super) const PAUSE: Duration = Duration::from_millis(50);

/// Octets before the payload.
pub(super) const HEADER: usize = 16;
const END: usize = HEADER + 16;
const CHECK: std::ops::Range<usize> = 12..16;

const DATA_MAGIC: &[u8; 4] = b"CGTD";
const END_MAGIC: &[u8; 4] = b"CGTE";

static PDU_CRC: Crc<u32> = Crc::<u32>::new(&CRC_32_ISCSI);
static CRC: Crc<u64> = Crc::<u64>::new(&CRC_64_XZ);

fn check(pdu: &[u8]) -> u32 {
    let mut digest = PDU_CRC.digest();
    digest.update(&pdu[..CHECK.start]);
    digest.update(&pdu[CHECK.end..]);
    digest.finalize()
}

fn word(pdu: &[u8], at: usize) -> u32 {
    let mut octets = [0; 4];
    octets.copy_from_slice(&pdu[at..at + 4]);
    u32::from_be_bytes(octets)
}

fn long(pdu: &[u8], at: usize) -> u64 {
    u64::from(word(pdu, at)) << 32 | u64::from(word(pdu, at + 4))
}

/// The sender's part.
pub(super) struct Framer {
    transfer: u32,
    number: u32,
    octets: u64,
    digest: Digest<'static, u64>,
}

impl Framer {
    /// A transfer of this number, by which its PDUs are told from another's.
    pub(super) fn new(transfer: u32) -> Self {
        Self {
            transfer,
            number: 0,
            octets: 0,
            digest: CRC.digest(),
        }
    }

    /// Writes the header before the payload, which begins [`HEADER`] octets into `pdu`; false if
    /// the transfer has as many PDUs as can be numbered.
    #[must_use]
    pub(super) fn frame(&mut self, pdu: &mut [u8]) -> bool {
        let Some(next) = self.number.checked_add(1) else {
            return false;
        };
        self.octets += (pdu.len() - HEADER) as u64;
        self.digest.update(&pdu[HEADER..]);
        head(pdu, DATA_MAGIC, self.transfer, self.number);
        self.number = next;
        true
    }

    /// The last PDU.
    pub(super) fn end(self) -> [u8; END] {
        let mut pdu = [0; END];
        pdu[HEADER..HEADER + 8].copy_from_slice(&self.octets.to_be_bytes());
        pdu[HEADER + 8..].copy_from_slice(&self.digest.finalize().to_be_bytes());
        head(&mut pdu, END_MAGIC, self.transfer, self.number);
        pdu
    }
}

fn head(pdu: &mut [u8], magic: &[u8; 4], transfer: u32, number: u32) {
    pdu[..4].copy_from_slice(magic);
    pdu[4..8].copy_from_slice(&transfer.to_be_bytes());
    pdu[8..12].copy_from_slice(&number.to_be_bytes());
    let check = check(pdu);
    pdu[CHECK].copy_from_slice(&check.to_be_bytes());
}

/// Whether it is an end, of whichever transfer.
pub(super) fn is_end(pdu: &[u8]) -> bool {
    pdu.len() == END && &pdu[..4] == END_MAGIC
}

/// What a received PDU is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Taken<'p> {
    /// The next octets of the transfer.
    Payload(&'p [u8]),
    /// Damaged, late, twice, or not of the transfer: counted.
    Nothing,
    End,
}

/// The receiver's part.
pub(super) struct Assembly {
    /// None before the first PDU.
    transfer: Option<u32>,
    next: u32,
    missing: Vec<RangeInclusive<u32>>,
    strange: u64,
    late: u64,
    octets: u64,
    digest: Digest<'static, u64>,
    /// Octets and CRC, as the sender says.
    end: Option<(u64, u64)>,
}

impl Assembly {
    pub(super) fn new() -> Self {
        Self {
            transfer: None,
            next: 0,
            missing: Vec::new(),
            strange: 0,
            late: 0,
            octets: 0,
            digest: CRC.digest(),
            end: None,
        }
    }

    pub(super) fn take<'p>(&mut self, pdu: &'p [u8]) -> Taken<'p> {
        if pdu.len() < HEADER || check(pdu) != word(pdu, CHECK.start) {
            self.strange += 1;
            return Taken::Nothing;
        }
        let (transfer, number) = (word(pdu, 4), word(pdu, 8));
        let ours = *self.transfer.get_or_insert(transfer) == transfer;
        match (&pdu[..4], pdu.len()) {
            (magic, _) if ours && magic == DATA_MAGIC => self.data(number, &pdu[HEADER..]),
            (magic, END) if ours && magic == END_MAGIC => {
                self.miss_before(number);
                self.end = Some((long(pdu, HEADER), long(pdu, HEADER + 8)));
                Taken::End
            }
            _ => {
                self.strange += 1;
                Taken::Nothing
            }
        }
    }

    fn data<'p>(&mut self, number: u32, payload: &'p [u8]) -> Taken<'p> {
        if number < self.next {
            self.late += 1;
            return Taken::Nothing;
        }
        self.miss_before(number);
        self.next = number.saturating_add(1);
        self.octets += payload.len() as u64;
        self.digest.update(payload);
        Taken::Payload(payload)
    }

    fn miss_before(&mut self, number: u32) {
        if number > self.next {
            self.missing.push(self.next..=number - 1);
            self.next = number;
        }
    }

    /// Whether what was taken is what was sent.
    pub(super) fn verdict(self) -> Result<(), String> {
        let mut wrong = Vec::new();
        if !self.missing.is_empty() {
            let pdus: u64 = self.missing.iter().map(length).sum();
            let of = match self.end {
                Some(_) => format!(" of {}", self.next),
                None => String::new(),
            };
            wrong.push(format!(
                "{pdus}{of} PDUs are missing: {}",
                list(&self.missing)
            ));
        }
        if self.end.is_none() {
            wrong.push(format!(
                "the end is missing, and all from PDU {} on",
                self.next
            ));
        }
        if self.late > 0 {
            wrong.push(format!("{} PDUs came twice or too late", self.late));
        }
        if self.strange > 0 {
            wrong.push(format!("{} PDUs were damaged or another's", self.strange));
        }
        let taken = (self.octets, self.digest.finalize());
        if wrong.is_empty() && self.end != Some(taken) {
            wrong.push("the octets are not those that were sent".to_owned());
        }
        match wrong.is_empty() {
            true => Ok(()),
            false => Err(wrong.join("; ")),
        }
    }
}

fn length(range: &RangeInclusive<u32>) -> u64 {
    u64::from(range.end() - range.start()) + 1
}

fn list(ranges: &[RangeInclusive<u32>]) -> String {
    let mut text = String::new();
    for (i, range) in ranges.iter().enumerate() {
        let comma = if i == 0 { "" } else { ", " };
        // Writing to a text cannot fail.
        let _ = match length(range) {
            1 => write!(text, "{comma}{}", range.start()),
            _ => write!(text, "{comma}{}-{}", range.start(), range.end()),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAYLOADS: u32 = 12;

    fn transfer(number: u32) -> Vec<Vec<u8>> {
        let mut framer = Framer::new(number);
        let mut pdus: Vec<Vec<u8>> = (0..PAYLOADS)
            .map(|i| {
                let mut pdu = vec![i as u8; HEADER + i as usize];
                assert!(framer.frame(&mut pdu));
                pdu
            })
            .collect();
        pdus.push(framer.end().to_vec());
        pdus
    }

    /// What arrives, and the verdict.
    fn receive(pdus: &[Vec<u8>]) -> (Vec<u8>, Result<(), String>) {
        let mut assembly = Assembly::new();
        let mut octets = Vec::new();
        for pdu in pdus {
            match assembly.take(pdu) {
                Taken::Payload(payload) => octets.extend_from_slice(payload),
                Taken::Nothing => {}
                Taken::End => break,
            }
        }
        (octets, assembly.verdict())
    }

    #[test]
    fn what_is_sent_arrives() {
        let expected: Vec<u8> = (0..PAYLOADS)
            .flat_map(|i| vec![i as u8; i as usize])
            .collect();
        assert_eq!(receive(&transfer(1)), (expected, Ok(())));
        let empty = [Framer::new(2).end().to_vec()];
        assert_eq!(receive(&empty), (Vec::new(), Ok(())));
    }

    #[test]
    fn what_is_missing_is_named() {
        let mut pdus = transfer(1);
        for lost in [11, 8, 7, 6, 3] {
            pdus.remove(lost);
        }
        let verdict = receive(&pdus).1.unwrap_err();
        assert_eq!(verdict, "5 of 12 PDUs are missing: 3, 6-8, 11");
        let verdict = receive(&transfer(1)[..4]).1.unwrap_err();
        assert_eq!(verdict, "the end is missing, and all from PDU 4 on");
        let verdict = receive(&transfer(1)[12..]).1.unwrap_err();
        assert_eq!(verdict, "12 of 12 PDUs are missing: 0-11");
    }

    #[test]
    fn every_bit_counts() {
        let pdus = transfer(1);
        for (number, pdu) in pdus.iter().enumerate() {
            for bit in 0..8 * pdu.len() {
                let mut damaged = pdus.clone();
                damaged[number][bit / 8] ^= 1 << (bit % 8);
                let verdict = receive(&damaged).1.unwrap_err();
                assert!(
                    verdict.contains("missing"),
                    "PDU {number}, bit {bit}: {verdict}"
                );
                assert!(verdict.contains("1 PDUs were damaged"), "{verdict}");
            }
        }
    }

    #[test]
    fn order_and_transfers_are_told_apart() {
        let mut swapped = transfer(1);
        swapped.swap(4, 5);
        let verdict = receive(&swapped).1.unwrap_err();
        let expected = "1 of 12 PDUs are missing: 4; 1 PDUs came twice or too late";
        assert_eq!(verdict, expected);
        let mut mixed = transfer(1);
        mixed.insert(5, transfer(2).remove(5));
        let verdict = receive(&mixed).1.unwrap_err();
        assert_eq!(verdict, "1 PDUs were damaged or another's");
        assert!(receive(&[vec![0; 5]]).1.is_err());
    }
}
