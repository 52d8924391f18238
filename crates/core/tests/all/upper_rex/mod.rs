//! REX: calls and replies, at most once each, whatever becomes of blocks and ends.

mod below;
mod format;
mod hostile;
mod laws;
mod world;

use cellgate_core::upper::msna::rex::Planted;
use world::{Checked, Tally};

const SEEDS: u64 = 1500;

#[test]
fn whatever_is_lost_each_call_has_one_outcome_and_is_executed_once_at_most() {
    let mut tally = Tally::default();
    for seed in 0..SEEDS {
        match world::run(seed, None) {
            Ok(of_run) => tally.add(&of_run),
            Err(what) => panic!("seed {seed}: {what}"),
        }
    }
    println!("{tally:?}");
    // All that may become of a call has become of some.
    assert!(tally.all().iter().all(|count| *count > 100), "{tally:?}");
}

/// Each law is a test, and may be tried on a machine with a bug.
macro_rules! laws {
    ($($name:ident,)+) => {
        $(#[test]
        fn $name() {
            laws::$name(None).unwrap();
        })+

        fn law(name: &str) -> fn(Option<Planted>) -> Checked {
            match name {
                $(stringify!($name) => laws::$name,)+
                _ => panic!("{name}: no law"),
            }
        }
    };
}

laws! {
    a_call_is_two_blocks,
    a_late_copy_is_not_executed,
    a_refused_call_is_not_executed_behind_that,
    a_session_that_was_forgotten_is_no_other,
    a_server_that_dies_as_it_executes_is_missed,
    a_caller_that_begins_anew_voids_what_it_had,
    silence_is_told,
    a_lost_reply_is_said_again,
    a_cancelled_call_has_ended_at_both_ends,
    a_message_is_whole_when_all_of_it_has_come,
    doubled_blocks_do_not_multiply,
    half_calls_are_bounded,
}

#[test]
fn every_planted_bug_is_noticed() {
    for bug in Planted::ALL {
        let (name, seeds) = noticed_by(*bug);
        let held = law(name)(Some(*bug)).is_ok();
        assert!(!held, "{bug:?}: {name} holds");
        let found = seeds == 0 || (0..seeds).any(|seed| world::run(seed, Some(*bug)).is_err());
        assert!(found, "{bug:?}: {seeds} runs hold");
    }
}

/// The law that a bug breaks, and runs of which one goes wrong; 0: maybe none does.
fn noticed_by(bug: Planted) -> (&'static str, u64) {
    match bug {
        Planted::CrcNotChecked => ("a_message_is_whole_when_all_of_it_has_come", 100),
        Planted::EndedForgotten => ("a_late_copy_is_not_executed", 100),
        Planted::FloorIgnored => ("a_late_copy_is_not_executed", 100),
        Planted::PredecessorsCallTaken => ("a_server_that_dies_as_it_executes_is_missed", 300),
        Planted::SessionNumberReused => ("a_session_that_was_forgotten_is_no_other", 0),
        Planted::CallersSessionKept => ("a_caller_that_begins_anew_voids_what_it_had", 100),
        Planted::RefusedExecuted => ("a_refused_call_is_not_executed_behind_that", 300),
        Planted::WholeAtLast => ("a_message_is_whole_when_all_of_it_has_come", 100),
        Planted::ReplySaidOnce => ("a_lost_reply_is_said_again", 100),
        Planted::CallSaidOnce => ("silence_is_told", 100),
        Planted::SilenceNotTold => ("silence_is_told", 100),
        Planted::GoneNotHeard => ("a_server_that_dies_as_it_executes_is_missed", 0),
        Planted::CancelledStays => ("a_cancelled_call_has_ended_at_both_ends", 100),
        Planted::CancelNotHeard => ("a_cancelled_call_has_ended_at_both_ends", 100),
        Planted::ReplyKept => ("a_call_is_two_blocks", 100),
        Planted::OctetsNotCounted => ("half_calls_are_bounded", 0),
        Planted::HalfCallsKept => ("half_calls_are_bounded", 0),
        Planted::RoundIgnored => ("doubled_blocks_do_not_multiply", 300),
    }
}
