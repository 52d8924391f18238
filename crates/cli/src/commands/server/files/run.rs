//! A command that begins: until it is done, or the other end is lost for too long.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use cellgate_core::terminal::Message;
use cellgate_host::sys::Signals;
use cellgate_host::terminal::disk::{PathBelow, Root};
use cellgate_host::terminal::over::{Tcp, Transport};
use cellgate_host::terminal::{Next, Report, Session, Terms};
use cellgate_report::output::{Exit, print, print_json_line};
use serde_json::json;

use super::endpoint::Asking;
#[cfg(not(feature = "quic"))]
use super::over::no_quic;
#[cfg(feature = "quic")]
use super::over::quic;
use super::over::{Over, may_go_by};
use super::shown::{Far, Shown};
use super::tally::{Tally, discarded, discarded_words};
use super::words::{said, shown, shown_path};
use crate::commands::server::{Misuse, interrupted};

/// Between two tries.
const PAUSE: Duration = Duration::from_millis(500);

/// What cannot be read again is put.
pub(super) const PIPED: &str = "put -";

/// What ended a try.
enum Ended {
    Done,
    Interrupted,
    /// The other end says no.
    Refused(String),
    /// The other end does what it must not.
    Fault(String),
    /// Something is gone that may come back.
    Lost(anyhow::Error),
}

/// Asks for what `what` makes for each try, until it is done.
pub(super) fn run(
    asking: &Asking,
    verb: &'static str,
    mut what: impl FnMut(&Terms, bool) -> anyhow::Result<(Message, Next)>,
) -> anyhow::Result<Exit> {
    let json = asking.endpoint.server.json;
    let signals = Signals::listen()?;
    let mut tally = Tally::default();
    let mut shown_line = Shown::new(verb, json);
    let begun = Instant::now();
    let mut lost_at: Option<Instant> = None;
    loop {
        let before = tally.files;
        let ended = one(asking, &signals, &mut tally, &mut shown_line, &mut what)?;
        shown_line.clear();
        match ended {
            Ended::Done => break,
            Ended::Interrupted => {
                summary(asking, verb, &tally, begun)?;
                eprintln!("cellgate: interrupted; {}", again(verb));
                return Ok(Exit::Failed);
            }
            Ended::Refused(reason) => {
                return Err(anyhow!("the other end refuses: {}", said(&reason)));
            }
            Ended::Fault(reason) => {
                return Err(anyhow!("the other end does what it must not: {reason}"));
            }
            Ended::Lost(why) => {
                // What arrived since shows that it works.
                if tally.files > before {
                    lost_at = None;
                }
                let since = *lost_at.get_or_insert_with(Instant::now);
                if since.elapsed() >= asking.retry {
                    summary(asking, verb, &tally, begun)?;
                    return Err(why.context(format!("given up; {}", again(verb))));
                }
                eprintln!("cellgate: {why:#}; trying again");
                if interrupted(&signals, None, PAUSE) {
                    summary(asking, verb, &tally, begun)?;
                    eprintln!("cellgate: interrupted; {}", again(verb));
                    return Ok(Exit::Failed);
                }
            }
        }
    }
    summary(asking, verb, &tally, begun)?;
    for (path, reason) in &tally.skipped {
        eprintln!("cellgate: skipped {}: {reason}", shown(path));
    }
    for (path, reason) in &tally.failed {
        eprintln!("cellgate: {}: {reason}", shown(path));
    }
    Ok(match tally.failed.is_empty() {
        true => Exit::Ok,
        false => Exit::Failed,
    })
}

/// How one goes on that was not done.
fn again(verb: &str) -> &'static str {
    match verb {
        PIPED => "of standard input nothing is kept: put it once more from its beginning",
        _ => "what came is kept: the same command goes on where this one was",
    }
}

/// One try: opens what `asking` names, and asks there.
fn one(
    asking: &Asking,
    signals: &Signals,
    tally: &mut Tally,
    line: &mut Shown,
    what: &mut impl FnMut(&Terms, bool) -> anyhow::Result<(Message, Next)>,
) -> anyhow::Result<Ended> {
    let has_begun = line.is_begun();
    let mut talk = Talk {
        json: asking.endpoint.server.json,
        signals,
        tally,
        line,
    };
    let endpoint = &asking.endpoint;
    let ended = match &asking.over {
        None => endpoint
            .open()
            .map(|(port, terms)| talk.asks(port, terms, what)),
        Some(Over::Tcp(to)) => Tcp::connect(to)
            .with_context(|| to.clone())
            .map(|stream| talk.asks(stream, endpoint.terms_of_stream(), what)),
        #[cfg(feature = "quic")]
        Some(Over::Quic(to)) => quic(to, asking.fingerprint.as_deref(), asking.congestion)
            .map(|stream| talk.asks(stream, endpoint.terms_of_stream(), what)),
        #[cfg(not(feature = "quic"))]
        Some(Over::Quic(_)) => Err(no_quic()),
    };
    match ended {
        Ok(ended) => ended,
        // The first time a server or a contract that is not there is an error at once.
        Err(error) if has_begun && may_go_by(&error) => Ok(Ended::Lost(error)),
        Err(error) => Err(error),
    }
}

/// What is known on every transport.
struct Talk<'a> {
    json: bool,
    signals: &'a Signals,
    tally: &'a mut Tally,
    line: &'a mut Shown,
}

