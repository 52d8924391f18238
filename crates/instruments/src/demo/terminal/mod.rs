//! `cellgate demo --terminal`: a file and a video over one line with bit errors; the receiver of
//! the file is killed on the way.

mod file;
#[cfg(feature = "page")]
mod page;
mod video;

use std::fs;
use std::io;
#[cfg(feature = "page")]
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

#[cfg(feature = "page")]
use cellgate_host::sys::{Heard, Signals};
use cellgate_report::grouped;
use cellgate_report::output::{Exit, wrapped};
use serde::Serialize;
#[cfg(feature = "page")]
use serde_json::json;

use super::live::Canvas;
use crate::live::daemon::Daemon;
use crate::live::verdict::{Verdict, Voice};
use file::{FileReport, Told, Transfer};
#[cfg(feature = "page")]
use page::Page;
use video::{Stream, VideoReport};

/// Bits that errors hit, of 10^6.
const ERRORS: f64 = 0.3;
/// The line that both share.
const LINE: &str = "ber 3e-7 delay 5ms seed 7";
/// How long nobody receives the file.
const PAUSE: Duration = Duration::from_millis(300);
/// From one look at the video to the next.
const LOOK: Duration = Duration::from_millis(100);

/// A row of the table.
type Line = (&'static str, String);

/// The result.
#[derive(Debug, Serialize)]
struct Report {
    #[serde(flatten)]
    file: FileReport,
    video: VideoReport,
    verdict: String,
}

/// A directory that goes with the demo.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs it.
///
/// # Errors
/// A process does not start, or ends before its time.
pub(super) fn run(voice: Voice) -> anyhow::Result<Exit> {
    let place = Place::new()?;
    voice.say(&introduction())?;
    let mut screen = Screen::new(voice);
    let (report, verdict) = round(&place, &mut screen)?;
    voice.end(&report, &verdict)
}

/// Runs it in a browser, again and again until it is interrupted; then says how the worst went.
///
/// # Errors
/// As [`run`]; others reach the address, or somebody listens there.
#[cfg(feature = "page")]
pub(super) fn shown(voice: Voice, address: SocketAddr) -> anyhow::Result<Exit> {
    let listener = page::listen(address)?;
    let signals = Signals::listen()?;
    let place = Place::new()?;
    let mut screen = Screen::new(voice);
    let page = Page::open(listener, place.daemon.socket())?;
    voice.say(&introduction())?;
    let address = page.address();
    voice.say(&format!("open http://{address}/; end with Ctrl-C\n"))?;
    screen.page = Some(page);
    let mut worst: Option<(Report, Verdict)> = None;
    loop {
        let ended = round(&place, &mut screen);
        let is_over = signals.heard().iter().any(|heard| *heard != Heard::Child);
        match ended {
            Ok(ended) => {
                voice.say(&format!("\n{}\n", wrapped("", &ended.1.text())))?;
                let is_bad = |worst: &(Report, Verdict)| !matches!(worst.1, Verdict::Pass(_));
                if !worst.as_ref().is_some_and(is_bad) {
                    worst = Some(ended);
                }
            }
            // Ctrl-C has ended the others, too.
            Err(_) if is_over => {}
            Err(error) => return Err(error),
        }
        if is_over {
            break;
        }
    }
    match worst {
        Some((report, verdict)) => voice.end(&report, &verdict),
        None => {
            let verdict = Verdict::Void("it has ended before the file was there.".to_owned());
            voice.end(&json!({ "verdict": verdict.text() }), &verdict)
        }
    }
}

/// Where it takes place.
struct Place {
    daemon: Daemon,
    scratch: Scratch,
}

impl Place {
    fn new() -> anyhow::Result<Self> {
        let name = format!("cellgate-demo-{}", std::process::id());
        let scratch = Scratch(std::env::temp_dir().join(name));
        fs::create_dir_all(&scratch.0)?;
        let config = format!(
            "[adapter]\nidle = \"adaptive\"\n\
             [[interface]]\nname = \"a\"\nlink.memory.peer = \"b\"\n\
             [[interface]]\nname = \"b\"\nlink.memory.peer = \"a\"\nline = \"{LINE}\"\n{}",
            video::config()
        );
        let daemon = Daemon::start(&config, io::sink())?;
        Ok(Self { daemon, scratch })
    }
}

/// A file and a video, once.
fn round(place: &Place, screen: &mut Screen) -> anyhow::Result<(Report, Verdict)> {
    let mut stage = Stage {
        begun: Instant::now(),
        stream: Stream::begin(&place.daemon)?,
        screen,
    };
    let mut transfer = Transfer::begin(&place.daemon, &place.scratch.0)?;
    let file = stage.file(&mut transfer)?;
    stage.video()?;
    let video = stage.stream.report(&place.daemon)?;
    screen.voice.say(&table(&file, &video))?;
    let verdict = verdict(&file, &video);
    let report = Report {
        file,
        video,
        verdict: verdict.text(),
    };
    Ok((report, verdict))
}

fn introduction() -> String {
    format!(
        "a file of {} octets, over AAL5 at {} cells/s, and a video of {} Mbit/s\n\
         from a camera whose clock is {} ppm fast; they share a line that is 5 ms long\n\
         and damages 3 bits of 10^7\n\n",
        grouped(file::FILE),
        grouped(file::RATE),
        video::BIT_S / 1_000_000,
        video::PPM,
    )
}

/// Where it is shown.
struct Screen {
    voice: Voice,
    canvas: Option<Canvas>,
    #[cfg(feature = "page")]
    page: Option<Page>,
}

impl Screen {
    fn new(voice: Voice) -> Self {
        Self {
            voice,
            canvas: Canvas::on_terminal(),
            #[cfg(feature = "page")]
            page: None,
        }
    }

    /// Shows how far both are.
    fn draw(&mut self, file: &str, video: &str) {
        if let Some(canvas) = &mut self.canvas {
            canvas.draw(&(wrapped("file   ", file) + &wrapped("video  ", video)));
        }
        #[cfg(feature = "page")]
        if let Some(page) = &self.page {
            page.tell(file, video);
        }
    }
}

/// What is on its way.
struct Stage<'s> {
    begun: Instant,
    stream: Stream,
    screen: &'s mut Screen,
}

