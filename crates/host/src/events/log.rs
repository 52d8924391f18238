//! Where events go: to standard error, as text or JSON, or to the journal.

use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::str::FromStr;

use rustix::fs::fstat;
use tracing::field::{Field as TracingField, Visit};
use tracing::{Dispatch, Level, Subscriber, dispatcher};
use tracing_journald::{Priority as JournalPriority, PriorityMappings};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::{LookupSpan, Registry};

use super::{Event, Field, Priority};

/// The form in which events are told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// To the journal where standard error is the journal, else as text.
    #[default]
    Auto,
    /// A line for each, for people.
    Text,
    /// An object of JSON for each, on a line of its own.
    Json,
    /// To the journal, with fields.
    Journal,
}

impl Form {
    /// All there are.
    pub const ALL: [Self; 4] = [Self::Auto, Self::Text, Self::Json, Self::Journal];

    /// The word for it on a command line.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Text => "text",
            Self::Json => "json",
            Self::Journal => "journal",
        }
    }

    /// The form that is meant for a process with this standard error and `JOURNAL_STREAM`.
    fn settled(self, stderr: impl AsFd, stream: Option<&str>) -> Self {
        match self {
            Self::Auto if is_stream(stderr, stream) => Self::Journal,
            Self::Auto => Self::Text,
            other => other,
        }
    }
}

impl FromStr for Form {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|form| form.word() == text);
        found.ok_or_else(|| "one of auto, text, json, journal is wanted".to_owned())
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// Whether a descriptor is what `JOURNAL_STREAM` names: a device and an inode.
fn is_stream(fd: impl AsFd, stream: Option<&str>) -> bool {
    let named = stream.and_then(|stream| {
        let (device, inode) = stream.split_once(':')?;
        Some((device.parse::<u64>().ok()?, inode.parse::<u64>().ok()?))
    });
    let found = fstat(fd).ok().map(|stat| (stat.st_dev, stat.st_ino));
    named.is_some() && named == found
}

/// Tells people what happens.
#[derive(Clone, Debug)]
pub struct Log {
    to: Dispatch,
    /// Never `Auto`.
    form: Form,
}

impl Log {
    /// A log of this form for the events of this process.
    ///
    /// # Errors
    /// The journal was asked for and does not answer. Where it is only found, text takes its place.
    pub fn new(form: Form) -> io::Result<Self> {
        let stream = std::env::var("JOURNAL_STREAM").ok();
        match form.settled(io::stderr(), stream.as_deref()) {
            Form::Journal => match journal() {
                Ok(to) => Ok(Self {
                    to,
                    form: Form::Journal,
                }),
                Err(_) if form == Form::Auto => Ok(Self::to(io::stderr, Form::Text)),
                Err(error) => Err(error),
            },
            settled => Ok(Self::to(io::stderr, settled)),
        }
    }

    /// Text for each line of which `say` is called.
    pub fn saying(say: fn(&str)) -> Self {
        Self::to(move || Said(say), Form::Text)
    }

    fn to<W>(writer: W, form: Form) -> Self
    where
        W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
    {
        // Nobody may read it.
        let lines = tracing_subscriber::fmt::layer()
            .log_internal_errors(false)
            .with_writer(writer);
        let to = match form {
            Form::Json => {
                let lines = lines.json().flatten_event(true).with_target(false);
                Dispatch::new(Registry::default().with(lines))
            }
            _ => Dispatch::new(Registry::default().with(lines.event_format(Line))),
        };
        Self { to, form }
    }

    /// Its form; never [`Form::Auto`].
    pub fn form(&self) -> Form {
        self.form
    }

    /// Tells an event. May wait for whoever listens.
    pub fn tell(&self, event: &Event) {
        // `tracing` wants a level that is known where an event is written down.
        macro_rules! told {
            ($level:ident) => {
                tracing::event!(
                    target: "cellgate",
                    Level::$level,
                    event = event.kind.name(),
                    adapter = event.words(Field::Adapter),
                    address = event.words(Field::Address),
                    count = event.number(Field::Count),
                    device = event.words(Field::Device),
                    interface = event.words(Field::Interface),
                    path = event.words(Field::Path),
                    process = event.number(Field::Process),
                    reason = event.words(Field::Reason),
                    resource = event.words(Field::Resource),
                    section = event.words(Field::Section),
                    subject = event.words(Field::Subject),
                    thread = event.words(Field::Thread),
                    user = event.number(Field::User),
                    "{}",
                    event.text
                )
            };
        }
        dispatcher::with_default(&self.to, || match event.kind.priority() {
            Priority::Err => told!(ERROR),
            Priority::Warning => told!(WARN),
            Priority::Info => told!(INFO),
        });
    }
}

/// The journal's socket; `event` is `CELLGATE_EVENT` there, and so is each field.
fn journal() -> io::Result<Dispatch> {
    let priorities = PriorityMappings {
        info: JournalPriority::Informational,
        ..PriorityMappings::new()
    };
    let layer = tracing_journald::layer()?
        .with_syslog_identifier("cellgate".to_owned())
        .with_field_prefix(Some("CELLGATE".to_owned()))
        .with_priority_mappings(priorities);
    Ok(Dispatch::new(Registry::default().with(layer)))
}

/// The form of a line for people.
struct Line;

impl<S, N> FormatEvent<S, N> for Line
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &tracing::Event<'_>,
    ) -> fmt::Result {
        let mut text = Text(String::new());
        event.record(&mut text);
        writeln!(writer, "cellgate: {}", text.0)
    }
}

/// The line of an event.
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &TracingField, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

/// Has each line said.
struct Said(fn(&str));

impl io::Write for Said {
    /// All of a line comes at once.
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        (self.0)(String::from_utf8_lossy(octets).trim_end_matches('\n'));
        Ok(octets.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
pub(super) fn log_into(octets: std::sync::Arc<std::sync::Mutex<Vec<u8>>>, form: Form) -> Log {
    struct Kept(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);
    impl io::Write for Kept {
        fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend(octets);
            Ok(octets.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    Log::to(move || Kept(octets.clone()), form)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::linux::fs::MetadataExt;

    use super::*;

    #[test]
    fn the_journal_is_meant_where_standard_error_is_the_journal() {
        let file = File::open("/dev/null").unwrap();
        let (device, inode) = {
            let found = file.metadata().unwrap();
            (found.st_dev(), found.st_ino())
        };
        let named = format!("{device}:{inode}");
        let settled = |form: Form, stream: Option<&str>| form.settled(&file, stream);
        assert_eq!(settled(Form::Auto, Some(&named)), Form::Journal);
        let others = [
            format!("{device}:{}", inode + 1),
            format!("{}:{inode}", device + 1),
            format!("{device}"),
            "x:y".to_owned(),
            String::new(),
        ];
        for other in others {
            assert_eq!(settled(Form::Auto, Some(&other)), Form::Text, "{other}");
        }
        assert_eq!(settled(Form::Auto, None), Form::Text);
        for form in [Form::Text, Form::Json, Form::Journal] {
            assert_eq!(settled(form, Some(&named)), form);
            assert_eq!(settled(form, None), form);
        }
    }

    #[test]
    fn forms_are_told_as_they_are_read() {
        for form in Form::ALL {
            assert_eq!(form.to_string().parse(), Ok(form));
        }
        assert!("yaml".parse::<Form>().is_err());
    }
}
