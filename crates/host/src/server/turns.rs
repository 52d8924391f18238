//! Whose sockets the service thread hears next. Turns go by user, however many sockets one has, and
//! what a user takes of the thread's time is bounded.

use std::collections::BTreeMap;

use cellgate_core::Time;
use cellgate_core::server::ClientId;

/// Messages that a user is heard in a turn.
pub(super) const MESSAGES_PER_TURN: usize = 4;

/// What a user may have taken of the thread's time at once, in nanoseconds.
const BURST_NS: u64 = 250_000_000;

/// Of each nanosecond that passes, a user may take one part of so many.
const PART: u64 = 2;

/// A user whose sockets have something to say, or had.
#[derive(Debug, Default)]
struct User {
    /// Time that it has taken and that is not its own again.
    taken_ns: u64,
    /// As of when.
    at: Time,
    /// Its socket that was heard last.
    last: Option<ClientId>,
}

impl User {
    fn taken_ns(&self, now: Time) -> u64 {
        self.taken_ns.saturating_sub(now.since_ns(self.at) / PART)
    }

    /// Until when it has to wait.
    fn waits_until(&self) -> Option<Time> {
        let over = self
            .taken_ns
            .checked_sub(BURST_NS)
            .filter(|over| *over > 0)?;
        Some(self.at.plus_ns(over * PART))
    }
}

/// The turns of all users.
#[derive(Debug, Default)]
pub(super) struct Turns {
    users: BTreeMap<u32, User>,
}

impl Turns {
    /// Sockets in the order in which they are heard, one list for each user: each begins behind the
    /// one that was heard last.
    pub(super) fn queues(&self, ready: &[(ClientId, u32)]) -> Vec<(u32, Vec<ClientId>)> {
        let mut queues = BTreeMap::<u32, Vec<ClientId>>::new();
        for (client, uid) in ready {
            queues.entry(*uid).or_default().push(*client);
        }
        for (uid, queue) in &mut queues {
            let last = self.users.get(uid).and_then(|user| user.last);
            let behind = queue.partition_point(|client| Some(*client) <= last);
            let len = queue.len().max(1);
            queue.rotate_left(behind % len);
        }
        queues.into_iter().collect()
    }

    /// A user's socket was heard, or came in, for `ns` of the thread's time.
    pub(super) fn charge(&mut self, now: Time, uid: u32, client: ClientId, ns: u64) {
        let user = self.users.entry(uid).or_default();
        (user.taken_ns, user.at) = (user.taken_ns(now).saturating_add(ns), now);
        user.last = Some(client);
    }

    /// Whether a user has taken more than its part for now.
    pub(super) fn waits(&self, now: Time, uid: u32) -> bool {
        let until = self.users.get(&uid).and_then(User::waits_until);
        until.is_some_and(|until| until > now)
    }

    /// When one may be heard again that may not now.
    pub(super) fn next_deadline(&self, now: Time) -> Option<Time> {
        let until = self.users.values().filter_map(User::waits_until);
        until.filter(|until| *until > now).min()
    }

    /// Forgets who has taken nothing for a while.
    pub(super) fn forget(&mut self, now: Time) {
        self.users.retain(|_, user| user.taken_ns(now) > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clients(numbers: &[u32]) -> Vec<ClientId> {
        numbers.iter().copied().map(ClientId).collect()
    }

    #[test]
    fn each_users_sockets_come_one_after_the_other() {
        let mut turns = Turns::default();
        let ready: Vec<_> = (1..=5).map(|n| (ClientId(n), 7)).collect();
        let queues = |turns: &Turns| turns.queues(&ready).remove(0).1;
        assert_eq!(queues(&turns), clients(&[1, 2, 3, 4, 5]));
        for (heard, then) in [
            (2, [3, 4, 5, 1, 2]),
            (5, [1, 2, 3, 4, 5]),
            (9, [1, 2, 3, 4, 5]),
        ] {
            turns.charge(Time::ZERO, 7, ClientId(heard), 1);
            assert_eq!(queues(&turns), clients(&then), "{heard}");
        }
        let mut both = ready.clone();
        both.push((ClientId(6), 1));
        let of_users: Vec<_> = turns
            .queues(&both)
            .into_iter()
            .map(|(uid, _)| uid)
            .collect();
        assert_eq!(of_users, [1, 7]);
    }

    #[test]
    fn no_user_takes_more_than_its_part_of_a_second() {
        let mut turns = Turns::default();
        let (mut now, mut taken) = (Time::ZERO, 0);
        let step = 1_000_000;
        for _ in 0..10_000 {
            if !turns.waits(now, 7) {
                turns.charge(now, 7, ClientId(1), step);
                taken += step;
            }
            now = now.plus_ns(step);
            assert!(!turns.waits(now, 8));
            assert!(taken <= BURST_NS + now.since_ns(Time::ZERO) / PART + step);
        }
        assert!(taken >= now.since_ns(Time::ZERO) / PART);
        turns.charge(now, 7, ClientId(1), 2 * BURST_NS);
        let due = turns.next_deadline(now).unwrap();
        assert!(turns.waits(now, 7) && !turns.waits(due, 7));
        turns.forget(due);
        assert!(!turns.users.is_empty());
        turns.forget(due.plus_ns(10 * BURST_NS));
        assert!(turns.users.is_empty());
    }
}
