//! What the demo's processes say to each other: JSON, a line each, over a socket.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail};
use cellgate_host::sys::{
    Scheduling, SchedulingRequest, begin_session, die_with_parent, name_thread, schedule,
};
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

/// A process of the demo, as its starter has it. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Actor {
    name: &'static str,
    child: Child,
    mouth: Mouth,
    ear: Ear,
}

impl Actor {
    /// Starts this program again in the demo's hidden role `name`. Its standard input is the
    /// control connection to the adapter, its standard output this end's channel.
    pub(crate) fn start(
        name: &'static str,
        control: OwnedFd,
        begin: &impl Serialize,
    ) -> anyhow::Result<Self> {
        let mut command = program(name)?;
        command.stdin(Stdio::from(control));
        Self::of(name, command, begin)
    }

    /// Starts `command`, another process of this program. Its standard output is this end's
    /// channel.
    pub(crate) fn of(
        name: &'static str,
        mut command: Command,
        begin: &impl Serialize,
    ) -> anyhow::Result<Self> {
        let (mine, theirs) = UnixStream::pair()?;
        let child = command
            .stdout(Stdio::from(OwnedFd::from(theirs)))
            .spawn()
            .with_context(|| format!("cannot start the {name}"))?;
        let (mouth, ear) = conversation(mine)?;
        let mut actor = Self {
            name,
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
            .with_context(|| format!("the {}", self.name))
    }

    /// Waits for its answer.
    pub(crate) fn hear<T: DeserializeOwned>(&mut self) -> anyhow::Result<T> {
        match self.ear.hear()? {
            Some(said) => Ok(said),
            None => bail!("the {} has ended ({:?})", self.name, self.child.wait()?),
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

/// This program in the hidden role `name`.
pub(crate) fn program(name: &str) -> anyhow::Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("where is this program?")?);
    command.args(["demo", "--role", name]);
    Ok(command)
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
