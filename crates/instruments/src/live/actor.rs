//! The processes of an instrument, and what they say to each other: JSON, a line each, over a
//! socket.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail};
use cellgate_host::sys::{
    Scheduling, SchedulingRequest, begin_session, die_with_parent, name_thread, schedule,
};
use clap::ValueEnum;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// What is said to the other end.
#[derive(Debug)]
pub(crate) struct Mouth {
    socket: UnixStream,
}

/// What the other end says.
#[derive(Debug)]
pub(crate) struct Ear {
    socket: BufReader<UnixStream>,
}

fn conversation(socket: UnixStream) -> anyhow::Result<(Mouth, Ear)> {
    let mouth = Mouth {
        socket: socket.try_clone()?,
    };
    let socket = BufReader::new(socket);
    Ok((mouth, Ear { socket }))
}

impl Mouth {
    pub(crate) fn say(&mut self, what: &impl Serialize) -> anyhow::Result<()> {
        let mut line = serde_json::to_vec(what)?;
        line.push(b'\n');
        self.socket
            .write_all(&line)
            .context("the other process is gone")
    }
}

impl Ear {
    /// Waits for what the other end says; none at the end of the conversation.
    pub(crate) fn hear<T: DeserializeOwned>(&mut self) -> anyhow::Result<Option<T>> {
        let mut line = String::new();
        if self.socket.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        Ok(Some(serde_json::from_str(&line)?))
    }
}

/// Who a process of an instrument is. The command runs itself again as `cellgate actor ROLE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Role {
    /// The adapter's firmware alone, of whoever starts it.
    Adapter,
    /// Reads what a flood leaves of three connections.
    Host,
    /// Sends cells to a port.
    Sender,
    /// Keeps transmit queues full.
    Feeder,
    /// Counts cells at the end of a line.
    Counter,
    /// Sends on a connection as fast as it may.
    Writer,
    /// Reads a connection and checks every octet.
    Reader,
    /// Counts loops.
    Spinner,
    /// Answers SDUs.
    Partner,
}

impl Role {
    /// As it is called on the command line.
    fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    /// This program in this role.
    pub(crate) fn program(self) -> anyhow::Result<Command> {
        let mut command = this_program()?;
        // Ctrl-C is this process's alone: it ends the others in order.
        command.args(["actor", &self.name()]).process_group(0);
        Ok(command)
    }
}

/// This program, to be run once more.
pub(crate) fn this_program() -> anyhow::Result<Command> {
    let path = std::env::current_exe().context("where is this program?")?;
    Ok(Command::new(path))
}

/// A process of an instrument, as its starter has it. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Actor {
    role: Role,
    child: Child,
    mouth: Mouth,
    ear: Ear,
}

impl Actor {
    /// Starts a process in a role. Its standard output is this end's channel.
    pub(crate) fn start(
        role: Role,
        stdin: impl Into<Stdio>,
        begin: &impl Serialize,
    ) -> anyhow::Result<Self> {
        let (mine, theirs) = UnixStream::pair()?;
        let child = role
            .program()?
            .stdin(stdin)
            .stdout(Stdio::from(OwnedFd::from(theirs)))
            .spawn()
            .with_context(|| format!("cannot start the {}", role.name()))?;
        let (mouth, ear) = conversation(mine)?;
        let mut actor = Self {
            role,
            child,
            mouth,
            ear,
        };
        actor.say(&std::process::id())?;
        actor.say(begin)?;
        Ok(actor)
    }

    /// Tells it something.
    pub(crate) fn say(&mut self, what: &impl Serialize) -> anyhow::Result<()> {
        self.mouth
            .say(what)
            .with_context(|| format!("the {}", self.role.name()))
    }

    /// Waits for its answer.
    pub(crate) fn hear<T: DeserializeOwned>(&mut self) -> anyhow::Result<T> {
        match self.ear.hear()? {
            Some(said) => Ok(said),
            None => {
                let name = self.role.name();
                bail!("the {name} has ended ({:?})", self.child.wait()?)
            }
        }
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        //  Both fail only if it has ended and was waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The other end of [`Actor::start`]: the conversation and what it began with. From here on the
/// process dies with its starter.
pub(crate) fn started<T: DeserializeOwned>() -> anyhow::Result<(Mouth, Ear, T)> {
    let stdout = std::io::stdout().as_fd().try_clone_to_owned()?;
    let (mouth, mut ear) = conversation(UnixStream::from(stdout))?;
    let ended = "the starter has ended";
    let parent = ear.hear()?.context(ended)?;
    die_with_parent(parent)?;
    let begin = ear.hear()?.context(ended)?;
    Ok((mouth, ear, begin))
}

/// Names this process and asks that it may run before those that keep the CPU busy all the time: on
/// a network they would not share one. Without the privilege, a session of its own is still worth a
/// share of its own where the kernel shares out by sessions.
pub(crate) fn prefer(name: &str, nice: i32, adapter: &Scheduling) {
    name_thread(name);
    //  An adapter that gives its CPU away can do so within its session only.
    if !adapter.gives_way() {
        begin_session();
    }
    schedule(&SchedulingRequest {
        pin: false,
        nice: Some(nice),
        ..SchedulingRequest::default()
    });
}
