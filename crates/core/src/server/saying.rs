//! Messages of the server to applications.

use super::connection::{Asker, User};
use super::machine::Server;
use super::{Bugs, ClientId, Confirm, Enclosed, FromServer, Indication, Output, Refused};

impl<B: Bugs> Server<B> {
    /// Refuses what no Request was read from.
    pub(super) fn refuse_unread(&mut self, client: ClientId, refused: Refused) {
        let message = FromServer::Confirm {
            id: 0,
            connection: 0,
            result: Err(refused),
        };
        self.say(client, message, Enclosed::Nothing);
    }

    /// Tells who has asked what came of it.
    pub(super) fn end_of(
        &mut self,
        asker: Asker,
        result: Result<Confirm, Refused>,
        enclosed: Enclosed,
    ) {
        let Asker {
            client,
            id,
            connection,
            ..
        } = asker;
        let message = FromServer::Confirm {
            id,
            connection,
            result,
        };
        self.say(client, message, enclosed);
    }

    /// Tells the user of a connection something that takes no Response.
    pub(super) fn tell(&mut self, user: User, indication: Indication, enclosed: Enclosed) {
        let message = FromServer::Indication {
            id: 0,
            connection: user.connection,
            indication,
        };
        self.say(user.client, message, enclosed);
    }

    /// Tells the user of a connection something that takes a Response under the number returned.
    pub(super) fn invite(&mut self, user: User, indication: Indication) -> u64 {
        self.last_indication += 1;
        let id = self.last_indication;
        let message = FromServer::Indication {
            id,
            connection: user.connection,
            indication,
        };
        self.say(user.client, message, Enclosed::Nothing);
        id
    }

    pub(super) fn say(&mut self, client: ClientId, message: FromServer, enclosed: Enclosed) {
        self.push(Output::Client {
            client,
            message,
            enclosed,
        });
    }

    pub(super) fn tell_monitors(&mut self, indication: &Indication) {
        let monitors = self.clients.iter().filter(|(_, client)| client.monitors);
        for client in monitors.map(|(id, _)| *id).collect::<Vec<_>>() {
            let message = FromServer::Indication {
                id: 0,
                connection: 0,
                indication: indication.clone(),
            };
            self.say(client, message, Enclosed::Nothing);
        }
    }
}
