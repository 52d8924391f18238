use std::io::{self, ErrorKind, Read};

/// Octets asked of the reader at once.
const CHUNK: usize = 64 * 1024;

/// A reader that can be looked into before octets are taken, and counts them.
#[derive(Debug)]
pub(super) struct Input<R> {
    inner: R,
    buffer: Vec<u8>,
    start: usize,
    offset: u64,
    ended: bool,
}

impl<R: Read> Input<R> {
    pub(super) fn new(inner: R) -> Self {
        Self {
            inner,
            buffer: Vec::new(),
            start: 0,
            offset: 0,
            ended: false,
        }
    }

    /// Octets taken so far.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// The next `n` octets, or all that are left if they are fewer. They stay. The buffer grows to
    /// `n`: callers pass no number out of a file without a bound.
    pub(super) fn peek(&mut self, n: usize) -> io::Result<&[u8]> {
        while self.buffered() < n && !self.ended {
            self.read_more()?;
        }
        let end = self.buffer.len().min(self.start + n);
        Ok(self.buffer.get(self.start..end).unwrap_or_default())
    }

    /// Takes the next `n` octets, as far as they have been looked at.
    pub(super) fn consume(&mut self, n: usize) {
        let n = n.min(self.buffered());
        self.start += n;
        self.offset += n as u64;
    }

    /// Takes the next `n` octets without keeping them; returns how many there were.
    pub(super) fn skip(&mut self, n: u64) -> io::Result<u64> {
        let mut left = n;
        while left > 0 {
            let found = self.peek(1)?.len();
            if found == 0 {
                break;
            }
            let step = left.min(self.buffered() as u64);
            self.consume(step as usize);
            left -= step;
        }
        Ok(n - left)
    }

    /// The next octet, which stays.
    pub(super) fn peek_octet(&mut self) -> io::Result<Option<u8>> {
        Ok(self.peek(1)?.first().copied())
    }

    fn buffered(&self) -> usize {
        self.buffer.len() - self.start
    }

    fn read_more(&mut self) -> io::Result<()> {
        self.buffer.drain(..self.start);
        self.start = 0;
        let before = self.buffer.len();
        self.buffer.resize(before + CHUNK, 0);
        let read = loop {
            match self.inner.read(&mut self.buffer[before..]) {
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        // A reader that claims more than it was given is no reader; what it claims is not used.
        let read_len = read.as_ref().map_or(0, |n| (*n).min(CHUNK));
        self.buffer.truncate(before + read_len);
        self.ended = read? == 0;
        Ok(())
    }
}
