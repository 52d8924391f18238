//! What stands in numbered slots: found in one step, however many there are.

use std::ops::Index;

/// Values by the number of their slot.
#[derive(Clone, Debug)]
pub(super) struct Slots<T> {
    slots: Vec<Option<T>>,
    len: usize,
}

impl<T> Slots<T> {
    pub(super) fn new() -> Self {
        Self {
            slots: Vec::new(),
            len: 0,
        }
    }

    /// Slots that are not empty.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn get(&self, slot: u16) -> Option<&T> {
        self.slots.get(usize::from(slot))?.as_ref()
    }

    pub(super) fn get_mut(&mut self, slot: u16) -> Option<&mut T> {
        self.slots.get_mut(usize::from(slot))?.as_mut()
    }

    /// Puts a value into a slot; what stood there.
    pub(super) fn insert(&mut self, slot: u16, value: T) -> Option<T> {
        let at = usize::from(slot);
        if at >= self.slots.len() {
            self.slots.resize_with(at + 1, || None);
        }
        let old = self.slots[at].replace(value);
        self.len += usize::from(old.is_none());
        old
    }

    /// Empties a slot; what stood there.
    pub(super) fn remove(&mut self, slot: u16) -> Option<T> {
        let old = self.slots.get_mut(usize::from(slot))?.take();
        self.len -= usize::from(old.is_some());
        old
    }

    /// All values, in the order of their slots.
    pub(super) fn values(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().flatten()
    }

    /// Those in `from` and behind it, with their slots.
    pub(super) fn from(&self, from: u16) -> impl Iterator<Item = (u16, &T)> {
        let slots = (0..).zip(&self.slots).skip(from.into());
        slots.filter_map(|(slot, value)| Some((slot, value.as_ref()?)))
    }
}

impl<T> Index<u16> for Slots<T> {
    type Output = T;

    /// # Panics
    /// If the slot is empty.
    fn index(&self, slot: u16) -> &T {
        self.get(slot).expect("the caller knows that it is there")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_has_what_was_put_there_last() {
        let mut slots = Slots::new();
        assert_eq!((slots.get(3), slots.len()), (None, 0));
        assert_eq!(slots.remove(3), None);
        assert_eq!(slots.insert(3, 'a'), None);
        assert_eq!(slots.insert(1, 'b'), None);
        assert_eq!(slots.insert(3, 'c'), Some('a'));
        assert_eq!((slots[3], slots.len()), ('c', 2));
        assert_eq!(slots.values().collect::<String>(), "bc");
        let from = |slot| slots.from(slot).collect::<Vec<_>>();
        assert_eq!(from(1), [(1, &'b'), (3, &'c')]);
        assert_eq!(from(2), [(3, &'c')]);
        assert_eq!(from(9), []);
        assert_eq!((slots.remove(1), slots.remove(1)), (Some('b'), None));
        assert_eq!((slots.get(1), slots.len()), (None, 1));
        *slots.get_mut(3).expect("it is there") = 'd';
        assert_eq!(slots[3], 'd');
    }
}
