//! The movers of a file from west to east: our terminals, and the programs that people take.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::ensure;

use super::CONTRACT;
use crate::bench::site::{End, LOOPBACK, MTUS, Site, finish, start};

/// What a server takes to be ready, at most.
const READY: Duration = Duration::from_millis(500);
const PORT: u16 = 8_730;
/// The file of what a server says.
const SAID: &str = "said";
/// Octets of an IPv4 and a UDP header, and of the longest one that uftp puts before its own.
const UFTP_HEADERS: u32 = 20 + 8 + 32;

/// Something that moves files. Those of a device go over TCP or UDP on IP, in packets of its MTU.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mover {
    /// Our terminals, the adapter making the cells, or they themselves.
    Terminals {
        level: &'static str,
    },
    /// Our terminals over TCP or QUIC instead of cells, by a congestion control.
    Over {
        transport: &'static str,
        mtu: u32,
        by: &'static str,
    },
    Rsync {
        mtu: u32,
    },
    Scp {
        mtu: u32,
    },
    /// At a fixed rate.
    Uftp,
    /// A stream, of memory alone, by a congestion control.
    Iperf {
        mtu: u32,
        by: &'static str,
    },
}

/// The words of a server so far.
fn said(site: &Site) -> String {
    let said = fs::read_to_string(site.path(SAID)).unwrap_or_default();
    said.trim().to_owned()
}

impl Mover {
    /// Everybody.
    pub(super) fn all() -> Vec<Self> {
        let [small, large] = MTUS;
        let mut all = vec![
            Self::Terminals { level: "packet" },
            Self::Terminals { level: "cell" },
            Self::Uftp,
        ];
        if cfg!(feature = "quic") {
            all.extend(["cubic", "bbr"].map(|by| Self::Over {
                transport: "quic",
                mtu: small,
                by,
            }));
        }
        for mtu in [small, large] {
            all.extend([
                Self::Over {
                    transport: "tcp",
                    mtu,
                    by: "cubic",
                },
                Self::Iperf { mtu, by: "cubic" },
                Self::Iperf { mtu, by: "bbr" },
                Self::Rsync { mtu },
                Self::Scp { mtu },
            ]);
        }
        all
    }

    pub(super) fn name(self) -> String {
        match self {
            Self::Terminals { level } => format!("put, {level} level"),
            Self::Over { transport, mtu, by } => format!("put --over {transport}, {by}, MTU {mtu}"),
            Self::Rsync { mtu: LOOPBACK } => "rsync, loopback".to_owned(),
            Self::Rsync { mtu } => format!("rsync, MTU {mtu}"),
            Self::Scp { mtu } => format!("scp, MTU {mtu}"),
            Self::Uftp => "uftp, MTU 1500".to_owned(),
            Self::Iperf { mtu, by } => format!("iperf3, {by}, MTU {mtu}"),
        }
    }

