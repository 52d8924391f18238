//! When to ask who is at the other end, on a virtual clock.

use core::net::Ipv4Addr;

use cellgate_core::Time;
use cellgate_core::upper::Inquiry;

const S: u64 = 1_000_000_000;
const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

/// Runs until nothing is due any more, or until the `answered`th question has its answer: the
/// seconds at which it asked.
fn asked(start: u64, answered: Option<usize>) -> (Vec<u64>, Inquiry) {
    let mut inquiry = Inquiry::new(Time::from_ns(start));
    let mut at = Vec::new();
    while let Some(next) = inquiry.next_deadline() {
        if next > Time::ZERO {
            assert!(!inquiry.is_due(Time::from_ns(next.ns() - 1)), "early");
        }
        assert!(inquiry.is_due(next));
        inquiry.handle_asked(next);
        at.push((next.ns() - start) / S);
        assert!(at.len() <= Inquiry::ASKS_MAX as usize, "it asks for ever");
        if answered == Some(at.len()) {
            inquiry.handle_told(PEER);
        }
    }
    (at, inquiry)
}

#[test]
fn asks_again_ever_later_until_answered_or_the_bound() {
    let all = [0, 1, 3, 7, 15, 31, 63, 123, 183, 243, 303, 363];
    for start in [0, 5 * S, u64::MAX / 2] {
        let (at, inquiry) = asked(start, None);
        assert_eq!(at, all);
        assert_eq!(inquiry.peer(), None);
        for answered in 1..=all.len() {
            let (at, inquiry) = asked(start, Some(answered));
            assert_eq!(at, all[..answered]);
            assert_eq!(inquiry.peer(), Some(PEER));
        }
    }
}

#[test]
fn a_late_caller_asks_once_and_waits_from_then() {
    let mut inquiry = Inquiry::new(Time::ZERO);
    inquiry.handle_asked(Time::from_ns(100 * S));
    assert_eq!(inquiry.next_deadline(), Some(Time::from_ns(101 * S)));
    inquiry.handle_asked(Time::from_ns(500 * S));
    assert_eq!(inquiry.next_deadline(), Some(Time::from_ns(502 * S)));
}

#[test]
fn who_tells_unasked_is_not_asked_and_the_last_word_counts() {
    let mut inquiry = Inquiry::new(Time::ZERO);
    inquiry.handle_told(PEER);
    assert_eq!(inquiry.next_deadline(), None);
    assert!(!inquiry.is_due(Time::from_ns(u64::MAX)));
    let other = Ipv4Addr::new(10, 0, 0, 3);
    inquiry.handle_told(other);
    assert_eq!(inquiry.peer(), Some(other));
    // A question that was on its way when the answer came changes nothing.
    inquiry.handle_asked(Time::ZERO);
    assert_eq!(
        (inquiry.next_deadline(), inquiry.peer()),
        (None, Some(other))
    );
}
