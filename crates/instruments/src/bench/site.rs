//! Two hosts of one machine, and a line between them: a daemon with an interface for each, and a
//! network namespace for each, in which a device may lie over the same line.
//!
//! ```text
//!   west: put, or cell0 -- a.0.50 --- rate, delay, bit errors --- b.0.50 -- serve-files, or cell0
//! ```

use std::fs::{self, File};
use std::io;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Context, anyhow, bail};
use cellgate_host::sys::enter_network_namespace;

use crate::live::actor::this_program;
use crate::live::daemon::Daemon;
use crate::live::process::Process;

/// The largest packets of the devices, in octets: those of Ethernet, and of RFC 2225.
pub(super) const MTUS: [u32; 2] = [1_500, 9_180];

/// That of the device of the host itself.
pub(super) const LOOPBACK: u32 = 65_536;

/// An end of the line: its interface, and its network namespace.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    West,
    East,
}

impl End {
    const BOTH: [Self; 2] = [Self::West, Self::East];

    const fn interface(self) -> &'static str {
        match self {
            Self::West => "a",
            Self::East => "b",
        }
    }

    fn namespace(self) -> String {
        format!("cg-bench-{}-{}", self.interface(), std::process::id())
    }

    /// The address of its device of this MTU.
    pub(super) fn address(self, mtu: u32) -> String {
        if mtu == LOOPBACK {
            return "127.0.0.1".to_owned();
        }
        format!("10.166.{}.{}", mtu / 100, self as u8 + 1)
    }

    /// The connection of its terminal.
    pub(super) fn vc(self) -> String {
        format!("{}.0.50", self.interface())
    }
}

/// Both hosts. They are gone when this is dropped.
pub(super) struct Site {
    daemon: Daemon,
    /// Of terminals and devices.
    contract: String,
    /// Where files come from and go to.
    directory: PathBuf,
}

impl Site {
    /// Hosts on a line whose ends have these `words` in a daemon's configuration. Connections over
    /// it are of best effort, with a peak rate or none; files lie below `directory`.
    pub(super) fn new(words: &str, pcr: Option<u32>, directory: &Path) -> anyhow::Result<Self> {
        let interface = |name, peer| {
            format!("[[interface]]\nname = \"{name}\"\nlink.memory.peer = \"{peer}\"\n{words}\n")
        };
        let interfaces = interface("a", "b") + &interface("b", "a");
        let config = format!("[adapter]\nidle = \"adaptive\"\n{interfaces}");
        let name = format!("cellgate-bench-{}", std::process::id());
        let pcr = pcr.map_or(String::new(), |pcr| format!(",pcr={pcr}"));
        let site = Self {
            daemon: Daemon::start(&config, io::sink())?,
            contract: format!("ubr,aal5:max_sdu=9188{pcr}"),
            directory: directory.join(name),
        };
        for folder in ["from", "to"] {
            fs::create_dir_all(site.directory.join(folder))?;
        }
        for end in End::BOTH {
            let namespace = end.namespace();
            ip(&["netns", "add", &namespace])?;
            ip(&["-n", &namespace, "link", "set", "lo", "up"])?;
        }
        Ok(site)
    }

    /// A device of this MTU at each end, over which TCP has this congestion control, until it is
    /// dropped: best effort that is open has a share of the line, whether or not it sends.
    pub(super) fn devices(&self, mtu: u32, by: &str) -> anyhow::Result<Devices<'_>> {
        let devices = Devices(self);
        for end in End::BOTH {
            let (namespace, address) = (end.namespace(), end.address(mtu));
            let network = format!("{address}/24");
            let mut add = self.inside(end, &std::env::current_exe()?);
            add.args(["tun", "add", "cell0", "vc", &end.vc()])
                .args(["encap", "ipoa-vcmux", "mtu", &mtu.to_string()])
                .args(["address", &network])
                .args(["contract", &self.contract, "--socket"])
                .arg(self.daemon.socket());
            finish(&mut add).context("a device")?;
            let to = format!("10.166.{}.0/24", mtu / 100);
            let route = ["-n", &namespace, "route", "change", &to, "dev", "cell0"];
            ip(&[&route[..], &["src", &address, "congctl", by]].concat())?;
        }
        Ok(devices)
    }

    /// A program at an end of the devices.
    pub(super) fn inside(&self, end: End, program: &Path) -> Command {
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", &end.namespace()])
            .arg(program)
            .current_dir(&self.directory);
        command
    }

    /// This program with a connection at an end.
    pub(super) fn terminal(&self, end: End, words: &[&str]) -> anyhow::Result<Command> {
        let mut command = this_program()?;
        command
            .args(words)
            .args(["--vc", &end.vc(), "--contract", &self.contract])
            .arg("--socket")
            .arg(self.daemon.socket())
            .current_dir(&self.directory);
        Ok(command)
    }

    /// A socket of UDP at an end.
    pub(super) fn socket(&self, end: End, address: &str) -> anyhow::Result<UdpSocket> {
        let address = address.to_owned();
        within(end.namespace(), move || Ok(UdpSocket::bind(address)?))
    }

    /// Where what is moved lies, what is moved ends, or anything else.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Puts what was moved aside: a file system may be slow to make files where some were removed
    /// a moment ago (ext4 does not take their inodes for 5 s, and looks for others).
    pub(super) fn clear(&self) -> anyhow::Result<()> {
        let to = self.path("to");
        let mut aside = (0..).map(|number| self.path(&format!("was-{number}")));
        let free = aside.find(|path| !path.exists());
        fs::rename(&to, free.context("no number is left")?)?;
        Ok(fs::create_dir(&to)?)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        for end in End::BOTH {
            let _ = ip(&["netns", "delete", &end.namespace()]);
        }
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// The devices of a site.
pub(super) struct Devices<'a>(&'a Site);

impl Drop for Devices<'_> {
    fn drop(&mut self) {
        for end in End::BOTH {
            let Ok(mut del) = this_program() else { return };
            del.args(["tun", "del", &end.vc(), "--socket"]);
            let _ = finish(del.arg(self.0.daemon.socket()));
        }
    }
}

/// Starts a program; what it says goes to a file.
pub(super) fn start(command: &mut Command, said: &Path) -> anyhow::Result<Process> {
    let silent = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(said)?);
    let shown = silent.get_program().display().to_string();
    Ok(Process(silent.spawn().context(shown)?))
}

/// Runs a program to its end.
pub(super) fn finish(command: &mut Command) -> anyhow::Result<()> {
    let shown = format!("{command:?}");
    let output = command.stdin(Stdio::null()).output().context(shown)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().last().unwrap_or_default();
        bail!("{command:?}: {}: {last}", output.status);
    }
    Ok(())
}

/// Runs `ip`.
pub(super) fn ip(words: &[&str]) -> anyhow::Result<()> {
    finish(Command::new("ip").args(words))
}

/// Runs `open` in a network namespace.
pub(super) fn within<T: Send + 'static>(
    namespace: String,
    open: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
) -> anyhow::Result<T> {
    let opened = thread::spawn(move || {
        enter_network_namespace(&namespace)?;
        open()
    });
    opened.join().map_err(|_| anyhow!("a thread panicked"))?
}
