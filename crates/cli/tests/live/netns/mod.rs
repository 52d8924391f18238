//! Network namespaces for tests, gone when their value is.
// Each test binary compiles this for itself and uses a part of it.
#![allow(dead_code)]

use std::process::{Command, Output};

/// Runs `ip`.
pub(crate) fn ip(arguments: &[&str]) -> Result<(), String> {
    let run = Command::new("ip").args(arguments).output();
    let Output { status, stderr, .. } = run.map_err(|error| format!("ip: {error}"))?;
    let said = String::from_utf8_lossy(&stderr);
    match status.success() {
        true => Ok(()),
        false => Err(format!("ip {}: {}", arguments.join(" "), said.trim())),
    }
}

/// A network namespace, its loopback device up.
pub(crate) struct Namespace(pub(crate) String);

impl Namespace {
    /// One whose name begins with `cg-NAME`.
    pub(crate) fn make(name: &str) -> Result<Self, String> {
        let namespace = Self(format!("cg-{name}-{}", std::process::id()));
        ip(&["netns", "add", &namespace.0])?;
        ip(&["-n", &namespace.0, "link", "set", "lo", "up"])?;
        Ok(namespace)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = ip(&["netns", "delete", &self.0]);
    }
}

/// Two, joined by a pair of virtual Ethernet devices of MTU 1,500 with these addresses.
pub(crate) fn joined(names: [&str; 2], addresses: [&str; 2]) -> Result<[Namespace; 2], String> {
    let made = [Namespace::make(names[0])?, Namespace::make(names[1])?];
    let [left, right] = made.each_ref().map(|namespace| namespace.0.as_str());
    let pair = ["link", "add", "cell0", "mtu", "1500", "netns", left];
    let peer = ["type", "veth", "peer", "name", "cell0", "netns", right];
    ip(&[&pair[..], &peer[..]].concat())?;
    ip(&["-n", right, "link", "set", "cell0", "mtu", "1500"])?;
    for (name, address) in [left, right].into_iter().zip(addresses) {
        let address = format!("{address}/24");
        ip(&["-n", name, "address", "add", &address, "dev", "cell0"])?;
        ip(&["-n", name, "link", "set", "cell0", "up"])?;
    }
    Ok(made)
}
