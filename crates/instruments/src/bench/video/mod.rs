//! `cellgate bench video`: a camera's stream from one host to another over a line with bit errors,
//! by our programs and by those that people take instead.

mod carriers;

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, anyhow, ensure};
use cellgate_core::terminal::video::{Camera, CameraTerms, Display, DisplayCounts, Shot};
use cellgate_core::wire::TS_LEN;
use cellgate_host::clock::MonotonicClock;
use cellgate_host::sys::{Heard, Signals};
use cellgate_report::output::Exit;
use rustix::net::sockopt::set_socket_recv_buffer_size_force;
use rustix::process::geteuid;

use super::measure::calibration;
use super::report::Report;
use super::site::{End, Site, start};
use crate::live::spread::{Spread, at_rank};
use carriers::{CAMERA, Carrier, DISPLAY_PORT, HOLDS, LATENCY_MS, MTU};

/// Carry a camera's stream over one line in turns, beside plain UDP, SRT and GStreamer's RTP
///
/// Needs root, for network namespaces; programs that are not there are left out.
#[derive(clap::Args)]
#[group(skip)]
pub(super) struct Args {
    #[command(flatten)]
    shared: super::Args,
    /// Bit error ratios of the line, each in turn
    #[arg(long, value_name = "BER", default_values = ["0", "1e-7", "1e-6"])]
    ber: Vec<String>,
    /// Seconds of film
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 60,
        value_parser = clap::value_parser!(u64).range(1..=3_600)
    )]
    seconds: u64,
    /// Times that each takes its turn
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: usize,
}

/// Cells per second of the line, and the peak rate of the connection over it.
const RATE: u32 = 353_207;
const CONTRACT: u32 = 350_000;
const FPS: u32 = 25;
const BIT_S: u64 = 8_000_000;
/// The camera's clock is that much faster than the display's.
const PPM: i32 = 100;
/// Transport packets of a datagram, as everybody has them.
const PER_DATAGRAM: usize = 7;
/// Programs are ready by then, and packets have arrived.
const READY: Duration = Duration::from_secs(2);
/// Frames before those that are judged, and behind them: whoever recovers a clock has begun, and
/// whoever waits for more to come has it.
const ASIDE: u64 = FPS as u64;

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    ensure!(
        geteuid().is_root(),
        "network namespaces need root: run it by sudo"
    );
    let quick = args.shared.quick;
    let mut report = Report::new("video", quick);
    let signals = Signals::listen()?;
    let mut carriers = Vec::new();
    for carrier in Carrier::ALL {
        match carrier.program().filter(|path| !path.exists()) {
            None => carriers.push(carrier),
            Some(path) => report.note(format!(
                "{}: left out, there is no {}",
                carrier.name(),
                path.display()
            )),
        }
    }
    let bit_errors: Vec<_> = match quick {
        true => args.ber.last().into_iter().collect(),
        false => args.ber.iter().collect(),
    };
    let (seconds, rounds) = match quick {
        true => (args.seconds.min(4), 1),
        false => (args.seconds, args.rounds.max(1)),
    };
    for ber in bit_errors {
        let errors = match &**ber {
            "0" => String::new(),
            ber => format!(" ber {ber} seed 7"),
        };
        let line = format!("line = \"rate {RATE} queue 20000 delay 10ms jitter 2ms{errors}\"");
        let site = Site::new(&line, Some(CONTRACT), &std::env::temp_dir())?;
        let mut all: Vec<_> = carriers.iter().map(|one| (*one, Vec::new())).collect();
        for round in 0..rounds {
            report.calibrations.push(calibration());
            for (carrier, films) in &mut all {
                let is_ended = signals.heard().contains(&Heard::End);
                ensure!(!is_ended, "interrupted");
                let shown = carrier.name();
                eprintln!("round {} of {rounds}: {shown}, BER {ber}", round + 1);
                films.push(film(*carrier, &site, seconds).context(shown)?);
            }
        }
        for (carrier, films) in &all {
            row(
                &mut report,
                &format!("BER {ber}: {}", carrier.name()),
                films,
            );
        }
    }
    report.note(format!(
        "{FPS} frames a second at {} Mbit/s from a camera whose clock is {PPM} ppm fast, over a \
         line of 10 to 12 ms; receivers play {LATENCY_MS} ms behind, plain UDP at once; a second \
         of film at each end is not judged. right: frames that were whole two frame times after \
         their first packet; delay: of a frame's first packet, from the camera to the display; \
         PDV: its 99th percentile less its 1st; drift: by how much the delay of the last tenth is \
         longer than that of the first. SRT sends again what is lost; the others do not",
        BIT_S / 1_000_000
    ));
    report.finish(args.shared.json)
}

/// How one film has come.
struct Film {
    frames: u64,
    display: DisplayCounts,
    /// Of the first packet of each frame, in ms, as they came. A receiver that plays by clock
    /// references spreads the others until the next frame.
    delays: Vec<f64>,
}

impl Film {
    fn right(&self) -> f64 {
        self.display.on_time as f64 / self.frames as f64 * 100.0
    }

    fn pdv(&self) -> f64 {
        let mut sorted = self.delays.clone();
        sorted.sort_by(f64::total_cmp);
        at_rank(&sorted, 0.99) - at_rank(&sorted, 0.01)
    }

