/// Told how far a run has come.
pub trait Progress {
    /// `done` of `all` steps are done.
    fn step(&mut self, done: u64, all: u64);
}

/// Nobody is told.
#[derive(Clone, Copy, Debug)]
pub struct Silent;

impl Progress for Silent {
    fn step(&mut self, _done: u64, _all: u64) {}
}
