//! A process of a trial's own, and the file that it moves.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::Child;

use anyhow::Context;
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

/// A process that does not outlive its trial.
pub(crate) struct Process(pub(crate) Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Writes a file of so many octets, by chance.
pub(crate) fn write_file(path: &Path, octets: u64) -> anyhow::Result<()> {
    let mut rng = Pcg64Mcg::new(octets.into());
    let file = File::create(path).with_context(|| path.display().to_string())?;
    let mut file = BufWriter::new(file);
    for at in (0..octets).step_by(8) {
        let len = (octets - at).min(8) as usize;
        file.write_all(&rng.next_u64().to_le_bytes()[..len])?;
    }
    Ok(file.flush()?)
}
