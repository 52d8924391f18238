//! Hearing applications: each user in its turn.

use cellgate_core::server::{ClientId, Confirm, FromClient, descriptions};

use super::{Daemon, Word};
use crate::clock::thread_cpu_ns;
use crate::server::turns::MESSAGES_PER_TURN;
use crate::server::workers::Asking;

impl Daemon {
    /// Takes some messages of each user who has said something, one of each after the other.
    pub(super) fn hear_in_turns(&mut self, ready: &[(ClientId, u32)]) {
        let mut queues = self.turns.queues(ready);
        let mut places = vec![0; queues.len()];
        for _ in 0..MESSAGES_PER_TURN {
            for ((uid, queue), place) in queues.iter_mut().zip(&mut places) {
                self.hear_user(*uid, queue, place);
            }
        }
    }

    /// Takes one message of a user: of the next of its sockets that has one. What has none leaves
    /// the queue.
    fn hear_user(&mut self, uid: u32, queue: &mut Vec<ClientId>, place: &mut usize) {
        while !queue.is_empty() && !self.turns.waits(self.now, uid) {
            *place %= queue.len();
            let client = queue[*place];
            let from = thread_cpu_ns();
            let heard = self.hear(client);
            let ns = thread_cpu_ns() - from;
            self.turns.charge(self.now, uid, client, ns);
            match heard {
                true => {
                    *place += 1;
                    return;
                }
                false => drop(queue.remove(*place)),
            }
        }
    }

    /// Takes one message of an application; `false` if there is none.
    fn hear(&mut self, client: ClientId) -> bool {
        match self.applications.hear(client) {
            Word::Message(message, fds) => {
                if let (
                    FromClient::Request {
                        id,
                        connection,
                        request,
                    },
                    Some(peer),
                ) = (&*message, self.server.greeted(client))
                    && Self::is_of_host(request)
                {
                    let asking = Asking {
                        client,
                        id: *id,
                        connection: *connection,
                    };
                    self.ask_host(asking, peer, request.clone(), fds);
                    return true;
                }
                let capability = fds.first().and_then(|fd| self.adapters.capability(fd));
                self.server
                    .handle_message(self.now, client, *message, capability);
            }
            Word::Nonsense(why) => self.server.handle_bad_message(self.now, client, why),
            Word::Nothing => return false,
            Word::End => self.hung_up(client),
        }
        self.settle();
        true
    }

    /// Confirms `Describe`. All the answers are one but for their numbers, and long.
    pub(super) fn describe(&mut self, asking: Asking) {
        let (now, client) = (self.now, asking.client);
        let octets = self.description.octets(asking);
        if !self.applications.tell_octets(now, client, octets) {
            self.hung_up(client);
        }
    }
}

/// What `Describe` is confirmed with, behind the Request's number.
pub(super) struct DescriptionText(String);

impl DescriptionText {
    const BEFORE: &str = r#"{"confirm":{"id":"#;

    pub(super) fn new() -> Self {
        let asking = Asking {
            client: ClientId(0),
            id: 0,
            connection: 0,
        };
        let message = asking.confirm(Ok(Confirm::Description(descriptions())));
        let text = serde_json::to_string(&message).unwrap_or_default();
        let behind = text.strip_prefix(Self::BEFORE);
        let behind = behind.and_then(|text| text.strip_prefix('0'));
        Self(behind.unwrap_or_default().to_owned())
    }

    fn octets(&self, asking: Asking) -> Vec<u8> {
        let Asking { id, connection, .. } = asking;
        let named = match connection {
            0 => String::new(),
            connection => format!(r#","connection":{connection}"#),
        };
        format!("{}{id}{named}{}", Self::BEFORE, self.0).into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_made_once_is_the_one_that_each_would_get() {
        let text = DescriptionText::new();
        for (id, connection) in [(0, 0), (7, 1), (u64::MAX, u32::MAX)] {
            let asking = Asking {
                client: ClientId(1),
                id,
                connection,
            };
            let message = asking.confirm(Ok(Confirm::Description(descriptions())));
            assert_eq!(text.octets(asking), serde_json::to_vec(&message).unwrap());
        }
    }
}
