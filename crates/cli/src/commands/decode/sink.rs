//! Where lines go: standard output, and standard error for broken records where people read.

use std::io::{self, BufWriter, ErrorKind, StdoutLock, Write};

use anyhow::Context;
use cellgate_capture::Direction;

use super::line::{Line, Place, Stamp};

/// Standard output, as text or JSON.
pub(super) struct Sink {
    out: BufWriter<StdoutLock<'static>>,
    json: bool,
    /// Each record is shown as it comes.
    live: bool,
    /// The time of the first line, from which text counts.
    start_ns: Option<u64>,
    started: bool,
    /// The reader of standard output went away, which is no failure.
    closed: bool,
}

impl Sink {
    pub(super) fn new(json: bool, live: bool) -> Self {
        Self {
            out: BufWriter::new(io::stdout().lock()),
            json,
            live,
            start_ns: None,
            started: false,
            closed: false,
        }
    }

    /// Writes lines; false if nobody reads them any more.
    pub(super) fn lines(&mut self, lines: &[Line]) -> anyhow::Result<bool> {
        for line in lines {
            self.line(line)?;
        }
        if self.live {
            let flushed = self.out.flush();
            self.check(flushed)?;
        }
        Ok(!self.closed)
    }

    fn line(&mut self, line: &Line) -> anyhow::Result<()> {
        if self.json {
            let mut text = serde_json::to_string(line).context("JSON")?;
            text.push('\n');
            return self.write(&text);
        }
        if !std::mem::replace(&mut self.started, true) {
            self.write(&Line::heading())?;
        }
        let start_ns = match (self.start_ns, line.time_ns()) {
            (Some(start_ns), _) | (None, Some(start_ns)) => {
                self.start_ns = Some(start_ns);
                start_ns
            }
            (None, None) => 0,
        };
        self.write(&line.text(start_ns))
    }

    /// Tells of a record that cannot be read.
    pub(super) fn broken(
        &mut self,
        name: &str,
        record: u64,
        offset: u64,
        error: &cellgate_capture::Error,
    ) -> anyhow::Result<()> {
        if self.json {
            return self.error(record, offset, &error.to_string());
        }
        // In its place among the others, where both go to one terminal.
        let flushed = self.out.flush();
        self.check(flushed)?;
        eprintln!("cellgate: {name}: {error}");
        Ok(())
    }

    /// Tells of a file that is no capture, where programs read.
    pub(super) fn refused(&mut self, message: &str) -> anyhow::Result<()> {
        self.error(0, 0, message)?;
        self.finish()
    }

    fn error(&mut self, record: u64, offset: u64, message: &str) -> anyhow::Result<()> {
        let stamp = Stamp {
            record,
            offset,
            time_ns: None,
            direction: Direction::Unknown,
        };
        let mut line = Line::new(stamp, "error", Place::UNKNOWN, 0);
        line.field("message", message);
        self.line(&line)
    }

    /// Writes what is left.
    pub(super) fn finish(&mut self) -> anyhow::Result<()> {
        let flushed = self.out.flush();
        self.check(flushed)
    }

    fn write(&mut self, text: &str) -> anyhow::Result<()> {
        if self.closed {
            return Ok(());
        }
        let written = self.out.write_all(text.as_bytes());
        self.check(written)
    }

    fn check(&mut self, written: io::Result<()>) -> anyhow::Result<()> {
        match written {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.closed = true;
                Ok(())
            }
            written => written.context("standard output"),
        }
    }
}
