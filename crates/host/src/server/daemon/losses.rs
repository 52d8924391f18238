//! What interfaces lose is told in the log: at the first, and then rarely.

use std::collections::BTreeMap;

use cellgate_core::Time;
use cellgate_core::server::InterfaceState::{CannotSend, NoLink};
use cellgate_core::server::{InterfaceCounts, InterfaceState};

use crate::events::{Event, Field, Kind};

/// From one line about a reason to the next.
const AGAIN_NS: u64 = 600_000_000_000;

/// What was told last of an interface and a reason.
#[derive(Debug)]
struct Told {
    count: u64,
    next: Time,
}

/// What the log tells of interfaces' losses.
#[derive(Debug, Default)]
pub(super) struct Losses {
    told: BTreeMap<(String, &'static str), Told>,
    states: BTreeMap<String, InterfaceState>,
}

impl Losses {
    /// What is to be told of an interface now.
    pub(super) fn news(
        &mut self,
        now: Time,
        name: &str,
        state: &InterfaceState,
        counts: &InterfaceCounts,
    ) -> Vec<Event> {
        let mut news = Vec::new();
        let before = self.states.insert(name.to_owned(), state.clone());
        let as_it_is = |kind| Event::of(kind, format!("{name}: {state}"));
        let told = match (before, state) {
            // Why it cannot may change with each datagram.
            (Some(CannotSend { .. }), CannotSend { .. }) => None,
            (Some(before), state) if before == *state => None,
            (_, CannotSend { reason }) => {
                Some(as_it_is(Kind::InterfaceCannotSend).with(Field::Reason, &**reason))
            }
            (_, NoLink { reason }) => {
                Some(as_it_is(Kind::InterfaceNoLink).with(Field::Reason, &**reason))
            }
            (Some(CannotSend { .. }), _) => {
                let text = format!("{name}: sends again");
                Some(Event::of(Kind::InterfaceSends, text))
            }
            (Some(NoLink { .. }), _) => Some(as_it_is(Kind::InterfaceUp)),
            _ => None,
        };
        news.extend(told.map(|event| event.with(Field::Interface, name)));
        for loss in counts.losses() {
            let told = self.told.entry((name.to_owned(), loss.reason));
            let told = told.or_insert(Told {
                count: 0,
                next: Time::ZERO,
            });
            // Counters of another adapter begin anew.
            if loss.count < told.count {
                told.count = 0;
            }
            if loss.is_met() && loss.count > told.count && now >= told.next {
                *told = Told {
                    count: loss.count,
                    next: now.plus_ns(AGAIN_NS),
                };
                let event = Event::of(Kind::CellsDiscarded, format!("{name} discards: {loss}"))
                    .with(Field::Interface, name)
                    .with(Field::Count, loss.count)
                    .with(Field::Reason, loss.reason);
                news.push(event);
            }
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(events: Vec<Event>) -> Vec<String> {
        events.iter().map(|event| event.text().to_owned()).collect()
    }

    fn counts(unknown_vc: u64, idle: u64) -> InterfaceCounts {
        let mut counts = InterfaceCounts::default();
        (counts.cells.unknown_vc, counts.cells.idle) = (unknown_vc, idle);
        counts
    }

    #[test]
    fn a_loss_is_told_at_the_first_and_then_rarely() {
        let mut losses = Losses::default();
        let at = |s: u64| Time::from_ns((1_000 + s) * 1_000_000_000);
        let mut news = |s, of| texts(losses.news(at(s), "b", &InterfaceState::Up, &of));
        assert!(news(0, counts(0, 7)).is_empty(), "idle cells are no loss");
        assert_eq!(news(1, counts(11, 7)), ["b discards: unknown_vc: 11 cells"]);
        assert!(news(2, counts(99, 7)).is_empty());
        assert_eq!(
            news(700, counts(500, 7)),
            ["b discards: unknown_vc: 500 cells"]
        );
        assert!(news(2_000, counts(500, 7)).is_empty());
        // Another adapter counts anew.
        assert_eq!(
            news(3_000, counts(2, 0)),
            ["b discards: unknown_vc: 2 cells"]
        );
    }

    #[test]
    fn what_cannot_be_sent_is_told_and_when_it_can_be() {
        let mut losses = Losses::default();
        let cannot = InterfaceState::CannotSend {
            reason: "Message too long".to_owned(),
        };
        let mut news = |state| texts(losses.news(Time::ZERO, "wan", state, &counts(0, 0)));
        assert_eq!(news(&cannot), ["wan: cannot send: Message too long"]);
        assert!(news(&cannot).is_empty());
        assert_eq!(news(&InterfaceState::Up), ["wan: sends again"]);
        let [a, b] = ["a", "b"].map(|reason| NoLink {
            reason: reason.to_owned(),
        });
        assert_eq!(news(&a), ["wan: no link: a"]);
        assert!(news(&a).is_empty());
        assert_eq!(news(&b), ["wan: no link: b"]);
        assert_eq!(news(&InterfaceState::Up), ["wan: up"]);
    }
}