    fn drift(&self) -> f64 {
        let tenth = self.delays.len() / 10;
        let (first, last) = (&self.delays[..tenth], &self.delays[9 * tenth..]);
        let median = |delays: &[f64]| Spread::of(delays.to_vec()).median;
        median(last) - median(first)
    }
}

fn row(report: &mut Report, name: &str, films: &[Film]) {
    let of = |figure: &dyn Fn(&Film) -> f64| Spread::of(films.iter().map(figure).collect());
    let right = of(&Film::right);
    let delay = of(&|film| Spread::of(film.delays.clone()).median);
    let (pdv, drift) = (of(&Film::pdv), of(&Film::drift));
    report.row(
        name,
        &[
            ("right %", right.median),
            ("min", right.min),
            ("max", right.max),
            ("late", of(&|film| film.display.late as f64).median),
            ("delay ms", delay.median),
            ("PDV ms", pdv.median),
            ("PDV max", pdv.max),
            ("drift ms", drift.median),
        ],
    );
}

/// Carries a film once.
fn film(carrier: Carrier, site: &Site, seconds: u64) -> anyhow::Result<Film> {
    let _devices = match carrier {
        Carrier::Cells => None,
        _ => Some(site.devices(MTU, "cubic")?),
    };
    let east = match carrier {
        Carrier::Cells => UdpSocket::bind(("127.0.0.1", DISPLAY_PORT))?,
        _ => site.socket(End::East, &format!("0.0.0.0:{DISPLAY_PORT}"))?,
    };
    set_socket_recv_buffer_size_force(&east, HOLDS)?;
    let west = match carrier {
        Carrier::Cells => UdpSocket::bind("127.0.0.1:0")?,
        _ => site.socket(End::West, "0.0.0.0:0")?,
    };
    match carrier {
        Carrier::Udp => west.connect((End::East.address(MTU), DISPLAY_PORT))?,
        _ => west.connect(CAMERA)?,
    }
    let mut programs = Vec::new();
    for (mut command, said) in carrier
        .commands(site)?
        .into_iter()
        .zip(["receiver", "sender"])
    {
        programs.push(start(&mut command, &site.path(said))?);
        thread::sleep(READY);
    }
    for (program, said) in programs.iter_mut().zip(["receiver", "sender"]) {
        let ended = program.0.try_wait()?;
        let text = std::fs::read_to_string(site.path(said)).unwrap_or_default();
        ensure!(ended.is_none(), "the {said} ended: {}", text.trim());
    }
    let frames = seconds * u64::from(FPS);
    let judged = ASIDE..ASIDE + frames;
    let over = AtomicBool::new(false);
    let (display, delays) = thread::scope(|scope| {
        let display = scope.spawn(|| watch(&east, &judged, &over));
        let sent = send(&west, judged.end + ASIDE);
        thread::sleep(READY);
        over.store(true, Ordering::Relaxed);
        let seen = display.join().map_err(|_| anyhow!("a thread panicked"));
        sent.and_then(|()| seen?)
    })?;
    Ok(Film {
        frames,
        display,
        delays,
    })
}

/// Sends so many frames, each when it is made.
fn send(socket: &UdpSocket, frames: u64) -> anyhow::Result<()> {
    let terms = CameraTerms {
        fps: FPS,
        bit_s: BIT_S,
        ppm: PPM,
        pack: PER_DATAGRAM,
        frames: Some(frames),
    };
    let mut camera = Camera::new(MonotonicClock.now(), terms);
    let mut datagram = Vec::new();
    while let Some(due) = camera.next_deadline() {
        let wait = due.since_ns(MonotonicClock.now());
        thread::sleep(Duration::from_nanos(wait));
        while let Some(packet) = camera.poll(MonotonicClock.now()) {
            datagram.extend(packet);
            if datagram.len() == PER_DATAGRAM * TS_LEN {
                match socket.send(&datagram) {
                    // Whoever listens has not yet begun, or is full.
                    Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
                    sent => drop(sent?),
                }
                datagram.clear();
            }
        }
    }
    Ok(())
}

/// Shows what comes of the frames that are `judged`, until it is `over`.
fn watch(
    socket: &UdpSocket,
    judged: &Range<u64>,
    over: &AtomicBool,
) -> anyhow::Result<(DisplayCounts, Vec<f64>)> {
    socket.set_read_timeout(Some(Duration::from_millis(100)))?;
    let (mut display, mut delays) = (Display::new(FPS), Vec::new());
    let mut datagram = [0; 1 << 16];
    while !over.load(Ordering::Relaxed) {
        let len = match socket.recv(&mut datagram) {
            Ok(len) => len,
            Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error.into()),
        };
        let now = MonotonicClock.now();
        for packet in datagram[..len].as_chunks::<TS_LEN>().0 {
            let shot = Shot::parse(packet).filter(|shot| judged.contains(&shot.frame));
            let Some(shot) = shot else { continue };
            display.handle(now, now, packet);
            if shot.index == 0 {
                delays.push(now.since_ns(shot.stamp) as f64 / 1e6);
            }
        }
    }
    Ok((display.end(), delays))
}
