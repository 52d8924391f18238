//! Events that the daemon and the adapter's process tell people, and their way to a log.
//!
//! ```text
//!  daemon: Event::of(Kind, text) --> Voice: Bounds --> Aside --> Log: stderr, as text or JSON
//!                                                                     or the journal
//! ```
//!
//! Each event has a name of the [`list`](Kind): there is no other way to make one. Nothing here
//! stands in a cell's way.

mod bounds;
mod list;
mod log;

use std::collections::BTreeMap;
use std::fmt;

pub(crate) use bounds::Bounds;
pub use list::{Field, Kind, Priority};
pub use log::{Form, Log};

/// Something that has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    kind: Kind,
    text: String,
    fields: BTreeMap<Field, Value>,
}

/// The value of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Text(String),
    Number(u64),
}

impl Event {
    /// An event of this kind; `text` is a line for people, which needs none of the fields.
    pub fn of(kind: Kind, text: impl Into<String>) -> Self {
        Self {
            kind,
            text: text.into(),
            fields: BTreeMap::new(),
        }
    }

    /// An event whose line ends with why, if that is known.
    pub fn because(kind: Kind, text: impl fmt::Display, why: Option<impl fmt::Display>) -> Self {
        match why.map(|why| why.to_string()) {
            Some(why) => Self::of(kind, format!("{text}: {why}")).with(Field::Reason, why),
            None => Self::of(kind, text.to_string()),
        }
    }

    /// The same with a field of its kind.
    pub fn with(mut self, field: Field, value: impl Into<Value>) -> Self {
        let kind = self.kind;
        debug_assert!(kind.fields().contains(&field), "{field} of {}", kind.name());
        self.fields.insert(field, value.into());
        self
    }

    /// The same with a field of its kind, if there is something to say.
    pub fn with_any(self, field: Field, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.with(field, value),
            None => self,
        }
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The line for people.
    pub fn text(&self) -> &str {
        &self.text
    }

    fn words(&self, field: Field) -> Option<&str> {
        match self.fields.get(&field)? {
            Value::Text(text) => Some(text),
            Value::Number(_) => None,
        }
    }

    fn number(&self, field: Field) -> Option<u64> {
        match self.fields.get(&field)? {
            Value::Text(_) => None,
            Value::Number(number) => Some(*number),
        }
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

impl From<usize> for Value {
    fn from(number: usize) -> Self {
        Self::Number(number as u64)
    }
}

#[cfg(test)]
mod tests;
