//! `cellgate stream send`.

use std::time::Duration;

use cellgate::{Connection, Error, SduOptions};
use cellgate_core::terminal::video::{PACK, Pace, Sending, SendingTerms};
use cellgate_core::wire::TS_LEN;
use cellgate_core::{Time, TimeWord};
use cellgate_host::clock::MonotonicClock;
use cellgate_host::sys::Signals;
use cellgate_report::output::{Exit, print_json_line};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::json;

use super::source::{Named, Source};
use super::{Once, cpu, heed, of_aal5, pack, scheduled};
use crate::commands::server::recv::seconds;
use crate::commands::server::transfer::Endpoint;
use crate::commands::server::{Misuse, interrupted};

/// How long what was handed to the adapter may take to leave.
const LINGER: Duration = Duration::from_secs(30);
/// How long a wait is that looks for signals between.
const LOOK: Duration = Duration::from_millis(50);
/// From one look at what the server tells to the next.
const HEED_NS: u64 = 1_000_000_000;
/// A source that is so far ahead of its contract outruns it.
const BEHIND_NS: u64 = 1_000_000_000;
/// A live source for which as much of a second was waited outruns it, too.
const WAITED_NS: u64 = 900_000_000;

/// Send a transport stream, two packets in each PDU
///
/// A pipe, a socket and the test camera leave as they come; a file leaves as its clock references
/// say. Start `stream recv` at the other end first: packets that leave before are lost.
///
/// SOURCE is a file, `-` for standard input, `udp:ADDRESS:PORT` to listen there, or
/// `test:FPS,BIT_S,PPM` for a camera of so many frames and bits a second whose clock is fast by so
/// many parts in a million. Octets between the packets of 188 octets are left out and counted.
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  $ cellgate stream send --vc a.0.60 --contract cbr,aal5:pcr=10Mbps film.ts
  $ cellgate stream send --vc a.0.60 --contract cbr,aal5:pcr=10Mbps test:25,8M")]
pub(crate) struct Args {
    #[command(flatten)]
    endpoint: Endpoint,
    /// Transport packets of a PDU; two fill eight cells without a pad
    #[arg(long, value_name = "N", default_value_t = PACK, value_parser = pack)]
    pack: usize,
    /// End a PDU behind a packet that has a clock reference: no packet behind delays it
    #[arg(long)]
    pcr_aware: bool,
    /// Do not number PDUs in the user-to-user octet, for a peer of H.222.1
    #[arg(long)]
    plain: bool,
    /// End after so long
    #[arg(short, long, value_name = "SECONDS", value_parser = seconds)]
    time: Option<Duration>,
    /// CPU time of its own to ask the server for, in each 10ms; 0s: none
    #[arg(long, value_name = "TIME", default_value = "500us", value_parser = cpu)]
    cpu: TimeWord,
    /// The stream
    #[arg(default_value = "-")]
    source: Named,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let now = MonotonicClock.now();
    let mut source = Source::open(&args.source, args.pack, args.time, now)?;
    let connection = args.endpoint.transmit(false)?;
    of_aal5(&connection)?;
    let room = connection.transmit_max_sdu().ok_or(Error::DoesNotSend)?;
    let needed = args.pack * TS_LEN;
    if usize::from(room) < needed {
        let text = format!(
            "--pack {}: PDUs of {needed} octets are longer than the contract's {room}; give more \
             by max_sdu=",
            args.pack
        );
        return Err(Misuse(text).into());
    }
    let signals = Signals::listen()?;
    let scheduling = scheduled(&connection, args.cpu);
    eprintln!(
        "sending on {} under {}; {scheduling}",
        connection.address(),
        connection.contract()
    );
    // A camera's first frame is when it can leave.
    if let Source::Camera(_) = source {
        source = Source::open(&args.source, args.pack, args.time, MonotonicClock.now())?;
    }
    let terms = SendingTerms {
        pack: args.pack,
        pcr_aware: args.pcr_aware,
        numbered: !args.plain,
        pace: source.pace(),
    };
    let mut way = Way {
        sending: Sending::new(terms),
        connection,
        signals,
        once: Once::default(),
        sdu: Vec::with_capacity(needed),
        behind_max_ns: 0,
        cpu: args.cpu,
        waited: (MonotonicClock.now(), 0),
        is_paced: terms.pace == Pace::References,
    };
    way.all(&mut source, args.time)?;
    let (address, contract) = (way.connection.address(), way.connection.contract());
    let (counts, behind_max_ns) = (*way.sending.counts(), way.behind_max_ns);
    way.connection.close(LINGER)?;
    eprintln!(
        "cellgate: {} packets were sent in {} PDUs, at most {:.1} ms behind",
        counts.packets,
        counts.pdus,
        behind_max_ns as f64 / 1e6
    );
    if args.endpoint.server.json() {
        print_json_line(&json!({
            "address": address, "contract": contract, "scheduling": scheduling,
            "behind_max_ns": behind_max_ns, "counts": counts,
        }))?;
    }
    match counts.packets {
        0 => {
            anyhow::bail!("no transport packet came: expected MPEG-TS, as `ffmpeg -f mpegts` makes")
        }
        _ => Ok(Exit::Ok),
    }
}

