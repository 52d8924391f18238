//! A program at its end of a control socket and of the connection that it has: what it asks, what
//! the server tells it, and what it may send and take.
//!
//! ```text
//!              ask(Hello)           ask(Open, Take, Reattach)
//!   connected -----------> greeted --------------------------> open --- ask(Close) ---> closed
//!                                                              |  ^
//!                            modify, accept_offer: the change  |  |  Confirm: another contract,
//!                            waits until all has been sent     v  |  another pace, new memory
//!                                                           changing
//! ```
//!
//! One Request at a time is under way. A new server asks for it again ([`Indication::Restarted`]);
//! who has waited for `patience_ns` gives it up, and a change that is confirmed after that is in
//! force all the same. An Indication is acted on when it comes, in its order among the Confirms.
//!
//! Of several connections on one socket each has an application of its own
//! ([`Application::numbered`]). Its process hands each message to the one whose number it names,
//! and a message without a number to all.
//!
//! The application knows no socket and no memory: what comes along with a message stands for itself
//! ([`Enclosure`]). **Poll all outputs after each input, before the next.**
//!
//! [`Indication::Restarted`]: crate::server::Indication::Restarted

mod allowance;
mod dialogue;
mod interest;
mod machine;
mod open;

pub use interest::{Interest, Sleep};
pub use machine::{Answer, Application, Cause, Enclosure, End, Failure, Output};
pub use open::{OpenConnection, Unsendable};
