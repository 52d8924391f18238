//! Events of users whose connections did harm.

use cellgate_core::server::{Address, Refused};

use super::Daemon;
use crate::events::{Event, Field, Kind};

impl Daemon {
    /// Adapters died of this connection.
    pub(super) fn tell_left_out(&mut self, address: &Address, uid: u32, deaths: u32) {
        let text = format!("connection {address} of user {uid} is left out");
        let why = Refused::LeftOut { deaths };
        let event = Event::because(Kind::ConnectionLeftOut, text, Some(why))
            .with(Field::Address, address.to_string())
            .with(Field::User, uid);
        self.say(event);
    }

    /// A user stopped an adapter, and pays for it.
    pub(super) fn tell_pages_taken(&mut self, uid: u32, connections: u32, barred_ns: u64) {
        let seconds = barred_ns.div_ceil(1_000_000_000);
        let text = format!(
            "user {uid} took pages of its connections' memory away, which stops the \
             adapter: it loses connections ({connections}) and has none for {seconds} s"
        );
        let event = Event::of(Kind::PagesTaken, text)
            .with(Field::Count, connections)
            .with(Field::User, uid);
        self.say(event);
    }
}
