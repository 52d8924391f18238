use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use cellgate::{Address, Connection, Error};
use cellgate_host::sys::Signals;
use cellgate_report::output::{Exit, print, print_json_line};

use super::pdu::{HEADER, Header, Kind, SHORT};
use super::report::{self, Span, Test};
use super::tally::Received;
use super::verdict::{Promise, Seen, Standing, Verdict};
use super::{Args, Ends, machine, now_ns, seen_at};
use crate::commands::server::growth::Growth;
use crate::commands::server::transfer::Way;
use crate::commands::server::{Misuse, interrupted};

/// How long a server may take to answer.
const PATIENCE: Duration = Duration::from_secs(3);
/// How often it is asked.
const ASK: Duration = Duration::from_millis(50);
/// From one look for signals to the next.
const LOOK_NS: u64 = 50_000_000;
/// How long what was sent may take to arrive, and the report to return.
const REPORT_PATIENCE: Duration = Duration::from_secs(10);

pub(super) fn run(args: &Args, address: &Address) -> anyhow::Result<Exit> {
    let signals = Signals::listen()?;
    let ends = args.open(address, Way::Transmit)?;
    let max_sdu = ends.outgoing.transmit_max_sdu();
    let max_sdu = usize::from(max_sdu.ok_or(Error::DoesNotSend)?);
    let length = args.length.unwrap_or(max_sdu);
    if max_sdu < SHORT || !(HEADER..=max_sdu).contains(&length) {
        let text = format!(
            "SDUs of {length} octets: at least {HEADER}, at most the contract's max_sdu, which is \
             {max_sdu} and must be {SHORT} or more"
        );
        return Err(Misuse(text).into());
    }
    let run = now_ns().rotate_left(20) ^ u64::from(std::process::id());
    let test = Test {
        run,
        address: ends.outgoing.address(),
        contract: ends.outgoing.contract(),
        length,
        time: args.time,
        bit_s: args.bitrate,
    };
    let mut admin = args.server.admin()?;
    let interface = test.address.interface.as_deref();
    let adapter = admin.adapter_of(interface)?;
    let gap_ns = adapter.gap_admitted_ns;
    let before = Seen::new(adapter);
    let mut all = admin.list()?.into_iter();
    let info = all.find(|info| info.address == test.address);
    let promise = info.and_then(|info| Promise::of(&info, length, args.bitrate, gap_ns));
    begin(&ends, &signals, run).with_context(|| format!("{address}"))?;
    if !args.server.json {
        print(&report::heading(&test))?;
    }
    let (spans, sent) = send(args, &ends.outgoing, &signals, &test)?;
    let received = end(&ends, &signals, run, &sent)?;
    ends.outgoing.close(PATIENCE)?;
    let verdict = promise.map(|promise| Verdict {
        promise,
        missed: promise.missed(&sent, &received),
        here: seen_at(&mut admin, interface, now_ns()).map(|seen| Standing::between(&before, seen)),
        there: received.adapter.clone(),
    });
    match args.server.json {
        true => {
            let mut json = report::json(&test, &spans, &sent, &received);
            json["contract"] = verdict.as_ref().map(Verdict::json).into();
            print_json_line(&json)?;
        }
        false => {
            let verdict = verdict.as_ref().map(Verdict::text);
            print(&(report::summary(&sent, &received) + &verdict.unwrap_or_default()))?;
        }
    }
    let is_missed = verdict.is_some_and(|verdict| verdict.missed.is_some());
    Ok(match is_missed || received.pdus < sent.pdus {
        true => Exit::Failed,
        false => Exit::Ok,
    })
}

/// Asks until the server is ready.
fn begin(ends: &Ends, signals: &Signals, run: u64) -> anyhow::Result<()> {
    let header = Header {
        kind: Kind::Begin,
        run,
        sequence: 0,
        time_ns: now_ns(),
    };
    let pdu = header.with(machine());
    let asked = ask(ends, signals, &pdu, Kind::Ready, run, PATIENCE)?;
    asked.map(|_| ()).ok_or_else(|| {
        anyhow!(
            "no perf server answers. Start `cellgate perf -s` at the other end, with the same \
             contract; `cellgate itf show` tells whether the link is up"
        )
    })
}