/// A stream on its way.
struct Way {
    connection: Connection,
    sending: Sending,
    signals: Signals,
    once: Once,
    sdu: Vec<u8>,
    behind_max_ns: u64,
    cpu: TimeWord,
    /// The present second's begin, and how long of it was waited for the connection.
    waited: (Time, u64),
    is_paced: bool,
}

impl Way {
    /// Sends until the source ends, the time is over, or somebody wants the command to end.
    fn all(&mut self, source: &mut Source, time: Option<Duration>) -> anyhow::Result<()> {
        let end = time.map(|time| MonotonicClock.now().plus_ns(time.as_nanos() as u64));
        let mut buffer = vec![0; 1 << 16];
        let (mut readable, mut goes_on) = (false, true);
        let mut looked = MonotonicClock.now();
        let mut heeded = looked;
        loop {
            loop {
                let now = MonotonicClock.now();
                if goes_on {
                    let is_there = std::mem::take(&mut readable);
                    goes_on = source.feed(now, is_there, &mut buffer, &mut self.sending)?;
                    // A camera counts its frames.
                    let is_timed = !matches!(source, Source::Camera(_));
                    goes_on &= !(is_timed && end.is_some_and(|end| end <= now));
                    if !goes_on {
                        self.sending.end();
                    }
                }
                let due = self.sending.next_deadline();
                let uu = self.sending.poll(now, &mut self.sdu);
                let (Some(due), Some(uu)) = (due, uu) else {
                    break;
                };
                let is_over = now.since_ns(looked) > LOOK.as_nanos() as u64
                    && interrupted(&self.signals, None, Duration::ZERO);
                looked = looked.max(now.minus_ns(LOOK.as_nanos() as u64));
                if is_over || !self.send(uu, due)? {
                    return Ok(());
                }
            }
            self.tell();
            if self.sending.is_over() {
                return Ok(());
            }
            let due = [self.sending.next_deadline(), source.next_deadline()];
            let due = due.into_iter().flatten().min();
            let now = MonotonicClock.now();
            let wait = due.map_or(LOOK, |due| Duration::from_nanos(due.since_ns(now)));
            let descriptor = source.descriptor().filter(|_| goes_on);
            match self.wait(descriptor, wait.min(LOOK)) {
                Some(is) => readable = is,
                None => return Ok(()),
            }
            looked = MonotonicClock.now();
            if looked.since_ns(heeded) > HEED_NS {
                heeded = looked;
                heed(&self.connection, self.cpu)?;
            }
        }
    }

    /// Waits for `time`, or until there is something to read: whether there is. None: somebody
    /// wants the command to end.
    fn wait(&self, source: Option<std::os::fd::BorrowedFd<'_>>, time: Duration) -> Option<bool> {
        let timeout = Timespec::try_from(time).ok();
        let mut fds = vec![PollFd::new(&self.signals, PollFlags::IN)];
        fds.extend(source.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        // A wait that the kernel refuses is one that it ends.
        let _ = poll(&mut fds, timeout.as_ref());
        let readable = fds.get(1).is_some_and(|fd| !fd.revents().is_empty());
        (!interrupted(&self.signals, None, Duration::ZERO)).then_some(readable)
    }

    /// Sends a PDU that was due; `false`: somebody wants the command to end.
    fn send(&mut self, uu: u8, due: Time) -> anyhow::Result<bool> {
        let options = SduOptions {
            uu,
            ..SduOptions::default()
        };
        let begun = MonotonicClock.now();
        loop {
            match self.connection.send_with_timeout(&self.sdu, options, LOOK) {
                Ok(()) => break,
                Err(Error::TimedOut) => {
                    if interrupted(&self.signals, None, Duration::ZERO) {
                        return Ok(false);
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        let now = MonotonicClock.now();
        self.behind_max_ns = self.behind_max_ns.max(now.since_ns(due));
        let (second, waited) = &mut self.waited;
        if now.since_ns(*second) >= 1_000_000_000 {
            self.waited = (now, 0);
        } else {
            *waited += now.since_ns(begun);
        }
        self.tell();
        Ok(true)
    }

    fn tell(&mut self) {
        let counts = self.sending.counts();
        let once = &mut self.once;
        once.tell(
            counts.skipped_octets > 0,
            "octets that are no transport packets are left out",
        );
        once.tell(
            counts.untimed > 0 && self.is_paced,
            "the file has no clock references: it leaves as fast as the contract lets it",
        );
        once.tell(
            counts.jumps > 0,
            "the stream's clock jumps: it goes on behind",
        );
        once.tell(
            self.behind_max_ns > BEHIND_NS || self.waited.1 > WAITED_NS,
            "the source outruns the contract: give more by pcr= or scr=",
        );
    }
}
