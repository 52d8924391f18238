//! `cellgate send`: standard input or a file, as SDUs.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use cellgate::{Connection, Error};
use cellgate_core::contract::{Aal, TrafficContract};
use cellgate_report::output::{Exit, print_json_line};
use serde_json::json;

use super::Misuse;
use super::frame::{ENDS, Framer, HEADER, PAUSE};
use super::growth::Growth;
use super::transfer::Endpoint;

/// How long what was handed to the adapter may take to leave.
const LINGER: Duration = Duration::from_secs(30);

/// Send a file or standard input over a connection, one SDU for each block or line
///
/// The connection exists as long as the command runs. What is sent before somebody receives at the
/// other end is lost: start `cellgate recv` there first. With --json it is told at the end what was
/// sent.
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  $ echo hello | cellgate send --vc a.0.100 -
  $ cellgate send --verify --contract cbr,aal5:pcr=20Mbps film")]
pub(crate) struct Args {
    #[command(flatten)]
    endpoint: Endpoint,
    /// Octets of each SDU's payload [default: as many as the contract allows]
    #[arg(long, value_name = "N", conflicts_with = "line")]
    block: Option<usize>,
    /// Send each line, with its line feed, as an SDU
    #[arg(long)]
    line: bool,
    /// Number and check what is sent, for `recv --verify`
    #[arg(long)]
    verify: bool,
    /// Write as a stream without flow control: what finds no room is dropped, and counted, so that
    /// a source in real time never waits
    #[arg(long, conflicts_with = "verify")]
    stream: bool,
    /// Where the contract is refused for want of something, begin under what is offered instead,
    /// and take more as soon as there is
    #[arg(long)]
    grow: bool,
    /// What to send; -: standard input
    #[arg(default_value = "-")]
    file: PathBuf,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let name = args.file.display();
    let mut input = Input::open(&args.file).with_context(|| name.to_string())?;
    let connection = args.endpoint.transmit(args.grow)?;
    let max_sdu = connection.transmit_max_sdu();
    let max_sdu = usize::from(max_sdu.ok_or(cellgate::Error::DoesNotSend)?);
    let framer = args.verify.then(|| Framer::new(transfer_number()));
    let contract = connection.contract().parse::<TrafficContract>()?;
    if args.verify && contract.aal == Some(Aal::Aal0) {
        let text =
            "--verify: an SDU of AAL0 begins with its cell's header, not with what is checked";
        return Err(Misuse(text.to_owned()).into());
    }
    let room = max_sdu.saturating_sub(if args.verify { HEADER } else { 0 });
    let block = match args.block {
        _ if room == 0 => Err(format!(
            "SDUs of {max_sdu} octets have no room for --verify"
        )),
        Some(0) => Err("--block 0: an SDU of 0 octets cannot be sent".to_owned()),
        Some(block) if block > room => Err(format!(
            "--block {block}: the contract has room for {room}; give more by max_sdu="
        )),
        block => Ok(block.unwrap_or(room)),
    };
    let block = block.map_err(Misuse)?;
    let address = connection.address();
    let mut sender = Sender {
        connection,
        growth: args.grow.then(Growth::default),
        framer,
        drops: args.stream.then_some(0),
        sdus: 0,
        octets: 0,
    };
    match args.line {
        true => lines(&mut input, room, &mut sender),
        false => blocks(&mut input, block, &mut sender),
    }
    .with_context(|| name.to_string())?;
    let contract = sender.connection.contract();
    let (sdus, octets) = (sender.sdus, sender.octets);
    let drops = sender.drops.unwrap_or(0);
    if drops > 0 {
        eprintln!("cellgate: {drops} SDUs were dropped, for which there was no room");
    }
    sender.finish()?;
    if args.endpoint.server.json {
        print_json_line(&json!({
            "address": address, "contract": contract, "sdus": sdus, "octets": octets,
            "dropped": drops,
        }))?;
    }
    Ok(Exit::Ok)
}

/// Another for each transfer of this machine.
fn transfer_number() -> u32 {
    let now = cellgate_host::clock::MonotonicClock.now();
    (now.ns() as u32).rotate_left(16) ^ std::process::id()
}

enum Input {
    /// Its octets are read into the transmit buffer until there are no more: its size may be that
    /// of a moment ago, or 0 as in /proc.
    File(File),
    /// What comes, when it comes.
    Stream(Box<dyn BufRead>),
}

impl Input {
    fn open(path: &Path) -> io::Result<Self> {
        if path.as_os_str() == "-" {
            return Ok(Self::Stream(Box::new(io::stdin().lock())));
        }
        let file = File::open(path)?;
        Ok(match file.metadata()?.is_file() {
            true => Self::File(file),
            false => Self::Stream(Box::new(BufReader::new(file))),
        })
    }