impl Talk<'_> {
    /// Asks, until all is done or the transport is lost.
    fn asks<T: Transport>(
        &mut self,
        mut transport: T,
        terms: Terms,
        what: &mut impl FnMut(&Terms, bool) -> anyhow::Result<(Message, Next)>,
    ) -> anyhow::Result<Ended> {
        let (message, next) = what(&terms, !self.line.is_begun())?;
        self.line.begins();
        let mut session = Session::<T>::begin(terms, &message, next);
        let ended = self.turns(&mut session, &mut transport);
        self.tally.sent += session.sent();
        self.tally.come += &session.come();
        ended
    }

    /// Turns of a session, until it is over.
    fn turns<T: Transport>(
        &mut self,
        session: &mut Session<T>,
        transport: &mut T,
    ) -> anyhow::Result<Ended> {
        loop {
            let looked = match session.turn(transport) {
                Ok(looked) => looked,
                Err(over) => {
                    session.leave();
                    return Ok(Ended::Lost(over.into()));
                }
            };
            while let Some(report) = session.report() {
                if let Report::Fault(reason) = report {
                    session.end(transport, &reason);
                    return Ok(Ended::Fault(reason));
                }
                if let Some(ended) = self.tells(report)? {
                    return Ok(ended);
                }
            }
            self.line.progress(self.tally, || Far {
                under_way: session.progress(),
                offers: session.offers(),
                sent: session.sent(),
            });
            if self.tally.is_done && session.is_idle() {
                // The other end's last status, and this one's, leave.
                transport.flush(Duration::from_secs(1));
                return Ok(Ended::Done);
            }
            if interrupted(self.signals, None, Duration::ZERO) {
                session.end(transport, "interrupted");
                return Ok(Ended::Interrupted);
            }
            if !looked.is_busy
                && let Err(over) = transport.wait(looked.waits, session.next_deadline())
            {
                session.leave();
                return Ok(Ended::Lost(over.into()));
            }
        }
    }

    /// Tells of what has happened, and whether the try ends with it.
    fn tells(&mut self, report: Report) -> anyhow::Result<Option<Ended>> {
        let told = match report {
            Report::Given(given) => self.tally.given(given),
            Report::Settled(settled) => self.tally.settled(settled),
            Report::Listed(entry) => {
                super::ls::print_entry(&entry, self.json)?;
                None
            }
            Report::ListEnd => {
                self.tally.is_done = true;
                None
            }
            // The summary tells.
            Report::Discarded(_) => None,
            Report::Refused(reason) => return Ok(Some(Ended::Refused(reason))),
            Report::Fault(reason) => return Ok(Some(Ended::Fault(reason))),
            Report::Stopped(reason) | Report::Ended(reason) => {
                let why = anyhow!("the other end has stopped: {}", said(&reason));
                return Ok(Some(Ended::Lost(why)));
            }
        };
        if let Some(told) = told {
            self.line.tell(&told)?;
        }
        Ok(None)
    }
}

fn summary(
    asking: &Asking,
    verb: &'static str,
    tally: &Tally,
    begun: Instant,
) -> anyhow::Result<()> {
    if verb == "ls" {
        return Ok(());
    }
    let seconds = begun.elapsed().as_secs_f64();
    if asking.endpoint.server.json {
        return print_json_line(&json!({
            "files": tally.files,
            "octets": tally.octets,
            "there_already": tally.there,
            "skipped": tally.skipped.len(),
            "failed": tally.failed.len(),
            "sent": tally.sent.octets,
            "sent_again": tally.sent.octets_again,
            "pdus": tally.sent.pdus,
            "pdus_heard": tally.sent.heard,
            "pdus_lost": tally.sent.lost,
            "discarded": discarded(&tally.come),
            "seconds": seconds,
            "done": tally.is_done,
        }));
    }
    let rate = tally.octets as f64 / seconds.max(1e-9) / 1e6;
    print(&format!(
        "{} files, {} octets in {seconds:.2} s ({rate:.1} x 10^6 octets/s); {} were there, {} \
         failed\n",
        tally.files,
        tally.octets,
        tally.there,
        tally.failed.len()
    ))?;
    if let Some(words) = discarded_words(&tally.come) {
        eprintln!("cellgate: {words}");
    }
    Ok(())
}

/// A local path: the directory that it is in, and its name there.
pub(super) fn local(path: &Path) -> anyhow::Result<(Root, PathBelow)> {
    let shown = || shown_path(path);
    // A path such as `..` or `a/.` is what it leads to.
    let named = match path.file_name() {
        Some(_) => path.to_owned(),
        None => path.canonicalize().with_context(shown)?,
    };
    let name = named
        .file_name()
        .ok_or_else(|| anyhow!("{}: a root has no name: name what is in it", shown()))?;
    let above = match named.parent() {
        Some(above) if above.as_os_str().is_empty() => Path::new("."),
        Some(above) => above,
        None => Path::new("/"),
    };
    if !above.is_dir() {
        return Err(Misuse(format!("{} is no directory", shown_path(above))).into());
    }
    let root = Root::open(above)?;
    let name = PathBelow::new(std::os::unix::ffi::OsStrExt::as_bytes(name))
        .map_err(|fault| anyhow!("{}: {fault}", shown()))?;
    Ok((root, name))
}

/// A path at the other end: `.` is what it serves.
pub(super) fn remote(path: &Path) -> Vec<u8> {
    let octets = std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str());
    match octets {
        b"." | b"./" | b"/" => Vec::new(),
        _ => octets.strip_prefix(b"./").unwrap_or(octets).to_vec(),
    }
}
