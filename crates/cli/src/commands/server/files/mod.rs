//! Files to and from a terminal at the other end of a connection.

mod endpoint;
pub(crate) mod get;
pub(crate) mod ls;
mod manner;
mod over;
mod partial;
pub(crate) mod put;
mod run;
pub(crate) mod serve;
mod shown;
mod tally;
mod words;
