use core::net::Ipv4Addr;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};

use cellgate::{Connection, Interest, Notification, Refused, Time, TrafficContract};
use cellgate_core::upper::msna::{Body, Connect, Message, Refusal, SIGNALLING_VCI};

use crate::call::mirrored;
use crate::cells::{Cells, SDU_LEN};
use crate::config::Shape;
use crate::{Access, Error, NodeConfig, now};

/// The part that a relay hands on at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// A cell as it comes: a block is late by one.
    Cell,
    /// A block when it is whole.
    Block,
}

/// A bridge between two lines, as the paper's (section 5): hosts on either call those on the other.
///
/// Messages pass as they are. A call that passes opens a VC on each line, by its contract, on the
/// circuit that it names: both daemons admit it, or the relay refuses in the name of the host that
/// is called.
#[derive(Debug)]
pub struct Relay {
    by: By,
    lines: [Line; 2],
    ways: BTreeMap<u16, Way>,
    /// Circuits of calls that have no answer yet, by caller, and when nobody waits for one.
    calls: BTreeMap<(Ipv4Addr, u32), (u16, Time)>,
    /// Incarnations of the hosts that were heard.
    hosts: BTreeMap<Ipv4Addr, u64>,
    counts: RelayCounts,
    block: Vec<u8>,
}

/// Deeds of a relay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RelayCounts {
    /// Cells, or blocks, that were handed on.
    pub relayed: u64,
    /// Messages that were handed on.
    pub messages: u64,
    /// Blocks of circuit 32 that are no message, or of more hosts than are known.
    pub no_message: u64,
    /// Calls that it has refused.
    pub refused: u64,
}

/// Hosts that are known.
const HOSTS_MAX: usize = 256;
/// A call that has no answer by then has none.
const ANSWER_NS: u64 = 5_000_000_000;
/// Cells or blocks of one circuit that are handed on before others are looked at.
const IN_A_ROW: usize = 512;

#[derive(Debug)]
struct Line {
    config: NodeConfig,
    signalling: Cells,
}

/// The two ends of a circuit.
#[derive(Debug)]
struct Way {
    hosts: [Ipv4Addr; 2],
    ends: Ends,
}

#[derive(Debug)]
enum Ends {
    Cells(Box<[Connection; 2]>),
    Blocks(Box<[Cells; 2]>),
}

impl Relay {
    /// Between these two interfaces, whose hosts have nodes of [`Access::Cells`].
    ///
    /// # Errors
    /// There is no daemon, or circuit 32 of either is not to be had.
    pub fn open(lines: [NodeConfig; 2], by: By) -> Result<Self, Error> {
        let [one, other] = lines.map(|config| -> Result<Line, Error> {
            let contract = Access::Cells.fit("ubr")?;
            let shape = Shape::blocks(Notification::LastCell);
            let signalling = config.connection(SIGNALLING_VCI, &contract, shape)?;
            let signalling = Cells::new(signalling, SIGNALLING_VCI);
            Ok(Line { config, signalling })
        });
        Ok(Self {
            by,
            lines: [one?, other?],
            ways: BTreeMap::new(),
            calls: BTreeMap::new(),
            hosts: BTreeMap::new(),
            counts: RelayCounts::default(),
            block: Vec::new(),
        })
    }

    /// What it has done so far.
    pub const fn counts(&self) -> RelayCounts {
        self.counts
    }

    /// Circuits that are open.
    pub fn circuits(&self) -> usize {
        self.ways.len()
    }

    /// Hands on what has come; whether there was anything.
    ///
    /// # Errors
    /// A connection of circuit 32 has ended.
    pub fn turn(&mut self) -> Result<bool, Error> {
        let mut any = false;
        for from in [0, 1] {
            while self.lines[from]
                .signalling
                .try_recv(now(), &mut self.block)?
            {
                any = true;
                self.pass(from)?;
            }
        }
        let mut ended = Vec::new();
        for (vci, way) in &mut self.ways {
            match way.ends.relay(&mut self.block) {
                Ok(relayed) => {
                    any |= relayed > 0;
                    self.counts.relayed += relayed;
                }
                Err(_) => ended.push(*vci),
            }
        }
        ended.into_iter().for_each(|vci| self.end(vci));
        let time = now();
        let calls = self.calls.values();
        let late = calls.filter(|(_, until)| *until <= time);
        let late: Vec<u16> = late.map(|(vci, _)| *vci).collect();
        late.into_iter().for_each(|vci| self.end(vci));
        Ok(any)
    }

    /// Ends a circuit.
    fn end(&mut self, vci: u16) {
        self.ways.remove(&vci);
        self.calls.retain(|_, (other, _)| *other != vci);
    }

    /// As [`Connection::arm`], of all that it hands on.
    ///
    /// # Errors
    /// As [`Relay::turn`].
    pub fn arm(&mut self) -> Result<bool, Error> {
        let mut armed = true;
        for line in &self.lines {
            armed &= line.signalling.connection.arm(Interest::RECEIVE)?;
        }
        for way in self.ways.values() {
            for connection in way.ends.connections() {
                // One that has ended is heard of when it is read.
                armed &= connection.arm(Interest::RECEIVE).unwrap_or(false);
            }
        }
        Ok(armed)
    }

