//! Carriers of a stream from west to east: our programs, and those that people take. Each reads
//! datagrams of transport packets at a port in the west, and writes such to one in the east.

use std::path::Path;
use std::process::Command;

use crate::bench::site::{End, MTUS, Site};

/// How far behind the camera a receiver plays, in milliseconds: the same for all that ask.
pub(super) const LATENCY_MS: u32 = 200;
/// Where a camera sends to, in the west.
pub(super) const CAMERA: &str = "127.0.0.1:5004";
/// Where a display listens, in the east.
pub(super) const DISPLAY_PORT: u16 = 5_006;
/// Where what goes over the line is expected.
const LINE_PORT: u16 = 5_008;
/// Octets that each socket is asked to hold: a large picture leaves its camera at once, in 117
/// datagrams, and the kernel's own measure ends at 92 of them.
pub(super) const HOLDS: usize = 4 << 20;
/// Ethernet's.
pub(super) const MTU: u32 = MTUS[0];

const SRT: &str = "/usr/bin/srt-live-transmit";
const GSTREAMER: &str = "/usr/bin/gst-launch-1.0";

/// Someone who carries a stream.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Carrier {
    /// `stream send` and `stream recv`, over cells.
    Cells,
    /// Nobody: the camera's datagrams go to the display.
    Udp,
    /// SRT, which asks again for what is lost.
    Srt,
    /// RTP, and GStreamer's jitter buffer.
    Rtp,
}

impl Carrier {
    pub(super) const ALL: [Self; 4] = [Self::Cells, Self::Udp, Self::Srt, Self::Rtp];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Cells => "cellgate stream",
            Self::Udp => "plain UDP",
            Self::Srt => "srt-live-transmit",
            Self::Rtp => "GStreamer rtpjitterbuffer",
        }
    }

    /// The program that it needs, beside this one.
    pub(super) fn program(self) -> Option<&'static Path> {
        match self {
            Self::Cells | Self::Udp => None,
            Self::Srt => Some(Path::new(SRT)),
            Self::Rtp => Some(Path::new(GSTREAMER)),
        }
    }

    /// The programs that receive and send.
    pub(super) fn commands(self, site: &Site) -> anyhow::Result<Vec<Command>> {
        let east = End::East.address(MTU);
        let output = format!("127.0.0.1:{DISPLAY_PORT}");
        let inside = |end, program: &str, words: &[&str]| {
            let mut command = site.inside(end, Path::new(program));
            command.args(words);
            command
        };
        Ok(match self {
            Self::Cells => {
                let latency = format!("{LATENCY_MS}ms");
                let mut receiver = site.terminal(End::East, &["stream", "recv"])?;
                receiver.args(["--latency", &latency, "--to", &format!("udp:{output}")]);
                let mut sender = site.terminal(End::West, &["stream", "send"])?;
                sender.arg(format!("udp:{CAMERA}"));
                vec![receiver, sender]
            }
            Self::Udp => Vec::new(),
            Self::Srt => {
                let from = format!("srt://:{LINE_PORT}?mode=listener&latency={LATENCY_MS}");
                let to = format!("srt://{east}:{LINE_PORT}?latency={LATENCY_MS}");
                let output = format!("udp://{output}");
                let from_camera = format!("udp://{CAMERA}?rcvbuf={HOLDS}");
                vec![
                    inside(End::East, SRT, &["-loglevel:fatal", &from, &output]),
                    inside(End::West, SRT, &["-loglevel:fatal", &from_camera, &to]),
                ]
            }
            Self::Rtp => {
                // A sink adds 20 ms of its own to the buffer's latency, unless it is told not to.
                let receive = format!(
                    "udpsrc port={LINE_PORT} buffer-size={HOLDS} \
                     caps=application/x-rtp,media=video,clock-rate=90000,\
                     encoding-name=MP2T,payload=33 ! rtpjitterbuffer latency={LATENCY_MS} ! \
                     rtpmp2tdepay ! udpsink host=127.0.0.1 port={DISPLAY_PORT} \
                     processing-deadline=0"
                );
                let (host, port) = CAMERA.split_once(':').unwrap_or_default();
                let send = format!(
                    "udpsrc address={host} port={port} buffer-size={HOLDS} \
                     caps=video/mpegts,systemstream=true,packetsize=188 ! rtpmp2tpay ! \
                     udpsink host={east} port={LINE_PORT} sync=false"
                );
                let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
                let launch = |end, text: &str| {
                    let mut command = inside(end, GSTREAMER, &["-q"]);
                    command.args(words(text));
                    command
                };
                vec![launch(End::East, &receive), launch(End::West, &send)]
            }
        })
    }
}
