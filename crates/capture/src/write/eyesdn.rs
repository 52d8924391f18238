use std::io::{self, Write};

use cellgate_core::wire::CELL_LEN;

use crate::record::Direction;

/// Channel number and type of ATM cells.
const CHANNEL: u8 = 0x80;
const ATM: u8 = 3;

/// Writes cells with their HEC, as an EyeSDN file: the one format of Wireshark that shows it.
///
/// Times are kept to the microsecond.
#[derive(Debug)]
pub struct EyeSdnWriter<W> {
    out: W,
}

impl<W: Write> EyeSdnWriter<W> {
    /// Starts a file.
    pub fn new(mut out: W) -> io::Result<Self> {
        out.write_all(b"EyeSDN")?;
        Ok(Self { out })
    }

    /// Writes one cell, `time_ns` after 1970 began.
    pub fn cell(
        &mut self,
        time_ns: u64,
        direction: Direction,
        cell: &[u8; CELL_LEN],
    ) -> io::Result<()> {
        let us = (time_ns % 1_000_000_000 / 1_000) as u32;
        let [_, us @ ..] = us.to_be_bytes();
        let [_, _, _, seconds @ ..] = (time_ns / 1_000_000_000).to_be_bytes();
        let received = u8::from(direction == Direction::Receive);
        let [l0, l1] = (CELL_LEN as u16).to_be_bytes();
        let kind = [CHANNEL, ATM << 1 | received, l0, l1];
        let mut record = vec![0xff];
        for octet in us.iter().chain(&seconds).chain(&kind).chain(cell) {
            match octet {
                0xfe | 0xff => record.extend([0xfe, octet - 2]),
                plain => record.push(*plain),
            }
        }
        self.out.write_all(&record)
    }

    /// Hands the writer back, flushed.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}
