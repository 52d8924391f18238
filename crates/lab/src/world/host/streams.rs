//! A host's turns of streams: what their cameras have made leaves, what is due is released.

use cellgate_core::Time;

use super::Host;
use crate::world::Ps;
use crate::world::endpoint::{Endpoint, Found, Sdu};
use crate::world::log::Fact;
use crate::world::net::{Net, Turn};
use crate::world::oracle::Wrong;
use crate::world::streams::{Player, StreamBug};

/// Of [`StreamBug::LooksSeldom`].
const LOOK_NS: u64 = 1_000_000;

/// What a player makes of a PDU: its number; none: it is none of the stream's.
pub(super) fn reads(
    player: &mut Player,
    endpoint: &Endpoint,
    found: &Found,
    (now, net): (Time, &mut Net),
) -> Option<u64> {
    let descriptor = *found.pdu.descriptor();
    let instant = net.now;
    let read = endpoint.show(found, |sdu| {
        let arrival = descriptor.time;
        let read = player.reads((now, instant), arrival, descriptor.uu, sdu)?;
        if net.options.stream_bug == Some(StreamBug::ReadTwice) && read % 50 == 49 {
            player.reads((now, instant), arrival, descriptor.uu, sdu)?;
        }
        Ok(read)
    });
    told(read, player.connection, net)
}

fn told<T>(result: Result<T, Wrong>, connection: u32, net: &mut Net) -> Option<T> {
    let wrong = result.map_err(|(invariant, text)| {
        let name = &net.plan.connections[connection as usize].name;
        net.violate(invariant, format!("stream on {name}: {text}"));
    });
    wrong.ok()
}

impl Host {
    /// When a camera has something next.
    pub(crate) fn film_waits(&mut self, stream: u32, net: &mut Net) {
        let (now, clock) = (self.time(net.now), net.now);
        let due = self
            .films
            .get(&stream)
            .and_then(|film| film.next_deadline(now));
        let at = due.map(|due| self.instant(due).max(clock));
        if let (Some(film), Some(at)) = (self.films.get_mut(&stream), at) {
            film.due = Some(at);
            net.later(at, Turn::Film(stream), self.id());
        }
    }

    /// What a camera has made is handed over, as far as there is room.
    pub(super) fn films(&mut self, stream: u32, net: &mut Net) {
        let film = self.films.get(&stream);
        if film.is_none_or(|film| film.due != Some(net.now)) {
            // It was put forward.
            return;
        }
        self.film_goes_on(stream, net);
    }

    fn film_goes_on(&mut self, stream: u32, net: &mut Net) {
        let Some(mut film) = self.films.remove(&stream) else {
            return;
        };
        self.catch_up(net);
        let now = self.time(net.now);
        let connection = film.connection;
        let leaves_out = self.options.stream_bug == Some(StreamBug::NoRoomLeftOut);
        while let Some((uu, sdu)) = film.next(now) {
            if !self.submit(connection, Sdu::Given(sdu, uu)) && !leaves_out {
                film.waited += 1;
                break;
            }
            let pdu = film.sent;
            film.has_sent();
            net.tell(Fact::Sent { connection, pdu });
        }
        film.due = None;
        self.films.insert(stream, film);
        self.film_waits(stream, net);
        self.after_step(net);
    }

    /// What a player has is released, if it is due.
    pub(super) fn plays(&mut self, connection: u32, net: &mut Net) {
        let player = self.players.get_mut(&connection);
        let Some(player) = player.filter(|player| player.due == Some(net.now)) else {
            // It was put off, or put forward.
            return;
        };
        player.due = None;
        net.reached = net.reached.max(net.now);
        self.player_looks(connection, Ps::ZERO, net);
    }

    /// A player releases what is due, unless its host does not run it, and waits for the next. What
    /// was due before it could be looked at, by `excused`, is late.
    pub(super) fn player_looks(&mut self, connection: u32, excused: Ps, net: &mut Net) {
        let (time, idle_until) = (self.time(net.now), self.idle_until);
        let excused = self.time(idle_until.max(excused));
        let Some(player) = self.players.get_mut(&connection) else {
            return;
        };
        if idle_until <= net.now {
            let played = player.plays((time, net.now), excused);
            if let Some(count) = told(played, connection, net) {
                net.mix(net.now, u64::from(connection) << 32 ^ count);
            }
        }
        let due = self.players.get(&connection);
        let Some(due) = due.and_then(Player::next_deadline) else {
            return;
        };
        let grain = match self.options.stream_bug {
            Some(StreamBug::LooksSeldom) => Ps::from_ns(LOOK_NS),
            _ => Ps::ZERO,
        };
        let at = self.instant(due).max(net.now.plus(grain)).max(idle_until);
        if let Some(player) = self.players.get_mut(&connection)
            && player.due != Some(at)
        {
            player.due = Some(at);
            net.later(at, Turn::Player(connection), self.id());
        }
    }

    /// Its clock has gone forward: what is due by it is so sooner.
    pub(crate) fn streams_look(&mut self, net: &mut Net) {
        for stream in self.films.keys().copied().collect::<Vec<_>>() {
            self.film_goes_on(stream, net);
        }
        let time = self.time(net.now);
        for connection in self.players.keys().copied().collect::<Vec<_>>() {
            if let Some(player) = self.players.get_mut(&connection) {
                player.clock_steps(time);
            }
            self.player_looks(connection, net.now, net);
        }
    }
}