    fn lines(&mut self) -> Box<dyn BufRead + '_> {
        match self {
            Self::File(file) => Box::new(BufReader::new(file)),
            Self::Stream(stream) => Box::new(stream),
        }
    }
}

struct Sender {
    connection: Connection,
    growth: Option<Growth>,
    framer: Option<Framer>,
    /// Of a stream: SDUs that found no room.
    drops: Option<u64>,
    /// Sent so far, and their payload.
    sdus: u64,
    octets: u64,
}

impl Sender {
    /// Sends an SDU of the octets that `fill` writes into the transmit buffer, at most `len`, and
    /// says how many there were. None is sent of none.
    fn send(
        &mut self,
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> io::Result<usize>,
    ) -> anyhow::Result<usize> {
        if let Some(growth) = &mut self.growth {
            growth.look(&self.connection)?;
        }
        let header = if self.framer.is_some() { HEADER } else { 0 };
        let room = match self.drops {
            None => self.connection.reserve(header + len),
            Some(_) => self.connection.try_reserve(header + len),
        };
        let mut space = match (room, &mut self.drops) {
            (Err(Error::WouldBlock(_)), Some(drops)) => {
                // It is read all the same: the source goes on.
                let filled = fill(&mut vec![0; len])?;
                *drops += u64::from(filled > 0);
                return Ok(filled);
            }
            (room, _) => room?,
        };
        let filled = fill(&mut space[header..])?;
        if filled == 0 {
            space.truncate(0);
            return Ok(0);
        }
        space.truncate(header + filled);
        if let Some(framer) = &mut self.framer {
            ensure!(
                framer.frame(&mut space),
                "more SDUs than a transfer can have"
            );
        }
        space.submit()?;
        self.sdus += 1;
        self.octets += filled as u64;
        Ok(filled)
    }

    /// Sends a copy.
    fn copy(&mut self, octets: &[u8]) -> anyhow::Result<()> {
        self.send(octets.len(), |space| {
            space.copy_from_slice(octets);
            Ok(octets.len())
        })?;
        Ok(())
    }

    fn finish(self) -> anyhow::Result<()> {
        if let Some(framer) = self.framer {
            let end = framer.end();
            self.connection.send(&end)?;
            for _ in 1..ENDS {
                sleep(PAUSE);
                self.connection.send(&end)?;
            }
        }
        let closed = self.connection.close(LINGER);
        closed.context("what was sent has not left")?;
        Ok(())
    }
}

fn blocks(input: &mut Input, block: usize, sender: &mut Sender) -> anyhow::Result<()> {
    match input {
        Input::File(file) => while sender.send(block, |space| read_all(file, space))? == block {},
        Input::Stream(stream) => {
            let mut octets = Vec::with_capacity(block);
            loop {
                octets.clear();
                let read = stream.take(block as u64).read_to_end(&mut octets)?;
                if read == 0 {
                    break;
                }
                sender.copy(&octets)?;
            }
        }
    }
    Ok(())
}

/// Fills `space` as far as there are octets.
fn read_all(file: &mut File, space: &mut [u8]) -> io::Result<usize> {
    let mut read = 0;
    while read < space.len() {
        match file.read(&mut space[read..]) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}

fn lines(input: &mut Input, room: usize, sender: &mut Sender) -> anyhow::Result<()> {
    let mut input = input.lines();
    let mut line = Vec::with_capacity(room);
    for number in 1_u64.. {
        line.clear();
        // One octet more than fits tells of a line that is too long.
        let most = room as u64 + 1;
        let read = (&mut input).take(most).read_until(b'\n', &mut line)?;
        if read == 0 {
            break;
        }
        if read > room {
            bail!(
                "line {number} does not fit: an SDU has room for {room} octets; \
                 give more by max_sdu=, or send blocks"
            );
        }
        sender.copy(&line)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_to_its_end_whatever_its_size_said() {
        let path = std::env::temp_dir().join(format!("cellgate-send-{}", std::process::id()));
        std::fs::write(&path, [7; 10]).unwrap();
        let Input::File(mut file) = Input::open(&path).unwrap() else {
            panic!("a file is a file");
        };
        std::fs::write(&path, [7; 25]).unwrap();
        let mut space = [0; 16];
        let read = [(); 3].map(|()| read_all(&mut file, &mut space).unwrap());
        std::fs::remove_file(&path).unwrap();
        assert_eq!(read, [16, 9, 0]);
    }
}
