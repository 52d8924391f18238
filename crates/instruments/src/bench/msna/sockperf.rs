//! sockperf's ping-pong over this machine's loopback (Debian: `sockperf`), a peer where it is
//! installed.

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};

/// A server of sockperf's, and how its client is called.
pub(super) struct Sockperf {
    pub(super) name: &'static str,
    port: String,
    protocol: &'static [&'static str],
    server: Child,
}

impl Sockperf {
    /// Over UDP and TCP; none where it is not installed.
    pub(super) fn both() -> anyhow::Result<Vec<Self>> {
        let kinds: [(&str, &[&str]); 2] = [("sockperf UDP", &[]), ("sockperf TCP", &["--tcp"])];
        let mut all = Vec::new();
        for (name, protocol) in kinds {
            let port = UdpSocket::bind("127.0.0.1:0")?
                .local_addr()?
                .port()
                .to_string();
            let server = Command::new("sockperf")
                .args(["server", "-i", "127.0.0.1", "-p", &port])
                .args(protocol)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn();
            let server = match server {
                Ok(server) => server,
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
                Err(error) => return Err(error).context("sockperf"),
            };
            all.push(Self {
                name,
                port,
                protocol,
                server,
            });
        }
        // Its servers do not tell when they listen.
        std::thread::sleep(Duration::from_millis(500));
        Ok(all)
    }

    /// Microseconds there and back of messages of so many octets, over a second.
    pub(super) fn round_trip_us(&mut self, octets: usize) -> anyhow::Result<f64> {
        let octets = octets.to_string();
        let told = Command::new("sockperf")
            .args(["ping-pong", "-i", "127.0.0.1", "-p", &self.port])
            .args(["-m", &octets, "-t", "1"])
            .args(self.protocol)
            .output()
            .context("sockperf")?;
        let text = String::from_utf8_lossy(&told.stdout).into_owned();
        ensure!(told.status.success(), "sockperf: {text}");
        Ok(2.0 * latency(&text).with_context(|| format!("sockperf says no latency: {text}"))?)
    }
}

/// Half a round trip, as sockperf's summary has it.
fn latency(text: &str) -> Option<f64> {
    let (_, after) = text.split_once("Latency is ")?;
    after.split_whitespace().next()?.parse().ok()
}

impl Drop for Sockperf {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::latency;

    #[test]
    fn a_summary_has_its_latency() {
        let text = "sockperf: ====> avg-latency=7.1\nsockperf: Summary: Latency is 7.125 usec\n";
        assert_eq!(latency(text), Some(7.125));
        assert_eq!(latency("sockperf: ERROR"), None);
    }
}
