//! A thread that makes digests of files that are there: long ones take their time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use cellgate_core::terminal::Digest;

use super::disk::{PathBelow, Root};

type Made = (u32, Result<Digest, String>);

/// Digests of files by number. Dropped, it makes no more.
#[derive(Debug, Default)]
pub(super) struct Digests {
    /// None until one is asked for.
    maker: Option<Box<Maker>>,
    /// Those that cannot be made, and why.
    failed: Vec<Made>,
}

impl Digests {
    /// Has the digest of a file be made.
    pub(super) fn ask(&mut self, id: u32, file: Result<(Root, PathBelow), String>) {
        if let Err(reason) = file.and_then(|(root, path)| self.maker()?.ask(id, root, path)) {
            self.failed.push((id, Err(reason)));
        }
    }

    fn maker(&mut self) -> Result<&Maker, String> {
        let maker = match self.maker.take() {
            Some(maker) => maker,
            None => Box::new(Maker::start()?),
        };
        Ok(self.maker.insert(maker))
    }

    /// The next that was made, or cannot be.
    pub(super) fn made(&mut self) -> Option<Made> {
        let failed = self.failed.pop();
        failed.or_else(|| self.maker.as_ref()?.made.try_recv().ok())
    }
}

/// The thread.
#[derive(Debug)]
struct Maker {
    jobs: Sender<(u32, Root, PathBelow)>,
    made: Receiver<Made>,
    is_dropped: Arc<AtomicBool>,
}

impl Maker {
    fn start() -> Result<Self, String> {
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

    fn ask(&self, id: u32, root: Root, path: PathBelow) -> Result<(), String> {
        let asked = self.jobs.send((id, root, path));
        asked.map_err(|_| "the thread for digests has ended".to_owned())
    }
}

impl Drop for Maker {
    fn drop(&mut self) {
        self.is_dropped.store(true, Ordering::Relaxed);
    }
}

fn digest(root: &Root, path: &PathBelow, stops: &AtomicBool) -> Result<Digest, String> {
    let file = root.open_file(path).map_err(|error| error.to_string())?;
    let digest = file.digest(|| stops.load(Ordering::Relaxed));
    Ok(digest.map_err(|error| error.to_string())?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_made_is_told() {
        let mut digests = Digests::default();
        assert_eq!(digests.made(), None);
        digests.ask(7, Err("no path".to_owned()));
        assert_eq!(digests.made(), Some((7, Err("no path".to_owned()))));
        assert_eq!(digests.made(), None);
    }
}
