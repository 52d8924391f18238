//! A capture that is read twice: once for the VCs it names, once for its cells.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use anyhow::{Context, anyhow};
use cellgate_capture::Reader;

use super::Source;

/// Octets that are asked for at once of what is kept.
const CHUNK: u64 = 64 * 1024;

/// A capture, and what messages call it.
pub(super) struct Twice {
    name: String,
    input: Input,
}

enum Input {
    /// A file, and where it begins.
    File(File, u64),
    Stream(RefCell<Stream<File>>),
}

/// What cannot be read again, such as a pipe: what came of it is kept.
struct Stream<R> {
    inner: R,
    kept: Vec<u8>,
}

impl<R: Read> Stream<R> {
    fn read_at(&mut self, at: usize, out: &mut [u8]) -> io::Result<usize> {
        if at == self.kept.len() {
            let mut inner = self.inner.by_ref().take(CHUNK);
            inner.read_to_end(&mut self.kept)?;
        }
        self.kept.get(at..).unwrap_or_default().read(out)
    }
}

/// A stream from its start.
struct FromStart<'a> {
    stream: &'a RefCell<Stream<File>>,
    at: usize,
}

impl Read for FromStart<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.stream.borrow_mut().read_at(self.at, out)?;
        self.at += read;
        Ok(read)
    }
}

impl Twice {
    pub(super) fn new(source: &Source) -> anyhow::Result<Self> {
        let name = source.name();
        let mut file = source.file()?;
        let metadata = file.metadata().with_context(|| name.clone())?;
        let input = if metadata.is_file() {
            let start = file.stream_position().with_context(|| name.clone())?;
            Input::File(file, start)
        } else {
            let (inner, kept) = (file, Vec::new());
            Input::Stream(RefCell::new(Stream { inner, kept }))
        };
        Ok(Self { name, input })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The records from the first on.
    pub(super) fn open(&self) -> anyhow::Result<Reader<Box<dyn Read + '_>>> {
        let input: Box<dyn Read> = match &self.input {
            Input::File(file, start) => {
                let mut file = file;
                let sought = file.seek(SeekFrom::Start(*start));
                sought.with_context(|| self.name.clone())?;
                Box::new(file)
            }
            Input::Stream(stream) => Box::new(FromStart { stream, at: 0 }),
        };
        Reader::open(input).map_err(|error| anyhow!("{}: {error}", self.name))
    }
}
