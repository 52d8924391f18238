//! What comes in at one end and goes out at the other, and lies in one piece.

/// A queue in one piece: those that are there can be looked at, and copied, all at once.
#[derive(Debug)]
pub(crate) struct Row<T> {
    all: Vec<T>,
    /// The first so many of `all` have gone.
    gone: usize,
}

impl<T> Default for Row<T> {
    fn default() -> Self {
        Self {
            all: Vec::new(),
            gone: 0,
        }
    }
}

impl<T: Copy> Row<T> {
    /// Those that are there, the first first.
    #[inline]
    pub(crate) fn as_slice(&self) -> &[T] {
        &self.all[self.gone..]
    }

    /// The same, to be changed.
    pub(crate) fn as_mut_slice(&mut self) -> &mut [T] {
        &mut self.all[self.gone..]
    }

    /// How many are there.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.all.len() - self.gone
    }

    #[inline]
    pub(crate) fn first(&self) -> Option<T> {
        self.all.get(self.gone).copied()
    }

    /// One more, behind all others: where it lies.
    #[inline]
    pub(crate) fn push(&mut self, one: T) -> &mut T {
        let last = self.all.len();
        self.all.push(one);
        &mut self.all[last]
    }

    #[inline]
    pub(crate) fn extend(&mut self, more: &[T]) {
        self.all.extend_from_slice(more);
    }

    /// The first `n` go. The others move up when they are no more than have gone, so that each is
    /// moved once for each that goes, at most.
    #[inline]
    pub(crate) fn remove(&mut self, n: usize) {
        self.gone += n;
        let left = self.len();
        if left == 0 {
            self.all.clear();
        } else if left <= self.gone {
            self.all.copy_within(self.gone.., 0);
            self.all.truncate(left);
        } else {
            return;
        }
        self.gone = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    #[test]
    fn it_is_a_queue() {
        let (mut row, mut queue) = (Row::default(), VecDeque::new());
        let mut state = 5_u64;
        for n in 0..5_000_u64 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            match state >> 62 {
                0 | 1 => {
                    *row.push(0) = n;
                    queue.push_back(n);
                }
                2 => {
                    row.extend(&[n, n + 1]);
                    queue.extend([n, n + 1]);
                }
                _ => {
                    let some = (state >> 40) as usize % (row.len() + 1);
                    row.remove(some);
                    queue.drain(..some);
                }
            }
            assert_eq!(row.as_slice(), queue.make_contiguous());
            assert_eq!(
                (row.first(), row.len()),
                (queue.front().copied(), queue.len())
            );
            assert!(
                row.gone <= row.len(),
                "what has gone takes no more room than what is there"
            );
        }
    }
}