/// Sends `pdu` again and again until a PDU of `kind` returns; none: not in `patience`.
fn ask(
    ends: &Ends,
    signals: &Signals,
    pdu: &[u8],
    kind: Kind,
    run: u64,
    patience: Duration,
) -> anyhow::Result<Option<Vec<u8>>> {
    let until = now_ns() + patience.as_nanos() as u64;
    while now_ns() < until {
        if interrupted(signals, None, Duration::ZERO) {
            bail!("interrupted while the server was asked");
        }
        match ends.outgoing.send_timeout(pdu, ASK) {
            Ok(()) | Err(Error::TimedOut) => {}
            Err(error) => return Err(error.into()),
        }
        match ends.incoming.next_pdu_timeout(ASK) {
            Err(Error::TimedOut) => {}
            Err(error) => return Err(error.into()),
            Ok(answer) => match Header::read(&answer) {
                Some(header) if header.kind == kind && header.run == run => {
                    return Ok(Some(answer[HEADER..].to_vec()));
                }
                _ => {}
            },
        }
    }
    Ok(None)
}

/// What was sent, by interval and in all.
fn send(
    args: &Args,
    outgoing: &Connection,
    signals: &Signals,
    test: &Test,
) -> anyhow::Result<(Vec<Span>, Span)> {
    let began = now_ns();
    let mut end_ns = began + args.time.as_nanos() as u64;
    let interval_ns = args.interval.as_nanos() as u64;
    let mut spans = Vec::new();
    let mut all = Span::at(0);
    let mut span = Span::at(0);
    let mut next_look = began;
    let mut growth = args.grow.then(Growth::default);
    loop {
        if let Some(growth) = &mut growth {
            growth.look(outgoing)?;
        }
        let now = now_ns();
        if now >= next_look {
            next_look = now + LOOK_NS;
            if interrupted(signals, None, Duration::ZERO) {
                // What was measured until here is the result.
                end_ns = now;
            }
        }
        let interval_end = (began + span.start_ns + interval_ns).min(end_ns);
        if now >= interval_end {
            span.end_ns = now - began;
            if !args.server.json {
                print(&report::line(&span))?;
            }
            let next = Span::at(span.end_ns);
            spans.push(std::mem::replace(&mut span, next));
            if now >= end_ns {
                break;
            }
            continue;
        }
        let due = began + due_ns(all.octets, args.bitrate);
        if due > now {
            sleep(Duration::from_nanos(
                (due.min(interval_end) - now).min(LOOK_NS),
            ));
            continue;
        }
        let patience = Duration::from_nanos((interval_end - now).min(LOOK_NS));
        let mut space = match outgoing.reserve_timeout(test.length, patience) {
            Ok(space) => space,
            Err(Error::TimedOut) => continue,
            Err(error) => return Err(error.into()),
        };
        let header = Header {
            kind: Kind::Data,
            run: test.run,
            sequence: all.pdus,
            time_ns: now_ns(),
        };
        header.write(&mut space);
        space.submit()?;
        for span in [&mut span, &mut all] {
            span.pdus += 1;
            span.octets += test.length as u64;
        }
    }
    all.end_ns = now_ns() - began;
    Ok((spans, all))
}

/// When so many octets have been sent at this rate.
fn due_ns(octets: u64, bit_s: Option<u64>) -> u64 {
    let Some(bit_s) = bit_s.filter(|bit_s| *bit_s > 0) else {
        return 0;
    };
    let ns = u128::from(octets) * 8_000_000_000 / u128::from(bit_s);
    u64::try_from(ns).unwrap_or(u64::MAX)
}

fn end(ends: &Ends, signals: &Signals, run: u64, sent: &Span) -> anyhow::Result<Received> {
    let header = Header {
        kind: Kind::End,
        run,
        sequence: sent.pdus,
        time_ns: now_ns(),
    };
    let pdu = header.with(sent.octets);
    let asked = ask(ends, signals, &pdu, Kind::Report, run, REPORT_PATIENCE)?;
    let Some(report) = asked else {
        bail!("the server's report did not return: is it still there, and the link up?");
    };
    serde_json::from_slice(&report).context("the server's report")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bitrate_says_when_each_sdu_is_due() {
        assert_eq!(due_ns(1_000, None), 0);
        assert_eq!(due_ns(1_000, Some(0)), 0);
        assert_eq!(due_ns(0, Some(1)), 0);
        assert_eq!(due_ns(2_500_000, Some(20_000_000)), 1_000_000_000);
        assert_eq!(due_ns(u64::MAX, Some(1)), u64::MAX);
    }
}
