use std::io;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{Builder, JoinHandle};

use rustix::process::{Pid, Resource, Rlimit, getrlimit, setrlimit};

use super::start::serve;
use super::{AdapterError, AdapterOptions};
use crate::client::{ClientError, Control};
use crate::control::{ControlError, MESSAGE_MAX, Received, Reply, pair, receive, send, take_stdin};
use crate::sys::{begin_session, cpu_ns_of, die_with_parent, name_thread};
use serde::{Deserialize, Serialize};

/// The first message to an adapter's process.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Start {
    options: AdapterOptions,
    parent: u32,
}

/// An adapter in a process of its own.
#[derive(Debug)]
pub struct AdapterProcess {
    child: Child,
}

impl AdapterProcess {
    /// Starts `program`, which must call [`run_as_child`] (a hidden subcommand of the present
    /// executable, say), and says hello. The control connection is the process's standard input.
    ///
    /// With [`AdapterOptions::die_with_parent`] the process ends with the calling *thread*.
    ///
    /// # Errors
    /// The program cannot be started, or the adapter was refused.
    pub fn spawn(
        program: Command,
        options: &AdapterOptions,
    ) -> Result<(Self, Control), ClientError> {
        let (adapter, socket) = Self::start(program, options)?;
        let control = Control::new(socket)?;
        Ok((adapter, control))
    }

    /// Starts `program` as [`AdapterProcess::spawn`] does, but does not wait for it: the first
    /// reply over the control connection may tell why it did not start.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn start(
        mut program: Command,
        options: &AdapterOptions,
    ) -> Result<(Self, OwnedFd), ClientError> {
        let (mine, theirs) = pair()?;
        let child = program.stdin(Stdio::from(theirs)).spawn()?;
        // The command keeps its copy of the other end open until it is dropped: without this, the
        // end of the process could not be seen.
        drop(program);
        let start = Start {
            options: options.clone(),
            parent: std::process::id(),
        };
        send(&mine, &serde_json::to_vec(&start)?, &[], true)?;
        Ok((Self { child }, mine))
    }

    /// Lets it live on when this process ends.
    pub fn leave(self) {
        std::mem::forget(self);
    }

    /// Its process identifier.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// CPU time it has used, all threads, in nanoseconds.
    ///
    /// # Errors
    /// The process has ended and was waited for.
    pub fn cpu_ns(&self) -> io::Result<u64> {
        let pid = Pid::from_raw(self.child.id() as i32);
        cpu_ns_of(pid.ok_or(io::ErrorKind::NotFound)?)
    }

    /// Waits for its end, after [`Control::shutdown`] or when all control connections are closed.
    ///
    /// # Errors
    /// The process cannot be waited for.
    pub fn wait(mut self) -> io::Result<ExitStatus> {
        self.child.wait()
    }

    /// Kills it.
    ///
    /// # Errors
    /// The process cannot be killed or waited for.
    pub fn kill(mut self) -> io::Result<ExitStatus> {
        self.child.kill()?;
        self.child.wait()
    }
}

impl Drop for AdapterProcess {
    /// A handle that is dropped takes its process with it.
    fn drop(&mut self) {
        // Both fail only if the process has ended and was waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The whole life of an adapter's process that [`AdapterProcess::spawn`] started.
///
/// # Errors
/// It was not started so, or the adapter did not start; its starter is told too.
pub fn run_as_child() -> Result<(), AdapterError> {
    name_thread("cg-adapter");
    let socket = take_stdin()?;
    let mut buffer = vec![0; MESSAGE_MAX];
    let received = receive(&socket, &mut buffer, true).map_err(io::Error::from)?;
    let Received::Message(len, _) = received else {
        return Err(AdapterError::Options("it was closed".to_owned()));
    };
    let start: Start = serde_json::from_slice(&buffer[..len])
        .map_err(|error| AdapterError::Options(error.to_string()))?;
    if start.options.die_with_parent {
        die_with_parent(start.parent).map_err(io::Error::from)?;
    }
    if start.options.scheduling.own_session {
        begin_session();
    }
    allow_descriptors();
    let starter = socket.try_clone()?;
    serve(start.options, socket).inspect_err(|error| {
        let result = Err(match error {
            AdapterError::Refused(refusal) => ControlError::Refused(*refusal),
            other => ControlError::Kernel(other.to_string()),
        });
        if let Ok(octets) = serde_json::to_vec(&Reply { id: 0, result }) {
            // A starter that is gone need not know.
            let _ = send(&starter, &octets, &[], false);
        }
    })
}

/// Allows this process as many descriptors as it may have: each VC takes two, and the usual limit
/// of 1,024 is for programs that use `select`.
pub(crate) fn allow_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let most = Rlimit {
        current: limit.maximum,
        ..limit
    };
    // With fewer, `Open` is refused when they are used up.
    let _ = setrlimit(Resource::Nofile, most);
}

/// An adapter in two threads of this process, for tests.
#[derive(Debug)]
pub struct AdapterThread {
    service: Option<JoinHandle<Result<(), AdapterError>>>,
}

impl AdapterThread {
    /// Starts the threads and says hello.
    ///
    /// # Errors
    /// A thread cannot be started, or the adapter was refused.
    pub fn spawn(options: AdapterOptions) -> Result<(Self, Control), ClientError> {
        let (mine, theirs) = pair()?;
        let service = Builder::new()
            .name("service".to_owned())
            .spawn(move || serve(options, theirs))?;
        let service = Some(service);
        Control::new(mine).map(|control| (Self { service }, control))
    }

    /// Waits for its end, after [`Control::shutdown`] or when all control connections are closed.
    ///
    /// # Errors
    /// What it ended with.
    pub fn join(mut self) -> Result<(), AdapterError> {
        match self.service.take().map(JoinHandle::join) {
            Some(Ok(ended)) => ended,
            _ => Err(AdapterError::Firmware),
        }
    }
}
