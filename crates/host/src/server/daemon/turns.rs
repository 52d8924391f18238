//! Hearing applications: each user in its turn.

use cellgate_core::server::{ClientId, Confirm, FromClient, FromServer, descriptions};

use super::{Daemon, Word};
use crate::clock::thread_cpu_ns;
use crate::server::turns::MESSAGES_PER_TURN;

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
                if let (FromClient::Request { id, request }, Some(peer)) =
                    (&*message, self.server.greeted(client))
                    && Self::is_of_host(request)
                {
                    let (id, request) = (*id, request.clone());
                    self.ask_host((client, id), peer, request, fds);
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
    pub(super) fn describe(&mut self, (client, id): (ClientId, u64)) {
        let now = self.now;
        let octets = self.description.octets(id);
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
        let result = Ok(Confirm::Description(descriptions()));
        let message = FromServer::Confirm { id: 0, result };
        let text = serde_json::to_string(&message).unwrap_or_default();
        let behind = text.strip_prefix(Self::BEFORE);
        let behind = behind.and_then(|text| text.strip_prefix('0'));
        Self(behind.unwrap_or_default().to_owned())
    }

    fn octets(&self, id: u64) -> Vec<u8> {
        format!("{}{id}{}", Self::BEFORE, self.0).into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_made_once_is_the_one_that_each_would_get() {
        let text = DescriptionText::new();
        for id in [0, 7, u64::MAX] {
            let result = Ok(Confirm::Description(descriptions()));
            let message = FromServer::Confirm { id, result };
            assert_eq!(text.octets(id), serde_json::to_vec(&message).unwrap());
        }
    }
}
