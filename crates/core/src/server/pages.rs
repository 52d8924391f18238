//! Programs that take pages of their connections' memory away.
//!
//! The firmware reads what an application has written where it was written. The application can
//! take pages away there at any time (punch a hole, have a huge page put in their place), and then
//! the firmware's thread stands still until the kernel has found them again. While it has page
//! faults at all, the host looks off that thread who makes them. A user whose programs do it again
//! and again loses the connections, and opens none for a while.

use std::collections::{BTreeMap, BTreeSet};

use super::machine::Server;
use super::{AdapterIndex, Bugs, Enclosed, EndReason, Indication, Output, Refused};
use crate::Time;
use crate::adapter::{AttachmentIndex, VcId};

/// Pages that a user may take away at once.
const PAGES_MAX: u32 = 64;
/// A look that finds any gone counts so many at least: one page can take as long as many.
const PAGES_MIN: u32 = 16;
/// One page is forgotten in so long.
const FORGOTTEN_NS: u64 = 250_000_000;
/// How long a user who took more opens no connection. Each time is twice as long as the last.
const BARRED_NS: u64 = 10_000_000_000;
/// It is doubled so many times at most.
const DOUBLINGS: u32 = 6;
/// The server forgets a user who took no page for so long.
const LONG_AGO_NS: u64 = 3_600_000_000_000;

/// Memory whose pages were taken away, as the adapter names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PagesOf {
    /// Of an attachment.
    Attachment(AttachmentIndex),
    /// Of a VC.
    Vc(VcId),
}

/// The pages that a user's programs have taken away, and the time for which it is barred.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    pages: u32,
    at: Time,
    times: u32,
    barred_until: Time,
}

impl Taken {
    const fn none(now: Time) -> Self {
        Self {
            pages: 0,
            at: now,
            times: 0,
            barred_until: now,
        }
    }

    /// Counts what a look has found; whether it is more than is borne.
    fn add(&mut self, now: Time, pages: u32) -> bool {
        let forgotten = now.since_ns(self.at) / FORGOTTEN_NS;
        let left = u64::from(self.pages).saturating_sub(forgotten);
        self.at = self.at.plus_ns(forgotten * FORGOTTEN_NS);
        self.pages = u32::try_from(left).unwrap_or(u32::MAX);
        self.pages = self.pages.saturating_add(pages.max(PAGES_MIN));
        if self.pages <= PAGES_MAX {
            return false;
        }
        self.pages = PAGES_MAX;
        let barred_ns = BARRED_NS << self.times.min(DOUBLINGS);
        // Until the memory is given back, looks find more of the same.
        if self.barred_until <= now {
            self.barred_until = now.plus_ns(barred_ns);
            self.times += 1;
        }
        true
    }
}

impl<B: Bugs> Server<B> {
    /// A look has found pages of an adapter's memory gone that had been there: so many of each.
    /// Pages that the kernel itself has written to a disk are none of them.
    pub fn handle_pages_taken(
        &mut self,
        now: Time,
        adapter: AdapterIndex,
        gone: &[(PagesOf, u32)],
    ) {
        self.now = now;
        let mut users: BTreeMap<u32, (u32, BTreeSet<u32>)> = BTreeMap::new();
        for (of, pages) in gone {
            if let Some((uid, number)) = self.user_of_memory(adapter, *of) {
                let (all, numbers) = users.entry(uid).or_default();
                *all = all.saturating_add(*pages);
                numbers.insert(number);
            }
        }
        self.taken
            .retain(|_, taken| now.since_ns(taken.at.max(taken.barred_until)) < LONG_AGO_NS);
        for (uid, (pages, numbers)) in users {
            let taken = self.taken.entry(uid).or_insert(Taken::none(now));
            if taken.add(now, pages) {
                let barred_ns = taken.barred_until.since_ns(now);
                self.push(Output::PagesTaken {
                    uid,
                    connections: numbers.len() as u32,
                    barred_ns,
                });
                numbers.into_iter().for_each(|number| self.part(number));
            }
        }
        self.run(now);
    }

    /// The user whose application has this memory, and its connection.
    fn user_of_memory(&self, adapter: AdapterIndex, of: PagesOf) -> Option<(u32, u32)> {
        let all = self.connections.values();
        let mut all = all.filter(|one| one.port.adapter == adapter);
        let connection = all.find(|one| match of {
            PagesOf::Attachment(index) => one.attachment.is_some_and(|at| at.index == index),
            PagesOf::Vc(vc) => one.vc.is_some_and(|open| open.vc == vc),
        })?;
        let client = self.clients.get(&connection.user?.client)?;
        Some((client.peer.uid, connection.number))
    }

    /// Takes a connection from its application, whose socket is hung up.
    fn part(&mut self, number: u32) {
        let connection = self.connections.get(&number);
        if let Some(user) = connection.and_then(|connection| connection.user) {
            let ended = Indication::Ended(EndReason::PagesTaken);
            self.tell(user, ended, Enclosed::Nothing);
            self.hang_up(user.client);
        }
    }

    /// Whether a user's programs have taken so much away that it has no connections for a while.
    pub(super) fn check_pages(&self, uid: u32) -> Result<(), Refused> {
        let taken = self.taken.get(&uid);
        match taken.map(|taken| taken.barred_until.since_ns(self.now)) {
            None | Some(0) => Ok(()),
            Some(ns) => Err(Refused::PagesTaken {
                seconds: u32::try_from(ns.div_ceil(1_000_000_000)).unwrap_or(u32::MAX),
            }),
        }
    }
}
