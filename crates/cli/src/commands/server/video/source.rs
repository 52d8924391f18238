//! What is sent: a file, a pipe, a socket, or the stand-in of a camera.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use cellgate_core::Time;
use cellgate_core::terminal::video::{Camera, CameraTerms, Pace, Sending};
use cellgate_core::wire::TS_LEN;
use cellgate_report::bitrate;
use rustix::net::sockopt::set_socket_recv_buffer_size;

/// Octets that a socket is asked to hold. A camera's large picture may come at once, and is more
/// than the kernel's own measure.
const HOLDS: usize = 4 << 20;

/// What a source is called.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Named {
    File(PathBuf),
    Udp(SocketAddr),
    Camera { fps: u32, bit_s: u64, ppm: i32 },
}

impl std::str::FromStr for Named {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(address) = text.strip_prefix("udp:") {
            return socket(address).map(Self::Udp);
        }
        if text == "test" || text.starts_with("test:") {
            return camera(text.strip_prefix("test:").unwrap_or_default());
        }
        Ok(Self::File(text.into()))
    }
}

pub(super) fn socket(address: &str) -> Result<SocketAddr, String> {
    let wrong = || format!("`{address}` is no socket; expected ADDRESS:PORT, as 127.0.0.1:5004");
    address.parse().map_err(|_| wrong())
}

/// `FPS,BIT_S,PPM`, of which the last can be left out.
fn camera(text: &str) -> Result<Named, String> {
    let mut words = text.split(',').filter(|word| !word.is_empty());
    let fps = words.next().unwrap_or("25").parse().ok();
    let fps = fps.filter(|fps| (1..=1_000).contains(fps));
    let fps = fps.ok_or("expected 1 to 1000 frames a second, as test:25,8M,0")?;
    let bit_s = bitrate::bit_s(words.next().unwrap_or("8M"))?;
    let ppm = words.next().unwrap_or("0").parse().ok();
    let ppm = ppm.filter(|ppm| (-1_000..=1_000).contains(ppm));
    let ppm = ppm.ok_or("expected a clock wrong by -1000 to 1000 ppm, as test:25,8M,-100")?;
    match words.next() {
        Some(word) => Err(format!("`{word}` is too much; expected test:FPS,BIT_S,PPM")),
        None => Ok(Named::Camera { fps, bit_s, ppm }),
    }
}

/// A source that is open.
pub(super) enum Source {
    /// A file, which is read ahead: its clock references say when packets leave.
    File(File),
    /// A pipe or a device, from which packets leave as they come.
    Pipe(File),
    Udp(UdpSocket),
    Camera(Box<Camera>),
}

impl Source {
    pub(super) fn open(
        named: &Named,
        pack: usize,
        time: Option<Duration>,
        now: Time,
    ) -> anyhow::Result<Self> {
        Ok(match *named {
            Named::File(ref path) => {
                let name = path.display().to_string();
                let file = match path.as_os_str() == "-" {
                    true => io::stdin().as_fd().try_clone_to_owned().map(File::from),
                    false => File::open(path),
                };
                let file = file.with_context(|| name.clone())?;
                match file.metadata().with_context(|| name)?.is_file() {
                    true => Self::File(file),
                    false => Self::Pipe(file),
                }
            }
            Named::Udp(address) => {
                let socket = UdpSocket::bind(address);
                let socket = socket.with_context(|| format!("listening on udp:{address}"))?;
                // As much as the system's limit has; with less it works as well, for most.
                let _ = set_socket_recv_buffer_size(&socket, HOLDS);
                socket.set_nonblocking(true)?;
                Self::Udp(socket)
            }
            Named::Camera { fps, bit_s, ppm } => {
                let frames = time.map(|time| time.as_nanos() * u128::from(fps) / 1_000_000_000);
                Self::Camera(Box::new(Camera::new(
                    now,
                    CameraTerms {
                        fps,
                        bit_s,
                        ppm,
                        pack,
                        frames: frames.map(|frames| frames as u64),
                    },
                )))
            }
        })
    }

    pub(super) fn pace(&self) -> Pace {
        match self {
            Self::File(_) => Pace::References,
            _ => Pace::Source,
        }
    }

    /// What tells that there is more, of a source that is waited for.
    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Pipe(file) => Some(file.as_fd()),
            Self::Udp(socket) => Some(socket.as_fd()),
            Self::File(_) | Self::Camera(_) => None,
        }
    }

    /// When there is more, of a source that has a clock.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        match self {
            Self::Camera(camera) => camera.next_deadline(),
            _ => None,
        }
    }

    /// Hands over what there is: once from a source that is waited for, and else as much as is
    /// wanted. Whether it goes on.
    pub(super) fn feed(
        &mut self,
        now: Time,
        readable: bool,
        buffer: &mut [u8],
        to: &mut Sending,
    ) -> io::Result<bool> {
        match self {
            Self::File(file) => {
                while to.wants() {
                    let most = buffer.len().min(64 * TS_LEN);
                    match read(file, &mut buffer[..most])? {
                        0 => return Ok(false),
                        len => to.handle(now, &buffer[..len]),
                    }
                }
            }
            Self::Pipe(file) if readable && to.wants() => match read(file, buffer)? {
                0 => return Ok(false),
                len => to.handle(now, &buffer[..len]),
            },
            Self::Udp(socket) if readable => match socket.recv(buffer) {
                Ok(len) => to.handle(now, &buffer[..len]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            },
            Self::Camera(camera) => {
                while to.wants()
                    && let Some(made) = camera.next_deadline()
                    && let Some(packet) = camera.poll(now)
                {
                    to.handle(made, &packet);
                }
                return Ok(camera.next_deadline().is_some());
            }
            Self::Pipe(_) | Self::Udp(_) => {}
        }
        Ok(true)
    }
}

fn read(file: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match file.read(buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_files_sockets_and_cameras() {
        let of = |text: &str| text.parse::<Named>();
        let camera = |fps, bit_s, ppm| Ok(Named::Camera { fps, bit_s, ppm });
        assert_eq!(of("test"), camera(25, 8_000_000, 0));
        assert_eq!(of("test:50"), camera(50, 8_000_000, 0));
        assert_eq!(of("test:30,2.5M,-100"), camera(30, 2_500_000, -100));
        assert_eq!(of("film.ts"), Ok(Named::File("film.ts".into())));
        let address = "[::1]:5004".parse().unwrap();
        assert_eq!(of("udp:[::1]:5004"), Ok(Named::Udp(address)));
        for text in [
            "udp:",
            "udp:5004",
            "test:0",
            "test:25,fast",
            "test:25,8M,9999",
            "test:25,8M,0,0",
        ] {
            assert!(of(text).is_err(), "{text}");
        }
    }
}
