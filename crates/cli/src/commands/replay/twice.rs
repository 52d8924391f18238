//! A capture that is read twice: once for the VCs it names, once for its cells.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use anyhow::{Context, anyhow};
use cellgate_capture::Reader;

use super::Source;

/// Octets that are kept of what cannot be read again.
const KEPT_LEN_MAX: usize = 1 << 30;
/// Octets of it that are asked for at once.
const CHUNK: usize = 64 * 1024;

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

/// What cannot be read again, such as a pipe: what came of it is kept, at most `most` octets. When
/// there are more, nothing can be read any more.
struct Stream<R> {
    inner: R,
    kept: Vec<u8>,
    most: usize,
}

impl<R: Read> Stream<R> {
    fn read_at(&mut self, at: usize, out: &mut [u8]) -> io::Result<usize> {
        if at == self.kept.len() {
            // One more shows whether there are more.
            let room = (self.most + 1 - at).min(CHUNK);
            let mut inner = self.inner.by_ref().take(room as u64);
            inner.read_to_end(&mut self.kept)?;
        }
        if self.kept.len() > self.most {
            let most = self.most;
            return Err(io::Error::other(format!(
                "more than {most} octets of what is no file are not replayed: save it to one"
            )));
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
            Input::Stream(RefCell::new(Stream {
                inner: file,
                kept: Vec::new(),
                most: KEPT_LEN_MAX,
            }))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything from the start, or how much of it came before an error.
    fn read(stream: &mut Stream<impl Read>) -> Result<usize, usize> {
        let (mut at, mut out) = (0, [0; 1000]);
        loop {
            match stream.read_at(at, &mut out) {
                Ok(0) => return Ok(at),
                Ok(read) => at += read,
                Err(_) => return Err(at),
            }
        }
    }

    #[test]
    fn so_much_is_kept_and_no_more() {
        for (len, wanted) in [
            (0, Ok(0)),
            (100_000, Ok(100_000)),
            (200_000, Ok(200_000)),
            (200_001, Err(196_608)),
            (u64::MAX, Err(196_608)),
        ] {
            let mut stream = Stream {
                inner: io::repeat(7).take(len),
                kept: Vec::new(),
                most: 200_000,
            };
            assert_eq!(read(&mut stream), wanted, "{len}");
            assert!(stream.kept.len() <= 200_001);
            // What was too much fails at once the second time.
            assert_eq!(read(&mut stream), wanted.map_err(|_| 0), "{len}");
        }
    }
}
