use std::time::Duration;

use cellgate::{Connection, Error};
use cellgate_report::output::{Exit, print, print_json_line};

use super::pdu::{HEADER, Header, Kind, number_of};
use super::report::{self, Span};
use super::tally::{Received, Tally};
use super::verdict::{Seen, Standing};
use super::{Args, machine, now_ns, seen, seen_at};
use crate::commands::server::lost::Lost;
use crate::commands::server::transfer::Way;

/// How long an answer may take to get into the transmit buffer.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long a server of one client waits for the end to be told again, lest the report was lost.
const LINGER: Duration = Duration::from_millis(500);
/// How often it looks whether an interval is over.
const LOOK: Duration = Duration::from_millis(100);

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let ends = args.open(&args.vc, Way::Receive)?;
    let mut server = Server {
        args,
        outgoing: &ends.outgoing,
        incoming: &ends.incoming,
        run: None,
        last_ns: now_ns(),
    };
    eprintln!(
        "serving on {} under {}, reports on {}",
        ends.incoming.address(),
        ends.incoming.contract(),
        ends.outgoing.address()
    );
    loop {
        match ends.incoming.next_pdu_timeout(LOOK) {
            Ok(pdu) => server.take(&pdu)?,
            Err(Error::TimedOut) => server.look(now_ns())?,
            Err(error) => return Err(error.into()),
        }
        if args.one_off && server.is_done() {
            break;
        }
    }
    ends.outgoing.close(PATIENCE)?;
    Ok(Exit::Ok)
}

struct Run {
    number: u64,
    /// How this end had done before.
    before: Option<Seen>,
    /// What was lost before.
    lost_before: Option<Lost>,
    tally: Tally,
    began_ns: u64,
    /// What has come since the last line.
    span: Span,
    /// PDUs, octets and losses before it.
    counted: (u64, u64, u64),
    report: Option<Received>,
}

struct Server<'a> {
    args: &'a Args,
    outgoing: &'a Connection,
    incoming: &'a Connection,
    run: Option<Run>,
    /// When something came last.
    last_ns: u64,
}

impl Server<'_> {
    fn take(&mut self, pdu: &[u8]) -> anyhow::Result<()> {
        let Some(header) = Header::read(pdu) else {
            return Ok(());
        };
        let now = now_ns();
        self.last_ns = now;
        let running = self.run.as_mut().filter(|run| run.number == header.run);
        match (header.kind, running) {
            (Kind::Begin, running) => {
                if running.is_none() {
                    let here = machine();
                    let same_machine = here != 0 && number_of(pdu) == Some(here);
                    self.begin(header.run, same_machine, now)?;
                }
                self.answer(Kind::Ready, &header, &[])
            }
            (Kind::Data, Some(run)) => {
                run.tally
                    .add(header.sequence, pdu.len(), header.time_ns, now);
                self.look(now)
            }
            (Kind::End, Some(run)) => {
                let first = run.report.is_none();
                let mut report = run
                    .report
                    .take()
                    .unwrap_or_else(|| run.tally.report(header.sequence));
                let lost_before = run.lost_before.take();
                if let (Some(before), true) = (run.before.take(), first) {
                    let after = self.seen_at(now);
                    report.adapter = after.map(|after| Standing::between(&before, after));
                }
                if let (Some(before), true) = (lost_before, first) {
                    let lost = Lost::of(self.incoming).ok();
                    let since = |lost: Lost| lost.since(&before.discarded, before.dismissed);
                    report.thrown_away = lost.map(since);
                }
                let text = serde_json::to_vec(&report)?;
                if let Some(run) = &mut self.run {
                    run.report = Some(report);
                }
                if first {
                    self.finish()?;
                }
                self.answer(Kind::Report, &header, &text)
            }
            _ => Ok(()),
        }
    }

    /// How this end has done until `at` or later, if the daemon tells.
    fn seen_at(&self, at: u64) -> Option<Seen> {
        let address = self.outgoing.address();
        let mut admin = self.args.server.admin().ok()?;
        seen_at(&mut admin, address.interface.as_deref(), at)
    }

    /// How it has done.
    fn seen(&self) -> Option<Seen> {
        let address = self.outgoing.address();
        let mut admin = self.args.server.admin().ok()?;
        seen(&mut admin, address.interface.as_deref())
    }

    fn begin(&mut self, number: u64, same_machine: bool, now: u64) -> anyhow::Result<()> {
        self.run = Some(Run {
            number,
            before: self.seen(),
            lost_before: Lost::of(self.incoming).ok(),
            tally: Tally::new(same_machine),
            began_ns: now,
            span: Span::at(0),
            counted: (0, 0, 0),
            report: None,
        });
        match self.args.server.json {
            true => Ok(()),
            false => print(report::RECEIVED_HEAD),
        }
    }

    /// Tells of an interval that is over.
    fn look(&mut self, now: u64) -> anyhow::Result<()> {
        let interval_ns = self.args.interval.as_nanos() as u64;
        match &mut self.run {
            Some(run) if run.report.is_none() => {
                let at = now - run.began_ns;
                if at - run.span.start_ns < interval_ns {
                    return Ok(());
                }
                run.line(at, self.args.server.json)
            }
            _ => Ok(()),
        }
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        let Some(run) = &mut self.run else {
            return Ok(());
        };
        // A tenth of an interval has no rate worth a line.
        let at = self.last_ns - run.began_ns;
        if at - run.span.start_ns > self.args.interval.as_nanos() as u64 / 10 {
            run.line(at, self.args.server.json)?;
        }
        match (&run.report, self.args.server.json) {
            (Some(report), true) => print_json_line(report),
            (Some(report), false) => print(&report::received(report)),
            (None, _) => Ok(()),
        }
    }

    fn answer(&self, kind: Kind, to: &Header, text: &[u8]) -> anyhow::Result<()> {
        let mut pdu = vec![0; HEADER + text.len()];
        Header { kind, ..*to }.write(&mut pdu);
        pdu[HEADER..].copy_from_slice(text);
        match self.outgoing.send_timeout(&pdu, PATIENCE) {
            // The client asks again.
            Ok(()) | Err(Error::TimedOut) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether a client has its report.
    fn is_done(&self) -> bool {
        let reported = self.run.as_ref().is_some_and(|run| run.report.is_some());
        reported && now_ns() - self.last_ns > LINGER.as_nanos() as u64
    }
}

impl Run {
    /// Tells of the interval that ends `at`.
    fn line(&mut self, at: u64, quiet: bool) -> anyhow::Result<()> {
        let so_far = self.tally.so_far();
        self.span.end_ns = at;
        self.span.pdus = so_far.0 - self.counted.0;
        self.span.octets = so_far.1 - self.counted.1;
        let lost = so_far.2.saturating_sub(self.counted.2);
        if !quiet {
            print(&report::received_line(&self.span, lost))?;
        }
        self.span = Span::at(at);
        self.counted = so_far;
        Ok(())
    }
}