    /// Readable when there may be something to hand on, after [`Relay::arm`].
    pub fn fds(&self) -> Vec<BorrowedFd<'_>> {
        let lines = self
            .lines
            .iter()
            .map(|line| line.signalling.connection.as_fd());
        let ways = self.ways.values().flat_map(|way| way.ends.connections());
        lines.chain(ways.map(AsFd::as_fd)).collect()
    }

    /// Hands a message on that has come from a line.
    fn pass(&mut self, from: usize) -> Result<(), Error> {
        let known = Message::parse(&self.block).ok().filter(|message| {
            self.hosts.contains_key(&message.from) || self.hosts.len() < HOSTS_MAX
        });
        let Some(message) = known else {
            self.counts.no_message += 1;
            return Ok(());
        };
        let before = self.hosts.insert(message.from, message.incarnation);
        if before.is_some_and(|before| before < message.incarnation) {
            self.ways
                .retain(|_, way| !way.hosts.contains(&message.from));
        }
        match &message.body {
            Body::Connect(connect) => {
                if let Err((reason, offer)) = self.open_way(from, &message, connect) {
                    return self.refuse(from, &message, reason, offer);
                }
                let call = (message.from, message.call);
                let until = now().plus_ns(ANSWER_NS);
                self.calls.entry(call).or_insert((connect.vci, until));
            }
            Body::Accept { .. } => drop(self.calls.remove(&(message.to, message.call))),
            Body::Refuse { .. } => {
                let call = (message.to, message.call);
                if let Some((vci, _)) = self.calls.get(&call).copied() {
                    self.end(vci);
                }
            }
            Body::Release { vci, .. } => self.end(*vci),
            Body::Datagram { .. } => {}
        }
        self.counts.messages += 1;
        self.lines[1 - from].signalling.send(&self.block)
    }

    /// Opens the circuit of a call on both lines, unless it is open for the same.
    fn open_way(
        &mut self,
        from: usize,
        message: &Message,
        connect: &Connect,
    ) -> Result<(), (Refusal, String)> {
        let hosts = [message.from, message.to];
        if let Some(way) = self.ways.get(&connect.vci) {
            let is_same = way.hosts == hosts;
            let is_calling = self.calls.contains_key(&(message.from, message.call));
            return match is_same && is_calling {
                true => Ok(()),
                false => Err((Refusal::Busy, String::new())),
            };
        }
        let bad = (Refusal::BadContract, String::new());
        if connect.vci <= SIGNALLING_VCI {
            return Err(bad);
        }
        let contract = Access::Cells.fit(&connect.contract).map_err(|_| bad)?;
        let caller = self.opens(from, connect.vci, &mirrored(&contract), true)?;
        let called = self.opens(1 - from, connect.vci, &contract, false)?;
        let ends = match self.by {
            By::Cell => Ends::Cells(Box::new([caller, called])),
            By::Block => {
                let ends = [caller, called].map(|end| Cells::new(end, connect.vci));
                Ends::Blocks(Box::new(ends))
            }
        };
        self.ways.insert(connect.vci, Way { hosts, ends });
        Ok(())
    }

    /// One end of a circuit, or the reason and the offer of a refusal.
    fn opens(
        &self,
        line: usize,
        vci: u16,
        contract: &TrafficContract,
        is_mirrored: bool,
    ) -> Result<Connection, (Refusal, String)> {
        let shape = match self.by {
            By::Cell => Shape::cells(),
            By::Block => Shape::blocks(Notification::LastCell),
        };
        let opened = self.lines[line].config.connection(vci, contract, shape);
        opened.map_err(|error| match error {
            Error::Atm(cellgate::Error::Refused(Refused::Admission(shortage))) => {
                let offer: Option<TrafficContract> =
                    shortage.offer.and_then(|offer| offer.parse().ok());
                let seen = |offer| if is_mirrored { mirrored(&offer) } else { offer };
                let offer = offer.map(|offer| seen(offer).to_string());
                (Refusal::NotAdmitted, offer.unwrap_or_default())
            }
            _ => (Refusal::Busy, String::new()),
        })
    }

    /// Refuses a call in the name of the host that is called.
    fn refuse(
        &mut self,
        from: usize,
        message: &Message,
        reason: Refusal,
        offer: String,
    ) -> Result<(), Error> {
        self.counts.refused += 1;
        let refusal = Message {
            call: message.call,
            // Of a host that was not heard yet, less than it will have.
            incarnation: self.hosts.get(&message.to).copied().unwrap_or(0),
            from: message.to,
            to: message.from,
            body: Body::Refuse {
                caller: message.incarnation,
                reason,
                offer,
            },
        };
        self.lines[from].signalling.send(&refusal.emit())
    }
}

impl Ends {
    fn connections(&self) -> [&Connection; 2] {
        match self {
            Self::Cells(ends) => ends.each_ref(),
            Self::Blocks(ends) => ends.each_ref().map(|end| &end.connection),
        }
    }

    /// Hands on what has come at either end; how much.
    fn relay(&mut self, block: &mut Vec<u8>) -> Result<u64, Error> {
        let mut relayed = 0;
        for (from, to) in [(0, 1), (1, 0)] {
            for _ in 0..IN_A_ROW {
                let came = match self {
                    Self::Cells(ends) => cell(&ends[from], &ends[to])?,
                    Self::Blocks(ends) => {
                        let came = ends[from].try_recv(now(), block)?;
                        if came {
                            ends[to].send(block)?;
                        }
                        came
                    }
                };
                if !came {
                    break;
                }
                relayed += 1;
            }
        }
        Ok(relayed)
    }
}

/// Hands a cell on; false: none is there, or there is no room yet.
fn cell(from: &Connection, to: &Connection) -> Result<bool, Error> {
    let mut space = match to.try_reserve(SDU_LEN) {
        Ok(space) => space,
        Err(error) if error.is_would_block() => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    let pdu = match from.try_next_pdu() {
        Ok(pdu) => pdu,
        Err(error) if error.is_would_block() => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    space.copy_from_slice(&pdu);
    space.submit()?;
    Ok(true)
}
