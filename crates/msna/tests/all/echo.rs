//! A node that sends all blocks back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use cellgate_msna::{Event, Liaison, Node, NodeConfig, Sap};

pub(crate) const ECHO: Sap = Sap(7);

/// A thread that runs until it is dropped, and then must have ended well.
pub(crate) struct Thread {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Thread {
    /// Waits until `begin` has made what `turn` has turns of.
    pub(crate) fn start<T>(
        begin: impl FnOnce() -> T + Send + 'static,
        mut turn: impl FnMut(&mut T) + Send + 'static,
    ) -> Self {
        let stop = Arc::<AtomicBool>::default();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut made = begin();
            ready.send(()).unwrap();
            while !stopped.load(Ordering::Relaxed) {
                turn(&mut made);
            }
        });
        is_ready.recv().unwrap();
        Self {
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().unwrap().join();
        assert!(std::thread::panicking() || ended.is_ok());
    }
}

/// Serves [`ECHO`] at this node.
pub(crate) fn echo(config: NodeConfig) -> Thread {
    let begin = || {
        let mut node = Node::open(config).unwrap();
        node.serve(ECHO);
        (node, Vec::new(), Vec::new())
    };
    Thread::start(begin, |(node, liaisons, block)| turn(node, liaisons, block))
}

fn turn(node: &mut Node, liaisons: &mut Vec<Liaison>, block: &mut Vec<u8>) {
    match node.next_event(Some(Duration::from_micros(200))).unwrap() {
        Some(Event::Connected { liaison, .. }) => liaisons.push(liaison),
        Some(Event::Released { circuit }) => {
            liaisons.retain(|liaison| liaison.circuit() != circuit);
        }
        Some(Event::Restarted { host }) => liaisons.retain(|liaison| liaison.peer() != host),
        _ => {}
    }
    for liaison in liaisons {
        while liaison.try_recv(block).unwrap() {
            liaison.send(block).unwrap();
        }
    }
}

/// Octets that differ from place to place and from block to block.
pub(crate) fn octets(len: usize, from: usize) -> Vec<u8> {
    (0..len)
        .map(|at| (at * 7 + at / 251 + from) as u8)
        .collect()
}
