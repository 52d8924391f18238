//! A thread that makes digests of files that are there: long ones take their time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use cellgate_core::terminal::Digest;

use super::disk::{PathBelow, Root};

type Made = (u32, Result<Digest, String>);

/// Digests of files by number. Dropped, it makes no more.
#[derive(Debug)]
pub(super) struct Digests {
    jobs: Sender<(u32, Root, PathBelow)>,
    made: Receiver<Made>,
    is_dropped: Arc<AtomicBool>,
}

impl Digests {
    pub(super) fn start() -> Result<Self, String> {
        let (jobs, work) = channel::<(u32, Root, PathBelow)>();
        let (makes, made) = channel();
        let is_dropped = Arc::new(AtomicBool::new(false));
        let stops = Arc::clone(&is_dropped);
        thread::Builder::new()
            .name("digests".to_owned())
            .spawn(move || {
                while let Ok((id, root, path)) = work.recv() {
                    let made = digest(&root, &path, &stops);
                    if makes.send((id, made)).is_err() {
                        return;
                    }
                }
            })
            .map_err(|error| format!("no thread for digests: {error}"))?;
        Ok(Self {
            jobs,
            made,
            is_dropped,
        })
    }

    /// Has the digest of a file be made.
    pub(super) fn ask(&self, id: u32, root: &Root, path: PathBelow) {
        // A thread that has panicked makes nothing.
        let _ = self.jobs.send((id, root.clone(), path));
    }

    /// The next that was made.
    pub(super) fn made(&self) -> Option<Made> {
        self.made.try_recv().ok()
    }
}

impl Drop for Digests {
    fn drop(&mut self) {
        self.is_dropped.store(true, Ordering::Relaxed);
    }
}

fn digest(root: &Root, path: &PathBelow, stops: &AtomicBool) -> Result<Digest, String> {
    let file = root.open_file(path).map_err(|error| error.to_string())?;
    let digest = file.digest(|| stops.load(Ordering::Relaxed));
    Ok(digest.map_err(|error| error.to_string())?.0)
}