    /// The programs that it needs, beside this one.
    pub(super) const fn programs(self) -> &'static [&'static str] {
        match self {
            Self::Terminals { .. } | Self::Over { .. } => &[],
            Self::Rsync { .. } => &["/usr/bin/rsync"],
            Self::Scp { .. } => &["/usr/bin/scp", "/usr/sbin/sshd", "/usr/bin/ssh-keygen"],
            Self::Uftp => &["/usr/bin/uftp", "/usr/bin/uftpd"],
            Self::Iperf { .. } => &["/usr/bin/iperf3"],
        }
    }

    /// Whether it leaves a file.
    pub(super) const fn writes(self) -> bool {
        !matches!(self, Self::Iperf { .. })
    }

    /// Moves `from/NAME`, a file of so many octets or a directory of such, into `to`. What it took,
    /// its server being there.
    pub(super) fn carry(self, site: &Site, name: &str, octets: u64) -> anyhow::Result<Duration> {
        let by = match self {
            Self::Iperf { by, .. } => by,
            _ => "cubic",
        };
        let devices = self.mtu().map(|mtu| site.devices(mtu, by));
        let _devices = devices.transpose()?;
        let mut server = start(&mut self.server(site)?, &site.path(SAID))?;
        sleep(READY);
        let ended = server.0.try_wait()?;
        ensure!(ended.is_none(), "{}", said(site));
        let mut client = self.client(site, name, octets)?;
        let begun = Instant::now();
        finish(&mut client)?;
        Ok(begun.elapsed())
    }

    fn server(self, site: &Site) -> anyhow::Result<Command> {
        let east = |program: &str| site.inside(End::East, Path::new(program));
        let address = |mtu| End::East.address(mtu);
        Ok(match self {
            Self::Terminals { level } => {
                let mut server = site.terminal(End::East, &["serve-files"])?;
                server.args(["to", "--writable", "--level", level]);
                server
            }
            Self::Over { transport, mtu, .. } => {
                let mut server = site.inside(End::East, &std::env::current_exe()?);
                let at = format!("{}:{PORT}", address(mtu));
                server.args(["serve-files", "to", "--writable"]);
                server.args([&format!("--{transport}"), &at]);
                server
            }
            Self::Rsync { mtu } => {
                let to = site.path("to");
                let text = format!(
                    "use chroot = no\nuid = 0\ngid = 0\n[to]\npath = {}\nread only = no\n",
                    to.display()
                );
                fs::write(site.path("rsyncd.conf"), text)?;
                let mut server = east("/usr/bin/rsync");
                server
                    .args(["--daemon", "--no-detach", "--config", "rsyncd.conf"])
                    .args(["--address", &address(mtu), "--port", &PORT.to_string()]);
                server
            }
            Self::Scp { mtu } => {
                let key = site.path("key");
                if !key.exists() {
                    let mut keygen = Command::new("/usr/bin/ssh-keygen");
                    finish(
                        keygen
                            .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                            .arg(&key),
                    )?;
                    fs::create_dir_all("/run/sshd")?;
                }
                let mut server = east("/usr/sbin/sshd");
                let key = key.display();
                server.args(["-D", "-f", "/dev/null", "-h", &key.to_string()]);
                for option in [
                    format!("ListenAddress={}:{PORT}", address(mtu)),
                    format!("AuthorizedKeysFile={key}.pub"),
                    "PermitRootLogin=yes".to_owned(),
                    "StrictModes=no".to_owned(),
                    "PidFile=none".to_owned(),
                    "Subsystem=sftp internal-sftp".to_owned(),
                ] {
                    server.args(["-o", &option]);
                }
                server
            }
            Self::Uftp => {
                let mut server = east("/usr/bin/uftpd");
                server
                    .args(["-d", "-D"])
                    .arg(site.path("to"))
                    .args(["-I", "cell0", "-B", "4194304"]);
                server
            }
            Self::Iperf { mtu, .. } => {
                let mut server = east("/usr/bin/iperf3");
                server.args(["--server", "--bind", &address(mtu)]);
                server
            }
        })
    }

    /// That of its device, if it needs one.
    const fn mtu(self) -> Option<u32> {
        match self {
            Self::Terminals { .. } | Self::Rsync { mtu: LOOPBACK } => None,
            Self::Uftp => Some(MTUS[0]),
            Self::Over { mtu, .. }
            | Self::Rsync { mtu }
            | Self::Scp { mtu }
            | Self::Iperf { mtu, .. } => Some(mtu),
        }
    }

    fn client(self, site: &Site, name: &str, octets: u64) -> anyhow::Result<Command> {
        let end = match self {
            Self::Rsync { mtu: LOOPBACK } => End::East,
            _ => End::West,
        };
        let west = |program: &str| site.inside(end, Path::new(program));
        let address = |mtu| End::East.address(mtu);
        let from = format!("from/{name}");
        Ok(match self {
            Self::Terminals { level } => {
                let mut client = site.terminal(End::West, &["put"])?;
                client.args(["-r", "--level", level, &from]);
                client
            }
            Self::Over { transport, mtu, by } => {
                let mut client = site.inside(End::West, &std::env::current_exe()?);
                let at = format!("{transport}:{}:{PORT}", address(mtu));
                client.args(["put", "-r", "--over", &at, &from]);
                if let Some((_, fingerprint)) = said(site).split_once("fingerprint ") {
                    client.args(["--fingerprint", fingerprint, "--congestion", by]);
                }
                client
            }
            Self::Rsync { mtu } => {
                let mut client = west("/usr/bin/rsync");
                let to = format!("rsync://{}:{PORT}/to/", address(mtu));
                client.args(["-a", "--whole-file", &from, &to]);
                client
            }
            Self::Scp { mtu } => {
                let mut client = west("/usr/bin/scp");
                client.args(["-q", "-r", "-i", "key", "-P", &PORT.to_string()]);
                for option in ["StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null"] {
                    client.args(["-o", option]);
                }
                let to = site.path("to");
                client.arg(&from);
                client.arg(format!("root@{}:{}/", address(mtu), to.display()));
                client
            }
            Self::Uftp => {
                let [mtu, _] = MTUS;
                let block = mtu - UFTP_HEADERS;
                // Kilobits of its blocks, where a packet of the MTU takes whole cells.
                let cells = (mtu + 8).div_ceil(48);
                let rate = CONTRACT / cells * block / 125;
                let mut client = west("/usr/bin/uftp");
                let to = address(mtu);
                let id: std::net::Ipv4Addr = to.parse()?;
                client
                    .args(["-I", "cell0", "-M", &to, "-P", &to, "-B", "4194304"])
                    .args(["-R", &rate.to_string(), "-b", &block.to_string()])
                    .args(["-H", &format!("0x{:08X}", id.to_bits()), &from]);
                client
            }
            Self::Iperf { mtu, .. } => {
                let mut client = west("/usr/bin/iperf3");
                client.args(["--client", &address(mtu), "--bytes", &octets.to_string()]);
                client
            }
        })
    }
}
