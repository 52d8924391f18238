mod chain;
mod eyesdn;
mod input;
mod native_erf;
mod pcap;
mod pcapng;

use std::io::{self, Read};

use input::Input;

use crate::error::{Error, Reason, Refusal};
use crate::record::Record;

/// What is read next, as the formats see it.
type Step = Result<Option<Record>, Fault>;

/// Why there is no record.
enum Fault {
    /// The record at this offset is broken; the input stands behind it.
    Broken(u64, Reason),
    /// It is broken, and where the next one starts cannot be told.
    Lost(u64, Reason),
    /// The input fails.
    Io(io::Error),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// The records of a capture file, in the order of the file.
///
/// A broken record is an error in its place. After it comes the next record, if it can be found;
/// else the iterator ends. It never fails twice at one place.
#[derive(Debug)]
pub struct Reader<R> {
    input: Input<R>,
    format: Format,
    ended: bool,
}

#[derive(Debug)]
enum Format {
    Pcap(pcap::Pcap),
    Pcapng(pcapng::Pcapng),
    Erf(native_erf::NativeErf),
    EyeSdn,
}

impl<R: Read> Reader<R> {
    /// Finds out what `reader` gives; reads the file header. Buffered: at most 64 KiB beyond the
    /// longest record at a time.
    pub fn open(reader: R) -> Result<Self, Error> {
        let mut input = Input::new(reader);
        let format = recognize(&mut input)?;
        Ok(Self {
            input,
            format,
            ended: false,
        })
    }

    /// The name of the format: `pcapng`, `pcap`, `erf`, `eyesdn`.
    pub fn format(&self) -> &'static str {
        match self.format {
            Format::Pcap(_) => "pcap",
            Format::Pcapng(_) => "pcapng",
            Format::Erf(_) => "erf",
            Format::EyeSdn => "eyesdn",
        }
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Result<Record, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let step = match &mut self.format {
            Format::Pcap(pcap) => pcap.next(&mut self.input),
            Format::Pcapng(pcapng) => pcapng.next(&mut self.input),
            Format::Erf(erf) => erf.next(&mut self.input),
            Format::EyeSdn => eyesdn::next(&mut self.input),
        };
        self.ended = !matches!(step, Ok(Some(_)) | Err(Fault::Broken(..)));
        match step {
            Ok(record) => record.map(Ok),
            Err(Fault::Broken(offset, reason) | Fault::Lost(offset, reason)) => {
                Some(Err(Error::Broken { offset, reason }))
            }
            Err(Fault::Io(source)) => Some(Err(Error::Io {
                offset: self.input.offset(),
                source,
            })),
        }
    }
}

impl<R: Read> std::iter::FusedIterator for Reader<R> {}

fn recognize<R: Read>(input: &mut Input<R>) -> Result<Format, Error> {
    let failed = |source| Error::Io { offset: 0, source };
    let refused = |refusal| Err(Error::Refused(refusal));
    let start = input.peek(8).map_err(failed)?.to_vec();
    match *start {
        [] => refused(Refusal::Empty),
        [0x0a, 0x0d, 0x0d, 0x0a, ..] => pcapng::Pcapng::open(input).map(Format::Pcapng),
        [b'E', b'y', b'e', b'S', b'D', b'N', ..] => {
            input.consume(6);
            Ok(Format::EyeSdn)
        }
        [0x1f, 0x8b, ..] | [0x28, 0xb5, 0x2f, 0xfd, ..] | [0xfd, b'7', b'z', ..] => {
            refused(Refusal::Compressed)
        }
        [b'T', b'R', b'S', b'N', b'I', b'F', b'F', ..] => refused(Refusal::Sniffer),
        [a, b, c, d, ..] if pcap::is_magic([a, b, c, d]) => {
            pcap::Pcap::open(input).map(Format::Pcap)
        }
        _ if native_erf::recognize(input).map_err(failed)? => {
            Ok(Format::Erf(native_erf::NativeErf::default()))
        }
        _ => refused(Refusal::Unknown),
    }
}