impl Stage<'_> {
    /// Until the file is there.
    fn file(&mut self, transfer: &mut Transfer<'_>) -> anyhow::Result<FileReport> {
        let begun = Instant::now();
        loop {
            match transfer.next()? {
                Told::Far(words) => self.screen.draw(&words, &self.stream.told()),
                Told::Kill(sent) => {
                    transfer.kill();
                    let sent = grouped(sent);
                    self.say(&format!("{sent} octets were sent; its receiver is killed"))?;
                    std::thread::sleep(PAUSE);
                    transfer.go_on()?;
                    self.say("another receiver is there")?;
                }
                Told::Done => break,
            }
        }
        self.say("the file is there")?;
        transfer.report(begun.elapsed())
    }

    /// Until the video has been shown.
    fn video(&mut self) -> anyhow::Result<()> {
        while !self.stream.is_over()? {
            self.screen.draw("it is there", &self.stream.told());
            std::thread::sleep(LOOK);
        }
        self.say("the video has been shown")
    }

    fn say(&mut self, what: &str) -> anyhow::Result<()> {
        self.screen.canvas.iter_mut().for_each(Canvas::clear);
        let at = self.begun.elapsed().as_secs_f64();
        self.screen.voice.say(&format!("{at:6.1} s  {what}\n"))
    }
}

fn table(file: &FileReport, video: &VideoReport) -> String {
    let parts = [
        ("the file", file.rows()),
        ("the video", video.rows()),
        ("the line", video.line_rows()),
    ];
    let parts = parts.map(|(title, rows)| {
        let rows = rows.into_iter();
        let rows = rows.map(|(what, number)| format!("  {what:31}{number:>18}\n"));
        format!("\n{title}\n{}", rows.collect::<String>())
    });
    parts.concat()
}

fn verdict(file: &FileReport, video: &VideoReport) -> Verdict {
    let rules = file.rules().into_iter().chain(video.rules());
    if let Some((_, broken)) = rules.into_iter().find(|(holds, _)| !holds) {
        return Verdict::Fail(broken.to_owned());
    }
    if let Some(disturbed) = video.disturbed() {
        return Verdict::Void(format!("the machine was too busy: {disturbed}."));
    }
    Verdict::Pass(format!(
        "the file arrived, every octet right, over a line that lost {} of {} PDUs, and by a \
         receiver that went on where a killed one had been. Until it was whole nobody saw it. \
         Beside it no frame of the video was late, and the {} packets that it lost are those of \
         the cells that the line has damaged.",
        grouped(file.pdus_lost),
        grouped(file.pdus),
        grouped(video.packets_lost()),
    ))
}
