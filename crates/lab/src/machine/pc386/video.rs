use cellgate_core::Time;
use cellgate_core::contract::aal5_cells;
use cellgate_core::terminal::video::{
    Camera, CameraTerms, Display, DisplayCounts, OnLoss, PACK, Pace, Playout, PlayoutTerms,
    Recovery, Sending, SendingTerms,
};
use cellgate_core::wire::TS_LEN;

use super::costs::span;
use super::other_work::OtherWork;
use super::pair::{Pair, PairConfig, PairCounts, PairError};
use crate::world::Ps;

/// A terminal with a camera, and with a file if there is one, whose processor has other work.
#[derive(Clone, Copy, Debug)]
pub struct VideoConfig {
    pub camera: CameraTerms,
    /// The file's transfer. Its costs, its line and its stack are the video's, too, but for the
    /// video's AAL, which is AAL5.
    pub file: PairConfig,
    /// Whether the file is sent.
    pub with_file: bool,
    pub other: OtherWork,
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct VideoCounts {
    pub file: PairCounts,
    camera: CameraTerms,
    /// When the camera began.
    pub begun: Ps,
    arrivals: Arrivals,
}

/// The PDUs of a video as they arrive.
type Arrivals = Vec<(Time, u8, Vec<u8>)>;

/// Runs a terminal for `span`. The video comes before the file: its frames are due. What receives
/// has a processor of its own, which is never busy.
///
/// # Errors
/// As [`Pair::run`].
pub fn video(config: &VideoConfig, length: Ps) -> Result<VideoCounts, PairError> {
    let mut terminal = Terminal::new(config)?;
    let before = terminal.pair.now()?;
    let begin = terminal.pair.pcs[0].board.at;
    while terminal.pair.pcs[0].board.at.since(begin) < length {
        terminal.turn();
    }
    let passed = terminal.pair.pcs[0].board.at.since(begin);
    let file = terminal.pair.now()?.since(&before, passed);
    Ok(VideoCounts {
        file,
        camera: config.camera,
        begun: begin,
        arrivals: terminal.arrivals,
    })
}

struct Terminal<'c> {
    config: &'c VideoConfig,
    pair: Pair,
    camera: Camera,
    sending: Sending,
    arrivals: Arrivals,
    sdu: Vec<u8>,
}

impl<'c> Terminal<'c> {
    fn new(config: &'c VideoConfig) -> Result<Self, PairError> {
        let pair = Pair::new(config.file)?;
        let terms = SendingTerms {
            pack: PACK,
            pcr_aware: false,
            numbered: true,
            pace: Pace::Source,
        };
        Ok(Self {
            config,
            camera: Camera::new(pair.pcs[0].board.at.time(), config.camera),
            sending: Sending::new(terms),
            arrivals: Vec::new(),
            sdu: Vec::new(),
            pair,
        })
    }

    /// The terminal does a step of the video, else of the file; or what receives the file does one.
    fn turn(&mut self) {
        if self.pair.pcs[1].board.at < self.pair.pcs[0].board.at {
            if let Some(next) = self.pair.works(1) {
                let board = &mut self.pair.pcs[1].board;
                board.at = board.at.max(next);
            }
            return;
        }
        let at = self.config.other.done(self.pair.pcs[0].board.at, Ps::ZERO);
        self.pair.pcs[0].board.at = at;
        let now = at.time();
        while let Some(packet) = self.camera.poll(now) {
            self.sending.handle(now, &packet);
        }
        if let Some(uu) = self.sending.poll(now, &mut self.sdu) {
            return self.sends(at, uu);
        }
        let next = [self.camera.next_deadline(), self.sending.next_deadline()];
        let next = next.into_iter().flatten().min();
        let next = next.map_or(Ps::MAX, |next| Ps::from_ns(next.ns()));
        if !self.config.with_file {
            self.pair.pcs[0].board.at = next.max(at.plus(Ps::new(1)));
            self.pair.pcs[1].board.at = self.pair.pcs[0].board.at;
            return;
        }
        let idle = self.pair.works(0);
        let board = &mut self.pair.pcs[0].board;
        board.at = self.config.other.done(at, board.at.since(at));
        if let Some(idle) = idle {
            board.at = board.at.max(idle.min(next));
        }
    }

    /// The terminal makes the cells of a PDU, and the line carries them.
    fn sends(&mut self, at: Ps, uu: u8) {
        let cells = u64::from(aal5_cells(self.sdu.len() as u32));
        let costs = &self.config.file.costs;
        let work = span(costs.cell, cells).plus(span(costs.pdu, 1));
        let made = self.config.other.done(at, work);
        let time = self.pair.time_of(cells);
        let pc = &mut self.pair.pcs[0];
        pc.board.at = made;
        pc.begun = pc.free.max(made);
        pc.free = pc.begun.plus(time);
        let arrival = pc.free.time();
        self.arrivals.push((arrival, uu, self.sdu.clone()));
    }
}

impl VideoCounts {
    /// What a display makes of it behind a playout buffer of so many ns.
    pub fn displayed(&self, latency_ns: u64) -> DisplayCounts {
        let camera = &self.camera;
        let mut playout = Playout::new(PlayoutTerms {
            latency_ns,
            bursts_ns: 0,
            recovery: Recovery::Off,
            on_loss: OnLoss::Drop,
            pack: PACK as u32,
            numbered: true,
            packets_max: (camera.bit_s / 8) as usize / TS_LEN * 10 + 1_000,
        });
        let mut display = Display::new(camera.fps);
        let mut present = Time::ZERO;
        for (arrival, uu, sdu) in &self.arrivals {
            show(&mut playout, &mut display, present, Some(*arrival));
            present = *arrival;
            playout.handle(present, *uu, sdu);
        }
        show(&mut playout, &mut display, present, None);
        display.end()
    }
}

/// Shows all that is due before `until`. What was due before it came is shown at present.
fn show(playout: &mut Playout, display: &mut Display, present: Time, until: Option<Time>) {
    while let Some(due) = playout.next_deadline() {
        let now = due.max(present);
        if until.is_some_and(|until| now >= until) {
            return;
        }
        while let Some(released) = playout.poll(now) {
            display.handle(now, released.due, &released.packet);
        }
    }
}
