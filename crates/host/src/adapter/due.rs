//! Clients that a step has interrupted, in the order in which they are woken.

use cellgate_core::adapter::AttachmentIndex;

/// In which order clients are woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    /// Something of a guaranteed connection has happened.
    Guaranteed,
    BestEffort,
}

impl Class {
    /// First come those that are woken first.
    pub(crate) const ALL: [Self; 2] = [Self::Guaranteed, Self::BestEffort];

    pub(crate) const fn of(guaranteed: bool) -> Self {
        match guaranteed {
            true => Self::Guaranteed,
            false => Self::BestEffort,
        }
    }
}

/// Whom a step has interrupted. It does not allocate.
pub(super) struct Due {
    clients: [Vec<AttachmentIndex>; 2],
    /// The class of each that is to be woken.
    classes: Vec<Option<Class>>,
}

impl Due {
    pub(super) fn new(attachments: u16) -> Self {
        Self {
            clients: Class::ALL.map(|_| Vec::with_capacity(attachments.into())),
            classes: vec![None; attachments.into()],
        }
    }

    pub(super) fn note(&mut self, client: AttachmentIndex, class: Class) {
        if let Some(noted) = self.classes.get_mut(usize::from(client.0))
            && noted.is_none_or(|noted| noted > class)
        {
            *noted = Some(class);
            self.clients[class as usize].push(client);
        }
    }

    /// Takes each client once.
    #[inline(always)]
    pub(super) fn drain(&mut self, mut wake: impl FnMut(AttachmentIndex, Class)) {
        for (class, clients) in Class::ALL.into_iter().zip(&mut self.clients) {
            for client in clients.drain(..) {
                let noted = self.classes.get_mut(usize::from(client.0));
                // Else it was woken with the class before.
                if noted
                    .and_then(|noted| noted.take_if(|noted| *noted == class))
                    .is_some()
                {
                    wake(client, class);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guaranteed_connections_are_first_and_each_client_comes_once() {
        let mut due = Due::new(4);
        let step = |due: &mut Due, notes: &[(u16, Class)]| {
            for &(client, class) in notes {
                due.note(AttachmentIndex(client), class);
            }
            let mut woken = Vec::new();
            due.drain(|client, class| woken.push((client.0, class)));
            woken
        };
        let (first, second) = (Class::Guaranteed, Class::BestEffort);
        let notes = [
            (3, second),
            (0, second),
            (2, first),
            (0, first),
            (2, second),
            (9, first),
        ];
        let woken = step(&mut due, &notes);
        assert_eq!(woken, [(2, first), (0, first), (3, second)]);
        // Nothing of it is left for the next step.
        assert_eq!(step(&mut due, &[(0, second)]), [(0, second)]);
    }
}
