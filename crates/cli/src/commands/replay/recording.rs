//! What the host got, as a capture.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use anyhow::Context;
use cellgate_capture::{Direction, Item, Recorder, SduKind};
use cellgate_core::adapter::{Aal, Discard};
use cellgate_core::wire::{CELL_LEN_NO_HEC, Cell, Header, PAYLOAD_LEN};
use cellgate_report::whole::create;

use super::host::Arrived;

/// A pcapng file that is being written.
pub(super) struct Recording {
    path: PathBuf,
    recorder: Recorder<BufWriter<File>>,
}

impl Recording {
    pub(super) fn create(path: &Path) -> anyhow::Result<Self> {
        let named = || path.display().to_string();
        let file = create(path).with_context(named)?;
        let application = concat!("cellgate ", env!("CARGO_PKG_VERSION"));
        let recorder = Recorder::new(BufWriter::new(file), application).with_context(named)?;
        Ok(Self {
            path: path.to_owned(),
            recorder,
        })
    }

    /// SDUs as SunATM has them, those of AAL3/4 with the MID as their comment; cells at which
    /// something was discarded as ERF records, each with the reason as its comment. Cells that only
    /// fill the line are left out.
    pub(super) fn record(&mut self, arrived: &Arrived<'_>) -> anyhow::Result<()> {
        let written = match *arrived {
            Arrived::Sdu {
                time_ns,
                address,
                aal,
                mid,
                sdu,
            } => {
                let cell = <&[u8; CELL_LEN_NO_HEC]>::try_from(sdu).map(Cell::parse_without_hec);
                let item = match (aal, &cell) {
                    (Aal::Aal0, Ok(cell)) => Item::Cell(cell),
                    _ => Item::Sdu {
                        address,
                        kind: SduKind::guess(address, sdu),
                        sdu,
                    },
                };
                let comment = matches!(aal, Aal::Aal34(_)).then(|| format!("aal34 mid {mid}"));
                self.write(time_ns, item, comment.as_deref())
            }
            Arrived::Discarded {
                reason: Discard::Idle,
                ..
            } => Ok(()),
            Arrived::Discarded {
                time_ns,
                cell: [a, b, c, d, _, payload @ ..],
                reason,
            } => {
                let payload: &[u8; PAYLOAD_LEN] = payload;
                let cell = Cell {
                    header: Header::parse([*a, *b, *c, *d]),
                    payload: *payload,
                };
                let comment = format!("discarded: {}", reason.name());
                self.write(time_ns, Item::Cell(&cell), Some(&comment))
            }
        };
        written.with_context(|| self.path.display().to_string())
    }

    fn write(
        &mut self,
        time_ns: Option<u64>,
        item: Item<'_>,
        comment: Option<&str>,
    ) -> std::io::Result<()> {
        let time_ns = time_ns.unwrap_or_default();
        self.recorder
            .record(time_ns, Direction::Receive, item, comment)
    }

    pub(super) fn finish(self) -> anyhow::Result<()> {
        let finished = self.recorder.finish();
        finished.with_context(|| self.path.display().to_string())?;
        Ok(())
    }
}
